//! The storage part of the cluster, fed by watch events, with the bindings the scheduler has decided but the API server
//! has not seen.
//!
//! An assumed binding holds until the API sends another version of the object, and is then dropped: either the API's
//! version has the binding, or something else happened to the object. An event older than what is known changes nothing.

mod consistency;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::storage::v1 as storage;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::free::{FreeVolumes, Rank, rank};
use super::objects::{
    ClaimRef, CsiDriver, CsiNode, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass,
    StorageError, VolumeAttachment,
};
use super::pod::PodVolumes;

/// What an event did: the object before and after, for queueing hints.
#[derive(Debug, Clone)]
pub struct Change<T> {
    /// The object before; nothing if it is new.
    pub old: Option<Arc<T>>,
    /// The object after; nothing if it is gone.
    pub new: Option<Arc<T>>,
}

impl<T> Change<T> {
    fn new(old: Option<Arc<T>>, new: Option<Arc<T>>) -> Self {
        Self { old, new }
    }
}

/// A map by namespace and name that is searched without building a key.
type Namespaced<T> = FxHashMap<Box<str>, FxHashMap<Box<str>, T>>;

/// What can be provisioned for a class, by namespace and name.
type Capacities = BTreeMap<(Box<str>, Box<str>), Arc<CsiStorageCapacity>>;

fn lookup<'a, T>(map: &'a Namespaced<T>, namespace: &str, name: &str) -> Option<&'a T> {
    map.get(namespace)?.get(name)
}

/// The storage objects of the cluster.
#[derive(Debug, Clone, Default)]
pub struct StorageObjects {
    volumes: FxHashMap<Box<str>, VolumeEntry>,
    claims: Namespaced<ClaimEntry>,
    classes: FxHashMap<Box<str>, Arc<StorageClass>>,
    csi_nodes: FxHashMap<Box<str>, Arc<CsiNode>>,
    csi_drivers: FxHashMap<Box<str>, Arc<CsiDriver>>,
    /// By class.
    capacities: FxHashMap<Box<str>, Capacities>,
    /// The class a capacity was last filed under.
    capacity_classes: Namespaced<Box<str>>,
    /// By node, then by name.
    attachments: FxHashMap<Box<str>, BTreeMap<Box<str>, Arc<VolumeAttachment>>>,
    /// The node an attachment was last filed under.
    attachment_nodes: FxHashMap<Box<str>, Box<str>>,
    /// The volumes free for any claim, by class.
    free: FxHashMap<Box<str>, FreeVolumes>,
    /// The volumes that refer to a claim, assumed references included.
    referring: Namespaced<BTreeSet<Rank>>,
    /// How many volumes of placed pods name a claim.
    users: Namespaced<usize>,
}

#[derive(Debug, Clone)]
struct VolumeEntry {
    api: Arc<PersistentVolume>,
    assumed: Option<ClaimRef>,
}

impl VolumeEntry {
    fn claim_ref(&self) -> Option<&ClaimRef> {
        self.assumed.as_ref().or(self.api.claim_ref.as_ref())
    }
}

#[derive(Debug, Clone)]
struct ClaimEntry {
    api: Arc<PersistentVolumeClaim>,
    assumed_node: Option<Box<str>>,
}

impl StorageObjects {
    /// Takes in a new or changed PersistentVolume; an event older than what is known gives nothing.
    pub fn apply_volume(
        &mut self,
        api: &core::PersistentVolume,
    ) -> Result<Option<Change<PersistentVolume>>, StorageError> {
        let new = Arc::new(PersistentVolume::compile(api)?);
        let old = self.volumes.get(&new.name);
        if old.is_some_and(|old| new.identity.is_older_than(&old.api.identity)) {
            return Ok(None);
        }
        let assumed = old
            .filter(|old| old.api.identity.resource_version == new.identity.resource_version)
            .and_then(|old| old.assumed.clone());
        let old = self.take_volume(&new.name);
        self.put_volume(VolumeEntry { api: Arc::clone(&new), assumed });
        Ok(Some(Change::new(old.map(|old| old.api), Some(new))))
    }

