//! The learner: what a policy sees, what it is rewarded for, how it is trained, and how it is measured before it is trusted.
//!
//! Everything here runs over `plimsoll-sim`, in virtual time and from seeds: equal scenario and seed give an equal model. What a trained
//! model needs to decide (observation, forward pass, policy) knows nothing of training, so that it runs wherever the engine does.

pub mod agent;
pub mod environment;
pub mod error;
pub mod evaluate;
#[cfg(feature = "burn")]
pub mod experiment;
#[cfg(feature = "onnx")]
pub mod import;
pub mod lifetime;
pub mod model;
pub mod models;
#[cfg(feature = "burn")]
pub mod network;
pub mod observation;
pub mod policy;
mod protobuf;
pub mod reward;
pub mod spec;
pub mod train;
pub mod transfer;
pub mod tune;
pub mod variables;
pub mod workshop;
