//! Two clusters: one that Plimsoll schedules, in which virtual nodes stand for the other. A minimal virtual kubelet in the test says what the other cluster has left, and creates there
//! what is bound to its node.

use crate::cluster::{Objects, binaries, condition, eventually, send, start_plimsoll};
use plimsoll_lab::{Lab, Options, Scheduler, User};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

/// One profile that stays at home while there is room, and one that goes where it is cheapest.
const CONFIGURATION: &str = r#"
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
profiles:
- schedulerName: default-scheduler
- schedulerName: thrifty
---
apiVersion: plimsoll.dev/v1alpha1
kind: PlimsollConfiguration
profiles:
- {schedulerName: default-scheduler, policy: home-first}
- {schedulerName: thrifty, policy: cheapest}
nodes:
- {idleWatts: 100, fullWatts: 200, price: 4.0, latencyMs: 3}
clusters:
  name: a
  remotes:
  - {name: b, pricePerCore: 0.25, latencyMs: 40}
"#;

/// What marks pods that came from the other cluster.
const REFLECTED: &str = "test.plimsoll.dev/reflected";
/// The virtual nodes of cluster b.
const VIRTUAL: [&str; 2] = ["b-1", "b-2"];
/// What other clusters have left that nobody in these tests asks for.
const PODS: &str = "50";

async fn lab(nodes: usize, scheduler: Scheduler) -> Option<(Lab, Objects)> {
    let shape = "cpu=4,memory=16Gi,pods=50,zones=0".parse().unwrap();
    let options = Options { nodes, shapes: vec![shape], scheduler, binaries: Some(binaries()?), ..Options::default() };
    let lab = Lab::start(options).await.unwrap();
    let objects = Objects { client: lab.client(User::Admin).await.unwrap(), namespace: "default".to_owned() };
    Some((lab, objects))
}

