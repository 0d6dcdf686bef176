//! Reserve, Unreserve and PreBind of VolumeBinding: a decision about claims is assumed, then written to the API, then
//! watched until the controllers have carried it out.

use serde_json::{Value, json};
use std::sync::Arc;

use super::binding::{self, State};
use super::objects::{BOUND_BY_CONTROLLER, ClaimRef, PersistentVolume, PersistentVolumeClaim, SELECTED_NODE};
use super::{NodeView, Rejection, StorageObjects, not_found, quote};

/// What the pod's volumes wait for between Reserve and the binding of the pod.
#[derive(Debug, Clone, Default)]
pub struct VolumeReservation {
    node: Box<str>,
    bindings: Vec<Binding>,
    provisions: Vec<Provision>,
}

#[derive(Debug, Clone)]
struct Binding {
    volume: Arc<PersistentVolume>,
    claim: Arc<PersistentVolumeClaim>,
    /// The volume's version after the write.
    written: Option<Box<str>>,
}

#[derive(Debug, Clone)]
struct Provision {
    claim: Arc<PersistentVolumeClaim>,
    /// The claim's version after the write.
    written: Option<Box<str>>,
}

/// A write to the API that PreBind asks for.
///
/// The resource version is a precondition: if the object has changed since, the write must fail and with it the binding
/// of the pod. [`Self::merge_patch`] is the write in a form that carries the precondition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeWrite {
    /// Binds a PersistentVolume to a claim.
    BindVolume {
        /// The volume's name.
        volume: String,
        /// The volume's UID.
        uid: String,
        /// The volume's version the decision was made on.
        resource_version: String,
        /// The claim.
        claim: ClaimRef,
        /// The claim's version the decision was made on.
        claim_resource_version: String,
        /// Whether to mark the binding as made by a controller; not so for a volume a person kept for the claim.
        mark_bound_by_controller: bool,
    },
    /// Asks for a claim's volume to be provisioned for a node.
    SelectNode {
        /// The claim's namespace.
        namespace: String,
        /// The claim's name.
        claim: String,
        /// The claim's UID.
        uid: String,
        /// The claim's version the decision was made on.
        resource_version: String,
        /// The node.
        node: String,
    },
}

impl VolumeWrite {
    /// The write as a JSON merge patch of the object.
    pub fn merge_patch(&self) -> Value {
        let metadata = |uid: &str, resource_version: &str, annotation: Option<(&str, &str)>| {
            let mut metadata = serde_json::Map::new();
            for (key, value) in [("uid", uid), ("resourceVersion", resource_version)] {
                if !value.is_empty() {
                    metadata.insert(key.to_owned(), value.into());
                }
            }
            if let Some((key, value)) = annotation {
                metadata.insert("annotations".to_owned(), json!({ key: value }));
            }
            metadata
        };
        match self {
            Self::BindVolume {
                uid, resource_version, claim, claim_resource_version, mark_bound_by_controller, ..
            } => {
                let mark = mark_bound_by_controller.then_some((BOUND_BY_CONTROLLER, "yes"));
                json!({
                    "metadata": metadata(uid, resource_version, mark),
                    "spec": {"claimRef": {
                        "kind": "PersistentVolumeClaim",
                        "apiVersion": "v1",
                        "namespace": claim.namespace,
                        "name": claim.name,
                        "uid": claim.uid,
                        "resourceVersion": claim_resource_version,
                    }},
                })
            }
            Self::SelectNode { uid, resource_version, node, .. } => {
                json!({ "metadata": metadata(uid, resource_version, Some((SELECTED_NODE, node))) })
            }
        }
    }
}

/// Reserve: decides for the node and assumes the decision, so that the next pod sees it.
pub fn reserve(
    objects: &mut StorageObjects,
    state: &State,
    node: &impl NodeView,
) -> Result<VolumeReservation, Rejection> {
    let reservation = plan(objects, state, node)?;
    assume(objects, &reservation)?;
    Ok(reservation)
}

