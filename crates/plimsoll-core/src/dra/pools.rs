//! The pools whose devices a node can use.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::capacity::Amounts;
use super::node::NodeView;
use super::slices::{PoolId, Slice};

/// A pool from the point of view of one node.
#[derive(Debug)]
pub struct Pool {
    pub(super) id: PoolId,
    pub(super) state: PoolState,
    /// Slices with devices for the node, by name: drivers order their devices by naming them.
    pub(super) slices: Vec<Arc<Slice>>,
    /// Slices for other nodes, whose devices may use up the same counters.
    pub(super) elsewhere: Vec<Arc<Slice>>,
    pub(super) counter_sets: BTreeMap<String, Amounts>,
}

/// Whether a pool can be allocated from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolState {
    /// It can.
    Usable,
    /// Some of its slices have not been published yet.
    Incomplete,
    /// It contradicts itself.
    Invalid,
}

/// Collects the pools of a node: usable and broken ones, those whose devices need conditions before binding last.
///
/// `candidates` are the slices that may be for the node, `in_pool` all slices of a pool; both in the order of names.
pub(super) fn gather<'a>(
    node: &dyn NodeView,
    candidates: impl Iterator<Item = &'a Arc<Slice>>,
    in_pool: impl Fn(&PoolId) -> &'a [Arc<Slice>],
) -> Result<Vec<Pool>, String> {
    let mut by_pool: BTreeMap<&PoolId, Vec<Arc<Slice>>> = BTreeMap::new();
    for slice in candidates {
        if !slice.relevant(node)? {
            continue;
        }
        let slices = by_pool.entry(&slice.pool).or_default();
        let generation = slices.first().map_or(slice.generation, |first| first.generation);
        if slice.generation > generation {
            slices.clear();
        }
        if slice.generation >= generation {
            slices.push(slice.clone());
        }
    }
    let mut pools = Vec::with_capacity(by_pool.len());
    let mut with_conditions = Vec::new();
    for (id, slices) in by_pool {
        let Some(pool) = assemble(id, slices, in_pool(id)) else {
            continue;
        };
        let conditional = pool.slices.iter().flat_map(|slice| &slice.devices);
        if conditional.into_iter().any(|device| device.details.api.binding_conditions.is_some()) {
            with_conditions.push(pool);
        } else {
            pools.push(pool);
        }
    }
    pools.append(&mut with_conditions);
    Ok(pools)
}

/// Nothing if the pool is being replaced by a newer generation that has nothing for the node.
fn assemble(id: &PoolId, mut slices: Vec<Arc<Slice>>, all: &[Arc<Slice>]) -> Option<Pool> {
    let (generation, wanted) = slices.first().map(|first| (first.generation, first.pool_slices))?;
    slices.sort_by(|a, b| a.name.cmp(&b.name));
    let mut elsewhere = Vec::new();
    if slices.len() as i64 != wanted {
        if all.iter().any(|slice| slice.generation > generation) {
            return None;
        }
        let current: Vec<_> = all.iter().filter(|slice| slice.generation == generation).collect();
        if current.len() as i64 != wanted {
            return Some(Pool::broken(id, PoolState::Incomplete));
        }
        let known: BTreeSet<&str> = slices.iter().map(|slice| slice.name.as_str()).collect();
        elsewhere = current.into_iter().filter(|slice| !known.contains(slice.name.as_str())).cloned().collect();
    }
    let counter_sets = match counter_sets(&slices) {
        Some(sets) if unique_names(&slices) && known_counters(&sets, &slices) && known_counters(&sets, &elsewhere) => {
            sets
        }
        _ => return Some(Pool::broken(id, PoolState::Invalid)),
    };
    slices.retain(|slice| slice.counter_sets.is_empty());
    Some(Pool { id: id.clone(), state: PoolState::Usable, slices, elsewhere, counter_sets })
}

impl Pool {
    fn broken(id: &PoolId, state: PoolState) -> Self {
        Self { id: id.clone(), state, slices: Vec::new(), elsewhere: Vec::new(), counter_sets: BTreeMap::new() }
    }
}

/// Nothing if two sets have one name.
fn counter_sets(slices: &[Arc<Slice>]) -> Option<BTreeMap<String, Amounts>> {
    let mut sets = BTreeMap::new();
    for set in slices.iter().flat_map(|slice| &slice.counter_sets) {
        if sets.insert(set.name.clone(), set.counters.clone()).is_some() {
            return None;
        }
    }
    Some(sets)
}

fn unique_names(slices: &[Arc<Slice>]) -> bool {
    let mut names = BTreeSet::new();
    let mut devices = slices.iter().filter(|slice| slice.counter_sets.is_empty()).flat_map(|slice| &slice.devices);
    devices.all(|device| names.insert(device.key))
}

/// Whether every counter a device draws on exists.
fn known_counters(sets: &BTreeMap<String, Amounts>, slices: &[Arc<Slice>]) -> bool {
    let mut consumed = slices.iter().flat_map(|slice| &slice.devices).flat_map(|device| &device.consumes);
    consumed.all(|set| {
        sets.get(&set.name).is_some_and(|counters| set.counters.keys().all(|name| counters.contains_key(name)))
    })
}
