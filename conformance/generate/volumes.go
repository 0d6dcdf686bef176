package generate

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const driver = "csi.example.com"

// storage makes the classes wait, now and local, and what nodes can attach.
func (g *gen) storage() {
	wait := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "wait"}, Provisioner: driver, VolumeBindingMode: ptr(storagev1.VolumeBindingWaitForFirstConsumer)}
	if g.chance(0.37) {
		wait.AllowedTopologies = []v1.TopologySelectorTerm{{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{{Key: zoneKey, Values: []string{pick(g, zones)}}}}}
		if g.rarely(0.3) {
			wait.AllowedTopologies = append(wait.AllowedTopologies, v1.TopologySelectorTerm{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{
				{Key: zoneKey, Values: zones[:2]}, {Key: regionKey, Values: []string{"r1"}}}})
		}
	}
	g.objects.StorageClasses = append(g.objects.StorageClasses, wait,
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "now"}, Provisioner: driver, VolumeBindingMode: ptr(storagev1.VolumeBindingImmediate)},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: ptr(storagev1.VolumeBindingWaitForFirstConsumer)})
	for _, node := range g.objects.Nodes {
		if !g.chance(0.6) {
			continue
		}
		csiNode := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node.Name}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
			{Name: driver, NodeID: node.Name, TopologyKeys: []string{}, Allocatable: &storagev1.VolumeNodeResources{Count: ptr(int32(g.IntN(4)))}}}}}
		if g.rarely(0.1) {
			csiNode.Spec.Drivers[0].Allocatable = nil
		}
		if g.rarely(0.2) {
			csiNode.Annotations = map[string]string{"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs,kubernetes.io/gce-pd"}
			csiNode.Spec.Drivers = append(csiNode.Spec.Drivers, storagev1.CSINodeDriver{Name: "ebs.csi.aws.com", NodeID: node.Name, TopologyKeys: []string{}, Allocatable: &storagev1.VolumeNodeResources{Count: ptr(int32(g.IntN(3)))}})
		}
		g.objects.CSINodes = append(g.objects.CSINodes, csiNode)
	}
	if g.rarely(0.25) {
		g.storageCapacity()
	}
}

// storageCapacity has the driver publish how much it can still provision where.
func (g *gen) storageCapacity() {
	g.objects.CSIDrivers = append(g.objects.CSIDrivers, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: storagev1.CSIDriverSpec{StorageCapacity: ptr(g.chance(0.85))}})
	for i, zone := range zones {
		if !g.chance(0.7) {
			continue
		}
		capacity := &storagev1.CSIStorageCapacity{
			ObjectMeta:       metav1.ObjectMeta{Name: fmt.Sprintf("capacity-%d", i), Namespace: "default"},
			StorageClassName: pick(g, []string{"wait", "wait", "now"}),
			NodeTopology:     &metav1.LabelSelector{MatchLabels: map[string]string{zoneKey: zone}},
			Capacity:         ptr(quantity("%dGi", pick(g, []int{1, 4, 5, 50}))),
		}
		if g.chance(0.3) {
			capacity.MaximumVolumeSize = ptr(quantity("%dGi", pick(g, []int{2, 5, 20})))
		}
		if g.chance(0.1) {
			capacity.NodeTopology = nil
		}
		g.objects.CSIStorageCapacities = append(g.objects.CSIStorageCapacities, capacity)
	}
}

// volumes gives the pending pod one to three volumes, with the claims and
// volumes behind them, and has some bound pods use the same.
func (g *gen) volumes(pod *v1.Pod) {
	for i := range g.between(1, 3) {
		name := fmt.Sprintf("v%d", i)
		if !g.chance(0.86) {
			pod.Spec.Volumes = append(pod.Spec.Volumes, g.inTree(name, 0.4))
			continue
		}
		if g.rarely(0.08) {
			g.ephemeral(pod, name, i)
			continue
		}
		claim := fmt.Sprintf("claim%d", i)
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}})
		missing := 0.13
		if g.wide {
			missing = 0.02
		}
		if !g.chance(missing) {
			g.claim(pod, claim, i)
		}
	}
	for _, other := range g.objects.Pods {
		if g.chance(0.07) {
			other.Spec.Volumes = append(other.Spec.Volumes, g.inTree("e", 0))
		}
		if other.Namespace == pod.Namespace && g.chance(0.04) {
			other.Spec.Volumes = append(other.Spec.Volumes, v1.Volume{Name: "w", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprintf("claim%d", g.IntN(3))}}})
		}
	}
}

// inTree makes a volume of a kind that two pods of a node may not share.
func (g *gen) inTree(name string, readOnly float64) v1.Volume {
	volume := v1.Volume{Name: name}
	if !g.rarely(0.4) {
		volume.AWSElasticBlockStore = &v1.AWSElasticBlockStoreVolumeSource{VolumeID: pick(g, []string{"vol-1", "vol-2"}), ReadOnly: g.chance(readOnly)}
		return volume
	}
	readOnlyNow := g.chance(max(readOnly, 0.3))
	switch g.IntN(3) {
	case 0:
		volume.GCEPersistentDisk = &v1.GCEPersistentDiskVolumeSource{PDName: pick(g, []string{"pd-1", "pd-2"}), ReadOnly: readOnlyNow}
	case 1:
		volume.RBD = &v1.RBDVolumeSource{CephMonitors: some(g, []string{"a", "b", "c"}, 2), RBDPool: "pool", RBDImage: pick(g, []string{"i-1", "i-2"}), ReadOnly: readOnlyNow}
	default:
		volume.ISCSI = &v1.ISCSIVolumeSource{TargetPortal: "10.0.0.1:3260", IQN: pick(g, []string{"iqn-1", "iqn-2"}), Lun: int32(g.IntN(2)), ReadOnly: readOnlyNow}
	}
	return volume
}

