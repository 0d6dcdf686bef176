//! How much sooner training that begins with a model reaches what training from nothing reaches.
//!
//! Both are trained on the same data with the same settings and seed, and measured on the same held-out cases on the way.

use crate::error::LearnError;
use crate::models;
use crate::spec::{HeldOut, LearnSpec, Objective};
use crate::workshop::{self, Learner};
use plimsoll_sim::compare::{Case, PreparedCase};
use plimsoll_sim::report::catalogue::{self, Better, Entry};
use plimsoll_sim::report::statistics::paired;
use plimsoll_sim::scenario::Scenario;
use plimsoll_sim::simulation::Nobody;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// How a model in training does on what it is not trained on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Environment steps so far.
    pub steps: u64,
    /// The mean of the objective over the held-out cases.
    pub figure: f64,
    /// The objective on each of them.
    pub cases: Vec<f64>,
}

/// What came of both trainings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Transfer {
    /// What is measured.
    pub objective: Objective,
    /// On how many held-out cases.
    pub cases: usize,
    /// Training from nothing.
    pub scratch: Vec<Point>,
    /// Training that begins with the model. It ends where it is as good as the other at its end.
    pub transferred: Vec<Point>,
}

/// What counts as the same: so much of what training from nothing gains over its beginning.
const SAME: f64 = 0.95;
/// Any will do; it is fixed so that a comparison is the same each time.
const SEED: u64 = 20_260_101;

impl Transfer {
    /// What training from nothing came to, at its end.
    pub fn goal(&self) -> Option<&Point> {
        self.scratch.last()
    }

    /// The first point of the other whose mean is as good, if there is one.
    pub fn reached(&self) -> Option<&Point> {
        let goal = self.goal()?.figure;
        self.transferred.iter().find(|point| is_as_good(self.objective.better, point.figure, goal))
    }

    /// The first point of the other that is the same but for chance, if there is one: it has nearly all that training from nothing gains, and is not significantly worse over
    /// the held-out cases.
    pub fn matched(&self) -> Option<&Point> {
        self.transferred.iter().find(|point| self.matches(point))
    }

    fn matches(&self, point: &Point) -> bool {
        let (Some(start), Some(goal)) = (self.scratch.first(), self.goal()) else { return false };
        if is_as_good(self.objective.better, point.figure, goal.figure) {
            return true;
        }
        let gained = (start.figure - point.figure) / (start.figure - goal.figure);
        let pairs: Vec<_> = goal.cases.iter().copied().zip(point.cases.iter().copied()).collect();
        let interval = paired(&pairs, SEED).and_then(|paired| paired.interval);
        gained >= SAME && interval.is_some_and(|(low, high)| low <= 0.0 && high >= 0.0)
    }

    /// The steps to a point as a share of those of training from nothing.
    pub fn share(&self, point: &Point) -> f64 {
        point.steps as f64 / self.goal().map_or(1, |goal| goal.steps.max(1)) as f64
    }
}

fn is_as_good(better: Better, figure: f64, goal: f64) -> bool {
    if better == Better::More { figure >= goal } else { figure <= goal }
}

/// Which of two trainings goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Training {
    /// From nothing.
    Scratch,
    /// From a model.
    Transferred,
}

/// Trains both; `watch` hears of each point.
pub fn compare(
    scenario: &Scenario,
    spec: &LearnSpec,
    from: &Path,
    watch: &mut dyn FnMut(Training, &Point),
) -> Result<Transfer, LearnError> {
    let exam = Exam::new(scenario, spec)?;
    let mut learner = workshop::learner(scenario, spec)?;
    let scratch = curve(learner.as_mut(), &exam, |_| false, |point| watch(Training::Scratch, point))?;
    let goal = scratch.last().map_or(f64::NAN, |point| point.figure);
    let mut learner = workshop::learner(scenario, spec)?;
    let card = learner.card();
    models::go_on_from(from, &card, learner.agent())?;
    let better = exam.objective.better;
    let enough = |figure| is_as_good(better, figure, goal);
    let transferred = curve(learner.as_mut(), &exam, enough, |point| watch(Training::Transferred, point))?;
    Ok(Transfer { cases: exam.cases.len(), objective: exam.objective, scratch, transferred })
}

