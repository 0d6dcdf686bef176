//! Failures that schedulers had in production, each as the state must live through it.

use super::universe::parse;
use k8s_openapi::api::core::v1 as api;
use plimsoll_core::config::Configuration;
use plimsoll_core::reserve::Reservation;
use plimsoll_core::scheduler::{Decision, Scheduler};
use plimsoll_core::state::{Phase, PodId};
use serde_json::{Value, json};

/// A cluster of nodes with two cores each, and pods of one core.
struct Cluster(Scheduler);

fn node(name: &str) -> api::Node {
    parse(json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": {"cpu": "2", "memory": "8Gi", "pods": "110"}},
    }))
}

fn pod(name: &str, uid: &str, node: Option<&str>) -> api::Pod {
    with(name, uid, node, json!({}))
}

fn with(name: &str, uid: &str, node: Option<&str>, more: Value) -> api::Pod {
    let mut spec = json!({
        "nodeName": node, "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
    });
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    let metadata = json!({"name": name, "namespace": "default", "uid": uid, "labels": {"app": "web"}});
    parse(json!({"metadata": metadata, "spec": spec}))
}

/// Needs a claim.
fn claims(name: &str) -> Value {
    json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]})
}

/// Keeps pods of its kind from each other's host.
fn alone() -> Value {
    json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}]}}})
}

impl Cluster {
    fn of(nodes: &[&str]) -> Self {
        let mut cluster = Self(Scheduler::new(&Configuration::default(), 1));
        nodes.iter().for_each(|name| cluster.node(name));
        cluster
    }

    fn node(&mut self, name: &str) {
        self.0.state.apply_node(&node(name)).unwrap();
    }

    fn tell(&mut self, pod: &api::Pod) -> PodId {
        self.0.state.apply_pod(pod).unwrap().expect("the pod has not ended")
    }

    fn assume(&mut self, pod: PodId, node: &str) -> Reservation {
        let node = self.0.state.node_named(node).unwrap();
        self.0.reserve(pod, node).unwrap()
    }

    /// One volume and one claim for it, to be bound when a pod comes.
    fn with_volume(mut self) -> Self {
        let storage = &mut self.0.state.storage;
        let class = json!({"metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner",
                           "volumeBindingMode": "WaitForFirstConsumer"});
        storage.apply_class(&parse(class)).unwrap();
        let spec =
            json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "local", "capacity": {"storage": "1Gi"}});
        let volume = json!({"metadata": {"name": "v"}, "spec": spec, "status": {"phase": "Available"}});
        storage.apply_volume(&parse(volume)).unwrap();
        for name in ["mine", "theirs"] {
            let spec = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "local",
                              "resources": {"requests": {"storage": "1Gi"}}});
            let metadata = json!({"name": name, "namespace": "default", "uid": name});
            storage.apply_claim(&parse(json!({"metadata": metadata, "spec": spec}))).unwrap();
        }
        self
    }

    fn can_place(&mut self, pod: &api::Pod) -> bool {
        let id = self.tell(pod);
        matches!(self.0.decide(id), Ok(Decision::Place { .. }))
    }

    /// The cores in use on a node, after a look at everything that is kept beside them.
    fn used(&self, node: &str) -> i64 {
        self.0.state.check_consistency().unwrap();
        let id = self.0.state.node_named(node).unwrap();
        self.0.state.node(id).unwrap().requested.cpu / 1000
    }

    /// Where a pod of one core that shares its host with none of its kind would go.
    fn place(&mut self) -> Option<String> {
        let id = self.tell(&with("probe", "probe", None, alone()));
        let decision = self.0.decide(id).unwrap();
        self.0.state.delete_pod("probe");
        match decision {
            Decision::Place { node, .. } => Some(self.0.state.node_name(node).to_owned()),
            Decision::Wait { .. } => None,
        }
    }
}

