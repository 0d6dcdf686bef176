//! The Plimsoll section of a configuration file: a second document beside the KubeSchedulerConfiguration.

use crate::apprentice::TrainingSection;
use crate::helm;
use crate::input;
use anyhow::{Context, Result, anyhow, bail, ensure};
use plimsoll_core::config::{Configuration, parse_objects};
use plimsoll_core::engine::Engine;
use plimsoll_core::policy::Policy;
use plimsoll_core::telemetry::PowerCurve;
use plimsoll_kube::remote::{Clusters, Remote};
use plimsoll_kube::survey::Ranked;
use plimsoll_kube::world::{NodeKind, NodeKinds};
use plimsoll_learn::reward::SharedObjectives;
use plimsoll_sim::world::catalogue::Catalogue;
use plimsoll_telemetry::Query;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The version of the section.
const API_VERSION: &str = "plimsoll.dev/v1alpha1";
/// Its kind.
const KIND: &str = "PlimsollConfiguration";

/// What Plimsoll wants to know beyond what kube-scheduler does.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Section {
    api_version: String,
    kind: String,
    /// Which policy ranks for which profile.
    pub profiles: Vec<ProfileSection>,
    /// A table of machines with their power curves.
    pub catalogue: Option<PathBuf>,
    /// What nodes are like; the first whose labels a node has counts.
    pub nodes: Vec<NodeSection>,
    /// This cluster, others, and the virtual nodes that stand for them.
    pub clusters: ClustersSection,
    /// Where it is read how things really are.
    pub telemetry: TelemetrySection,
    /// What is never exceeded.
    pub guard_rails: GuardRails,
    /// Learning while it runs.
    pub training: TrainingSection,
}

/// Which policy ranks for a profile.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProfileSection {
    /// The profile, by its scheduler name.
    pub scheduler_name: String,
    /// A policy by name, or the folder of a model.
    pub policy: String,
}

/// What nodes with certain labels are like.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NodeSection {
    /// The labels; none means every node.
    pub labels: BTreeMap<String, String>,
    /// The machine, by words of its name in the catalogue.
    pub machine: Option<String>,
    /// Watts without work, and with all of its work.
    pub idle_watts: Option<f64>,
    pub full_watts: Option<f64>,
    /// Watts asleep.
    pub sleep_watts: f64,
    /// Money for an hour.
    pub price: Option<f64>,
    /// Grams of carbon dioxide for a kilowatt-hour.
    pub carbon: Option<f64>,
    /// Milliseconds to users.
    pub latency_ms: Option<f64>,
}

/// This cluster, others, and the virtual nodes that stand for them.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ClustersSection {
    /// What this cluster is called.
    pub name: String,
    /// Nodes with all of these labels are virtual, too.
    pub virtual_nodes: Vec<VirtualSection>,
    /// The label that names the cluster of a node.
    pub cluster_label: Option<String>,
    /// Whether virtual nodes of one cluster share its capacity.
    pub shared_capacity: bool,
    /// What other clusters are like.
    pub remotes: Vec<RemoteSection>,
}

impl Default for ClustersSection {
    fn default() -> Self {
        let Clusters { name, shares_capacity, .. } = Clusters::default();
        Self {
            name,
            virtual_nodes: Vec::new(),
            cluster_label: None,
            shared_capacity: shares_capacity,
            remotes: Vec::new(),
        }
    }
}

/// How further virtual nodes are known.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VirtualSection {
    /// The labels.
    pub labels: BTreeMap<String, String>,
}

/// What another cluster is like.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RemoteSection {
    /// Its name, as virtual nodes say it.
    pub name: String,
    /// Money for an hour of a core.
    pub price_per_core: Option<f64>,
    /// Milliseconds to users.
    pub latency_ms: Option<f64>,
}