    /// Takes in that a PersistentVolume is gone.
    pub fn remove_volume(&mut self, name: &str) -> Change<PersistentVolume> {
        Change::new(self.take_volume(name).map(|old| old.api), None)
    }

    /// Takes in a new or changed PersistentVolumeClaim; an event older than what is known gives nothing.
    pub fn apply_claim(
        &mut self,
        api: &core::PersistentVolumeClaim,
    ) -> Result<Option<Change<PersistentVolumeClaim>>, StorageError> {
        let new = Arc::new(PersistentVolumeClaim::compile(api)?);
        let old = lookup(&self.claims, &new.namespace, &new.name);
        if old.is_some_and(|old| new.identity.is_older_than(&old.api.identity)) {
            return Ok(None);
        }
        let assumed_node = old
            .filter(|old| old.api.identity.resource_version == new.identity.resource_version)
            .and_then(|old| old.assumed_node.clone());
        let entry = ClaimEntry { api: Arc::clone(&new), assumed_node };
        let old = self.claims.entry(new.namespace.clone()).or_default().insert(new.name.clone(), entry);
        Ok(Some(Change::new(old.map(|old| old.api), Some(new))))
    }

    /// Takes in that a PersistentVolumeClaim is gone.
    pub fn remove_claim(&mut self, namespace: &str, name: &str) -> Change<PersistentVolumeClaim> {
        Change::new(remove(&mut self.claims, namespace, name).map(|old| old.api), None)
    }

    /// Takes in a new or changed StorageClass.
    pub fn apply_class(&mut self, api: &storage::StorageClass) -> Result<Change<StorageClass>, StorageError> {
        let new = Arc::new(StorageClass::compile(api)?);
        Ok(Change::new(self.classes.insert(new.name.clone(), Arc::clone(&new)), Some(new)))
    }

    /// Takes in that a StorageClass is gone.
    pub fn remove_class(&mut self, name: &str) -> Change<StorageClass> {
        Change::new(self.classes.remove(name), None)
    }

    /// Takes in a new or changed CSINode.
    pub fn apply_csi_node(&mut self, api: &storage::CSINode) -> Result<Change<CsiNode>, StorageError> {
        let new = Arc::new(CsiNode::compile(api)?);
        Ok(Change::new(self.csi_nodes.insert(new.name.clone(), Arc::clone(&new)), Some(new)))
    }

    /// Takes in that a CSINode is gone.
    pub fn remove_csi_node(&mut self, name: &str) -> Change<CsiNode> {
        Change::new(self.csi_nodes.remove(name), None)
    }

    /// Takes in a new or changed CSIDriver.
    pub fn apply_csi_driver(&mut self, api: &storage::CSIDriver) -> Result<Change<CsiDriver>, StorageError> {
        let new = Arc::new(CsiDriver::compile(api)?);
        Ok(Change::new(self.csi_drivers.insert(new.name.clone(), Arc::clone(&new)), Some(new)))
    }

    /// Takes in that a CSIDriver is gone.
    pub fn remove_csi_driver(&mut self, name: &str) -> Change<CsiDriver> {
        Change::new(self.csi_drivers.remove(name), None)
    }

    /// Takes in a new or changed CSIStorageCapacity.
    pub fn apply_capacity(
        &mut self,
        api: &storage::CSIStorageCapacity,
    ) -> Result<Change<CsiStorageCapacity>, StorageError> {
        let new = Arc::new(CsiStorageCapacity::compile(api)?);
        let old = self.remove_capacity(&new.namespace, &new.name).old;
        self.capacity_classes.entry(new.namespace.clone()).or_default().insert(new.name.clone(), new.class.clone());
        self.capacities
            .entry(new.class.clone())
            .or_default()
            .insert((new.namespace.clone(), new.name.clone()), Arc::clone(&new));
        Ok(Change::new(old, Some(new)))
    }

