//! What can be steered while a program serves: the policies there are, and how each is had.

use crate::recorder::Recordings;
use crate::section::Section;
use anyhow::{Result, ensure};
use kube::Client;
use plimsoll_core::config::Configuration;
use plimsoll_core::policy::{POLICIES, Policy};
use plimsoll_kube::twin::{Begin, Told, Twin};
use plimsoll_kube::world::NodeKinds;
use plimsoll_learn::model::{CARD_FILE, Card, WEIGHTS_FILE, read_weights};
use plimsoll_learn::policy::{ABOUT_MULTI_OBJECTIVE, MULTI_OBJECTIVE, MultiObjective};
use plimsoll_learn::reward::SharedObjectives;
use plimsoll_learn::{models, workshop};
use plimsoll_server::{Helm, Laboratory, PolicyEntry};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

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

/// What a program that serves is made of, as far as it can be steered.
pub struct Deck<'a> {
    /// `schedule`, `shadow` or `advise`.
    pub mode: &'static str,
    pub configuration: &'a Configuration,
    pub section: &'a Section,
    /// Policies that were given by the command line or the configuration.
    pub named: Vec<String>,
    pub client: Client,
    pub kinds: NodeKinds,
    /// The cluster as it would be under the default policy.
    pub twin: Option<Arc<Told>>,
    /// Where recordings, reports and models are kept.
    pub data: Option<PathBuf>,
    pub objectives: SharedObjectives,
}

/// What can be steered.
pub fn helm(deck: Deck<'_>) -> Helm {
    let Deck { mode, configuration, section, named, client, kinds, twin, data, objectives } = deck;
    let learned = data.as_ref().map(|data| data.join(MODELS));
    let (own, weights) = (section.clone(), objectives.clone());
    let load = Arc::new(move |name: &str, trust: Option<f64>| policy(&own, &weights, name, trust));
    let twins = Arc::new(Twins { client: client.clone(), configuration: configuration.clone(), kinds });
    let (shadows, loads) = (Arc::clone(&twins), Arc::clone(&load));
    Helm {
        mode,
        config: config(configuration, section),
        catalogue: Box::new({
            let choices = Choices::new(&named, learned.clone());
            move || choices.list()
        }),
        load: Box::new(move |name, trust| load(name, trust)),
        twin,
        shadow: Box::new(move |name, trust| shadows.start(Begin::AsItIs, || loads(name, trust))),
        preview: Box::new(move |weights| {
            let policy = || Ok(Box::new(MultiObjective::new(SharedObjectives::new(weights))) as Box<dyn Policy>);
            twins.start(Begin::Anew, policy)
        }),
        objectives,
        training: Arc::default(),
        save: Box::new(move |from, name| {
            let folder = learned.as_ref().ok_or("nothing is kept here: start with --data FOLDER")?.join(name);
            keep(Path::new(from), &folder).map_err(|error| format!("{error:#}"))?;
            Ok(folder.display().to_string())
        }),
        recorder: data.as_ref().map(|data| Arc::new(Recordings::new(client, data.join("recordings"))) as _),
        laboratory: data.map(|data| Laboratory {
            folder: data.join("experiments"),
            kinds: EXPERIMENTS,
            command: experiment,
        }),
        demo: None,
    }
}

/// The experiments of this build.
#[cfg(feature = "burn")]
const EXPERIMENTS: &[&str] = &["thesis", "qtable"];
/// Experiments train networks.
#[cfg(not(feature = "burn"))]
const EXPERIMENTS: &[&str] = &[];

fn experiment(kind: &str, report: &Path) -> std::io::Result<std::process::Command> {
    report.parent().map(std::fs::create_dir_all).transpose()?;
    let mut command = std::process::Command::new(std::env::current_exe()?);
    command.args(["experiment", kind, "--quiet", "--background", "--out"]).arg(report);
    Ok(command)
}

/// What twins of the cluster are made of.
struct Twins {
    client: Client,
    configuration: Configuration,
    kinds: NodeKinds,
}

