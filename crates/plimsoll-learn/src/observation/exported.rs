//! What exporters tell of nodes, in their units: per cent, GiB, pods, milliseconds.
//!
//! Shares would make one pod a difference of hundredths between nodes whose worth differs by hundreds, which a short training does not come to
//! tell apart. What is measured counts; where nothing is, what is asked for.

use super::{Observation, Observe, Plain};
use plimsoll_core::framework::Cycle;
use plimsoll_core::state::NodeId;

/// The features of a node.
const NODE: [&str; 6] = ["cpu-per-cent", "memory-free-gib", "disk-per-cent", "pods", "latency-ms", "present"];
const GIB: f32 = (1_u64 << 30) as f32;

/// Shows what exporters tell, and what the pod asks for.
#[derive(Debug, Clone, Default)]
pub struct Exported {
    plain: Plain,
}

impl Observe for Exported {
    fn node_features(&self) -> Vec<String> {
        NODE.iter().map(|name| (*name).to_owned()).collect()
    }

    fn pod_features(&self) -> Vec<String> {
        self.plain.pod_features()
    }

    fn begin(&mut self) {
        self.plain.begin();
    }

    fn observe(&mut self, cycle: &Cycle<'_>, nodes: &[NodeId], feasible: &[NodeId], out: &mut Observation) {
        self.plain.observe(cycle, nodes, feasible, out);
        for (row, id) in nodes.iter().enumerate() {
            let Some(node) = cycle.state.node(*id) else { continue };
            let [cpu, memory, disk, pods, latency, _] = &mut out.nodes[row * NODE.len()..][..NODE.len()] else {
                continue;
            };
            let known = cycle.state.telemetry.node(*id);
            let used = known.usage.unwrap_or_default();
            *cpu = 100.0 * used.cpu.map_or(1.0 - *cpu, |(share, _)| share as f32);
            let free = used.memory.map_or(*memory, |(share, _)| 1.0 - share as f32);
            *memory = free * (node.allocatable.memory as f32 / GIB);
            *disk *= 100.0;
            *pods = node.pods.len() as f32;
            *latency = known.latency_ms.unwrap_or(0.0) as f32;
        }
    }
}
