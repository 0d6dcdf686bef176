//! Runs by REST: one at a time, with what is measured while it runs.

use crate::figures::Figures;
use crate::limits::Limits;
use crate::live::{LONGEST_WINDOW, Live, Summary};
use crate::metrics::Metrics;
use crate::report::{Ended, Report};
use crate::run::{Admitted, RunError};
use crate::scenario::Scenario;
use axum::extract::{DefaultBodyLimit, Path, Query};
use axum::http::{HeaderName, StatusCode, header};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use plimsoll_agent::http::{Token, layers};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// The largest scenario: a hundred transactions with some requests each fit.
const LARGEST_BODY: usize = 256 * 1024;
/// How many runs can still be asked for after their end.
const REMEMBERED: usize = 64;
/// What is looked back at unless the caller says otherwise.
const WINDOW: u64 = 30;
/// What Prometheus calls the text that it reads.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// What there is, for those who ask for something else.
const PATHS: &str = "/v1/runs, /v1/runs/{id}, /v1/runs/{id}/stop, /v1/runs/{id}/results, /healthz and /metrics";

/// How a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It is under way.
    Running,
    /// It ended as planned.
    Done,
    /// It was stopped, and has results.
    Stopped,
    /// It has no results.
    Failed,
}

/// A run as it is told of.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunStatus {
    /// What it is asked for by.
    pub id: String,
    /// The name of its scenario.
    pub scenario: String,
    /// The service it loads.
    pub target: String,
    /// How it is.
    pub state: State,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How long it takes as planned.
    pub planned_seconds: u64,
    /// All requests so far.
    #[serde(flatten)]
    pub summary: Summary,
    /// Those of the newest seconds.
    pub recent: Figures,
}

/// What came of a run: nothing yet, its report, or why there is none.
type Outcome = Option<Result<Arc<Report>, String>>;

/// A run, present or past.
#[derive(Clone)]
struct Held {
    id: String,
    scenario: String,
    target: String,
    planned_seconds: u64,
    live: Live,
    stop: watch::Sender<bool>,
    outcome: watch::Receiver<Outcome>,
}

impl Held {
    fn state(&self) -> State {
        match &*self.outcome.borrow() {
            None => State::Running,
            Some(Err(_)) => State::Failed,
            Some(Ok(report)) if report.ended == Ended::Stopped => State::Stopped,
            Some(Ok(_)) => State::Done,
        }
    }

    fn status(&self, window: u64) -> RunStatus {
        let error = self.outcome.borrow().as_ref().and_then(|outcome| outcome.as_ref().err().cloned());
        RunStatus {
            id: self.id.clone(),
            scenario: self.scenario.clone(),
            target: self.target.clone(),
            state: self.state(),
            error,
            planned_seconds: self.planned_seconds,
            summary: self.live.summary(),
            recent: self.live.last(Duration::from_secs(window)),
        }
    }

    /// Ends it and waits until it has ended.
    async fn stop(&mut self) {
        // It may have ended.
        let _ = self.stop.send(true);
        let _ = self.outcome.wait_for(Option::is_some).await;
    }
}

/// The runs of a service, and what they may ask for.
pub struct Service {
    limits: Limits,
    metrics: Arc<Metrics>,
    runs: Mutex<Runs>,
}

#[derive(Default)]
struct Runs {
    /// How many there have been.
    count: u64,
    held: VecDeque<Held>,
}

/// A refusal; the outermost layer makes JSON of it.
struct Refused(StatusCode, String);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (self.0, self.1).into_response()
    }
}

