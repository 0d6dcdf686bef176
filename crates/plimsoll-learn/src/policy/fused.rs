//! The factored network at work, without burn: what depends on a node alone is remembered until the node changes.
//!
//! `e = relu(T x' + t)` over the features `x'` of a node that change only with it; `p = relu(P y + q)` over the pod's features `y`; `c` the mean of
//! `e` over all nodes; `score = w · relu(A e + D x + B p + C c + b) + o`. `A e` is remembered for each node, the sum of `e` is kept by
//! difference, and a decision over n nodes costs n small products with `D`.

use crate::model::{Tensor, Weights};
use plimsoll_core::rng::Rng;
use std::collections::BTreeMap;

/// Sizes of a factored network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Features of a node that the tower reads: the first ones, which change only with the node.
    pub tower_inputs: usize,
    /// Features of a node.
    pub node: usize,
    /// Features of a pod.
    pub pod: usize,
    /// Outputs of the node tower, and of the pod tower.
    pub tower: usize,
    /// Units of the head.
    pub hidden: usize,
}

/// The tensors of a factored network: their names and shapes.
fn shapes(sizes: &Sizes) -> [(&'static str, Vec<usize>); 11] {
    let Sizes { tower_inputs, node, pod, tower, hidden } = *sizes;
    [
        ("tower.weight", vec![tower, tower_inputs]),
        ("tower.bias", vec![tower]),
        ("pod.weight", vec![tower, pod]),
        ("pod.bias", vec![tower]),
        ("head.node", vec![hidden, tower]),
        ("head.direct", vec![hidden, node]),
        ("head.pod", vec![hidden, tower]),
        ("head.context", vec![hidden, tower]),
        ("head.bias", vec![hidden]),
        ("out.weight", vec![hidden]),
        ("out.bias", vec![1]),
    ]
}

/// A factored network with what it remembers.
#[derive(Debug, Clone)]
pub struct Factored {
    sizes: Sizes,
    tower: Matrix,
    pod: Matrix,
    node: Matrix,
    direct: Matrix,
    joined: Matrix,
    context: Matrix,
    bias: Vec<f32>,
    out: Vec<f32>,
    out_bias: f32,
    /// For each node the tower's output, then what it adds to the head; nothing if it is not here.
    towers: Vec<f32>,
    heads: Vec<f32>,
    here: Vec<bool>,
    count: usize,
    sum: Vec<f64>,
    /// What the pod and the context add to the head, for the decision under way.
    common: Vec<f32>,
}

/// A matrix that lies input by input, so that a product runs along the outputs.
#[derive(Debug, Clone)]
struct Matrix {
    outputs: usize,
    by_input: Vec<f32>,
    bias: Vec<f32>,
}

impl Matrix {
    fn new(weights: &[f32], outputs: usize, bias: Vec<f32>) -> Self {
        let inputs = weights.len().checked_div(outputs).unwrap_or(0);
        let mut by_input = vec![0.0; weights.len()];
        for output in 0..outputs {
            for input in 0..inputs {
                by_input[input * outputs + output] = weights[output * inputs + input];
            }
        }
        Self { outputs, by_input, bias }
    }

    /// Adds the product with `inputs` to `sums`.
    fn add_to(&self, inputs: &[f32], sums: &mut [f32]) {
        for (row, input) in self.by_input.chunks_exact(self.outputs).zip(inputs) {
            for (sum, weight) in sums.iter_mut().zip(row) {
                *sum += weight * input;
            }
        }
    }

    fn relu(&self, inputs: &[f32], out: &mut [f32]) {
        out.copy_from_slice(&self.bias);
        self.add_to(inputs, out);
        out.iter_mut().for_each(|value| *value = value.max(0.0));
    }
}

/// The most units of a head, and outputs of a tower.
pub const MAX_HIDDEN: usize = 64;

impl Factored {
    /// Weights to start from: random ones, except that the output is nothing, so that at first the network adds nothing.
    pub fn fresh(sizes: &Sizes, seed: u64) -> Weights {
        let mut rng = Rng::new(seed);
        let shapes = shapes(sizes).into_iter().map(|(name, shape)| {
            let count = shape.iter().product();
            let scale = if shape.len() == 2 { (3.0 / shape[1].max(1) as f64).sqrt() } else { 0.0 };
            let data = (0..count).map(|_| ((rng.unit() * 2.0 - 1.0) * scale) as f32).collect();
            (name.to_owned(), Tensor { shape, data })
        });
        shapes.collect()
    }

    /// A network with these weights; an error says what does not fit.
    pub fn new(sizes: &Sizes, weights: &Weights) -> Result<Self, String> {
        if sizes.hidden == 0 || sizes.hidden > MAX_HIDDEN || sizes.tower == 0 || sizes.tower > MAX_HIDDEN {
            return Err(format!(
                "towers and heads have 1 to {MAX_HIDDEN} units; it has {} and {}",
                sizes.tower, sizes.hidden
            ));
        }
        let mut found = BTreeMap::new();
        for (name, shape) in shapes(sizes) {
            let tensor = weights.get(name).ok_or_else(|| format!("tensor {name:?} is missing"))?;
            if tensor.shape != shape {
                return Err(format!("tensor {name:?} is {:?}, but its card says {shape:?}", tensor.shape));
            }
            found.insert(name, tensor.data.as_slice());
        }
        let take = |name: &str| found.get(name).copied().unwrap_or_default();
        let Sizes { tower, hidden, .. } = *sizes;
        let plain = |name: &str| Matrix::new(take(name), hidden, Vec::new());
        Ok(Self {
            sizes: *sizes,
            tower: Matrix::new(take("tower.weight"), tower, take("tower.bias").to_vec()),
            pod: Matrix::new(take("pod.weight"), tower, take("pod.bias").to_vec()),
            node: plain("head.node"),
            direct: plain("head.direct"),
            joined: plain("head.pod"),
            context: plain("head.context"),
            bias: take("head.bias").to_vec(),
            out: take("out.weight").to_vec(),
            out_bias: take("out.bias").first().copied().unwrap_or(0.0),
            towers: Vec::new(),
            heads: Vec::new(),
            here: Vec::new(),
            count: 0,
            sum: vec![0.0; tower],
            common: vec![0.0; hidden],
        })
    }

    /// Its sizes.
    pub fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    /// A node changed, came or left: `features` are those the tower reads.
    pub fn renew(&mut self, node: usize, features: Option<&[f32]>) {
        let Sizes { tower, hidden, .. } = self.sizes;
        if self.here.len() <= node {
            self.here.resize(node + 1, false);
            self.towers.resize((node + 1) * tower, 0.0);
            self.heads.resize((node + 1) * hidden, 0.0);
        }
        let remembered = &mut self.towers[node * tower..(node + 1) * tower];
        if std::mem::replace(&mut self.here[node], false) {
            self.count -= 1;
            self.sum.iter_mut().zip(&*remembered).for_each(|(sum, value)| *sum -= f64::from(*value));
        }
        let Some(features) = features else { return };
        self.here[node] = true;
        self.count += 1;
        self.tower.relu(features, remembered);
        self.sum.iter_mut().zip(&*remembered).for_each(|(sum, value)| *sum += f64::from(*value));
        let head = &mut self.heads[node * hidden..(node + 1) * hidden];
        head.fill(0.0);
        self.node.add_to(remembered, head);
    }

    /// Begins a decision.
    pub fn begin(&mut self, pod: &[f32]) {
        let mut tower = [0.0; MAX_HIDDEN];
        let tower = &mut tower[..self.sizes.tower];
        self.pod.relu(pod, tower);
        self.common.copy_from_slice(&self.bias);
        self.joined.add_to(tower, &mut self.common);
        let count = self.count.max(1) as f64;
        tower.iter_mut().zip(&self.sum).for_each(|(mean, sum)| *mean = (sum / count) as f32);
        self.context.add_to(tower, &mut self.common);
    }

    /// The score of a node in the decision that was begun.
    pub fn score(&self, node: usize, features: &[f32]) -> f32 {
        let hidden = self.sizes.hidden;
        let mut units = [0.0; MAX_HIDDEN];
        let units = &mut units[..hidden];
        let head = &self.heads[node * hidden..(node + 1) * hidden];
        for ((unit, common), head) in units.iter_mut().zip(&self.common).zip(head) {
            *unit = common + head;
        }
        self.direct.add_to(features, units);
        let score: f32 = units.iter().zip(&self.out).map(|(unit, weight)| unit.max(0.0) * weight).sum();
        score + self.out_bias
    }
}
