//! `plimsoll run`

use crate::Verdict;
use crate::evaluation::policy_of;
use crate::input;
use crate::output::Output;
use anyhow::{Context, Result, bail};
use kube::config::{KubeConfigOptions, Kubeconfig};
use plimsoll_core::config::Configuration;
use plimsoll_core::engine::Engine;
use plimsoll_kube::lease::Election;
use plimsoll_kube::run::{Parts, RunError, run as schedule};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// How often the API server is asked before it counts as unreachable.
const FIRST_TRIES: u32 = 5;

/// Schedule the pods of a cluster
///
/// It runs beside kube-scheduler, for pods that name its profile, or in its place. It ends in an orderly way at the first SIGTERM or
/// SIGINT and at once at the second.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A KubeSchedulerConfiguration in YAML or JSON; kube-scheduler's defaults if not given
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// How to reach the cluster; `clientConnection.kubeconfig`, KUBECONFIG, ~/.kube/config or the service account if not given
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// The name of the only profile, instead of the configuration's: pods with this `schedulerName` are ours
    #[arg(long, value_name = "NAME")]
    scheduler_name: Option<String>,
    /// The policy or the model that ranks nodes, for all profiles or for one: `energy`, `models/energy`, `batch=models/packing`
    #[arg(long, value_name = "[PROFILE=]NAME")]
    policy: Vec<String>,
    /// Whether one of several schedulers is elected; as the configuration has it if not given
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    leader_elect: Option<bool>,
    /// Where health and metrics are served; `off` for nowhere
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:10259")]
    listen: String,
    /// The seed of choices among equals
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Runs the scheduler.
pub fn run(args: Args, out: &mut Output) -> Result<Verdict> {
    let filter = tracing_subscriber::EnvFilter::try_from_env("PLIMSOLL_LOG").unwrap_or_else(|_| "info".into());
    // Somebody may have set up logs before.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).try_init();
    let mut configuration = match &args.config {
        None => Configuration::default(),
        Some(path) => {
            let (name, text) = input::read_text(path)?;
            Configuration::parse(&name, &text).map_err(|errors| anyhow::anyhow!("{name}: {errors}"))?
        }
    };
    if let Some(name) = &args.scheduler_name {
        if configuration.profiles.len() != 1 {
            bail!("--scheduler-name names the only profile, but there are {}", configuration.profiles.len());
        }
        configuration.profiles[0].scheduler_name.clone_from(name);
    }
    let engine = engine(&args, &configuration)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(live(&args, configuration, engine, out));
    // What still runs in the background has nothing left to do.
    runtime.shutdown_background();
    result
}

fn engine(args: &Args, configuration: &Configuration) -> Result<Engine> {
    let mut engine = Engine::new(configuration, args.seed);
    let profiles: Vec<_> = configuration.profiles.iter().map(|profile| profile.scheduler_name.clone()).collect();
    for given in &args.policy {
        let (of, name) = match given.split_once('=') {
            Some((profile, name)) => (vec![profile.to_owned()], name),
            None => (profiles.clone(), given.as_str()),
        };
        for profile in of {
            if !engine.set_policy(&profile, policy_of(name)?) {
                bail!("--policy {given}: there is no profile {profile:?}; there are {}", profiles.join(", "));
            }
        }
    }
    Ok(engine)
}

async fn live(args: &Args, configuration: Configuration, engine: Engine, out: &mut Output) -> Result<Verdict> {
    let connection = connection(args, &configuration).await?;
    let client = kube::Client::try_from(connection.clone()).context("the cluster cannot be reached")?;
    tracing::info!(server = server_version(&client).await?, "connected");
    let identity = identity();
    let elect = args.leader_elect.unwrap_or(configuration.leader_election.leader_elect);
    let election = elect.then(|| {
        let settings = &configuration.leader_election;
        Election {
            namespace: settings.resource_namespace.clone(),
            name: settings.resource_name.clone(),
            identity: identity.clone(),
            duration: settings.lease_duration,
            renew_deadline: settings.renew_deadline,
            retry: settings.retry_period,
        }
    });
    let listener = match args.listen.as_str() {
        "off" => None,
        address => {
            let address: SocketAddr =
                address.parse().with_context(|| format!("--listen {address}: not an address and port"))?;
            let listener = TcpListener::bind(address).await.with_context(|| format!("--listen {address}"))?;
            out.note(&format!("health and metrics at http://{}", listener.local_addr()?));
            Some(listener)
        }
    };
    let scheduler_name = configuration.profiles.first().map_or_else(String::new, |first| first.scheduler_name.clone());
    let lease_client = kube::Client::try_from(connection).context("the cluster cannot be reached")?;
    let parts = Parts { client, lease_client, engine, scheduler_name, identity, election, listener };
    match schedule(parts, stop_signal()?).await {
        Ok(()) => Ok(Verdict::Good),
        // Whoever restarts us gives us a fresh start.
        Err(RunError::Deposed) => {
            tracing::error!("leadership was lost");
            Ok(Verdict::Bad)
        }
        Err(error) => Err(error.into()),
    }
}

/// The version of the API server. One that has just started, or is busy, is asked again.
async fn server_version(client: &kube::Client) -> Result<String> {
    let mut tries = 1;
    loop {
        match client.apiserver_version().await {
            Ok(version) => return Ok(version.git_version),
            Err(error) if tries < FIRST_TRIES => {
                tracing::warn!(%error, "the API server does not answer; it is asked again");
                tokio::time::sleep(Duration::from_secs(1)).await;
                tries += 1;
            }
            Err(error) => return Err(error).context("the API server does not answer"),
        }
    }
}

async fn connection(args: &Args, configuration: &Configuration) -> Result<kube::Config> {
    let options = KubeConfigOptions { context: args.context.clone(), ..KubeConfigOptions::default() };
    let own = &configuration.client_connection.kubeconfig;
    let path = args.kubeconfig.clone().or_else(|| (!own.is_empty()).then(|| PathBuf::from(own)));
    let mut connection = match path {
        Some(path) => {
            let read = Kubeconfig::read_from(&path).with_context(|| format!("kubeconfig {}", path.display()))?;
            let read = kube::Config::from_custom_kubeconfig(read, &options).await;
            read.with_context(|| format!("kubeconfig {}", path.display()))?
        }
        None => kube::Config::infer().await.context("no cluster is known; give --kubeconfig")?,
    };
    // Watches are quiet for minutes; the API server ends them.
    connection.read_timeout = None;
    Ok(connection)
}

/// A name of this process alone.
fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!("{}_{}_{:x}", host.trim(), std::process::id(), since.as_nanos())
}

/// Becomes true at the first signal to end; the second ends the process.
fn stop_signal() -> Result<watch::Receiver<bool>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let (tell, stop) = watch::channel(false);
    tokio::spawn(async move {
        for first in [true, false] {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if first {
                tracing::info!("bindings under way end, then the scheduler does; a second signal ends it at once");
                // Who listens is the scheduler, which may have ended.
                let _ = tell.send(true);
            } else {
                std::process::exit(130);
            }
        }
    });
    Ok(stop)
}
