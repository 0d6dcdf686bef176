//! Learning beside the scheduler, as people see it: `/v1/training`, `/training/trigger`, `/model/save`. Who learns writes down here what it does.

use super::jobs::Progress;
use super::{Bridge, lock};
use crate::Shared;
use crate::answer::{Body, Problem, Refused};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use utoipa::ToSchema;

/// Points that are kept.
const POINTS: usize = 2_000;
/// Candidates that are kept.
const CANDIDATES: usize = 100;

/// How often a lesson is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// What who learns is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Nobody learns.
    #[default]
    Off,
    /// It waits for placements.
    Waiting,
    /// A candidate is trained.
    Training,
    /// A candidate is measured on what was recorded.
    Judging,
    /// A candidate places pods in thought, or one that was promoted is watched.
    Shadowing,
}

/// How training was at a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct TrainingPoint {
    /// Steps of all trainings so far.
    pub step: u64,
    /// When, in seconds since 1970.
    pub at: f64,
    /// The mean return of episodes.
    #[serde(rename = "return")]
    pub mean_return: Option<f64>,
    /// The loss.
    pub loss: Option<f64>,
    /// How often it explores.
    pub epsilon: Option<f64>,
}

/// A model that was learned, and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Candidate {
    /// Its name.
    pub version: String,
    /// When, in seconds since 1970.
    pub at: f64,
    /// `shadow`, `promoted`, `refused` or `rolled-back`.
    pub verdict: &'static str,
    /// Why.
    pub reason: String,
    /// How the measure differs from that of the policy in force, in per cent.
    pub change_percent: Option<f64>,
    /// From here.
    pub low: Option<f64>,
    /// To there, with 95 % confidence.
    pub high: Option<f64>,
}

/// What is known of learning.
#[derive(Debug, Clone, Default)]
pub struct Lesson {
    /// What is being done.
    pub stage: Phase,
    /// After how many placements it learns.
    pub interval: u64,
    /// Placements since it last did.
    pub placements_since: u64,
    /// Episodes of all trainings.
    pub episodes: u64,
    /// How training went.
    pub points: VecDeque<TrainingPoint>,
    /// What was learned.
    pub candidates: VecDeque<Candidate>,
    /// The folder of the last model that was learned.
    pub last: Option<String>,
    /// Lessons that have ended, well or not.
    pub lessons: u64,
}

/// Where who learns and who watches meet.
#[derive(Debug, Default)]
pub struct Training {
    lesson: Mutex<Lesson>,
    trigger: Notify,
}

impl Training {
    /// Reads what is known.
    pub fn read<T>(&self, read: impl FnOnce(&Lesson) -> T) -> T {
        read(&lock(&self.lesson))
    }

    /// Writes down what is new.
    pub fn write(&self, write: impl FnOnce(&mut Lesson)) {
        let mut lesson = lock(&self.lesson);
        write(&mut lesson);
        let excess = lesson.points.len().saturating_sub(POINTS);
        lesson.points.drain(..excess);
        let excess = lesson.candidates.len().saturating_sub(CANDIDATES);
        lesson.candidates.drain(..excess);
    }

    /// Waits until somebody wants that it learns now.
    pub async fn triggered(&self) {
        self.trigger.notified().await;
    }

    /// The figures of `/status`.
    pub fn status(&self) -> Value {
        self.read(|lesson| {
            json!({
                "enabled": lesson.stage != Phase::Off,
                "running": lesson.stage == Phase::Training,
                "interval": (lesson.interval > 0).then_some(lesson.interval),
                "placements_since": lesson.placements_since,
                "episodes": lesson.episodes,
                "loss": lesson.points.back().and_then(|point| point.loss),
            })
        })
    }
}

impl Bridge {
    /// Tells all who listen how training is.
    pub fn tell_training(&self, point: &TrainingPoint) {
        self.tell("training", &json!({ "point": point }));
    }
}

fn off(mode: &str) -> Refused {
    let why = match mode {
        "advise" => "an adviser does not learn; `plimsoll run` does, beside or in place of the scheduler",
        "demo" => "a demo does not learn; `plimsoll run` does",
        _ => "nobody learns here: start with ENABLE_TRAINING=true, or `training: {enabled: true}` in the configuration",
    };
    Refused::new(StatusCode::CONFLICT, why)
}

