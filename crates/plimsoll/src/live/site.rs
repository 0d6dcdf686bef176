//! The cluster on which something is tried: a lab of its own, or one that is there; with an adviser in this process that its scheduler asks.

use crate::connect::{self, ConnectArgs};
use anyhow::{Context, Result, bail};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use plimsoll_core::engine::Engine;
use plimsoll_kube::driver::{Inbox, Input};
use plimsoll_kube::run::{Parts, RunError, run as follow};
use plimsoll_kube::world::Measured;
use plimsoll_lab::{Lab, Options, Scheduler, Shape, User};
use plimsoll_server::{App, Helm, Listener, Recommendations, router};
use plimsoll_telemetry::{CPU_PERCENT, Store};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The profile of kube-scheduler that asks, and the one that does not.
pub const ADVISED: &str = "advised";
pub const STOCK: &str = "default-scheduler";
/// The label of the deployments that are created here.
const LABEL: &str = "plimsoll.dev/experiment";
/// How long anything may take on the cluster.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often the cluster is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// A cluster with an adviser.
pub struct Site {
    /// Whom the scheduler asks; it ends before the lab does.
    pub adviser: Adviser,
    lab: Option<Lab>,
    /// The cluster.
    pub client: Client,
    /// What the deployments here are labelled with.
    experiment: &'static str,
}

/// What `plimsoll serve` is, in this process.
pub struct Adviser {
    /// Where it is served.
    pub address: String,
    /// Its engine.
    pub inbox: Inbox,
    /// Where pods are wanted.
    pub recommendations: Arc<Recommendations>,
    /// What is measured.
    pub telemetry: Arc<Store>,
    ready: Arc<AtomicBool>,
    /// Follows the cluster; it ends with this.
    follows: JoinHandle<Result<(), RunError>>,
    /// Ends what is served.
    _stop: watch::Sender<bool>,
}

impl Drop for Adviser {
    fn drop(&mut self) {
        self.follows.abort();
    }
}

impl Adviser {
    /// Serves an engine, whose policies are asked for by these names, at an address.
    pub async fn start(
        connect: &ConnectArgs,
        engine: Engine,
        policies: Vec<String>,
        address: SocketAddr,
    ) -> Result<Self> {
        let client = connect::client(connect.config(None).await?).await?;
        let listener = Listener::bind(address, None, false).await?;
        let address = listener.url();
        let (inbox, receiver) = Inbox::new();
        let (ready, telemetry): (Arc<AtomicBool>, Arc<Store>) = Default::default();
        let app = App::new(inbox.clone(), Arc::clone(&ready), policies, Arc::clone(&telemetry), Helm::default());
        let recommendations = app.recommendations();
        let (tell_stop, stop) = watch::channel(false);
        let mut stopped = stop.clone();
        tokio::spawn(listener.serve(router(app), async move { drop(stopped.changed().await) }));
        let parts = Parts::adviser(client, engine, (inbox.clone(), receiver), Arc::clone(&ready));
        let follows = tokio::spawn(follow(parts, stop));
        Ok(Self { follows, address, inbox, recommendations, telemetry, ready, _stop: tell_stop })
    }

