//! `plimsoll evaluate`

use crate::Verdict;
use crate::background::Urgency;
use crate::evaluation::{self, Subject};
use crate::output::Output;
use anyhow::{Context, Result};
use plimsoll_learn::spec::{LearnSpec, Objective};
use plimsoll_learn::{evaluate, models};
use plimsoll_sim::scenario::Scenario;
use std::path::PathBuf;

/// Measure a model, or a policy, against the others on data that nothing was learned from
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder of a model, or the name of a policy
    #[arg(value_name = "MODEL")]
    model: String,
    /// A scenario file with a [learn] section
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// The measure it is judged by; the scenario's if not given
    #[arg(long, value_name = "MEASURE")]
    objective: Option<String>,
    /// The policies to beat; the scenario's, or all, if not given
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    baselines: Vec<String>,
    /// Other models to compare with
    #[arg(long, value_name = "DIRS", value_delimiter = ',')]
    against: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write a report with plots to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Note the figures in the model's card
    #[arg(long)]
    record: bool,
    /// Show no progress
    #[arg(long)]
    quiet: bool,
    #[command(flatten)]
    urgency: Urgency,
}

/// Evaluates, and says what was found.
pub fn run(args: Args, out: &mut Output) -> Result<Verdict> {
    args.urgency.apply();
    let scenario = Scenario::read(&args.scenario)?;
    let mut spec = LearnSpec::read(&scenario)?;
    if let Some(name) = &args.objective {
        let better = if *name == spec.objective { spec.better } else { None };
        Objective::new(name, better)?;
        (spec.objective, spec.better) = (name.clone(), better);
    }
    if !args.baselines.is_empty() {
        spec.evaluate.baselines.clone_from(&args.baselines);
    }
    let subject = Subject::find(&args.model)?;
    let (found, runs) = evaluation::make(&subject, &args.against, &scenario, &spec, args.quiet, out)?;
    if let Some(path) = &args.html {
        std::fs::write(path, evaluate::html(&found, &runs))
            .with_context(|| format!("{}: cannot be written", path.display()))?;
        out.note(&format!("report written to {}", path.display()));
    }
    if args.record {
        match &subject {
            Subject::Model(folder) => models::record(folder, &found)?,
            Subject::Policy(name) => out.note(&format!("{name} is a policy without a card: nothing is recorded")),
        }
    }
    if args.json {
        out.json(&found)?;
    } else {
        evaluation::print(&found, out)?;
    }
    Ok(Verdict::Good)
}
