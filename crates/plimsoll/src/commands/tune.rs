//! `plimsoll tune`

use crate::Verdict;
use crate::figures::short;
use crate::output::{DIM, HEADING, Output, table};
use anyhow::{Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use plimsoll_learn::spec::{LearnSpec, with_variables};
use plimsoll_learn::tune::{self, Configuration, Trial};
use plimsoll_learn::variables::environment;
use plimsoll_sim::report::catalogue::Better;
use plimsoll_sim::scenario::Scenario;
use std::io::Write;
use std::path::PathBuf;

/// Search for better hyper-parameters by successive halving
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A scenario file with a [learn.tune] section
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// How many environment steps the last round trains for; the scenario's if not given
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// The seed; the scenario's if not given
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Show no progress
    #[arg(long)]
    quiet: bool,
}

/// Searches, and says what was best.
pub fn run(args: Args, out: &mut Output) -> Result<Verdict> {
    let scenario = with_variables(Scenario::read(&args.scenario)?, &environment)?;
    let spec = LearnSpec::read(&scenario)?;
    let Some(steps) = args.steps.or(spec.train.steps) else {
        bail!("learn.train.steps: say how many steps the last round trains for, or give --steps");
    };
    let seed = args.seed.unwrap_or(spec.seed);
    let objective = spec.objective()?;
    let bar = if args.quiet { ProgressBar::hidden() } else { progress() };
    let score = |configuration: &Configuration, steps: u64| tune::trial(&scenario, configuration, steps, seed);
    let done = |trial: &Trial| {
        bar.set_message(format!("round {}, configuration {}", trial.round, trial.number));
        bar.inc(1);
    };
    let trials = tune::successive_halving(&spec.tune, steps, seed, &score, &done)?;
    bar.finish_and_clear();
    // Scores are turned so that more is better; what is shown is the measure.
    let sign = if objective.better == Better::More { 1.0 } else { -1.0 };
    if args.json {
        let trials = trials.iter().map(|trial| {
            let (value, problem) = match &trial.score {
                Ok(score) => (Some(score * sign), None),
                Err(problem) => (None, Some(problem)),
            };
            serde_json::json!({
                "round": trial.round, "configuration": trial.number, "steps": trial.budget,
                "values": trial.configuration, "figure": value, "problem": problem,
            })
        });
        let trials: Vec<_> = trials.collect();
        out.json(&serde_json::json!({"version": "plimsoll.dev/tuning/v1", "objective": objective, "trials": trials}))?;
        return Ok(Verdict::Good);
    }
    let mut list =
        table(["ROUND", "CONFIGURATION", "STEPS", &objective.measure.to_uppercase(), "VALUES"], &[0, 1, 2, 3]);
    for trial in &trials {
        list.add_row([
            trial.round.to_string(),
            trial.number.to_string(),
            trial.budget.to_string(),
            trial.score.as_ref().map_or_else(Clone::clone, |score| short(score * sign)),
            values(&trial.configuration, ", "),
        ]);
    }
    out.table("", &list)?;
    let last = trials.iter().map(|trial| trial.round).max().unwrap_or_default();
    if let Some(best) = trials.iter().find(|trial| trial.round == last) {
        writeln!(out, "{HEADING}best: configuration {}{HEADING:#}", best.number)?;
        writeln!(out, "{}", values(&best.configuration, "\n"))?;
        writeln!(
            out,
            "{DIM}judged on the last part of the training data; windows to evaluate on were not looked at{DIM:#}"
        )?;
    }
    Ok(Verdict::Good)
}

fn values(configuration: &Configuration, between: &str) -> String {
    if configuration.is_empty() {
        return "as the scenario has it".into();
    }
    configuration.iter().map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>().join(between)
}

fn progress() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {pos} trials  {msg}");
    // The template is ours, and right; without it the bar is plain.
    ProgressBar::no_length().with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
