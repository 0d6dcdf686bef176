//! The objects Dynamic Resource Allocation decides by, indexed as they change.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use rustc_hash::FxHashMap;

use super::capacity::{Amounts, add_amounts, subtract_amounts};
use super::extended::is_extended_claim;
use super::memo::{Memo, Memory, NodePools};
use super::node::NodeView;
use super::pools::{Pool, gather};
use super::slices::{DeviceKey, PoolId, Slice};
use crate::quantity::{Quantity, QuantityError};
use crate::storage::objects::Identity;

/// The prefix of the extended resource that every device class stands for without naming one.
pub const DEVICE_CLASS_RESOURCE_PREFIX: &str = "deviceclass.resource.kubernetes.io/";

/// Marks the claims the scheduler makes for extended resources.
pub const EXTENDED_RESOURCE_ANNOTATION: &str = "resource.kubernetes.io/extended-resource-claim";

/// An object that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {name}: {problem}")]
pub struct ObjectError {
    kind: &'static str,
    name: String,
    problem: QuantityError,
}

/// Slices, claims and classes, and what follows from them.
#[derive(Debug, Clone, Default)]
pub struct DraObjects {
    keys: Keys,
    next_serial: u32,
    slices: BTreeMap<String, Arc<Slice>>,
    node_slices: FxHashMap<String, BTreeMap<String, Arc<Slice>>>,
    shared_slices: BTreeMap<String, Arc<Slice>>,
    /// The node labels that decide which shared slices are for a node.
    shared_labels: Vec<String>,
    pools: HashMap<PoolId, Vec<Arc<Slice>>>,
    claims: BTreeMap<(String, String), Arc<ResourceClaim>>,
    /// The claims made for extended resources.
    extended: BTreeSet<(String, String)>,
    pending: BTreeMap<String, Arc<ResourceClaim>>,
    classes: BTreeMap<String, Arc<DeviceClass>>,
    resource_classes: BTreeMap<String, Arc<DeviceClass>>,
    allocated: Allocated,
    /// The time, in seconds since 1970, as a driver told it last: devices may take only so long to become ready.
    pub now_s: f64,
    pub(super) memo: Memo,
}

/// What claims have of the devices.
#[derive(Debug, Clone, Default)]
pub(super) struct Allocated {
    /// How many claims have a device to themselves: more than one only by mistake.
    dedicated: FxHashMap<DeviceKey, u32>,
    /// How many share it.
    shared: FxHashMap<DeviceKey, u32>,
    /// What they consume together, and how many consume something.
    capacity: FxHashMap<DeviceKey, (u32, Amounts)>,
}

impl Allocated {
    /// Whether one claim has the device to itself.
    pub(super) fn is_dedicated(&self, key: DeviceKey) -> bool {
        self.dedicated.contains_key(&key)
    }

    /// Whether the device is used at all.
    pub(super) fn is_used(&self, key: DeviceKey) -> bool {
        self.is_dedicated(key) || self.shared.contains_key(&key) || self.capacity.contains_key(&key)
    }

    /// What the claims that share the device consume of it.
    pub(super) fn consumed(&self, key: DeviceKey) -> Option<&Amounts> {
        self.capacity.get(&key).map(|(_, amounts)| amounts)
    }

    fn change(&mut self, usage: &Usage, add: bool) {
        match usage {
            Usage::Dedicated(key) => count(&mut self.dedicated, *key, add),
            Usage::Shared(key, consumed) => {
                count(&mut self.shared, *key, add);
                let Some(consumed) = consumed else {
                    return;
                };
                let (consumers, sum) = self.capacity.entry(*key).or_default();
                if add {
                    *consumers += 1;
                    add_amounts(sum, consumed);
                } else {
                    *consumers = consumers.saturating_sub(1);
                    subtract_amounts(sum, consumed);
                    if *consumers == 0 {
                        self.capacity.remove(key);
                    }
                }
            }
        }
    }
}

fn count(counts: &mut FxHashMap<DeviceKey, u32>, key: DeviceKey, add: bool) {
    let count = counts.entry(key).or_default();
    *count = if add { *count + 1 } else { count.saturating_sub(1) };
    if *count == 0 {
        counts.remove(&key);
    }
}

