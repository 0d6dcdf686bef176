//! Objects at the edges of what their fields can hold: every one gets an answer, and sums wrap as Kubernetes' do.

#![expect(clippy::unwrap_used, reason = "the harness is test code, too")]

use k8s_openapi::api::core::v1 as api;
use plimsoll_core::config::Configuration;
use plimsoll_core::scheduler::{Decision, Scheduler};
use plimsoll_core::state::PodId;
use serde_json::{Value, json};

fn parse<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn node(name: &str, allocatable: Value) -> api::Node {
    let labels = json!({"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": "z"});
    parse(json!({"metadata": {"name": name, "labels": labels}, "status": {"allocatable": allocatable}}))
}

fn roomy(name: &str) -> api::Node {
    node(name, json!({"cpu": "4", "memory": "8Gi", "pods": "110"}))
}

fn pod(name: &str, requests: Value, more: Value) -> api::Pod {
    let mut spec = json!({"containers": [{"name": "c", "resources": {"requests": requests}}]});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    parse(json!({"metadata": {"name": name, "namespace": "n", "uid": name, "labels": {"app": "web"}}, "spec": spec}))
}

fn cluster(nodes: &[api::Node]) -> Scheduler {
    let mut scheduler = Scheduler::new(&Configuration::default(), 1);
    for node in nodes {
        scheduler.state.apply_node(node).unwrap();
    }
    scheduler
}

fn tell(scheduler: &mut Scheduler, pod: &api::Pod) -> PodId {
    scheduler.state.apply_pod(pod).unwrap().expect("the pod has not ended")
}

/// Decides and explains, and has the state check itself.
fn decide(scheduler: &mut Scheduler, pod: &api::Pod) -> Decision {
    let id = tell(scheduler, pod);
    scheduler.explain(id).unwrap();
    let decision = scheduler.decide(id).unwrap();
    scheduler.state.check_consistency().unwrap();
    decision
}

#[test]
fn amounts_that_overflow_the_score_still_rank() {
    let extremes = ["9223372036854775807", "-9223372036854775808", "1e30", "-1e30", "-1", "-3", "1", "0", "0.0000001"];
    for offered in extremes {
        for wanted in extremes {
            let amounts = |amount: &str| json!({"cpu": amount, "memory": amount, "ephemeral-storage": amount, "example.com/gpu": amount});
            let mut allocatable = amounts(offered);
            allocatable["pods"] = json!("110");
            let mut scheduler =
                cluster(&[node("a", allocatable.clone()), node("b", allocatable), roomy("c"), roomy("d")]);
            let mut placed = pod("placed", amounts(wanted), json!({}));
            placed.spec.get_or_insert_default().node_name = Some("a".into());
            tell(&mut scheduler, &placed);
            tell(&mut scheduler, &{
                let mut second = placed.clone();
                (second.metadata.name, second.metadata.uid) = (Some("second".into()), Some("second".into()));
                second
            });
            for incoming in [
                pod("p", amounts(wanted), json!({})),
                pod("q", json!({"cpu": wanted}), json!({"overhead": {"cpu": wanted}})),
            ] {
                decide(&mut scheduler, &incoming);
            }
        }
    }
}

#[test]
fn strategies_survive_amounts_that_overflow() {
    let shape = json!([{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]);
    for strategy in ["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"] {
        let resources = json!([{"name": "cpu", "weight": 100}, {"name": "memory", "weight": 100}]);
        let mut scoring = json!({"type": strategy, "resources": resources});
        if strategy == "RequestedToCapacityRatio" {
            scoring["requestedToCapacityRatio"] = json!({"shape": shape});
        }
        let configuration = json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
            "profiles": [{"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": scoring}}]}],
        });
        let configuration = Configuration::from_value("test", configuration).unwrap();
        let mut scheduler = Scheduler::new(&configuration, 1);
        for (name, amount) in [("a", "-1"), ("b", "9223372036854775807"), ("c", "-9223372036854775808")] {
            let allocatable = json!({"cpu": amount, "memory": amount, "pods": "9"});
            scheduler.state.apply_node(&node(name, allocatable)).unwrap();
        }
        for wanted in ["0", "-9223372036854775808", "9223372036854775807"] {
            let incoming = pod("p", json!({"cpu": wanted, "memory": wanted}), json!({}));
            let id = tell(&mut scheduler, &incoming);
            scheduler.explain(id).unwrap();
            scheduler.decide(id).unwrap();
        }
    }
}

#[test]
fn any_skew_and_number_of_domains_is_counted_with() {
    for max_skew in [i32::MIN, -1, 0, 1, i32::MAX] {
        for min_domains in [i32::MIN, 0, 1, i32::MAX] {
            for action in ["DoNotSchedule", "ScheduleAnyway"] {
                let spread = json!([{
                    "maxSkew": max_skew, "minDomains": min_domains, "topologyKey": "topology.kubernetes.io/zone",
                    "whenUnsatisfiable": action, "labelSelector": {"matchLabels": {"app": "web"}},
                }]);
                let spec = json!({"topologySpreadConstraints": spread});
                let mut scheduler = cluster(&[roomy("a"), roomy("b")]);
                let decision = decide(&mut scheduler, &pod("p", json!({}), spec));
                let placed = matches!(decision, Decision::Place { .. });
                // One pod in the only zone: it exceeds every skew below one, unless the constraint is a wish.
                assert_eq!(placed, action == "ScheduleAnyway" || max_skew >= 1, "{action} {max_skew} {min_domains}");
            }
        }
    }
}

