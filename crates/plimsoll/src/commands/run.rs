//! `plimsoll run`

use crate::Verdict;
use crate::access::Access;
use crate::apprentice::{Apprentice, TrainingSettings};
use crate::connect::{self, ConnectArgs};
use crate::helm::{Deck, helm, objectives, site};
use crate::output::Output;
use crate::section::{self, Section};
use crate::telemetry;
use anyhow::{Context, Result, bail};
use plimsoll_core::config::{Configuration, Profile};
use plimsoll_kube::driver::{Critic, Inbox};
use plimsoll_kube::extender::Extenders;
use plimsoll_kube::flight::Patience;
use plimsoll_kube::lease::Election;
use plimsoll_kube::metrics::Metrics;
use plimsoll_kube::rights;
use plimsoll_kube::run::{Parts, RunError, run as schedule};
use plimsoll_kube::survey::Ranked;
use plimsoll_kube::trace::Tracer;
use plimsoll_kube::twin::{Begin, Site, Twin};
use plimsoll_learn::policy::MultiObjective;
use plimsoll_learn::reward::SharedObjectives;
use plimsoll_learn::variables::environment;
use plimsoll_server::App;
use plimsoll_telemetry::Store;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Schedule the pods of a cluster
///
/// It runs beside kube-scheduler, for pods that name its profile, or in its place. It ends in an orderly way at the first SIGTERM or
/// SIGINT and at once at the second.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A KubeSchedulerConfiguration in YAML or JSON, a PlimsollConfiguration, or both; kube-scheduler's defaults if not given
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    connect: ConnectArgs,
    /// The name of the only profile, instead of the configuration's: pods with this `schedulerName` are ours
    #[arg(long, value_name = "NAME")]
    scheduler_name: Option<String>,
    /// The policy or the model that ranks nodes, for all profiles or for one: `energy`, `models/energy`, `batch=models/packing`
    #[arg(long, value_name = "[PROFILE=]NAME")]
    policy: Vec<String>,
    /// Whether one of several schedulers is elected; as the configuration has it if not given
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    leader_elect: Option<bool>,
    /// Decide beside the scheduler that does the work, and bind nothing: each decision, and where the pod went, is a line of JSON in this file,
    /// or on standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = true)]
    shadow: Option<PathBuf>,
    /// Where health, metrics, the API and the dashboard are served; `off` for nowhere. Beyond loopback without --token-file: health and metrics
    /// alone
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:10259")]
    listen: String,
    #[command(flatten)]
    access: Access,
    /// Also reckon what the cluster would be like under the default policy, for comparison; it takes as much memory again
    #[arg(long)]
    compare: bool,
    /// A folder for recordings, reports and models that are learned; without, none are kept
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// A Prometheus that tells how busy nodes are, by its URL
    #[arg(long, value_name = "URL")]
    prometheus: Option<String>,
    /// The seed of choices among equals
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Runs the scheduler.
pub fn run(args: Args, out: &mut Output) -> Result<Verdict> {
    connect::start_logs();
    let (mut configuration, section) = section::read(args.config.as_deref())?;
    if let Some(name) = &args.scheduler_name {
        if configuration.profiles.len() != 1 {
            bail!("--scheduler-name names the only profile, but there are {}", configuration.profiles.len());
        }
        configuration.profiles[0].scheduler_name.clone_from(name);
    }
    for (profile, plugin) in configuration.unfollowed() {
        tracing::warn!(profile, %plugin, "nothing is made of a plugin that a profile names: pods are placed as if it were not there");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(live(&args, &configuration, &section, out));
    connect::leave(runtime);
    result
}

async fn live(args: &Args, configuration: &Configuration, section: &Section, out: &mut Output) -> Result<Verdict> {
    let objectives = objectives()?;
    let (engine, policies) = section.engine(configuration, &args.policy, &objectives, args.seed)?;
    let kinds = section.node_kinds(folder_of(args))?;
    let own = &configuration.client_connection.kubeconfig;
    let otherwise = (!own.is_empty()).then(|| Path::new(own));
    let connection = args.connect.config(otherwise).await?;
    let client = connect::client(connection.clone()).await?;
    let host = host();
    let election = election(args, configuration, &host);
    let needed = match args.shadow.is_some() {
        true => rights::to_read(),
        false => {
            let (lease, minor) = (election.as_ref(), connect::minor_of(&client).await);
            connect::warn_of_missing(&client, rights::of_use(minor)).await;
            rights::to_schedule(lease.map(|lease| (lease.namespace.as_str(), lease.name.as_str())), minor)
        }
    };
    connect::check_rights(&client, needed.into_iter().chain(args.access.rights()).collect()).await?;
    let (inbox, receiver) = Inbox::new();
    let store = telemetry::start(&section.telemetry, args.prometheus.as_deref(), &client, &inbox)?;
    let (metrics, ready) = (Arc::new(Metrics::new()), Arc::default());
    let mut stop = stop_signal()?;
    let is_served = args.listen != "off";
    let site = site(&client, configuration, &kinds, &store);
    let twin = (is_served && args.compare).then(|| Twin::start(&site, Vec::new(), Begin::Anew));
    if is_served {
        let served = Served { args, section, site: &site, objectives: &objectives, twin: twin.as_ref() };
        let url = served.serve(&policies, &inbox, store, &metrics, &ready, stop.clone()).await?;
        out.note(&format!("API, dashboard, health and metrics at {url}"));
    } else if args.compare || section.training.enabled {
        tracing::warn!("--listen is off: nothing is compared or learned, since nobody could see it");
    }
    stop.mark_unchanged();
    let parts = Parts {
        client,
        lease_client: kube::Client::try_from(connection).context("the cluster cannot be reached")?,
        engine,
        host,
        advises_only: false,
        election,
        metrics,
        critic: is_served.then(|| critic(objectives)),
        mailbox: (inbox, receiver),
        ready,
        kinds,
        policies,
        max_in_flight: section.guard_rails.max_in_flight,
        patience: configuration.profiles.iter().map(patience).collect(),
        shadow: args.shadow.as_deref().map(book).transpose()?,
        extenders: Extenders::new(&configuration.extenders).await?,
        tracer: tracer()?,
    };
    match schedule(parts, stop).await {
        Ok(()) => Ok(Verdict::Good),
        // Whoever restarts us gives us a fresh start.
        Err(RunError::Deposed) => {
            tracing::error!("leadership was lost");
            Ok(Verdict::Bad)
        }
        Err(error) => Err(error.into()),
    }
}

/// What a placement is worth by the weights in force.
fn critic(objectives: SharedObjectives) -> Critic {
    Box::new(move |state, pod, node| MultiObjective::reward(&objectives.get(), state, pod, node))
}

/// What is served beside the scheduler, and what it is made of.
struct Served<'a> {
    args: &'a Args,
    section: &'a Section,
    /// The cluster.
    site: &'a Site,
    objectives: &'a SharedObjectives,
    /// The cluster as it would be under the default policy, if that is wanted.
    twin: Option<&'a Twin>,
}

