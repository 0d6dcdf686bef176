//! Reserve: what a placement takes before it is bound, and how it is given back when the binding fails.
//!
//! The engine only assumes; what has to be written to the API is returned as values, to be carried out by a driver: first
//! the writes for volumes and claims (PreBind), then the binding itself (DefaultBinder).

use crate::plugins::DetachedNode;
use crate::scheduler::Scheduler;
use crate::state::{NodeId, PodId, StateError};
use crate::storage::reservation::{self, VolumeReservation};
use crate::storage::{PreFilterOutcome, binding};

/// Why a placement cannot be reserved; nothing is taken then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReserveError {
    /// The pod or the node is not as it must be.
    #[error(transparent)]
    State(#[from] StateError),
    /// The volumes cannot be had on the node.
    #[error("pod {pod}: volumes on node {node}: {problem}; the pod has to be decided again")]
    Volumes {
        /// The pod.
        pod: String,
        /// The node.
        node: String,
        /// Why.
        problem: String,
    },
}

/// A placement that is about to be bound.
#[derive(Debug)]
pub struct Reservation {
    /// The pod.
    pub pod: PodId,
    /// The node.
    pub node: NodeId,
    /// What its volumes wait for; nothing for a pod without volumes.
    pub volumes: Option<VolumeReservation>,
}

/// The write that binds a pod, DefaultBinder's effect. The UID is a precondition: a pod of the same name is another pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The pod's UID.
    pub uid: String,
    /// The node.
    pub node: String,
}

impl Scheduler {
    /// Takes what a placement needs: room on the node and the volumes. The caller binds, then confirms or gives back.
    pub fn reserve(&mut self, pod: PodId, node: NodeId) -> Result<Reservation, ReserveError> {
        let volumes = self.reserve_volumes(pod, node)?;
        if let Err(error) = self.state.assume(pod, node) {
            if let Some(volumes) = &volumes {
                reservation::unreserve(&mut self.state.storage, volumes);
            }
            return Err(error.into());
        }
        Ok(Reservation { pod, node, volumes })
    }

    /// Gives back what a placement took: the binding failed.
    pub fn unreserve(&mut self, reservation: &Reservation) -> Result<(), StateError> {
        if let Some(volumes) = &reservation.volumes {
            reservation::unreserve(&mut self.state.storage, volumes);
        }
        self.state.forget(reservation.pod)
    }

    /// The write that binds a reserved pod.
    pub fn binding(&self, reservation: &Reservation) -> Option<Binding> {
        let pod = self.state.pod(reservation.pod)?;
        let namespace = self.state.strings.resolve(self.state.shape_of(pod).shape.namespace);
        Some(Binding {
            namespace: namespace.to_owned(),
            name: pod.name.to_string(),
            uid: pod.uid.to_string(),
            node: self.state.node_name(reservation.node).to_owned(),
        })
    }

    fn reserve_volumes(&mut self, pod: PodId, node: NodeId) -> Result<Option<VolumeReservation>, ReserveError> {
        let state = &self.state;
        let (Some(known), Some(at)) = (state.pod(pod), state.node(node)) else { return Ok(None) };
        let Some(volumes) = state.shape_of(known).shape.volumes.as_deref() else { return Ok(None) };
        let failed = |reasons: Vec<String>| ReserveError::Volumes {
            pod: state.pod_name(known),
            node: state.node_name(node).to_owned(),
            problem: reasons.join(", "),
        };
        let texts = |rejection: crate::storage::Rejection| rejection.reasons.iter().map(ToString::to_string).collect();
        let prepared = match binding::pre_filter(&state.storage, volumes) {
            PreFilterOutcome::Skip => return Ok(None),
            PreFilterOutcome::Continue(prepared) => prepared,
            PreFilterOutcome::Reject(rejection) => return Err(failed(texts(rejection))),
        };
        let view = DetachedNode::new(state, at);
        match reservation::reserve(&mut self.state.storage, &prepared, &view) {
            Ok(reservation) => Ok(Some(reservation)),
            Err(rejection) => {
                let (state, reasons) = (&self.state, texts(rejection));
                let pod = state.pod(pod).map_or_else(String::new, |pod| state.pod_name(pod));
                let node = state.node_name(node).to_owned();
                Err(ReserveError::Volumes { pod, node, problem: reasons.join(", ") })
            }
        }
    }
}
