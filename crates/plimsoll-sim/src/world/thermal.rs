//! How hot machines may get.

use crate::fleet::Pool;

/// A limit on what a machine may draw for long.
pub trait Thermal: Send + Sync {
    /// Watts above which a machine of the pool gets too hot.
    fn limit(&self, pool: &Pool) -> f64;

    /// Whether a machine above its limit slows down, so that it stays at the limit.
    fn throttles(&self) -> bool;
}

/// A share of what the machine draws at full load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShareOfFull {
    /// The share.
    pub share: f64,
    /// Whether the machine slows down above it.
    pub throttles: bool,
}

impl Thermal for ShareOfFull {
    fn limit(&self, pool: &Pool) -> f64 {
        pool.machine.power.full() * self.share
    }

    fn throttles(&self) -> bool {
        self.throttles
    }
}
