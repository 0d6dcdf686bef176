//! Volumes: the rules of VolumeRestrictions, NodeVolumeLimits, VolumeBinding and VolumeZone.
//!
//! [`StorageObjects`] holds the storage part of the cluster, fed by watch events; [`PodVolumes`] is what a pod asks of
//! it, compiled once from the pod's spec. Each plugin is a module of functions over the two and a [`NodeView`]; none of
//! them keeps state of its own, and what they would write to the API they return as values.
//!
//! Feature gates are those Kubernetes v1.36 has on by default: VolumeAttributesClass is on, StorageCapacityScoring and
//! VolumeLimitScaling are off, so VolumeBinding scores nothing and the presence of a CSI driver is not enforced.

pub mod binding;
mod free;
pub mod hints;
pub mod limits;
mod matching;
pub mod migration;
pub mod objects;
pub mod pod;
pub mod reservation;
pub mod restrictions;
pub mod selector;
pub mod state;
pub mod zone;

use std::borrow::Cow;

use crate::framework::Code;

pub use objects::StorageError;
pub use pod::PodVolumes;
pub use reservation::{VolumeReservation, VolumeWrite};
pub use state::{Change, StorageObjects};

/// Why a plugin refuses a pod, everywhere (PreFilter) or on one node (Filter).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// Whether evicting pods could help, or an error.
    pub code: Code,
    /// The reasons, in the order and wording of Kubernetes.
    pub reasons: Vec<Cow<'static, str>>,
}

impl Rejection {
    /// A refusal that evicting pods might lift.
    pub fn unschedulable(reason: impl Into<Cow<'static, str>>) -> Self {
        Self { code: Code::Unschedulable, reasons: vec![reason.into()] }
    }

    /// A refusal that evicting pods cannot lift.
    pub fn unresolvable(reason: impl Into<Cow<'static, str>>) -> Self {
        Self { code: Code::UnschedulableAndUnresolvable, reasons: vec![reason.into()] }
    }

    /// A failure that ends the scheduling attempt.
    pub fn error(reason: impl Into<Cow<'static, str>>) -> Self {
        Self { code: Code::Error, reasons: vec![reason.into()] }
    }
}

/// What PreFilter says. None of the four plugins narrows the set of nodes here.
#[derive(Debug, Clone)]
pub enum PreFilterOutcome<S> {
    /// The plugin does not apply: its Filter, AddPod and RemovePod are not called for this pod.
    Skip,
    /// Filter is to be called with this state.
    Continue(S),
    /// The pod fits nowhere.
    Reject(Rejection),
}

/// A node as the volume plugins see it: a real one, or one from which preemption has removed pods.
pub trait NodeView {
    /// The node's name.
    fn name(&self) -> &str;
    /// The value of one of the node's labels.
    fn label(&self, key: &str) -> Option<&str>;
    /// The volumes of the pods on the node; pods whose volumes are empty may be left out.
    fn pod_volumes(&self) -> impl Iterator<Item = &PodVolumes>;
}

/// The wording of a lister that does not find an object.
fn not_found(resource: &str, name: &str) -> String {
    format!("{resource} {} not found", quote(name))
}

/// A string in double quotes, as Go's `%q` prints it for names.
fn quote(text: &str) -> String {
    format!("{text:?}")
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod testing;
