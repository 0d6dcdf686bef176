{{- /* What `plimsoll` asks the API server for before it starts: the rights of crates/plimsoll-kube/src/rights.rs, and nothing else. */ -}}
{{- define "plimsoll.readRules" -}}
- apiGroups: [""]
  resources: [pods, nodes, namespaces, services, replicationcontrollers, persistentvolumes, persistentvolumeclaims]
  verbs: [list, watch]
- apiGroups: [apps]
  resources: [replicasets, statefulsets]
  verbs: [list, watch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [list, watch]
- apiGroups: [storage.k8s.io]
  resources: [storageclasses, csinodes, csidrivers, csistoragecapacities, volumeattachments]
  verbs: [list, watch]
- apiGroups: [resource.k8s.io]
  resources: [resourceslices, resourceclaims, deviceclasses]
  verbs: [list, watch]
{{- end }}

{{- define "plimsoll.bindRules" -}}
- apiGroups: [""]
  resources: [pods/binding]
  verbs: [create]
# Where the answer to a binding was lost, the pod is looked at.
- apiGroups: [""]
  resources: [pods]
  verbs: [get]
{{- end }}

{{- define "plimsoll.scheduleRules" -}}
{{ include "plimsoll.bindRules" . }}
# Preemption.
- apiGroups: [""]
  resources: [pods]
  verbs: [delete]
# Conditions, and the node that a preemptor waits for.
- apiGroups: [""]
  resources: [pods/status]
  verbs: [patch]
# Volumes that wait for their first consumer.
- apiGroups: [""]
  resources: [persistentvolumes, persistentvolumeclaims]
  verbs: [patch]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
# Devices: claims are allocated, and made and removed for extended resources.
- apiGroups: [resource.k8s.io]
  resources: [resourceclaims]
  verbs: [update, patch, create, delete]
- apiGroups: [resource.k8s.io]
  resources: [resourceclaims/status]
  verbs: [update, patch]
# No endpoint: since Kubernetes 1.36 it is asked for when a status allocates or reserves.
- apiGroups: [resource.k8s.io]
  resources: [resourceclaims/binding]
  verbs: [update, patch]
{{- end }}
