package generate

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

type resourceQuantity = resource.Quantity

// expressions are selectors over every kind of attribute and over capacity;
// all of them evaluate on all devices, since an error ends the attempt.
var expressions = []string{
	modelA, large,
	`device.attributes["gpu.example.com"].slots >= 4`,
	`device.attributes["gpu.example.com"].ecc`,
	`!device.attributes["gpu.example.com"].ecc || device.attributes["gpu.example.com"].model in ["b", "c"]`,
	`device.attributes["gpu.example.com"].firmware.isGreaterThan(semver("1.5.0"))`,
	`device.attributes["gpu.example.com"].firmware.compareTo(semver("2.0.0-rc.1")) <= 0`,
	`device.capacity["gpu.example.com"].memory.isLessThan(quantity("64Gi"))`,
	`device.capacity["gpu.example.com"].memory == quantity("40Gi")`,
	`device.attributes["gpu.example.com"].model.startsWith("a") && device.attributes["gpu.example.com"].slots % 2 == 0`,
	`"uuid" in device.attributes["gpu.example.com"] && device.attributes["gpu.example.com"].uuid.endsWith("1")`,
	`has(device.attributes["gpu.example.com"].uuid)`,
	`device.driver.matches("^gpu[.]")`,
	`["a", "b"].exists(m, device.attributes["gpu.example.com"].model == m)`,
	`device.attributes["gpu.example.com"].model.lowerAscii() == "a"`,
	`true`,
	`false`,
}

// wideDevices makes pools of every layout, several classes, and one to three
// claims in every state a claim can be in.
func (g *gen) wideDevices(pod *v1.Pod) {
	g.wide = true
	g.classes()
	g.pools()
	if g.chance(0.6) {
		g.otherClaims()
	}
	if g.chance(0.15) {
		g.extendedByClass(pod)
		return
	}
	for i := range pick(g, []int{1, 1, 1, 2, 2, 3}) {
		g.podClaim(pod, i)
	}
}

func (g *gen) classes() {
	class := func(name, expression string) {
		g.objects.DeviceClasses = append(g.objects.DeviceClasses, &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.DeviceClassSpec{Selectors: cel(expression)}})
	}
	class("gpu", `device.driver == "gpu.example.com"`)
	class("gpu-a", `device.driver == "gpu.example.com" && `+modelA)
	class("any", `true`)
	g.objects.DeviceClasses[2].Spec.Selectors = nil
}

// pools spreads devices over slices: one a node, several a pool, stale
// generations, incomplete pools, and pools for many nodes at once.
func (g *gen) pools() {
	for _, node := range g.objects.Nodes {
		if !g.chance(0.6) {
			continue
		}
		slice := g.slice(node.Name)
		g.widen(slice.Spec.Devices)
		all := []*resourceapi.ResourceSlice{slice}
		switch {
		case g.chance(0.08):
			slice.Spec.Pool.ResourceSliceCount = 2
		case g.chance(0.1):
			second := g.slice(node.Name)
			second.Name += "-2"
			for i := range second.Spec.Devices {
				second.Spec.Devices[i].Name = fmt.Sprintf("more-%d", i)
			}
			g.widen(second.Spec.Devices)
			slice.Spec.Pool.ResourceSliceCount, second.Spec.Pool.ResourceSliceCount = 2, 2
			all = append(all, second)
		case g.chance(0.08):
			stale := g.slice(node.Name)
			stale.Name += "-old"
			g.widen(stale.Spec.Devices)
			slice.Spec.Pool.Generation = 2
			all = append(all, stale)
		case g.chance(0.2):
			all = append(all, g.partition(slice))
		}
		g.objects.ResourceSlices = append(g.objects.ResourceSlices, all...)
	}
	if g.chance(0.3) {
		shared := g.slice("shared")
		shared.Spec.NodeName = nil
		g.widen(shared.Spec.Devices)
		switch g.IntN(3) {
		case 0:
			shared.Spec.AllNodes = ptr(true)
		case 1:
			shared.Spec.NodeSelector = requireNodes(zoneKey, some(g, zones, g.between(1, 2))...).Required
		default:
			shared.Spec.PerDeviceNodeSelection = ptr(true)
			for i := range shared.Spec.Devices {
				switch g.IntN(3) {
				case 0:
					shared.Spec.Devices[i].AllNodes = ptr(true)
				case 1:
					shared.Spec.Devices[i].NodeName = ptr(g.nodeName())
				default:
					shared.Spec.Devices[i].NodeSelector = requireNodes(zoneKey, pick(g, zones)).Required
				}
			}
		}
		g.objects.ResourceSlices = append(g.objects.ResourceSlices, shared)
	}
	if g.chance(0.15) {
		other := g.slice(g.nodeName())
		other.Name, other.Spec.Driver = "nic-"+other.Name, "nic.example.com"
		for i := range other.Spec.Devices {
			other.Spec.Devices[i].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"gpu.example.com/numa": {IntValue: ptr(int64(g.IntN(2)))}, "model": {StringValue: ptr("nic")}}
		}
		g.objects.ResourceSlices = append(g.objects.ResourceSlices, other)
	}
}

