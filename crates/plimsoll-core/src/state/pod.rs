//! A pod as the state keeps it: its own identity, and a reference to what its template shares.

use super::node::NodeId;
use super::shapes::ShapeId;
use crate::model::Sym;
use k8s_openapi::api::core::v1 as api;
use std::sync::Arc;

/// A pod, as an index that may be used again after the pod is gone.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct PodId(u32);

impl PodId {
    pub(super) fn new(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }

    /// Its place in arrays with an entry a pod.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Where a pod is on its way to a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Not placed.
    Pending,
    /// Placed by us; the binding is not confirmed yet, but the capacity is taken.
    Assumed,
    /// Bound, as the API server says.
    Bound,
}

/// A pod.
#[derive(Debug)]
pub struct Pod {
    /// Its UID: names are used again, UIDs never.
    pub uid: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// How often its specification was changed, as `metadata.generation` counts it.
    pub generation: i64,
    /// What it shares with pods of the same template.
    pub shape: ShapeId,
    /// Where it is on its way.
    pub phase: Phase,
    /// The name of the node it is on, for an assumed or bound pod.
    pub node_name: Option<Sym>,
    /// That node, if it exists.
    pub node: Option<NodeId>,
    /// The node that preemption is clearing for it.
    pub nominated: Option<Sym>,
    /// Whether the API server knows of a nomination, be it this one or another.
    pub told_nominated: bool,
    /// Being deleted.
    pub terminating: bool,
    /// Being deleted because a scheduler preempted it.
    pub preempted: bool,
    /// When it started, in nanoseconds since 1970.
    pub start_time: Option<i64>,
    /// The whole object, kept only for pods that may claim devices.
    pub object: Option<Arc<api::Pod>>,
}
