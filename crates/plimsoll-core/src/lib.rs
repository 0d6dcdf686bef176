//! The Plimsoll scheduling engine.

pub mod config;
