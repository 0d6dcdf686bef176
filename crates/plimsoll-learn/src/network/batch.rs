//! Observations side by side: padded to the same number of nodes, then as burn's tensors.

use super::{INVALID, NetworkSpec};
use crate::error::LearnError;
use crate::observation::Observation;
use burn::tensor::{Bool, Device, Tensor, TensorData};

/// Observations, padded to the largest.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Batch {
    /// How many observations.
    pub size: usize,
    /// How many nodes each has, with padding.
    pub nodes: usize,
    /// How many numbers describe a node.
    pub node_width: usize,
    /// How many numbers describe a pod.
    pub pod_width: usize,
    /// The nodes: `size` × `nodes` × `node_width`; padding is 0.
    pub features: Vec<f32>,
    /// The pods: `size` × `pod_width`.
    pub pods: Vec<f32>,
    /// Which nodes may be chosen: `size` × `nodes`.
    pub mask: Vec<bool>,
    /// Which nodes are there, allowed or not, and not padding: `size` × `nodes`.
    pub present: Vec<bool>,
    /// The zone and region of each node; padding is in zone 0.
    pub places: Vec<[u32; 2]>,
}

impl Batch {
    /// Puts observations side by side; refuses those of other widths than the network's.
    pub fn new<'a>(
        spec: &NetworkSpec,
        observations: impl IntoIterator<Item = &'a Observation> + Clone,
    ) -> Result<Self, LearnError> {
        let nodes = observations.clone().into_iter().map(Observation::node_count).max().unwrap_or(0).max(1);
        Self::padded(spec, observations, nodes)
    }

    /// The same with a given number of nodes, which must be enough.
    pub fn padded<'a>(
        spec: &NetworkSpec,
        observations: impl IntoIterator<Item = &'a Observation>,
        nodes: usize,
    ) -> Result<Self, LearnError> {
        let mut batch = Self { nodes, node_width: spec.node_width, pod_width: spec.pod_width, ..Self::default() };
        for observation in observations {
            batch.push(observation)?;
        }
        Ok(batch)
    }

    fn push(&mut self, observation: &Observation) -> Result<(), LearnError> {
        let count = observation.node_count();
        let fits = observation.nodes.len() == count * self.node_width && observation.pod.len() == self.pod_width;
        if !fits || count > self.nodes {
            return Err(LearnError::Invalid(format!(
                "an observation of {count} nodes with {} numbers and a pod of {} does not fit a network for {} a node and {} a pod",
                observation.nodes.len(),
                observation.pod.len(),
                self.node_width,
                self.pod_width
            )));
        }
        self.size += 1;
        let rows = self.size * self.nodes;
        self.features.extend_from_slice(&observation.nodes);
        self.features.resize(rows * self.node_width, 0.0);
        self.pods.extend_from_slice(&observation.pod);
        self.mask.extend_from_slice(&observation.mask);
        self.mask.resize(rows, false);
        self.present.resize(rows - self.nodes + count, true);
        self.present.resize(rows, false);
        self.places.extend_from_slice(&observation.places);
        self.places.resize(rows, [0, 0]);
        Ok(())
    }

    /// The scores of one observation among those of all.
    pub fn row<'a>(&self, scores: &'a [f32], index: usize) -> &'a [f32] {
        &scores[index * self.nodes..(index + 1) * self.nodes]
    }

    /// The best allowed node of one observation, by the scores of all.
    pub fn best(&self, scores: &[f32], index: usize) -> usize {
        super::best(self.row(scores, index), self.mask_row(index))
    }

    /// Which nodes of one observation may be chosen.
    pub fn mask_row(&self, index: usize) -> &[bool] {
        &self.mask[index * self.nodes..(index + 1) * self.nodes]
    }
}

/// A batch as burn's tensors.
#[derive(Debug)]
pub struct Inputs<'a> {
    batch: &'a Batch,
    device: Device,
    /// The nodes: batch, nodes, features.
    pub nodes: Tensor<3>,
    /// The pods: batch, features; none if pods have no features.
    pub pods: Option<Tensor<2>>,
}

impl<'a> Inputs<'a> {
    /// A batch on a device.
    pub fn new(batch: &'a Batch, device: &Device) -> Self {
        let nodes = TensorData::new(batch.features.clone(), [batch.size, batch.nodes, batch.node_width]);
        let pods = (batch.pod_width > 0).then(|| TensorData::new(batch.pods.clone(), [batch.size, batch.pod_width]));
        Self {
            batch,
            device: device.clone(),
            nodes: Tensor::from_data(nodes, device),
            pods: pods.map(|pods| Tensor::from_data(pods, device)),
        }
    }