/// How a claim uses one device.
enum Usage {
    Dedicated(DeviceKey),
    Shared(DeviceKey, Option<Amounts>),
}

impl DraObjects {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds or replaces a slice; one that cannot be read is not there.
    pub fn upsert_slice(&mut self, slice: &ResourceSlice) -> Result<(), ObjectError> {
        let name = slice.metadata.name.clone().unwrap_or_default();
        self.delete_slice(&name);
        let (keys, next_serial) = (&mut self.keys, &mut self.next_serial);
        let compiled = Slice::new(slice, |pool, device| {
            *next_serial = next_serial.wrapping_add(1);
            (keys.intern(pool, device), *next_serial)
        });
        let compiled = Arc::new(compiled.map_err(|problem| ObjectError {
            kind: "resource slice",
            name: name.clone(),
            problem,
        })?);
        self.keys.hold(&compiled.pool);
        self.slices.insert(name.clone(), compiled.clone());
        match compiled.owner() {
            Some(node) => {
                self.node_slices.entry(node.to_owned()).or_default().insert(name, compiled.clone());
            }
            None => {
                self.shared_slices.insert(name, compiled.clone());
                self.collect_labels();
            }
        }
        let pool = self.pools.entry(compiled.pool.clone()).or_default();
        let at = pool.partition_point(|other| other.name < compiled.name);
        pool.insert(at, compiled.clone());
        self.forget_pools(&compiled);
        Ok(())
    }

    /// Removes a slice.
    pub fn delete_slice(&mut self, name: &str) {
        let Some(slice) = self.slices.remove(name) else {
            return;
        };
        self.forget_pools(&slice);
        match slice.owner() {
            Some(node) => {
                if let Some(slices) = self.node_slices.get_mut(node) {
                    slices.remove(name);
                    if slices.is_empty() {
                        self.node_slices.remove(node);
                    }
                }
            }
            None => {
                self.shared_slices.remove(name);
                self.collect_labels();
            }
        }
        if let Some(slices) = self.pools.get_mut(&slice.pool) {
            slices.retain(|other| other.name != name);
            if slices.is_empty() {
                self.pools.remove(&slice.pool);
            }
        }
        self.keys.release(&slice.pool);
    }

    /// Adds or replaces a claim; one that cannot be read is not there. What is older than what is known changes nothing: a watch
    /// may tell late of a claim from before our own write.
    pub fn upsert_claim(&mut self, claim: ResourceClaim) -> Result<(), ObjectError> {
        let key = claim_key(&claim);
        let is_older =
            |known: &Arc<ResourceClaim>| Identity::of(&claim.metadata).is_older_than(&Identity::of(&known.metadata));
        if self.claims.get(&key).is_some_and(is_older) {
            return Ok(());
        }
        self.delete_claim(&key.0, &key.1);
        self.count_claim(&claim, true)?;
        if is_extended_claim(&claim) {
            self.extended.insert(key.clone());
        }
        self.claims.insert(key, Arc::new(claim));
        Ok(())
    }

    /// Removes a claim; what it had is free.
    pub fn delete_claim(&mut self, namespace: &str, name: &str) {
        let key = (namespace.to_owned(), name.to_owned());
        self.extended.remove(&key);
        if let Some(claim) = self.claims.remove(&key) {
            // It was counted when it came, so it can be read.
            let _ = self.count_claim(&claim, false);
        }
    }

    /// Adds or replaces a device class.
    pub fn upsert_class(&mut self, class: DeviceClass) {
        self.classes.insert(class.metadata.name.clone().unwrap_or_default(), Arc::new(class));
        self.map_resources();
    }

    /// Removes a device class.
    pub fn delete_class(&mut self, name: &str) {
        self.classes.remove(name);
        self.map_resources();
    }

    /// Forgets what was remembered of a node that is gone; nothing depends on it but memory.
    pub fn forget_node(&mut self, name: &str) {
        self.memo.get_mut().pools.remove(name);
    }

