//! One table a plugin: the pod that waits, the object before and after, and the verdict of the plugin in Kubernetes.

use super::*;
use crate::config::Configuration;
use crate::engine::change::PodView;
use crate::model::NodeSpec;
use crate::state::pod_key;
use crate::storage::Change;
use k8s_openapi::api::core::v1 as api;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim};
use serde_json::{Value, json};
use std::sync::Arc;

/// A cluster in which one pod waits.
struct Bench {
    state: ClusterState,
    profiles: Vec<ProfileHints>,
    key: QueueKey,
}

/// Merges `b` over `a`.
fn with(mut a: Value, b: Value) -> Value {
    match (&mut a, b) {
        (Value::Object(a), Value::Object(b)) => {
            for (key, value) in b {
                let before = a.remove(&key).unwrap_or(Value::Null);
                a.insert(key, with(before, value));
            }
        }
        (a, b) => *a = b,
    }
    a
}

/// A pod named `name`, in namespace `default` unless told otherwise.
fn pod(name: &str, more: Value) -> Value {
    with(
        json!({"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {"containers": [{"name": "c"}]}}),
        more,
    )
}

fn asking(name: &str, requests: Value) -> Value {
    pod(name, json!({"spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}}))
}

fn bound(pod: Value) -> Value {
    with(pod, json!({"spec": {"nodeName": "n"}}))
}

fn nominated(pod: Value) -> Value {
    with(pod, json!({"status": {"nominatedNodeName": "n"}}))
}

fn node(more: Value) -> Value {
    let allocatable = json!({"cpu": "4", "memory": "8Gi", "pods": "10"});
    with(json!({"metadata": {"name": "n"}, "status": {"allocatable": allocatable}}), more)
}

fn labelled(labels: Value) -> Value {
    node(json!({"metadata": {"labels": labels}}))
}

impl Bench {
    fn new(waiting: &Value, configuration: &Configuration) -> Self {
        let mut state = ClusterState::default();
        let profiles = configuration.profiles.iter().map(|profile| ProfileHints::new(profile, &mut state)).collect();
        let object: api::Pod = serde_json::from_value(waiting.clone()).unwrap();
        let id = state.apply_pod(&object).unwrap().unwrap();
        Self { state, profiles, key: QueueKey { serial: 1, pod: id } }
    }

    fn node(&mut self, value: Option<Value>) -> Option<Arc<NodeSpec>> {
        let node: api::Node = serde_json::from_value(value?).unwrap();
        Some(Arc::new(NodeSpec::compile(&node, &mut self.state.strings, &mut self.state.resources).unwrap()))
    }

    fn view(&mut self, value: Option<Value>) -> Option<PodView> {
        let object: api::Pod = serde_json::from_value(value?).unwrap();
        let shape = PodShape::compile(&object, &mut self.state.strings, &mut self.state.resources).unwrap();
        let is_waiting = self.state.pod_id(&pod_key(&object.metadata)) == Some(self.key.pod);
        Some(PodView {
            key: is_waiting.then_some(self.key),
            shape: Arc::new(shape),
            assigned: object.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()),
            nominated: object.status.as_ref().is_some_and(|status| status.nominated_node_name.is_some()),
            object: Some(Arc::new(object)),
        })
    }

    fn ask(&self, plugin: PluginName, changed: &Changed) -> bool {
        let victims = Victims::default();
        let hints = PluginHints { state: &self.state, profiles: &self.profiles, victims: &victims };
        may_help(plugin, &hints.waiting(self.key).unwrap(), changed)
    }
}

fn after_node(plugin: PluginName, waiting: &Value, old: Option<Value>, new: Option<Value>) -> bool {
    let mut bench = Bench::new(waiting, &Configuration::default());
    let change = Change { old: bench.node(old), new: bench.node(new) };
    bench.ask(plugin, &Changed::Node(change))
}

fn after_pod(plugin: PluginName, waiting: &Value, old: Option<Value>, new: Option<Value>) -> bool {
    let mut bench = Bench::new(waiting, &Configuration::default());
    let change = Changed::Pod { old: bench.view(old), new: bench.view(new) };
    bench.ask(plugin, &change)
}

/// What is looked at, the object before and after, and whether it may help.
type Row = (&'static str, Option<Value>, Option<Value>, bool);

fn check(
    ask: fn(PluginName, &Value, Option<Value>, Option<Value>) -> bool,
    plugin: PluginName,
    pod: &Value,
    rows: Vec<Row>,
) {
    for (what, old, new, expected) in rows {
        assert_eq!(ask(plugin, pod, old, new), expected, "{}: {what}", plugin.as_str());
    }
}

#[test]
fn resources_need_a_node_that_fits_and_offers_more() {
    let me = asking("me", json!({"cpu": "2", "example.com/gpu": "1"}));
    let offers = |cpu: &str, gpus: &str, pods: &str| {
        Some(node(json!({"status": {"allocatable": {"cpu": cpu, "example.com/gpu": gpus, "pods": pods}}})))
    };
    check(
        after_node,
        PluginName::NodeResourcesFit,
        &me,
        vec![
            ("a new node that fits", None, offers("2", "1", "10"), true),
            ("a new node with too little", None, offers("1", "1", "10"), false),
            ("a new node without the extended resource", None, offers("2", "0", "10"), false),
            ("a new node without room for pods", None, offers("2", "1", "0"), false),
            ("more of what is asked for", offers("1", "1", "10"), offers("2", "1", "10"), true),
            ("more of the extended resource", offers("2", "0", "10"), offers("2", "1", "10"), true),
            ("more pods", offers("2", "1", "10"), offers("2", "1", "11"), true),
            ("less, though it still fits", offers("4", "1", "10"), offers("2", "1", "10"), false),
            ("more, but not enough", offers("0", "1", "10"), offers("1", "1", "10"), false),
        ],
    );
    let memory = |bytes: &str| Some(node(json!({"status": {"allocatable": {"memory": bytes}}})));
    let plain = asking("me", json!({"cpu": "1"}));
    check(
        after_node,
        PluginName::NodeResourcesFit,
        &plain,
        vec![("more of what is not asked for", memory("1Gi"), memory("2Gi"), false)],
    );
}

#[test]
fn resources_come_free_when_pods_leave_or_shrink() {
    let me = asking("me", json!({"cpu": "2"}));
    let other = |requests: Value| bound(asking("other", requests));
    check(
        after_pod,
        PluginName::NodeResourcesFit,
        &me,
        vec![
            ("a placed pod left", Some(other(json!({}))), None, true),
            ("a nominated pod left", Some(nominated(pod("other", json!({})))), None, true),
            ("a waiting pod left", Some(pod("other", json!({}))), None, false),
            ("less of the same", Some(other(json!({"cpu": "2"}))), Some(other(json!({"cpu": "1"}))), true),
            ("less of another", Some(other(json!({"memory": "2"}))), Some(other(json!({"memory": "1"}))), false),
            (
                "less in a pod that waits",
                Some(asking("other", json!({"cpu": "2"}))),
                Some(asking("other", json!({"cpu": "1"}))),
                false,
            ),
            ("less in the pod itself", Some(asking("me", json!({"cpu": "3"}))), Some(me.clone()), true),
        ],
    );
}

#[test]
fn device_classes_help_pods_that_ask_for_what_they_serve() {
    let class = |name: &str, serves: Option<&str>| {
        let class = json!({"metadata": {"name": name}, "spec": {"extendedResourceName": serves}});
        Some(Arc::new(serde_json::from_value::<DeviceClass>(class).unwrap()))
    };
    let ask = |requests: Value, old, new| {
        let bench = Bench::new(&asking("me", requests), &Configuration::default());
        bench.ask(PluginName::NodeResourcesFit, &Changed::DeviceClass(Change { old, new }))
    };
    let gpu = || json!({"example.com/gpu": "1"});
    let implicit = json!({"deviceclass.resource.kubernetes.io/c": "1"});
    assert!(ask(gpu(), None, class("c", Some("example.com/gpu"))));
    assert!(!ask(gpu(), None, class("c", Some("example.com/nic"))));
    assert!(!ask(gpu(), None, class("c", None)));
    assert!(ask(gpu(), class("c", None), class("c", Some("example.com/gpu"))));
    assert!(!ask(gpu(), class("c", Some("example.com/gpu")), class("c", Some("example.com/gpu"))));
    assert!(ask(implicit.clone(), None, class("c", None)));
    assert!(!ask(implicit, class("c", Some("x.com/a")), class("c", Some("x.com/b"))));
}

#[test]
fn affinity_needs_a_node_that_matches_and_did_not() {
    let me = pod("me", json!({"spec": {"nodeSelector": {"disk": "ssd"}}}));
    let (ssd, hdd) = (|| Some(labelled(json!({"disk": "ssd"}))), || Some(labelled(json!({"disk": "hdd"}))));
    check(
        after_node,
        PluginName::NodeAffinity,
        &me,
        vec![
            ("a new node that matches", None, ssd(), true),
            ("a new node that does not", None, hdd(), false),
            ("a node that now matches", hdd(), ssd(), true),
            ("a node that matched before", ssd(), Some(labelled(json!({"disk": "ssd", "a": "b"}))), false),
            ("a node that no longer matches", ssd(), hdd(), false),
        ],
    );
    let enforced = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": [{"name": "NodeAffinity", "args": {"addedAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}]}]}}}}]}]});
    let configuration = Configuration::from_value("test", enforced).unwrap();
    for (labels, expected) in [(json!({"disk": "ssd"}), false), (json!({"disk": "ssd", "pool": "a"}), true)] {
        let mut bench = Bench::new(&me, &configuration);
        let change = Change { old: None, new: bench.node(Some(labelled(labels.clone()))) };
        assert_eq!(bench.ask(PluginName::NodeAffinity, &Changed::Node(change)), expected, "{labels}");
    }
}

