//! The workload that a command is about: where it comes from and what is taken of it.

use crate::output::{Output, count};
use anyhow::{Context, Result, bail};
use plimsoll_sim::fleet::Fleet;
use plimsoll_sim::scenario::{Scenario, Source};
use plimsoll_sim::workload::generate::Generator;
use plimsoll_sim::workload::select::{Selection, Window};
use plimsoll_sim::workload::{Format, ReadOptions, Skipped, Workload, read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A workload, recorded or made up; a scenario may name one as well.
#[derive(Debug, Clone, clap::Args)]
pub struct WorkloadArgs {
    /// A recorded workload, as in `azure=FILE`, `alibaba=FILE` or `table=FILE`; without a format, it is known by the heading
    #[arg(long, value_name = "[FORMAT=]FILE", conflicts_with = "generate")]
    trace: Option<TraceFile>,
    /// A made-up workload: poisson, bursty, diurnal, thesis-1, thesis-2, shop, gpu-sharing, constrained or day
    #[arg(long, value_name = "KIND")]
    generate: Option<String>,
    /// A setting of the generator, as in `hours=48` or `lifetime.kind=pareto`; may be given several times
    #[arg(long = "set", value_name = "KEY=VALUE", conflicts_with = "trace")]
    settings: Vec<String>,
    #[command(flatten)]
    take: TakeArgs,
}

impl WorkloadArgs {
    /// What is said here counts more than what the scenario says.
    pub fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        if let Some(trace) = &self.trace {
            let file = std::path::absolute(&trace.path)?;
            let format = trace.format.map(|format| format.to_string());
            scenario.workload = Source { file: Some(file), format, ..Source::default() };
        }
        if !self.settings.is_empty() && self.generate.is_none() {
            bail!("--set changes a generator: name it with --generate KIND");
        }
        if let Some(kind) = &self.generate {
            let generate = Some(Generator::parse(kind, &self.settings)?);
            scenario.workload = Source { generate, ..Source::default() };
        }
        let TakeArgs { window, carry_over, train, test, sample, scale, lenient } = self.take;
        let select = &mut scenario.select;
        select.window = window.or(select.window);
        select.carry_over |= carry_over;
        select.train = train.or(select.train);
        select.test = test.or(select.test);
        select.sample = sample.or(select.sample);
        select.scale = scale.or(select.scale);
        scenario.workload.lenient |= lenient;
        Ok(())
    }
}

/// What is taken of a workload.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct TakeArgs {
    /// Take only pods that arrive in this time, as in `1d..3d`, `..36h` or `3600..`; times count from its start
    #[arg(long, value_name = "FROM..TO")]
    window: Option<Window>,
    /// Let pods that came before the window and still run enter at its start
    #[arg(long)]
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

    fn scenario(args: &str) -> Result<Scenario, String> {
        let cli = Cli::try_parse_from(["plimsoll"].into_iter().chain(args.split_whitespace()));
        let mut scenario = Scenario::parse("[workload]\nfile = 'old.csv'\n[select]\nsample = 0.5").unwrap();
        cli.map_err(|error| error.to_string())?.workload.apply(&mut scenario).map_err(|error| format!("{error:#}"))?;
        Ok(scenario)
    }

    #[test]
    fn flags_count_more_than_the_scenario_and_leave_the_rest() {
        let plain = scenario("").unwrap();
        assert_eq!(plain.workload.file.as_deref(), Some(Path::new("old.csv")));
        let made_up = scenario("--generate thesis-2 --set pods=40 --scale 2").unwrap();
        assert_eq!((made_up.workload.file, made_up.select.scale, made_up.select.sample), (None, Some(2.0), Some(0.5)));
        assert_eq!(made_up.workload.generate.map(|generator| generator.kind()), Some("thesis-2"));
        let recorded = scenario("--trace azure=new.csv --sample 0.1 --lenient").unwrap();
        assert!(recorded.workload.file.is_some_and(|file| file.ends_with("new.csv")));
        assert_eq!((recorded.workload.format.as_deref(), recorded.select.sample), (Some("azure"), Some(0.1)));
        assert!(recorded.workload.lenient);
    }

    #[test]
    fn a_workload_comes_from_one_source() {
        for (args, problem) in [
            ("--generate poisson --trace x.csv", "cannot be used with"),
            ("--trace x.csv --set hours=1", "cannot be used with"),
            ("--set hours=1", "--generate KIND"),
            ("--trace azure=", "azure=FILE is right"),
            ("--trace borg=x.csv", "there is no format"),
            ("--generate weekly", "there are poisson"),
        ] {
            let error = scenario(args).unwrap_err();
            assert!(error.contains(problem), "{args}: {error}");
        }
    }
}