    /// Takes note that a claim is allocated though its status does not say so yet: the devices are taken, and no other
    /// pod may use the claim before the status does.
    pub fn assume_claim(&mut self, claim: ResourceClaim) -> Result<(), ObjectError> {
        let uid = claim.metadata.uid.clone().unwrap_or_default();
        self.forget_claim(&uid);
        self.count_claim(&claim, true)?;
        self.pending.insert(uid, Arc::new(claim));
        Ok(())
    }

    /// Takes [`Self::assume_claim`] back: the status has been written, or never will be.
    pub fn forget_claim(&mut self, uid: &str) {
        if let Some(claim) = self.pending.remove(uid) {
            let _ = self.count_claim(&claim, false);
        }
    }

    /// Takes note that a claim has been written, which was assumed under `assumed_uid` if it was. With `is_new` it was made.
    pub fn confirm_claim(
        &mut self,
        assumed_uid: Option<&str>,
        claim: ResourceClaim,
        is_new: bool,
    ) -> Result<(), ObjectError> {
        if let Some(uid) = assumed_uid {
            self.forget_claim(uid);
        }
        let known = self.claims.get(&claim_key(&claim));
        // One that a watch has told to be gone does not come back by our answer.
        if !is_new && known.is_none_or(|known| known.metadata.uid != claim.metadata.uid) {
            return Ok(());
        }
        self.upsert_claim(claim)
    }

    /// A claim by name.
    pub fn claim(&self, namespace: &str, name: &str) -> Option<&Arc<ResourceClaim>> {
        self.claims.get(&(namespace.to_owned(), name.to_owned()))
    }

    /// The allocation a claim has been given but does not show yet.
    pub fn pending_claim(&self, uid: &str) -> Option<&Arc<ResourceClaim>> {
        self.pending.get(uid)
    }

    /// A device class by name.
    pub fn class(&self, name: &str) -> Option<&Arc<DeviceClass>> {
        self.classes.get(name)
    }

    /// The device class that provides an extended resource.
    pub fn class_for_resource(&self, resource: &str) -> Option<&Arc<DeviceClass>> {
        self.resource_classes.get(resource)
    }

    /// The claims that were made for extended resources.
    pub(super) fn extended_claims(&self) -> impl Iterator<Item = &Arc<ResourceClaim>> {
        self.extended.iter().filter_map(|key| self.claims.get(key))
    }

    pub(super) fn allocated(&self) -> &Allocated {
        &self.allocated
    }

    /// The pools the node can use; remembered until a slice or a label they depend on changes.
    pub(super) fn node_pools(&self, memory: &mut Memory, node: &dyn NodeView) -> Result<Arc<Vec<Pool>>, String> {
        let same = |known: &NodePools| {
            self.shared_labels.iter().zip(&known.labels).all(|(key, value)| node.label(key) == value.as_deref())
        };
        if let Some(known) = memory.pools.get(node.name()).filter(|known| same(known)) {
            return Ok(known.pools.clone());
        }
        let own = self.node_slices.get(node.name()).into_iter().flat_map(BTreeMap::values);
        let candidates = own.chain(self.shared_slices.values());
        let in_pool = |id: &PoolId| self.pools.get(id).map_or(&[][..], Vec::as_slice);
        let pools = Arc::new(gather(node, candidates, in_pool)?);
        let labels = self.shared_labels.iter().map(|key| node.label(key).map(str::to_owned)).collect();
        memory.pools.insert(node.name().to_owned(), NodePools { labels, pools: pools.clone() });
        Ok(pools)
    }

    /// Forgets the pools of the nodes that a change of the slice concerns.
    fn forget_pools(&mut self, slice: &Slice) {
        let owner = slice.owner();
        let in_pool = self.pools.get(&slice.pool);
        let alone = in_pool.is_none_or(|slices| slices.iter().all(|other| other.owner() == owner));
        let pools = &mut self.memo.get_mut().pools;
        match owner.filter(|_| alone) {
            Some(node) => {
                pools.remove(node);
            }
            None => pools.clear(),
        }
    }

