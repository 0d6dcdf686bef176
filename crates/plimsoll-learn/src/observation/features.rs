//! The features by name. What is not known of a node or pod is zero.
//!
//! Features of a node are in three groups: those that change only when the node does, which a network may remember its answer to; those that
//! move with time; and those that depend on the pod.

/// When a feature of a node changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Changes {
    /// With the node.
    WithNode,
    /// With time, too.
    WithTime,
    /// With the pod, too.
    WithPod,
}

use Changes::{WithNode, WithPod, WithTime};

/// A feature of nodes: its name, when it changes, and what it is. Its place here is its place among all that is known of a node.
pub const NODE_FEATURES: [(&str, Changes, &str); 31] = [
    ("cpu-free", WithNode, "share of the CPU that is not asked for"),
    ("memory-free", WithNode, "share of the memory that is not asked for"),
    ("disk-free", WithNode, "share of the ephemeral storage that is not asked for"),
    ("pods", WithNode, "pods on the node: log2(1 + pods) / 8"),
    ("empty", WithNode, "1 if no pod is on the node"),
    ("threads", WithNode, "size: log2(threads) / 8"),
    ("watts-per-thread", WithNode, "watts a thread at the best load, / 10"),
    ("idle-watts", WithNode, "watts a thread without load, / 10"),
    ("latency", WithNode, "milliseconds to the user, / 100"),
    ("price", WithNode, "price of an hour and thread, x 10"),
    ("carbon", WithNode, "grams of carbon dioxide a kWh, / 1000"),
    ("gpus-whole", WithNode, "GPUs that are free as a whole, / 8"),
    ("gpus-part", WithNode, "shares of GPUs that are free beside those, / 8"),
    ("awake", WithTime, "how long the node is awake: log2(1 + hours) / 8; 0 asleep"),
    ("remaining", WithTime, "how long the pods on it will keep it busy: log2(1 + 12 x hours) / 8"),
    ("cpu-left", WithPod, "share of the CPU that is left with the pod"),
    ("memory-left", WithPod, "share of the memory that is left with the pod"),
    ("rise", WithPod, "watts that the pod adds now, waking counted, for each core that it asks for, / 20"),
    ("extension", WithPod, "how much longer the node is busy with the pod: log2(1 + 12 x hours) / 8"),
    ("extension-share", WithPod, "the same as a share of the pod's life"),
    ("extra-kwh", WithPod, "energy that the pod will cost here: log2(1 + 10 x kWh for each core) / 8"),
    ("extra-cost", WithPod, "money that the pod will cost here: log2(1 + 100 x price for each core) / 8"),
    ("over-soft", WithPod, "latency above what the pod finds pleasant, as a share of it, from -1 to 2"),
    ("over-hard", WithPod, "latency above what the pod can bear, as a share of it, from -1 to 2"),
    ("fragmentation", WithPod, "thousandths of GPUs that become useless to pods to come, / 1000"),
    ("siblings", WithPod, "pods of the same owner on the node: log2(1 + pods) / 8"),
    ("away", WithPod, "1 if the node belongs to another cluster than the one that the pod comes from"),
    ("distance", WithPod, "milliseconds between those two clusters, / 100"),
    ("transfer", WithPod, "money an hour for traffic between them, for each core, x 10"),
    (
        "calls",
        WithPod,
        "how often the pod's service and those on the node call each other for a request of a user, / 10",
    ),
    ("latency-ahead", WithPod, "milliseconds to the user over the pod's life, as the days before tell, / 100"),
];

/// The features of a pod, with what each is.
pub const POD_FEATURES: [(&str, &str); 14] = [
    ("cpu", "log2(cores) / 4"),
    ("memory", "log2(GiB) / 4"),
    ("gpu", "GPUs that it asks for, shares added up, / 8"),
    ("life", "how long it will run: log2(1 + 12 x hours) / 8"),
    ("short", "the chance that it is gone in an hour"),
    ("group", "pods of its owner: log2(1 + pods) / 8"),
    ("priority", "1 if its priority is above zero"),
    ("soft", "latency that it finds pleasant, ms / 100"),
    ("hard", "latency that it can bear, ms / 100"),
    ("load", "share of the cluster's CPU that is asked for"),
    ("busy", "share of the nodes that run a pod"),
    ("upcoming", "pods that wait beside it, 63 at most: log2(1 + pods) / 8"),
    ("next-cpu", "mean cores of those, log2 / 4"),
    ("next-memory", "mean GiB of those, log2 / 4"),
];

