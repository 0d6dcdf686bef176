//! DeepSets without burn: scores and gradients for learning what choices are worth.
//!
//! A loss on one score of each decision leaves few traces: the chosen node's row, and in each layer the one node at which each feature is at
//! its maximum. Following only those, the way back costs a tenth of the way forth. One decision's rows fit into the processor's cache, so
//! each goes through all layers before the next.

use crate::model::{Tensor, Weights};
use crate::network::{Batch, ChosenLoss, Gradients, INVALID};
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

/// Rows that go through a matrix together, so that each of its numbers is read once for all of them.
const ROWS: usize = 6;
/// Rows of numbers are padded to a multiple of this: two of the widest vectors.
const ALIGN: usize = 32;
/// Decisions that are worked on together. Sums are taken within such a group and then in their order, whoever is free takes the next, so
/// results do not depend on the number of cores.
const GROUP: usize = 16;

/// A matrix and its transpose, rows padded.
struct Matrix {
    outputs: usize,
    inputs: usize,
    /// Outputs × padded inputs.
    rows: Vec<f32>,
    /// Inputs × padded outputs.
    columns: Vec<f32>,
}

impl Matrix {
    fn new(tensor: &Tensor, from: usize, to: usize) -> Self {
        let (outputs, all, inputs) = (tensor.shape[0], tensor.shape[1], to - from);
        let mut rows = vec![0.0; outputs * padded(inputs)];
        let mut columns = vec![0.0; inputs * padded(outputs)];
        for output in 0..outputs {
            for input in 0..inputs {
                let value = tensor.data[output * all + from + input];
                rows[output * padded(inputs) + input] = value;
                columns[input * padded(outputs) + output] = value;
            }
        }
        Self { outputs, inputs, rows, columns }
    }
}

fn padded(length: usize) -> usize {
    length.next_multiple_of(ALIGN)
}

fn vector(tensor: &Tensor) -> Vec<f32> {
    let mut vector = tensor.data.clone();
    vector.resize(padded(vector.len()), 0.0);
    vector
}

/// The weights, laid out for the way forth and back.
pub struct Plan {
    node_width: usize,
    pod_width: usize,
    lambda1: Matrix,
    gamma1: Matrix,
    /// Of the pod's numbers, `Lambda - Gamma`: they are the same for all nodes, so their maximum is themselves.
    pod1: Matrix,
    bias1: Vec<f32>,
    lambda2: Matrix,
    gamma2: Matrix,
    bias2: Vec<f32>,
    lambda3: Vec<f32>,
    gamma3: Vec<f32>,
    bias3: f32,
}

/// What a decision left behind on the way forth.
#[derive(Default)]
struct Trace {
    count: usize,
    inputs_most: Vec<f32>,
    first: Vec<f32>,
    first_most: Vec<f32>,
    first_at: Vec<u32>,
    second: Vec<f32>,
    second_most: Vec<f32>,
    second_at: Vec<u32>,
}

/// Gradients of a group of decisions, in the layouts that they are added up in.
#[derive(Clone)]
struct Sums {
    /// Inputs × padded outputs.
    lambda1: Vec<f32>,
    gamma1: Vec<f32>,
    pod1: Vec<f32>,
    bias1: Vec<f32>,
    /// Outputs × padded inputs.
    lambda2: Vec<f32>,
    gamma2: Vec<f32>,
    bias2: Vec<f32>,
    lambda3: Vec<f32>,
    gamma3: Vec<f32>,
    bias3: f32,
}

