use super::checkpoint::{Checkpoints, Identity};
use super::*;
use crate::agent::AgentState;
use crate::model::Tensor;
use plimsoll_core::rng::Rng;
use std::cell::Cell;
use std::path::PathBuf;

pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("plimsoll-learn-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Seeks a target by random steps that are kept when they help: enough to tell whether a training went on where it was.
struct Seeker {
    weight: f32,
    draws: u64,
    steps: u64,
    last: u64,
    /// Goes wrong at this step.
    diverges: Option<u64>,
}

impl Seeker {
    fn new(last: u64) -> Self {
        Self { weight: 0.0, draws: 0, steps: 0, last, diverges: None }
    }
}

impl Agent for Seeker {
    fn iterate(&mut self) -> Result<Report, LearnError> {
        self.draws += 1;
        let tried = self.weight + (Rng::new(self.draws).unit() - 0.5) as f32;
        if (tried - 3.0).abs() < (self.weight - 3.0).abs() {
            self.weight = tried;
        }
        self.steps += 10;
        if self.diverges == Some(self.steps) {
            self.weight = f32::NAN;
        }
        Ok(Report {
            steps: self.steps,
            episodes: self.draws,
            mean_return: Some(f64::from(-(self.weight - 3.0).abs())),
            scalars: vec![("loss", 0.5)],
            weights: vec![("latency", 0.25)],
            progress: self.steps as f64 / self.last as f64,
        })
    }

    fn state(&self) -> AgentState {
        let mut state = AgentState { tensors: self.weights(), ..AgentState::default() };
        state.values.insert("draws".into(), self.draws.into());
        state.values.insert("steps".into(), self.steps.into());
        state
    }

    fn restore(&mut self, state: &AgentState) -> Result<(), LearnError> {
        let value = |name: &str| state.values.get(name).and_then(serde_json::Value::as_u64);
        let missing = || LearnError::Invalid("the state is not a seeker's".into());
        self.weight = state.tensors.get("w").ok_or_else(missing)?.data[0];
        self.draws = value("draws").ok_or_else(missing)?;
        self.steps = value("steps").ok_or_else(missing)?;
        Ok(())
    }

    fn weights(&self) -> Weights {
        Weights::from([("w".to_owned(), Tensor { shape: vec![1], data: vec![self.weight] })])
    }
}

#[derive(Default)]
struct Watcher {
    seen: Vec<Progress>,
    notes: Vec<String>,
    stops_at: Option<u64>,
    /// Panics then, as if killed: nothing after it is done.
    dies_at: Option<u64>,
}

impl Observer for Watcher {
    fn progress(&mut self, progress: &Progress) {
        assert_ne!(self.dies_at, Some(progress.report.steps), "killed");
        self.seen.push(progress.clone());
    }

    fn note(&mut self, note: &str) {
        self.notes.push(note.to_owned());
    }

    fn stops(&mut self) -> bool {
        self.seen.last().is_some_and(|progress| Some(progress.report.steps) >= self.stops_at && self.stops_at.is_some())
    }
}

fn identity(seed: u64) -> Identity {
    Identity([("agent".to_owned(), "seeker".to_owned()), ("seed".to_owned(), seed.to_string())].into())
}

/// A clock that goes on a second at each look; a checkpoint is due every five.
fn trained(folder: &Path, resume: bool, seeker: &mut Seeker, watcher: &mut Watcher) -> Result<Trained, LearnError> {
    let time = Cell::new(1_000);
    let clock = || {
        time.set(time.get() + 1);
        Duration::from_secs(time.get())
    };
    let identity = identity(1);
    let settings =
        Settings { folder, identity: &identity, checkpoint_every: Duration::from_secs(5), resume, clock: &clock };
    train(seeker, &settings, watcher)
}

#[test]
fn progress_tells_pace_and_what_is_left() {
    let folder = folder("progress");
    let mut watcher = Watcher::default();
    let trained = trained(&folder, false, &mut Seeker::new(200), &mut watcher).unwrap();
    assert!(trained.finished && trained.report.steps == 200);
    let half = &watcher.seen[9];
    assert_eq!((half.report.steps, half.elapsed, half.steps_per_second), (100, Duration::from_secs(10), 10.0));
    assert_eq!(half.remaining.unwrap().as_secs_f64().round(), 10.0);
    assert_eq!(watcher.seen.last().unwrap().remaining, Some(Duration::ZERO));
}

#[test]
fn a_training_that_was_killed_goes_on_and_ends_with_the_same_model() {
    let whole = trained(&folder("whole"), false, &mut Seeker::new(400), &mut Watcher::default()).unwrap();
    let folder = folder("killed");
    let killed = std::panic::catch_unwind(|| {
        let mut watcher = Watcher { dies_at: Some(230), ..Watcher::default() };
        trained(&folder, false, &mut Seeker::new(400), &mut watcher)
    });
    assert!(killed.is_err());
    let error = trained(&folder, false, &mut Seeker::new(400), &mut Watcher::default()).unwrap_err().to_string();
    assert!(error.contains("--resume") && error.contains("checkpoint-000004"), "{error}");
    let mut watcher = Watcher::default();
    let resumed = trained(&folder, true, &mut Seeker::new(400), &mut watcher).unwrap();
    // Saved every five iterations of ten steps: killed at 230, it goes on from 200.
    assert_eq!(watcher.notes, ["training goes on from step 200"]);
    assert_eq!(watcher.seen[0].report.steps, 210);
    assert_eq!(resumed, whole);
}

#[test]
fn a_training_that_is_stopped_is_saved_and_not_finished() {
    let folder = folder("stopped");
    let mut watcher = Watcher { stops_at: Some(70), ..Watcher::default() };
    assert!(!trained(&folder, false, &mut Seeker::new(400), &mut watcher).unwrap().finished);
    let found = Checkpoints::new(&folder.join(TRAINING_FOLDER)).latest(&identity(1)).unwrap().found.unwrap();
    assert_eq!(found.steps, 70);
}

#[test]
fn a_checkpoint_that_is_cut_off_is_refused_and_the_one_before_is_used() {
    for (file, expected) in [("state.safetensors", "was cut off or changed"), ("state.json", "is not whole")] {
        let folder = folder(&format!("cut-{file}"));
        let mut watcher = Watcher { stops_at: Some(180), ..Watcher::default() };
        trained(&folder, false, &mut Seeker::new(400), &mut watcher).unwrap();
        let checkpoints = Checkpoints::new(&folder.join(TRAINING_FOLDER));
        let there = checkpoints.list().unwrap();
        assert_eq!(there.len(), 2, "{there:?}");
        let path = there[1].join(file);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        let mut watcher = Watcher::default();
        trained(&folder, true, &mut Seeker::new(400), &mut watcher).unwrap();
        assert!(watcher.notes[0].contains(expected), "{:?}", watcher.notes);
        assert_eq!(watcher.notes[1], "training goes on from step 150");
    }
}

#[test]
fn a_checkpoint_of_another_training_is_refused_with_what_differs() {
    let folder = folder("foreign");
    let checkpoints = Checkpoints::new(&folder);
    assert_eq!(checkpoints.latest(&identity(1)).unwrap().found, None);
    checkpoints.write(&identity(2), 10, &Seeker::new(1).state()).unwrap();
    let error = checkpoints.latest(&identity(1)).unwrap_err().to_string();
    assert!(error.contains("it is of another training: seed is \"2\", not \"1\""), "{error}");
    // The one before, of the same training, would do.
    checkpoints.write(&identity(1), 20, &Seeker::new(1).state()).unwrap();
    checkpoints.write(&identity(2), 30, &Seeker::new(1).state()).unwrap();
    let latest = checkpoints.latest(&identity(1)).unwrap();
    assert_eq!((latest.found.unwrap().steps, latest.refused.len()), (20, 1));
    checkpoints.clear().unwrap();
    assert!(checkpoints.list().unwrap().is_empty());
}

#[test]
fn a_training_that_diverges_ends_and_leaves_the_last_sound_checkpoint() {
    let folder = folder("diverged");
    let mut seeker = Seeker { diverges: Some(120), ..Seeker::new(400) };
    let error = trained(&folder, false, &mut seeker, &mut Watcher::default()).unwrap_err().to_string();
    assert!(error.contains("training diverged by step 150") && error.contains("\"w\" holds NaN"), "{error}");
    let found = Checkpoints::new(&folder.join(TRAINING_FOLDER)).latest(&identity(1)).unwrap().found.unwrap();
    assert_eq!(found.steps, 100);
}