impl ClustersSection {
    fn clusters(&self) -> Result<Clusters> {
        ensure!(!self.name.is_empty(), "name is empty; say what this cluster is called, or leave it out");
        let mut remotes = BTreeMap::new();
        for RemoteSection { name, price_per_core, latency_ms } in &self.remotes {
            let given = [*price_per_core, *latency_ms];
            ensure!(
                given.into_iter().flatten().all(|number| number.is_finite() && number >= 0.0),
                "remotes: {name}: numbers are zero or more"
            );
            let remote = Remote { price_per_core: *price_per_core, latency_ms: *latency_ms };
            ensure!(remotes.insert(name.clone(), remote).is_none(), "remotes: {name} is there twice; once is enough");
        }
        for (at, VirtualSection { labels }) in self.virtual_nodes.iter().enumerate() {
            ensure!(!labels.is_empty(), "virtualNodes[{at}]: without labels every node would be virtual; say some");
        }
        Ok(Clusters {
            name: self.name.clone(),
            virtual_nodes: self.virtual_nodes.iter().map(|of| of.labels.clone()).collect(),
            label: self.cluster_label.clone(),
            shares_capacity: self.shared_capacity,
            remotes,
        })
    }
}

/// Where it is read how things really are.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct TelemetrySection {
    /// A Prometheus that is asked.
    pub prometheus: Option<PrometheusSection>,
    /// Whether the resource metrics API is asked, which metrics-server serves.
    pub resource_metrics: bool,
    /// Plimsoll's agents, which are told whom to measure the latency to.
    pub agents: Option<AgentsSection>,
    /// How often everything is read, in seconds.
    pub interval_seconds: f64,
    /// After how many seconds a reading does not count any more.
    pub stale_after_seconds: f64,
    /// For how many seconds readings are kept.
    pub window_seconds: f64,
}

impl Default for TelemetrySection {
    fn default() -> Self {
        Self {
            prometheus: None,
            resource_metrics: false,
            agents: None,
            interval_seconds: 15.0,
            stale_after_seconds: 60.0,
            window_seconds: 600.0,
        }
    }
}

impl TelemetrySection {
    /// The Prometheus that is asked: at an address that counts more than that of the section, if one is given.
    pub fn asked(&self, address: Option<&str>) -> Option<PrometheusSection> {
        match (&self.prometheus, address) {
            (None, address) => address.map(PrometheusSection::at),
            (Some(section), None) => Some(section.clone()),
            (Some(section), Some(address)) => {
                Some(PrometheusSection { address: address.to_owned(), ..section.clone() })
            }
        }
    }
}

/// Plimsoll's agents.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentsSection {
    /// Where they listen on every node.
    pub port: u16,
    /// A file with their token.
    pub token_file: Option<PathBuf>,
}

impl Default for AgentsSection {
    fn default() -> Self {
        Self { port: 9178, token_file: None }
    }
}

/// A Prometheus, and what it is asked.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PrometheusSection {
    /// Its URL.
    pub address: String,
    /// Sets of queries, by name.
    #[serde(default = "node_exporter")]
    pub sets: Vec<String>,
    /// Further queries; one for a metric that a set asks for, too, stands in its place.
    #[serde(default)]
    pub queries: Vec<Query>,
}

impl PrometheusSection {
    /// A Prometheus that is asked what node exporters tell.
    pub fn at(address: &str) -> Self {
        Self { address: address.to_owned(), sets: node_exporter(), queries: Vec::new() }
    }
}

fn node_exporter() -> Vec<String> {
    vec!["node-exporter".to_owned()]
}

/// What is never exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct GuardRails {
    /// How long a model may think of a pod, in milliseconds; then its heuristic decides.
    pub decision_deadline_ms: f64,
    /// How many bindings may be written at a time.
    pub max_in_flight: usize,
}

impl Default for GuardRails {
    fn default() -> Self {
        Self { decision_deadline_ms: 100.0, max_in_flight: plimsoll_kube::driver::IN_FLIGHT }
    }
}

/// Reads a configuration file, if there is one; kube-scheduler's defaults if not.
pub fn read(path: Option<&Path>) -> Result<(Configuration, Section)> {
    let Some(path) = path else { return Ok((Configuration::default(), Section::default())) };
    let (name, text) = input::read_text(path)?;
    parse(&name, &text)
}