    /// Takes in that a CSIStorageCapacity is gone.
    pub fn remove_capacity(&mut self, namespace: &str, name: &str) -> Change<CsiStorageCapacity> {
        let old = remove(&mut self.capacity_classes, namespace, name).and_then(|class| {
            let of_class = self.capacities.get_mut(&class)?;
            let old = of_class.remove(&(namespace.into(), name.into()));
            if of_class.is_empty() {
                self.capacities.remove(&class);
            }
            old
        });
        Change::new(old, None)
    }

    /// Takes in a new or changed VolumeAttachment.
    pub fn apply_attachment(
        &mut self,
        api: &storage::VolumeAttachment,
    ) -> Result<Change<VolumeAttachment>, StorageError> {
        let new = Arc::new(VolumeAttachment::compile(api)?);
        let old = self.remove_attachment(&new.name).old;
        self.attachment_nodes.insert(new.name.clone(), new.node.clone());
        self.attachments.entry(new.node.clone()).or_default().insert(new.name.clone(), Arc::clone(&new));
        Ok(Change::new(old, Some(new)))
    }

    /// Takes in that a VolumeAttachment is gone.
    pub fn remove_attachment(&mut self, name: &str) -> Change<VolumeAttachment> {
        let old = self.attachment_nodes.remove(name).and_then(|node| {
            let on_node = self.attachments.get_mut(&node)?;
            let old = on_node.remove(name);
            if on_node.is_empty() {
                self.attachments.remove(&node);
            }
            old
        });
        Change::new(old, None)
    }

    /// Counts the claims of a pod that now occupies a node, whether bound or assumed.
    pub fn pod_placed(&mut self, pod: &PodVolumes) {
        for claim in pod.claim_names() {
            let users = self.users.entry(pod.namespace().into()).or_default();
            *users.entry(claim.into()).or_default() += 1;
        }
    }

    /// Uncounts the claims of a pod that no longer occupies a node.
    pub fn pod_removed(&mut self, pod: &PodVolumes) {
        for claim in pod.claim_names() {
            let Some(users) = self.users.get_mut(pod.namespace()) else { return };
            match users.get_mut(claim) {
                Some(count) if *count > 1 => *count -= 1,
                _ => {
                    users.remove(claim);
                    if users.is_empty() {
                        self.users.remove(pod.namespace());
                    }
                }
            }
        }
    }

    /// Whether a pod on any node names the claim.
    pub fn is_claim_used(&self, namespace: &str, name: &str) -> bool {
        lookup(&self.users, namespace, name).is_some()
    }

    /// A PersistentVolume as the API has it.
    pub fn volume(&self, name: &str) -> Option<&Arc<PersistentVolume>> {
        self.volumes.get(name).map(|entry| &entry.api)
    }

    /// A PersistentVolumeClaim as the API has it.
    pub fn claim(&self, namespace: &str, name: &str) -> Option<&Arc<PersistentVolumeClaim>> {
        lookup(&self.claims, namespace, name).map(|entry| &entry.api)
    }

    /// A StorageClass.
    pub fn class(&self, name: &str) -> Option<&Arc<StorageClass>> {
        self.classes.get(name)
    }

    /// The CSINode of a node.
    pub fn csi_node(&self, node: &str) -> Option<&Arc<CsiNode>> {
        self.csi_nodes.get(node)
    }

    /// A CSIDriver.
    pub fn csi_driver(&self, name: &str) -> Option<&Arc<CsiDriver>> {
        self.csi_drivers.get(name)
    }

    /// What can still be provisioned for a class.
    pub fn capacities(&self, class: &str) -> impl Iterator<Item = &Arc<CsiStorageCapacity>> {
        self.capacities.get(class).into_iter().flat_map(BTreeMap::values)
    }

    /// What is attached to a node.
    pub fn attachments(&self, node: &str) -> impl Iterator<Item = &Arc<VolumeAttachment>> {
        self.attachments.get(node).into_iter().flat_map(BTreeMap::values)
    }

