//! The thesis' tests on a real control plane: a stock kube-scheduler with our plugin places pods, and asks the policies.

use crate::connect;
use anyhow::{Context, Result, bail};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use plimsoll_core::config::Configuration;
use plimsoll_core::engine::Engine;
use plimsoll_kube::driver::{Inbox, Input};
use plimsoll_kube::run::{Parts, run as follow};
use plimsoll_kube::world::Measured;
use plimsoll_lab::{Lab, Options, Scheduler, User};
use plimsoll_learn::agent::chooser::Chooser;
use plimsoll_learn::error::LearnError;
use plimsoll_learn::experiment::thesis::{
    Advised, Seat, Stage, Test, ThesisSettings, Trial, alive_at_once, latencies_at,
};
use plimsoll_learn::experiment::{Recorder, Sample};
use plimsoll_server::{App, Listener, router};
use plimsoll_telemetry::Store;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// The profile of kube-scheduler that asks, and the one that does not.
const ADVISED: &str = "advised";
const STOCK: &str = "default-scheduler";
/// What the policy is called that the plugin asks for.
const POLICY: &str = "thesis";
/// What the experiment's deployments are labelled with.
const LABEL: &str = "plimsoll.dev/experiment=thesis";
/// How long anything may take on the cluster.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often the cluster is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// A lab in which tests are run.
pub struct LiveStage {
    /// Left to the end of the process: one that is taken down under its tasks makes them panic.
    runtime: ManuallyDrop<Runtime>,
    cluster: Cluster,
}

struct Cluster {
    lab: Lab,
    client: Client,
    seat: Seat,
    inbox: Inbox,
    nodes: usize,
    created: usize,
    /// Ends the adviser.
    _stop: watch::Sender<bool>,
}

impl LiveStage {
    /// Starts a lab of so many nodes with a scheduler that has our plugin.
    pub fn start(nodes: usize, scheduler: &Path) -> Result<Self> {
        let missing = || format!("{}: a kube-scheduler with our plugin is not there; make plugin", scheduler.display());
        let scheduler = scheduler.canonicalize().with_context(missing)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let cluster = runtime.block_on(Cluster::start(nodes, &scheduler))?;
        Ok(Self { runtime: ManuallyDrop::new(runtime), cluster })
    }
}

impl Stage for LiveStage {
    fn run(
        &mut self,
        settings: &ThesisSettings,
        trial: &Trial,
        chooser: &mut Option<Box<dyn Chooser>>,
        recorder: &Recorder,
    ) -> Result<(), LearnError> {
        let scheduler = match chooser.take() {
            Some(chooser) => {
                self.cluster.seat.take(chooser, trial.shuffle);
                ADVISED
            }
            None => STOCK,
        };
        let done = self.runtime.block_on(self.cluster.trial(settings, trial, scheduler, recorder));
        *chooser = self.cluster.seat.leave();
        done.map_err(|error| LearnError::Invalid(format!("on the cluster: {error:#}")))
    }
}

