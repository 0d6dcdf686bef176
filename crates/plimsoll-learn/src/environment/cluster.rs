//! The whole simulator as an environment: every rule of Kubernetes holds, and the action mask is what the rules allow.

use super::episodes::Episodes;
use super::{Environment, Step};
use crate::error::LearnError;
use crate::observation::{Observation, Observe};
use crate::policy::preferences;
use crate::reward::{Context, Loads, NodeLoad, Placed, Rewards};
use plimsoll_core::framework::Cycle;
use plimsoll_core::policy::{self, Policy};
use plimsoll_core::rng::Rng;
use plimsoll_core::state::{ClusterState, NodeId, PodId};
use plimsoll_core::telemetry::NodeTelemetry;
use plimsoll_sim::simulation::{Choice, Inputs, Nobody, Readings, Simulation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// When the rows of observations change places.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Shuffle {
    /// Never: by the index of the node.
    #[default]
    Never,
    /// With every episode, and whenever a node comes or goes.
    Episodes,
    /// With every decision.
    Decisions,
}

/// How an environment goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterSettings {
    /// When rows change places.
    pub shuffle: Shuffle,
    /// After how many steps an episode is cut off; none to go on to the end of its time.
    pub steps: Option<u64>,
    /// The policy that [`ClusterEnvironment::policy_action`] asks.
    pub policy: String,
}

impl Default for ClusterSettings {
    fn default() -> Self {
        Self { shuffle: Shuffle::Never, steps: None, policy: "default".into() }
    }
}

/// Makes the policy of an episode.
pub type MakePolicy = Box<dyn Fn() -> Result<Box<dyn Policy>, LearnError> + Send>;

/// A simulated cluster in which each pod that has a choice of nodes is a decision.
///
/// Where only one node is allowed it is taken without asking, unless `skips_single_choices` of the run's settings is off.
pub struct ClusterEnvironment {
    episodes: Box<dyn Episodes>,
    observe: Box<dyn Observe>,
    rewards: Rewards,
    settings: ClusterSettings,
    make_policy: Option<MakePolicy>,
    running: Option<Running>,
    observation: Observation,
    loads: Loads,
}

/// An episode under way.
struct Running {
    inputs: Inputs<'static>,
    simulation: Simulation<'static>,
    /// The node of each row.
    rows: Vec<NodeId>,
    /// The version of the nodes that the rows are of.
    version: Option<u64>,
    rng: Rng,
    read: Readings,
    now: Duration,
    steps: u64,
    is_over: bool,
}

impl ClusterEnvironment {
    /// An environment; it has to be reset before the first step.
    pub fn new(
        episodes: impl Episodes + 'static,
        observe: impl Observe + 'static,
        rewards: Rewards,
        settings: ClusterSettings,
    ) -> Result<Self, LearnError> {
        if policy::by_name(&settings.policy).is_none() {
            let known = policy::POLICIES.iter().map(|(name, _)| *name);
            return Err(LearnError::unknown("policy", &settings.policy, known));
        }
        Ok(Self {
            episodes: Box::new(episodes),
            observe: Box::new(observe),
            rewards,
            settings,
            make_policy: None,
            running: None,
            observation: Observation::default(),
            loads: Loads::default(),
        })
    }

    /// Has another policy than one of the engine's asked by [`Self::policy_action`], made anew for each episode.
    pub fn set_policy(&mut self, make: MakePolicy) {
        self.make_policy = Some(make);
    }

    /// What is rewarded; weights may change at any time.
    pub fn rewards(&self) -> &Rewards {
        &self.rewards
    }

