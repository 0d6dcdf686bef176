//! The fluid bound: pods are divided at will over fractions of machines, and moved at no cost.
//!
//! Machines in use: the least number, of any pools, that has what is asked for. Power: machines without pods sleep, the others run
//! at whatever load is best and draw their curve, by the share of their threads that is allocated. A step of demand is one small linear
//! program. Mixing loads within a pool lets it run on the lower convex envelope of its curve, which no packing can undercut.

use super::allotment::{Allotment, Way};
use super::demand::{Demand, RESOURCES, supplies};
use super::{Settings, demand::CPU};
use crate::fleet::Fleet;
use crate::measures::Bounds;
use crate::world::power::POINTS;
use serde::{Deserialize, Serialize};

/// The bound over time; every list has one entry a step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BoundSeries {
    /// Hours from the start, at the middle of the step.
    pub hours: Vec<f64>,
    /// How long the step is, in hours.
    pub step_hours: Vec<f64>,
    /// Machines in use.
    pub active_nodes: Vec<f64>,
    /// Kilowatts.
    pub kw: Vec<f64>,
}

impl BoundSeries {
    /// The averages over time.
    pub fn mean(&self) -> Bounds {
        let total: f64 = self.step_hours.iter().sum();
        let mean = |values: &[f64]| {
            let sum: f64 = values.iter().zip(&self.step_hours).map(|(value, hours)| value * hours).sum();
            if total > 0.0 { sum / total } else { 0.0 }
        };
        Bounds { active_nodes: mean(&self.active_nodes), mean_kw: mean(&self.kw) }
    }

    /// The same over at most so many steps, each the mean of those it stands for: for plots.
    pub fn thinned(&self, most: usize) -> Self {
        let together = self.hours.len().div_ceil(most.max(1)).max(1);
        let mut thin = Self::default();
        for start in (0..self.hours.len()).step_by(together) {
            let end = (start + together).min(self.hours.len());
            let part = Self {
                hours: Vec::new(),
                step_hours: self.step_hours[start..end].to_vec(),
                active_nodes: self.active_nodes[start..end].to_vec(),
                kw: self.kw[start..end].to_vec(),
            };
            let (first, long) = (self.hours[start] - self.step_hours[start] / 2.0, part.step_hours.iter().sum::<f64>());
            let mean = part.mean();
            thin.hours.push(first + long / 2.0);
            thin.step_hours.push(long);
            thin.active_nodes.push(mean.active_nodes);
            thin.kw.push(mean.mean_kw);
        }
        thin
    }
}

/// The fluid bound, on average over the time of the demand.
pub fn fluid(demand: &Demand, fleet: &Fleet, settings: &Settings) -> Bounds {
    fluid_over_time(demand, fleet, settings).mean()
}

/// The fluid bound, step by step.
pub fn fluid_over_time(demand: &Demand, fleet: &Fleet, settings: &Settings) -> BoundSeries {
    let limits: Vec<f64> = fleet.limits().map(|(_, limit)| limit as f64).collect();
    let machines = Allotment::new(machine_ways(fleet), limits.clone());
    let power = Allotment::new(power_ways(fleet, settings), limits);
    let asleep = watts_asleep(fleet, settings);
    let mut series = BoundSeries::default();
    for (hours, step_hours, asked) in demand.steps() {
        series.hours.push(hours);
        series.step_hours.push(step_hours);
        series.active_nodes.push(machines.least_cost(&asked));
        series.kw.push((asleep + power.least_cost(&asked)) / 1000.0);
    }
    series
}

fn machine_ways(fleet: &Fleet) -> Vec<Way> {
    let ways = fleet.pools.iter().enumerate();
    ways.map(|(pool, of)| Way { pool, cost: 1.0, supplies: supplies(&of.machine).map(|amount| amount as f64) })
        .collect()
}

/// A machine at each point of its curve; what it costs is what it draws more than asleep.
fn power_ways(fleet: &Fleet, settings: &Settings) -> Vec<Way> {
    let mut ways = Vec::with_capacity(fleet.pools.len() * POINTS);
    for (pool, of) in fleet.pools.iter().enumerate() {
        let all: [f64; RESOURCES] = supplies(&of.machine).map(|amount| amount as f64);
        let sleep = sleep_watts(of.machine.power.points(), settings);
        for (at, watts) in of.machine.power.points().iter().enumerate() {
            let mut has = all;
            has[CPU] *= at as f64 / (POINTS - 1) as f64;
            ways.push(Way { pool, cost: watts - sleep, supplies: has });
        }
    }
    ways
}

