//! Models of any kind as a policy: the decision is laid out as in training, with a row for every node, and whatever was trained scores it.
//!
//! The model decides alone. Where a feature lies beyond what training saw, where the model has no answer, or where its answer is no
//! number, its heuristic decides.

use super::heuristic::Heuristic;
use super::learned::Ranges;
use crate::error::LearnError;
use crate::lifetime::Predictor;
use crate::model::{Card, Weights};
use crate::observation::{Observation, Observe, View};
use plimsoll_core::policy::{Counters, Policy, Ranking};
use plimsoll_core::state::{ClusterState, NodeId};
use std::sync::Arc;

/// Scores the nodes of an observation.
pub trait Scorer: Send {
    /// A score for each row, or none where there is no answer.
    fn score(&mut self, observation: &Observation) -> Result<Option<Vec<f32>>, LearnError>;
}

#[cfg(feature = "burn")]
impl Scorer for crate::network::Network {
    fn score(&mut self, observation: &Observation) -> Result<Option<Vec<f32>>, LearnError> {
        let batch = crate::network::Batch::new(self.spec(), [observation])?;
        self.scores(&batch).map(Some)
    }
}

/// A model that looks at observations; see the description of the module.
pub struct Observing {
    observe: Box<dyn Observe>,
    /// How many pods of the queue are looked at.
    lookahead: usize,
    scorer: Box<dyn Scorer>,
    heuristic: Heuristic,
    ranges: Ranges,
    counters: Arc<Counters>,
    observation: Observation,
    /// The nodes of the rows, and the version of the nodes that they are of.
    rows: Vec<NodeId>,
    version: Option<u64>,
    /// The row of each node, by its index.
    row_of: Vec<Option<u32>>,
}

impl Observing {
    /// The model of a card, which scores with this; the weights are looked through for a predictor of lifetimes.
    pub fn new(card: &Card, weights: &Weights, scorer: impl Scorer + 'static) -> Result<Self, LearnError> {
        let predictor = Predictor::from_weights(weights).map_err(LearnError::Invalid)?;
        let view = View::of_features(&card.node_features, &card.pod_features)?;
        let features = card.node_features.len() + card.pod_features.len();
        if !card.ranges.is_empty() && card.ranges.len() != features {
            let problem = format!("it has {} ranges for {features} features", card.ranges.len());
            return Err(LearnError::Invalid(problem));
        }
        Ok(Self {
            observe: view.observe(predictor.as_ref())?,
            lookahead: view.lookahead(),
            scorer: Box::new(scorer),
            heuristic: Heuristic::new(&card.base, predictor.as_ref())?,
            ranges: Ranges(card.ranges.clone()),
            counters: Arc::default(),
            observation: Observation::default(),
            rows: Vec::new(),
            version: None,
            row_of: Vec::new(),
        })
    }

    /// Finds the rows of a cluster whose nodes came or went.
    fn follow(&mut self, state: &ClusterState) {
        let version = Some(state.node_version());
        if self.version == version {
            return;
        }
        self.version = version;
        self.rows.clear();
        self.rows.extend(state.nodes().map(|node| node.id));
        self.row_of.clear();
        self.row_of.resize(state.node_limit(), None);
        for (row, node) in self.rows.iter().enumerate() {
            self.row_of[node.index()] = Some(row as u32);
        }
    }

    fn row_of(&self, node: NodeId) -> Option<usize> {
        self.row_of.get(node.index()).copied().flatten().map(|row| row as usize)
    }

    /// Whether the pod and the nodes that may be chosen are like those that training saw.
    fn is_known(&self) -> bool {
        let seen = &self.observation;
        if !self.ranges.holds(seen.node_width, seen.pod.iter().copied()) {
            Counters::count(&self.counters.outside, 1);
            return false;
        }
        let allowed = (0..seen.node_count()).filter(|row| seen.mask[*row]);
        let outside = allowed.filter(|row| !self.ranges.holds(0, seen.node(*row).iter().copied())).count();
        Counters::count(&self.counters.nodes_outside, outside as u64);
        outside == 0
    }

    /// The model's scores of all rows, if they can be used for these nodes.
    fn answer(&mut self, nodes: &[NodeId]) -> Result<Option<Vec<f32>>, String> {
        if !self.is_known() {
            return Ok(None);
        }
        let Some(own) = self.scorer.score(&self.observation).map_err(|error| error.to_string())? else {
            Counters::count(&self.counters.outside, 1);
            return Ok(None);
        };
        let is_sound = |node: &NodeId| self.row_of(*node).is_none_or(|row| own[row].is_finite());
        if nodes.iter().all(is_sound) {
            return Ok(Some(own));
        }
        Counters::count(&self.counters.not_finite, 1);
        Ok(None)
    }
}

impl Policy for Observing {
    fn name(&self) -> &'static str {
        "learned"
    }

    fn lookahead(&self) -> usize {
        self.lookahead
    }

    fn counters(&self) -> Option<Arc<Counters>> {
        Some(Arc::clone(&self.counters))
    }

    fn rank(&mut self, ranking: &mut Ranking<'_>, nodes: &[NodeId], scores: &mut [f64]) -> Result<(), String> {
        Counters::count(&self.counters.decisions, 1);
        self.follow(ranking.cycle.state);
        self.observe.observe(&ranking.cycle, &self.rows, nodes, &mut self.observation);
        let Some(own) = self.answer(nodes)? else { return self.heuristic.rank(ranking, nodes, scores) };
        for (slot, node) in scores.iter_mut().zip(nodes) {
            *slot = self.row_of(*node).map_or(f64::NEG_INFINITY, |row| f64::from(own[row]));
        }
        Ok(())
    }
}
