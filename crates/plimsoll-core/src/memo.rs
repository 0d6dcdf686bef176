//! What node-local rules said about a shape of pod, remembered for every node until the node changes.
//!
//! Pods of one template ask the same question of the same nodes. Between two of them few nodes change, so only those are
//! asked again; the rest is read from arrays.

use crate::framework::Refusal;
use crate::state::{ClusterState, NodeId};
use rustc_hash::FxHashMap;

/// What remembered answers may take, for each node: enough for some sixty shapes.
const BYTES_PER_NODE: usize = 2048;
/// What one shape takes, for each node: an answer, a sum, a raw score and a place in the feasible list.
const BYTES_PER_CELL: usize = 32;
/// At least this many shapes are remembered, however small the cluster.
const MIN_SHAPES: usize = 16;

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
    position: u64,
    node_version: u64,
    last_used: u64,
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

    /// Replaces the answer for a node.
    pub fn set_cell(&mut self, node: NodeId, cell: Cell) {
        let known = &mut self.cells[node.index()];
        self.feasible_is_stale |= (*known == Cell::Feasible) != (cell == Cell::Feasible);
        *known = cell;
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
        stale.clear();
        let limit = state.node_limit();
        let changes = (self.node_version == state.node_version() && self.cells.len() == limit)
            .then(|| state.changes.since(self.position))
            .flatten();
        match changes {
            Some(changes) => {
                stale.extend(changes);
                stale.sort_unstable();
                stale.dedup();
            }
            None => {
                self.cells.clear();
                self.cells.resize(limit, Cell::Absent);
                self.sums.clear();
                self.sums.resize(limit, 0);
                self.raw.clear();
                self.raw.resize_with(raw, || RawScores { by_node: vec![0; limit], nonzero: 0 });
                self.feasible_is_stale = true;
                stale.extend(state.nodes().map(|node| node.id));
            }
        }
        self.position = state.changes.end();
        self.node_version = state.node_version();
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
    pub fn recall(&mut self, local_id: u64, node_limit: usize) -> &mut Remembered {
        self.clock += 1;
        let capacity = (BYTES_PER_NODE / BYTES_PER_CELL).max(MIN_SHAPES);
        if self.shapes.len() >= capacity && !self.shapes.contains_key(&local_id) && node_limit > 0 {
            let oldest = self.shapes.iter().min_by_key(|(id, known)| (known.last_used, **id)).map(|(id, _)| *id);
            if let Some(oldest) = oldest {
                self.shapes.remove(&oldest);
            }
        }
        let known = self.shapes.entry(local_id).or_default();
        known.last_used = self.clock;
        known
    }
}
