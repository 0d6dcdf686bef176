//! The cluster as events tell it: nodes, pods, and the counts that decisions need, kept by difference.

mod changes;
mod classes;
mod cluster;
mod consistency;
mod controllers;
mod counts;
mod node;
mod objects;
mod pod;
mod shapes;
mod topology;

pub use changes::ChangeLog;
pub use classes::{ClassId, CounterId, CounterKey, OwnedKind, OwnedTerm, OwnedTermId, PodClasses};
pub use cluster::{ClusterState, StateError, WellKnown, pod_key};
pub(crate) use consistency::equal;
pub use controllers::Controllers;
pub use counts::NodeCounts;
pub use node::{Amounts, Node, NodeId, Scalar};
pub use objects::Budget;
pub use pod::{Phase, Pod, PodId};
pub use shapes::{Counted, Handles, ShapeEntry, ShapeId, Shapes};
pub use topology::{NO_DOMAIN, Topologies, Topology, TopologyId};
