//! The volume plugins against what kube-scheduler decided in golden cases.
//!
//! Runs the volume families of `../shared/conformance/sample.jsonl.gz`, seen from the repository root, and the volume
//! families and sequences of the file that `PLIMSOLL_CASES` names, if it does (`.jsonl` or `.jsonl.gz`). Nodes that
//! another plugin refuses are left out.

// A case that cannot be read ends the test; what was run is worth a line.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use flate2::read::GzDecoder;
use k8s_openapi::api::core::v1::Pod;
use plimsoll_core::storage::{
    NodeView, PodVolumes, PreFilterOutcome, Rejection, StorageObjects, binding, limits, reservation, restrictions, zone,
};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

const PLUGINS: [&str; 4] = [restrictions::NAME, limits::NAME, binding::NAME, zone::NAME];

#[derive(Deserialize)]
struct Case {
    name: String,
    objects: Value,
    #[serde(default)]
    sequence: Vec<Step>,
    #[serde(flatten)]
    single: Option<Step>,
}

#[derive(Deserialize)]
struct Step {
    pod: Pod,
    expect: Expect,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Expect {
    pre_enqueue: Option<Verdict>,
    pre_filter: Option<Verdict>,
    feasible: Option<BTreeSet<String>>,
    rejected: Option<BTreeMap<String, Verdict>>,
    selected: String,
    preemption: Option<Preemption>,
}

#[derive(Deserialize)]
struct Preemption {
    nominated: String,
    victims: Vec<String>,
}

#[derive(Deserialize, Debug, PartialEq, Eq, Clone)]
struct Verdict {
    plugin: String,
    code: String,
    reasons: Vec<String>,
}

#[derive(Clone)]
struct Node {
    name: String,
    labels: BTreeMap<String, String>,
    /// By `namespace/name`.
    pods: Vec<(String, PodVolumes)>,
}

impl NodeView for Node {
    fn name(&self) -> &str {
        &self.name
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str)
    }

    fn pod_volumes(&self) -> impl Iterator<Item = &PodVolumes> {
        self.pods.iter().map(|(_, volumes)| volumes)
    }
}

/// A pod that waits for a node which was cleared for it.
struct Nominated {
    key: String,
    node: String,
    priority: i32,
    volumes: PodVolumes,
}

struct Cluster {
    objects: StorageObjects,
    nodes: Vec<Node>,
    nominated: Vec<Nominated>,
}

fn verdict(plugin: &str, rejection: &Rejection) -> Verdict {
    let mut reasons: Vec<String> = rejection.reasons.iter().map(|reason| reason.to_string()).collect();
    reasons.sort();
    Verdict { plugin: plugin.to_owned(), code: rejection.code.as_str().to_owned(), reasons }
}

fn key(pod: &Pod) -> String {
    let metadata = &pod.metadata;
    format!("{}/{}", metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default())
}

fn priority(pod: &Pod) -> i32 {
    pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or_default()
}

/// Unpacks a PreFilter outcome, or returns with its rejection.
macro_rules! state_of {
    ($plugin:ident, $objects:expr, $pod:expr) => {
        match $plugin::pre_filter($objects, $pod) {
            PreFilterOutcome::Skip => None,
            PreFilterOutcome::Continue(state) => Some(state),
            PreFilterOutcome::Reject(rejection) => return Err(verdict($plugin::NAME, &rejection)),
        }
    };
}

/// What the four plugins keep of a pod between PreFilter and Reserve.
#[derive(Clone)]
struct States {
    restrictions: Option<restrictions::State>,
    limits: Option<limits::State>,
    binding: Option<binding::State>,
    zone: Option<zone::State>,
}

impl States {
    fn new(objects: &StorageObjects, pod: &PodVolumes) -> Result<Self, Verdict> {
        Ok(Self {
            restrictions: state_of!(restrictions, objects, pod),
            limits: state_of!(limits, objects, pod),
            binding: state_of!(binding, objects, pod),
            zone: state_of!(zone, objects, pod),
        })
    }

