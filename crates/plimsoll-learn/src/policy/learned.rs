//! The learned policy: a heuristic's score plus the network's, within bounds.

use super::base::{Base, normalise};
use super::fused::{Factored, Sizes};
use crate::lifetime::Predictor;
use crate::model::{Card, Weights};
use crate::observation::features::{
    self, NODE_FEATURES, POD_FEATURES, STATIC_FEATURES, Wanted, node_feature, pod_feature,
};
use crate::observation::{Encoder, Observation, PodFacts};
use plimsoll_core::framework::Cycle;
use plimsoll_core::policy::{Clock, Counters, Policy, Ranking};
use plimsoll_core::state::{Node, NodeId};
use plimsoll_core::telemetry::ClusterId;
use std::sync::Arc;
use std::time::Duration;

/// What a learned policy is made of.
#[derive(Debug, Clone)]
pub struct Parts {
    /// The features of a node that the network reads, by their place; those that change only with the node first.
    pub node_features: Vec<usize>,
    /// The features of a pod that the network reads, by their place.
    pub pod_features: Vec<usize>,
    /// The network.
    pub network: Factored,
    /// The predictor of lifetimes.
    pub predictor: Predictor,
    /// The heuristic, by name.
    pub base: String,
    /// How far the network may go against the heuristic, in its unit.
    pub trust: f64,
    /// Whether the network decides alone, the heuristic only where the network is not asked.
    pub alone: bool,
    /// What training saw of each feature; beyond, the network is not asked. Empty if it may be asked always.
    pub ranges: Ranges,
}

/// The least and greatest value of each feature of nodes, then of pods.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ranges(pub Vec<(f32, f32)>);

/// How far beyond what training saw a feature may lie, as a share of the range.
const MARGIN: f32 = 0.25;

impl Ranges {
    /// Ranges that nothing was seen in.
    pub fn nothing(features: usize) -> Self {
        Self(vec![(f32::INFINITY, f32::NEG_INFINITY); features])
    }

    /// Takes a value in.
    pub(crate) fn widen(&mut self, at: usize, value: f32) {
        if let Some((least, most)) = self.0.get_mut(at) {
            *least = least.min(value);
            *most = most.max(value);
        }
    }

    /// Takes in what an observation shows.
    pub(crate) fn note(&mut self, seen: &Observation) {
        for row in seen.nodes.chunks_exact(seen.node_width.max(1)) {
            row.iter().enumerate().for_each(|(at, value)| self.widen(at, *value));
        }
        seen.pod.iter().enumerate().for_each(|(at, value)| self.widen(seen.node_width + at, *value));
    }

    /// Takes in what another saw.
    pub fn join(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = (mine.0.min(theirs.0), mine.1.max(theirs.1));
        }
    }

    pub(crate) fn holds(&self, first: usize, values: impl IntoIterator<Item = f32>) -> bool {
        let ranges = self.0.get(first..).unwrap_or_default();
        values.into_iter().zip(ranges).all(|(value, (least, most))| {
            let margin = (most - least) * MARGIN + 0.01;
            value >= least - margin && value <= most + margin
        })
    }
}

/// What a policy saw in a run. It is handed over with the policy's end: runs side by side do not wait for each other.
struct Seen {
    own: Ranges,
    into: Arc<std::sync::Mutex<Ranges>>,
}

impl Drop for Seen {
    fn drop(&mut self) {
        if let Ok(mut into) = self.into.lock() {
            into.join(&self.own);
        }
    }
}

/// A learned policy; see the description of the module.
pub struct Learned {
    parts: Parts,
    base: Base,
    encoder: Encoder,
    counters: Arc<Counters>,
    deadline: Option<(Clock, Duration)>,
    /// What was seen, while training.
    seen: Option<Seen>,
    static_inputs: usize,
    learned: Vec<f32>,
    base_scores: Vec<f64>,
    row: Vec<f32>,
    /// The rows of a decision, while they are noted.
    rows: Vec<f32>,
}

impl Parts {
    /// Puts a model together; an error says what does not fit.
    pub fn from_card(card: &Card, weights: &Weights) -> Result<Self, String> {
        if card.network.kind != "factored" {
            return Err(format!("its network is {:?}; a scheduler runs \"factored\" ones", card.network.kind));
        }
        let node_features = find("node", &card.node_features, node_feature, NODE_FEATURES.map(|(name, ..)| name))?;
        let pod_features = find("pod", &card.pod_features, pod_feature, POD_FEATURES.map(|(name, _)| name))?;
        if node_features.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err(
                "its features of nodes are out of order: those that change only with the node come first".into()
            );
        }
        let size = |name: &str| card.network.sizes.get(name).copied().unwrap_or(0);
        let sizes = sizes(&node_features, &pod_features, size("tower"), size("hidden"));
        let network = Factored::new(&sizes, weights)?;
        let predictor = Predictor::from_weights(weights)?.ok_or("it has no predictor of lifetimes")?;
        let features = node_features.len() + pod_features.len();
        if !card.ranges.is_empty() && card.ranges.len() != features {
            return Err(format!("it has {} ranges for {features} features", card.ranges.len()));
        }
        if Base::by_name(&card.base).is_none() {
            return Err(format!("it builds on {:?}, which is not known", card.base));
        }
        if !card.trust.is_finite() || card.trust < 0.0 {
            return Err(format!("its trust is {}; it must be a number from 0 on", card.trust));
        }
        let ranges = Ranges(card.ranges.clone());
        let (base, trust, alone) = (card.base.clone(), card.trust, card.alone);
        Ok(Self { node_features, pod_features, network, predictor, base, trust, alone, ranges })
    }
}

