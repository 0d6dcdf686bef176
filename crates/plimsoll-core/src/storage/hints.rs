//! Queueing hints: which events could make a pod schedulable that a volume plugin has refused.
//!
//! One function for an event that needs a look at the objects. These always wake a pod the plugin refused:
//!
//! | plugin | event |
//! |---|---|
//! | VolumeRestrictions | Node added |
//! | NodeVolumeLimits | CSINode added |
//! | VolumeBinding | PersistentVolume added or updated, Node added or its labels updated |
//! | VolumeZone | Node added or its labels updated |
//!
//! An event that is in neither place wakes nothing.

use super::objects::{
    BindingMode, CsiDriver, CsiNode, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass,
    VolumeAttachment,
};
use super::pod::PodVolume;
use super::{PodVolumes, restrictions};

/// Whether to try a pod again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueingHint {
    /// The event cannot help.
    Skip,
    /// The event may help.
    Queue,
}

impl From<bool> for QueueingHint {
    fn from(may_help: bool) -> Self {
        if may_help { Self::Queue } else { Self::Skip }
    }
}

fn names_claim(pod: &PodVolumes, claim: &PersistentVolumeClaim) -> bool {
    pod.namespace() == &*claim.namespace && pod.claim_names().any(|name| name == &*claim.name)
}

fn uses_claim(pod: &PodVolumes, claim: &PersistentVolumeClaim) -> bool {
    pod.namespace() == &*claim.namespace && pod.all_claim_names().any(|(name, _)| name == &*claim.name)
}

/// Hints of VolumeRestrictions.
pub mod volume_restrictions {
    use super::*;

    /// A pod was deleted: it may have held a disk or an exclusive claim. Pods of other namespaces are not looked at.
    pub fn after_pod_deleted(pod: &PodVolumes, deleted: &PodVolumes) -> QueueingHint {
        let shares_claim = || deleted.claim_names().any(|name| pod.claim_names().any(|mine| mine == name));
        let same_namespace = pod.namespace() == deleted.namespace();
        (same_namespace && (restrictions::disks_conflict(pod, deleted) || shares_claim())).into()
    }

    /// A PersistentVolumeClaim was added.
    pub fn after_claim_added(pod: &PodVolumes, claim: &PersistentVolumeClaim) -> QueueingHint {
        names_claim(pod, claim).into()
    }
}

/// Hints of NodeVolumeLimits.
pub mod node_volume_limits {
    use super::*;

    /// A CSINode was updated: a limit may have grown.
    pub fn after_csi_node_updated(old: &CsiNode, new: &CsiNode) -> QueueingHint {
        let before =
            |driver: &str| old.drivers.iter().rev().find(|(name, _)| **name == *driver).and_then(|(_, count)| *count);
        let grown = |(driver, count): &(Box<str>, Option<i32>)| count.unwrap_or(0) > before(driver).unwrap_or(0);
        new.drivers.iter().any(grown).into()
    }

    /// A pod was deleted; `was_placed` tells whether it was on a node or nominated to one.
    pub fn after_pod_deleted(deleted: &PodVolumes, was_placed: bool) -> QueueingHint {
        let counts = |volume: &PodVolume| {
            matches!(volume, PodVolume::Claim(_) | PodVolume::Ephemeral(_) | PodVolume::Migratable { .. })
        };
        (was_placed && deleted.iter().any(counts)).into()
    }

    /// A PersistentVolumeClaim was added.
    pub fn after_claim_added(pod: &PodVolumes, claim: &PersistentVolumeClaim) -> QueueingHint {
        uses_claim(pod, claim).into()
    }

    /// A VolumeAttachment was deleted.
    pub fn after_attachment_deleted(pod: &PodVolumes, deleted: &VolumeAttachment) -> QueueingHint {
        pod.iter()
            .any(|volume| match volume {
                PodVolume::Claim(_) => true,
                PodVolume::Migratable { plugin, handle, .. } => {
                    handle.is_err() || *deleted.attacher == *plugin.driver()
                }
                _ => false,
            })
            .into()
    }
}

/// Hints of VolumeBinding.
pub mod volume_binding {
    use super::*;

    /// A StorageClass was added or updated.
    pub fn after_class_changed(old: Option<&StorageClass>, new: &StorageClass) -> QueueingHint {
        old.is_none_or(|old| old.allowed_topologies != new.allowed_topologies).into()
    }

    /// A PersistentVolumeClaim was added or updated.
    pub fn after_claim_changed(pod: &PodVolumes, claim: &PersistentVolumeClaim) -> QueueingHint {
        uses_claim(pod, claim).into()
    }

    /// A CSINode was added or updated: which in-tree volumes it serves through CSI may have changed.
    pub fn after_csi_node_changed(old: Option<&CsiNode>, new: &CsiNode) -> QueueingHint {
        old.is_none_or(|old| old.migrated_plugins != new.migrated_plugins).into()
    }