fn asks(cores: u32, scheduler: Option<&str>) -> Value {
    let requests = json!({ "cpu": cores.to_string(), "memory": "128Mi" });
    json!({ "spec": {
        "terminationGracePeriodSeconds": 0, "schedulerName": scheduler.unwrap_or("default-scheduler"),
        "containers": [{ "name": "main", "image": "lab/none", "resources": { "requests": requests } }],
    }})
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

fn cores(text: &Value) -> i64 {
    text.as_str().and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn node_of(pod: &Value) -> Option<String> {
    pod["spec"]["nodeName"].as_str().map(str::to_owned)
}

/// A virtual kubelet without its kubelet: pods of its nodes are created in the other cluster, and its nodes offer what that cluster's own pods leave.
struct Reflector {
    here: Objects,
    there: Objects,
}

impl Reflector {
    /// A node of cluster b that offers nothing yet.
    async fn register(&self, name: &str, is_open: bool) {
        let labels =
            json!({ "liqo.io/type": "virtual-node", "liqo.io/remote-cluster-id": "b", "kubernetes.io/hostname": name });
        let nothing = json!({ "cpu": "0", "memory": "16Gi", "pods": PODS });
        let ready = json!([{ "type": "Ready", "status": "True" }]);
        let status = json!({ "capacity": nothing, "allocatable": nothing, "conditions": ready });
        let node = json!({ "metadata": { "labels": labels }, "spec": { "unschedulable": !is_open }, "status": status });
        self.here.create("Node", name, node).await;
    }

    /// Cores that cluster b has for others.
    async fn left(&self) -> i64 {
        let nodes = self.there.list("Node").await;
        let whole: i64 = nodes.iter().map(|node| cores(&node["status"]["allocatable"]["cpu"])).sum();
        let of = |pod: &Value| cores(&pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]);
        let pods = self.there.list("Pod").await;
        let own = pods.iter().filter(|pod| pod["metadata"]["labels"][REFLECTED].is_null() && node_of(pod).is_some());
        whole - own.map(of).sum::<i64>()
    }

    async fn work(self) {
        let mut told = BTreeMap::new();
        loop {
            let left = self.left().await;
            for node in self.here.list("Node").await.iter().map(name).filter(|node| VIRTUAL.contains(&node.as_str())) {
                if told.insert(node.clone(), left) != Some(left) {
                    let resources = json!({ "cpu": left.to_string(), "memory": "16Gi", "pods": PODS });
                    let status = json!({ "capacity": resources, "allocatable": resources });
                    self.here.patch_status("Node", &node, status).await;
                }
            }
            let there: BTreeSet<_> = self.there.list("Pod").await.iter().map(name).collect();
            let ours = |pod: &Value| node_of(pod).is_some_and(|node| VIRTUAL.contains(&node.as_str()));
            for pod in self.here.list("Pod").await.iter().filter(|pod| ours(pod) && !there.contains(&name(pod))) {
                let mut copy = asks(0, None);
                copy["spec"]["containers"][0]["resources"] = pod["spec"]["containers"][0]["resources"].clone();
                copy["metadata"] = json!({ "labels": { REFLECTED: "yes" } });
                self.there.create("Pod", &name(pod), copy).await;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// The nodes as the scheduler's API shows them, by name.
fn nodes(server: SocketAddr) -> BTreeMap<String, Value> {
    let (status, answer) = send(server, "GET /cluster/nodes?limit=100", None, &Value::Null);
    assert_eq!(status, 200, "{answer}");
    answer["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| (node["name"].as_str().unwrap().to_owned(), node.clone()))
        .collect()
}

async fn until_node(server: SocketAddr, of: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    eventually(&format!("node {of}: {what}"), || async {
        let node = nodes(server).remove(of).unwrap_or_default();
        if holds(&node) { Ok(node) } else { Err(format!("{node:#}")) }
    })
    .await
}

async fn goes(objects: &Objects, pod: &str) -> String {
    let pod = objects.until("Pod", pod, "is bound", |pod| node_of(pod).is_some()).await;
    node_of(&pod).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_stay_at_home_go_to_the_other_cluster_when_it_is_full_or_dear_and_what_that_has_left_is_respected() {
    let Some((mut lab, here)) = lab(2, Scheduler::None).await else { return };
    let Some((other, there)) = self::lab(2, Scheduler::stock()).await else { return };
    // Of its eight cores the other cluster uses five itself: three on one node, two on the other.
    for (pod, cores) in [("own-3", 3), ("own-2", 2)] {
        there.create("Pod", pod, asks(cores, None)).await;
        goes(&there, pod).await;
    }
    let reflector = Reflector { here: here.clone(), there: there.clone() };
    reflector.register("b-1", true).await;
    let reflecting = tokio::spawn(reflector.work());
    let config = lab.folder().join("logs/clusters.yaml");
    std::fs::write(&config, CONFIGURATION).unwrap();
    let server = start_plimsoll(&mut lab, "plimsoll", &["--config", &config.display().to_string()]).await;

    let seen = until_node(server, "b-1", "offers three cores", |node| node["cpu_m"][1] == 3000).await;
    assert_eq!(
        (&seen["virtual"], &seen["cluster"], &seen["watts"]),
        (&json!(true), &json!("b"), &Value::Null),
        "{seen:#}"
    );
    assert_eq!((&seen["latency_ms"], &seen["price"], &seen["free_cpu_m"]), (&json!(40.0), &json!(0.75), &json!(3000)));
    let machine = until_node(server, "node-0", "is known", |node| !node.is_null()).await;
    assert_eq!((&machine["virtual"], &machine["cluster"]), (&json!(false), &json!("a")), "{machine:#}");
    assert!(machine["watts"].is_number(), "{machine:#}");

    // Who looks at prices leaves a cluster that has room.
    here.create("Pod", "thrifty", asks(1, Some("thrifty"))).await;
    assert_eq!(goes(&here, "thrifty").await, "b-1");
    // Who looks at home first stays there until it is full, then takes what is left elsewhere, and no more.
    let mut placed = BTreeMap::new();
    for number in 0..10 {
        let pod = format!("pod-{number}");
        here.create("Pod", &pod, asks(1, None)).await;
        *placed.entry(goes(&here, &pod).await).or_insert(0) += 1;
        let away = placed.get("b-1").copied().unwrap_or(0);
        assert_eq!(away, (number + 1_i32 - 8).max(0), "after pod {number}: {placed:?}");
    }
    here.create("Pod", "waits", asks(1, None)).await;
    let refused = |pod: &Value| condition(pod, "PodScheduled")["reason"] == "Unschedulable";
    let pod = here.until("Pod", "waits", "is refused", refused).await;
    let message = condition(&pod, "PodScheduled")["message"].as_str().unwrap();
    assert!(message.contains("3 Insufficient cpu"), "{message}");

    // What was bound to the virtual node runs in the other cluster.
    for pod in ["thrifty", "pod-8", "pod-9"] {
        let node = goes(&there, pod).await;
        assert!(node.starts_with("node-"), "{pod} is on {node}");
    }
    // A second virtual node of the same cluster offers nothing that is not there: to policies. Its room is for the rules to say.
    Reflector { here: here.clone(), there: there.clone() }.register("b-2", false).await;
    until_node(server, "b-2", "offers three cores, none of them free", |node| {
        node["cpu_m"] == json!([0, 3000]) && node["free_cpu_m"] == 0
    })
    .await;
    let (_, state) = send(server, "GET /cluster/state", None, &Value::Null);
    let totals = &state["totals"];
    assert_eq!(totals["cpu_m"], json!([11000, 11000]), "the other cluster is counted once: {totals:#}");
    assert!(totals["watts"].is_number() && totals["active_nodes"] == 2, "virtual nodes are left out: {totals:#}");

    // The other cluster has room again, and the pod that waits goes there.
    there.delete("Pod", "own-2").await;
    assert_eq!(goes(&here, "waits").await, "b-1");
    goes(&there, "waits").await;
    until_node(server, "b-2", "has the one core free that is left there", |node| node["free_cpu_m"] == 1000).await;
    reflecting.abort();
    drop(other);
}
