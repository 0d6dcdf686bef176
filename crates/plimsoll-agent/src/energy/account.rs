//! What is attributed to one process, cgroup or pod: its part of the packages' energy is its part of the time they were busy.

use std::collections::VecDeque;
use std::time::Duration;

/// How many windows are shown: a second of them at the usual length.
const RECENT: usize = 10;

/// What all processors did in a window.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    /// How long it was.
    pub length: Duration,
    /// Joules of all packages.
    pub joules: f64,
    /// How long all processors together were busy, in microseconds.
    pub busy: u64,
}

/// What was used and attributed so far.
#[derive(Debug, Clone, Default)]
pub struct Account {
    before: Option<u64>,
    /// Windows that were attributed.
    pub windows: u64,
    /// Energy since it is followed.
    pub joules: f64,
    /// Its part of the busy time in the last window, 0 to 1.
    pub share: f64,
    /// Milliwatts of the last windows, the newest last.
    pub recent: VecDeque<f64>,
    /// When somebody asked last, as time since the start.
    pub asked: Duration,
    /// Which process it is, where it is one.
    pub started: Option<u64>,
}

impl Account {
    /// The end of a window: microseconds used so far, and what all did. The first reading is only where counting starts.
    pub fn advance(&mut self, used: u64, span: Option<Span>) {
        let before = self.before.replace(used);
        let (Some(before), Some(span)) = (before, span) else { return };
        let part = used.saturating_sub(before) as f64;
        // Readings a little apart can make a part larger than the whole.
        self.share = if span.busy == 0 { 0.0 } else { (part / span.busy as f64).min(1.0) };
        let joules = self.share * span.joules;
        self.joules += joules;
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(joules * 1000.0 / span.length.as_secs_f64());
        self.windows += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(joules: f64, busy: u64) -> Option<Span> {
        Some(Span { length: Duration::from_millis(100), joules, busy })
    }

    #[test]
    fn the_first_reading_is_where_counting_starts() {
        let mut account = Account::default();
        account.advance(1_000_000, span(5.0, 100_000));
        assert_eq!((account.windows, account.joules), (0, 0.0));
        account.advance(1_025_000, span(5.0, 100_000));
        assert_eq!((account.windows, account.joules, account.share), (1, 1.25, 0.25));
        assert_eq!(account.recent, [12_500.0], "1.25 J in 100 ms are 12.5 W");
    }

    #[test]
    fn a_part_is_never_more_than_the_whole() {
        let mut account = Account::default();
        account.advance(0, None);
        account.advance(200_000, span(5.0, 100_000));
        assert_eq!(account.joules, 5.0);
        account.advance(300_000, span(5.0, 0));
        assert_eq!(account.joules, 5.0, "nobody was busy");
    }

    #[test]
    fn only_the_last_windows_are_shown() {
        let mut account = Account::default();
        for window in 0..100 {
            account.advance(window * 100_000, span(window as f64, 100_000));
        }
        assert_eq!(account.recent.len(), RECENT);
        assert_eq!(account.recent.back(), Some(&990_000.0));
    }
}
