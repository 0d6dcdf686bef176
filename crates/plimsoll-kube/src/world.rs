//! What is known of a live cluster beside what its rules need: power, price, carbon and latency of nodes by their labels, since when a node has work, and whom a pod belongs to.
//! Policies and models look at it.

use crate::owner::owner_number;
use crate::remote::{Clusters, Remote, Siblings};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use plimsoll_core::engine::{Engine, Event, Object};
use plimsoll_core::state::{NodeId, pod_key};
use plimsoll_core::telemetry::{PodTelemetry, PowerCurve, Usage};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What nodes with certain labels are like.
#[derive(Debug, Clone, Default)]
pub struct NodeKind {
    /// The labels that a node of this kind has; none means all nodes.
    pub labels: BTreeMap<String, String>,
    /// What it draws, by load.
    pub power: Option<Arc<PowerCurve>>,
    /// What it draws asleep, in watts.
    pub sleep_watts: f64,
    /// What it costs an hour while it is awake.
    pub price: Option<f64>,
    /// Grams of carbon dioxide for a kilowatt-hour.
    pub carbon: Option<f64>,
    /// Latency to users, in milliseconds.
    pub latency_ms: Option<f64>,
}

impl NodeKind {
    /// Whether a node is of this kind.
    pub fn is_kind_of(&self, node: &Node) -> bool {
        has_labels(node, &self.labels)
    }
}

/// What nodes are like, by their labels, and what is known of other clusters.
#[derive(Debug, Clone, Default)]
pub struct NodeKinds {
    /// The first of these kinds that a node is of says what it is like.
    pub list: Vec<NodeKind>,
    /// This cluster, others, and the virtual nodes that stand for them.
    pub clusters: Clusters,
}

impl From<Vec<NodeKind>> for NodeKinds {
    fn from(list: Vec<NodeKind>) -> Self {
        Self { list, clusters: Clusters::default() }
    }
}

/// Whether a node has all of these labels.
pub fn has_labels(node: &Node, wanted: &BTreeMap<String, String>) -> bool {
    let labels = node.metadata.labels.as_ref();
    wanted.iter().all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
}

/// Whether its kubelet says that a node is ready.
pub fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Whether a pod is on a node.
pub fn is_placed(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).is_some_and(|name| !name.is_empty())
}

/// What was measured of a node, as far as it counts.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Measured {
    /// Latency to users, in milliseconds.
    pub latency_ms: Option<f64>,
    /// The share of its CPU that is busy.
    pub cpu: Option<f64>,
    /// The cores that are busy, where the share was not measured.
    pub cpu_cores: Option<f64>,
    /// The bytes of its memory that could be had.
    pub memory_available: Option<f64>,
    /// The bytes of its memory in use, where those that could be had were not measured.
    pub memory_used: Option<f64>,
}

/// Tells the engine what is known.
#[derive(Debug)]
pub struct World {
    kinds: Vec<NodeKind>,
    clusters: Clusters,
    siblings: Siblings,
    start: Instant,
    /// What was measured, by node: its latency counts more than what a kind says.
    measured: BTreeMap<String, Measured>,
    /// What the kind of a node, or its cluster, says of its latency, by node.
    by_kind: BTreeMap<String, f64>,
    /// The users that pods name, by the UID of the pod.
    users: BTreeMap<String, String>,
}

/// The annotations that say what latency a pod bears, in milliseconds.
const LATENCY: [&str; 2] = ["latencySoftConstraint", "latencyHardConstraint"];
/// The annotation that says where a pod's users are: `host:port`, or `http://host:port/path`.
const LATENCY_TARGET: &str = "plimsoll.dev/latency-target";
/// The resource of whole GPUs.
pub const GPU: &str = "nvidia.com/gpu";
/// A whole GPU, in thousandths.
const WHOLE: u32 = 1000;

