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
