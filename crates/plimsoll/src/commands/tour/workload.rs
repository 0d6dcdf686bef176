//! A synthetic cluster and workload: small enough to read, varied enough that every kind of rule has its say.

use crate::cluster::Cluster;
use anyhow::Result;
use plimsoll_core::conformance::Objects;
use plimsoll_core::rng::Rng;
use serde_json::{Value, json};

/// The namespace of every pod.
pub const NAMESPACE: &str = "shop";
const ZONES: [&str; 3] = ["a", "b", "c"];
const POOLS: [Pool; 5] = [
    Pool { name: "large", cpu: 8, memory_gi: 32 },
    Pool { name: "spot", cpu: 4, memory_gi: 16 },
    Pool { name: "medium", cpu: 4, memory_gi: 16 },
    Pool { name: "ssd", cpu: 16, memory_gi: 64 },
    Pool { name: "gpu", cpu: 8, memory_gi: 32 },
];
const GPUS: usize = 4;
/// The first node of the pool `medium`.
const CORDONED: usize = 2;

struct Pool {
    name: &'static str,
    cpu: usize,
    memory_gi: usize,
}

/// Pods of one template.
pub struct Group {
    /// Its name; pods are called `name-0`, `name-1` and so on.
    pub name: &'static str,
    /// How many pods.
    pub pods: usize,
    /// What they ask for, in words.
    pub asks: &'static str,
}

/// The workload, in the order it is shown.
pub struct Tour {
    /// The cluster with all pods, placed and pending.
    pub cluster: Cluster,
    /// The templates of the pending pods.
    pub groups: Vec<Group>,
}

impl Tour {
    /// Makes a cluster of `nodes` and `pods` that wait. The seed varies sizes and the order pods come in.
    pub fn new(nodes: usize, pods: usize, seed: u64) -> Result<Self> {
        let groups = groups(nodes, pods);
        let mut rng = Rng::new(seed);
        let mut waiting = Vec::new();
        for group in &groups {
            waiting.extend((0..group.pods).map(|number| pod(group.name, number, &mut rng)));
        }
        shuffle(&mut waiting, &mut rng);
        let bound = (0..nodes).filter(|index| pool(*index).name == "ssd").flat_map(|index| {
            (0..2)
                .map(move |number| with_node(plain("backfill", index * 2 + number, "4", "4Gi", -10), &node_name(index)))
        });
        let objects = json!({
            "nodes": (0..nodes).map(node).collect::<Vec<_>>(),
            "pods": bound.chain(waiting).collect::<Vec<_>>(),
            "namespaces": [{"metadata": {"name": NAMESPACE}}],
            "services": [{
                "metadata": {"name": "api", "namespace": NAMESPACE},
                "spec": {"selector": {"app": "api"}},
            }],
        });
        let objects: Objects = serde_json::from_value(objects)?;
        Ok(Self { cluster: objects.into(), groups })
    }
}

/// The zone a node's name tells.
pub fn zone_of(node: &str) -> &str {
    node.split('-').nth(1).unwrap_or_default()
}

fn groups(nodes: usize, pods: usize) -> Vec<Group> {
    // Three pods are one of a kind; the rest is shared out.
    let rest = pods.saturating_sub(3);
    let ssd_nodes = (0..nodes).filter(|index| pool(*index).name == "ssd").count();
    let (db, train, cache) = ((rest / 15).min(ssd_nodes), rest / 9, rest / 9);
    let (web, api) = (rest * 3 / 10, rest / 4);
    let batch = rest.saturating_sub(db + train + cache + web + api);
    [
        ("urgent", 1, "10 CPUs on an SSD machine, priority 1000"),
        ("db", db, "SSD machines, never two on one"),
        ("web", web, "evenly over zones"),
        ("api", api, "nothing; its service is spread by default"),
        ("cache", cache, "preferably the zone of web pods"),
        ("train", train, "a GPU, tolerates the GPU taint"),
        ("batch", batch, "1/4 to 3/2 CPUs"),
        ("agent", 1, "one node by name, tolerates all, as daemons do"),
        ("giant", 1, "64 CPUs"),
    ]
    .into_iter()
    .map(|(name, pods, asks)| Group { name, pods, asks })
    .filter(|group| group.pods > 0)
    .collect()
}

