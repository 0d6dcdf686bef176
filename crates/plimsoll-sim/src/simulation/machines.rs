//! Machines as a run sees them: what is on them, whether they sleep, and what they contribute to the figures.

use super::meter::{Contribution, MILLION};
use crate::fleet::Pool;
use crate::world::World;
use crate::world::latency::Place;
use crate::world::power::Activity;
use k8s_openapi::api::core::v1::{Node, NodeSpec, NodeStatus, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use plimsoll_core::state::NodeId;
use plimsoll_core::telemetry::ExpectedPod;
use std::time::Duration;

/// A whole GPU, in thousandths.
pub const WHOLE_GPU: u32 = 1000;

/// What a machine does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It sleeps.
    Asleep,
    /// It wakes up, and is awake at this time.
    Booting(Duration),
    /// It is awake since this time.
    Awake(Duration),
    /// It does not belong to the cluster: it failed, or was given back.
    Gone,
}

/// A machine of a run.
#[derive(Debug)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// Its pool.
    pub pool: usize,
    /// Its zone.
    pub zone: String,
    /// Its region, as a place in the run's list.
    pub region: usize,
    /// Its node, while it belongs to the cluster.
    pub node: Option<NodeId>,
    /// What it does.
    pub state: State,
    /// Whether it takes no new pods.
    pub cordoned: bool,
    /// The pods on it.
    pub running: Vec<u32>,
    /// CPU asked for, in thousandths.
    pub cpu_taken: i64,
    /// Memory asked for, in bytes.
    pub memory_taken: i64,
    /// CPU used, apart from the hour, in millionths of a core.
    pub used: i64,
    /// What is free of each GPU, in thousandths.
    pub gpus: Vec<u32>,
    /// Grows with every wake and whenever it becomes empty or busy, so that what was planned before is void.
    pub spell: u32,
    /// Whether its pool gave it back, for good.
    pub given_back: bool,
    /// How often it failed.
    pub failures: u32,
    /// How fast pods run on it: 1 unless it is overloaded or too hot.
    pub speed: f64,
    /// What it contributes.
    pub contribution: Contribution,
}

/// What all machines are judged by.
pub struct Yardstick<'a> {
    /// The models.
    pub world: &'a World,
    /// By how much all pods use more or less at this time.
    pub usage_factor: f64,
    /// The mean pod of the workload: CPU in thousandths, memory in bytes.
    pub mean_pod: (i64, i64),
    /// The pods to be expected, for GPUs.
    pub expected: &'a [ExpectedPod],
}

impl Machine {
    /// A machine that is about to join.
    pub fn new(pool: &Pool, pool_index: usize, number: usize, region: usize) -> Self {
        let zone = pool.zones.get(number % pool.zones.len().max(1)).cloned().unwrap_or_default();
        let gpus = pool.machine.gpus.as_ref().map_or(0, |(count, _)| *count);
        Self {
            name: format!("{}-{number}", pool.name),
            pool: pool_index,
            zone,
            region,
            node: None,
            state: State::Gone,
            cordoned: false,
            running: Vec::new(),
            cpu_taken: 0,
            memory_taken: 0,
            used: 0,
            gpus: vec![WHOLE_GPU; gpus as usize],
            spell: 0,
            given_back: false,
            failures: 0,
            speed: 1.0,
            contribution: Contribution::default(),
        }
    }

    /// Where it stands.
    pub fn place<'a>(&'a self, pool: &'a Pool) -> Place<'a> {
        Place { node: &self.name, zone: &self.zone, region: &pool.region }
    }

