//! What is kept of a target's round trips: the newest, a moving average, and enough of them for percentiles.

use std::collections::VecDeque;

/// The newest round trips of a target, in seconds.
#[derive(Debug, Clone)]
pub struct Window {
    size: usize,
    alpha: f64,
    newest: VecDeque<f64>,
    average: Option<f64>,
    count: u64,
}

impl Window {
    /// An empty one that keeps `size` round trips and weighs the newest with `alpha` in the average.
    pub fn new(size: usize, alpha: f64) -> Self {
        Self { size: size.max(1), alpha, newest: VecDeque::new(), average: None, count: 0 }
    }

    /// Another round trip.
    pub fn add(&mut self, seconds: f64) {
        if self.newest.len() == self.size {
            self.newest.pop_front();
        }
        self.newest.push_back(seconds);
        self.average = Some(self.average.map_or(seconds, |average| average + self.alpha * (seconds - average)));
        self.count += 1;
    }

    /// How many there were in all.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The newest.
    pub fn last(&self) -> Option<f64> {
        self.newest.back().copied()
    }

    /// The exponentially weighted moving average.
    pub fn average(&self) -> Option<f64> {
        self.average
    }

    /// Percentiles by nearest rank, for parts between 0 and 1: each is a round trip that was measured.
    pub fn percentiles<const N: usize>(&self, parts: [f64; N]) -> Option<[f64; N]> {
        let mut sorted: Vec<f64> = self.newest.iter().copied().collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        Some(parts.map(|part| {
            let rank = (part * sorted.len() as f64).ceil() as usize;
            sorted[rank.saturating_sub(1).min(last)]
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn percentiles_are_those_of_the_newest() {
        let mut window = Window::new(100, 0.5);
        assert_eq!(window.percentiles([0.5]), None);
        for value in 1..=1000 {
            window.add(f64::from(value));
        }
        assert_eq!(window.percentiles([0.5, 0.95, 0.99, 1.0]), Some([950.0, 995.0, 999.0, 1000.0]));
        assert_eq!(window.count(), 1000);
        assert_eq!(window.last(), Some(1000.0));
    }

    #[test]
    fn the_average_follows_with_its_weight() {
        let mut window = Window::new(10, 0.25);
        window.add(4.0);
        window.add(8.0);
        assert_eq!(window.average(), Some(5.0));
    }

    proptest! {
        #[test]
        fn percentiles_are_ordered_and_were_measured(values in prop::collection::vec(0.0..10.0f64, 1..300), size in 1usize..50) {
            let mut window = Window::new(size, 0.2);
            values.iter().for_each(|value| window.add(*value));
            let [p50, p95, p99] = window.percentiles([0.5, 0.95, 0.99]).unwrap();
            prop_assert!(p50 <= p95 && p95 <= p99);
            let kept = &values[values.len().saturating_sub(size)..];
            prop_assert!([p50, p95, p99].iter().all(|p| kept.contains(p)));
            let average = window.average().unwrap();
            let (low, high) = values.iter().fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(*v), h.max(*v)));
            prop_assert!(average >= low - 1e-12 && average <= high + 1e-12);
        }
    }
}
