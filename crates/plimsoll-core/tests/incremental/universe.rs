//! A universe so small that things collide: a handful of names, labels and zones, and the nodes and pods made of them.

use k8s_openapi::api::core::v1 as api;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Map, Value, json};

/// Names of nodes; not all of them exist at any time.
pub const NODES: [&str; 5] = ["n0", "n1", "n2", "n3", "n4"];
/// Names of namespaces; pods live in them whether they are known or not.
pub const NAMESPACES: [&str; 3] = ["default", "blue", "green"];
/// How many names of pods there are.
pub const POD_NAMES: usize = 8;
/// How often each name is used again with a new UID.
pub const GENERATIONS: usize = 2;
/// Names of claims, the same in every namespace.
pub const CLAIMS: [&str; 3] = ["c0", "c1", "c2"];

/// Names of claims for devices, the same in every namespace.
pub const DEVICE_CLAIMS: [&str; 2] = ["g0", "g1"];

const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";
const TOPOLOGIES: [&str; 4] = [ZONE, HOSTNAME, "disk", "rack"];

/// A strategy for one of these.
pub fn one_of<T: Clone + std::fmt::Debug + 'static>(list: &[T]) -> impl Strategy<Value = T> + use<T> {
    select(list.to_vec())
}

/// A strategy for nothing, mostly.
fn rarely<T: Clone + std::fmt::Debug>(strategy: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    prop::option::weighted(0.2, strategy)
}

/// Label selectors as the API has them: by label, by expression, of everything, of nothing, and one that cannot be read.
pub fn selector(at: usize) -> Value {
    match at {
        0 => json!({"matchLabels": {"app": "a"}}),
        1 => json!({"matchLabels": {"app": "b", "tier": "x"}}),
        2 => json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b"]}]}),
        3 => json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]}),
        4 => json!({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}),
        5 => json!({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}),
        6 => json!({}),
        7 => Value::Null,
        _ => json!({"matchExpressions": [{"key": "app", "operator": "Like", "values": ["a"]}]}),
    }
}

/// The place of a selector; the one that cannot be read is rare.
pub fn any_selector() -> impl Strategy<Value = usize> {
    prop_oneof![40 => 0..8_usize, 1 => Just(8_usize)]
}

/// Labels by which services and controllers select; none is a service without selector.
pub fn label_map(at: usize) -> Value {
    match at {
        0 => json!({"app": "a"}),
        1 => json!({"app": "b"}),
        2 => json!({"tier": "x"}),
        3 => json!({}),
        _ => Value::Null,
    }
}

fn insert_some(object: &mut Map<String, Value>, key: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        object.insert(key.to_owned(), value.into());
    }
}

/// What a node is made of.
#[derive(Debug, Clone)]
pub struct NodeRecipe {
    zone: Option<&'static str>,
    hostname: bool,
    disk: Option<&'static str>,
    rack: Option<&'static str>,
    taints: Vec<(&'static str, &'static str)>,
    unschedulable: bool,
    cpu: &'static str,
    memory: &'static str,
    pods: u8,
    gpus: u8,
    images: Vec<(&'static str, i64)>,
    features: bool,
}

pub fn any_node() -> impl Strategy<Value = NodeRecipe> {
    let labels = (
        prop::option::weighted(0.9, one_of(&["z0", "z1"])),
        prop::bool::weighted(0.9),
        prop::option::of(one_of(&["ssd", "hdd"])),
        rarely(one_of(&["r0", "r1"])),
    );
    let taints = subsequence(
        vec![("gpu", "NoSchedule"), ("spot", "PreferNoSchedule"), ("old", "NoExecute"), ("spot", "NoSchedule")],
        0..=2,
    );
    let taints = prop_oneof![3 => Just(Vec::new()), 1 => taints];
    let images =
        vec![("web:1", 300 << 20), ("web:1", 800 << 20), ("db:latest", 900 << 20), ("db@sha256:00", 900 << 20)];
    let offered = (one_of(&["2", "4", "8"]), one_of(&["1Gi", "4Gi", "8Gi"]), one_of(&[3, 5, 110]), 0..4_u8);
    (labels, taints, prop::bool::weighted(0.1), offered, subsequence(images, 0..=3), prop::bool::weighted(0.2))
        .prop_map(
            |((zone, hostname, disk, rack), taints, unschedulable, (cpu, memory, pods, gpus), images, features)| {
                NodeRecipe {
                    zone,
                    hostname,
                    disk,
                    rack,
                    taints,
                    unschedulable,
                    cpu,
                    memory,
                    pods,
                    gpus,
                    images,
                    features,
                }
            },
        )
}

impl NodeRecipe {
    pub fn build(&self, name: &str) -> api::Node {
        let mut labels = Map::new();
        insert_some(&mut labels, ZONE, self.zone);
        insert_some(&mut labels, HOSTNAME, self.hostname.then_some(name));
        insert_some(&mut labels, "disk", self.disk);
        insert_some(&mut labels, "rack", self.rack);
        let taints: Vec<_> = self.taints.iter().map(|(key, effect)| json!({"key": key, "effect": effect})).collect();
        let mut allocatable = json!({"cpu": self.cpu, "memory": self.memory, "pods": self.pods.to_string()});
        if self.gpus > 0 {
            allocatable["example.com/gpu"] = json!(self.gpus.to_string());
        }
        let images: Vec<_> =
            self.images.iter().map(|(name, size)| json!({"names": [name], "sizeBytes": size})).collect();
        let features = if self.features { vec!["UserNamespacesHostNetworkSupport"] } else { vec![] };
        parse(json!({
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": taints, "unschedulable": self.unschedulable},
            "status": {"allocatable": allocatable, "images": images, "declaredFeatures": features},
        }))
    }
}

/// A pod's identity: a name that is used again, and which use of it this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodKey {
    name: usize,
    generation: usize,
}

