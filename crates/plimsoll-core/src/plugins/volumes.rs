//! What the four volume plugins share: how the rules of [`crate::storage`] see a node, and how their answers are passed on.

use crate::config::PluginName;
use crate::framework::{Cycle, PreFilter, Refusal, Status};
use crate::state::{ClusterState, Node};
use crate::storage::{NodeView, PodVolumes, PreFilterOutcome, Rejection};
use std::collections::BTreeMap;

/// A node, perhaps of a what-if, as the volume rules see it.
#[derive(Clone, Copy)]
pub struct VolumeNode<'a> {
    pub state: &'a ClusterState,
    pub node: &'a Node,
}

impl NodeView for VolumeNode<'_> {
    fn name(&self) -> &str {
        self.state.strings.resolve(self.node.spec.name)
    }

    fn label(&self, key: &str) -> Option<&str> {
        let value = self.node.spec.labels.get(self.state.strings.get(key)?)?;
        Some(self.state.strings.resolve(value))
    }

    fn pod_volumes(&self) -> impl Iterator<Item = &PodVolumes> {
        let pods = self.node.pods.iter().filter_map(|id| self.state.pod(*id));
        pods.filter_map(|pod| self.state.shape_of(pod).shape.volumes.as_deref())
    }
}

/// Keeps what pre-filter prepared and passes its answer on. A pod without volumes is never asked about.
pub fn pre_filter<S>(
    cycle: &Cycle<'_>,
    plugin: PluginName,
    prepared: &mut Option<S>,
    rule: impl FnOnce(&PodVolumes) -> PreFilterOutcome<S>,
) -> PreFilter {
    *prepared = None;
    let Some(volumes) = cycle.shape().volumes.as_deref() else {
        return PreFilter::Skip;
    };
    match rule(volumes) {
        PreFilterOutcome::Skip => PreFilter::Skip,
        PreFilterOutcome::Continue(state) => {
            *prepared = Some(state);
            PreFilter::Continue
        }
        PreFilterOutcome::Reject(rejection) => {
            let reasons = rejection.reasons.iter().map(ToString::to_string).collect();
            PreFilter::Reject(Status { code: rejection.code, plugin: Some(plugin), reasons })
        }
    }
}

/// Passes the answer about a node on.
pub fn refusal(plugin: PluginName, answer: Result<(), Rejection>) -> Option<Refusal> {
    answer.err().map(|rejection| Refusal::new(plugin, rejection.code, 0))
}

/// Words a refusal, by asking again.
pub fn reasons(answer: Result<(), Rejection>) -> Vec<String> {
    answer.err().map_or_else(Vec::new, |rejection| rejection.reasons.iter().map(ToString::to_string).collect())
}

/// A copy of what the volume rules ask of a node, for the time the storage itself is changed.
pub struct DetachedNode {
    name: String,
    labels: BTreeMap<String, String>,
    volumes: Vec<PodVolumes>,
}

impl DetachedNode {
    pub fn new(state: &ClusterState, node: &Node) -> Self {
        let text = |symbol| state.strings.resolve(symbol).to_owned();
        let view = VolumeNode { state, node };
        Self {
            name: view.name().to_owned(),
            labels: node.spec.labels.iter().map(|(key, value)| (text(key), text(value))).collect(),
            volumes: view.pod_volumes().cloned().collect(),
        }
    }
}

impl NodeView for DetachedNode {
    fn name(&self) -> &str {
        &self.name
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str)
    }

    fn pod_volumes(&self) -> impl Iterator<Item = &PodVolumes> {
        self.volumes.iter()
    }
}
