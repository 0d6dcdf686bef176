//! Training whose outcome is a model in a folder: it begins or goes on, runs to its end, and is stored with its card.

use super::{Checkpoints, Identity, Observer, Settings, TRAINING_FOLDER, Trained, train};
use crate::error::LearnError;
use crate::model::{CARD_FILE, Card, Parent, TrainingCard, WEIGHTS_FILE, write_whole};
use crate::models;
use crate::spec::{self, LearnSpec};
use crate::workshop::Learner;
use plimsoll_sim::scenario::Scenario;
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
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
            parent: None,
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
    let beginning = Beginning::of(order, &folder)?;
    let card = |card: Card, steps: u64| Card {
        name: models::name(order.folder),
        training: beginning.told(order.training, steps),
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
    if let Some(parent) = beginning.parent.as_ref().filter(|_| order.resume)
        && checkpoints.list()?.is_empty()
    {
        let problem = format!("it began with {} and has no checkpoint yet; start it again with --from", parent.name);
        return Err(LearnError::Invalid(format!("{}: {problem}", order.folder.display())));
    }
    if order.replace {
        checkpoints.clear()?;
    }
    if let Some(from) = order.from {
        let own = learner.card();
        models::go_on_from(from, &own, learner.agent())?;
        observer.note(&format!("beginning with {}", from.display()));
    }
    // A training that is under way keeps what it began with.
    if !order.resume && checkpoints.list()?.is_empty() {
        beginning.write(&folder)?;
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
        Beginning::forget(&folder)?;
    }
    Ok(Some(trained))
}

/// The file that says, while training is under way, what it began with: whoever resumes it does not.
const BEGINNING_FILE: &str = "beginning.json";

/// What a training began with, and the command that did so; nothing where it began with nothing.
#[derive(Default, Serialize, Deserialize)]
struct Beginning {
    parent: Option<Parent>,
    command: Option<String>,
}

impl Beginning {
    fn of(order: &Order<'_>, folder: &Path) -> Result<Self, LearnError> {
        if let Some(from) = order.from {
            let parent = Parent { name: models::name(from), fingerprint: models::fingerprint(from)? };
            return Ok(Self { parent: Some(parent), command: Some(order.training.command.clone()) });
        }
        if !order.resume {
            return Ok(Self::default());
        }
        let path = folder.join(BEGINNING_FILE);
        match std::fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text)
                .map_err(|error| LearnError::Invalid(format!("{}: {error}", path.display()))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(LearnError::File { path, error }),
        }
    }

    fn write(&self, folder: &Path) -> Result<(), LearnError> {
        if self.parent.is_none() {
            return Self::forget(folder);
        }
        let text = serde_json::to_vec(self).map_err(|error| LearnError::Invalid(error.to_string()))?;
        write_whole(&folder.join(BEGINNING_FILE), &text)
    }

    fn forget(folder: &Path) -> Result<(), LearnError> {
        let path = folder.join(BEGINNING_FILE);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(LearnError::File { path, error }),
            _ => Ok(()),
        }
    }

    /// The training as its card tells of it.
    fn told(&self, training: &TrainingCard, steps: u64) -> TrainingCard {
        let command = self.command.clone().unwrap_or_else(|| training.command.clone());
        TrainingCard { steps, command, parent: self.parent.clone(), ..training.clone() }
    }
}