impl Plan {
    pub fn new(weights: &Weights, node_width: usize) -> Self {
        let get = |name: &str| &weights[name];
        let (lambda1, gamma1) = (get("layer1.lambda.weight"), get("layer1.gamma.weight"));
        let width = lambda1.shape[1];
        let mut difference = lambda1.clone();
        difference.data.iter_mut().zip(&gamma1.data).for_each(|(value, gamma)| *value -= gamma);
        let (lambda2, gamma2) = (get("layer2.lambda.weight"), get("layer2.gamma.weight"));
        Self {
            node_width,
            pod_width: width - node_width,
            lambda1: Matrix::new(lambda1, 0, node_width),
            gamma1: Matrix::new(gamma1, 0, node_width),
            pod1: Matrix::new(&difference, node_width, width),
            bias1: vector(get("layer1.lambda.bias")),
            lambda2: Matrix::new(lambda2, 0, lambda2.shape[1]),
            gamma2: Matrix::new(gamma2, 0, gamma2.shape[1]),
            bias2: vector(get("layer2.lambda.bias")),
            lambda3: vector(get("layer3.lambda.weight")),
            gamma3: vector(get("layer3.gamma.weight")),
            bias3: get("layer3.lambda.bias").data[0],
        }
    }

    /// A score for each decision and node.
    pub fn scores(&self, batch: &Batch) -> Vec<f32> {
        let mut scores = vec![INVALID; batch.size * batch.nodes];
        // Scores do not add up over decisions, so these groups may follow the number of cores.
        let group_size = batch.size.div_ceil(2 * rayon::current_num_threads()).max(1);
        let work = |(group, scores): (usize, &mut [f32])| {
            let mut trace = Trace::default();
            for (index, scores) in scores.chunks_mut(batch.nodes).enumerate() {
                let index = group * group_size + index;
                Arch::new().dispatch(Forth { plan: self, batch, index, trace: &mut trace });
                for (node, (score, allowed)) in scores.iter_mut().zip(batch.mask_row(index)).enumerate() {
                    if *allowed {
                        *score = self.score(&trace, node);
                    }
                }
            }
        };
        if batch.size == 1 {
            // Waking another core would take longer than the work.
            work((0, &mut scores));
        } else {
            scores.par_chunks_mut(group_size * batch.nodes).enumerate().for_each(work);
        }
        scores
    }

    fn score(&self, trace: &Trace, node: usize) -> f32 {
        let width = self.lambda3.len();
        let row = &trace.second[node * width..(node + 1) * width];
        dot(row, &self.lambda3) - dot(&trace.second_most, &self.gamma3) + self.bias3
    }

    /// Gradients of a loss on the scores of the chosen nodes.
    pub fn gradients(&self, weights: &Weights, batch: &Batch, chosen: &[usize], loss: ChosenLoss) -> Gradients {
        let forth = |index: usize| {
            let mut trace = Trace::default();
            Arch::new().dispatch(Forth { plan: self, batch, index, trace: &mut trace });
            trace
        };
        let traces: Vec<Trace> = (0..batch.size).into_par_iter().with_min_len(GROUP).map(forth).collect();
        let scores: Vec<f32> = traces.iter().zip(chosen).map(|(trace, node)| self.score(trace, *node)).collect();
        let slopes = loss(&scores);
        let groups: Vec<Sums> = traces
            .par_chunks(GROUP)
            .enumerate()
            .map(|(group, traces)| {
                let mut sums = self.sums();
                for (index, trace) in traces.iter().enumerate() {
                    let index = group * GROUP + index;
                    let (chosen, slope) = (chosen[index], slopes[index]);
                    Arch::new().dispatch(Back { plan: self, batch, index, chosen, slope, trace, sums: &mut sums });
                }
                sums
            })
            .collect();
        let mut total = self.sums();
        groups.iter().for_each(|sums| total.add(sums));
        total.gradients(self, weights)
    }

    fn sums(&self) -> Sums {
        let zeros = |like: &Vec<f32>| vec![0.0; like.len()];
        Sums {
            lambda1: zeros(&self.lambda1.columns),
            gamma1: zeros(&self.gamma1.columns),
            pod1: zeros(&self.pod1.columns),
            bias1: zeros(&self.bias1),
            lambda2: zeros(&self.lambda2.rows),
            gamma2: zeros(&self.gamma2.rows),
            bias2: zeros(&self.bias2),
            lambda3: zeros(&self.lambda3),
            gamma3: zeros(&self.gamma3),
            bias3: 0.0,
        }
    }
}

