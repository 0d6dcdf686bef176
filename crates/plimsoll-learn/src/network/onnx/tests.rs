use super::*;
use crate::network::{NetworkKind, NetworkSpec};
use crate::protobuf::{bytes as field, number as whole};
use plimsoll_core::rng::Rng;

/// `output = operator(inputs)`.
fn node(operator: &str, inputs: &[&str], output: &str, attributes: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes: Vec<u8> = inputs.iter().flat_map(|input| field(1, input.as_bytes())).collect();
    bytes.extend([field(2, output.as_bytes()), field(3, output.as_bytes()), field(4, operator.as_bytes())].concat());
    bytes.extend(attributes.iter().flat_map(|attribute| field(5, attribute)));
    field(1, &bytes)
}

/// The maximum over nodes.
fn most(input: &str, output: &str) -> Vec<u8> {
    let axes = [field(1, b"axes"), whole(8, 1), whole(20, 7)].concat();
    let keep = [field(1, b"keepdims"), whole(3, 1), whole(20, 2)].concat();
    node("ReduceMax", &[input], output, &[axes, keep])
}

/// Numbers that belong to the file.
fn numbers(name: &str, shape: &[usize], values: &[f32]) -> Vec<u8> {
    let mut bytes: Vec<u8> = shape.iter().flat_map(|length| whole(1, *length as u64)).collect();
    bytes.extend([whole(2, 1), field(8, name.as_bytes())].concat());
    bytes.extend(field(9, &values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>()));
    field(5, &bytes)
}

/// An input (11) or output (12) of the graph; lengths of 0 are free.
fn port(kind: u64, name: &str, shape: &[usize]) -> Vec<u8> {
    let length = |length: &usize| match length {
        0 => field(1, &field(2, b"N")),
        length => field(1, &whole(1, *length as u64)),
    };
    let shape: Vec<u8> = shape.iter().flat_map(length).collect();
    let tensor = [whole(1, 1), field(2, &shape)].concat();
    field(kind, &[field(1, name.as_bytes()), field(2, &field(1, &tensor))].concat())
}

fn file(graph: &[Vec<u8>]) -> Vec<u8> {
    let graph = [field(2, b"test"), graph.concat()].concat();
    [whole(1, 7), field(7, &graph), field(8, &whole(2, 13))].concat()
}

fn transposed(tensor: &crate::model::Tensor) -> (Vec<usize>, Vec<f32>) {
    let (outputs, inputs) = (tensor.shape[0], tensor.shape[1]);
    let value = |index: usize| tensor.data[index % outputs * inputs + index / outputs];
    (vec![inputs, outputs], (0..outputs * inputs).map(value).collect())
}

/// The thesis' network, as an exporter would write it.
fn deepsets(network: &Network, width: usize) -> Vec<u8> {
    let mut graph = vec![port(11, "x0", &[1, 0, width]), port(12, "scores", &[1, 0, 1])];
    for layer in 1..=3 {
        let [x, m, a, b, g, y] = ["x", "m", "a", "b", "g", "y"].map(|name| format!("{name}{layer}"));
        let from = format!("x{}", layer - 1);
        for (name, weights) in [("lambda", "lambda.weight"), ("gamma", "gamma.weight")] {
            let (shape, values) = transposed(&network.weights()[&format!("layer{layer}.{weights}")]);
            graph.push(numbers(&format!("{name}{layer}"), &shape, &values));
        }
        let bias = &network.weights()[&format!("layer{layer}.lambda.bias")];
        graph.push(numbers(&format!("bias{layer}"), &bias.shape, &bias.data));
        graph.push(node("MatMul", &[&from, &format!("lambda{layer}")], &a, &[]));
        graph.push(node("Add", &[&a, &format!("bias{layer}")], &b, &[]));
        graph.push(most(&from, &m));
        graph.push(node("MatMul", &[&m, &format!("gamma{layer}")], &g, &[]));
        let result = if layer == 3 { "scores" } else { y.as_str() };
        graph.push(node("Sub", &[&b, &g], result, &[]));
        if layer < 3 {
            graph.push(node("Relu", &[&y], &x, &[]));
        }
    }
    file(&graph)
}

fn observations(node_width: usize, pod_width: usize) -> Vec<Observation> {
    let mut rng = Rng::new(8);
    [1, 2, 7, 40]
        .map(|count| Observation {
            node_width,
            nodes: (0..count * node_width).map(|_| rng.unit() as f32 - 0.5).collect(),
            pod: (0..pod_width).map(|_| rng.unit() as f32 - 0.5).collect(),
            mask: (0..count).map(|index| index % 3 != 1).collect(),
            places: Vec::new(),
        })
        .to_vec()
}

#[test]
fn a_network_of_the_thesis_form_scores_as_ours_does_for_any_number_of_nodes() {
    for pod_width in [0, 3] {
        let network = Network::new(&NetworkSpec::new(NetworkKind::Deepsets, 6, pod_width), 5).unwrap();
        let onnx = OnnxNetwork::from_bytes(&deepsets(&network, 6 + pod_width), 6, pod_width).unwrap();
        let largest = onnx.check(&network, &observations(6, pod_width), 1e-4).unwrap();
        assert!(largest < 1e-4, "{largest}");
        let other = Network::new(network.spec(), 6).unwrap();
        let refused = onnx.check(&other, &observations(6, pod_width), 1e-4).unwrap_err().to_string();
        assert!(refused.contains("more than 0.0001 apart"), "{refused}");
    }
}

#[test]
fn nodes_and_pod_may_be_two_inputs_in_either_order() {
    let ports = [port(11, "nodes", &[1, 0, 2]), port(11, "pod", &[1, 2])];
    for order in [[0, 1], [1, 0]] {
        let mut graph: Vec<Vec<u8>> = order.iter().map(|index| ports[*index].clone()).collect();
        graph.extend([
            port(12, "scores", &[1, 0, 1]),
            numbers("w", &[2, 1], &[1.0, 10.0]),
            numbers("v", &[2, 1], &[100.0, 1000.0]),
            node("MatMul", &["nodes", "w"], "a", &[]),
            node("MatMul", &["pod", "v"], "b", &[]),
            node("Add", &["a", "b"], "scores", &[]),
        ]);
        let onnx = OnnxNetwork::from_bytes(&file(&graph), 2, 2).unwrap();
        let seen = Observation {
            node_width: 2,
            nodes: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
            pod: vec![1.0, 2.0],
            mask: vec![true, false, true],
            places: Vec::new(),
        };
        assert_eq!(onnx.scores(&seen).unwrap(), [2121.0, INVALID, 2165.0]);
    }
}

#[test]
fn what_cannot_be_run_is_refused_in_words() {
    let refused = |bytes: &[u8]| OnnxNetwork::from_bytes(bytes, 6, 0).err().unwrap().to_string();
    assert!(refused(b"not onnx at all").contains("not an ONNX network"));
    let network = Network::new(&NetworkSpec::new(NetworkKind::Deepsets, 4, 0), 5).unwrap();
    let wrong = refused(&deepsets(&network, 4));
    assert!(wrong.contains("4 numbers a node; expected 1 × nodes × 6"), "{wrong}");
}
