//! What is measured, while it is measured: users write, and anybody may look at any time.

use crate::figures::{Figures, Outcome, Tally};
use crate::metrics::Metrics;
use crate::report::Second;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// The longest time that can be looked back; it bounds what is held of a run that never ends.
pub const LONGEST_WINDOW: Duration = Duration::from_secs(300);

/// The figures of a run so far. Clones look at the same run.
#[derive(Debug, Clone, Default)]
pub struct Live {
    book: Arc<Mutex<Book>>,
    metrics: Option<Arc<Metrics>>,
}

#[derive(Debug, Default)]
struct Book {
    begun: Option<(Instant, SystemTime)>,
    /// When requests ceased to begin.
    closed: Option<Duration>,
    /// When the newest request ended.
    newest: Duration,
    /// How long it ran, once it has ended.
    ended: Option<Duration>,
    names: Vec<Arc<str>>,
    by_name: Vec<Tally>,
    /// The newest seconds in which requests ended.
    window: VecDeque<(u64, Tally)>,
    /// All seconds that are over and had requests.
    series: Vec<Second>,
}

/// What came of a run so far.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// How long it has been running.
    pub seconds: f64,
    /// All requests.
    pub total: Figures,
    /// Those of each name, in the order of the scenario.
    pub requests: Vec<Named>,
}

/// The figures of requests of one name.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Named {
    /// The name.
    pub name: String,
    /// The figures.
    #[serde(flatten)]
    pub figures: Figures,
}

impl Live {
    /// Of a run that has not begun.
    pub fn new() -> Self {
        Self::default()
    }

    /// Of a run whose requests are counted elsewhere, too.
    pub(crate) fn counted_by(metrics: Arc<Metrics>) -> Self {
        Self { metrics: Some(metrics), ..Self::default() }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // Whoever panicked has left whole counts, one of them perhaps missing.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self, names: &[Arc<str>]) {
        let by_name = vec![Tally::default(); names.len()];
        let begun = Some((Instant::now(), SystemTime::now()));
        *self.book() = Book { begun, names: names.to_vec(), by_name, ..Book::default() };
    }

    /// No more requests begin: what comes now was under way.
    pub(crate) fn close(&self) {
        let mut book = self.book();
        book.closed = Some(book.elapsed());
    }

    /// Nothing is counted any more. The run took until it was closed, or until the last answer after that.
    pub(crate) fn end(&self) {
        let mut book = self.book();
        let until = book.closed.map_or_else(|| book.elapsed(), |closed| closed.max(book.newest));
        book.ended = Some(until);
    }

    pub(crate) fn record(&self, name: usize, outcome: Outcome) {
        let mut book = self.book();
        // What comes after the end belongs to no time that was measured.
        if book.ended.is_some() {
            return;
        }
        let at = book.elapsed();
        book.record(at, name, outcome);
        drop(book);
        if let Some(metrics) = &self.metrics {
            metrics.count(outcome);
        }
    }

    /// All requests so far.
    pub fn summary(&self) -> Summary {
        let book = self.book();
        let over = book.elapsed();
        let mut total = Tally::default();
        book.by_name.iter().for_each(|tally| total.merge(tally));
        let named = book.names.iter().zip(&book.by_name);
        let requests = named.map(|(name, tally)| Named { name: name.to_string(), figures: tally.figures(over) });
        Summary { seconds: over.as_secs_f64(), total: total.figures(over), requests: requests.collect() }
    }

    /// The requests of the newest seconds, at most [`LONGEST_WINDOW`]: what users have felt of late, which is what a placement can be rewarded
    /// for. Of a run that has ended these are its last seconds. Seconds are whole, and the present one counts.
    pub fn last(&self, window: Duration) -> Figures {
        self.book().last(window.min(LONGEST_WINDOW))
    }

    /// When it began.
    pub(crate) fn begun(&self) -> Option<SystemTime> {
        self.book().begun.map(|(_, at)| at)
    }

    /// Each second, also those without requests.
    pub(crate) fn series(&self) -> Vec<Second> {
        self.book().all_seconds()
    }
}

impl Book {
    fn elapsed(&self) -> Duration {
        self.ended.unwrap_or_else(|| self.begun.map_or(Duration::ZERO, |(at, _)| at.elapsed()))
    }

    fn record(&mut self, at: Duration, name: usize, outcome: Outcome) {
        let second = at.as_secs();
        self.newest = at;
        if self.window.back().is_none_or(|(newest, _)| *newest < second) {
            self.series.extend(self.window.back().map(Second::of));
            self.window.push_back((second, Tally::default()));
            let first = (second + 1).saturating_sub(LONGEST_WINDOW.as_secs());
            while self.window.front().is_some_and(|(oldest, _)| *oldest < first) {
                self.window.pop_front();
            }
        }
        if let Some((_, tally)) = self.window.back_mut() {
            tally.add(outcome);
        }
        if let Some(tally) = self.by_name.get_mut(name) {
            tally.add(outcome);
        }
    }

    fn last(&self, window: Duration) -> Figures {
        let elapsed = self.elapsed();
        let seconds = window.as_secs().max(1);
        let first = (elapsed.as_secs() + 1).saturating_sub(seconds);
        let mut total = Tally::default();
        let within = self.window.iter().filter(|(second, _)| *second >= first);
        within.for_each(|(_, tally)| total.merge(tally));
        total.figures(elapsed.saturating_sub(Duration::from_secs(first)))
    }

    fn all_seconds(&self) -> Vec<Second> {
        let newest = self.window.back().map(Second::of);
        let mut known = self.series.iter().cloned().chain(newest).peekable();
        let count = self.elapsed().as_secs_f64().ceil() as u64;
        let second = |second| known.next_if(|found| found.second == second).unwrap_or_else(|| Second::empty(second));
        (0..count).map(second).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn book(seconds: u64) -> Book {
        let mut book = Book { names: vec!["a".into()], by_name: vec![Tally::default()], ..Book::default() };
        for second in 0..seconds {
            let at = Duration::from_millis(second * 1000 + 500);
            book.record(at, 0, Outcome::Good(Duration::from_millis(10)));
            if second >= 8 {
                book.record(at, 0, Outcome::Status(503));
            }
        }
        book.ended = Some(Duration::from_secs(seconds));
        book
    }

    #[test]
    fn the_newest_seconds_are_told_without_those_before() {
        // The eleventh second, which has just begun, is one of them.
        let figures = book(10).last(Duration::from_secs(3));
        assert_eq!((figures.requests, figures.errors, figures.error_rate), (4, 2, 0.5));
        assert_eq!(figures.per_second, 2.0);
        assert_eq!(book(10).last(Duration::from_secs(100)).requests, 12);
    }

    #[test]
    fn a_long_run_holds_no_more_than_can_be_looked_back() {
        let book = book(1000);
        assert_eq!(book.window.len() as u64, LONGEST_WINDOW.as_secs());
        assert_eq!(book.all_seconds().len(), 1000);
        assert!(book.all_seconds().iter().enumerate().all(|(at, second)| second.second == at as u64));
    }

    #[test]
    fn seconds_without_requests_are_there() {
        let mut book = Book { names: vec!["a".into()], by_name: vec![Tally::default()], ..Book::default() };
        for at in [1, 4] {
            book.record(Duration::from_secs(at), 0, Outcome::Timeout);
        }
        book.ended = Some(Duration::from_millis(5500));
        let requests: Vec<_> = book.all_seconds().iter().map(|second| second.errors).collect();
        assert_eq!(requests, [0, 1, 0, 0, 1, 0]);
    }
}
