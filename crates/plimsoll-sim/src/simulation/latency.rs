//! Latency of running pods, integrated over time.

use super::Readings;
use crate::measures::Measures;
use crate::workload::LatencyConstraint;
use std::collections::BTreeMap;
use std::time::Duration;

/// Latencies are told apart by hundredths of a millisecond.
const CLASSES_PER_MS: f64 = 100.0;

/// A count, integrated over time.
#[derive(Debug, Clone, Copy, Default)]
struct Clocked {
    count: i64,
    since: Duration,
    seconds: f64,
}

impl Clocked {
    fn change(&mut self, now: Duration, by: i64) {
        self.seconds += self.count as f64 * now.saturating_sub(self.since).as_secs_f64();
        self.since = now;
        self.count += by;
    }

    fn hours(&self, now: Duration) -> f64 {
        (self.seconds + self.count as f64 * now.saturating_sub(self.since).as_secs_f64()) / 3600.0
    }
}

/// How pods are felt.
#[derive(Debug, Default)]
pub struct LatencyMeter {
    /// Running pods by latency.
    classes: BTreeMap<u64, Clocked>,
    above_soft: Clocked,
    above_hard: Clocked,
    sum_ms: f64,
    running: i64,
}

impl LatencyMeter {
    /// Pods of one latency come (1) or go (-1).
    pub fn change(&mut self, now: Duration, ms: f64, constraint: Option<LatencyConstraint>, by: i64) {
        let class = (ms.clamp(0.0, 1e9) * CLASSES_PER_MS).round() as u64;
        self.classes.entry(class).or_default().change(now, by);
        self.sum_ms += ms * by as f64;
        self.running += by;
        if self.running == 0 {
            // No error of rounding outlives the pods that made it.
            self.sum_ms = 0.0;
        }
        if let Some(constraint) = constraint {
            self.above_soft.change(now, if ms > constraint.soft_ms { by } else { 0 });
            self.above_hard.change(now, if ms > constraint.hard_ms { by } else { 0 });
        }
    }

    /// The mean latency of running pods.
    pub fn mean_ms(&self) -> Option<f64> {
        (self.running > 0).then(|| self.sum_ms / self.running as f64)
    }

    /// The warm-up is over: what was integrated does not count.
    pub fn start_over(&mut self, now: Duration) {
        for clocked in self.classes.values_mut().chain([&mut self.above_soft, &mut self.above_hard]) {
            clocked.change(now, 0);
            clocked.seconds = 0.0;
        }
    }

    /// Writes what accrued.
    pub fn accrued(&self, now: Duration, readings: &mut Readings) {
        for (class, clocked) in &self.classes {
            let hours = clocked.hours(now);
            readings.latency_ms_hours += *class as f64 / CLASSES_PER_MS * hours;
        }
        readings.soft_violation_hours = self.above_soft.hours(now);
        readings.hard_violation_hours = self.above_hard.hours(now);
    }

    /// Writes the figures.
    pub fn read(&mut self, now: Duration, measures: &mut Measures) {
        for clocked in self.classes.values_mut().chain([&mut self.above_soft, &mut self.above_hard]) {
            clocked.change(now, 0);
        }
        let total: f64 = self.classes.values().map(|clocked| clocked.seconds).sum();
        measures.soft_violation_minutes = self.above_soft.seconds / 60.0;
        measures.hard_violation_minutes = self.above_hard.seconds / 60.0;
        if total <= 0.0 {
            return;
        }
        let ms = |class: u64| class as f64 / CLASSES_PER_MS;
        let weighted: f64 = self.classes.iter().map(|(class, clocked)| ms(*class) * clocked.seconds).sum();
        measures.latency_mean_ms = Some(weighted / total);
        let mut below = 0.0;
        let p95 = self.classes.iter().find(|(_, clocked)| {
            below += clocked.seconds;
            below >= total * 0.95
        });
        measures.latency_p95_ms = p95.map(|(class, _)| ms(*class));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_counts_by_time() {
        let mut meter = LatencyMeter::default();
        let constraint = Some(LatencyConstraint { soft_ms: 20.0, hard_ms: 30.0 });
        let minute = Duration::from_secs(60);
        meter.change(Duration::ZERO, 10.0, constraint, 1);
        meter.change(3 * minute, 10.0, constraint, -1);
        meter.change(3 * minute, 40.0, constraint, 1);
        assert_eq!(meter.mean_ms(), Some(40.0));
        let mut measures = Measures::default();
        meter.read(4 * minute, &mut measures);
        assert_eq!(measures.latency_mean_ms, Some(17.5));
        assert_eq!(measures.latency_p95_ms, Some(40.0));
        assert_eq!((measures.soft_violation_minutes, measures.hard_violation_minutes), (1.0, 1.0));
    }
}
