//! `plimsoll experiment`

use crate::Verdict;
use crate::background::Urgency;
use crate::figures::Format;
#[cfg(all(feature = "live", target_os = "linux"))]
use crate::live::thesis::LiveStage;
use crate::output::{BAD, DIM, GOOD, HEADING, Output};
use crate::serve::{self, Page};
use anyhow::{Context, Result};
use plimsoll_learn::experiment::{Draw, Experiment, qtable, thesis};
use serde_json::json;
use std::io::Write;
use std::net::SocketAddr;
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
    /// Serve the report over HTTP while the experiment runs, such as at 127.0.0.1:8080; port 0 is any that is free
    #[arg(long, value_name = "ADDRESS")]
    serve: Option<SocketAddr>,
    /// Let the address of --serve be one that other machines can reach
    #[arg(long, requires = "serve")]
    allow_remote: bool,
    /// The seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How findings are printed
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Show no progress
    #[arg(long)]
    quiet: bool,
    #[command(flatten)]
    urgency: Urgency,
}

#[derive(Debug, clap::Args)]
struct ThesisArgs {
    #[command(flatten)]
    common: Common,
    /// How many nodes there are
    #[arg(long, value_name = "N", default_value_t = 4)]
    nodes: usize,
    /// Rounds of test 1; 500 if not given, or 3 on a cluster
    #[arg(long, value_name = "N")]
    rounds: Option<u32>,
    /// Pods of test 2; 500 if not given, or 120 on a cluster
    #[arg(long, value_name = "N")]
    pods: Option<u32>,
    /// Run the tests on a real control plane, whose stock kube-scheduler has our plugin, instead of in simulation
    #[cfg(all(feature = "live", target_os = "linux"))]
    #[arg(long)]
    live: bool,
    /// The kube-scheduler with our plugin, which `make plugin` builds
    #[cfg(all(feature = "live", target_os = "linux"))]
    #[arg(long, value_name = "FILE", default_value = "bin/plimsoll-kube-scheduler", requires = "live")]
    scheduler: PathBuf,
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
    match &args.which {
        Which::Thesis(ThesisArgs { common, .. }) | Which::Qtable(QtableArgs { common, .. }) => common.urgency.apply(),
    }
    let (common, experiment) = match args.which {
        Which::Thesis(args) => {
            let experiment = thesis(&args, out)?;
            (args.common, experiment)
        }
        Which::Qtable(QtableArgs { common, lookaheads, steps }) => {
            let mut settings =
                qtable::QTableSettings { seed: common.seed, lookaheads, ..qtable::QTableSettings::default() };
            settings.agent.steps = steps.unwrap_or(settings.agent.steps);
            let (_, experiment) = qtable::run(&settings, &mut progress(out, &common)?)?;
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

/// The steps that a cluster takes seconds for.
#[cfg(all(feature = "live", target_os = "linux"))]
const LIVE: (u32, u32) = (3, 120);

fn thesis(args: &ThesisArgs, out: &Output) -> Result<Experiment> {
    let mut settings =
        thesis::ThesisSettings { seed: args.common.seed, nodes: args.nodes, ..thesis::ThesisSettings::default() };
    #[cfg(all(feature = "live", target_os = "linux"))]
    if args.live {
        (settings.rounds, settings.pods) = LIVE;
    }
    settings.rounds = args.rounds.unwrap_or(settings.rounds);
    settings.pods = args.pods.unwrap_or(settings.pods);
    settings.agent.steps = args.steps.unwrap_or(settings.agent.steps);
    let mut progress = progress(out, &args.common)?;
    #[cfg(all(feature = "live", target_os = "linux"))]
    if args.live {
        let mut stage = LiveStage::start(args.nodes, &args.scheduler)?;
        return Ok(thesis::run_on(&settings, &mut stage, &mut progress)?.1);
    }
    Ok(thesis::run(&settings, &mut progress)?.1)
}

/// Says what is done next, and has it served as far as it has come.
fn progress<'a>(out: &'a Output, common: &Common) -> Result<impl FnMut(&str, &Draw) + use<'a>> {
    let page = Page::default();
    if let Some(address) = common.serve {
        let address = serve::start(address, common.allow_remote, page.clone())?;
        out.note(&format!("the report so far is at http://{address}/"));
    }
    let quiet = common.quiet;
    Ok(move |what: &str, draw: &Draw| {
        if !quiet {
            out.note(what);
        }
        let (what, draw) = (what.to_owned(), Draw::clone(draw));
        page.set(move || draw().live_html(&what));
    })
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
