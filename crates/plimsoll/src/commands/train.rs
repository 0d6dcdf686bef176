//! `plimsoll train`

use crate::Verdict;
use crate::background::Urgency;
use crate::figures::short;
#[cfg(all(feature = "live", target_os = "linux"))]
use crate::live::training::{LiveArgs, LiveFile, LiveTraining, Mode, Tried};
use crate::output::{HEADING, Output, table};
use anyhow::Result;
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use plimsoll_learn::model::TrainingCard;
#[cfg(all(feature = "live", target_os = "linux"))]
use plimsoll_learn::models;
use plimsoll_learn::spec::{LearnSpec, with_variables};
use plimsoll_learn::train::model::{Order, check_room, make};
use plimsoll_learn::train::{Observer, Progress, Trained};
use plimsoll_learn::variables::environment;
use plimsoll_learn::workshop::{self, Learner};
use plimsoll_sim::scenario::Scenario;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// The bar has this many parts: a thousandth is as fine as anyone sees.
const PARTS: f64 = 1000.0;

/// Train a model as a scenario has it
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A scenario file with a [learn] section; with --live, a file with a [live] and a [learn] section
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// The folder of the model: weights, card, and what training leaves
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Go on from the last checkpoint
    #[arg(long)]
    resume: bool,
    /// Replace the model that is in the folder, or the training that was under way there
    #[arg(long, conflicts_with = "resume")]
    replace: bool,
    /// Begin with the weights of the model in this folder, of the same network and features, instead of with none
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    from: Option<PathBuf>,
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
    /// Say how far it is in lines of JSON, for programs: `json`
    #[arg(long, value_name = "FORMAT", value_parser = ["json"])]
    progress: Option<String>,
    #[command(flatten)]
    urgency: Urgency,
    #[cfg(all(feature = "live", target_os = "linux"))]
    #[command(flatten)]
    on_cluster: LiveArgs,
}

/// Trains the model, and stores it.
pub fn run(args: Args, out: &mut Output) -> Result<Verdict> {
    args.urgency.apply();
    #[cfg(feature = "burn")]
    args.device.parse::<plimsoll_learn::network::Compute>()?.choose()?;
    #[cfg(all(feature = "live", target_os = "linux"))]
    if args.on_cluster.live {
        return on_cluster(&args, out);
    }
    check_room(&args.out, args.resume, args.replace)?;
    let scenario = with_variables(Scenario::read(&args.scenario)?, &environment)?;
    let mut spec = LearnSpec::read(&scenario)?;
    override_by(&args, &mut spec);
    let learner = workshop::learner(&scenario, &spec)?;
    let training = TrainingCard::of(&scenario, &spec, command(&args))?;
    learn(&args, &spec, learner, &training, out)?;
    writeln!(out, "measure it with: plimsoll evaluate {} {}", args.out.display(), args.scenario.display())?;
    Ok(Verdict::Good)
}

/// What the command line says counts more than the file.
fn override_by(args: &Args, spec: &mut LearnSpec) {
    spec.seed = args.seed.unwrap_or(spec.seed);
    spec.train.steps = args.steps.or(spec.train.steps);
}

/// Learns on a cluster, or tests what was learned.
#[cfg(all(feature = "live", target_os = "linux"))]
fn on_cluster(args: &Args, out: &mut Output) -> Result<Verdict> {
    crate::connect::start_logs();
    let mut file = LiveFile::read(&args.scenario)?;
    file.learn.override_by(&environment)?;
    override_by(args, &mut file.learn);
    if args.on_cluster.mode == Mode::Test {
        let mut cluster = LiveTraining::start(&args.on_cluster, file, Some(&args.out))?;
        let tried = cluster.test(&models::name(&args.out), |policy| out.note(&format!("{policy} places pods")))?;
        return show(args, &tried, out);
    }
    check_room(&args.out, args.resume, args.replace)?;
    let hash = file.fingerprint()?;
    let spec = file.learn.clone();
    let mut cluster = LiveTraining::start(&args.on_cluster, file, None)?;
    let name = args.scenario.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let training = TrainingCard::named(&name, hash, &spec, command(args));
    learn(args, &spec, Box::new(cluster.learner()?), &training, out)?;
    writeln!(out, "test it with: {} --mode test", training.command)?;
    Ok(Verdict::Good)
}

