//! `make bench-live`: the live scheduler beside kube-scheduler and beside a binder that does not think, each alone on the same control plane
//! with the same nodes and pods, interleaved.
//!
//! Without names it runs everything and writes `docs/benchmarks-live.md` and `target/bench/live.json`; with names of cases it measures those
//! alone and writes nothing. With `--suite adviser` it measures what advice costs kube-scheduler, and with `--suite scale` the largest cluster, and writes their pages.

mod case;
mod contest;
mod report;
mod simulated;
mod suite;

use anyhow::{Context, Result, bail};
use case::Case;
use clap::Parser;
use contest::{Contestant, Figures, Programs};
use plimsoll_lab::Binaries;
use std::path::PathBuf;
use std::process::ExitCode;
use suite::Suite;

/// What to measure, and with which programs.
#[derive(Debug, Parser)]
struct Arguments {
    /// The cases; all if none is named
    cases: Vec<String>,
    /// Medians are over this many rounds
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// A part of nodes and pods, to try the benchmark
    #[arg(long, default_value_t = 1.0)]
    part: f64,
    /// Who takes part, by the words of their names; all if nobody is named
    #[arg(long)]
    only: Vec<String>,
    /// What is measured
    #[arg(long, value_enum, default_value = "live")]
    suite: Suite,
    #[arg(long, default_value = "target/release/plimsoll")]
    plimsoll: PathBuf,
    #[arg(long, default_value = "bin/null-binder")]
    null_binder: PathBuf,
    #[arg(long, default_value = "bin/plimsoll-kube-scheduler")]
    plugin: PathBuf,
    #[arg(long, default_value = "models/packing")]
    model: PathBuf,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-live: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// What came of a contestant on a case, round by round.
#[derive(Debug, Clone)]
pub struct Row {
    /// The case.
    pub case: Case,
    /// Who.
    pub contestant: Contestant,
    /// The rounds.
    pub rounds: Vec<Figures>,
    /// Why there is none.
    pub failed: Option<String>,
}

fn run(arguments: &Arguments) -> Result<()> {
    let absolute = |path: &PathBuf| {
        path.canonicalize().with_context(|| format!("{} is not there: make bench-live", path.display()))
    };
    let suite = arguments.suite;
    let programs = Programs {
        lab: Binaries::find()?,
        plimsoll: absolute(&arguments.plimsoll)?,
        null_binder: if suite == Suite::Live { absolute(&arguments.null_binder)? } else { PathBuf::new() },
        plugin: if suite == Suite::Adviser { absolute(&arguments.plugin)? } else { PathBuf::new() },
        model: absolute(&arguments.model)?,
    };
    let named = |case: &&Case| arguments.cases.is_empty() || arguments.cases.iter().any(|name| name == case.name);
    let all = suite.cases();
    let cases: Vec<Case> = all.iter().filter(named).map(|case| case.scaled(arguments.part)).collect();
    if cases.is_empty() {
        let names: Vec<_> = all.iter().map(|case| case.name).collect();
        bail!("there is no such case; there are {}", names.join(", "));
    }
    let takes_part = |contestant: &Contestant| {
        arguments.only.is_empty() || arguments.only.iter().any(|name| contestant.name() == name)
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let simulated = if suite == Suite::Scale { simulated::run(arguments.part)? } else { Vec::new() };
    let mut rows = Vec::new();
    for case in cases {
        let contestants = suite.contestants().iter().copied().filter(takes_part);
        let contestants = contestants.filter(|who| *who != Contestant::NullBinder || case.null_binder);
        let mut of_case: Vec<Row> =
            contestants.map(|contestant| Row { case, contestant, rounds: Vec::new(), failed: None }).collect();
        for _ in 0..arguments.rounds {
            for row in &mut of_case {
                let figures = runtime.block_on(contest::run(&programs, &case, row.contestant));
                let told = figures.as_ref().map_or_else(|problem| format!("{problem:#}"), report::line);
                println!("{:<32}{:<17}{told}", case.name, row.contestant.name());
                match figures {
                    Ok(figures) => row.rounds.push(figures),
                    // What somebody cannot do is a finding, too, where a cluster is larger than it need be.
                    Err(_) if suite == Suite::Scale => row.failed = Some(told),
                    Err(problem) => return Err(problem.context(format!("{} on {}", row.contestant.name(), case.name))),
                }
            }
        }
        rows.extend(of_case);
    }
    if arguments.cases.is_empty() && arguments.only.is_empty() && arguments.part == 1.0 {
        report::write(&rows, &simulated, suite)?;
    }
    Ok(())
}
