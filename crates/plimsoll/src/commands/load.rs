//! `plimsoll load`

use crate::Verdict;
use crate::commands::run::stop_signal;
use crate::connect;
use crate::input;
use crate::output::{Output, count};
use anyhow::{Context, Result, ensure};
use plimsoll_load::{Ended, Limits, Live, Report, Scenario, Service, Token, keep_interrupts, may_listen, serve};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::TcpListener;

/// How often it is told how a run goes.
const TELL: Duration = Duration::from_secs(10);

/// Load a service as its users would, and measure what they had to wait
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Run(Run),
    Serve(Serve),
}

/// Run a scenario and print what came of it; Ctrl-C ends it early with what was measured
#[derive(Debug, clap::Args)]
struct Run {
    /// The scenario, in TOML; `-` for standard input
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    #[command(flatten)]
    instead: Instead,
    /// What a run may ask for at most and whom it may load, in TOML; without it, private addresses alone
    #[arg(long, value_name = "FILE")]
    limits: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// Write the report as JSON into a file, too
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// What counts more than what the scenario says.
#[derive(Debug, clap::Args)]
struct Instead {
    /// The service, as `http://host:port`, instead of the scenario's
    #[arg(long, value_name = "URL")]
    target: Option<String>,
    /// How many users, instead of the scenario's; not where it has stages
    #[arg(long, value_name = "N")]
    users: Option<u32>,
    /// How many seconds they stay, instead of the scenario's; not where it has stages
    #[arg(long, value_name = "N")]
    seconds: Option<u32>,
    /// The seed, instead of the scenario's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

impl Instead {
    fn apply(&self, mut scenario: Scenario) -> Result<Scenario> {
        let stays = |name: &str| {
            format!("{name}: the scenario has stages, which say how many users there are and for how long")
        };
        ensure!(self.users.is_none() || scenario.stages.is_empty(), stays("--users"));
        ensure!(self.seconds.is_none() || scenario.stages.is_empty(), stays("--seconds"));
        if let Some(target) = &self.target {
            scenario.target.clone_from(target);
        }
        scenario.users = self.users.or(scenario.users);
        scenario.seconds = self.seconds.or(scenario.seconds);
        scenario.seed = self.seed.unwrap_or(scenario.seed);
        scenario.check()?;
        Ok(scenario)
    }
}

/// Serve runs by REST
#[derive(Debug, clap::Args)]
struct Serve {
    /// Where it is served; beyond loopback only with --token-file
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:10280")]
    listen: SocketAddr,
    /// A file with a token that whoever asks must send
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// What a run may ask for at most and whom it may load, in TOML; without it, private addresses alone
    #[arg(long, value_name = "FILE")]
    limits: Option<PathBuf>,
}

/// Runs a scenario, or serves until a signal ends it.
pub fn run(args: Args, out: &mut Output) -> Result<Verdict> {
    // Before anybody handles signals, or goose would take Ctrl-C from them.
    keep_interrupts();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = match args.command {
        Command::Run(args) => runtime.block_on(run_file(&args, out)),
        Command::Serve(args) => {
            connect::start_logs();
            runtime.block_on(run_service(&args, out))
        }
    };
    connect::leave(runtime);
    result
}

fn limits(file: Option<&Path>) -> Result<Limits> {
    Ok(file.map(Limits::read).transpose()?.unwrap_or_default())
}

async fn run_file(args: &Run, out: &mut Output) -> Result<Verdict> {
    let (name, text) = input::read_text(&args.scenario)?;
    let scenario = args.instead.apply(Scenario::parse(&name, &text)?)?;
    let limits = limits(args.limits.as_deref())?;
    // A file that cannot be written is better known before than after an hour of load.
    let cannot = |path: &PathBuf| format!("--report {}: it cannot be written", path.display());
    // What an earlier run wrote stays until this one has something to say.
    let open = |path: &PathBuf| File::options().create(true).append(true).open(path).with_context(|| cannot(path));
    let file = args.report.as_ref().map(open).transpose()?;
    let live = Live::new();
    let stop = stop_signal()?;
    let report = {
        let running = plimsoll_load::run(&scenario, &limits, &live, stop);
        tokio::pin!(running);
        loop {
            tokio::select! {
                report = &mut running => break report?,
                () = tokio::time::sleep(TELL) => tell(&live, out),
            }
        }
    };
    if let (Some(file), Some(path)) = (file, &args.report) {
        file.set_len(0).with_context(|| cannot(path))?;
        let mut file = BufWriter::new(file);
        serde_json::to_writer_pretty(&mut file, &report).with_context(|| cannot(path))?;
        writeln!(file).and_then(|()| file.flush()).with_context(|| cannot(path))?;
    }
    match args.json {
        true => out.json(&report)?,
        false => print(&report, out)?,
    }
    Ok(Verdict::Good)
}

/// How it goes, in a line.
fn tell(live: &Live, out: &Output) {
    let (so_far, last) = (live.summary(), live.last(TELL));
    let p95 = last.latency_ms.map_or("-".to_owned(), |ms| format!("{:.1} ms", ms.p95));
    let rate = last.error_rate * 100.0;
    out.note(&format!(
        "{:.0} s: {:.1} requests a second, p95 {p95}, {rate:.1} % errors",
        so_far.seconds, last.per_second
    ));
}

fn print(report: &Report, out: &mut Output) -> Result<()> {
    let requests = count(report.summary.total.requests as usize, "request");
    let how = if report.ended == Ended::Stopped { ", stopped" } else { "" };
    writeln!(out, "{} on {}: {requests} in {:.1} s{how}\n", report.scenario, report.target, report.summary.seconds)?;
    out.table("", &report.table())?;
    Ok(())
}

async fn run_service(args: &Serve, out: &mut Output) -> Result<Verdict> {
    let token = args.token_file.as_deref().map(Token::read).transpose()?;
    may_listen(args.listen, token.as_ref())?;
    let limits = limits(args.limits.as_deref())?;
    let listener = TcpListener::bind(args.listen).await.with_context(|| format!("--listen {}", args.listen))?;
    out.note(&format!("runs of load at http://{}", listener.local_addr()?));
    let mut stop = stop_signal()?;
    // A signal that nobody can send any more is one.
    serve(listener, Service::new(limits), token, async move { drop(stop.changed().await) }).await;
    Ok(Verdict::Good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_command_line_says_counts_more_but_not_than_stages() {
        let (app, shop) =
            (include_str!("../../../../examples/load/app.toml"), include_str!("../../../../examples/load/shop.toml"));
        let with = |text: &str, users, target: Option<&str>| {
            let instead = Instead { target: target.map(str::to_owned), users, seconds: None, seed: Some(9) };
            instead.apply(Scenario::parse("scenario", text).unwrap())
        };
        let changed = with(app, Some(3), Some("http://127.0.0.1:1")).unwrap();
        assert_eq!(
            (changed.target.as_str(), changed.users, changed.seconds, changed.seed),
            ("http://127.0.0.1:1", Some(3), Some(30), 9)
        );
        assert!(with(shop, Some(3), None).unwrap_err().to_string().contains("stages"));
        assert!(with(app, None, Some("not a service")).is_err());
    }
}