#[test]
fn cordoned_nodes_help_when_they_are_opened() {
    let cordoned = |closed: bool| Some(node(json!({"spec": {"unschedulable": closed}})));
    let me = pod("me", json!({}));
    check(
        after_node,
        PluginName::NodeUnschedulable,
        &me,
        vec![
            ("a new open node", None, cordoned(false), true),
            ("a new closed node", None, cordoned(true), false),
            ("opened", cordoned(true), cordoned(false), true),
            ("open as before", cordoned(false), cordoned(false), false),
            ("closed", cordoned(false), cordoned(true), false),
        ],
    );
    let tolerating =
        |name: &str, key: &str| pod(name, json!({"spec": {"tolerations": [{"key": key, "operator": "Exists"}]}}));
    let cordon = "node.kubernetes.io/unschedulable";
    check(
        after_pod,
        PluginName::NodeUnschedulable,
        &me,
        vec![
            ("the pod tolerates it", Some(me.clone()), Some(tolerating("me", cordon)), true),
            ("the pod tolerates something else", Some(me.clone()), Some(tolerating("me", "gpu")), false),
            ("another pod tolerates it", Some(pod("x", json!({}))), Some(tolerating("x", cordon)), false),
        ],
    );
}

#[test]
fn taints_help_when_they_go() {
    let tainted =
        |effect: &str| Some(node(json!({"spec": {"taints": [{"key": "gpu", "value": "a", "effect": effect}]}})));
    let clean = || Some(node(json!({})));
    let me = pod("me", json!({}));
    let tolerant = pod("me", json!({"spec": {"tolerations": [{"key": "gpu", "operator": "Exists"}]}}));
    check(
        after_node,
        PluginName::TaintToleration,
        &me,
        vec![
            ("a new node without taints", None, clean(), true),
            ("a new node with a taint", None, tainted("NoSchedule"), false),
            ("a new node that only discourages", None, tainted("PreferNoSchedule"), true),
            ("a taint goes", tainted("NoExecute"), clean(), true),
            ("a taint comes", clean(), tainted("NoExecute"), false),
            ("as before", clean(), clean(), false),
        ],
    );
    check(
        after_node,
        PluginName::TaintToleration,
        &tolerant,
        vec![
            ("a new node that is tolerated", None, tainted("NoSchedule"), true),
            ("a taint that was tolerated goes", tainted("NoSchedule"), clean(), false),
        ],
    );
    check(
        after_pod,
        PluginName::TaintToleration,
        &me,
        vec![
            ("the pod tolerates more", Some(me.clone()), Some(tolerant.clone()), true),
            ("another pod does", Some(pod("x", json!({}))), Some(pod("x", json!({}))), false),
        ],
    );
}