impl Twins {
    /// A twin in which a policy, made for each profile, ranks.
    fn start(&self, begin: Begin, make: impl Fn() -> Result<Box<dyn Policy>, String>) -> Result<Twin, String> {
        let profiles = self.configuration.profiles.iter();
        let policies: Result<Vec<_>, String> =
            profiles.map(|profile| Ok((profile.scheduler_name.clone(), make()?))).collect();
        Ok(Twin::start(self.client.clone(), &self.configuration, self.kinds.clone(), policies?, begin))
    }
}

/// A policy by its name: one that weighs objectives follows the weights in force.
fn policy(
    section: &Section,
    weights: &SharedObjectives,
    name: &str,
    trust: Option<f64>,
) -> Result<Box<dyn Policy>, String> {
    let folder = Path::new(name);
    let made = match name {
        MULTI_OBJECTIVE => Box::new(MultiObjective::new(weights.clone())),
        _ if folder.is_dir() => workshop::load_with(folder, trust).map_err(|error| error.to_string())?,
        _ => return section.policy(name).map_err(|error| format!("{error:#}")),
    };
    Ok(section.guarded(made))
}

/// Copies a model to a folder that is not there yet.
fn keep(from: &Path, to: &Path) -> Result<()> {
    ensure!(!to.exists(), "{} is there; take another name", to.display());
    let card = models::read_card(from)?;
    let weights = read_weights(&from.join(WEIGHTS_FILE))?;
    models::save(to, &Card { name: models::name(to), ..card }, &weights)?;
    Ok(())
}

/// The policies and models that can be chosen. A model is read once, and again where its files have changed.
pub struct Choices {
    /// Folders that were given.
    named: Vec<PathBuf>,
    /// Where models are that were made here.
    learned: Option<PathBuf>,
    read: Mutex<HashMap<PathBuf, (Stamp, Option<PolicyEntry>)>>,
}

/// When the files of a model were written, and how long they are.
type Stamp = [Option<(SystemTime, u64)>; 2];

impl Choices {
    /// The shipped models, those that were `named`, and those in `learned`.
    pub fn new(named: &[String], learned: Option<PathBuf>) -> Self {
        let named = named.iter().map(PathBuf::from).filter(|folder| folder.is_dir()).collect();
        Self { named, learned, read: Mutex::default() }
    }

    /// All of them as they are now.
    pub fn list(&self) -> Vec<PolicyEntry> {
        let own = std::iter::once(&(MULTI_OBJECTIVE, ABOUT_MULTI_OBJECTIVE));
        let heuristics =
            POLICIES.iter().chain(own).filter(|(name, _)| *name != REFERENCE).map(|(name, about)| PolicyEntry {
                name: (*name).to_owned(),
                kind: "heuristic",
                description: (*about).to_owned(),
                ..PolicyEntry::default()
            });
        let mut folders = folders_in(Path::new(MODELS));
        folders.extend(self.learned.as_deref().map(folders_in).unwrap_or_default());
        folders.extend(self.named.iter().cloned());
        folders.sort_unstable();
        folders.dedup();
        folders.iter().filter_map(|folder| self.model(folder)).chain(heuristics).collect()
    }

    fn model(&self, folder: &Path) -> Option<PolicyEntry> {
        let stamp = |file: &str| {
            let about = std::fs::metadata(folder.join(file)).ok()?;
            Some((about.modified().ok()?, about.len()))
        };
        let stamp = [CARD_FILE, WEIGHTS_FILE].map(stamp);
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        match read.get(folder) {
            Some((of, entry)) if *of == stamp => entry.clone(),
            _ => {
                let entry = model(folder);
                read.insert(folder.to_owned(), (stamp, entry.clone()));
                entry
            }
        }
    }
}

/// The folders with a model in a folder.
fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let there = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    there.filter(|path| path.join(CARD_FILE).exists()).collect()
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
pub fn config(configuration: &Configuration, section: &Section) -> Value {
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