    /// A CSIDriver was updated: capacity may no longer be checked. Only volumes written into the pod are looked at.
    pub fn after_csi_driver_updated(pod: &PodVolumes, old: &CsiDriver, new: &CsiDriver) -> QueueingHint {
        let uses_driver = |volume: &PodVolume| matches!(volume, PodVolume::Csi(driver) if *driver == new.name);
        (old.storage_capacity && !new.storage_capacity && pod.iter().any(uses_driver)).into()
    }

    /// A CSIStorageCapacity was added or updated.
    pub fn after_capacity_changed(old: Option<&CsiStorageCapacity>, new: &CsiStorageCapacity) -> QueueingHint {
        // `None` is less than any limit.
        old.is_none_or(|old| new.limit > old.limit).into()
    }
}

/// Hints of VolumeZone.
pub mod volume_zone {
    use super::*;

    /// A StorageClass was added: claims of it may be passed over until a pod is scheduled.
    pub fn after_class_added(class: &StorageClass) -> QueueingHint {
        (class.binding_mode == Some(BindingMode::WaitForFirstConsumer)).into()
    }

    /// A PersistentVolumeClaim was added or updated.
    pub fn after_claim_changed(pod: &PodVolumes, claim: &PersistentVolumeClaim) -> QueueingHint {
        names_claim(pod, claim).into()
    }

