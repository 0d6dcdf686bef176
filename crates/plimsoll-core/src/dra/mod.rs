//! Dynamic Resource Allocation with structured parameters, as kube-scheduler does it with the feature gates of its
//! release: admin access, prioritised lists, partitionable devices, device taints, consumable capacity, binding
//! conditions and extended resources backed by device classes.
//!
//! [`DraObjects`] is fed with resource slices, claims and device classes. The functions of [`plugin`] and [`reserve`]
//! are what the DynamicResources plugin does at each extension point, those of [`hints`] tell the queue whom an event
//! may help.

mod allocator;
mod capacity;
pub mod cel;
pub mod claims;
mod constraint;
mod counters;
mod extended;
pub mod hints;
mod memo;
mod node;
mod objects;
pub mod plugin;
mod pools;
mod request;
pub mod reserve;
mod result;
mod slices;
#[cfg(test)]
mod tests;

pub use extended::{is_controlled_by, is_extended_claim, is_extended_resource};
pub use node::{NodeSelector, NodeView, PlainNode};
pub use objects::{DEVICE_CLASS_RESOURCE_PREFIX, DraObjects, ObjectError};
