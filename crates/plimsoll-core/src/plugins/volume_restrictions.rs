//! VolumeRestrictions: disks and claims that take one user at a time.

use super::volumes::{VolumeNode, pre_filter, reasons, refusal};
use crate::config::PluginName;
use crate::framework::{Cycle, Plugin, PreFilter, Refusal};
use crate::state::{Node, Pod};
use crate::storage::{PodVolumes, Rejection, restrictions};

#[derive(Debug, Default)]
pub struct VolumeRestrictions {
    prepared: Option<restrictions::State>,
    /// As it was before a what-if.
    before: Option<restrictions::State>,
}

impl VolumeRestrictions {
    fn check(&self, cycle: &Cycle<'_>, node: &Node) -> Result<(), Rejection> {
        let Some(prepared) = &self.prepared else { return Ok(()) };
        let Some(volumes) = cycle.shape().volumes.as_deref() else { return Ok(()) };
        restrictions::filter(prepared, volumes, &VolumeNode { state: cycle.state, node })
    }
}

impl VolumeRestrictions {
    fn what_if(&mut self, cycle: &Cycle<'_>, pod: &Pod, step: fn(&mut restrictions::State, &PodVolumes)) {
        let volumes = cycle.state.shape_of(pod).shape.volumes.as_deref();
        if let (Some(prepared), Some(volumes)) = (&mut self.prepared, volumes) {
            self.before.get_or_insert_with(|| prepared.clone());
            step(prepared, volumes);
        }
    }
}

impl Plugin for VolumeRestrictions {
    fn name(&self) -> PluginName {
        PluginName::VolumeRestrictions
    }

    fn pre_filter(&mut self, cycle: &Cycle<'_>) -> PreFilter {
        pre_filter(cycle, PluginName::VolumeRestrictions, &mut self.prepared, |pod| {
            restrictions::pre_filter(&cycle.state.storage, pod)
        })
    }

    fn filter(&self, cycle: &Cycle<'_>, node: &Node) -> Option<Refusal> {
        refusal(PluginName::VolumeRestrictions, self.check(cycle, node))
    }

    fn reasons(&self, cycle: &Cycle<'_>, node: &Node, _: Refusal) -> Vec<String> {
        reasons(self.check(cycle, node))
    }

    fn add_pod(&mut self, cycle: &Cycle<'_>, pod: &Pod, _: &Node) {
        self.what_if(cycle, pod, restrictions::State::add_pod);
    }

    fn remove_pod(&mut self, cycle: &Cycle<'_>, pod: &Pod, _: &Node) {
        self.what_if(cycle, pod, restrictions::State::remove_pod);
    }

    fn end_what_if(&mut self) {
        if let Some(before) = self.before.take() {
            self.prepared = Some(before);
        }
    }
}