/// The first half of Reserve, which changes nothing: what the pod's claims will need on the node.
pub fn plan(objects: &StorageObjects, state: &State, node: &impl NodeView) -> Result<VolumeReservation, Rejection> {
    let mut reservation = VolumeReservation { node: node.name().into(), ..VolumeReservation::default() };
    if state.all_bound() {
        return Ok(reservation);
    }
    let volumes = binding::find(objects, state, node)?;
    let bindings = volumes.bindings.into_iter();
    reservation.bindings = bindings.map(|(claim, volume)| Binding { volume, claim, written: None }).collect();
    let provisions = volumes.provisions.into_iter();
    reservation.provisions = provisions.map(|claim| Provision { claim, written: None }).collect();
    Ok(reservation)
}

/// The second half of Reserve: assumes a plan. Nothing is assumed on an error, which means that an object has changed
/// since the plan was made.
pub fn assume(objects: &mut StorageObjects, reservation: &VolumeReservation) -> Result<(), Rejection> {
    let mut done = VolumeReservation::default();
    let mut assume_all = || -> Result<(), String> {
        for binding in &reservation.bindings {
            let reference = claim_ref(&binding.claim);
            if objects.claim_ref(&binding.volume.name) != Some(&reference) {
                objects.assume_volume(&binding.volume, reference)?;
            }
            done.bindings.push(binding.clone());
        }
        for provision in &reservation.provisions {
            objects.assume_claim(&provision.claim, &reservation.node)?;
            done.provisions.push(provision.clone());
        }
        Ok(())
    };
    assume_all().map_err(|problem| {
        unreserve(objects, &done);
        Rejection::error(problem)
    })
}

/// Unreserve: takes back what was assumed and not written.
pub fn unreserve(objects: &mut StorageObjects, reservation: &VolumeReservation) {
    for binding in reservation.bindings.iter().filter(|binding| binding.written.is_none()) {
        objects.restore_volume(&binding.volume.name, &binding.volume.identity.resource_version);
    }
    for provision in reservation.provisions.iter().filter(|provision| provision.written.is_none()) {
        let claim = &provision.claim;
        objects.restore_claim(&claim.namespace, &claim.name, &claim.identity.resource_version);
    }
}

fn claim_ref(claim: &PersistentVolumeClaim) -> ClaimRef {
    ClaimRef { namespace: claim.namespace.clone(), name: claim.name.clone(), uid: claim.identity.uid.clone() }
}

impl VolumeReservation {
    /// Whether there is nothing to write and nothing to wait for, so that PreBind is skipped.
    pub fn all_bound(&self) -> bool {
        self.bindings.is_empty() && self.provisions.is_empty()
    }

    /// PreBind: the writes, to be made in this order and stopped at the first that fails.
    pub fn writes(&self) -> Vec<VolumeWrite> {
        let bindings = self.bindings.iter().map(|binding| {
            let (volume, claim) = (&binding.volume, &binding.claim);
            let was_kept = volume.claim_ref.as_ref().is_some_and(|reference| reference.refers_to(claim));
            VolumeWrite::BindVolume {
                volume: volume.name.to_string(),
                uid: volume.identity.uid.to_string(),
                resource_version: volume.identity.resource_version.to_string(),
                claim: claim_ref(claim),
                claim_resource_version: claim.identity.resource_version.to_string(),
                mark_bound_by_controller: !was_kept && !volume.bound_by_controller,
            }
        });
        let provisions = self.provisions.iter().map(|Provision { claim, .. }| VolumeWrite::SelectNode {
            namespace: claim.namespace.to_string(),
            claim: claim.name.to_string(),
            uid: claim.identity.uid.to_string(),
            resource_version: claim.identity.resource_version.to_string(),
            node: self.node.to_string(),
        });
        bindings.chain(provisions).collect()
    }

    /// Records that the write of this index was made, and the version it gave the object.
    ///
    /// From then on the assumption stays until the watch brings the written version, even if the pod is not bound.
    pub fn record_written(&mut self, index: usize, resource_version: &str) {
        let written = match self.bindings.get_mut(index) {
            Some(binding) => &mut binding.written,
            None => match self.provisions.get_mut(index.wrapping_sub(self.bindings.len())) {
                Some(provision) => &mut provision.written,
                None => return,
            },
        };
        *written = Some(resource_version.into());
    }

