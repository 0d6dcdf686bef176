//! Everything beside nodes and pods: namespaces, services, controllers, budgets and storage.

use super::universe::{CLAIMS, DEVICE_CLAIMS, NAMESPACES, NODES, any_selector, label_map, one_of, parse, selector};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use plimsoll_core::model::ControllerKind;
use plimsoll_core::state::ClusterState;
use proptest::prelude::*;
use serde_json::{Value, json};

/// What an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Namespace,
    Service,
    ReplicationController,
    ReplicaSet,
    StatefulSet,
    Budget,
    Volume,
    Claim,
    Class,
    CsiNode,
    CsiDriver,
    Capacity,
    Attachment,
    DeviceClass,
    ResourceSlice,
    ResourceClaim,
}

/// An object, as the API serves it.
#[derive(Debug, Clone)]
pub struct Object {
    pub kind: Kind,
    value: Value,
}

impl Object {
    /// By what the API tells it from others of its kind.
    pub fn key(&self) -> (Kind, String) {
        let text = |field: &str| self.value["metadata"][field].as_str().unwrap_or_default();
        (self.kind, format!("{}/{}", text("namespace"), text("name")))
    }

    /// Whether the API server's version `known` of the object makes this one old news, where versions are looked at.
    pub fn is_older_than(&self, known: &Self) -> bool {
        let version = |object: &Self| object.value["metadata"]["resourceVersion"].as_str()?.parse::<u64>().ok();
        matches!(self.kind, Kind::Volume | Kind::Claim)
            && self.value["metadata"]["uid"] == known.value["metadata"]["uid"]
            && version(self) < version(known)
    }

    /// Tells the state that the object is there.
    pub fn apply(&self, state: &mut ClusterState) {
        let value = self.value.clone();
        match self.kind {
            Kind::Namespace => state.apply_namespace(&parse(value)),
            Kind::Service => state.apply_service(&parse(value)),
            Kind::ReplicationController => state.apply_replication_controller(&parse(value)),
            Kind::ReplicaSet => state.apply_replica_set(&parse(value)),
            Kind::StatefulSet => state.apply_stateful_set(&parse(value)),
            Kind::Budget => state.apply_budget(&parse(value)),
            Kind::Volume => drop(state.storage.apply_volume(&parse(value)).unwrap()),
            Kind::Claim => drop(state.storage.apply_claim(&parse(value)).unwrap()),
            Kind::Class => drop(state.storage.apply_class(&parse(value)).unwrap()),
            Kind::CsiNode => drop(state.storage.apply_csi_node(&parse(value)).unwrap()),
            Kind::CsiDriver => drop(state.storage.apply_csi_driver(&parse(value)).unwrap()),
            Kind::Capacity => drop(state.storage.apply_capacity(&parse(value)).unwrap()),
            Kind::Attachment => drop(state.storage.apply_attachment(&parse(value)).unwrap()),
            Kind::DeviceClass => state.apply_device_class(&parse(value)),
            Kind::ResourceSlice => state.apply_resource_slice(&parse(value)).unwrap(),
            Kind::ResourceClaim => state.apply_resource_claim(&parse(value)).unwrap(),
        }
    }

    /// Tells the state that the object is gone, whether it was there or not.
    pub fn delete(&self, state: &mut ClusterState) {
        let value = self.value.clone();
        let meta: ObjectMeta = parse(value["metadata"].clone());
        let (name, namespace) =
            (meta.name.as_deref().unwrap_or_default(), meta.namespace.as_deref().unwrap_or_default());
        match self.kind {
            Kind::Namespace => state.delete_namespace(name),
            Kind::Service => state.delete_service(&parse(value)),
            Kind::ReplicationController => state.delete_controller(ControllerKind::ReplicationController, &meta),
            Kind::ReplicaSet => state.delete_controller(ControllerKind::ReplicaSet, &meta),
            Kind::StatefulSet => state.delete_controller(ControllerKind::StatefulSet, &meta),
            Kind::Budget => state.delete_budget(&parse(value)),
            Kind::Volume => drop(state.storage.remove_volume(name)),
            Kind::Claim => drop(state.storage.remove_claim(namespace, name)),
            Kind::Class => drop(state.storage.remove_class(name)),
            Kind::CsiNode => drop(state.storage.remove_csi_node(name)),
            Kind::CsiDriver => drop(state.storage.remove_csi_driver(name)),
            Kind::Capacity => drop(state.storage.remove_capacity(namespace, name)),
            Kind::Attachment => drop(state.storage.remove_attachment(name)),
            Kind::DeviceClass => state.delete_device_class(name),
            Kind::ResourceSlice => state.delete_resource_slice(name),
            Kind::ResourceClaim => state.delete_resource_claim(namespace, name),
        }
    }
}

