//! Two schedulers side by side in one cluster, the stock one and ours, each with three nodes of its own that are alike: what is done on one
//! side is done on the other at the same time, and what is seen has to be the same.

use crate::cluster::{Objects, binaries, condition, eventually, merge, small_pod, start_plimsoll};
use plimsoll_lab::{Lab, Options, Scheduler, Shape, User};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use tokio::sync::{Barrier, OwnedMutexGuard};

/// The lab that tests take turns in; it ends with the last of them.
static SHARED: Mutex<Weak<tokio::sync::Mutex<Slot>>> = Mutex::new(Weak::new());

/// Tells the probes of all tests apart.
static PROBES: AtomicU64 = AtomicU64::new(0);

#[derive(Default)]
struct Slot {
    running: Option<(Lab, SocketAddr)>,
    /// A test did not end well: who knows what it left.
    dirty: bool,
}

/// A test's turn in the shared lab.
pub struct Turn {
    slot: OwnedMutexGuard<Slot>,
    /// The side of kube-scheduler.
    pub stock: Side,
    /// The side of Plimsoll.
    pub ours: Side,
    /// Where Plimsoll serves.
    pub address: SocketAddr,
}

/// The profiles of Plimsoll: one that decides as kube-scheduler does, and one that packs.
const PROFILES: &str = r#"{
  "apiVersion": "kubescheduler.config.k8s.io/v1",
  "kind": "KubeSchedulerConfiguration",
  "leaderElection": {"leaderElect": false},
  "profiles": [
    {"schedulerName": "plimsoll"},
    {
      "schedulerName": "packed",
      "pluginConfig": [
        {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}}}
      ]
    }
  ]
}"#;

async fn start() -> Option<(Lab, SocketAddr)> {
    let binaries = binaries()?;
    let shape = |side: &str| -> Shape {
        format!("cpu=4,memory=16Gi,pods=20,example.com/widget=2,zones=3,label:side={side}").parse().unwrap()
    };
    let options = Options {
        nodes: 6,
        shapes: vec![shape("side-a"), shape("side-b")],
        scheduler: Scheduler::stock(),
        binaries: Some(binaries),
        ..Options::default()
    };
    let mut lab = Lab::start(options).await.unwrap();
    lab.create_namespace("side-a").await.unwrap();
    lab.create_namespace("side-b").await.unwrap();
    // Among the logs, which go with the lab.
    let config = lab.folder().join("logs/profiles.json");
    std::fs::write(&config, PROFILES).unwrap();
    let address = start_plimsoll(&mut lab, "plimsoll", &["--config", &config.display().to_string()]).await;
    Some((lab, address))
}

impl Turn {
    /// Waits for a turn; none where there is no control plane.
    pub async fn take() -> Option<Self> {
        let shared = {
            let mut shared = SHARED.lock().unwrap();
            shared.upgrade().unwrap_or_else(|| {
                let new = Arc::default();
                *shared = Arc::downgrade(&new);
                new
            })
        };
        let mut slot = shared.lock_owned().await;
        if std::mem::replace(&mut slot.dirty, true) {
            slot.running = None;
        }
        if slot.running.is_none() {
            slot.running = Some(start().await?);
        }
        let (lab, address) = slot.running.as_mut().unwrap();
        lab.check_alive().unwrap();
        let (client, address) = (lab.client(User::Admin).await.unwrap(), *address);
        let barrier = Arc::new(Barrier::new(2));
        let side = |name: &'static str, scheduler: &'static str, first: usize| Side {
            name,
            scheduler,
            nodes: [first, first + 2, first + 4].map(|at| format!("node-{at}")),
            objects: Objects { client: client.clone(), namespace: name.to_owned() },
            barrier: Arc::clone(&barrier),
            created: Mutex::default(),
        };
        let (stock, ours) = (side("side-a", "default-scheduler", 0), side("side-b", "plimsoll", 1));
        Some(Self { slot, stock, ours, address })
    }

    /// Tells the same story on both sides and compares what came of it.
    pub async fn tell<T, S>(&self, name: &str, story: S)
    where
        T: PartialEq + std::fmt::Debug,
        S: AsyncFn(&Side) -> T,
    {
        eprintln!("{name}");
        let (stock, ours) = tokio::join!(story(&self.stock), story(&self.ours));
        if ours != stock {
            let (ours, stock) = (format!("{ours:#?}"), format!("{stock:#?}"));
            let differing = ours.lines().zip(stock.lines()).filter(|(ours, stock)| ours != stock);
            let lines: Vec<_> = differing.map(|(ours, stock)| format!("Plimsoll: {ours}\nstock:    {stock}")).collect();
            panic!("{name}: what came differs\n{}\n{ours}", lines.join("\n"));
        }
        self.clean().await;
    }

