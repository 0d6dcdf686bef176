package generate

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/conformance/oracle"
)

const (
	sequenceFamily = "sequence"
	// retryAfter is how many steps a pod waits for the node it preempted.
	retryAfter = 2
	// attempts bounds the search for a pod with a stable answer.
	attempts   = 20
	claimCount = 24
)

// Sequence makes and answers a sequence of length decisions. It fails with
// oracle.ErrUnstable when the answers depend on chance.
func Sequence(seed uint64, length int) (*oracle.Case, error) {
	g := newGen(sequenceFamily, seed)
	full := g.chance(0.5)
	g.landscape(full)
	c := &oracle.Case{Name: fmt.Sprintf("%s/%d", sequenceFamily, seed), Objects: g.objects}
	session, err := oracle.NewSession(nil, &c.Objects)
	if err != nil {
		return nil, err
	}
	defer session.Close()

	retries := map[int]*v1.Pod{}
	for i := range length {
		attempt, pod, err := g.next(session, i, retries[i], full)
		if err != nil {
			return nil, fmt.Errorf("%s, step %d: %w", c.Name, i, err)
		}
		waiting, err := session.Commit(attempt)
		if err != nil {
			return nil, fmt.Errorf("%s, step %d: %w", c.Name, i, err)
		}
		if waiting != nil {
			retries[i+retryAfter] = waiting
		}
		c.Sequence = append(c.Sequence, oracle.Step{Pod: pod, Expect: attempt.Expect})
	}
	return c, oracle.Confirm(c)
}

// next decides the pod that waits for this step, or else a new one.
func (g *gen) next(session *oracle.Session, index int, waiting *v1.Pod, full bool) (*oracle.Attempt, *v1.Pod, error) {
	if waiting != nil {
		waiting.ResourceVersion = ""
		attempt, err := session.Try(waiting)
		return attempt, waiting, err
	}
	for range attempts {
		pod := g.arrival(index, full)
		attempt, err := session.Try(pod)
		if err == nil {
			return attempt, pod, nil
		}
		if dropErr := session.Drop(pod); dropErr != nil {
			return nil, nil, errors.Join(err, dropErr)
		}
	}
	return nil, nil, oracle.ErrUnstable
}

// landscape makes a cluster with something of everything for pods to ask for;
// a full one has room for important pods only.
func (g *gen) landscape(full bool) {
	g.cluster(15, 30, nodeOptions{})
	for i, node := range g.objects.Nodes {
		options := nodeOptions{extended: g.chance(0.5), images: true, taints: g.chance(0.3), small: full || g.chance(0.6)}
		g.objects.Nodes[i] = g.node(node.Name, options)
		g.objects.Nodes[i].Spec.Unschedulable = g.chance(0.05)
	}
	if full {
		g.fill()
	} else {
		g.bound(30, g.tolerations, g.podAffinity, g.ranked)
	}
	g.services()
	g.budgets()
	g.storage()
	g.classes()
	g.pools()
	for _, slice := range g.objects.ResourceSlices {
		for i := range slice.Spec.Devices {
			// A device that must be prepared first would hold up the binding.
			slice.Spec.Devices[i].BindingConditions, slice.Spec.Devices[i].BindingFailureConditions, slice.Spec.Devices[i].BindsToNode = nil, nil, nil
		}
	}
	for i := range claimCount {
		namespace := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pick(g, namespaces)}}
		g.claim(namespace, fmt.Sprintf("claim%d", i), i)
		claim := newClaim(namespace.Namespace, fmt.Sprintf("devices%d", i), fmt.Sprintf("rc%d", i))
		if g.chance(0.5) {
			g.requests(claim)
		} else {
			claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "r0", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1}}}
		}
		g.objects.ResourceClaims = append(g.objects.ResourceClaims, claim)
	}
	g.tellApart()
}

