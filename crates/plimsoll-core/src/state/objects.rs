//! Objects beside nodes and pods that decisions depend on: devices, namespaces, services, controllers and budgets.

use super::cluster::{ClusterState, name_of};
use crate::dra::ObjectError;
use crate::model::{ControllerKind, LabelSet, Selector, Sym};
use k8s_openapi::api::{apps::v1 as apps, core::v1 as api, policy::v1 as policy, resource::v1 as resource};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::BTreeMap;

/// A pod disruption budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    /// Its namespace.
    pub namespace: Sym,
    /// The pods it protects; none if its selector cannot be read.
    pub selector: Selector,
    /// Pods that may be disrupted now.
    pub disruptions_allowed: i32,
    /// Pods already on their way out, by name.
    pub disrupted: Box<[Box<str>]>,
}

/// Devices.
impl ClusterState {
    /// A slice of devices came or changed.
    pub fn apply_resource_slice(&mut self, slice: &resource::ResourceSlice) -> Result<(), ObjectError> {
        self.dra.upsert_slice(slice)
    }

    /// A slice of devices left.
    pub fn delete_resource_slice(&mut self, name: &str) {
        self.dra.delete_slice(name);
    }

    /// A claim for devices came or changed.
    pub fn apply_resource_claim(&mut self, claim: &resource::ResourceClaim) -> Result<(), ObjectError> {
        self.dra.upsert_claim(claim.clone())
    }

    /// A claim for devices left.
    pub fn delete_resource_claim(&mut self, namespace: &str, name: &str) {
        self.dra.delete_claim(namespace, name);
    }

    /// A device class came or changed. It may serve an extended resource, so what is remembered of nodes is stale.
    pub fn apply_device_class(&mut self, class: &resource::DeviceClass) {
        self.dra.upsert_class(class.clone());
        self.node_version += 1;
    }

    /// A device class left.
    pub fn delete_device_class(&mut self, name: &str) {
        self.dra.delete_class(name);
        self.node_version += 1;
    }
}

/// Namespaces, services, controllers and budgets.
impl ClusterState {
    /// A namespace came or changed.
    pub fn apply_namespace(&mut self, namespace: &api::Namespace) {
        let name = self.strings.intern(name_of(&namespace.metadata));
        let labels = LabelSet::compile(namespace.metadata.labels.as_ref(), &mut self.strings);
        let before = self.namespaces.insert(name, labels);
        if before.as_ref() != self.namespaces.get(&name) {
            self.classes.namespace_changed(name, &self.namespaces, &self.strings);
        }
    }

    /// A namespace left.
    pub fn delete_namespace(&mut self, name: &str) {
        let Some(name) = self.strings.get(name) else { return };
        if self.namespaces.remove(&name).is_some() {
            self.classes.namespace_changed(name, &self.namespaces, &self.strings);
        }
    }

    /// The labels of a namespace, if it is known.
    pub fn namespace_labels(&self, name: Sym) -> Option<&LabelSet> {
        self.namespaces.get(&name)
    }

    fn namespace(&mut self, meta: &ObjectMeta) -> Sym {
        self.strings.intern(meta.namespace.as_deref().unwrap_or_default())
    }

    /// A service came or changed.
    pub fn apply_service(&mut self, service: &api::Service) {
        let namespace = self.namespace(&service.metadata);
        let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        let selector = selector.map(|labels| Selector::from_map(Some(labels), &mut self.strings));
        self.controllers.set_service(namespace, name_of(&service.metadata), selector);
    }

    /// A service left.
    pub fn delete_service(&mut self, service: &api::Service) {
        let namespace = self.namespace(&service.metadata);
        self.controllers.remove_service(namespace, name_of(&service.metadata));
    }

    /// A replication controller came or changed.
    pub fn apply_replication_controller(&mut self, controller: &api::ReplicationController) {
        let selector = controller.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        let selector = Selector::from_map(selector, &mut self.strings);
        self.apply_controller(ControllerKind::ReplicationController, &controller.metadata, selector);
    }

    /// A replica set came or changed.
    pub fn apply_replica_set(&mut self, set: &apps::ReplicaSet) {
        let selector = set.spec.as_ref().map(|spec| &spec.selector);
        let selector = Selector::compile(selector, &mut self.strings).unwrap_or(Selector::Nothing);
        self.apply_controller(ControllerKind::ReplicaSet, &set.metadata, selector);
    }

    /// A stateful set came or changed.
    pub fn apply_stateful_set(&mut self, set: &apps::StatefulSet) {
        let selector = set.spec.as_ref().map(|spec| &spec.selector);
        let selector = Selector::compile(selector, &mut self.strings).unwrap_or(Selector::Nothing);
        self.apply_controller(ControllerKind::StatefulSet, &set.metadata, selector);
    }

    fn apply_controller(&mut self, kind: ControllerKind, meta: &ObjectMeta, selector: Selector) {
        let (namespace, name) = (self.namespace(meta), self.strings.intern(name_of(meta)));
        self.controllers.set_controller(kind, namespace, name, selector);
    }

    /// A controller left.
    pub fn delete_controller(&mut self, kind: ControllerKind, meta: &ObjectMeta) {
        let (namespace, name) = (self.namespace(meta), self.strings.intern(name_of(meta)));
        self.controllers.remove_controller(kind, namespace, name);
    }

    /// A disruption budget came or changed.
    pub fn apply_budget(&mut self, budget: &policy::PodDisruptionBudget) {
        let namespace = self.namespace(&budget.metadata);
        let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        let status = budget.status.as_ref();
        let compiled = Budget {
            namespace,
            selector: Selector::compile(selector, &mut self.strings).unwrap_or(Selector::Nothing),
            disruptions_allowed: status.and_then(|status| status.disruptions_allowed).unwrap_or(0),
            disrupted: status
                .and_then(|status| status.disrupted_pods.as_ref())
                .into_iter()
                .flat_map(BTreeMap::keys)
                .map(|name| name.as_str().into())
                .collect(),
        };
        self.budgets.insert((namespace, name_of(&budget.metadata).into()), compiled);
    }

    /// A disruption budget left.
    pub fn delete_budget(&mut self, budget: &policy::PodDisruptionBudget) {
        let namespace = self.namespace(&budget.metadata);
        self.budgets.remove(&(namespace, name_of(&budget.metadata).into()));
    }

    /// All disruption budgets.
    pub fn budgets(&self) -> impl Iterator<Item = &Budget> {
        self.budgets.values()
    }
}
