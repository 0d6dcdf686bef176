//! What pods really use, which is seldom what they ask for.

use plimsoll_core::rng::Rng;
use std::time::Duration;

/// What pods really use of what they ask for.
pub trait Usage: Send + Sync {
    /// The share of its CPU request that a pod uses, apart from the hour; `recorded` is what was measured of it.
    fn share(&self, pod: usize, recorded: Option<f32>) -> f64;

    /// By how much all pods use more, or less, at this time.
    fn factor(&self, _now: Duration) -> f64 {
        1.0
    }

    /// When [`Self::factor`] changes next, after `now`.
    fn next_change(&self, _now: Duration) -> Option<Duration> {
        None
    }

    /// Whether pods use just what they ask for, always.
    fn is_as_requested(&self) -> bool {
        false
    }

    /// Whether pods on a machine that is asked for more than it has run slower, and so longer.
    fn contends(&self) -> bool {
        false
    }
}

/// Pods use what they ask for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AsRequested;

impl Usage for AsRequested {
    fn share(&self, _: usize, _: Option<f32>) -> f64 {
        1.0
    }

    fn is_as_requested(&self) -> bool {
        true
    }
}

/// Each pod uses a share of its own, which follows the time of day.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Varied {
    /// The smallest share a pod may have.
    pub least: f64,
    /// The largest.
    pub most: f64,
    /// By how much the time of day moves it, as a share: 0.5 is from half to one and a half.
    pub daily_swing: f64,
    /// Whether overloaded machines slow down.
    pub contends: bool,
    /// Draws the shares.
    pub seed: u64,
}

/// How often the time of day is looked at.
const STEP: Duration = Duration::from_secs(900);
const DAY: f64 = 86_400.0;
/// What a pod uses has nothing to do with how long it lives, though both are drawn by seed and pod.
const SALT: u64 = 0x5851_f42d_4c95_7f2d;

impl Usage for Varied {
    fn share(&self, pod: usize, recorded: Option<f32>) -> f64 {
        if let Some(recorded) = recorded {
            return f64::from(recorded);
        }
        let mut rng = Rng::new(self.seed ^ SALT ^ (pod as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        self.least + (self.most - self.least) * rng.unit()
    }

    fn factor(&self, now: Duration) -> f64 {
        let step = now.as_secs() / STEP.as_secs() * STEP.as_secs();
        (1.0 + self.daily_swing * libm::sin(step as f64 / DAY * std::f64::consts::TAU)).max(0.0)
    }

    fn next_change(&self, now: Duration) -> Option<Duration> {
        (self.daily_swing != 0.0).then(|| STEP * u32::try_from(now.as_secs() / STEP.as_secs() + 1).unwrap_or(u32::MAX))
    }

    fn contends(&self) -> bool {
        self.contends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_stay_in_their_range_and_repeat() {
        let usage = Varied { least: 0.2, most: 0.8, daily_swing: 0.0, contends: false, seed: 7 };
        let shares: Vec<_> = (0..1000).map(|pod| usage.share(pod, None)).collect();
        assert!(shares.iter().all(|share| (0.2..=0.8).contains(share)));
        assert!((shares.iter().sum::<f64>() / 1000.0 - 0.5).abs() < 0.03);
        assert_eq!(usage.share(5, None), shares[5]);
        assert_eq!(usage.share(5, Some(0.25)), 0.25);
        assert_eq!(usage.next_change(Duration::ZERO), None);
    }
}
