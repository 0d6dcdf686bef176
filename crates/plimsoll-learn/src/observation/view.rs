//! What an observation shows: the plain features, or features by name.

use super::features::{self, NODE_FEATURES, POD_FEATURES, node_feature, pod_feature};
use super::{Encoded, Exported, Observe, Plain};
use crate::error::LearnError;
use crate::lifetime::Predictor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name of the plain features.
pub const PLAIN: &str = "plain";

/// The name of what exporters tell.
pub const EXPORTED: &str = "exported";

/// Which features a network reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FeatureNames {
    /// Of nodes.
    pub nodes: Vec<String>,
    /// Of pods.
    pub pods: Vec<String>,
}

impl Default for FeatureNames {
    fn default() -> Self {
        let nodes = [
            "cpu-free",
            "memory-free",
            "pods",
            "empty",
            "threads",
            "watts-per-thread",
            "idle-watts",
            "awake",
            "remaining",
            "cpu-left",
            "memory-left",
            "rise",
            "extension",
            "extension-share",
            "extra-kwh",
        ];
        let pods = ["cpu", "memory", "life", "short", "group", "load", "busy"];
        Self { nodes: nodes.map(str::to_owned).to_vec(), pods: pods.map(str::to_owned).to_vec() }
    }
}

impl FeatureNames {
    /// The places of the features of nodes, in their order, and of pods.
    pub fn places(&self) -> Result<(Vec<usize>, Vec<usize>), LearnError> {
        let find = |what, names: &[String], place: fn(&str) -> Option<usize>, known: Vec<&'static str>| {
            let find =
                |name: &String| place(name).ok_or_else(|| LearnError::unknown(what, name, known.iter().copied()));
            names.iter().map(find).collect::<Result<Vec<_>, _>>()
        };
        let known = NODE_FEATURES.iter().map(|(name, ..)| *name).collect();
        let mut nodes = find("learn.observation.nodes: feature", &self.nodes, node_feature, known)?;
        // Those that change only with the node come first, whatever order they are named in.
        nodes.sort_unstable();
        nodes.dedup();
        let known = POD_FEATURES.iter().map(|(name, _)| *name).collect();
        let pods = find("learn.observation.pods: feature", &self.pods, pod_feature, known)?;
        Ok((nodes, pods))
    }
}

