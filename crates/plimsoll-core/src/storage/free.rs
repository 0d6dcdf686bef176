//! The volumes that are free to be bound, filed so that the smallest suitable one for a node is found quickly.

use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::objects::PersistentVolume;
use crate::quantity::Quantity;

/// The order in which volumes are tried: the smallest first, and by name among equals, where Kubernetes has no order.
pub(super) type Rank = (Quantity, Box<str>);

/// The place of a volume in that order.
pub(super) fn rank(volume: &PersistentVolume) -> Rank {
    (volume.capacity.clone(), volume.name.clone())
}

/// Volumes in that order.
pub(super) type Ranked = BTreeMap<Rank, Arc<PersistentVolume>>;

/// The volumes of one class that any claim may take.
///
/// Volumes that demand a node label of certain values are filed under label and value, so that a cluster with thousands
/// of local volumes looks at the few of a node instead of all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FreeVolumes {
    /// Volumes that demand no particular label, though they may have other conditions.
    pub(super) unanchored: Ranked,
    /// By label key, then by value.
    pub(super) anchored: BTreeMap<Box<str>, FxHashMap<Box<str>, Ranked>>,
}

impl FreeVolumes {
    /// Files a volume.
    pub(super) fn insert(&mut self, volume: &Arc<PersistentVolume>) {
        match volume.node_affinity.as_ref().and_then(|affinity| affinity.anchor()) {
            None => {
                self.unanchored.insert(rank(volume), Arc::clone(volume));
            }
            Some((key, values)) => {
                let by_value = self.anchored.entry(key.into()).or_default();
                for value in values {
                    by_value.entry(value.clone()).or_default().insert(rank(volume), Arc::clone(volume));
                }
            }
        }
    }

    /// Takes a volume out.
    pub(super) fn remove(&mut self, volume: &PersistentVolume) {
        let Some((key, values)) = volume.node_affinity.as_ref().and_then(|affinity| affinity.anchor()) else {
            self.unanchored.remove(&rank(volume));
            return;
        };
        let Some(by_value) = self.anchored.get_mut(key) else { return };
        for value in values {
            if let Some(volumes) = by_value.get_mut(value) {
                volumes.remove(&rank(volume));
                if volumes.is_empty() {
                    by_value.remove(value);
                }
            }
        }
        if by_value.is_empty() {
            self.anchored.remove(key);
        }
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.unanchored.is_empty() && self.anchored.is_empty()
    }

    /// The smallest volume, of those that demand a label the node has, that is large enough and accepted.
    pub(super) fn smallest_anchored<'a, 'n>(
        &'a self,
        request: &Quantity,
        label: &impl Fn(&str) -> Option<&'n str>,
        accept: impl Fn(&PersistentVolume) -> bool,
    ) -> Option<&'a Arc<PersistentVolume>> {
        let from = (request.clone(), Box::default());
        self.anchored
            .iter()
            .filter_map(|(key, by_value)| by_value.get(label(key)?))
            .filter_map(|volumes| volumes.range(&from..).find(|(_, volume)| accept(volume)))
            .min_by(|(a, _), (b, _)| a.cmp(b))
            .map(|(_, volume)| volume)
    }
}
