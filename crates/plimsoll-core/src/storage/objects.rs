//! Storage objects compiled to what the scheduler looks at.

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::storage::v1 as storage;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::{BTreeMap, BTreeSet};

use super::migration::{self, BETA_REGION, BETA_ZONE, REGION, Translated, ZONE, ZONE_SEPARATOR};
use super::selector::{LabelSelector, NodeSelector, TopologyTerm};
use crate::quantity::{Quantity, QuantityError};

/// Set on a claim once it is fully bound.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// Set on a volume that was bound by a controller rather than by a person.
pub(super) const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// Set on a claim that is to be provisioned for a node.
pub(super) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// The older way to name a storage class, which still wins.
const BETA_STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
/// Lists, on a CSINode, the in-tree plugins whose volumes the node serves through CSI.
const MIGRATED_PLUGINS: &str = "storage.alpha.kubernetes.io/migrated-plugins";
/// The provisioner of classes that do not provision.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// The labels of a volume that VolumeZone compares with a node's, in its order.
const ZONE_LABELS: [&str; 4] = [BETA_ZONE, BETA_REGION, ZONE, REGION];

/// A storage object that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StorageError {
    /// The object has no name.
    #[error("a {kind} without metadata.name cannot be stored; objects of the API always have one")]
    NoName {
        /// The kind of the object.
        kind: &'static str,
    },
    /// An amount of storage cannot be read.
    #[error("{kind} {name}: {field}: {source}")]
    Quantity {
        /// The kind of the object.
        kind: &'static str,
        /// The object's name, with its namespace if it has one.
        name: String,
        /// The path of the field.
        field: &'static str,
        /// What is wrong with it.
        source: QuantityError,
    },
}

/// What identifies one state of an object in the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The UID.
    pub uid: Box<str>,
    /// The resource version.
    pub resource_version: Box<str>,
}

impl Identity {
    /// Which state of an object this is.
    pub fn of(metadata: &ObjectMeta) -> Self {
        Self {
            uid: metadata.uid.as_deref().unwrap_or_default().into(),
            resource_version: metadata.resource_version.as_deref().unwrap_or_default().into(),
        }
    }

    /// Whether `self` is a state of the same object known to be older than `other`.
    pub fn is_older_than(&self, other: &Self) -> bool {
        let versions = (self.resource_version.parse::<u64>(), other.resource_version.parse::<u64>());
        self.uid == other.uid && matches!(versions, (Ok(this), Ok(other)) if this < other)
    }
}

/// A reference from a volume to the claim it is bound to, or kept for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRef {
    /// The claim's namespace.
    pub namespace: Box<str>,
    /// The claim's name.
    pub name: Box<str>,
    /// The claim's UID; empty when a person has written the reference.
    pub uid: Box<str>,
}

impl ClaimRef {
    /// Whether the reference is to this claim.
    pub fn refers_to(&self, claim: &PersistentVolumeClaim) -> bool {
        self.name == claim.name
            && self.namespace == claim.namespace
            && (self.uid.is_empty() || self.uid == claim.identity.uid)
    }
}

/// A set of access modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AccessModes(u8);

impl AccessModes {
    const READ_WRITE_ONCE_POD: u8 = 8;

    fn compile(modes: &Option<Vec<String>>) -> Self {
        Self(modes.iter().flatten().fold(0, |set, mode| {
            set | match mode.as_str() {
                "ReadWriteOnce" => 1,
                "ReadOnlyMany" => 2,
                "ReadWriteMany" => 4,
                "ReadWriteOncePod" => Self::READ_WRITE_ONCE_POD,
                // A mode the API does not have, which a volume cannot offer.
                _ => 16,
            }
        }))
    }

    /// Whether every mode of `self` is among those a volume offers.
    pub fn are_offered_by(self, volume: Self) -> bool {
        self.0 & !(volume.0 & 15) == 0
    }

    /// Whether only one pod may use the volume.
    pub fn read_write_once_pod(self) -> bool {
        self.0 & Self::READ_WRITE_ONCE_POD != 0
    }
}

