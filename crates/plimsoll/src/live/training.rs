//! Training on a cluster, and tests of what was trained: against round robin, and against kube-scheduler as it comes.

use super::environment::{LIVE, LiveEnvironment, Outcome, Placer, Served, Users, WITNESS};
use super::site::Site;
pub use super::spec::LiveFile;
use super::spec::LiveSpec;
use crate::connect::ConnectArgs;
use crate::section::{PrometheusSection, TelemetrySection};
use crate::telemetry;
use anyhow::{Context, Result};
use plimsoll_core::config::Configuration;
use plimsoll_core::engine::Engine;
use plimsoll_learn::agent::stepwise::{Stepwise, reward};
use plimsoll_learn::observation::View;
use plimsoll_learn::policy::{Ranges, Sights, Witness};
use plimsoll_learn::reward::{Rewards, WeightHandle};
use plimsoll_learn::workshop;
use plimsoll_load::{Limits, Live, Scenario};
use serde::Serialize;
use std::mem::ManuallyDrop;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::watch;

/// The profile of the adviser that a model ranks for.
const MODEL: &str = "model";
/// A node of the lab.
const SHAPE: &str = "cpu=8,memory=16Gi,pods=110";
/// How often telemetry is read, in seconds: as often as a lab's Prometheus does.
const INTERVAL: f64 = 1.0;
/// The first seed of tests: none that training begins with.
const TEST_SEED: u64 = 1_000_001;

/// Where and how it is done.
#[derive(Debug, clap::Args)]
pub struct LiveArgs {
    /// Train on a cluster instead of in simulation: a lab of its own, or the one of --kubeconfig
    #[arg(long)]
    pub live: bool,
    /// What to do on the cluster: learn, or compare the model in --out with round robin and kube-scheduler
    #[arg(long, value_enum, default_value_t = Mode::Train, requires = "live")]
    pub mode: Mode,
    /// Nodes of the lab
    #[arg(long, value_name = "N", default_value_t = 4, requires = "live")]
    pub nodes: usize,
    /// The kube-scheduler with our plugin that the lab runs, which `make plugin` builds
    #[arg(long, value_name = "FILE", default_value = "bin/plimsoll-kube-scheduler", requires = "live")]
    pub scheduler: PathBuf,
    #[command(flatten)]
    pub connect: ConnectArgs,
    /// With --kubeconfig: where the plugin of the cluster's profile `advised` asks for the policy `live`
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:10270", requires = "live")]
    pub listen: SocketAddr,
    /// A Prometheus that tells how busy nodes are; a lab has its own
    #[arg(long, value_name = "URL", requires = "live")]
    pub prometheus: Option<String>,
}

/// What is done on a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// Learn
    Train,
    /// Compare a model with round robin and kube-scheduler
    Test,
}

/// A cluster on which is trained and tested.
pub struct LiveTraining {
    /// Left to the end of the process: one that is taken down under its tasks makes them panic.
    _runtime: ManuallyDrop<Runtime>,
    file: LiveFile,
    view: View,
    seen: Arc<Mutex<Ranges>>,
    rewarded: WeightHandle,
    environment: Option<LiveEnvironment>,
}

