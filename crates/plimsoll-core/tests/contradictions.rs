//! A pod whose spec contradicts itself gets the verdict Kubernetes gives it, in Kubernetes' words.
//!
//! The expectations come from reading kube-scheduler: what its plugins make of selectors that cannot be read, terms that
//! exclude each other and constraints that nothing can meet. The API server refuses some of these pods today, but older
//! servers did not, and what they let in is still there.

#![expect(clippy::unwrap_used, reason = "the harness is test code, too")]

use k8s_openapi::api::core::v1 as api;
use plimsoll_core::config::Configuration;
use plimsoll_core::explain::Explanation;
use plimsoll_core::framework::Status;
use plimsoll_core::scheduler::{Decision, Scheduler};
use plimsoll_core::state::PodId;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const AFFINITY: &str = "NodeAffinity UnschedulableAndUnresolvable: node(s) didn't match Pod's node affinity/selector";
const BAD_OPERATOR: &str = "\"Like\" is not a valid label selector operator";

/// Nodes `a` and `b` in zone `z0`, `c` in zone `z1`.
struct Cluster(Scheduler);

impl Cluster {
    fn new() -> Self {
        let mut scheduler = Scheduler::new(&Configuration::default(), 1);
        for (name, zone) in [("a", "z0"), ("b", "z0"), ("c", "z1")] {
            scheduler.state.apply_node(&node(name, zone)).unwrap();
        }
        Self(scheduler)
    }

    /// One node only, so that nothing is ranked.
    fn of_one_node() -> Self {
        let mut scheduler = Scheduler::new(&Configuration::default(), 1);
        scheduler.state.apply_node(&node("a", "z0")).unwrap();
        Self(scheduler)
    }

    fn with(mut self, pod: api::Pod) -> Self {
        self.0.state.apply_pod(&pod).unwrap();
        self
    }

    fn tell(&mut self, pod: &api::Pod) -> PodId {
        self.0.state.apply_pod(pod).unwrap().expect("the pod has not ended")
    }

    fn explain(&mut self, pod: &api::Pod) -> Explanation {
        let id = self.tell(pod);
        self.0.explain(id).unwrap()
    }

    fn refuses_everywhere(&mut self, pod: &api::Pod) -> String {
        let explanation = self.explain(pod);
        words(explanation.pre_filter.as_ref().expect("refused before nodes are looked at"))
    }

    /// Each node with who refuses it and why; feasible nodes are not in the list.
    fn refusals(&mut self, pod: &api::Pod) -> BTreeMap<String, String> {
        let explanation = self.explain(pod);
        assert_eq!(explanation.pre_filter, None);
        let name = |id| self.0.state.node_name(id).to_owned();
        explanation.refused.iter().map(|(node, status)| (name(*node), words(status))).collect()
    }

    fn message(&mut self, pod: &api::Pod) -> String {
        let nodes = self.0.state.node_count();
        self.explain(pod).message(nodes)
    }

    fn error(&mut self, pod: &api::Pod) -> String {
        let id = self.tell(pod);
        self.0.decide(id).unwrap_err().to_string()
    }

    fn is_placed(&mut self, pod: &api::Pod) -> bool {
        let id = self.tell(pod);
        matches!(self.0.decide(id), Ok(Decision::Place { .. }))
    }
}

fn words(status: &Status) -> String {
    let plugin = status.plugin.map_or("", |plugin| plugin.as_str());
    format!("{plugin} {}: {}", status.code, status.reasons.join(", "))
}

fn node(name: &str, zone: &str) -> api::Node {
    let labels = json!({"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone, "disk": "ssd"});
    parse(json!({
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    }))
}

/// A pod labelled `app: web` with this spec.
fn pod(name: &str, spec: Value) -> api::Pod {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c"}]},
    });
    for (key, value) in spec.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    parse(pod)
}

fn on(node: &str, mut pod: api::Pod) -> api::Pod {
    pod.spec.get_or_insert_default().node_name = Some(node.into());
    pod
}

fn parse<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn everywhere(refusal: &str) -> BTreeMap<String, String> {
    ["a", "b", "c"].into_iter().map(|node| (node.to_owned(), refusal.to_owned())).collect()
}

fn refusals(list: &[(&str, &str)]) -> BTreeMap<String, String> {
    list.iter().map(|(node, refusal)| ((*node).to_owned(), (*refusal).to_owned())).collect()
}

fn required_nodes(terms: Value) -> Value {
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
}

fn named(names: &[&str]) -> Value {
    json!({"key": "metadata.name", "operator": "In", "values": names})
}

