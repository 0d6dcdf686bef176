//! The Plimsoll scheduling engine.

pub mod quantity;
pub mod storage;
