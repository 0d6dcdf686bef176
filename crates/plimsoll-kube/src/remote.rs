//! Virtual nodes: nodes that stand for another cluster, as Liqo and other virtual kubelets make them. They are recognised here, with the cluster they stand for, what it costs and how far it
//! is; and what is taken on one of them is reckoned as taken on the others that stand for the same cluster. Only policies look at that: the rules are Kubernetes' own.

use crate::world::has_labels;
use k8s_openapi::api::core::v1::{Node, Pod};
use plimsoll_core::engine::Engine;
use plimsoll_core::state::{ClusterState, NodeId};
use plimsoll_core::telemetry::Shared;
use std::collections::{BTreeMap, BTreeSet};

/// Labels that only virtual nodes have. `kubernetes.io/role=agent`, which virtual kubelets set, too, is on machines of some clouds.
const VIRTUAL: [(&str, &str); 3] =
    [("liqo.io/type", "virtual-node"), ("type", "virtual-kubelet"), ("plimsoll.dev/virtual", "true")];
/// The taint that virtual kubelets put on their nodes.
const PROVIDER: &str = "virtual-kubelet.io/provider";
/// The labels that name the cluster of a node, the first that is there counting.
const CLUSTER: [&str; 2] = ["liqo.io/remote-cluster-id", "plimsoll.dev/cluster"];
/// The annotation of a virtual node that says what an hour of a core costs.
const PRICE: &str = "plimsoll.dev/price-per-core";
/// The annotation of a virtual node that says how far users are, in milliseconds.
const LATENCY: &str = "plimsoll.dev/latency-ms";
/// The label or annotation of a pod that names the cluster it comes from.
const HOME: &str = "plimsoll.dev/home";

/// What is known of clusters and the virtual nodes that stand for them.
#[derive(Debug, Clone, PartialEq)]
pub struct Clusters {
    /// What this cluster is called.
    pub name: String,
    /// Nodes that have all labels of one of these are virtual, beside those that are known to be.
    pub virtual_nodes: Vec<BTreeMap<String, String>>,
    /// The label that names the cluster of a node, before those that are known.
    pub label: Option<String>,
    /// Whether virtual nodes of one cluster share its capacity; each has its own if not.
    pub shares_capacity: bool,
    /// What other clusters are like, by name.
    pub remotes: BTreeMap<String, Remote>,
}

impl Default for Clusters {
    fn default() -> Self {
        Self {
            name: "local".to_owned(),
            virtual_nodes: Vec::new(),
            label: None,
            shares_capacity: true,
            remotes: BTreeMap::new(),
        }
    }
}

/// What another cluster is like.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Remote {
    /// What an hour of a core costs there.
    pub price_per_core: Option<f64>,
    /// Milliseconds to users.
    pub latency_ms: Option<f64>,
}

impl Clusters {
    /// Whether a node stands for another cluster.
    pub fn is_virtual(&self, node: &Node) -> bool {
        let labels = node.metadata.labels.as_ref();
        let has =
            |(key, value): &(&str, &str)| labels.and_then(|all| all.get(*key)).is_some_and(|known| known == value);
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
        VIRTUAL.iter().any(has)
            || taints.into_iter().flatten().any(|taint| taint.key == PROVIDER)
            || self.virtual_nodes.iter().any(|wanted| !wanted.is_empty() && has_labels(node, wanted))
    }

    /// The cluster that a node belongs to, or stands for. A virtual node that does not say so stands for one of its own.
    pub fn cluster_of(&self, node: &Node) -> String {
        let labels = node.metadata.labels.as_ref();
        let keys = self.label.as_deref().into_iter().chain(CLUSTER);
        let named = keys.filter_map(|key| labels?.get(key)).find(|name| !name.is_empty());
        let own =
            || if self.is_virtual(node) { node.metadata.name.clone().unwrap_or_default() } else { self.name.clone() };
        named.cloned().unwrap_or_else(own)
    }