#[test]
fn a_pod_told_twice_counts_once() {
    let mut cluster = Cluster::of(&["n"]);
    let web = pod("web", "u1", Some("n"));
    assert_eq!(cluster.tell(&web), cluster.tell(&web));
    assert_eq!(cluster.used("n"), 1);
}

#[test]
fn a_delete_seen_late_or_twice_gives_room_back_once() {
    let mut cluster = Cluster::of(&["n"]);
    cluster.tell(&with("a", "u1", Some("n"), alone()));
    cluster.tell(&pod("b", "u2", Some("n")));
    assert_eq!((cluster.used("n"), cluster.place()), (2, None));
    // A list after a broken watch shows neither: both are deleted by what is known of them, their UIDs.
    assert!(cluster.0.state.delete_pod("u1").is_some());
    assert!(cluster.0.state.delete_pod("u2").is_some());
    assert!(cluster.0.state.delete_pod("u2").is_none());
    assert_eq!((cluster.used("n"), cluster.place().as_deref()), (0, Some("n")));
}

#[test]
fn a_pod_that_has_ended_gives_its_room_back() {
    let mut cluster = Cluster::of(&["n"]);
    cluster.tell(&pod("job", "u1", Some("n")));
    let mut ended = pod("job", "u1", Some("n"));
    ended.status.get_or_insert_default().phase = Some("Failed".into());
    assert_eq!(cluster.0.state.apply_pod(&ended), Ok(None));
    assert_eq!(cluster.used("n"), 0);
    // The delete that follows finds nothing to do.
    assert_eq!(cluster.0.state.delete_pod("u1"), None);
    assert_eq!(cluster.used("n"), 0);
}

#[test]
fn a_failed_binding_gives_back_room_and_company() {
    let mut cluster = Cluster::of(&["n", "m"]);
    let id = cluster.tell(&with("web", "u1", None, alone()));
    cluster.assume(id, "n");
    assert_eq!((cluster.used("n"), cluster.place().as_deref()), (1, Some("m")));
    cluster.0.state.forget(id).unwrap();
    assert_eq!(cluster.used("n"), 0);
    assert_eq!(cluster.0.state.pod(id).map(|pod| (pod.phase, pod.node)), Some((Phase::Pending, None)));
    cluster.0.state.forget(id).unwrap_err();
}

#[test]
fn an_assumed_pod_that_is_deleted_gives_its_room_back() {
    let mut cluster = Cluster::of(&["n"]);
    let id = cluster.tell(&with("web", "u1", None, alone()));
    cluster.assume(id, "n");
    cluster.0.state.delete_pod("u1");
    assert_eq!((cluster.used("n"), cluster.place().as_deref()), (0, Some("n")));
    // The binding that fails afterwards, since the pod is gone, changes nothing.
    cluster.0.state.forget(id).unwrap_err();
    assert_eq!(cluster.used("n"), 0);
}

#[test]
fn a_binding_that_fails_after_its_pod_is_gone_gives_back_its_volumes_and_nobody_elses_room() {
    let mut cluster = Cluster::of(&["n"]).with_volume();
    let id = cluster.tell(&with("db", "u1", None, claims("mine")));
    let reservation = cluster.assume(id, "n");
    let rival = with("rival", "u2", None, claims("theirs"));
    assert!(!cluster.can_place(&rival), "the only volume is taken");
    cluster.0.state.delete_pod("u1");
    let successor = cluster.tell(&pod("web", "u3", None));
    assert_eq!(successor, id, "the index of the deleted pod is used again");
    cluster.assume(successor, "n");
    cluster.0.unreserve(reservation);
    assert_eq!(cluster.used("n"), 1, "the successor keeps its room");
    assert!(cluster.can_place(&rival), "the volume is free");
}

