//! Objects for the unit tests of this folder, written as the API serves them.

use serde_json::{Value, json};
use std::collections::BTreeMap;

use super::{NodeView, PodVolumes, StorageObjects};

/// A cluster of these objects.
pub(super) fn objects(list: &[Value]) -> StorageObjects {
    let mut objects = StorageObjects::default();
    for object in list {
        apply(&mut objects, object);
    }
    objects
}

/// Takes in one object of any kind.
pub(super) fn apply(objects: &mut StorageObjects, object: &Value) {
    fn read<T: serde::de::DeserializeOwned>(object: &Value) -> T {
        serde_json::from_value(object.clone()).unwrap()
    }
    match object["kind"].as_str().unwrap() {
        "PersistentVolume" => drop(objects.apply_volume(&read(object)).unwrap()),
        "PersistentVolumeClaim" => drop(objects.apply_claim(&read(object)).unwrap()),
        "StorageClass" => drop(objects.apply_class(&read(object)).unwrap()),
        "CSINode" => drop(objects.apply_csi_node(&read(object)).unwrap()),
        "CSIDriver" => drop(objects.apply_csi_driver(&read(object)).unwrap()),
        "CSIStorageCapacity" => drop(objects.apply_capacity(&read(object)).unwrap()),
        "VolumeAttachment" => drop(objects.apply_attachment(&read(object)).unwrap()),
        other => panic!("no such kind: {other}"),
    }
}

/// Puts `value` at a path of keys, making objects on the way.
pub(super) fn with(mut object: Value, path: &[&str], value: Value) -> Value {
    let mut place = &mut object;
    for key in path {
        place = &mut place[*key];
    }
    *place = value;
    object
}

fn kind(api_version: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}})
}

/// A claim with UID `uid-<name>` and version 1.
pub(super) fn claim(namespace: &str, name: &str, spec: Value) -> Value {
    let mut object = kind("v1", "PersistentVolumeClaim", name);
    object["metadata"] = json!({
        "name": name, "namespace": namespace, "uid": format!("uid-{name}"), "resourceVersion": "1",
    });
    object["spec"] = spec;
    object
}

/// A claim for `size` of `class`.
pub(super) fn claim_of(name: &str, class: &str, size: &str) -> Value {
    let spec = json!({
        "accessModes": ["ReadWriteOnce"], "storageClassName": class, "resources": {"requests": {"storage": size}},
    });
    claim("default", name, spec)
}

/// A claim that is fully bound to a volume.
pub(super) fn bound_claim(name: &str, volume: &str) -> Value {
    let claim = with(claim_of(name, "", "1Gi"), &["spec", "volumeName"], json!(volume));
    with(claim, &["metadata", "annotations"], json!({"pv.kubernetes.io/bind-completed": "yes"}))
}

/// An available volume of version 1; `spec` adds to its spec.
pub(super) fn volume(name: &str, class: &str, size: &str, spec: Value) -> Value {
    let mut object = kind("v1", "PersistentVolume", name);
    object["metadata"] = json!({"name": name, "uid": format!("uid-{name}"), "resourceVersion": "1"});
    object["spec"] = json!({
        "accessModes": ["ReadWriteOnce"], "storageClassName": class, "capacity": {"storage": size},
    });
    for (key, value) in spec.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    object["status"] = json!({"phase": "Available"});
    object
}

/// A volume's node affinity that demands a label.
pub(super) fn on(key: &str, values: &[&str]) -> Value {
    json!({"nodeAffinity": {"required": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": key, "operator": "In", "values": values}]}]}}})
}

/// A class whose claims wait for their pod.
pub(super) fn waiting_class(name: &str, provisioner: &str) -> Value {
    let mut object = kind("storage.k8s.io/v1", "StorageClass", name);
    object["provisioner"] = json!(provisioner);
    object["volumeBindingMode"] = json!("WaitForFirstConsumer");
    object
}

/// A CSINode with drivers and their limits.
pub(super) fn csi_node(name: &str, drivers: &[(&str, Option<i32>)]) -> Value {
    let mut object = kind("storage.k8s.io/v1", "CSINode", name);
    let driver = |(name, count): &(&str, Option<i32>)| {
        let driver = json!({"name": name, "nodeID": "id"});
        count.map_or(driver.clone(), |count| with(driver, &["allocatable"], json!({"count": count})))
    };
    object["spec"] = json!({"drivers": drivers.iter().map(driver).collect::<Vec<_>>()});
    object
}

/// A CSIDriver that does or does not publish its capacity.
pub(super) fn csi_driver(name: &str, storage_capacity: bool) -> Value {
    with(kind("storage.k8s.io/v1", "CSIDriver", name), &["spec"], json!({"storageCapacity": storage_capacity}))
}

/// A CSIStorageCapacity for nodes with these labels.
pub(super) fn capacity(name: &str, class: &str, capacity: &str, labels: Value) -> Value {
    let mut object = kind("storage.k8s.io/v1", "CSIStorageCapacity", name);
    object["metadata"]["namespace"] = json!("kube-system");
    object["storageClassName"] = json!(class);
    object["capacity"] = json!(capacity);
    object["nodeTopology"] = json!({"matchLabels": labels});
    object
}

/// A VolumeAttachment of a volume.
pub(super) fn attachment(name: &str, node: &str, attacher: &str, volume: &str) -> Value {
    let spec = json!({"nodeName": node, "attacher": attacher, "source": {"persistentVolumeName": volume}});
    with(kind("storage.k8s.io/v1", "VolumeAttachment", name), &["spec"], spec)
}

/// The volumes `v0`, `v1` … of a pod with UID `uid-<name>`, each given by its source.
pub(super) fn pod(namespace: &str, name: &str, sources: &[Value]) -> PodVolumes {
    let named = |(index, source): (usize, &Value)| with(source.clone(), &["name"], json!(format!("v{index}")));
    let volumes: Vec<Value> = sources.iter().enumerate().map(named).collect();
    let volumes: Vec<_> = volumes.into_iter().map(|volume| serde_json::from_value(volume).unwrap()).collect();
    PodVolumes::compile(namespace, name, &format!("uid-{name}"), &volumes)
}

/// A pod in namespace `default` that names claims.
pub(super) fn pod_of(name: &str, claims: &[&str]) -> PodVolumes {
    let source = |claim: &&str| json!({"persistentVolumeClaim": {"claimName": claim}});
    pod("default", name, &claims.iter().map(source).collect::<Vec<_>>())
}

/// A node for tests.
#[derive(Debug, Clone, Default)]
pub(super) struct Node {
    name: String,
    labels: BTreeMap<String, String>,
    pods: Vec<PodVolumes>,
}

impl Node {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    pub(super) fn with_label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    pub(super) fn with_pod(mut self, pod: &PodVolumes) -> Self {
        self.pods.push(pod.clone());
        self
    }
}

impl NodeView for Node {
    fn name(&self) -> &str {
        &self.name
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str)
    }

    fn pod_volumes(&self) -> impl Iterator<Item = &PodVolumes> {
        self.pods.iter()
    }
}