/// Each point is after so many times the iterations of the one before, or one more.
const GROWTH: f64 = 1.25;

/// Trains to the end, or until it is good enough, and measures on the way.
fn curve(
    learner: &mut dyn Learner,
    exam: &Exam,
    enough: impl Fn(f64) -> bool,
    mut watch: impl FnMut(&Point),
) -> Result<Vec<Point>, LearnError> {
    let mut points = Vec::new();
    let (mut steps, mut iteration, mut next, mut is_done) = (0, 0_u64, 0_u64, false);
    loop {
        if iteration == next || is_done {
            let cases = exam.figures(learner)?;
            let figure = cases.iter().sum::<f64>() / cases.len().max(1) as f64;
            let point = Point { steps, figure, cases };
            watch(&point);
            points.push(point);
            if is_done || enough(figure) {
                return Ok(points);
            }
            next = (next + 1).max((next as f64 * GROWTH) as u64);
        }
        let report = learner.agent().iterate()?;
        (steps, is_done) = (report.steps, report.progress >= 1.0);
        iteration += 1;
    }
}

/// What is measured on the way.
struct Exam {
    objective: Objective,
    entry: Entry,
    cases: Vec<PreparedCase>,
}

impl Exam {
    fn new(scenario: &Scenario, spec: &LearnSpec) -> Result<Self, LearnError> {
        let objective = spec.objective()?;
        let known = catalogue::entries();
        let entry = catalogue::entry(&objective.measure).ok_or_else(|| {
            LearnError::unknown("learn.objective: measure", &objective.measure, known.iter().map(|entry| entry.key))
        })?;
        let trace = scenario.trace(&scenario.fleet()?)?;
        let prepare = |case: &HeldOut| {
            if let Some(workload) = &trace.workload {
                case.check_span(workload.span())?;
            }
            let own = case.scenario(scenario);
            Ok(PreparedCase::new(&own, &trace, Case { window: None, seed: case.sample })?)
        };
        let cases = spec.held_out(scenario)?.par_iter().map(prepare).collect::<Result<_, LearnError>>()?;
        Ok(Self { objective, entry, cases })
    }

    /// The objective on each case under the policy as it is now.
    fn figures(&self, learner: &mut dyn Learner) -> Result<Vec<f64>, LearnError> {
        let weights = learner.agent().weights();
        let card = learner.card();
        let one = |case: &PreparedCase| {
            let run = case.run("model", workshop::policy(&card, &weights)?, &mut Nobody)?;
            let values = catalogue::values(&run.row, std::slice::from_ref(&self.entry));
            values.into_iter().next().flatten().ok_or_else(|| {
                LearnError::Invalid(format!("learn.objective: it is not measured in scenario {:?}", run.row.scenario))
            })
        };
        self.cases.par_iter().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(figures: &[(u64, f64)]) -> Vec<Point> {
        // Cases differ by the same everywhere, but for a little.
        let cases = |figure: f64| vec![figure - 1.0, figure + 0.02, figure + 0.98];
        figures.iter().map(|&(steps, figure)| Point { steps, figure, cases: cases(figure) }).collect()
    }

    #[test]
    fn the_first_point_that_is_as_good_counts() {
        let objective = Objective::new("kwh", None).unwrap();
        let scratch = points(&[(0, 10.0), (500, 8.0), (1000, 7.0)]);
        let transferred = points(&[(0, 9.0), (100, 7.5), (200, 7.0), (300, 6.0)]);
        let found = Transfer { objective, cases: 3, scratch, transferred };
        let reached = found.reached().unwrap();
        assert_eq!((reached.steps, found.share(reached)), (200, 0.2));
        assert_eq!(found.matched(), Some(reached));
        let never = Transfer { transferred: points(&[(0, 9.0), (1000, 7.1)]), ..found };
        assert_eq!((never.reached(), never.matched()), (None, None), "always worse by the same is worse");
        let mut near = points(&[(100, 7.01)]);
        near[0].cases = vec![5.9, 7.11, 8.02];
        let near = Transfer { transferred: near, ..never };
        assert_eq!((near.reached(), near.matched().map(|point| point.steps)), (None, Some(100)));
    }
}