/// What an event is about, after the event itself was taken in.
enum About {
    Node(Box<NodeSeen>),
    NodeGone(String),
    Pod { uid: String, told: Option<PodTelemetry>, node: Option<String>, user: Option<String>, home: Option<String> },
    Else,
}

/// What is to be told of a node.
struct NodeSeen {
    name: String,
    /// The place of its kind.
    kind: Option<usize>,
    cluster: String,
    /// What is known of the cluster that it stands for, if it is virtual.
    remote: Option<Remote>,
}

/// What is left to be told once the engine knows of an event.
pub struct Told(About);

impl World {
    /// A world in which nodes are of these kinds.
    pub fn new(kinds: impl Into<NodeKinds>) -> Self {
        let NodeKinds { list, clusters } = kinds.into();
        Self {
            kinds: list,
            clusters,
            siblings: Siblings::default(),
            start: Instant::now(),
            measured: BTreeMap::new(),
            by_kind: BTreeMap::new(),
            users: BTreeMap::new(),
        }
    }

    /// The time, on the clock of what is told. It counts from the start of the process: models reckon with small numbers.
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Keeps of an event what is to be told after it.
    pub fn look(&self, event: &Event) -> Told {
        Told(match event {
            Event::Apply(Object::Node(node)) => About::Node(Box::new(NodeSeen {
                name: node.metadata.name.clone().unwrap_or_default(),
                kind: self.kinds.iter().position(|kind| kind.is_kind_of(node)),
                cluster: self.clusters.cluster_of(node),
                remote: self.clusters.remote_of(node),
            })),
            Event::Delete(Object::Node(node)) => About::NodeGone(node.metadata.name.clone().unwrap_or_default()),
            Event::Apply(Object::Pod(pod)) => About::Pod {
                uid: pod_key(&pod.metadata),
                told: Some(pod_telemetry(pod)),
                node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
                user: pod.metadata.annotations.as_ref().and_then(|all| all.get(LATENCY_TARGET).cloned()),
                home: Some(self.clusters.home_of(pod)),
            },
            Event::Delete(Object::Pod(pod)) => About::Pod {
                uid: pod_key(&pod.metadata),
                told: None,
                node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
                user: None,
                home: None,
            },
            _ => About::Else,
        })
    }

    /// Tells the engine, which has taken in the event.
    pub fn tell(&mut self, engine: &mut Engine, told: Told) {
        let state = &mut engine.scheduler().state;
        match told.0 {
            About::Node(seen) => self.tell_node(engine, &seen),
            About::NodeGone(name) => {
                self.siblings.set(&name, None);
                self.siblings.tell_all(engine, self.clusters.shares_capacity);
            }
            About::Pod { uid, told, node, user, home } => {
                match user {
                    Some(user) => self.users.insert(uid.clone(), user),
                    None => self.users.remove(&uid),
                };
                let home = home.and_then(|home| state.telemetry.clusters.know(&home));
                if let (Some(told), Some(id)) = (told.map(|told| PodTelemetry { home, ..told }), state.pod_id(&uid))
                    && state.telemetry.pod(id) != told
                {
                    state.telemetry.set_pod(id, told);
                }
                if let Some(node) = node.and_then(|name| state.node_named(&name)) {
                    self.tell_awake(engine, node);
                }
            }
            About::Else => {}
        }
    }