/// The sizes of a network over these features.
pub fn sizes(node_features: &[usize], pod_features: &[usize], tower: usize, hidden: usize) -> Sizes {
    let tower_inputs = node_features.iter().filter(|feature| **feature < STATIC_FEATURES).count();
    Sizes { tower_inputs, node: node_features.len(), pod: pod_features.len(), tower, hidden }
}

fn find<const N: usize>(
    what: &str,
    names: &[String],
    place: fn(&str) -> Option<usize>,
    known: [&str; N],
) -> Result<Vec<usize>, String> {
    let unknown =
        |name: &String| format!("its {what} feature {name:?} is not known here; there are {}", known.join(", "));
    names.iter().map(|name| place(name).ok_or_else(|| unknown(name))).collect()
}

impl Learned {
    /// A policy of these parts.
    pub fn new(parts: Parts) -> Self {
        let base = Base::by_name(&parts.base).unwrap_or(Base::ExpectedHours);
        Self {
            encoder: Encoder::new(parts.predictor.clone(), base.wants(Wanted::these(&parts.node_features))),
            base,
            counters: Arc::default(),
            deadline: None,
            seen: None,
            static_inputs: parts.node_features.iter().filter(|feature| **feature < STATIC_FEATURES).count(),
            learned: Vec::new(),
            base_scores: Vec::new(),
            row: Vec::new(),
            rows: Vec::new(),
            parts,
        }
    }

    /// Notes what values features take, for the card of a model in training; handed over when the policy is dropped.
    pub fn note_ranges(&mut self, into: Arc<std::sync::Mutex<Ranges>>) {
        let own = Ranges::nothing(self.parts.node_features.len() + self.parts.pod_features.len());
        self.seen = Some(Seen { own, into });
    }

    fn gather(features: &[usize], row: &[f32], into: &mut Vec<f32>) {
        into.clear();
        into.extend(features.iter().map(|feature| row[*feature]));
    }

    /// Tells the network of nodes that changed.
    fn follow(&mut self, ranking: &Ranking<'_>) {
        let mut features = Vec::with_capacity(self.static_inputs);
        for at in 0..self.encoder.follow(ranking.cycle.state).len() {
            let id = self.encoder.changed()[at];
            match self.encoder.static_row(id) {
                Some(row) => {
                    Self::gather(&self.parts.node_features[..self.static_inputs], row, &mut features);
                    self.parts.network.renew(id.index(), Some(&features));
                }
                None => self.parts.network.renew(id.index(), None),
            }
        }
    }

    fn note(&mut self, pod: &[f32]) {
        let Some(Seen { own: seen, .. }) = &mut self.seen else { return };
        let width = self.parts.node_features.len();
        for row in self.rows.chunks_exact(width) {
            row.iter().enumerate().for_each(|(at, value)| seen.widen(at, *value));
        }
        pod.iter().enumerate().for_each(|(at, value)| seen.widen(width + at, *value));
    }
}

/// Nodes between two looks at the clock.
const NODES_A_LOOK: usize = 256;

/// An empty node and its scores: another that is like it is not looked at again.
#[derive(Clone, Copy)]
struct Empty {
    row: [f32; STATIC_FEATURES],
    awake_since: Option<Duration>,
    cluster: Option<ClusterId>,
    latency_ahead: Option<f32>,
    base: f64,
    learned: f32,
}

/// A decision under way.
struct Judging<'a> {
    cycle: &'a Cycle<'a>,
    pod: &'a PodFacts,
    asks_network: bool,
    empty: Option<Empty>,
    begun: Option<Duration>,
    outside: u64,
}