impl LiveTraining {
    /// Starts or takes a cluster; `model` is one that is tested.
    pub fn start(args: &LiveArgs, file: LiveFile, model: Option<&Path>) -> Result<Self> {
        let view = match &file.learn.observation {
            Some(value) => View::from_toml(value)?,
            None => View::Exported,
        };
        let rewards = Rewards::new(&reward(&file.learn)?)?;
        let rewarded = rewards.weights().clone();
        let seen = Arc::new(Mutex::new(Ranges::nothing(view.node_features().len() + view.pod_features().len())));
        let sights = Sights::default();
        let mut engine = engine(model.is_some(), file.learn.seed);
        engine.set_policy(WITNESS, Box::new(Witness::new(&view, sights.clone(), Arc::clone(&seen))?));
        if let Some(model) = model {
            engine.set_policy(MODEL, workshop::load(model)?);
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let site = runtime.block_on(site(args, engine))?;
        let users = users(&file.live, runtime.handle())?;
        let environment =
            LiveEnvironment::new(runtime.handle().clone(), site, file.live.clone(), rewards, sights, users)?;
        Ok(Self { _runtime: ManuallyDrop::new(runtime), file, view, seen, rewarded, environment: Some(environment) })
    }

    /// The agent that the file names, on this cluster.
    pub fn learner(&mut self) -> Result<Stepwise> {
        let environment = self.environment.take().context("the cluster is taken")?;
        let seen = Arc::clone(&self.seen);
        let rewarded = self.rewarded.clone();
        Ok(Stepwise::on(&self.file.learn, self.view.clone(), Box::new(environment), seen, rewarded)?)
    }

    /// Tries policies one after the other, on the same episodes.
    pub fn test(&mut self, name: &str, mut tell: impl FnMut(&str)) -> Result<Vec<Tried>> {
        let mut environment = self.environment.take().context("the cluster is taken")?;
        let mut all = Vec::new();
        for (policy, who) in [(name, Who::Model), ("round-robin", Who::RoundRobin), ("kube-scheduler", Who::Stock)] {
            tell(policy);
            let mut outcomes = Vec::new();
            for episode in 0..self.file.live.test_episodes as u64 {
                environment.begin(TEST_SEED + episode)?;
                for step in 0..self.file.live.pods {
                    outcomes.push(who.place(&mut environment, step)?);
                }
            }
            all.push(Tried::new(policy, &outcomes));
        }
        environment.end()?;
        Ok(all)
    }
}

/// Who places pods in a test.
#[derive(Clone, Copy)]
enum Who {
    Model,
    RoundRobin,
    Stock,
}

impl Who {
    fn place(self, environment: &mut LiveEnvironment, step: usize) -> Result<Outcome> {
        let node = match self {
            Self::Stock => return environment.place(Placer::Stock),
            Self::Model => environment.best_for(MODEL)?,
            Self::RoundRobin => {
                let sight = environment.sight();
                let count = sight.nodes.len().max(1);
                let rows = (0..count).map(|at| (step + at) % count);
                let row = rows.into_iter().find(|row| sight.observation.mask[*row]);
                row.map(|row| sight.nodes[row].clone()).context("no node is allowed")?
            }
        };
        environment.place(Placer::Us(&node))
    }
}

/// What a policy reached in a test: means over all placements.
#[derive(Debug, Clone, Serialize)]
pub struct Tried {
    /// The policy.
    pub policy: String,
    /// Placements.
    pub pods: usize,
    /// What was rewarded.
    pub reward: f64,
    /// Watts of all nodes, where that is measured.
    pub watts: Option<f64>,
    /// Nodes that have pods.
    pub active_nodes: f64,
    /// The standard deviation of the nodes' CPU in use.
    pub cpu_spread: f64,
    /// Latency to users.
    pub latency_ms: f64,
    /// What one in twenty requests exceeded, where users are played.
    pub p95_ms: Option<f64>,
    /// Requests that failed.
    pub errors: Option<u64>,
    /// Pods that the scheduler did not place where they were to be.
    pub strayed: usize,
}

impl Tried {
    fn new(policy: &str, outcomes: &[Outcome]) -> Self {
        let count = outcomes.len().max(1) as f64;
        let mean = |of: &dyn Fn(&Outcome) -> f64| outcomes.iter().map(of).sum::<f64>() / count;
        let optional = |of: &dyn Fn(&Outcome) -> Option<f64>| outcomes.iter().map(of).sum::<Option<f64>>();
        Self {
            policy: policy.to_owned(),
            pods: outcomes.len(),
            reward: mean(&|one| one.reward),
            watts: optional(&|one| one.watts).map(|sum| sum / count),
            active_nodes: mean(&|one| one.active as f64),
            cpu_spread: mean(&|one| one.spread),
            latency_ms: mean(&|one| one.latency_ms),
            p95_ms: optional(&|one| one.served.map(|served| served.p95_ms)).map(|sum| sum / count),
            errors: outcomes.iter().map(|one| one.served.map(|served| served.errors)).sum(),
            strayed: outcomes.iter().filter(|one| one.strayed).count(),
        }
    }
}

/// An engine with the profiles that are asked.
fn engine(has_model: bool, seed: u64) -> Engine {
    let mut configuration = Configuration::default();
    let profile = configuration.profiles[0].clone();
    let names = [LIVE, WITNESS].into_iter().chain(has_model.then_some(MODEL));
    let named = |name: &str| {
        let mut profile = profile.clone();
        profile.scheduler_name = name.to_owned();
        profile
    };
    configuration.profiles = names.map(named).collect();
    Engine::new(&configuration, seed)
}

async fn site(args: &LiveArgs, engine: Engine) -> Result<Site> {
    let site = match &args.connect.kubeconfig {
        None => Site::lab("live", (args.nodes, SHAPE), (&args.scheduler, LIVE), (engine, true)).await?,
        Some(_) => Site::there("live", &args.connect, (args.listen, LIVE), engine).await?,
    };
    if let Some(address) = args.prometheus.clone().or_else(|| site.prometheus()) {
        let sets = ["node-exporter", "kepler", "agent"].map(str::to_owned).to_vec();
        let section = TelemetrySection {
            prometheus: Some(PrometheusSection { sets, ..PrometheusSection::at(&address) }),
            interval_seconds: INTERVAL,
            ..TelemetrySection::default()
        };
        telemetry::follow(&section, None, &site.client, &site.adviser.inbox, &site.adviser.telemetry)?;
        if !site.is_measured().await? {
            tracing::warn!(
                address,
                "Prometheus does not tell of all nodes; what is not measured counts as it is asked for"
            );
        }
    }
    Ok(site)
}

/// Users, if the file has some: they are played for as long as their scenario says, after each placement.
fn users(spec: &LiveSpec, runtime: &Handle) -> Result<Option<Users>> {
    let Some(path) = &spec.load else { return Ok(None) };
    let scenario = Scenario::read(path)?;
    let (runtime, limits) = (runtime.clone(), Limits::default());
    Ok(Some(Box::new(move || {
        // Nobody ends them early.
        let (_tell, stop) = watch::channel(false);
        let report = runtime.block_on(plimsoll_load::run(&scenario, &limits, &Live::default(), stop))?;
        let total = report.summary.total;
        // Where no answer came, the errors say what there is to say.
        Ok(Served { p95_ms: total.latency_ms.map_or(0.0, |latency| latency.p95), errors: total.errors })
    })))
}
