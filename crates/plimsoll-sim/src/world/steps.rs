//! A figure that changes in steps over time.

use std::time::Duration;

/// A figure by time: each entry holds from its time on. Before the first entry the first holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Steps {
    entries: Vec<(Duration, f64)>,
}

impl Steps {
    /// A figure by its changes, in any order; of two at one time the later counts.
    pub fn new(mut entries: Vec<(Duration, f64)>) -> Self {
        entries.sort_by_key(|(at, _)| *at);
        Self { entries }
    }

    /// A figure that never changes.
    pub fn constant(value: f64) -> Self {
        Self { entries: vec![(Duration::ZERO, value)] }
    }

    /// The figure at a time; none if there is no entry.
    pub fn at(&self, now: Duration) -> Option<f64> {
        let after = self.entries.partition_point(|(at, _)| *at <= now);
        self.entries.get(after.saturating_sub(1)).map(|(_, value)| *value)
    }

    /// When it changes next, after `now`.
    pub fn next_change(&self, now: Duration) -> Option<Duration> {
        let after = self.entries.partition_point(|(at, _)| *at <= now);
        self.entries.get(after).map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_holds_until_the_next() {
        let s = Duration::from_secs;
        let steps = Steps::new(vec![(s(20), 3.0), (s(10), 2.0)]);
        assert_eq!([steps.at(s(0)), steps.at(s(10)), steps.at(s(19)), steps.at(s(99))], [2.0, 2.0, 2.0, 3.0].map(Some));
        assert_eq!(
            [steps.next_change(s(0)), steps.next_change(s(10)), steps.next_change(s(20))],
            [Some(s(10)), Some(s(20)), None]
        );
        assert_eq!(Steps::default().at(s(1)), None);
    }
}
