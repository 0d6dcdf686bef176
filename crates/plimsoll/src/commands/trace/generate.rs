//! `plimsoll trace generate`

use super::wrote;
use crate::Verdict;
use crate::output::Output;
use crate::workload_args::TakeArgs;
use anyhow::Result;
use clap::builder::PossibleValuesParser;
use plimsoll_sim::workload::generate::Generator;
use plimsoll_sim::workload::write;
use std::path::PathBuf;

/// Make a workload up, by seed
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to make
    #[arg(value_name = "KIND", value_parser = kinds())]
    kind: String,
    /// A setting, as in `hours=48` or `lifetime.kind=pareto`; may be given several times
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// The same seed makes the same workload
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    take: TakeArgs,
    /// The file to write: CSV, compressed if its name ends in `.gz`; Parquet if it ends in `.parquet`
    #[arg(long, short, value_name = "OUT")]
    output: PathBuf,
}

fn kinds() -> PossibleValuesParser {
    PossibleValuesParser::new(Generator::KINDS.map(|(name, what)| clap::builder::PossibleValue::new(name).help(what)))
}

/// Makes the workload and writes it.
pub fn run(args: Args, out: &mut Output) -> Result<Verdict> {
    let workload = Generator::parse(&args.kind, &args.settings)?.generate(args.seed)?;
    let workload = args.take.apply(workload, args.seed)?;
    write(&workload, &args.output)?;
    wrote(&workload, &args.output, out);
    Ok(Verdict::Good)
}
