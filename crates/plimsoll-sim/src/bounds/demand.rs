//! What pods ask for over time, averaged over steps.
//!
//! Averaging keeps a lower bound a lower bound: the least cost of serving a demand is a convex function of that demand (it is the
//! value of a linear program in its right-hand side), so by Jensen's inequality the cost of the mean demand is at most the mean of the costs.
//! Cutting demand off at what the fleet has is not convex, so it is done at every instant, before averaging.

use crate::fleet::{Fleet, Machine};
use std::time::Duration;

/// Kinds of resources: CPU, memory, GPU, places for pods.
pub(crate) const RESOURCES: usize = 4;
/// The place of CPU among the resources.
pub(crate) const CPU: usize = 0;

/// More steps than this are not worth their memory: steps are widened instead.
const MOST_STEPS: u64 = 200_000;

/// A pod from its start to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stay {
    /// When it comes.
    pub arrival: Duration,
    /// When it is gone.
    pub end: Duration,
    /// CPU, in thousandths of a core.
    pub cpu_milli: i64,
    /// Memory, in bytes.
    pub memory: i64,
    /// GPU, in thousandths, over all its devices.
    pub gpu_milli: i64,
}

impl Stay {
    pub(super) fn asks(&self) -> [i64; RESOURCES] {
        [self.cpu_milli.max(0), self.memory.max(0), self.gpu_milli.max(0), 1]
    }

    pub(super) fn fits(&self, machine: &Machine) -> bool {
        self.asks().iter().zip(supplies(machine)).all(|(asked, there)| *asked <= there)
    }
}

/// What a machine has.
pub(crate) fn supplies(machine: &Machine) -> [i64; RESOURCES] {
    let gpus = machine.gpus.as_ref().map_or(0, |(count, _)| i64::from(*count) * 1000);
    [machine.cpu_milli.max(0), machine.memory.max(0), gpus, machine.pods.max(0)]
}

/// Demand over an interval, step by step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Demand {
    from: Duration,
    to: Duration,
    step: Duration,
    means: Vec<[f64; RESOURCES]>,
    /// Stays that are not counted, for they fit on no machine of the fleet.
    pub too_large: usize,
    /// The share of time at which more was asked for than the whole fleet has; there, what fits is counted.
    pub exceeded_share: f64,
}

impl Demand {
    /// The demand of stays for a fleet between two times.
    pub fn new(stays: &[Stay], fleet: &Fleet, from: Duration, to: Duration, step: Duration) -> Self {
        let to = to.max(from);
        let length = to - from;
        let step = step.max(length / MOST_STEPS as u32).max(Duration::from_millis(1));
        let steps = length.as_nanos().div_ceil(step.as_nanos()) as usize;
        let mut demand =
            Self { from, to, step, means: vec![[0.0; RESOURCES]; steps], too_large: 0, exceeded_share: 0.0 };

        let mut ceiling = [0_i128; RESOURCES];
        for (pool, limit) in fleet.limits() {
            for (sum, has) in ceiling.iter_mut().zip(supplies(&pool.machine)) {
                *sum += i128::from(has) * limit as i128;
            }
        }

        let mut changes: Vec<(Duration, i128, [i64; RESOURCES])> = Vec::with_capacity(2 * stays.len());
        for stay in stays {
            let (begin, end) = (stay.arrival.max(from), stay.end.min(to));
            if begin >= end {
                continue;
            }
            if !fleet.limits().any(|(pool, limit)| limit > 0 && stay.fits(&pool.machine)) {
                demand.too_large += 1;
                continue;
            }
            changes.push((begin, 1, stay.asks()));
            changes.push((end, -1, stay.asks()));
        }
        changes.sort_unstable_by_key(|(at, ..)| *at);

        let mut now = [0_i128; RESOURCES];
        let mut exceeded = Duration::ZERO;
        let ends = changes.iter().skip(1).map(|(at, ..)| *at).chain([to]);
        for ((at, sign, asks), next) in changes.iter().zip(ends) {
            for (sum, asked) in now.iter_mut().zip(asks) {
                *sum += sign * i128::from(*asked);
            }
            if next > *at {
                let clipped = std::array::from_fn(|r| now[r].min(ceiling[r]) as f64);
                if now.iter().zip(ceiling).any(|(asked, there)| *asked > there) {
                    exceeded += next - *at;
                }
                demand.add(*at, next, clipped);
            }
        }
        if length > Duration::ZERO {
            demand.exceeded_share = exceeded.as_secs_f64() / length.as_secs_f64();
        }
        demand
    }