/// Reads a configuration: a KubeSchedulerConfiguration, a section of ours, or both, in any order.
pub fn parse(name: &str, text: &str) -> Result<(Configuration, Section)> {
    let (stock, section) = split(name, text)?;
    let configuration = stock.map(|document| Configuration::parse(name, &document)).transpose();
    Ok((configuration.map_err(|errors| anyhow!("{errors}"))?.unwrap_or_default(), section.unwrap_or_default()))
}

/// The document of a text that is kube-scheduler's, at its lines, and our section; either may be missing.
pub fn split(name: &str, text: &str) -> Result<(Option<String>, Option<Section>)> {
    let (mut stock, mut section) = (None, None);
    for document in documents(text) {
        if is_ours(&document) {
            ensure!(section.is_none(), "{name}: there are two documents of kind {KIND}; one is enough");
            section = Some(parse_section(name, &document)?);
        } else {
            ensure!(stock.is_none(), "{name}: there are two configurations of kube-scheduler; one is enough");
            stock = Some(document);
        }
    }
    Ok((stock, section))
}

/// The documents of a text, each at its own lines, so that mistakes are told where they are.
fn documents(text: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    for (before, line) in text.split_inclusive('\n').enumerate() {
        let last = all.len() - 1;
        if line.trim_end() == "---" && !all[last].trim().is_empty() {
            all.push("\n".repeat(before + 1));
        } else {
            all[last].push_str(if line.trim_end() == "---" { "\n" } else { line });
        }
    }
    let given: Vec<_> = all.into_iter().filter(|document| !is_blank(document)).collect();
    if given.is_empty() { vec![text.to_owned()] } else { given }
}

fn is_blank(document: &str) -> bool {
    document.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'))
}

/// Whether a document says that it is ours; one that cannot be read is kube-scheduler's, whose reader says what is wrong with it.
fn is_ours(document: &str) -> bool {
    let Ok(objects) = parse_objects("", document) else { return false };
    objects.iter().any(|object| {
        let text = |field: &str| object.get(field).and_then(serde_json::Value::as_str).unwrap_or_default();
        text("kind") == KIND || text("apiVersion").starts_with("plimsoll.dev/")
    })
}

fn parse_section(name: &str, document: &str) -> Result<Section> {
    let value = parse_objects(name, document)?.into_iter().next().unwrap_or_default();
    let section: Section = serde_json::from_value(value).with_context(|| format!("{name}: {KIND}"))?;
    ensure!(section.kind == KIND, "{name}: kind is {:?}; {KIND} is what is known", section.kind);
    ensure!(
        section.api_version == API_VERSION,
        "{name}: apiVersion is {:?}; {API_VERSION} is what is known",
        section.api_version
    );
    let rails = section.guard_rails;
    ensure!(
        rails.decision_deadline_ms.is_finite() && rails.decision_deadline_ms > 0.0,
        "{name}: guardRails.decisionDeadlineMs must be more than zero"
    );
    let telemetry = &section.telemetry;
    let seconds = [telemetry.interval_seconds, telemetry.stale_after_seconds, telemetry.window_seconds];
    ensure!(
        seconds.iter().all(|seconds| (0.1..=1e6).contains(seconds)),
        "{name}: telemetry: intervalSeconds, staleAfterSeconds and windowSeconds must be from 0.1 to 1000000"
    );
    ensure!(rails.max_in_flight > 0, "{name}: guardRails.maxInFlight must be more than zero");
    Ok(section)
}