    /// Waits until all objects of the cluster are known.
    pub async fn ready(&self) -> Result<()> {
        let begin = Instant::now();
        while !self.ready.load(Ordering::Acquire) {
            if begin.elapsed() > PATIENCE {
                bail!("the adviser does not come to know the cluster");
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }
}

/// A deployment of one pod.
pub struct Wanted<'a> {
    /// Who schedules it.
    pub scheduler: &'a str,
    /// CPU and memory that it asks for.
    pub requests: [&'a str; 2],
    /// The image of its container.
    pub image: &'a str,
    /// The latency that it bears: pleasant up to the first, bearable up to the second.
    pub latency_ms: Option<(f64, f64)>,
}

impl Site {
    /// Starts a lab of so many nodes with a scheduler that has our plugin, and asks for this policy.
    pub async fn lab(
        experiment: &'static str,
        (nodes, shape): (usize, &str),
        (scheduler, policy): (&Path, &str),
        (engine, telemetry): (Engine, bool),
    ) -> Result<Self> {
        let missing = || format!("{}: a kube-scheduler with our plugin is not there; make plugin", scheduler.display());
        let scheduler = scheduler.canonicalize().with_context(missing)?;
        let shape: Shape = shape.parse().map_err(|error| anyhow::anyhow!("{error}"))?;
        let options =
            Options { nodes, shapes: vec![shape], scheduler: Scheduler::None, telemetry, ..Options::default() };
        let mut lab = Lab::start(options).await?;
        let client = lab.client(User::Admin).await?;
        let connect = ConnectArgs { kubeconfig: Some(lab.kubeconfig(User::Plimsoll)), context: None };
        let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let adviser = Adviser::start(&connect, engine, vec![policy.to_owned()], anywhere).await?;
        let config = lab.folder().join("advised.json");
        std::fs::write(&config, configuration(&lab, &adviser.address, policy).to_string())?;
        let arguments = [format!("--config={}", config.display()), "--secure-port=0".to_owned()];
        lab.start_program("kube-scheduler", &scheduler, &arguments)?;
        adviser.ready().await?;
        Ok(Self { lab: Some(lab), client, adviser, experiment })
    }

    /// Takes a cluster whose kube-scheduler asks at this address for this policy.
    pub async fn there(
        experiment: &'static str,
        connect: &ConnectArgs,
        (address, policy): (SocketAddr, &str),
        engine: Engine,
    ) -> Result<Self> {
        let client = connect::client(connect.config(None).await?).await?;
        let adviser = Adviser::start(connect, engine, vec![policy.to_owned()], address).await?;
        adviser.ready().await?;
        Ok(Self { lab: None, client, adviser, experiment })
    }

    /// The Prometheus of its lab.
    pub fn prometheus(&self) -> Option<String> {
        self.lab.as_ref()?.prometheus()
    }

    /// Whether it is a lab, whose nodes are not there.
    pub fn is_lab(&self) -> bool {
        self.lab.is_some()
    }

    /// Waits until telemetry tells of all nodes; whether it does.
    pub async fn is_measured(&self) -> Result<bool> {
        let (nodes, begin) = (self.nodes().await?, Instant::now());
        let fresh = |node: &String| self.adviser.telemetry.fresh(node, CPU_PERCENT, SystemTime::now()).is_some();
        while begin.elapsed() < PATIENCE {
            if nodes.iter().all(fresh) {
                return Ok(true);
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(false)
    }

    /// The names of the nodes that pods may be placed on.
    pub async fn nodes(&self) -> Result<Vec<String>> {
        let nodes = Api::<Node>::all(self.client.clone()).list(&ListParams::default()).await?;
        let is_usable = |node: &&Node| {
            plimsoll_lab::is_ready(node) && !node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false)
        };
        Ok(nodes.iter().filter(is_usable).filter_map(|node| node.metadata.name.clone()).collect())
    }

    /// Has a node used, or not.
    pub async fn set_used(&self, node: &str, is_used: bool) -> Result<()> {
        let patch = json!({ "spec": { "unschedulable": !is_used } });
        let api: Api<Node> = Api::all(self.client.clone());
        api.patch(node, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(())
    }

    /// So much is measured from now on.
    pub async fn tell(&self, measured: BTreeMap<String, Measured>) -> Result<()> {
        self.adviser.inbox.send(Input::Measured(measured)).await.context("the adviser has ended")
    }

    /// Creates a deployment.
    pub async fn create(&self, name: &str, wanted: &Wanted<'_>) -> Result<()> {
        let deployment: Deployment = serde_json::from_value(deployment(name, self.experiment, wanted))?;
        let api: Api<Deployment> = Api::default_namespaced(self.client.clone());
        api.create(&PostParams::default(), &deployment).await.with_context(|| format!("create deployment {name}"))?;
        Ok(())
    }

    async fn pods(&self, selector: &str) -> Result<Vec<Pod>> {
        let api: Api<Pod> = Api::default_namespaced(self.client.clone());
        Ok(api.list(&ListParams::default().labels(selector)).await?.items)
    }

    async fn all_pods(&self) -> Result<Vec<Pod>> {
        self.pods(&format!("{LABEL}={}", self.experiment)).await
    }

    /// Waits until the pod of a deployment is on a node, and says on which.
    pub async fn bound(&mut self, name: &str) -> Result<String> {
        let begin = Instant::now();
        loop {
            let pods = self.pods(&format!("app={name}")).await?;
            if let Some(node) = pods.into_iter().find_map(|pod| pod.spec?.node_name) {
                return Ok(node);
            }
            if begin.elapsed() > PATIENCE {
                self.lab.as_mut().map(Lab::check_alive).transpose()?;
                bail!("the pod of deployment {name} was not placed in {} s", PATIENCE.as_secs());
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The nodes of the pods that were created here, one for each pod.
    pub async fn places(&self) -> Result<Vec<String>> {
        Ok(self.all_pods().await?.into_iter().filter_map(|pod| pod.spec?.node_name).collect())
    }

    /// Deletes deployments, and waits until no more pods than these are left.
    pub async fn delete(&self, names: impl IntoIterator<Item = String>, left: usize) -> Result<()> {
        let api: Api<Deployment> = Api::default_namespaced(self.client.clone());
        for name in names {
            match api.delete(&name, &DeleteParams::background()).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(error).with_context(|| format!("delete deployment {name}")),
            }
        }
        let begin = Instant::now();
        while self.all_pods().await?.len() > left {
            if begin.elapsed() > PATIENCE {
                bail!("pods of deployments that are gone are still there after {} s", PATIENCE.as_secs());
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Deletes what an earlier run has left.
    pub async fn clear(&self) -> Result<()> {
        let api: Api<Deployment> = Api::default_namespaced(self.client.clone());
        let ours = ListParams::default().labels(&format!("{LABEL}={}", self.experiment));
        let names: Vec<_> = api.list(&ours).await?.into_iter().filter_map(|one| one.metadata.name).collect();
        self.delete(names, 0).await
    }
}

fn deployment(name: &str, experiment: &str, wanted: &Wanted<'_>) -> Value {
    let labels = json!({ "app": name, LABEL: experiment });
    json!({
        "metadata": { "name": name, "labels": labels },
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": { "app": name } },
            "template": pod(&labels, wanted),
        },
    })
}

/// A pod as deployments have it.
pub fn pod(labels: &Value, wanted: &Wanted<'_>) -> Value {
    let Wanted { scheduler, requests: [cpu, memory], image, latency_ms } = wanted;
    let latency = latency_ms.map(
        |(soft, hard)| json!({ "latencySoftConstraint": soft.to_string(), "latencyHardConstraint": hard.to_string() }),
    );
    json!({
        "metadata": { "labels": labels, "annotations": latency },
        "spec": {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "main", "image": image,
                "resources": { "requests": { "cpu": cpu, "memory": memory } },
            }],
        },
    })
}

/// A kube-scheduler with two profiles: one that scores by our plugin alone, and one as it comes.
fn configuration(lab: &Lab, address: &str, policy: &str) -> Value {
    let advised = json!({
        "schedulerName": ADVISED,
        "plugins": {
            "preScore": { "enabled": [{ "name": "Plimsoll" }] },
            "score": { "disabled": [{ "name": "*" }], "enabled": [{ "name": "Plimsoll", "weight": 1 }] },
            "reserve": { "enabled": [{ "name": "Plimsoll" }] },
        },
        "pluginConfig": [{ "name": "Plimsoll", "args": { "address": address, "timeout": "1s", "policy": policy } }],
    });
    json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "clientConnection": { "kubeconfig": lab.kubeconfig(User::KubeScheduler).display().to_string() },
        "leaderElection": { "leaderElect": false },
        "profiles": [{ "schedulerName": STOCK }, advised],
    })
}
