//! Counters that the devices of a pool share, so that not all partitions of one piece of hardware are given away at once.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::capacity::{Amounts, add_amounts, subtract_amounts};
use super::objects::Allocated;
use super::pools::Pool;
use super::slices::Device;
use crate::quantity::Quantity;

type Sets = BTreeMap<String, Amounts>;

/// What is left in the counters of each pool beside what claims already have.
///
/// Kubernetes files this under the name of the pool alone and works it out once for a pod, so pools of two drivers with
/// one name share it. Its choices follow from that, and ours must be its.
#[derive(Debug, Default)]
pub(super) struct Available(HashMap<Arc<str>, Sets>);

/// What the devices chosen so far take.
#[derive(Debug, Default)]
pub(super) struct Consumed(HashMap<Arc<str>, Sets>);

impl Available {
    fn of(&mut self, pool: &Pool, allocated: &Allocated) -> &Sets {
        self.0.entry(pool.id.pool.clone()).or_insert_with(|| {
            let mut left = pool.counter_sets.clone();
            let slices = pool.slices.iter().chain(&pool.elsewhere);
            for device in slices.flat_map(|slice| &slice.devices).filter(|device| allocated.is_used(device.key)) {
                for set in &device.consumes {
                    if let Some(counters) = left.get_mut(&set.name) {
                        subtract_amounts(counters, &set.counters);
                    }
                }
            }
            left
        })
    }
}

impl Consumed {
    /// Takes what the device needs if there is enough of it.
    pub(super) fn reserve(
        &mut self,
        pool: &Pool,
        device: &Device,
        available: &mut Available,
        allocated: &Allocated,
    ) -> bool {
        let sets = self.0.entry(pool.id.pool.clone()).or_default();
        for set in &device.consumes {
            add_amounts(sets.entry(set.name.clone()).or_default(), &set.counters);
        }
        let zero = Quantity::default();
        let enough = available.of(pool, allocated).iter().all(|(name, left)| {
            let taken = sets.get(name);
            left.iter().all(|(counter, left)| {
                let taken = taken.and_then(|taken| taken.get(counter)).unwrap_or(&zero);
                left >= taken
            })
        });
        if !enough {
            self.release(pool, device);
        }
        enough
    }

    /// Gives back what the device took.
    pub(super) fn release(&mut self, pool: &Pool, device: &Device) {
        if let Some(sets) = self.0.get_mut(&pool.id.pool) {
            for set in &device.consumes {
                if let Some(counters) = sets.get_mut(&set.name) {
                    subtract_amounts(counters, &set.counters);
                }
            }
        }
    }
}