    /// What it would contribute now, and how fast pods run on it.
    pub fn judge(&self, pool: &Pool, by: &Yardstick<'_>) -> (Contribution, f64) {
        if self.state == State::Gone {
            return (Contribution::default(), 1.0);
        }
        let kind = &pool.machine;
        let cpu = kind.cpu_milli.max(1);
        let wanted = self.used as f64 / 1000.0 * by.usage_factor / cpu as f64;
        let activity = match self.state {
            State::Awake(_) => Activity::Awake(wanted.min(1.0)),
            State::Booting(_) => Activity::Booting,
            State::Asleep | State::Gone => Activity::Asleep,
        };
        let mut watts = by.world.power.watts(&kind.power, activity);
        let overloaded = wanted > 1.0 + 1e-9;
        let mut speed = if overloaded && by.world.usage.contends() { 1.0 / wanted } else { 1.0 };
        let mut hot = false;
        if let Some(thermal) = &by.world.thermal {
            let limit = thermal.limit(pool);
            hot = watts > limit;
            if hot && thermal.throttles() {
                speed *= limit / watts;
                watts = limit;
            }
        }
        let awake = i64::from(self.state != State::Asleep);
        let (free_cpu, free_memory) = (kind.cpu_milli - self.cpu_taken, kind.memory - self.memory_taken);
        let fits_mean = free_cpu >= by.mean_pod.0 && free_memory >= by.mean_pod.1;
        let share = |taken: i64, of: i64| (taken as f64 / of.max(1) as f64 * MILLION).round() as i64;
        let gpu_free: u32 = self.gpus.iter().sum();
        let price = by.world.price.as_ref().map_or(0.0, |prices| prices.hourly(pool));
        let contribution = Contribution {
            present: 1,
            active: i64::from(!self.running.is_empty()),
            awake,
            cpu_taken: awake * self.cpu_taken,
            cpu: awake * kind.cpu_milli,
            memory_taken: awake * (self.memory_taken >> 10),
            memory: awake * (kind.memory >> 10),
            cpu_share: share(self.cpu_taken, kind.cpu_milli),
            memory_share: share(self.memory_taken, kind.memory),
            cpu_stranded: if fits_mean { 0 } else { awake * free_cpu.max(0) },
            gpu: self.gpus.len() as i64 * i64::from(WHOLE_GPU),
            gpu_free: i64::from(gpu_free),
            gpu_stranded: (self.stranded_gpu(free_cpu, free_memory, by.expected) * MILLION).round() as i64,
            microwatts: (watts * 1e6).round() as i64,
            price: (price * 1e6).round() as i64 * awake,
            overloaded: i64::from(overloaded),
            hot: i64::from(hot),
        };
        (contribution, speed)
    }

    /// Thousandths of free GPUs that GPU pods to come cannot use, on average over them.
    fn stranded_gpu(&self, cpu: i64, memory: i64, expected: &[ExpectedPod]) -> f64 {
        if self.gpus.is_empty() {
            return 0.0;
        }
        let (mut stranded, mut shares) = (0.0, 0.0);
        for pod in expected.iter().filter(|pod| pod.gpu_count > 0) {
            stranded += pod.share * f64::from(pod.stranded(cpu, memory, &self.gpus));
            shares += pod.share;
        }
        if shares > 0.0 { stranded / shares } else { 0.0 }
    }

    /// The node as the API server would show it.
    pub fn object(&self, pool: &Pool) -> Node {
        let kind = &pool.machine;
        let mut labels: std::collections::BTreeMap<String, String> = pool.labels.iter().cloned().collect();
        let mut label = |key: &str, value: &str| {
            if !value.is_empty() {
                labels.insert(key.to_owned(), value.to_owned());
            }
        };
        label("kubernetes.io/hostname", &self.name);
        label("topology.kubernetes.io/zone", &self.zone);
        label("topology.kubernetes.io/region", &pool.region);
        label("node.kubernetes.io/instance-type", &kind.name.replace(' ', "-"));
        label("plimsoll.dev/pool", &pool.name);
        label("plimsoll.dev/cluster", &pool.cluster);
        if pool.spot {
            label("plimsoll.dev/spot", "true");
        }
        let allocatable = [
            ("cpu", format!("{}m", kind.cpu_milli)),
            ("memory", kind.memory.to_string()),
            ("pods", kind.pods.to_string()),
        ];
        let allocatable = allocatable.into_iter().map(|(name, amount)| (name.to_owned(), Quantity(amount))).collect();
        Node {
            metadata: ObjectMeta { name: Some(self.name.clone()), labels: Some(labels), ..ObjectMeta::default() },
            spec: Some(NodeSpec {
                taints: Some(pool.taints.iter().filter_map(|text| taint(text)).collect()),
                unschedulable: self.cordoned.then_some(true),
                ..NodeSpec::default()
            }),
            status: Some(NodeStatus { allocatable: Some(allocatable), ..NodeStatus::default() }),
        }
    }
}

/// Reads a taint as `kubectl taint` writes it: `key=value:Effect` or `key:Effect`.
pub fn taint(text: &str) -> Option<Taint> {
    let (key, effect) = text.rsplit_once(':')?;
    let (key, value) = key.split_once('=').map_or((key, None), |(key, value)| (key, Some(value.to_owned())));
    let known = ["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) && !key.is_empty();
    known.then(|| Taint { key: key.to_owned(), value, effect: effect.to_owned(), time_added: None })
}
