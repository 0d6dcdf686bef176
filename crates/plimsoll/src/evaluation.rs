//! Evaluations, as commands make and print them.

use crate::figures::short;
use crate::output::{BAD, DIM, GOOD, HEADING, Output, table};
use crate::workload_args;
use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use plimsoll_core::policy::{self, Policy};
use plimsoll_learn::error::LearnError;
use plimsoll_learn::evaluate::{self, Against, Contender, Evaluation, Figures, Make, Role, Runs, Verdict};
use plimsoll_learn::policy::MultiObjective;
use plimsoll_learn::spec::LearnSpec;
use plimsoll_learn::variables::environment;
use plimsoll_learn::{models, workshop};
use plimsoll_sim::compare::{CompareError, by_name};
use plimsoll_sim::measures::Row;
use plimsoll_sim::scenario::Scenario;
use std::io::Write;
use std::path::{Path, PathBuf};

/// What is evaluated.
pub enum Subject {
    /// The model in a folder.
    Model(PathBuf),
    /// A policy by name.
    Policy(String),
}

impl Subject {
    /// A model's folder, or a policy's name.
    pub fn find(text: &str) -> Result<Self> {
        if policy::by_name(text).is_some() {
            return Ok(Self::Policy(text.to_owned()));
        }
        let folder = PathBuf::from(text);
        models::read_card(&folder)?;
        Ok(Self::Model(folder))
    }

    fn contender(&self) -> Result<Contender<'static>> {
        match self {
            Self::Policy(name) => Ok(Contender::named(name, Role::Model)?),
            Self::Model(folder) => model(folder, Role::Model),
        }
    }
}

/// The policy of a name, or of the model in a folder, for a comparison.
pub fn policy_of(text: &str) -> Result<Box<dyn Policy>, CompareError> {
    let failed = |error: LearnError| CompareError::Policy { policy: text.to_owned(), problem: error.to_string() };
    if Path::new(text).is_dir() {
        return workshop::load(Path::new(text)).map_err(failed);
    }
    match MultiObjective::named(text, &environment) {
        Some(policy) => Ok(Box::new(policy.map_err(failed)?)),
        None => by_name(text),
    }
}

fn model(folder: &Path, role: Role) -> Result<Contender<'static>> {
    // What cannot be loaded is said before anything is run.
    workshop::load(folder)?;
    let own = folder.to_owned();
    let make: Make<'_> = Box::new(move |_| workshop::load(&own));
    Ok(Contender::new(&models::name(folder), role, make)?)
}

/// Runs what is evaluated, further models and the baselines on what the scenario holds out.
pub fn make(
    subject: &Subject,
    others: &[PathBuf],
    scenario: &Scenario,
    spec: &LearnSpec,
    quiet: bool,
    out: &Output,
) -> Result<(Evaluation, Runs)> {
    let cases = spec.held_out(scenario)?;
    let mut contenders = evaluate::against_baselines(subject.contender()?, &spec.baselines())?;
    for (at, folder) in others.iter().enumerate() {
        contenders.insert(1 + at, model(folder, Role::Incumbent)?);
    }
    let runs = (cases.len() * contenders.len()) as u64;
    let bar = if quiet { ProgressBar::hidden() } else { progress(runs) };
    let done = |_: usize, row: &Row| {
        bar.set_message(format!("{} {} sample {}", row.policy, row.window, row.seed));
        bar.inc(1);
    };
    let runs = evaluate::run(scenario, &cases, &contenders, &done)?;
    bar.finish_and_clear();
    workload_args::tell(&runs.skipped, out);
    let mut found = Evaluation::new(&runs, &contenders, spec.objective()?, spec.gap_from())?;
    if let Subject::Model(folder) = subject {
        found.fingerprint = Some(models::fingerprint(folder)?);
    }
    Ok((found, runs))
}

fn progress(runs: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} runs, {eta} left  {msg}");
    // The template is ours, and right; without it the bar is plain.
    ProgressBar::new(runs).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Prints an evaluation.
pub fn print(found: &Evaluation, out: &mut Output) -> Result<()> {
    let unit = if found.objective.unit.is_empty() { String::new() } else { format!(" ({})", found.objective.unit) };
    writeln!(
        out,
        "{HEADING}{}{unit} of {} and others on {}{HEADING:#}",
        found.objective.label, found.model, found.scenario
    )?;
    let header = [
        "POLICY",
        "MEAN",
        "x BOUND",
        "REJECTED",
        "WAITING",
        "WAIT P95",
        "MODEL AGAINST IT",
        "GAP CLOSED",
        "THE MODEL IS",
    ];
    let mut list = table(header, &[1, 2, 3, 4, 5, 6, 7]);
    for figures in &found.policies {
        list.add_row(row(figures, found.against(&figures.policy), found.bound));
    }
    if let Some(bound) = found.bound {
        list.add_row(["lower bound".to_owned(), short(bound), "1.000".into()]);
    }
    out.table("", &list)?;
    let style = match found.verdict {
        Verdict::SignificantlyBetter => GOOD,
        Verdict::NoDifference => DIM,
        Verdict::SignificantlyWorse => BAD,
    };
    let best = found.best_baseline.as_deref().unwrap_or("any baseline");
    writeln!(out, "{style}{} against {best}: {}{style:#}", found.model, found.verdict)?;
    for finding in found.findings() {
        writeln!(out, "{DIM}{finding}{DIM:#}")?;
    }
    Ok(())
}

fn row(figures: &Figures, against: Option<&Against>, bound: Option<f64>) -> Vec<String> {
    let name = match figures.role {
        Role::Model => format!("{} (the model)", figures.policy),
        Role::Incumbent => format!("{} (in use)", figures.policy),
        Role::Baseline => figures.policy.clone(),
        Role::Reference => format!("{} (told lifetimes)", figures.policy),
    };
    let ratio = bound
        .filter(|bound| *bound > 0.0)
        .map_or_else(|| "-".to_owned(), |bound| format!("{:.3}", figures.mean / bound));
    let mut cells = vec![
        name,
        short(figures.mean),
        ratio,
        short(figures.rejected),
        short(figures.waiting),
        short(figures.wait_p95_s),
    ];
    let Some(against) = against else { return cells };
    let percent = |share: f64| format!("{:+.2}", share * 100.0);
    let difference = match (against.relative, against.interval) {
        (None, _) => "-".to_owned(),
        (Some(share), None) => format!("{} %", percent(share)),
        (Some(share), Some((low, high))) => format!("{} % [{}, {}]", percent(share), percent(low), percent(high)),
    };
    let served = if against.serves_less { ", serving fewer pods" } else { "" };
    cells.push(difference);
    cells.push(against.gap_closed.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0)));
    cells.push(format!("{}{served}", against.verdict));
    cells
}
