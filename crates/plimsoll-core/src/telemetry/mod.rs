//! What is known of nodes and pods beside the objects of the API: told by whoever drives the engine, read by policies.
//!
//! The rules never look here. What is not known is a value, and a policy says what it makes of it.

mod calls;
mod clusters;
mod power;

pub use calls::{Calls, ServiceId};
pub use clusters::{Away, ClusterId, Clusters};
pub use power::{POINTS, PowerCurve};

use super::state::{NodeId, PodId};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::time::Duration;

/// What is known of a node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeTelemetry {
    /// What it draws, by load.
    pub power: Option<Arc<PowerCurve>>,
    /// What it draws asleep, in watts.
    pub sleep_watts: f64,
    /// Since when it is awake; none if it sleeps, or nobody knows.
    pub awake_since: Option<Duration>,
    /// When the last of its pods is known to end.
    pub busy_until: Option<Duration>,
    /// Latency from here to the user, in milliseconds.
    pub latency_ms: Option<f64>,
    /// What of it is in use, if that was measured lately.
    pub usage: Option<Usage>,
    /// What it costs an hour while it is awake.
    pub price: Option<f64>,
    /// Grams of carbon dioxide for a kilowatt-hour here.
    pub carbon: Option<f64>,
    /// What is free of each GPU, in thousandths.
    pub gpus: Vec<u32>,
    /// The cluster it belongs to, where there are several.
    pub cluster: Option<ClusterId>,
    /// What a virtual node shares with others; none of a machine.
    pub shared: Option<Shared>,
}

/// A virtual node stands for another cluster, and several of them may stand for the same: what is taken on one is not free on the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shared {
    /// Thousandths of a core of what it offers that the others have taken.
    pub cpu: i64,
    /// Bytes of what it offers that the others have taken.
    pub memory: i64,
    /// How many virtual nodes stand for the same capacity, itself included.
    pub among: u32,
}

impl Default for Shared {
    fn default() -> Self {
        Self { cpu: 0, memory: 0, among: 1 }
    }
}

/// What of a node is in use: the share, and what its pods asked for when that was measured.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// Of its CPU, with thousandths of a core.
    pub cpu: Option<(f64, i64)>,
    /// Of its memory, with bytes.
    pub memory: Option<(f64, i64)>,
}

/// A kind of pod that is to be expected, for policies that keep room for what is to come.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExpectedPod {
    /// How often, as a share of all.
    pub share: f64,
    /// Thousandths of a core.
    pub cpu_milli: i64,
    /// Bytes of memory.
    pub memory: i64,
    /// How many GPUs.
    pub gpu_count: u32,
    /// The share of each, in thousandths.
    pub gpu_milli: u32,
}

impl ExpectedPod {
    /// Thousandths of free GPUs that such a pod cannot use, where so much CPU and memory is free beside them.
    pub fn stranded(&self, cpu_milli: i64, memory: i64, gpus: &[u32]) -> u32 {
        let usable = |free: &u32| *free >= self.gpu_milli.max(1);
        let fits = cpu_milli >= self.cpu_milli && memory >= self.memory;
        let enough = gpus.iter().filter(|free| usable(free)).count() >= self.gpu_count as usize;
        let uses_some = self.gpu_count > 0 && fits && enough;
        gpus.iter().filter(|free| !(uses_some && usable(free))).sum()
    }
}

/// What is known beside the API.
#[derive(Debug, Default)]
pub struct Telemetry {
    /// The time, on the clock of the other times here.
    pub now: Duration,
    /// The pods to be expected.
    pub expected: Arc<[ExpectedPod]>,
    /// The clusters, where there are several.
    pub clusters: Clusters,
    /// Who calls whom.
    pub calls: Calls,
    /// The pods that will be tried next, the first of them being the one that is tried now, as far as the driver or a policy looks ahead; none
    /// where nobody does.
    pub upcoming: Vec<PodId>,
    nodes: Vec<NodeTelemetry>,
    pods: FxHashMap<PodId, PodTelemetry>,
    owners: FxHashMap<u64, u32>,
}