#[test]
fn ports_come_free_when_their_pod_leaves() {
    let port = |name: &str, ip: &str, port: i32| {
        let ports = json!([{"containerPort": 80, "hostPort": port, "hostIP": ip}]);
        pod(name, json!({"spec": {"containers": [{"name": "c", "ports": ports}]}}))
    };
    check(
        after_pod,
        PluginName::NodePorts,
        &port("me", "", 80),
        vec![
            ("the same port", Some(bound(port("x", "", 80))), None, true),
            ("the same port on one address", Some(bound(port("x", "10.0.0.1", 80))), None, true),
            ("another port", Some(bound(port("x", "", 81))), None, false),
            ("no port", Some(bound(pod("x", json!({})))), None, false),
            ("a pod that waited", Some(port("x", "", 80)), None, false),
            ("a pod that was nominated", Some(nominated(port("x", "", 80))), None, true),
        ],
    );
}

fn spreading(name: &str, more: Value) -> Value {
    let constraint = with(
        json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
               "labelSelector": {"matchLabels": {"app": "web"}}}),
        more,
    );
    pod(name, json!({"metadata": {"labels": {"app": "web"}}, "spec": {"topologySpreadConstraints": [constraint]}}))
}

fn web(name: &str, app: &str, namespace: &str) -> Value {
    pod(name, json!({"metadata": {"namespace": namespace, "labels": {"app": app}}}))
}