    /// Whether the controllers have done what was written: `true` once every claim is fully bound. An error means that
    /// the pod has to be scheduled again. To be asked after each event until VolumeBindingArgs' `bindTimeoutSeconds`
    /// are over; that the pod and the node still exist is the caller's to check.
    pub fn is_complete(&self, objects: &StorageObjects, node: &impl NodeView) -> Result<bool, String> {
        for binding in &self.bindings {
            let name = &binding.volume.name;
            let volume = objects.volume(name);
            let volume = volume.ok_or_else(|| check_failed("binding", &not_found("persistentvolumes", name)))?;
            let claim = current_claim(objects, &binding.claim).map_err(|problem| check_failed("binding", &problem))?;
            if is_behind(&volume.identity.resource_version, binding.written.as_deref()) {
                return Ok(false);
            }
            check_reachable(objects, volume, node)
                .map_err(|problem| translation_failed("failed to translate pv to csi: ", problem))?;
            if volume.claim_ref.as_ref().is_none_or(|reference| reference.uid.is_empty()) {
                return Err(format!("ClaimRef got reset for pv {}", quote(name)));
            }
            if !claim.is_fully_bound() {
                return Ok(false);
            }
        }
        for provision in &self.provisions {
            let claim = current_claim(objects, &provision.claim)
                .map_err(|problem| check_failed("provisioning pvc", &problem))?;
            if is_behind(&claim.identity.resource_version, provision.written.as_deref()) {
                return Ok(false);
            }
            if !claim.annotated {
                return Err(format!("selectedNode annotation reset for PVC {}", quote(&claim.name)));
            }
            if claim.selected_node.as_deref() != Some(&*self.node) {
                return Err(format!("provisioning failed for PVC {}", quote(&claim.name)));
            }
            if !claim.volume_name.is_empty() {
                // The claim may be seen before the volume that was made for it.
                let Some(volume) = objects.volume(&claim.volume_name) else { return Ok(false) };
                check_reachable(objects, volume, node).map_err(|problem| translation_failed("", problem))?;
            }
            if !claim.is_fully_bound() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Why a volume cannot be used from the node after all.
enum Unreachable {
    Translation(String),
    Affinity(String),
}

fn check_reachable(
    objects: &StorageObjects,
    volume: &PersistentVolume,
    node: &impl NodeView,
) -> Result<(), Unreachable> {
    match binding::is_reachable(objects, volume, node) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Unreachable::Affinity(format!(
            "pv {} node affinity doesn't match node {}: no matching NodeSelectorTerms",
            quote(&volume.name),
            quote(node.name())
        ))),
        Err(problem) => Err(Unreachable::Translation(problem)),
    }
}

fn translation_failed(prefix: &str, problem: Unreachable) -> String {
    match problem {
        Unreachable::Translation(problem) => format!("{prefix}{problem}"),
        Unreachable::Affinity(problem) => problem,
    }
}

fn check_failed(what: &str, problem: &str) -> String {
    format!("failed to check {what}: {problem}")
}

fn current_claim<'a>(
    objects: &'a StorageObjects,
    claim: &PersistentVolumeClaim,
) -> Result<&'a Arc<PersistentVolumeClaim>, String> {
    objects
        .claim(&claim.namespace, &claim.name)
        .ok_or_else(|| not_found("persistentvolumeclaims", &format!("{}/{}", claim.namespace, claim.name)))
}

