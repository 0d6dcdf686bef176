//! NodeVolumeLimits: a node attaches only as many volumes as its CSI drivers say.

use super::volumes::{VolumeNode, pre_filter, reasons, refusal};
use crate::config::PluginName;
use crate::framework::{Cycle, Plugin, PreFilter, Refusal};
use crate::state::Node;
use crate::storage::{Rejection, limits};

#[derive(Debug, Default)]
pub struct NodeVolumeLimits {
    prepared: Option<limits::State>,
}

impl NodeVolumeLimits {
    fn check(&self, cycle: &Cycle<'_>, node: &Node) -> Result<(), Rejection> {
        let Some(prepared) = &self.prepared else { return Ok(()) };
        limits::filter(&cycle.state.storage, prepared, &VolumeNode { state: cycle.state, node })
    }
}

impl Plugin for NodeVolumeLimits {
    fn name(&self) -> PluginName {
        PluginName::NodeVolumeLimits
    }

    fn pre_filter(&mut self, cycle: &Cycle<'_>) -> PreFilter {
        pre_filter(cycle, PluginName::NodeVolumeLimits, &mut self.prepared, |pod| {
            limits::pre_filter(&cycle.state.storage, pod)
        })
    }

    fn filter(&self, cycle: &Cycle<'_>, node: &Node) -> Option<Refusal> {
        refusal(PluginName::NodeVolumeLimits, self.check(cycle, node))
    }

    fn reasons(&self, cycle: &Cycle<'_>, node: &Node, _: Refusal) -> Vec<String> {
        reasons(self.check(cycle, node))
    }
}