#[test]
fn spreading_depends_on_the_pods_that_are_counted() {
    let me = spreading("me", json!({}));
    let (counted, other) = (|| bound(web("x", "web", "default")), || bound(web("x", "db", "default")));
    check(
        after_pod,
        PluginName::PodTopologySpread,
        &me,
        vec![
            ("a pod that counts came", None, Some(counted()), true),
            ("another pod came", None, Some(other()), false),
            ("a pod of another namespace came", None, Some(bound(web("x", "web", "else"))), false),
            ("a pod that waits came", None, Some(web("x", "web", "default")), false),
            ("a pod that counts left", Some(counted()), None, true),
            ("another pod left", Some(other()), None, false),
            ("a pod begins to count", Some(other()), Some(counted()), true),
            ("a pod ceases to count", Some(counted()), Some(other()), true),
            ("labels that do not matter", Some(other()), Some(bound(web("x", "mail", "default"))), false),
            ("nothing of it changed", Some(counted()), Some(counted()), false),
        ],
    );
    let tolerant = |pod: Value| with(pod, json!({"spec": {"tolerations": [{"operator": "Exists"}]}}));
    check(
        after_pod,
        PluginName::PodTopologySpread,
        &me,
        vec![("a toleration that does not matter", Some(me.clone()), Some(tolerant(me.clone())), false)],
    );
    let honoring = spreading("me", json!({"nodeTaintsPolicy": "Honor"}));
    check(
        after_pod,
        PluginName::PodTopologySpread,
        &honoring,
        vec![("a toleration that matters", Some(honoring.clone()), Some(tolerant(honoring.clone())), true)],
    );
}

#[test]
fn spreading_depends_on_nodes_with_the_label() {
    let (zone, none) = (|name: &str| Some(labelled(json!({"zone": name}))), || Some(node(json!({}))));
    let tainted = with(zone("a").unwrap(), json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}));
    check(
        after_node,
        PluginName::PodTopologySpread,
        &spreading("me", json!({})),
        vec![
            ("a new node with the label", None, zone("a"), true),
            ("a new node without", None, none(), false),
            ("a node with the label left", zone("a"), None, true),
            ("a node without left", none(), None, false),
            ("a node got the label", none(), zone("a"), true),
            ("a node lost the label", zone("a"), none(), true),
            ("a node moved", zone("a"), zone("b"), true),
            ("a node stayed", zone("a"), zone("a"), false),
            ("its taints changed", zone("a"), Some(tainted), true),
        ],
    );
}

fn affine(kind: &str, term: Value) -> Value {
    pod("me", json!({"spec": {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}}))
}

