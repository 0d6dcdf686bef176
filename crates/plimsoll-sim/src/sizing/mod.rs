//! Which machines, and how many of each, serve a workload at the least cost, energy or carbon.
//!
//! From top to bottom: [`demand`] says what surely runs at each time even if as many pods wait as may; [`lp`] turns that into the least
//! that any fleet can come to, and a mix of machines to begin with; [`search`] looks for whole machines, each fleet being judged by a
//! simulation with the policy that will place the pods ([`bench`]); [`elastic`] lets pools grow and shrink. A fleet that is
//! reported was simulated from end to end. The same question with the same seed has the same answer, on any number of cores.

mod bench;
mod catalogue;
mod demand;
mod elastic;
mod lp;
mod search;
#[cfg(test)]
mod tests;

pub use bench::{Candidate, Figures, PoolSize};
pub use catalogue::{MachineSpec, Machines};

use crate::compare::{CompareError, Make};
use crate::error::InputError;
use crate::scenario::{Prepared, ScenarioError};
use crate::simulation::{Settings, SimulationError};
use crate::workload::select;
use bench::{Bench, Part};
use rayon::prelude::*;
use search::{Found, Search};
use serde::Serialize;
use std::borrow::Cow;
use std::time::Duration;

/// What is to be least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Objective {
    /// Money for machines, whether they are used or not.
    Cost,
    /// Energy, in kWh.
    Energy,
    /// Carbon dioxide, in kg: of the energy, and of making the machines.
    Carbon,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// What is to be least.
    pub objective: Objective,
    /// The policy that places the pods.
    pub policy: String,
    /// The share of pods that may wait longer than `wait`.
    pub risk: f64,
    /// How long a pod may wait.
    pub wait: Duration,
    /// How many fleets to tell beside the best.
    pub runners_up: usize,
    /// After how many simulations the search ends.
    pub most_runs: usize,
    /// The share of the time, up to the end, that fleets are not chosen by but checked on.
    pub holdout: Option<f64>,
    /// Whether pools that grow and shrink are looked for, too.
    pub autoscale: bool,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum SizingError {
    /// A file cannot be used.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The scenario cannot be run.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The policy cannot be made, or a run fails.
    #[error(transparent)]
    Compare(#[from] CompareError),
    /// A pod cannot be tried on a machine.
    #[error("whether a machine can run a pod cannot be found out: {0}")]
    Trial(#[from] SimulationError),
    /// The question makes no sense.
    #[error("{0}")]
    Question(String),
    /// No machine of the catalogue holds a pod.
    #[error(
        "pod {pod} asks for {asks}, and no machine of the catalogue can run it: {shortage}. Add a machine that can, or leave the pod out"
    )]
    NoMachine {
        /// The pod.
        pod: String,
        /// What it asks for.
        asks: String,
        /// What each machine lacks.
        shortage: String,
    },
    /// The catalogue has too few machines.
    #[error("{0}. Raise `most` in the catalogue, --risk or --wait")]
    TooFew(String),
}

/// A fleet with what it comes to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The pools that have machines.
    pub pools: Vec<PoolRow>,
    /// What a simulation with the policy came to.
    pub figures: Figures,
    /// What is to be least, as a multiple of what no fleet can beat.
    pub ratio: f64,
    /// The same on the part that it was not chosen by.
    pub held_out: Option<HeldOut>,
}

/// A pool of a fleet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PoolRow {
    /// The machine's name in the catalogue.
    pub name: String,
    /// At least so many machines.
    pub min: usize,
    /// At most so many; as `min` where the pool stays as it is.
    pub max: usize,
    /// How many seconds a machine stays empty before it is given back; none where the pool stays as it is.
    pub idle_after_s: Option<u64>,
}

