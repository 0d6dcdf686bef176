use super::*;
use crate::world::{Measured, NodeKind, NodeKinds, World};
use plimsoll_core::config::Configuration;
use plimsoll_core::engine::Event;
use plimsoll_core::telemetry::{NodeTelemetry, PowerCurve};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

fn node(of: Value) -> Node {
    serde_json::from_value(of).unwrap()
}

#[test]
fn virtual_nodes_are_known_by_labels_taints_and_the_configuration() {
    let selector = [("example.com/far".to_owned(), "yes".to_owned())].into();
    let clusters = Clusters { virtual_nodes: vec![BTreeMap::new(), selector], ..Clusters::default() };
    let labelled = |key: &str, value: &str| node(json!({ "metadata": { "name": "n", "labels": { key: value } } }));
    for (key, value) in VIRTUAL.into_iter().chain([("example.com/far", "yes")]) {
        assert!(clusters.is_virtual(&labelled(key, value)), "{key}={value}");
    }
    let taints = json!([{ "key": PROVIDER, "value": "azure", "effect": "NoSchedule" }]);
    assert!(clusters.is_virtual(&node(json!({ "metadata": { "name": "n" }, "spec": { "taints": taints } }))));
    for (key, value) in [("kubernetes.io/role", "agent"), ("type", "big"), ("example.com/far", "no")] {
        assert!(!clusters.is_virtual(&labelled(key, value)), "{key}={value}");
    }
}

#[test]
fn a_virtual_node_says_what_it_stands_for_and_else_its_cluster_is_known() {
    let known = Remote { price_per_core: Some(0.1), latency_ms: Some(30.0) };
    let clusters = Clusters { remotes: [("b".to_owned(), known)].into(), ..Clusters::default() };
    let labels = json!({ "liqo.io/type": "virtual-node", "liqo.io/remote-cluster-id": "b" });
    let plain = node(json!({ "metadata": { "name": "v", "labels": labels } }));
    assert_eq!((clusters.cluster_of(&plain).as_str(), clusters.remote_of(&plain)), ("b", Some(known)));
    let annotations = json!({ PRICE: "0.2", LATENCY: "far" });
    let said = node(json!({ "metadata": { "name": "v", "labels": labels, "annotations": annotations } }));
    assert_eq!(clusters.remote_of(&said), Some(Remote { price_per_core: Some(0.2), ..known }));
    let nameless = node(json!({ "metadata": { "name": "v", "labels": { "type": "virtual-kubelet" } } }));
    assert_eq!(
        (clusters.cluster_of(&nameless).as_str(), clusters.remote_of(&nameless)),
        ("v", Some(Remote::default()))
    );
    let machine = node(json!({ "metadata": { "name": "m" } }));
    assert_eq!((clusters.cluster_of(&machine).as_str(), clusters.remote_of(&machine)), ("local", None));
    let other = Clusters { label: Some("site".to_owned()), ..Clusters::default() };
    let labels = json!({ "site": "c", "liqo.io/remote-cluster-id": "b" });
    assert_eq!(other.cluster_of(&node(json!({ "metadata": { "name": "m", "labels": labels } }))), "c");
}

#[test]
fn pods_come_from_this_cluster_unless_they_say_otherwise() {
    let pod = |of: Value| -> Pod { serde_json::from_value(json!({ "metadata": of })).unwrap() };
    let clusters = Clusters { name: "a".to_owned(), ..Clusters::default() };
    assert_eq!(clusters.home_of(&pod(json!({}))), "a");
    assert_eq!(clusters.home_of(&pod(json!({ "labels": { HOME: "b" } }))), "b");
    assert_eq!(clusters.home_of(&pod(json!({ "annotations": { HOME: "c" } }))), "c");
}

/// A world and an engine that hear the same.
struct Live {
    world: World,
    engine: Engine,
}

impl Live {
    fn new(kinds: NodeKinds) -> Self {
        Self { world: World::new(kinds), engine: Engine::new(&Configuration::default(), 1) }
    }

    fn take(&mut self, event: Event) {
        let told = self.world.look(&event);
        self.engine.apply(Duration::ZERO, event).unwrap();
        self.world.tell(&mut self.engine, told);
    }

    /// A virtual node of cluster b with so many cores, or a machine.
    fn node(&mut self, name: &str, cores: u32, is_virtual: bool) {
        let labels = match is_virtual {
            true => json!({ "liqo.io/type": "virtual-node", "liqo.io/remote-cluster-id": "b" }),
            false => json!({}),
        };
        let allocatable = json!({ "cpu": cores.to_string(), "memory": "8Gi", "pods": "10" });
        let status = json!({ "allocatable": allocatable, "capacity": allocatable });
        self.take(Event::apply(node(json!({ "metadata": { "name": name, "labels": labels }, "status": status }))));
    }

