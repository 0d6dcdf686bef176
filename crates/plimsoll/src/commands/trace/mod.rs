//! `plimsoll trace`: workloads as files.

mod convert;
mod generate;
mod info;

use crate::Verdict;
use crate::output::{Output, count};
use crate::workload_args::{TakeArgs, TraceFile};
use anyhow::Result;
use clap::Subcommand;
use plimsoll_sim::workload::{Format, Skipped, Workload, alibaba};
use std::path::{Path, PathBuf};

/// Sum up, convert and make workloads
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: TraceCommand,
}

#[derive(Debug, Subcommand)]
enum TraceCommand {
    Info(info::Args),
    Convert(convert::Args),
    Generate(generate::Args),
}

/// Does what is asked for.
pub fn run(args: Args, out: &mut Output) -> Result<Verdict> {
    match args.command {
        TraceCommand::Info(args) => info::run(args, out),
        TraceCommand::Convert(args) => convert::run(args, out),
        TraceCommand::Generate(args) => generate::run(args, out),
    }
}

/// A recorded workload, and what is taken of it.
#[derive(Debug, clap::Args)]
struct InputArgs {
    /// The file, plain or compressed with gzip
    #[arg(value_name = "[FORMAT=]IN")]
    input: TraceFile,
    /// Its format: azure, alibaba or table [default: by its heading]
    #[arg(long, value_name = "FORMAT")]
    from: Option<Format>,
    /// Machines to check the pods against, as in Alibaba's list of nodes: asking for a GPU model that none has is bad input
    #[arg(long, value_name = "FILE")]
    nodes: Option<PathBuf>,
    #[command(flatten)]
    take: TakeArgs,
    /// Decides what is random in a selection
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

impl InputArgs {
    fn load(&self) -> Result<(Workload, Skipped)> {
        let options = self.take.options();
        let (fleet, mut skipped) = match &self.nodes {
            None => (None, Skipped::default()),
            Some(path) => alibaba::read_nodes(path, options).map(|(fleet, skipped)| (Some(fleet), skipped))?,
        };
        let file = TraceFile { format: self.from.or(self.input.format), path: self.input.path.clone() };
        let (workload, more) = file.read(fleet.as_ref(), options)?;
        skipped.join(more);
        Ok((self.take.apply(workload, self.seed)?, skipped))
    }
}

/// Says what was written.
fn wrote(workload: &Workload, path: &Path, out: &Output) {
    out.note(&format!("wrote {} to {}", count(workload.pods.len(), "pod"), path.display()));
}
