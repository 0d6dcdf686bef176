//! Several objectives at once as a policy: a pod goes where the reward of the placement is highest. Nothing is learned, and the weights may change while it decides.

use crate::environment::cluster::{draws, draws_at_most};
use crate::error::LearnError;
use crate::observation::share;
use crate::reward::objectives::{Marks, Objectives, SharedObjectives, VARIABLES, nearness};
use crate::variables::Lookup;
use plimsoll_core::config::PluginName;
use plimsoll_core::framework::Cycle;
use plimsoll_core::policy::{Policy, Ranking};
use plimsoll_core::state::{ClusterState, Node, NodeId, PodId};

/// The name it is chosen by; `multi-objective:web` has the weights of a profile, `multi-objective:0.3,0.25,0.25,0.1,0.1` those that are given.
pub const MULTI_OBJECTIVE: &str = "multi-objective";

/// What it does.
pub const ABOUT_MULTI_OBJECTIVE: &str = "the node where utilisation, balance, latency, affinity and energy come to most, by weights that may change at any time";

/// See the description of the module.
#[derive(Debug, Clone, Default)]
pub struct MultiObjective {
    weights: SharedObjectives,
}

impl MultiObjective {
    /// It decides by these weights.
    pub fn new(weights: SharedObjectives) -> Self {
        Self { weights }
    }

    /// The policy of a name, if it is one; wrong weights are an error. Without weights in the name, `variables` count before the usual ones.
    pub fn named(name: &str, variables: Lookup<'_>) -> Option<Result<Self, LearnError>> {
        let rest = name.strip_prefix(MULTI_OBJECTIVE)?;
        let weights = match rest.strip_prefix(':') {
            None if rest.is_empty() => {
                let mut weights = Objectives::default();
                weights.override_by(variables).map(|()| weights)
            }
            None => return None,
            Some(text) => weights(text),
        };
        let checked = weights.and_then(|weights| weights.check().map(|()| weights));
        Some(checked.map(|weights| Self::new(SharedObjectives::new(weights))))
    }

    /// What a placement that was made is worth by these weights. What the pod prefers counts as met: who decided has seen to it.
    pub fn reward(weights: &Objectives, state: &ClusterState, pod: PodId, node: NodeId) -> f64 {
        let latency = state.telemetry.latency_ms(pod, node).unwrap_or(0.0);
        let latency = nearness(latency, state.telemetry.pod(pod).latency_ms);
        weights.weigh(&Standing::of(state).marks(latency, 1.0))
    }
}

/// The weights of a profile, or five numbers.
fn weights(text: &str) -> Result<Objectives, LearnError> {
    if !text.contains(',') {
        return Objectives::profile(text);
    }
    let numbers: Option<Vec<f64>> = text.split(',').map(|number| number.trim().parse().ok()).collect();
    let [utilization, balance, latency, affinity, energy] = numbers.as_deref().unwrap_or_default() else {
        let wanted = VARIABLES.len();
        return Err(LearnError::Invalid(format!(
            "{MULTI_OBJECTIVE}:{text}: not the name of a profile, nor {wanted} numbers"
        )));
    };
    Ok(Objectives {
        utilization: *utilization,
        balance: *balance,
        latency: *latency,
        affinity: *affinity,
        energy: *energy,
    })
}

/// Sums over all nodes: what the objectives come to when one node changes follows in one step.
#[derive(Debug, Clone, Copy, Default)]
struct Standing {
    nodes: f64,
    sum: f64,
    squares: f64,
    /// Nodes with pods, and their utilisations together.
    used: f64,
    used_sum: f64,
    drawn: f64,
    most: f64,
}

/// What a node adds to the sums.
#[derive(Debug, Clone, Copy)]
struct Share {
    utilisation: f64,
    is_used: bool,
    drawn: f64,
}

