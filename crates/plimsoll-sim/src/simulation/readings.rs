//! What accrued since a run began, to be read at any time: the difference of two readings is what happened in between.

use super::Simulation;
use std::ops::{Add, Sub};

macro_rules! readings {
    ($($(#[$doc:meta])* $field:ident,)*) => {
        /// Sums and integrals over simulated time, from the beginning of a run, its warm-up included.
        #[derive(Debug, Clone, Copy, Default, PartialEq)]
        pub struct Readings {
            $($(#[$doc])* pub $field: f64,)*
        }

        impl Add for Readings {
            type Output = Self;

            fn add(self, other: Self) -> Self {
                Self { $($field: self.$field + other.$field,)* }
            }
        }

        impl Sub for Readings {
            type Output = Self;

            fn sub(self, other: Self) -> Self {
                Self { $($field: self.$field - other.$field,)* }
            }
        }
    };
}

readings! {
    /// Hours.
    hours,
    /// Hours for which machines were awake, summed over machines.
    node_hours,
    /// Hours for which machines ran a pod, summed over machines.
    active_node_hours,
    /// Energy, in kWh.
    kwh,
    /// Carbon dioxide, in kg; 0 without a carbon intensity.
    co2_kg,
    /// Money; 0 without prices.
    cost,
    /// Free CPU on awake machines that the mean pod cannot use, in core-hours.
    stranded_core_hours,
    /// Free GPUs that the GPU pods of the workload cannot use, in GPU-hours.
    stranded_gpu_hours,
    /// Standard deviation of CPU allocation across machines, times hours.
    cpu_spread_hours,
    /// Hours for which pods waited, summed over pods.
    waiting_hours,
    /// Hours for which pods ran, summed over pods.
    pod_hours,
    /// Pod-hours above the soft latency constraint.
    soft_violation_hours,
    /// Pod-hours above the hard latency constraint.
    hard_violation_hours,
    /// Latency to the user times hours, summed over running pods, in ms × h.
    latency_ms_hours,
    /// Latency of calls between services for a request times hours, in ms × h.
    call_latency_ms_hours,
    /// Hours for which a machine's usage exceeded what it has, summed over machines.
    overload_hours,
    /// Hours for which a machine's power was above its thermal limit, summed over machines.
    thermal_hours,
    /// Pods that gave up waiting.
    rejected,
    /// Pods that were removed for more important ones, or lost their machine.
    evicted,
    /// Machines that were woken.
    wakes,
}

impl Simulation<'_> {
    /// What accrued since the run began.
    pub fn readings(&self) -> Readings {
        let mut now = Readings {
            waiting_hours: self.waiting_hours,
            pod_hours: self.away.pod_hours(),
            call_latency_ms_hours: self.call_hours,
            rejected: self.gave_up as f64,
            evicted: (self.counts.preemptions + self.counts.evictions) as f64,
            wakes: self.counts.wakes as f64,
            ..Readings::default()
        };
        self.meter.accrued(&mut now);
        now.cost += self.away.cost();
        self.latency.accrued(self.now, &mut now);
        self.warmed + now
    }
}
