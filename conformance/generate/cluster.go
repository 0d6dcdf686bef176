package generate

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nodeOptions says what nodes of a case may have besides labels and capacity.
type nodeOptions struct {
	extended, taints, unschedulable, images bool
	// small nodes fill up soon.
	small bool
}

// cluster makes the namespaces and between low and high nodes.
func (g *gen) cluster(low, high int, options nodeOptions) {
	for _, name := range namespaces {
		labels := map[string]string{"kubernetes.io/metadata.name": name}
		if name == "team-a" {
			labels["env"] = "prod"
		}
		if g.rarely(0.3) {
			labels["env"] = pick(g, []string{"prod", "dev"})
		}
		g.objects.Namespaces = append(g.objects.Namespaces, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
	}
	for i := range g.between(low, high) {
		g.objects.Nodes = append(g.objects.Nodes, g.node(fmt.Sprintf("n%d", i), options))
	}
}

func (g *gen) node(name string, options nodeOptions) *v1.Node {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{hostnameKey: name}}}
	if g.chance(0.9) {
		node.Labels[zoneKey] = pick(g, zones)
	}
	if g.chance(0.7) {
		node.Labels[regionKey] = pick(g, []string{"r1", "r2"})
	}
	if g.chance(0.62) {
		node.Labels["disk"] = pick(g, []string{"ssd", "hdd"})
	}
	if g.chance(0.5) {
		node.Labels["gen"] = fmt.Sprint(g.between(1, 8))
		if g.rarely(0.1) {
			node.Labels["gen"] = pick(g, []string{"x", "12", "007", ""})
		}
	}
	if g.rarely(0.05) {
		delete(node.Labels, hostnameKey)
	}

	cpu, memory := pick(g, []int{2, 4, 8, 16}), pick(g, []int{4, 8, 16, 32})
	if options.small {
		cpu, memory = 4, 8
		if g.rarely(0.2) {
			cpu = 8
		}
	}
	capacity := v1.ResourceList{
		v1.ResourceCPU:              quantity("%d", cpu),
		v1.ResourceMemory:           quantity("%dGi", memory),
		v1.ResourcePods:             quantity("%d", pick(g, []int{5, 20, 110})),
		v1.ResourceEphemeralStorage: quantity("100Gi"),
	}
	if options.extended {
		if g.chance(0.5) {
			capacity[gpu] = quantity("%d", g.IntN(5))
		}
		if g.chance(0.32) {
			capacity[hugepages] = quantity("%dMi", 128*g.IntN(9))
		}
		if g.rarely(0.3) {
			capacity["example.com/fpga"] = quantity("%d", g.IntN(3))
		}
	}
	allocatable := capacity.DeepCopy()
	if !options.small && g.chance(0.5) {
		allocatable[v1.ResourceCPU] = quantity("%dm", cpu*1000-300)
	}
	if g.rarely(0.05) {
		allocatable[v1.ResourcePods] = quantity("0")
	}
	node.Status.Capacity, node.Status.Allocatable = capacity, allocatable
	node.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}

	if options.taints && g.chance(0.47) {
		for range g.between(1, 2) {
			taint := v1.Taint{
				Key:    pick(g, []string{"dedicated", "gpu", "spot"}),
				Effect: pick(g, []v1.TaintEffect{v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute}),
			}
			if g.chance(0.65) {
				taint.Value = pick(g, []string{"a", "b"})
			}
			node.Spec.Taints = append(node.Spec.Taints, taint)
		}
	}
	if options.unschedulable && g.chance(0.3) {
		node.Spec.Unschedulable = true
		if g.rarely(0.5) {
			node.Spec.Taints = append(node.Spec.Taints, v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule})
		}
	}
	if options.images {
		node.Status.Images = g.images()
	}
	return node
}

func (g *gen) images() []v1.ContainerImage {
	var images []v1.ContainerImage
	for _, app := range some(g, apps, g.between(0, 4)) {
		repository := "registry.example/" + app
		image := v1.ContainerImage{
			Names:     []string{repository + ":1", repository + "@sha256:" + fmt.Sprintf("%064d", 0)},
			SizeBytes: int64(g.between(5, 1600)) << 20,
		}
		if g.rarely(0.2) {
			image.Names = append(image.Names, app, "docker.io/library/"+app+":latest")
		}
		images = append(images, image)
	}
	g.Shuffle(len(images), func(i, j int) { images[i], images[j] = images[j], images[i] })
	return images
}

// bound makes up to high pods that already run, each shaped by decorate.
func (g *gen) bound(high int, decorate ...func(*v1.Pod)) {
	for i := range g.between(0, high) {
		pod := g.pod(fmt.Sprintf("b%d", i))
		pod.Spec.NodeName = g.nodeName()
		pod.Status.Phase = v1.PodRunning
		for _, apply := range decorate {
			apply(pod)
		}
		if g.rarely(0.06) {
			pod.DeletionTimestamp = &metav1.Time{Time: g.moment()}
			pod.DeletionGracePeriodSeconds = ptr(int64(30))
		}
		g.objects.Pods = append(g.objects.Pods, pod)
	}
}
