package generate

import (
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/conformance/oracle"
)

// family makes cases about one part of scheduling and returns the pending pod.
type family struct {
	name  string
	build func(g *gen) *v1.Pod
}

const maxBound, maxNodes, minNodes = 47, 16, 4

var families = []family{
	{"resources", func(g *gen) *v1.Pod {
		return g.simple(nodeOptions{extended: true}, g.resources)
	}},
	{"nodeaffinity", func(g *gen) *v1.Pod {
		pod := g.simple(nodeOptions{})
		g.nodeAffinity(pod)
		return pod
	}},
	{"taints", func(g *gen) *v1.Pod {
		return g.simple(nodeOptions{taints: true, unschedulable: true}, g.tolerations)
	}},
	{"podaffinity", func(g *gen) *v1.Pod {
		return g.simple(nodeOptions{}, g.podAffinity)
	}},
	{"spread", func(g *gen) *v1.Pod {
		pod := g.simple(nodeOptions{})
		g.spread(pod)
		return pod
	}},
	{"spread-policies", func(g *gen) *v1.Pod {
		pod := g.simple(nodeOptions{taints: true}, g.tolerations)
		g.nodeAffinity(pod)
		g.spread(pod)
		return pod
	}},
	{"defaultspread", func(g *gen) *v1.Pod {
		pod := g.simple(nodeOptions{})
		g.services()
		g.owner(pod)
		return pod
	}},
	{"ports", func(g *gen) *v1.Pod {
		return g.simple(nodeOptions{}, g.ports)
	}},
	{"images", func(g *gen) *v1.Pod {
		return g.simple(nodeOptions{images: true})
	}},
	{"volumes", func(g *gen) *v1.Pod {
		pod := g.simple(nodeOptions{})
		g.storage()
		g.volumes(pod)
		return pod
	}},
	{"preemption", func(g *gen) *v1.Pod {
		return g.crowded()
	}},
	{"preemption-mixed", func(g *gen) *v1.Pod {
		pod := g.crowded(g.podAffinity)
		g.spread(pod)
		g.budgets()
		return pod
	}},
	{"config", func(g *gen) *v1.Pod {
		pod := g.simple(nodeOptions{extended: true, taints: true, images: true}, g.extended, g.tolerations)
		if g.wide {
			g.podAffinity(pod)
			for _, other := range g.objects.Pods {
				g.podAffinity(other)
			}
		}
		g.nodeAffinity(pod)
		g.configure()
		return pod
	}},
	{"dra", func(g *gen) *v1.Pod {
		pod := g.simple(nodeOptions{})
		g.devices(pod)
		return pod
	}},
	{"everything", func(g *gen) *v1.Pod {
		pod := g.simple(nodeOptions{extended: true, taints: true, unschedulable: true, images: true}, g.extended, g.tolerations, g.podAffinity, g.ports)
		g.nodeAffinity(pod)
		g.spread(pod)
		g.services()
		g.owner(pod)
		return pod
	}},
	{"config-preemption", func(g *gen) *v1.Pod {
		g.wide = true
		pod := g.crowded(g.podAffinity)
		g.nodeAffinity(pod)
		g.budgets()
		g.configure()
		return pod
	}},
	{"nominated", (*gen).nominated},
	{"gates", (*gen).gates},
	{"declared-features", (*gen).declaredFeatures},
	{"dra-wide", func(g *gen) *v1.Pod {
		pod := g.simple(nodeOptions{})
		g.wideDevices(pod)
		return pod
	}},
	{"volumes-wide", func(g *gen) *v1.Pod {
		g.wide = true
		pod := g.crowded()
		g.storage()
		g.volumes(pod)
		return pod
	}},
}

// Families are the names of all families, the plain ones first.
func Families() []string {
	var names []string
	for _, family := range families {
		names = append(names, family.name)
	}
	return names
}

// Case makes the case of a family and seed, not yet answered.
func Case(name string, seed uint64) (*oracle.Case, error) {
	for _, family := range families {
		if family.name != name {
			continue
		}
		g := newGen(name, seed)
		pod := family.build(g)
		c := &oracle.Case{Name: fmt.Sprintf("%s/%d", name, seed), Objects: g.objects, Pod: pod}
		if g.config != nil {
			config, err := json.Marshal(g.config)
			if err != nil {
				return nil, err
			}
			c.Config = config
		}
		return c, nil
	}
	return nil, fmt.Errorf("no family %q; there are %v", name, Families())
}

// simple makes a cluster with room, and bound and pending pods alike.
func (g *gen) simple(options nodeOptions, decorate ...func(*v1.Pod)) *v1.Pod {
	g.cluster(minNodes, maxNodes, options)
	g.bound(maxBound, decorate...)
	pod := g.pod("pending")
	for _, apply := range decorate {
		apply(pod)
	}
	return pod
}

