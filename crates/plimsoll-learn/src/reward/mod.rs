//! What a decision is rewarded for, by name.
//!
//! A reward is one function, entered in [`REWARDS`] by one line. Some judge a placement as soon as it is made; the physical ones judge what
//! accrued until the next decision. A [`RewardSpec`] adds several up, each with a weight that may change while training goes on.

mod accrual;
pub mod constraint;
pub mod objectives;
mod placement;
mod spec;
#[cfg(test)]
mod tests;
mod weighted;

pub use objectives::{Objectives, SharedObjectives};
pub use spec::{RewardSpec, Term, TermOptions};
pub use weighted::{Rewards, WeightHandle};

use crate::error::LearnError;
use plimsoll_sim::simulation::Readings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a reward says of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Judgement {
    /// The reward.
    pub reward: f64,
    /// Whether the episode ends here.
    pub terminated: bool,
}

impl From<f64> for Judgement {
    fn from(reward: f64) -> Self {
        Self { reward, terminated: false }
    }
}

/// When a reward is asked, and what it looks at.
#[derive(Debug, Clone, Copy)]
pub enum Judge {
    /// As soon as the pod is placed.
    Placement(fn(&Placed<'_>, &Options) -> Judgement),
    /// As soon as the pod is placed; [`Placed::context`] is worked out for it.
    InContext(fn(&Placed<'_>, &Options) -> Judgement),
    /// When the next decision is due: what accrued meanwhile.
    Accrual(fn(&Readings) -> f64),
}

/// A reward that can be chosen.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    /// The name it is chosen by.
    pub name: &'static str,
    /// What it is for.
    pub description: &'static str,
    /// The function.
    pub judge: Judge,
}

/// The rewards that can be chosen by name, with what each does.
pub const REWARDS: &[Known] = &[
    known("balance", "all nodes used alike", Judge::Placement(placement::balance)),
    known("compress", "full nodes and empty nodes, nothing between", Judge::Placement(placement::compress)),
    known(
        "ee",
        "the most loaded node, so that others stay unused; another one ends it",
        Judge::Placement(placement::ee),
    ),
    known("lb", "the least loaded node; the most loaded one ends it", Judge::Placement(placement::lb)),
    known("el-rl", "few nodes, full nodes, and the latency the pod asks for", Judge::Placement(placement::el_rl)),
    known(
        "multi-objective",
        "utilisation, balance, latency, affinity and energy by the weights of a workload profile",
        Judge::InContext(objectives::multi_objective),
    ),
    known("energy", "the fewest kilowatt-hours", Judge::Accrual(accrual::energy)),
    known("node-hours", "the fewest hours of awake nodes", Judge::Accrual(accrual::node_hours)),
    known("money", "the least money", Judge::Accrual(accrual::money)),
    known("carbon", "the fewest kilograms of carbon dioxide", Judge::Accrual(accrual::carbon)),
    known("latency", "the least latency to users, in pod-hours times milliseconds", Judge::Accrual(accrual::latency)),
    known(
        "latency-violations",
        "the fewest pod-hours above the soft latency constraint",
        Judge::Accrual(accrual::latency_violations),
    ),
    known(
        "fragmentation",
        "the fewest hours of free cores and GPUs that pods to come cannot use",
        Judge::Accrual(accrual::fragmentation),
    ),
    known(
        "gpu-fragmentation",
        "the fewest hours of free GPUs that pods to come cannot use",
        Judge::Accrual(accrual::gpu_fragmentation),
    ),
    known("waiting", "the fewest hours for which pods wait", Judge::Accrual(accrual::waiting)),
    known("rejections", "the fewest pods that give up waiting", Judge::Accrual(accrual::rejections)),
    known(
        "overload",
        "the fewest hours of nodes that are asked for more than they have",
        Judge::Accrual(accrual::overload),
    ),
];

const fn known(name: &'static str, description: &'static str, judge: Judge) -> Known {
    Known { name, description, judge }
}

/// A reward by its name; an unknown name is answered with those there are.
pub fn by_name(name: &str) -> Result<Known, LearnError> {
    find(name, &[])
}

/// A reward among those of the user and the standard ones.
fn find(name: &str, own: &[Known]) -> Result<Known, LearnError> {
    let all = || own.iter().chain(REWARDS);
    let found = all().find(|known| known.name == name).copied();
    found.ok_or_else(|| LearnError::unknown("reward", name, all().map(|known| known.name)))
}

/// The load that a reward looks at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Load {
    /// How many pods there are.
    #[default]
    Pods,
    /// CPU that is asked for, in per cent.
    Cpu,
    /// Memory that is asked for, in per cent.
    Memory,
    /// Ephemeral storage that is asked for, in per cent.
    Disk,
}

/// What a reward may be told.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Options {
    /// The load it looks at.
    pub load: Load,
    /// The weights of its objectives, if it has any.
    pub objectives: Objectives,
}

/// The loads of one node.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct NodeLoad {
    /// How many pods there are.
    pub pods: f32,
    /// CPU that is asked for, as a share of what the node has.
    pub cpu: f32,
    /// Memory that is asked for, as a share.
    pub memory: f32,
    /// Ephemeral storage that is asked for, as a share.
    pub disk: f32,
    /// Latency to the user, in milliseconds; 0 where nobody knows.
    pub latency_ms: f32,
}

