//! What no policy can beat: lower bounds for the machines in use and for the power drawn.
//!
//! [`fluid`](mod@fluid) lets pods flow over machines like water: cheap enough for a whole trace, and what every result is shown against.
//! [`exact`](mod@exact) keeps pods whole and on one machine for life: tighter, and solvable for small windows alone. Both hold for policies that
//! start each pod when it arrives; one that lets pods wait, or turns them away, runs less and may end below.

mod allotment;
pub mod demand;
pub mod exact;
pub mod fluid;

pub use demand::{Demand, Stay};
pub use exact::{ExactError, exact};
pub use fluid::{BoundSeries, fluid, fluid_over_time};

use std::time::Duration;

/// How bounds are counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Over how long demand is averaged before it is bounded; shorter is tighter and slower.
    pub step: Duration,
    /// What a machine without pods draws.
    pub sleep_watts: f64,
    /// Up to how many choices of a machine for a pod the exact bound is tried; pods times machines.
    pub exact_choices: usize,
    /// How long the solver may take for one of the exact bounds.
    pub exact_time: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        // Five minutes is the grain of the Azure trace. Windows of 120 choices (20 random pods on 6 machines) took up to 23 s for both
        // bounds; with a few more pods at a time, 20 s for one of them were often not enough.
        Self {
            step: Duration::from_secs(300),
            sleep_watts: 0.0,
            exact_choices: 120,
            exact_time: Duration::from_secs(60),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::{Fleet, Machine, Pool};
    use crate::world::power::PowerCurve;
    use std::sync::Arc;

    /// A fleet of pools given as machines, CPU and memory; machines draw 100 W idle and 200 W when full.
    pub fn fleet(pools: &[(usize, i64, i64)]) -> Fleet {
        let curve = PowerCurve::straight(100.0, 200.0).unwrap();
        Fleet { pools: pools.iter().map(|(count, cpu, memory)| pool(*count, *cpu, *memory, curve.clone())).collect() }
    }

    pub fn pool(count: usize, cpu_milli: i64, memory: i64, power: PowerCurve) -> Pool {
        let machine =
            Machine { name: "m".into(), cpu_milli, memory, pods: 110, gpus: None, power: Arc::new(power), price: None };
        Pool::new(cpu_milli.to_string(), machine, count)
    }

    pub fn stay(arrival: u64, end: u64, cpu_milli: i64, memory: i64) -> Stay {
        let [arrival, end] = [arrival, end].map(Duration::from_secs);
        Stay { arrival, end, cpu_milli, memory, gpu_milli: 0 }
    }
}
