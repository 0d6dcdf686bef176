//! What node-local rules said about a shape of pod, remembered for every node until the node changes.
//!
//! Pods of one template ask the same question of the same nodes. Between two of them few nodes change, so only those are
//! asked again; the rest is read from arrays.

mod standings;

pub use standings::Standings;

use crate::config::{PluginName, PluginSet};
use crate::framework::{Code, Refusal};
use crate::state::{ClusterState, NodeId};
use rustc_hash::FxHashMap;

/// Shapes that are remembered. Each takes some 60 bytes a node, so that all together stay below 4 KiB a node.
const SHAPES: usize = 64;

/// What is known of one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cell {
    /// There is no node with this index.
    Absent,
    /// No node-local rule refuses it.
    Feasible,
    /// One does.
    Refused(Refusal),
}

/// Raw scores of a plugin whose scores depend on those of all nodes.
#[derive(Debug, Default)]
pub struct RawScores {
    /// By node index.
    pub by_node: Vec<i64>,
    /// How many are not zero.
    pub nonzero: usize,
}

impl RawScores {
    fn set(&mut self, index: usize, score: i64) {
        self.nonzero -= usize::from(self.by_node[index] != 0);
        self.nonzero += usize::from(score != 0);
        self.by_node[index] = score;
    }
}

/// The answers for one shape.
#[derive(Debug, Default)]
pub struct Remembered {
    /// The answer for each node index.
    pub cells: Vec<Cell>,
    /// Weighted scores of plugins that do not normalise, summed, by node index.
    pub sums: Vec<i64>,
    /// Raw scores of those that do, in the order of the profile's score plugins.
    pub raw: Vec<RawScores>,
    feasible: Vec<NodeId>,
    feasible_is_stale: bool,
    feasible_count: usize,
    /// How many nodes each plugin refuses.
    refusals: [u32; PluginName::ALL.len()],
    /// How many nodes are refused, but not for good.
    resolvable: usize,
    known: Known,
    standings: Standings,
    standings_known: Known,
    last_used: u64,
}

/// Up to where changes are known.
#[derive(Debug, Default, PartialEq, Eq)]
struct Known {
    position: u64,
    node_version: u64,
    /// How many node indices there were; none if nothing is known yet.
    nodes: Option<usize>,
}

impl Known {
    /// The nodes that changed since, each once; none if every node is to be looked at. All is known from here on.
    fn catch_up(&mut self, state: &ClusterState, changed: &mut Vec<NodeId>) -> Option<()> {
        changed.clear();
        let (nodes, node_version) = (Some(state.node_limit()), state.node_version());
        let comparable = self.nodes == nodes && self.node_version == node_version;
        let changes = comparable.then(|| state.changes.since(self.position)).flatten();
        let caught_up = changes.map(|changes| {
            changed.extend(changes);
            changed.sort_unstable();
            changed.dedup();
        });
        *self = Self { position: state.changes.end(), node_version, nodes };
        caught_up
    }
}

impl Remembered {
    /// The feasible nodes, by index.
    pub fn feasible(&mut self) -> &[NodeId] {
        if self.feasible_is_stale {
            self.feasible_is_stale = false;
            self.feasible.clear();
            let feasible = self.cells.iter().zip(0..).filter(|(cell, _)| **cell == Cell::Feasible);
            self.feasible.extend(feasible.map(|(_, index)| NodeId::new(index)));
        }
        &self.feasible
    }

    /// How many nodes are feasible.
    pub fn feasible_count(&self) -> usize {
        self.feasible_count
    }

    /// Replaces the answer for a node.
    pub fn set_cell(&mut self, node: NodeId, cell: Cell) {
        let before = std::mem::replace(&mut self.cells[node.index()], cell);
        self.feasible_is_stale |= (before == Cell::Feasible) != (cell == Cell::Feasible);
        match before {
            Cell::Absent => {}
            Cell::Feasible => self.feasible_count -= 1,
            Cell::Refused(refusal) => {
                self.refusals[refusal.plugin as usize] -= 1;
                self.resolvable -= usize::from(refusal.code == Code::Unschedulable);
            }
        }
        match cell {
            Cell::Absent => {}
            Cell::Feasible => self.feasible_count += 1,
            Cell::Refused(refusal) => {
                self.refusals[refusal.plugin as usize] += 1;
                self.resolvable += usize::from(refusal.code == Code::Unschedulable);
            }
        }
    }