#[test]
fn a_pod_is_not_reserved_twice_and_keeps_what_it_has() {
    let mut cluster = Cluster::of(&["n", "m"]).with_volume();
    let id = cluster.tell(&with("db", "u1", None, claims("mine")));
    cluster.assume(id, "n");
    let elsewhere = cluster.0.state.node_named("m").unwrap();
    let error = cluster.0.reserve(id, elsewhere).unwrap_err();
    assert_eq!(error.to_string(), "pod default/db: cannot reserve, it is Assumed");
    assert_eq!((cluster.used("n"), cluster.used("m")), (1, 0));
    assert!(!cluster.can_place(&with("rival", "u2", None, claims("theirs"))), "the volume is still taken");
}

#[test]
fn a_binding_that_succeeded_without_our_knowing_is_not_undone() {
    let mut cluster = Cluster::of(&["n"]);
    let id = cluster.tell(&pod("web", "u1", None));
    let reservation = cluster.assume(id, "n");
    // The answer to our binding was lost, but the watch shows that it was carried out.
    cluster.tell(&pod("web", "u1", Some("n")));
    cluster.0.unreserve(reservation);
    assert_eq!(cluster.used("n"), 1);
}

#[test]
fn an_assumption_lasts_until_it_is_taken_back_however_much_happens() {
    let mut cluster = Cluster::of(&["n"]);
    let id = cluster.tell(&pod("web", "u1", None));
    cluster.assume(id, "n");
    for round in 0..10_000 {
        cluster.tell(&pod("other", &format!("o{round}"), Some("elsewhere")));
        cluster.0.state.delete_pod(&format!("o{round}"));
    }
    assert_eq!(cluster.used("n"), 1);
}

#[test]
fn news_older_than_an_assumption_does_not_undo_it() {
    let mut cluster = Cluster::of(&["n"]);
    let id = cluster.tell(&pod("web", "u1", None));
    cluster.assume(id, "n");
    // A condition was written before the binding; the event comes after our decision.
    cluster.tell(&pod("web", "u1", None));
    assert_eq!(cluster.used("n"), 1);
    cluster.0.state.confirm(id).unwrap();
    cluster.tell(&pod("web", "u1", None));
    assert_eq!(cluster.used("n"), 1);
    cluster.tell(&pod("web", "u1", Some("n")));
    assert_eq!(cluster.used("n"), 1);
    assert_eq!(cluster.0.state.pod(id).map(|pod| pod.phase), Some(Phase::Bound));
}

#[test]
fn a_pod_bound_elsewhere_than_assumed_counts_where_it_is() {
    let mut cluster = Cluster::of(&["n", "m"]);
    let id = cluster.tell(&with("web", "u1", None, alone()));
    cluster.assume(id, "n");
    cluster.tell(&with("web", "u1", Some("m"), alone()));
    assert_eq!((cluster.used("n"), cluster.used("m")), (0, 1));
    assert_eq!(cluster.place().as_deref(), Some("n"));
    cluster.0.state.confirm(id).unwrap_err();
}

#[test]
fn a_name_used_again_is_another_pod() {
    let mut cluster = Cluster::of(&["n", "m"]);
    let first = cluster.tell(&pod("db-0", "u1", Some("n")));
    // The stateful set makes the pod anew before we hear that the first is gone.
    let second = cluster.tell(&pod("db-0", "u2", None));
    assert_ne!(first, second);
    cluster.assume(second, "m");
    assert_eq!((cluster.used("n"), cluster.used("m")), (1, 1));
    cluster.0.state.delete_pod("u1");
    assert_eq!((cluster.used("n"), cluster.used("m")), (0, 1));
    assert_eq!(cluster.0.state.pod_id("u2"), Some(second));
}