    /// The node a claim's volume is being provisioned for, by the API or by an assumption.
    pub fn selected_node(&self, claim: &PersistentVolumeClaim) -> Option<&str> {
        let entry = lookup(&self.claims, &claim.namespace, &claim.name)?;
        entry.assumed_node.as_deref().or(entry.api.selected_node.as_deref())
    }

    /// The claim a volume refers to, by the API or by an assumption.
    pub fn claim_ref(&self, volume: &str) -> Option<&ClaimRef> {
        self.volumes.get(volume)?.claim_ref()
    }

    /// The free volumes of a class.
    pub(super) fn free_volumes(&self, class: &str) -> Option<&FreeVolumes> {
        self.free.get(class)
    }

    /// The volumes that refer to a claim, smallest first.
    pub(super) fn volumes_referring_to<'a>(
        &'a self,
        claim: &'a PersistentVolumeClaim,
    ) -> impl Iterator<Item = &'a Arc<PersistentVolume>> {
        lookup(&self.referring, &claim.namespace, &claim.name)
            .into_iter()
            .flatten()
            .filter_map(|(_, name)| self.volumes.get(name))
            .filter(|entry| entry.claim_ref().is_some_and(|reference| reference.refers_to(claim)))
            .map(|entry| &entry.api)
    }

    /// Assumes that a volume is bound to a claim. The volume must be the version known now.
    pub(super) fn assume_volume(&mut self, volume: &PersistentVolume, claim: ClaimRef) -> Result<(), String> {
        let stored = self.volumes.get(&volume.name);
        let stored = stored.ok_or_else(|| super::not_found("persistentvolumes", &volume.name))?;
        check_sync(&volume.name, &stored.api.identity.resource_version, &volume.identity.resource_version)?;
        if let Some(entry) = self.take_volume(&volume.name) {
            self.put_volume(VolumeEntry { assumed: Some(claim), ..entry });
        }
        Ok(())
    }

    /// Takes back what was assumed of a version of a volume.
    pub(super) fn restore_volume(&mut self, name: &str, version: &str) {
        let assumed = |entry: &VolumeEntry| entry.assumed.is_some() && *entry.api.identity.resource_version == *version;
        if self.volumes.get(name).is_some_and(assumed)
            && let Some(entry) = self.take_volume(name)
        {
            self.put_volume(VolumeEntry { assumed: None, ..entry });
        }
    }

    /// Assumes that a claim is to be provisioned for a node. The claim must be the version known now.
    pub(super) fn assume_claim(&mut self, claim: &PersistentVolumeClaim, node: &str) -> Result<(), String> {
        let key = format!("{}/{}", claim.namespace, claim.name);
        let entry = self.claims.get_mut(&claim.namespace).and_then(|claims| claims.get_mut(&claim.name));
        let entry = entry.ok_or_else(|| super::not_found("persistentvolumeclaims", &key))?;
        check_sync(&key, &entry.api.identity.resource_version, &claim.identity.resource_version)?;
        entry.assumed_node = Some(node.into());
        Ok(())
    }

    /// Takes back what was assumed of a version of a claim.
    pub(super) fn restore_claim(&mut self, namespace: &str, name: &str, version: &str) {
        let entry = self.claims.get_mut(namespace).and_then(|claims| claims.get_mut(name));
        if let Some(entry) = entry.filter(|entry| *entry.api.identity.resource_version == *version) {
            entry.assumed_node = None;
        }
    }

    /// Everything that is kept by difference, in an order that can be compared.
    #[cfg(test)]
    pub(super) fn indices(&self) -> String {
        let free: BTreeMap<_, _> = self
            .free
            .iter()
            .map(|(class, free)| {
                let anchored: BTreeMap<_, BTreeMap<_, Vec<_>>> = free
                    .anchored
                    .iter()
                    .map(|(key, by_value)| {
                        (key, by_value.iter().map(|(value, volumes)| (value, volumes.keys().collect())).collect())
                    })
                    .collect();
                (class, (free.unanchored.keys().collect::<Vec<_>>(), anchored))
            })
            .collect();
        let referring: BTreeMap<_, BTreeMap<_, _>> =
            self.referring.iter().map(|(namespace, claims)| (namespace, claims.iter().collect())).collect();
        format!("{free:?} {referring:?}")
    }

    /// Takes a volume out of the map and every index.
    fn take_volume(&mut self, name: &str) -> Option<VolumeEntry> {
        let entry = self.volumes.remove(name)?;
        let volume = &entry.api;
        if let Some(reference) = entry.claim_ref() {
            if let Some(volumes) =
                self.referring.get_mut(&reference.namespace).and_then(|claims| claims.get_mut(&reference.name))
            {
                volumes.remove(&rank(volume));
                if volumes.is_empty() {
                    remove(&mut self.referring, &reference.namespace, &reference.name);
                }
            }
        } else if let Some(free) = self.free.get_mut(&volume.class) {
            free.remove(volume);
            if free.is_empty() {
                self.free.remove(&volume.class);
            }
        }
        Some(entry)
    }

    fn put_volume(&mut self, entry: VolumeEntry) {
        let volume = &entry.api;
        if let Some(reference) = entry.claim_ref() {
            self.referring
                .entry(reference.namespace.clone())
                .or_default()
                .entry(reference.name.clone())
                .or_default()
                .insert(rank(volume));
        } else if volume.available && !volume.deleting {
            self.free.entry(volume.class.clone()).or_default().insert(volume);
        }
        self.volumes.insert(volume.name.clone(), entry);
    }
}

