//! `plimsoll transfer`

use crate::Verdict;
use crate::background::Urgency;
use crate::output::{HEADING, Output, table};
use anyhow::Result;
use plimsoll_learn::spec::{LearnSpec, with_variables};
use plimsoll_learn::transfer::{self, Point, Training, Transfer};
use plimsoll_learn::variables::environment;
use plimsoll_sim::scenario::Scenario;
use std::io::Write;
use std::path::PathBuf;

/// Measure how much sooner training that begins with a model reaches what training from nothing reaches
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A scenario file with a [learn] section: the new workload
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// The folder of the model to begin with, of the same network and features
    #[arg(long, value_name = "DIR")]
    from: PathBuf,
    /// How many environment steps; the scenario's if not given
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
    #[command(flatten)]
    urgency: Urgency,
}

/// Trains twice, and says what was found.
pub fn run(args: Args, out: &mut Output) -> Result<Verdict> {
    args.urgency.apply();
    let scenario = with_variables(Scenario::read(&args.scenario)?, &environment)?;
    let mut spec = LearnSpec::read(&scenario)?;
    spec.seed = args.seed.unwrap_or(spec.seed);
    spec.train.steps = args.steps.or(spec.train.steps);
    let mut watch = |training: Training, point: &Point| {
        if !args.quiet {
            out.note(&format!("{}: {:.6} after {} steps", words(training), point.figure, point.steps));
        }
    };
    let found = transfer::compare(&scenario, &spec, &args.from, &mut watch)?;
    if args.json {
        out.json(&found)?;
    } else {
        print(&args, &found, out)?;
    }
    Ok(Verdict::Good)
}

fn words(training: Training) -> &'static str {
    match training {
        Training::Scratch => "from nothing",
        Training::Transferred => "from the model",
    }
}

fn print(args: &Args, found: &Transfer, out: &mut Output) -> Result<()> {
    let unit = if found.objective.unit.is_empty() { String::new() } else { format!(" {}", found.objective.unit) };
    let mut list = table(["BEGINNING", "STEPS", "FIGURE"], &[1, 2]);
    for (training, points) in [(Training::Scratch, &found.scratch), (Training::Transferred, &found.transferred)] {
        for point in points {
            list.add_row([words(training).to_owned(), point.steps.to_string(), format!("{:.6}{unit}", point.figure)]);
        }
    }
    writeln!(out, "{HEADING}{}{HEADING:#}, the mean of {} held-out cases", found.objective.label, found.cases)?;
    out.table("", &list)?;
    let (from, goal) = (args.from.display(), found.goal());
    let goal = goal.map_or_else(String::new, |goal| format!("{:.6}{unit} after {} steps", goal.figure, goal.steps));
    writeln!(out, "training from nothing reaches {goal}")?;
    for (how, point) in [("the same but for chance", found.matched()), ("as good", found.reached())] {
        match point {
            Some(point) => {
                let share = found.share(point) * 100.0;
                writeln!(out, "beginning with {from}, {how} after {} steps: {share:.1} % of those", point.steps)?;
            }
            None => writeln!(out, "beginning with {from}, not {how} by the end")?,
        }
    }
    Ok(())
}