fn company(kind: &str, strength: &str, selector: Value, topology: &str) -> Value {
    let term = json!({"labelSelector": selector, "topologyKey": topology});
    let term = if strength == "preferred" { json!({"weight": 1, "podAffinityTerm": term}) } else { term };
    json!({kind: {format!("{strength}DuringSchedulingIgnoredDuringExecution"): [term]}})
}

fn web() -> Value {
    json!({"matchLabels": {"app": "web"}})
}

fn unreadable() -> Value {
    json!({"matchExpressions": [{"key": "app", "operator": "Like", "values": ["web"]}]})
}

fn spread(action: &str, selector: Value) -> Value {
    json!({"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": action, "labelSelector": selector,
    }]})
}

#[test]
fn a_node_selector_and_an_affinity_that_exclude_each_other_match_no_node() {
    let mut spec =
        required_nodes(json!([{"matchExpressions": [{"key": "disk", "operator": "NotIn", "values": ["ssd"]}]}]));
    spec["nodeSelector"] = json!({"disk": "ssd"});
    let pod = pod("p", spec);
    assert_eq!(Cluster::new().refusals(&pod), everywhere(AFFINITY));
    assert_eq!(
        Cluster::new().message(&pod),
        "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, \
         preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    );
}

#[test]
fn names_that_conflict_in_every_term_refuse_the_pod() {
    let conflicting =
        json!([{"matchFields": [named(&["a"]), named(&["b"])]}, {"matchFields": [named(&["b"]), named(&["c"])]}]);
    let refusal = Cluster::new().refuses_everywhere(&pod("p", required_nodes(conflicting)));
    assert_eq!(refusal, "NodeAffinity UnschedulableAndUnresolvable: pod affinity terms conflict");
}

#[test]
fn of_several_terms_one_without_conflict_is_enough() {
    let terms = json!([{"matchFields": [named(&["a"]), named(&["b"])]}, {"matchFields": [named(&["c"])]}]);
    let left_out = " UnschedulableAndUnresolvable: node is filtered out by the prefilter result";
    assert_eq!(
        Cluster::new().refusals(&pod("p", required_nodes(terms))),
        refusals(&[("a", left_out), ("b", left_out)])
    );
}

#[test]
fn two_names_in_one_condition_are_looked_at_and_refused() {
    // Two values name two nodes to look at, but the condition itself must have one.
    let terms = json!([{"matchFields": [named(&["a", "b"])]}]);
    let left_out = " UnschedulableAndUnresolvable: node is filtered out by the prefilter result";
    assert_eq!(
        Cluster::new().refusals(&pod("p", required_nodes(terms))),
        refusals(&[("a", AFFINITY), ("b", AFFINITY), ("c", left_out)])
    );
}

#[test]
fn a_name_that_no_node_has_leaves_no_node() {
    let pod = pod("p", required_nodes(json!([{"matchFields": [named(&["ghost"])]}])));
    assert_eq!(
        Cluster::new().message(&pod),
        "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [NodeAffinity]. no new claims to deallocate, \
         preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    );
    assert!(!Cluster::new().is_placed(&pod));
}

#[test]
fn a_required_term_that_cannot_be_read_matches_no_node() {
    for term in [
        json!({"matchExpressions": [{"key": "disk", "operator": "Like", "values": ["ssd"]}]}),
        json!({"matchExpressions": [{"key": "disk", "operator": "In"}]}),
        json!({"matchExpressions": [{"key": "disk", "operator": "Gt", "values": ["many"]}]}),
        json!({"matchExpressions": [{"key": "not a key", "operator": "DoesNotExist"}]}),
        json!({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["x", "y"]}]}),
        json!({"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}),
        json!({}),
    ] {
        let alone = pod("p", required_nodes(json!([term])));
        assert_eq!(Cluster::new().refusals(&alone), everywhere(AFFINITY), "{term}");
        let readable = json!({"matchExpressions": [{"key": "disk", "operator": "Exists"}]});
        let beside = pod("p", required_nodes(json!([term, readable])));
        assert_eq!(Cluster::new().refusals(&beside), refusals(&[]), "{term} beside one that can be read");
    }
}

#[test]
fn preferences_that_cannot_be_read_fail_the_ranking_if_there_is_one() {
    let preference = |expressions: Value| json!({"weight": 1, "preference": {"matchExpressions": expressions}});
    let terms = json!([
        preference(json!([{"key": "disk", "operator": "Exists"}])),
        preference(
            json!([{"key": "disk", "operator": "Like", "values": ["ssd"]}, {"key": "disk", "operator": "In", "values": []}])
        ),
    ]);
    let pod =
        pod("p", json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}}));
    assert_eq!(
        Cluster::new().error(&pod),
        "pod default/p: running PreScore plugin \"NodeAffinity\": [[1].matchExpressions[0].operator: Unsupported value: \
         \"Like\": supported values: \"In\", \"NotIn\", \"Exists\", \"DoesNotExist\", \"Gt\", \"Lt\", \
         [1].matchExpressions[1].values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty]"
    );
    assert!(Cluster::of_one_node().is_placed(&pod), "a single node is taken without being ranked");
}