    /// The plugins that refuse a node, and how many nodes are refused, but not for good.
    pub fn refusing(&self) -> (PluginSet, usize) {
        let refusing = PluginName::ALL.into_iter().filter(|plugin| self.refusals[*plugin as usize] > 0);
        (refusing.collect(), self.resolvable)
    }

    /// Replaces the scores of a node.
    pub fn set_scores(&mut self, node: NodeId, sum: i64, raw: impl Iterator<Item = i64>) {
        self.sums[node.index()] = sum;
        for (scores, score) in self.raw.iter_mut().zip(raw) {
            scores.set(node.index(), score);
        }
    }

    /// The nodes to ask again, and marks everything as known up to now. `raw` is how many plugins keep raw scores.
    pub fn take_stale(&mut self, state: &ClusterState, raw: usize, stale: &mut Vec<NodeId>) {
        if self.known.catch_up(state, stale).is_none() {
            let limit = state.node_limit();
            self.cells.clear();
            self.cells.resize(limit, Cell::Absent);
            self.sums.clear();
            self.sums.resize(limit, 0);
            self.raw.clear();
            self.raw.resize_with(raw, || RawScores { by_node: vec![0; limit], nonzero: 0 });
            self.feasible_is_stale = true;
            self.feasible_count = 0;
            self.refusals = Default::default();
            self.resolvable = 0;
            stale.extend(state.nodes().map(|node| node.id));
        }
    }

    /// The standings, brought up to date: `score` is asked for the scores of feasible nodes that changed. The answers
    /// must be up to date already.
    pub fn standings<E>(
        &mut self,
        state: &ClusterState,
        changed: &mut Vec<NodeId>,
        score: impl FnOnce(&Self, &[NodeId]) -> Result<Vec<f64>, E>,
    ) -> Result<&Standings, E> {
        let caught_up = self.standings_known.catch_up(state, changed).is_some();
        if !caught_up {
            changed.extend_from_slice(self.feasible());
        }
        let is_feasible = |node: &NodeId| self.cells[node.index()] == Cell::Feasible;
        let feasible: Vec<_> = changed.iter().copied().filter(is_feasible).collect();
        let scores = score(self, &feasible).inspect_err(|_| self.standings_known = Known::default())?;
        if caught_up {
            for &node in &*changed {
                if self.cells[node.index()] != Cell::Feasible {
                    self.standings.set(node, None);
                }
            }
            for (&node, score) in feasible.iter().zip(scores) {
                self.standings.set(node, Some(score));
            }
        } else {
            self.standings.reset(state.node_limit());
            self.standings.fill(feasible.into_iter().zip(scores));
        }
        Ok(&self.standings)
    }

    /// Scores are not what they were, though no node changed.
    fn forget_standings(&mut self) {
        self.standings_known = Known::default();
    }
}

/// Remembered answers by shape, the least recently used forgotten first.
#[derive(Debug, Default)]
pub struct Memory {
    shapes: FxHashMap<u64, Remembered>,
    clock: u64,
}

impl Memory {
    /// What is remembered of a shape: empty if nothing is.
    pub fn recall(&mut self, local_id: u64) -> &mut Remembered {
        self.clock += 1;
        if self.shapes.len() >= SHAPES && !self.shapes.contains_key(&local_id) {
            let oldest = self.shapes.iter().min_by_key(|(id, known)| (known.last_used, **id)).map(|(id, _)| *id);
            if let Some(oldest) = oldest {
                self.shapes.remove(&oldest);
            }
        }
        let known = self.shapes.entry(local_id).or_default();
        known.last_used = self.clock;
        known
    }

    /// Nodes will be ranked otherwise.
    pub fn forget_standings(&mut self) {
        #[expect(clippy::iter_over_hash_type, reason = "all of them alike")]
        for known in self.shapes.values_mut() {
            known.forget_standings();
        }
    }
}
