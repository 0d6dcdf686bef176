//! What is learned from: the workload of the last hours, and the nodes there are, as a scenario.

use super::Apprentice;
use crate::recording::Recording;
use crate::section::NodeSection;
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, Client};
use plimsoll_kube::world::{GPU, has_labels, is_ready};
use plimsoll_sim::workload::{self, Workload};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;

/// The last part of a recording, which is measured on.
const HELD_OUT: f64 = 0.3;
/// The windows that it is cut into.
const WINDOWS: u64 = 6;
/// Fewer pods tell nothing.
const FEWEST: usize = 30;
/// How often what is too old is forgotten.
const FORGET: Duration = Duration::from_secs(60);
/// Labels that are a node's own.
const OWN_LABELS: [&str; 1] = ["kubernetes.io/hostname"];
/// What a core draws idle and busy where nobody says: it makes no difference between nodes, as only their number counts then.
const WATTS_OF_CORE: (f64, f64) = (2.0, 6.0);

/// The workload of the last hours, as it is seen.
pub struct Window {
    recording: Arc<Mutex<Recording>>,
    span: Duration,
    task: JoinHandle<()>,
}

impl Window {
    /// Follows the pods of a cluster.
    pub fn follow(client: Client, span: Duration) -> Self {
        let recording = Arc::new(Mutex::new(Recording::since(Timestamp::now())));
        let kept = Arc::clone(&recording);
        let task = tokio::spawn(async move {
            let mut events = crate::recording::pods(client, None);
            let mut forget = tokio::time::interval(FORGET);
            loop {
                tokio::select! {
                    event = events.recv() => match event {
                        Some(event) => lock(&kept).take(&event, Timestamp::now()),
                        None => return,
                    },
                    _ = forget.tick() => lock(&kept).forget_before(before_now(span)),
                }
            }
        });
        Self { recording, span, task }
    }