/// What an observation shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum View {
    /// The features of [`Plain`], with so many pending pods.
    Plain {
        /// How many, the one to be placed included.
        lookahead: usize,
    },
    /// The features of [`Exported`].
    Exported,
    /// Features of [`super::features`] by their places, which need a predictor of lifetimes.
    Named {
        /// Of nodes.
        nodes: Vec<usize>,
        /// Of pods.
        pods: Vec<usize>,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ahead {
    lookahead: usize,
}

impl View {
    /// Reads what a scenario says: `"plain"`, `"exported"`, `{ lookahead = 3 }` for the plain features with the next pods, or the names of features.
    pub fn from_toml(value: &toml::Value) -> Result<Self, LearnError> {
        let invalid = |error: toml::de::Error| LearnError::Invalid(format!("learn.observation: {}", error.message()));
        match value {
            toml::Value::String(name) if name == PLAIN => Ok(Self::Plain { lookahead: 1 }),
            toml::Value::String(name) if name == EXPORTED => Ok(Self::Exported),
            toml::Value::String(name) => {
                let known = [PLAIN, EXPORTED, "{ nodes = […], pods = […] }"];
                Err(LearnError::unknown("learn.observation: observation", name, known))
            }
            toml::Value::Table(table) if table.contains_key("lookahead") => {
                let Ahead { lookahead } = table.clone().try_into().map_err(invalid)?;
                Ok(Self::Plain { lookahead })
            }
            other => Self::named(&other.clone().try_into().map_err(invalid)?),
        }
    }

    /// Features by their names.
    pub fn named(names: &FeatureNames) -> Result<Self, LearnError> {
        let (nodes, pods) = names.places()?;
        Ok(Self::Named { nodes, pods })
    }

    /// What a model with these features looks at.
    pub fn of_features(node_features: &[String], pod_features: &[String]) -> Result<Self, LearnError> {
        let plain = Plain::default();
        if node_features == plain.node_features() {
            // Each pod beside the first adds the CPU and memory that it asks for.
            let more = pod_features.len().saturating_sub(plain.pod_features().len()) / 2;
            let found = Plain::new(1 + more);
            if pod_features == found.pod_features() {
                return Ok(Self::Plain { lookahead: 1 + more });
            }
        }
        let exported = Exported::default();
        if node_features == exported.node_features() && pod_features == exported.pod_features() {
            return Ok(Self::Exported);
        }
        let find = |what, name: &String, place: Option<usize>, known: Vec<&'static str>| {
            place.ok_or_else(|| LearnError::unknown(what, name, known))
        };
        let node_names = || NODE_FEATURES.iter().map(|(name, ..)| *name).collect();
        let pod_names = || POD_FEATURES.iter().map(|(name, _)| *name).collect();
        let nodes = node_features.iter().map(|name| find("node feature", name, node_feature(name), node_names()));
        let pods = pod_features.iter().map(|name| find("pod feature", name, pod_feature(name), pod_names()));
        Ok(Self::Named { nodes: nodes.collect::<Result<_, _>>()?, pods: pods.collect::<Result<_, _>>()? })
    }

    /// Whether lifetimes are predicted for it.
    pub fn needs_predictor(&self) -> bool {
        matches!(self, Self::Named { .. })
    }

    /// How many pods of the queue it looks at, the one to be placed included.
    pub fn lookahead(&self) -> usize {
        match self {
            Self::Plain { lookahead } => (*lookahead).max(1),
            Self::Exported => 1,
            Self::Named { pods, .. } => features::lookahead(pods),
        }
    }

    /// The names of the features of nodes.
    pub fn node_features(&self) -> Vec<String> {
        match self {
            Self::Plain { lookahead } => Plain::new(*lookahead).node_features(),
            Self::Exported => Exported::default().node_features(),
            Self::Named { nodes, .. } => nodes.iter().map(|at| NODE_FEATURES[*at].0.to_owned()).collect(),
        }
    }

    /// The names of the features of pods.
    pub fn pod_features(&self) -> Vec<String> {
        match self {
            Self::Plain { lookahead } => Plain::new(*lookahead).pod_features(),
            Self::Exported => Exported::default().pod_features(),
            Self::Named { pods, .. } => pods.iter().map(|at| POD_FEATURES[*at].0.to_owned()).collect(),
        }
    }

    /// What describes decisions so.
    pub fn observe(&self, predictor: Option<&Predictor>) -> Result<Box<dyn Observe>, LearnError> {
        match self {
            Self::Plain { lookahead } => Ok(Box::new(Plain::new(*lookahead))),
            Self::Exported => Ok(Box::new(Exported::default())),
            Self::Named { nodes, pods } => {
                let predictor = predictor.cloned().ok_or_else(|| {
                    LearnError::Invalid("its features need predicted lifetimes, and it has no predictor of them".into())
                })?;
                Ok(Box::new(Encoded::new(predictor, nodes.clone(), pods.clone())))
            }
        }
    }
}

impl Observe for Box<dyn Observe> {
    fn node_features(&self) -> Vec<String> {
        (**self).node_features()
    }

    fn pod_features(&self) -> Vec<String> {
        (**self).pod_features()
    }

    fn begin(&mut self) {
        (**self).begin();
    }

    fn observe(
        &mut self,
        cycle: &plimsoll_core::framework::Cycle<'_>,
        nodes: &[plimsoll_core::state::NodeId],
        feasible: &[plimsoll_core::state::NodeId],
        out: &mut super::Observation,
    ) {
        (**self).observe(cycle, nodes, feasible, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_is_read_and_found_again_by_its_features() {
        let read = |text: &str| View::from_toml(&toml::from_str::<toml::Table>(text).unwrap()["o"]);
        let plain = read("o = 'plain'").unwrap();
        assert_eq!(plain, View::Plain { lookahead: 1 });
        let ahead = read("o = { lookahead = 3 }").unwrap();
        let named = read("o = { nodes = ['rise', 'cpu-free'], pods = ['life'] }").unwrap();
        assert_eq!(named.node_features(), ["cpu-free", "rise"]);
        assert_eq!([&plain, &ahead, &named].map(View::lookahead), [1, 3, 1]);
        let queue = read("o = { nodes = ['rise'], pods = ['life', 'next-cpu'] }").unwrap();
        assert_eq!(queue.lookahead(), features::LOOKAHEAD);
        for view in [plain, ahead, named] {
            assert_eq!(View::of_features(&view.node_features(), &view.pod_features()).unwrap(), view);
            assert_eq!(view.observe(None).is_err(), view.needs_predictor());
        }
        assert!(read("o = 'fancy'").unwrap_err().to_string().contains("there are plain"));
        assert!(read("o = { nodes = ['joy'] }").unwrap_err().to_string().contains("\"joy\" is not known"));
        assert!(read("o = { node = ['rise'] }").unwrap_err().to_string().contains("unknown field"));
    }
}
