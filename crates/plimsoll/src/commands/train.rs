//! `plimsoll train`

use crate::Verdict;
use crate::figures::short;
use crate::output::{HEADING, Output, table};
use anyhow::{Context, Result};
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use plimsoll_learn::model::{Card, TrainingCard};
use plimsoll_learn::spec::{self, LearnSpec};
use plimsoll_learn::train::{self, Checkpoints, Identity, Observer, Progress, Settings, TRAINING_FOLDER, Trained};
use plimsoll_learn::{models, workshop};
use plimsoll_sim::scenario::Scenario;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// The bar has this many parts: a thousandth is as fine as anyone sees.
const PARTS: f64 = 1000.0;

/// Train a model as a scenario has it
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A scenario file with a [learn] section
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// The folder of the model: weights, card, and what training leaves
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Go on from the last checkpoint
    #[arg(long)]
    resume: bool,
    /// The seed; the scenario's if not given
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// How many environment steps; the scenario's if not given
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// Where networks are computed: cpu, or with LibTorch in the build torch (on the processor) or cuda:0
    #[cfg(feature = "burn")]
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    device: String,
    /// Show no progress
    #[arg(long)]
    quiet: bool,
}

/// Trains the model, and stores it.
pub fn run(args: Args, out: &mut Output) -> Result<Verdict> {
    #[cfg(feature = "burn")]
    args.device.parse::<plimsoll_learn::network::Compute>()?.choose()?;
    let scenario = Scenario::read(&args.scenario)?;
    let mut spec = LearnSpec::read(&scenario)?;
    spec.seed = args.seed.unwrap_or(spec.seed);
    spec.train.steps = args.steps.or(spec.train.steps);
    let mut learner = workshop::learner(&scenario, &spec)?;
    let training = training_card(&args, &scenario, &spec)?;
    let card = |card: Card, steps: u64| Card {
        name: models::name(&args.out),
        training: TrainingCard { steps, ..training.clone() },
        ..card
    };
    let identity = Identity::of(&card(learner.card(), 0));
    let checkpoints = Checkpoints::new(&args.out.join(TRAINING_FOLDER));
    if args.resume
        && checkpoints.list()?.is_empty()
        && models::read_card(&args.out).is_ok_and(|there| Identity::of(&there) == identity)
    {
        out.note(&format!("{} is trained to its end: there is nothing to resume", args.out.display()));
        return Ok(Verdict::Good);
    }
    let bar = if args.quiet { ProgressBar::hidden() } else { progress_bar() };
    let mut watcher = Watcher { bar, out, last: None };
    let clock = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let settings = Settings {
        folder: &args.out,
        identity: &identity,
        checkpoint_every: spec.checkpoint.every.0,
        resume: args.resume,
        clock: &clock,
    };
    let trained = train::train(learner.agent(), &settings, &mut watcher)?;
    watcher.bar.finish_and_clear();
    let took = watcher.last.as_ref().map(|progress| progress.elapsed).unwrap_or_default();
    models::save(&args.out, &card(learner.card(), trained.report.steps), &trained.weights)
        .with_context(|| format!("{}: the model cannot be stored", args.out.display()))?;
    checkpoints.clear()?;
    print(&args, &trained, took, out)?;
    Ok(Verdict::Good)
}

fn print(args: &Args, trained: &Trained, took: Duration, out: &mut Output) -> Result<()> {
    let report = &trained.report;
    writeln!(out, "{HEADING}{}{HEADING:#} is trained", args.out.display())?;
    let mut list = table(["FIGURE", "VALUE"], &[1]);
    list.add_row(["steps".to_owned(), report.steps.to_string()]);
    list.add_row(["episodes".to_owned(), report.episodes.to_string()]);
    list.add_row(["seconds".to_owned(), format!("{:.1}", took.as_secs_f64())]);
    let figures = report.mean_return.map(|value| ("return", value)).into_iter().chain(report.scalars.iter().copied());
    for (name, value) in figures {
        list.add_row([name.to_owned(), short(value)]);
    }
    out.table("", &list)?;
    writeln!(out, "measure it with: plimsoll evaluate {} {}", args.out.display(), args.scenario.display())?;
    Ok(())
}

fn training_card(args: &Args, scenario: &Scenario, spec: &LearnSpec) -> Result<TrainingCard> {
    let window = spec.train.window.map_or_else(|| "all".to_owned(), |window| window.to_string());
    let mut command = format!("plimsoll train {} --out {}", args.scenario.display(), args.out.display());
    for (flag, value) in [("seed", args.seed), ("steps", args.steps)] {
        if let Some(value) = value {
            command.push_str(&format!(" --{flag} {value}"));
        }
    }
    #[cfg(feature = "burn")]
    if args.device != "cpu" {
        command.push_str(&format!(" --device {}", args.device));
    }
    Ok(TrainingCard {
        agent: spec.agent.name.clone(),
        scenario: scenario.name.clone(),
        scenario_hash: spec::fingerprint(scenario)?,
        seed: spec.seed,
        windows: spec.train.samples.iter().map(|sample| format!("{window} sample {sample}")).collect(),
        steps: 0,
        command,
        version: env!("CARGO_PKG_VERSION").into(),
    })
}

fn progress_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {percent}%  {msg}");
    // The template is ours, and right; without it the bar is plain.
    ProgressBar::new(PARTS as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Shows how far training is.
struct Watcher<'a> {
    bar: ProgressBar,
    out: &'a Output,
    last: Option<Progress>,
}

impl Observer for Watcher<'_> {
    fn progress(&mut self, progress: &Progress) {
        let report = &progress.report;
        let mut parts = vec![format!("{} steps, {:.0}/s", report.steps, progress.steps_per_second)];
        parts.extend(report.mean_return.map(|value| format!("return {}", short(value))));
        parts.extend(report.scalars.iter().map(|(name, value)| format!("{name} {}", short(*value))));
        parts.extend(progress.remaining.map(|left| format!("{} left", HumanDuration(left))));
        self.bar.set_position((report.progress.clamp(0.0, 1.0) * PARTS) as u64);
        self.bar.set_message(parts.join(", "));
        self.last = Some(progress.clone());
    }

    fn note(&mut self, note: &str) {
        self.bar.suspend(|| self.out.note(note));
    }
}
