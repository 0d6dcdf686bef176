//! `plimsoll scenario`

use crate::Verdict;
use crate::output::{Output, count};
use crate::scenario_args::trace;
use anyhow::Result;
use plimsoll_learn::spec::LearnSpec;
use plimsoll_learn::workshop;
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
        Command::Schema => out.json(&schema())?,
        Command::Check { file } => {
            let scenario = Scenario::read(&file)?;
            if scenario.learn.is_some() {
                workshop::check(&LearnSpec::read(&scenario)?)?;
            }
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

/// The schema of scenarios, with that of what is learned in its place.
fn schema() -> serde_json::Value {
    let (mut whole, mut learn) = (Scenario::schema(), LearnSpec::schema());
    if let Some(part) = learn.as_object_mut() {
        part.remove("$schema");
        let definitions = part.remove("$defs");
        if let (Some(own), Some(further)) =
            (whole["$defs"].as_object_mut(), definitions.as_ref().and_then(|d| d.as_object()))
        {
            own.extend(further.clone());
        }
    }
    whole["properties"]["learn"] = learn;
    whole
}
