//! `plimsoll simulate`

use crate::Verdict;
use crate::evaluation::policy_of;
use crate::figures::{self, Format};
use crate::output::{DIM, HEADING, Output, table};
use crate::scenario_args::{ScenarioArgs, trace};
use anyhow::{Context, Result};
use plimsoll_sim::compare::{Case, PreparedCase};
use plimsoll_sim::report::{Report, html};
use plimsoll_sim::simulation::{Nobody, Timeline};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::time::Instant;

/// Replay a workload on simulated machines under one policy, and say what it costs
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    scenario: ScenarioArgs,
    /// The policy that ranks nodes, or the folder of a model; the scenario's first if not given
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    /// The seed; the scenario's first if not given
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// How results are printed
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Write every decision to this file, for audit
    #[arg(long, value_name = "FILE")]
    timeline: Option<PathBuf>,
    /// Write a report with plots to this folder
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

/// Runs the simulation.
pub fn run(args: Args, out: &mut Output) -> Result<Verdict> {
    let scenario = args.scenario.scenario()?;
    let fleet = scenario.fleet()?;
    let trace = trace(&scenario, &fleet, out)?;
    let seed = args.seed.or(scenario.run.seeds.first().copied()).unwrap_or(1);
    let policy = args.policy.clone().or(scenario.run.policies.first().cloned()).unwrap_or_else(|| "default".into());
    let case = PreparedCase::new(&scenario, &trace, Case { window: None, seed })?;
    let start = Instant::now();
    let run = match &args.timeline {
        None => case.run(&policy, policy_of(&policy)?, &mut Nobody)?,
        Some(path) => {
            let file = File::create(path).with_context(|| format!("{}: cannot be written", path.display()))?;
            let mut timeline = Timeline::new(BufWriter::new(file));
            let run = case.run(&policy, policy_of(&policy)?, &mut timeline)?;
            timeline.finish().with_context(|| format!("{}: cannot be written", path.display()))?;
            run
        }
    };
    let took = start.elapsed().as_secs_f64();
    if let Some(folder) = &args.report {
        let bounds = [case.case_bound()];
        let title = format!("{}: {policy}", scenario.name);
        let report = Report { title: &title, runs: std::slice::from_ref(&run), baseline: None, bounds: &bounds };
        let path = figures::write_report(folder, &html(&report))?;
        out.note(&format!("report written to {}", path.display()));
    }
    if args.format == Format::Json {
        out.json(&figures::Results::new([&run.row]))?;
        return Ok(Verdict::Good);
    }
    let pods = case.prepared.workload.pods.len();
    writeln!(
        out,
        "{HEADING}{policy}{HEADING:#} on {} machines: {pods} pods in {took:.2} s, {:.0} pods/s",
        case.prepared.fleet.len(),
        pods as f64 / took.max(1e-9)
    )?;
    let mut list = table(["MEASURE", "VALUE", "MEANING"], &[1]);
    for figure in figures::all(&run.row) {
        list.add_row([figure.name, figure.value, figure.meaning]);
    }
    out.table("", &list)?;
    writeln!(out, "{DIM}placements {}{DIM:#}", run.row.placements_checksum)?;
    Ok(Verdict::Good)
}
