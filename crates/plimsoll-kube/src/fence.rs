//! Whether this process may write: only as long as it is certain to lead.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A moment until which writes are allowed. Clones share it.
#[derive(Debug, Clone)]
pub struct Fence {
    start: Instant,
    /// Nanoseconds after `start`.
    until: Arc<AtomicU64>,
}

impl Fence {
    /// A fence that lets everything through: nobody else schedules these pods.
    pub fn open() -> Self {
        Self { start: Instant::now(), until: Arc::new(AtomicU64::new(u64::MAX)) }
    }

    /// A fence that lets nothing through before it is told to.
    pub fn closed() -> Self {
        Self { start: Instant::now(), until: Arc::new(AtomicU64::new(0)) }
    }

    /// Lets writes through until then.
    pub fn allow_until(&self, moment: Instant) {
        let nanoseconds = moment.saturating_duration_since(self.start).as_nanos().min(u128::from(u64::MAX - 1));
        self.until.store(nanoseconds as u64, Ordering::Release);
    }

    /// Lets nothing through from now on.
    pub fn close(&self) {
        self.until.store(0, Ordering::Release);
    }

    /// How long writes are let through from now on.
    pub fn left(&self) -> Duration {
        Duration::from_nanos(self.until.load(Ordering::Acquire)).saturating_sub(self.start.elapsed())
    }

    /// Whether a write may be sent now.
    pub fn allows(&self) -> bool {
        self.start.elapsed() < Duration::from_nanos(self.until.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_opens_until_a_moment_and_closes() {
        assert!(Fence::open().allows());
        let fence = Fence::closed();
        assert!(!fence.allows());
        fence.allow_until(Instant::now() + Duration::from_secs(3600));
        assert!(fence.clone().allows());
        assert!(fence.left() > Duration::from_secs(3000));
        fence.close();
        assert!(!fence.allows());
        fence.allow_until(Instant::now());
        assert!(!fence.allows());
    }
}
