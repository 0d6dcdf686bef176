//! VolumeBinding: a pod goes where its claims are, or can be, bound to volumes.

use super::volumes::{VolumeNode, pre_filter, reasons, refusal};
use crate::config::PluginName;
use crate::framework::{Cycle, Plugin, PreFilter, PreScore, Refusal};
use crate::state::{Node, NodeId};
use crate::storage::{Rejection, binding};

#[derive(Debug, Default)]
pub struct VolumeBinding {
    prepared: Option<binding::State>,
}

impl VolumeBinding {
    fn check(&self, cycle: &Cycle<'_>, node: &Node) -> Result<(), Rejection> {
        let Some(prepared) = &self.prepared else { return Ok(()) };
        binding::filter(&cycle.state.storage, prepared, &VolumeNode { state: cycle.state, node })
    }
}

impl Plugin for VolumeBinding {
    fn name(&self) -> PluginName {
        PluginName::VolumeBinding
    }

    fn pre_filter(&mut self, cycle: &Cycle<'_>) -> PreFilter {
        pre_filter(cycle, PluginName::VolumeBinding, &mut self.prepared, |pod| {
            binding::pre_filter(&cycle.state.storage, pod)
        })
    }

    fn filter(&self, cycle: &Cycle<'_>, node: &Node) -> Option<Refusal> {
        refusal(PluginName::VolumeBinding, self.check(cycle, node))
    }

    fn reasons(&self, cycle: &Cycle<'_>, node: &Node, _: Refusal) -> Vec<String> {
        reasons(self.check(cycle, node))
    }

    /// Scoring by storage capacity is behind a gate that is off.
    fn pre_score(&mut self, _: &Cycle<'_>, _: &[NodeId]) -> PreScore {
        PreScore::Skip
    }

    fn has_preference(&self, _: &Cycle<'_>) -> bool {
        false
    }
}