func (g *gen) ephemeral(pod *v1.Pod, name string, index int) {
	pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{
		VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{Spec: v1.PersistentVolumeClaimSpec{StorageClassName: ptr("wait")}}}}})
	if g.chance(0.15) {
		return
	}
	claim := g.claim(pod, pod.Name+"-"+name, index)
	if g.chance(0.9) {
		claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: ptr(true)}}
	}
}

// claim makes the index-th claim of a pod, bound, waiting or local.
func (g *gen) claim(pod *v1.Pod, name string, index int) *v1.PersistentVolumeClaim {
	class := pick(g, []string{"now", "now", "now", "wait", "local"})
	mode := v1.ReadWriteOnce
	if g.chance(0.16) {
		mode = v1.ReadWriteOncePod
	}
	claim := &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: pod.Namespace, UID: types.UID(fmt.Sprintf("pvc%d", index))},
		Spec: v1.PersistentVolumeClaimSpec{
			AccessModes: []v1.PersistentVolumeAccessMode{mode}, StorageClassName: &class,
			Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: quantity("5Gi")}},
		},
		Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimPending},
	}
	g.objects.PersistentVolumeClaims = append(g.objects.PersistentVolumeClaims, claim)
	switch {
	case class == "now" && g.chance(0.77):
		g.bind(claim, index)
	case class == "local":
		g.localVolumes(claim, index)
	case class == "wait" && g.rarely(0.3):
		claim.Annotations = map[string]string{"volume.kubernetes.io/selected-node": g.nodeName()}
	}
	if g.rarely(0.03) {
		claim.DeletionTimestamp, claim.Finalizers = &metav1.Time{Time: g.moment()}, []string{"kubernetes.io/pvc-protection"}
	}
	if g.rarely(0.02) {
		claim.Status.Phase = v1.ClaimLost
	}
	return claim
}

func (g *gen) bind(claim *v1.PersistentVolumeClaim, index int) {
	name := fmt.Sprintf("pv%d", index)
	volume := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeSpec{
			Capacity: v1.ResourceList{v1.ResourceStorage: quantity("10Gi")}, AccessModes: claim.Spec.AccessModes, StorageClassName: *claim.Spec.StorageClassName,
			ClaimRef:               &v1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: fmt.Sprintf("h%d", index)}},
		},
		Status: v1.PersistentVolumeStatus{Phase: v1.VolumeBound},
	}
	claim.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
	claim.Spec.VolumeName, claim.Status.Phase = name, v1.ClaimBound
	switch {
	case g.chance(0.2):
		volume.Labels = map[string]string{zoneKey: pick(g, zones)}
		if g.rarely(0.3) {
			volume.Labels = map[string]string{zoneKey: "z1__z2", regionKey: "r1"}
		}
		if g.rarely(0.2) {
			volume.Labels = map[string]string{v1.LabelFailureDomainBetaZone: pick(g, zones)}
		}
	case g.chance(0.14):
		volume.Spec.NodeAffinity = requireNodes(zoneKey, some(g, zones, 2)...)
	case g.chance(0.4):
		volume.Spec.NodeAffinity = requireNodes(hostnameKey, g.nodeName())
	}
	if g.rarely(0.15) {
		volume.Spec.CSI = nil
		volume.Spec.AWSElasticBlockStore = &v1.AWSElasticBlockStoreVolumeSource{VolumeID: fmt.Sprintf("vol-%d", index)}
	}
	if g.rarely(0.03) {
		return
	}
	g.objects.PersistentVolumes = append(g.objects.PersistentVolumes, volume)
}

func (g *gen) localVolumes(claim *v1.PersistentVolumeClaim, index int) {
	kept := false // Kubernetes takes either of two volumes that are kept for one claim.
	for _, node := range g.objects.Nodes {
		if !g.chance(0.45) {
			continue
		}
		volume := &v1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("lpv%d-%s", index, node.Name)},
			Spec: v1.PersistentVolumeSpec{
				Capacity:    v1.ResourceList{v1.ResourceStorage: quantity("%dGi", pick(g, []int{3, 3, 8, 8, 20}))},
				AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, StorageClassName: "local",
				PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: "/mnt"}},
				NodeAffinity:           requireNodes(hostnameKey, node.Name),
			},
			Status: v1.PersistentVolumeStatus{Phase: v1.VolumeAvailable},
		}
		if g.rarely(0.1) {
			name := pick(g, []string{claim.Name, "other"})
			if kept {
				name = "other"
			}
			kept = kept || name == claim.Name
			volume.Spec.ClaimRef = &v1.ObjectReference{Namespace: claim.Namespace, Name: name}
		}
		if g.rarely(0.05) {
			volume.Status.Phase = v1.VolumeReleased
		}
		if g.rarely(0.1) {
			volume.Spec.VolumeMode = ptr(v1.PersistentVolumeBlock)
		}
		if g.rarely(0.15) {
			volume.Labels = map[string]string{"kind": "fast"}
		}
		g.objects.PersistentVolumes = append(g.objects.PersistentVolumes, volume)
	}
	if g.rarely(0.1) {
		claim.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"kind": "fast"}}
	}
}

func requireNodes(key string, values ...string) *v1.VolumeNodeAffinity {
	return &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{{Key: key, Operator: v1.NodeSelectorOpIn, Values: values}}}}}}
}
