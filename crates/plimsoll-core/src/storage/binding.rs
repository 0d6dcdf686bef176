//! VolumeBinding: bound claims must be reachable from the node, unbound ones must find a volume or be provisioned there.

use std::sync::Arc;

use super::matching::UnboundClaim;
use super::objects::{BindingMode, PersistentVolume, PersistentVolumeClaim, StorageClass};
use super::{Code, NodeView, PodVolumes, PreFilterOutcome, Rejection, StorageObjects, not_found, quote};

/// The plugin's name.
pub const NAME: &str = "VolumeBinding";

/// No volume can be bound or provisioned on the node for some claim.
pub const REASON_BIND_CONFLICT: &str = "node(s) didn't find available persistent volumes to bind";
/// A volume of the pod cannot be used from the node.
pub const REASON_NODE_CONFLICT: &str = "node(s) didn't match PersistentVolume's node affinity";
/// The driver cannot provision a volume of the size on the node.
pub const REASON_NOT_ENOUGH_SPACE: &str = "node(s) did not have enough free storage";
/// A claim is bound to a volume that does not exist.
pub const REASON_VOLUME_NOT_EXIST: &str = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
/// A claim that is bound without regard to pods is not bound yet.
pub const REASON_UNBOUND_IMMEDIATE: &str = "pod has unbound immediate PersistentVolumeClaims";

/// What PreFilter found: the pod's claims and what does not depend on the node.
#[derive(Debug, Clone)]
pub struct State {
    /// The volumes of bound claims; nothing where the volume does not exist.
    bound: Vec<Option<Arc<PersistentVolume>>>,
    /// Claims whose volume is already being provisioned for a node, in the pod's order.
    selected: Vec<UnboundClaim>,
    /// The other claims that wait for the pod, smallest first.
    unbound: Vec<UnboundClaim>,
}

/// What is to happen to the pod's claims if it goes to a node.
#[derive(Debug, Clone, Default)]
pub(super) struct NodeVolumes {
    /// Claims and the volumes they are to be bound to.
    pub(super) bindings: Vec<(Arc<PersistentVolumeClaim>, Arc<PersistentVolume>)>,
    /// Claims to be provisioned for the node.
    pub(super) provisions: Vec<Arc<PersistentVolumeClaim>>,
}

impl State {
    /// Whether nothing is left to be bound.
    pub(super) fn all_bound(&self) -> bool {
        self.selected.is_empty() && self.unbound.is_empty()
    }
}

/// Looks up the pod's claims and sorts them into bound and waiting.
pub fn pre_filter(objects: &StorageObjects, pod: &PodVolumes) -> PreFilterOutcome<State> {
    match check_claims(objects, pod) {
        Ok(true) => {}
        Ok(false) => return PreFilterOutcome::Skip,
        Err(reason) => return PreFilterOutcome::Reject(Rejection::unresolvable(reason)),
    }
    match sort_claims(objects, pod) {
        Ok(Some(state)) => PreFilterOutcome::Continue(state),
        Ok(None) => PreFilterOutcome::Reject(Rejection::unresolvable(REASON_UNBOUND_IMMEDIATE)),
        Err(reason) => PreFilterOutcome::Reject(Rejection::error(reason)),
    }
}

/// Whether the pod has claims; the error is what makes one of them unusable.
fn check_claims(objects: &StorageObjects, pod: &PodVolumes) -> Result<bool, String> {
    let mut any = false;
    for (name, is_ephemeral) in pod.all_claim_names() {
        any = true;
        let Some(claim) = objects.claim(pod.namespace(), name) else {
            return Err(if is_ephemeral {
                let claim = quote(name);
                format!("waiting for ephemeral volume controller to create the persistentvolumeclaim {claim}")
            } else {
                not_found("persistentvolumeclaim", name)
            });
        };
        if claim.lost {
            return Err(format!(
                "persistentvolumeclaim {} bound to non-existent persistentvolume {}",
                quote(name),
                quote(&claim.volume_name)
            ));
        }
        if claim.deleting {
            return Err(format!("persistentvolumeclaim {} is being deleted", quote(name)));
        }
        if is_ephemeral {
            pod.check_owner(name, claim.controller.as_deref())?;
        }
    }
    Ok(any)
}

