//! What machines cost.

use crate::fleet::Pool;

/// Prices.
pub trait Prices: Send + Sync {
    /// What a machine of the pool costs for an hour in which it is awake.
    fn hourly(&self, pool: &Pool) -> f64;
}

/// The price that a machine's kind has: on demand, or preemptible. A kind without a price costs nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListPrices;

impl Prices for ListPrices {
    fn hourly(&self, pool: &Pool) -> f64 {
        pool.machine.price.map_or(0.0, |price| if pool.spot { price.spot } else { price.on_demand })
    }
}
