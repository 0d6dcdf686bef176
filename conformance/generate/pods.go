package generate

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// moment draws a minute of the weeks in which all pods of a case start.
func (g *gen) moment() time.Time {
	return time.Date(2026, 2, 10+g.IntN(19), g.IntN(10), g.IntN(60), 0, 0, time.UTC)
}

// pod makes a pod with one or two small containers.
func (g *gen) pod(name string) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: pick(g, namespaces), UID: types.UID("uid-" + name),
			Labels: map[string]string{"app": pick(g, apps)},
		},
		Spec:   v1.PodSpec{SchedulerName: v1.DefaultSchedulerName},
		Status: v1.PodStatus{Phase: v1.PodPending},
	}
	if g.chance(0.58) {
		pod.Labels["tier"] = pick(g, tiers)
	}
	pod.Spec.Containers = append(pod.Spec.Containers, g.container("c0", pod.Labels["app"]))
	if g.chance(0.28) {
		pod.Spec.Containers = append(pod.Spec.Containers, g.container("c1", pick(g, apps)))
	}
	return pod
}

func (g *gen) container(name, app string) v1.Container {
	container := v1.Container{Name: name, Image: "registry.example/" + app + ":1"}
	requests := v1.ResourceList{}
	if g.chance(0.88) {
		requests[v1.ResourceCPU] = quantity("%dm", 25*g.between(1, 15))
	}
	if g.chance(0.87) {
		requests[v1.ResourceMemory] = quantity("%dMi", g.between(16, 500))
	}
	if len(requests) > 0 {
		container.Resources.Requests = requests
	}
	if g.rarely(0.05) {
		container.Image = pick(g, []string{app, "registry.example/" + app, "docker.io/library/" + app + ":latest", "registry.example/" + app + "@sha256:" + fmt.Sprintf("%064d", 0)})
	}
	return container
}

// extended adds counted resources to containers, which need equal limits.
func (g *gen) extended(pod *v1.Pod) {
	for i := range pod.Spec.Containers {
		g.extend(&pod.Spec.Containers[i])
	}
}

func (g *gen) extend(container *v1.Container) {
	set := func(name v1.ResourceName, format string, args ...any) {
		if container.Resources.Requests == nil {
			container.Resources.Requests = v1.ResourceList{}
		}
		if container.Resources.Limits == nil {
			container.Resources.Limits = v1.ResourceList{}
		}
		container.Resources.Requests[name] = quantity(format, args...)
		container.Resources.Limits[name] = quantity(format, args...)
	}
	if g.chance(0.4) {
		set(gpu, "%d", g.between(1, 3))
	}
	if g.chance(0.2) {
		set(hugepages, "%dMi", 128*g.between(1, 3))
	}
	if g.rarely(0.1) {
		set("example.com/fpga", "%d", g.IntN(3))
	}
}

// resources replaces a pod's requests by large ones of every kind.
func (g *gen) resources(pod *v1.Pod) {
	for i := range pod.Spec.Containers {
		g.large(&pod.Spec.Containers[i])
	}
	if g.chance(0.28) {
		for i := range g.between(1, 2) {
			container := g.container(fmt.Sprintf("i%d", i), pick(g, apps))
			g.large(&container)
			if g.chance(0.32) {
				container.RestartPolicy = ptr(v1.ContainerRestartPolicyAlways)
			}
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, container)
		}
	}
	if g.chance(0.2) {
		pod.Spec.Overhead = v1.ResourceList{v1.ResourceCPU: quantity("100m"), v1.ResourceMemory: quantity("64Mi")}
	}
	if g.chance(0.1) {
		g.podLevel(pod)
	}
	if g.rarely(0.15) {
		g.oddRequests(pod)
	}
	if pod.Spec.NodeName != "" && g.rarely(0.15) {
		g.resize(pod)
	}
}

func (g *gen) large(container *v1.Container) {
	requests := v1.ResourceList{}
	if g.chance(0.85) {
		requests[v1.ResourceCPU] = quantity("%dm", 25*g.between(1, 99))
	}
	if g.chance(0.87) {
		requests[v1.ResourceMemory] = quantity("%dMi", g.between(16, 6000))
	}
	if g.chance(0.2) {
		requests[v1.ResourceEphemeralStorage] = quantity("%dGi", g.between(1, 59))
	}
	container.Resources = v1.ResourceRequirements{}
	if len(requests) > 0 {
		container.Resources.Requests = requests
	}
	g.extend(container)
}

