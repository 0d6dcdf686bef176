//! The time as the engine counts it: seconds since 1970, going on evenly whatever happens to the clock of the machine.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Tells the time.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Instant,
    at_start: Duration,
}

impl Clock {
    /// A clock that is set once.
    pub fn new() -> Self {
        let at_start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { start: Instant::now(), at_start }
    }

    /// The time since 1970.
    pub fn now(&self) -> Duration {
        self.at_start + self.start.elapsed()
    }

    /// The moment at which it will be so late.
    pub fn moment(&self, time: Duration) -> Instant {
        self.start + time.saturating_sub(self.at_start)
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}
