//! The Plimsoll scheduling engine.

pub mod dra;
pub mod quantity;
