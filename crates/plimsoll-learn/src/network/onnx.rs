//! Networks that were trained elsewhere, in ONNX, with a free number of nodes.
//!
//! Two forms are read: nodes (1 × nodes × features) and pod (1 × features) as two inputs, or the thesis' single input, in which the pod's
//! numbers, if any, stand behind those of each node. The output is a score for each node.

use super::{Batch, INVALID, Network};
use crate::error::LearnError;
use crate::observation::Observation;
use std::path::Path;
use tract_onnx::prelude::*;
use tract_onnx::tract_hir::infer::Factoid;

/// A network in ONNX, ready to run.
pub struct OnnxNetwork {
    plan: Arc<TypedSimplePlan>,
    node_width: usize,
    pod_width: usize,
    form: Form,
}

/// What goes in.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Form {
    /// Nodes alone, with as many numbers for each, in this many dimensions.
    Single { width: usize, rank: usize },
    /// Nodes and pod, at these places.
    Pair { nodes: usize, pod: usize },
}

impl OnnxNetwork {
    /// Reads a file.
    pub fn load(path: &Path, node_width: usize, pod_width: usize) -> Result<Self, LearnError> {
        let bytes = std::fs::read(path).map_err(|error| LearnError::File { path: path.to_owned(), error })?;
        Self::from_bytes(&bytes, node_width, pod_width)
            .map_err(|error| LearnError::Model { path: path.to_owned(), problem: error.to_string() })
    }

    /// Reads the bytes of a file.
    pub fn from_bytes(bytes: &[u8], node_width: usize, pod_width: usize) -> Result<Self, LearnError> {
        // Exporters give the number of nodes a name of their own, in every shape that they note; what follows from the inputs is enough.
        let reader = tract_onnx::onnx().with_ignore_value_info(true).with_ignore_output_shapes(true);
        let mut model = reader.model_for_read(&mut std::io::Cursor::new(bytes)).map_err(unreadable)?;
        let form = form(&model, node_width, pod_width)?;
        let count = model.symbols.sym("nodes").to_dim();
        for (input, shape) in form.shapes(node_width, pod_width, &count) {
            model.set_input_fact(input, f32::fact(shape).into()).map_err(unreadable)?;
        }
        let plan = model.into_optimized().and_then(IntoRunnable::into_runnable).map_err(unreadable)?;
        Ok(Self { plan, node_width, pod_width, form })
    }

    /// A score for each node; [`INVALID`] where it may not be chosen.
    pub fn scores(&self, observation: &Observation) -> Result<Vec<f32>, LearnError> {
        let count = observation.node_count();
        if observation.nodes.len() != count * self.node_width || observation.pod.len() != self.pod_width {
            return Err(LearnError::Invalid(format!(
                "an observation of {count} nodes with {} numbers and a pod of {} does not fit an ONNX network for {} a node and {} a pod",
                observation.nodes.len(),
                observation.pod.len(),
                self.node_width,
                self.pod_width
            )));
        }
        let tensor = |shape: &[usize], values: &[f32]| {
            Tensor::from_shape(shape, values).map(IntoTValue::into_tvalue).map_err(failed)
        };
        let inputs = match self.form {
            Form::Pair { nodes, .. } => {
                let mut inputs: TVec<TValue> = tvec!(
                    tensor(&[1, count, self.node_width], &observation.nodes)?,
                    tensor(&[1, self.pod_width], &observation.pod)?
                );
                if nodes == 1 {
                    inputs.swap(0, 1);
                }
                inputs
            }
            Form::Single { width, rank } => {
                let pod = &observation.pod[..width - self.node_width];
                let row = |node| observation.node(node).iter().chain(pod).copied();
                let rows: Vec<f32> = (0..count).flat_map(row).collect();
                tvec!(tensor(&[1, count, width][3 - rank..], &rows)?)
            }
        };
        let outputs = self.plan.run(inputs).map_err(failed)?;
        let output = outputs.first().ok_or_else(|| LearnError::Invalid("the ONNX network has no output".to_owned()))?;
        let view = output.to_plain_array_view::<f32>().map_err(failed)?;
        if view.len() != count {
            let shape = view.shape();
            return Err(LearnError::Invalid(format!(
                "the ONNX network gives {shape:?} for {count} nodes, not a score for each"
            )));
        }
        Ok(view.iter().zip(&observation.mask).map(|(score, allowed)| if *allowed { *score } else { INVALID }).collect())
    }

