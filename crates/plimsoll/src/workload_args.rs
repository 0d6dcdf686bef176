//! The workload that a command is about: where it comes from and what is taken of it.

use crate::output::{Output, count};
use anyhow::{Context, Result};
use plimsoll_sim::fleet::Fleet;
use plimsoll_sim::workload::generate::Generator;
use plimsoll_sim::workload::select::{Selection, Window};
use plimsoll_sim::workload::{Format, ReadOptions, Skipped, Workload, read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A workload, recorded or made up.
#[derive(Debug, Clone, clap::Args)]
pub struct WorkloadArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// A setting of the generator, as in `hours=48` or `lifetime.kind=pareto`; may be given several times
    #[arg(long = "set", value_name = "KEY=VALUE", conflicts_with = "trace")]
    settings: Vec<String>,
    #[command(flatten)]
    pub take: TakeArgs,
}

/// Where the workload comes from.
#[derive(Debug, Clone, clap::Args)]
#[group(required = true, multiple = false)]
struct SourceArgs {
    /// A recorded workload, as in `azure=FILE`, `alibaba=FILE` or `table=FILE`; without a format, it is known by the heading
    #[arg(long, value_name = "[FORMAT=]FILE")]
    trace: Option<TraceFile>,
    /// A made-up workload: poisson, bursty, diurnal, thesis-1, thesis-2, shop or gpu-sharing
    #[arg(long, value_name = "KIND")]
    generate: Option<String>,
}

/// What is taken of a workload.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct TakeArgs {
    /// Take only pods that arrive in this time, as in `1d..3d`, `..36h` or `3600..`; times count from its start
    #[arg(long, value_name = "FROM..TO")]
    window: Option<Window>,
    /// Let pods that came before the window and still run enter at its start
    #[arg(long, requires = "window")]
    carry_over: bool,
    /// Take only this share of the time, from the start
    #[arg(long, value_name = "SHARE", conflicts_with = "test")]
    train: Option<f64>,
    /// Take only this share of the time, up to the end
    #[arg(long, value_name = "SHARE")]
    test: Option<f64>,
    /// Take only this share of the owners, by seed, each with all its pods
    #[arg(long, value_name = "SHARE")]
    sample: Option<f64>,
    /// Multiply the arrivals: owners are repeated under new names, or thinned out
    #[arg(long, value_name = "FACTOR")]
    scale: Option<f64>,
    /// Skip bad rows and count them, instead of ending with the first
    #[arg(long)]
    lenient: bool,
}

/// A file, and its format where that was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceFile {
    /// The format.
    pub format: Option<Format>,
    /// The file.
    pub path: PathBuf,
}

impl FromStr for TraceFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let as_file = || Self { format: None, path: text.into() };
        let Some((name, path)) = text.split_once('=') else { return Ok(as_file()) };
        match name.parse() {
            Ok(_) if path.is_empty() => Err(format!("the file is missing; {name}=FILE is right")),
            Ok(format) => Ok(Self { format: Some(format), path: path.into() }),
            // A file's name may hold the sign, too.
            Err(_) if Path::new(text).exists() => Ok(as_file()),
            Err(error) => Err(error),
        }
    }
}

#[allow(dead_code, reason = "for the commands that run a workload")]
impl WorkloadArgs {
    /// The workload. What was skipped of it is told on standard error.
    pub fn load(&self, seed: u64, out: &Output) -> Result<Workload> {
        self.load_for(None, seed, out)
    }

    /// The workload for a fleet: pods that ask for a GPU model that no machine has are bad rows.
    pub fn load_for(&self, fleet: Option<&Fleet>, seed: u64, out: &Output) -> Result<Workload> {
        if let Some(kind) = &self.source.generate {
            let workload = Generator::parse(kind, &self.settings)?.generate(seed)?;
            return self.take.apply(workload, seed);
        }
        let trace = self.source.trace.as_ref().context("name a workload: --trace FILE or --generate KIND")?;
        let (workload, skipped) = trace.read(fleet, self.take.options())?;
        tell(&skipped, out);
        self.take.apply(workload, seed)
    }
}

impl TakeArgs {
    /// Whether bad rows are skipped.
    pub fn options(&self) -> ReadOptions {
        ReadOptions { lenient: self.lenient }
    }

    /// Takes what is asked for of a workload.
    pub fn apply(&self, workload: Workload, seed: u64) -> Result<Workload> {
        let Self { window, carry_over, train, test, sample, scale, lenient: _ } = *self;
        let selection = Selection { window, carry_over, train, test, sample, scale };
        selection.apply(workload, seed).context("cannot select from the workload")
    }
}

impl TraceFile {
    /// Reads the workload.
    pub fn read(&self, fleet: Option<&Fleet>, options: ReadOptions) -> Result<(Workload, Skipped)> {
        let format = match self.format {
            Some(format) => format,
            None => Format::detect(&self.path)?,
        };
        Ok(read(&self.path, format, fleet, options)?)
    }
}

/// Tells what was skipped.
pub fn tell(skipped: &Skipped, out: &Output) {
    for (reason, rows) in &skipped.reasons {
        let times = count(usize::try_from(rows.count).unwrap_or(usize::MAX), "time");
        let example = rows.examples.first().map(|example| format!(", first {example}")).unwrap_or_default();
        out.note(&format!("skipped {times}: {}{example}", reason.words()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        workload: WorkloadArgs,
    }

    fn load(args: &str, seed: u64) -> Result<Workload, String> {
        let cli = Cli::try_parse_from(["plimsoll"].into_iter().chain(args.split_whitespace()));
        let cli = cli.map_err(|error| error.to_string())?;
        cli.workload.load(seed, &Output::new()).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn a_workload_is_made_up_and_a_part_of_it_taken() {
        let workload = load("--generate thesis-2 --set pods=40 --set alive=9 --window 100s.. --scale 2", 1).unwrap();
        assert_eq!((workload.name.as_str(), workload.pods.len()), ("thesis-2", 60));
        assert_eq!(load("--generate poisson", 1), load("--generate poisson", 1));
        assert_ne!(load("--generate poisson", 1), load("--generate poisson", 2));
    }

    #[test]
    fn a_workload_comes_from_one_source() {
        for (args, problem) in [
            ("", "required"),
            ("--generate poisson --trace x.csv", "cannot be used with"),
            ("--trace x.csv --set hours=1", "cannot be used with"),
            ("--trace azure=", "azure=FILE is right"),
            ("--trace borg=x.csv", "there is no format"),
            ("--trace azure=x.csv", "x.csv: cannot be read"),
            ("--generate weekly", "there are poisson"),
        ] {
            let error = load(args, 0).unwrap_err();
            assert!(error.contains(problem), "{args}: {error}");
        }
    }
}
