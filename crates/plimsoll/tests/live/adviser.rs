//! `plimsoll serve` beside a stock kube-scheduler, or beside `plimsoll run`: its policy is followed while it answers, and nothing stops while
//! it does not.

use crate::cluster::{Objects, PATIENCE, binaries, get, small_pod};
use plimsoll_lab::{Binaries, Lab, Options, Scheduler, User};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A scheduler that asks an adviser.
struct Asking {
    program: PathBuf,
    /// What it is started with beside its configuration.
    arguments: &'static [&'static str],
    /// What its configuration has beside what all have.
    settings: fn(SocketAddr) -> Value,
}

/// What a kube-scheduler is started with.
const STOCK: &[&str] = &["--secure-port=0"];

fn extender(adviser: SocketAddr) -> Value {
    json!({ "extenders": [{
        "urlPrefix": format!("http://{adviser}/extender"), "prioritizeVerb": "prioritize", "weight": 100, "nodeCacheCapable": true,
        "ignorable": true, "httpTimeout": "1s",
    }]})
}

fn plugin(adviser: SocketAddr) -> Value {
    json!({ "profiles": [{
        "schedulerName": "default-scheduler",
        "plugins": { "multiPoint": { "enabled": [{ "name": "Plimsoll", "weight": 100 }] } },
        "pluginConfig": [{ "name": "Plimsoll", "args": {
            "address": format!("http://{adviser}"), "timeout": "1s", "circuitBreaker": { "pause": "100ms", "maxPause": "200ms" },
        }}],
    }]})
}

async fn start_adviser(lab: &mut Lab, address: SocketAddr) {
    let kubeconfig = lab.kubeconfig(User::Plimsoll).display().to_string();
    let arguments = ["serve", "--kubeconfig", &kubeconfig, "--policy", "best-fit", "--listen", &address.to_string()];
    let arguments = arguments.map(str::to_owned);
    lab.start_program("adviser", Path::new(env!("CARGO_BIN_EXE_plimsoll")), &arguments).unwrap();
    let begin = Instant::now();
    while !get(address, "/readyz").is_some_and(|answer| answer.starts_with("HTTP/1.1 200")) {
        let log = lab.log("adviser").unwrap();
        let alive = lab.exit_status("adviser").unwrap().is_none();
        assert!(alive && begin.elapsed() < PATIENCE, "the adviser is not ready:\n{log}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// Creates pods one after the other, each when the one before is bound; the nodes they go to.
async fn place(objects: &Objects, names: &[&str]) -> BTreeSet<String> {
    let mut nodes = BTreeSet::new();
    for name in names {
        objects.create("Pod", name, json!({ "spec": small_pod() })).await;
        let pod = objects.until("Pod", name, "is bound", |pod| pod["spec"]["nodeName"].is_string()).await;
        nodes.insert(pod["spec"]["nodeName"].as_str().unwrap().to_owned());
    }
    nodes
}

fn judged(address: SocketAddr) -> u64 {
    let metrics = get(address, "/metrics").unwrap();
    let line =
        metrics.lines().find_map(|line| line.strip_prefix("plimsoll_suggestions_total{decided_by=\"heuristic\"} "));
    line.map_or(0, |count| count.trim().parse().unwrap())
}

async fn follows_and_does_without(binaries: Binaries, asking: Asking) {
    let options = Options { nodes: 4, scheduler: Scheduler::None, binaries: Some(binaries), ..Options::default() };
    let mut lab = Lab::start(options).await.unwrap();
    let objects = Objects { client: lab.client(User::Admin).await.unwrap(), namespace: "default".to_owned() };
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    start_adviser(&mut lab, address).await;
    let mut config = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "clientConnection": { "kubeconfig": lab.kubeconfig(User::KubeScheduler).display().to_string() },
        "leaderElection": { "leaderElect": false },
    });
    crate::cluster::merge(&mut config, &(asking.settings)(address));
    let file = lab.folder().join("asking.json");
    std::fs::write(&file, config.to_string()).unwrap();
    let arguments = asking.arguments.iter().map(|argument| (*argument).to_owned());
    let arguments: Vec<_> = arguments.chain([format!("--config={}", file.display())]).collect();
    lab.start_program("asking", &asking.program, &arguments).unwrap();

    let advised = place(&objects, &["a", "b", "c", "d"]).await;
    assert_eq!(
        advised.len(),
        1,
        "best-fit fills one node; kube-scheduler would spread: {advised:?}\n{}",
        lab.log("asking").unwrap()
    );
    assert!(judged(address) >= 4);
    lab.kill("adviser").unwrap();
    place(&objects, &["e", "f", "g"]).await;
    start_adviser(&mut lab, address).await;
    // The plugin leaves a server alone for a moment that did not answer.
    let begin = Instant::now();
    let mut more = 0;
    while judged(address) == 0 {
        assert!(begin.elapsed() < PATIENCE, "an adviser that is back is not asked");
        place(&objects, &[&format!("again-{more}")]).await;
        more += 1;
    }
    let pods = objects.list("Pod").await;
    let count = |node: &String| pods.iter().filter(|pod| pod["spec"]["nodeName"] == json!(node)).count();
    let counts: Vec<_> = (0..4).map(|at| count(&format!("node-{at}"))).collect();
    let fullest = counts.iter().max().unwrap();
    assert_eq!(counts.iter().filter(|pods| *pods == fullest).count(), 1, "{counts:?}");
    let last = place(&objects, &["y", "z"]).await;
    assert_eq!(
        last,
        [format!("node-{}", counts.iter().position(|pods| pods == fullest).unwrap())].into(),
        "{counts:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extender_is_followed_and_not_missed() {
    let Some(binaries) = binaries() else { return };
    let program = binaries.program("kube-scheduler");
    follows_and_does_without(binaries, Asking { program, arguments: STOCK, settings: extender }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extender_is_followed_and_not_missed_by_our_scheduler_either() {
    let Some(binaries) = binaries() else { return };
    let program = Path::new(env!("CARGO_BIN_EXE_plimsoll")).to_owned();
    let asking = Asking { program, arguments: &["run", "--listen", "off"], settings: extender };
    follows_and_does_without(binaries, asking).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_is_followed_and_not_missed() {
    let Some(binaries) = binaries() else { return };
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bin/plimsoll-kube-scheduler");
    if !program.is_file() {
        eprintln!("skipped: there is no {}; make plugin", program.display());
        return;
    }
    follows_and_does_without(binaries, Asking { program, arguments: STOCK, settings: plugin }).await;
}
