//! What every network must keep: node order and padding do not matter, forbidden nodes are never chosen, weights survive a file.

use super::*;
use crate::observation::Observation;
use plimsoll_core::rng::Rng;
use proptest::prelude::*;

const NODE_WIDTH: usize = 5;
const POD_WIDTH: usize = 3;

fn spec(kind: NetworkKind) -> NetworkSpec {
    let mut spec = NetworkSpec::new(kind, NODE_WIDTH, POD_WIDTH);
    if kind == NetworkKind::Graph {
        spec.sizes.insert("calls".to_owned(), 2);
    }
    spec
}

/// Observations of 1 to 9 nodes, at least one of them allowed.
fn observation() -> impl Strategy<Value = Observation> {
    (1_usize..10).prop_flat_map(|count| {
        (
            prop::collection::vec(-2.0_f32..2.0, count * NODE_WIDTH),
            prop::collection::vec(-2.0_f32..2.0, POD_WIDTH),
            prop::collection::vec(any::<bool>(), count),
            prop::collection::vec((0_u32..3, 0_u32..2), count),
            0..count,
        )
            .prop_map(|(nodes, pod, mut mask, places, allowed)| {
                mask[allowed] = true;
                let places = places.into_iter().map(|(zone, region)| [zone, region]).collect();
                Observation { node_width: NODE_WIDTH, nodes, pod, mask, places }
            })
    })
}

fn kind() -> impl Strategy<Value = NetworkKind> {
    prop::sample::select(NetworkKind::ALL.to_vec())
}

fn permuted(observation: &Observation, order: &[usize]) -> Observation {
    Observation {
        nodes: order.iter().flat_map(|index| observation.node(*index).to_vec()).collect(),
        mask: order.iter().map(|index| observation.mask[*index]).collect(),
        places: order.iter().map(|index| observation.places[*index]).collect(),
        ..observation.clone()
    }
}

fn close(a: f32, b: f32) -> bool {
    (a - b).abs() <= 1e-4 * (1.0 + a.abs().max(b.abs()))
}

