//! VolumeZone: volumes whose labels name a zone or region can be used only by nodes that carry it.

use std::sync::Arc;

use super::migration::{BETA_REGION, BETA_ZONE, REGION, ZONE};
use super::objects::{BindingMode, PersistentVolume};
use super::{NodeView, PodVolumes, PreFilterOutcome, Rejection, StorageObjects, not_found};

/// The plugin's name.
pub const NAME: &str = "VolumeZone";

/// The node is not in a zone or region of one of the pod's volumes.
pub const REASON_CONFLICT: &str = "node(s) had no available volume zone";

/// What PreFilter found: the pod's volumes that name zones.
#[derive(Debug, Clone)]
pub struct State {
    volumes: Vec<Arc<PersistentVolume>>,
}

/// Looks up the volumes behind the pod's claims.
pub fn pre_filter(objects: &StorageObjects, pod: &PodVolumes) -> PreFilterOutcome<State> {
    let mut volumes = Vec::new();
    for name in pod.claim_names() {
        match volume_of(objects, pod.namespace(), name) {
            Ok(Some(volume)) if !volume.zones.is_empty() => volumes.push(Arc::clone(volume)),
            Ok(_) => {}
            Err(reason) => return PreFilterOutcome::Reject(Rejection::unresolvable(reason)),
        }
    }
    if volumes.is_empty() { PreFilterOutcome::Skip } else { PreFilterOutcome::Continue(State { volumes }) }
}

/// The volume of a claim; none for a claim that waits for its pod.
fn volume_of<'a>(
    objects: &'a StorageObjects,
    namespace: &str,
    name: &str,
) -> Result<Option<&'a Arc<PersistentVolume>>, String> {
    if name.is_empty() {
        return Err("PersistentVolumeClaim had no name".to_owned());
    }
    let claim = objects.claim(namespace, name).ok_or_else(|| not_found("persistentvolumeclaim", name))?;
    if !claim.volume_name.is_empty() {
        let volume = objects.volume(&claim.volume_name);
        return volume.map(Some).ok_or_else(|| not_found("persistentvolume", &claim.volume_name));
    }
    if claim.class.is_empty() {
        return Err("PersistentVolumeClaim had no pv name and storageClass name".to_owned());
    }
    let class = objects.class(&claim.class);
    let class = class.ok_or_else(|| not_found("storageclass.storage.k8s.io", &claim.class))?;
    match class.binding_mode {
        None => Err(format!("VolumeBindingMode not set for StorageClass {}", super::quote(&class.name))),
        Some(BindingMode::WaitForFirstConsumer) => Ok(None),
        Some(BindingMode::Immediate) => Err("PersistentVolume had no name".to_owned()),
    }
}

/// Whether the node is where the pod's volumes are. A node without any zone or region can use all of them.
pub fn filter(state: &State, node: &impl NodeView) -> Result<(), Rejection> {
    if [BETA_ZONE, BETA_REGION, ZONE, REGION].into_iter().all(|key| node.label(key).is_none()) {
        return Ok(());
    }
    let fits = state.volumes.iter().flat_map(|volume| &volume.zones).all(|zones| {
        let value = node.label(zones.key).or_else(|| node.label(zones.current_key));
        value.is_some_and(|value| zones.values.contains(value))
    });
    if fits { Ok(()) } else { Err(Rejection::unresolvable(REASON_CONFLICT)) }
}
