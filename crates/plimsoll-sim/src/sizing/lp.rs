//! The least that any fleet can come to, with machines in fractions: a linear program over kinds of machines and the course of time.
//!
//! ```text
//! minimise    Σ n(k) · (what a machine of kind k costs or embodies)  +  Σ hours(t) · λ(k,j,t) · (what it emits or draws at load j)
//! subject to  Σ over the kinds of a set  n(k) · has(k,r)             ≥  the peak of pods that those kinds alone can run, for each r
//!             Σ λ(k,j,t) · has(k,j,r) + w(r,t)                       ≥  what is asked for in step t, on average
//!             w(r,t) ≤ what the pods that may wait ask for then,  Σ hours(t) · w(r,t) ≤ what they ask for over the whole time
//!             Σ over j  λ(k,j,t)  =  n(k)                            (≤ where empty machines sleep)
//!             least(k) ≤ n(k) ≤ most(k)
//! ```
//!
//! For the least cost the second part falls away. Averages over steps keep it a bound, as in [`crate::bounds`]; where the carbon intensity
//! changes within a step, its least counts.

use super::catalogue::Kind;
use super::demand::{Step, Surely, words};
use super::{Objective, SizingError};
use crate::bounds::demand::{CPU, RESOURCES, supplies};
use crate::world::World;
use crate::world::power::{Activity, POINTS};
use good_lp::{
    Constraint, Expression, ProblemVariables, Solution, SolverModel, Variable, constraint, microlp, variable, variables,
};
use std::time::Duration;

/// So many unknowns the solver takes about a second for.
const MOST_UNKNOWNS: usize = 1500;
/// What the solver may miss a constraint by, as a share of it.
const SLACK: f64 = 1e-7;

/// The program of a question.
pub struct Program<'a> {
    objective: Objective,
    kinds: &'a [Kind],
    world: &'a World,
    surely: &'a Surely,
    hours: f64,
}

/// A mix of machines, in fractions.
#[derive(Debug, Clone, PartialEq)]
pub struct Mix {
    pub counts: Vec<f64>,
    /// What no fleet of these kinds can beat.
    pub bound: f64,
}

/// A load at which a machine may run: its share of the threads, and watts.
type Point = (f64, f64);

impl<'a> Program<'a> {
    pub fn new(objective: Objective, kinds: &'a [Kind], world: &'a World, surely: &'a Surely) -> Self {
        let hours = surely.steps.iter().map(Step::hours).sum();
        Self { objective, kinds, world, surely, hours }
    }

    /// The best mix of some kinds, or of all.
    pub fn solve(&self, among: Option<&[bool]>) -> Result<Mix, SizingError> {
        let solved = self.solve_with(among, 0.0).ok_or_else(|| self.too_few())?;
        if self.objective == Objective::Cost {
            return Ok(solved);
        }
        // Machines that sleep come at no price: of many mixes that are as good, one with few machines is meant.
        let few = self.solve_with(among, 1e-4 * solved.bound.max(1e-9));
        Ok(Mix { counts: few.map_or(solved.counts, |few| few.counts), bound: solved.bound })
    }

    /// Solves it, with a little extra for each share of all that can be had.
    fn solve_with(&self, among: Option<&[bool]>, extra: f64) -> Option<Mix> {
        let mut unknowns = variables!();
        let most = |at: usize| match among {
            Some(among) if !among[at] => self.kinds[at].least,
            _ => self.kinds[at].most,
        };
        let bounds = |(at, kind): (usize, &Kind)| variable().min(kind.least as f64).max(most(at) as f64);
        let counts: Vec<Variable> = self.kinds.iter().enumerate().map(|each| unknowns.add(bounds(each))).collect();
        let mut rows: Vec<Constraint> = Vec::new();
        self.hold_peaks(&counts, &mut rows);
        let owned = |(kind, count): (&Kind, &Variable)| {
            let rate = match self.objective {
                Objective::Cost => kind.price.unwrap_or(0.0),
                Objective::Energy => 0.0,
                Objective::Carbon => kind.embodied_kg_hourly,
            };
            let size: f64 = self.shares(kind).into_iter().fold(0.0, f64::max);
            (rate * self.hours) * *count + (extra * size) * *count
        };
        let mut total: Expression = self.kinds.iter().zip(&counts).map(owned).sum();
        if self.objective != Objective::Cost {
            total += self.running(&mut unknowns, &counts, &mut rows);
        }
        let mut model = unknowns.minimise(total.clone()).using(microlp);
        for row in rows {
            model = model.with(row);
        }
        let solution = model.solve().ok()?;
        let counts = counts.iter().map(|count| solution.value(*count).max(0.0)).collect();
        // What the solver leaves of a constraint must not lift the bound.
        Some(Mix { counts, bound: solution.eval(total).max(0.0) * (1.0 - 2.0 * SLACK) })
    }

