//! What the passes without burn share: padded matrices, rows through a matrix, and the work of a batch over all cores.

use super::{Batch, Gradients, INVALID, Pass, Slopes};
use crate::model::{Tensor, Weights};
use pulp::Simd;
use rayon::prelude::*;

/// Rows that go through a matrix together, so that each of its numbers is read once for all of them.
const ROWS: usize = 6;
/// Rows of numbers are padded to a multiple of this: two of the widest vectors.
const ALIGN: usize = 32;
/// Decisions whose gradients are added up together. Sums are taken within such a group and then in the order of groups, whichever core did
/// the work, so results do not depend on the number of cores.
const GROUP: usize = 16;

/// Weights laid out for the way forth and back of one decision.
pub trait Plan: Send + Sync {
    /// What a decision leaves behind on the way forth.
    type Trace: Default + Send + Sync;
    /// Gradients, in the layouts in which they are added up.
    type Sums: Send;

    /// The way forth.
    fn forth(&self, batch: &Batch, index: usize, trace: &mut Self::Trace);

    /// The score of each node that is there, allowed or not, and the value of the decision.
    fn results(trace: &Self::Trace) -> (&[f32], f32);

    /// No gradients yet.
    fn zero(&self) -> Self::Sums;

    /// The way back, from the slopes of the loss in each score and in the value.
    fn back(&self, batch: &Batch, index: usize, trace: &Self::Trace, slopes: (&[f32], f32), sums: &mut Self::Sums);

    /// All arrays of some sums, in a fixed order.
    fn arrays(sums: &mut Self::Sums) -> Vec<&mut Vec<f32>>;

    /// Gradients by name, in the weights' shapes.
    fn gradients(&self, sums: &Self::Sums, weights: &Weights) -> Gradients;
}

/// Scores of each decision and node, and values of each decision.
pub fn scores<P: Plan>(plan: &P, batch: &Batch) -> (Vec<f32>, Vec<f32>) {
    let mut scores = vec![INVALID; batch.size * batch.nodes];
    let mut values = vec![0.0; batch.size];
    // Scores do not add up over decisions, so these groups may follow the number of cores.
    let size = batch.size.div_ceil(2 * rayon::current_num_threads()).max(1);
    let work = |(group, (scores, values)): (usize, (&mut [f32], &mut [f32]))| {
        let mut trace = P::Trace::default();
        for (index, (scores, value)) in scores.chunks_mut(batch.nodes).zip(values).enumerate() {
            let index = group * size + index;
            plan.forth(batch, index, &mut trace);
            *value = fill::<P>(batch, index, &trace, scores);
        }
    };
    if batch.size == 1 {
        // Waking another core would take longer than the work.
        work((0, (&mut scores, &mut values)));
    } else {
        scores.par_chunks_mut(size * batch.nodes).zip(values.par_chunks_mut(size)).enumerate().for_each(work);
    }
    (scores, values)
}

/// Copies the scores of allowed nodes; gives the value.
fn fill<P: Plan>(batch: &Batch, index: usize, trace: &P::Trace, scores: &mut [f32]) -> f32 {
    let (found, value) = P::results(trace);
    for ((score, found), allowed) in scores.iter_mut().zip(found).zip(batch.mask_row(index)) {
        if *allowed {
            *score = *found;
        }
    }
    value
}

/// A pass forth that can be followed back.
pub struct Traced<'a, P: Plan> {
    plan: P,
    weights: &'a Weights,
    batch: &'a Batch,
    traces: Vec<P::Trace>,
    scores: Vec<f32>,
    values: Vec<f32>,
}

impl<'a, P: Plan> Traced<'a, P> {
    /// Goes forth.
    pub fn new(plan: P, weights: &'a Weights, batch: &'a Batch) -> Self {
        let forth = |index: usize| {
            let mut trace = P::Trace::default();
            plan.forth(batch, index, &mut trace);
            trace
        };
        let traces: Vec<P::Trace> = (0..batch.size).into_par_iter().with_min_len(GROUP / 2).map(forth).collect();
        let mut scores = vec![INVALID; batch.size * batch.nodes];
        let rows = scores.chunks_mut(batch.nodes).zip(&traces).enumerate();
        let values = rows.map(|(index, (scores, trace))| fill::<P>(batch, index, trace, scores)).collect();
        Self { plan, weights, batch, traces, scores, values }
    }
}

