package generate

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const gpuDriver = "gpu.example.com"

const modelA = `device.attributes["gpu.example.com"].model == "a"`
const large = `device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0`

func cel(expression string) []resourceapi.DeviceSelector {
	return []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}
}

// devices is the everyday case: one class, a slice a node, one claim.
func (g *gen) devices(pod *v1.Pod) {
	g.objects.DeviceClasses = []*resourceapi.DeviceClass{{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourceapi.DeviceClassSpec{Selectors: cel(`device.driver == "gpu.example.com"`)}}}
	for _, node := range g.objects.Nodes {
		if g.chance(0.63) {
			g.objects.ResourceSlices = append(g.objects.ResourceSlices, g.slice(node.Name))
		}
	}
	request := &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: int64(pick(g, []int{1, 1, 2}))}
	if g.chance(0.5) {
		request.Selectors = cel(pick(g, []string{modelA, large}))
	}
	claim := newClaim(pod.Namespace, "claim", "rc1")
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "g", Exactly: request}}
	g.objects.ResourceClaims = append(g.objects.ResourceClaims, claim)
	pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "g", ResourceClaimName: ptr("claim")}}
	if g.rarely(0.5) {
		g.otherClaims()
	}
}

func newClaim(namespace, name, uid string) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, UID: types.UID(uid)}}
}

func (g *gen) slice(node string) *resourceapi.ResourceSlice {
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "slice-" + node}, Spec: resourceapi.ResourceSliceSpec{
		Driver: gpuDriver, NodeName: &node, Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}}}
	for i := range g.between(1, 3) {
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{
			Name:       fmt.Sprintf("gpu-%d", i),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: ptr(pick(g, []string{"a", "b"}))}},
			Capacity:   map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: quantity("%dGi", pick(g, []int{16, 40, 80}))}},
		})
	}
	return slice
}

// otherClaims allocates some devices to claims of other pods.
func (g *gen) otherClaims() {
	for _, slice := range g.objects.ResourceSlices {
		for _, device := range slice.Spec.Devices {
			if !g.chance(0.25) {
				continue
			}
			claim := newClaim(pick(g, namespaces), fmt.Sprintf("taken%d", len(g.objects.ResourceClaims)), fmt.Sprintf("taken-uid%d", len(g.objects.ResourceClaims)))
			claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "g", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1}}}
			result := resourceapi.DeviceRequestAllocationResult{Request: "g", Driver: slice.Spec.Driver, Pool: slice.Spec.Pool.Name, Device: device.Name}
			if g.rarely(0.15) {
				result.AdminAccess = ptr(true)
				claim.Spec.Devices.Requests[0].Exactly.AdminAccess = ptr(true)
			}
			if device.AllowMultipleAllocations != nil && *device.AllowMultipleAllocations {
				result.ShareID = ptr(types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", len(g.objects.ResourceClaims))))
				result.ConsumedCapacity = map[resourceapi.QualifiedName]resourceQuantity{"memory": quantity("%dGi", g.between(1, 20))}
			}
			claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{result}}, NodeSelector: selectorFor(slice)}
			if g.chance(0.7) {
				claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "other", UID: "uid-other"}}
			}
			g.objects.ResourceClaims = append(g.objects.ResourceClaims, claim)
		}
	}
}

// selectorFor is where a claim with a device of slice can be used.
func selectorFor(slice *resourceapi.ResourceSlice) *v1.NodeSelector {
	switch {
	case slice.Spec.NodeName != nil:
		return &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{*slice.Spec.NodeName}}}}}}
	case slice.Spec.NodeSelector != nil:
		return slice.Spec.NodeSelector.DeepCopy()
	}
	return nil
}