pub fn any_pod_key() -> impl Strategy<Value = PodKey> {
    (0..POD_NAMES, 0..GENERATIONS).prop_map(|(name, generation)| PodKey { name, generation })
}

impl PodKey {
    /// A pod that no event is about.
    pub const PROBE: Self = Self { name: POD_NAMES, generation: 0 };

    pub fn uid(self) -> String {
        format!("uid-{}-{}", self.name, self.generation)
    }

    fn namespace(self) -> &'static str {
        NAMESPACES[self.name % NAMESPACES.len()]
    }

    /// Start times differ, since Kubernetes leaves open which of two pods that started together goes first.
    fn start_time(self) -> String {
        format!("2026-01-01T00:{:02}:{:02}Z", self.name, self.generation)
    }
}

/// One pod affinity or anti-affinity term.
#[derive(Debug, Clone)]
struct TermRecipe {
    anti: bool,
    weight: Option<i32>,
    selector: usize,
    namespaces: usize,
    topology: &'static str,
}

fn any_term() -> impl Strategy<Value = TermRecipe> {
    let weight = prop::option::weighted(0.7, one_of(&[1, 7, 100]));
    (any::<bool>(), weight, any_selector(), 0..6_usize, one_of(&TOPOLOGIES)).prop_map(
        |(anti, weight, selector, namespaces, topology)| TermRecipe { anti, weight, selector, namespaces, topology },
    )
}

impl TermRecipe {
    fn build(&self) -> Value {
        let mut term = json!({"labelSelector": selector(self.selector), "topologyKey": self.topology});
        let (names, by_label) = match self.namespaces {
            0 | 1 => (json!([]), Value::Null),
            2 => (json!(["blue", "nowhere"]), Value::Null),
            3 => (json!([]), json!({})),
            4 => (json!(["green"]), json!({"matchLabels": {"team": "red"}})),
            _ => (json!([]), json!({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["red"]}]})),
        };
        term["namespaces"] = names;
        term["namespaceSelector"] = by_label;
        match self.weight {
            None => term,
            Some(weight) => json!({"weight": weight, "podAffinityTerm": term}),
        }
    }
}

/// One topology spread constraint.
#[derive(Debug, Clone)]
struct SpreadRecipe {
    max_skew: i32,
    topology: &'static str,
    hard: bool,
    selector: usize,
    min_domains: Option<i32>,
    node_affinity: Option<&'static str>,
    taints: Option<&'static str>,
    by_revision: bool,
}

fn any_spread() -> impl Strategy<Value = SpreadRecipe> {
    let policy = || rarely(one_of(&["Honor", "Ignore"]));
    let base = (1..4_i32, one_of(&TOPOLOGIES), prop::bool::weighted(0.4), any_selector());
    (base, rarely(1..4_i32), policy(), policy(), prop::bool::weighted(0.2)).prop_map(
        |((max_skew, topology, hard, selector), min_domains, node_affinity, taints, by_revision)| SpreadRecipe {
            max_skew,
            topology,
            hard,
            selector,
            min_domains: min_domains.filter(|_| hard),
            node_affinity,
            taints,
            by_revision,
        },
    )
}

impl SpreadRecipe {
    fn build(&self) -> Value {
        let mut constraint = json!({
            "maxSkew": self.max_skew, "topologyKey": self.topology, "labelSelector": selector(self.selector),
            "whenUnsatisfiable": if self.hard { "DoNotSchedule" } else { "ScheduleAnyway" },
            "minDomains": self.min_domains, "nodeAffinityPolicy": self.node_affinity, "nodeTaintsPolicy": self.taints,
        });
        if self.by_revision {
            constraint["matchLabelKeys"] = json!(["tier"]);
        }
        constraint
    }
}