impl Learned {
    /// The heuristic's score of a node, unless the engine gave it, and the network's.
    fn judge(&mut self, judging: &mut Judging<'_>, node: &Node) -> (f64, f32) {
        let row = self.encoder.static_row(node.id).filter(|_| node.pods.is_empty()).copied();
        let told = judging.cycle.state.telemetry.node(node.id);
        let (awake_since, cluster) = (told.awake_since, told.cluster);
        // What a pod pays on a virtual node is its own matter.
        let row = row.filter(|_| !told.is_virtual());
        let latency_ahead = row.and_then(|_| self.encoder.latency_ahead(judging.pod, node.id));
        if let (Some(row), Some(empty)) = (row, judging.empty)
            && empty.row == row
            && (empty.awake_since, empty.cluster, empty.latency_ahead) == (awake_since, cluster, latency_ahead)
        {
            return (empty.base, empty.learned);
        }
        let facts = self.encoder.node(judging.cycle, judging.pod, node);
        let base = self.base.score(&facts);
        let mut learned = 0.0;
        if judging.asks_network {
            Self::gather(&self.parts.node_features, &facts.row, &mut self.row);
            if self.parts.ranges.holds(0, self.row.iter().copied()) {
                learned = self.parts.network.score(node.id.index(), &self.row);
            } else {
                judging.outside += 1;
            }
            if self.seen.is_some() {
                self.rows.extend_from_slice(&self.row);
            }
            if !learned.is_finite() {
                Counters::count(&self.counters.not_finite, 1);
                judging.asks_network = false;
            }
        }
        if let Some(row) = row {
            judging.empty = Some(Empty { row, awake_since, cluster, latency_ahead, base, learned });
        }
        (base, learned)
    }

    /// Whether the time for the decision is over.
    fn is_late(&self, begun: Option<Duration>) -> bool {
        match (&self.deadline, begun) {
            (Some((clock, after)), Some(begun)) => clock().saturating_sub(begun) > *after,
            _ => false,
        }
    }

    /// The scores of an engine's policy, between 0 and 1; nothing if the heuristic is another.
    fn rank_by_engine(&mut self, ranking: &mut Ranking<'_>, nodes: &[NodeId]) -> Result<bool, String> {
        self.base_scores.clear();
        self.base_scores.resize(nodes.len(), 0.0);
        let Base::Engine(policy) = &mut self.base else { return Ok(false) };
        policy.rank(ranking, nodes, &mut self.base_scores)?;
        normalise(&mut self.base_scores);
        Ok(true)
    }
}

impl Policy for Learned {
    fn name(&self) -> &'static str {
        "learned"
    }

    fn lookahead(&self) -> usize {
        features::lookahead(&self.parts.pod_features)
    }

    fn counters(&self) -> Option<Arc<Counters>> {
        Some(Arc::clone(&self.counters))
    }

    fn judges_apart(&self) -> bool {
        // Scores of the engine's policies are brought to between 0 and 1 over all nodes; a network that is alone is left out where one node is odd.
        !matches!(self.base, Base::Engine(_)) && !self.parts.alone
    }

    fn set_deadline(&mut self, clock: Clock, after: Duration) {
        self.deadline = Some((clock, after));
    }

    fn rank(&mut self, ranking: &mut Ranking<'_>, nodes: &[NodeId], scores: &mut [f64]) -> Result<(), String> {
        Counters::count(&self.counters.decisions, 1);
        let begun = self.deadline.as_ref().map(|(clock, _)| clock());
        self.follow(ranking);
        let by_engine = self.rank_by_engine(ranking, nodes)?;
        let cycle = &ranking.cycle;
        let pod = self.encoder.pod(cycle);
        let mut features = Vec::with_capacity(self.parts.pod_features.len());
        Self::gather(&self.parts.pod_features, &pod.row, &mut features);
        let asks_network = self.parts.ranges.holds(self.parts.node_features.len(), features.iter().copied());
        Counters::count(&self.counters.outside, u64::from(!asks_network));
        self.parts.network.begin(&features);
        self.learned.clear();
        self.rows.clear();
        let mut judging = Judging { cycle, pod: &pod, asks_network, empty: None, begun, outside: 0 };
        for (at, id) in nodes.iter().enumerate() {
            let Some(node) = cycle.state.node(*id) else {
                self.base_scores[at] = f64::NEG_INFINITY;
                self.learned.push(0.0);
                continue;
            };
            let (base, learned) = self.judge(&mut judging, node);
            if !by_engine {
                self.base_scores[at] = base;
            }
            self.learned.push(learned);
            if at % NODES_A_LOOK == NODES_A_LOOK - 1 && judging.asks_network && self.is_late(judging.begun) {
                Counters::count(&self.counters.late, 1);
                judging.asks_network = false;
            }
        }
        Counters::count(&self.counters.nodes_outside, judging.outside);
        self.note(&features);
        if self.parts.alone && judging.asks_network && judging.outside == 0 {
            for ((slot, base), learned) in scores.iter_mut().zip(&self.base_scores).zip(&self.learned) {
                // A node that is gone has no score from either.
                *slot = if *base == f64::NEG_INFINITY { *base } else { f64::from(*learned) };
            }
            return Ok(());
        }
        let trust = if judging.asks_network && !self.parts.alone { self.parts.trust } else { 0.0 };
        for ((slot, base), learned) in scores.iter_mut().zip(&self.base_scores).zip(&self.learned) {
            // Within one unit either way, so that the network cannot go further against the heuristic than it is trusted to.
            let learned = if trust > 0.0 { f64::from(learned.clamp(-1.0, 1.0)) } else { 0.0 };
            *slot = base + trust * learned;
        }
        Ok(())
    }
}