#[test]
fn company_depends_on_the_pods_that_terms_are_about() {
    let term =
        |more: Value| with(json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}), more);
    let (match_, other) = (|| bound(web("x", "web", "default")), || bound(web("x", "db", "default")));
    let likes = affine("podAffinity", term(json!({})));
    check(
        after_pod,
        PluginName::InterPodAffinity,
        &likes,
        vec![
            ("company came", None, Some(match_()), true),
            ("another came", None, Some(other()), false),
            ("company waits", None, Some(web("x", "web", "default")), false),
            ("company of another namespace came", None, Some(bound(web("x", "web", "else"))), false),
            ("a pod becomes company", Some(other()), Some(match_()), true),
            ("company ceases to be", Some(match_()), Some(other()), false),
            ("company left", Some(match_()), None, false),
            (
                "the pod's own labels changed",
                Some(likes.clone()),
                Some(with(likes.clone(), json!({"metadata": {"labels": {"a": "b"}}}))),
                true,
            ),
        ],
    );
    check(
        after_pod,
        PluginName::InterPodAffinity,
        &affine("podAffinity", term(json!({"namespaceSelector": {}}))),
        vec![("company of any namespace came", None, Some(bound(web("x", "web", "else"))), true)],
    );
    let dislikes = affine("podAntiAffinity", term(json!({})));
    check(
        after_pod,
        PluginName::InterPodAffinity,
        &dislikes,
        vec![
            ("the other left", Some(match_()), None, true),
            ("an indifferent one left", Some(other()), None, false),
            ("the other is another now", Some(match_()), Some(other()), true),
            ("the other came", None, Some(match_()), false),
        ],
    );
    let hater = with(
        with(affine("podAntiAffinity", term(json!({}))), json!({"metadata": {"name": "x", "uid": "x"}})),
        json!({"spec": {"nodeName": "n"}}),
    );
    check(
        after_pod,
        PluginName::InterPodAffinity,
        &web("me", "web", "default"),
        vec![("one that disliked this pod left", Some(hater.clone()), None, true)],
    );
    check(
        after_pod,
        PluginName::InterPodAffinity,
        &web("me", "db", "default"),
        vec![("one that disliked others left", Some(hater), None, false)],
    );
}

#[test]
fn company_depends_on_the_domains_of_nodes() {
    let term = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}});
    let (zone, none) = (|name: &str| Some(labelled(json!({"zone": name}))), || Some(node(json!({}))));
    check(
        after_node,
        PluginName::InterPodAffinity,
        &affine("podAffinity", term.clone()),
        vec![
            ("a new node with the label", None, zone("a"), true),
            ("a new node without", None, none(), false),
            ("a node got the label", none(), zone("a"), true),
            ("a node lost the label", zone("a"), none(), false),
            ("a node moved", zone("a"), zone("b"), true),
            ("a node stayed", zone("a"), zone("a"), false),
        ],
    );
    check(
        after_node,
        PluginName::InterPodAffinity,
        &affine("podAntiAffinity", term),
        vec![
            ("a new node without the label", None, none(), true),
            ("a node got the label", none(), zone("a"), false),
            ("a node lost the label", zone("a"), none(), true),
            ("a node moved", zone("a"), zone("b"), true),
        ],
    );
}

#[test]
fn declared_features_help_when_they_change() {
    let declares = |features: Value| Some(node(json!({"status": {"declaredFeatures": features}})));
    let me = pod("me", json!({"spec": {"hostNetwork": true, "hostUsers": false}}));
    check(
        after_node,
        PluginName::NodeDeclaredFeatures,
        &me,
        vec![
            ("a new node", None, declares(json!([])), true),
            ("other features", declares(json!([])), declares(json!(["A"])), true),
            ("the same features", declares(json!(["A"])), declares(json!(["A"])), false),
        ],
    );
    let plain = pod("me", json!({}));
    check(
        after_pod,
        PluginName::NodeDeclaredFeatures,
        &me,
        vec![
            ("it needs other features", Some(me.clone()), Some(plain), true),
            ("it needs the same", Some(me.clone()), Some(me.clone()), false),
            (
                "another pod does",
                Some(pod("x", json!({}))),
                Some(pod("x", json!({"spec": {"hostNetwork": true, "hostUsers": false}}))),
                false,
            ),
        ],
    );
}

#[test]
fn gates_concern_the_pod_itself_and_preemption_leaves_the_verdict_to_others() {
    let me = pod("me", json!({}));
    check(
        after_pod,
        PluginName::SchedulingGates,
        &me,
        vec![
            ("its own gates", Some(me.clone()), Some(me.clone()), true),
            ("those of another", Some(pod("x", json!({}))), Some(pod("x", json!({}))), false),
        ],
    );
    check(
        after_pod,
        PluginName::DefaultPreemption,
        &me,
        vec![("a pod left", Some(bound(pod("x", json!({})))), None, false)],
    );
}

