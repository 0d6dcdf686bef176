//! What if: places the pending pods of a cluster one after the other, in memory only.

use crate::cluster::Cluster;
use anyhow::{Result, anyhow};
use plimsoll_core::account::{Account, Choice, Cleared};
use plimsoll_core::config::Configuration;
use plimsoll_core::conformance::apply;
use plimsoll_core::gate_message;
use plimsoll_core::policy;
use plimsoll_core::scheduler::{Decision, DecisionError, Scheduler};
use plimsoll_core::state::{ClusterState, NodeId, PodId, pod_key};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// A cluster in memory, and its pods that wait.
pub struct DryRun {
    /// The engine.
    pub scheduler: Scheduler,
    /// Time spent on decisions alone, without explaining them.
    pub deciding: Duration,
    policy: String,
    /// Pods to place, in the order they are tried.
    pending: Vec<PodId>,
}

/// What becomes of a pod.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodOutcome {
    /// `namespace/name`
    pub pod: String,
    /// What becomes of it.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The decision laid open, for pods it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Account>,
}

/// What becomes of a pod.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "outcome", rename_all = "camelCase")]
pub enum Outcome {
    /// It goes to a node.
    Placed(Placed),
    /// It fits nowhere.
    Pending {
        /// Why, as kube-scheduler says it.
        message: String,
    },
    /// Gates hold it back.
    Gated {
        /// Which.
        message: String,
    },
    /// It is not for this scheduler to place.
    LeftOut {
        /// Why not.
        message: String,
    },
}

/// Where a pod goes.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Placed {
    /// The node.
    pub node: String,
    /// How many nodes were feasible.
    pub feasible: usize,
    /// How the node won, where the profile's scores decide.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<Choice>,
    /// Set when pods were removed first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemption: Option<Cleared>,
    /// Why this node, in one line.
    pub why: String,
}

impl DryRun {
    /// Takes over a cluster. Pods are ranked by `policy`, in every profile.
    pub fn new(cluster: &Cluster, configuration: &Configuration, policy: &str, seed: u64) -> Result<Self> {
        let mut scheduler = Scheduler::new(configuration, seed);
        for profile in &configuration.profiles {
            let ranks = policy::by_name(policy)
                .ok_or_else(|| anyhow!("no policy {policy:?}; `plimsoll policies` lists those there are"))?;
            scheduler.set_policy(&profile.scheduler_name, ranks);
        }
        apply(&mut scheduler, &cluster.objects).map_err(|problem| anyhow!(problem))?;
        let pending = pending(cluster, &scheduler.state);
        Ok(Self { scheduler, deciding: Duration::ZERO, policy: policy.to_owned(), pending })
    }

    /// Places every pending pod; those that `explains` names come with their decision laid open.
    pub fn place_all(&mut self, explains: impl Fn(&str) -> bool) -> Vec<PodOutcome> {
        let pending = std::mem::take(&mut self.pending);
        pending.into_iter().map(|id| self.place(id, &explains)).collect()
    }

    /// Lays open what would be decided for a pod now.
    pub fn explain(&mut self, id: PodId) -> Result<Account> {
        let name = self.name(id);
        let explanation = self.scheduler.explain(id)?;
        Ok(Account::new(name, &explanation, &self.scheduler.state))
    }

    fn name(&self, id: PodId) -> String {
        self.scheduler.state.pod(id).map_or_else(String::new, |pod| self.scheduler.state.pod_name(pod))
    }

    fn place(&mut self, id: PodId, explains: &impl Fn(&str) -> bool) -> PodOutcome {
        let pod = self.name(id);
        if let Some(outcome) = self.not_tried(id) {
            return PodOutcome { pod, outcome, explanation: None };
        }
        let mut explanation = None;
        let outcome = match self.attempt(id, explains(&pod), &mut explanation) {
            Ok(outcome) => outcome,
            Err(error @ DecisionError::NoProfile { .. }) => Outcome::LeftOut { message: without_pod(&error, &pod) },
            Err(error) => Outcome::Pending { message: without_pod(&error, &pod) },
        };
        PodOutcome { pod, outcome, explanation }
    }

    /// Pods that no attempt is made for.
    fn not_tried(&self, id: PodId) -> Option<Outcome> {
        let pod = self.scheduler.state.pod(id)?;
        if pod.terminating {
            return Some(Outcome::LeftOut { message: "is being deleted".to_owned() });
        }
        gate_message(&self.scheduler.state.shape_of(pod).shape).map(|message| Outcome::Gated { message })
    }