#[test]
fn a_node_that_comes_back_still_has_the_pods_that_stayed() {
    let mut cluster = Cluster::of(&["n", "m"]);
    cluster.tell(&with("a", "u1", Some("n"), alone()));
    cluster.tell(&pod("b", "u2", Some("n")));
    let assumed = cluster.tell(&pod("c", "u3", None));
    cluster.assume(assumed, "n");
    cluster.0.state.delete_node("n");
    assert_eq!(cluster.place().as_deref(), Some("m"));
    cluster.0.state.delete_pod("u1");
    cluster.node("n");
    assert_eq!(cluster.used("n"), 2, "what was bound and what was assumed is there, what was deleted is not");
    cluster.0.state.forget(assumed).unwrap();
    assert_eq!(cluster.used("n"), 1);
}

#[test]
fn a_node_of_the_same_name_does_not_inherit_what_was_said_of_the_old_one() {
    let mut cluster = Cluster::of(&["n"]);
    let mut tainted = node("n");
    tainted.spec.get_or_insert_default().unschedulable = Some(true);
    cluster.0.state.apply_node(&tainted).unwrap();
    assert_eq!(cluster.place(), None);
    cluster.0.state.delete_node("n");
    cluster.node("n");
    assert_eq!(cluster.place().as_deref(), Some("n"));
}

#[test]
fn a_node_in_the_place_of_a_deleted_one_is_looked_at_anew() {
    let mut cluster = Cluster::of(&["full", "empty"]);
    cluster.tell(&pod("a", "u1", Some("full")));
    cluster.tell(&pod("b", "u2", Some("full")));
    assert_eq!(cluster.place().as_deref(), Some("empty"));
    cluster.0.state.delete_node("empty");
    assert_eq!(cluster.place(), None);
    // The index of the deleted node is used again.
    cluster.node("new");
    assert_eq!(cluster.place().as_deref(), Some("new"));
}

#[test]
fn pods_of_a_node_not_seen_yet_count_as_soon_as_it_is() {
    let mut cluster = Cluster::of(&[]);
    cluster.tell(&pod("a", "u1", Some("n")));
    cluster.tell(&pod("b", "u2", Some("n")));
    cluster.0.state.delete_pod("u2");
    cluster.node("n");
    assert_eq!(cluster.used("n"), 1);
}

#[test]
fn a_nomination_survives_news_that_does_not_know_of_it_yet() {
    let mut cluster = Cluster::of(&["n"]);
    let id = cluster.tell(&pod("web", "u1", None));
    let nominated = |cluster: &Cluster| {
        let name = cluster.0.state.pod(id)?.nominated?;
        Some(cluster.0.state.strings.resolve(name).to_owned())
    };
    let name = cluster.0.state.strings.intern("n");
    cluster.0.state.nominate(id, Some(name));
    cluster.tell(&pod("web", "u1", None));
    assert_eq!(nominated(&cluster).as_deref(), Some("n"));
    let mut told = pod("web", "u1", None);
    told.status.get_or_insert_default().nominated_node_name = Some("m".into());
    cluster.tell(&told);
    assert_eq!(nominated(&cluster).as_deref(), Some("m"));
    // Now the API server knew of one, so that its absence means that it was taken back.
    cluster.tell(&pod("web", "u1", None));
    assert_eq!(nominated(&cluster), None);
    cluster.0.state.check_consistency().unwrap();
}

#[test]
fn an_event_that_cannot_be_read_changes_nothing() {
    let mut cluster = Cluster::of(&["n"]);
    cluster.tell(&pod("web", "u1", Some("n")));
    let unreadable = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "one"}}}]});
    let error = cluster.0.state.apply_pod(&with("web", "u1", Some("n"), unreadable)).unwrap_err();
    assert!(error.to_string().starts_with("pod default/web: spec.containers[0].resources.requests.cpu: "), "{error}");
    let mut broken = node("n");
    broken.status.get_or_insert_default().allocatable = Some([("cpu".to_owned(), parse(json!("two")))].into());
    let error = cluster.0.state.apply_node(&broken).unwrap_err();
    assert!(error.to_string().starts_with("node n: status.allocatable.cpu: "), "{error}");
    assert_eq!(cluster.used("n"), 1);
}
