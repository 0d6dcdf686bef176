{{- define "plimsoll.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "plimsoll.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains (include "plimsoll.name" .) .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "plimsoll.name" .) | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "plimsoll.commonLabels" -}}
app.kubernetes.io/part-of: plimsoll
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "plimsoll.selector" -}}
app.kubernetes.io/name: {{ include "plimsoll.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "plimsoll.labels" -}}
{{ include "plimsoll.selector" . }}
app.kubernetes.io/component: {{ .Values.mode }}
{{ include "plimsoll.commonLabels" . }}
{{- end }}

{{- define "plimsoll.agentSelector" -}}
app.kubernetes.io/name: plimsoll-agent
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "plimsoll.agentLabels" -}}
{{ include "plimsoll.agentSelector" . }}
{{ include "plimsoll.commonLabels" . }}
{{- end }}

{{- define "plimsoll.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "plimsoll.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- required "serviceAccount.name is needed where serviceAccount.create is false" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- /* An image, of a dict with `image` and the appVersion as `version`. */ -}}
{{- define "plimsoll.image" -}}
{{- if .image.digest }}
{{- printf "%s@%s" .image.repository .image.digest }}
{{- else }}
{{- printf "%s:%s" .image.repository (default .version .image.tag) }}
{{- end }}
{{- end }}

{{- define "plimsoll.tokenSecret" -}}
{{- default (printf "%s-token" (include "plimsoll.fullname" .)) .Values.api.token.existingSecret }}
{{- end }}

{{- define "plimsoll.viewerTokenSecret" -}}
{{- default (printf "%s-viewer-token" (include "plimsoll.fullname" .)) .Values.api.viewerToken.existingSecret }}
{{- end }}

{{- define "plimsoll.agentTokenSecret" -}}
{{- default (printf "%s-agent-token" (include "plimsoll.fullname" .)) .Values.agent.token.existingSecret }}
{{- end }}

{{- /* A token that stays what it is when the release is upgraded; of a dict with `root`, `secret` and `key`. */ -}}
{{- define "plimsoll.token" -}}
{{- $found := lookup "v1" "Secret" .root.Release.Namespace .secret }}
{{- if and $found (hasKey ($found.data | default dict) .key) }}
{{- index $found.data .key }}
{{- else }}
{{- randAlphaNum 48 | b64enc }}
{{- end }}
{{- end }}

{{- define "plimsoll.port" -}}
{{- if eq .Values.mode "adviser" }}10270{{ else }}10259{{ end }}
{{- end }}

{{- define "plimsoll.hasTls" -}}
{{- if .Values.api.tls.existingSecret }}true{{ end }}
{{- end }}

{{- define "plimsoll.onLoopback" -}}
{{- if and (eq .Values.mode "adviser") .Values.adviser.loopback }}
{{- if or .Values.api.token.enabled .Values.api.token.existingSecret .Values.api.viewerToken.enabled .Values.api.viewerToken.existingSecret .Values.api.tokenReview }}
{{- fail "adviser.loopback is for extenders, which cannot send a token: leave api.token, api.viewerToken and api.tokenReview out" }}
{{- end }}
{{- print "true" }}
{{- end }}
{{- end }}

{{- /* Whether there is a token for those who may do everything. An adviser that others can reach has to have one. */ -}}
{{- define "plimsoll.hasToken" -}}
{{- if and (ne .Values.mode "none") (not (include "plimsoll.onLoopback" .)) (or (eq .Values.mode "adviser") .Values.api.token.enabled .Values.api.token.existingSecret) }}true{{ end }}
{{- end }}

{{- /* Whether there is one for those who may read. A monitor that nothing else lets in gets one. */ -}}
{{- define "plimsoll.hasViewerToken" -}}
{{- $forMonitor := and .Values.serviceMonitor.enabled .Values.api.tokenReview (not (include "plimsoll.hasToken" .)) }}
{{- if and (ne .Values.mode "none") (or .Values.api.viewerToken.enabled .Values.api.viewerToken.existingSecret $forMonitor) }}true{{ end }}
{{- end }}

