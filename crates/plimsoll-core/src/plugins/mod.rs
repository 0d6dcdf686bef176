//! The rules of the default scheduler, one file each, under the names Kubernetes gives them.

mod default_preemption;
mod dynamic_resources;
mod image_locality;
mod inter_pod_affinity;
mod node_affinity;
mod node_declared_features;
mod node_name;
mod node_ports;
mod node_resources_balanced_allocation;
mod node_resources_fit;
mod node_unschedulable;
mod node_volume_limits;
mod pod_topology_spread;
mod priority_sort;
mod registry;
mod scheduling_gates;
mod scoring;
mod taint_toleration;
mod topology_sums;
mod volume_binding;
mod volume_restrictions;
mod volume_zone;
mod volumes;

pub use default_preemption::{Preemption, PreemptionError, nobody_to_preempt, preempt};
pub use dynamic_resources::DeviceNode;
pub use priority_sort::{Urgency, urgency};
pub use registry::build;
pub use scheduling_gates::gate_message;
pub(crate) use scoring::{Strategy, balance_score, share};
pub use volumes::DetachedNode;
