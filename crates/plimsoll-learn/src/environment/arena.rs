//! A very fast environment for clusters in which only CPU, memory and the number of pods matter.
//!
//! Nodes are columns of numbers and observations are rows that are kept up to date by difference, so that a step costs a few hundred
//! nanoseconds. On workloads that ask for nothing else it decides as the whole simulator does, but for waiting: here a pod that fits nowhere is
//! turned away, and counted.

mod arrivals;
#[cfg(test)]
mod tests;

pub use arrivals::{AnyRecorded, Arrival, Arrivals, Made, Recorded, Shape};

use super::{Environment, Step};
use crate::error::LearnError;
use crate::observation::Observation;
use crate::reward::{Context, Judgement, Loads, NodeLoad, Placed, REWARDS, Rewards};
use plimsoll_core::telemetry::PowerCurve;
use plimsoll_sim::fleet::Fleet;
use plimsoll_sim::simulation::Readings;
use pulp::{Simd, WithSimd};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// How many numbers describe a node; the features are those of [`crate::observation::Plain`].
const WIDTH: usize = 6;
/// As in the plain observation.
const PODS: f32 = 110.0;
const CORES: f32 = 16.0;
const BYTES: f32 = (64_u64 << 30) as f32;
const NANOSECONDS_PER_HOUR: f64 = 3.6e12;

/// The rewards that look at more than CPU, memory and pod counts, or at pods that wait: here they would always be the same.
const NOT_HERE: [&str; 8] =
    ["el-rl", "carbon", "latency", "latency-violations", "fragmentation", "gpu-fragmentation", "waiting", "overload"];

/// Refuses rewards that an arena cannot tell of.
fn check(rewards: &Rewards) -> Result<(), LearnError> {
    let Some(name) = rewards.weights().names().iter().find(|name| NOT_HERE.contains(name)) else { return Ok(()) };
    let known = REWARDS.iter().map(|known| known.name).filter(|name| !NOT_HERE.contains(name));
    Err(LearnError::Invalid(format!(
        "reward {name:?}: an arena knows CPU, memory and pod counts alone, and no pod waits there; it can reward {}; use the whole simulator for others",
        known.collect::<Vec<_>>().join(", ")
    )))
}

/// How an arena goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArenaSettings {
    /// After how many steps an episode is cut off; none to go on to the last pod.
    pub steps: Option<u64>,
    /// Whether the only node that fits is taken without asking.
    pub skips_single_choices: bool,
}

impl Default for ArenaSettings {
    fn default() -> Self {
        Self { steps: None, skips_single_choices: true }
    }
}

/// A node's kind.
#[derive(Debug, Clone)]
struct Kind {
    cpu: f64,
    memory: f64,
    pods: u32,
    power: Arc<PowerCurve>,
    price: f64,
}

/// A pod that runs: when it ends, then its node, then its shape, as one number, since the queue compares little else.
type End = Reverse<u128>;

fn end(at: u64, node: u32, shape: u32) -> End {
    Reverse(u128::from(at) << 64 | u128::from(node) << 32 | u128::from(shape))
}

/// When a pod ends, its node, and its shape.
fn parts(Reverse(end): End) -> (u64, usize, u32) {
    ((end >> 64) as u64, (end >> 32) as u32 as usize, end as u32)
}

/// A cluster of CPU, memory and pod counts.
pub struct Arena {
    arrivals: Box<dyn Arrivals>,
    rewards: Rewards,
    settings: ArenaSettings,
    judges_placements: bool,
    judges_accruals: bool,
    needs_context: bool,
    kinds: Vec<Kind>,
    /// The kind of each node.
    kind: Vec<u32>,
    /// Thousandths of a core that are free; below zero on a node that has as many pods as it may. Whole numbers, exact in doubles.
    cpu: Vec<f64>,
    /// Bytes that are free.
    memory: Vec<f64>,
    /// What pods take.
    taken: Vec<Taken>,
    shapes: Vec<Shape>,
    ends: BinaryHeap<End>,
    now: u64,
    pod: Arrival,
    observation: Observation,
    loads: Loads,
    flow: Flow,
    read: Readings,
    steps: u64,
    rejected: u64,
    is_over: bool,
}

/// What the pods of a node take.
#[derive(Debug, Clone, Copy, Default)]
struct Taken {
    cpu: f64,
    memory: f64,
    pods: u32,
    /// What the node draws, in microwatts: whole numbers, so that sums kept by difference stay exact.
    microwatts: i64,
}

/// What the cluster costs by time.
#[derive(Debug, Clone, Copy, Default)]
struct Flow {
    microwatts: i64,
    active: i64,
    pods: i64,
    /// Millionths of money an hour.
    price: i64,
}