    /// The run, while there is one.
    pub fn simulation(&self) -> Option<&Simulation<'static>> {
        self.running.as_ref().map(|running| &running.simulation)
    }

    /// The node of each row of the observation.
    pub fn rows(&self) -> &[NodeId] {
        self.running.as_ref().map_or(&[], |running| &running.rows)
    }

    /// What the environment's policy would do for the decision that is due: for imitation, and as a yardstick.
    pub fn policy_action(&mut self) -> Result<usize, LearnError> {
        let running = self.running.as_mut().ok_or_else(not_reset)?;
        let node = running.simulation.policy_choice()?;
        let row = running.rows.iter().position(|row| *row == node);
        row.ok_or_else(|| LearnError::Invalid(format!("node #{} has no row", node.index())))
    }

    /// Goes on to the next decision; false when the time is over.
    fn advance(&mut self) -> Result<bool, LearnError> {
        let running = self.running.as_mut().ok_or_else(not_reset)?;
        let Some(choice) = running.simulation.advance_to_choice()? else { return Ok(false) };
        let version = Some(choice.state.node_version());
        if running.version != version || self.settings.shuffle == Shuffle::Decisions {
            running.version = version;
            running.rows.clear();
            running.rows.extend(choice.state.nodes().map(|node| node.id));
            if self.settings.shuffle != Shuffle::Never {
                shuffle(&mut running.rows, &mut running.rng);
            }
        }
        let cycle = cycle(&choice)?;
        self.observe.observe(&cycle, &running.rows, choice.nodes, &mut self.observation);
        if self.rewards.judges_placements() {
            self.loads.clear();
            for &row in &running.rows {
                self.loads.push(load(choice.state, choice.pod, row));
            }
        }
        Ok(true)
    }

    /// Places the pod, and says what that alone is worth.
    fn place(&mut self, action: usize) -> Result<crate::reward::Judgement, LearnError> {
        let running = self.running.as_mut().ok_or_else(not_reset)?;
        let node = running.rows[action];
        if !self.rewards.judges_placements() {
            running.simulation.choose(node)?;
            return Ok(crate::reward::Judgement::default());
        }
        let (pod, number) =
            running.simulation.choice().map(|choice| (choice.pod, choice.number)).ok_or_else(not_reset)?;
        let constraint = running.simulation.state().telemetry.pod(pod).latency_ms;
        let before = self.loads.node(action);
        let needs_context = self.rewards.needs_context();
        let preference = if needs_context { preference(running, pod, number, node)? } else { 1.0 };
        running.simulation.choose(node)?;
        let state = running.simulation.state();
        self.loads.set(action, load(state, pod, node));
        let context = if needs_context {
            Context { preference, near: near(&running.inputs, state, number, node), power: power(state) }
        } else {
            Context::default()
        };
        let constraint = constraint.map(|(soft, hard)| (soft as f32, hard as f32));
        Ok(self.rewards.placement(&Placed { loads: &self.loads, chosen: action, before, constraint, context }))
    }
}

impl Environment for ClusterEnvironment {
    fn reset(&mut self, seed: u64) -> Result<(), LearnError> {
        let inputs = self.episodes.begin(seed)?;
        let policy = match &self.make_policy {
            Some(make) => make()?,
            None => policy::by_name(&self.settings.policy).ok_or_else(not_reset)?,
        };
        let simulation = Simulation::new(inputs.clone(), policy, Nobody)?;
        self.observe.begin();
        self.running = Some(Running {
            inputs,
            simulation,
            rows: Vec::new(),
            version: None,
            rng: Rng::new(seed),
            read: Readings::default(),
            now: Duration::ZERO,
            steps: 0,
            is_over: false,
        });
        if !self.advance()? {
            self.running = None;
            return Err(LearnError::Invalid(format!(
                "the episode of seed {seed} has no decision: no pod has a choice of nodes; give it more pods or more nodes"
            )));
        }
        self.settle();
        Ok(())
    }

    fn observation(&self) -> &Observation {
        &self.observation
    }

    fn step(&mut self, action: usize) -> Result<Step, LearnError> {
        if self.running.as_ref().is_none_or(|running| running.is_over) {
            return Err(not_reset());
        }
        if !self.observation.mask.get(action).is_some_and(|allowed| *allowed) {
            let nodes = self.observation.node_count();
            return Err(LearnError::Invalid(format!("action {action} of {nodes} is masked: no rule allows that node")));
        }
        let judgement = self.place(action)?;
        let mut step = Step { reward: judgement.reward as f32, terminated: judgement.terminated, ..Step::default() };
        if !step.terminated {
            step.terminated = !self.advance()?;
            let (since, hours) = self.settle();
            step.reward = (judgement.reward + self.rewards.accrual(&since)) as f32;
            step.elapsed_hours = hours as f32;
        }
        if let Some(running) = &mut self.running {
            running.steps += 1;
            step.truncated |= !step.terminated && self.settings.steps.is_some_and(|most| running.steps >= most);
            running.is_over = step.is_last();
        }
        Ok(step)
    }
}

impl ClusterEnvironment {
    /// What accrued since this was last asked, and how many hours that took.
    fn settle(&mut self) -> (Readings, f64) {
        let Some(running) = &mut self.running else { return Default::default() };
        let (read, now) = (running.simulation.readings(), running.simulation.now());
        let hours = now.saturating_sub(running.now).as_secs_f64() / 3600.0;
        let since = read - running.read;
        (running.read, running.now) = (read, now);
        (since, hours)
    }
}

fn not_reset() -> LearnError {
    LearnError::Invalid("the environment has no decision to make; reset it first".into())
}

