//! The Plimsoll scheduling engine.

pub mod config;
pub mod queue;
