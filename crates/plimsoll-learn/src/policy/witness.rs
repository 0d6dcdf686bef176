//! A policy that prefers no node, and keeps what it was shown: how somebody outside sees a decision as a model would.

use crate::error::LearnError;
use crate::observation::{Observation, Observe, View};
use crate::policy::Ranges;
use crate::reward::{Loads, NodeLoad};
use plimsoll_core::policy::{Policy, Ranking};
use plimsoll_core::state::{Node, NodeId};
use plimsoll_core::telemetry::NodeTelemetry;
use std::sync::{Arc, Mutex, PoisonError};

/// What was seen of a decision.
#[derive(Debug, Clone, Default)]
pub struct Sight {
    /// As a model sees it, all nodes allowed, in the order of their numbers.
    pub observation: Observation,
    /// As a reward sees it, in the same order.
    pub loads: Loads,
    /// The names of the nodes.
    pub nodes: Vec<String>,
}

/// Where the latest sight is kept.
#[derive(Clone, Default)]
pub struct Sights(Arc<Mutex<Sight>>);

impl Sights {
    /// The latest.
    pub fn latest(&self) -> Sight {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Keeps what it is shown.
pub struct Witness {
    observe: Box<dyn Observe>,
    /// How many pods of the queue are looked at.
    lookahead: usize,
    seen: Arc<Mutex<Ranges>>,
    sights: Sights,
}

impl Witness {
    /// Sees what a model with this view does, which must need no predictor. What values features take is noted.
    pub fn new(view: &View, sights: Sights, seen: Arc<Mutex<Ranges>>) -> Result<Self, LearnError> {
        Ok(Self { observe: view.observe(None)?, lookahead: view.lookahead(), seen, sights })
    }
}

impl Policy for Witness {
    fn name(&self) -> &'static str {
        "witness"
    }

    fn lookahead(&self) -> usize {
        self.lookahead
    }

    fn is_steady(&self) -> bool {
        false
    }

    fn rank(&mut self, ranking: &mut Ranking<'_>, nodes: &[NodeId], scores: &mut [f64]) -> Result<(), String> {
        let state = ranking.cycle.state;
        let mut sight = self.sights.0.lock().unwrap_or_else(PoisonError::into_inner);
        self.observe.begin();
        self.observe.observe(&ranking.cycle, nodes, nodes, &mut sight.observation);
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).note(&sight.observation);
        sight.loads = Loads::new(nodes.len());
        sight.nodes = nodes.iter().map(|node| state.node_name(*node).to_owned()).collect();
        for (row, node) in nodes.iter().enumerate() {
            if let Some(node) = state.node(*node) {
                sight.loads.set(row, load(node, state.telemetry.node(node.id)));
            }
        }
        scores.fill(0.0);
        Ok(())
    }
}

/// The load of a node, as measured; as asked for where nothing was.
fn load(node: &Node, known: &NodeTelemetry) -> NodeLoad {
    let share = |taken: i64, offered: i64| if offered > 0 { taken as f32 / offered as f32 } else { 0.0 };
    let used = known.usage.unwrap_or_default();
    let (offered, taken) = (&node.allocatable, &node.requested);
    NodeLoad {
        pods: node.pods.len() as f32,
        cpu: used.cpu.map_or_else(|| share(taken.cpu, offered.cpu), |(share, _)| share as f32),
        memory: used.memory.map_or_else(|| share(taken.memory, offered.memory), |(share, _)| share as f32),
        disk: share(taken.ephemeral_storage, offered.ephemeral_storage),
        latency_ms: known.latency_ms.unwrap_or(0.0) as f32,
    }
}