fn pool(index: usize) -> &'static Pool {
    &POOLS[index % POOLS.len()]
}

fn node_name(index: usize) -> String {
    format!("{}-{}-{}", pool(index).name, ZONES[index % ZONES.len()], index / POOLS.len() + 1)
}

fn node(index: usize) -> Value {
    let (name, pool) = (node_name(index), pool(index));
    let mut allocatable = json!({
        "cpu": pool.cpu.to_string(), "memory": format!("{}Gi", pool.memory_gi), "pods": "110",
    });
    let mut taints = Vec::new();
    match pool.name {
        "gpu" => {
            allocatable["nvidia.com/gpu"] = GPUS.to_string().into();
            taints.push(json!({"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}));
        }
        "spot" => taints.push(json!({"key": "spot", "value": "true", "effect": "PreferNoSchedule"})),
        _ => {}
    }
    if index == CORDONED {
        taints.push(json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}));
    }
    json!({
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name,
            "topology.kubernetes.io/zone": ZONES[index % ZONES.len()],
            "topology.kubernetes.io/region": "here",
            "disk": if pool.name == "ssd" { "ssd" } else { "hdd" },
        }},
        "spec": {"unschedulable": index == CORDONED, "taints": taints},
        "status": {"allocatable": allocatable},
    })
}

fn plain(group: &str, number: usize, cpu: &str, memory: &str, priority: i32) -> Value {
    json!({
        "metadata": {"name": format!("{group}-{number}"), "namespace": NAMESPACE, "labels": {"app": group}},
        "spec": {"priority": priority, "containers": [{
            "name": "main", "image": group, "resources": {"requests": {"cpu": cpu, "memory": memory}},
        }]},
    })
}

fn with_node(mut pod: Value, node: &str) -> Value {
    pod["spec"]["nodeName"] = node.into();
    pod
}

fn pod(group: &str, number: usize, rng: &mut Rng) -> Value {
    let mut pod = match group {
        "urgent" => plain(group, number, "10", "16Gi", 1000),
        "db" => plain(group, number, "1500m", "8Gi", 100),
        "web" => plain(group, number, "500m", "512Mi", 0),
        "api" => plain(group, number, "750m", "1Gi", 0),
        "cache" => plain(group, number, "250m", "2Gi", 0),
        "train" => plain(group, number, "2", "6Gi", 0),
        "agent" => plain(group, number, "100m", "128Mi", 0),
        "giant" => plain(group, number, "64", "8Gi", 0),
        _ => {
            let quarters = 1 + rng.below(6);
            plain(group, number, &format!("{}m", quarters * 250), &format!("{quarters}Gi"), 0)
        }
    };
    let same_app = json!({"matchLabels": {"app": group}});
    let spec = &mut pod["spec"];
    match group {
        "urgent" => spec["nodeSelector"] = json!({"disk": "ssd"}),
        "db" => {
            spec["nodeSelector"] = json!({"disk": "ssd"});
            spec["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": same_app, "topologyKey": "kubernetes.io/hostname"}]}});
        }
        "web" => {
            spec["topologySpreadConstraints"] = json!([{
                "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": same_app,
            }]);
        }
        "cache" => {
            spec["affinity"] = json!({"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 100, "podAffinityTerm": {
                    "labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "topology.kubernetes.io/zone"}}]}});
        }
        "train" => {
            spec["tolerations"] = json!([{"key": "nvidia.com/gpu", "operator": "Exists"}]);
            spec["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = "1".into();
        }
        "agent" => {
            spec["tolerations"] = json!([{"operator": "Exists"}]);
            spec["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchFields": [
                    {"key": "metadata.name", "operator": "In", "values": [node_name(CORDONED)]}]}]}}});
        }
        _ => {}
    }
    pod
}

fn shuffle(pods: &mut [Value], rng: &mut Rng) {
    for at in (1..pods.len()).rev() {
        pods.swap(at, rng.below(at + 1));
    }
}