    fn add(&mut self, begin: Duration, end: Duration, amounts: [f64; RESOURCES]) {
        let mut at = begin;
        while at < end {
            let index = ((at - self.from).as_nanos() / self.step.as_nanos()) as usize;
            let (first, last) = self.edges(index);
            let until = end.min(last);
            let share = (until - at).as_secs_f64() / (last - first).as_secs_f64();
            let Some(mean) = self.means.get_mut(index) else { return };
            for (mean, amount) in mean.iter_mut().zip(amounts) {
                *mean += amount * share;
            }
            at = until;
        }
    }

    fn edges(&self, index: usize) -> (Duration, Duration) {
        let edge = |index: usize| {
            let nanos = self.step.as_nanos() * index as u128;
            let second = Duration::from_secs(1).as_nanos();
            let offset = u64::try_from(nanos / second)
                .map_or(Duration::MAX, |seconds| Duration::new(seconds, (nanos % second) as u32));
            self.from.saturating_add(offset).min(self.to)
        };
        (edge(index), edge(index + 1))
    }

    /// Multiplies the CPU of each step by a factor of its beginning and end.
    pub fn scale_cpu(&mut self, factor: impl Fn(Duration, Duration) -> f64) {
        for index in 0..self.means.len() {
            let (first, last) = self.edges(index);
            self.means[index][CPU] *= factor(first, last);
        }
    }

    /// Each step: the hours at its middle, its length in hours, and what is asked for on average.
    pub(super) fn steps(&self) -> impl Iterator<Item = (f64, f64, [f64; RESOURCES])> {
        self.means.iter().enumerate().map(|(index, mean)| {
            let (first, last) = self.edges(index);
            let hours = |time: Duration| time.as_secs_f64() / 3600.0;
            ((hours(first) + hours(last)) / 2.0, hours(last - first), *mean)
        })
    }

    /// Mean CPU asked for in each step, in thousandths of a core.
    pub fn cpu_milli(&self) -> impl Iterator<Item = f64> {
        self.means.iter().map(|mean| mean[CPU])
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{fleet, stay};
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn demand_is_averaged_over_each_step_within_the_interval() {
        let fleet = fleet(&[(10, 4000, 100)]);
        let stays = [stay(0, 15, 1000, 10), stay(5, 10, 2000, 10), stay(18, 900, 1000, 1)];
        let demand = Demand::new(&stays, &fleet, 5 * SECOND, 25 * SECOND, 10 * SECOND);
        assert_eq!(demand.cpu_milli().collect::<Vec<_>>(), [1000.0 + 1000.0, 700.0]);
        let steps = demand.steps().map(|(at, long, _)| ((at * 3600.0).round(), (long * 3600.0).round()));
        assert_eq!(steps.collect::<Vec<_>>(), [(10.0, 10.0), (20.0, 10.0)]);
    }

    #[test]
    fn the_last_step_may_be_shorter_and_is_averaged_over_its_own_length() {
        let demand =
            Demand::new(&[stay(0, 60, 1000, 1)], &fleet(&[(1, 4000, 100)]), Duration::ZERO, 25 * SECOND, 10 * SECOND);
        assert_eq!(demand.cpu_milli().collect::<Vec<_>>(), [1000.0, 1000.0, 1000.0]);
    }

    #[test]
    fn what_no_machine_holds_is_not_counted_and_what_the_fleet_lacks_is_cut_off_at_each_instant() {
        let fleet = fleet(&[(1, 4000, 100)]);
        let stays = [stay(0, 10, 5000, 1), stay(0, 5, 4000, 1), stay(0, 5, 4000, 1)];
        let demand = Demand::new(&stays, &fleet, Duration::ZERO, 10 * SECOND, 10 * SECOND);
        assert_eq!((demand.too_large, demand.exceeded_share), (1, 0.5));
        assert_eq!(demand.cpu_milli().collect::<Vec<_>>(), [2000.0]);
    }

    #[test]
    fn nonsense_gives_no_demand_and_no_panic() {
        let fleet = fleet(&[(1, 4000, 100)]);
        let backwards = stay(9, 3, 1000, 1);
        assert_eq!(Demand::new(&[backwards], &fleet, 5 * SECOND, SECOND, Duration::ZERO).cpu_milli().count(), 0);
        let long = Demand::new(&[stay(0, u64::MAX, -5, 1)], &fleet, Duration::ZERO, Duration::MAX, Duration::ZERO);
        assert!(long.cpu_milli().count() <= MOST_STEPS as usize + 1);
    }
}
