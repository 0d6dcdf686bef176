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

#[cfg(test)]
mod tests {
    use super::super::testing::{Node, bound_claim, claim_of, objects, pod_of, volume, waiting_class, with};
    use super::*;
    use serde_json::{Value, json};

    fn decide(labels: Value, node: &Node) -> Option<Rejection> {
        let volume = with(volume("pv", "", "1Gi", json!({})), &["metadata", "labels"], labels);
        let objects = objects(&[volume, bound_claim("c", "pv")]);
        match pre_filter(&objects, &pod_of("me", &["c"])) {
            PreFilterOutcome::Skip => None,
            PreFilterOutcome::Continue(state) => filter(&state, node).err(),
            PreFilterOutcome::Reject(rejection) => Some(rejection),
        }
    }

    #[test]
    fn a_node_must_carry_the_zone_or_region_of_the_volume() {
        let conflict = Some(Rejection::unresolvable(REASON_CONFLICT));
        let node = |key: &str, value: &str| Node::new("n").with_label(key, value);
        for (labels, node, expected) in [
            (json!({ZONE: "a"}), node(ZONE, "a"), None),
            (json!({ZONE: "a"}), node(ZONE, "b"), conflict.clone()),
            (json!({ZONE: "a__b"}), node(ZONE, "b"), None),
            (json!({ZONE: "a__"}), node(ZONE, "b"), None),
            (json!({BETA_ZONE: "a"}), node(ZONE, "a"), None),
            (json!({BETA_ZONE: "a"}), node(ZONE, "b"), conflict.clone()),
            (json!({ZONE: "a"}), node(BETA_ZONE, "a"), conflict.clone()),
            (json!({REGION: "r"}), node(ZONE, "a"), conflict.clone()),
            (json!({ZONE: "a", REGION: "r"}), node(ZONE, "a").with_label(REGION, "r"), None),
            (json!({ZONE: "a"}), node("other", "x"), None),
            (json!({}), node(ZONE, "a"), None),
        ] {
            assert_eq!(decide(labels.clone(), &node), expected, "{labels} on {node:?}");
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let now = with(waiting_class("now", "p"), &["volumeBindingMode"], json!("Immediate"));
        let unset = with(waiting_class("unset", "p"), &["volumeBindingMode"], Value::Null);
        let objects = objects(&[
            now,
            unset,
            bound_claim("lost", "gone"),
            claim_of("classless", "", "1Gi"),
            claim_of("unknown", "nowhere", "1Gi"),
            claim_of("unset", "unset", "1Gi"),
            claim_of("now", "now", "1Gi"),
        ]);
        for (claim, reason) in [
            ("none", "persistentvolumeclaim \"none\" not found"),
            ("", "PersistentVolumeClaim had no name"),
            ("lost", "persistentvolume \"gone\" not found"),
            ("classless", "PersistentVolumeClaim had no pv name and storageClass name"),
            ("unknown", "storageclass.storage.k8s.io \"nowhere\" not found"),
            ("unset", "VolumeBindingMode not set for StorageClass \"unset\""),
            ("now", "PersistentVolume had no name"),
        ] {
            let PreFilterOutcome::Reject(rejection) = pre_filter(&objects, &pod_of("me", &[claim])) else {
                panic!("{claim:?} must be refused")
            };
            assert_eq!(rejection, Rejection::unresolvable(reason), "{claim:?}");
        }
    }

    #[test]
    fn claims_that_wait_for_their_pod_are_passed_over() {
        let objects = objects(&[waiting_class("wait", "p"), claim_of("c", "wait", "1Gi")]);
        assert!(matches!(pre_filter(&objects, &pod_of("me", &["c"])), PreFilterOutcome::Skip));
    }
}
