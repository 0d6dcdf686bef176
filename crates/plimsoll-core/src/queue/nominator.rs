//! Pods for which room is being made on a node. While they wait, others treat them as if they ran there.

use std::hash::Hash;

use rustc_hash::FxHashMap;

/// What an attempt says about a pod's nomination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nomination<N> {
    /// Nothing: what the pod's status says holds.
    FromStatus,
    /// This node, whatever the status says until the update arrives.
    Node(N),
    /// No node, whatever the status says until the update arrives.
    None,
}

/// Which pods are nominated to which nodes.
#[derive(Clone, Debug)]
pub(super) struct Nominator<K, N> {
    node_of: FxHashMap<K, N>,
    /// In the order of nomination; nodes without pods are absent.
    pods_of: FxHashMap<N, Vec<K>>,
}

impl<K, N> Default for Nominator<K, N> {
    fn default() -> Self {
        Self { node_of: FxHashMap::default(), pods_of: FxHashMap::default() }
    }
}

impl<K: Copy + Eq + Hash, N: Copy + Eq + Hash> Nominator<K, N> {
    /// Replaces the nomination of `pod`, whose status says `status`.
    pub fn set(&mut self, pod: K, status: Option<N>, nomination: Nomination<N>) {
        self.remove(pod);
        let node = match nomination {
            Nomination::FromStatus => status,
            Nomination::Node(node) => Some(node),
            Nomination::None => None,
        };
        if let Some(node) = node {
            self.node_of.insert(pod, node);
            self.pods_of.entry(node).or_default().push(pod);
        }
    }

    /// Follows an update of the status. One that neither had nor has a node says nothing: it may be older
    /// than the nomination, which then stays.
    pub fn update(&mut self, pod: K, before: Option<N>, after: Option<N>) {
        let nomination = match (before, after, self.node_of.get(&pod)) {
            (None, None, Some(&node)) => Nomination::Node(node),
            _ => Nomination::FromStatus,
        };
        self.set(pod, after, nomination);
    }

    pub fn remove(&mut self, pod: K) {
        let Some(node) = self.node_of.remove(&pod) else { return };
        if let Some(pods) = self.pods_of.get_mut(&node) {
            pods.retain(|other| *other != pod);
            if pods.is_empty() {
                self.pods_of.remove(&node);
            }
        }
    }

    pub fn node_of(&self, pod: K) -> Option<N> {
        self.node_of.get(&pod).copied()
    }

    pub fn pods_of(&self, node: N) -> &[K] {
        self.pods_of.get(&node).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_nominated_to_one_node_at_a_time() {
        let mut nominator: Nominator<u64, &str> = Nominator::default();
        nominator.set(1, None, Nomination::Node("a"));
        nominator.set(2, Some("a"), Nomination::FromStatus);
        assert_eq!(nominator.pods_of("a"), [1, 2]);
        nominator.set(1, Some("a"), Nomination::Node("b"));
        assert_eq!((nominator.pods_of("a"), nominator.pods_of("b")), ([2].as_slice(), [1].as_slice()));
        nominator.set(2, Some("a"), Nomination::None);
        assert_eq!((nominator.pods_of("a"), nominator.node_of(2)), ([].as_slice(), None));
        nominator.remove(1);
        assert!(nominator.pods_of.is_empty() && nominator.node_of.is_empty());
    }

    #[test]
    fn an_update_that_does_not_know_of_the_nomination_leaves_it() {
        for (behaviour, before, after, expected) in [
            ("never had one", None, None, Some("memory")),
            ("added", None, Some("a"), Some("a")),
            ("changed", Some("a"), Some("b"), Some("b")),
            ("removed", Some("a"), None, None),
            ("the same", Some("a"), Some("a"), Some("a")),
        ] {
            let mut nominator = Nominator::default();
            nominator.set(1, before, Nomination::Node("memory"));
            nominator.update(1, before, after);
            assert_eq!(nominator.node_of(1), expected, "{behaviour}");
        }
    }
}
