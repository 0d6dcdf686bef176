//! Reserve: what a placement takes before it is bound, and how it is given back when the binding fails.
//!
//! The engine only assumes; what has to be written to the API is returned as values, to be carried out by a driver: first
//! the writes for volumes and claims (PreBind), then the binding itself (DefaultBinder).

use crate::dra::ObjectError;
use crate::dra::plugin::{self, PodState, PreFilter, Status, Timing};
use crate::dra::reserve as devices;
pub use crate::dra::reserve::{ClaimWrite, Unreserve};
use crate::plugins::{DetachedNode, DeviceNode};
use crate::scheduler::Scheduler;
use crate::state::{NodeId, Phase, PodId, StateError};
use crate::storage::reservation::{self, VolumeReservation};
use crate::storage::{PreFilterOutcome, binding};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::ResourceClaim;
use std::sync::Arc;

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
    /// The devices cannot be had on the node.
    #[error("pod {pod}: devices on node {node}: {problem}; the pod has to be decided again")]
    Devices {
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
    /// Its UID: the pod may be gone, and its id another's, before the binding is through.
    pub uid: Box<str>,
    /// The node.
    pub node: NodeId,
    /// What its volumes wait for; nothing for a pod without volumes.
    pub volumes: Option<VolumeReservation>,
    /// The devices it took, and the pod that claims them; nothing for a pod without claims.
    devices: Option<(Box<PodState>, Arc<Pod>)>,
}

impl Reservation {
    /// Whether drivers want the pod to be bound only when they say that its devices are ready.
    pub fn has_binding_conditions(&self) -> bool {
        self.devices.as_ref().is_some_and(|(devices, _)| devices::has_binding_conditions(devices))
    }
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
    /// The pod's `metadata.generation`.
    pub generation: i64,
    /// The pod's `schedulerName`.
    pub scheduler: String,
    /// The node.
    pub node: String,
}

impl Scheduler {
    /// Takes what a placement needs: room on the node and the volumes. The caller binds, then confirms or gives back.
    pub fn reserve(&mut self, pod: PodId, node: NodeId) -> Result<Reservation, ReserveError> {
        // Before anything is taken: what a pod that is already assumed has taken must not be given back on the way.
        self.state.expect_phase(pod, Phase::Pending, "reserve")?;
        let volumes = self.reserve_volumes(pod, node)?;
        let uid = self.state.pod(pod).map(|pod| pod.uid.clone()).unwrap_or_default();
        let mut reservation = Reservation { pod, node, volumes, uid, devices: None };
        let taken = self.reserve_devices(&mut reservation).and_then(|()| Ok(self.state.assume(pod, node)?));
        if let Err(error) = taken {
            self.give_back(&mut reservation);
            return Err(error);
        }
        Ok(reservation)
    }

    /// Gives back what a placement took: the binding failed. What is to be undone in the API is returned.
    ///
    /// Meanwhile the pod may have been deleted, or bound by somebody else: then only volumes and devices are given back.
    pub fn unreserve(&mut self, mut reservation: Reservation) -> Vec<Unreserve> {
        let undo = self.give_back(&mut reservation);
        if self.state.pod(reservation.pod).is_some_and(|pod| pod.uid == reservation.uid) {
            // Refused for a pod that is not assumed any more, whose room is not ours to give back.
            let _ = self.state.forget(reservation.pod);
        }
        undo
    }

    /// As [`Self::unreserve`], for a pod that is gone, or no longer where it was assumed to be.
    pub fn release(&mut self, mut reservation: Reservation) -> Vec<Unreserve> {
        self.give_back(&mut reservation)
    }

    fn give_back(&mut self, reservation: &mut Reservation) -> Vec<Unreserve> {
        if let Some(volumes) = &reservation.volumes {
            reservation::unreserve(&mut self.state.storage, volumes);
        }
        match &mut reservation.devices {
            Some((devices, pod)) => devices::unreserve(&mut self.state.dra, devices, pod),
            None => Vec::new(),
        }
    }

    /// The claims to write before the pod is bound. `now_s` is the time, in seconds since 1970.
    pub fn claim_writes(&self, reservation: &Reservation, now_s: f64) -> Vec<ClaimWrite> {
        match &reservation.devices {
            Some((devices, pod)) => devices::pre_bind(devices, pod, self.state.node_name(reservation.node), now_s),
            None => Vec::new(),
        }
    }

    /// A claim was written for a reservation, as far as it went: `written` is what the API server answered last.
    pub fn claim_written(
        &mut self,
        reservation: &mut Reservation,
        write: &ClaimWrite,
        written: ResourceClaim,
    ) -> Result<(), ObjectError> {
        if let Some((devices, _)) = &mut reservation.devices {
            devices::record_written(devices, write, Arc::new(written.clone()));
        }
        self.state.dra.confirm_claim(write.assumed.as_deref(), written, write.create.is_some())
    }

    /// Whether the devices of a placement are ready, as far as their drivers want to be waited for.
    pub fn devices_ready(&self, reservation: &Reservation, now_s: f64, timeout_s: f64) -> Result<bool, String> {
        let timing = Timing { now_s, binding_timeout_s: timeout_s };
        reservation.devices.as_ref().map_or(Ok(true), |(devices, _)| devices::ready(&self.state.dra, devices, timing))
    }

    fn reserve_devices(&mut self, reservation: &mut Reservation) -> Result<(), ReserveError> {
        let state = &self.state;
        let (Some(pod), Some(node)) = (state.pod(reservation.pod), state.node(reservation.node)) else { return Ok(()) };
        let Some(object) = pod.object.clone() else { return Ok(()) };
        let (name, node_name) = (state.pod_name(pod), state.node_name(reservation.node).to_owned());
        let failed =
            |status: Status| ReserveError::Devices { pod: name, node: node_name.clone(), problem: status.reason };
        // Whether devices take too long was looked at when the node was found.
        let mut prepared = match plugin::pre_filter(&object, &state.dra, Timing::default()) {
            PreFilter::Skip => return Ok(()),
            PreFilter::Rejected(status) => return Err(failed(status)),
            PreFilter::Proceed(prepared) => prepared,
        };
        if let Err(status) = plugin::filter(&mut prepared, &object, &state.dra, &DeviceNode { state, node }) {
            return Err(failed(status));
        }
        let taken = devices::reserve(&mut self.state.dra, &mut prepared, &node_name);
        reservation.devices = Some((prepared, object));
        taken.map_err(failed)
    }

    /// The write that binds a reserved pod.
    pub fn binding(&self, reservation: &Reservation) -> Option<Binding> {
        let pod = self.state.pod(reservation.pod).filter(|pod| pod.uid == reservation.uid)?;
        let (shape, strings) = (&self.state.shape_of(pod).shape, &self.state.strings);
        Some(Binding {
            namespace: strings.resolve(shape.namespace).to_owned(),
            name: pod.name.to_string(),
            uid: pod.uid.to_string(),
            generation: pod.generation,
            scheduler: strings.resolve(shape.scheduler_name).to_owned(),
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
