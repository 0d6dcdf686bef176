//! `plimsoll scenario`

use crate::Verdict;
use crate::output::{Output, count};
use crate::scenario_args::trace;
use anyhow::Result;
use plimsoll_sim::scenario::Scenario;
use std::io::Write;
use std::path::PathBuf;

/// Check scenario files, and print their schema
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Print the JSON schema of scenario files
    Schema,
    /// Read a scenario with all its files, and say what it is about
    Check {
        /// The scenario
        file: PathBuf,
    },
}

/// Prints what was asked for.
pub fn run(args: Args, out: &mut Output) -> Result<Verdict> {
    match args.command {
        Command::Schema => out.json(&Scenario::schema())?,
        Command::Check { file } => {
            let scenario = Scenario::read(&file)?;
            let fleet = scenario.fleet()?;
            let seed = scenario.run.seeds.first().copied().unwrap_or(1);
            let prepared = scenario.prepare(&trace(&scenario, &fleet, out)?, seed)?;
            let (machines, pools) = (count(fleet.len(), "machine"), count(fleet.pools.len(), "pool"));
            let pods = count(prepared.workload.pods.len(), "pod");
            writeln!(out, "{}: {pods} on {machines} in {pools}", scenario.name)?;
        }
    }
    Ok(Verdict::Good)
}