    /// Compares it with one of ours on observations: the largest difference of a score; refused if above the tolerance.
    pub fn check<'a>(
        &self,
        network: &Network,
        observations: impl IntoIterator<Item = &'a Observation>,
        tolerance: f32,
    ) -> Result<f32, LearnError> {
        let mut largest = 0.0_f32;
        for (index, observation) in observations.into_iter().enumerate() {
            let ours = network.scores(&Batch::new(network.spec(), [observation])?)?;
            let theirs = self.scores(observation)?;
            for (node, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
                let difference = (ours - theirs).abs();
                if difference.is_nan() || difference > tolerance {
                    return Err(LearnError::Invalid(format!(
                        "the ONNX network gives node {node} of observation {index} {theirs}, ours {ours}: more than {tolerance} apart"
                    )));
                }
                largest = largest.max(difference);
            }
        }
        Ok(largest)
    }
}

impl crate::policy::Scorer for OnnxNetwork {
    fn score(&mut self, observation: &Observation) -> Result<Option<Vec<f32>>, LearnError> {
        self.scores(observation).map(Some)
    }
}

impl Form {
    /// The shape of each input.
    fn shapes(self, node_width: usize, pod_width: usize, count: &TDim) -> Vec<(usize, TVec<TDim>)> {
        let rows = |width: usize| -> TVec<TDim> { tvec!(1.to_dim(), count.clone(), width.to_dim()) };
        match self {
            Self::Single { width, rank } => vec![(0, rows(width).into_iter().skip(3 - rank).collect())],
            Self::Pair { nodes, pod } => {
                vec![(nodes, rows(node_width)), (pod, tvec!(1.to_dim(), pod_width.to_dim()))]
            }
        }
    }
}

/// Which input is what, by the number of dimensions, or else by name.
fn form(model: &InferenceModel, node_width: usize, pod_width: usize) -> Result<Form, LearnError> {
    let outlets = model.input_outlets().map_err(unreadable)?;
    let shape = |input: usize| -> Result<(Option<usize>, Option<i64>), LearnError> {
        let shape = &model.input_fact(input).map_err(unreadable)?.shape;
        let rank = shape.rank().concretize().map(|rank| rank as usize);
        let last = rank.and_then(|rank| shape.dim(rank - 1)).and_then(|dim| dim.concretize());
        Ok((rank, last.and_then(|dim| dim.to_i64().ok())))
    };
    match outlets.len() {
        1 => {
            let (rank, last) = shape(0)?;
            let rank = rank.unwrap_or(3);
            let width = last.map_or(node_width + pod_width, |last| last as usize);
            if !(2..=3).contains(&rank) || (width != node_width && width != node_width + pod_width) {
                return Err(LearnError::Invalid(format!(
                    "its input has {rank} dimensions and {width} numbers a node; expected 1 × nodes × {node_width}"
                )));
            }
            Ok(Form::Single { width, rank })
        }
        2 => {
            let name = |input: usize| model.node(outlets[input].node).name.as_str();
            let swapped = match (shape(0)?.0, shape(1)?.0) {
                (Some(3), Some(2)) => false,
                (Some(2), Some(3)) => true,
                _ => name(0) == "pod" || name(1) == "nodes",
            };
            Ok(if swapped { Form::Pair { nodes: 1, pod: 0 } } else { Form::Pair { nodes: 0, pod: 1 } })
        }
        inputs => Err(LearnError::Invalid(format!("it has {inputs} inputs; expected nodes, or nodes and pod"))),
    }
}

fn unreadable(error: TractError) -> LearnError {
    LearnError::Invalid(format!("not an ONNX network that can be run: {error:#}"))
}

fn failed(error: TractError) -> LearnError {
    LearnError::Invalid(format!("the ONNX network cannot be run: {error:#}"))
}

#[cfg(test)]
mod tests;
