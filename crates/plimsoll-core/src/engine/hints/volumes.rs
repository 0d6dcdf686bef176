//! The volume plugins; their verdicts are those of [`crate::storage::hints`].

use super::Waiting;
use crate::config::PluginName;
use crate::engine::change::Changed;
use crate::storage::PodVolumes;
use crate::storage::hints::{QueueingHint, node_volume_limits, volume_binding, volume_restrictions, volume_zone};

/// The verdict of a volume plugin on a change it registered for.
pub fn may_help(plugin: PluginName, waiting: &Waiting<'_>, changed: &Changed) -> bool {
    let none = PodVolumes::default();
    let pod = waiting.shape.volumes.as_deref().unwrap_or(&none);
    let hint = match plugin {
        PluginName::VolumeRestrictions => after_restriction(pod, changed),
        PluginName::NodeVolumeLimits => after_limit(pod, changed),
        PluginName::VolumeBinding => after_binding(pod, changed),
        PluginName::VolumeZone => after_zone(pod, changed),
        _ => None,
    };
    hint != Some(QueueingHint::Skip)
}

fn after_restriction(pod: &PodVolumes, changed: &Changed) -> Option<QueueingHint> {
    match changed {
        Changed::Pod { old: Some(deleted), .. } => Some(match &deleted.shape.volumes {
            Some(volumes) => volume_restrictions::after_pod_deleted(pod, volumes),
            None => QueueingHint::Skip,
        }),
        Changed::PersistentVolumeClaim(claim) => {
            Some(volume_restrictions::after_claim_added(pod, claim.new.as_deref()?))
        }
        _ => None,
    }
}

fn after_limit(pod: &PodVolumes, changed: &Changed) -> Option<QueueingHint> {
    match changed {
        Changed::Pod { old: Some(deleted), .. } => Some(match &deleted.shape.volumes {
            Some(volumes) => node_volume_limits::after_pod_deleted(volumes, deleted.takes_room()),
            None => QueueingHint::Skip,
        }),
        Changed::CsiNode(node) => {
            Some(node_volume_limits::after_csi_node_updated(node.old.as_deref()?, node.new.as_deref()?))
        }
        Changed::PersistentVolumeClaim(claim) => {
            Some(node_volume_limits::after_claim_added(pod, claim.new.as_deref()?))
        }
        Changed::VolumeAttachment(attachment) => {
            Some(node_volume_limits::after_attachment_deleted(pod, attachment.old.as_deref()?))
        }
        _ => None,
    }
}

fn after_binding(pod: &PodVolumes, changed: &Changed) -> Option<QueueingHint> {
    Some(match changed {
        Changed::StorageClass(class) => {
            volume_binding::after_class_changed(class.old.as_deref(), class.new.as_deref()?)
        }
        Changed::PersistentVolumeClaim(claim) => volume_binding::after_claim_changed(pod, claim.new.as_deref()?),
        Changed::CsiNode(node) => volume_binding::after_csi_node_changed(node.old.as_deref(), node.new.as_deref()?),
        Changed::CsiDriver(driver) => {
            volume_binding::after_csi_driver_updated(pod, driver.old.as_deref()?, driver.new.as_deref()?)
        }
        Changed::CsiStorageCapacity(capacity) => {
            volume_binding::after_capacity_changed(capacity.old.as_deref(), capacity.new.as_deref()?)
        }
        _ => return None,
    })
}

fn after_zone(pod: &PodVolumes, changed: &Changed) -> Option<QueueingHint> {
    Some(match changed {
        Changed::StorageClass(class) => volume_zone::after_class_added(class.new.as_deref()?),
        Changed::PersistentVolumeClaim(claim) => volume_zone::after_claim_changed(pod, claim.new.as_deref()?),
        Changed::PersistentVolume(volume) => {
            volume_zone::after_volume_changed(volume.old.as_deref(), volume.new.as_deref()?)
        }
        _ => return None,
    })
}