impl Sums {
    fn add(&mut self, other: &Self) {
        let pairs = [
            (&mut self.lambda1, &other.lambda1),
            (&mut self.gamma1, &other.gamma1),
            (&mut self.pod1, &other.pod1),
            (&mut self.bias1, &other.bias1),
            (&mut self.lambda2, &other.lambda2),
            (&mut self.gamma2, &other.gamma2),
            (&mut self.bias2, &other.bias2),
            (&mut self.lambda3, &other.lambda3),
            (&mut self.gamma3, &other.gamma3),
        ];
        for (sum, other) in pairs {
            sum.iter_mut().zip(other).for_each(|(sum, other)| *sum += other);
        }
        self.bias3 += other.bias3;
    }

    /// As gradients by name, in the weights' shapes; the head for values is not touched.
    fn gradients(&self, plan: &Plan, weights: &Weights) -> Gradients {
        let Plan { node_width, pod_width, lambda1, lambda2, .. } = plan;
        let first = |of_nodes: &[f32], of_pod_sign: f32| {
            let width = padded(lambda1.outputs);
            let mut data = Vec::with_capacity(lambda1.outputs * (node_width + pod_width));
            for output in 0..lambda1.outputs {
                data.extend((0..*node_width).map(|input| of_nodes[input * width + output]));
                data.extend((0..*pod_width).map(|input| of_pod_sign * self.pod1[input * width + output]));
            }
            data
        };
        let second = |rows: &[f32]| -> Vec<f32> {
            rows.chunks(padded(lambda2.inputs)).flat_map(|row| row[..lambda2.inputs].to_vec()).collect()
        };
        let data = |name: &str, like: &Tensor| match name {
            "layer1.lambda.weight" => first(&self.lambda1, 1.0),
            "layer1.gamma.weight" => first(&self.gamma1, -1.0),
            "layer1.lambda.bias" => self.bias1[..like.data.len()].to_vec(),
            "layer2.lambda.weight" => second(&self.lambda2),
            "layer2.gamma.weight" => second(&self.gamma2),
            "layer2.lambda.bias" => self.bias2[..like.data.len()].to_vec(),
            "layer3.lambda.weight" => self.lambda3[..like.data.len()].to_vec(),
            "layer3.gamma.weight" => self.gamma3[..like.data.len()].to_vec(),
            "layer3.lambda.bias" => vec![self.bias3],
            _ => vec![0.0; like.data.len()],
        };
        let named = |(name, like): (&String, &Tensor)| {
            (name.clone(), Tensor { shape: like.shape.clone(), data: data(name, like) })
        };
        weights.iter().map(named).collect()
    }
}

/// The way forth of one decision.
struct Forth<'a> {
    plan: &'a Plan,
    batch: &'a Batch,
    index: usize,
    trace: &'a mut Trace,
}

impl WithSimd for Forth<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { plan, batch, index, trace } = self;
        let rows = index * batch.nodes..(index + 1) * batch.nodes;
        // Padding stands at the end of a row of nodes.
        trace.count = batch.present[rows.clone()].iter().filter(|present| **present).count();
        let x = &batch.features[rows.start * plan.node_width..(rows.start + trace.count) * plan.node_width];
        let pod = &batch.pods[index * plan.pod_width..(index + 1) * plan.pod_width];
        most_of(x, plan.node_width, &mut trace.inputs_most, &mut trace.first_at);
        let mut shared = plan.bias1.clone();
        subtract(simd, &mut shared, &plan.gamma1, &trace.inputs_most);
        for (value, column) in pod.iter().zip(plan.pod1.columns.chunks_exact(shared.len())) {
            add(simd, &mut shared, *value, column);
        }
        through(simd, x, &plan.lambda1, &shared, &mut trace.first);
        most_of(&trace.first, shared.len(), &mut trace.first_most, &mut trace.first_at);
        let mut shared = plan.bias2.clone();
        subtract(simd, &mut shared, &plan.gamma2, &trace.first_most);
        through_padded(simd, &trace.first, &plan.lambda2, &shared, &mut trace.second);
        most_of(&trace.second, shared.len(), &mut trace.second_most, &mut trace.second_at);
    }
}