impl Served<'_> {
    /// Serves the API and the dashboard, with who compares and who learns if that is wanted; where.
    async fn serve(
        &self,
        policies: &[Ranked],
        inbox: &Inbox,
        store: Arc<Store>,
        metrics: &Arc<Metrics>,
        ready: &Arc<AtomicBool>,
        stop: watch::Receiver<bool>,
    ) -> Result<String> {
        let Self { args, section, site, .. } = *self;
        let training = TrainingSettings::new(&section.training, &environment)?;
        let data = data(args.data.as_deref(), training.is_some())?;
        let helm = helm(Deck {
            mode: if args.shadow.is_some() { "shadow" } else { "schedule" },
            section,
            named: policies.iter().map(|ranked| ranked.policy.clone()).collect(),
            site: site.clone(),
            twin: self.twin.map(|twin| Arc::clone(twin.told())),
            data: data.clone(),
            objectives: self.objectives.clone(),
        });
        let profiles = site.configuration.profiles.iter().map(|profile| profile.scheduler_name.clone()).collect();
        let lesson = Arc::clone(&helm.training);
        let mut app = App::new(inbox.clone(), Arc::clone(ready), profiles, store, helm);
        app.engine_metrics = Some(Arc::clone(metrics));
        if let Some((settings, folder)) = training.zip(data) {
            let apprentice = Apprentice {
                settings,
                client: site.client.clone(),
                bridge: app.bridge(),
                training: lesson,
                folder,
                catalogue: section.catalogue.as_ref().map(|file| folder_of(args).join(file)),
                nodes: section.nodes.clone(),
                clusters: site.kinds.clusters.clone(),
                objectives: self.objectives.clone(),
            };
            tokio::spawn(apprentice.run());
        }
        args.access.serve(&args.listen, app, Some(&site.client), stop).await
    }
}