/// What a machine draws asleep: never taken for more than it draws awake, or waking it would save.
pub(super) fn sleep_watts(points: &[f64; POINTS], settings: &Settings) -> f64 {
    points.iter().copied().fold(settings.sleep_watts.max(0.0), f64::min)
}

/// What the machines that are always there draw if all of them sleep.
pub(super) fn watts_asleep(fleet: &Fleet, settings: &Settings) -> f64 {
    let pools = fleet.pools.iter();
    pools
        .map(|pool| {
            let always = pool.scaling.map_or(pool.count, |scaling| scaling.min.min(pool.count));
            always as f64 * sleep_watts(pool.machine.power.points(), settings)
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{fleet, pool, stay};
    use super::super::{Demand, Stay};
    use super::*;
    use crate::fleet::Scaling;
    use crate::world::power::PowerCurve;
    use proptest::prelude::*;
    use std::time::Duration;

    fn bound(stays: &[Stay], fleet: &Fleet, seconds: u64, settings: &Settings) -> Bounds {
        let to = Duration::from_secs(seconds);
        fluid(&Demand::new(stays, fleet, Duration::ZERO, to, settings.step), fleet, settings)
    }

    #[test]
    fn one_kind_needs_demand_over_capacity_of_the_scarcer_resource() {
        let fleet = fleet(&[(10, 4000, 100)]);
        let stays = [stay(0, 100, 3000, 10), stay(0, 50, 3000, 150 / 2), stay(0, 100, 1000, 100)];
        let settings = Settings { step: Duration::from_secs(50), ..Settings::default() };
        let bounds = bound(&stays, &fleet, 100, &settings);
        // Memory decides both halves: 185 and 110 of 100.
        assert!((bounds.active_nodes - (1.85 + 1.10) / 2.0).abs() < 1e-9, "{bounds:?}");
    }

    #[test]
    fn full_machines_are_cheapest_on_a_straight_curve() {
        let fleet = fleet(&[(10, 4000, 1 << 30)]);
        let bounds = bound(&[stay(0, 60, 2000, 1), stay(0, 60, 4000, 1)], &fleet, 60, &Settings::default());
        assert!((bounds.mean_kw - 1.5 * 0.2).abs() < 1e-9, "{bounds:?}");
    }

    #[test]
    fn the_efficient_pool_is_filled_first_and_its_limit_is_kept() {
        let costly = PowerCurve::straight(300.0, 400.0).unwrap();
        let thrifty = PowerCurve::straight(10.0, 100.0).unwrap();
        let fleet = Fleet { pools: vec![pool(5, 1000, 1000, costly), pool(2, 1000, 1000, thrifty)] };
        let bounds = bound(&[stay(0, 60, 1000, 1); 3], &fleet, 60, &Settings::default());
        assert!((bounds.mean_kw - (0.1 + 0.1 + 0.4)).abs() < 1e-9, "{bounds:?}");
        assert!((bounds.active_nodes - 3.0).abs() < 1e-9, "{bounds:?}");
    }

    #[test]
    fn memory_without_cpu_keeps_machines_awake() {
        let fleet = fleet(&[(10, 4000, 100)]);
        let bounds = bound(&[stay(0, 60, 0, 100), stay(0, 60, 0, 100)], &fleet, 60, &Settings::default());
        assert!((bounds.mean_kw - 0.2).abs() < 1e-9, "{bounds:?}");
    }

    #[test]
    fn gpus_and_places_for_pods_count_like_any_resource() {
        let mut fleet = fleet(&[(10, 4000, 1 << 40)]);
        fleet.pools[0].machine.gpus = Some((2, "A100".into()));
        fleet.pools[0].machine.pods = 4;
        let half = Stay { gpu_milli: 500, ..stay(0, 60, 10, 1) };
        let whole = Stay { gpu_milli: 2000, ..half };
        let nodes = |stays: &[Stay]| bound(stays, &fleet, 60, &Settings::default()).active_nodes;
        assert!((nodes(&[half, whole, whole]) - 2.25).abs() < 1e-9, "4,500 of 2,000 thousandths");
        assert!((nodes(&[stay(0, 60, 10, 1); 9]) - 2.25).abs() < 1e-9, "nine pods, four places");
    }

    #[test]
    fn sleeping_machines_draw_what_sleeping_draws() {
        let mut fleet = fleet(&[(10, 4000, 100)]);
        let settings = Settings { sleep_watts: 5.0, ..Settings::default() };
        let bounds = bound(&[stay(0, 60, 4000, 1)], &fleet, 60, &settings);
        assert!((bounds.mean_kw - (0.2 + 9.0 * 0.005)).abs() < 1e-9, "{bounds:?}");
        let never = Duration::ZERO;
        fleet.pools[0].scaling = Some(Scaling { min: 0, max: 20, boot_delay: never, idle_after: never });
        let nobody = bound(&[], &fleet, 60, &settings);
        assert_eq!(nobody.mean_kw, 0.0, "a pool that may shrink to nothing need not sleep");
    }

    #[test]
    fn thinning_keeps_the_mean() {
        let fleet = fleet(&[(10, 4000, 100)]);
        let stays = [stay(0, 70, 3000, 10), stay(30, 1000, 3000, 1)];
        let demand =
            Demand::new(&stays, &fleet, Duration::from_secs(10), Duration::from_secs(505), Duration::from_secs(10));
        let series = fluid_over_time(&demand, &fleet, &Settings::default());
        let (all, thin) = (series.mean(), series.thinned(7));
        assert!(thin.hours.len() <= 7 && thin.hours.len() > 3);
        assert!(
            (all.mean_kw - thin.mean().mean_kw).abs() < 1e-12
                && (all.active_nodes - thin.mean().active_nodes).abs() < 1e-12
        );
        assert!((thin.hours[0] * 3600.0 - 50.0).abs() < 1e-6, "{:?}", thin.hours);
    }

    /// Places stays by whim on machines with room, and counts what that costs second by second.
    fn packed(stays: &[Stay], whims: &[u8], fleet: &Fleet, seconds: u64, settings: &Settings) -> Option<Bounds> {
        let machines: Vec<_> =
            fleet.pools.iter().flat_map(|pool| std::iter::repeat_n(&pool.machine, pool.count)).collect();
        let mut homes: Vec<usize> = Vec::new();
        let shared = |a: &Stay, b: &Stay| a.arrival < b.end && b.arrival < a.end;
        for (i, stay) in stays.iter().enumerate() {
            let room = |m: &usize| {
                let there = stays[..i].iter().zip(&homes).filter(|(other, home)| *home == m && shared(stay, other));
                let (mut cpu, mut memory) = (stay.cpu_milli, stay.memory);
                for (other, _) in there {
                    cpu += other.cpu_milli;
                    memory += other.memory;
                }
                cpu <= machines[*m].cpu_milli && memory <= machines[*m].memory
            };
            let able: Vec<usize> = (0..machines.len()).filter(room).collect();
            homes.push(*able.get(usize::from(whims[i]) % able.len().max(1))?);
        }
        let mut sum = Bounds::default();
        for second in 0..seconds {
            let now = Duration::from_millis(second * 1000 + 500);
            for (m, machine) in machines.iter().enumerate() {
                let on =
                    stays.iter().zip(&homes).filter(|(stay, home)| **home == m && stay.arrival < now && now < stay.end);
                let cpus: Vec<i64> = on.map(|(stay, _)| stay.cpu_milli).collect();
                if cpus.is_empty() {
                    sum.mean_kw += settings.sleep_watts / 1000.0;
                } else {
                    sum.active_nodes += 1.0;
                    sum.mean_kw +=
                        machine.power.at(cpus.iter().sum::<i64>() as f64 / machine.cpu_milli as f64) / 1000.0;
                }
            }
        }
        Some(Bounds { active_nodes: sum.active_nodes / seconds as f64, mean_kw: sum.mean_kw / seconds as f64 })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn no_packing_beats_the_bound(
            stays in prop::collection::vec((0_u64..40, 1_u64..40, 0_i64..2000, 0_i64..100), 1..14),
            whims in prop::collection::vec(any::<u8>(), 14),
            curves in prop::array::uniform2(prop::array::uniform11(60.0..400.0_f64)),
            counts in prop::array::uniform2(1_usize..5),
            sleep_watts in 0.0..60.0_f64,
            step in 1_u64..50,
        ) {
            let [first, second] = curves.map(|points| PowerCurve::new(points).unwrap());
            let fleet = Fleet { pools: vec![pool(counts[0], 2000, 200, first), pool(counts[1], 4000, 150, second)] };
            let stays: Vec<Stay> = stays.into_iter().map(|(from, long, cpu, memory)| stay(from, from + long, cpu, memory)).collect();
            let settings = Settings { sleep_watts, step: Duration::from_secs(step), ..Settings::default() };
            if let Some(reached) = packed(&stays, &whims, &fleet, 80, &settings) {
                let bound = bound(&stays, &fleet, 80, &settings);
                prop_assert!(bound.active_nodes <= reached.active_nodes + 1e-9, "{bound:?} {reached:?}");
                prop_assert!(bound.mean_kw <= reached.mean_kw + 1e-9, "{bound:?} {reached:?}");
                prop_assert!(bound.mean_kw > 0.0 && bound.active_nodes >= 0.0);
            }
        }
    }
}