// widen gives devices attributes of all kinds, taints and shared use.
func (g *gen) widen(devices []resourceapi.Device) {
	for i := range devices {
		device := &devices[i]
		device.Attributes["slots"] = resourceapi.DeviceAttribute{IntValue: ptr(int64(g.between(1, 8)))}
		device.Attributes["ecc"] = resourceapi.DeviceAttribute{BoolValue: ptr(g.chance(0.5))}
		device.Attributes["firmware"] = resourceapi.DeviceAttribute{VersionValue: ptr(pick(g, []string{"1.0.0", "1.5.0", "1.10.2", "2.0.0-rc.1", "2.0.0"}))}
		device.Attributes["numa"] = resourceapi.DeviceAttribute{IntValue: ptr(int64(g.IntN(2)))}
		if g.chance(0.6) {
			device.Attributes["uuid"] = resourceapi.DeviceAttribute{StringValue: ptr(fmt.Sprintf("u-%d", g.IntN(4)))}
		}
		if g.chance(0.15) {
			device.Taints = append(device.Taints, resourceapi.DeviceTaint{Key: "health", Value: pick(g, []string{"", "bad"}),
				Effect: pick(g, []resourceapi.DeviceTaintEffect{resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute, resourceapi.DeviceTaintEffectNone})})
		}
		if g.chance(0.1) {
			device.AllowMultipleAllocations = ptr(true)
			capacity := device.Capacity["memory"]
			switch g.IntN(3) {
			case 0:
				capacity.RequestPolicy = &resourceapi.CapacityRequestPolicy{Default: ptr(quantity("4Gi")), ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: ptr(quantity("2Gi")), Step: ptr(quantity("2Gi"))}}
			case 1:
				capacity.RequestPolicy = &resourceapi.CapacityRequestPolicy{Default: ptr(quantity("8Gi")), ValidValues: []resourceQuantity{quantity("8Gi"), quantity("16Gi")}}
			}
			device.Capacity["memory"] = capacity
		}
		if g.chance(0.05) {
			device.BindingConditions, device.BindingFailureConditions = []string{"ready"}, []string{"failed"}
			device.BindsToNode = ptr(g.chance(0.5))
		}
	}
}

// partition turns the devices of slice into parts of one physical device; the
// returned slice of the same pool holds the counters they draw from.
func (g *gen) partition(slice *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	counters := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: slice.Name + "-counters"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: slice.Spec.Driver, NodeName: slice.Spec.NodeName, Pool: slice.Spec.Pool,
		SharedCounters: []resourceapi.CounterSet{{Name: "card", Counters: map[string]resourceapi.Counter{"memory": {Value: quantity("%dGi", pick(g, []int{20, 40, 80}))}, "engines": {Value: quantity("4")}}}},
	}}
	slice.Spec.Pool.ResourceSliceCount, counters.Spec.Pool.ResourceSliceCount = 2, 2
	for i := range slice.Spec.Devices {
		slice.Spec.Devices[i].ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: "card", Counters: map[string]resourceapi.Counter{
			"memory": {Value: quantity("%dGi", pick(g, []int{10, 20, 40}))}, "engines": {Value: quantity("%d", g.between(1, 3))}}}}
	}
	return counters
}

// podClaim makes the index-th claim of a pod in one of its possible states.
func (g *gen) podClaim(pod *v1.Pod, index int) {
	name, reference := fmt.Sprintf("claim%d", index), v1.PodResourceClaim{Name: fmt.Sprintf("g%d", index)}
	claim := newClaim(pod.Namespace, name, fmt.Sprintf("rc%d", index))
	if g.chance(0.15) {
		reference.ResourceClaimTemplateName = ptr("template")
		if g.chance(0.9) {
			pod.Status.ResourceClaimStatuses = append(pod.Status.ResourceClaimStatuses, v1.PodResourceClaimStatus{Name: reference.Name, ResourceClaimName: &name})
		}
		if g.chance(0.9) {
			claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: ptr(true)}}
		}
	} else {
		reference.ResourceClaimName = &name
	}
	pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, reference)
	if g.chance(0.04) {
		return
	}
	g.requests(claim)
	if g.chance(0.2) {
		g.allocate(pod, claim)
	}
	if g.chance(0.02) {
		claim.DeletionTimestamp, claim.Finalizers = &metav1.Time{Time: g.moment()}, []string{resourceapi.Finalizer}
	}
	g.objects.ResourceClaims = append(g.objects.ResourceClaims, claim)
}

