//! Changes as the queueing hints see them: the object before and after, compiled, and in which ways they differ.

use super::QueueKey;
use crate::model::{NodeSpec, PodShape, Requests};
use crate::queue::ActionType;
use crate::storage::Change;
use crate::storage::objects::{
    CsiDriver, CsiNode, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment,
};
use k8s_openapi::api::core::v1 as api;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim};
use rustc_hash::FxHasher;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// An object before and after; nothing before it came, nothing after it left.
#[derive(Debug, Clone)]
pub enum Changed {
    /// An object that no hint looks at.
    Unseen,
    Node(Change<NodeSpec>),
    Pod {
        old: Option<PodView>,
        new: Option<PodView>,
    },
    PersistentVolume(Change<PersistentVolume>),
    PersistentVolumeClaim(Change<PersistentVolumeClaim>),
    StorageClass(Change<StorageClass>),
    CsiNode(Change<CsiNode>),
    CsiDriver(Change<CsiDriver>),
    CsiStorageCapacity(Change<CsiStorageCapacity>),
    VolumeAttachment(Change<VolumeAttachment>),
    ResourceClaim(Change<ResourceClaim>),
    DeviceClass(Change<DeviceClass>),
}

/// What hints ask of a pod that came, changed or left.
#[derive(Debug, Clone)]
pub struct PodView {
    /// Its key in the queue, for a pod that waits for us.
    pub key: Option<QueueKey>,
    /// What it shares with its template.
    pub shape: Arc<PodShape>,
    /// On a node, bound or assumed.
    pub assigned: bool,
    /// A node is kept for it.
    pub nominated: bool,
    /// The whole object, for pods that may claim devices.
    pub object: Option<Arc<api::Pod>>,
}

impl PodView {
    /// Whether it takes room, in fact or by nomination.
    pub fn takes_room(&self) -> bool {
        self.assigned || self.nominated
    }
}

/// What of a node no rule reads, but extenders may: kept as fingerprints to notice a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeMarks {
    conditions: u64,
    annotations: u64,
}

impl NodeMarks {
    pub fn of(node: &api::Node) -> Self {
        let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let conditions: BTreeMap<_, _> = conditions.map(|condition| (&condition.type_, &condition.status)).collect();
        let annotations = node.metadata.annotations.as_ref().filter(|annotations| !annotations.is_empty());
        Self { conditions: fingerprint(&conditions), annotations: fingerprint(&annotations) }
    }
}

fn fingerprint(value: &impl Hash) -> u64 {
    let mut hasher = FxHasher::default();
    value.hash(&mut hasher);
    hasher.finish()
}

/// In which ways a node changed; one event each.
pub(super) fn node_actions(old: &NodeSpec, new: &NodeSpec, marks: (NodeMarks, NodeMarks)) -> Vec<ActionType> {
    let offers = |node: &NodeSpec| (node.allocatable.clone(), node.max_pods);
    [
        (old.unschedulable && !new.unschedulable, ActionType::UPDATE_NODE_TAINT),
        (offers(old) != offers(new), ActionType::UPDATE_NODE_ALLOCATABLE),
        (old.labels != new.labels, ActionType::UPDATE_NODE_LABEL),
        (old.taints != new.taints, ActionType::UPDATE_NODE_TAINT),
        (marks.0.conditions != marks.1.conditions, ActionType::UPDATE_NODE_CONDITION),
        (marks.0.annotations != marks.1.annotations, ActionType::UPDATE_NODE_ANNOTATION),
        (old.features != new.features, ActionType::UPDATE_NODE_DECLARED_FEATURE),
    ]
    .into_iter()
    .filter_map(|(changed, action)| changed.then_some(action))
    .collect()
}

/// In which ways a pod changed; one event each, and a general one if it is none of the particular ones.
pub(super) fn pod_actions(old: &PodView, new: &PodView) -> Vec<ActionType> {
    let (before, after) = (&old.shape, &new.shape);
    let actions: Vec<_> = [
        (before.labels != after.labels, ActionType::UPDATE_POD_LABEL),
        (asks_less(&before.local.resources.taken, &after.local.resources.taken), ActionType::UPDATE_POD_SCALE_DOWN),
        (!before.gates.is_empty() && after.gates.is_empty(), ActionType::UPDATE_POD_SCHEDULING_GATES_ELIMINATED),
        // Tolerations can be added and nothing else.
        (before.local.tolerations.len() != after.local.tolerations.len(), ActionType::UPDATE_POD_TOLERATION),
        (claims_of(old) != claims_of(new), ActionType::UPDATE_POD_GENERATED_RESOURCE_CLAIM),
    ]
    .into_iter()
    .filter_map(|(changed, action)| changed.then_some(action))
    .collect();
    if actions.is_empty() { vec![ActionType::UPDATE] } else { actions }
}

/// Whether any amount became smaller.
fn asks_less(old: &Requests, new: &Requests) -> bool {
    old.cpu > new.cpu
        || old.memory > new.memory
        || old.ephemeral_storage > new.ephemeral_storage
        || old.scalars.iter().any(|&(id, amount)| amount > new.get(id))
}

type Generated<'a> = (&'a [api::PodResourceClaimStatus], Option<&'a api::PodExtendedResourceClaimStatus>);

/// The claims that were made for a pod.
fn claims_of(pod: &PodView) -> Generated<'_> {
    let status = pod.object.as_ref().and_then(|object| object.status.as_ref());
    (
        status.and_then(|status| status.resource_claim_statuses.as_deref()).unwrap_or_default(),
        status.and_then(|status| status.extended_resource_claim_status.as_ref()),
    )
}