func (g *gen) podLevel(pod *v1.Pod) {
	pod.Spec.Resources = &v1.ResourceRequirements{Requests: v1.ResourceList{
		v1.ResourceCPU:    quantity("%dm", 2500+25*g.IntN(40)),
		v1.ResourceMemory: quantity("%dMi", g.between(6000, 9000)),
	}}
	if g.rarely(0.5) {
		delete(pod.Spec.Resources.Requests, pick(g, []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory}))
	}
	if g.rarely(0.3) {
		pod.Spec.Resources.Requests[hugepages] = quantity("%dMi", 128*g.between(1, 3))
		pod.Spec.Resources.Limits = v1.ResourceList{hugepages: pod.Spec.Resources.Requests[hugepages]}
	}
}

// oddRequests writes amounts that parse to surprising numbers.
func (g *gen) oddRequests(pod *v1.Pod) {
	container := &pod.Spec.Containers[0]
	if container.Resources.Requests == nil {
		container.Resources.Requests = v1.ResourceList{}
	}
	container.Resources.Requests[v1.ResourceCPU] = quantity("%s", pick(g, []string{"0", "1.5", "100u", "0.0001", "1e1", "1500000n"}))
	container.Resources.Requests[v1.ResourceMemory] = quantity("%s", pick(g, []string{"0", "1e9", "1.5Gi", "100M", "123456789", "500k", "1073741824000m"}))
}

// resize leaves a bound pod in the middle of an in-place resize: the kubelet's
// view of its containers then counts too.
func (g *gen) resize(pod *v1.Pod) {
	for _, container := range pod.Spec.Containers {
		status := v1.ContainerStatus{Name: container.Name, Resources: &v1.ResourceRequirements{Requests: v1.ResourceList{}}, AllocatedResources: v1.ResourceList{}}
		for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
			if request, ok := container.Resources.Requests[name]; ok {
				actual := request.DeepCopy()
				if g.chance(0.5) {
					actual.Add(request)
				}
				status.Resources.Requests[name] = actual
				status.AllocatedResources[name] = request
			}
		}
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status)
	}
	if g.chance(0.5) {
		reason := pick(g, []string{v1.PodReasonInfeasible, v1.PodReasonDeferred})
		pod.Status.Conditions = append(pod.Status.Conditions, v1.PodCondition{Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: reason})
	}
}

func (g *gen) tolerations(pod *v1.Pod) {
	if !g.chance(0.67) {
		return
	}
	for range g.between(1, 3) {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, g.toleration())
	}
	if g.rarely(0.1) {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, v1.Toleration{Operator: v1.TolerationOpExists})
	}
}

func (g *gen) toleration() v1.Toleration {
	if g.chance(0.22) {
		return v1.Toleration{Key: v1.TaintNodeUnschedulable, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule}
	}
	toleration := v1.Toleration{Key: pick(g, []string{"dedicated", "gpu", "spot"}), Operator: v1.TolerationOpExists}
	if g.chance(0.5) {
		toleration.Operator, toleration.Value = v1.TolerationOpEqual, pick(g, []string{"a", "b"})
		if g.rarely(0.2) {
			toleration.Operator = ""
		}
		if g.rarely(0.1) {
			toleration.Value = ""
		}
	}
	if g.chance(0.75) {
		toleration.Effect = pick(g, []v1.TaintEffect{v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute})
	}
	if toleration.Effect == v1.TaintEffectNoExecute && g.rarely(0.3) {
		toleration.TolerationSeconds = ptr(int64(g.between(0, 300)))
	}
	if g.chance(0.05) {
		toleration = v1.Toleration{Operator: v1.TolerationOpExists, Effect: toleration.Effect}
	}
	return toleration
}

func (g *gen) ports(pod *v1.Pod) {
	for i := range pod.Spec.Containers {
		if g.chance(0.5) {
			pod.Spec.Containers[i].Ports = append(pod.Spec.Containers[i].Ports, g.port())
		}
		if g.rarely(0.2) {
			pod.Spec.Containers[i].Ports = append(pod.Spec.Containers[i].Ports, g.port())
		}
	}
	if g.rarely(0.1) {
		sidecar := g.container("i0", pick(g, apps))
		sidecar.Ports = []v1.ContainerPort{g.port()}
		if g.chance(0.6) {
			sidecar.RestartPolicy = ptr(v1.ContainerRestartPolicyAlways)
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, sidecar)
	}
}

func (g *gen) port() v1.ContainerPort {
	port := v1.ContainerPort{ContainerPort: 80, HostPort: pick(g, []int32{8080, 8081, 9090}), Protocol: pick(g, []v1.Protocol{v1.ProtocolTCP, v1.ProtocolUDP})}
	if g.chance(0.45) {
		port.HostIP = pick(g, []string{"127.0.0.1", "0.0.0.0", "10.0.0.7"})
	}
	if g.rarely(0.2) {
		port.Protocol = v1.ProtocolSCTP
	}
	if g.rarely(0.1) {
		port.Protocol = ""
	}
	if g.rarely(0.1) {
		port.HostPort = 0
	}
	if g.rarely(0.1) {
		port.HostIP = pick(g, []string{"::", "::1"})
	}
	return port
}