/// A PersistentVolume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersistentVolume {
    /// The name.
    pub name: Box<str>,
    /// UID and version.
    pub identity: Identity,
    /// The storage class; empty for none.
    pub class: Box<str>,
    /// The size.
    pub capacity: Quantity,
    /// How it may be mounted.
    pub access_modes: AccessModes,
    /// `Filesystem` or `Block`.
    pub volume_mode: Box<str>,
    /// The VolumeAttributesClass; empty for none.
    pub attributes_class: Box<str>,
    /// The claim it is bound to or kept for.
    pub claim_ref: Option<ClaimRef>,
    /// Whether it carries the mark of a binding made by a controller.
    pub bound_by_controller: bool,
    /// Whether its phase is `Available`.
    pub available: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its labels, sorted by key.
    pub labels: Box<[(Box<str>, Box<str>)]>,
    /// The nodes it can be used from.
    pub node_affinity: Option<NodeSelector>,
    /// Driver and handle of a CSI volume.
    pub csi: Option<(Box<str>, Box<str>)>,
    /// The CSI view of an in-tree volume.
    pub translated: Option<Box<Translated>>,
    /// The zones and regions its labels name.
    pub zones: Box<[VolumeZones]>,
}

/// A topology label of a volume and the values it allows a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeZones {
    /// The label's key.
    pub key: &'static str,
    /// The key under which newer nodes carry it.
    pub current_key: &'static str,
    /// The values.
    pub values: BTreeSet<Box<str>>,
}

impl PersistentVolume {
    /// Compiles a volume.
    pub fn compile(api: &core::PersistentVolume) -> Result<Self, StorageError> {
        const KIND: &str = "persistentvolume";
        let metadata = &api.metadata;
        let name = name_of(KIND, metadata)?;
        let no_labels = BTreeMap::new();
        let labels = metadata.labels.as_ref().unwrap_or(&no_labels);
        let no_spec = core::PersistentVolumeSpec::default();
        let spec = api.spec.as_ref().unwrap_or(&no_spec);
        let capacity = spec.capacity.as_ref().and_then(|capacity| capacity.get("storage"));
        let capacity = quantity(capacity, KIND, metadata, "spec.capacity.storage")?.unwrap_or_default();
        Ok(Self {
            name: name.into(),
            identity: Identity::of(metadata),
            class: class_of(metadata, spec.storage_class_name.as_deref()),
            capacity,
            access_modes: AccessModes::compile(&spec.access_modes),
            volume_mode: spec.volume_mode.as_deref().unwrap_or("Filesystem").into(),
            attributes_class: spec.volume_attributes_class_name.as_deref().unwrap_or_default().into(),
            claim_ref: spec.claim_ref.as_ref().map(|reference| ClaimRef {
                namespace: reference.namespace.as_deref().unwrap_or_default().into(),
                name: reference.name.as_deref().unwrap_or_default().into(),
                uid: reference.uid.as_deref().unwrap_or_default().into(),
            }),
            bound_by_controller: annotation(metadata, BOUND_BY_CONTROLLER).is_some(),
            available: api.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Available"),
            deleting: metadata.deletion_timestamp.is_some(),
            labels: labels.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect(),
            node_affinity: spec
                .node_affinity
                .as_ref()
                .and_then(|affinity| affinity.required.as_ref())
                .map(NodeSelector::compile),
            csi: spec.csi.as_ref().map(|csi| (csi.driver.as_str().into(), csi.volume_handle.as_str().into())),
            translated: migration::translate_volume(spec, labels).map(Box::new),
            zones: ZONE_LABELS.into_iter().filter_map(|key| VolumeZones::compile(key, labels)).collect(),
        })
    }

    /// The value of one of the volume's labels.
    pub fn label(&self, key: &str) -> Option<&str> {
        let index = self.labels.binary_search_by(|(k, _)| (**k).cmp(key)).ok()?;
        self.labels.get(index).map(|(_, value)| &**value)
    }
}

impl VolumeZones {
    fn compile(key: &'static str, labels: &BTreeMap<String, String>) -> Option<Self> {
        let values: BTreeSet<Box<str>> =
            labels.get(key)?.split(ZONE_SEPARATOR).map(|zone| zone.trim().into()).collect();
        // A list with a gap is no list: the whole label is ignored.
        if values.contains("") {
            return None;
        }
        let current_key = match key {
            BETA_ZONE => ZONE,
            BETA_REGION => REGION,
            current => current,
        };
        Some(Self { key, current_key, values })
    }
}

/// A PersistentVolumeClaim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersistentVolumeClaim {
    /// The namespace.
    pub namespace: Box<str>,
    /// The name.
    pub name: Box<str>,
    /// UID and version.
    pub identity: Identity,
    /// The storage class; empty for none.
    pub class: Box<str>,
    /// The volume it is bound to, or asks for by name; empty for none.
    pub volume_name: Box<str>,
    /// Whether the binding, if there is one, is complete.
    pub bind_completed: bool,
    /// The node a volume is being provisioned for.
    pub selected_node: Option<Box<str>>,
    /// Whether the claim has any annotation.
    pub annotated: bool,
    /// How the volume will be mounted.
    pub access_modes: AccessModes,
    /// The size asked for.
    pub request: Option<Quantity>,
    /// The volumes it may be bound to, or why the selector makes no sense.
    pub selector: Option<Result<LabelSelector, String>>,
    /// `Filesystem` or `Block`.
    pub volume_mode: Box<str>,
    /// The VolumeAttributesClass; empty for none.
    pub attributes_class: Box<str>,
    /// Whether the volume it was bound to is gone.
    pub lost: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The UID of the object that controls it.
    pub controller: Option<Box<str>>,
}