/// The loads of all nodes, a column each, in the order of the observation's rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Loads {
    /// How many pods there are.
    pub pods: Vec<f32>,
    /// CPU that is asked for, as a share of what the node has.
    pub cpu: Vec<f32>,
    /// Memory that is asked for, as a share.
    pub memory: Vec<f32>,
    /// Ephemeral storage that is asked for, as a share.
    pub disk: Vec<f32>,
    /// Latency to the user, in milliseconds; 0 where nobody knows.
    pub latency_ms: Vec<f32>,
}

/// What surrounds a placement: worked out only for rewards that ask for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Context {
    /// Of the calls between the pod's service and others that run, the share that stays on its node; 1 where there is none.
    pub near: f64,
    /// How well the node meets what the pod prefers of nodes and other pods, from 0 to 1; 1 where it prefers nothing.
    pub preference: f64,
    /// What machines draw, as a share of what they would at full load.
    pub power: f64,
}

impl Default for Context {
    fn default() -> Self {
        Self { near: 1.0, preference: 1.0, power: 0.0 }
    }
}

/// A pod was placed.
#[derive(Debug, Clone, Copy)]
pub struct Placed<'a> {
    /// The loads of all nodes, the pod on its node.
    pub loads: &'a Loads,
    /// The row of its node.
    pub chosen: usize,
    /// What that node's load was without it.
    pub before: NodeLoad,
    /// The latency that the pod bears: soft and hard, in milliseconds.
    pub constraint: Option<(f32, f32)>,
    /// What surrounds it.
    pub context: Context,
}

impl Load {
    /// The load of a node: a number of pods, or per cent.
    pub fn of(self, node: &NodeLoad) -> f32 {
        match self {
            Self::Pods => node.pods,
            Self::Cpu => 100.0 * node.cpu,
            Self::Memory => 100.0 * node.memory,
            Self::Disk => 100.0 * node.disk,
        }
    }

    /// The column, and what a number of it is to be multiplied by.
    fn column(self, loads: &Loads) -> (&[f32], f32) {
        match self {
            Self::Pods => (&loads.pods, 1.0),
            Self::Cpu => (&loads.cpu, 100.0),
            Self::Memory => (&loads.memory, 100.0),
            Self::Disk => (&loads.disk, 100.0),
        }
    }
}

impl Loads {
    /// Loads of so many nodes without pods.
    pub fn new(nodes: usize) -> Self {
        let zeros = || vec![0.0; nodes];
        Self { pods: zeros(), cpu: zeros(), memory: zeros(), disk: zeros(), latency_ms: zeros() }
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.pods.len()
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// The loads of a node.
    pub fn node(&self, row: usize) -> NodeLoad {
        NodeLoad {
            pods: self.pods[row],
            cpu: self.cpu[row],
            memory: self.memory[row],
            disk: self.disk[row],
            latency_ms: self.latency_ms[row],
        }
    }

    /// A node has another load.
    pub fn set(&mut self, row: usize, load: NodeLoad) {
        self.pods[row] = load.pods;
        self.cpu[row] = load.cpu;
        self.memory[row] = load.memory;
        self.disk[row] = load.disk;
        self.latency_ms[row] = load.latency_ms;
    }

    /// A node more.
    pub fn push(&mut self, load: NodeLoad) {
        self.pods.push(load.pods);
        self.cpu.push(load.cpu);
        self.memory.push(load.memory);
        self.disk.push(load.disk);
        self.latency_ms.push(load.latency_ms);
    }

    /// Forgets all nodes.
    pub fn clear(&mut self) {
        for column in [&mut self.pods, &mut self.cpu, &mut self.memory, &mut self.disk, &mut self.latency_ms] {
            column.clear();
        }
    }
}
