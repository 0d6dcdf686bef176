//! The factored network without burn, for training: a decision goes through all of it, forth and back, while its rows are in the cache.

use crate::model::Weights;
use crate::network::kernel::{self, Matrix, Through, add, add_outer, add_product, dot, gate, pod_of, rows_of};
use crate::network::{Batch, Gradients};
use pulp::{Arch, Simd, WithSimd};

/// The weights.
pub struct Plan {
    tower: Matrix,
    tower_bias: Vec<f32>,
    pod: Matrix,
    pod_bias: Vec<f32>,
    node: Matrix,
    direct: Matrix,
    joined: Matrix,
    context: Matrix,
    bias: Vec<f32>,
    out: Vec<f32>,
    out_bias: f32,
    value_context: Matrix,
    value_pod: Matrix,
    value_bias: Vec<f32>,
    value_out: Vec<f32>,
    value_out_bias: f32,
}

/// What a decision leaves behind: the outputs of each part.
#[derive(Default)]
pub struct Trace {
    tower: Vec<f32>,
    context: Vec<f32>,
    pod: Vec<f32>,
    hidden: Vec<f32>,
    value: Vec<f32>,
    scores: Vec<f32>,
    worth: f32,
}

/// Gradients; those of matrices are inputs × padded outputs.
pub struct Sums {
    tower: Vec<f32>,
    tower_bias: Vec<f32>,
    pod: Vec<f32>,
    pod_bias: Vec<f32>,
    node: Vec<f32>,
    direct: Vec<f32>,
    joined: Vec<f32>,
    context: Vec<f32>,
    bias: Vec<f32>,
    out: Vec<f32>,
    out_bias: Vec<f32>,
    value_context: Vec<f32>,
    value_pod: Vec<f32>,
    value_bias: Vec<f32>,
    value_out: Vec<f32>,
    value_out_bias: Vec<f32>,
}

impl Plan {
    pub fn new(weights: &Weights) -> Self {
        let matrix = |name: &str| Matrix::new(&weights[name]);
        let vector = |name: &str| kernel::vector(&weights[name]);
        Self {
            tower: matrix("tower.weight"),
            tower_bias: vector("tower.bias"),
            pod: matrix("pod.weight"),
            pod_bias: vector("pod.bias"),
            node: matrix("head.node"),
            direct: matrix("head.direct"),
            joined: matrix("head.pod"),
            context: matrix("head.context"),
            bias: vector("head.bias"),
            out: vector("out.weight"),
            out_bias: weights["out.bias"].data[0],
            value_context: matrix("value.context"),
            value_pod: matrix("value.pod"),
            value_bias: vector("value.bias"),
            value_out: vector("value.out.weight"),
            value_out_bias: weights["value.out.bias"].data[0],
        }
    }
}

impl kernel::Plan for Plan {
    type Trace = Trace;
    type Sums = Sums;

    fn forth(&self, batch: &Batch, index: usize, trace: &mut Trace) {
        Arch::new().dispatch(Forth { plan: self, batch, index, trace });
    }

    fn results(trace: &Trace) -> (&[f32], f32) {
        (&trace.scores, trace.worth)
    }

    fn zero(&self) -> Sums {
        let zeros = |like: &Vec<f32>| vec![0.0; like.len()];
        Sums {
            tower: zeros(&self.tower.columns),
            tower_bias: zeros(&self.tower_bias),
            pod: zeros(&self.pod.columns),
            pod_bias: zeros(&self.pod_bias),
            node: zeros(&self.node.columns),
            direct: zeros(&self.direct.columns),
            joined: zeros(&self.joined.columns),
            context: zeros(&self.context.columns),
            bias: zeros(&self.bias),
            out: zeros(&self.out),
            out_bias: vec![0.0],
            value_context: zeros(&self.value_context.columns),
            value_pod: zeros(&self.value_pod.columns),
            value_bias: zeros(&self.value_bias),
            value_out: zeros(&self.value_out),
            value_out_bias: vec![0.0],
        }
    }