impl PersistentVolumeClaim {
    /// Compiles a claim.
    pub fn compile(api: &core::PersistentVolumeClaim) -> Result<Self, StorageError> {
        const KIND: &str = "persistentvolumeclaim";
        let metadata = &api.metadata;
        let name = name_of(KIND, metadata)?;
        let no_spec = core::PersistentVolumeClaimSpec::default();
        let spec = api.spec.as_ref().unwrap_or(&no_spec);
        let request = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref()?.get("storage"));
        let owners = metadata.owner_references.iter().flatten();
        Ok(Self {
            namespace: metadata.namespace.as_deref().unwrap_or_default().into(),
            name: name.into(),
            identity: Identity::of(metadata),
            class: class_of(metadata, spec.storage_class_name.as_deref()),
            volume_name: spec.volume_name.as_deref().unwrap_or_default().into(),
            bind_completed: annotation(metadata, BIND_COMPLETED).is_some(),
            selected_node: annotation(metadata, SELECTED_NODE).map(Into::into),
            annotated: metadata.annotations.as_ref().is_some_and(|annotations| !annotations.is_empty()),
            access_modes: AccessModes::compile(&spec.access_modes),
            request: quantity(request, KIND, metadata, "spec.resources.requests.storage")?,
            selector: spec.selector.as_ref().map(LabelSelector::compile),
            volume_mode: spec.volume_mode.as_deref().unwrap_or("Filesystem").into(),
            attributes_class: spec.volume_attributes_class_name.as_deref().unwrap_or_default().into(),
            lost: api.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Lost"),
            deleting: metadata.deletion_timestamp.is_some(),
            controller: owners
                .clone()
                .find(|owner| owner.controller == Some(true))
                .map(|owner| owner.uid.as_str().into()),
        })
    }

    /// Whether the claim is bound and the binding complete.
    pub fn is_fully_bound(&self) -> bool {
        !self.volume_name.is_empty() && self.bind_completed
    }
}

/// When volumes of a class are bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BindingMode {
    /// As soon as there is a claim, or anything else that is not the other mode.
    Immediate,
    /// When a pod that uses the claim is scheduled.
    WaitForFirstConsumer,
}

/// A StorageClass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageClass {
    /// The name.
    pub name: Box<str>,
    /// Who provisions volumes.
    pub provisioner: Box<str>,
    /// When volumes are bound; the API server always sets it.
    pub binding_mode: Option<BindingMode>,
    /// Where volumes can be provisioned.
    pub allowed_topologies: Box<[TopologyTerm]>,
}

impl StorageClass {
    /// Compiles a class.
    pub fn compile(api: &storage::StorageClass) -> Result<Self, StorageError> {
        Ok(Self {
            name: name_of("storageclass", &api.metadata)?.into(),
            provisioner: api.provisioner.as_str().into(),
            binding_mode: api.volume_binding_mode.as_deref().map(|mode| match mode {
                "WaitForFirstConsumer" => BindingMode::WaitForFirstConsumer,
                _ => BindingMode::Immediate,
            }),
            allowed_topologies: api.allowed_topologies.iter().flatten().map(TopologyTerm::compile).collect(),
        })
    }

    /// Whether volumes of the class can be made on demand.
    pub fn provisions(&self) -> bool {
        !self.provisioner.is_empty() && *self.provisioner != *NO_PROVISIONER
    }
}

/// A CSINode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsiNode {
    /// The node's name.
    pub name: Box<str>,
    /// The drivers on the node and how many volumes of each it can attach.
    pub drivers: Box<[(Box<str>, Option<i32>)]>,
    /// The annotation that lists in-tree plugins whose volumes the node serves through CSI.
    pub migrated_plugins: Box<str>,
}

impl CsiNode {
    /// Compiles a CSINode.
    pub fn compile(api: &storage::CSINode) -> Result<Self, StorageError> {
        Ok(Self {
            name: name_of("csinode", &api.metadata)?.into(),
            drivers: api
                .spec
                .drivers
                .iter()
                .map(|driver| {
                    let count = driver.allocatable.as_ref().and_then(|allocatable| allocatable.count);
                    (driver.name.as_str().into(), count)
                })
                .collect(),
            migrated_plugins: annotation(&api.metadata, MIGRATED_PLUGINS).unwrap_or_default().into(),
        })
    }