fn cycle<'a>(choice: &Choice<'a>) -> Result<Cycle<'a>, LearnError> {
    Cycle::new(choice.state, choice.pod)
        .ok_or_else(|| LearnError::Invalid(format!("pod #{} is gone before it was placed", choice.pod.index())))
}

/// Fisher and Yates' shuffle.
pub(crate) fn shuffle<T>(list: &mut [T], rng: &mut Rng) {
    for at in (1..list.len()).rev() {
        list.swap(at, rng.below(at + 1));
    }
}

/// The load of a node, with the latency from there to the users of a pod.
fn load(state: &ClusterState, pod: PodId, id: NodeId) -> NodeLoad {
    use crate::observation::share;
    let Some(node) = state.node(id) else { return NodeLoad::default() };
    let (offered, taken) = (&node.allocatable, &node.requested);
    NodeLoad {
        pods: node.pods.len() as f32,
        cpu: share(taken.cpu, offered.cpu),
        memory: share(taken.memory, offered.memory),
        disk: share(taken.ephemeral_storage, offered.ephemeral_storage),
        latency_ms: state.telemetry.latency_ms(pod, id).unwrap_or(0.0) as f32,
    }
}

/// How well a node meets what a pod prefers: its score by affinity among the best there is.
fn preference(running: &mut Running, pod: PodId, number: usize, node: NodeId) -> Result<f64, LearnError> {
    let workload = &running.inputs.workload;
    let template = workload.templates.get(workload.pods[number].template as usize);
    let affinity = template.and_then(|template| template.spec.as_ref()?.affinity.as_ref());
    if affinity.is_none() {
        return Ok(1.0);
    }
    let explained = running.simulation.scheduler().explain(pod);
    let explanation = explained.map_err(|error| LearnError::Invalid(error.to_string()))?;
    let Some(at) = explanation.feasible.iter().position(|feasible| *feasible == node) else { return Ok(0.0) };
    let preferences = preferences(&explanation.scores, explanation.feasible.len());
    Ok(preferences.map_or(1.0, |preferences| preferences[at]))
}

/// Of the calls between a pod's service and others that run, the share that stays on its node.
fn near(inputs: &Inputs<'_>, state: &ClusterState, number: usize, node: NodeId) -> f64 {
    let workload = &inputs.workload;
    let app_of = |number: usize| {
        let template = workload.templates.get(workload.pods.get(number)?.template as usize)?;
        template.app.as_deref()
    };
    let Some(app) = app_of(number).filter(|_| !workload.calls.is_empty()) else { return 1.0 };
    let is_of = |uid: &str, service: &str| {
        uid.split('.').next().and_then(|text| text.parse().ok()).and_then(app_of) == Some(service)
    };
    let here = state.node(node).map(|node| node.pods.as_slice()).unwrap_or_default();
    let (mut all, mut stays) = (0.0, 0.0);
    for call in &workload.calls {
        let other = match (call.from == app, call.to == app) {
            (true, false) => &call.to,
            (false, true) => &call.from,
            _ => continue,
        };
        if state.pods().any(|(_, pod)| pod.node.is_some() && is_of(&pod.uid, other)) {
            let is_near = here.iter().filter_map(|id| state.pod(*id)).any(|pod| is_of(&pod.uid, other));
            all += call.per_request;
            stays += if is_near { call.per_request } else { 0.0 };
        }
    }
    if all > 0.0 { stays / all } else { 1.0 }
}

/// What machines draw as a share of what they would at full load; where nobody knows, the share of nodes with pods.
fn power(state: &ClusterState) -> f64 {
    let (mut drawn, mut most) = (0.0, 0.0);
    for node in state.nodes() {
        let known = state.telemetry.node(node.id);
        let load = f64::from(crate::observation::share(node.requested.cpu, node.allocatable.cpu));
        drawn += draws(known, !node.pods.is_empty(), load);
        most += draws_at_most(known);
    }
    if most > 0.0 { drawn / most } else { 0.0 }
}

/// What a node draws: one unit for a node in use whose power is not known, nothing for one that stands for another cluster.
pub(crate) fn draws(known: &NodeTelemetry, is_used: bool, load: f64) -> f64 {
    match &known.power {
        _ if known.is_virtual() => 0.0,
        Some(curve) if known.awake_since.is_some() || is_used => curve.at(load),
        Some(_) => known.sleep_watts,
        None => f64::from(u8::from(is_used)),
    }
}

/// What it draws at full load.
pub(crate) fn draws_at_most(known: &NodeTelemetry) -> f64 {
    if known.is_virtual() { 0.0 } else { known.power.as_ref().map_or(1.0, |curve| curve.full()) }
}

#[cfg(test)]
mod tests;