/// The way back of one decision.
struct Back<'a> {
    plan: &'a Plan,
    batch: &'a Batch,
    index: usize,
    chosen: usize,
    slope: f32,
    trace: &'a Trace,
    sums: &'a mut Sums,
}

impl WithSimd for Back<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { plan, trace, slope, chosen, .. } = self;
        let sums = &mut *self.sums;
        let (first_width, second_width) = (plan.bias1.len(), plan.bias2.len());
        let chosen_row = &trace.second[chosen * second_width..(chosen + 1) * second_width];
        sums.bias3 += slope;
        add(simd, &mut sums.lambda3, slope, chosen_row);
        add(simd, &mut sums.gamma3, -slope, &trace.second_most);
        // Slopes in the outputs of the first layer, and which of its rows have any.
        let mut first = vec![0.0; trace.count * first_width];
        let mut touched = vec![false; trace.count];
        let mut first_most = vec![0.0; first_width];
        for (output, chosen_value) in chosen_row.iter().enumerate().take(plan.lambda2.outputs) {
            let weight = &plan.lambda2.rows[output * first_width..(output + 1) * first_width];
            let into = output * first_width..(output + 1) * first_width;
            let mut both = 0.0;
            let mut from = |node: usize, slope: f32| {
                let row = node * first_width..(node + 1) * first_width;
                add(simd, &mut sums.lambda2[into.clone()], slope, &trace.first[row.clone()]);
                add(simd, &mut first[row], slope, weight);
                touched[node] = true;
                both += slope;
            };
            // Below zero a ReLU lets nothing through.
            if *chosen_value > 0.0 {
                from(chosen, slope * plan.lambda3[output]);
            }
            if trace.second_most[output] > 0.0 {
                from(trace.second_at[output] as usize, -slope * plan.gamma3[output]);
            }
            if both != 0.0 {
                sums.bias2[output] += both;
                add(simd, &mut sums.gamma2[into.clone()], -both, &trace.first_most);
                add(simd, &mut first_most, -both, &plan.gamma2.rows[into]);
            }
        }
        for (output, slope) in first_most.into_iter().enumerate().take(plan.lambda1.outputs) {
            let node = trace.first_at[output] as usize;
            first[node * first_width + output] += slope;
            touched[node] |= slope != 0.0;
        }
        self.first_layer(simd, &mut first, &touched);
    }
}

impl Back<'_> {
    #[inline(always)]
    fn first_layer<S: Simd>(self, simd: S, slopes: &mut [f32], touched: &[bool]) {
        let Self { plan, batch, index, trace, sums, .. } = self;
        let width = plan.bias1.len();
        let mut shared = vec![0.0; width];
        for (node, slopes) in slopes.chunks_exact_mut(width).enumerate().filter(|(node, _)| touched[*node]) {
            let outputs = &trace.first[node * width..(node + 1) * width];
            slopes
                .iter_mut()
                .zip(outputs)
                .for_each(|(slope, output)| *slope = if *output > 0.0 { *slope } else { 0.0 });
            let row = (index * batch.nodes + node) * plan.node_width;
            let x = &batch.features[row..row + plan.node_width];
            for (value, sum) in x.iter().zip(sums.lambda1.chunks_exact_mut(width)) {
                add(simd, sum, *value, slopes);
            }
            add(simd, &mut shared, 1.0, slopes);
        }
        add(simd, &mut sums.bias1, 1.0, &shared);
        for (most, sum) in trace.inputs_most.iter().zip(sums.gamma1.chunks_exact_mut(width)) {
            add(simd, sum, -most, &shared);
        }
        let pod = &batch.pods[index * plan.pod_width..(index + 1) * plan.pod_width];
        for (value, sum) in pod.iter().zip(sums.pod1.chunks_exact_mut(width)) {
            add(simd, sum, *value, &shared);
        }
    }
}

/// `sum += factor × row`, over padded rows.
#[inline(always)]
fn add<S: Simd>(simd: S, sum: &mut [f32], factor: f32, row: &[f32]) {
    let factor = simd.splat_f32s(factor);
    for (sum, row) in S::as_mut_simd_f32s(sum).0.iter_mut().zip(S::as_simd_f32s(row).0) {
        *sum = simd.mul_add_e_f32s(factor, *row, *sum);
    }
}

