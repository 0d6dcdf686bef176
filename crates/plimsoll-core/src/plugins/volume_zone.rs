//! VolumeZone: a volume of a zone is used in that zone.

use super::volumes::{VolumeNode, pre_filter, reasons, refusal};
use crate::config::PluginName;
use crate::framework::{Cycle, Plugin, PreFilter, Refusal};
use crate::state::Node;
use crate::storage::{Rejection, zone};

#[derive(Debug, Default)]
pub struct VolumeZone {
    prepared: Option<zone::State>,
}

impl VolumeZone {
    fn check(&self, cycle: &Cycle<'_>, node: &Node) -> Result<(), Rejection> {
        let Some(prepared) = &self.prepared else { return Ok(()) };
        zone::filter(prepared, &VolumeNode { state: cycle.state, node })
    }
}

impl Plugin for VolumeZone {
    fn name(&self) -> PluginName {
        PluginName::VolumeZone
    }

    fn pre_filter(&mut self, cycle: &Cycle<'_>) -> PreFilter {
        pre_filter(cycle, PluginName::VolumeZone, &mut self.prepared, |pod| zone::pre_filter(&cycle.state.storage, pod))
    }

    fn filter(&self, cycle: &Cycle<'_>, node: &Node) -> Option<Refusal> {
        refusal(PluginName::VolumeZone, self.check(cycle, node))
    }

    fn reasons(&self, cycle: &Cycle<'_>, node: &Node, _: Refusal) -> Vec<String> {
        reasons(self.check(cycle, node))
    }
}
