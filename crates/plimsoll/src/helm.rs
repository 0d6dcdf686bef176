//! What can be steered while a program serves: the policies there are, and how each is had.

use crate::section::Section;
use plimsoll_core::config::Configuration;
use plimsoll_core::policy::POLICIES;
use plimsoll_kube::twin::TwinTotals;
use plimsoll_learn::models;
use plimsoll_server::{Helm, PolicyEntry};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// The folder of models, beside where the program was started.
const MODELS: &str = "models";
/// A policy that is told what no scheduler knows: it cannot be chosen for a cluster.
const REFERENCE: &str = "lifetime-aware";
/// The variables of the environment that say how is learned and rewarded.
const VARIABLES: [&str; 12] = [
    "ENABLE_TRAINING",
    "TRAINING_INTERVAL",
    "LEARNING_RATE",
    "GAMMA",
    "EPSILON_START",
    "EPSILON_END",
    "EPSILON_DECAY",
    "REWARD_RESOURCE_UTIL",
    "REWARD_LOAD_BALANCE",
    "REWARD_LATENCY",
    "REWARD_AFFINITY",
    "REWARD_ENERGY",
];

/// What can be steered. `named` are policies that were given by the command line or the configuration.
pub fn helm(
    mode: &'static str,
    configuration: &Configuration,
    section: &Section,
    named: Vec<String>,
    twin: Option<Arc<Mutex<TwinTotals>>>,
) -> Helm {
    let own = section.clone();
    Helm {
        mode,
        config: config(configuration, section),
        catalogue: Box::new(move || catalogue(&named)),
        load: Box::new(move |name| own.policy(name).map_err(|error| format!("{error:#}"))),
        twin,
    }
}

fn catalogue(named: &[String]) -> Vec<PolicyEntry> {
    let heuristics = POLICIES.iter().filter(|(name, _)| *name != REFERENCE).map(|(name, about)| PolicyEntry {
        name: (*name).to_owned(),
        kind: "heuristic",
        description: (*about).to_owned(),
        ..PolicyEntry::default()
    });
    let listed = models::list(Path::new(MODELS)).unwrap_or_default();
    let shipped = listed.iter().map(|model| Path::new(MODELS).join(&model.name));
    let mut folders: Vec<PathBuf> = shipped.collect();
    folders.extend(named.iter().map(PathBuf::from).filter(|folder| folder.is_dir()));
    folders.sort_unstable();
    folders.dedup();
    folders.iter().filter_map(|folder| model(folder)).chain(heuristics).collect()
}

fn model(folder: &Path) -> Option<PolicyEntry> {
    let card = models::read_card(folder).ok()?;
    let measured = card.figures.iter().find(|(_, figures)| figures["against"].is_array());
    let against = measured.and_then(|(_, figures)| figures["against"].as_array()).map(|all| all.iter().map(compared));
    let evidence = json!({
        "objective": measured.map(|(objective, _)| objective),
        "windows": card.training.windows,
        "against": against.map(Iterator::collect::<Vec<_>>).unwrap_or_default(),
        "trained_at": null,
        "features": card.node_features.iter().chain(&card.pod_features).collect::<Vec<_>>(),
    });
    Some(PolicyEntry {
        name: folder.display().to_string(),
        kind: "model",
        description: card.description,
        version: models::fingerprint(folder).ok(),
        evidence: Some(evidence),
    })
}

/// A row of an evaluation: how a model did against another policy, in per cent.
fn compared(row: &Value) -> Value {
    let per_cent = |value: &Value| value.as_f64().map(|share| share * 100.0);
    json!({
        "baseline": row["policy"],
        "change_percent": per_cent(&row["relative"]),
        "low": per_cent(&row["interval"][0]),
        "high": per_cent(&row["interval"][1]),
        "significant": row["verdict"].as_str().is_some_and(|verdict| verdict.starts_with("significantly")),
    })
}

/// The configuration in force. Nothing in it is secret.
fn config(configuration: &Configuration, section: &Section) -> Value {
    let policy = |name: &str| section.profiles.iter().find(|given| given.scheduler_name == name);
    let profiles: Vec<_> = configuration
        .profiles
        .iter()
        .map(|profile| {
            let name = &profile.scheduler_name;
            json!({ "scheduler_name": name, "policy": policy(name).map(|given| &given.policy) })
        })
        .collect();
    let rails = &section.guard_rails;
    let telemetry = &section.telemetry;
    let set: serde_json::Map<String, Value> =
        VARIABLES.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?.into()))).collect();
    json!({
        "profiles": profiles,
        "guard_rails": { "decision_deadline_ms": rails.decision_deadline_ms, "max_in_flight": rails.max_in_flight },
        "telemetry": {
            "prometheus": telemetry.prometheus.as_ref().map(|prometheus| &prometheus.sets),
            "resource_metrics": telemetry.resource_metrics,
            "interval_seconds": telemetry.interval_seconds,
            "stale_after_seconds": telemetry.stale_after_seconds,
        },
        "environment": set,
    })
}
