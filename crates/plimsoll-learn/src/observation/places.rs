//! Zones and regions as small numbers.

use plimsoll_core::model::intern::Sym;
use plimsoll_core::state::{ClusterState, Node};

/// Numbers zones and regions as they are met; 0 is a node that has none.
#[derive(Debug, Clone)]
pub struct Places {
    known: Vec<Sym>,
}

impl Default for Places {
    fn default() -> Self {
        Self { known: vec![Sym::EMPTY] }
    }
}

impl Places {
    /// Forgets all: another cluster has other names.
    pub fn clear(&mut self) {
        self.known.truncate(1);
    }

    /// The zone and the region of a node.
    pub fn of(&mut self, state: &ClusterState, node: &Node) -> [u32; 2] {
        let keys = state.well_known;
        [keys.zone, keys.region].map(|key| self.number(node.spec.labels.get(key).unwrap_or(Sym::EMPTY)))
    }

    fn number(&mut self, name: Sym) -> u32 {
        // A cluster has a handful of zones.
        let at = self.known.iter().position(|known| *known == name).unwrap_or_else(|| {
            self.known.push(name);
            self.known.len() - 1
        });
        at as u32
    }
}