const CLASSES: [&str; 3] = ["waiting", "local", "immediate"];
const VOLUMES: [&str; 4] = ["v0", "v1", "v2", "v3"];
const DRIVER: &str = "csi.example.com";

fn meta(name: &str, namespace: &str) -> Value {
    json!({"name": name, "namespace": namespace})
}

fn versioned(name: &str, namespace: &str, uid: usize, version: u64) -> Value {
    json!({"name": name, "namespace": namespace, "uid": format!("{name}-{uid}"), "resourceVersion": version.to_string()})
}

pub fn any_object() -> impl Strategy<Value = Object> {
    prop_oneof![
        3 => any_namespace(),
        2 => any_service(),
        2 => any_controller(),
        2 => any_budget(),
        3 => any_volume(),
        4 => any_claim(),
        2 => any_class(),
        1 => any_csi_object(),
        4 => any_device_object(),
    ]
}

fn object(kind: Kind) -> impl Fn(Value) -> Object + Clone {
    move |value| Object { kind, value }
}

fn any_namespace() -> impl Strategy<Value = Object> {
    (one_of(&NAMESPACES), prop::option::of(one_of(&["red", "white"])))
        .prop_map(|(name, team)| {
            let labels = team.map_or_else(|| json!({}), |team| json!({"team": team}));
            json!({"metadata": {"name": name, "labels": labels}})
        })
        .prop_map(object(Kind::Namespace))
}

fn any_service() -> impl Strategy<Value = Object> {
    (one_of(&["s0", "s1"]), one_of(&NAMESPACES), 0..5_usize)
        .prop_map(|(name, namespace, selector)| {
            json!({"metadata": meta(name, namespace), "spec": {"selector": label_map(selector)}})
        })
        .prop_map(object(Kind::Service))
}

fn any_controller() -> impl Strategy<Value = Object> {
    let kinds = [Kind::ReplicationController, Kind::ReplicaSet, Kind::StatefulSet];
    (one_of(&kinds), one_of(&["o0", "o1"]), one_of(&NAMESPACES), 0..7_usize).prop_map(|(kind, name, namespace, at)| {
        let spec = match kind {
            Kind::ReplicationController => json!({"selector": label_map(at % 4)}),
            _ => json!({"selector": selector(at), "serviceName": "", "template": {}}),
        };
        Object { kind, value: json!({"metadata": meta(name, namespace), "spec": spec}) }
    })
}