fn check(network: &Network, batch: &Batch) -> (Vec<f32>, f32) {
    let (scores, values) = network.scores_and_values(batch).unwrap();
    // The fast way, if there is one, must agree with burn's.
    let (burn, burn_values) = network.burn_scores_and_values(batch).unwrap();
    assert!(burn.iter().zip(&scores).all(|(a, b)| close(*a, *b)), "{scores:?} is not {burn:?}");
    assert!(burn_values.iter().zip(&values).all(|(a, b)| close(*a, *b)), "{values:?} is not {burn_values:?}");
    (scores, values[0])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn permuting_nodes_permutes_scores(kind in kind(), seen in observation(), seed in any::<u64>()) {
        let network = Network::new(&spec(kind), seed).unwrap();
        let mut order: Vec<usize> = (0..seen.node_count()).collect();
        let mut rng = Rng::new(seed);
        (1..order.len()).rev().for_each(|index| order.swap(index, rng.below(index + 1)));
        let (scores, value) = check(&network, &Batch::new(network.spec(), [&seen]).unwrap());
        let (other, other_value) = check(&network, &Batch::new(network.spec(), [&permuted(&seen, &order)]).unwrap());
        prop_assert!(close(value, other_value), "{kind}: value {value} became {other_value}");
        for (index, from) in order.iter().enumerate() {
            prop_assert!(close(other[index], scores[*from]), "{kind}: {scores:?} became {other:?} in order {order:?}");
        }
    }

    #[test]
    fn padding_changes_nothing(kind in kind(), seen in observation(), more in 1_usize..6, seed in any::<u64>()) {
        let network = Network::new(&spec(kind), seed).unwrap();
        let count = seen.node_count();
        let (scores, value) = check(&network, &Batch::new(network.spec(), [&seen]).unwrap());
        let padded = Batch::padded(network.spec(), [&seen], count + more).unwrap();
        let (other, other_value) = check(&network, &padded);
        prop_assert!(close(value, other_value), "{kind}: value {value} became {other_value}");
        prop_assert!(scores.iter().zip(&other).all(|(a, b)| close(*a, *b)), "{kind}: {scores:?} became {other:?}");
        prop_assert!(other[count..].iter().all(|score| *score == INVALID));
    }

    #[test]
    fn neighbours_in_a_batch_change_nothing(kind in kind(), a in observation(), b in observation(), seed in any::<u64>()) {
        let network = Network::new(&spec(kind), seed).unwrap();
        let (alone, _) = check(&network, &Batch::new(network.spec(), [&b]).unwrap());
        let batch = Batch::new(network.spec(), [&a, &b]).unwrap();
        let (both, _) = check(&network, &batch);
        prop_assert!(alone.iter().zip(batch.row(&both, 1)).all(|(a, b)| close(*a, *b)), "{kind}: {alone:?} in {both:?}");
    }

    #[test]
    fn forbidden_nodes_are_never_chosen(kind in kind(), seen in observation(), seed in any::<u64>(), scale in 1.0_f32..1e4) {
        let mut network = Network::new(&spec(kind), seed).unwrap();
        network.weights_mut().values_mut().for_each(|tensor| tensor.data.iter_mut().for_each(|value| *value *= scale.sqrt()));
        let batch = Batch::new(network.spec(), [&seen]).unwrap();
        let scores = network.scores(&batch).unwrap();
        let chosen = batch.best(&scores, 0);
        prop_assert!(seen.mask[chosen], "{kind}: chose {chosen} of {:?} by {scores:?}", seen.mask);
        for (score, allowed) in scores.iter().zip(&seen.mask) {
            prop_assert_eq!(*score == INVALID, !allowed);
        }
    }

    #[test]
    fn weights_survive_a_file_bit_for_bit(kind in kind(), seen in observation(), seed in any::<u64>()) {
        let network = Network::new(&spec(kind), seed).unwrap();
        let bytes = model::weights_to_bytes(network.weights()).unwrap();
        let path = std::env::temp_dir().join(format!("plimsoll-weights-{}-{kind}-{seed}", std::process::id()));
        model::write_whole(&path, &bytes).unwrap();
        let read = model::read_weights(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        prop_assert_eq!(&read, network.weights());
        let card = network.card();
        let again = Network::with_weights(&NetworkSpec::from_card(&card, NODE_WIDTH, POD_WIDTH).unwrap(), read).unwrap();
        let batch = Batch::new(network.spec(), [&seen]).unwrap();
        prop_assert_eq!(again.scores(&batch).unwrap(), network.scores(&batch).unwrap());
    }
}

/// The slope of a loss along its own gradient, beside the gradient's squared length: they must be equal.
fn slope_along_gradient(kind: NetworkKind, seed: u64) -> (f64, f64) {
    let mut rng = Rng::new(seed);
    let mut number = || rng.unit() as f32 * 2.0 - 1.0;
    let seen: Vec<Observation> = (0..4)
        .map(|index| Observation {
            node_width: NODE_WIDTH,
            nodes: (0..(3 + index) * NODE_WIDTH).map(|_| number()).collect(),
            pod: (0..POD_WIDTH).map(|_| number()).collect(),
            mask: vec![true; 3 + index],
            places: (0..3 + index).map(|node| [node as u32 % 2, 0]).collect(),
        })
        .collect();
    let mut network = Network::new(&spec(kind), seed).unwrap();
    let batch = Batch::new(network.spec(), &seen).unwrap();
    // As of a policy's loss: slopes in all scores and in the values.
    let count = batch.size * batch.nodes;
    let slopes = Slopes {
        scores: (0..count).map(|place| if batch.mask[place] { (place as f32).sin() } else { 0.0 }).collect(),
        values: vec![0.5, -0.2, 0.3, 0.9],
    };
    let gradients = network.gradients(&batch, &mut |_, _| Ok(slopes.clone())).unwrap();
    let squared: f64 = gradients.values().flat_map(|tensor| &tensor.data).map(|value| f64::from(*value).powi(2)).sum();
    let step = 2e-4 / squared.sqrt();
    let mut shift = |by: f64| {
        for (name, tensor) in network.weights_mut().iter_mut() {
            let gradient = &gradients[name].data;
            tensor.data.iter_mut().zip(gradient).for_each(|(weight, slope)| *weight += (by * f64::from(*slope)) as f32);
        }
        let (scores, values) = network.scores_and_values(&batch).unwrap();
        let sum = |slopes: &[f32], outputs: &[f32]| -> f64 {
            let both = slopes.iter().zip(outputs).filter(|(slope, _)| **slope != 0.0);
            both.map(|(slope, output)| f64::from(*slope) * f64::from(*output)).sum()
        };
        sum(&slopes.scores, &scores) + sum(&slopes.values, &values)
    };
    let (above, below) = (shift(step), shift(-2.0 * step));
    ((above - below) / (2.0 * step), squared)
}

#[test]
fn gradients_are_those_of_differences() {
    for kind in NetworkKind::ALL {
        let pairs: Vec<(f64, f64)> = (0..20).map(|seed| slope_along_gradient(kind, seed)).collect();
        // A few may step over the kink of a ReLU or of a maximum.
        let equal = pairs.iter().filter(|(measured, squared)| (measured - squared).abs() < 0.02 * squared).count();
        assert!(equal >= 17, "{kind}: {pairs:?}");
    }
}

/// Decisions of 1 to 20 nodes, with 16 features for a node and 4 for a pod, more than go into one group.
fn decisions() -> Vec<Observation> {
    let mut rng = Rng::new(2);
    let mut number = || rng.unit() as f32 * 2.0 - 1.0;
    let one = |index: usize| {
        let count = 1 + index % 20;
        Observation {
            node_width: 16,
            nodes: (0..count * 16).map(|_| number()).collect(),
            pod: (0..4).map(|_| number()).collect(),
            mask: (0..count).map(|node| node % 4 != 1).collect(),
            places: Vec::new(),
        }
    };
    (0..37).map(one).collect()
}

#[test]
fn the_fast_way_back_finds_the_gradients_that_burn_finds() {
    let seen = decisions();
    for kind in [NetworkKind::Deepsets, NetworkKind::Factored] {
        let mut spec = NetworkSpec::new(kind, 16, 4);
        if kind == NetworkKind::Factored {
            spec.sizes.insert("tower_inputs".to_owned(), 11);
        }
        let network = Network::new(&spec, 11).unwrap();
        let batch = Batch::new(&spec, &seen).unwrap();
        let dense = |place: usize| if batch.mask[place] { (place as f32).sin() } else { 0.0 };
        // As of Q-learning, with one score a decision, and as of a policy's loss.
        let sparse = |place: usize| if place.is_multiple_of(batch.nodes) { (place as f32).cos() } else { 0.0 };
        let values: Vec<f32> = (0..seen.len()).map(|row| (row as f32).cos()).collect();
        for (scores, values) in [(&sparse as &dyn Fn(usize) -> f32, Vec::new()), (&dense, values)] {
            let scores = (0..batch.mask.len()).map(scores).collect();
            let slopes = Slopes { scores, values };
            let fast = network.gradients(&batch, &mut |_, _| Ok(slopes.clone())).unwrap();
            let burn = network.burn_gradients(&batch, &mut |_, _| Ok(slopes.clone())).unwrap();
            assert_eq!(fast.len(), burn.len());
            for (name, burn) in burn {
                for (place, (fast, burn)) in fast[&name].data.iter().zip(&burn.data).enumerate() {
                    let close = (fast - burn).abs() < 2e-4 * (1.0 + burn.abs());
                    assert!(close, "{kind}: {name} at {place}: {fast} is not {burn}");
                }
            }
        }
    }
}

#[cfg(feature = "tch")]
#[test]
fn libtorch_finds_the_scores_values_and_gradients_that_burn_finds() {
    let seen = decisions();
    for kind in NetworkKind::ALL {
        let network = Network::new(&NetworkSpec::new(kind, 16, 4), 11).unwrap();
        let batch = Batch::new(network.spec(), &seen).unwrap();
        let on = |compute: Compute| {
            let device = compute.device();
            let parameters = Parameters::new(&network.weights, &device).learning();
            let Output { scores, values } = network.architecture.forward(&parameters, &Inputs::new(&batch, &device));
            let mut found = (scores.clone().clamp_min(-1.0).sum() + values.clone().sum()).backward();
            let gradients =
                parameters.0.values().map(|tensor| to_vec(tensor.grad_remove(&mut found).unwrap()).unwrap());
            let mut all: Vec<Vec<f32>> = gradients.collect();
            all.extend([to_vec(scores.inner()).unwrap(), to_vec(values.inner()).unwrap()]);
            all
        };
        for (array, (torch, burn)) in on(Compute::Torch).iter().zip(on(Compute::Processor)).enumerate() {
            assert_eq!(torch.len(), burn.len(), "{kind}: array {array}");
            let differs = torch.iter().zip(&burn).position(|(a, b)| !close(*a, *b));
            assert_eq!(differs, None, "{kind}: array {array}: {torch:?} is not {burn:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_scheduler_that_remembers_towers_agrees_with_burn(
        seen in observation(),
        tower_inputs in 1_usize..=NODE_WIDTH,
        seed in any::<u64>(),
    ) {
        use crate::policy::fused::{Factored, Sizes};
        let (tower, hidden) = (4, 6);
        let mut spec = spec(NetworkKind::Factored);
        let sizes = [("tower", tower), ("hidden", hidden), ("tower_inputs", tower_inputs)];
        spec.sizes = sizes.map(|(name, size)| (name.to_owned(), size)).into();
        let network = Network::new(&spec, seed).unwrap();
        let sizes = Sizes { tower_inputs, node: NODE_WIDTH, pod: POD_WIDTH, tower, hidden };
        let mut fused = Factored::new(&sizes, network.weights()).unwrap();
        // One that was there before and left must be forgotten.
        fused.renew(seen.node_count(), Some(&[1.0; NODE_WIDTH][..tower_inputs]));
        for node in 0..seen.node_count() {
            fused.renew(node, Some(&seen.node(node)[..tower_inputs]));
        }
        fused.renew(seen.node_count(), None);
        fused.begin(&seen.pod);
        let (scores, _) = check(&network, &Batch::new(&spec, [&seen]).unwrap());
        for node in (0..seen.node_count()).filter(|node| seen.mask[*node]) {
            let fused = fused.score(node, seen.node(node));
            prop_assert!(close(fused, scores[node]), "{fused} is not {}", scores[node]);
        }
    }
}

#[test]
fn graph_network_hears_its_zone_alone_in_zone_messages() {
    let mut spec = spec(NetworkKind::Graph);
    spec.sizes.insert("rounds".to_owned(), 1);
    let mut network = Network::new(&spec, 3).unwrap();
    for name in ["round0.region", "round0.all", "round0.calls"] {
        network.weights_mut().get_mut(name).unwrap().data.fill(0.0);
    }
    let mut seen = Observation {
        node_width: NODE_WIDTH,
        nodes: (0..4 * NODE_WIDTH).map(|index| (index as f32 * 0.7).sin()).collect(),
        pod: vec![0.3; POD_WIDTH],
        mask: vec![true; 4],
        places: vec![[0, 0], [0, 0], [1, 0], [1, 0]],
    };
    let scores = |seen: &Observation| network.scores(&Batch::new(&spec, [seen]).unwrap()).unwrap();
    let before = scores(&seen);
    seen.nodes[3 * NODE_WIDTH..].fill(1.5);
    let after = scores(&seen);
    assert_eq!(before[..2], after[..2], "a node of another zone was heard");
    assert_ne!(before[2], after[2], "a node of the same zone was not heard");
}

#[test]
fn sizes_and_weights_that_do_not_fit_are_refused() {
    let refused = |change: &dyn Fn(&mut NetworkSpec)| {
        let mut spec = spec(NetworkKind::Attention);
        change(&mut spec);
        Network::new(&spec, 1).err().expect("must be refused").to_string()
    };
    let set = |name: &'static str, value: usize| {
        move |spec: &mut NetworkSpec| {
            spec.sizes.insert(name.to_owned(), value);
        }
    };
    assert!(refused(&set("widht", 8)).contains("there are width, heads, hidden"));
    assert!(refused(&set("heads", 5)).contains("not a multiple"));
    assert!(refused(&set("hidden", 0)).contains("must be 1 or more"));
    assert!(refused(&|spec| spec.node_width = 0).contains("no features"));
    let factored = Network::new(&spec(NetworkKind::Factored), 1).unwrap();
    let other =
        Network::with_weights(&NetworkSpec::new(NetworkKind::Factored, 6, POD_WIDTH), factored.weights().clone());
    assert!(other.err().unwrap().to_string().contains("\"tower.weight\" is [24, 5], not [24, 6]"));
    let mut weights = factored.weights().clone();
    weights.get_mut("out.bias").unwrap().data[0] = f32::NAN;
    assert!(Network::with_weights(factored.spec(), weights).err().unwrap().to_string().contains("not finite"));
}

#[test]
fn deepsets_computes_lambda_of_x_minus_gamma_of_the_maximum() {
    let mut spec = NetworkSpec::new(NetworkKind::Deepsets, 1, 0);
    spec.sizes = [("first".to_owned(), 1), ("second".to_owned(), 1)].into();
    let mut network = Network::new(&spec, 1).unwrap();
    for (name, value) in [("lambda.weight", 2.0), ("lambda.bias", 5.0), ("gamma.weight", 1.0)] {
        for layer in 1..=3 {
            network.weights_mut().get_mut(&format!("layer{layer}.{name}")).unwrap().data.fill(value);
        }
    }
    let seen = Observation { node_width: 1, nodes: vec![1.0, 3.0], mask: vec![true, true], ..Observation::default() };
    // First: 2x + 5 - 3 = [4, 8]; second: 2x + 5 - 8 = [5, 13]; third: 2x + 5 - 13 = [2, 18].
    let scores = network.scores(&Batch::new(&spec, [&seen]).unwrap()).unwrap();
    assert_eq!(scores, [2.0, 18.0]);
}