impl<P: Plan> Pass for Traced<'_, P> {
    fn scores(&self) -> &[f32] {
        &self.scores
    }

    fn values(&self) -> &[f32] {
        &self.values
    }

    fn back(&self, slopes: &Slopes) -> Gradients {
        let Self { plan, batch, .. } = self;
        let group = |(group, traces): (usize, &[P::Trace])| {
            let mut sums = plan.zero();
            for (index, trace) in traces.iter().enumerate() {
                let index = group * GROUP + index;
                let value = slopes.values.get(index).copied().unwrap_or(0.0);
                plan.back(batch, index, trace, (batch.row(&slopes.scores, index), value), &mut sums);
            }
            sums
        };
        let groups: Vec<P::Sums> = self.traces.par_chunks(GROUP).enumerate().map(group).collect();
        let mut total = plan.zero();
        for mut sums in groups {
            for (total, sums) in P::arrays(&mut total).into_iter().zip(P::arrays(&mut sums)) {
                total.iter_mut().zip(sums).for_each(|(total, sum)| *total += *sum);
            }
        }
        plan.gradients(&total, self.weights)
    }
}

/// A matrix and its transpose, rows padded.
pub struct Matrix {
    /// How many numbers come out.
    pub outputs: usize,
    /// How many go in.
    pub inputs: usize,
    /// Outputs × padded inputs.
    pub rows: Vec<f32>,
    /// Inputs × padded outputs.
    pub columns: Vec<f32>,
}

impl Matrix {
    /// A matrix of weights.
    pub fn new(tensor: &Tensor) -> Self {
        Self::part(tensor, 0, tensor.shape[1])
    }