    fn back(&self, batch: &Batch, index: usize, trace: &Trace, slopes: (&[f32], f32), sums: &mut Sums) {
        Arch::new().dispatch(Back { plan: self, batch, index, trace, slopes, sums });
    }

    fn arrays(sums: &mut Sums) -> Vec<&mut Vec<f32>> {
        vec![
            &mut sums.tower,
            &mut sums.tower_bias,
            &mut sums.pod,
            &mut sums.pod_bias,
            &mut sums.node,
            &mut sums.direct,
            &mut sums.joined,
            &mut sums.context,
            &mut sums.bias,
            &mut sums.out,
            &mut sums.out_bias,
            &mut sums.value_context,
            &mut sums.value_pod,
            &mut sums.value_bias,
            &mut sums.value_out,
            &mut sums.value_out_bias,
        ]
    }

    fn gradients(&self, sums: &Sums, weights: &Weights) -> Gradients {
        let data = |name: &str| match name {
            "tower.weight" => kernel::transposed(&sums.tower, self.tower.outputs),
            "tower.bias" => sums.tower_bias.clone(),
            "pod.weight" => kernel::transposed(&sums.pod, self.pod.outputs),
            "pod.bias" => sums.pod_bias.clone(),
            "head.node" => kernel::transposed(&sums.node, self.node.outputs),
            "head.direct" => kernel::transposed(&sums.direct, self.direct.outputs),
            "head.pod" => kernel::transposed(&sums.joined, self.joined.outputs),
            "head.context" => kernel::transposed(&sums.context, self.context.outputs),
            "head.bias" => sums.bias.clone(),
            "out.weight" => sums.out.clone(),
            "out.bias" => sums.out_bias.clone(),
            "value.context" => kernel::transposed(&sums.value_context, self.value_context.outputs),
            "value.pod" => kernel::transposed(&sums.value_pod, self.value_pod.outputs),
            "value.bias" => sums.value_bias.clone(),
            "value.out.weight" => sums.value_out.clone(),
            _ => sums.value_out_bias.clone(),
        };
        kernel::named(weights, data)
    }
}

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
        let (count, x) = rows_of(batch, index);
        let width = plan.tower_bias.len();
        let tower =
            Through { matrix: &plan.tower, stride: batch.node_width, start: Some(&plan.tower_bias), relu: true };
        kernel::rows_through(simd, x, tower, &mut trace.tower);
        trace.context.clear();
        trace.context.resize(width, 0.0);
        for row in trace.tower.chunks_exact(width) {
            add(simd, &mut trace.context, 1.0 / count.max(1) as f32, row);
        }
        trace.pod.clone_from(&plan.pod_bias);
        add_product(simd, &mut trace.pod, 1.0, &plan.pod.columns, pod_of(batch, index));
        trace.pod.iter_mut().for_each(|value| *value = value.max(0.0));
        // What is the same for all nodes of a decision is added up first.
        let mut shared = plan.bias.clone();
        add_product(simd, &mut shared, 1.0, &plan.joined.columns, &trace.pod);
        add_product(simd, &mut shared, 1.0, &plan.context.columns, &trace.context);
        let node = Through { matrix: &plan.node, stride: width, start: Some(&shared), relu: false };
        kernel::rows_through(simd, &trace.tower, node, &mut trace.hidden);
        let direct = Through { matrix: &plan.direct, stride: batch.node_width, start: None, relu: true };
        kernel::rows_through(simd, x, direct, &mut trace.hidden);
        trace.scores.clear();
        for row in trace.hidden.chunks_exact(plan.out.len()) {
            trace.scores.push(dot(simd, row, &plan.out) + plan.out_bias);
        }
        trace.value.clone_from(&plan.value_bias);
        add_product(simd, &mut trace.value, 1.0, &plan.value_context.columns, &trace.context);
        add_product(simd, &mut trace.value, 1.0, &plan.value_pod.columns, &trace.pod);
        trace.value.iter_mut().for_each(|value| *value = value.max(0.0));
        trace.worth = dot(simd, &trace.value, &plan.value_out) + plan.value_out_bias;
    }
}