    /// What a machine has, as shares of the peaks that all pods make.
    fn shares(&self, kind: &Kind) -> [f64; RESOURCES] {
        let peak = self.surely.peaks.last().map_or([0.0; RESOURCES], |peak| peak.amounts);
        let has = supplies(&kind.pool.machine);
        std::array::from_fn(|r| if peak[r] > 0.0 { has[r] as f64 / peak[r] } else { 0.0 })
    }

    fn hold_peaks(&self, counts: &[Variable], rows: &mut Vec<Constraint>) {
        for peak in &self.surely.peaks {
            for r in (0..RESOURCES).filter(|r| peak.amounts[*r] > 0.0) {
                let among = self.kinds.iter().zip(counts).zip(&peak.kinds).filter(|(_, among)| **among);
                let has: Expression = among
                    .map(|((kind, count), _)| supplies(&kind.pool.machine)[r] as f64 / peak.amounts[r] * *count)
                    .sum();
                rows.push(constraint!(has >= 1.0 - SLACK));
            }
        }
    }

    /// What machines draw or emit while they serve what is asked for, step by step.
    fn running(&self, unknowns: &mut ProblemVariables, counts: &[Variable], rows: &mut Vec<Constraint>) -> Expression {
        let sleeps = self.world.power.sleep_after().is_some();
        let mut total = Expression::default();
        self.serve(unknowns, rows, |step, kind, ways, rows| {
            let (kind, count) = (&self.kinds[kind], counts[kind]);
            let rate = self.kwh_rate(kind, step) * step.hours() / 1000.0;
            let asleep = if sleeps { self.asleep(kind) } else { 0.0 };
            for ((_, watts), way) in ways {
                total += rate * (watts - asleep) * *way;
            }
            total += rate * asleep * count;
            let awake: Expression = ways.iter().map(|(_, way)| *way).sum();
            rows.push(if sleeps { constraint!(awake <= count) } else { constraint!(awake == count) });
        });
        total
    }

    /// The least that any fleet can come to whose machines come and go at will.
    pub fn elastic_bound(&self) -> f64 {
        let mut unknowns = variables!();
        let mut rows = Vec::new();
        let mut total = Expression::default();
        self.serve(&mut unknowns, &mut rows, |step, kind, ways, rows| {
            let (kind, most) = (&self.kinds[kind], self.kinds[kind].most as f64);
            let hourly = |watts: f64| match self.objective {
                Objective::Cost => kind.price.unwrap_or(0.0),
                Objective::Energy => watts / 1000.0,
                Objective::Carbon => watts / 1000.0 * self.kwh_rate(kind, step) + kind.embodied_kg_hourly,
            };
            for ((_, watts), way) in ways {
                total += hourly(*watts) * step.hours() * *way;
            }
            let there: Expression = ways.iter().map(|(_, way)| *way).sum();
            rows.push(constraint!(there <= most));
        });
        let mut model = unknowns.minimise(total.clone()).using(microlp);
        for row in rows {
            model = model.with(row);
        }
        // Nothing is a bound, too, should the solver fail.
        model.solve().map_or(0.0, |solution| solution.eval(total).max(0.0) * (1.0 - 2.0 * SLACK))
    }

    /// Has what is asked for in each step served by machines at some loads, but for what the pods may take off that may wait. `each` is told the
    /// ways in which machines of a kind run during a step.
    fn serve(
        &self,
        unknowns: &mut ProblemVariables,
        rows: &mut Vec<Constraint>,
        mut each: impl FnMut(&Step, usize, &[(Point, Variable)], &mut Vec<Constraint>),
    ) {
        let points: Vec<Vec<Point>> = self.kinds.iter().map(|kind| self.points(kind)).collect();
        let each_step = points.iter().map(Vec::len).sum::<usize>() + RESOURCES;
        let mut missed: [Expression; RESOURCES] = Default::default();
        for step in merged(&self.surely.steps, (MOST_UNKNOWNS / each_step).max(8)) {
            let mut has: [Expression; RESOURCES] = Default::default();
            for (at, (kind, points)) in self.kinds.iter().zip(&points).enumerate() {
                let ways: Vec<_> = points.iter().map(|point| (*point, unknowns.add(variable().min(0.0)))).collect();
                for ((load, _), way) in &ways {
                    for (r, amount) in supplies(&kind.pool.machine).into_iter().enumerate() {
                        let share = if r == CPU { *load } else { 1.0 };
                        has[r] += amount as f64 * share / step.asked[r].max(1e-9) * *way;
                    }
                }
                each(&step, at, &ways, rows);
            }
            for (r, mut has) in has.into_iter().enumerate().filter(|(r, _)| step.asked[*r] > 1e-6) {
                let waits = unknowns.add(variable().min(0.0).max((step.may_wait[r] / step.asked[r]).clamp(0.0, 1.0)));
                has += waits;
                if self.surely.may_miss[r] > 0.0 {
                    missed[r] += step.asked[r] * step.hours() / self.surely.may_miss[r] * waits;
                }
                rows.push(constraint!(has >= 1.0 - SLACK));
            }
        }
        rows.extend(missed.into_iter().map(|missed| constraint!(missed <= 1.0 + SLACK)));
    }