/// Whether the watch has not yet brought the version a write made.
fn is_behind(current: &str, written: Option<&str>) -> bool {
    let version = |text: &str| text.parse::<u64>().unwrap_or(0);
    written.is_some_and(|written| version(written) > version(current))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Node, apply, bound_claim, claim_of, objects, on, pod_of, volume, waiting_class, with};
    use super::super::{PodVolumes, PreFilterOutcome};
    use super::*;

    fn state(objects: &StorageObjects, pod: &PodVolumes) -> State {
        match binding::pre_filter(objects, pod) {
            PreFilterOutcome::Continue(state) => state,
            other => panic!("expected a state, got {other:?}"),
        }
    }

    fn reserved(objects: &mut StorageObjects, pod: &PodVolumes) -> Result<VolumeReservation, Rejection> {
        let state = state(objects, pod);
        reserve(objects, &state, &Node::new("n"))
    }

    /// Two claims for one local volume, and a class that provisions.
    fn cluster() -> StorageObjects {
        objects(&[
            waiting_class("local", "kubernetes.io/no-provisioner"),
            waiting_class("wait", "csi.example.com"),
            claim_of("c1", "local", "1Gi"),
            claim_of("c2", "local", "1Gi"),
            claim_of("c3", "wait", "1Gi"),
            volume("pv", "local", "1Gi", json!({})),
        ])
    }

    fn refusal() -> Rejection {
        Rejection::unresolvable(binding::REASON_BIND_CONFLICT)
    }

    #[test]
    fn a_reserved_volume_is_taken_until_it_is_unreserved() {
        let mut objects = cluster();
        let reservation = reserved(&mut objects, &pod_of("a", &["c1"])).unwrap();
        assert!(!reservation.all_bound());
        assert_eq!(reserved(&mut objects, &pod_of("b", &["c2"])).unwrap_err(), refusal());
        assert!(reserved(&mut objects, &pod_of("a2", &["c1"])).is_ok(), "kept for the claim, not for the pod");

        unreserve(&mut objects, &reservation);
        assert!(reserved(&mut objects, &pod_of("b", &["c2"])).is_ok());
    }

    #[test]
    fn a_reserved_provision_ties_other_pods_to_the_node_until_it_is_unreserved() {
        let mut objects = cluster();
        let (first, second) = (pod_of("a", &["c3"]), pod_of("b", &["c3"]));
        let reservation = reserved(&mut objects, &first).unwrap();
        let tied = state(&objects, &second);
        assert_eq!(binding::filter(&objects, &tied, &Node::new("m")), Err(refusal()));
        assert_eq!(binding::filter(&objects, &tied, &Node::new("n")), Ok(()));
        unreserve(&mut objects, &reservation);
        assert_eq!(binding::filter(&objects, &state(&objects, &second), &Node::new("m")), Ok(()));
    }

    #[test]
    fn the_writes_bind_volumes_and_select_the_node() {
        let mut objects = cluster();
        let writes = reserved(&mut objects, &pod_of("a", &["c3", "c1"])).unwrap().writes();
        let [bind, select] = writes.as_slice() else { panic!("two writes, got {writes:?}") };
        assert!(matches!(bind, VolumeWrite::BindVolume { volume, .. } if volume == "pv"));
        assert_eq!(
            bind.merge_patch(),
            json!({
                "metadata": {"uid": "uid-pv", "resourceVersion": "1",
                    "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
                "spec": {"claimRef": {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": "default",
                    "name": "c1", "uid": "uid-c1", "resourceVersion": "1"}},
            })
        );
        assert!(matches!(select, VolumeWrite::SelectNode { claim, node, .. } if claim == "c3" && node == "n"));
        assert_eq!(
            select.merge_patch(),
            json!({"metadata": {"uid": "uid-c3", "resourceVersion": "1",
                "annotations": {"volume.kubernetes.io/selected-node": "n"}}})
        );
    }

    #[test]
    fn a_volume_a_person_kept_for_the_claim_is_not_marked() {
        let mut objects = cluster();
        let reference = json!({"claimRef": {"namespace": "default", "name": "c1"}});
        apply(&mut objects, &volume("kept", "local", "1Gi", reference));
        let writes = reserved(&mut objects, &pod_of("a", &["c1"])).unwrap().writes();
        let expected_mark = false;
        assert!(
            matches!(&writes[..], [VolumeWrite::BindVolume { volume, mark_bound_by_controller, .. }]
                if volume == "kept" && *mark_bound_by_controller == expected_mark),
            "{writes:?}"
        );
    }

    #[test]
    fn bound_claims_need_no_writes() {
        let mut objects = objects(&[bound_claim("c", "pv"), volume("pv", "", "1Gi", json!({}))]);
        let reservation = reserved(&mut objects, &pod_of("a", &["c"])).unwrap();
        assert!(reservation.all_bound());
        assert!(reservation.writes().is_empty());
        assert_eq!(reservation.is_complete(&objects, &Node::new("n")), Ok(true));
    }

    #[test]
    fn a_decision_on_an_outdated_version_assumes_nothing() {
        let mut objects = cluster();
        let old = state(&objects, &pod_of("a", &["c1", "c3"]));
        apply(&mut objects, &with(claim_of("c3", "wait", "1Gi"), &["metadata", "resourceVersion"], json!("2")));
        let problem = "\"default/c3\" is out of sync (stored: 2, assume: 1)";
        assert_eq!(reserve(&mut objects, &old, &Node::new("n")).unwrap_err(), Rejection::error(problem));
        assert!(reserved(&mut objects, &pod_of("b", &["c2"])).is_ok(), "the volume must be free again");
    }

    #[test]
    fn what_was_written_stays_assumed_when_the_pod_is_given_up() {
        let mut objects = cluster();
        let mut reservation = reserved(&mut objects, &pod_of("a", &["c1"])).unwrap();
        reservation.record_written(0, "7");
        unreserve(&mut objects, &reservation);
        assert_eq!(reserved(&mut objects, &pod_of("b", &["c2"])).unwrap_err(), refusal());
    }

    #[test]
    fn a_static_binding_is_complete_when_the_claim_is_bound() {
        let mut objects = cluster();
        let node = Node::new("n");
        let mut reservation = reserved(&mut objects, &pod_of("a", &["c1"])).unwrap();
        reservation.record_written(0, "7");
        assert_eq!(reservation.is_complete(&objects, &node), Ok(false), "the written volume was not seen yet");

        let reference = json!({"claimRef": {"namespace": "default", "name": "c1", "uid": "uid-c1"}});
        let written = with(volume("pv", "local", "1Gi", reference), &["metadata", "resourceVersion"], json!("7"));
        apply(&mut objects, &written);
        assert_eq!(reservation.is_complete(&objects, &node), Ok(false), "the claim is not bound yet");
        apply(&mut objects, &with(bound_claim("c1", "pv"), &["metadata", "resourceVersion"], json!("8")));
        assert_eq!(reservation.is_complete(&objects, &node), Ok(true));

        let reset = with(volume("pv", "local", "1Gi", json!({})), &["metadata", "resourceVersion"], json!("9"));
        apply(&mut objects, &reset);
        assert_eq!(reservation.is_complete(&objects, &node), Err("ClaimRef got reset for pv \"pv\"".to_owned()));
        objects.remove_volume("pv");
        let gone = "failed to check binding: persistentvolumes \"pv\" not found".to_owned();
        assert_eq!(reservation.is_complete(&objects, &node), Err(gone));
    }

    #[test]
    fn a_provision_is_complete_when_a_reachable_volume_is_bound() {
        let mut objects = cluster();
        let node = Node::new("n").with_label("host", "n");
        let mut reservation = reserved(&mut objects, &pod_of("a", &["c3"])).unwrap();
        reservation.record_written(0, "7");
        let claim = |version: &str, annotations: Value, volume: &str| {
            let mut claim = claim_of("c3", "wait", "1Gi");
            claim["metadata"]["resourceVersion"] = json!(version);
            claim["metadata"]["annotations"] = annotations;
            claim["spec"]["volumeName"] = json!(volume);
            claim
        };
        let selected = |node: &str| json!({ SELECTED_NODE: node });
        let bound = json!({ SELECTED_NODE: "n", "pv.kubernetes.io/bind-completed": "yes" });
        let mut step = |object: Value, expected: Result<bool, &str>| {
            apply(&mut objects, &object);
            let got = reservation.is_complete(&objects, &node);
            assert_eq!(got.as_ref().map_err(String::as_str), expected.as_ref().map_err(|e| *e), "{object}");
        };
        step(claim("2", json!({"x": ""}), ""), Ok(false));
        step(claim("7", selected("n"), ""), Ok(false));
        step(claim("8", bound.clone(), "new"), Ok(false));
        step(
            volume("new", "wait", "1Gi", on("host", &["m"])),
            Err("pv \"new\" node affinity doesn't match node \"n\": no matching NodeSelectorTerms"),
        );
        step(
            with(volume("new", "wait", "1Gi", on("host", &["n"])), &["metadata", "resourceVersion"], json!("9")),
            Ok(true),
        );
        step(claim("10", selected(""), ""), Err("provisioning failed for PVC \"c3\""));
        step(claim("11", json!({}), ""), Err("selectedNode annotation reset for PVC \"c3\""));
    }
}
