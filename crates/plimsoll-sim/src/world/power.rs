//! What a machine draws.

pub use plimsoll_core::telemetry::{POINTS, PowerCurve};