/// What is learned, and what became of it.
#[utoipa::path(get, path = "/v1/training", responses((status = 200, description = "What is learned"), (status = 401, body = Problem), (status = 503, body = Problem)))]
pub async fn training(State(app): Shared) -> Json<Value> {
    Json(app.bridge.helm.training.read(|lesson| {
        json!({
            "enabled": lesson.stage != Phase::Off,
            "interval": (lesson.interval > 0).then_some(lesson.interval),
            "state": lesson.stage,
            "points": lesson.points,
            "candidates": lesson.candidates.iter().rev().collect::<Vec<_>>(),
        })
    }))
}

/// Has it learn now from what was recorded, without waiting for more placements.
#[utoipa::path(post, path = "/training/trigger", responses((status = 202, description = "The job, for /v1/jobs; its result is the candidate and what became of it"), (status = 401, body = Problem), (status = 403, body = Problem), (status = 408, body = Problem), (status = 409, body = Problem), (status = 429, body = Problem), (status = 503, body = Problem)))]
pub async fn trigger(State(app): Shared) -> Result<(StatusCode, Json<Value>), Refused> {
    let training = &app.bridge.helm.training;
    match training.read(|lesson| lesson.stage) {
        Phase::Off => Err(off(app.bridge.helm.mode)),
        Phase::Waiting => {
            let lesson = Arc::clone(training);
            let known = lesson.read(|lesson| lesson.lessons);
            let job =
                app.bridge.start_job("training", |progress| async move { follow(&lesson, known, &progress).await })?;
            training.trigger.notify_one();
            Ok((StatusCode::ACCEPTED, job))
        }
        busy => {
            let doing = serde_json::to_value(busy).unwrap_or_default();
            let why = format!("it is {}; ask again when that is done", doing.as_str().unwrap_or("busy"));
            Err(Refused::new(StatusCode::CONFLICT, why))
        }
    }
}

/// Follows the lesson after so many others to its end; what became of the candidate.
async fn follow(training: &Training, known: u64, progress: &Progress) -> Result<Value, String> {
    loop {
        tokio::time::sleep(LOOK).await;
        let (phase, lessons, last) =
            training.read(|lesson| (lesson.stage, lesson.lessons, lesson.candidates.back().cloned()));
        if lessons > known {
            return Ok(json!(last));
        }
        let (done, words) = match phase {
            Phase::Off => return Err("nobody learns any more".to_owned()),
            Phase::Waiting => (0.0, "it is about to begin"),
            Phase::Training => (0.1, "a candidate is trained"),
            Phase::Judging => (0.5, "the candidate is measured on what it was not trained on"),
            Phase::Shadowing => (0.7, "the candidate is tried beside the policy in force"),
        };
        progress.tell(done, words);
    }
}

/// Under which name.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SaveRequest {
    /// A name of letters, digits, `-`, `_` and `.`; one of the time if not given.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    path: Option<String>,
}

/// Keeps the model that was learned last under a name of its own, so that it can be chosen whatever is learned after it.
#[utoipa::path(post, path = "/model/save", request_body = SaveRequest, responses((status = 200, description = "Where it is"), (status = 400, body = Problem), (status = 401, body = Problem), (status = 403, body = Problem), (status = 408, body = Problem), (status = 409, body = Problem), (status = 413, body = Problem), (status = 415, body = Problem), (status = 422, body = Problem), (status = 503, body = Problem)))]
pub async fn save(State(app): Shared, Body(request): Body<SaveRequest>) -> Result<Json<Value>, Refused> {
    let name = request.path.unwrap_or_else(|| format!("saved-{}", super::shelf::stamp()));
    super::shelf::check_name(&name)?;
    let (stage, last) = app.bridge.helm.training.read(|lesson| (lesson.stage, lesson.last.clone()));
    let last = match (stage, last) {
        (Phase::Off, None) => return Err(off(app.bridge.helm.mode)),
        (_, None) => return Err(Refused::new(StatusCode::CONFLICT, "nothing was learned yet")),
        (_, Some(last)) => last,
    };
    let path = (app.bridge.helm.save)(&last, &name).map_err(|why| Refused::new(StatusCode::CONFLICT, why))?;
    Ok(Json(json!({ "path": path })))
}