/// Shows how policies did on the cluster, and writes it into the model's card.
#[cfg(all(feature = "live", target_os = "linux"))]
fn show(args: &Args, tried: &[Tried], out: &mut Output) -> Result<Verdict> {
    let mut card = models::read_card(&args.out)?;
    card.figures.insert("live".to_owned(), serde_json::to_value(tried)?);
    let weights = plimsoll_learn::model::read_weights(&args.out.join(plimsoll_learn::model::WEIGHTS_FILE))?;
    models::save(&args.out, &card, &weights)?;
    let heads = [
        "POLICY",
        "PODS",
        "REWARD",
        "WATTS",
        "ACTIVE NODES",
        "CPU SPREAD",
        "LATENCY ms",
        "P95 ms",
        "ERRORS",
        "STRAYED",
    ];
    let mut list = table(heads, &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
    let known = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    for one in tried {
        list.add_row([
            one.policy.clone(),
            one.pods.to_string(),
            short(one.reward),
            known(one.watts.map(short)),
            short(one.active_nodes),
            short(one.cpu_spread),
            short(one.latency_ms),
            known(one.p95_ms.map(short)),
            known(one.errors.map(|errors| errors.to_string())),
            one.strayed.to_string(),
        ]);
    }
    out.table("", &list)?;
    Ok(Verdict::Good)
}

/// Learns to the end, and stores the model.
fn learn(
    args: &Args,
    spec: &LearnSpec,
    mut learner: Box<dyn Learner>,
    training: &TrainingCard,
    out: &mut Output,
) -> Result<()> {
    let bar = if args.quiet { ProgressBar::hidden() } else { progress_bar() };
    let mut watcher = Watcher { bar, out, is_told: args.progress.is_some(), told: None, last: None };
    let clock = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let order = Order {
        folder: &args.out,
        training,
        from: args.from.as_deref(),
        resume: args.resume,
        replace: args.replace,
        checkpoint_every: spec.checkpoint.every.0,
        clock: &clock,
    };
    let trained = make(learner.as_mut(), &order, &mut watcher)?;
    watcher.bar.finish_and_clear();
    let Some(trained) = trained else { return Ok(()) };
    let took = watcher.last.as_ref().map(|progress| progress.elapsed).unwrap_or_default();
    print(args, &trained, took, out)
}

fn print(args: &Args, trained: &Trained, took: Duration, out: &mut Output) -> Result<()> {
    let report = &trained.report;
    writeln!(out, "{HEADING}{}{HEADING:#} is trained", args.out.display())?;
    let mut list = table(["FIGURE", "VALUE"], &[1]);
    list.add_row(["steps".to_owned(), report.steps.to_string()]);
    list.add_row(["episodes".to_owned(), report.episodes.to_string()]);
    list.add_row(["seconds".to_owned(), format!("{:.1}", took.as_secs_f64())]);
    let figures = report.mean_return.map(|value| ("return".to_owned(), value)).into_iter().chain(report.figures());
    for (name, value) in figures {
        list.add_row([name, short(value)]);
    }
    out.table("", &list)?;
    Ok(())
}

/// How this training is asked for once more.
fn command(args: &Args) -> String {
    let mut command = format!("plimsoll train {} --out {}", args.scenario.display(), args.out.display());
    if let Some(from) = &args.from {
        command.push_str(&format!(" --from {}", from.display()));
    }
    for (flag, value) in [("seed", args.seed), ("steps", args.steps)] {
        if let Some(value) = value {
            command.push_str(&format!(" --{flag} {value}"));
        }
    }
    #[cfg(feature = "burn")]
    if args.device != "cpu" {
        command.push_str(&format!(" --device {}", args.device));
    }
    #[cfg(all(feature = "live", target_os = "linux"))]
    if args.on_cluster.live {
        command.push_str(" --live");
    }
    command
}

fn progress_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {percent}%  {msg}");
    // The template is ours, and right; without it the bar is plain.
    ProgressBar::new(PARTS as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Shows how far training is.
struct Watcher<'a> {
    bar: ProgressBar,
    out: &'a mut Output,
    /// Whether programs are told.
    is_told: bool,
    told: Option<Duration>,
    last: Option<Progress>,
}

/// How often programs are told at most.
const TELL: Duration = Duration::from_millis(500);

impl Watcher<'_> {
    /// Tells programs how far training is: at its first step, at its last, and now and then between.
    fn tell(&mut self, progress: &Progress) {
        let report = &progress.report;
        let is_due =
            self.told.is_none_or(|told| progress.elapsed.saturating_sub(told) >= TELL) || report.progress >= 1.0;
        if !self.is_told || !is_due {
            return;
        }
        self.told = Some(progress.elapsed);
        let mut line = serde_json::json!({
            "steps": report.steps, "episodes": report.episodes, "return": report.mean_return, "progress": report.progress,
        });
        for (name, value) in report.figures() {
            line[name] = serde_json::json!(value);
        }
        // Who listened may be gone: training is not for them alone.
        let _ = writeln!(self.out, "{line}").and_then(|()| self.out.flush());
    }
}

impl Observer for Watcher<'_> {
    fn progress(&mut self, progress: &Progress) {
        let report = &progress.report;
        let mut parts = vec![format!("{} steps, {:.0}/s", report.steps, progress.steps_per_second)];
        parts.extend(report.mean_return.map(|value| format!("return {}", short(value))));
        parts.extend(report.figures().map(|(name, value)| format!("{name} {}", short(value))));
        parts.extend(progress.remaining.map(|left| format!("{} left", HumanDuration(left))));
        self.bar.set_position((report.progress.clamp(0.0, 1.0) * PARTS) as u64);
        self.bar.set_message(parts.join(", "));
        self.tell(progress);
        self.last = Some(progress.clone());
    }

    fn note(&mut self, note: &str) {
        self.bar.suspend(|| self.out.note(note));
    }
}