/// What a pod says about nodes, from a short list.
fn node_affinity(at: usize) -> Value {
    let required =
        |term: Value| json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}});
    let expression = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
    let named = |name: &str| json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]});
    match at {
        0 => required(expression("disk", "In", &["ssd"])),
        1 => required(expression("disk", "NotIn", &["hdd"])),
        2 => required(expression(ZONE, "Exists", &[])),
        3 => required(named("n1")),
        4 => {
            json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [named("n0"), named("n3")]}})
        }
        _ => json!({"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 10, "preference": expression("disk", "In", &["ssd"])},
            {"weight": 30, "preference": expression(ZONE, "In", &["z1"])}]}),
    }
}

/// Whether and why a pod is being deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaving {
    No,
    Deleted,
    Preempted,
}

/// Where the API server says a pod is.
#[derive(Debug, Clone)]
pub struct Told {
    /// The node it is on.
    pub node: Option<&'static str>,
    /// The node that is kept for it.
    pub nominated: Option<&'static str>,
    leaving: Leaving,
}

impl Told {
    /// Waiting for a node.
    pub const PENDING: Self = Self { node: None, nominated: None, leaving: Leaving::No };

    /// The same, but on its way out because a more important pod needs its room.
    pub fn preempted(self) -> Self {
        Self { leaving: Leaving::Preempted, ..self }
    }
}

pub fn any_told() -> impl Strategy<Value = Told> {
    let leaving = prop_oneof![
        8 => Just(Leaving::No), 1 => Just(Leaving::Deleted), 1 => Just(Leaving::Preempted)
    ];
    (prop::option::of(one_of(&NODES)), rarely(one_of(&NODES)), leaving).prop_map(|(node, nominated, leaving)| Told {
        node,
        nominated,
        leaving,
    })
}

/// What a pod is made of, wherever it is.
#[derive(Debug, Clone)]
pub struct PodRecipe {
    labels: Vec<(&'static str, &'static str)>,
    priority: i32,
    never_preempts: bool,
    requests: (Option<&'static str>, Option<&'static str>, u8),
    ports: Vec<(u16, &'static str, &'static str)>,
    tolerations: Vec<(&'static str, &'static str)>,
    node_selector: Option<(&'static str, &'static str)>,
    node_affinity: Option<usize>,
    terms: Vec<TermRecipe>,
    spread: Vec<SpreadRecipe>,
    image: Option<&'static str>,
    host_users: bool,
    volumes: Vec<usize>,
    device_claim: Option<&'static str>,
    owner: Option<(&'static str, &'static str)>,
    packer: bool,
}

pub fn any_pod() -> impl Strategy<Value = PodRecipe> {
    let labels = vec![("app", "a"), ("app", "b"), ("tier", "x"), ("tier", "y")];
    let identity = (subsequence(labels, 0..=3), one_of(&[0, 0, 5, 10, -3]), prop::bool::weighted(0.1));
    let requests = (
        prop::option::of(one_of(&["100m", "500m", "1", "3"])),
        prop::option::of(one_of(&["64Mi", "1Gi"])),
        prop_oneof![4 => Just(0_u8), 1 => 1..3_u8],
    );
    let ports = vec![(80, "TCP", ""), (80, "TCP", "10.0.0.1"), (80, "UDP", ""), (443, "TCP", "")];
    let tolerations = vec![("gpu", "NoSchedule"), ("spot", ""), ("node.kubernetes.io/unschedulable", ""), ("", "")];
    let node = (
        prop_oneof![3 => Just(vec![]), 1 => subsequence(ports, 1..=2)],
        prop_oneof![2 => Just(vec![]), 1 => subsequence(tolerations, 1..=2)],
        rarely(one_of(&[("disk", "ssd"), (ZONE, "z0")])),
        rarely(0..6_usize),
    );
    let company = (
        prop_oneof![1 => Just(vec![]), 1 => prop::collection::vec(any_term(), 1..4)],
        prop_oneof![1 => Just(vec![]), 1 => prop::collection::vec(any_spread(), 1..3)],
    );
    let rest = (
        prop::option::of(one_of(&["web:1", "db", "other"])),
        prop::bool::weighted(0.05),
        prop_oneof![5 => Just(vec![]), 1 => prop::collection::vec(0..6_usize, 1..3)],
        rarely(one_of(&DEVICE_CLAIMS)),
        prop::option::of((one_of(&["ReplicaSet", "StatefulSet", "ReplicationController"]), one_of(&["o0", "o1"]))),
        prop::bool::weighted(0.25),
    );
    (identity, requests, node, company, rest).prop_map(
        |(
            (labels, priority, never_preempts),
            requests,
            (ports, tolerations, node_selector, node_affinity),
            (terms, spread),
            (image, host_users, volumes, device_claim, owner, packer),
        )| PodRecipe {
            labels,
            priority,
            never_preempts,
            requests,
            ports,
            tolerations,
            node_selector,
            node_affinity,
            terms,
            spread,
            image,
            host_users,
            volumes,
            device_claim,
            owner,
            packer,
        },
    )
}

