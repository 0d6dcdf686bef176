//! Kubernetes objects compiled into the interned, dense form that decisions work on.
//!
//! Compilation happens once, when a watch event (or a trace) brings the object; everything after it compares integers.

pub mod affinity;
pub mod intern;
pub mod labels;
pub mod node;
pub mod node_affinity;
pub mod pod;
pub mod resources;
pub mod taints;
pub mod validation;

pub use affinity::{AffinityTerm, PodAffinity, WeightedTerm};
pub use intern::{Interner, Sym};
pub use labels::{LabelSet, Operator, Requirement, Selector};
pub use node::NodeSpec;
pub use node_affinity::{NodeAffinity, NodeSelectorTerm, PreferredTerm};
pub use pod::{Controller, ControllerKind, HostPort, LocalShape, PodShape, PodSpread, SpreadConstraint};
pub use resources::{Requests, ResourceId, ResourceNames};
pub use taints::{Effect, Taint, Toleration};

use crate::quantity::QuantityError;

/// Why an object cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{object}: {field}: {problem}")]
pub struct ModelError {
    /// The object, such as `pod default/web-1`.
    pub object: String,
    /// The path of the field.
    pub field: String,
    /// What is wrong with it and what to write instead.
    pub problem: String,
}

/// A quantity that cannot be read, with the field it stands in; the object is added by who knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldError {
    pub field: String,
    pub problem: String,
}

impl FieldError {
    pub(crate) fn quantity(field: String, error: &QuantityError) -> Self {
        Self { field, problem: error.to_string() }
    }

    pub(crate) fn of(self, object: impl Into<String>) -> ModelError {
        ModelError { object: object.into(), field: self.field, problem: self.problem }
    }
}