    /// Decides, and does what the decision asks for. Victims of a preemption leave at once, and the pod is tried again.
    fn attempt(&mut self, id: PodId, wanted: bool, account: &mut Option<Account>) -> Result<Outcome, DecisionError> {
        let decision = self.decide(id)?;
        let explanation = self.scheduler.explain(id)?;
        if wanted {
            *account = Some(Account::new(self.name(id), &explanation, &self.scheduler.state));
        }
        let state = &self.scheduler.state;
        let (node, feasible, score, preemption) = match decision {
            Decision::Place { node, feasible, .. } => (node, feasible, Choice::new(&explanation, node, state), None),
            Decision::Wait { preemption: None, .. } => {
                return Ok(Outcome::Pending { message: explanation.message(state.node_count()) });
            }
            Decision::Wait { preemption: Some(preemption), .. } => {
                let cleared = Cleared::new(&preemption, state);
                let message = explanation.message(state.node_count());
                self.clear(id, preemption.node, &preemption.victims);
                match self.decide(id)? {
                    Decision::Place { node, feasible, .. } => (node, feasible, None, Some(cleared)),
                    Decision::Wait { .. } => return Ok(Outcome::Pending { message }),
                }
            }
        };
        if let Err(error) = self.scheduler.reserve(id, node) {
            return Ok(Outcome::Pending { message: without_pod(&error, &self.name(id)) });
        }
        let why = match (&preemption, &score) {
            (Some(cleared), _) => format!("after removing {}", cleared.victims.join(", ")),
            (None, Some(choice)) if self.policy == "default" || feasible == 1 => choice.in_words(),
            _ => format!("{} among {feasible} feasible nodes", self.policy),
        };
        let node = self.scheduler.state.node_name(node).to_owned();
        // Another policy does not look at these scores.
        let score = score.filter(|_| self.policy == "default");
        Ok(Outcome::Placed(Placed { node, feasible, score, preemption, why }))
    }

    fn decide(&mut self, id: PodId) -> Result<Decision, DecisionError> {
        let start = Instant::now();
        let decision = self.scheduler.decide(id);
        self.deciding += start.elapsed();
        decision
    }

    fn clear(&mut self, id: PodId, node: NodeId, victims: &[PodId]) {
        let state = &mut self.scheduler.state;
        let uids: Vec<_> = victims.iter().filter_map(|victim| Some(state.pod(*victim)?.uid.clone())).collect();
        for uid in uids {
            state.delete_pod(&uid);
        }
        let name = state.node(node).map(|node| node.spec.name);
        state.nominate(id, name);
    }
}

/// The pods that wait, in the order kube-scheduler tries them: by priority, then the oldest first. A pod that never was
/// in a cluster has no age and comes last.
fn pending(cluster: &Cluster, state: &ClusterState) -> Vec<PodId> {
    let mut seen = BTreeSet::new();
    let mut pending: Vec<_> = cluster
        .objects
        .pods
        .iter()
        .filter_map(|object| {
            let id = state.pod_id(&pod_key(&object.metadata))?;
            let pod = state.pod(id).filter(|pod| pod.node_name.is_none())?;
            let created = object.metadata.creation_timestamp.as_ref().map(|time| time.0);
            let priority = state.shape_of(pod).shape.priority;
            seen.insert(id).then_some((Reverse(priority), created.is_none(), created, id))
        })
        .collect();
    pending.sort_by_key(|(priority, ageless, created, _)| (*priority, *ageless, *created));
    pending.into_iter().map(|(.., id)| id).collect()
}

/// An error's text without the name of the pod, which stands beside it already.
fn without_pod(error: &impl std::fmt::Display, pod: &str) -> String {
    let text = error.to_string();
    text.strip_prefix(&format!("pod {pod}: ")).map_or(text.clone(), str::to_owned)
}

/// How full a cluster is.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// How many nodes there are.
    pub nodes: usize,
    /// How many have pods.
    pub used: usize,
    /// Share of all CPU that is requested, 0 to 1.
    pub cpu: f64,
    /// Share of all memory that is requested.
    pub memory: f64,
    /// Share of the CPU of nodes with pods that is requested.
    pub cpu_of_used: f64,
    /// Standard deviation of the nodes' CPU shares: 0 when all are equally full.
    pub imbalance: f64,
}

impl Usage {
    /// As it is now.
    pub fn of(state: &ClusterState) -> Self {
        let share = |(taken, offered): (f64, f64)| if offered > 0.0 { taken / offered } else { 0.0 };
        let cpu = |node: &plimsoll_core::state::Node| (node.requested.cpu as f64, node.allocatable.cpu as f64);
        let memory = |node: &plimsoll_core::state::Node| (node.requested.memory as f64, node.allocatable.memory as f64);
        let sum = |amounts: &mut dyn Iterator<Item = (f64, f64)>| {
            share(amounts.fold((0.0, 0.0), |sum, amount| (sum.0 + amount.0, sum.1 + amount.1)))
        };
        let shares: Vec<f64> = state.nodes().map(|node| share(cpu(node))).collect();
        let mean = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
        let variance = shares.iter().map(|share| (share - mean).powi(2)).sum::<f64>() / shares.len().max(1) as f64;
        let used = || state.nodes().filter(|node| !node.pods.is_empty());
        Self {
            nodes: state.node_count(),
            used: used().count(),
            cpu: sum(&mut state.nodes().map(cpu)),
            memory: sum(&mut state.nodes().map(memory)),
            cpu_of_used: sum(&mut used().map(cpu)),
            imbalance: variance.sqrt(),
        }
    }
}
