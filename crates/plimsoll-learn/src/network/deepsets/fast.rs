//! DeepSets without burn.
//!
//! A loss on few scores of a decision leaves few traces: the rows of those nodes, and in each layer the one node at which each feature is at
//! its maximum. Following only those, the way back of Q-learning costs a tenth of the way forth. One decision's rows fit into the
//! processor's cache, so each goes through all layers before the next.

use crate::model::Weights;
use crate::network::kernel::{self, Matrix, Through, add, add_outer, add_product, dot, gate, pod_of};
use crate::network::kernel::{rows_of, rows_through};
use crate::network::{Batch, Gradients};
use pulp::{Arch, Simd, WithSimd};

/// The weights.
pub struct Plan {
    node_width: usize,
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
    value: Vec<f32>,
    value_bias: f32,
}

/// What a decision leaves behind: outputs of the layers, their maxima and where those are.
#[derive(Default)]
pub struct Trace {
    inputs_most: Vec<f32>,
    first: Vec<f32>,
    first_most: Vec<f32>,
    first_at: Vec<u32>,
    second: Vec<f32>,
    second_most: Vec<f32>,
    second_at: Vec<u32>,
    scores: Vec<f32>,
    value: f32,
}

/// Gradients: of the first layer inputs × padded outputs, of the second outputs × padded inputs.
pub struct Sums {
    lambda1: Vec<f32>,
    gamma1: Vec<f32>,
    pod1: Vec<f32>,
    bias1: Vec<f32>,
    lambda2: Vec<f32>,
    gamma2: Vec<f32>,
    bias2: Vec<f32>,
    lambda3: Vec<f32>,
    gamma3: Vec<f32>,
    bias3: Vec<f32>,
    value: Vec<f32>,
    value_bias: Vec<f32>,
}

impl Plan {
    pub fn new(weights: &Weights, node_width: usize) -> Self {
        let get = |name: &str| &weights[name];
        let (lambda1, gamma1) = (get("layer1.lambda.weight"), get("layer1.gamma.weight"));
        let width = lambda1.shape[1];
        let mut difference = lambda1.clone();
        difference.data.iter_mut().zip(&gamma1.data).for_each(|(value, gamma)| *value -= gamma);
        Self {
            node_width,
            lambda1: Matrix::part(lambda1, 0, node_width),
            gamma1: Matrix::part(gamma1, 0, node_width),
            pod1: Matrix::part(&difference, node_width, width),
            bias1: kernel::vector(get("layer1.lambda.bias")),
            lambda2: Matrix::new(get("layer2.lambda.weight")),
            gamma2: Matrix::new(get("layer2.gamma.weight")),
            bias2: kernel::vector(get("layer2.lambda.bias")),
            lambda3: kernel::vector(get("layer3.lambda.weight")),
            gamma3: kernel::vector(get("layer3.gamma.weight")),
            bias3: get("layer3.lambda.bias").data[0],
            value: kernel::vector(get("value.weight")),
            value_bias: get("value.bias").data[0],
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
        (&trace.scores, trace.value)
    }

    fn zero(&self) -> Sums {
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
            bias3: vec![0.0],
            value: zeros(&self.value),
            value_bias: vec![0.0],
        }
    }

    fn back(&self, batch: &Batch, index: usize, trace: &Trace, slopes: (&[f32], f32), sums: &mut Sums) {
        Arch::new().dispatch(Back { plan: self, batch, index, trace, slopes, sums });
    }

    fn arrays(sums: &mut Sums) -> Vec<&mut Vec<f32>> {
        vec![
            &mut sums.lambda1,
            &mut sums.gamma1,
            &mut sums.pod1,
            &mut sums.bias1,
            &mut sums.lambda2,
            &mut sums.gamma2,
            &mut sums.bias2,
            &mut sums.lambda3,
            &mut sums.gamma3,
            &mut sums.bias3,
            &mut sums.value,
            &mut sums.value_bias,
        ]
    }