    fn pod(&mut self, name: &str, node: &str, cores: u32, is_there: bool) {
        let requests = json!({ "cpu": cores.to_string(), "memory": "1Gi" });
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": name, "namespace": "d", "uid": name },
            "spec": { "nodeName": node, "containers": [{ "name": "c", "resources": { "requests": requests } }] },
        }))
        .unwrap();
        self.take(if is_there { Event::apply(pod) } else { Event::delete(pod) });
    }

    fn known(&self, name: &str) -> &NodeTelemetry {
        let state = self.engine.state();
        state.telemetry.node(state.node_named(name).unwrap())
    }

    /// Cores that policies take for free.
    fn free(&self, name: &str) -> i64 {
        let state = self.engine.state();
        let node = state.node(state.node_named(name).unwrap()).unwrap();
        (node.allocatable.cpu - node.requested.cpu - self.known(name).taken_elsewhere().0) / 1000
    }
}

#[test]
fn what_is_taken_on_a_virtual_node_is_not_free_on_its_siblings() {
    let mut live = Live::new(NodeKinds::default());
    live.node("v1", 10, true);
    assert_eq!((live.free("v1"), live.known("v1").shared), (10, Some(Shared::default())));
    live.node("v2", 10, true);
    // A part of the same cluster: its own limit counts while that is less.
    live.node("v3", 4, true);
    live.node("m", 10, false);
    live.pod("p", "v1", 3, true);
    live.pod("q", "v2", 2, true);
    assert_eq!(["v1", "v2", "v3", "m"].map(|name| live.free(name)), [5, 5, 4, 10]);
    assert_eq!(live.known("v1").shared.unwrap().among, 3);
    live.pod("r", "v2", 4, true);
    assert_eq!(["v1", "v2", "v3"].map(|name| live.free(name)), [1, 1, 1]);
    // The other cluster's own pods took the rest.
    for name in ["v1", "v2"] {
        live.node(name, 6, true);
    }
    assert_eq!(["v1", "v2", "v3"].map(|name| live.free(name)), [0, 0, 0]);
    live.pod("r", "v2", 4, false);
    assert_eq!(["v1", "v2", "v3", "m"].map(|name| live.free(name)), [1, 1, 1, 10]);
    let gone = node(json!({ "metadata": { "name": "v1" } }));
    live.take(Event::delete(gone));
    assert_eq!(["v2", "v3"].map(|name| live.free(name)), [4, 4]);
}

#[test]
fn virtual_nodes_that_are_parts_of_a_cluster_have_what_they_have() {
    let clusters = Clusters { shares_capacity: false, ..Clusters::default() };
    let mut live = Live::new(NodeKinds { list: Vec::new(), clusters });
    live.node("v1", 10, true);
    live.node("v2", 10, true);
    live.pod("p", "v1", 3, true);
    assert_eq!((live.free("v1"), live.free("v2")), (7, 10));
    assert_eq!(live.known("v2").shared, Some(Shared::default()));
}

#[test]
fn virtual_nodes_neither_sleep_nor_draw_power_and_cost_by_the_core() {
    let kind = NodeKind {
        power: PowerCurve::straight(50.0, 100.0).map(Arc::new),
        sleep_watts: 5.0,
        price: Some(9.0),
        latency_ms: Some(2.0),
        ..NodeKind::default()
    };
    let known = Remote { price_per_core: Some(0.5), latency_ms: Some(30.0) };
    let clusters = Clusters { name: "a".to_owned(), remotes: [("b".to_owned(), known)].into(), ..Clusters::default() };
    let mut live = Live::new(NodeKinds { list: vec![kind], clusters });
    live.node("v", 10, true);
    live.node("m", 10, false);
    live.pod("p", "v", 3, true);
    live.pod("q", "m", 3, true);
    let (v, m) = (live.known("v"), live.known("m"));
    assert_eq!((v.power.is_none(), v.sleep_watts, v.awake_since), (true, 0.0, None));
    assert_eq!((v.price, v.latency_ms, v.is_virtual()), (Some(5.0), Some(30.0), true));
    assert!(m.power.is_some() && m.awake_since.is_some() && !m.is_virtual());
    assert_eq!((m.price, m.latency_ms), (Some(9.0), Some(2.0)));
    let all = &live.engine.state().telemetry.clusters;
    assert_eq!([v.cluster, m.cluster].map(|id| all.name(id.unwrap())), ["b", "a"]);
    let pod = live.engine.state().pod_id("p").unwrap();
    assert_eq!(live.engine.state().telemetry.pod(pod).home, m.cluster);
    // What is measured counts more than what is said of the cluster.
    let measured = Measured { latency_ms: Some(44.0), ..Measured::default() };
    live.world.measured(&mut live.engine, [("v".to_owned(), measured)].into());
    assert_eq!(live.known("v").latency_ms, Some(44.0));
    live.world.measured(&mut live.engine, BTreeMap::new());
    assert_eq!(live.known("v").latency_ms, Some(30.0));
}
