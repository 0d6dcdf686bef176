# The one command surface. `make` lists what there is.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# Cargo and Go use all cores themselves, and the steps of `test` build on each other.
.NOTPARALLEL:

# Fresh cases: the seed of the first, how many single decisions, how many sequences of how many pods.
SEED ?= 1
COUNT ?= 500
SEQUENCES ?= 20
LENGTH ?= 50
# One family of cases only, as in FAMILY=taints.
FAMILY ?=
# Golden cases, where present.
SAMPLE ?= ../shared/conformance/sample.jsonl.gz
SOAK_CASES ?= 10000
# Faults for schedulers: how long they come, and which.
SOAK_SECONDS ?= 1800
SOAK_SEED ?= 1
# What bench-live measures, as in BENCH_LIVE="SchedulingBasic --rounds 1"; everything if empty.
BENCH_LIVE ?=
FUZZ_SECONDS ?= 600

# The versions are those of the lock file, never newer ones.
CARGO := cargo
PLIMSOLL := $(CARGO) run --locked --quiet --package plimsoll --
GENERATE := bin/conformance generate

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-14s %s\n", $$1, $$2 }'

# A Node.js that web/setup had to fetch comes first.
export PATH := $(CURDIR)/bin/node/bin:$(PATH)
# Without what trains, which takes minutes to build and which none of these need.
LIGHT := $(or $(CARGO_TARGET_DIR),target)/debug/plimsoll
BUILD_LIGHT := $(CARGO) build --locked --package plimsoll --no-default-features

.PHONY: light
light: web
	$(BUILD_LIGHT)

# As in DEMO="--policy models/packing --speed 960".
DEMO ?=

.PHONY: demo
demo: light ## A simulated day under two schedulers side by side, in a browser and here; no cluster needed: DEMO=
	@$(LIGHT) demo $(DEMO)

.PHONY: demo-lab
demo-lab: light lab ## The same on a real control plane, with the default scheduler's twin beside; Ctrl-C ends all: DEMO_SPEED= DEMO_NODES=
	@lab/demo $(LIGHT)

.PHONY: tour
tour: ## Place a workload and show the reasons, then compare policies over time
	@$(PLIMSOLL) tour

# The tests have built the command line already; built alone, with fewer features, the engine would be compiled anew. It has the dashboard in it, which comes first.
.PHONY: test
test: PLIMSOLL := $(or $(CARGO_TARGET_DIR),target)/debug/plimsoll
test: BUILD_PAGE := true
test: web-if-possible lint test-rust test-go sample conformance faithful test-web test-page ## Everything a change must pass: lint, tests, golden and fresh cases

.PHONY: build
build: oracle ## Build the command line and the tools
	$(CARGO) build --locked --package plimsoll

.PHONY: lint
lint: ## Formatting and lints of Rust and Go, and where dependencies come from
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --workspace --all-targets -- --deny warnings
	@unformatted=$$(gofmt -l conformance lab plugin); if [[ -n $$unformatted ]]; then echo "gofmt -w $$unformatted"; exit 1; fi
	cd conformance && go vet ./...
	cd lab && go vet ./...
	cd plugin && go vet ./...
	tools/audit

.PHONY: test-rust
test-rust: ## Tests of the Rust crates
	$(CARGO) test --locked --workspace

# Where the control plane is built, `test` runs these, too; here it is built first, which takes ten minutes.
.PHONY: test-live
test-live: lab ## The live scheduler on the real control plane: rules, faults, tools
	$(CARGO) test --locked --package plimsoll --no-default-features --test live --test soak --test lab

# Apart from `test`: what reads ONNX takes minutes to build, and has all else built once more with other features.
.PHONY: test-onnx
test-onnx: ## Networks that were trained elsewhere: ours, and one that PyTorch exported
	$(CARGO) test --locked --features onnx --package plimsoll-learn --package plimsoll --test onnx
	$(CARGO) test --locked --features onnx --package plimsoll-learn --package plimsoll --lib onnx