/// Sorts claims into bound and waiting; nothing if one should have been bound already.
fn sort_claims(objects: &StorageObjects, pod: &PodVolumes) -> Result<Option<State>, String> {
    let mut state = State { bound: Vec::new(), selected: Vec::new(), unbound: Vec::new() };
    let mut waiting = Vec::new();
    let mut all_immediate_bound = true;
    for (name, _) in pod.all_claim_names() {
        let Some(claim) = objects.claim(pod.namespace(), name) else { continue };
        if claim.is_fully_bound() {
            state.bound.push(objects.volume(&claim.volume_name).cloned());
            continue;
        }
        match waiting_class(objects, claim)? {
            Some(class) if claim.volume_name.is_empty() => waiting.push((claim, class)),
            _ => all_immediate_bound = false,
        }
    }
    if !all_immediate_bound {
        return Ok(None);
    }
    let count = waiting.len();
    for (claim, class) in waiting {
        let unbound = UnboundClaim::new(objects, claim, class, count);
        if unbound.selected_node.is_some() {
            state.selected.push(unbound);
        } else {
            state.unbound.push(unbound);
        }
    }
    state.unbound.sort_by_key(UnboundClaim::request);
    Ok(Some(state))
}

/// The class of a claim if claims of the class wait for their pod.
fn waiting_class<'a>(
    objects: &'a StorageObjects,
    claim: &PersistentVolumeClaim,
) -> Result<Option<&'a Arc<StorageClass>>, String> {
    if claim.class.is_empty() {
        return Ok(None);
    }
    let Some(class) = objects.class(&claim.class) else { return Ok(None) };
    match class.binding_mode {
        None => Err(format!("VolumeBindingMode not set for StorageClass {}", quote(&class.name))),
        Some(BindingMode::Immediate) => Ok(None),
        Some(BindingMode::WaitForFirstConsumer) => Ok(Some(class)),
    }
}

/// Whether the node can serve all of the pod's claims.
pub fn filter(objects: &StorageObjects, state: &State, node: &impl NodeView) -> Result<(), Rejection> {
    find(objects, state, node).map(|_| ())
}

/// Decides what is to happen to the pod's claims on a node.
pub(super) fn find(objects: &StorageObjects, state: &State, node: &impl NodeView) -> Result<NodeVolumes, Rejection> {
    let mut volumes = NodeVolumes::default();
    let bound = check_bound(objects, state, node)?;
    let unbound = place_unbound(objects, state, node, &mut volumes)?;
    let reasons: Vec<_> = [
        bound.filter(|reason| *reason == REASON_NODE_CONFLICT),
        unbound,
        bound.filter(|reason| *reason == REASON_VOLUME_NOT_EXIST),
    ]
    .into_iter()
    .flatten()
    .map(Into::into)
    .collect();
    if reasons.is_empty() { Ok(volumes) } else { Err(Rejection { code: Code::UnschedulableAndUnresolvable, reasons }) }
}

/// What keeps the node from the volumes of bound claims, if anything.
fn check_bound(
    objects: &StorageObjects,
    state: &State,
    node: &impl NodeView,
) -> Result<Option<&'static str>, Rejection> {
    for volume in &state.bound {
        let Some(volume) = volume else { return Ok(Some(REASON_VOLUME_NOT_EXIST)) };
        if !is_reachable(objects, volume, node).map_err(Rejection::error)? {
            return Ok(Some(REASON_NODE_CONFLICT));
        }
    }
    Ok(None)
}

