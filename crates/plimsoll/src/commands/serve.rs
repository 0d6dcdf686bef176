//! `plimsoll serve`

use crate::Verdict;
use crate::access::Access;
use crate::commands::run::{data, stop_signal};
use crate::connect::{self, ConnectArgs};
use crate::helm::{Deck, helm, objectives, site};
use crate::output::Output;
use crate::section::{self, Section};
use crate::telemetry;
use anyhow::{Context, Result, bail, ensure};
use plimsoll_core::config::Configuration;
use plimsoll_core::engine::Engine;
use plimsoll_kube::api::Api;
use plimsoll_kube::driver::Inbox;
use plimsoll_kube::fence::Fence;
use plimsoll_kube::metrics::Metrics;
use plimsoll_kube::rights;
use plimsoll_kube::run::{Parts, run as follow};
use plimsoll_kube::survey::Ranked;
use plimsoll_kube::twin::{Begin, Twin};
use plimsoll_learn::reward::SharedObjectives;
use plimsoll_server::{App, router};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Advise a scheduler that decides itself: suggestions for our plugin or any program, and the endpoints of an extender
///
/// It watches the cluster, answers what a policy or a model makes of nodes, and places no pod by itself.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A KubeSchedulerConfiguration in YAML or JSON, a PlimsollConfiguration, or both; kube-scheduler's defaults if not given
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    connect: ConnectArgs,
    /// A policy, or a model by its folder, that may be asked for: `best-fit`, `models/energy`, `green=models/energy`; the first is used where
    /// none is named
    #[arg(long, value_name = "[NAME=]POLICY", default_value = "default")]
    policy: Vec<String>,
    /// Where it is served
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:10270")]
    listen: SocketAddr,
    #[command(flatten)]
    access: Access,
    /// Bind pods where an extender is asked to
    #[arg(long)]
    bind: bool,
    /// Also reckon what the cluster would be like under the default policy, for comparison; it takes as much memory again
    #[arg(long)]
    compare: bool,
    /// A folder for recordings and reports; without, none are kept
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// A Prometheus that tells how busy nodes are, by its URL
    #[arg(long, value_name = "URL")]
    prometheus: Option<String>,
    /// The seed of choices among equals
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Serves until a signal ends it.
pub fn run(args: Args, out: &mut Output) -> Result<Verdict> {
    connect::start_logs();
    let (mut configuration, section) = section::read(args.config.as_deref())?;
    configuration.leave_out_extenders();
    // One thread for questions and answers: kube-scheduler asks one after the other, and waits.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(live(&args, &configuration, &section, out));
    connect::leave(runtime);
    result
}

async fn live(args: &Args, configuration: &Configuration, section: &Section, out: &mut Output) -> Result<Verdict> {
    let objectives = objectives()?;
    let (engine, ranked) = engine(&args.policy, configuration, section, &objectives, args.seed)?;
    let policies = ranked.iter().map(|ranked| ranked.profile.clone()).collect();
    let folder = args.config.as_deref().and_then(Path::parent).unwrap_or(Path::new("."));
    let kinds = section.node_kinds(folder)?;
    let listener = args.access.listen(args.listen, true).await?;
    let connection = args.connect.config(None).await?;
    let client = connect::client(connection).await?;
    let needed = if args.bind { rights::to_bind() } else { rights::to_read() };
    connect::check_rights(&client, needed.into_iter().chain(args.access.rights()).collect()).await?;
    let (inbox, receiver) = Inbox::new();
    let store = telemetry::start(&section.telemetry, args.prometheus.as_deref(), &client, &inbox)?;
    let ready = Arc::default();
    let metrics = Arc::new(Metrics::new());
    let site = site(&client, configuration, &kinds, &store);
    let twin = args.compare.then(|| Twin::start(&site, Vec::new(), Begin::Anew));
    let helm = helm(Deck {
        mode: "advise",
        section,
        named: ranked.iter().map(|ranked| ranked.policy.clone()).collect(),
        site,
        twin: twin.as_ref().map(|twin| Arc::clone(twin.told())),
        data: data(args.data.as_deref(), false)?,
        objectives,
    });
    let mut app = App::new(inbox.clone(), Arc::clone(&ready), policies, store, helm);
    args.access.guard(&mut app, Some(&client))?;
    app.engine_metrics = Some(Arc::clone(&metrics));
    app.binder = args.bind.then(|| Api::new(client.clone(), Fence::open()));
    out.note(&format!("suggestions at {}", listener.url()));
    let mut stop = stop_signal()?;
    let mut stop_serving = stop.clone();
    // A signal that nobody can send any more is one.
    let stopped = async move { drop(stop_serving.changed().await) };
    let server = tokio::spawn(listener.serve(router(app), stopped));
    stop.mark_unchanged();
    let parts = Parts { kinds, policies: ranked, metrics, ..Parts::adviser(client, engine, (inbox, receiver), ready) };
    follow(parts, stop).await?;
    server.await?.context("the server ended")?;
    Ok(Verdict::Good)
}

/// An engine with a profile for each policy, `[NAME=]POLICY`, which has its name.
pub fn engine(
    policies: &[String],
    configuration: &Configuration,
    section: &Section,
    objectives: &SharedObjectives,
    seed: u64,
) -> Result<(Engine, Vec<Ranked>)> {
    let Some(profile) = configuration.profiles.first() else { bail!("the configuration has no profile") };
    let mut named: Vec<(String, &str)> = Vec::new();
    for given in policies {
        let (name, policy) = match given.split_once('=') {
            Some((name, policy)) => (name.to_owned(), policy),
            None => (
                Path::new(given).file_name().map_or(given.clone(), |name| name.to_string_lossy().into_owned()),
                given.as_str(),
            ),
        };
        ensure!(
            !named.iter().any(|(known, _)| *known == name),
            "--policy {given}: there is another policy {name:?}; name it, as in other={policy}"
        );
        named.push((name, policy));
    }
    let renamed = |name: &String| {
        let mut profile = profile.clone();
        profile.scheduler_name.clone_from(name);
        profile
    };
    let profiles = named.iter().map(|(name, _)| renamed(name)).collect();
    let mut engine = Engine::new(&Configuration { profiles, ..configuration.clone() }, seed);
    let mut ranked = Vec::new();
    for (profile, name) in named {
        let policy = section.policy(name, objectives, None)?;
        ranked.push(Ranked { profile: profile.clone(), policy: name.to_owned(), counters: policy.counters() });
        engine.set_policy(&profile, policy);
    }
    Ok((engine, ranked))
}
