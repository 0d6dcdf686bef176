//! Which network, of which sizes: what a scenario and a model's card say of it.

use super::Architecture;
use super::{attention::Attention, deepsets::DeepSets, factored::Factored, graph::Graph};
use crate::error::LearnError;
use crate::model::NetworkCard;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The kinds of network.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NetworkKind {
    /// A node tower that can be remembered, a pooled context and a small head: the fastest to decide with.
    #[default]
    Factored,
    /// Three permutation-equivariant layers, each `Lambda(x) - Gamma(max over nodes of x)`.
    Deepsets,
    /// Multi-head attention of the pod against the nodes.
    Attention,
    /// Messages between the nodes of a zone, of a region and of the cluster.
    Graph,
}

impl NetworkKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Factored, Self::Deepsets, Self::Attention, Self::Graph];

    /// Its name in scenarios and cards.
    pub fn name(self) -> &'static str {
        match self {
            Self::Factored => "factored",
            Self::Deepsets => "deepsets",
            Self::Attention => "attention",
            Self::Graph => "graph",
        }
    }

    /// The sizes that it knows.
    pub fn sizes(self) -> &'static [Size] {
        match self {
            Self::Factored => super::factored::SIZES,
            Self::Deepsets => super::deepsets::SIZES,
            Self::Attention => super::attention::SIZES,
            Self::Graph => super::graph::SIZES,
        }
    }
}

impl std::fmt::Display for NetworkKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A size that may be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Its name.
    pub name: &'static str,
    /// What it is if not set.
    pub default: usize,
    /// The least it may be.
    pub least: usize,
}

impl Size {
    /// A size of at least one.
    pub const fn new(name: &'static str, default: usize) -> Self {
        Self { name, default, least: 1 }
    }
}

/// A network to be built.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NetworkSpec {
    /// The kind; `factored` if not said.
    pub kind: NetworkKind,
    /// Sizes by name. Factored: `tower` 24, `hidden` 24, `tower_inputs` 0 (how many of a node's
    /// features, the first ones, its tower reads: those that change with the node alone; 0 for all). Deepsets: `first` 120, `second` 84. Attention: `width` 32, `heads` 4,
    /// `hidden` 32. Graph: `width` 32, `rounds` 2, `calls` 0 (which feature of a node, counted from 1, says how much the pod and what runs
    /// there call each other; 0 for none).
    pub sizes: BTreeMap<String, usize>,
    /// How many numbers describe a node; follows from the features where it is not said.
    pub node_width: usize,
    /// How many numbers describe a pod; follows from the features where it is not said.
    pub pod_width: usize,
}

impl NetworkSpec {
    /// A network of the usual sizes.
    pub fn new(kind: NetworkKind, node_width: usize, pod_width: usize) -> Self {
        Self { kind, sizes: BTreeMap::new(), node_width, pod_width }
    }

    /// The network that a card describes.
    pub fn from_card(card: &NetworkCard, node_width: usize, pod_width: usize) -> Result<Self, LearnError> {
        let kind = NetworkKind::ALL.into_iter().find(|kind| kind.name() == card.kind);
        let kind = kind.ok_or_else(|| {
            LearnError::unknown("network", &card.kind, NetworkKind::ALL.into_iter().map(NetworkKind::name))
        })?;
        Ok(Self { kind, sizes: card.sizes.clone(), node_width, pod_width })
    }

    /// What a card says of it: every size, set or not.
    pub fn card(&self) -> NetworkCard {
        let sizes = self.kind.sizes().iter().map(|size| (size.name.to_owned(), self.size(size.name))).collect();
        NetworkCard { kind: self.kind.name().to_owned(), sizes }
    }

    /// A size: as set, or the usual one.
    pub fn size(&self, name: &str) -> usize {
        let usual = || self.kind.sizes().iter().find(|size| size.name == name).map_or(0, |size| size.default);
        self.sizes.get(name).copied().unwrap_or_else(usual)
    }

    /// How its scores follow from its weights; refused if a size is unknown or cannot be.
    pub fn architecture(&self) -> Result<Box<dyn Architecture>, LearnError> {
        self.check()?;
        Ok(match self.kind {
            NetworkKind::Factored => Box::new(Factored::new(self)?),
            NetworkKind::Deepsets => Box::new(DeepSets::new(self)),
            NetworkKind::Attention => Box::new(Attention::new(self)?),
            NetworkKind::Graph => Box::new(Graph::new(self)?),
        })
    }

    fn check(&self) -> Result<(), LearnError> {
        let known = self.kind.sizes();
        for (name, value) in &self.sizes {
            let size = known.iter().find(|size| size.name == name);
            let size =
                size.ok_or_else(|| LearnError::unknown("size of a network", name, known.iter().map(|size| size.name)))?;
            if *value < size.least {
                let Size { name, least, .. } = size;
                return Err(LearnError::Invalid(format!(
                    "network {}: {name} is {value}, must be {least} or more",
                    self.kind
                )));
            }
        }
        if self.node_width == 0 {
            return Err(LearnError::Invalid(format!("network {}: nodes have no features; name some", self.kind)));
        }
        // The thesis' network sees nodes alone; the others look at nodes with the eyes of the pod.
        if self.pod_width == 0 && self.kind != NetworkKind::Deepsets {
            return Err(LearnError::Invalid(format!("network {}: pods have no features; name some", self.kind)));
        }
        Ok(())
    }
}