impl Cluster {
    async fn start(nodes: usize, scheduler: &Path) -> Result<Self> {
        let shape = "cpu=8,memory=16Gi,pods=110".parse().map_err(|error| anyhow::anyhow!("{error}"))?;
        let options = Options { nodes, shapes: vec![shape], scheduler: Scheduler::None, ..Options::default() };
        let mut lab = Lab::start(options).await?;
        let client = lab.client(User::Admin).await?;
        let seat = Seat::default();
        let (address, inbox, stop, ready) = advise(&lab, &seat).await?;
        let config = lab.folder().join("advised.json");
        std::fs::write(&config, configuration(&lab, &address).to_string())?;
        let arguments = [format!("--config={}", config.display()), "--secure-port=0".to_owned()];
        lab.start_program("kube-scheduler", scheduler, &arguments)?;
        let begin = Instant::now();
        while !ready.load(Ordering::Acquire) {
            if begin.elapsed() > PATIENCE {
                bail!("the adviser does not come to know the cluster");
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(Self { lab, client, seat, inbox, nodes, created: 0, _stop: stop })
    }

    async fn trial(
        &mut self,
        settings: &ThesisSettings,
        trial: &Trial,
        scheduler: &str,
        recorder: &Recorder,
    ) -> Result<()> {
        self.cordon(trial.nodes).await?;
        let mut alive = VecDeque::new();
        let begin = Instant::now();
        let (steps, most) = match trial.test {
            Test::One => ((settings.rounds * settings.pods_of_round) as usize, settings.pods_of_round),
            Test::Two => (settings.pods as usize, alive_at_once(settings, trial.policy)),
        };
        for step in 0..steps {
            if alive.len() >= most as usize {
                let leave = match trial.test {
                    Test::One => alive.len(),
                    Test::Two => 1,
                };
                self.delete(&mut alive, leave).await?;
            }
            let latencies = latencies_at(settings, trial, step);
            self.tell(&latencies).await?;
            let name = self.create(scheduler).await?;
            alive.push_back(name.clone());
            let chosen = self.bound(&name).await?;
            let pods = self.pods_by_node(trial.nodes).await?;
            recorder.push(sample(pods, chosen, &latencies, begin.elapsed()));
        }
        let all = alive.len();
        self.delete(&mut alive, all).await
    }

    /// Leaves so many nodes to be used.
    async fn cordon(&self, nodes: usize) -> Result<()> {
        let api: Api<Node> = Api::all(self.client.clone());
        for at in 0..self.nodes {
            let patch = json!({ "spec": { "unschedulable": at >= nodes } });
            api.patch(&node(at), &PatchParams::default(), &Patch::Merge(&patch)).await?;
        }
        Ok(())
    }

    /// Users are so far from nodes from now on.
    async fn tell(&self, latencies: &[f64]) -> Result<()> {
        let far = |ms: &f64| Measured { latency_ms: Some(*ms), ..Measured::default() };
        let measured = latencies.iter().enumerate().map(|(at, ms)| (node(at), far(ms))).collect();
        self.inbox.send(Input::Measured(measured)).await.context("the adviser has ended")
    }

    async fn create(&mut self, scheduler: &str) -> Result<String> {
        self.created += 1;
        let name = format!("thesis-{}", self.created);
        let labels = json!({ "app": name, "plimsoll.dev/experiment": "thesis" });
        let deployment: Deployment = serde_json::from_value(json!({
            "metadata": { "name": name, "labels": labels },
            "spec": {
                "replicas": 1,
                "selector": { "matchLabels": { "app": name } },
                "template": {
                    "metadata": {
                        "labels": labels,
                        "annotations": { "latencySoftConstraint": "20", "latencyHardConstraint": "30" },
                    },
                    "spec": {
                        "schedulerName": scheduler,
                        "terminationGracePeriodSeconds": 0,
                        "containers": [{
                            "name": "main", "image": "lab/none",
                            "resources": { "requests": { "cpu": "250m", "memory": "64Mi" } },
                        }],
                    },
                },
            },
        }))?;
        let api: Api<Deployment> = Api::default_namespaced(self.client.clone());
        api.create(&PostParams::default(), &deployment).await.with_context(|| format!("create deployment {name}"))?;
        Ok(name)
    }

    async fn pods(&self, selector: &str) -> Result<Vec<Pod>> {
        let api: Api<Pod> = Api::default_namespaced(self.client.clone());
        Ok(api.list(&ListParams::default().labels(selector)).await?.items)
    }

    /// Waits until the pod of a deployment is on a node, and says on which.
    async fn bound(&mut self, name: &str) -> Result<usize> {
        let begin = Instant::now();
        loop {
            let pods = self.pods(&format!("app={name}")).await?;
            if let Some(at) = pods.iter().find_map(place) {
                return Ok(at);
            }
            if begin.elapsed() > PATIENCE {
                self.lab.check_alive()?;
                bail!("the pod of deployment {name} was not placed in {} s", PATIENCE.as_secs());
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn pods_by_node(&self, nodes: usize) -> Result<Vec<u32>> {
        let mut counts = vec![0; nodes];
        for at in self.pods(LABEL).await?.iter().filter_map(place) {
            if let Some(count) = counts.get_mut(at) {
                *count += 1;
            }
        }
        Ok(counts)
    }

    /// Deletes the oldest deployments, and waits until their pods are gone.
    async fn delete(&mut self, alive: &mut VecDeque<String>, count: usize) -> Result<()> {
        let api: Api<Deployment> = Api::default_namespaced(self.client.clone());
        for name in alive.drain(..count) {
            api.delete(&name, &DeleteParams::background())
                .await
                .with_context(|| format!("delete deployment {name}"))?;
        }
        let begin = Instant::now();
        while self.pods(LABEL).await?.len() > alive.len() {
            if begin.elapsed() > PATIENCE {
                bail!("pods of deployments that are gone are still there after {} s", PATIENCE.as_secs());
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }
}

fn node(at: usize) -> String {
    format!("node-{at}")
}

/// The number of the node that a pod is on.
fn place(pod: &Pod) -> Option<usize> {
    pod.spec.as_ref()?.node_name.as_ref()?.rsplit_once('-')?.1.parse().ok()
}

fn sample(pods: Vec<u32>, chosen: usize, latencies: &[f64], since: Duration) -> Sample {
    let least = latencies.iter().copied().fold(f64::INFINITY, f64::min);
    let nearest = latencies.iter().enumerate().filter(|(_, ms)| **ms <= least).map(|(at, _)| at).collect();
    let count: u32 = pods.iter().sum();
    let sum: f64 = pods.iter().zip(latencies).map(|(pods, ms)| f64::from(*pods) * ms).sum();
    let latency_ms = (count > 0).then(|| sum / f64::from(count));
    Sample { pods, chosen, nearest, latency_ms, seconds: since.as_secs_f64(), reward: 0.0 }
}

type Adviser = (String, Inbox, watch::Sender<bool>, Arc<AtomicBool>);

/// Starts what `plimsoll serve` is, in this process, with the policy that sits in the seat.
async fn advise(lab: &Lab, seat: &Seat) -> Result<Adviser> {
    let mut configuration = Configuration::default();
    configuration.profiles[0].scheduler_name = POLICY.to_owned();
    let mut engine = Engine::new(&configuration, 1);
    engine.set_policy(POLICY, Box::new(Advised::new(seat.clone())));
    let connect = connect::ConnectArgs { kubeconfig: Some(lab.kubeconfig(User::Plimsoll)), context: None };
    let client = connect::client(connect.config(None).await?).await?;
    let listener = Listener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), None, false).await?;
    let address = listener.url();
    let (inbox, receiver) = Inbox::new();
    let ready: Arc<AtomicBool> = Arc::default();
    let app = App::new(inbox.clone(), Arc::clone(&ready), vec![POLICY.to_owned()], Arc::new(Store::default()));
    let (tell_stop, stop) = watch::channel(false);
    let mut stopped = stop.clone();
    tokio::spawn(listener.serve(router(app), async move { drop(stopped.changed().await) }));
    let parts = Parts::adviser(client, engine, (inbox.clone(), receiver), Arc::clone(&ready));
    tokio::spawn(follow(parts, stop));
    Ok((address, inbox, tell_stop, ready))
}

/// A kube-scheduler with two profiles: one that scores by our plugin alone, and one as it comes.
fn configuration(lab: &Lab, address: &str) -> Value {
    let advised = json!({
        "schedulerName": ADVISED,
        "plugins": {
            "preScore": { "enabled": [{ "name": "Plimsoll" }] },
            "score": { "disabled": [{ "name": "*" }], "enabled": [{ "name": "Plimsoll", "weight": 1 }] },
            "reserve": { "enabled": [{ "name": "Plimsoll" }] },
        },
        "pluginConfig": [{ "name": "Plimsoll", "args": { "address": address, "timeout": "1s", "policy": POLICY } }],
    });
    json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "clientConnection": { "kubeconfig": lab.kubeconfig(User::KubeScheduler).display().to_string() },
        "leaderElection": { "leaderElect": false },
        "profiles": [{ "schedulerName": STOCK }, advised],
    })
}
