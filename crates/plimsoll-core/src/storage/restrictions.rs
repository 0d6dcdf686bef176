//! VolumeRestrictions: disks that cannot be mounted twice, and claims only one pod may use.

use std::collections::BTreeSet;

use super::{NodeView, PodVolumes, PreFilterOutcome, Rejection, StorageObjects, not_found};

/// The plugin's name.
pub const NAME: &str = "VolumeRestrictions";

/// A disk of the pod is mounted on the node in a way that excludes the pod.
pub const REASON_DISK_CONFLICT: &str = "node(s) had no available disk";

/// Another pod uses a claim that only one pod may use.
pub const REASON_READ_WRITE_ONCE_POD_CONFLICT: &str = "node(s) unavailable due to PersistentVolumeClaim with \
     ReadWriteOncePod access mode already in-use by another pod";

/// What PreFilter found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// The pod's claims that only one pod may use.
    exclusive_claims: BTreeSet<Box<str>>,
    /// How many of them are in use by other pods.
    conflicts: i64,
}

impl State {
    /// Accounts for a pod that is thought to be on a node.
    pub fn add_pod(&mut self, pod: &PodVolumes) {
        self.conflicts += self.references(pod);
    }

    /// Accounts for a pod that is thought to be gone from a node.
    pub fn remove_pod(&mut self, pod: &PodVolumes) {
        self.conflicts -= self.references(pod);
    }

    /// How often a pod names one of the claims. Kubernetes compares names alone, in whatever namespace the pod is.
    fn references(&self, pod: &PodVolumes) -> i64 {
        pod.claim_names().filter(|claim| self.exclusive_claims.contains(*claim)).count() as i64
    }
}

/// Looks up the pod's claims and who else uses them.
pub fn pre_filter(objects: &StorageObjects, pod: &PodVolumes) -> PreFilterOutcome<State> {
    if pod.is_empty() {
        return PreFilterOutcome::Skip;
    }
    let namespace = pod.namespace();
    let mut exclusive_claims = BTreeSet::new();
    for name in pod.claim_names() {
        let Some(claim) = objects.claim(namespace, name) else {
            return PreFilterOutcome::Reject(Rejection::unresolvable(not_found("persistentvolumeclaim", name)));
        };
        if claim.access_modes.read_write_once_pod() {
            exclusive_claims.insert(claim.name.clone());
        }
    }
    let conflicts = exclusive_claims.iter().filter(|claim| objects.is_claim_used(namespace, claim)).count() as i64;
    if conflicts == 0 && pod.disks().next().is_none() {
        return PreFilterOutcome::Skip;
    }
    PreFilterOutcome::Continue(State { exclusive_claims, conflicts })
}

/// Whether the pod's disks and claims are free to be used on the node.
pub fn filter(state: &State, pod: &PodVolumes, node: &impl NodeView) -> Result<(), Rejection> {
    if node.pod_volumes().any(|other| disks_conflict(pod, other)) {
        return Err(Rejection::unschedulable(REASON_DISK_CONFLICT));
    }
    if state.conflicts > 0 {
        return Err(Rejection::unschedulable(REASON_READ_WRITE_ONCE_POD_CONFLICT));
    }
    Ok(())
}