impl Section {
    /// Gives profiles their policies. `more` are those of the command line, `[PROFILE=]NAME`, which count more than those of the section.
    pub fn engine(
        &self,
        configuration: &Configuration,
        more: &[String],
        objectives: &SharedObjectives,
        seed: u64,
    ) -> Result<(Engine, Vec<Ranked>)> {
        let profiles: Vec<_> = configuration.profiles.iter().map(|profile| profile.scheduler_name.clone()).collect();
        let mut chosen: BTreeMap<String, String> = BTreeMap::new();
        for given in &self.profiles {
            if !profiles.contains(&given.scheduler_name) {
                let known = profiles.join(", ");
                bail!("{KIND}: profiles: there is no profile {:?}; there are {known}", given.scheduler_name);
            }
            chosen.insert(given.scheduler_name.clone(), given.policy.clone());
        }
        for given in more {
            let (of, name) = match given.split_once('=') {
                Some((profile, name)) => (vec![profile.to_owned()], name),
                None => (profiles.clone(), given.as_str()),
            };
            for profile in of {
                if !profiles.contains(&profile) {
                    bail!("--policy {given}: there is no profile {profile:?}; there are {}", profiles.join(", "));
                }
                chosen.insert(profile, name.to_owned());
            }
        }
        let mut engine = Engine::new(configuration, seed);
        let mut ranked = Vec::new();
        for profile in profiles {
            let Some(name) = chosen.remove(&profile) else {
                ranked.push(Ranked { profile, policy: "default".to_owned(), counters: None });
                continue;
            };
            let policy = self.policy(&name, objectives, None)?;
            ranked.push(Ranked { profile: profile.clone(), policy: name, counters: policy.counters() });
            engine.set_policy(&profile, policy);
        }
        Ok((engine, ranked))
    }

    /// [`helm::policy`] that keeps to the guard rails.
    pub fn policy(&self, name: &str, objectives: &SharedObjectives, trust: Option<f64>) -> Result<Box<dyn Policy>> {
        let mut policy = helm::policy(name, objectives, trust)?;
        let deadline = Duration::from_secs_f64(self.guard_rails.decision_deadline_ms / 1000.0);
        let start = Instant::now();
        policy.set_deadline(Box::new(move || start.elapsed()), deadline);
        Ok(policy)
    }

    /// What nodes are like. Files are named from `folder`.
    pub fn node_kinds(&self, folder: &Path) -> Result<NodeKinds> {
        let catalogue = self.catalogue.as_ref().map(|file| Catalogue::read(&folder.join(file))).transpose()?;
        let each = self.nodes.iter().enumerate();
        let list = each.map(|(at, node)| node.kind(catalogue.as_ref()).with_context(|| format!("{KIND}: nodes[{at}]")));
        let clusters = self.clusters.clusters().with_context(|| format!("{KIND}: clusters"))?;
        Ok(NodeKinds { list: list.collect::<Result<_>>()?, clusters })
    }
}

