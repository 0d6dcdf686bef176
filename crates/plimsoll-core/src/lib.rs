//! The Plimsoll scheduling engine.

pub mod quantity;