    fn filter(&self, objects: &StorageObjects, pod: &PodVolumes, node: &Node) -> Option<Verdict> {
        if let Some(Err(no)) = self.restrictions.as_ref().map(|state| restrictions::filter(state, pod, node)) {
            return Some(verdict(restrictions::NAME, &no));
        }
        if let Some(Err(no)) = self.limits.as_ref().map(|state| limits::filter(objects, state, node)) {
            return Some(verdict(limits::NAME, &no));
        }
        if let Some(Err(no)) = self.binding.as_ref().map(|state| binding::filter(objects, state, node)) {
            return Some(verdict(binding::NAME, &no));
        }
        let no = zone::filter(self.zone.as_ref()?, node).err()?;
        Some(verdict(zone::NAME, &no))
    }
}

impl Cluster {
    fn load(api: &Value) -> Self {
        let mut objects = StorageObjects::default();
        for volume in list(api, "persistentVolumes") {
            objects.apply_volume(&volume).unwrap();
        }
        for claim in list(api, "persistentVolumeClaims") {
            objects.apply_claim(&claim).unwrap();
        }
        for class in list(api, "storageClasses") {
            objects.apply_class(&class).unwrap();
        }
        for node in list(api, "csiNodes") {
            objects.apply_csi_node(&node).unwrap();
        }
        for driver in list(api, "csiDrivers") {
            objects.apply_csi_driver(&driver).unwrap();
        }
        for capacity in list(api, "csiStorageCapacities") {
            objects.apply_capacity(&capacity).unwrap();
        }
        for attachment in list(api, "volumeAttachments") {
            objects.apply_attachment(&attachment).unwrap();
        }
        let nodes = list::<k8s_openapi::api::core::v1::Node>(api, "nodes")
            .into_iter()
            .map(|node| Node {
                name: node.metadata.name.unwrap(),
                labels: node.metadata.labels.unwrap_or_default(),
                pods: Vec::new(),
            })
            .collect();
        let mut cluster = Self { objects, nodes, nominated: Vec::new() };
        for pod in list::<Pod>(api, "pods") {
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
            let nominated = pod.status.as_ref().and_then(|status| status.nominated_node_name.as_deref());
            match nominated {
                _ if !node.is_empty() => cluster.place(&pod, node),
                Some(node) if !node.is_empty() => cluster.nominate(&pod, node),
                _ => {}
            }
        }
        cluster
    }

    fn place(&mut self, pod: &Pod, node_name: &str) {
        let volumes = PodVolumes::from_pod(pod);
        self.objects.pod_placed(&volumes);
        if let Some(node) = self.nodes.iter_mut().find(|node| node.name == node_name) {
            node.pods.push((key(pod), volumes));
        }
    }

    fn nominate(&mut self, pod: &Pod, node: &str) {
        self.nominated.push(Nominated {
            key: key(pod),
            node: node.to_owned(),
            priority: priority(pod),
            volumes: PodVolumes::from_pod(pod),
        });
    }

    /// A node's refusal, with pods that wait for the node first taken to be there and then not.
    fn filter(&self, states: &States, pod: &Pod, volumes: &PodVolumes, node: &Node) -> Option<Verdict> {
        let mut with_nominated = (states.clone(), node.clone());
        let waiting = self
            .nominated
            .iter()
            .filter(|other| other.node == node.name && other.priority >= priority(pod) && other.key != key(pod));
        for other in waiting {
            with_nominated.1.pods.push((other.key.clone(), other.volumes.clone()));
            if let Some(state) = &mut with_nominated.0.restrictions {
                state.add_pod(&other.volumes);
            }
        }
        let (states_with_nominated, node_with_nominated) = with_nominated;
        states_with_nominated
            .filter(&self.objects, volumes, &node_with_nominated)
            .or_else(|| states.filter(&self.objects, volumes, node))
    }