    /// What a virtual node is like: by its annotations, then by what is known of its cluster.
    pub fn remote_of(&self, node: &Node) -> Option<Remote> {
        if !self.is_virtual(node) {
            return None;
        }
        let annotations = node.metadata.annotations.as_ref();
        let number = |key: &str| {
            let number = annotations?.get(key)?.parse::<f64>().ok();
            number.filter(|number| number.is_finite() && *number >= 0.0)
        };
        let known = self.remotes.get(&self.cluster_of(node)).copied().unwrap_or_default();
        Some(Remote {
            price_per_core: number(PRICE).or(known.price_per_core),
            latency_ms: number(LATENCY).or(known.latency_ms),
        })
    }

    /// The cluster that a pod comes from: this one, unless it says otherwise.
    pub fn home_of(&self, pod: &Pod) -> String {
        let named =
            [&pod.metadata.labels, &pod.metadata.annotations].into_iter().find_map(|all| all.as_ref()?.get(HOME));
        named.filter(|name| !name.is_empty()).unwrap_or(&self.name).clone()
    }
}

/// The virtual nodes that are there, by the cluster they stand for.
#[derive(Debug, Default)]
pub struct Siblings {
    by_cluster: BTreeMap<String, BTreeSet<String>>,
    cluster_of: BTreeMap<String, String>,
}

impl Siblings {
    /// A node stands for this cluster, or for none.
    pub fn set(&mut self, node: &str, cluster: Option<&str>) {
        if self.cluster_of.get(node).map(String::as_str) == cluster {
            return;
        }
        if let Some(before) = self.cluster_of.remove(node)
            && let Some(nodes) = self.by_cluster.get_mut(&before)
        {
            nodes.remove(node);
            if nodes.is_empty() {
                self.by_cluster.remove(&before);
            }
        }
        if let Some(cluster) = cluster {
            self.cluster_of.insert(node.to_owned(), cluster.to_owned());
            self.by_cluster.entry(cluster.to_owned()).or_default().insert(node.to_owned());
        }
    }

    /// Tells policies what of every virtual node is taken on others of its cluster, where that changed.
    pub fn tell_all(&self, engine: &mut Engine, shares_capacity: bool) {
        for nodes in self.by_cluster.values() {
            tell(engine, nodes, shares_capacity);
        }
    }

    /// The same for the cluster of one virtual node.
    pub fn tell_of(&self, engine: &mut Engine, node: NodeId, shares_capacity: bool) {
        let cluster = self.cluster_of.get(engine.state().node_name(node));
        if let Some(nodes) = cluster.and_then(|cluster| self.by_cluster.get(cluster)) {
            tell(engine, nodes, shares_capacity);
        }
    }
}

/// CPU and memory, in thousandths of a core and bytes.
type Amounts = [i64; 2];

fn tell(engine: &mut Engine, nodes: &BTreeSet<String>, shares_capacity: bool) {
    let state = &mut engine.scheduler().state;
    let of = |state: &ClusterState, name: &String| -> Option<(NodeId, Amounts, Amounts)> {
        let node = state.node(state.node_named(name)?)?;
        let (offered, taken) = (&node.allocatable, &node.requested);
        Some((node.id, [offered.cpu, offered.memory], [taken.cpu, taken.memory]))
    };
    let all: Vec<_> = nodes.iter().filter_map(|name| of(state, name)).collect();
    // Each of those that share offers what the cluster has for them, or a part of it.
    let whole: Amounts = [0, 1].map(|at| all.iter().map(|(_, offered, _)| offered[at]).max().unwrap_or(0));
    let taken: Amounts = [0, 1].map(|at| all.iter().map(|(.., taken)| taken[at]).sum());
    for (id, offered, own) in &all {
        let elsewhere = [0, 1].map(|at| {
            let (free_here, free_in_all) = (offered[at] - own[at], whole[at] - taken[at]);
            (free_here - free_in_all).clamp(0, free_here.max(0))
        });
        let shared = match shares_capacity {
            true => Shared { cpu: elsewhere[0], memory: elsewhere[1], among: all.len() as u32 },
            false => Shared::default(),
        };
        if state.telemetry.node(*id).shared != Some(shared) {
            state.tell(*id, |known| known.shared = Some(shared));
        }
    }
}

#[cfg(test)]
mod tests;
