//! Topologies: for each node label that makes domains (a zone, a host), the domain of every node as a dense integer.

use super::node::NodeId;
use crate::model::{LabelSet, Sym};
use rustc_hash::FxHashMap;

/// A label key that is used as a topology.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct TopologyId(u32);

/// The domain of a node that does not have the label.
pub const NO_DOMAIN: u32 = u32::MAX;

/// One topology.
#[derive(Debug)]
pub struct Topology {
    /// The node label.
    pub key: Sym,
    /// The domain of each node, by its index; [`NO_DOMAIN`] where the label is absent.
    domains: Vec<u32>,
    pub(super) by_value: FxHashMap<Sym, u32>,
    /// For each domain its label value and how many nodes are in it.
    pub(super) members: Vec<(Sym, u32)>,
    free: Vec<u32>,
    labelled: usize,
}

impl Topology {
    /// How many nodes have the label.
    pub fn labelled(&self) -> usize {
        self.labelled
    }

    /// How many nodes a domain has.
    pub fn members(&self, domain: usize) -> u32 {
        self.members.get(domain).map_or(0, |member| member.1)
    }

    /// The domain of each node, by index.
    pub fn domains(&self) -> &[u32] {
        &self.domains
    }

    /// The domain of one node.
    pub fn domain(&self, node: NodeId) -> u32 {
        self.domains.get(node.index()).copied().unwrap_or(NO_DOMAIN)
    }

    /// An upper bound of domain numbers, for arrays indexed by domain.
    pub fn domain_limit(&self) -> usize {
        self.members.len()
    }

    fn set(&mut self, node: NodeId, value: Option<Sym>) {
        let at = node.index();
        if self.domains.len() <= at {
            self.domains.resize(at + 1, NO_DOMAIN);
        }
        let before = self.domains[at];
        if before != NO_DOMAIN {
            if Some(self.members[before as usize].0) == value {
                return;
            }
            self.labelled -= 1;
            let member = &mut self.members[before as usize];
            member.1 -= 1;
            if member.1 == 0 {
                self.by_value.remove(&member.0);
                self.free.push(before);
            }
        }
        self.domains[at] = value.map_or(NO_DOMAIN, |value| self.join(value));
    }

    fn join(&mut self, value: Sym) -> u32 {
        self.labelled += 1;
        if let Some(&domain) = self.by_value.get(&value) {
            self.members[domain as usize].1 += 1;
            return domain;
        }
        let domain = match self.free.pop() {
            Some(domain) => {
                self.members[domain as usize] = (value, 1);
                domain
            }
            None => {
                self.members.push((value, 1));
                self.members.len() as u32 - 1
            }
        };
        self.by_value.insert(value, domain);
        domain
    }
}

/// All topologies that some pod or constraint has asked for.
#[derive(Debug, Default)]
pub struct Topologies {
    by_key: FxHashMap<Sym, TopologyId>,
    list: Vec<Topology>,
}

impl Topologies {
    /// The topology of a label key, built from the nodes if it is asked for the first time.
    pub fn ensure<'a>(&mut self, key: Sym, nodes: impl IntoIterator<Item = (NodeId, &'a LabelSet)>) -> TopologyId {
        if let Some(&id) = self.by_key.get(&key) {
            return id;
        }
        let id = TopologyId(self.list.len() as u32);
        let mut topology = Topology {
            key,
            domains: Vec::new(),
            by_value: FxHashMap::default(),
            members: Vec::new(),
            free: Vec::new(),
            labelled: 0,
        };
        for (node, labels) in nodes {
            topology.set(node, labels.get(key));
        }
        self.list.push(topology);
        self.by_key.insert(key, id);
        id
    }

    /// The topology of a label key, if it was asked for before.
    pub fn find(&self, key: Sym) -> Option<TopologyId> {
        self.by_key.get(&key).copied()
    }

    /// A topology.
    pub fn get(&self, id: TopologyId) -> &Topology {
        &self.list[id.0 as usize]
    }

    /// All topologies.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Topology> {
        self.list.iter()
    }

    /// A node came or its labels changed; `None` when it left.
    pub fn set_node(&mut self, node: NodeId, labels: Option<&LabelSet>) {
        for topology in &mut self.list {
            topology.set(node, labels.and_then(|labels| labels.get(topology.key)));
        }
    }
}
