//! The command line of Plimsoll: it parses, calls the engine and prints.

mod access;
mod apprentice;
mod background;
mod cluster;
mod commands;
mod connect;
mod defaults;
mod dry_run;
mod evaluation;
mod figures;
mod helm;
mod input;
#[cfg(all(feature = "live", target_os = "linux"))]
mod live;
#[cfg(feature = "otlp")]
mod otlp;
mod output;
mod recorder;
mod recording;
mod report;
mod scenario_args;
mod section;
#[cfg(feature = "burn")]
mod serve;
mod telemetry;
mod workload_args;

use anyhow::Result;
use clap::{Parser, Subcommand};
use output::Output;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

/// A Kubernetes scheduler that keeps every rule of kube-scheduler, shows its reasons, and can be asked what if
#[derive(Debug, Parser)]
#[command(version, propagate_version = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Conformance(commands::conformance::Args),
    Place(commands::place::Args),
    Explain(commands::explain::Args),
    CheckConfig(commands::check_config::Args),
    Policies(commands::policies::Args),
    Simulate(commands::simulate::Args),
    Compare(commands::compare::Args),
    Bounds(commands::bounds::Args),
    Trace(commands::trace::Args),
    Scenario(commands::scenario::Args),
    Train(commands::train::Args),
    Evaluate(commands::evaluate::Args),
    Models(commands::models::Args),
    Transfer(commands::transfer::Args),
    Tune(commands::tune::Args),
    Run(commands::run::Args),
    Serve(commands::serve::Args),
    Record(commands::record::Args),
    Doctor(commands::doctor::Args),
    #[cfg(feature = "load")]
    Load(commands::load::Args),
    Play(commands::play::Args),
    Demo(commands::demo::Args),
    Tour(commands::tour::Args),
    #[cfg(target_os = "linux")]
    Lab(commands::lab::Args),
    #[cfg(feature = "burn")]
    Experiment(commands::experiment::Args),
}

/// How a command ended that could do its work; one that could not ends with an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// All is well.
    Good,
    /// What was checked is not as it should be.
    Bad,
}

/// The exit status of what was checked and is not as it should be.
const BAD: u8 = 1;
/// The exit status of work that could not be done: wrong usage, or a file that cannot be read.
const FAILED: u8 = 2;

fn main() -> ExitCode {
    connect::choose_cryptography();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Where even this cannot be written there is nobody to tell.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(FAILED) } else { ExitCode::SUCCESS };
        }
    };
    let mut out = Output::new();
    let result = run(cli.command, &mut out).and_then(|verdict| {
        out.flush()?;
        Ok(verdict)
    });
    match result {
        Ok(Verdict::Good) => ExitCode::SUCCESS,
        Ok(Verdict::Bad) => ExitCode::from(BAD),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // What was found before the error is still worth reading, and stands above it.
            let _ = out.flush();
            out.error(&format!("{error:#}"));
            ExitCode::from(FAILED)
        }
    }
}

fn run(command: Command, out: &mut Output) -> Result<Verdict> {
    match command {
        Command::Conformance(args) => commands::conformance::run(args, out),
        Command::Place(args) => commands::place::run(args, out),
        Command::Explain(args) => commands::explain::run(args, out),
        Command::CheckConfig(args) => commands::check_config::run(args, out),
        Command::Policies(args) => commands::policies::run(args, out),
        Command::Simulate(args) => commands::simulate::run(args, out),
        Command::Compare(args) => commands::compare::run(args, out),
        Command::Bounds(args) => commands::bounds::run(args, out),
        Command::Trace(args) => commands::trace::run(args, out),
        Command::Scenario(args) => commands::scenario::run(args, out),
        Command::Train(args) => commands::train::run(args, out),
        Command::Evaluate(args) => commands::evaluate::run(args, out),
        Command::Models(args) => commands::models::run(args, out),
        Command::Transfer(args) => commands::transfer::run(args, out),
        Command::Tune(args) => commands::tune::run(args, out),
        Command::Run(args) => commands::run::run(args, out),
        Command::Serve(args) => commands::serve::run(args, out),
        Command::Record(args) => commands::record::run(args, out),
        Command::Doctor(args) => commands::doctor::run(args, out),
        #[cfg(feature = "load")]
        Command::Load(args) => commands::load::run(args, out),
        Command::Play(args) => commands::play::run(args, out),
        Command::Demo(args) => commands::demo::run(args, out),
        Command::Tour(args) => commands::tour::run(args, out),
        #[cfg(target_os = "linux")]
        Command::Lab(args) => commands::lab::run(args, out),
        #[cfg(feature = "burn")]
        Command::Experiment(args) => commands::experiment::run(args, out),
    }
}

/// Whoever reads our output has read enough: `plimsoll … | head`.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().filter_map(|cause| cause.downcast_ref()).any(|e: &std::io::Error| e.kind() == ErrorKind::BrokenPipe)
}
