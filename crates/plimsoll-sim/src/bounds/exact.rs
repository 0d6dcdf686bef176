//! The exact bound: every pod is whole and stays on one machine for life, and the best assignment is found by integer programming.
//!
//! It knows all arrivals and lifetimes beforehand, so no policy can beat it. Power follows the lower convex envelope of a machine's curve,
//! which makes it a bound rather than an optimum where a curve is not convex. The work grows beyond all measure with pods times
//! machines: windows above a limit are refused.

use super::Settings;
use super::allotment::{Allotment, Way};
use super::demand::{CPU, Demand, RESOURCES, Stay, supplies};
use super::fluid::{fluid, sleep_watts, watts_asleep};
use crate::fleet::{Fleet, Machine};
use crate::measures::Bounds;
use crate::world::power::POINTS;
use good_lp::solvers::{SolutionStatus, WithMipGap, WithTimeLimit};
use good_lp::{Expression, ProblemVariables, Solution, SolverModel, Variable, constraint, variable, variables};
use std::time::Duration;

#[cfg(feature = "highs")]
use good_lp::highs as solver;
#[cfg(not(feature = "highs"))]
use good_lp::microlp as solver;

/// Why there is no exact bound.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ExactError {
    /// There are more choices than the limit.
    #[error(
        "the window has {pods} pods for {machines} machines, {choices} choices, and exact bounds are tried up to {limit}: \
         take a shorter window or a smaller sample"
    )]
    TooLarge {
        /// Pods in the window.
        pods: usize,
        /// Machines that could matter.
        machines: usize,
        /// Pods times machines that they fit on.
        choices: usize,
        /// The limit.
        limit: usize,
    },
    /// At some moment the pods do not fit on the fleet, whatever the assignment.
    #[error("the {pods} pods of the window cannot all run from their arrival: add machines, or take a smaller sample")]
    Impossible {
        /// Pods in the window.
        pods: usize,
    },
    /// The solver did not finish.
    #[error(
        "the bound for {what} was not found within {limit:?} for {pods} pods: take a shorter window, or allow more time ({reason})"
    )]
    Unsolved {
        /// Which of the bounds.
        what: &'static str,
        /// Pods in the window.
        pods: usize,
        /// The time allowed.
        limit: Duration,
        /// What the solver said.
        reason: String,
    },
}

/// What the best possible assignment reaches between two times, on average over that time.
pub fn exact(
    stays: &[Stay],
    fleet: &Fleet,
    from: Duration,
    to: Duration,
    settings: &Settings,
) -> Result<Bounds, ExactError> {
    let window = Window::new(stays, fleet, from, to, settings)?;
    let demand = Demand::new(stays, fleet, from, to, settings.step);
    let least = fluid(&demand, fleet, settings);
    let seconds = to.saturating_sub(from).as_secs_f64();
    if window.stays.is_empty() || seconds <= 0.0 {
        return Ok(least);
    }
    let machines = window.solve(None)? / seconds;
    let watts = window.solve(Some(settings))? / seconds + watts_asleep(fleet, settings);
    // Rounding in the solver must not put the tighter bound below the looser one.
    Ok(Bounds { active_nodes: machines.max(least.active_nodes), mean_kw: (watts / 1000.0).max(least.mean_kw) })
}

/// A machine that pods may be given to, and its number within its pool.
struct Slot<'a> {
    machine: &'a Machine,
    number: usize,
}

/// A window made ready: stays cut to it, by arrival, and the stretches between changes.
struct Window<'a> {
    stays: Vec<Stay>,
    slots: Vec<Slot<'a>>,
    /// Length in seconds, who is there, and the fewest machines that could hold them.
    stretches: Vec<(f64, Vec<usize>, f64)>,
    settings: Settings,
}