    /// What differs from the expectation, if anything.
    fn differences(&self, step: &Step) -> Vec<String> {
        let expect = &step.expect;
        let volumes = PodVolumes::from_pod(&step.pod);
        let expected_pre_filter = expect.pre_filter.as_ref().filter(|no| PLUGINS.contains(&no.plugin.as_str()));
        let states = match (States::new(&self.objects, &volumes), expected_pre_filter) {
            (Err(got), Some(expected)) if got == *expected => return Vec::new(),
            // Another plugin has refused the pod for all nodes before or after these were asked.
            (_, None) if expect.pre_filter.is_some() || expect.pre_enqueue.is_some() => return Vec::new(),
            (Ok(states), None) => states,
            (got, expected) => return vec![format!("PreFilter: expected {expected:?}, got {:?}", got.err())],
        };
        let feasible = expect.feasible.iter().flatten();
        let mut expected: BTreeMap<&str, Option<&Verdict>> = feasible.map(|node| (node.as_str(), None)).collect();
        for (node, no) in expect.rejected.iter().flatten() {
            if PLUGINS.contains(&no.plugin.as_str()) {
                expected.insert(node, Some(no));
            }
        }
        let mut differences = Vec::new();
        for (name, expected) in expected {
            let node = self.nodes.iter().find(|node| node.name == name).unwrap();
            let got = self.filter(&states, &step.pod, &volumes, node);
            if got.as_ref() != expected {
                differences.push(format!("{name}: expected {expected:?}, got {got:?}"));
            }
        }
        differences
    }

    /// Carries out the decision of a step.
    fn commit(&mut self, step: &Step) {
        self.nominated.retain(|waiting| waiting.key != key(&step.pod));
        if let Some(preemption) = &step.expect.preemption {
            for node in &mut self.nodes {
                let (gone, kept) =
                    std::mem::take(&mut node.pods).into_iter().partition(|(key, _)| preemption.victims.contains(key));
                let gone: Vec<(String, PodVolumes)> = gone;
                node.pods = kept;
                gone.iter().for_each(|(_, volumes)| self.objects.pod_removed(volumes));
            }
            self.nominate(&step.pod, &preemption.nominated);
        } else if !step.expect.selected.is_empty() {
            let volumes = PodVolumes::from_pod(&step.pod);
            let node = self.nodes.iter().find(|node| node.name == step.expect.selected).unwrap();
            if let PreFilterOutcome::Continue(state) = binding::pre_filter(&self.objects, &volumes) {
                // A refusal has been reported as a difference.
                let _ = reservation::reserve(&mut self.objects, &state, node);
            }
            self.place(&step.pod, &step.expect.selected);
        }
    }
}

fn list<T: serde::de::DeserializeOwned>(objects: &Value, key: &str) -> Vec<T> {
    let list = objects.get(key).filter(|list| !list.is_null());
    list.map(|list| serde_json::from_value(list.clone()).unwrap()).unwrap_or_default()
}

/// Runs the volume families and sequences of a file and gives the number of decisions and the differences.
fn run(path: &Path) -> (usize, Vec<String>) {
    let file = File::open(path).unwrap();
    let reader: Box<dyn Read> = match path.extension() {
        Some(extension) if extension == "gz" => Box::new(GzDecoder::new(file)),
        _ => Box::new(file),
    };
    let mut count = 0;
    let mut failures = Vec::new();
    for line in BufReader::new(reader).lines() {
        let line = line.unwrap();
        let is_of_family = |family: &str| line.starts_with(&format!("{{\"name\":\"{family}"));
        if !is_of_family("volumes") && !is_of_family("sequence") {
            continue;
        }
        let case: Case = serde_json::from_str(&line).unwrap();
        let mut cluster = Cluster::load(&case.objects);
        for (index, step) in case.single.iter().chain(&case.sequence).enumerate() {
            count += 1;
            let differences = cluster.differences(step);
            failures.extend(differences.into_iter().map(|d| format!("{}, step {index}: {d}", case.name)));
            cluster.commit(step);
        }
    }
    (count, failures)
}

#[test]
fn volume_plugins_agree_with_kube_scheduler() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance/sample.jsonl.gz");
    let more = std::env::var_os("PLIMSOLL_CASES").map(PathBuf::from);
    let files: Vec<_> = Some(sample.clone()).filter(|path| path.exists()).into_iter().chain(more).collect();
    if files.is_empty() {
        println!("skipped: {} does not exist; name another file in PLIMSOLL_CASES", sample.display());
        return;
    }
    for path in files {
        let (count, failures) = run(&path);
        println!("{}: {count} decisions, {} differences", path.display(), failures.len());
        assert!(count > 0, "{} has no case of a volume family", path.display());
        let shown: Vec<_> = failures.iter().take(20).map(String::as_str).collect();
        assert!(failures.is_empty(), "{} differences, the first:\n{}", failures.len(), shown.join("\n"));
    }
}