impl Arena {
    /// An arena on the machines of a fleet, which sleep whenever they are empty.
    pub fn new(
        fleet: &Fleet,
        arrivals: impl Arrivals + 'static,
        rewards: Rewards,
        settings: ArenaSettings,
    ) -> Result<Self, LearnError> {
        if fleet.len() < 2 {
            return Err(LearnError::Invalid("an arena needs at least two nodes: with one there is no choice".into()));
        }
        check(&rewards)?;
        let (mut kinds, mut kind) = (Vec::new(), Vec::new());
        for pool in &fleet.pools {
            let machine = &pool.machine;
            let price = machine.price.map_or(0.0, |price| if pool.spot { price.spot } else { price.on_demand });
            kind.extend(std::iter::repeat_n(kinds.len() as u32, pool.count));
            kinds.push(Kind {
                cpu: machine.cpu_milli as f64,
                memory: machine.memory as f64,
                pods: u32::try_from(machine.pods).unwrap_or(0),
                power: Arc::clone(&machine.power),
                price,
            });
        }
        let nodes = kind.len();
        Ok(Self {
            judges_placements: rewards.judges_placements(),
            judges_accruals: rewards.judges_accruals(),
            needs_context: rewards.needs_context(),
            arrivals: Box::new(arrivals),
            rewards,
            settings,
            kinds,
            kind,
            cpu: vec![0.0; nodes],
            memory: vec![0.0; nodes],
            taken: vec![Taken::default(); nodes],
            shapes: Vec::new(),
            ends: BinaryHeap::new(),
            now: 0,
            pod: Arrival::default(),
            observation: Observation { node_width: WIDTH, ..Observation::default() },
            loads: Loads::new(nodes),
            flow: Flow::default(),
            read: Readings::default(),
            steps: 0,
            rejected: 0,
            is_over: true,
        })
    }

    /// Pods that fitted nowhere, in this episode.
    pub fn rejected(&self) -> u64 {
        self.rejected
    }

    /// How many pods each node runs.
    pub fn pods(&self) -> impl Iterator<Item = u32> + '_ {
        self.taken.iter().map(|taken| taken.pods)
    }

    /// What is rewarded; weights may change at any time.
    pub fn rewards(&self) -> &Rewards {
        &self.rewards
    }

    /// A pod comes to a node (1) or leaves it (-1).
    #[inline]
    fn change(&mut self, node: usize, shape: u32, sign: f64) {
        let shape = self.shapes[shape as usize];
        let kind = &self.kinds[self.kind[node] as usize];
        let taken = &mut self.taken[node];
        taken.cpu += sign * shape.cpu_milli as f64;
        taken.memory += sign * shape.memory as f64;
        taken.pods = if sign > 0.0 { taken.pods + 1 } else { taken.pods - 1 };
        self.cpu[node] = if taken.pods < kind.pods { kind.cpu - taken.cpu } else { -1.0 };
        self.memory[node] = kind.memory - taken.memory;
        let (cpu, memory) = (taken.cpu as f32 / kind.cpu as f32, taken.memory as f32 / kind.memory as f32);
        let row = &mut self.observation.nodes[node * WIDTH..node * WIDTH + WIDTH];
        row[0] = 1.0 - cpu;
        row[1] = 1.0 - memory;
        row[3] = taken.pods as f32 / PODS;
        if self.judges_placements {
            self.loads.set(node, NodeLoad { pods: taken.pods as f32, cpu, memory, ..NodeLoad::default() });
        }
        if self.judges_accruals {
            let is_active = taken.pods > 0;
            let watts = if is_active { kind.power.at(taken.cpu / kind.cpu) } else { 0.0 };
            let microwatts = (watts * 1e6).round() as i64;
            self.flow.microwatts += microwatts - taken.microwatts;
            taken.microwatts = microwatts;
            let woke = i64::from(is_active && taken.pods == 1 && sign > 0.0) - i64::from(!is_active);
            self.flow.active += woke;
            self.flow.pods += if sign > 0.0 { 1 } else { -1 };
            self.flow.price += woke * (kind.price * 1e6).round() as i64;
        }
    }

    /// Time passes.
    #[inline]
    fn pass(&mut self, to: u64) {
        if self.judges_accruals && to > self.now {
            let hours = (to - self.now) as f64 / NANOSECONDS_PER_HOUR;
            self.read.hours += hours;
            self.read.kwh += self.flow.microwatts as f64 * 1e-9 * hours;
            self.read.node_hours += self.flow.active as f64 * hours;
            self.read.active_node_hours += self.flow.active as f64 * hours;
            self.read.pod_hours += self.flow.pods as f64 * hours;
            self.read.cost += self.flow.price as f64 * 1e-6 * hours;
        }
        self.now = to;
    }

    /// Pods that end up to a time leave.
    #[inline]
    fn end_pods(&mut self, to: u64) {
        while let Some((at, node, shape)) = self.ends.peek().copied().map(parts) {
            if at > to {
                break;
            }
            self.ends.pop();
            self.pass(at);
            self.change(node, shape, -1.0);
        }
        self.pass(to);
    }

    /// Puts the pod that came on a node.
    #[inline]
    fn put(&mut self, node: usize) {
        self.change(node, self.pod.shape, 1.0);
        if let Some(lifetime) = self.pod.lifetime {
            self.ends.push(end(self.now.saturating_add(lifetime), node as u32, self.pod.shape));
        }
    }

    /// Which nodes the pod fits on, and how many these are.
    #[inline]
    fn refresh_mask(&mut self) -> usize {
        let shape = &self.shapes[self.pod.shape as usize];
        let (cpu, memory) = (shape.cpu_milli as f64, shape.memory as f64);
        let Self { cpu: free_cpu, memory: free_memory, observation, .. } = self;
        pulp::Arch::new().dispatch(Room { cpu, memory, free_cpu, free_memory, mask: &mut observation.mask })
    }

    /// Goes on to the next decision; false when no pod comes any more.
    #[inline]
    fn advance(&mut self) -> bool {
        while let Some(pod) = self.arrivals.next() {
            self.end_pods(pod.at);
            self.pod = pod;
            match self.refresh_mask() {
                0 => {
                    self.rejected += 1;
                    self.read.rejected += 1.0;
                }
                1 if self.settings.skips_single_choices => {
                    let only = self.observation.mask.iter().position(|allowed| *allowed).unwrap_or(0);
                    self.put(only);
                }
                _ => {
                    let shape = &self.shapes[pod.shape as usize];
                    self.observation.pod[0] = shape.cpu_milli as f32 / 1000.0 / CORES;
                    self.observation.pod[1] = shape.memory as f32 / BYTES;
                    return true;
                }
            }
        }
        let end = self.arrivals.end().max(self.now);
        self.end_pods(end);
        false
    }

    /// What a placement is worth at once.
    #[inline]
    fn judge(&self, chosen: usize, before: NodeLoad) -> Judgement {
        let mut context = Context::default();
        if self.needs_context {
            let active = self.taken.iter().filter(|taken| taken.pods > 0).count();
            context.power = active as f64 / self.taken.len() as f64;
        }
        self.rewards.placement(&Placed { loads: &self.loads, chosen, before, constraint: None, context })
    }

    fn clear(&mut self) {
        let nodes = self.kind.len();
        self.ends.clear();
        self.taken.fill(Taken::default());
        self.observation.nodes.clear();
        for (node, kind) in self.kind.iter().enumerate() {
            let kind = &self.kinds[*kind as usize];
            self.cpu[node] = if kind.pods > 0 { kind.cpu } else { -1.0 };
            self.memory[node] = kind.memory;
            self.observation.nodes.extend([1.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
        }
        self.observation.mask.clear();
        self.observation.mask.resize(nodes, false);
        self.observation.places.resize(nodes, [0; 2]);
        self.observation.pod.clear();
        self.observation.pod.resize(4, 0.0);
        self.loads = Loads::new(nodes);
        (self.flow, self.read) = (Flow::default(), Readings::default());
        (self.now, self.steps, self.rejected) = (0, 0, 0);
    }
}

/// Which nodes have room, found by the widest vectors that the processor has; how many these are.
struct Room<'a> {
    cpu: f64,
    memory: f64,
    free_cpu: &'a [f64],
    free_memory: &'a [f64],
    mask: &'a mut [bool],
}