impl<'a> Window<'a> {
    fn new(
        stays: &[Stay],
        fleet: &'a Fleet,
        from: Duration,
        to: Duration,
        settings: &Settings,
    ) -> Result<Self, ExactError> {
        let fits = |stay: &Stay| fleet.limits().any(|(pool, limit)| limit > 0 && stay.fits(&pool.machine));
        let mut inside: Vec<Stay> = stays
            .iter()
            .map(|stay| Stay { arrival: stay.arrival.max(from), end: stay.end.min(to), ..*stay })
            .filter(|stay| stay.arrival < stay.end && fits(stay))
            .collect();
        // Large pods first: the order breaks the symmetry between like machines, and decides early what matters most.
        inside.sort_by_key(|stay| std::cmp::Reverse((stay.cpu_milli, stay.memory, stay.end - stay.arrival)));
        let pods = inside.len();
        let machines: usize = fleet.limits().map(|(_, limit)| limit.min(pods)).sum();
        let choices = pods.saturating_mul(machines);
        if choices > settings.exact_choices {
            return Err(ExactError::TooLarge { pods, machines, choices, limit: settings.exact_choices });
        }

        let slots = fleet
            .limits()
            .flat_map(|(pool, limit)| (0..limit.min(pods)).map(|number| Slot { machine: &pool.machine, number }))
            .collect();
        let ways = fleet.pools.iter().enumerate().map(|(pool, of)| Way {
            pool,
            cost: 1.0,
            supplies: supplies(&of.machine).map(|amount| amount as f64),
        });
        let least = Allotment::new(ways.collect(), fleet.limits().map(|(_, limit)| limit as f64).collect());
        let mut times: Vec<Duration> = inside.iter().flat_map(|stay| [stay.arrival, stay.end]).collect();
        times.sort_unstable();
        times.dedup();
        let stretches = times
            .windows(2)
            .map(|pair| {
                let there: Vec<usize> =
                    (0..pods).filter(|i| inside[*i].arrival <= pair[0] && inside[*i].end >= pair[1]).collect();
                let mut asked = [0.0; RESOURCES];
                for i in &there {
                    for (sum, asks) in asked.iter_mut().zip(inside[*i].asks()) {
                        *sum += asks as f64;
                    }
                }
                // A hair below, lest rounding asks for a machine too many.
                let fewest = (least.least_cost(&asked) - 1e-6).ceil();
                ((pair[1] - pair[0]).as_secs_f64(), there, fewest)
            })
            .filter(|(_, there, _)| !there.is_empty())
            .collect();
        Ok(Self { stays: inside, slots, stretches, settings: *settings })
    }

    /// The least sum over time: of machines in use, or, by the settings, of watts beyond sleeping.
    fn solve(&self, power: Option<&Settings>) -> Result<f64, ExactError> {
        let mut variables = variables!();
        let homes = self.homes(&mut variables);
        // Continuous is enough: once pods are whole, the least value is none or one.
        let mut awake: Vec<Vec<Variable>> = Vec::with_capacity(self.stretches.len());
        let mut watts: Vec<Vec<Variable>> = Vec::new();
        let mut cost = Expression::from(0.0);
        for (seconds, ..) in &self.stretches {
            let row: Vec<Variable> = self.slots.iter().map(|_| variables.add(variable().min(0.0).max(1.0))).collect();
            if power.is_some() {
                let draws: Vec<Variable> = self.slots.iter().map(|_| variables.add(variable().min(0.0))).collect();
                cost += draws.iter().map(|draw| *seconds * *draw).sum::<Expression>();
                watts.push(draws);
            } else {
                cost += row.iter().map(|on| *seconds * *on).sum::<Expression>();
            }
            awake.push(row);
        }

        let mut rows = Vec::new();
        self.one_home_each(&homes, &mut rows);
        for (t, (_, there, fewest)) in self.stretches.iter().enumerate() {
            rows.push(constraint!(awake[t].iter().sum::<Expression>() >= *fewest));
            for (m, slot) in self.slots.iter().enumerate() {
                let on = awake[t][m];
                let guests: Vec<(usize, Variable)> =
                    there.iter().filter_map(|i| homes[*i][m].map(|home| (*i, home))).collect();
                rows.extend(guests.iter().map(|(_, home)| constraint!(*home <= on)));
                let has = supplies(slot.machine);
                for (r, has) in has.iter().enumerate() {
                    // Small sums always fit, and every row less helps the solver.
                    let most: i128 = guests.iter().map(|(i, _)| i128::from(self.stays[*i].asks()[r])).sum();
                    if most > i128::from(*has) {
                        rows.push(constraint!(self.share(&guests, r, *has) <= on));
                    }
                }
                if let Some(settings) = power {
                    let load = self.share(&guests, CPU, has[CPU]);
                    for (slope, idle) in envelope(slot.machine, settings) {
                        rows.push(constraint!(watts[t][m] >= slope * load.clone() + idle * on));
                    }
                }
            }
        }

        let what = if power.is_some() { "power" } else { "machines" };
        let unsolved = |reason: String| ExactError::Unsolved {
            what,
            pods: self.stays.len(),
            limit: self.settings.exact_time,
            reason,
        };
        let model = variables.minimise(cost.clone()).using(solver).with_all(rows);
        let model = model.with_time_limit(self.settings.exact_time.as_secs_f64());
        let model = model.with_mip_gap(0.0).map_err(|error| unsolved(error.to_string()))?;
        let solution = model.solve().map_err(|error| match error {
            good_lp::ResolutionError::Infeasible => ExactError::Impossible { pods: self.stays.len() },
            other => unsolved(other.to_string()),
        })?;
        match solution.status() {
            SolutionStatus::TimeLimit => Err(unsolved("time ran out".to_owned())),
            SolutionStatus::Optimal | SolutionStatus::GapLimit => Ok(solution.eval(cost)),
        }
    }