struct Back<'a> {
    plan: &'a Plan,
    batch: &'a Batch,
    index: usize,
    trace: &'a Trace,
    slopes: (&'a [f32], f32),
    sums: &'a mut Sums,
}

impl WithSimd for Back<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { plan, batch, index, trace, slopes: (scores, value), sums } = self;
        let (count, x) = rows_of(batch, index);
        let (tower_width, hidden_width) = (plan.tower_bias.len(), plan.bias.len());
        // Slopes in the tower's outputs, in the context, in the pod's tower and in what the head shares.
        let mut tower = vec![0.0; count * tower_width];
        let mut context = vec![0.0; tower_width];
        let mut pod = vec![0.0; plan.pod_bias.len()];
        let mut shared = vec![0.0; hidden_width];
        let mut hidden = vec![0.0; hidden_width];
        for (node, slope) in scores[..count].iter().enumerate().filter(|(_, slope)| **slope != 0.0) {
            let outputs = &trace.hidden[node * hidden_width..(node + 1) * hidden_width];
            add(simd, &mut sums.out, *slope, outputs);
            sums.out_bias[0] += slope;
            hidden.fill(0.0);
            add(simd, &mut hidden, *slope, &plan.out);
            gate(&mut hidden, outputs);
            add(simd, &mut shared, 1.0, &hidden);
            let rows = node * tower_width..(node + 1) * tower_width;
            add_outer(simd, &mut sums.node, &trace.tower[rows.clone()], &hidden);
            add_outer(simd, &mut sums.direct, &x[node * batch.node_width..(node + 1) * batch.node_width], &hidden);
            add_product(simd, &mut tower[rows], 1.0, &plan.node.rows, &hidden[..plan.node.outputs]);
        }
        add(simd, &mut sums.bias, 1.0, &shared);
        add_outer(simd, &mut sums.joined, &trace.pod, &shared);
        add_outer(simd, &mut sums.context, &trace.context, &shared);
        add_product(simd, &mut pod, 1.0, &plan.joined.rows, &shared[..plan.joined.outputs]);
        add_product(simd, &mut context, 1.0, &plan.context.rows, &shared[..plan.context.outputs]);
        if value != 0.0 {
            let mut slopes = vec![0.0; plan.value_bias.len()];
            add(simd, &mut slopes, value, &plan.value_out);
            gate(&mut slopes, &trace.value);
            add(simd, &mut sums.value_out, value, &trace.value);
            sums.value_out_bias[0] += value;
            add(simd, &mut sums.value_bias, 1.0, &slopes);
            add_outer(simd, &mut sums.value_context, &trace.context, &slopes);
            add_outer(simd, &mut sums.value_pod, &trace.pod, &slopes);
            add_product(simd, &mut context, 1.0, &plan.value_context.rows, &slopes[..plan.value_context.outputs]);
            add_product(simd, &mut pod, 1.0, &plan.value_pod.rows, &slopes[..plan.value_pod.outputs]);
        }
        gate(&mut pod, &trace.pod);
        add(simd, &mut sums.pod_bias, 1.0, &pod);
        add_outer(simd, &mut sums.pod, pod_of(batch, index), &pod);
        let share = 1.0 / count.max(1) as f32;
        let rows = tower.chunks_exact_mut(tower_width).zip(trace.tower.chunks_exact(tower_width));
        for ((slopes, outputs), x) in rows.zip(x.chunks_exact(batch.node_width)) {
            add(simd, slopes, share, &context);
            gate(slopes, outputs);
            add(simd, &mut sums.tower_bias, 1.0, slopes);
            add_outer(simd, &mut sums.tower, &x[..plan.tower.inputs], slopes);
        }
    }
}
