//! Measuring a policy against others on data that nothing was learned from: the same pods for all, window by window.
//!
//! [`run`] makes the runs, on all cores; [`Evaluation`] says what they mean. Equal scenarios give equal evaluations.

mod judge;
#[cfg(test)]
mod tests;

pub use judge::{Against, Evaluation, Figures, Verdict, WindowFigures};

use crate::error::LearnError;
use crate::spec::HeldOut;
use plimsoll_core::policy::{self, POLICIES, Policy};
use plimsoll_sim::compare::{Case, PreparedCase};
use plimsoll_sim::measures::{Row, Run};
use plimsoll_sim::report::{CaseBound, Report, html_with_preface};
use plimsoll_sim::scenario::Scenario;
use plimsoll_sim::simulation::Nobody;
use plimsoll_sim::workload::Skipped;
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The policy that is told how long pods run, which no policy can know.
pub const TOLD_LIFETIMES: &str = "lifetime-aware";

/// What a policy is in an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// What is evaluated.
    Model,
    /// The model that is in use now.
    Incumbent,
    /// What anybody could use instead.
    Baseline,
    /// Told what no policy knows: shown, but not to be beaten.
    Reference,
}

/// Makes a policy for a run of a scenario.
pub type Make<'a> = Box<dyn Fn(&Scenario) -> Result<Box<dyn Policy>, LearnError> + Send + Sync + 'a>;

/// A policy that takes part.
pub struct Contender<'a> {
    /// Its name in results.
    pub name: String,
    /// What it is.
    pub role: Role,
    make: Make<'a>,
}

impl<'a> Contender<'a> {
    /// A model that is made anew for each run. It may not have the name of a policy.
    pub fn new(name: &str, role: Role, make: Make<'a>) -> Result<Self, LearnError> {
        if policy::by_name(name).is_some() {
            let problem = format!("{name} is the name of a policy, and cannot be that of a model: rename its folder");
            return Err(LearnError::Invalid(problem));
        }
        Ok(Self { name: name.to_owned(), role, make })
    }

    /// One of the policies that have a name.
    pub fn named(name: &str, role: Role) -> Result<Self, LearnError> {
        let own = name.to_owned();
        let make = move |_: &Scenario| {
            let names = POLICIES.iter().map(|(name, _)| *name);
            policy::by_name(&own).ok_or_else(|| LearnError::unknown("policy", &own, names))
        };
        make(&Scenario::default())?;
        let role = if name == TOLD_LIFETIMES { Role::Reference } else { role };
        Ok(Self { name: name.to_owned(), role, make: Box::new(make) })
    }
}

/// What is evaluated, and the policies to beat; a baseline of the same name is left out.
pub fn against_baselines<'a>(model: Contender<'a>, baselines: &[String]) -> Result<Vec<Contender<'a>>, LearnError> {
    let others = baselines.iter().filter(|name| **name != model.name);
    let others = others.map(|name| Contender::named(name, Role::Baseline)).collect::<Result<Vec<_>, _>>()?;
    Ok(std::iter::once(model).chain(others).collect())
}

/// The runs of an evaluation.
#[derive(Debug)]
pub struct Runs {
    /// The runs: case by case, in each the contenders in their order.
    pub runs: Vec<Run>,
    /// The bounds of the cases, over time.
    pub bounds: Vec<CaseBound>,
    /// What was skipped of the workload while it was read.
    pub skipped: Skipped,
}

/// Runs every contender on every case. `done` hears of each run that is finished, with how many are.
pub fn run(
    scenario: &Scenario,
    cases: &[HeldOut],
    contenders: &[Contender<'_>],
    done: &(dyn Fn(usize, &Row) + Sync),
) -> Result<Runs, LearnError> {
    let trace = scenario.trace(&scenario.fleet()?)?;
    if let Some(workload) = &trace.workload {
        for case in cases {
            case.check_span(workload.span())?;
        }
    }
    let finished = AtomicUsize::new(0);
    let results = cases.par_iter().map(|case| {
        let own = case.scenario(scenario);
        let prepared = PreparedCase::new(&own, &trace, Case { window: None, seed: case.sample })?;
        let runs = contenders.par_iter().map(|contender| {
            let policy = (contender.make)(&own)?;
            let mut run = prepared.run(&contender.name, policy, &mut Nobody)?;
            // The run began before what was measured.
            run.row.window = case.label();
            done(finished.fetch_add(1, Ordering::Relaxed) + 1, &run.row);
            Ok(run)
        });
        let runs = runs.collect::<Result<Vec<_>, LearnError>>()?;
        Ok((runs, CaseBound { window: case.label(), ..prepared.case_bound() }))
    });
    let results = results.collect::<Result<Vec<_>, LearnError>>()?;
    let mut all = Runs { runs: Vec::new(), bounds: Vec::new(), skipped: trace.skipped };
    for (runs, bound) in results {
        all.runs.extend(runs);
        all.bounds.push(bound);
    }
    Ok(all)
}

/// An evaluation as one HTML file: what it found, and the runs with their plots.
pub fn html(evaluation: &Evaluation, runs: &Runs) -> String {
    let title = format!("{}: {} on unseen windows", evaluation.scenario, evaluation.model);
    let report =
        Report { title: &title, runs: &runs.runs, baseline: evaluation.best_baseline.as_deref(), bounds: &runs.bounds };
    html_with_preface(&report, &evaluation.findings())
}