    fn tell_node(&mut self, engine: &mut Engine, seen: &NodeSeen) {
        let NodeSeen { name, remote, .. } = seen;
        self.siblings.set(name, remote.is_some().then_some(seen.cluster.as_str()));
        let state = &mut engine.scheduler().state;
        let Some((id, cores)) = state.node_named(name).and_then(|id| {
            let node = state.node(id)?;
            Some((id, node.allocatable.cpu as f64 / 1000.0))
        }) else {
            return;
        };
        let cluster = state.telemetry.clusters.know(&seen.cluster);
        let mut kind = seen.kind.and_then(|at| self.kinds.get(at)).cloned().unwrap_or_default();
        if let Some(remote) = remote {
            // What stands for another cluster neither draws power here nor sleeps, and costs what is taken of it.
            (kind.power, kind.sleep_watts) = (None, 0.0);
            kind.price = remote.price_per_core.map(|price| price * cores).or(kind.price);
            kind.latency_ms = remote.latency_ms.or(kind.latency_ms);
        }
        match kind.latency_ms {
            Some(latency) => self.by_kind.insert(name.clone(), latency),
            None => self.by_kind.remove(name),
        };
        let latency = self.measured.get(name).and_then(|measured| measured.latency_ms).or(kind.latency_ms);
        let known = state.telemetry.node(id);
        let mut wanted = known.clone();
        wanted.power.clone_from(&kind.power);
        wanted.sleep_watts = kind.sleep_watts;
        (wanted.price, wanted.carbon, wanted.latency_ms) = (kind.price, kind.carbon, latency);
        wanted.cluster = cluster;
        if remote.is_none() {
            wanted.shared = None;
        } else {
            wanted.shared.get_or_insert_default();
            wanted.awake_since = None;
        }
        if *known != wanted {
            state.tell(id, |known| *known = wanted);
        }
        self.siblings.tell_all(engine, self.clusters.shares_capacity);
    }

    /// Tells what was measured and counts now. Of other nodes what their kind says is known, or nothing.
    pub fn measured(&mut self, engine: &mut Engine, all: BTreeMap<String, Measured>) {
        let before = std::mem::replace(&mut self.measured, all);
        let state = &mut engine.scheduler().state;
        for name in before.keys().chain(self.measured.keys()) {
            let Some(id) = state.node_named(name) else { continue };
            let measured = self.measured.get(name).copied().unwrap_or_default();
            let latency = measured.latency_ms.or_else(|| self.by_kind.get(name).copied());
            let usage = state.node(id).and_then(|node| measured.usage(node));
            let known = state.telemetry.node(id);
            if (known.latency_ms, known.usage) != (latency, usage) {
                state.tell(id, |known| (known.latency_ms, known.usage) = (latency, usage));
            }
        }
    }

    /// The users that pods name, to whom latencies are to be measured.
    pub fn users(&self) -> BTreeSet<String> {
        self.users.values().cloned().collect()
    }

    /// A node is awake since it has pods; a virtual one is neither awake nor asleep, and what is taken on it is taken on its siblings.
    pub fn tell_awake(&self, engine: &mut Engine, node: NodeId) {
        if engine.state().telemetry.node(node).is_virtual() {
            return self.siblings.tell_of(engine, node, self.clusters.shares_capacity);
        }
        let now = self.now();
        let state = &mut engine.scheduler().state;
        let Some(has_pods) = state.node(node).map(|node| !node.pods.is_empty()) else { return };
        if has_pods != state.telemetry.node(node).awake_since.is_some() {
            state.tell(node, |known| known.awake_since = has_pods.then_some(now));
        }
    }

    /// What time it is, for decisions that follow, and what virtual nodes have left for them.
    pub fn tell_time(&self, engine: &mut Engine) {
        self.siblings.tell_all(engine, self.clusters.shares_capacity);
        engine.scheduler().state.telemetry.now = self.now();
    }
}

impl Measured {
    /// What is in use of a node, as of now.
    fn usage(&self, node: &plimsoll_core::state::Node) -> Option<Usage> {
        let [cores, bytes] = [node.allocatable.cpu as f64 / 1000.0, node.allocatable.memory as f64];
        let cpu = self.cpu.or_else(|| self.cpu_cores.filter(|_| cores > 0.0).map(|busy| busy / cores));
        // What the system keeps for itself is not offered, but may be had: the share is never less than nothing.
        let used = self.memory_used.or_else(|| self.memory_available.map(|free| (bytes - free).max(0.0)));
        let memory = used.filter(|_| bytes > 0.0).map(|used| used / bytes);
        let cpu = cpu.map(|share| (share, node.requested.cpu));
        let memory = memory.map(|share| (share, node.requested.memory));
        (cpu.is_some() || memory.is_some()).then_some(Usage { cpu, memory })
    }
}