    /// The loads at which machines of a kind are thought to run: where power does not count, at full load.
    fn points(&self, kind: &Kind) -> Vec<Point> {
        match self.objective {
            Objective::Cost => vec![(1.0, kind.pool.machine.power.full())],
            Objective::Energy | Objective::Carbon => lower_hull(kind.pool.machine.power.points()),
        }
    }

    /// What a kilowatt-hour counts for a kind: itself, or the kilograms that it emits at least during a step.
    fn kwh_rate(&self, kind: &Kind, step: &Step) -> f64 {
        let Some(carbon) = self.world.carbon.as_ref().filter(|_| self.objective == Objective::Carbon) else {
            return 1.0;
        };
        let at = |time: Duration| carbon.intensity(&kind.pool.region, time).unwrap_or(0.0);
        let mut least = at(step.from);
        let mut time = step.from;
        while let Some(next) = carbon.next_change(time).filter(|next| *next < step.to) {
            least = least.min(at(next));
            time = next;
        }
        least / 1000.0
    }

    /// What a machine draws asleep: never taken for more than it draws awake.
    fn asleep(&self, kind: &Kind) -> f64 {
        let curve = &kind.pool.machine.power;
        curve.points().iter().copied().fold(self.world.power.watts(curve, Activity::Asleep), f64::min)
    }

    fn too_few(&self) -> SizingError {
        for peak in &self.surely.peaks {
            let among = || self.kinds.iter().zip(&peak.kinds).filter(|(_, among)| **among).map(|(kind, _)| kind);
            for (r, asked) in peak.amounts.iter().enumerate() {
                let has: f64 = among().map(|kind| supplies(&kind.pool.machine)[r] as f64 * kind.most as f64).sum();
                if has < *asked * (1.0 - SLACK) {
                    let names: Vec<_> = among().map(|kind| kind.pool.name.as_str()).collect();
                    return SizingError::TooFew(format!(
                        "at its peak the workload needs at least {} at a time, and the most that can be had of {} has {}",
                        words(r, asked.round() as i64),
                        names.join(", "),
                        words(r, has as i64),
                    ));
                }
            }
        }
        SizingError::TooFew("no fleet of this catalogue can run the workload".to_owned())
    }
}

/// The corners of a curve's lower convex hull: mixing them, machines can run anywhere on it, and nowhere below.
fn lower_hull(watts: &[f64; POINTS]) -> Vec<Point> {
    let mut corners: Vec<Point> = Vec::new();
    for (at, watts) in watts.iter().enumerate() {
        let point = (at as f64 / (POINTS - 1) as f64, *watts);
        while let [.., before, last] = corners.as_slice() {
            let rise = (last.1 - before.1) * (point.0 - last.0);
            let next = (point.1 - last.1) * (last.0 - before.0);
            if rise < next {
                break;
            }
            corners.pop();
        }
        corners.push(point);
    }
    corners
}

/// The same over fewer steps.
fn merged(steps: &[Step], most: usize) -> Vec<Step> {
    let together = steps.len().div_ceil(most).max(1);
    let merge = |part: &[Step]| {
        let hours: f64 = part.iter().map(Step::hours).sum();
        let mean = |of: fn(&Step) -> &[f64; RESOURCES]| {
            std::array::from_fn(|r| part.iter().map(|step| of(step)[r] * step.hours()).sum::<f64>() / hours)
        };
        let (asked, may_wait) = (mean(|step| &step.asked), mean(|step| &step.may_wait));
        Some(Step { from: part.first()?.from, to: part.last()?.to, asked, may_wait })
    };
    steps.chunks(together).filter_map(merge).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hull_is_below_its_curve_and_touches_both_ends() {
        let mut watts = std::array::from_fn(|at| 100.0 + 10.0 * at as f64);
        (watts[3], watts[5]) = (170.0, 120.0);
        let hull = lower_hull(&watts);
        assert_eq!(hull, [(0.0, 100.0), (0.5, 120.0), (1.0, 200.0)]);
    }
}
