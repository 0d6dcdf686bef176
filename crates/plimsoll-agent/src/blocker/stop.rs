//! A flag that ends workers at once, even while they sleep.

use crate::lock;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Raised once, seen by all.
#[derive(Debug, Default)]
pub struct Stop {
    raised: Mutex<bool>,
    told: Condvar,
}

impl Stop {
    /// Ends all that look at it.
    pub fn raise(&self) {
        *lock(&self.raised) = true;
        self.told.notify_all();
    }

    /// Whether it is raised.
    pub fn is_raised(&self) -> bool {
        *lock(&self.raised)
    }

    /// Sleeps so long unless it is raised, and says whether it is.
    pub fn sleep(&self, time: Duration) -> bool {
        let raised = lock(&self.raised);
        let (raised, _) =
            self.told.wait_timeout_while(raised, time, |raised| !*raised).unwrap_or_else(PoisonError::into_inner);
        *raised
    }
}

/// Keeps to a number of bytes a second.
#[derive(Debug)]
pub struct Pace {
    bytes_per_second: f64,
    start: Instant,
    done: f64,
}

impl Pace {
    /// From now on.
    pub fn new(bytes_per_second: f64, now: Instant) -> Self {
        Self { bytes_per_second, start: now, done: 0.0 }
    }

    /// So many bytes are done: how long to wait now. Who is late by more than a second does not catch up, for a burst is no level.
    pub fn wait_after(&mut self, bytes: usize, now: Instant) -> Duration {
        self.done += bytes as f64;
        let due = Duration::from_secs_f64((self.done / self.bytes_per_second).min(86_400.0));
        let passed = now.saturating_duration_since(self.start);
        if passed > due + Duration::from_secs(1) {
            (self.start, self.done) = (now, 0.0);
        }
        due.saturating_sub(passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_sleeper_is_woken() {
        let stop = Arc::new(Stop::default());
        let sleeper = Arc::clone(&stop);
        let thread = std::thread::spawn(move || sleeper.sleep(Duration::from_secs(3600)));
        stop.raise();
        assert!(thread.join().unwrap());
        assert!(stop.is_raised());
        assert!(!Stop::default().sleep(Duration::ZERO));
    }

    #[test]
    fn the_pace_is_kept_and_a_pause_is_not_made_up_for() {
        let start = Instant::now();
        let mut pace = Pace::new(1000.0, start);
        assert_eq!(pace.wait_after(500, start), Duration::from_millis(500));
        assert_eq!(pace.wait_after(500, start + Duration::from_millis(700)), Duration::from_millis(300));
        let later = start + Duration::from_secs(100);
        assert_eq!(pace.wait_after(500, later), Duration::ZERO);
        assert_eq!(pace.wait_after(500, later), Duration::from_millis(500), "the pace starts anew");
    }
}
