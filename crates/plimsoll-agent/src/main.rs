//! The agent as a program: on a node, as a service for experiments, or to look at the node's power once.

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use plimsoll_agent::app::{App, AppLimits};
use plimsoll_agent::config::Config;
use plimsoll_agent::energy::{Energy, Sampler};
use plimsoll_agent::http::{Agent, Token, may_listen, serve};
use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// The node agent of Plimsoll: latency to users, energy of pods, resources occupied for experiments
#[derive(Debug, Parser)]
#[command(version, propagate_version = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the API and the metrics of this node
    Serve(ServeArgs),
    /// Serve requests that cost CPU, memory, disk or network, to be scheduled and loaded in experiments
    App(AppArgs),
    /// Print what the node takes, as JSON, every second
    Energy(EnergyArgs),
}

#[derive(Debug, clap::Args)]
struct ServeArgs {
    /// The configuration, in TOML; without one, defaults
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where to listen; beyond loopback only with --token-file
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9178")]
    listen: SocketAddr,
    /// A file with the token that callers must send
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct AppArgs {
    /// Where to listen; there is no token, so keep it inside the cluster
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Where /disk writes; files have no name and are gone with the request
    #[arg(long, value_name = "FOLDER", default_value_os_t = std::env::temp_dir())]
    folder: PathBuf,
    /// The most milliseconds a request may ask for
    #[arg(long, default_value_t = AppLimits::default().ms, value_parser = clap::value_parser!(u64).range(..=20_000))]
    max_ms: u64,
    /// The most memory of all requests together, in MiB
    #[arg(long, default_value_t = AppLimits::default().memory_mib)]
    max_memory_mib: u32,
    /// The most a request may write, in MiB
    #[arg(long, default_value_t = AppLimits::default().disk_mib)]
    max_disk_mib: u64,
    /// The largest answer, in KiB; it is held in memory once
    #[arg(long, default_value_t = AppLimits::default().network_kib)]
    max_network_kib: usize,
    /// The most requests that are worked on at a time
    #[arg(long, default_value_t = AppLimits::default().requests)]
    max_requests: usize,
}

#[derive(Debug, clap::Args)]
struct EnergyArgs {
    /// The configuration, in TOML; without one, defaults
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print it once and end
    #[arg(long)]
    once: bool,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    let colours = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours).init();
    match run(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Where even this cannot be written there is nobody to tell.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(command: Command) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        match command {
            Command::Serve(args) => serve_agent(args).await,
            Command::App(args) => serve_app(args).await,
            Command::Energy(args) => print_energy(args).await,
        }
    })
}

fn config(file: Option<PathBuf>) -> Result<Config> {
    Ok(file.map_or_else(|| Ok(Config::default()), |file| Config::read(&file))?)
}

/// Ready when somebody wants the program to end.
fn told_to_end() -> Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

async fn listen(address: SocketAddr) -> Result<TcpListener> {
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    tracing::info!("listening on {}", listener.local_addr()?);
    Ok(listener)
}

async fn serve_agent(args: ServeArgs) -> Result<()> {
    let token = args.token_file.as_deref().map(Token::read).transpose()?;
    may_listen(args.listen, token.as_ref())?;
    let agent = Agent::new(&config(args.config)?)?;
    let end = told_to_end()?;
    let listener = listen(args.listen).await?;
    let sampler = Sampler::start(Arc::clone(&agent.energy)).context("cannot start a thread")?;
    let measuring = tokio::spawn(Arc::clone(&agent.latency).run());
    let blocker = Arc::clone(&agent.blocker);
    let ended = async move {
        end.await;
        tracing::info!("ending; what is held is released");
        // A worker in the midst of a write is waited for, which must not keep others from their answers.
        let _ = tokio::task::spawn_blocking(move || blocker.shut_down()).await;
    };
    serve(listener, agent.router(token), ended).await;
    measuring.abort();
    drop(sampler);
    Ok(())
}

async fn serve_app(args: AppArgs) -> Result<()> {
    let limits = AppLimits {
        ms: args.max_ms,
        memory_mib: args.max_memory_mib,
        disk_mib: args.max_disk_mib,
        network_kib: args.max_network_kib,
        requests: args.max_requests,
    };
    let end = told_to_end()?;
    let listener = listen(args.listen).await?;
    serve(listener, App::new(limits, args.folder).router(), end).await;
    Ok(())
}

async fn print_energy(args: EnergyArgs) -> Result<()> {
    let energy = Arc::new(Energy::new(&config(args.config)?.energy));
    let sampler = Sampler::start(Arc::clone(&energy)).context("cannot start a thread")?;
    let mut end = std::pin::pin!(told_to_end()?);
    loop {
        tokio::select! {
            () = &mut end => break,
            () = tokio::time::sleep(Duration::from_secs(1).max(2 * energy.window())) => {}
        }
        writeln!(std::io::stdout(), "{}", serde_json::to_string(&energy.report())?)?;
        if args.once {
            break;
        }
    }
    drop(sampler);
    Ok(())
}