    /// Some of the inputs of a matrix of weights.
    pub fn part(tensor: &Tensor, from: usize, to: usize) -> Self {
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

/// A length with padding.
pub fn padded(length: usize) -> usize {
    length.next_multiple_of(ALIGN)
}

/// A padded vector of weights.
pub fn vector(tensor: &Tensor) -> Vec<f32> {
    let mut vector = tensor.data.clone();
    vector.resize(padded(vector.len()), 0.0);
    vector
}

/// Rows of a padded array without their padding.
pub fn unpadded(rows: &[f32], width: usize) -> Vec<f32> {
    rows.chunks_exact(padded(width)).flat_map(|row| row[..width].to_vec()).collect()
}

/// A padded array of inputs × outputs as outputs × inputs, without padding.
pub fn transposed(columns: &[f32], outputs: usize) -> Vec<f32> {
    let (width, inputs) = (padded(outputs), columns.len() / padded(outputs));
    (0..outputs).flat_map(|output| (0..inputs).map(move |input| columns[input * width + output])).collect()
}

/// `sum += factor × row`, over padded rows.
#[inline(always)]
pub fn add<S: Simd>(simd: S, sum: &mut [f32], factor: f32, row: &[f32]) {
    let factor = simd.splat_f32s(factor);
    for (sum, row) in S::as_mut_simd_f32s(sum).0.iter_mut().zip(S::as_simd_f32s(row).0) {
        *sum = simd.mul_add_e_f32s(factor, *row, *sum);
    }
}

/// `sum += sign × matrix × vector`, from columns.
#[inline(always)]
pub fn add_product<S: Simd>(simd: S, sum: &mut [f32], sign: f32, columns: &[f32], vector: &[f32]) {
    let width = sum.len();
    for (value, column) in vector.iter().zip(columns.chunks_exact(width)) {
        add(simd, sum, sign * value, column);
    }
}

/// `sum += vector × row'`, into columns: what a product's gradient grows by.
#[inline(always)]
pub fn add_outer<S: Simd>(simd: S, columns: &mut [f32], vector: &[f32], row: &[f32]) {
    for (value, sum) in vector.iter().zip(columns.chunks_exact_mut(row.len())) {
        add(simd, sum, *value, row);
    }
}

/// Zeroes the slopes where a ReLU let nothing through.
#[inline(always)]
pub fn gate(slopes: &mut [f32], outputs: &[f32]) {
    slopes.iter_mut().zip(outputs).for_each(|(slope, output)| *slope = if *output > 0.0 { *slope } else { 0.0 });
}

/// How rows go through a matrix.
#[derive(Clone, Copy)]
pub struct Through<'a> {
    /// The matrix.
    pub matrix: &'a Matrix,
    /// How far apart rows are.
    pub stride: usize,
    /// What each row of the output begins with; what it holds already if none.
    pub start: Option<&'a [f32]>,
    /// Whether a ReLU follows.
    pub relu: bool,
}

/// `out = start + matrix × x` for every row of `x`, with a ReLU or without.
#[inline(always)]
pub fn rows_through<S: Simd>(simd: S, x: &[f32], through: Through, out: &mut Vec<f32>) {
    let Through { matrix, stride, start, relu } = through;
    let width = padded(matrix.outputs);
    let two = 2 * S::F32_LANES;
    out.resize(x.len() / stride * width, 0.0);
    let floor = simd.splat_f32s(if relu { 0.0 } else { f32::NEG_INFINITY });
    for (x, out) in x.chunks(ROWS * stride).zip(out.chunks_mut(ROWS * width)) {
        let last = x.len() / stride - 1;
        // The last rows may be fewer: the others then repeat the last one, and are not written.
        let mut rows = [&x[..matrix.inputs]; ROWS];
        for (index, row) in rows.iter_mut().enumerate() {
            let start = index.min(last) * stride;
            *row = &x[start..start + matrix.inputs];
        }
        let [r0, r1, r2, r3, r4, r5] = rows;
        for column in (0..width).step_by(two) {
            // No closures here: what is not inlined loses the processor's wide vectors.
            let mut sums = [[floor; 2]; ROWS];
            for (index, sums) in sums.iter_mut().enumerate() {
                let begun = match start {
                    Some(start) => &start[column..column + two],
                    None => &out[index.min(last) * width + column..][..two],
                };
                let begun = S::as_simd_f32s(begun).0;
                *sums = [begun[0], begun[1]];
            }
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
            for (out, sums) in out.chunks_exact_mut(width).zip(sums) {
                let out = S::as_mut_simd_f32s(&mut out[column..column + two]).0;
                out[0] = simd.max_f32s(sums[0], floor);
                out[1] = simd.max_f32s(sums[1], floor);
            }
        }
    }
}

/// The inner product of padded rows.
#[inline(always)]
pub fn dot<S: Simd>(simd: S, a: &[f32], b: &[f32]) -> f32 {
    let mut sum = simd.splat_f32s(0.0);
    for (a, b) in S::as_simd_f32s(a).0.iter().zip(S::as_simd_f32s(b).0) {
        sum = simd.mul_add_e_f32s(*a, *b, sum);
    }
    simd.reduce_sum_f32s(sum)
}

/// How many nodes of a decision are there, and their rows: padding stands at the end.
pub fn rows_of(batch: &Batch, index: usize) -> (usize, &[f32]) {
    let first = index * batch.nodes;
    let count = batch.present[first..first + batch.nodes].iter().filter(|present| **present).count();
    (count, &batch.features[first * batch.node_width..(first + count) * batch.node_width])
}

/// The pod of a decision.
pub fn pod_of(batch: &Batch, index: usize) -> &[f32] {
    &batch.pods[index * batch.pod_width..(index + 1) * batch.pod_width]
}

/// Gradients by name: arrays, perhaps with padding at the end, in the shapes of the weights.
pub fn named(weights: &Weights, data: impl Fn(&str) -> Vec<f32>) -> Gradients {
    let one = |(name, like): (&String, &Tensor)| {
        let mut data = data(name);
        data.truncate(like.data.len());
        (name.clone(), Tensor { shape: like.shape.clone(), data })
    };
    weights.iter().map(one).collect()
}
