//! SchedulingGates: a pod with gates waits outside the queue.

use crate::model::PodShape;

/// Why a gated pod is not tried; none for a pod without gates.
pub fn gate_message(shape: &PodShape) -> Option<String> {
    (!shape.gates.is_empty()).then(|| format!("waiting for scheduling gates: [{}]", shape.gates.join(" ")))
}