/// How many features change only with the node; they come first.
pub const STATIC_FEATURES: usize = 13;

/// The place of `empty`.
pub const EMPTY: usize = 4;
/// The place of `watts-per-thread`.
pub const WATTS_PER_THREAD: usize = 6;
/// The place of `awake`.
pub const AWAKE: usize = 13;
/// The place of `cpu-left`.
pub const CPU_LEFT: usize = 15;
/// The place of `rise`.
pub const RISE: usize = 17;
/// The place of `extension`.
pub const EXTENSION: usize = 18;
/// The place of `extra-kwh`.
pub const EXTRA_KWH: usize = 20;
/// The place of `extra-cost`.
pub const EXTRA_COST: usize = 21;
/// The place of `fragmentation`.
pub const FRAGMENTATION: usize = 24;
/// The place of `siblings`.
pub const SIBLINGS: usize = 25;
/// The place of `calls`.
pub const CALLS: usize = 29;
/// The place of `latency-ahead`.
pub const LATENCY_AHEAD: usize = 30;

/// How many pods of the queue the features of those that wait look at, the one to be placed included: a burst is told from a trickle, and a long
/// queue costs no more than a short one.
pub const LOOKAHEAD: usize = 64;
/// The features of those that wait.
const OF_THE_QUEUE: [&str; 3] = ["upcoming", "next-cpu", "next-memory"];

/// How many pods of the queue these features of a pod look at, the one to be placed included.
pub fn lookahead(pod_features: &[usize]) -> usize {
    let looks = pod_features.iter().any(|at| OF_THE_QUEUE.contains(&POD_FEATURES[*at].0));
    if looks { LOOKAHEAD } else { 1 }
}

/// A set of features of nodes. What nobody asked for is not worked out where that takes time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wanted(u32);

impl Wanted {
    /// These features, by their places.
    pub fn these(features: &[usize]) -> Self {
        Self(features.iter().fold(0, |set, feature| set | 1 << feature))
    }

    /// These features, and another.
    pub fn and(self, feature: usize) -> Self {
        Self(self.0 | 1 << feature)
    }

    /// Whether a feature is among them.
    pub fn has(self, feature: usize) -> bool {
        self.0 & 1 << feature != 0
    }
}

/// The place of a feature of nodes.
pub fn node_feature(name: &str) -> Option<usize> {
    NODE_FEATURES.iter().position(|(known, ..)| *known == name)
}

/// The place of a feature of pods.
pub fn pod_feature(name: &str) -> Option<usize> {
    POD_FEATURES.iter().position(|(known, _)| *known == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_ordered_by_when_they_change_and_named_once() {
        assert!(NODE_FEATURES.windows(2).all(|pair| pair[0].1 <= pair[1].1));
        assert_eq!(NODE_FEATURES.iter().filter(|(_, changes, _)| *changes == WithNode).count(), STATIC_FEATURES);
        for (name, place) in [
            ("empty", EMPTY),
            ("watts-per-thread", WATTS_PER_THREAD),
            ("awake", AWAKE),
            ("cpu-left", CPU_LEFT),
            ("rise", RISE),
            ("extension", EXTENSION),
            ("extra-kwh", EXTRA_KWH),
            ("extra-cost", EXTRA_COST),
            ("fragmentation", FRAGMENTATION),
            ("siblings", SIBLINGS),
            ("calls", CALLS),
            ("latency-ahead", LATENCY_AHEAD),
        ] {
            assert_eq!(node_feature(name), Some(place));
        }
        for (at, (name, ..)) in NODE_FEATURES.iter().enumerate() {
            assert_eq!(node_feature(name), Some(at));
        }
        for (at, (name, _)) in POD_FEATURES.iter().enumerate() {
            assert_eq!(pod_feature(name), Some(at));
        }
    }
}
