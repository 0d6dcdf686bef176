//! Networks that were trained elsewhere, made into models: tried first, then stored with a card that says what they see.

use crate::error::LearnError;
use crate::lifetime::Predictor;
use crate::model::{self, CARD_SCHEMA, Card, NetworkCard, ONNX, ONNX_FILE, TrainingCard, WEIGHTS_FILE, Weights};
use crate::models;
use crate::network::onnx::OnnxNetwork;
use crate::network::{Network, NetworkSpec};
use crate::observation::{Observation, Observe, Plain};
use crate::policy::Base;
use plimsoll_core::rng::Rng;
use std::path::Path;

/// How far a score may be from that of our own network with the same weights.
const TOLERANCE: f32 = 1e-4;
/// How many nodes the made-up clusters have on which a network is tried.
const COUNTS: [usize; 6] = [1, 2, 3, 8, 40, 200];

/// What a network sees, and what it falls back to.
#[derive(Debug, Clone, PartialEq)]
pub struct Sees {
    card: Card,
    predictor: Weights,
}

impl Sees {
    /// The plain features with so many pending pods; the heuristic stands in where the network has no answer.
    pub fn plain(lookahead: usize, base: &str) -> Result<Self, LearnError> {
        if Base::by_name(base).is_none() {
            return Err(LearnError::unknown("policy", base, Base::names()));
        }
        let plain = Plain::new(lookahead);
        let card = Card {
            schema: CARD_SCHEMA.into(),
            name: String::new(),
            description: String::new(),
            network: NetworkCard::default(),
            node_features: plain.node_features(),
            pod_features: plain.pod_features(),
            ranges: Vec::new(),
            base: base.to_owned(),
            trust: 1.0,
            alone: true,
            training: TrainingCard::default(),
            figures: Default::default(),
        };
        Ok(Self { card, predictor: Weights::new() })
    }

    /// What another model sees: its features and their ranges, its heuristic, its predictor of lifetimes.
    pub fn like(folder: &Path) -> Result<Self, LearnError> {
        let card = models::read_card(folder)?;
        let mut predictor = model::read_weights(&folder.join(WEIGHTS_FILE))?;
        predictor.retain(|name, _| Predictor::owns(name));
        Ok(Self { card: Card { alone: true, figures: Default::default(), ..card }, predictor })
    }
}

/// Stores a network as a model, once it has scored clusters of different sizes; where a model of ours is said to be the same network, the
/// scores of both must agree. Gives the largest difference to that one.
pub fn import(
    file: &Path,
    folder: &Path,
    sees: Sees,
    description: &str,
    same_as: Option<&Path>,
) -> Result<Option<f32>, LearnError> {
    let Sees { card, predictor } = sees;
    let (nodes, pods) = (card.node_features.len(), card.pod_features.len());
    let bytes = std::fs::read(file).map_err(|error| LearnError::File { path: file.to_owned(), error })?;
    let problem = |error: LearnError| LearnError::Model { path: file.to_owned(), problem: error.to_string() };
    let network = OnnxNetwork::from_bytes(&bytes, nodes, pods).map_err(problem)?;
    let observations = made_up(nodes, pods);
    for observation in &observations {
        let scores = network.scores(observation).map_err(problem)?;
        if let Some(score) = scores.iter().find(|score| !score.is_finite()) {
            let count = observation.node_count();
            return Err(problem(LearnError::Invalid(format!("it gives a node of {count} the score {score}"))));
        }
    }
    let largest = match same_as {
        Some(other) => Some(network.check(&ours(other)?, &observations, TOLERANCE).map_err(problem)?),
        None => None,
    };
    let card = Card {
        name: models::name(folder),
        description: description.to_owned(),
        network: NetworkCard { kind: ONNX.into(), ..NetworkCard::default() },
        training: TrainingCard {
            agent: "imported".into(),
            command: format!("plimsoll models import {}", file.display()),
            version: env!("CARGO_PKG_VERSION").into(),
            ..TrainingCard::default()
        },
        ..card
    };
    model::write_whole(&folder.join(ONNX_FILE), &bytes)?;
    models::save(folder, &card, &predictor)?;
    Ok(largest)
}

/// The network of a model of ours.
fn ours(folder: &Path) -> Result<Network, LearnError> {
    let card = models::read_card(folder)?;
    let spec = NetworkSpec::from_card(&card.network, card.node_features.len(), card.pod_features.len())?;
    let mut weights = model::read_weights(&folder.join(WEIGHTS_FILE))?;
    weights.retain(|name, _| !Predictor::owns(name));
    Network::with_weights(&spec, weights)
}

/// Clusters of different sizes, with numbers from 0 to 1 as most features have.
fn made_up(node_width: usize, pod_width: usize) -> Vec<Observation> {
    let mut rng = Rng::new(1);
    let mut draw = |count: usize| (0..count).map(|_| rng.unit() as f32).collect::<Vec<f32>>();
    let cluster = |count: usize| Observation {
        node_width,
        nodes: draw(count * node_width),
        pod: draw(pod_width),
        mask: vec![true; count],
        places: vec![[0; 2]; count],
    };
    COUNTS.map(cluster).to_vec()
}