    fn collect_labels(&mut self) {
        let keys: BTreeSet<&str> = self.shared_slices.values().flat_map(|slice| slice.label_keys()).collect();
        self.shared_labels = keys.into_iter().map(str::to_owned).collect();
        self.memo.get_mut().pools.clear();
    }

    /// Of several classes with one resource the newest provides it, and of equally old ones the first by name.
    fn map_resources(&mut self) {
        self.resource_classes.clear();
        for (name, class) in &self.classes {
            self.resource_classes.insert(format!("{DEVICE_CLASS_RESOURCE_PREFIX}{name}"), class.clone());
        }
        let created = |class: &DeviceClass| class.metadata.creation_timestamp.as_ref().map(|time| time.0);
        for class in self.classes.values() {
            let Some(resource) = &class.spec.extended_resource_name else {
                continue;
            };
            let newer = self.resource_classes.get(resource).is_none_or(|other| created(class) > created(other));
            if newer {
                self.resource_classes.insert(resource.clone(), class.clone());
            }
        }
    }

    fn count_claim(&mut self, claim: &ResourceClaim, add: bool) -> Result<(), ObjectError> {
        let usages = self.usages(claim).map_err(|problem| {
            let (namespace, name) = claim_key(claim);
            ObjectError { kind: "resource claim", name: format!("{namespace}/{name}"), problem }
        })?;
        for (pool, usage) in &usages {
            self.allocated.change(usage, add);
            if add {
                self.keys.hold(pool);
            } else {
                self.keys.release(pool);
            }
        }
        Ok(())
    }

    fn usages(&mut self, claim: &ResourceClaim) -> Result<Vec<(PoolId, Usage)>, QuantityError> {
        let allocation = claim.status.as_ref().and_then(|status| status.allocation.as_ref());
        let devices = allocation.and_then(|allocation| allocation.devices.as_ref());
        let mut usages = Vec::new();
        for result in devices.and_then(|devices| devices.results.as_ref()).into_iter().flatten() {
            // Admin access looks at devices without taking them from anybody.
            if result.admin_access == Some(true) {
                continue;
            }
            let pool = PoolId { driver: result.driver.as_str().into(), pool: result.pool.as_str().into() };
            let key = self.keys.intern(&pool, &result.device);
            let usage = match &result.share_id {
                None => Usage::Dedicated(key),
                Some(_) => {
                    let amounts = result.consumed_capacity.as_ref().map(|consumed| {
                        let amounts = consumed.iter();
                        amounts.map(|(name, amount)| Ok((name.clone(), Quantity::try_from(amount)?))).collect()
                    });
                    Usage::Shared(key, amounts.transpose()?)
                }
            };
            usages.push((pool, usage));
        }
        Ok(usages)
    }
}

/// The numbers devices are known by, for as long as a slice or a claim names their pool.
#[derive(Debug, Clone, Default)]
struct Keys {
    pools: HashMap<PoolId, PoolKeys>,
    next: u32,
}

#[derive(Debug, Clone, Default)]
struct PoolKeys {
    devices: HashMap<String, DeviceKey>,
    holders: u32,
}

impl Keys {
    fn intern(&mut self, pool: &PoolId, device: &str) -> DeviceKey {
        if let Some(key) = self.pools.get(pool).and_then(|pool| pool.devices.get(device)) {
            return *key;
        }
        let key = DeviceKey(self.next);
        self.next = self.next.wrapping_add(1);
        self.pools.entry(pool.clone()).or_default().devices.insert(device.to_owned(), key);
        key
    }

    fn hold(&mut self, pool: &PoolId) {
        self.pools.entry(pool.clone()).or_default().holders += 1;
    }

    fn release(&mut self, pool: &PoolId) {
        if let Some(keys) = self.pools.get_mut(pool) {
            keys.holders = keys.holders.saturating_sub(1);
            if keys.holders == 0 {
                self.pools.remove(pool);
            }
        }
    }
}

fn claim_key(claim: &ResourceClaim) -> (String, String) {
    let metadata = &claim.metadata;
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_can_be_shared_between_threads() {
        fn shareable<T: Send + Sync>() {}
        shareable::<DraObjects>();
        shareable::<crate::dra::plugin::PodState>();
    }
}
