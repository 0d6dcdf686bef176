package main

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plimsoll.dev/conformance/oracle"
)

const (
	zoneKey     = "topology.kubernetes.io/zone"
	hostnameKey = "kubernetes.io/hostname"
	templates   = 10
	// Bound pods are of the shape under test on every fifth node, as many as
	// give its counts something to count.
	shapedEvery = 5
	plainEach   = 2
	// Four pods of lowMillis leave less of four cores than any pending pod of
	// the preemption shape wants, and so does one of them once evicted.
	lowMillis = 900
)

var zones = []string{"eu-1a", "eu-1b", "eu-1c"}

// record is one line of a cluster file.
type record struct {
	Node      *v1.Node      `json:"node,omitempty"`
	Namespace *v1.Namespace `json:"namespace,omitempty"`
	Service   *v1.Service   `json:"service,omitempty"`
	Bound     *v1.Pod       `json:"bound,omitempty"`
	Pending   *v1.Pod       `json:"pending,omitempty"`
}

// shape turns a plain pod into one that the shape is about.
type shape struct {
	name  string
	apply func(template int, pod *v1.Pod)
}

var shapes = []shape{
	{"plain", func(int, *v1.Pod) {}},
	{"node-affinity", nodeAffinity},
	{"pod-anti-affinity", podAntiAffinity},
	{"preferred-pod-affinity", preferredPodAffinity},
	{"topology-spread", topologySpread},
	{"default-spread", func(int, *v1.Pod) {}},
	{"preemption", preemption},
}

func shapeNames() []string {
	var names []string
	for _, s := range shapes {
		names = append(names, s.name)
	}
	return names
}

func nodeAffinity(template int, pod *v1.Pod) {
	requirement := v1.NodeSelectorRequirement{Key: zoneKey, Operator: v1.NodeSelectorOpIn, Values: []string{zones[template%3], zones[(template+1)%3]}}
	pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
		NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{requirement}}}}}}
}

func sameColor(color string) v1.PodAffinityTerm {
	return v1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"color": color}}, TopologyKey: hostnameKey, Namespaces: []string{"sched-1", "sched-0"}}
}

func podAntiAffinity(_ int, pod *v1.Pod) {
	pod.Labels["color"] = "green"
	pod.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{sameColor("green")}}}
}

func preferredPodAffinity(_ int, pod *v1.Pod) {
	pod.Labels["color"] = "red"
	pod.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: sameColor("red")}}}}
}

func topologySpread(_ int, pod *v1.Pod) {
	pod.Labels["color"] = "blue"
	pod.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{MaxSkew: 5, TopologyKey: zoneKey, WhenUnsatisfiable: v1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"color": "blue"}}}}
}

func preemption(template int, pod *v1.Pod) {
	priority := int32(10000)
	pod.Spec.Priority = &priority
	pod.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = *resource.NewMilliQuantity(int64(1000+250*template), resource.DecimalSI)
}

// writeCluster writes a cluster that depends on nothing but its arguments.
func writeCluster(name string, nodes, pods int, path string) error {
	index := slices.IndexFunc(shapes, func(s shape) bool { return s.name == name })
	if index < 0 {
		return fmt.Errorf("no shape %q; there are %v", name, shapeNames())
	}
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%s %d", name, nodes)
	b := &builder{Rand: rand.New(rand.NewPCG(hash.Sum64(), 1)), shape: shapes[index]}
	out, err := oracle.NewWriter(path)
	if err != nil {
		return err
	}
	for _, r := range b.records(nodes, pods) {
		if err := out.Write(r); err != nil {
			return err
		}
	}
	return out.Close()
}

type builder struct {
	*rand.Rand
	shape shape
}