    /// Removes what was made on both sides.
    pub async fn clean(&self) {
        tokio::join!(self.stock.clean(), self.ours.clean());
    }

    /// The test has ended well.
    pub fn end(mut self) {
        self.slot.dirty = false;
    }
}

/// One of the two sides.
pub struct Side {
    /// Its name, which is that of its namespace and part of the names of what belongs to no namespace.
    pub name: &'static str,
    pub scheduler: &'static str,
    pub nodes: [String; 3],
    pub objects: Objects,
    barrier: Arc<Barrier>,
    created: Mutex<Vec<(String, String)>>,
}

/// What a scheduler says of a pod, without what differs by nature: times, UIDs, and the names of the sides.
#[derive(Debug, PartialEq)]
pub struct Told {
    pub condition: Value,
    pub event: Value,
    pub node: Option<String>,
    pub nominated: Option<String>,
}

impl Told {
    /// Fails unless the message is about this.
    #[track_caller]
    pub fn says(self, words: &str) -> Self {
        let message = self.condition["message"].as_str().unwrap_or_default();
        assert!(message.contains(words), "expected {words:?} in {message:?}");
        assert_eq!(self.event["note"], self.condition["message"], "the event says what the condition says");
        self
    }

    /// Leaves out what was tried to help the pod. Where a rule refuses it before any node is looked at, kube-scheduler has an accident
    /// there and says "not found".
    pub fn refused_before_nodes(mut self) -> Self {
        for text in [&mut self.condition["message"], &mut self.event["note"]] {
            let reason = text.as_str().and_then(|text| text.split_inclusive(". ").next()).unwrap_or_default();
            *text = json!(reason);
        }
        self
    }

    /// Fails unless it is on this node of its side.
    #[track_caller]
    pub fn on(self, node: usize) -> Self {
        assert_eq!(self.node.as_deref(), Some(format!("<node {node}>").as_str()), "{self:?}");
        self
    }
}

impl Side {
    /// Waits until both sides have come so far.
    pub async fn meet(&self) {
        self.barrier.wait().await;
    }

    /// Waits until both sides have come so far, and until the scheduler of this one has seen all that happened to nodes and pods: a pod
    /// that only a node as it is now takes gets there, and its own coming is told after all that happened to other pods.
    pub async fn ready(&self) {
        self.meet().await;
        let turn = PROBES.fetch_add(1, Ordering::Relaxed).to_string();
        self.node(2, json!({"metadata": {"labels": {"seen": turn}}})).await;
        let mut probe = json!({"spec": {"nodeSelector": {"seen": turn}, "tolerations": [{"operator": "Exists"}]}});
        probe["spec"]["containers"] = json!([{"name": "main", "image": "lab/none"}]);
        let name = format!("probe-{turn}");
        self.pod_with(&name, probe).await;
        self.objects.until("Pod", &name, "bound", |pod| pod["spec"]["nodeName"].is_string()).await;
        self.objects.delete("Pod", &name).await;
        self.meet().await;
    }

    /// Creates an object that is removed when the story ends.
    pub async fn create(&self, kind: &str, name: &str, rest: Value) {
        self.created.lock().unwrap().push((kind.to_owned(), name.to_owned()));
        self.objects.create(kind, name, rest).await;
    }

    /// Creates a pod of this side; `spec` goes over a spec that fits everywhere on this side.
    pub async fn pod(&self, name: &str, spec: Value) {
        self.pod_with(name, json!({ "spec": spec })).await;
    }

    /// As `pod`, with more than a spec.
    pub async fn pod_with(&self, name: &str, over: Value) {
        let mut pod = json!({ "spec": small_pod() });
        merge(&mut pod, &json!({"spec": {"schedulerName": self.scheduler, "nodeSelector": {"side": self.name}}}));
        merge(&mut pod, &over);
        self.create("Pod", name, pod).await;
    }

    /// A pod that is to be in the way: on this node.
    pub async fn holder(&self, name: &str, node: usize, over: Value) {
        let mut pod = json!({ "spec": self.only(node) });
        merge(&mut pod, &over);
        self.pod_with(name, pod).await;
        self.until_running(name).await;
    }

    /// What has a pod go to one node.
    pub fn only(&self, node: usize) -> Value {
        json!({"nodeSelector": {"kubernetes.io/hostname": self.nodes[node]}})
    }

