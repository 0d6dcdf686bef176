//! A network that PyTorch trained and exported scores here as it does there. `benches/python/export_onnx.py` makes the files anew.

#![cfg(feature = "onnx")]
#![expect(clippy::unwrap_used, reason = "test code")]

use plimsoll_learn::import::{Sees, import};
use plimsoll_learn::model::{self, Card, NetworkCard};
use plimsoll_learn::network::onnx::OnnxNetwork;
use plimsoll_learn::network::{Network, NetworkKind, NetworkSpec};
use plimsoll_learn::observation::Observation;
use plimsoll_learn::{models, workshop};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Deserialize)]
struct Answers {
    node_width: usize,
    pod_width: usize,
    first: usize,
    second: usize,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    nodes: Vec<f32>,
    pod: Vec<f32>,
    scores: Vec<f32>,
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/onnx").join(name)
}

fn answers() -> (Answers, Vec<(Observation, Vec<f32>)>) {
    let answers: Answers = serde_json::from_slice(&std::fs::read(file("deepsets.json")).unwrap()).unwrap();
    let observation = |case: &Case| Observation {
        node_width: answers.node_width,
        nodes: case.nodes.clone(),
        pod: case.pod.clone(),
        mask: vec![true; case.scores.len()],
        places: vec![[0; 2]; case.scores.len()],
    };
    let cases = answers.cases.iter().map(|case| (observation(case), case.scores.clone())).collect();
    (answers, cases)
}

fn spec(answers: &Answers) -> NetworkSpec {
    let sizes = BTreeMap::from([("first".to_owned(), answers.first), ("second".to_owned(), answers.second)]);
    NetworkSpec { sizes, ..NetworkSpec::new(NetworkKind::Deepsets, answers.node_width, answers.pod_width) }
}

#[test]
fn a_network_of_pytorch_scores_as_it_does_there_for_any_number_of_nodes() {
    let (answers, cases) = answers();
    let network = OnnxNetwork::load(&file("deepsets.onnx"), answers.node_width, answers.pod_width).unwrap();
    assert_eq!(cases.iter().map(|(_, scores)| scores.len()).collect::<Vec<_>>(), [5, 1, 2, 13]);
    for (observation, expected) in &cases {
        let scores = network.scores(observation).unwrap();
        for (ours, theirs) in scores.iter().zip(expected) {
            assert!((ours - theirs).abs() < 1e-4, "{scores:?} instead of {expected:?}");
        }
    }
    // So does our own network with its weights, on those and on clusters that PyTorch was not asked about.
    let own = Network::with_weights(&spec(&answers), model::read_weights(&file("deepsets.safetensors")).unwrap());
    let largest = network.check(&own.unwrap(), cases.iter().map(|(observation, _)| observation), 1e-4).unwrap();
    assert!(largest < 1e-4, "{largest}");
}

#[test]
fn a_network_of_pytorch_becomes_a_model_that_decides() {
    let folder = std::env::temp_dir().join(format!("plimsoll-import-{}", std::process::id()));
    let (answers, _) = answers();
    // A model of ours with the same weights, and one with others.
    let sees = Sees::plain(1, "worst-fit").unwrap();
    for (name, weights) in [
        ("same", model::read_weights(&file("deepsets.safetensors")).unwrap()),
        ("other", Network::new(&spec(&answers), 3).unwrap().weights().clone()),
    ] {
        import(&file("deepsets.onnx"), &folder.join(name), sees.clone(), "", None).unwrap();
        let card = models::read_card(&folder.join(name)).unwrap();
        let network: NetworkCard = spec(&answers).card();
        models::save(&folder.join(name), &Card { network, ..card }, &weights).unwrap();
    }
    let model = folder.join("torch");
    let take = |same_as: &str| import(&file("deepsets.onnx"), &model, sees.clone(), "", Some(&folder.join(same_as)));
    let refused = take("other").unwrap_err().to_string();
    assert!(refused.contains("more than 0.0001 apart"), "{refused}");
    assert!(!model.exists(), "what is refused is not stored");
    assert!(take("same").unwrap().is_some_and(|largest| largest < 1e-4));
    let card = models::read_card(&model).unwrap();
    assert_eq!((card.network.kind.as_str(), card.base.as_str(), card.alone), ("onnx", "worst-fit", true));
    assert_eq!(workshop::load(&model).unwrap().name(), "learned");
    let before = models::fingerprint(&model).unwrap();
    let mut bytes = std::fs::read(model.join("model.onnx")).unwrap();
    bytes.truncate(bytes.len() / 2);
    std::fs::write(model.join("model.onnx"), bytes).unwrap();
    assert_ne!(models::fingerprint(&model).unwrap(), before, "what was evaluated is no longer what is there");
    let error = workshop::load(&model).err().unwrap().to_string();
    assert!(error.contains("not an ONNX network"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_network_that_sees_other_features_is_refused() {
    let folder = std::env::temp_dir().join(format!("plimsoll-import-wrong-{}", std::process::id()));
    let sees = Sees::plain(3, "best-fit").unwrap();
    let error = import(&file("deepsets.onnx"), &folder, sees, "", None).unwrap_err().to_string();
    assert!(error.contains("deepsets.onnx") && !folder.exists(), "{error}");
    assert!(Sees::plain(1, "guess").unwrap_err().to_string().contains("best-fit"));
}
