//! A node with the pods on it, as decisions see it.

use super::pod::PodId;
use crate::model::{HostPort, NodeSpec, PodShape, Requests, ResourceId};
use std::sync::Arc;

/// A node, as a dense index. Indices of removed nodes are used again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct NodeId(u32);

impl NodeId {
    /// The id of the node at this index.
    pub const fn new(index: u32) -> Self {
        Self(index)
    }

    /// Its place in arrays with an entry a node.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Amounts taken or offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Amounts {
    /// Thousandths of a core.
    pub cpu: i64,
    /// Bytes of memory.
    pub memory: i64,
    /// Bytes of ephemeral storage.
    pub ephemeral_storage: i64,
}

/// An extended resource on a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scalar {
    /// Which.
    pub id: ResourceId,
    /// Offered.
    pub allocatable: i64,
    /// Taken.
    pub requested: i64,
}

/// A node and what the pods on it take.
///
/// Cheap to clone: preemption tries its what-if on a clone.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its index.
    pub id: NodeId,
    /// What it says about itself.
    pub spec: Arc<NodeSpec>,
    /// Offered.
    pub allocatable: Amounts,
    /// Taken by pods.
    pub requested: Amounts,
    /// CPU taken, counting a default for containers that ask for none.
    pub nonzero_cpu: i64,
    /// Memory taken, counting a default for containers that ask for none.
    pub nonzero_memory: i64,
    /// Extended resources offered or taken.
    pub scalars: Vec<Scalar>,
    /// The pods on it.
    pub pods: Vec<PodId>,
    /// Host ports in use, with how many pods use each.
    pub(super) ports: Vec<(HostPort, u32)>,
}

impl Node {
    /// A node without pods.
    pub fn new(id: NodeId, spec: Arc<NodeSpec>) -> Self {
        let mut node = Self {
            id,
            allocatable: Amounts::default(),
            requested: Amounts::default(),
            nonzero_cpu: 0,
            nonzero_memory: 0,
            scalars: Vec::new(),
            pods: Vec::new(),
            ports: Vec::new(),
            spec,
        };
        node.read_allocatable();
        node
    }

    /// The node says something new about itself; its pods stay.
    pub fn set_spec(&mut self, spec: Arc<NodeSpec>) {
        self.spec = spec;
        self.read_allocatable();
    }

    fn read_allocatable(&mut self) {
        let offered = &self.spec.allocatable;
        self.allocatable =
            Amounts { cpu: offered.cpu, memory: offered.memory, ephemeral_storage: offered.ephemeral_storage };
        for scalar in &mut self.scalars {
            scalar.allocatable = 0;
        }
        for &(id, amount) in &self.spec.allocatable.scalars {
            match self.scalars.iter_mut().find(|scalar| scalar.id == id) {
                Some(scalar) => scalar.allocatable = amount,
                None => self.scalars.push(Scalar { id, allocatable: amount, requested: 0 }),
            }
        }
        self.scalars.retain(|scalar| scalar.allocatable != 0 || scalar.requested != 0);
    }

    /// An extended resource's offered and taken amounts; zero when the node knows nothing of it.
    pub fn scalar(&self, id: ResourceId) -> (i64, i64) {
        self.scalars
            .iter()
            .find(|scalar| scalar.id == id)
            .map_or((0, 0), |scalar| (scalar.allocatable, scalar.requested))
    }

    /// Whether a wanted port is taken.
    pub fn has_port_conflict(&self, wanted: &HostPort) -> bool {
        self.ports.iter().any(|(port, _)| port.conflicts(wanted))
    }

    /// A pod is placed here.
    pub fn add_pod(&mut self, id: PodId, shape: &PodShape) {
        self.pods.push(id);
        self.take(shape, 1);
        for port in &shape.local.ports {
            match self.ports.iter_mut().find(|(known, _)| known == port) {
                Some((_, users)) => *users += 1,
                None => self.ports.push((*port, 1)),
            }
        }
    }

    /// A pod leaves.
    pub fn remove_pod(&mut self, id: PodId, shape: &PodShape) {
        let Some(at) = self.pods.iter().position(|pod| *pod == id) else {
            return;
        };
        self.pods.swap_remove(at);
        self.take(shape, -1);
        for port in &shape.local.ports {
            if let Some(at) = self.ports.iter().position(|(known, _)| known == port) {
                self.ports[at].1 -= 1;
                if self.ports[at].1 == 0 {
                    self.ports.swap_remove(at);
                }
            }
        }
    }

    fn take(&mut self, shape: &PodShape, sign: i64) {
        let resources = &shape.local.resources;
        let Requests { cpu, memory, ephemeral_storage, scalars } = &resources.taken;
        // Sums wrap as in Kubernetes: absurd requests give absurd sums, never a crash.
        let add = |sum: &mut i64, amount: i64| *sum = sum.wrapping_add(sign.wrapping_mul(amount));
        add(&mut self.requested.cpu, *cpu);
        add(&mut self.requested.memory, *memory);
        add(&mut self.requested.ephemeral_storage, *ephemeral_storage);
        add(&mut self.nonzero_cpu, resources.nonzero_cpu);
        add(&mut self.nonzero_memory, resources.nonzero_memory);
        for &(id, amount) in scalars {
            match self.scalars.iter_mut().find(|scalar| scalar.id == id) {
                Some(scalar) => add(&mut scalar.requested, amount),
                None => self.scalars.push(Scalar { id, allocatable: 0, requested: sign.wrapping_mul(amount) }),
            }
        }
        if sign < 0 && !scalars.is_empty() {
            self.scalars.retain(|scalar| scalar.allocatable != 0 || scalar.requested != 0);
        }
    }
}
