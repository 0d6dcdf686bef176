// Package oracle answers scheduling questions with the stock plugins of
// kube-scheduler, run as a library: given a cluster and a pod, which nodes
// pass, which plugin refuses the others, what the rest score, and whom a
// preemption would evict.
package oracle

import (
	"encoding/json"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Case is one question and its answer. A case has either Pod and Expect, or a
// Sequence of pods decided one after the other on the same cluster.
type Case struct {
	Name     string          `json:"name"`
	Config   json.RawMessage `json:"config,omitempty"`
	Objects  Objects         `json:"objects"`
	Pod      *v1.Pod         `json:"pod,omitempty"`
	Expect   *Expect         `json:"expect,omitempty"`
	Sequence []Step          `json:"sequence,omitempty"`
}

// Step is one decision of a sequence.
type Step struct {
	Pod    *v1.Pod `json:"pod"`
	Expect *Expect `json:"expect"`
}

// Objects is the cluster, as the API serves it. Pods without a node are
// pending; those with a nominated node take part as nominated pods.
type Objects struct {
	Nodes                  []*v1.Node                      `json:"nodes"`
	Pods                   []*v1.Pod                       `json:"pods"`
	Namespaces             []*v1.Namespace                 `json:"namespaces"`
	Services               []*v1.Service                   `json:"services,omitempty"`
	ReplicaSets            []*appsv1.ReplicaSet            `json:"replicaSets,omitempty"`
	StatefulSets           []*appsv1.StatefulSet           `json:"statefulSets,omitempty"`
	ReplicationControllers []*v1.ReplicationController     `json:"replicationControllers,omitempty"`
	PersistentVolumes      []*v1.PersistentVolume          `json:"persistentVolumes,omitempty"`
	PersistentVolumeClaims []*v1.PersistentVolumeClaim     `json:"persistentVolumeClaims,omitempty"`
	StorageClasses         []*storagev1.StorageClass       `json:"storageClasses,omitempty"`
	CSINodes               []*storagev1.CSINode            `json:"csiNodes,omitempty"`
	CSIDrivers             []*storagev1.CSIDriver          `json:"csiDrivers,omitempty"`
	CSIStorageCapacities   []*storagev1.CSIStorageCapacity `json:"csiStorageCapacities,omitempty"`
	PodDisruptionBudgets   []*policyv1.PodDisruptionBudget `json:"podDisruptionBudgets,omitempty"`
	ResourceSlices         []*resourceapi.ResourceSlice    `json:"resourceSlices,omitempty"`
	ResourceClaims         []*resourceapi.ResourceClaim    `json:"resourceClaims,omitempty"`
	DeviceClasses          []*resourceapi.DeviceClass      `json:"deviceClasses,omitempty"`
}

// Expect is what kube-scheduler decides.
type Expect struct {
	PreEnqueue *Rejection                  `json:"preEnqueue,omitempty"`
	PreFilter  *Rejection                  `json:"preFilter,omitempty"`
	Feasible   []string                    `json:"feasible"`
	Rejected   map[string]Rejection        `json:"rejected"`
	Scores     map[string]map[string]int64 `json:"scores,omitempty"`
	Totals     map[string]int64            `json:"totals,omitempty"`
	Preemption *Preemption                 `json:"preemption,omitempty"`
	Selected   string                      `json:"selected,omitempty"`
}

// Rejection says which plugin refused and why; reasons are sorted.
type Rejection struct {
	Plugin  string   `json:"plugin"`
	Code    string   `json:"code"`
	Reasons []string `json:"reasons"`
}

// Preemption names the node to clear and the pods to evict from it, sorted.
type Preemption struct {
	Nominated string   `json:"nominated"`
	Victims   []string `json:"victims"`
}

// list gives copies of every object but the pods, for the API to hold.
func (o *Objects) list() []runtime.Object {
	var all []runtime.Object
	all = appendAll(all, o.Nodes)
	all = appendAll(all, o.Namespaces)
	all = appendAll(all, o.Services)
	all = appendAll(all, o.ReplicaSets)
	all = appendAll(all, o.StatefulSets)
	all = appendAll(all, o.ReplicationControllers)
	all = appendAll(all, o.PersistentVolumes)
	all = appendAll(all, o.PersistentVolumeClaims)
	all = appendAll(all, o.StorageClasses)
	all = appendAll(all, o.CSINodes)
	all = appendAll(all, o.CSIDrivers)
	all = appendAll(all, o.CSIStorageCapacities)
	all = appendAll(all, o.PodDisruptionBudgets)
	all = appendAll(all, o.ResourceSlices)
	all = appendAll(all, o.ResourceClaims)
	all = appendAll(all, o.DeviceClasses)
	return all
}

func appendAll[T runtime.Object](all []runtime.Object, objects []T) []runtime.Object {
	for _, object := range objects {
		all = append(all, object.DeepCopyObject())
	}
	return all
}