fn any_budget() -> impl Strategy<Value = Object> {
    (one_of(&["b0", "b1"]), one_of(&NAMESPACES), any_selector(), 0..3_i32, prop::bool::weighted(0.2))
        .prop_map(|(name, namespace, at, allowed, disrupted)| {
            let disrupted = if disrupted { json!({"p0": "2026-01-01T00:00:00Z"}) } else { json!({}) };
            json!({"metadata": meta(name, namespace), "spec": {"selector": selector(at)},
                   "status": {"disruptionsAllowed": allowed, "disruptedPods": disrupted,
                              "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}})
        })
        .prop_map(object(Kind::Budget))
}

fn any_volume() -> impl Strategy<Value = Object> {
    let identity = (one_of(&VOLUMES), 0..2_usize, 1..6_u64);
    let claim = prop::option::of((one_of(&CLAIMS), one_of(&NAMESPACES), any::<bool>()));
    let zone = || prop::option::of(one_of(&["z0", "z1"]));
    (identity, one_of(&CLASSES), one_of(&["1Gi", "5Gi"]), claim, zone(), zone(), any::<bool>())
        .prop_map(|((name, uid, version), class, size, claim, affinity, zone, csi)| {
            let mut metadata = versioned(name, "", uid, version);
            if let Some(zone) = zone {
                metadata["labels"] = json!({"topology.kubernetes.io/zone": zone});
            }
            let phase = if claim.is_some() { "Bound" } else { "Available" };
            let claim = claim.map(|(claim, namespace, by_uid)| {
                json!({"name": claim, "namespace": namespace, "uid": by_uid.then(|| format!("{claim}-0"))})
            });
            let affinity = affinity.map(|zone| {
                json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
                    {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]}]}})
            });
            json!({"metadata": metadata, "status": {"phase": phase}, "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": class, "capacity": {"storage": size},
                "claimRef": claim, "nodeAffinity": affinity,
                "csi": csi.then(|| json!({"driver": DRIVER, "volumeHandle": name}))}})
        })
        .prop_map(object(Kind::Volume))
}

fn any_claim() -> impl Strategy<Value = Object> {
    let names: Vec<String> = CLAIMS.iter().map(|name| (*name).to_owned()).chain(["p0-v0".to_owned()]).collect();
    let identity = (one_of(&names), one_of(&NAMESPACES), 0..2_usize, 1..6_u64);
    let bound = prop::option::of(one_of(&VOLUMES));
    let selected = prop::option::weighted(0.2, one_of(&NODES));
    let mode = one_of(&["ReadWriteOnce", "ReadWriteOncePod"]);
    (identity, one_of(&CLASSES), one_of(&["1Gi", "3Gi"]), bound, selected, mode)
        .prop_map(|((name, namespace, uid, version), class, size, volume, selected, mode)| {
            let mut metadata = versioned(&name, namespace, uid, version);
            metadata["annotations"] = match (volume, selected) {
                (Some(_), _) => json!({"pv.kubernetes.io/bind-completed": "yes"}),
                (None, Some(node)) => json!({"volume.kubernetes.io/selected-node": node}),
                (None, None) => json!({}),
            };
            if name == "p0-v0" {
                metadata["ownerReferences"] =
                    json!([{"apiVersion": "v1", "kind": "Pod", "name": "p0", "uid": "uid-0-0", "controller": true}]);
            }
            json!({"metadata": metadata, "spec": {
                "accessModes": [mode], "storageClassName": class, "volumeName": volume,
                "resources": {"requests": {"storage": size}}}})
        })
        .prop_map(object(Kind::Claim))
}

fn any_class() -> impl Strategy<Value = Object> {
    (one_of(&CLASSES), prop::bool::weighted(0.2))
        .prop_map(|(name, limited)| {
            let mode = if name == "immediate" { "Immediate" } else { "WaitForFirstConsumer" };
            let provisioner = if name == "local" { "kubernetes.io/no-provisioner" } else { DRIVER };
            let zones = json!([{"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": ["z0"]}]}]);
            json!({"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode,
                   "allowedTopologies": limited.then_some(zones)})
        })
        .prop_map(object(Kind::Class))
}

fn any_csi_object() -> impl Strategy<Value = Object> {
    let node = (one_of(&NODES), prop::option::of(0..3_i32)).prop_map(|(name, limit)| {
        let limit = limit.map(|count| json!({"count": count}));
        let drivers = json!([{"name": DRIVER, "nodeID": name, "allocatable": limit}]);
        Object { kind: Kind::CsiNode, value: json!({"metadata": {"name": name}, "spec": {"drivers": drivers}}) }
    });
    let driver = any::<bool>().prop_map(|tells| {
        let value = json!({"metadata": {"name": DRIVER}, "spec": {"storageCapacity": tells}});
        Object { kind: Kind::CsiDriver, value }
    });
    let capacity = (one_of(&["k0", "k1"]), one_of(&CLASSES), one_of(&["z0", "z1"]), one_of(&["1Gi", "4Gi"])).prop_map(
        |(name, class, zone, amount)| {
            let value = json!({"metadata": meta(name, "kube-system"), "storageClassName": class, "capacity": amount,
                               "nodeTopology": {"matchLabels": {"topology.kubernetes.io/zone": zone}}});
            Object { kind: Kind::Capacity, value }
        },
    );
    let attachment = (one_of(&["t0", "t1"]), one_of(&NODES), one_of(&VOLUMES)).prop_map(|(name, node, volume)| {
        let spec = json!({"nodeName": node, "attacher": DRIVER, "source": {"persistentVolumeName": volume}});
        Object { kind: Kind::Attachment, value: json!({"metadata": {"name": name}, "spec": spec}) }
    });
    prop_oneof![3 => node, 1 => driver, 1 => capacity, 1 => attachment]
}