#[test]
fn claims_help_their_pods_and_free_devices_help_all() {
    let me = pod("me", json!({"spec": {"resourceClaims": [{"name": "d", "resourceClaimName": "mine"}]}}));
    let claim = |name: &str, status: Value| {
        let claim =
            json!({"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {}, "status": status});
        serde_json::from_value::<ResourceClaim>(claim).unwrap()
    };
    let allocated = json!({"allocation": {"devices": {}}});
    let reserved = json!({"reservedFor": [{"resource": "pods", "name": "x", "uid": "x"}]});
    let ask = |known: bool, old: Option<ResourceClaim>, new: ResourceClaim| {
        let mut bench = Bench::new(&me, &Configuration::default());
        if known {
            bench.state.apply_resource_claim(&claim("mine", json!({}))).unwrap();
        }
        let change = Change { old: old.map(Arc::new), new: Some(Arc::new(new)) };
        bench.ask(PluginName::DynamicResources, &Changed::ResourceClaim(change))
    };
    assert!(ask(true, None, claim("mine", json!({}))), "the pod's claim came");
    assert!(!ask(true, None, claim("other", json!({}))), "another claim came");
    assert!(ask(true, Some(claim("mine", json!({}))), claim("mine", reserved)), "its status changed");
    assert!(!ask(true, Some(claim("mine", json!({}))), claim("mine", json!({}))), "its status did not change");
    assert!(ask(true, Some(claim("other", allocated.clone())), claim("other", json!({}))), "devices came free");
    assert!(!ask(false, Some(claim("other", allocated)), claim("other", json!({}))), "its own claim is missing still");
    let pod_update = |known: bool, name: &str| {
        let mut bench = Bench::new(&me, &Configuration::default());
        if known {
            bench.state.apply_resource_claim(&claim("mine", json!({}))).unwrap();
        }
        let new = bench.view(Some(with(me.clone(), json!({"metadata": {"name": name, "uid": name}}))));
        bench.ask(PluginName::DynamicResources, &Changed::Pod { old: None, new })
    };
    assert!(pod_update(true, "me"), "its claims are all there");
    assert!(!pod_update(false, "me"), "a claim is missing");
    assert!(!pod_update(true, "x"), "another pod's claims");
}

#[test]
fn volume_plugins_are_asked_for_their_own_verdict() {
    let mounts = |name: &str, claim: &str| {
        let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]);
        pod(name, json!({"spec": {"volumes": volumes}}))
    };
    check(
        after_pod,
        PluginName::VolumeRestrictions,
        &mounts("me", "c"),
        vec![
            ("a pod with the same claim left", Some(bound(mounts("x", "c"))), None, true),
            ("a pod with another claim left", Some(bound(mounts("x", "d"))), None, false),
            ("a pod without volumes left", Some(bound(pod("x", json!({})))), None, false),
        ],
    );
    check(
        after_pod,
        PluginName::NodeVolumeLimits,
        &mounts("me", "c"),
        vec![
            ("a pod with volumes left", Some(bound(mounts("x", "d"))), None, true),
            ("a waiting pod with volumes left", Some(mounts("x", "d")), None, false),
            ("a pod without volumes left", Some(bound(pod("x", json!({})))), None, false),
        ],
    );
    let claim = |name: &str| {
        let mut storage = crate::storage::StorageObjects::default();
        let object = json!({"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {}});
        storage.apply_claim(&serde_json::from_value(object).unwrap()).unwrap().unwrap()
    };
    let bench = Bench::new(&mounts("me", "c"), &Configuration::default());
    for plugin in [
        PluginName::VolumeRestrictions,
        PluginName::NodeVolumeLimits,
        PluginName::VolumeBinding,
        PluginName::VolumeZone,
    ] {
        for (name, expected) in [("c", true), ("d", false)] {
            let changed = Changed::PersistentVolumeClaim(claim(name));
            assert_eq!(bench.ask(plugin, &changed), expected, "{} {name}", plugin.as_str());
        }
    }
}
