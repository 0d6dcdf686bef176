//! What a watch, or a simulation, says about the objects of the cluster.

use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{
    Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ReplicationController, Service,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment};

/// What happened to an object.
#[derive(Debug, Clone)]
pub enum Event {
    /// It came or changed.
    Apply(Object),
    /// It left.
    Delete(Object),
}

macro_rules! objects {
    ($($kind:ident($type:ty)),* $(,)?) => {
        /// An object that decisions depend on.
        #[derive(Debug, Clone)]
        #[expect(missing_docs, reason = "the names are those of the API")]
        pub enum Object {
            $($kind(Box<$type>),)*
        }

        $(impl From<$type> for Object {
            fn from(object: $type) -> Self {
                Self::$kind(Box::new(object))
            }
        })*
    };
}

objects!(
    Node(Node),
    Pod(Pod),
    Namespace(Namespace),
    Service(Service),
    ReplicationController(ReplicationController),
    ReplicaSet(ReplicaSet),
    StatefulSet(StatefulSet),
    PodDisruptionBudget(PodDisruptionBudget),
    PersistentVolume(PersistentVolume),
    PersistentVolumeClaim(PersistentVolumeClaim),
    StorageClass(StorageClass),
    CsiNode(CSINode),
    CsiDriver(CSIDriver),
    CsiStorageCapacity(CSIStorageCapacity),
    VolumeAttachment(VolumeAttachment),
    ResourceSlice(ResourceSlice),
    ResourceClaim(ResourceClaim),
    DeviceClass(DeviceClass),
);

impl Event {
    /// An object came or changed.
    pub fn apply(object: impl Into<Object>) -> Self {
        Self::Apply(object.into())
    }

    /// An object left.
    pub fn delete(object: impl Into<Object>) -> Self {
        Self::Delete(object.into())
    }
}