/// How a fleet does where it was not chosen.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeldOut {
    /// What it came to there.
    pub figures: Figures,
    /// Whether no more pods waited too long than may.
    pub keeps_risk: bool,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// What was to be least.
    pub objective: Objective,
    /// The policy.
    pub policy: String,
    /// The share of pods that may wait longer than `wait_s`.
    pub risk: f64,
    /// How long a pod may wait, in seconds.
    pub wait_s: f64,
    /// How many pods fleets were chosen by.
    pub pods: usize,
    /// Over how many hours.
    pub hours: f64,
    /// What no fleet that stays as it is can beat, with any policy that keeps the risk.
    pub bound: f64,
    /// The best fleet, and those after it.
    pub fleets: Vec<Row>,
    /// What no fleet can beat whose machines come and go.
    pub elastic_bound: Option<f64>,
    /// The best fleets that grow and shrink.
    pub elastic: Vec<Row>,
    /// How many simulations of the whole time were made.
    pub runs: usize,
    /// How many of a part of it.
    pub looks: usize,
    /// Whether the search ended because it had made as many simulations as it may.
    pub cut_short: bool,
}

/// Finds the fleets. `prepared` has the machines of the catalogue, the pods and the world; see [`Machines::scenario`].
pub fn size(
    question: &Question,
    machines: &Machines,
    prepared: &Prepared,
    make: Make<'_>,
) -> Result<Answer, SizingError> {
    question.check()?;
    // A policy that cannot be made is said before anything is run.
    make(&question.policy)?;
    let kinds = machines.kinds(&prepared.fleet);
    question.check_kinds(&kinds, prepared.world.carbon.is_some())?;
    let able = demand::able(prepared, &kinds)?;
    let (part, rest) = parts(question, prepared)?;
    let bench = Bench::new(question, &kinds, &prepared.world, make);
    let surely = demand::surely_running(&part, &able, &kinds, question);
    let program = lp::Program::new(question.objective, &kinds, &prepared.world, &surely);
    let mix = program.solve(None)?;

    let mut search = Search::new(&bench, &part, &surely);
    let found = search.fixed(&program, &mix)?;
    let fixed = search.best(&found, question.runners_up);
    let mut cut_short = search.is_cut_short();
    let (mut elastic, mut elastic_bound) = (Vec::new(), None);
    if question.autoscale {
        let found = elastic::search(&mut search, &fixed, &kinds)?;
        elastic = search.best(&found, question.runners_up);
        elastic_bound = Some(program.elastic_bound());
        cut_short |= search.is_cut_short();
    }
    let rows = |found: Found, bound: f64| -> Result<Vec<Row>, SizingError> {
        let row = |(candidate, figures): &(Candidate, Figures)| {
            let rest = rest.as_ref().map(|rest| bench.run(rest, candidate)).transpose()?;
            Ok(bench.row(candidate, figures, bound, rest))
        };
        found.par_iter().map(row).collect()
    };
    Ok(Answer {
        objective: question.objective,
        policy: question.policy.clone(),
        risk: question.risk,
        wait_s: question.wait.as_secs_f64(),
        pods: part.workload.pods.len(),
        hours: part.hours(),
        bound: mix.bound,
        fleets: rows(fixed, mix.bound)?,
        elastic_bound,
        elastic: rows(elastic, elastic_bound.unwrap_or(0.0))?,
        runs: search.runs,
        looks: search.looks,
        cut_short,
    })
}

/// The pods that fleets are chosen by, and, where some are held out, all of them, measured from where those begin: whoever runs then is
/// where the policy has put it.
fn parts<'a>(question: &Question, prepared: &'a Prepared) -> Result<(Part<'a>, Option<Part<'a>>), SizingError> {
    let settings = Settings {
        // Only the reference may know what no scheduler can.
        tells_lifetimes: question.policy == "lifetime-aware",
        samples: 0,
        ..prepared.settings.clone()
    };
    let whole = Part { workload: Cow::Borrowed(&prepared.workload), settings };
    let Some(share) = question.holdout else { return Ok((whole, None)) };
    let (_, end) = whole.measured();
    let at = end.mul_f64(1.0 - share);
    let (before, after) = select::split(&prepared.workload, at);
    if before.pods.len() < 2 || after.pods.is_empty() {
        let problem = format!(
            "holding out {share} of the time leaves {} pods to choose by and {} to check on; hold out another share",
            before.pods.len(),
            after.pods.len()
        );
        return Err(SizingError::Question(problem));
    }
    let settings = Settings { horizon: Some(at), ..whole.settings.clone() };
    let chosen_by = Part { workload: Cow::Owned(before), settings };
    let rest = Part { settings: Settings { warmup: 1.0 - share, ..whole.settings.clone() }, ..whole };
    Ok((chosen_by, Some(rest)))
}