    /// The pods, one row for each decision, ready to be added to every node: batch, 1, features.
    pub fn pod_rows(&self) -> Tensor<3> {
        let pods = self.pods.clone().unwrap_or_else(|| Tensor::zeros([self.batch.size, 1], &self.device));
        let [size, width] = pods.dims();
        pods.reshape([size, 1, width])
    }

    /// Gives nodes that may not be chosen the score that says so.
    pub fn masked(&self, scores: Tensor<2>) -> Tensor<2> {
        let invalid = self.batch.mask.iter().map(|allowed| !allowed).collect();
        scores.mask_fill(self.flags(invalid), INVALID)
    }

    /// The maximum over the nodes that are there of each feature: batch, 1, features.
    pub fn max_over_nodes(&self, x: Tensor<3>) -> Tensor<3> {
        if self.batch.present.iter().all(|present| *present) {
            return x.max_dim(1);
        }
        let [size, nodes, width] = x.dims();
        let absent: Vec<bool> = self.batch.present.iter().map(|present| !present).collect();
        let absent = self.flags(absent).reshape([size, nodes, 1]).expand([size, nodes, width]);
        x.mask_fill(absent, INVALID).max_dim(1)
    }

    /// The mean over the nodes that are there of each feature: batch, 1, features.
    pub fn mean_over_nodes(&self, x: Tensor<3>) -> Tensor<3> {
        let Batch { size, nodes, present, .. } = self.batch;
        let mut shares = vec![0.0; size * nodes];
        for (shares, present) in shares.chunks_mut(*nodes).zip(present.chunks(*nodes)) {
            let count = present.iter().filter(|present| **present).count().max(1);
            for (share, present) in shares.iter_mut().zip(present) {
                *share = if *present { 1.0 / count as f32 } else { 0.0 };
            }
        }
        self.tensor(shares, [*size, 1, *nodes]).matmul(x)
    }

    /// A row that is added to the logits of an attention so that padding gets no weight: batch, 1, nodes.
    pub fn absence(&self) -> Tensor<3> {
        let absence = self.batch.present.iter().map(|present| if *present { 0.0 } else { INVALID }).collect();
        self.tensor(absence, [self.batch.size, 1, self.batch.nodes])
    }

    /// Pools of the nodes that share a zone (level 0) or a region (level 1): a matrix that takes the mean of each pool's nodes (batch,
    /// pools, nodes), and one that hands a pool's mean to its nodes (batch, nodes, pools).
    pub fn pools(&self, level: usize) -> (Tensor<3>, Tensor<3>) {
        let Batch { size, nodes, present, places, .. } = self.batch;
        let mut members: Vec<Vec<usize>> = Vec::with_capacity(*size);
        let mut pools = 1;
        for (present, places) in present.chunks(*nodes).zip(places.chunks(*nodes)) {
            let mut known: Vec<u32> =
                places.iter().zip(present).filter(|(_, present)| **present).map(|(place, _)| place[level]).collect();
            known.sort_unstable();
            known.dedup();
            pools = pools.max(known.len());
            members.push(places.iter().map(|place| known.binary_search(&place[level]).unwrap_or(0)).collect());
        }
        let mut mean = vec![0.0; size * pools * nodes];
        let mut hand = vec![0.0; size * nodes * pools];
        for (index, (members, present)) in members.iter().zip(present.chunks(*nodes)).enumerate() {
            let mut counts = vec![0_u32; pools];
            let there = || members.iter().zip(present).enumerate().filter(|(_, (_, present))| **present);
            there().for_each(|(_, (pool, _))| counts[*pool] += 1);
            for (node, (pool, _)) in there() {
                mean[(index * pools + pool) * nodes + node] = 1.0 / counts[*pool] as f32;
                hand[(index * nodes + node) * pools + pool] = 1.0;
            }
        }
        (self.tensor(mean, [*size, pools, *nodes]), self.tensor(hand, [*size, *nodes, pools]))
    }

    fn tensor<const D: usize>(&self, values: Vec<f32>, lengths: [usize; D]) -> Tensor<D> {
        Tensor::from_data(TensorData::new(values, lengths), &self.device)
    }

    fn flags(&self, values: Vec<bool>) -> Tensor<2, Bool> {
        Tensor::from_data(TensorData::new(values, [self.batch.size, self.batch.nodes]), &self.device)
    }
}