#[test]
fn a_preference_without_weight_is_not_read_at_all() {
    let bad = json!({"matchExpressions": [{"key": "disk", "operator": "Like"}]});
    let terms = json!([{"weight": 0, "preference": bad}]);
    let pod =
        pod("p", json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}}));
    assert!(Cluster::new().is_placed(&pod));
}

#[test]
fn affinity_to_pods_that_cannot_be_read_refuses_the_pod() {
    let no_values = json!({"matchExpressions": [{"key": "app", "operator": "In", "values": []}]});
    let with_values = json!({"matchExpressions": [{"key": "app", "operator": "Exists", "values": ["x"]}]});
    let number = json!({"matchExpressions": [{"key": "app", "operator": "Gt", "values": ["1"]}]});
    let host = "kubernetes.io/hostname";
    for (terms, problem) in [
        (company("podAffinity", "required", unreadable(), host), format!("requiredAffinityTerms: {BAD_OPERATOR}")),
        (company("podAntiAffinity", "required", unreadable(), host), format!("requiredAntiAffinityTerms: {BAD_OPERATOR}")),
        (company("podAffinity", "preferred", unreadable(), host), format!("preferredAffinityTerms: {BAD_OPERATOR}")),
        (company("podAntiAffinity", "preferred", unreadable(), host), format!("preferredAntiAffinityTerms: {BAD_OPERATOR}")),
        (
            company("podAffinity", "required", no_values, host),
            "requiredAffinityTerms: values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty".into(),
        ),
        (
            company("podAffinity", "required", with_values, host),
            "requiredAffinityTerms: values: Invalid value: [\"x\"]: values set must be empty for exists and does not exist"
                .into(),
        ),
        (
            company("podAffinity", "required", number, host),
            "requiredAffinityTerms: \"Gt\" is not a valid label selector operator".into(),
        ),
        (
            company("podAffinity", "required", json!({"matchLabels": {"app": "no value!"}}), host),
            "requiredAffinityTerms: values[0][app]: Invalid value: \"no value!\": a valid label must be an empty string or \
             consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character \
             (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
             '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
                .into(),
        ),
    ] {
        let refusal = Cluster::new().refuses_everywhere(&pod("p", json!({"affinity": terms})));
        assert_eq!(refusal, format!("InterPodAffinity UnschedulableAndUnresolvable: parsing pod: {problem}"));
    }
}

#[test]
fn every_kind_of_affinity_that_cannot_be_read_is_named() {
    let mut affinity = company("podAffinity", "required", unreadable(), "disk");
    let anti = company("podAntiAffinity", "preferred", unreadable(), "disk");
    affinity["podAntiAffinity"] = anti["podAntiAffinity"].clone();
    assert_eq!(
        Cluster::new().refuses_everywhere(&pod("p", json!({"affinity": affinity}))),
        format!(
            "InterPodAffinity UnschedulableAndUnresolvable: parsing pod: \
             [requiredAffinityTerms: {BAD_OPERATOR}, preferredAntiAffinityTerms: {BAD_OPERATOR}]"
        )
    );
}