// crowded makes a cluster with little room and pods of several priorities.
func (g *gen) crowded(decorate ...func(*v1.Pod)) *v1.Pod {
	g.cluster(minNodes, maxNodes, nodeOptions{small: true})
	aged := func(pod *v1.Pod) {
		pod.CreationTimestamp = metav1.Time{Time: g.moment().AddDate(0, -1, -8)}
		pod.Status.StartTime = &metav1.Time{Time: g.moment()}
	}
	crowd := 9 * len(g.objects.Nodes) / 2
	if g.wide {
		crowd = 6 * len(g.objects.Nodes)
	}
	g.bound(crowd, append(decorate, aged, func(pod *v1.Pod) {
		pod.Spec.Containers = pod.Spec.Containers[:1]
		pod.Spec.Priority = ptr(pick(g, []int32{0, 10, 100, 1000}))
		if g.rarely(0.05) {
			pod.Spec.Priority = pick(g, []*int32{nil, ptr(int32(-5)), ptr(int32(2000001000))})
		}
		pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{
			v1.ResourceCPU: quantity("%dm", 25*g.between(12, 60)), v1.ResourceMemory: quantity("%dMi", g.between(100, 2500))}
		if g.chance(0.2) {
			pod.Spec.Containers[0].Resources.Requests[v1.ResourceEphemeralStorage] = quantity("%dGi", g.between(1, 59))
		}
		if g.chance(0.2) {
			pod.Spec.Overhead = v1.ResourceList{v1.ResourceCPU: quantity("100m"), v1.ResourceMemory: quantity("64Mi")}
		}
		if g.chance(0.1) {
			g.podLevel(pod)
		}
		if g.rarely(0.1) {
			pod.Status.StartTime = nil
		}
		if pod.DeletionTimestamp != nil && g.chance(0.5) {
			pod.Status.Conditions = append(pod.Status.Conditions, v1.PodCondition{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler})
		}
	})...)
	pod := g.pod("pending")
	aged(pod)
	g.resources(pod)
	for _, apply := range decorate {
		apply(pod)
	}
	for i := range pod.Spec.Containers {
		uncounted(&pod.Spec.Containers[i])
	}
	for i := range pod.Spec.InitContainers {
		uncounted(&pod.Spec.InitContainers[i])
	}
	pod.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = quantity("%dm", 25*g.between(85, 156))
	pod.Spec.Containers[0].Resources.Requests[v1.ResourceMemory] = quantity("%dMi", g.between(1000, 3600))
	pod.Spec.Priority = ptr(pick(g, []int32{100, 1000, 2000, 2000}))
	if g.chance(0.1) {
		pod.Spec.PreemptionPolicy = ptr(v1.PreemptNever)
	}
	return pod
}

// uncounted takes the extended resources from a container: no node of a crowded
// cluster has any.
func uncounted(container *v1.Container) {
	kept := v1.ResourceList{}
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage} {
		if request, ok := container.Resources.Requests[name]; ok {
			kept[name] = request
		}
	}
	container.Resources = v1.ResourceRequirements{Requests: kept}
}

// nominated has pending pods that wait for nodes cleared for them, and at
// times the pod in question is one of them.
func (g *gen) nominated() *v1.Pod {
	pod := g.crowded()
	for i := range g.between(1, 4) {
		other := g.pod(fmt.Sprintf("w%d", i))
		other.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: quantity("%dm", 25*g.between(12, 100)), v1.ResourceMemory: quantity("%dMi", g.between(100, 2500))}
		other.Spec.Priority = ptr(pick(g, []int32{10, 100, 1000, 2000, 3000}))
		other.Status.NominatedNodeName = g.nodeName()
		if g.chance(0.3) {
			g.ports(other)
		}
		g.objects.Pods = append(g.objects.Pods, other)
	}
	if g.chance(0.3) {
		g.ports(pod)
	}
	if g.chance(0.4) {
		pod.Status.NominatedNodeName = g.nodeName()
	}
	return pod
}

func (g *gen) gates() *v1.Pod {
	pod := g.simple(nodeOptions{})
	for _, gate := range some(g, []string{"example.com/quota", "example.com/review", "example.com/volume"}, g.between(0, 3)) {
		pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, v1.PodSchedulingGate{Name: gate})
	}
	return pod
}

// declaredFeatures has pods that need a feature of the node.
func (g *gen) declaredFeatures() *v1.Pod {
	pod := g.simple(nodeOptions{})
	for _, node := range g.objects.Nodes {
		node.Status.DeclaredFeatures = some(g, []string{"ExtendWebSocketsToKubelet", "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"}, g.between(0, 3))
	}
	if g.chance(0.5) {
		pod.Spec.HostNetwork, pod.Spec.HostUsers = g.chance(0.7), ptr(g.chance(0.2))
	}
	if g.chance(0.5) {
		rule := v1.ContainerRestartRule{Action: v1.ContainerRestartRuleActionRestartAllContainers, ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}}}
		if g.chance(0.3) {
			rule.Action = v1.ContainerRestartRuleActionRestart
		}
		pod.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{rule}
	}
	return pod
}
