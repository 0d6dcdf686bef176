//! `plimsoll bounds`

use crate::Verdict;
use crate::figures::{Format, short};
use crate::output::{DIM, Output, table};
use crate::scenario_args::{ScenarioArgs, trace};
use anyhow::{Context, Result};
use plimsoll_sim::compare::{Case, PreparedCase};
use plimsoll_sim::measures::Bounds;
use std::io::Write;
use std::time::Duration;

/// Say what no policy can beat on a workload: machines in use, and power
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    scenario: ScenarioArgs,
    /// The seed; the scenario's first if not given
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Also find the best possible assignment of whole pods; only for windows of a few pods
    #[arg(long)]
    exact: bool,
    /// How long the exact bound may be searched for, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, requires = "exact")]
    time_limit: u64,
    /// How results are printed
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Prints the bounds.
pub fn run(args: Args, out: &mut Output) -> Result<Verdict> {
    let scenario = args.scenario.scenario()?;
    let fleet = scenario.fleet()?;
    let trace = trace(&scenario, &fleet, out)?;
    let seed = args.seed.or(scenario.run.seeds.first().copied()).unwrap_or(1);
    let case = PreparedCase::new(&scenario, &trace, Case { window: None, seed })?;
    let fluid = case.bound.mean();
    let mut exact_bound = None;
    if args.exact {
        let time = Duration::from_secs(args.time_limit);
        exact_bound = Some(case.exact(time).context("exact bound")?);
    }
    if args.format == Format::Json {
        out.json(&serde_json::json!({"seed": seed, "fluid": fluid, "exact": exact_bound}))?;
        return Ok(Verdict::Good);
    }
    let mut list = table(["BOUND", "ACTIVE NODES", "kW"], &[1, 2]);
    let mut row = |name: &str, bound: Bounds| {
        list.add_row([name.to_owned(), short(bound.active_nodes), short(bound.mean_kw)]);
    };
    row("fluid", fluid);
    if let Some(bound) = exact_bound {
        row("exact", bound);
    }
    out.table("", &list)?;
    writeln!(
        out,
        "{DIM}averages over the measured time; no policy that starts pods when they arrive can do better{DIM:#}"
    )?;
    Ok(Verdict::Good)
}
