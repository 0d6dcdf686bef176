//! Training whose outcome is a model in a folder: it begins or goes on, runs to its end, and is stored with its card.

use super::{Checkpoints, Identity, Observer, Settings, TRAINING_FOLDER, Trained, train};
use crate::error::LearnError;
use crate::model::{Card, TrainingCard};
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

/// Trains to the end and stores the model, or until the observer has it stopped: then a checkpoint is there to go on from. None where a model
/// that was to be resumed is trained to its end already.
pub fn make(
    learner: &mut dyn Learner,
    order: &Order<'_>,
    observer: &mut dyn Observer,
) -> Result<Option<Trained>, LearnError> {
    let card = |card: Card, steps: u64| Card {
        name: models::name(order.folder),
        training: TrainingCard { steps, ..order.training.clone() },
        ..card
    };
    let identity = Identity::of(&card(learner.card(), 0));
    let checkpoints = Checkpoints::new(&order.folder.join(TRAINING_FOLDER));
    if order.resume
        && checkpoints.list()?.is_empty()
        && models::read_card(order.folder).is_ok_and(|there| Identity::of(&there) == identity)
    {
        observer.note(&format!("{} is trained to its end: there is nothing to resume", order.folder.display()));
        return Ok(None);
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