    /// Whether a pod is on a machine, where it may be.
    ///
    /// Like machines may be named by their first pod, so the i-th pod need never go to one of a pool beyond the i-th.
    fn homes(&self, variables: &mut ProblemVariables) -> Vec<Vec<Option<Variable>>> {
        let stays = self.stays.iter().enumerate();
        stays
            .map(|(i, stay)| {
                let may = |slot: &Slot<'_>| slot.number <= i && stay.fits(slot.machine);
                self.slots.iter().map(|slot| may(slot).then(|| variables.add(variable().binary()))).collect()
            })
            .collect()
    }

    fn one_home_each(&self, homes: &[Vec<Option<Variable>>], rows: &mut Vec<good_lp::Constraint>) {
        for (i, row) in homes.iter().enumerate() {
            rows.push(constraint!(row.iter().flatten().sum::<Expression>() == 1));
            for (m, home) in row.iter().enumerate() {
                // Named by first pods, a machine has one only if the one before it has an earlier one.
                if let (Some(home), true) = (home, self.slots[m].number > 0) {
                    let earlier: Expression = homes[..i].iter().filter_map(|row| row[m - 1]).sum();
                    rows.push(constraint!(*home <= earlier));
                }
            }
        }
    }

    fn share(&self, guests: &[(usize, Variable)], resource: usize, has: i64) -> Expression {
        let parts = guests.iter().filter(|_| has > 0);
        parts.map(|(i, home)| self.stays[*i].asks()[resource] as f64 / has as f64 * *home).sum()
    }
}

