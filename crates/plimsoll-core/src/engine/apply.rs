//! Events: each changes the state, and the queue hears what it means for the pods that wait.

use super::change::{Changed, NodeMarks, node_actions};
use super::{Engine, EngineError, Event, Object};
use crate::dra::is_extended_claim;
use crate::model::ControllerKind;
use crate::queue::{self, ActionType, EventResource};
use crate::storage::Change;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::sync::Arc;
use std::time::Duration;

impl Engine {
    /// Takes in what a watch says. An object that cannot be read is refused, and what was known of it stays.
    pub fn apply(&mut self, now: Duration, event: Event) -> Result<(), EngineError> {
        match event {
            Event::Apply(object) => self.apply_object(now, object),
            Event::Delete(object) => {
                self.delete_object(now, &object);
                Ok(())
            }
        }
    }

    fn apply_object(&mut self, now: Duration, object: Object) -> Result<(), EngineError> {
        let state = &mut self.scheduler.state;
        match object {
            Object::Node(node) => self.apply_node(now, &node)?,
            Object::Pod(pod) => self.apply_pod(now, &pod)?,
            Object::Namespace(namespace) => state.apply_namespace(&namespace),
            Object::Service(service) => state.apply_service(&service),
            Object::ReplicationController(controller) => state.apply_replication_controller(&controller),
            Object::ReplicaSet(set) => state.apply_replica_set(&set),
            Object::StatefulSet(set) => state.apply_stateful_set(&set),
            Object::PodDisruptionBudget(budget) => state.apply_budget(&budget),
            Object::PersistentVolume(volume) => {
                let change = state.storage.apply_volume(&volume)?;
                self.tell_change(now, EventResource::PersistentVolume, change, Changed::PersistentVolume);
            }
            Object::PersistentVolumeClaim(claim) => {
                let change = state.storage.apply_claim(&claim)?;
                self.tell_change(now, EventResource::PersistentVolumeClaim, change, Changed::PersistentVolumeClaim);
            }
            Object::StorageClass(class) => {
                let change = state.storage.apply_class(&class)?;
                self.tell_change(now, EventResource::StorageClass, Some(change), Changed::StorageClass);
            }
            Object::CsiNode(node) => {
                let change = state.storage.apply_csi_node(&node)?;
                self.tell_change(now, EventResource::CsiNode, Some(change), Changed::CsiNode);
            }
            Object::CsiDriver(driver) => {
                let change = state.storage.apply_csi_driver(&driver)?;
                self.tell_change(now, EventResource::CsiDriver, Some(change), Changed::CsiDriver);
            }
            Object::CsiStorageCapacity(capacity) => {
                let change = state.storage.apply_capacity(&capacity)?;
                self.tell_change(now, EventResource::CsiStorageCapacity, Some(change), Changed::CsiStorageCapacity);
            }
            Object::VolumeAttachment(attachment) => {
                let change = state.storage.apply_attachment(&attachment)?;
                self.tell_change(now, EventResource::VolumeAttachment, Some(change), Changed::VolumeAttachment);
            }
            Object::ResourceSlice(slice) => self.apply_slice(now, &slice)?,
            Object::ResourceClaim(claim) => {
                let name = (claim.metadata.namespace.clone(), claim.metadata.name.clone());
                let old = self.resource_claim(&name);
                self.scheduler.state.apply_resource_claim(&claim)?;
                let new = self.resource_claim(&name);
                self.tell_claim(now, old, new);
            }
            Object::DeviceClass(class) => {
                let old = state.dra.class(name_of(&class.metadata)).cloned();
                state.apply_device_class(&class);
                let change = Change { old, new: Some(Arc::new(*class)) };
                self.tell_change(now, EventResource::DeviceClass, Some(change), Changed::DeviceClass);
            }
        }
        Ok(())
    }

