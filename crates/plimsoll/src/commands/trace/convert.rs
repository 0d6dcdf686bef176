//! `plimsoll trace convert`

use super::{InputArgs, wrote};
use crate::Verdict;
use crate::output::Output;
use crate::workload_args::tell;
use anyhow::Result;
use plimsoll_sim::workload::write;
use std::path::PathBuf;

/// Write a workload, or a part of it, in Plimsoll's own format
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    input: InputArgs,
    /// The file to write: CSV, compressed if its name ends in `.gz`; Parquet if it ends in `.parquet`
    #[arg(value_name = "OUT")]
    output: PathBuf,
}

/// Reads, selects and writes.
pub fn run(args: Args, out: &mut Output) -> Result<Verdict> {
    let (workload, skipped) = args.input.load()?;
    tell(&skipped, out);
    write(&workload, &args.output)?;
    wrote(&workload, &args.output, out);
    Ok(Verdict::Good)
}