    /// A PersistentVolume was added or updated.
    pub fn after_volume_changed(old: Option<&PersistentVolume>, new: &PersistentVolume) -> QueueingHint {
        old.is_none_or(|old| old.zones != new.zones).into()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{
        attachment, capacity, claim_of, csi_driver, csi_node, objects, pod, pod_of, volume, waiting_class, with,
    };
    use super::QueueingHint::{Queue, Skip};
    use super::*;
    use serde_json::{Value, json};

    fn claim(name: &str) -> PersistentVolumeClaim {
        let objects = objects(&[claim_of(name, "", "1Gi")]);
        objects.claim("default", name).unwrap().as_ref().clone()
    }

    #[test]
    fn a_deleted_pod_helps_if_it_held_a_disk_or_claim_of_the_same_namespace() {
        let ebs = |namespace: &str, id: &str| pod(namespace, "p", &[json!({"awsElasticBlockStore": {"volumeID": id}})]);
        use volume_restrictions::after_pod_deleted as hint;
        assert_eq!(hint(&ebs("default", "v"), &ebs("default", "v")), Queue);
        assert_eq!(hint(&ebs("default", "v"), &ebs("other", "v")), Skip);
        assert_eq!(hint(&ebs("default", "v"), &ebs("default", "w")), Skip);
        assert_eq!(hint(&pod_of("me", &["c", "d"]), &pod_of("x", &["d"])), Queue);
        assert_eq!(hint(&pod_of("me", &["c"]), &pod_of("x", &["d"])), Skip);
        assert_eq!(hint(&pod_of("me", &["c"]), &PodVolumes::default()), Skip);
    }

    #[test]
    fn claims_help_the_pods_that_use_them() {
        let named = pod_of("me", &["me-v0"]);
        let ephemeral = pod("default", "me", &[json!({"ephemeral": {}})]);
        let foreign = pod("other", "me", &[json!({"persistentVolumeClaim": {"claimName": "me-v0"}})]);
        let claim = claim("me-v0");
        for (pod, by_name, by_use) in [(&named, Queue, Queue), (&ephemeral, Skip, Queue), (&foreign, Skip, Skip)] {
            assert_eq!(volume_restrictions::after_claim_added(pod, &claim), by_name, "{pod:?}");
            assert_eq!(volume_zone::after_claim_changed(pod, &claim), by_name, "{pod:?}");
            assert_eq!(node_volume_limits::after_claim_added(pod, &claim), by_use, "{pod:?}");
            assert_eq!(volume_binding::after_claim_changed(pod, &claim), by_use, "{pod:?}");
        }
    }

    #[test]
    fn limits_that_grow_help() {
        let node = |drivers: &[(&str, Option<i32>)]| {
            objects(&[csi_node("n", drivers)]).csi_node("n").unwrap().as_ref().clone()
        };
        for (old, new, expected) in [
            (node(&[("d", Some(1))]), node(&[("d", Some(2))]), Queue),
            (node(&[("d", Some(2))]), node(&[("d", Some(1))]), Skip),
            (node(&[]), node(&[("d", Some(1))]), Queue),
            (node(&[("d", Some(1))]), node(&[("d", None)]), Skip),
            (node(&[("d", Some(1))]), node(&[]), Skip),
        ] {
            assert_eq!(node_volume_limits::after_csi_node_updated(&old, &new), expected, "{old:?} {new:?}");
        }
    }

    #[test]
    fn placed_pods_free_places_for_volumes() {
        use node_volume_limits::after_pod_deleted as hint;
        let cinder = pod("default", "p", &[json!({"cinder": {"volumeID": "v"}})]);
        assert_eq!(hint(&pod_of("p", &["c"]), true), Queue);
        assert_eq!(hint(&pod_of("p", &["c"]), false), Skip);
        assert_eq!(hint(&cinder, true), Queue);
        assert_eq!(hint(&pod("default", "p", &[json!({"csi": {"driver": "d"}})]), true), Skip);
        assert_eq!(hint(&PodVolumes::default(), true), Skip);
    }

    #[test]
    fn detached_volumes_help_pods_with_claims_or_volumes_of_the_driver() {
        let detached = VolumeAttachment::compile(
            &serde_json::from_value(attachment("a", "n", "cinder.csi.openstack.org", "pv")).unwrap(),
        )
        .unwrap();
        let hint =
            |source: Value| node_volume_limits::after_attachment_deleted(&pod("default", "p", &[source]), &detached);
        assert_eq!(hint(json!({"persistentVolumeClaim": {"claimName": "c"}})), Queue);
        assert_eq!(hint(json!({"cinder": {"volumeID": "v"}})), Queue);
        assert_eq!(hint(json!({"portworxVolume": {"volumeID": "v"}})), Skip);
        assert_eq!(hint(json!({"ephemeral": {}})), Skip);
    }

    #[test]
    fn classes_help_when_new_or_when_their_topologies_change() {
        let class = |object: &Value| StorageClass::compile(&serde_json::from_value(object.clone()).unwrap()).unwrap();
        let plain = waiting_class("c", "p");
        let terms = json!([{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}]);
        let narrow = with(plain.clone(), &["allowedTopologies"], terms);
        let empty = with(plain.clone(), &["allowedTopologies"], json!([]));
        let other = with(plain.clone(), &["provisioner"], json!("q"));
        let changed = |new: &Value| volume_binding::after_class_changed(Some(&class(&plain)), &class(new));
        assert_eq!(volume_binding::after_class_changed(None, &class(&plain)), Queue);
        assert_eq!((changed(&narrow), changed(&empty), changed(&other)), (Queue, Skip, Skip));
        let now = with(plain.clone(), &["volumeBindingMode"], json!("Immediate"));
        assert_eq!(volume_zone::after_class_added(&class(&plain)), Queue);
        assert_eq!(volume_zone::after_class_added(&class(&now)), Skip);
    }

    #[test]
    fn nodes_that_migrate_plugins_help() {
        let node = |plugins: &str| {
            let annotations = json!({"storage.alpha.kubernetes.io/migrated-plugins": plugins});
            let api = with(csi_node("n", &[]), &["metadata", "annotations"], annotations);
            CsiNode::compile(&serde_json::from_value(api).unwrap()).unwrap()
        };
        use volume_binding::after_csi_node_changed as hint;
        assert_eq!(hint(None, &node("")), Queue);
        assert_eq!(hint(Some(&node("")), &node("kubernetes.io/cinder")), Queue);
        assert_eq!(hint(Some(&node("kubernetes.io/cinder")), &node("kubernetes.io/cinder")), Skip);
    }

    #[test]
    fn drivers_that_stop_publishing_capacity_help_pods_with_their_inline_volumes() {
        let driver =
            |publishes| CsiDriver::compile(&serde_json::from_value(csi_driver("d", publishes)).unwrap()).unwrap();
        let me = pod("default", "me", &[json!({"csi": {"driver": "d"}})]);
        use volume_binding::after_csi_driver_updated as hint;
        assert_eq!(hint(&me, &driver(true), &driver(false)), Queue);
        assert_eq!(hint(&me, &driver(false), &driver(true)), Skip);
        assert_eq!(hint(&pod_of("me", &["c"]), &driver(true), &driver(false)), Skip);
    }

    #[test]
    fn capacity_that_is_new_or_grows_helps() {
        let limit = |fields: Value| {
            let mut api = capacity("x", "c", "1Gi", json!({}));
            for (key, value) in fields.as_object().unwrap() {
                api[key] = value.clone();
            }
            CsiStorageCapacity::compile(&serde_json::from_value(api).unwrap()).unwrap()
        };
        let (one, two) = (limit(json!({})), limit(json!({"capacity": "2Gi"})));
        let capped = limit(json!({"capacity": "2Gi", "maximumVolumeSize": "1Gi"}));
        let unknown = limit(json!({"capacity": null}));
        use volume_binding::after_capacity_changed as hint;
        assert_eq!(hint(None, &unknown), Queue);
        for (old, new, expected) in [
            (&one, &two, Queue),
            (&two, &one, Skip),
            (&one, &capped, Skip),
            (&unknown, &one, Queue),
            (&one, &unknown, Skip),
        ] {
            assert_eq!(hint(Some(old), new), expected, "{old:?} {new:?}");
        }
    }

    #[test]
    fn volumes_help_when_new_or_when_their_zones_change() {
        let zoned = |labels: Value| {
            let api = with(volume("pv", "", "1Gi", json!({})), &["metadata", "labels"], labels);
            PersistentVolume::compile(&serde_json::from_value(api).unwrap()).unwrap()
        };
        let zone = "topology.kubernetes.io/zone";
        use volume_zone::after_volume_changed as hint;
        assert_eq!(hint(None, &zoned(json!({}))), Queue);
        assert_eq!(hint(Some(&zoned(json!({zone: "a"}))), &zoned(json!({zone: "a__b"}))), Queue);
        assert_eq!(hint(Some(&zoned(json!({zone: "a"}))), &zoned(json!({zone: "a", "x": "y"}))), Skip);
    }
}