// records gives nodes first, then what pods refer to, bound pods, pending pods.
func (b *builder) records(nodes, pods int) []record {
	var records []record
	var cores []int
	for i := range nodes {
		size := []int{4, 8, 16, 32, 64}[b.IntN(5)]
		cores = append(cores, size)
		records = append(records, record{Node: b.node(i, size)})
	}
	for _, name := range []string{"sched-0", "sched-1"} {
		records = append(records, record{Namespace: &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/metadata.name": name}}}})
	}
	if b.shape.name == "default-spread" {
		for i := range templates {
			for _, namespace := range []string{"sched-0", "sched-1"} {
				records = append(records, record{Service: &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("app-%d", i), Namespace: namespace}, Spec: v1.ServiceSpec{Selector: map[string]string{"app": fmt.Sprintf("app-%d", i)}}}})
			}
		}
	}
	for _, pod := range b.bound(cores) {
		records = append(records, record{Bound: pod})
	}
	for i := range pods {
		template := b.IntN(templates)
		pod := b.pod("sched-1", fmt.Sprintf("pending-%d", i), template)
		b.shape.apply(template, pod)
		records = append(records, record{Pending: pod})
	}
	return records
}

func (b *builder) node(index, cores int) *v1.Node {
	name := fmt.Sprintf("node-%05d", index)
	arch := "amd64"
	if b.IntN(5) == 0 {
		arch = "arm64"
	}
	resources := v1.ResourceList{
		v1.ResourceCPU: *resource.NewQuantity(int64(cores), resource.DecimalSI), v1.ResourceMemory: *resource.NewQuantity(int64(cores)*4<<30, resource.BinarySI),
		v1.ResourceEphemeralStorage: resource.MustParse("100Gi"), v1.ResourcePods: resource.MustParse("110"),
	}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{
			hostnameKey: name, zoneKey: zones[index%len(zones)], "topology.kubernetes.io/region": "eu-1", "node.kubernetes.io/instance-type": fmt.Sprintf("m%d.%s", cores, arch),
			"kubernetes.io/arch": arch, "kubernetes.io/os": "linux"}},
		Status: v1.NodeStatus{Capacity: resources, Allocatable: resources.DeepCopy(), Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}},
	}
}

func (b *builder) pod(namespace, name string, template int) *v1.Pod {
	requests := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewMilliQuantity(int64([]int{50, 100, 100, 150, 200, 250, 300, 400, 500, 750}[template]), resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(int64([]int{64, 128, 256, 512, 200, 300, 400, 500, 1024, 768}[template])<<20, resource.BinarySI),
	}
	app := fmt.Sprintf("app-%d", template)
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, UID: types.UID("uid-" + name), Labels: map[string]string{"app": app}},
		Spec: v1.PodSpec{SchedulerName: v1.DefaultSchedulerName, Containers: []v1.Container{{Name: "main", Image: "registry.example/" + app + ":1",
			Ports: []v1.ContainerPort{{ContainerPort: 80, Protocol: v1.ProtocolTCP}}, Resources: v1.ResourceRequirements{Requests: requests}}}},
		Status: v1.PodStatus{Phase: v1.PodPending},
	}
}

func (b *builder) bound(cores []int) []*v1.Pod {
	var pods []*v1.Pod
	place := func(node, template int) *v1.Pod {
		pod := b.pod("sched-0", fmt.Sprintf("bound-%d", len(pods)), template)
		pod.Spec.NodeName, pod.Status.Phase = fmt.Sprintf("node-%05d", node), v1.PodRunning
		pod.Status.StartTime = &metav1.Time{Time: time.Date(2026, 1, 1+b.IntN(28), b.IntN(24), b.IntN(60), b.IntN(60), 0, time.UTC)}
		pods = append(pods, pod)
		return pod
	}
	if b.shape.name == "preemption" {
		sized := func(node, millis int, priority int32) {
			pod := place(node, b.IntN(templates))
			pod.Spec.Priority = &priority
			pod.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = *resource.NewMilliQuantity(int64(millis), resource.DecimalSI)
		}
		for node, size := range cores {
			for range 4 {
				sized(node, lowMillis, int32(b.IntN(10)))
			}
			// A pod too important to evict takes the rest of a large node, so
			// that no eviction makes room for more than one pending pod.
			if size > 4 {
				sized(node, 1000*(size-4), 20000)
			}
		}
		return pods
	}
	for range plainEach * len(cores) {
		place(b.IntN(len(cores)), b.IntN(templates))
	}
	for node := 0; node < len(cores); node += shapedEvery {
		template := b.IntN(templates)
		b.shape.apply(template, place(node, template))
	}
	return pods
}
