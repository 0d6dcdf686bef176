//! A figure that changes in steps over time, once or again and again.

use std::time::Duration;

/// A figure by time: each entry holds from its time on. Before the first entry the first holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Steps {
    entries: Vec<(Duration, f64)>,
    /// After so long it begins anew.
    every: Option<Duration>,
}

impl Steps {
    /// A figure by its changes, in any order; of two at one time the later counts.
    pub fn new(mut entries: Vec<(Duration, f64)>) -> Self {
        entries.sort_by_key(|(at, _)| *at);
        Self { entries, every: None }
    }

    /// The same again and again, after so long each time: what would come later never does, and the last holds until the first comes again.
    pub fn repeating(mut self, every: Duration) -> Self {
        self.entries.retain(|(at, _)| *at < every);
        self.every = Some(every).filter(|every| !every.is_zero());
        self
    }

    /// A figure that never changes.
    pub fn constant(value: f64) -> Self {
        Self::new(vec![(Duration::ZERO, value)])
    }

    /// The figure at a time; none if there is no entry.
    pub fn at(&self, now: Duration) -> Option<f64> {
        let after = self.entries.partition_point(|(at, _)| *at <= self.split(now).1);
        let before_the_first = if self.every.is_some() { self.entries.len().saturating_sub(1) } else { 0 };
        self.entries.get(after.checked_sub(1).unwrap_or(before_the_first)).map(|(_, value)| *value)
    }

    /// When it changes next, after `now`.
    pub fn next_change(&self, now: Duration) -> Option<Duration> {
        let (begun, into) = self.split(now);
        let after = self.entries.partition_point(|(at, _)| *at <= into);
        let again = || Some(begun + self.every.filter(|_| self.entries.len() > 1)? + self.entries.first()?.0);
        self.entries.get(after).map(|(at, _)| begun + *at).or_else(again)
    }

    /// When the steps that hold now began, and how long ago that is.
    fn split(&self, now: Duration) -> (Duration, Duration) {
        let into = self.every.map_or(now, |every| {
            let into = now.as_nanos() % every.as_nanos();
            Duration::new((into / 1_000_000_000) as u64, (into % 1_000_000_000) as u32)
        });
        (now - into, into)
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

    #[test]
    fn steps_that_repeat_begin_anew() {
        let s = Duration::from_secs;
        let steps = Steps::new(vec![(s(5), 1.0), (s(10), 2.0), (s(50), 9.0)]).repeating(s(30));
        let figures = [0, 5, 9, 10, 29, 30, 35, 39, 40, 3009].map(|at| steps.at(s(at)));
        assert_eq!(figures, [2.0, 1.0, 1.0, 2.0, 2.0, 2.0, 1.0, 1.0, 2.0, 1.0].map(Some));
        assert_eq!([0, 5, 10, 30, 36].map(|at| steps.next_change(s(at))), [5, 10, 35, 35, 40].map(|at| Some(s(at))));
        assert_eq!(Steps::constant(1.0).repeating(s(30)).next_change(s(5)), None);
        assert_eq!(Steps::default().repeating(s(30)).at(s(5)), None);
    }
}