/// Whether a volume can be used from a node, by the affinity of its CSI view where the node serves it through CSI.
pub(super) fn is_reachable(
    objects: &StorageObjects,
    volume: &PersistentVolume,
    node: &impl NodeView,
) -> Result<bool, String> {
    let mut affinity = &volume.node_affinity;
    if let Some(translated) = &volume.translated
        && translated.plugin.is_migrated()
        && objects.csi_node(node.name()).is_some_and(|csi_node| csi_node.serves_migrated(translated.plugin))
    {
        if let Err(problem) = &translated.handle {
            return Err(format!("could not translate pv: {problem}"));
        }
        affinity = &translated.node_affinity;
    }
    Ok(affinity.as_ref().is_none_or(|affinity| affinity.matches(&|key| node.label(key))))
}

/// Finds volumes for waiting claims, or has them provisioned; the inner value is the reason why that cannot be.
fn place_unbound(
    objects: &StorageObjects,
    state: &State,
    node: &impl NodeView,
    volumes: &mut NodeVolumes,
) -> Result<Option<&'static str>, Rejection> {
    if state.selected.iter().any(|claim| claim.selected_node.as_deref() != Some(node.name())) {
        return Ok(Some(REASON_BIND_CONFLICT));
    }
    let mut to_provision: Vec<&UnboundClaim> = state.selected.iter().collect();
    for unbound in &state.unbound {
        if let Some(Err(problem)) = &unbound.claim.selector {
            return Err(Rejection::error(format!(
                "error creating internal label selector for claim: {}/{}: {problem}",
                unbound.claim.namespace, unbound.claim.name
            )));
        }
        let taken: Vec<&str> = volumes.bindings.iter().map(|(_, volume)| &*volume.name).collect();
        match unbound.find_volume(objects, node, &taken) {
            Some(volume) => volumes.bindings.push((Arc::clone(&unbound.claim), Arc::clone(volume))),
            None => to_provision.push(unbound),
        }
    }
    for unbound in to_provision {
        if let Err(reason) = unbound.check_provision(node) {
            return Ok(Some(reason));
        }
        volumes.provisions.push(Arc::clone(&unbound.claim));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{
        Node, bound_claim, capacity, claim_of, csi_driver, csi_node, objects, on, pod, pod_of, volume, waiting_class,
        with,
    };
    use super::*;
    use serde_json::{Value, json};

    const HOST: &str = "kubernetes.io/hostname";

    fn node(name: &str) -> Node {
        Node::new(name).with_label(HOST, name)
    }

    fn refused(list: &[Value], pod: &PodVolumes) -> Rejection {
        match pre_filter(&objects(list), pod) {
            PreFilterOutcome::Reject(rejection) => rejection,
            other => panic!("expected a refusal, got {other:?}"),
        }
    }

    /// The bindings `claim=volume` and provisions `claim` for a pod on a node.
    fn found(list: &[Value], pod: &PodVolumes, node: &Node) -> Result<Vec<String>, Rejection> {
        let objects = objects(list);
        let PreFilterOutcome::Continue(state) = pre_filter(&objects, pod) else { panic!("expected a state") };
        let volumes = find(&objects, &state, node)?;
        let bindings = volumes.bindings.iter().map(|(claim, volume)| format!("{}={}", claim.name, volume.name));
        Ok(bindings.chain(volumes.provisions.iter().map(|claim| claim.name.to_string())).collect())
    }

    fn no(reasons: &[&'static str]) -> Result<Vec<String>, Rejection> {
        let reasons = reasons.iter().map(|reason| (*reason).into()).collect();
        Err(Rejection { code: Code::UnschedulableAndUnresolvable, reasons })
    }

    #[test]
    fn claims_that_cannot_be_used_are_named() {
        let lost = with(bound_claim("c", "pv"), &["status"], json!({"phase": "Lost"}));
        let deleting = with(bound_claim("c", "pv"), &["metadata", "deletionTimestamp"], json!("2026-01-01T00:00:00Z"));
        let unset = with(waiting_class("unset", "p"), &["volumeBindingMode"], Value::Null);
        let me = pod_of("me", &["c"]);
        for (list, expected) in [
            (vec![], Rejection::unresolvable("persistentvolumeclaim \"c\" not found")),
            (
                vec![lost],
                Rejection::unresolvable("persistentvolumeclaim \"c\" bound to non-existent persistentvolume \"pv\""),
            ),
            (vec![deleting], Rejection::unresolvable("persistentvolumeclaim \"c\" is being deleted")),
            (vec![claim_of("c", "", "1Gi")], Rejection::unresolvable(REASON_UNBOUND_IMMEDIATE)),
            (vec![claim_of("c", "gone", "1Gi")], Rejection::unresolvable(REASON_UNBOUND_IMMEDIATE)),
            (
                vec![unset, claim_of("c", "unset", "1Gi")],
                Rejection::error("VolumeBindingMode not set for StorageClass \"unset\""),
            ),
        ] {
            assert_eq!(refused(&list, &me), expected, "{list:?}");
        }
    }

    #[test]
    fn ephemeral_claims_must_exist_and_be_the_pods_own() {
        let me = pod("default", "me", &[json!({"ephemeral": {}})]);
        let waiting = "waiting for ephemeral volume controller to create the persistentvolumeclaim \"me-v0\"";
        assert_eq!(refused(&[], &me), Rejection::unresolvable(waiting));
        let not_owner = "PVC default/me-v0 was not created for pod default/me (pod is not owner)";
        assert_eq!(refused(&[bound_claim("me-v0", "pv")], &me), Rejection::unresolvable(not_owner));
    }

    #[test]
    fn a_claim_that_asks_for_a_volume_by_name_is_left_to_the_controller() {
        let claim = with(claim_of("c", "wait", "1Gi"), &["spec", "volumeName"], json!("pv"));
        let list = [waiting_class("wait", "p"), claim];
        assert_eq!(refused(&list, &pod_of("me", &["c"])), Rejection::unresolvable(REASON_UNBOUND_IMMEDIATE));
    }

    #[test]
    fn bound_volumes_must_exist_and_be_reachable() {
        let list = [bound_claim("c", "pv"), volume("pv", "", "1Gi", on(HOST, &["n1"]))];
        let me = pod_of("me", &["c"]);
        assert_eq!(found(&list, &me, &node("n1")), Ok(vec![]));
        assert_eq!(found(&list, &me, &node("n2")), no(&[REASON_NODE_CONFLICT]));
        assert_eq!(found(&list[..1], &me, &node("n1")), no(&[REASON_VOLUME_NOT_EXIST]));
    }

    #[test]
    fn a_migrated_volume_is_reachable_by_its_drivers_labels() {
        let mut spec = on(super::super::migration::ZONE, &["a"]);
        spec["awsElasticBlockStore"] = json!({"volumeID": "v"});
        let annotations =
            json!({"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/gce-pd,kubernetes.io/aws-ebs"});
        let migrated = with(csi_node("n", &[]), &["metadata", "annotations"], annotations);
        let list = [bound_claim("c", "pv"), volume("pv", "", "1Gi", spec), migrated];
        let me = pod_of("me", &["c"]);
        let by_driver = Node::new("n").with_label("topology.ebs.csi.aws.com/zone", "a");
        let by_zone = Node::new("n").with_label(super::super::migration::ZONE, "a");
        assert_eq!(found(&list, &me, &by_driver), Ok(vec![]));
        assert_eq!(found(&list, &me, &by_zone), no(&[REASON_NODE_CONFLICT]));
        assert_eq!(found(&list[..2], &me, &by_zone), Ok(vec![]), "the node does not serve it through CSI");
    }

    #[test]
    fn the_smallest_suitable_volume_is_taken() {
        let list = [
            waiting_class("local", "kubernetes.io/no-provisioner"),
            claim_of("c", "local", "2Gi"),
            volume("tiny", "local", "1Gi", json!({})),
            volume("large", "local", "9Gi", json!({})),
            volume("medium", "local", "4Gi", on(HOST, &["n1"])),
            volume("exact", "local", "2048Mi", on(HOST, &["n2"])),
            volume("foreign", "other", "2Gi", json!({})),
            volume("block", "local", "2Gi", json!({"volumeMode": "Block"})),
            volume("gold", "local", "2Gi", json!({"volumeAttributesClassName": "gold"})),
            volume("shared", "local", "2Gi", json!({"accessModes": ["ReadOnlyMany"]})),
            with(volume("released", "local", "2Gi", json!({})), &["status", "phase"], json!("Released")),
            with(
                volume("deleting", "local", "2Gi", json!({})),
                &["metadata", "deletionTimestamp"],
                json!("2026-01-01T00:00:00Z"),
            ),
            volume("taken", "local", "2Gi", json!({"claimRef": {"namespace": "default", "name": "x"}})),
        ];
        let me = pod_of("me", &["c"]);
        assert_eq!(found(&list, &me, &node("n1")), Ok(vec!["c=medium".into()]));
        assert_eq!(found(&list, &me, &node("n2")), Ok(vec!["c=exact".into()]));
        assert_eq!(found(&list, &me, &node("n3")), Ok(vec!["c=large".into()]));
        assert_eq!(found(&list[..3], &me, &node("n1")), no(&[REASON_BIND_CONFLICT]));
    }

    #[test]
    fn a_selector_narrows_the_choice_and_a_senseless_one_is_an_error() {
        let claim = |selector: Value| with(claim_of("c", "local", "1Gi"), &["spec", "selector"], selector);
        let labels = json!({"tier": "gold"});
        let list = |selector: Value| {
            [
                waiting_class("local", "kubernetes.io/no-provisioner"),
                claim(selector),
                volume("plain", "local", "1Gi", json!({})),
                with(volume("gold", "local", "5Gi", json!({})), &["metadata", "labels"], labels.clone()),
            ]
        };
        let me = pod_of("me", &["c"]);
        assert_eq!(found(&list(json!({"matchLabels": labels})), &me, &node("n")), Ok(vec!["c=gold".into()]));
        let senseless = list(json!({"matchExpressions": [{"key": "tier", "operator": "Near"}]}));
        let problem = "error creating internal label selector for claim: default/c: \
                       \"Near\" is not a valid label selector operator";
        assert_eq!(found(&senseless, &me, &node("n")), Err(Rejection::error(problem)));
    }

    #[test]
    fn a_volume_kept_for_the_claim_is_taken_or_nothing() {
        let kept = |uid: &str| {
            let mut spec = on(HOST, &["n1"]);
            spec["claimRef"] = json!({"namespace": "default", "name": "c", "uid": uid});
            volume("kept", "local", "8Gi", spec)
        };
        let list = |kept: Value| {
            [
                waiting_class("local", "kubernetes.io/no-provisioner"),
                claim_of("c", "local", "1Gi"),
                volume("small", "local", "1Gi", json!({})),
                kept,
            ]
        };
        let me = pod_of("me", &["c"]);
        for uid in ["", "uid-c"] {
            assert_eq!(found(&list(kept(uid)), &me, &node("n1")), Ok(vec!["c=kept".into()]), "{uid:?}");
            assert_eq!(found(&list(kept(uid)), &me, &node("n2")), no(&[REASON_BIND_CONFLICT]), "{uid:?}");
        }
        let of_an_older_claim = list(kept("uid-old"));
        assert_eq!(found(&of_an_older_claim, &me, &node("n1")), Ok(vec!["c=small".into()]));
    }

    #[test]
    fn claims_are_served_smallest_first_and_never_from_one_volume() {
        let list = [
            waiting_class("local", "kubernetes.io/no-provisioner"),
            claim_of("large", "local", "3Gi"),
            claim_of("small", "local", "1Gi"),
            volume("a", "local", "4Gi", json!({})),
            volume("b", "local", "5Gi", on(HOST, &["n"])),
        ];
        let me = pod_of("me", &["large", "small"]);
        assert_eq!(found(&list, &me, &node("n")), Ok(vec!["small=a".into(), "large=b".into()]));
        assert_eq!(found(&list, &me, &node("m")), no(&[REASON_BIND_CONFLICT]));
        let twice = pod_of("me", &["small", "small"]);
        assert_eq!(found(&list, &twice, &node("n")), Ok(vec!["small=a".into(), "small=b".into()]));
    }

    #[test]
    fn what_no_volume_serves_is_provisioned_in_the_classes_topology() {
        let terms = json!([{"matchLabelExpressions": [{"key": HOST, "values": ["n1"]}]}]);
        let class = with(waiting_class("wait", "csi.example.com"), &["allowedTopologies"], terms);
        let list = [class, claim_of("c", "wait", "1Gi")];
        let me = pod_of("me", &["c"]);
        assert_eq!(found(&list, &me, &node("n1")), Ok(vec!["c".into()]));
        assert_eq!(found(&list, &me, &node("n2")), no(&[REASON_BIND_CONFLICT]));
    }

    #[test]
    fn provisioning_needs_published_capacity_if_the_driver_publishes_it() {
        let near = json!({HOST: "n1"});
        let list = |publishes: bool, more: Value| {
            [
                waiting_class("wait", "csi.example.com"),
                claim_of("c", "wait", "2Gi"),
                csi_driver("csi.example.com", publishes),
                capacity("small", "wait", "1Gi", json!({})),
                capacity("foreign", "other", "9Gi", json!({})),
                more,
            ]
        };
        let enough = capacity("enough", "wait", "9Gi", near.clone());
        let me = pod_of("me", &["c"]);
        assert_eq!(found(&list(true, enough.clone()), &me, &node("n1")), Ok(vec!["c".into()]));
        assert_eq!(found(&list(true, enough.clone()), &me, &node("n2")), no(&[REASON_NOT_ENOUGH_SPACE]));
        assert_eq!(found(&list(false, enough.clone()), &me, &node("n2")), Ok(vec!["c".into()]));
        let in_pieces = with(enough.clone(), &["maximumVolumeSize"], json!("1Gi"));
        assert_eq!(found(&list(true, in_pieces), &me, &node("n1")), no(&[REASON_NOT_ENOUGH_SPACE]));
        let unavailable = with(enough, &["nodeTopology"], Value::Null);
        assert_eq!(found(&list(true, unavailable), &me, &node("n1")), no(&[REASON_NOT_ENOUGH_SPACE]));
    }

    #[test]
    fn a_claim_being_provisioned_ties_the_pod_to_its_node() {
        let annotations = json!({"volume.kubernetes.io/selected-node": "n1"});
        let selected = with(claim_of("c", "wait", "1Gi"), &["metadata", "annotations"], annotations);
        let list = [waiting_class("wait", "csi.example.com"), selected, volume("pv", "wait", "1Gi", json!({}))];
        let me = pod_of("me", &["c"]);
        assert_eq!(found(&list, &me, &node("n1")), Ok(vec!["c".into()]));
        assert_eq!(found(&list, &me, &node("n2")), no(&[REASON_BIND_CONFLICT]));
    }

    #[test]
    fn bound_and_unbound_claims_are_refused_together() {
        let list = [
            waiting_class("local", "kubernetes.io/no-provisioner"),
            claim_of("unbound", "local", "1Gi"),
            bound_claim("far", "pv"),
            volume("pv", "", "1Gi", on(HOST, &["n1"])),
            bound_claim("lost", "gone"),
        ];
        let reasons = [REASON_NODE_CONFLICT, REASON_BIND_CONFLICT];
        assert_eq!(found(&list, &pod_of("me", &["far", "unbound"]), &node("n2")), no(&reasons));
        let reasons = [REASON_BIND_CONFLICT, REASON_VOLUME_NOT_EXIST];
        assert_eq!(found(&list, &pod_of("me", &["lost", "unbound"]), &node("n2")), no(&reasons));
    }

    #[test]
    fn pods_without_claims_skip_the_plugin() {
        let me = pod("default", "me", &[json!({"awsElasticBlockStore": {"volumeID": "v"}})]);
        assert!(matches!(pre_filter(&objects(&[]), &me), PreFilterOutcome::Skip));
    }
}