/// The lower convex envelope of what a machine draws beyond sleeping, as lines: watts for full load, and at none.
fn envelope(machine: &Machine, settings: &Settings) -> Vec<(f64, f64)> {
    let points = machine.power.points();
    let sleep = sleep_watts(points, settings);
    let steps = (POINTS - 1) as f64;
    let mut corners: Vec<(f64, f64)> = Vec::new();
    for (at, watts) in points.iter().enumerate() {
        let point = (at as f64 / steps, watts - sleep);
        while let [.., a, b] = corners.as_slice() {
            if (b.1 - a.1) * (point.0 - b.0) < (point.1 - b.1) * (b.0 - a.0) {
                break;
            }
            corners.pop();
        }
        corners.push(point);
    }
    let lines = corners.windows(2).map(|pair| {
        let slope = (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0);
        (slope, pair[0].1 - slope * pair[0].0)
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{fleet, pool, stay};
    use super::*;
    use crate::world::power::PowerCurve;
    use proptest::prelude::*;

    fn bound(stays: &[Stay], fleet: &Fleet, seconds: u64) -> Result<Bounds, ExactError> {
        let settings = Settings { step: Duration::from_secs(1), ..Settings::default() };
        exact(stays, fleet, Duration::ZERO, Duration::from_secs(seconds), &settings)
    }

    #[track_caller]
    fn near(reached: f64, expected: f64) {
        assert!((reached - expected).abs() < 1e-6, "expected {expected}, got {reached}");
    }

    #[test]
    fn pods_above_half_a_machine_need_one_each() {
        let bounds = bound(&[stay(0, 10, 600, 1); 3], &fleet(&[(5, 1000, 100)]), 10).unwrap();
        near(bounds.active_nodes, 3.0);
        near(bounds.mean_kw, 3.0 * 0.160);
    }

    #[test]
    fn pods_cannot_move_when_others_leave() {
        // The two that stay long belong together, or both machines stay open.
        let stays = [stay(0, 10, 500, 1), stay(0, 10, 500, 1), stay(0, 2, 500, 1), stay(0, 2, 500, 1)];
        near(bound(&stays, &fleet(&[(4, 1000, 100)]), 10).unwrap().active_nodes, (2.0 * 2.0 + 8.0) / 10.0);
        // The small pod outlives one large pod or comes before the other: beside either, it keeps a machine open for a second more.
        let stays = [stay(0, 6, 600, 1), stay(4, 10, 600, 1), stay(3, 7, 400, 1)];
        near(bound(&stays, &fleet(&[(4, 1000, 100)]), 10).unwrap().active_nodes, (6.0 + 6.0 + 1.0) / 10.0);
    }

    #[test]
    fn power_chooses_the_machine_that_is_cheaper_at_that_load() {
        let small = PowerCurve::straight(10.0, 60.0).unwrap();
        let large = PowerCurve::straight(100.0, 140.0).unwrap();
        let fleet = Fleet { pools: vec![pool(3, 1000, 100, small), pool(1, 4000, 100, large)] };
        // Alone, a pod belongs on a small machine (60 W, not 110); three share the large one (130 W, not 180).
        near(bound(&[stay(0, 10, 1000, 1)], &fleet, 10).unwrap().mean_kw, 0.060);
        near(bound(&[stay(0, 10, 1000, 1); 3], &fleet, 10).unwrap().mean_kw, 0.130);
        // The fewest machines are one, whichever pods they are.
        near(bound(&[stay(0, 10, 1000, 1); 3], &fleet, 10).unwrap().active_nodes, 1.0);
    }

    #[test]
    fn windows_too_large_are_refused_with_their_size() {
        let error = bound(&[stay(0, 10, 1, 1); 50], &fleet(&[(30, 1000, 100)]), 10).unwrap_err();
        assert!(matches!(error, ExactError::TooLarge { pods: 50, machines: 30, choices: 1500, .. }), "{error}");
        assert!(error.to_string().contains("1500 choices"), "{error}");
    }

    #[test]
    fn pods_that_cannot_all_run_are_said_to_be_impossible() {
        let error = bound(&[stay(0, 10, 600, 1); 3], &fleet(&[(2, 1000, 100)]), 10).unwrap_err();
        assert_eq!(error, ExactError::Impossible { pods: 3 });
    }

    #[test]
    fn nobody_needs_nothing() {
        assert_eq!(bound(&[], &fleet(&[(2, 1000, 100)]), 10).unwrap(), Bounds::default());
        assert_eq!(bound(&[stay(0, 5, 1, 1)], &fleet(&[(2, 1000, 100)]), 0).unwrap(), Bounds::default());
    }

    /// First fit by arrival, and what it costs second by second.
    fn first_fit(stays: &[Stay], fleet: &Fleet, seconds: u64) -> Option<Bounds> {
        let machines: Vec<&Machine> =
            fleet.pools.iter().flat_map(|pool| std::iter::repeat_n(&pool.machine, pool.count)).collect();
        let used = |homes: &[(usize, Stay)], m: usize, at: Duration| {
            let on = homes.iter().filter(|(home, stay)| *home == m && stay.arrival <= at && at < stay.end);
            on.fold((0, 0, 0), |sum, (_, stay)| (sum.0 + 1, sum.1 + stay.cpu_milli, sum.2 + stay.memory))
        };
        let mut order = stays.to_vec();
        order.sort_by_key(|stay| stay.arrival);
        let mut homes: Vec<(usize, Stay)> = Vec::new();
        for stay in order {
            let home = (0..machines.len()).find(|m| {
                let (_, cpu, memory) = used(&homes, *m, stay.arrival);
                cpu + stay.cpu_milli <= machines[*m].cpu_milli && memory + stay.memory <= machines[*m].memory
            })?;
            homes.push((home, stay));
        }
        let mut sum = Bounds::default();
        for second in 0..seconds {
            for (m, machine) in machines.iter().enumerate() {
                let (pods, cpu, _) = used(&homes, m, Duration::from_secs(second));
                if pods > 0 {
                    sum.active_nodes += 1.0 / seconds as f64;
                    sum.mean_kw += machine.power.at(cpu as f64 / machine.cpu_milli as f64) / 1000.0 / seconds as f64;
                }
            }
        }
        Some(sum)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn it_lies_between_the_fluid_bound_and_first_fit(
            stays in prop::collection::vec((0_u64..20, 1_u64..20, 100_i64..1000, 1_i64..100), 1..8),
            points in prop::array::uniform2(prop::array::uniform11(50.0..300.0_f64)),
        ) {
            let [first, second] = points.map(|points| PowerCurve::new(points).unwrap());
            let fleet = Fleet { pools: vec![pool(3, 1000, 200, first), pool(3, 2000, 150, second)] };
            let stays: Vec<Stay> = stays.into_iter().map(|(from, long, cpu, memory)| stay(from, from + long, cpu, memory)).collect();
            if let Some(reached) = first_fit(&stays, &fleet, 40) {
                let exact = bound(&stays, &fleet, 40).map_err(|error| TestCaseError::fail(error.to_string()))?;
                let demand = Demand::new(&stays, &fleet, Duration::ZERO, Duration::from_secs(40), Duration::from_secs(1));
                let fluid = fluid(&demand, &fleet, &Settings::default());
                prop_assert!(fluid.active_nodes <= exact.active_nodes + 1e-9 && fluid.mean_kw <= exact.mean_kw + 1e-9);
                prop_assert!(exact.active_nodes <= reached.active_nodes + 1e-6, "{exact:?} {reached:?}");
                prop_assert!(exact.mean_kw <= reached.mean_kw + 1e-6, "{exact:?} {reached:?}");
            }
        }
    }
}
