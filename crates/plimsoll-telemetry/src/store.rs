//! What was read, by node and metric: the last readings, each with its time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, SystemTime};

/// A value at a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// The value.
    pub value: f64,
    /// When it was so.
    pub at: SystemTime,
}

/// How long readings count, and how long they are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// An older reading is stale: it is told, but does not count.
    pub stale_after: Duration,
    /// How far back readings are kept.
    pub window: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { stale_after: Duration::from_secs(60), window: Duration::from_secs(600) }
    }
}

/// Readings of a metric that are kept, however often it is read.
const MOST_READINGS: usize = 256;
/// Nodes of which readings are kept.
const MOST_NODES: usize = 50_000;

/// What is known of a metric of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    /// The metric.
    pub metric: String,
    /// The last reading.
    pub last: Reading,
    /// Whether that is too old to count.
    pub stale: bool,
    /// The readings of the window, oldest first.
    pub history: Vec<Reading>,
}

type Series = BTreeMap<String, VecDeque<Reading>>;

/// What was read.
#[derive(Debug, Default)]
pub struct Store {
    settings: Settings,
    nodes: RwLock<BTreeMap<String, Series>>,
}

impl Store {
    /// An empty store.
    pub fn new(settings: Settings) -> Self {
        Self { settings, nodes: RwLock::default() }
    }

    /// Takes in a reading. One that is no number, or older than what is known, is passed over.
    pub fn put(&self, node: &str, metric: &str, reading: Reading) {
        if !reading.value.is_finite() {
            return;
        }
        let mut nodes = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
        if !nodes.contains_key(node) && nodes.len() >= MOST_NODES {
            return;
        }
        let series = nodes.entry(node.to_owned()).or_default().entry(metric.to_owned()).or_default();
        if series.back().is_some_and(|last| last.at >= reading.at) {
            return;
        }
        series.push_back(reading);
        let oldest = reading.at.checked_sub(self.settings.window);
        while series.len() > MOST_READINGS || series.front().is_some_and(|first| Some(first.at) < oldest) {
            series.pop_front();
        }
    }

    /// Forgets nodes of which nothing was read for as long as readings are kept.
    pub fn forget_gone(&self, now: SystemTime) {
        let Some(oldest) = now.checked_sub(self.settings.window) else { return };
        let mut nodes = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
        for series in nodes.values_mut() {
            series.retain(|_, readings| readings.back().is_some_and(|last| last.at >= oldest));
        }
        nodes.retain(|_, series| !series.is_empty());
    }

    /// The nodes of which anything was read.
    pub fn nodes(&self) -> Vec<String> {
        self.nodes.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// All that is known of a node.
    pub fn node(&self, node: &str, now: SystemTime) -> Vec<Known> {
        let nodes = self.nodes.read().unwrap_or_else(PoisonError::into_inner);
        let series = nodes.get(node).into_iter().flatten();
        let known = series.filter_map(|(metric, readings)| {
            let last = *readings.back()?;
            let history = readings.iter().copied().collect();
            Some(Known { metric: metric.clone(), last, stale: self.is_stale(last, now), history })
        });
        known.collect()
    }

    /// A metric of a node, if it counts.
    pub fn fresh(&self, node: &str, metric: &str, now: SystemTime) -> Option<f64> {
        let nodes = self.nodes.read().unwrap_or_else(PoisonError::into_inner);
        let last = *nodes.get(node)?.get(metric)?.back()?;
        (!self.is_stale(last, now)).then_some(last.value)
    }

    fn is_stale(&self, reading: Reading, now: SystemTime) -> bool {
        // A reading from the future is of a clock that goes wrong, not of a dead exporter.
        now.duration_since(reading.at).is_ok_and(|age| age > self.settings.stale_after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds)
    }

    fn put(store: &Store, seconds: u64, value: f64) {
        store.put("n", "cpu", Reading { value, at: at(seconds) });
    }

    #[test]
    fn a_reading_counts_until_it_is_stale_and_is_told_after_that() {
        let store = Store::default();
        assert_eq!(store.fresh("n", "cpu", at(0)), None);
        put(&store, 0, 5.0);
        assert_eq!(store.fresh("n", "cpu", at(60)), Some(5.0));
        assert_eq!(store.fresh("n", "cpu", at(61)), None);
        let known = store.node("n", at(61));
        assert_eq!((known[0].last.value, known[0].stale), (5.0, true));
        // A clock that goes back makes nothing stale.
        assert_eq!(store.fresh("n", "cpu", at(0) - Duration::from_secs(5)), Some(5.0));
    }

    #[test]
    fn what_is_no_number_or_older_is_passed_over() {
        let store = Store::default();
        put(&store, 10, 1.0);
        put(&store, 5, 2.0);
        put(&store, 20, f64::NAN);
        assert_eq!(store.node("n", at(20))[0].history, [Reading { value: 1.0, at: at(10) }]);
    }

    #[test]
    fn history_is_a_window_and_bounded() {
        let store = Store::default();
        for second in 0..2000 {
            put(&store, second, second as f64);
        }
        let history = &store.node("n", at(2000))[0].history;
        assert_eq!(history.len(), MOST_READINGS);
        assert_eq!(history.last().map(|last| last.value), Some(1999.0));
        let sparse = Store::default();
        for minute in 0..60 {
            put(&sparse, minute * 60, 0.0);
        }
        assert_eq!(sparse.node("n", at(3600))[0].history.len(), 11);
        sparse.forget_gone(at(59 * 60 + 600));
        assert_eq!(sparse.nodes(), ["n"]);
        sparse.forget_gone(at(59 * 60 + 601));
        assert!(sparse.nodes().is_empty());
    }
}