impl PodRecipe {
    pub fn build(&self, key: PodKey, told: &Told) -> api::Pod {
        let mut requests = Map::new();
        let (cpu, memory, gpus) = self.requests;
        insert_some(&mut requests, "cpu", cpu);
        insert_some(&mut requests, "memory", memory);
        insert_some(&mut requests, "example.com/gpu", (gpus > 0).then(|| gpus.to_string()));
        let ports = self.ports.iter().map(
            |(port, protocol, ip)| json!({"containerPort": port, "hostPort": port, "protocol": protocol, "hostIP": ip}),
        );
        let container = json!({
            "name": "c", "image": self.image, "resources": {"requests": requests}, "ports": ports.collect::<Vec<_>>(),
        });
        let tolerations =
            self.tolerations.iter().map(|(key, effect)| json!({"key": key, "operator": "Exists", "effect": effect}));
        let mut affinity = Map::new();
        insert_some(&mut affinity, "nodeAffinity", self.node_affinity.map(node_affinity));
        for (field, anti) in [("podAffinity", false), ("podAntiAffinity", true)] {
            let terms = |preferred: bool| -> Vec<Value> {
                let of_kind = self.terms.iter().filter(|t| t.anti == anti && t.weight.is_some() == preferred);
                of_kind.map(TermRecipe::build).collect()
            };
            affinity.insert(
                field.to_owned(),
                json!({
                    "requiredDuringSchedulingIgnoredDuringExecution": terms(false),
                    "preferredDuringSchedulingIgnoredDuringExecution": terms(true),
                }),
            );
        }
        let spec = json!({
            "schedulerName": if self.packer { "packer" } else { "default-scheduler" },
            "priority": self.priority,
            "preemptionPolicy": self.never_preempts.then_some("Never"),
            "nodeName": told.node,
            "containers": [container],
            "tolerations": tolerations.collect::<Vec<_>>(),
            "nodeSelector": self.node_selector.map(|(key, value)| json!({key: value})),
            "affinity": affinity,
            "topologySpreadConstraints": self.spread.iter().map(SpreadRecipe::build).collect::<Vec<_>>(),
            "hostNetwork": self.host_users, "hostUsers": self.host_users.then_some(false),
            "resourceClaims": self.device_claim.map(|name| json!([{"name": "devices", "resourceClaimName": name}])),
            "volumes": self.volumes.iter().enumerate().map(|(at, kind)| volume(at, *kind)).collect::<Vec<_>>(),
        });
        let owner = self.owner.map(|(kind, name)| {
            let version = if kind == "ReplicationController" { "v1" } else { "apps/v1" };
            json!([{"apiVersion": version, "kind": kind, "name": name, "uid": name, "controller": true}])
        });
        let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"});
        let metadata = json!({
            "name": format!("p{}", key.name), "namespace": key.namespace(), "uid": key.uid(),
            "labels": self.labels.iter().map(|(k, v)| ((*k).to_owned(), json!(v))).collect::<Map<_, _>>(),
            "ownerReferences": owner,
            "deletionTimestamp": (told.leaving != Leaving::No).then_some("2026-01-02T00:00:00Z"),
        });
        let status = json!({
            "startTime": key.start_time(),
            "nominatedNodeName": told.nominated,
            "conditions": (told.leaving == Leaving::Preempted).then(|| vec![condition]),
        });
        parse(json!({"metadata": metadata, "spec": spec, "status": status}))
    }
}

/// A volume of a pod: claims that may exist, one made for the pod, and disks that are shared or not.
fn volume(at: usize, kind: usize) -> Value {
    let name = format!("v{at}");
    match kind {
        0..=2 => json!({"name": name, "persistentVolumeClaim": {"claimName": CLAIMS[kind]}}),
        3 => json!({"name": name, "ephemeral": {}}),
        4 => json!({"name": name, "gcePersistentDisk": {"pdName": "disk", "readOnly": false}}),
        _ => json!({"name": name, "gcePersistentDisk": {"pdName": "disk", "readOnly": true}}),
    }
}

/// Reads an object of the API.
pub fn parse<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("recipes make objects of the API")
}
