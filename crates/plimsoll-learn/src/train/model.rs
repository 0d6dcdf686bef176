//! Training whose outcome is a model in a folder: it begins or goes on, runs to its end, and is stored with its card.

use super::{Checkpoints, Identity, Observer, Settings, TRAINING_FOLDER, Trained, train};
use crate::error::LearnError;
use crate::model::{CARD_FILE, Card, TrainingCard, WEIGHTS_FILE};
use crate::models;
use crate::spec::{self, LearnSpec};
use crate::workshop::Learner;
use plimsoll_sim::scenario::Scenario;
use std::path::Path;
use std::time::Duration;

/// What is to be made.
#[derive(Clone, Copy)]
pub struct Order<'a> {
    /// The model's folder.
    pub folder: &'a Path,
    /// How it is trained, as the card will say.
    pub training: &'a TrainingCard,
    /// The folder of a model to begin with.
    pub from: Option<&'a Path>,
    /// Whether to go on from the last checkpoint.
    pub resume: bool,
    /// Whether a model that is there, or a training that was under way, gives way.
    pub replace: bool,
    /// After how much wall time it is saved.
    pub checkpoint_every: Duration,
    /// The wall time, since the beginning of 1970.
    pub clock: &'a dyn Fn() -> Duration,
}

impl TrainingCard {
    /// That of a training by a scenario; steps are not known yet.
    pub fn of(scenario: &Scenario, spec: &LearnSpec, command: String) -> Result<Self, LearnError> {
        Ok(Self::named(&scenario.name, spec::fingerprint(scenario)?, spec, command))
    }

    /// The same, of a scenario of another kind, which has this name and fingerprint.
    pub fn named(scenario: &str, fingerprint: String, spec: &LearnSpec, command: String) -> Self {
        let window = spec.train.window.map_or_else(|| "all".to_owned(), |window| window.to_string());
        Self {
            agent: spec.agent.name.clone(),
            scenario: scenario.to_owned(),
            scenario_hash: fingerprint,
            seed: spec.seed,
            windows: spec.train.samples.iter().map(|sample| format!("{window} sample {sample}")).collect(),
            steps: 0,
            command,
            version: env!("CARGO_PKG_VERSION").into(),
        }
    }
}

/// Whether there is room for a model in a folder: one that is there is not written over unawares. To be asked before long preparations.
pub fn check_room(folder: &Path, resume: bool, replace: bool) -> Result<(), LearnError> {
    if resume || replace || !holds_model(folder) {
        return Ok(());
    }
    Err(taken(folder, "give another folder, or --replace to have it replaced"))
}

fn holds_model(folder: &Path) -> bool {
    [CARD_FILE, WEIGHTS_FILE].iter().any(|file| folder.join(file).exists())
}

fn taken(folder: &Path, advice: &str) -> LearnError {
    LearnError::Model { path: folder.to_owned(), problem: format!("there is a model already; {advice}") }
}

/// Trains to the end and stores the model, or until the observer has it stopped: then a checkpoint is there to go on from. None where a model
/// that was to be resumed is trained to its end already.
pub fn make(
    learner: &mut dyn Learner,
    order: &Order<'_>,
    observer: &mut dyn Observer,
) -> Result<Option<Trained>, LearnError> {
    check_room(order.folder, order.resume, order.replace)?;
    let folder = order.folder.join(TRAINING_FOLDER);
    let card = |card: Card, steps: u64| Card {
        name: models::name(order.folder),
        training: TrainingCard { steps, ..order.training.clone() },
        ..card
    };
    let identity = Identity::of(&card(learner.card(), 0));
    let checkpoints = Checkpoints::new(&folder);
    if order.resume && checkpoints.list()?.is_empty() && holds_model(order.folder) {
        let there = Identity::of(&models::read_card(order.folder)?);
        let differences = identity.differences(&there);
        if !differences.is_empty() {
            let advice = format!(
                "it is of another training ({}), and there is no checkpoint to go on from; give another folder, or --replace instead of --resume",
                differences.join("; ")
            );
            return Err(taken(order.folder, &advice));
        }
        observer.note(&format!("{} is trained to its end: there is nothing to resume", order.folder.display()));
        return Ok(None);
    }
    if order.replace {
        checkpoints.clear()?;
    }
    if let Some(from) = order.from {
        let own = learner.card();
        models::go_on_from(from, &own, learner.agent())?;
        observer.note(&format!("beginning with {}", from.display()));
    }
    let settings = Settings {
        folder: order.folder,
        identity: &identity,
        checkpoint_every: order.checkpoint_every,
        resume: order.resume,
        clock: order.clock,
    };
    let trained = train(learner.agent(), &settings, observer)?;
    if trained.finished {
        models::save(order.folder, &card(learner.card(), trained.report.steps), &trained.weights)?;
        checkpoints.clear()?;
    }
    Ok(Some(trained))
}