    fn delete_object(&mut self, now: Duration, object: &Object) {
        let state = &mut self.scheduler.state;
        match object {
            Object::Node(node) => self.delete_node(now, node),
            Object::Pod(pod) => self.delete_pod(now, pod),
            Object::Namespace(namespace) => state.delete_namespace(name_of(&namespace.metadata)),
            Object::Service(service) => state.delete_service(service),
            Object::ReplicationController(controller) => {
                state.delete_controller(ControllerKind::ReplicationController, &controller.metadata);
            }
            Object::ReplicaSet(set) => state.delete_controller(ControllerKind::ReplicaSet, &set.metadata),
            Object::StatefulSet(set) => state.delete_controller(ControllerKind::StatefulSet, &set.metadata),
            Object::PodDisruptionBudget(budget) => state.delete_budget(budget),
            Object::PersistentVolume(volume) => {
                let change = state.storage.remove_volume(name_of(&volume.metadata));
                self.tell_change(now, EventResource::PersistentVolume, Some(change), Changed::PersistentVolume);
            }
            Object::PersistentVolumeClaim(claim) => {
                let change = state.storage.remove_claim(namespace_of(&claim.metadata), name_of(&claim.metadata));
                let resource = EventResource::PersistentVolumeClaim;
                self.tell_change(now, resource, Some(change), Changed::PersistentVolumeClaim);
            }
            Object::StorageClass(class) => {
                let change = state.storage.remove_class(name_of(&class.metadata));
                self.tell_change(now, EventResource::StorageClass, Some(change), Changed::StorageClass);
            }
            Object::CsiNode(node) => {
                let change = state.storage.remove_csi_node(name_of(&node.metadata));
                self.tell_change(now, EventResource::CsiNode, Some(change), Changed::CsiNode);
            }
            Object::CsiDriver(driver) => {
                let change = state.storage.remove_csi_driver(name_of(&driver.metadata));
                self.tell_change(now, EventResource::CsiDriver, Some(change), Changed::CsiDriver);
            }
            Object::CsiStorageCapacity(capacity) => {
                let (namespace, name) = (namespace_of(&capacity.metadata), name_of(&capacity.metadata));
                let change = state.storage.remove_capacity(namespace, name);
                self.tell_change(now, EventResource::CsiStorageCapacity, Some(change), Changed::CsiStorageCapacity);
            }
            Object::VolumeAttachment(attachment) => {
                let change = state.storage.remove_attachment(name_of(&attachment.metadata));
                self.tell_change(now, EventResource::VolumeAttachment, Some(change), Changed::VolumeAttachment);
            }
            Object::ResourceSlice(slice) => {
                state.delete_resource_slice(name_of(&slice.metadata));
                self.tell(now, &queue::Event::new(EventResource::ResourceSlice, ActionType::DELETE, Changed::Unseen));
            }
            Object::ResourceClaim(claim) => {
                let name = (claim.metadata.namespace.clone(), claim.metadata.name.clone());
                let old = self.resource_claim(&name);
                let (namespace, name) = (namespace_of(&claim.metadata), name_of(&claim.metadata));
                self.scheduler.state.delete_resource_claim(namespace, name);
                // Devices come free before their claim may go; only what was left over concerns somebody.
                if old.as_deref().is_some_and(is_extended_claim) {
                    self.tell_claim(now, old, None);
                }
            }
            Object::DeviceClass(class) => {
                let old: Option<Arc<DeviceClass>> = state.dra.class(name_of(&class.metadata)).cloned();
                state.delete_device_class(name_of(&class.metadata));
                let change = Change { old, new: None };
                self.tell_change(now, EventResource::DeviceClass, Some(change), Changed::DeviceClass);
            }
        }
    }

    fn apply_node(&mut self, now: Duration, node: &Node) -> Result<(), EngineError> {
        let state = &mut self.scheduler.state;
        let known = state.node_named(name_of(&node.metadata)).and_then(|id| state.node(id));
        let old = known.map(|known| Arc::clone(&known.spec));
        let id = state.apply_node(node)?;
        let Some(new) = state.node(id).map(|node| Arc::clone(&node.spec)) else { return Ok(()) };
        let marks = NodeMarks::of(node);
        let marks_before = self.node_marks.insert(new.name, marks).unwrap_or(marks);
        let actions = match &old {
            None => vec![ActionType::ADD],
            Some(old) => node_actions(old, &new, (marks_before, marks)),
        };
        let change = Changed::Node(Change { old, new: Some(new) });
        for action in actions {
            self.tell(now, &queue::Event::new(EventResource::Node, action, change.clone()));
        }
        Ok(())
    }

    fn delete_node(&mut self, now: Duration, node: &Node) {
        let state = &mut self.scheduler.state;
        let name = name_of(&node.metadata);
        let Some(known) = state.node_named(name).and_then(|id| state.node(id)) else { return };
        let old = Arc::clone(&known.spec);
        self.node_marks.remove(&old.name);
        state.delete_node(name);
        let change = Changed::Node(Change { old: Some(old), new: None });
        self.tell(now, &queue::Event::new(EventResource::Node, ActionType::DELETE, change));
    }

    fn apply_slice(&mut self, now: Duration, slice: &ResourceSlice) -> Result<(), EngineError> {
        self.scheduler.state.apply_resource_slice(slice)?;
        // Whoever registered for slices did so without a hint, and for both: that it is new need not be told apart.
        self.tell(now, &queue::Event::new(EventResource::ResourceSlice, ActionType::UPDATE, Changed::Unseen));
        Ok(())
    }

    /// The claim of this namespace and name.
    pub(super) fn resource_claim(&self, name: &(Option<String>, Option<String>)) -> Option<Arc<ResourceClaim>> {
        let (namespace, name) = (name.0.as_deref().unwrap_or_default(), name.1.as_deref().unwrap_or_default());
        self.scheduler.state.dra.claim(namespace, name).cloned()
    }

    pub(super) fn tell_claim(
        &mut self,
        now: Duration,
        old: Option<Arc<ResourceClaim>>,
        new: Option<Arc<ResourceClaim>>,
    ) {
        // What is known was newer than what came.
        if old.as_ref().zip(new.as_ref()).is_some_and(|(old, new)| Arc::ptr_eq(old, new)) {
            return;
        }
        self.tell_change(now, EventResource::ResourceClaim, Some(Change { old, new }), Changed::ResourceClaim);
    }

    /// Tells the queue of an object that came, changed or left; nothing if nothing happened.
    fn tell_change<T>(
        &mut self,
        now: Duration,
        resource: EventResource,
        change: Option<Change<T>>,
        changed: fn(Change<T>) -> Changed,
    ) {
        let Some(change) = change else { return };
        let action = match (&change.old, &change.new) {
            (None, None) => return,
            (None, Some(_)) => ActionType::ADD,
            (Some(_), Some(_)) => ActionType::UPDATE,
            (Some(_), None) => ActionType::DELETE,
        };
        self.tell(now, &queue::Event::new(resource, action, changed(change)));
    }
}

fn name_of(meta: &ObjectMeta) -> &str {
    meta.name.as_deref().unwrap_or_default()
}

fn namespace_of(meta: &ObjectMeta) -> &str {
    meta.namespace.as_deref().unwrap_or_default()
}
