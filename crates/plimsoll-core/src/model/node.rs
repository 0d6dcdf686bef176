//! Nodes, compiled.

use super::ModelError;
use super::intern::{Interner, Sym};
use super::labels::LabelSet;
use super::resources::{Requests, ResourceNames, compile_list};
use super::taints::Taint;
use k8s_openapi::api::core::v1 as api;

/// What a node says about itself; pods on it are kept beside this.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeSpec {
    /// Its name.
    pub name: Sym,
    /// Its labels.
    pub labels: LabelSet,
    /// Its taints, in order.
    pub taints: Box<[Taint]>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// What it offers.
    pub allocatable: Requests,
    /// How many pods it takes.
    pub max_pods: i64,
    /// Images it has, by every name, with their size.
    pub images: Box<[(Sym, i64)]>,
    /// Features it declares, sorted.
    pub features: Box<[Sym]>,
}

impl NodeSpec {
    /// Compiles a node.
    pub fn compile(
        node: &api::Node,
        strings: &mut Interner,
        resources: &mut ResourceNames,
    ) -> Result<Self, ModelError> {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let (spec, status) = (node.spec.as_ref(), node.status.as_ref());
        let (allocatable, max_pods) =
            compile_list(status.and_then(|s| s.allocatable.as_ref()), "status.allocatable", resources)
                .map_err(|error| error.of(format!("node {name}")))?;
        let mut images = Vec::new();
        for image in status.and_then(|s| s.images.as_ref()).into_iter().flatten() {
            for name in image.names.iter().flatten() {
                let name = strings.intern(name);
                // A name listed twice keeps its first entry.
                if !images.iter().any(|(known, _)| *known == name) {
                    images.push((name, image.size_bytes.unwrap_or_default()));
                }
            }
        }
        let mut features: Vec<_> = status
            .and_then(|s| s.declared_features.as_ref())
            .into_iter()
            .flatten()
            .map(|feature| strings.intern(feature))
            .collect();
        features.sort_unstable();
        features.dedup();
        Ok(Self {
            name: strings.intern(name),
            labels: LabelSet::compile(node.metadata.labels.as_ref(), strings),
            taints: spec
                .and_then(|s| s.taints.as_ref())
                .into_iter()
                .flatten()
                .map(|t| Taint::compile(t, strings))
                .collect(),
            unschedulable: spec.and_then(|s| s.unschedulable).unwrap_or_default(),
            allocatable,
            max_pods,
            images: images.into(),
            features: features.into(),
        })
    }
}