/// What is known of a pod.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PodTelemetry {
    /// How long it will run.
    pub lifetime: Option<Duration>,
    /// What it asks of GPUs: how many, and the share of each in thousandths.
    pub gpus: Option<(u32, u32)>,
    /// Who it belongs to: pods of one owner tend to live and die alike.
    pub owner: Option<u64>,
    /// Latency to the user that it bears, in milliseconds: pleasant up to the first, bearable up to the second.
    pub latency_ms: Option<(f64, f64)>,
    /// The cluster it comes from, where its users and what it works with are.
    pub home: Option<ClusterId>,
    /// The service it is of, where it is known who calls whom.
    pub service: Option<ServiceId>,
}

static UNKNOWN: NodeTelemetry = NodeTelemetry {
    power: None,
    sleep_watts: 0.0,
    awake_since: None,
    busy_until: None,
    latency_ms: None,
    usage: None,
    price: None,
    carbon: None,
    gpus: Vec::new(),
    cluster: None,
    shared: None,
};

impl NodeTelemetry {
    /// Whether it stands for another cluster: it neither sleeps nor draws power here.
    pub fn is_virtual(&self) -> bool {
        self.shared.is_some()
    }

    /// Thousandths of a core and bytes that are taken of what the node offers, beside what its own pods ask for.
    pub fn taken_elsewhere(&self) -> (i64, i64) {
        self.shared.map_or((0, 0), |shared| (shared.cpu, shared.memory))
    }
}

impl Telemetry {
    /// What is known of a node.
    pub fn node(&self, id: NodeId) -> &NodeTelemetry {
        self.nodes.get(id.index()).unwrap_or(&UNKNOWN)
    }

    /// What is known of a pod.
    pub fn pod(&self, id: PodId) -> PodTelemetry {
        self.pods.get(&id).copied().unwrap_or_default()
    }

    /// What a pod pays for running on a node of a cluster that is not its home; none at home.
    pub fn away(&self, pod: PodId, node: NodeId) -> Option<Away> {
        self.clusters.away(self.pod(pod).home, self.node(node).cluster)
    }

    /// Latency from a node to the users of a pod, who are at its home.
    pub fn latency_ms(&self, pod: PodId, node: NodeId) -> Option<f64> {
        let here = self.node(node).latency_ms?;
        Some(here + self.away(pod, node).map_or(0.0, |away| away.ms))
    }

    /// How often the pod's service and those that run among these pods call each other, for each request of a user.
    pub fn calls(&self, pod: PodId, others: &[PodId]) -> f64 {
        let Some(service) = self.pod(pod).service else { return 0.0 };
        let runs = |wanted: ServiceId| others.iter().any(|other| self.pod(*other).service == Some(wanted));
        let partners = self.calls.partners(service).iter();
        partners.filter(|(partner, _)| runs(*partner)).map(|(_, per_request)| per_request).sum()
    }

    /// How many pods of this owner there are, waiting or running.
    pub fn pods_of(&self, owner: u64) -> u32 {
        self.owners.get(&owner).copied().unwrap_or_default()
    }

    /// Tells of a pod.
    pub fn set_pod(&mut self, id: PodId, telemetry: PodTelemetry) {
        if let Some(owner) = telemetry.owner {
            *self.owners.entry(owner).or_default() += 1;
        }
        let before = self.pods.insert(id, telemetry);
        self.leave_owner(before);
    }

    /// The pod is gone: its id will be another's.
    pub(crate) fn forget_pod(&mut self, id: PodId) {
        let before = self.pods.remove(&id);
        self.leave_owner(before);
    }

    fn leave_owner(&mut self, pod: Option<PodTelemetry>) {
        if let Some(owner) = pod.and_then(|pod| pod.owner)
            && let Some(pods) = self.owners.get_mut(&owner)
        {
            *pods -= 1;
            if *pods == 0 {
                self.owners.remove(&owner);
            }
        }
    }

    /// What is told of a node; changes are to be noted by the state, which calls this.
    pub(crate) fn node_mut(&mut self, id: NodeId) -> &mut NodeTelemetry {
        if self.nodes.len() <= id.index() {
            self.nodes.resize_with(id.index() + 1, NodeTelemetry::default);
        }
        &mut self.nodes[id.index()]
    }
}
