//! The prototype's cluster, and what its scheduler sees: free resources of nodes, and pending pods.

use crate::environment::{ClusterEnvironment, ClusterSettings, Shuffle};
use crate::error::LearnError;
use crate::observation::{Observation, Observe, Plain};
use crate::reward::{RewardSpec, Rewards};
use plimsoll_core::framework::Cycle;
use plimsoll_core::rng::Rng;
use plimsoll_core::state::NodeId;
use plimsoll_sim::fleet::{Fleet, Machine, Pool};
use plimsoll_sim::simulation::{Inputs, Settings};
use plimsoll_sim::workload::{Lifetime, PodRecord, Template, Workload};
use plimsoll_sim::world::World;
use plimsoll_sim::world::power::PowerCurve;
use std::sync::Arc;
use std::time::Duration;

/// Cores of the nodes; each has two GiB for a core.
const CORES: [i64; 4] = [4, 8, 16, 12];
/// What pods ask for, in thousandths of a core; each has two GiB for a core.
const PODS: [i64; 3] = [500, 1000, 2000];
/// Pods come so many at a time, …
const BATCH: u64 = 3;
/// … so often in an episode, …
const BATCHES: u64 = 20;
/// … and so many seconds apart.
const PACE_S: u64 = 30;
/// The least and greatest lifetime of a pod, in seconds: about half of the cores are in use.
const LIFETIME_S: [u64; 2] = [60, 180];

/// What the prototype's scheduler sees.
struct Prototype {
    plain: Plain,
    full: Observation,
}

/// The features of a node: what is free of it, as a share and in sixteenths of the largest node.
const NODE: [&str; 3] = ["cpu-free", "memory-free", "free-cores"];

/// The features of nodes and pods.
pub fn features(lookahead: usize) -> (Vec<String>, Vec<String>) {
    let prototype = Prototype::new(lookahead);
    (prototype.node_features(), prototype.pod_features())
}

impl Prototype {
    fn new(lookahead: usize) -> Self {
        Self { plain: Plain::new(lookahead), full: Observation::default() }
    }
}

impl Observe for Prototype {
    fn node_features(&self) -> Vec<String> {
        NODE.iter().map(|name| (*name).to_owned()).collect()
    }

    fn pod_features(&self) -> Vec<String> {
        self.plain.pod_features().into_iter().filter(|name| name.ends_with("cpu")).collect()
    }

    fn observe(&mut self, cycle: &Cycle<'_>, nodes: &[NodeId], feasible: &[NodeId], out: &mut Observation) {
        self.plain.observe(cycle, nodes, feasible, &mut self.full);
        let full = &self.full;
        out.node_width = NODE.len();
        out.nodes.clear();
        for (row, id) in nodes.iter().enumerate() {
            let free = cycle.state.node(*id).map_or(0, |node| node.allocatable.cpu - node.requested.cpu);
            out.nodes.extend_from_slice(&full.node(row)[..2]);
            out.nodes.push(free as f32 / 16_000.0);
        }
        let cpus = self.plain.pod_features().into_iter().zip(&full.pod).filter(|(name, _)| name.ends_with("cpu"));
        out.pod.clear();
        // In bins that tell the three sizes apart.
        out.pod.extend(cpus.map(|(_, value)| (value * 7.0).min(1.0)));
        out.mask.clone_from(&full.mask);
        out.places.clone_from(&full.places);
    }
}

/// The prototype's environment, on its first so many nodes.
pub fn environment(
    objective: &str,
    nodes: usize,
    lookahead: usize,
    shuffle: Shuffle,
) -> Result<ClusterEnvironment, LearnError> {
    let rewards = Rewards::new(&RewardSpec::Name(objective.to_owned()))?;
    let power = PowerCurve::straight(40.0, 120.0).ok_or_else(|| LearnError::Invalid("no power curve".into()))?;
    let power = Arc::new(power);
    let pool = |cores: &i64| {
        let machine = Machine {
            name: format!("{cores}-core"),
            cpu_milli: cores * 1000,
            memory: cores << 31,
            pods: 110,
            gpus: None,
            power: Arc::clone(&power),
            price: None,
        };
        Pool::new(format!("node-{cores}"), machine, 1)
    };
    let fleet = Fleet { pools: CORES[..nodes].iter().map(pool).collect() };
    let episodes = move |seed: u64| {
        let settings = Settings { seed, warmup: 0.0, lookahead, ..Settings::default() };
        let (workload, world) = (workload(seed), World::default());
        Ok(Inputs {
            workload: workload.into(),
            fleet: fleet.clone().into(),
            world: world.into(),
            settings: settings.into(),
        })
    };
    let settings = ClusterSettings { shuffle, ..ClusterSettings::default() };
    ClusterEnvironment::new(episodes, Prototype::new(lookahead), rewards, settings)
}

/// Pods at a controlled pace, their sizes and lifetimes by seed.
fn workload(seed: u64) -> Workload {
    let mut rng = Rng::new(seed);
    let template = |cpu_milli: i64| Template { cpu_milli, memory: (cpu_milli << 31) / 1000, ..Template::default() };
    let pod = |number: u64| PodRecord {
        name: format!("pod-{number}").into(),
        template: rng.below(PODS.len()) as u32,
        owner: 0,
        arrival: Duration::from_secs(number / BATCH * PACE_S),
        lifetime: Some(Lifetime {
            least: Duration::from_secs(LIFETIME_S[0]),
            most: Duration::from_secs(LIFETIME_S[1]),
        }),
        usage: None,
    };
    let pods = (0..BATCHES * BATCH).map(pod).collect();
    Workload { name: "prototype".into(), templates: PODS.map(template).to_vec(), pods, calls: Vec::new() }
}
