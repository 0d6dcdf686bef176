//! What machines draw, and how they sleep.

pub use plimsoll_core::telemetry::{POINTS, PowerCurve};

use std::time::Duration;

/// What a machine does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Activity {
    /// It sleeps.
    Asleep,
    /// It wakes up, and runs nothing yet.
    Booting,
    /// It runs, at this load between 0 and 1.
    Awake(f64),
}

/// How machines draw power and sleep.
pub trait Power: Send + Sync {
    /// Watts.
    fn watts(&self, curve: &PowerCurve, activity: Activity) -> f64;

    /// How long a machine stays empty before it falls asleep; none if it never does.
    fn sleep_after(&self) -> Option<Duration>;

    /// How long a machine takes to wake up.
    fn boot_delay(&self) -> Duration;
}

/// Machines fall asleep some time after the last pod left, and wake when a pod is placed on them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SleepWhenEmpty {
    /// How long a machine stays awake without pods.
    pub after: Duration,
    /// Watts asleep.
    pub sleep_watts: f64,
    /// From the wish to wake to the first pod that runs.
    pub boot_delay: Duration,
    /// Watts while waking; as without load if not given.
    pub boot_watts: Option<f64>,
}

impl Power for SleepWhenEmpty {
    fn watts(&self, curve: &PowerCurve, activity: Activity) -> f64 {
        match activity {
            Activity::Asleep => self.sleep_watts,
            Activity::Booting => self.boot_watts.unwrap_or_else(|| curve.idle()),
            Activity::Awake(load) => curve.at(load),
        }
    }

    fn sleep_after(&self) -> Option<Duration> {
        Some(self.after)
    }

    fn boot_delay(&self) -> Duration {
        self.boot_delay
    }
}

/// Machines are always awake.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AlwaysAwake;

impl Power for AlwaysAwake {
    fn watts(&self, curve: &PowerCurve, activity: Activity) -> f64 {
        match activity {
            Activity::Awake(load) => curve.at(load),
            Activity::Asleep | Activity::Booting => curve.idle(),
        }
    }

    fn sleep_after(&self) -> Option<Duration> {
        None
    }

    fn boot_delay(&self) -> Duration {
        Duration::ZERO
    }
}