fn remove<T>(map: &mut Namespaced<T>, namespace: &str, name: &str) -> Option<T> {
    let names = map.get_mut(namespace)?;
    let old = names.remove(name);
    if names.is_empty() {
        map.remove(namespace);
    }
    old
}

fn check_sync(key: &str, stored: &str, assumed: &str) -> Result<(), String> {
    if stored == assumed {
        Ok(())
    } else {
        Err(format!("{} is out of sync (stored: {stored}, assume: {assumed})", super::quote(key)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{attachment, capacity, claim_of, objects, pod_of, volume, with};
    use super::*;
    use serde_json::{Value, json};

    fn version(object: Value, version: &str) -> Value {
        with(object, &["metadata", "resourceVersion"], json!(version))
    }

    fn read<T: serde::de::DeserializeOwned>(object: Value) -> T {
        serde_json::from_value(object).unwrap()
    }

    fn reference(name: &str) -> ClaimRef {
        ClaimRef { namespace: "default".into(), name: name.into(), uid: "u".into() }
    }

    #[test]
    fn an_assumed_binding_survives_a_resync_and_ends_with_another_version() {
        let mut objects = objects(&[volume("pv", "c", "1Gi", json!({}))]);
        let pv = Arc::clone(objects.volume("pv").unwrap());
        objects.assume_volume(&pv, reference("claim")).unwrap();
        objects.apply_volume(&read(volume("pv", "c", "1Gi", json!({})))).unwrap();
        assert_eq!(objects.claim_ref("pv"), Some(&reference("claim")));
        objects.apply_volume(&read(version(volume("pv", "c", "1Gi", json!({})), "2"))).unwrap();
        assert_eq!(objects.claim_ref("pv"), None);
    }

    #[test]
    fn an_assumed_node_survives_a_resync_and_ends_with_another_version() {
        let mut objects = objects(&[claim_of("c", "wait", "1Gi")]);
        let claim = Arc::clone(objects.claim("default", "c").unwrap());
        objects.assume_claim(&claim, "n").unwrap();
        objects.apply_claim(&read(claim_of("c", "wait", "1Gi"))).unwrap();
        assert_eq!(objects.selected_node(&claim), Some("n"));
        objects.apply_claim(&read(version(claim_of("c", "wait", "1Gi"), "2"))).unwrap();
        assert_eq!(objects.selected_node(&claim), None);
    }

    #[test]
    fn an_event_older_than_what_is_known_changes_nothing() {
        let mut objects = objects(&[version(volume("pv", "new", "1Gi", json!({})), "10")]);
        let stale = objects.apply_volume(&read(version(volume("pv", "old", "1Gi", json!({})), "9"))).unwrap();
        assert!(stale.is_none());
        assert_eq!(&*objects.volume("pv").unwrap().class, "new");
        let recreated = with(version(volume("pv", "old", "1Gi", json!({})), "9"), &["metadata", "uid"], json!("x"));
        assert!(objects.apply_volume(&read(recreated)).unwrap().is_some());
        assert_eq!(&*objects.volume("pv").unwrap().class, "old");
    }

    #[test]
    fn only_the_current_version_can_be_assumed() {
        let mut objects = objects(&[volume("pv", "c", "1Gi", json!({})), claim_of("c", "wait", "1Gi")]);
        let pv = Arc::clone(objects.volume("pv").unwrap());
        let claim = Arc::clone(objects.claim("default", "c").unwrap());
        objects.apply_volume(&read(version(volume("pv", "c", "1Gi", json!({})), "2"))).unwrap();
        objects.remove_claim("default", "c");
        assert_eq!(
            objects.assume_volume(&pv, reference("c")),
            Err("\"pv\" is out of sync (stored: 2, assume: 1)".to_owned())
        );
        assert_eq!(objects.assume_claim(&claim, "n"), Err("persistentvolumeclaims \"default/c\" not found".to_owned()));
        objects.remove_volume("pv");
        assert_eq!(objects.assume_volume(&pv, reference("c")), Err("persistentvolumes \"pv\" not found".to_owned()));
    }

    #[test]
    fn claims_are_in_use_while_any_placed_pod_names_them() {
        let mut objects = StorageObjects::default();
        let (twice, once) = (pod_of("a", &["c", "c"]), pod_of("b", &["c"]));
        objects.pod_placed(&twice);
        objects.pod_placed(&once);
        objects.pod_removed(&twice);
        assert!(objects.is_claim_used("default", "c"));
        assert!(!objects.is_claim_used("other", "c"));
        objects.pod_removed(&once);
        assert!(!objects.is_claim_used("default", "c"));
        objects.pod_removed(&once);
        assert!(objects.users.is_empty());
    }

    #[test]
    fn capacities_and_attachments_move_with_their_class_and_node() {
        let mut objects = objects(&[capacity("x", "a", "1Gi", json!({})), attachment("va", "n1", "d", "pv")]);
        let change = objects.apply_capacity(&read(capacity("x", "b", "2Gi", json!({})))).unwrap();
        assert_eq!(change.old.unwrap().limit, Some(1 << 30));
        assert_eq!((objects.capacities("a").count(), objects.capacities("b").count()), (0, 1));
        objects.apply_attachment(&read(attachment("va", "n2", "d", "pv"))).unwrap();
        assert_eq!((objects.attachments("n1").count(), objects.attachments("n2").count()), (0, 1));
        assert!(objects.remove_attachment("va").old.is_some());
        assert!(objects.remove_capacity("kube-system", "x").old.is_some());
        assert!(objects.capacities.is_empty() && objects.attachments.is_empty());
    }

    #[test]
    fn malformed_objects_are_refused_by_name() {
        let mut objects = StorageObjects::default();
        let error = objects.apply_volume(&read(volume("pv", "c", "lots", json!({})))).unwrap_err().to_string();
        assert!(error.starts_with("persistentvolume pv: spec.capacity.storage: quantity \"lots\""), "{error}");
        let error = objects.apply_claim(&read(claim_of("c", "c", "1XB"))).unwrap_err().to_string();
        assert!(error.starts_with("persistentvolumeclaim default/c: spec.resources.requests.storage: "), "{error}");
        let nameless = with(volume("pv", "c", "1Gi", json!({})), &["metadata"], json!({}));
        assert_eq!(
            objects.apply_volume(&read(nameless)).unwrap_err(),
            StorageError::NoName { kind: "persistentvolume" }
        );
    }
}