.PHONY: test-go
test-go: ## Tests of the Go modules
	cd conformance && go test ./...
	cd plugin && go test ./...

.PHONY: sample
sample: ## The golden cases, where present
	@if [[ -e $(SAMPLE) ]]; then \
		$(PLIMSOLL) conformance $(SAMPLE); \
	else \
		echo "no golden cases at $(SAMPLE): skipped"; \
	fi

.PHONY: conformance
conformance: oracle ## Fresh cases from kube-scheduler itself: SEED= COUNT= SEQUENCES= FAMILY=
	@if (( $(COUNT) > 0 )); then \
		$(GENERATE) -seed $(SEED) -count $(COUNT) $(if $(FAMILY),-family $(FAMILY)) | $(PLIMSOLL) conformance; \
	fi
	@if (( $(SEQUENCES) > 0 )) && [[ -z "$(FAMILY)" ]]; then \
		$(GENERATE) -seed $(SEED) -sequences $(SEQUENCES) -length $(LENGTH) | $(PLIMSOLL) conformance; \
	fi

# Scenarios whose placements are compared one by one, and the file that says what they are.
FAITHFUL_SEEDS ?= 20
FAITHFUL_SCENARIO ?= examples/scenarios/constrained.toml

.PHONY: faithful
faithful: oracle ## Simulated placements are those of kube-scheduler, one by one: FAITHFUL_SEEDS=
	@folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; \
	for seed in $$(seq $(FAITHFUL_SEEDS)); do \
		$(PLIMSOLL) simulate $(FAITHFUL_SCENARIO) --seed "$$seed" --policy default --timeline "$$folder/$$seed.jsonl" > /dev/null; \
	done; \
	bin/replay "$$folder"/*.jsonl

# Go decides itself what is up to date.
.PHONY: oracle
oracle:
	cd conformance && go build -o ../bin/ ./cmd/...

# The real control plane, of the versions that lab/go.mod names. Without cached packages it takes ten minutes or more.
LAB := bin/lab
LAB_KUBERNETES = $(shell awk '$$1 == "k8s.io/kubernetes" && $$2 ~ /^v/ { print $$2 }' lab/go.mod)
LAB_PARTS = $(subst ., ,$(LAB_KUBERNETES:v%=%))
LAB_FLAGS = -s -w \
	-X k8s.io/component-base/version.gitVersion=$(LAB_KUBERNETES) \
	-X k8s.io/component-base/version.gitMajor=$(word 1,$(LAB_PARTS)) \
	-X k8s.io/component-base/version.gitMinor=$(word 2,$(LAB_PARTS))
LAB_PROGRAMS := $(addprefix k8s.io/kubernetes/cmd/,kube-apiserver kube-controller-manager kube-scheduler) sigs.k8s.io/kwok/cmd/kwok

.PHONY: lab
lab: $(LAB)/built ## Build the real control plane that `plimsoll lab` runs; only where lab/go.mod changed

$(LAB)/built: lab/go.mod lab/go.sum
	mkdir -p $(LAB)
	cd lab && go build -trimpath -ldflags "$(LAB_FLAGS)" -o ../$(LAB)/ $(LAB_PROGRAMS)
	cd lab && go build -trimpath -ldflags "-s -w" -o ../$(LAB)/etcd go.etcd.io/etcd/server/v3
	touch $@

# Prometheus and a node exporter as Debian has them, unpacked where nobody else meets them.
TELEMETRY := bin/telemetry
TELEMETRY_PACKAGES := prometheus=2.42.0+ds-5+deb12u1 prometheus-node-exporter=1.5.0-1+b6

.PHONY: telemetry
telemetry: $(TELEMETRY)/prometheus ## Fetch the Prometheus and the node exporter that tests run

$(TELEMETRY)/prometheus:
	@folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; cd "$$folder"; \
	apt-get download $(TELEMETRY_PACKAGES); \
	for package in *.deb; do dpkg -x "$$package" .; done; \
	mkdir -p $(CURDIR)/$(TELEMETRY); cp usr/bin/prometheus usr/bin/prometheus-node-exporter $(CURDIR)/$(TELEMETRY)

# The dashboard, which is part of the program that is built after it.
.PHONY: web
web: web/dist/index.html ## Build the dashboard into web/dist

WEB_PACKAGES := web/node_modules/.package-lock.json

$(WEB_PACKAGES): web/package-lock.json
	web/setup node
	cd web && npm ci --no-audit --no-fund
	touch $@

.PHONY: web-if-possible
web-if-possible:
	@if web/setup node; then $(MAKE) web; else $(NO_BROWSER); fi

web/dist/index.html: $(WEB_PACKAGES) $(shell find web/src web/public web/index.html web/vite.config.ts)
	cd web && npm run build

# Where there is no Chromium and none can be installed, these say so and pass.
NO_BROWSER = echo "skipped: the dashboard's tests need Node.js and Chromium, which are not here and could not be installed"

.PHONY: test-web
test-web: ## The dashboard in a real Chromium, its size, and its own checks
	@if web/setup node && web/setup chromium; then $(MAKE) $(WEB_PACKAGES) && cd web && npm test; else $(NO_BROWSER); fi

PAGE_PROGRAM := $(or $(CARGO_TARGET_DIR),target)/debug/plimsoll

# The page as the program itself serves it. Screenshots are in web/test-results/screenshots.
.PHONY: test-page
test-page: ## The dashboard of the real program, at work on the demo, in a real Chromium
	@if web/setup node && web/setup chromium; then $(MAKE) page BUILD_PAGE="$(BUILD_PAGE)"; else $(NO_BROWSER); fi

# The program has the page in it: it is built after the page.
BUILD_PAGE := $(BUILD_LIGHT)
.PHONY: page
page: web
	$(BUILD_PAGE)
	cd web && PLIMSOLL_PROGRAM=$(abspath $(PAGE_PROGRAM)) npm run e2e

.PHONY: plugin
plugin: ## Build kube-scheduler with the plugin that asks a Plimsoll server for scores; bin/plimsoll-kube-scheduler
	cd plugin && go build -trimpath -ldflags "$(LAB_FLAGS)" -o ../bin/plimsoll-kube-scheduler ./cmd/kube-scheduler

# Helm and kubectl, of the versions that tools/go.mod names.
TOOLS := bin/tools

.PHONY: tools
tools: $(TOOLS)/built ## Build Helm and kubectl, for manifests and tests; only where tools/go.mod changed

$(TOOLS)/built: tools/go.mod tools/go.sum
	mkdir -p $(TOOLS)
	cd tools && go build -trimpath -ldflags "-s -w" -o ../$(TOOLS)/ tool ./cmd/...
	touch $@

.PHONY: manifests
manifests: tools ## Render the plain manifests in deploy/ from the chart
	deploy/render

# What looks at shell scripts and Dockerfiles.
VENV_INSTALL := target/bench/venv-install
$(VENV_INSTALL)/ready: tests/install/requirements.txt
	python3 -m venv $(VENV_INSTALL)
	$(VENV_INSTALL)/bin/pip install --quiet --requirement $<
	touch $@

# Apart from `lint`: Helm takes minutes to build.
.PHONY: lint-install
lint-install: tools $(VENV_INSTALL)/ready ## Shell scripts, Dockerfiles, the chart, and whether the plain manifests are up to date
	PATH=$(CURDIR)/$(VENV_INSTALL)/bin:$$PATH PLIMSOLL_BIN= tests/install/run

.PHONY: test-install
test-install: tools lab $(VENV_INSTALL)/ready ## What people install, on the real control plane: every right granted is used, none is missing
	$(CARGO) build --locked --package plimsoll --no-default-features
	PATH=$(CURDIR)/$(VENV_INSTALL)/bin:$$PATH tests/install/run $(or $(CARGO_TARGET_DIR),target)/debug/plimsoll

.PHONY: e2e
e2e: lab ## Kubernetes' own scheduling specs, with the stock scheduler and with Plimsoll; half an hour or more
	cd lab/e2e && go test -c -trimpath -ldflags "-s -w" -o ../../$(LAB)/e2e.test .
	$(CARGO) build --locked --package plimsoll --no-default-features
	lab/e2e/run $(or $(CARGO_TARGET_DIR),target)/debug/plimsoll

.PHONY: bench-core
bench-core: oracle ## Measure decisions beside the stock scheduler's, and write docs/benchmarks.md
	$(CARGO) run --locked --release --package plimsoll-bench --bin bench-core

# What the numpy simulator needs, apart from what is installed.
VENV := target/bench/venv
$(VENV)/ready: benches/python/requirements.txt
	python3 -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --requirement $<
	touch $@

# The learners need PyTorch, some gigabytes of it, which the simulator should not have to wait for.
VENV_LEARN := target/bench/venv-learn
$(VENV_LEARN)/ready: benches/python/requirements-learn.txt
	python3 -m venv $(VENV_LEARN)
	$(VENV_LEARN)/bin/pip install --quiet --requirement $<
	touch $@

.PHONY: bench-sim
bench-sim: oracle $(VENV)/ready ## Measure the simulator beside the stock framework and numpy; docs/benchmarks-sim.md
	$(CARGO) run --locked --release --package plimsoll-bench --bin bench-sim

.PHONY: bench-learn
bench-learn: $(VENV_LEARN)/ready ## Measure environment, learners and models beside numpy, PyTorch and SB3; docs/benchmarks-learn.md
	$(CARGO) run --locked --release --package plimsoll-bench --bin bench-learn

# Apart from the others: it needs neither burn nor Python, but the control plane.
.PHONY: bench-live
bench-live: lab ## Measure the live scheduler beside kube-scheduler on a real control plane; docs/benchmarks-live.md
	cd lab && go build -trimpath -o ../bin/null-binder ./cmd/null-binder
	$(CARGO) build --locked --release --package plimsoll --no-default-features
	$(CARGO) run --locked --release --package plimsoll-bench-live --bin bench-live -- --plimsoll $(or $(CARGO_TARGET_DIR),target)/release/plimsoll $(BENCH_LIVE)

.PHONY: bench-adviser
bench-adviser: lab plugin ## Measure what asking Plimsoll costs kube-scheduler, as an extender and by the plugin; docs/benchmarks-adviser.md
	$(CARGO) build --locked --release --package plimsoll --no-default-features
	$(CARGO) run --locked --release --package plimsoll-bench-live --bin bench-live -- --suite adviser --plimsoll $(or $(CARGO_TARGET_DIR),target)/release/plimsoll

.PHONY: bench-scale
bench-scale: lab ## 15,000 nodes on a real control plane beside kube-scheduler, 100,000 simulated; docs/benchmarks-scale.md
	$(CARGO) build --locked --release --package plimsoll --no-default-features
	$(CARGO) run --locked --release --package plimsoll-bench-live --bin bench-live -- --suite scale --rounds 1 --plimsoll $(or $(CARGO_TARGET_DIR),target)/release/plimsoll

.PHONY: bench-api
bench-api: ## Measure what reading the API costs decisions; docs/benchmarks-api.md
	$(CARGO) build --locked --release --package plimsoll --no-default-features
	$(CARGO) run --locked --release --package plimsoll-bench-live --bin bench-api -- --plimsoll $(or $(CARGO_TARGET_DIR),target)/release/plimsoll

# The Python package: what builds and tests it, and the environment that it is tried in.
PYTHON ?= python3
VENV_PYTHON := target/python/venv
$(VENV_PYTHON)/ready: python/requirements.txt
	$(PYTHON) -m venv $(VENV_PYTHON)
	$(VENV_PYTHON)/bin/pip install --quiet --requirement $<
	touch $@

# Cargo decides itself what is up to date.
.PHONY: wheel
wheel: $(VENV_PYTHON)/ready ## Build the Python package into target/python/wheels
	rm -rf target/python/wheels
	cd python && ../$(VENV_PYTHON)/bin/maturin build --release --quiet --interpreter ../$(VENV_PYTHON)/bin/python --out ../target/python/wheels

.PHONY: python
python: wheel
	$(VENV_PYTHON)/bin/pip install --quiet --force-reinstall --no-deps target/python/wheels/*.whl

# As in PYTEST="-k masked".
PYTEST ?=

.PHONY: test-python
test-python: python ## The Python package, built, installed and tested: PYTHON= PYTEST=
	cd python && ../$(VENV_PYTHON)/bin/python -P -m pytest --quiet $(PYTEST)

.PHONY: bench-python
bench-python: python ## Measure steps through Python beside those of the engine alone, on one core
	$(VENV_PYTHON)/bin/python -P python/benches/steps.py

# Ray and Flower are a few hundred megabytes, which the package itself should not have to wait for.
VENV_RAY := target/python/venv-ray
$(VENV_RAY)/ready: python/requirements-ray.txt
	$(PYTHON) -m venv $(VENV_RAY)
	$(VENV_RAY)/bin/pip install --quiet --requirement $<
	touch $@

.PHONY: python-ray
python-ray: wheel $(VENV_RAY)/ready
	$(VENV_RAY)/bin/pip install --quiet --force-reinstall --no-deps target/python/wheels/*.whl

.PHONY: test-ray
test-ray: python-ray ## Training on clusters of Ray and federation with Flower, both on this machine: PYTHON= PYTEST=
	$(VENV_RAY)/bin/python -P -m pytest --quiet --rootdir python python/tests/on_ray python/tests/federation $(PYTEST)

.PHONY: bench-ray
bench-ray: python-ray ## Measure how much faster two workers of Ray make runs than one
	$(VENV_RAY)/bin/python -P python/benches/ray_rollouts.py

.PHONY: federation-example
federation-example: python-ray ## Three clusters that learn together, beside each alone and all in one place; python/examples/federation
	$(VENV_RAY)/bin/python -P python/examples/federation/compare.py

.PHONY: soak
soak: soak-state soak-live ## Random events many thousand times, then schedulers under faults: SOAK_CASES= SOAK_SECONDS= SOAK_SEED=

.PHONY: soak-state
soak-state:
	PROPTEST_CASES=$(SOAK_CASES) $(CARGO) test --locked --release --package plimsoll-core --test incremental

.PHONY: soak-live
soak-live: lab
	PLIMSOLL_SOAK_SECONDS=$(SOAK_SECONDS) PLIMSOLL_SOAK_SEED=$(SOAK_SEED) \
		$(CARGO) test --locked --release --package plimsoll --no-default-features --test soak -- --nocapture

.PHONY: fuzz
fuzz: ## Feed arbitrary input to every reader: FUZZ_SECONDS= for each
	FUZZ_SECONDS=$(FUZZ_SECONDS) fuzz/run

# What sends requests by an OpenAPI document.
VENV_API := target/bench/venv-api
$(VENV_API)/ready: fuzz/requirements.txt
	python3 -m venv $(VENV_API)
	$(VENV_API)/bin/pip install --quiet --requirement $<
	touch $@

.PHONY: fuzz-api
fuzz-api: lab $(VENV_API)/ready ## Send the adviser what its own description allows, and what it does not
	$(CARGO) build --locked --package plimsoll --no-default-features
	fuzz/api $(or $(CARGO_TARGET_DIR),target)/debug/plimsoll $(VENV_API)/bin/schemathesis

.PHONY: clean
clean: ## Remove what was built
	$(CARGO) clean
	rm -rf bin

# Asks what dashboards and alerts ask of schedulers at work.
.PHONY: test-monitoring
test-monitoring: telemetry tools lab ## The dashboard and the rules, in a real Prometheus that reads Plimsoll on the real control plane
	$(CARGO) build --locked --package plimsoll --no-default-features
	tests/monitoring/run $(or $(CARGO_TARGET_DIR),target)/debug/plimsoll