impl From<RunError> for Refused {
    fn from(error: RunError) -> Self {
        let status = match error {
            RunError::Scenario(_) | RunError::Limits(_) => StatusCode::UNPROCESSABLE_ENTITY,
            RunError::Busy => StatusCode::CONFLICT,
            RunError::Start(_) | RunError::Ended(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self(status, error.to_string())
    }
}

impl Service {
    /// One without runs.
    pub fn new(limits: Limits) -> Self {
        Self { limits, metrics: Arc::new(Metrics::new()), runs: Mutex::default() }
    }

    fn runs(&self) -> MutexGuard<'_, Runs> {
        // Whoever panicked has left a whole list.
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, id: &str) -> Result<Held, Refused> {
        let unknown = || format!("there is no run {id}; /v1/runs lists the last {REMEMBERED}");
        let found = self.runs().held.iter().find(|held| held.id == id).cloned();
        found.ok_or_else(|| Refused(StatusCode::NOT_FOUND, unknown()))
    }

    fn start(&self, scenario: &Scenario, admitted: Admitted) -> Result<Held, Refused> {
        let mut runs = self.runs();
        if let Some(running) = runs.held.iter().find(|held| held.state() == State::Running) {
            let words = format!("{0} is under way: wait for its end, or POST /v1/runs/{0}/stop", running.id);
            return Err(Refused(StatusCode::CONFLICT, words));
        }
        runs.count += 1;
        let live = Live::counted_by(Arc::clone(&self.metrics));
        let (stop, stopped) = watch::channel(false);
        let (tell, outcome) = watch::channel(None);
        let held = Held {
            id: format!("run-{}", runs.count),
            scenario: scenario.name.clone(),
            target: scenario.target.clone(),
            planned_seconds: admitted.plan.seconds(),
            live: live.clone(),
            stop,
            outcome,
        };
        runs.held.push_back(held.clone());
        while runs.held.len() > REMEMBERED {
            runs.held.pop_front();
        }
        let metrics = Arc::clone(&self.metrics);
        tokio::spawn(async move {
            metrics.running.set(1);
            let report = admitted.run(&live, stopped).await;
            metrics.running.set(0);
            tell.send_replace(Some(report.map(Arc::new).map_err(|error| error.to_string())));
        });
        Ok(held)
    }

    /// Stops what runs.
    async fn stop(&self) {
        let all: Vec<_> = self.runs().held.iter().cloned().collect();
        for mut held in all {
            held.stop().await;
        }
    }
}

type Shared = axum::extract::State<Arc<Service>>;

/// All paths, for those who know the token.
fn router(service: Arc<Service>, token: Option<Token>) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/metrics", get(metrics))
        .route("/v1/runs", get(list).post(create))
        .route("/v1/runs/{id}", get(status))
        .route("/v1/runs/{id}/stop", post(stop))
        .route("/v1/runs/{id}/results", get(results))
        .fallback(|| async { Refused(StatusCode::NOT_FOUND, format!("there is no such path; there are {PATHS}")) })
        .with_state(service)
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        .layer(from_fn_with_state(token.map(Arc::new), layers::authorize))
        .layer(from_fn(layers::time_limit))
        .layer(from_fn(layers::json_errors))
}

/// Serves until `shutdown` is ready, then stops what runs.
pub async fn serve(listener: TcpListener, service: Service, token: Option<Token>, shutdown: impl Future<Output = ()>) {
    let service = Arc::new(service);
    plimsoll_agent::http::serve(listener, router(Arc::clone(&service), token), shutdown).await;
    service.stop().await;
}

async fn metrics(axum::extract::State(service): Shared) -> Response {
    ([(header::CONTENT_TYPE, OPEN_METRICS)], service.metrics.text()).into_response()
}

/// How far to look back.
#[derive(Debug, Deserialize)]
struct Back {
    window: Option<u64>,
}

async fn create(
    axum::extract::State(service): Shared,
    Json(scenario): Json<Scenario>,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<RunStatus>), Refused> {
    let admitted = Admitted::new(&scenario, &service.limits).await?;
    let held = service.start(&scenario, admitted)?;
    let place = [(header::LOCATION, format!("/v1/runs/{}", held.id))];
    Ok((StatusCode::CREATED, place, Json(held.status(WINDOW))))
}

async fn list(axum::extract::State(service): Shared) -> Json<Vec<RunStatus>> {
    let all: Vec<_> = service.runs().held.iter().cloned().collect();
    Json(all.iter().map(|held| held.status(WINDOW)).collect())
}

async fn status(
    axum::extract::State(service): Shared,
    Path(id): Path<String>,
    Query(back): Query<Back>,
) -> Result<Json<RunStatus>, Refused> {
    let window = back.window.unwrap_or(WINDOW);
    if !(1..=LONGEST_WINDOW.as_secs()).contains(&window) {
        let words = format!("window is {window}: it must be from 1 to {} seconds", LONGEST_WINDOW.as_secs());
        return Err(Refused(StatusCode::UNPROCESSABLE_ENTITY, words));
    }
    Ok(Json(service.find(&id)?.status(window)))
}

async fn stop(axum::extract::State(service): Shared, Path(id): Path<String>) -> Result<Json<RunStatus>, Refused> {
    let mut held = service.find(&id)?;
    held.stop().await;
    Ok(Json(held.status(WINDOW)))
}

async fn results(axum::extract::State(service): Shared, Path(id): Path<String>) -> Result<Json<Report>, Refused> {
    let outcome = service.find(&id)?.outcome.borrow().clone();
    match outcome {
        Some(Ok(report)) => Ok(Json(Report::clone(&report))),
        Some(Err(error)) => Err(Refused(StatusCode::CONFLICT, format!("{id} failed and has no results: {error}"))),
        None => Err(Refused(StatusCode::CONFLICT, format!("{id} is under way: GET /v1/runs/{id} tells how it goes"))),
    }
}