    /// Writes down what was seen, and the nodes there are; where the scenario is.
    pub async fn write(&self, of: &Apprentice, folder: &Path) -> Result<PathBuf> {
        let workload = {
            let mut recording = lock(&self.recording);
            recording.forget_before(before_now(self.span));
            recording.workload("window")
        };
        let nodes =
            Api::<Node>::all(of.client.clone()).list(&ListParams::default()).await.context("nodes cannot be read")?;
        std::fs::create_dir_all(folder).with_context(|| format!("{}: cannot be made", folder.display()))?;
        let text = scenario(of, &workload, &nodes.items)?;
        let path = folder.join("scenario.toml");
        workload::write(&workload, &folder.join("window.csv.gz"))?;
        std::fs::write(&path, text).with_context(|| format!("{}: cannot be written", path.display()))?;
        Ok(path)
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock(recording: &Mutex<Recording>) -> std::sync::MutexGuard<'_, Recording> {
    recording.lock().unwrap_or_else(PoisonError::into_inner)
}

fn before_now(span: Duration) -> Timestamp {
    let span = k8s_openapi::jiff::SignedDuration::try_from(span).unwrap_or_default();
    Timestamp::now().checked_sub(span).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// The scenario: the first part of the workload is trained on, the rest is measured on.
fn scenario(of: &Apprentice, workload: &Workload, nodes: &[Node]) -> Result<String> {
    let (pods, seconds) = (workload.pods.len(), workload.span().as_secs());
    ensure!(
        pods >= FEWEST && seconds >= 4 * WINDOWS,
        "{pods} pods in {seconds} seconds were recorded; at least {FEWEST} in {} are needed",
        4 * WINDOWS
    );
    // What other clusters have is theirs to learn: of this one its own machines count.
    let machines: Vec<Node> = nodes.iter().filter(|node| !of.clusters.is_virtual(node)).cloned().collect();
    let pools = pools(&machines, &of.nodes);
    ensure!(!pools.is_empty(), "there is no node that is ready");
    let knows_power = pools.iter().all(|pool| pool.get("kind").is_some());
    let split = (seconds as f64 * (1.0 - HELD_OUT)) as u64;
    let mut learn = of.settings.learn.clone();
    let measure = of.settings.objective.as_deref().unwrap_or(if knows_power { "kwh" } else { "node_hours" });
    learn.insert("objective".to_owned(), json!(measure));
    if measure == "cpu_spread" {
        learn.insert("better".to_owned(), json!("less"));
    }
    learn.entry("reward").or_insert_with(|| json!({ "multi-objective": { "objectives": of.objectives.get() } }));
    learn.insert(
        "train".to_owned(),
        json!({ "window": format!("..{split}s"), "samples": [1], "steps": of.settings.steps }),
    );
    learn.insert(
        "evaluate".to_owned(),
        json!({ "from": format!("{split}s"), "to": format!("{seconds}s"), "count": WINDOWS, "samples": [1] }),
    );
    let sleep = of.nodes.iter().map(|node| node.sleep_watts).fold(0.0, f64::max);
    let mut whole = json!({
        "name": "window",
        "workload": { "file": "window.csv.gz" },
        "power": { "sleep_watts": sleep },
        "pool": pools.into_iter().map(without_kind).collect::<Vec<_>>(),
        "learn": learn,
    });
    if let Some(catalogue) = &of.catalogue {
        whole["catalogue"] = json!(std::path::absolute(catalogue)?);
    }
    let table: toml::Value = serde_json::from_value(whole)?;
    Ok(toml::to_string(&table)?)
}

fn without_kind(mut pool: Map<String, Value>) -> Value {
    pool.remove("kind");
    Value::Object(pool)
}

/// Nodes that are alike, together. `kind` is there where it is known what a node draws.
fn pools(nodes: &[Node], kinds: &[NodeSection]) -> Vec<Map<String, Value>> {
    let mut alike: BTreeMap<String, (Map<String, Value>, usize)> = BTreeMap::new();
    for node in nodes.iter().filter(|node| takes_pods(node)) {
        let pool = pool(node, kinds);
        let key = Value::Object(pool.clone()).to_string();
        alike.entry(key).or_insert((pool, 0)).1 += 1;
    }
    alike
        .into_values()
        .enumerate()
        .map(|(at, (mut pool, count))| {
            pool.insert("name".to_owned(), json!(format!("pool-{at}")));
            pool.insert("count".to_owned(), json!(count));
            pool
        })
        .collect()
}

/// Whether pods may be placed on a node.
fn takes_pods(node: &Node) -> bool {
    is_ready(node) && !node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false)
}

fn pool(node: &Node, kinds: &[NodeSection]) -> Map<String, Value> {
    let mut pool = Map::new();
    let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    let amount = |name: &str| allocatable.and_then(|all| all.get(name)).map(|Quantity(text)| text.clone());
    pool.insert("cpu".to_owned(), json!(amount("cpu").unwrap_or_else(|| "1".to_owned())));
    pool.insert("memory".to_owned(), json!(amount("memory").unwrap_or_else(|| "1Gi".to_owned())));
    let whole = |name: &str| amount(name).and_then(|text| text.parse::<i64>().ok());
    pool.insert("pods".to_owned(), json!(whole("pods").filter(|pods| *pods > 0).unwrap_or(110)));
    if let Some(gpus) = whole(GPU).filter(|gpus| *gpus > 0) {
        pool.insert("gpus".to_owned(), json!(gpus));
    }
    let labels: BTreeMap<&String, &String> = node.metadata.labels.iter().flatten().collect();
    let of_all = labels.iter().filter(|(key, _)| !OWN_LABELS.contains(&key.as_str()));
    pool.insert("labels".to_owned(), json!(of_all.collect::<BTreeMap<_, _>>()));
    let taints = node.spec.iter().filter_map(|spec| spec.taints.as_ref()).flatten();
    let taints: Vec<String> = taints
        .map(|taint| format!("{}={}:{}", taint.key, taint.value.as_deref().unwrap_or_default(), taint.effect))
        .collect();
    pool.insert("taints".to_owned(), json!(taints));
    let kind = kinds.iter().find(|kind| has_labels(node, &kind.labels));
    if let Some(kind) = kind.filter(|kind| kind.machine.is_some() || kind.idle_watts.is_some()) {
        pool.insert("kind".to_owned(), json!(true));
        let known = [("idle_watts", kind.idle_watts), ("full_watts", kind.full_watts), ("price", kind.price)];
        pool.extend(known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value?)))));
        pool.extend(kind.machine.as_ref().map(|machine| ("machine".to_owned(), json!(machine))));
    } else {
        let cores = amount("cpu").and_then(|text| plimsoll_core::quantity::Quantity::parse(&text).ok());
        let cores = cores.map_or(1.0, |cpu| cpu.milli_value() as f64 / 1000.0);
        pool.insert("idle_watts".to_owned(), json!(cores * WATTS_OF_CORE.0));
        pool.insert("full_watts".to_owned(), json!(cores * WATTS_OF_CORE.1));
    }
    pool
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, kind: &str, ready: &str) -> Node {
        serde_json::from_value(json!({
            "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name, "type": kind } },
            "spec": { "taints": [{ "key": "dedicated", "effect": "NoSchedule" }] },
            "status": {
                "allocatable": { "cpu": "8", "memory": "16Gi", "pods": "110" },
                "conditions": [{ "type": "Ready", "status": ready }],
            },
        }))
        .unwrap()
    }

    #[test]
    fn nodes_that_are_alike_are_a_pool_with_what_is_known_of_them() {
        let big = NodeSection {
            labels: [("type".to_owned(), "big".to_owned())].into(),
            idle_watts: Some(50.0),
            full_watts: Some(200.0),
            ..NodeSection::default()
        };
        let nodes =
            [node("a", "big", "True"), node("b", "big", "True"), node("c", "small", "True"), node("d", "big", "False")];
        let found = pools(&nodes, &[big]);
        assert_eq!(found.len(), 2);
        let of = |kind: &str| found.iter().find(|pool| pool["labels"]["type"] == kind).unwrap();
        assert_eq!((&of("big")["count"], &of("big")["idle_watts"]), (&json!(2), &json!(50.0)));
        assert!(of("big").contains_key("kind") && !of("small").contains_key("kind"));
        assert_eq!(of("small")["taints"], json!(["dedicated=:NoSchedule"]));
        assert_eq!(of("small")["labels"], json!({ "type": "small" }));
    }
}