// tellApart gives local volumes different sizes: which of two equal volumes
// kube-scheduler takes is chance, and the next decisions would show it.
func (g *gen) tellApart() {
	for i, volume := range g.objects.PersistentVolumes {
		if volume.Spec.Local != nil {
			volume.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: quantity("%dMi", 5*1024+10*i)}
		}
	}
}

// fill packs the nodes with pods of low priority.
func (g *gen) fill() {
	for _, node := range g.objects.Nodes {
		for range g.between(1, 4) {
			pod := g.pod(fmt.Sprintf("b%d", len(g.objects.Pods)))
			pod.Spec.NodeName, pod.Status.Phase = node.Name, v1.PodRunning
			pod.Spec.Containers = pod.Spec.Containers[:1]
			pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{
				v1.ResourceCPU: quantity("%dm", 25*g.between(30, 70)), v1.ResourceMemory: quantity("%dMi", g.between(100, 2500))}
			g.ranked(pod)
			if g.chance(0.2) {
				g.podAffinity(pod)
			}
			g.objects.Pods = append(g.objects.Pods, pod)
		}
	}
}

func (g *gen) ranked(pod *v1.Pod) {
	pod.Spec.Priority = ptr(pick(g, []int32{0, 0, 0, 10, 100, 1000}))
	pod.CreationTimestamp = metav1.Time{Time: g.moment().AddDate(0, -1, -8)}
	if pod.Spec.NodeName != "" {
		pod.Status.StartTime = &metav1.Time{Time: g.moment()}
	}
}

// arrival makes the pod of a step, of one or several kinds.
func (g *gen) arrival(index int, full bool) *v1.Pod {
	pod := g.pod(fmt.Sprintf("p%d", index))
	g.ranked(pod)
	rare := 1.0
	if full {
		pod.Spec.Priority = ptr(pick(g, []int32{0, 100, 1000, 2000, 2000, 3000}))
		rare = 0.4
	}
	if full || g.chance(0.5) {
		g.resources(pod)
		for i := range pod.Spec.InitContainers {
			uncounted(&pod.Spec.InitContainers[i])
		}
		if g.chance(0.8) {
			for i := range pod.Spec.Containers {
				uncounted(&pod.Spec.Containers[i])
			}
		}
	}
	for _, kind := range []struct {
		likely float64
		apply  func(*v1.Pod)
	}{{0.5, g.tolerations}, {0.25, g.nodeAffinity}, {0.45, g.podAffinity}, {0.4, g.spread}, {0.2, g.ports}, {0.1, g.extended}, {0.2, g.useVolumes}, {0.25, g.useDevices}} {
		if g.chance(kind.likely * rare) {
			kind.apply(pod)
		}
	}
	if g.chance(0.05) {
		pod.Spec.PreemptionPolicy = ptr(v1.PreemptNever)
	}
	return pod
}

func (g *gen) useVolumes(pod *v1.Pod) {
	var names []string
	for _, claim := range g.objects.PersistentVolumeClaims {
		if claim.Namespace == pod.Namespace && (claim.Status.Phase == v1.ClaimBound || *claim.Spec.StorageClassName != "now") {
			names = append(names, claim.Name)
		}
	}
	for i, name := range some(g, names, g.between(1, 2)) {
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: fmt.Sprintf("v%d", i), VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
	}
	if g.chance(0.2) {
		pod.Spec.Volumes = append(pod.Spec.Volumes, g.inTree("e", 0.3))
	}
}

func (g *gen) useDevices(pod *v1.Pod) {
	var claims []*resourceapi.ResourceClaim
	for _, claim := range g.objects.ResourceClaims {
		if claim.Namespace == pod.Namespace {
			claims = append(claims, claim)
		}
	}
	for i, claim := range some(g, claims, pick(g, []int{1, 1, 2})) {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, v1.PodResourceClaim{Name: fmt.Sprintf("g%d", i), ResourceClaimName: &claim.Name})
	}
}