#[test]
fn of_two_selectors_of_a_term_that_cannot_be_read_the_pods_own_is_named() {
    let mut affinity = company("podAffinity", "required", unreadable(), "disk");
    let term = &mut affinity["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
    term["namespaceSelector"] = json!({"matchExpressions": [{"key": "team", "operator": "Near"}]});
    let refusal = Cluster::new().refuses_everywhere(&pod("p", json!({"affinity": affinity})));
    assert!(refusal.ends_with(BAD_OPERATOR), "{refusal}");
}

#[test]
fn anti_affinity_that_cannot_be_read_of_a_placed_pod_keeps_nobody_away() {
    let terms = json!([
        {"labelSelector": web(), "topologyKey": "kubernetes.io/hostname"},
        {"labelSelector": unreadable(), "topologyKey": "kubernetes.io/hostname"},
    ]);
    let affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
    let mut cluster = Cluster::new().with(on("a", pod("old", json!({"affinity": affinity}))));
    assert_eq!(cluster.refusals(&pod("p", json!({}))), refusals(&[]), "one bad term spoils those beside it");
}

#[test]
fn a_pod_that_wants_its_own_kind_near_and_far_is_the_only_one() {
    let host = "kubernetes.io/hostname";
    let mut affinity = company("podAffinity", "required", web(), host);
    affinity["podAntiAffinity"] = company("podAntiAffinity", "required", web(), host)["podAntiAffinity"].clone();
    let spec = json!({"affinity": affinity});
    let mut cluster = Cluster::new();
    assert_eq!(cluster.refusals(&pod("first", spec.clone())), refusals(&[]), "the first of its kind needs no company");
    let mut cluster = Cluster::new().with(on("a", pod("first", spec.clone())));
    let alone = "InterPodAffinity UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules";
    let crowded = "InterPodAffinity Unschedulable: node(s) didn't match pod anti-affinity rules";
    assert_eq!(cluster.refusals(&pod("second", spec)), refusals(&[("a", crowded), ("b", alone), ("c", alone)]));
}

#[test]
fn affinity_to_a_kind_that_nobody_is_of_refuses_every_node() {
    let affinity = company("podAffinity", "required", json!({"matchLabels": {"app": "db"}}), "disk");
    let refusal = "InterPodAffinity UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules";
    assert_eq!(Cluster::new().refusals(&pod("p", json!({"affinity": affinity}))), everywhere(refusal));
}

#[test]
fn a_placed_pod_keeps_its_own_kind_away_even_if_that_does_not_mind() {
    let affinity = company("podAntiAffinity", "required", web(), "topology.kubernetes.io/zone");
    let mut cluster = Cluster::new().with(on("a", pod("loner", json!({"affinity": affinity}))));
    let refusal = "InterPodAffinity Unschedulable: node(s) didn't satisfy existing pods anti-affinity rules";
    assert_eq!(cluster.refusals(&pod("p", json!({}))), refusals(&[("a", refusal), ("b", refusal)]));
}

#[test]
fn hard_spreading_that_cannot_be_read_is_an_error() {
    let pod = pod("p", spread("DoNotSchedule", unreadable()));
    assert_eq!(
        Cluster::new().error(&pod),
        format!(
            "pod default/p: running PreFilter plugin \"PodTopologySpread\": get constraints from pod: \
             obtaining pod's hard topology spread constraints: {BAD_OPERATOR}"
        )
    );
}

#[test]
fn soft_spreading_that_cannot_be_read_fails_the_ranking_if_there_is_one() {
    let pod = pod("p", spread("ScheduleAnyway", unreadable()));
    assert_eq!(
        Cluster::new().error(&pod),
        format!(
            "pod default/p: running PreScore plugin \"PodTopologySpread\": calculating preScoreState: \
             obtaining pod's soft topology spread constraints: {BAD_OPERATOR}"
        )
    );
    assert!(Cluster::of_one_node().is_placed(&pod), "a single node is taken without being ranked");
}

#[test]
fn spreading_over_more_domains_than_there_are_fills_each_up_to_the_skew() {
    let mut spec = spread("DoNotSchedule", web());
    spec["topologySpreadConstraints"][0]["minDomains"] = json!(3);
    let full = "PodTopologySpread Unschedulable: node(s) didn't match pod topology spread constraints";
    let mut cluster = Cluster::new().with(on("a", pod("first", spec.clone())));
    assert_eq!(cluster.refusals(&pod("second", spec.clone())), refusals(&[("a", full), ("b", full)]));
    let mut cluster = cluster.with(on("c", pod("second", spec.clone())));
    assert_eq!(cluster.refusals(&pod("third", spec)), everywhere(full), "with three zones it would be one each");
}

#[test]
fn spreading_over_a_label_no_node_has_refuses_every_node() {
    let mut spec = spread("DoNotSchedule", web());
    spec["topologySpreadConstraints"][0]["topologyKey"] = json!("rack");
    let refusal = "PodTopologySpread UnschedulableAndUnresolvable: node(s) didn't match pod topology spread constraints \
                   (missing required label)";
    assert_eq!(Cluster::new().refusals(&pod("p", spec)), everywhere(refusal));
}

#[test]
fn spreading_of_others_only_never_counts_the_pod_itself() {
    // The pod does not match its own selector, so it adds nothing to the skew wherever it goes.
    let spec = spread("DoNotSchedule", json!({"matchLabels": {"app": "db"}}));
    assert_eq!(Cluster::new().refusals(&pod("p", spec)), refusals(&[]));
}

#[test]
fn a_host_port_stated_twice_is_no_conflict_within_the_pod() {
    let port = json!({"containerPort": 80, "hostPort": 80});
    let spec = json!({"containers": [{"name": "a", "ports": [port, port]}, {"name": "b", "ports": [port]}]});
    let mut cluster = Cluster::new();
    assert_eq!(cluster.refusals(&pod("first", spec.clone())), refusals(&[]));
    let mut cluster = cluster.with(on("a", pod("first", spec.clone())));
    let refusal = "NodePorts Unschedulable: node(s) didn't have free ports for the requested pod ports";
    assert_eq!(cluster.refusals(&pod("second", spec.clone())), refusals(&[("a", refusal)]));
    cluster.0.state.delete_pod("first");
    assert_eq!(cluster.refusals(&pod("second", spec)), refusals(&[]), "the port is free however often it was stated");
}

#[test]
fn requests_that_no_node_can_ever_meet_are_not_helped_by_preemption() {
    let small = json!({"priority": 0, "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]});
    let large = json!({"priority": 9, "containers": [{"name": "c", "resources": {"requests": {"cpu": "5"}}}]});
    let mut cluster = Cluster::new().with(on("a", pod("small", small)));
    let pod = pod("large", large);
    let refusal = "NodeResourcesFit UnschedulableAndUnresolvable: Insufficient cpu";
    assert_eq!(cluster.refusals(&pod), everywhere(refusal));
    assert_eq!(
        cluster.message(&pod),
        "0/3 nodes are available: 3 Insufficient cpu. no new claims to deallocate, preemption: 0/3 nodes are available: \
         3 Preemption is not helpful for scheduling."
    );
}

#[test]
fn a_pod_that_never_preempts_says_so() {
    let spec = json!({"priority": 9, "preemptionPolicy": "Never", "nodeSelector": {"disk": "hdd"}});
    let message = Cluster::new().message(&pod("p", spec));
    assert!(message.ends_with("preemption: not eligible due to preemptionPolicy=Never."), "{message}");
}

#[test]
fn a_claim_named_twice_or_missing_is_named_in_the_refusal() {
    let volume = |name: &str| json!({"name": name, "persistentVolumeClaim": {"claimName": "data"}});
    let spec = json!({"volumes": [volume("one"), volume("two")]});
    assert_eq!(
        Cluster::new().refuses_everywhere(&pod("p", spec)),
        "VolumeRestrictions UnschedulableAndUnresolvable: persistentvolumeclaim \"data\" not found"
    );
}

#[test]
fn a_node_whose_volumes_cannot_be_judged_fails_the_attempt_though_others_would_do() {
    // Node a runs a pod whose ephemeral claim is somebody else's, so its attached volumes cannot be counted.
    let mut cluster = Cluster::new();
    let storage = &mut cluster.0.state.storage;
    let claim = |name: &str, owner: Value| {
        parse(json!({
            "metadata": {"name": name, "namespace": "default", "uid": name, "ownerReferences": owner,
                         "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
            "spec": {"volumeName": name, "storageClassName": "", "accessModes": ["ReadWriteOnce"]},
        }))
    };
    let stranger = json!([{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "x", "controller": true}]);
    storage.apply_claim(&claim("old-data", stranger)).unwrap();
    storage.apply_claim(&claim("mine", json!([]))).unwrap();
    for name in ["old-data", "mine"] {
        let spec = json!({"csi": {"driver": "d", "volumeHandle": name}, "capacity": {"storage": "1Gi"}});
        storage.apply_volume(&parse(json!({"metadata": {"name": name}, "spec": spec}))).unwrap();
    }
    let driver = json!({"name": "d", "nodeID": "a", "allocatable": {"count": 5}});
    storage.apply_csi_node(&parse(json!({"metadata": {"name": "a"}, "spec": {"drivers": [driver]}}))).unwrap();
    let old = json!({"volumes": [{"name": "data", "ephemeral": {}}]});
    let mut cluster = cluster.with(on("a", pod("old", old)));
    let mine = json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "mine"}}]});
    assert_eq!(
        cluster.error(&pod("p", mine)),
        "pod default/p: running \"NodeVolumeLimits\" filter plugin: PVC default/old-data was not created for pod \
         default/old (pod is not owner)"
    );
}