{{- /* Whether what is called on the port must send a token. */ -}}
{{- define "plimsoll.asksForToken" -}}
{{- if or (include "plimsoll.hasToken" .) (include "plimsoll.hasViewerToken" .) .Values.api.tokenReview }}true{{ end }}
{{- end }}

{{- /* Whether it learns while it runs: the variable counts more than the configuration. */ -}}
{{- define "plimsoll.learns" -}}
{{- $learns := dig "training" "enabled" false .Values.config.plimsoll }}
{{- range .Values.env }}
{{- if eq .name "ENABLE_TRAINING" }}{{ $learns = has (toString .value) (list "true" "1") }}{{ end }}
{{- end }}
{{- if $learns }}true{{ end }}
{{- end }}

{{- /* Whether there is a folder to write to. Who learns needs one; an adviser keeps nothing. */ -}}
{{- define "plimsoll.hasData" -}}
{{- $learns := and (ne .Values.mode "adviser") (include "plimsoll.learns" .) }}
{{- if or .Values.data.enabled .Values.data.existingClaim $learns }}true{{ end }}
{{- end }}

{{- /* Whether Plimsoll talks to the agents with the token that the chart knows. */ -}}
{{- define "plimsoll.hasAgentToken" -}}
{{- $telemetry := include "plimsoll.telemetry" . | fromYaml }}
{{- if and (hasKey $telemetry "agents") (not (dig "tokenFile" "" (default dict $telemetry.agents))) }}
{{- if or .Values.agent.enabled .Values.agent.token.existingSecret }}true{{ end }}
{{- end }}
{{- end }}

{{- define "plimsoll.replicas" -}}
{{- if eq .Values.mode "shadow" }}1{{ else }}{{ .Values.replicas }}{{ end }}
{{- end }}

{{- /* The KubeSchedulerConfiguration: what the chart sets, and over it what the values say. */ -}}
{{- define "plimsoll.schedulerConfig" -}}
{{- $name := eq .Values.mode "shadow" | ternary .Values.shadow.schedulerName .Values.schedulerName }}
{{- $election := dict "leaderElect" (eq .Values.mode "scheduler") "resourceNamespace" .Release.Namespace "resourceName" (include "plimsoll.fullname" .) }}
{{- $ours := dict "apiVersion" "kubescheduler.config.k8s.io/v1" "kind" "KubeSchedulerConfiguration" "leaderElection" $election "profiles" (list (dict "schedulerName" $name)) }}
{{- mergeOverwrite $ours (deepCopy .Values.config.scheduler) | toYaml }}
{{- end }}

{{- define "plimsoll.plimsollConfig" -}}
{{- $ours := dict "apiVersion" "plimsoll.dev/v1alpha1" "kind" "PlimsollConfiguration" }}
{{- with dig "catalogue" "" .Values.config.plimsoll }}
{{- if not (or (isAbs .) (hasKey $.Values.files .)) }}
{{- fail (printf "config.plimsoll.catalogue: there is no %s among the files; give it with --set-file, or name it by its whole path in the container" .) }}
{{- end }}
{{- end }}
{{- if include "plimsoll.hasAgentToken" . }}
{{- $ours = mergeOverwrite $ours (dict "telemetry" (dict "agents" (dict "tokenFile" (printf "/etc/plimsoll/agent-token/%s" .Values.agent.token.key)))) }}
{{- end }}
{{- mergeOverwrite $ours (deepCopy .Values.config.plimsoll) | toYaml }}
{{- end }}

{{- define "plimsoll.telemetry" -}}
{{- dig "telemetry" dict .Values.config.plimsoll | toYaml }}
{{- end }}

{{- define "plimsoll.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: ["ALL"]
{{- end }}

{{- define "plimsoll.toDns" -}}
- to:
  - namespaceSelector:
      matchLabels:
        kubernetes.io/metadata.name: kube-system
    podSelector:
      matchLabels:
        k8s-app: kube-dns
  ports:
  - port: 53
    protocol: UDP
  - port: 53
    protocol: TCP
{{- end }}