    fn gradients(&self, sums: &Sums, weights: &Weights) -> Gradients {
        // The pod's numbers stand behind the node's; their maximum is themselves, so Gamma's slope is Lambda's, turned round.
        let first = |of_nodes: &[f32], sign: f32| {
            let of_pod = sums.pod1.iter().map(|value| sign * value);
            kernel::transposed(&of_nodes.iter().copied().chain(of_pod).collect::<Vec<f32>>(), self.lambda1.outputs)
        };
        let data = |name: &str| match name {
            "layer1.lambda.weight" => first(&sums.lambda1, 1.0),
            "layer1.gamma.weight" => first(&sums.gamma1, -1.0),
            "layer1.lambda.bias" => sums.bias1.clone(),
            "layer2.lambda.weight" => kernel::unpadded(&sums.lambda2, self.lambda2.inputs),
            "layer2.gamma.weight" => kernel::unpadded(&sums.gamma2, self.gamma2.inputs),
            "layer2.lambda.bias" => sums.bias2.clone(),
            "layer3.lambda.weight" => sums.lambda3.clone(),
            "layer3.gamma.weight" => sums.gamma3.clone(),
            "layer3.lambda.bias" => sums.bias3.clone(),
            "value.weight" => sums.value.clone(),
            _ => sums.value_bias.clone(),
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
        let (_, x) = rows_of(batch, index);
        most_of(x, plan.node_width, &mut trace.inputs_most, &mut trace.first_at);
        let mut shared = plan.bias1.clone();
        add_product(simd, &mut shared, -1.0, &plan.gamma1.columns, &trace.inputs_most);
        add_product(simd, &mut shared, 1.0, &plan.pod1.columns, pod_of(batch, index));
        let stride = shared.len();
        let through = Through { matrix: &plan.lambda1, stride: plan.node_width, start: Some(&shared), relu: true };
        rows_through(simd, x, through, &mut trace.first);
        most_of(&trace.first, stride, &mut trace.first_most, &mut trace.first_at);
        let mut shared = plan.bias2.clone();
        add_product(simd, &mut shared, -1.0, &plan.gamma2.columns, &trace.first_most);
        let through = Through { matrix: &plan.lambda2, stride, start: Some(&shared), relu: true };
        rows_through(simd, &trace.first, through, &mut trace.second);
        most_of(&trace.second, shared.len(), &mut trace.second_most, &mut trace.second_at);
        let common = plan.bias3 - dot(simd, &trace.second_most, &plan.gamma3);
        trace.scores.clear();
        for row in trace.second.chunks_exact(shared.len()) {
            trace.scores.push(common + dot(simd, row, &plan.lambda3));
        }
        trace.value = dot(simd, &trace.second_most, &plan.value) + plan.value_bias;
    }
}

/// Slopes on the way back through the second layer.
struct Second {
    /// In the outputs of the first layer.
    first: Vec<f32>,
    /// Which of its rows have any.
    touched: Vec<bool>,
    /// In what the second layer adds to all nodes.
    shared: Vec<f32>,
}

impl Second {
    /// Follows the slope in one output of one node. Not a closure: what is not inlined loses the processor's wide vectors.
    #[inline(always)]
    fn follow<S: Simd>(&mut self, simd: S, plan: &Plan, trace: &Trace, sums: &mut Sums, at: (usize, usize, f32)) {
        let (node, output, slope) = at;
        let width = plan.bias1.len();
        let (row, weight) = (node * width..(node + 1) * width, output * width..(output + 1) * width);
        add(simd, &mut sums.lambda2[weight.clone()], slope, &trace.first[row.clone()]);
        add(simd, &mut self.first[row], slope, &plan.lambda2.rows[weight]);
        self.touched[node] = true;
        self.shared[output] += slope;
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
        let Self { plan, trace, slopes: (scores, value), .. } = self;
        let sums = &mut *self.sums;
        let (first_width, second_width) = (plan.bias1.len(), plan.bias2.len());
        let count = trace.first.len() / first_width;
        let total: f32 = scores[..count].iter().sum();
        sums.bias3[0] += total;
        sums.value_bias[0] += value;
        add(simd, &mut sums.gamma3, -total, &trace.second_most);
        add(simd, &mut sums.value, value, &trace.second_most);
        let mut slopes = Second {
            first: vec![0.0; count * first_width],
            touched: vec![false; count],
            shared: vec![0.0; second_width],
        };
        for (node, slope) in scores[..count].iter().enumerate().filter(|(_, slope)| **slope != 0.0) {
            let row = &trace.second[node * second_width..(node + 1) * second_width];
            add(simd, &mut sums.lambda3, *slope, row);
            // Below zero a ReLU lets nothing through.
            for (output, _) in row.iter().enumerate().filter(|(_, output)| **output > 0.0) {
                slopes.follow(simd, plan, trace, sums, (node, output, slope * plan.lambda3[output]));
            }
        }
        for (output, _) in trace.second_most.iter().enumerate().filter(|(_, most)| **most > 0.0) {
            let slope = value * plan.value[output] - total * plan.gamma3[output];
            slopes.follow(simd, plan, trace, sums, (trace.second_at[output] as usize, output, slope));
        }
        let Second { mut first, mut touched, shared } = slopes;
        let mut first_most = vec![0.0; first_width];
        add(simd, &mut sums.bias2, 1.0, &shared);
        for (output, slope) in shared.iter().enumerate().filter(|(_, slope)| **slope != 0.0) {
            let weight = output * first_width..(output + 1) * first_width;
            add(simd, &mut sums.gamma2[weight.clone()], -slope, &trace.first_most);
            add(simd, &mut first_most, -slope, &plan.gamma2.rows[weight]);
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
        let (_, x) = rows_of(batch, index);
        let mut shared = vec![0.0; width];
        let rows =
            slopes.chunks_exact_mut(width).zip(trace.first.chunks_exact(width)).zip(x.chunks_exact(plan.node_width));
        for (((slopes, outputs), x), _) in rows.zip(touched).filter(|(_, touched)| **touched) {
            gate(slopes, outputs);
            add_outer(simd, &mut sums.lambda1, x, slopes);
            add(simd, &mut shared, 1.0, slopes);
        }
        add(simd, &mut sums.bias1, 1.0, &shared);
        add_outer(simd, &mut sums.pod1, pod_of(batch, index), &shared);
        shared.iter_mut().for_each(|slope| *slope = -*slope);
        add_outer(simd, &mut sums.gamma1, &trace.inputs_most, &shared);
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
