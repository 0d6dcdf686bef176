//! Whether a kind of machine could run a kind of pod at all: asked of the engine's own rules, on a cluster of empty machines.

use super::machines::Machine;
use super::pods::Objects;
use super::{SimulationError, gpu};
use crate::fleet::Pool;
use crate::workload::{PodRecord, Template};
use plimsoll_core::config::Configuration;
use plimsoll_core::scheduler::{Decision, Scheduler};

/// What a pod is called here.
const UID: &str = "trial";

/// Whether an empty machine of a pool can run a pod. What it wants of other pods does not count: they are not here.
pub fn could_run(
    configuration: &Configuration,
    pool: &Pool,
    template: &Template,
    record: &PodRecord,
    objects: &Objects,
) -> Result<bool, SimulationError> {
    let mut scheduler = Scheduler::new(configuration, 0);
    let state = &mut scheduler.state;
    // Zones differ within a pool: one machine of each.
    for number in 0..pool.zones.len().max(1) {
        let machine = Machine::new(pool, 0, number, 0);
        if state.apply_node(&machine.object(pool)).is_err() {
            return Ok(false);
        }
        if let Some(slice) = gpu::slice(&machine, pool).map_err(SimulationError::Gpu)? {
            let _ = state.apply_resource_slice(&slice);
        }
    }
    let mut pod = objects.pod(record, UID.to_owned());
    if let Some(request) = template.gpus() {
        state.apply_device_class(&gpu::class().map_err(SimulationError::Gpu)?);
        let claim = gpu::claim(request, template.namespace(), UID).map_err(SimulationError::Gpu)?;
        let _ = state.apply_resource_claim(&claim);
    }
    if let Some(spec) = &mut pod.spec {
        spec.topology_spread_constraints = None;
        if let Some(affinity) = &mut spec.affinity {
            (affinity.pod_affinity, affinity.pod_anti_affinity) = (None, None);
        }
    }
    let Ok(Some(id)) = state.apply_pod(&pod) else { return Ok(false) };
    Ok(matches!(scheduler.decide(id), Ok(Decision::Place { .. })))
}
