//! Counts, errors and times of requests, and what they come to.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Classes to each doubling of a time: a percentile is at most one part in 32 above the true one.
const CLASSES: u64 = 32;

/// What became of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    /// The answer that was expected, and how long it took until its end.
    Good(Duration),
    /// An answer of another status.
    Status(u16),
    /// No answer in time.
    Timeout,
    /// No connection.
    Connection,
    /// An answer that broke off.
    Body,
    /// Something else.
    Other,
}

impl Outcome {
    /// What the error is called; none if all is well.
    pub fn error(self) -> Option<String> {
        match self {
            Self::Good(_) => None,
            Self::Status(status) => Some(format!("status {status}")),
            Self::Timeout => Some("timeout".to_owned()),
            Self::Connection => Some("connection".to_owned()),
            Self::Body => Some("body".to_owned()),
            Self::Other => Some("other".to_owned()),
        }
    }
}

/// What came of a number of requests.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    /// Requests that were answered or failed.
    pub requests: u64,
    /// Those that failed.
    pub errors: u64,
    /// The part that failed, from 0 to 1; 0 without requests.
    pub error_rate: f64,
    /// How often each kind of error came: `status 503`, `timeout`, `connection`, `body`, `other`.
    pub errors_by_kind: BTreeMap<String, u64>,
    /// Requests a second.
    pub per_second: f64,
    /// How long expected answers took; nothing where none came.
    pub latency_ms: Option<LatencyMs>,
}

/// How long answers took until their end, in milliseconds. Percentiles are by nearest rank, at most 1/32 above the true ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LatencyMs {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// 90 of 100 took no longer.
    pub p90: f64,
    /// 95 of 100 took no longer.
    pub p95: f64,
    /// 99 of 100 took no longer.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

/// Requests as they are counted. Times are in classes of which only those that occur are held, so that one for each second is small.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    good: u64,
    errors: BTreeMap<Outcome, u64>,
    sum_us: u64,
    max_us: u64,
    classes: BTreeMap<u16, u64>,
}

impl Tally {
    pub fn add(&mut self, outcome: Outcome) {
        let Outcome::Good(took) = outcome else {
            *self.errors.entry(outcome).or_default() += 1;
            return;
        };
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.good += 1;
        self.sum_us = self.sum_us.saturating_add(us);
        self.max_us = self.max_us.max(us);
        *self.classes.entry(class(us)).or_default() += 1;
    }

    pub fn merge(&mut self, other: &Self) {
        self.good += other.good;
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
        self.max_us = self.max_us.max(other.max_us);
        for (outcome, count) in &other.errors {
            *self.errors.entry(*outcome).or_default() += count;
        }
        for (class, count) in &other.classes {
            *self.classes.entry(*class).or_default() += count;
        }
    }

    /// What it comes to, over so long a time.
    pub fn figures(&self, over: Duration) -> Figures {
        let errors: u64 = self.errors.values().sum();
        let requests = self.good + errors;
        let rate = |count: u64, of: f64| if of > 0.0 { count as f64 / of } else { 0.0 };
        let errors_by_kind = self.errors.iter().filter_map(|(outcome, count)| Some((outcome.error()?, *count)));
        Figures {
            requests,
            errors,
            error_rate: rate(errors, requests as f64),
            errors_by_kind: errors_by_kind.collect(),
            per_second: rate(requests, over.as_secs_f64()),
            latency_ms: (self.good > 0).then(|| LatencyMs {
                mean: self.sum_us as f64 / self.good as f64 / 1e3,
                p50: self.percentile(50),
                p90: self.percentile(90),
                p95: self.percentile(95),
                p99: self.percentile(99),
                max: self.max_us as f64 / 1e3,
            }),
        }
    }

    fn percentile(&self, of_100: u64) -> f64 {
        let rank = (self.good * of_100).div_ceil(100);
        let mut seen = 0;
        let found = self.classes.iter().find(|(_, count)| {
            seen += **count;
            seen >= rank
        });
        found.map_or(0, |(class, _)| longest(*class).min(self.max_us)) as f64 / 1e3
    }
}

/// The class of a time: exact up to the number of classes, then so many to each doubling.
fn class(us: u64) -> u16 {
    let doublings = us.checked_ilog2().map_or(0, |log| log.saturating_sub(CLASSES.ilog2()));
    // 59 doublings of 32 classes are below two thousand.
    (u64::from(doublings) * CLASSES + (us >> doublings)) as u16
}

/// The longest time of a class.
fn longest(class: u16) -> u64 {
    let class = u64::from(class);
    let doublings = (class / CLASSES).saturating_sub(1);
    ((u128::from(class - doublings * CLASSES + 1) << doublings) - 1).try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_holds_times_that_differ_by_a_part_in_32() {
        let times = (0..10_000).chain((0..64).map(|bit| 1 << bit)).chain((0..64).map(|bit| u64::MAX >> bit));
        for us in times {
            let top = longest(class(us));
            assert!(top >= us && top - us <= us / 32, "{us} µs is told as {top} µs");
            assert_eq!(class(top), class(us));
            assert!(top == u64::MAX || class(top + 1) == class(us) + 1, "a gap after {top} µs");
        }
    }

    #[test]
    fn percentiles_are_by_nearest_rank_and_errors_are_in_none() {
        let mut tally = Tally::default();
        (1..=100).for_each(|ms| tally.add(Outcome::Good(Duration::from_millis(ms))));
        (0..50).for_each(|_| tally.add(Outcome::Status(503)));
        (0..50).for_each(|_| tally.add(Outcome::Timeout));
        let figures = tally.figures(Duration::from_secs(10));
        assert_eq!((figures.requests, figures.errors, figures.error_rate), (200, 100, 0.5));
        assert_eq!(figures.per_second, 20.0);
        assert_eq!(figures.errors_by_kind, [("status 503".to_owned(), 50), ("timeout".to_owned(), 50)].into());
        let latency = figures.latency_ms.unwrap();
        for (found, expected) in
            [(latency.p50, 50.0), (latency.p90, 90.0), (latency.p95, 95.0), (latency.p99, 99.0), (latency.max, 100.0)]
        {
            assert!((expected..=expected * 33.0 / 32.0).contains(&found), "expected {expected}, and got {found}");
        }
        assert_eq!(latency.mean, 50.5);
    }

    #[test]
    fn nothing_comes_to_nothing() {
        assert_eq!(Tally::default().figures(Duration::ZERO), Figures::default());
    }

    #[test]
    fn a_sum_is_as_if_counted_at_once() {
        let outcomes = (0..1000).map(|n| match n % 7 {
            0 => Outcome::Status(500 + n % 3),
            1 => Outcome::Connection,
            _ => Outcome::Good(Duration::from_micros(u64::from(n) * 37)),
        });
        let (mut whole, mut parts) = (Tally::default(), [Tally::default(), Tally::default()]);
        for (at, outcome) in outcomes.enumerate() {
            whole.add(outcome);
            parts[at % 2].add(outcome);
        }
        let mut sum = parts[0].clone();
        sum.merge(&parts[1]);
        assert_eq!(sum.figures(Duration::from_secs(1)), whole.figures(Duration::from_secs(1)));
    }
}
