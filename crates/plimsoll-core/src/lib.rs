//! The Plimsoll scheduling engine: it decides where a pod goes exactly as kube-scheduler does, many times faster.
//!
//! Events feed [`state::ClusterState`]; [`scheduler::Scheduler`] decides; what a decision asks for (a binding, a
//! preemption) is carried out by whoever drives the engine. The crate does no I/O, reads no clock, and draws its random
//! numbers from a seed: the same events give the same decisions on every machine.

pub mod account;
pub mod config;
pub mod conformance;
pub mod dra;
pub mod engine;
pub mod explain;
pub mod framework;
mod memo;
pub mod model;
mod plugins;
pub mod policy;
pub mod quantity;
pub mod queue;
pub mod reserve;
pub mod rng;
pub mod rules;
mod sampling;
pub mod scheduler;
pub mod state;
pub mod storage;
pub mod telemetry;

pub use plugins::{Preemption, PreemptionError, gate_message};
