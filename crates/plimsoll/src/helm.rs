//! What can be steered while a program serves: the policies there are, and how each is had.

use crate::evaluation::policy_of;
use crate::recorder::Recordings;
use crate::section::Section;
use crate::telemetry;
use anyhow::{Result, ensure};
use kube::Client;
use plimsoll_core::config::Configuration;
use plimsoll_core::policy::{POLICIES, Policy};
use plimsoll_kube::twin::{Begin, Site, Told, Twin};
use plimsoll_kube::world::NodeKinds;
use plimsoll_learn::model::{CARD_FILE, Card, WEIGHTS_FILE, read_weights};
use plimsoll_learn::policy::{ABOUT_MULTI_OBJECTIVE, MULTI_OBJECTIVE, MultiObjective};
use plimsoll_learn::reward::{Objectives, SharedObjectives};
use plimsoll_learn::variables::environment;
use plimsoll_learn::{models, workshop};
use plimsoll_server::{Helm, Laboratory, PolicyEntry};
use plimsoll_telemetry::Store;
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
    pub section: &'a Section,
    /// Policies that were given by the command line or the configuration.
    pub named: Vec<String>,
    /// The cluster.
    pub site: Site,
    /// The cluster as it would be under the default policy.
    pub twin: Option<Arc<Told>>,
    /// Where recordings, reports and models are kept.
    pub data: Option<PathBuf>,
    pub objectives: SharedObjectives,
}

/// What can be steered.
pub fn helm(deck: Deck<'_>) -> Helm {
    let Deck { mode, section, named, site, twin, data, objectives } = deck;
    let learned = data.as_ref().map(|data| data.join(MODELS));
    let (own, weights) = (section.clone(), objectives.clone());
    let load = Arc::new(move |name: &str, trust: Option<f64>| {
        own.policy(name, &weights, trust).map_err(|error| format!("{error:#}"))
    });
    let (client, config) = (site.client.clone(), config(&site.configuration, section));
    let (shadows, loads) = (site.clone(), Arc::clone(&load));
    Helm {
        mode,
        config,
        catalogue: Box::new({
            let choices = Choices::new(&named, learned.clone());
            move || choices.list()
        }),
        load: Box::new(move |name, trust| load(name, trust)),
        twin,
        shadow: Box::new(move |name, trust| start(&shadows, Begin::AsItIs, || loads(name, trust))),
        preview: Box::new(move |weights| {
            let twin = |weights| start(&site, Begin::Anew, || Ok(weighing(weights)));
            let [now, then] = weights;
            let twins = [twin(now)?, twin(then)?];
            Ok(Box::pin(async move { Twin::settled(&twins).await }))
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

/// The cluster of a program that serves, whose latencies are those in a store.
pub fn site(client: &Client, configuration: &Configuration, kinds: &NodeKinds, store: &Arc<Store>) -> Site {
    Site {
        client: client.clone(),
        configuration: configuration.clone(),
        kinds: kinds.clone(),
        latencies: telemetry::latencies(store),
    }
}

/// A twin in which a policy, made for each profile, ranks.
fn start(site: &Site, begin: Begin, make: impl Fn() -> Result<Box<dyn Policy>, String>) -> Result<Twin, String> {
    let profiles = site.configuration.profiles.iter();
    let policies: Result<Vec<_>, String> =
        profiles.map(|profile| Ok((profile.scheduler_name.clone(), make()?))).collect();
    Ok(Twin::start(site, policies?, begin))
}

/// A policy by name, or the model of a folder, with another weight of its own score against its heuristic's than its card says if one is given. One that weighs objectives
/// follows those in force, unless its name has weights.
pub fn policy(name: &str, objectives: &SharedObjectives, trust: Option<f64>) -> Result<Box<dyn Policy>> {
    let folder = Path::new(name);
    Ok(match name {
        MULTI_OBJECTIVE => Box::new(MultiObjective::new(objectives.clone())),
        _ if folder.is_dir() => workshop::load_with(folder, trust)?,
        _ => policy_of(name)?,
    })
}

/// The policy that weighs objectives, with these weights for good.
pub fn weighing(weights: Objectives) -> Box<dyn Policy> {
    Box::new(MultiObjective::new(SharedObjectives::new(weights)))
}

/// What placements are rewarded for, to begin with.
pub fn objectives() -> Result<SharedObjectives> {
    let mut objectives = Objectives::default();
    objectives.override_by(&environment)?;
    objectives.check()?;
    Ok(SharedObjectives::new(objectives))
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
