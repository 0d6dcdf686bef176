//! The volume plugins against what kube-scheduler decided in golden cases.
//!
//! Runs the volume families of `../shared/conformance/sample.jsonl.gz`, seen from the repository root, and of the file
//! that `PLIMSOLL_CASES` names, if it does (`.jsonl` or `.jsonl.gz`). Nodes that another plugin refuses are left out.

use flate2::read::GzDecoder;
use plimsoll_core::storage::{
    NodeView, PodVolumes, PreFilterOutcome, Rejection, StorageObjects, binding, limits, restrictions, zone,
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
    pod: k8s_openapi::api::core::v1::Pod,
    expect: Expect,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Expect {
    pre_filter: Option<Verdict>,
    feasible: Option<BTreeSet<String>>,
    rejected: Option<BTreeMap<String, Verdict>>,
}

#[derive(Deserialize, Debug, PartialEq, Eq, Clone)]
struct Verdict {
    plugin: String,
    code: String,
    reasons: Vec<String>,
}

struct Node {
    name: String,
    labels: BTreeMap<String, String>,
    pods: Vec<PodVolumes>,
}

impl NodeView for Node {
    fn name(&self) -> &str {
        &self.name
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str)
    }

    fn pod_volumes(&self) -> impl Iterator<Item = &PodVolumes> {
        self.pods.iter()
    }
}

fn verdict(plugin: &str, rejection: &Rejection) -> Verdict {
    let mut reasons: Vec<String> = rejection.reasons.iter().map(|reason| reason.to_string()).collect();
    reasons.sort();
    Verdict { plugin: plugin.to_owned(), code: rejection.code.as_str().to_owned(), reasons }
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

/// Each node's first refusal by a volume plugin, or the refusal for all nodes.
fn decide(
    objects: &StorageObjects,
    pod: &PodVolumes,
    nodes: &[Node],
) -> Result<BTreeMap<String, Option<Verdict>>, Verdict> {
    let restricted = state_of!(restrictions, objects, pod);
    let limited = state_of!(limits, objects, pod);
    let bound = state_of!(binding, objects, pod);
    let zoned = state_of!(zone, objects, pod);
    let decide = |node: &Node| {
        if let Some(Err(no)) = restricted.as_ref().map(|state| restrictions::filter(state, pod, node)) {
            return Some(verdict(restrictions::NAME, &no));
        }
        if let Some(Err(no)) = limited.as_ref().map(|state| limits::filter(objects, state, node)) {
            return Some(verdict(limits::NAME, &no));
        }
        if let Some(Err(no)) = bound.as_ref().map(|state| binding::filter(objects, state, node)) {
            return Some(verdict(binding::NAME, &no));
        }
        let no = zone::filter(zoned.as_ref()?, node).err()?;
        Some(verdict(zone::NAME, &no))
    };
    Ok(nodes.iter().map(|node| (node.name.clone(), decide(node))).collect())
}

fn list<T: serde::de::DeserializeOwned>(objects: &Value, key: &str) -> Vec<T> {
    let list = objects.get(key).filter(|list| !list.is_null());
    list.map(|list| serde_json::from_value(list.clone()).unwrap()).unwrap_or_default()
}

fn load(case: &Case) -> (StorageObjects, Vec<Node>) {
    let mut objects = StorageObjects::default();
    let api = &case.objects;
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
    let mut nodes: Vec<Node> = list::<k8s_openapi::api::core::v1::Node>(api, "nodes")
        .into_iter()
        .map(|node| Node {
            name: node.metadata.name.unwrap(),
            labels: node.metadata.labels.unwrap_or_default(),
            pods: Vec::new(),
        })
        .collect();
    for pod in list::<k8s_openapi::api::core::v1::Pod>(api, "pods") {
        let Some(node_name) = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) else { continue };
        let volumes = PodVolumes::from_pod(&pod);
        objects.pod_placed(&volumes);
        if let Some(node) = nodes.iter_mut().find(|node| node.name == node_name) {
            node.pods.push(volumes);
        }
    }
    (objects, nodes)
}

/// What differs from the expectation, if anything.
fn differences(case: &Case) -> Vec<String> {
    let (objects, nodes) = load(case);
    let expect = &case.expect;
    let expected_pre_filter = expect.pre_filter.as_ref().filter(|no| PLUGINS.contains(&no.plugin.as_str()));
    let decided = match (decide(&objects, &PodVolumes::from_pod(&case.pod), &nodes), expected_pre_filter) {
        (Err(got), Some(expected)) if got == *expected => return Vec::new(),
        // Another plugin has refused the pod for all nodes before or after these were asked.
        (_, None) if expect.pre_filter.is_some() => return Vec::new(),
        (Ok(decided), None) => decided,
        (got, expected) => {
            return vec![format!("PreFilter: expected {expected:?}, got {:?}", got.err())];
        }
    };
    let feasible = expect.feasible.iter().flatten();
    let mut expected: BTreeMap<&str, Option<&Verdict>> = feasible.map(|node| (node.as_str(), None)).collect();
    for (node, no) in expect.rejected.iter().flatten() {
        if PLUGINS.contains(&no.plugin.as_str()) {
            expected.insert(node, Some(no));
        }
    }
    expected
        .into_iter()
        .filter(|(node, expected)| decided.get(*node).map(Option::as_ref) != Some(*expected))
        .map(|(node, expected)| format!("{node}: expected {expected:?}, got {:?}", decided.get(node)))
        .collect()
}

/// Runs the volume families of a file and gives the number of cases and the differences.
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
        if !line.contains("\"name\":\"volumes") {
            continue;
        }
        let case: Case = serde_json::from_str(&line).unwrap();
        if !case.name.starts_with("volumes") {
            continue;
        }
        count += 1;
        failures.extend(differences(&case).into_iter().map(|difference| format!("{}: {difference}", case.name)));
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
        println!("{}: {count} cases, {} differences", path.display(), failures.len());
        assert!(count > 0, "{} has no case of a volume family", path.display());
        let shown: Vec<_> = failures.iter().take(20).map(String::as_str).collect();
        assert!(failures.is_empty(), "{} differences, the first:\n{}", failures.len(), shown.join("\n"));
    }
}