func (g *gen) requests(claim *resourceapi.ResourceClaim) {
	devices := &claim.Spec.Devices
	for i := range pick(g, []int{1, 1, 1, 2, 2, 3}) {
		request := resourceapi.DeviceRequest{Name: fmt.Sprintf("r%d", i)}
		if g.chance(0.25) {
			for j := range g.between(1, 3) {
				exact := g.exactly()
				request.FirstAvailable = append(request.FirstAvailable, resourceapi.DeviceSubRequest{Name: fmt.Sprintf("s%d", j), DeviceClassName: exact.DeviceClassName,
					Selectors: exact.Selectors, AllocationMode: exact.AllocationMode, Count: exact.Count, Tolerations: exact.Tolerations, Capacity: exact.Capacity})
			}
		} else {
			request.Exactly = g.exactly()
			if g.chance(0.08) {
				request.Exactly.AdminAccess = ptr(true)
			}
		}
		devices.Requests = append(devices.Requests, request)
	}
	if g.chance(0.25) {
		attribute := resourceapi.FullyQualifiedName("gpu.example.com/" + pick(g, []string{"model", "numa", "ecc", "firmware", "uuid"}))
		constraint := resourceapi.DeviceConstraint{}
		if g.chance(0.75) {
			constraint.MatchAttribute = &attribute
		} else {
			constraint.DistinctAttribute = &attribute
		}
		if g.chance(0.4) {
			constraint.Requests = []string{devices.Requests[0].Name}
		}
		devices.Constraints = append(devices.Constraints, constraint)
	}
}

func (g *gen) exactly() *resourceapi.ExactDeviceRequest {
	request := &resourceapi.ExactDeviceRequest{DeviceClassName: pick(g, []string{"gpu", "gpu", "gpu", "gpu-a", "any"}), AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: int64(pick(g, []int{1, 1, 1, 2, 3}))}
	if g.chance(0.15) {
		request.AllocationMode, request.Count = resourceapi.DeviceAllocationModeAll, 0
	}
	if g.chance(0.03) {
		request.DeviceClassName = "absent"
	}
	if request.DeviceClassName != "any" {
		for range g.IntN(3) {
			expression := pick(g, expressions)
			if request.DeviceClassName == "gpu" && g.chance(0.1) {
				expression = pick(g, []string{modelA, large})
			}
			request.Selectors = append(request.Selectors, cel(expression)...)
		}
	}
	if g.chance(0.2) {
		toleration := resourceapi.DeviceToleration{Key: "health", Operator: resourceapi.DeviceTolerationOpExists}
		if g.chance(0.4) {
			toleration.Operator, toleration.Value = resourceapi.DeviceTolerationOpEqual, "bad"
		}
		if g.chance(0.4) {
			toleration.Effect = pick(g, []resourceapi.DeviceTaintEffect{resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute})
		}
		request.Tolerations = []resourceapi.DeviceToleration{toleration}
	}
	if g.chance(0.12) {
		request.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resourceQuantity{"memory": quantity("%dGi", g.between(1, 50))}}
	}
	return request
}

// allocate marks the claim as allocated before, reserved or not.
func (g *gen) allocate(pod *v1.Pod, claim *resourceapi.ResourceClaim) {
	slice := pick(g, append(g.objects.ResourceSlices, g.slice(g.nodeName())))
	if len(slice.Spec.Devices) == 0 {
		return
	}
	claim.Finalizers = []string{resourceapi.Finalizer}
	claim.Status.Allocation = &resourceapi.AllocationResult{
		Devices:      resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{Request: "r0", Driver: slice.Spec.Driver, Pool: slice.Spec.Pool.Name, Device: pick(g, slice.Spec.Devices).Name}}},
		NodeSelector: selectorFor(slice),
	}
	consumer := func(name string, uid types.UID) resourceapi.ResourceClaimConsumerReference {
		return resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: name, UID: uid}
	}
	switch g.IntN(4) {
	case 0:
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, consumer(pod.Name, pod.UID))
	case 1:
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, consumer("other", "uid-other"))
	case 2:
		if g.chance(0.3) {
			for i := range resourceapi.ResourceClaimReservedForMaxSize {
				name := fmt.Sprintf("other-%d", i)
				claim.Status.ReservedFor = append(claim.Status.ReservedFor, consumer(name, types.UID("uid-"+name)))
			}
		}
	}
}

// extendedByClass asks for devices as an extended resource that a class backs.
func (g *gen) extendedByClass(pod *v1.Pod) {
	name := v1.ResourceName("deviceclass.resource.kubernetes.io/gpu")
	if g.chance(0.7) {
		name = gpu
		g.objects.DeviceClasses[0].Spec.ExtendedResourceName = ptr(string(gpu))
	}
	for i := range pod.Spec.Containers {
		if i > 0 && g.chance(0.5) {
			continue
		}
		container := &pod.Spec.Containers[i]
		if container.Resources.Requests == nil {
			container.Resources.Requests = v1.ResourceList{}
		}
		count := quantity("%d", g.between(1, 2))
		container.Resources.Requests[name] = count
		container.Resources.Limits = v1.ResourceList{name: count}
	}
	if g.chance(0.3) {
		g.podClaim(pod, 0)
	}
	for _, node := range g.objects.Nodes {
		if g.chance(0.3) {
			node.Status.Capacity[gpu], node.Status.Allocatable[gpu] = quantity("2"), quantity("%d", g.IntN(3))
		}
	}
}
