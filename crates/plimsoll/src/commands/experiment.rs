//! `plimsoll experiment`

use crate::Verdict;
use crate::figures::Format;
use crate::output::{BAD, DIM, GOOD, HEADING, Output};
use anyhow::{Context, Result};
use plimsoll_learn::experiment::{Experiment, qtable, thesis};
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;

/// Run the experiments of earlier systems anew, and say which of their findings hold
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    which: Which,
}

#[derive(Debug, clap::Subcommand)]
enum Which {
    /// DQN with DeepSets for energy (EE), load balancing (LB) and energy with latency (EL-RL), against the default scheduler
    Thesis(ThesisArgs),
    /// Tabular Q-learning on three nodes, to balance or to compress
    Qtable(QtableArgs),
}

#[derive(Debug, clap::Args)]
struct Common {
    /// Write the report with all figures to this file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How findings are printed
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Show no progress
    #[arg(long)]
    quiet: bool,
}

#[derive(Debug, clap::Args)]
struct ThesisArgs {
    #[command(flatten)]
    common: Common,
    /// How many nodes there are
    #[arg(long, value_name = "N", default_value_t = 4)]
    nodes: usize,
    /// Rounds of test 1
    #[arg(long, value_name = "N", default_value_t = 500)]
    rounds: u32,
    /// Pods of test 2
    #[arg(long, value_name = "N", default_value_t = 500)]
    pods: u32,
    /// Steps of training; as in the thesis if not given
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
}

#[derive(Debug, clap::Args)]
struct QtableArgs {
    #[command(flatten)]
    common: Common,
    /// Pending pods that the scheduler sees; may be given more than once
    #[arg(long = "lookahead", value_name = "N", default_values_t = [1, 3])]
    lookaheads: Vec<usize>,
    /// Steps of training
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
}

/// Runs the experiment.
pub fn run(args: Args, out: &mut Output) -> Result<Verdict> {
    let (common, experiment) = match args.which {
        Which::Thesis(ThesisArgs { common, nodes, rounds, pods, steps }) => {
            let mut settings =
                thesis::ThesisSettings { seed: common.seed, nodes, rounds, pods, ..thesis::ThesisSettings::default() };
            settings.agent.steps = steps.unwrap_or(settings.agent.steps);
            let (_, experiment) = thesis::run(&settings, &mut progress(out, common.quiet))?;
            (common, experiment)
        }
        Which::Qtable(QtableArgs { common, lookaheads, steps }) => {
            let mut settings =
                qtable::QTableSettings { seed: common.seed, lookaheads, ..qtable::QTableSettings::default() };
            settings.agent.steps = steps.unwrap_or(settings.agent.steps);
            let (_, experiment) = qtable::run(&settings, &mut progress(out, common.quiet))?;
            (common, experiment)
        }
    };
    if let Some(path) = &common.out {
        std::fs::write(path, experiment.html()).with_context(|| format!("{}: cannot be written", path.display()))?;
        out.note(&format!("report written to {}", path.display()));
    }
    match common.format {
        Format::Json => out.json(&json!({"title": experiment.title, "findings": experiment.findings}))?,
        Format::Table => print(&experiment, out)?,
    }
    Ok(Verdict::Good)
}

fn progress(out: &Output, quiet: bool) -> impl FnMut(&str) + '_ {
    move |what| {
        if !quiet {
            out.note(what);
        }
    }
}

fn print(experiment: &Experiment, out: &mut Output) -> Result<()> {
    writeln!(out, "{HEADING}{}{HEADING:#}\n{DIM}{}{DIM:#}\n", experiment.title, experiment.summary)?;
    for finding in &experiment.findings {
        let (style, word) = if finding.held { (GOOD, "held    ") } else { (BAD, "not held") };
        writeln!(out, "{style}{word}{style:#}  {}\n          {DIM}{}{DIM:#}", finding.expected, finding.evidence)?;
    }
    writeln!(out, "\n{} of {} findings held", experiment.held(), experiment.findings.len())?;
    Ok(())
}
