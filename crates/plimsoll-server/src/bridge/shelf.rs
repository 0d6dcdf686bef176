//! What is kept in the folder of data: recordings of the workload (`/v1/recordings`) and reports of experiments (`/v1/experiments`).

use crate::Shared;
use crate::answer::{Body, Path, Problem, Refused};
use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};
use utoipa::ToSchema;

/// The longest name of a recording or a model.
const LONGEST: usize = 64;

/// A recording of the workload.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct Recording {
    /// Its name.
    pub name: String,
    /// `recording` or `done`.
    pub state: &'static str,
    /// Pods in it, if that is known.
    pub pods: Option<usize>,
    /// How long it has been going on, or did.
    pub seconds: Option<f64>,
    /// The trace.
    pub path: String,
}

/// Who records.
pub trait Recorder: Send + Sync {
    /// All recordings, under way and done.
    fn list(&self) -> Vec<Recording>;
    /// Starts one of this name.
    fn start(&self, name: &str) -> Result<Recording, String>;
    /// Ends one.
    fn stop(&self, name: &str) -> Result<Recording, String>;
}

/// Who runs experiments.
pub struct Laboratory {
    /// Where reports are, as HTML.
    pub folder: PathBuf,
    /// The experiments there are.
    pub kinds: &'static [&'static str],
    /// The command that runs one and writes its report to a file.
    pub command: fn(&str, &std::path::Path) -> std::io::Result<std::process::Command>,
}

/// Names of files that are ours to make: letters, digits, `-`, `_` and `.`, the first none of these three.
pub fn check_name(name: &str) -> Result<(), Refused> {
    let is_fine = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if (1..=LONGEST).contains(&name.len())
        && name.chars().all(is_fine)
        && name.starts_with(|letter: char| letter.is_ascii_alphanumeric())
    {
        return Ok(());
    }
    let why = format!(
        "{name:?}: a name has 1 to {LONGEST} letters, digits, '-', '_' and '.', and begins with a letter or a digit"
    );
    Err(Refused::unprocessable(why))
}

/// Seconds since 1970, for names.
pub fn stamp() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn nothing_kept() -> Refused {
    Refused::new(StatusCode::CONFLICT, "nothing is kept here: start with --data FOLDER")
}

fn conflict(why: String) -> Refused {
    Refused::new(StatusCode::CONFLICT, why)
}

/// Recordings of the workload.
#[utoipa::path(get, path = "/v1/recordings", responses((status = 200, description = "The recordings"), (status = 401, body = Problem), (status = 503, body = Problem)))]
pub async fn recordings(State(app): Shared) -> Json<Value> {
    let all = app.bridge.helm.recorder.as_ref().map(|recorder| recorder.list()).unwrap_or_default();
    Json(json!({ "items": all, "next": null }))
}

/// Which recording.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordRequest {
    /// Its name: letters, digits, `-`, `_` and `.`.
    #[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    name: String,
}

/// Starts to write down the workload.
#[utoipa::path(post, path = "/v1/recordings", request_body = RecordRequest, responses((status = 201, description = "It records", body = Recording), (status = 400, body = Problem), (status = 401, body = Problem), (status = 403, body = Problem), (status = 408, body = Problem), (status = 409, body = Problem), (status = 413, body = Problem), (status = 415, body = Problem), (status = 422, body = Problem), (status = 503, body = Problem)))]
pub async fn record(
    State(app): Shared,
    Body(request): Body<RecordRequest>,
) -> Result<(StatusCode, Json<Recording>), Refused> {
    check_name(&request.name)?;
    let recorder = app.bridge.helm.recorder.as_ref().ok_or_else(nothing_kept)?;
    Ok((StatusCode::CREATED, Json(recorder.start(&request.name).map_err(conflict)?)))
}

/// Ends a recording.
#[utoipa::path(post, path = "/v1/recordings/{name}/stop", params(("name" = String, Path, min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]*$")), responses((status = 200, description = "It has ended", body = Recording), (status = 401, body = Problem), (status = 403, body = Problem), (status = 408, body = Problem), (status = 409, body = Problem), (status = 503, body = Problem)))]
pub async fn stop(State(app): Shared, Path(name): Path<String>) -> Result<Json<Recording>, Refused> {
    let recorder = app.bridge.helm.recorder.as_ref().ok_or_else(nothing_kept)?;
    recorder.stop(&name).map(Json).map_err(conflict)
}

