//! The Plimsoll scheduling engine.

pub mod config;
pub mod quantity;
pub mod storage;
