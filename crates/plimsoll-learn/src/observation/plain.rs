//! The features of the first learning schedulers: what is free on a node, how far its users are, what the pod asks for.

use super::places::Places;
use super::{Observation, Observe};
use plimsoll_core::framework::Cycle;
use plimsoll_core::state::{NodeId, PodId};

/// The features of a node.
const NODE: [&str; 6] = ["cpu-free", "memory-free", "disk-used", "pods", "latency", "present"];
/// The features of a pod.
const POD: [&str; 4] = ["cpu", "memory", "latency-soft", "latency-hard"];
/// As many pods as a kubelet runs unless told otherwise count as 1.
const PODS: f32 = 110.0;
/// So many milliseconds count as 1.
const MILLISECONDS: f32 = 100.0;
/// So many cores and bytes count as 1, for what a pod asks.
const CORES: f32 = 16.0;
const BYTES: f32 = (64_u64 << 30) as f32;

/// Plain features, with what the next pods ask for.
#[derive(Debug, Clone)]
pub struct Plain {
    lookahead: usize,
    allowed: Vec<bool>,
    places: Places,
}

impl Plain {
    /// Features that show so many pending pods, the one to be placed included; at least 1.
    pub fn new(lookahead: usize) -> Self {
        Self { lookahead: lookahead.max(1), allowed: Vec::new(), places: Places::default() }
    }
}

impl Default for Plain {
    fn default() -> Self {
        Self::new(1)
    }
}

impl Observe for Plain {
    fn node_features(&self) -> Vec<String> {
        NODE.iter().map(|name| (*name).to_owned()).collect()
    }

    fn pod_features(&self) -> Vec<String> {
        let next = (1..self.lookahead).flat_map(|at| ["cpu", "memory"].map(|name| format!("next-{at}-{name}")));
        POD.iter().map(|name| (*name).to_owned()).chain(next).collect()
    }

    fn begin(&mut self) {
        self.places.clear();
    }

    fn observe(&mut self, cycle: &Cycle<'_>, nodes: &[NodeId], feasible: &[NodeId], out: &mut Observation) {
        let (state, telemetry) = (cycle.state, &cycle.state.telemetry);
        out.node_width = NODE.len();
        out.nodes.clear();
        out.mask.clear();
        out.places.clear();
        self.allowed.clear();
        self.allowed.resize(state.node_limit(), false);
        for node in feasible {
            self.allowed[node.index()] = true;
        }
        for &id in nodes {
            let Some(node) = state.node(id) else {
                out.nodes.extend([-1.0; NODE.len()]);
                out.mask.push(false);
                out.places.push([0; 2]);
                continue;
            };
            let (offered, taken) = (&node.allocatable, &node.requested);
            let latency = telemetry.latency_ms(cycle.pod_id, id).unwrap_or(0.0) as f32;
            let elsewhere = telemetry.node(id).taken_elsewhere();
            out.nodes.extend([
                1.0 - share(taken.cpu + elsewhere.0, offered.cpu),
                1.0 - share(taken.memory + elsewhere.1, offered.memory),
                share(taken.ephemeral_storage, offered.ephemeral_storage),
                node.pods.len() as f32 / PODS,
                latency / MILLISECONDS,
                1.0,
            ]);
            out.mask.push(self.allowed[id.index()]);
            out.places.push(self.places.of(state, node));
        }
        let asks = |pod: PodId| {
            let wanted = state.pod(pod).map(|pod| &state.shape_of(pod).shape.local.resources.wanted);
            wanted.map_or([0.0; 2], |wanted| [wanted.cpu as f32 / 1000.0 / CORES, wanted.memory as f32 / BYTES])
        };
        let (soft, hard) = telemetry.pod(cycle.pod_id).latency_ms.unwrap_or((0.0, 0.0));
        out.pod.clear();
        out.pod.extend(asks(cycle.pod_id));
        out.pod.extend([soft, hard].map(|ms| ms as f32 / MILLISECONDS));
        let upcoming = telemetry.upcoming.iter().filter(|pod| **pod != cycle.pod_id);
        let mut next = upcoming.map(|pod| asks(*pod));
        for _ in 1..self.lookahead {
            out.pod.extend(next.next().unwrap_or([0.0; 2]));
        }
    }
}

/// A part of a whole; 0 where there is nothing.
pub(crate) fn share(part: i64, whole: i64) -> f32 {
    if whole > 0 { part as f32 / whole as f32 } else { 0.0 }
}
