//! Several clusters in a scenario.

use super::build::{latency_steps, not_negative};
use super::{LatencyOverTime, Scenario, ScenarioError};
use crate::fleet::Fleet;
use crate::world::clusters::{Cluster, Federation, Link, Links};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A cluster, where there are several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterSpec {
    /// Its name, as pools name it.
    pub name: String,
    /// Pods of these namespaces come from here.
    #[serde(default)]
    pub namespaces: Vec<String>,
    /// Pods of these applications, by their label `app`, come from here.
    #[serde(default)]
    pub apps: Vec<String>,
    /// Its part of the owners whose pods are not named here or elsewhere; 1 if not said, 0 if namespaces or applications are.
    pub share: Option<f64>,
    /// What a pod from here exchanges with it while it runs in another cluster: gigabytes an hour for each core that it asks for.
    #[serde(default)]
    pub traffic: f64,
}

/// The way between two clusters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// The two clusters.
    pub between: [String; 2],
    /// Milliseconds: a figure, or its changes over time.
    pub ms: LatencyOverTime,
    /// Money for a gigabyte.
    #[serde(default)]
    pub price: f64,
}

impl Scenario {
    /// The clusters, if there are several, and the ways between them.
    pub(super) fn clusters(&self, seed: u64) -> Result<Option<Federation>, ScenarioError> {
        if self.cluster.is_empty() {
            return match self.link.first() {
                Some(link) => Err(self.no_cluster("link", &link.between[0])),
                None => Ok(None),
            };
        }
        let mut clusters: Vec<Cluster> = Vec::new();
        for spec in &self.cluster {
            let place = format!("cluster {}", spec.name);
            if spec.name.is_empty() || clusters.iter().any(|known| known.name == spec.name) {
                return Err(ScenarioError::at(place, "every cluster needs a name of its own"));
            }
            let is_named = !(spec.namespaces.is_empty() && spec.apps.is_empty());
            let share = spec.share.unwrap_or(if is_named { 0.0 } else { 1.0 });
            clusters.push(Cluster {
                name: spec.name.clone(),
                namespaces: spec.namespaces.iter().cloned().collect(),
                apps: spec.apps.iter().cloned().collect(),
                share: not_negative(&format!("{place}: share"), share)?,
                traffic_gb: not_negative(&format!("{place}: traffic"), spec.traffic)?,
            });
        }
        let links = self.links(&clusters)?;
        Ok(Some(Federation::new(clusters, links, seed)))
    }

    fn links(&self, clusters: &[Cluster]) -> Result<Links, ScenarioError> {
        let mut links = Links::new();
        for spec in &self.link {
            let [a, b] = &spec.between;
            let place = format!("link between {a} and {b}");
            let find = |name: &String| {
                let at = clusters.iter().position(|cluster| cluster.name == *name);
                at.ok_or_else(|| self.no_cluster(&place, name))
            };
            let (from, to) = (find(a)?, find(b)?);
            let both = (from.min(to), from.max(to));
            if from == to || links.iter().any(|(known, _)| *known == both) {
                return Err(ScenarioError::at(place, "say once how far two different clusters are from each other"));
            }
            let ms = latency_steps(&format!("{place}: ms"), &spec.ms)?;
            let price = not_negative(&format!("{place}: price"), spec.price)?;
            links.push((both, Link { ms, price }));
        }
        for (to, b) in clusters.iter().enumerate() {
            for (from, a) in clusters.iter().enumerate().take(to) {
                if !links.iter().any(|(known, _)| *known == (from, to)) {
                    let problem = format!("there is none between {:?} and {:?}; add one with its ms", a.name, b.name);
                    return Err(ScenarioError::at("link", problem));
                }
            }
        }
        Ok(links)
    }

    /// Every pool belongs to a cluster, where there are clusters.
    pub(super) fn check_clusters(&self, fleet: &Fleet) -> Result<(), ScenarioError> {
        let is_known = |name: &str| self.cluster.iter().any(|spec| spec.name == name);
        match fleet.pools.iter().find(|pool| !self.cluster.is_empty() && !is_known(&pool.cluster)) {
            Some(pool) => Err(self.no_cluster(&format!("pool {}", pool.name), &pool.cluster)),
            None => Ok(()),
        }
    }

    fn no_cluster(&self, place: &str, name: &str) -> ScenarioError {
        let known: Vec<_> = self.cluster.iter().map(|spec| spec.name.as_str()).collect();
        let known = if known.is_empty() { "none; add [[cluster]]".to_owned() } else { known.join(", ") };
        ScenarioError::at(place, format!("there is no cluster {name:?}; there are {known}"))
    }
}
