# shellcheck shell=bash
# What deploy/kind/up and deploy/minikube/up have in common: options, tools, and what is applied to the cluster once it is there.
# Who sources it sets `description` and defines label_rapl_nodes, for nodes that show energy counters, and load_image IMAGE….

deploy=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
repository=$(dirname "$deploy")
version=$(sed -n 's/^appVersion: //p' "$repository/charts/plimsoll/Chart.yaml")
images=("ghcr.io/plimsoll-dev/plimsoll:$version" "ghcr.io/plimsoll-dev/plimsoll-agent:$version")
# One whose rules Plimsoll knows; those who source this use it.
# shellcheck disable=SC2034
kubernetes=v1.36.1
name=plimsoll
build=""
dry_run=""
context=""
helm=${HELM:-helm}
kubectl=${KUBECTL:-kubectl}

fail() { echo "$0: $*" >&2; exit 1; }

say() { echo "== $*" >&2; }

options() {
	while (( $# )); do
		case $1 in
		--build) build=yes ;;
		--name) [[ -n ${2:-} ]] || fail "--name: which?"; name=$2; shift ;;
		--dry-run) [[ -n ${2:-} ]] || fail "--dry-run: into which folder?"; dry_run=$2; shift ;;
		-h | --help)
			cat <<-HELP
				${description:?}

				  --name NAME        the name of the cluster, $name if not given
				  --build            build the images here, instead of having them pulled
				  --dry-run FOLDER   write what would be applied into the folder, and do nothing else
			HELP
			exit
			;;
		*) fail "$1 is not known; see --help" ;;
		esac
		shift
	done
}

# Tools with where they are found, as in: need kind https://…
need() {
	local missing=()
	while (( $# )); do
		command -v "$1" > /dev/null || missing+=("  $1: $2")
		shift 2
	done
	(( ${#missing[@]} == 0 )) || fail "what is needed is not installed:"$'\n'"$(printf '%s\n' "${missing[@]}")"
}

k() { "$kubectl" --context "$context" "$@"; }

need_common() {
	need "$kubectl" https://kubernetes.io/docs/tasks/tools/ "$helm" https://helm.sh/docs/intro/install/
	[[ -z $build ]] || need docker https://docs.docker.com/engine/install/
}

# The token of the agents: that of the cluster where there is one, so that nothing has to be restarted.
token() {
	local found=""
	[[ -n $dry_run ]] && { echo not-a-token-but-a-dry-run; return; }
	found=$(k --namespace plimsoll-system get secret plimsoll-agent-token --ignore-not-found --output 'go-template={{ .data.token | base64decode }}')
	if [[ -n $found ]]; then echo "$found"; else head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n'; fi
}

# Writes what is applied into a folder, in the order of names.
write_manifests() {
	local secret
	secret=$(token)
	{
		printf 'apiVersion: v1\nkind: Namespace\nmetadata:\n  name: plimsoll-system\n'
		printf '  labels:\n    pod-security.kubernetes.io/enforce: privileged\n---\n'
		cat "$deploy/monitoring/namespace.yaml"
		# Who is asked and who asks.
		for namespace in plimsoll-system monitoring; do
			printf -- '---\napiVersion: v1\nkind: Secret\nmetadata:\n  name: plimsoll-agent-token\n  namespace: %s\nstringData:\n  token: %s\n' "$namespace" "$secret"
		done
	} > "$1/1-namespaces.yaml"
	"$kubectl" kustomize "$deploy/monitoring" > "$1/2-monitoring.yaml"
	# Older ones of Helm take the cluster for an older one, too.
	"$helm" template plimsoll "$repository/charts/plimsoll" --kube-version "$kubernetes" --namespace plimsoll-system \
		--values "$deploy/local-values.yaml" > "$1/3-plimsoll.yaml"
}

build_images() {
	say "building images"
	docker build --tag "${images[0]}" "$repository"
	docker build --tag "${images[1]}" --target agent "$repository"
	load_image "${images[@]}"
}

# Everything, into the cluster of `context`.
install_all() {
	local folder
	folder=$(mktemp -d)
	# shellcheck disable=SC2064
	trap "rm -rf '$folder'" EXIT
	[[ -z $build ]] || build_images
	label_rapl_nodes
	say "applying Prometheus, exporters, Kepler, Plimsoll and its agents"
	write_manifests "$folder"
	k apply --server-side --force-conflicts --filename "$folder"
	say "waiting until all of it is there"
	k --namespace monitoring rollout status deployment/prometheus --timeout 5m
	k --namespace plimsoll-system rollout status deployment/plimsoll --timeout 5m
	k --namespace plimsoll-system rollout status daemonset/plimsoll-agent --timeout 5m
	cat <<-NEXT

		The cluster is ready. Give Plimsoll something to place:

		  kubectl --context $context run hello --image=registry.k8s.io/pause:3.10 --overrides='{"spec": {"schedulerName": "plimsoll"}}'
		  kubectl --context $context get pod hello --output wide

		Figures: kubectl --context $context --namespace monitoring port-forward service/prometheus 9090
	NEXT
}

# With --dry-run, writes and ends.
end_if_dry() {
	[[ -n $dry_run ]] || return 0
	mkdir -p "$dry_run"
	write_manifests "$dry_run"
	say "what would be applied is in $dry_run"
	exit
}