    /// How many volumes of a driver the node can attach; without a limit, nothing.
    pub fn limit(&self, driver: &str) -> Option<i64> {
        self.drivers.iter().rev().find_map(|(name, count)| (**name == *driver).then_some(*count)?).map(i64::from)
    }

    /// Whether the node limits any driver.
    pub fn has_limits(&self) -> bool {
        self.drivers.iter().any(|(_, count)| count.is_some())
    }

    /// Whether the node serves volumes of an in-tree plugin through CSI.
    pub fn serves_migrated(&self, plugin: migration::InTreePlugin) -> bool {
        self.migrated_plugins.split(',').any(|name| name == plugin.name())
    }
}

/// A CSIDriver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsiDriver {
    /// The driver's name.
    pub name: Box<str>,
    /// Whether the driver publishes how much it can still provision.
    pub storage_capacity: bool,
}

impl CsiDriver {
    /// Compiles a CSIDriver.
    pub fn compile(api: &storage::CSIDriver) -> Result<Self, StorageError> {
        Ok(Self {
            name: name_of("csidriver", &api.metadata)?.into(),
            storage_capacity: api.spec.storage_capacity.unwrap_or_default(),
        })
    }
}

/// A CSIStorageCapacity: what a driver can still provision for a class in a part of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsiStorageCapacity {
    /// The namespace.
    pub namespace: Box<str>,
    /// The name.
    pub name: Box<str>,
    /// The class.
    pub class: Box<str>,
    /// The size of the largest volume that can be had.
    pub limit: Option<i64>,
    /// The nodes that can use such a volume; nothing when the storage is unavailable or the selector malformed.
    pub topology: Option<LabelSelector>,
}

impl CsiStorageCapacity {
    /// Compiles a CSIStorageCapacity.
    pub fn compile(api: &storage::CSIStorageCapacity) -> Result<Self, StorageError> {
        const KIND: &str = "csistoragecapacity";
        let maximum = quantity(api.maximum_volume_size.as_ref(), KIND, &api.metadata, "maximumVolumeSize")?;
        let capacity = quantity(api.capacity.as_ref(), KIND, &api.metadata, "capacity")?;
        Ok(Self {
            namespace: api.metadata.namespace.as_deref().unwrap_or_default().into(),
            name: name_of(KIND, &api.metadata)?.into(),
            class: api.storage_class_name.as_str().into(),
            limit: maximum.or(capacity).map(|limit| limit.value()),
            topology: api.node_topology.as_ref().and_then(|selector| LabelSelector::compile(selector).ok()),
        })
    }
}

/// A VolumeAttachment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeAttachment {
    /// The name.
    pub name: Box<str>,
    /// The node.
    pub node: Box<str>,
    /// The driver that attaches.
    pub attacher: Box<str>,
    /// The attached volume, unless it was written into a pod.
    pub volume: Option<Box<str>>,
}

impl VolumeAttachment {
    /// Compiles a VolumeAttachment.
    pub fn compile(api: &storage::VolumeAttachment) -> Result<Self, StorageError> {
        Ok(Self {
            name: name_of("volumeattachment", &api.metadata)?.into(),
            node: api.spec.node_name.as_str().into(),
            attacher: api.spec.attacher.as_str().into(),
            volume: api.spec.source.persistent_volume_name.as_deref().map(Into::into),
        })
    }
}

fn name_of<'a>(kind: &'static str, metadata: &'a ObjectMeta) -> Result<&'a str, StorageError> {
    metadata.name.as_deref().filter(|name| !name.is_empty()).ok_or(StorageError::NoName { kind })
}

fn annotation<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

fn class_of(metadata: &ObjectMeta, class: Option<&str>) -> Box<str> {
    annotation(metadata, BETA_STORAGE_CLASS).or(class).unwrap_or_default().into()
}

fn quantity(
    text: Option<&ApiQuantity>,
    kind: &'static str,
    metadata: &ObjectMeta,
    field: &'static str,
) -> Result<Option<Quantity>, StorageError> {
    text.map(Quantity::try_from).transpose().map_err(|source| {
        let name = metadata.name.as_deref().unwrap_or_default();
        let name = match metadata.namespace.as_deref() {
            Some(namespace) if !namespace.is_empty() => format!("{namespace}/{name}"),
            _ => name.to_owned(),
        };
        StorageError::Quantity { kind, name, field, source }
    })
}