impl WithSimd for Room<'_> {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> usize {
        let mut count = 0_u64;
        for ((allowed, cpu), memory) in self.mask.iter_mut().zip(self.free_cpu).zip(self.free_memory) {
            *allowed = (*cpu >= self.cpu) & (*memory >= self.memory);
            count += u64::from(*allowed);
        }
        count as usize
    }
}

impl Environment for Arena {
    fn reset(&mut self, seed: u64) -> Result<(), LearnError> {
        self.arrivals.begin(seed)?;
        self.shapes.clear();
        self.shapes.extend_from_slice(self.arrivals.shapes());
        self.clear();
        self.is_over = !self.advance();
        self.read = Readings::default();
        if self.is_over {
            return Err(LearnError::Invalid(format!(
                "the episode of seed {seed} has no decision: no pod has a choice of nodes; give it more pods or more nodes"
            )));
        }
        Ok(())
    }

    fn observation(&self) -> &Observation {
        &self.observation
    }

    fn step(&mut self, action: usize) -> Result<Step, LearnError> {
        if self.is_over || !self.observation.mask.get(action).is_some_and(|allowed| *allowed) {
            let nodes = self.kind.len();
            let problem = if self.is_over { "the episode is over; reset first" } else { "the pod does not fit there" };
            return Err(LearnError::Invalid(format!("action {action} of {nodes}: {problem}")));
        }
        let mut step = Step::default();
        let mut worth = 0.0;
        if self.judges_placements {
            let before = self.loads.node(action);
            self.put(action);
            let judgement = self.judge(action, before);
            (worth, step.terminated) = (judgement.reward, judgement.terminated);
        } else {
            self.put(action);
        }
        if !step.terminated {
            let from = self.now;
            step.terminated = !self.advance();
            step.elapsed_hours = ((self.now - from) as f64 / NANOSECONDS_PER_HOUR) as f32;
            if self.judges_accruals {
                let since = std::mem::take(&mut self.read);
                worth += self.rewards.accrual(&since);
            }
        }
        self.steps += 1;
        step.reward = worth as f32;
        step.truncated |= !step.terminated && self.settings.steps.is_some_and(|most| self.steps >= most);
        self.is_over = step.is_last();
        Ok(step)
    }
}