    pub async fn until_running(&self, name: &str) -> Value {
        self.objects.until("Pod", name, "running", |pod| pod["status"]["phase"] == "Running").await
    }

    /// Changes a node.
    pub async fn node(&self, node: usize, patch: Value) {
        self.objects.patch("Node", &self.nodes[node], patch).await;
    }

    /// Changes all nodes of this side.
    pub async fn all_nodes(&self, patch: Value) {
        for node in 0..self.nodes.len() {
            self.node(node, patch.clone()).await;
        }
    }

    /// Creates a pod that has to wait, once the other side is ready, too; what is said of it.
    pub async fn waits(&self, name: &str, spec: Value) -> Told {
        self.waits_with(name, json!({ "spec": spec })).await
    }

    /// As `waits`, with more than a spec.
    pub async fn waits_with(&self, name: &str, over: Value) -> Told {
        self.ready().await;
        self.pod_with(name, over).await;
        self.told_to_wait(name).await
    }

    /// A pod is found to have to wait; what is said of it.
    pub async fn told_to_wait(&self, name: &str) -> Told {
        let waits = |pod: &Value| {
            let told = condition(pod, "PodScheduled");
            told["status"] == "False" && told["reason"] != "SchedulingGated"
        };
        let told = self.until_told(name, "FailedScheduling", waits).await;
        self.meet().await;
        told
    }

    /// Creates a pod that fits, once the other side is ready, too; what is said of it.
    pub async fn fits(&self, name: &str, spec: Value) -> Told {
        self.ready().await;
        self.pod(name, spec).await;
        self.goes(name).await
    }

    /// A pod that waited goes to a node; what is said of it.
    pub async fn goes(&self, name: &str) -> Told {
        let told = self.until_told(name, "Scheduled", |pod| pod["spec"]["nodeName"].is_string()).await;
        self.meet().await;
        told
    }

    /// Waits until a pod is so, and an event of it says why.
    async fn until_told(&self, name: &str, reason: &str, holds: impl Fn(&Value) -> bool) -> Told {
        let pod = self.objects.until("Pod", name, reason, holds).await;
        let uid = pod["metadata"]["uid"].as_str().unwrap();
        let event = eventually(&format!("event {reason} of {name}"), || async {
            let events = self.objects.events_of(uid).await;
            let found = events.iter().find(|event| event["reason"] == reason);
            found.cloned().ok_or_else(|| format!("{events:#?}"))
        })
        .await;
        self.told(&pod, &event)
    }

    fn told(&self, pod: &Value, event: &Value) -> Told {
        let mut condition = condition(pod, "PodScheduled").clone();
        // A condition that came with the binding has the API server's time, ours has our own.
        condition["lastTransitionTime"] = json!(condition["lastTransitionTime"].is_string());
        let name = |value: &Value| value.as_str().map(|name| self.plain(name));
        Told {
            condition: self.plain_value(&condition),
            event: self.plain_event(event),
            node: name(&pod["spec"]["nodeName"]),
            nominated: name(&pod["status"]["nominatedNodeName"]),
        }
    }

    /// An event without times, UIDs and versions.
    pub fn plain_event(&self, event: &Value) -> Value {
        let mut event = event.clone();
        let fields = event.as_object_mut().unwrap();
        for field in ["metadata", "eventTime", "series", "apiVersion", "kind"] {
            fields.remove(field);
        }
        for reference in ["regarding", "related"] {
            if let Some(reference) = event[reference].as_object_mut() {
                reference.remove("uid");
                // We do not keep versions of objects.
                reference.remove("resourceVersion");
            }
        }
        self.plain_value(&event)
    }

    fn plain_value(&self, value: &Value) -> Value {
        serde_json::from_str(&self.plain(&value.to_string())).unwrap()
    }

    /// A text without the names of this side.
    pub fn plain(&self, text: &str) -> String {
        let mut text = text.replace(self.name, "<side>").replace(self.scheduler, "<scheduler>");
        for (at, node) in self.nodes.iter().enumerate() {
            text = text.replace(node, &format!("<node {at}>"));
        }
        text
    }

    /// Removes what the story made. Some of it is kept until something else is gone, so that it is waited for at the end.
    async fn clean(&self) {
        let created = std::mem::take(&mut *self.created.lock().unwrap());
        for (kind, name) in created.iter().rev() {
            self.objects.start_deletion(kind, name).await;
        }
        for (kind, name) in &created {
            self.objects.until_gone(kind, name).await;
        }
    }
}