/// The latency that a pod bears, as its annotations say it: pleasant up to the first, bearable up to the second.
pub fn latency_ms(pod: &Pod) -> Option<(f64, f64)> {
    let annotations = pod.metadata.annotations.as_ref();
    let [soft, hard] = LATENCY.map(|key| annotations?.get(key)?.parse::<f64>().ok().filter(|ms| *ms >= 0.0));
    soft.zip(hard)
}

fn pod_telemetry(pod: &Pod) -> PodTelemetry {
    PodTelemetry {
        lifetime: None,
        gpus: gpus(pod).map(|count| (count, WHOLE)),
        owner: Some(owner_number(pod)),
        latency_ms: latency_ms(pod),
        home: None,
        service: None,
    }
}

fn gpus(pod: &Pod) -> Option<u32> {
    let containers = &pod.spec.as_ref()?.containers;
    let requests = containers.iter().filter_map(|container| container.resources.as_ref()?.requests.as_ref()?.get(GPU));
    let count: u32 = requests.filter_map(|Quantity(text)| text.parse::<u32>().ok()).sum();
    (count > 0).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::config::Configuration;
    use serde_json::{Value, json};

    fn engine_with(world: &mut World, events: Vec<Event>) -> Engine {
        let mut engine = Engine::new(&Configuration::default(), 1);
        for event in events {
            let told = world.look(&event);
            engine.apply(Duration::ZERO, event).unwrap();
            world.tell(&mut engine, told);
        }
        engine
    }

    fn node(labels: &Value) -> Event {
        let resources = json!({ "cpu": "4", "memory": "8Gi", "pods": "10" });
        let node: Node = serde_json::from_value(json!({
            "metadata": { "name": "n", "labels": labels },
            "status": { "allocatable": resources, "capacity": resources },
        }))
        .unwrap();
        Event::apply(node)
    }

    fn pod(node: Option<&str>) -> Pod {
        serde_json::from_value(json!({
            "metadata": { "name": "p", "namespace": "d", "uid": "u",
                "annotations": { "latencySoftConstraint": "20", "latencyHardConstraint": "30" } },
            "spec": { "nodeName": node, "containers": [{ "name": "c", "resources": { "requests": { "nvidia.com/gpu": "2" } } }] },
        }))
        .unwrap()
    }

    #[test]
    fn the_first_kind_that_fits_says_what_a_node_is_like() {
        let labelled = |label: &str, price| NodeKind {
            labels: [("type".to_owned(), label.to_owned())].into(),
            price: Some(price),
            ..NodeKind::default()
        };
        let any = NodeKind { price: Some(9.0), ..NodeKind::default() };
        let mut world = World::new(vec![labelled("big", 1.0), labelled("small", 2.0), any]);
        for (label, price) in [("big", 1.0), ("small", 2.0), ("other", 9.0)] {
            let engine = engine_with(&mut world, vec![node(&json!({ "type": label }))]);
            let state = engine.state();
            assert_eq!(state.telemetry.node(state.node_named("n").unwrap()).price, Some(price));
        }
    }

    #[test]
    fn what_is_measured_counts_more_than_what_a_kind_says_until_it_is_stale() {
        let mut world = World::new(vec![NodeKind { latency_ms: Some(9.0), ..NodeKind::default() }]);
        let mut engine = engine_with(&mut world, vec![node(&json!({}))]);
        let latency = |engine: &Engine| {
            let state = engine.state();
            state.telemetry.node(state.node_named("n").unwrap()).latency_ms
        };
        assert_eq!(latency(&engine), Some(9.0));
        let far = |ms| Measured { latency_ms: Some(ms), ..Measured::default() };
        world.measured(&mut engine, [("n".to_owned(), far(20.0)), ("gone".to_owned(), far(1.0))].into());
        assert_eq!(latency(&engine), Some(20.0));
        let again = node(&json!({ "a": "b" }));
        let told = world.look(&again);
        engine.apply(Duration::ZERO, again).unwrap();
        world.tell(&mut engine, told);
        assert_eq!(latency(&engine), Some(20.0), "what is told of the node again changes nothing");
        world.measured(&mut engine, BTreeMap::new());
        assert_eq!(latency(&engine), Some(9.0));
    }

    #[test]
    fn usage_is_told_with_what_was_asked_for_then_and_forgotten_when_it_is_stale() {
        let mut world = World::new(Vec::new());
        let mut engine = engine_with(&mut world, vec![node(&json!({}))]);
        let usage = |engine: &Engine| {
            let state = engine.state();
            state.telemetry.node(state.node_named("n").unwrap()).usage
        };
        let gib = f64::from(1 << 30);
        let busy = Measured { cpu: Some(0.5), memory_available: Some(6.0 * gib), ..Measured::default() };
        world.measured(&mut engine, [("n".to_owned(), busy)].into());
        assert_eq!(usage(&engine), Some(Usage { cpu: Some((0.5, 0)), memory: Some((0.25, 0)) }));
        let counted = Measured { cpu_cores: Some(1.0), memory_used: Some(4.0 * gib), ..Measured::default() };
        world.measured(&mut engine, [("n".to_owned(), counted)].into());
        assert_eq!(usage(&engine), Some(Usage { cpu: Some((0.25, 0)), memory: Some((0.5, 0)) }));
        let roomy = Measured { memory_available: Some(9.0 * gib), ..Measured::default() };
        world.measured(&mut engine, [("n".to_owned(), roomy)].into());
        assert_eq!(usage(&engine), Some(Usage { cpu: None, memory: Some((0.0, 0)) }));
        world.measured(&mut engine, BTreeMap::new());
        assert_eq!(usage(&engine), None);
    }

    #[test]
    fn a_node_is_awake_while_it_has_pods() {
        let mut world = World::new(Vec::new());
        let awake = |engine: &Engine| {
            let state = engine.state();
            state.telemetry.node(state.node_named("n").unwrap()).awake_since.is_some()
        };
        assert!(!awake(&engine_with(&mut world, vec![node(&json!({}))])));
        let mut engine = engine_with(&mut world, vec![node(&json!({})), Event::apply(pod(Some("n")))]);
        assert!(awake(&engine));
        let gone = Event::delete(pod(Some("n")));
        let told = world.look(&gone);
        engine.apply(Duration::ZERO, gone).unwrap();
        world.tell(&mut engine, told);
        assert!(!awake(&engine));
    }

    #[test]
    fn users_are_known_for_as_long_as_a_pod_names_them() {
        let mut world = World::new(Vec::new());
        let mut named = pod(None);
        named.metadata.annotations.get_or_insert_default().insert(LATENCY_TARGET.to_owned(), "10.0.0.1:80".to_owned());
        let mut engine = engine_with(&mut world, vec![Event::apply(named.clone())]);
        assert_eq!(world.users(), ["10.0.0.1:80".to_owned()].into());
        let gone = Event::delete(named);
        let told = world.look(&gone);
        engine.apply(Duration::ZERO, gone).unwrap();
        world.tell(&mut engine, told);
        assert_eq!(world.users(), BTreeSet::new());
    }

    #[test]
    fn pods_tell_their_owner_gpus_and_latency() {
        let mut world = World::new(Vec::new());
        let engine = engine_with(&mut world, vec![node(&json!({})), Event::apply(pod(None))]);
        let told = engine.state().telemetry.pod(engine.state().pod_id("u").unwrap());
        assert_eq!(told.gpus, Some((2, 1000)));
        assert_eq!(told.latency_ms, Some((20.0, 30.0)));
        assert_eq!(engine.state().telemetry.pods_of(told.owner.unwrap()), 1);
    }
}