/// Reports of experiments.
#[utoipa::path(get, path = "/v1/experiments", responses((status = 200, description = "The reports, the newest first"), (status = 401, body = Problem), (status = 503, body = Problem)))]
pub async fn experiments(State(app): Shared) -> Json<Value> {
    let Some(laboratory) = &app.bridge.helm.laboratory else {
        return Json(json!({ "items": [], "next": null, "kinds": [] }));
    };
    let mut items = Vec::new();
    for entry in std::fs::read_dir(&laboratory.folder).into_iter().flatten().flatten() {
        let file = entry.file_name().to_string_lossy().into_owned();
        let Some(name) = file.strip_suffix(".html").filter(|name| !name.starts_with('.')) else { continue };
        let changed = entry.metadata().and_then(|data| data.modified()).ok();
        let at = changed.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).unwrap_or_default().as_secs_f64();
        let kind = name.split('-').next().unwrap_or(name);
        let title = format!("The experiment {kind}");
        items.push((
            at,
            json!({ "name": name, "title": title, "at": plimsoll_kube::record::seconds_at(at), "path": entry.path() }),
        ));
    }
    items.sort_by(|a, b| b.0.total_cmp(&a.0));
    let items: Vec<Value> = items.into_iter().map(|(_, item)| item).collect();
    Json(json!({ "items": items, "next": null, "kinds": laboratory.kinds }))
}

/// A report, as HTML. Nothing in it is run.
#[utoipa::path(get, path = "/v1/experiments/{name}/report", params(("name" = String, Path, min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]*$")), responses((status = 200, description = "The report", content_type = "text/html"), (status = 401, body = Problem), (status = 404, body = Problem), (status = 422, body = Problem), (status = 503, body = Problem)))]
pub async fn report(State(app): Shared, Path(name): Path<String>) -> Result<Response, Refused> {
    check_name(&name)?;
    let folder = app.bridge.helm.laboratory.as_ref().map(|laboratory| laboratory.folder.clone());
    let text = folder.and_then(|folder| std::fs::read(folder.join(format!("{name}.html"))).ok());
    let text = text.ok_or_else(|| Refused::new(StatusCode::NOT_FOUND, format!("there is no report {name:?}")))?;
    let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; sandbox allow-scripts";
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    Ok((headers, text).into_response())
}

/// Which experiment.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExperimentRequest {
    /// `thesis` or `qtable`.
    kind: String,
}

/// Runs an experiment, in a process of its own with the lowest priority.
#[utoipa::path(post, path = "/v1/experiments", request_body = ExperimentRequest, responses((status = 202, description = "The job, for /v1/jobs; its result names the report"), (status = 400, body = Problem), (status = 401, body = Problem), (status = 403, body = Problem), (status = 408, body = Problem), (status = 409, body = Problem), (status = 413, body = Problem), (status = 415, body = Problem), (status = 422, body = Problem), (status = 429, body = Problem), (status = 503, body = Problem)))]
pub async fn experiment(
    State(app): Shared,
    Body(request): Body<ExperimentRequest>,
) -> Result<(StatusCode, Json<Value>), Refused> {
    let laboratory = app.bridge.helm.laboratory.as_ref().ok_or_else(nothing_kept)?;
    let Some(kind) = laboratory.kinds.iter().find(|kind| **kind == request.kind) else {
        let known = laboratory.kinds.join(", ");
        let why = format!("there is no experiment {:?} in this build; there are: {known}", request.kind);
        return Err(Refused::unprocessable(why));
    };
    let name = format!("{kind}-{}", stamp());
    let file = laboratory.folder.join(format!("{name}.html"));
    let command =
        (laboratory.command)(kind, &file).map_err(|error| conflict(format!("{}: {error}", file.display())))?;
    let job = app.bridge.start_job("experiment", |progress| async move {
        progress.tell(0.05, "the experiment runs");
        let ended = tokio::process::Command::from(command).kill_on_drop(true).output().await;
        let ended = ended.map_err(|error| format!("it could not be started: {error}"))?;
        if !ended.status.success() {
            let told = String::from_utf8_lossy(&ended.stderr);
            return Err(told.lines().last().unwrap_or("it failed").to_owned());
        }
        Ok(json!({ "name": name }))
    })?;
    Ok((StatusCode::ACCEPTED, job))
}