const GPU_DRIVER: &str = "gpu.example.com";
const DEVICE_CLASSES: [&str; 2] = ["any", "fast"];
const POOLS: [&str; 3] = ["pool0", "pool1", "pool2"];

fn any_device_object() -> impl Strategy<Value = Object> {
    prop_oneof![2 => any_device_class(), 4 => any_resource_slice(), 4 => any_resource_claim()]
}

/// A class may also serve an extended resource, which changes what nodes without it are good for.
fn any_device_class() -> impl Strategy<Value = Object> {
    let serves = prop::option::weighted(0.3, Just("example.com/gpu"));
    (one_of(&DEVICE_CLASSES), serves)
        .prop_map(|(name, serves)| {
            let fast = json!([{"cel": {"expression": format!(r#"device.attributes["{GPU_DRIVER}"].speed > 1"#)}}]);
            let selectors = if name == "fast" { fast } else { json!([]) };
            json!({"metadata": {"name": name}, "spec": {"selectors": selectors, "extendedResourceName": serves}})
        })
        .prop_map(object(Kind::DeviceClass))
}

fn any_resource_slice() -> impl Strategy<Value = Object> {
    let place = prop_oneof![
        3 => one_of(&NODES).prop_map(|node| json!({"nodeName": node})),
        1 => Just(json!({"allNodes": true})),
        1 => one_of(&["z0", "z1"]).prop_map(|zone| json!({"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]}]}})),
    ];
    let speeds = prop::collection::vec(1..3_i64, 1..3);
    (one_of(&["sl0", "sl1", "sl2"]), one_of(&POOLS), 1..3_i64, place, speeds)
        .prop_map(|(name, pool, generation, mut spec, speeds)| {
            let devices = speeds
                .iter()
                .enumerate()
                .map(|(at, speed)| json!({"name": format!("d{at}"), "attributes": {"speed": {"int": speed}}}));
            spec["driver"] = json!(GPU_DRIVER);
            spec["pool"] = json!({"name": pool, "generation": generation, "resourceSliceCount": 1});
            spec["devices"] = devices.collect();
            json!({"metadata": {"name": name}, "spec": spec})
        })
        .prop_map(object(Kind::ResourceSlice))
}

fn any_resource_claim() -> impl Strategy<Value = Object> {
    let allocation = (one_of(&POOLS), one_of(&["d0", "d1"]), prop::option::of(one_of(&["uid-0-0", "uid-3-0"])));
    let allocation = prop::option::weighted(0.3, allocation);
    (one_of(&DEVICE_CLAIMS), one_of(&NAMESPACES), one_of(&DEVICE_CLASSES), allocation)
        .prop_map(|(name, namespace, class, allocation)| {
            let uid = format!("{namespace}-{name}");
            let status = allocation.map(|(pool, device, user)| {
                let result = json!({"request": "r", "driver": GPU_DRIVER, "pool": pool, "device": device});
                let users = user.map(|uid| json!([{"resource": "pods", "name": "p", "uid": uid}]));
                json!({"allocation": {"devices": {"results": [result]}}, "reservedFor": users})
            });
            json!({"metadata": {"name": name, "namespace": namespace, "uid": uid}, "status": status, "spec": {
                "devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": class}}]}}})
        })
        .prop_map(object(Kind::ResourceClaim))
}