impl Share {
    /// The share of a node on which so much more is asked for, by so many more pods.
    fn of(state: &ClusterState, node: &Node, [cpu, memory]: [i64; 2], more: usize) -> Self {
        let (offered, taken) = (&node.allocatable, &node.requested);
        let elsewhere = state.telemetry.node(node.id).taken_elsewhere();
        let cpu = f64::from(share(taken.cpu + elsewhere.0 + cpu, offered.cpu));
        let memory = f64::from(share(taken.memory + elsewhere.1 + memory, offered.memory));
        let is_used = node.pods.len() + more > 0;
        Self { utilisation: (cpu + memory) / 2.0, is_used, drawn: draws(state.telemetry.node(node.id), is_used, cpu) }
    }
}

impl Standing {
    fn of(state: &ClusterState) -> Self {
        let mut all = Self::default();
        for node in state.nodes() {
            all.nodes += 1.0;
            all.add(Share::of(state, node, [0, 0], 0), 1.0);
            all.most += draws_at_most(state.telemetry.node(node.id));
        }
        all
    }

    fn add(&mut self, share: Share, sign: f64) {
        self.sum += sign * share.utilisation;
        self.squares += sign * share.utilisation * share.utilisation;
        if share.is_used {
            self.used += sign;
            self.used_sum += sign * share.utilisation;
        }
        self.drawn += sign * share.drawn;
    }

    fn marks(&self, latency: f64, affinity: f64) -> Marks {
        let part = |sum: f64, of: f64| if of > 0.0 { sum / of } else { 0.0 };
        let mean = part(self.sum, self.nodes);
        let variance = (part(self.squares, self.nodes) - mean * mean).max(0.0);
        Marks {
            utilization: part(self.used_sum, self.used),
            balance: 1.0 - 2.0 * variance.sqrt(),
            latency,
            affinity,
            energy: 1.0 - part(self.drawn, self.most),
        }
    }
}

/// How well each of so many nodes meets what a pod prefers of nodes and other pods, by the scores of plugins: its score by affinity among the best
/// there is, from 0 to 1; nothing where it prefers nothing.
pub(crate) fn preferences(scores: &[(PluginName, Vec<i64>)], nodes: usize) -> Option<Vec<f64>> {
    let mut totals = vec![0_i64; nodes];
    for (_, scores) in scores.iter().filter(|(plugin, _)| plugin.as_str().ends_with("Affinity")) {
        totals.iter_mut().zip(scores).for_each(|(total, score)| *total += score);
    }
    let best = totals.iter().copied().max().unwrap_or(0);
    (best > 0).then(|| totals.iter().map(|total| (*total).max(0) as f64 / best as f64).collect())
}

fn prefers(cycle: &Cycle<'_>) -> bool {
    let shape = cycle.shape();
    let others = &shape.affinity;
    shape.local.node_affinity.preferred.is_some() || !others.preferred.is_empty() || !others.preferred_anti.is_empty()
}

impl Policy for MultiObjective {
    fn name(&self) -> &'static str {
        MULTI_OBJECTIVE
    }

    fn rank(&mut self, ranking: &mut Ranking<'_>, nodes: &[NodeId], scores: &mut [f64]) -> Result<(), String> {
        let weights = self.weights.get();
        let preferences = match prefers(&ranking.cycle) {
            true => preferences(&ranking.rules.scores(&ranking.cycle, nodes)?, nodes.len()),
            false => None,
        };
        let cycle = &ranking.cycle;
        let state = cycle.state;
        let standing = Standing::of(state);
        let wanted = &cycle.local().resources.wanted;
        let constraint = state.telemetry.pod(cycle.pod_id).latency_ms;
        for (at, (slot, id)) in scores.iter_mut().zip(nodes).enumerate() {
            let Some(node) = state.node(*id) else {
                *slot = f64::NEG_INFINITY;
                continue;
            };
            let mut after = standing;
            after.add(Share::of(state, node, [0, 0], 0), -1.0);
            after.add(Share::of(state, node, [wanted.cpu, wanted.memory], 1), 1.0);
            let latency = nearness(state.telemetry.latency_ms(cycle.pod_id, *id).unwrap_or(0.0), constraint);
            let affinity = preferences.as_ref().map_or(1.0, |all| all[at]);
            *slot = weights.weigh(&after.marks(latency, affinity));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