/// Whether two pods cannot be on one node because of their disks.
pub(super) fn disks_conflict(pod: &PodVolumes, other: &PodVolumes) -> bool {
    pod.disks().any(|disk| other.disks().any(|existing| disk.conflicts_with(existing)))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Node, claim, objects, pod};
    use super::*;
    use serde_json::json;
    use std::slice::from_ref;

    fn state(objects: &StorageObjects, pod: &PodVolumes) -> State {
        match pre_filter(objects, pod) {
            PreFilterOutcome::Continue(state) => state,
            other => panic!("expected a state, got {other:?}"),
        }
    }

    #[test]
    fn disks_conflict_unless_all_mounts_are_read_only_where_sharing_is_possible() {
        let gce = |ro: bool| json!({"gcePersistentDisk": {"pdName": "d", "readOnly": ro}});
        let ebs = |id: &str| json!({"awsElasticBlockStore": {"volumeID": id, "readOnly": true}});
        let iscsi = |ro: bool| json!({"iscsi": {"iqn": "i", "lun": 0, "targetPortal": "p", "readOnly": ro}});
        let rbd = |monitors: serde_json::Value, image: &str, ro: bool| json!({"rbd": {"monitors": monitors, "image": image, "readOnly": ro}});
        for (mine, theirs, conflict) in [
            (gce(false), gce(false), true),
            (gce(true), gce(false), true),
            (gce(true), gce(true), false),
            (ebs("v"), ebs("v"), true),
            (ebs("v"), ebs("w"), false),
            (iscsi(true), iscsi(true), false),
            (iscsi(false), iscsi(true), true),
            (rbd(json!(["a", "b"]), "x", false), rbd(json!(["b", "c"]), "x", true), true),
            (rbd(json!(["a", "b"]), "x", true), rbd(json!(["b", "c"]), "x", true), false),
            (rbd(json!(["a"]), "x", false), rbd(json!(["c"]), "x", false), false),
            (rbd(json!(["a"]), "x", false), rbd(json!(["a"]), "y", false), false),
            (gce(false), ebs("d"), false),
        ] {
            let (me, other) = (pod("default", "me", from_ref(&mine)), pod("x", "other", from_ref(&theirs)));
            let node = Node::new("n").with_pod(&other);
            let got = filter(&state(&objects(&[]), &me), &me, &node);
            let expected = if conflict { Err(Rejection::unschedulable(REASON_DISK_CONFLICT)) } else { Ok(()) };
            assert_eq!(got, expected, "{mine} on {theirs}");
        }
    }

    #[test]
    fn a_pod_without_disks_or_exclusive_claims_skips_the_plugin() {
        let objects = objects(&[claim("default", "c", json!({"accessModes": ["ReadWriteOnce"]}))]);
        let me = pod("default", "me", &[json!({"persistentVolumeClaim": {"claimName": "c"}})]);
        assert!(matches!(pre_filter(&objects, &me), PreFilterOutcome::Skip));
        assert!(matches!(pre_filter(&objects, &PodVolumes::default()), PreFilterOutcome::Skip));
    }

    #[test]
    fn a_missing_claim_is_named() {
        let me = pod("default", "me", &[json!({"persistentVolumeClaim": {"claimName": "c"}})]);
        let PreFilterOutcome::Reject(rejection) = pre_filter(&objects(&[]), &me) else {
            panic!("the pod must be refused")
        };
        assert_eq!(rejection, Rejection::unresolvable("persistentvolumeclaim \"c\" not found"));
    }

    #[test]
    fn an_exclusive_claim_in_use_anywhere_excludes_all_nodes_until_its_pod_is_removed() {
        let mut objects = objects(&[claim("default", "c", json!({"accessModes": ["ReadWriteOncePod"]}))]);
        let volumes = [json!({"persistentVolumeClaim": {"claimName": "c"}})];
        let (me, user) = (pod("default", "me", &volumes), pod("default", "user", &volumes));
        assert!(matches!(pre_filter(&objects, &me), PreFilterOutcome::Skip));

        objects.pod_placed(&user);
        let mut in_use = state(&objects, &me);
        let conflict = Err(Rejection::unschedulable(REASON_READ_WRITE_ONCE_POD_CONFLICT));
        assert_eq!(filter(&in_use, &me, &Node::new("elsewhere")), conflict);
        in_use.remove_pod(&user);
        assert_eq!(filter(&in_use, &me, &Node::new("n")), Ok(()));
        in_use.add_pod(&user);
        assert_eq!(filter(&in_use, &me, &Node::new("n")), conflict);

        objects.pod_removed(&user);
        assert!(matches!(pre_filter(&objects, &me), PreFilterOutcome::Skip));
    }
}
