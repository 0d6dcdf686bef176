//! DynamicResources: a pod goes where the devices its claims ask for are, or are free.

use crate::config::{DynamicResourcesArgs, PluginName};
use crate::dra::NodeView;
use crate::dra::plugin::{self, PodState, Status as DraStatus, Timing};
use crate::framework::{Cycle, Plugin, PreFilter, Refusal, Status};
use crate::state::{ClusterState, Node, NodeId};
use std::cell::RefCell;

#[derive(Debug)]
pub struct DynamicResources {
    /// How many seconds devices may take to become ready.
    binding_timeout_s: f64,
    /// What is known of the pod's claims; a node that is judged adds what the pod would get there.
    prepared: RefCell<Option<Box<PodState>>>,
}

/// A node as device allocation sees it.
pub struct DeviceNode<'a> {
    pub state: &'a ClusterState,
    pub node: &'a Node,
}

impl NodeView for DeviceNode<'_> {
    fn name(&self) -> &str {
        self.state.strings.resolve(self.node.spec.name)
    }

    fn label(&self, key: &str) -> Option<&str> {
        let value = self.node.spec.labels.get(self.state.strings.get(key)?)?;
        Some(self.state.strings.resolve(value))
    }

    fn allocatable(&self, resource: &str) -> Option<i64> {
        let id = self.state.resources.get(resource)?;
        self.node.spec.allocatable.scalars.iter().find(|scalar| scalar.0 == id).map(|scalar| scalar.1)
    }
}

impl DynamicResources {
    pub fn new(args: &DynamicResourcesArgs) -> Self {
        Self { binding_timeout_s: args.binding_timeout.as_secs_f64(), prepared: RefCell::default() }
    }

    fn check(&self, cycle: &Cycle<'_>, node: &Node) -> Result<(), DraStatus> {
        let mut prepared = self.prepared.borrow_mut();
        let (Some(prepared), Some(pod)) = (prepared.as_deref_mut(), cycle.pod.object.as_deref()) else {
            return Ok(());
        };
        plugin::filter(prepared, pod, &cycle.state.dra, &DeviceNode { state: cycle.state, node })
    }
}

impl Plugin for DynamicResources {
    fn name(&self) -> PluginName {
        PluginName::DynamicResources
    }

    fn pre_filter(&mut self, cycle: &Cycle<'_>) -> PreFilter {
        let prepared = self.prepared.get_mut();
        *prepared = None;
        // The whole object is kept for pods that claim devices, by claims or by extended resources.
        let Some(pod) = cycle.pod.object.as_deref() else { return PreFilter::Skip };
        let timing = Timing { now_s: cycle.state.dra.now_s, binding_timeout_s: self.binding_timeout_s };
        match plugin::pre_filter(pod, &cycle.state.dra, timing) {
            plugin::PreFilter::Skip => PreFilter::Skip,
            plugin::PreFilter::Rejected(status) => {
                PreFilter::Reject(Status::new(status.code, PluginName::DynamicResources, status.reason))
            }
            plugin::PreFilter::Proceed(state) => {
                *prepared = Some(state);
                PreFilter::Continue
            }
        }
    }

    fn filter(&self, cycle: &Cycle<'_>, node: &Node) -> Option<Refusal> {
        let answer = self.check(cycle, node);
        answer.err().map(|status| Refusal::new(PluginName::DynamicResources, status.code, 0))
    }

    fn reasons(&self, cycle: &Cycle<'_>, node: &Node, _: Refusal) -> Vec<String> {
        self.check(cycle, node).err().map(|status| status.reason).into_iter().collect()
    }

    fn post_filter(&self, cycle: &Cycle<'_>) -> Option<plugin::PostFilter> {
        let (prepared, pod) = (self.prepared.borrow(), cycle.pod.object.as_deref()?);
        Some(plugin::post_filter(prepared.as_deref()?, pod))
    }

    fn has_preference(&self, _: &Cycle<'_>) -> bool {
        self.prepared.borrow().is_some()
    }

    fn score(&self, cycle: &Cycle<'_>, nodes: &[NodeId], scores: &mut [i64]) {
        if let Some(prepared) = self.prepared.borrow().as_deref() {
            for (score, node) in scores.iter_mut().zip(nodes) {
                *score = plugin::score(prepared, cycle.state.node_name(*node));
            }
        }
    }

    fn normalizes(&self) -> bool {
        true
    }

    fn normalize(&self, _: &Cycle<'_>, _: &[NodeId], scores: &mut [i64]) {
        plugin::normalize(scores);
    }
}