#[test]
fn budgets_and_priorities_at_their_limits_preempt() {
    for allowed in [i32::MIN, -1, 0, i32::MAX] {
        let mut scheduler = cluster(&[roomy("a")]);
        let status =
            json!({"disruptionsAllowed": allowed, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0});
        scheduler.state.apply_budget(&parse(json!({
            "metadata": {"name": "b", "namespace": "n"}, "spec": {"selector": {"matchLabels": {"app": "web"}}}, "status": status,
        })));
        for name in ["x", "y"] {
            tell(&mut scheduler, &pod(name, json!({"cpu": "2"}), json!({"nodeName": "a", "priority": i32::MIN})));
        }
        let decision = decide(&mut scheduler, &pod("p", json!({"cpu": "4"}), json!({"priority": i32::MAX})));
        let Decision::Wait { preemption: Some(preemption), .. } = decision else { panic!("{decision:?}") };
        assert_eq!(preemption.victims.len(), 2);
    }
}

#[test]
fn weights_at_their_limits_are_summed() {
    let term = json!({"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"});
    for weight in [i32::MIN, -1, 0, i32::MAX] {
        let weighted =
            json!([{"weight": weight, "podAffinityTerm": term}, {"weight": weight, "podAffinityTerm": term}]);
        let preference =
            json!({"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["a"]}]});
        let preferred =
            json!([{"weight": weight, "preference": preference}, {"weight": weight, "preference": preference}]);
        let affinity = json!({
            "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighted},
            "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred},
        });
        let mut scheduler = cluster(&[roomy("a"), roomy("b")]);
        for (name, node) in [("x", "a"), ("y", "a"), ("z", "b")] {
            tell(&mut scheduler, &pod(name, json!({}), json!({"nodeName": node, "affinity": affinity})));
        }
        decide(&mut scheduler, &pod("p", json!({}), json!({"affinity": affinity})));
    }
}

#[test]
fn image_sizes_at_their_limits_are_ranked() {
    for size in [i64::MIN, -1, 0, i64::MAX] {
        let mut nodes = [roomy("a"), roomy("b")];
        let images = json!([{"names": ["web:1", "db:1"], "sizeBytes": size}]);
        nodes[0].status.get_or_insert_default().images = Some(parse(images));
        let containers = json!([{"name": "c", "image": "web:1"}, {"name": "d", "image": "db:1"}]);
        decide(&mut cluster(&nodes), &pod("p", json!({}), json!({"containers": containers})));
        // A pod without containers is refused by the API server, not by us.
        decide(&mut cluster(&nodes), &pod("p", json!({}), json!({"containers": []})));
    }
}

#[test]
fn thousands_of_taints_labels_ports_and_terms_are_looked_at() {
    let taints: Vec<_> = (0..5_000).map(|n| json!({"key": format!("k{n}"), "effect": "NoSchedule"})).collect();
    let mut tainted = roomy("a");
    tainted.spec.get_or_insert_default().taints = Some(parse(json!(taints)));
    let tolerations: Vec<_> = (0..5_000).rev().map(|n| json!({"key": format!("k{n}"), "operator": "Exists"})).collect();
    let ports: Vec<_> = (1..2_000).map(|n| json!({"containerPort": n, "hostPort": n})).collect();
    let term =
        |n: usize| json!({"labelSelector": {"matchLabels": {"app": format!("x{n}")}}, "topologyKey": format!("t{n}")});
    let terms: Vec<_> = (0..300).map(term).collect();
    let spec = json!({
        "tolerations": tolerations,
        "containers": [{"name": "c", "ports": ports}],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}},
    });
    let decision = decide(&mut cluster(&[tainted]), &pod("p", json!({}), spec));
    assert!(matches!(decision, Decision::Place { .. }), "{decision:?}");
}

#[test]
fn objects_without_names_are_told_apart_by_what_they_have() {
    let mut scheduler = cluster(&[node("", json!({"cpu": "1", "pods": "9"})), roomy("a")]);
    let nameless: api::Pod = parse(json!({"metadata": {}, "spec": {"containers": [], "nodeName": ""}}));
    decide(&mut scheduler, &nameless);
    decide(&mut scheduler, &parse(json!({"metadata": {}, "spec": null})));
    decide(&mut scheduler, &parse(json!({"metadata": {"uid": "u"}})));
    assert_eq!(scheduler.state.pods().count(), 2, "the pods without UID are one");
}

#[test]
fn a_uid_used_by_two_names_is_one_pod() {
    let mut scheduler = cluster(&[roomy("a")]);
    tell(&mut scheduler, &pod("x", json!({"cpu": "1"}), json!({"nodeName": "a"})));
    let mut renamed = pod("y", json!({"cpu": "3"}), json!({"nodeName": "a"}));
    renamed.metadata.uid = Some("x".into());
    tell(&mut scheduler, &renamed);
    let node = scheduler.state.node_named("a").and_then(|id| scheduler.state.node(id)).unwrap();
    assert_eq!((node.requested.cpu, node.pods.len()), (3_000, 1));
    scheduler.state.check_consistency().unwrap();
}
