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
{{- default (printf "%s-token" (include "plimsoll.fullname" .)) .Values.adviser.token.existingSecret }}
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
{{- if and (eq .Values.mode "adviser") .Values.adviser.tls.existingSecret }}true{{ end }}
{{- end }}

{{- define "plimsoll.onLoopback" -}}
{{- if and (eq .Values.mode "adviser") .Values.adviser.loopback }}true{{ end }}
{{- end }}

{{- /* Whether what is called on the port must send a token. */ -}}
{{- define "plimsoll.hasToken" -}}
{{- if and (eq .Values.mode "adviser") (not .Values.adviser.loopback) }}true{{ end }}
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