/// `sum -= matrix × vector`.
#[inline(always)]
fn subtract<S: Simd>(simd: S, sum: &mut [f32], matrix: &Matrix, vector: &[f32]) {
    let width = sum.len();
    for (value, column) in vector.iter().zip(matrix.columns.chunks_exact(width)) {
        add(simd, sum, -value, column);
    }
}

/// The maximum of each column, and the first row that has it.
#[inline(always)]
fn most_of(rows: &[f32], width: usize, most: &mut Vec<f32>, at: &mut Vec<u32>) {
    most.clear();
    most.extend_from_slice(&rows[..width.min(rows.len())]);
    most.resize(width, 0.0);
    at.clear();
    at.resize(width, 0);
    for (index, row) in rows.chunks_exact(width).enumerate() {
        for ((most, at), value) in most.iter_mut().zip(at.iter_mut()).zip(row) {
            let better = *value > *most;
            *most = if better { *value } else { *most };
            *at = if better { index as u32 } else { *at };
        }
    }
}

#[inline(always)]
fn through<S: Simd>(simd: S, x: &[f32], matrix: &Matrix, shared: &[f32], out: &mut Vec<f32>) {
    rows_through(simd, x, matrix.inputs, matrix, shared, out);
}

#[inline(always)]
fn through_padded<S: Simd>(simd: S, x: &[f32], matrix: &Matrix, shared: &[f32], out: &mut Vec<f32>) {
    rows_through(simd, x, padded(matrix.inputs), matrix, shared, out);
}

/// `out = relu(shared + matrix × x)` for every row of `x`, which are `stride` apart.
#[inline(always)]
fn rows_through<S: Simd>(simd: S, x: &[f32], stride: usize, matrix: &Matrix, shared: &[f32], out: &mut Vec<f32>) {
    let width = shared.len();
    let two = 2 * S::F32_LANES;
    out.resize(x.len() / stride * width, 0.0);
    for (x, out) in x.chunks(ROWS * stride).zip(out.chunks_mut(ROWS * width)) {
        let last = x.len() / stride - 1;
        // The last rows may be fewer: the others then repeat the last one, and are not written.
        let row = |index: usize| {
            let start = index.min(last) * stride;
            &x[start..start + matrix.inputs]
        };
        let [r0, r1, r2, r3, r4, r5] = std::array::from_fn(row);
        for column in (0..width).step_by(two) {
            let start = S::as_simd_f32s(&shared[column..column + two]).0;
            let mut sums = [[start[0], start[1]]; ROWS];
            let weights = matrix.columns.chunks_exact(width);
            for ((((((weights, x0), x1), x2), x3), x4), x5) in weights.zip(r0).zip(r1).zip(r2).zip(r3).zip(r4).zip(r5) {
                let weights = S::as_simd_f32s(&weights[column..column + two]).0;
                let (a, b) = (weights[0], weights[1]);
                for (sums, x) in sums.iter_mut().zip([x0, x1, x2, x3, x4, x5]) {
                    let x = simd.splat_f32s(*x);
                    sums[0] = simd.mul_add_e_f32s(x, a, sums[0]);
                    sums[1] = simd.mul_add_e_f32s(x, b, sums[1]);
                }
            }
            let zero = simd.splat_f32s(0.0);
            for (out, sums) in out.chunks_exact_mut(width).zip(sums) {
                let out = S::as_mut_simd_f32s(&mut out[column..column + two]).0;
                out[0] = simd.max_f32s(sums[0], zero);
                out[1] = simd.max_f32s(sums[1], zero);
            }
        }
    }
}

/// The inner product, added up in eight strands that can run side by side.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut strands = [0.0_f32; 8];
    for (a, b) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        for (strand, (a, b)) in strands.iter_mut().zip(a.iter().zip(b)) {
            *strand += a * b;
        }
    }
    strands.iter().sum()
}