/// The folder that files of the configuration are named from.
fn folder_of(args: &Args) -> &Path {
    args.config.as_deref().and_then(Path::parent).unwrap_or(Path::new("."))
}

/// The folder of data. Who learns needs one: without, it is one that goes with the machine's temporary files.
pub fn data(given: Option<&Path>, is_needed: bool) -> Result<Option<PathBuf>> {
    let otherwise = || is_needed.then(|| std::env::temp_dir().join(format!("plimsoll-data-{}", std::process::id())));
    let Some(folder) = given.map(Path::to_owned).or_else(otherwise) else { return Ok(None) };
    std::fs::create_dir_all(&folder).with_context(|| format!("--data {}: cannot be made", folder.display()))?;
    Ok(Some(folder))
}

/// Who collects traces: the collector that OTEL_EXPORTER_OTLP_ENDPOINT names.
#[cfg(feature = "otlp")]
fn tracer() -> Result<Option<Box<dyn Tracer>>> {
    crate::otlp::tracer()
}

#[cfg(not(feature = "otlp"))]
fn tracer() -> Result<Option<Box<dyn Tracer>>> {
    if std::env::var_os("OTEL_EXPORTER_OTLP_ENDPOINT").is_some() {
        tracing::warn!(
            "OTEL_EXPORTER_OTLP_ENDPOINT is set, but this build sends no traces; build with --features otlp"
        );
    }
    Ok(None)
}

/// How long volumes and devices of a profile's pods are waited for.
fn patience(profile: &Profile) -> (String, Patience) {
    let (volumes, devices) = (profile.args.volume_binding.bind_timeout, profile.args.dynamic_resources.binding_timeout);
    (profile.scheduler_name.clone(), Patience { volumes, devices })
}

/// How one of several is elected. A shadow is not: it does nothing that another could not do beside it.
fn election(args: &Args, configuration: &Configuration, host: &str) -> Option<Election> {
    let settings = &configuration.leader_election;
    let elect = args.leader_elect.unwrap_or(settings.leader_elect) && args.shadow.is_none();
    elect.then(|| Election {
        namespace: settings.resource_namespace.clone(),
        name: settings.resource_name.clone(),
        identity: identity(host),
        duration: settings.lease_duration,
        renew_deadline: settings.renew_deadline,
        retry: settings.retry_period,
    })
}

/// The book of a shadow; one that is there goes on.
fn book(path: &Path) -> Result<Box<dyn Write + Send>> {
    if path == Path::new("-") {
        return Ok(Box::new(std::io::stdout()));
    }
    let file = OpenOptions::new().create(true).append(true).open(path);
    Ok(Box::new(file.with_context(|| format!("--shadow={}: cannot be written", path.display()))?))
}

/// The name of this machine.
pub fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

/// A name of this process alone.
fn identity(host: &str) -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!("{host}_{}_{:x}", std::process::id(), since.as_nanos())
}

/// Becomes true at the first signal to end; the second ends the process.
pub fn stop_signal() -> Result<watch::Receiver<bool>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let (tell, stop) = watch::channel(false);
    tokio::spawn(async move {
        for first in [true, false] {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if first {
                tracing::info!("what is under way ends, then this process does; a second signal ends it at once");
                // Who listens may have ended.
                let _ = tell.send(true);
            } else {
                std::process::exit(130);
            }
        }
    });
    Ok(stop)
}
