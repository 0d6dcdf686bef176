//! The lab itself, on the real control plane. Where that is not built (`make lab`), these tests say so and pass.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, Resource};
use plimsoll_lab::{Binaries, Lab, LabError, Options, Scheduler, User, is_ready};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Far longer than anything here takes, on any machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// The options of a lab with a few nodes, or nothing where the control plane is not built.
fn small(nodes: usize, scheduler: Scheduler) -> Option<Options> {
    match Binaries::find() {
        Ok(binaries) => Some(Options { nodes, scheduler, binaries: Some(binaries), ..Options::default() }),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn pod_spec() -> Value {
    json!({"containers": [{"name": "main", "image": "lab/none", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}]})
}

fn pod(name: &str) -> Pod {
    object(json!({"metadata": {"name": name}, "spec": pod_spec()}))
}

/// Waits until an object is as it should be, and fails with how it is.
async fn eventually<T>(api: &Api<T>, name: &str, what: &str, holds: impl Fn(&T) -> bool) -> T
where
    T: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let begin = Instant::now();
    loop {
        let found = api.get_opt(name).await.unwrap();
        match found {
            Some(object) if holds(&object) => return object,
            other => assert!(begin.elapsed() < PATIENCE, "{name} is not {what}: {other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// The processes that work in a folder, whatever they are.
fn processes_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    entries.filter(|process| std::fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd == folder)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_ready_and_workloads_run_as_on_a_real_cluster() {
    let Some(options) = small(6, Scheduler::stock()) else { return };
    let mut lab = Lab::start(options).await.unwrap();
    let client = lab.client(User::Admin).await.unwrap();
    check_nodes(&client).await;
    check_pod(&client).await;
    check_job(&client).await;
    check_deployment(&client).await;
    lab.create_namespace("elsewhere").await.unwrap();
    let elsewhere: Api<Pod> = Api::namespaced(client, "elsewhere");
    elsewhere.create(&PostParams::default(), &pod("at-once")).await.unwrap();
    eventually(&elsewhere, "at-once", "running", |pod| phase(pod) == "Running").await;
    let scheduler = lab.client_of_component("kube-scheduler").await.unwrap();
    let metrics = scheduler.request_text(http::Request::get("/metrics").body(Vec::new()).unwrap()).await.unwrap();
    assert!(metrics.contains("scheduler_schedule_attempts_total"), "no metrics of the scheduler: {metrics}");
}

async fn check_nodes(client: &Client) {
    let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await.unwrap().items;
    assert_eq!(nodes.len(), 6);
    for node in &nodes {
        assert!(is_ready(node), "{node:?}");
        let status = node.status.as_ref().unwrap();
        assert!(status.addresses.as_ref().unwrap().iter().any(|address| address.type_ == "InternalIP"));
    }
    let zones = |node: &Node| node.metadata.labels.as_ref().unwrap()["topology.kubernetes.io/zone"].clone();
    assert_eq!(nodes.iter().map(zones).collect::<BTreeSet<_>>().len(), 3);
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    let renewed = |lease: &Lease| lease.spec.as_ref().and_then(|spec| spec.renew_time.clone());
    let first = eventually(&leases, "node-0", "held", |lease| renewed(lease).is_some()).await;
    eventually(&leases, "node-0", "renewed", |lease| renewed(lease) > renewed(&first)).await;
}

async fn check_pod(client: &Client) {
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    pods.create(&PostParams::default(), &pod("single")).await.unwrap();
    let running = eventually(&pods, "single", "running", |pod| phase(pod) == "Running").await;
    let status = running.status.unwrap();
    assert!(status.pod_ip.as_ref().is_some_and(|ip| ip.starts_with("10.")), "{status:?}");
    assert!(status.host_ip.as_ref().is_some_and(|ip| ip.starts_with("172.16.")), "{status:?}");
    assert!(status.conditions.unwrap().iter().any(|c| c.type_ == "PodScheduled" && c.status == "True"));
    pods.delete("single", &DeleteParams::default()).await.unwrap();
    let begin = Instant::now();
    while pods.get_opt("single").await.unwrap().is_some() {
        assert!(begin.elapsed() < PATIENCE, "the deleted pod is still there");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn check_job(client: &Client) {
    let jobs: Api<Job> = Api::default_namespaced(client.clone());
    let mut spec = pod_spec();
    spec["restartPolicy"] = json!("Never");
    let job = json!({
        "metadata": {"name": "batch"},
        "spec": {"completions": 3, "parallelism": 2, "template": {
            "metadata": {"annotations": {"lab.plimsoll.dev/run-for": "1s"}},
            "spec": spec,
        }},
    });
    jobs.create(&PostParams::default(), &object(job)).await.unwrap();
    let is_complete = |job: &Job| {
        let conditions = job.status.as_ref().and_then(|status| status.conditions.as_ref());
        conditions.into_iter().flatten().any(|c| c.type_ == "Complete" && c.status == "True")
    };
    let done = eventually(&jobs, "batch", "complete", is_complete).await;
    assert_eq!(done.status.unwrap().succeeded, Some(3));
    let pods = Api::<Pod>::default_namespaced(client.clone());
    let of_job = pods.list(&ListParams::default().labels("batch.kubernetes.io/job-name=batch")).await.unwrap();
    for pod in of_job.items {
        assert_eq!(phase(&pod), "Succeeded");
        let state = pod.status.unwrap().container_statuses.unwrap()[0].state.clone().unwrap().terminated.unwrap();
        let ran = state.finished_at.unwrap().0.duration_since(state.started_at.unwrap().0);
        assert!(ran.as_secs_f64() >= 0.9, "a pod that runs for a second ended after {ran}");
    }
}

async fn check_deployment(client: &Client) {
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": pod_spec(),
        }},
    });
    deployments.create(&PostParams::default(), &object(deployment)).await.unwrap();
    let ready = |deployment: &Deployment| deployment.status.as_ref().and_then(|status| status.ready_replicas);
    eventually(&deployments, "web", "ready", |deployment| ready(deployment) == Some(3)).await;
    let more = Patch::Merge(json!({"spec": {"replicas": 12}}));
    deployments.patch("web", &PatchParams::default(), &more).await.unwrap();
    eventually(&deployments, "web", "scaled up", |deployment| ready(deployment) == Some(12)).await;
    let none = Patch::Merge(json!({"spec": {"replicas": 0}}));
    deployments.patch("web", &PatchParams::default(), &none).await.unwrap();
    eventually(&deployments, "web", "scaled down", |deployment| ready(deployment).unwrap_or(0) == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_labs_never_meet_and_end_without_a_trace() {
    let (Some(one), Some(two)) = (small(2, Scheduler::None), small(3, Scheduler::None)) else { return };
    let (one, two) = tokio::join!(Lab::start(one), Lab::start(two));
    let (one, two) = (one.unwrap(), two.unwrap());
    for (lab, count) in [(&one, 2), (&two, 3)] {
        let nodes =
            Api::<Node>::all(lab.client(User::Admin).await.unwrap()).list(&ListParams::default()).await.unwrap();
        assert_eq!(nodes.items.len(), count);
        assert!(!processes_in(lab.folder()).is_empty());
    }
    // Whoever is known to one is a stranger to the other.
    let (of_one, of_two) =
        (std::fs::read_to_string(one.kubeconfig(User::Admin)), std::fs::read_to_string(two.kubeconfig(User::Admin)));
    let mut mixed: Value = serde_json::from_str(&of_one.unwrap()).unwrap();
    let of_two: Value = serde_json::from_str(&of_two.unwrap()).unwrap();
    mixed["clusters"] = of_two["clusters"].clone();
    let config = kube::Config::from_custom_kubeconfig(object(mixed), &Default::default()).await.unwrap();
    let stranger = Api::<Node>::all(Client::try_from(config).unwrap()).list(&ListParams::default()).await;
    assert!(stranger.is_err(), "the admin of one lab may read the nodes of another");

    let folders = [one.folder().to_path_buf(), two.folder().to_path_buf()];
    // A test that fails takes its lab with it.
    let panicking = tokio::spawn(async move {
        let _held = one;
        panic!("on purpose");
    });
    assert!(panicking.await.is_err());
    drop(two);
    for folder in folders {
        assert_eq!(processes_in(&folder), Vec::<PathBuf>::new());
        assert!(!folder.exists(), "{} is still there", folder.display());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn users_have_the_rights_they_need_and_no_others() {
    let Some(options) = small(0, Scheduler::None) else { return };
    let lab = Lab::start(options).await.unwrap();
    let cases = [
        // Verb, group, resource; whether kube-scheduler and Plimsoll may.
        ("list", "", "pods", true, true),
        ("create", "", "pods", false, false),
        ("create", "", "pods/binding", true, true),
        ("patch", "", "pods/status", true, true),
        ("delete", "", "pods", true, true),
        ("create", "", "secrets", false, false),
        ("get", "", "secrets", false, false),
        ("create", "events.k8s.io", "events", true, true),
        ("update", "", "persistentvolumeclaims", true, true),
        ("update", "resource.k8s.io", "resourceclaims/status", true, true),
        ("patch", "", "nodes", false, false),
        ("update", "coordination.k8s.io", "leases", false, true),
    ];
    for (verb, group, resource, stock, ours) in cases {
        for (user, expected) in [(User::KubeScheduler, stock), (User::Plimsoll, ours)] {
            assert_eq!(may(&lab, user, verb, group, resource).await, expected, "{user:?}: {verb} {group}/{resource}");
        }
    }
}

async fn may(lab: &Lab, user: User, verb: &str, group: &str, resource: &str) -> bool {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let review: SelfSubjectAccessReview = object(json!({"spec": {"resourceAttributes": {
        "verb": verb, "group": group, "resource": resource, "subresource": subresource, "namespace": "default",
    }}}));
    let api = Api::<SelfSubjectAccessReview>::all(lab.client(user).await.unwrap());
    api.create(&PostParams::default(), &review).await.unwrap().status.unwrap().allowed
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_cannot_start_is_shown_with_its_log_and_leaves_nothing() {
    let Some(mut options) = small(0, Scheduler::None) else { return };
    let folder = std::env::temp_dir().join(format!("plimsoll-lab-broken-{}", std::process::id()));
    options.folder = Some(folder.clone());
    options.apiserver_arguments = vec!["--no-such-flag".to_string()];
    let error = Lab::start(options).await.unwrap_err();
    assert!(matches!(&error, LabError::Died { component, .. } if component == "kube-apiserver"), "{error}");
    assert!(error.to_string().contains("unknown flag: --no-such-flag"), "{error}");
    assert_eq!(processes_in(&folder), Vec::<PathBuf>::new());
    assert!(!folder.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn components_can_crash_pause_and_come_back() {
    let Some(options) = small(1, Scheduler::stock()) else { return };
    let mut lab = Lab::start(options).await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(lab.client(User::Admin).await.unwrap());
    lab.kill("kube-apiserver").unwrap();
    assert!(pods.list(&ListParams::default()).await.is_err(), "a killed API server answers");
    lab.restart("kube-apiserver").unwrap();
    lab.wait_for_apiserver().await.unwrap();
    let nodes: Api<Node> = Api::all(lab.client(User::Admin).await.unwrap());
    assert_eq!(nodes.list(&ListParams::default()).await.unwrap().items.len(), 1, "the nodes did not survive");

    lab.pause("kube-scheduler").unwrap();
    pods.create(&PostParams::default(), &pod("patient")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let waiting = pods.get("patient").await.unwrap();
    assert_eq!(waiting.spec.unwrap().node_name, None, "a paused scheduler has bound a pod");
    lab.resume("kube-scheduler").unwrap();
    eventually(&pods, "patient", "running", |pod| phase(pod) == "Running").await;
    assert!(lab.kill("kubelet").is_err());
}