impl NodeSection {
    fn kind(&self, catalogue: Option<&Catalogue>) -> Result<NodeKind> {
        let given = [Some(self.sleep_watts), self.price, self.carbon, self.latency_ms];
        ensure!(
            given.into_iter().flatten().all(|number| number.is_finite() && number >= 0.0),
            "numbers are zero or more"
        );
        let curve = match (&self.machine, self.idle_watts, self.full_watts) {
            (None, None, None) => None,
            (Some(name), None, None) => {
                let catalogue = catalogue.context("machine names one of the catalogue, but no catalogue is given")?;
                Some(Arc::clone(&catalogue.find(name)?.power))
            }
            (None, Some(idle), Some(full)) => {
                Some(Arc::new(PowerCurve::straight(idle, full).context("idleWatts and fullWatts make no curve")?))
            }
            _ => bail!("say either machine, or both idleWatts and fullWatts"),
        };
        Ok(NodeKind {
            labels: self.labels.clone(),
            power: curve,
            sleep_watts: self.sleep_watts,
            price: self.price,
            carbon: self.carbon,
            latency_ms: self.latency_ms,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STOCK: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- schedulerName: batch\n";
    const OURS: &str = "apiVersion: plimsoll.dev/v1alpha1\nkind: PlimsollConfiguration\nprofiles:\n- {schedulerName: batch, policy: best-fit}\nnodes:\n- labels: {type: big}\n  idleWatts: 50\n  fullWatts: 200\n  price: 0.5\n";

    #[test]
    fn both_documents_are_read_in_any_order() {
        for text in [format!("{STOCK}---\n{OURS}"), format!("# ours first\n---\n{OURS}---\n{STOCK}")] {
            let (configuration, section) = parse("file", &text).unwrap();
            assert_eq!(configuration.profiles[0].scheduler_name, "batch");
            assert_eq!(section.profiles[0].policy, "best-fit");
            let kinds = section.node_kinds(Path::new(".")).unwrap().list;
            assert_eq!(kinds[0].price, Some(0.5));
            assert_eq!(kinds[0].power.as_ref().unwrap().full(), 200.0);
        }
        let (configuration, section) = parse("file", STOCK).unwrap();
        assert_eq!((configuration.profiles.len(), section), (1, Section::default()));
    }

    #[test]
    fn mistakes_are_told_where_they_are() {
        let told = |text: &str| format!("{:#}", parse("file", text).unwrap_err());
        let error = told(&format!("{OURS}---\n{STOCK}  plugin: {{}}\n"));
        assert!(error.starts_with("file:15:3: "), "{error}");
        let error = told(&OURS.replace("price", "prize"));
        assert!(error.contains("prize") && error.contains("PlimsollConfiguration"), "{error}");
        assert!(told(&format!("{OURS}---\n{OURS}")).contains("two documents"));
        assert!(told(&OURS.replace("v1alpha1", "v9")).contains("plimsoll.dev/v1alpha1"));
        let rails = format!("{OURS}guardRails: {{decisionDeadlineMs: 0}}\n");
        assert!(told(&rails).contains("decisionDeadlineMs"), "{}", told(&rails));
    }

    #[test]
    fn clusters_are_read_and_mistakes_in_them_told() {
        let with = |clusters: &str| {
            let (_, section) = parse("file", &format!("{OURS}clusters:\n{clusters}")).unwrap();
            section.node_kinds(Path::new(".")).map(|kinds| kinds.clusters)
        };
        let text = "  name: a\n  clusterLabel: site\n  sharedCapacity: false\n  virtualNodes:\n  - labels: {far: \"yes\"}\n  remotes:\n  - {name: b, pricePerCore: 0.1, latencyMs: 30}\n";
        let clusters = with(text).unwrap();
        assert_eq!(
            (clusters.name.as_str(), clusters.label.as_deref(), clusters.shares_capacity),
            ("a", Some("site"), false)
        );
        assert_eq!(clusters.remotes["b"], Remote { price_per_core: Some(0.1), latency_ms: Some(30.0) });
        assert_eq!(clusters.virtual_nodes, [[("far".to_owned(), "yes".to_owned())].into()]);
        let told = |text: &str| format!("{:#}", with(text).unwrap_err());
        assert!(told("  remotes:\n  - {name: b, pricePerCore: -1}\n").contains("remotes: b: numbers are zero or more"));
        assert!(told("  remotes:\n  - {name: b}\n  - {name: b}\n").contains("b is there twice"));
        assert!(told("  virtualNodes:\n  - labels: {}\n").contains("virtualNodes[0]"));
    }

    #[test]
    fn policies_are_for_profiles_that_are_there() {
        let (configuration, section) = parse("file", &format!("{STOCK}---\n{OURS}")).unwrap();
        assert!(section.engine(&configuration, &[], &SharedObjectives::default(), 1).is_ok());
        let more = ["nobody=best-fit".to_owned()];
        let error = section.engine(&configuration, &more, &SharedObjectives::default(), 1).err().unwrap().to_string();
        assert!(error.contains("nobody") && error.contains("batch"), "{error}");
        let (_, elsewhere) = parse("file", &OURS.replace("batch", "web")).unwrap();
        let error = elsewhere.engine(&configuration, &[], &SharedObjectives::default(), 1).err().unwrap().to_string();
        assert!(error.contains("web"), "{error}");
    }
}
