//! How a run went: waits, counts and the course over time.

use crate::checksum;
use crate::measures::{Measures, Series};

/// Upper ends of the classes into which waits are counted, in seconds.
const WAITS: [f64; 13] = [0.0, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, f64::MAX];
/// Fleets up to this size are drawn machine by machine.
pub const MACHINES_DRAWN: usize = 64;

/// How long pods waited, of those that count.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Waits {
    /// Seconds from arrival to start, of pods that started; ascending.
    pub started: Vec<f64>,
    /// Seconds that pods had waited at the end, of those that never started; for ever of those that gave up.
    pub unserved: Vec<f64>,
}

impl Waits {
    /// How many pods waited longer than so many seconds.
    pub fn longer_than(&self, seconds: f64) -> usize {
        let started = self.started.len() - self.started.partition_point(|wait| *wait <= seconds);
        started + self.unserved.iter().filter(|wait| **wait > seconds).count()
    }

    /// How many pods there are.
    pub fn pods(&self) -> usize {
        self.started.len() + self.unserved.len()
    }
}

/// What is counted and noted along the way.
#[derive(Debug, Default)]
pub struct Course {
    /// The samples.
    pub series: Series,
    /// Of pods that count.
    waits: Waits,
    /// Every placement, folded.
    checksum: u64,
}

impl Course {
    /// A pod was placed.
    pub fn placed(&mut self, pod: usize, machine: usize, nanoseconds: u128) {
        let before = if self.checksum == 0 { checksum::START } else { self.checksum };
        let words = [pod as u64, machine as u64, nanoseconds as u64];
        self.checksum = checksum::fold(before, words.into_iter().flat_map(u64::to_le_bytes));
    }

    /// A pod that counts was started after so many seconds.
    pub fn waited(&mut self, seconds: f64) {
        self.waits.started.push(seconds);
    }

    /// A pod that counts had waited for so many seconds when the run ended, and never started.
    pub fn never_started(&mut self, seconds: f64) {
        self.waits.unserved.push(seconds);
    }

    /// The checksum of all placements.
    pub fn checksum(&self) -> String {
        format!("{:016x}", self.checksum)
    }

    /// Writes what waits came to, and gives back the course.
    pub fn finish(mut self, measures: &mut Measures) -> (Series, Waits) {
        let waits = &mut self.waits.started;
        waits.sort_by(f64::total_cmp);
        let count = waits.len();
        let quantile = |share: f64| {
            let at = ((count as f64 * share).ceil() as usize).clamp(1, count.max(1)) - 1;
            waits.get(at).copied().unwrap_or(0.0)
        };
        if count > 0 {
            measures.wait_mean_s = waits.iter().sum::<f64>() / count as f64;
        }
        (measures.wait_p50_s, measures.wait_p95_s, measures.wait_p99_s) =
            (quantile(0.5), quantile(0.95), quantile(0.99));
        self.series.wait_upper_s = WAITS.to_vec();
        self.series.wait_count = vec![0; WAITS.len()];
        for wait in &*waits {
            let class = WAITS.partition_point(|upper| upper < wait);
            self.series.wait_count[class.min(WAITS.len() - 1)] += 1;
        }
        (self.series, self.waits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_become_quantiles_and_classes() {
        let mut course = Course::default();
        for wait in 0..100 {
            course.waited(f64::from(wait));
        }
        let mut measures = Measures::default();
        course.never_started(98.5);
        course.never_started(f64::INFINITY);
        let (series, waits) = course.finish(&mut measures);
        assert_eq!((waits.longer_than(98.0), waits.longer_than(99.0), waits.pods()), (3, 1, 102));
        assert_eq!((measures.wait_p50_s, measures.wait_p95_s, measures.wait_p99_s), (49.0, 94.0, 98.0));
        assert_eq!(series.wait_count.iter().sum::<u64>(), 100);
        assert_eq!(series.wait_count[..4], [1, 1, 1, 3]);
    }
}
