//! What the stock scheduler's DynamicResources plugin answered, against ours.
//!
//! Reads the golden cases beside the repository, and any file named in `PLIMSOLL_CASES`; without them there is nothing to
//! compare and the test says so.

#![allow(clippy::print_stderr, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use plimsoll_core::dra::plugin::{self, PreFilter, Status, Timing};
use plimsoll_core::dra::{DraObjects, PlainNode, is_extended_resource, reserve};
use plimsoll_core::quantity::Quantity;
use serde::Deserialize;

#[derive(Deserialize)]
struct Case {
    name: String,
    objects: Objects,
    #[serde(flatten)]
    only: Option<Step>,
    /// Pods placed one after the other.
    #[serde(default)]
    sequence: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    pod: Pod,
    expect: Expect,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Objects {
    #[serde(default)]
    nodes: Vec<Node>,
    #[serde(default)]
    resource_slices: Vec<ResourceSlice>,
    #[serde(default)]
    resource_claims: Vec<ResourceClaim>,
    #[serde(default)]
    device_classes: Vec<DeviceClass>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Expect {
    pre_filter: Option<Rejection>,
    #[serde(default)]
    feasible: Vec<String>,
    #[serde(default)]
    rejected: BTreeMap<String, Rejection>,
    #[serde(default)]
    scores: BTreeMap<String, BTreeMap<String, i64>>,
    selected: Option<String>,
}

#[derive(Deserialize, Debug, PartialEq, Clone)]
struct Rejection {
    plugin: String,
    code: String,
    reasons: Vec<String>,
}

fn rejection(status: &Status) -> Rejection {
    Rejection { plugin: plugin::NAME.to_owned(), code: status.code.to_string(), reasons: vec![status.reason.clone()] }
}

fn compare(case: &Case) -> Vec<String> {
    let mut objects = DraObjects::new();
    for slice in &case.objects.resource_slices {
        objects.upsert_slice(slice).unwrap();
    }
    for class in &case.objects.device_classes {
        objects.upsert_class(class.clone());
    }
    for claim in &case.objects.resource_claims {
        objects.upsert_claim(claim.clone()).unwrap();
    }
    let mut differences = Vec::new();
    for (i, step) in case.only.iter().chain(&case.sequence).enumerate() {
        let found = compare_step(&mut objects, &case.objects.nodes, step);
        differences.extend(found.into_iter().map(|difference| format!("pod {i}, {difference}")));
    }
    differences
}

fn compare_step(objects: &mut DraObjects, nodes: &[Node], step: &Step) -> Vec<String> {
    let Step { pod, expect } = step;
    let ours = |node: &str| {
        let expected = expect.rejected.get(node).or(expect.pre_filter.as_ref());
        expected.filter(|rejection| rejection.plugin == plugin::NAME).cloned()
    };
    let concerns_us = |node: &str| expect.feasible.iter().any(|feasible| feasible == node) || ours(node).is_some();
    let mut differences = Vec::new();
    let mut scores = BTreeMap::new();
    let mut state = match plugin::pre_filter(pod, objects, Timing::default()) {
        PreFilter::Skip => None,
        PreFilter::Proceed(state) => Some(state),
        PreFilter::Rejected(status) => {
            for node in nodes {
                let name = node.metadata.name.as_deref().unwrap();
                if concerns_us(name) && ours(name) != Some(rejection(&status)) {
                    differences.push(format!("{name}: expected {:?}, came {status:?} for all nodes", ours(name)));
                }
            }
            return differences;
        }
    };
    for node in nodes {
        let name = node.metadata.name.as_deref().unwrap();
        if !concerns_us(name) {
            continue;
        }
        let labels = node.metadata.labels.clone().unwrap_or_default();
        let allocatable = node.status.iter().flat_map(|status| status.allocatable.iter().flatten());
        let allocatable: BTreeMap<_, _> = allocatable
            .filter(|(resource, _)| is_extended_resource(resource))
            .map(|(resource, amount)| (resource.clone(), Quantity::try_from(amount).unwrap().value()))
            .collect();
        let view = PlainNode { name, labels: &labels, allocatable: &allocatable };
        let outcome = match &mut state {
            Some(state) => plugin::filter(state, pod, objects, &view),
            None => Ok(()),
        };
        let came = outcome.as_ref().err().map(rejection);
        if came != ours(name) {
            differences.push(format!("{name}: expected {:?}, came {came:?}", ours(name)));
        }
        if let (Ok(()), Some(state)) = (outcome, &state) {
            scores.insert(name, plugin::score(state, name));
        }
    }
    if let Some(expected) = expect.scores.get(plugin::NAME) {
        let mut normalized: Vec<i64> =
            expected.keys().map(|node| scores.get(node.as_str()).copied().unwrap_or(0)).collect();
        plugin::normalize(&mut normalized);
        for ((node, expected), came) in expected.iter().zip(normalized) {
            // The default profile gives the plugin a weight of two.
            if *expected != 2 * came {
                differences.push(format!("{node}: expected a score of {expected}, came {}", 2 * came));
            }
        }
    }
    if let (Some(node), Some(state)) = (&expect.selected, &mut state) {
        reserve::reserve(objects, state, node).unwrap();
        for write in reserve::pre_bind(state, pod, node, 0.0) {
            objects.confirm_claim(write.assumed.as_deref(), write.claim, true).unwrap();
        }
    }
    differences
}

fn run(path: &Path) -> (usize, Vec<String>) {
    let file = std::fs::File::open(path).unwrap();
    let reader: Box<dyn Read> = if path.extension().is_some_and(|extension| extension == "gz") {
        Box::new(flate2::read::GzDecoder::new(file))
    } else {
        Box::new(file)
    };
    let mut count = 0;
    let mut differences = Vec::new();
    for line in BufReader::new(reader).lines() {
        let line = line.unwrap();
        // Most cases are not about devices, and reading them takes longer than comparing those that are.
        if !line.contains("resourceSlices") {
            continue;
        }
        let case: Case = serde_json::from_str(&line).unwrap();
        count += 1;
        differences.extend(compare(&case).into_iter().map(|difference| format!("{}: {difference}", case.name)));
    }
    (count, differences)
}

#[test]
fn nodes_are_accepted_and_refused_as_the_stock_plugin_does() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = vec![root.join("../shared/conformance/sample.jsonl.gz")];
    files.extend(std::env::var_os("PLIMSOLL_CASES").iter().flat_map(std::env::split_paths));
    let files: Vec<PathBuf> = files.into_iter().filter(|file| file.exists()).collect();
    if files.is_empty() {
        eprintln!("no golden cases beside the repository and none in PLIMSOLL_CASES: nothing compared");
        return;
    }
    for file in files {
        let (count, differences) = run(&file);
        assert!(count > 0, "{} holds no cases with devices", file.display());
        let shown = differences.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
        assert!(differences.is_empty(), "{} differences in {count} cases:\n{shown}", differences.len());
    }
}
