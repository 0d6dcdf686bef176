//! The HTTP side of the agent: its paths, who may use them, and how errors are told.

pub mod layers;
mod listen;
mod openapi;
mod token;

pub use listen::serve;
pub use openapi::document;
pub use token::{Token, TokenError, may_listen};

use crate::blocker::{BlockError, BlockReport, BlockRequest, Blocker, BlocksReport};
use crate::config::Config;
use crate::energy::{Energy, EnergyError, EnergyReport, Subject, SubjectReport};
use crate::latency::{Latency, LatencyError, LatencyReport, MeasureRequest, TargetReport, TargetsRequest};
use crate::metrics::Metrics;
use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::http::{StatusCode, header};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use serde::Deserialize;
use std::path::PathBuf;
use std::sync::Arc;

/// What Prometheus calls the text that it reads.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The parts of the agent.
#[derive(Debug, Clone)]
pub struct Agent {
    /// Latency to users.
    pub latency: Arc<Latency>,
    /// What the node takes.
    pub energy: Arc<Energy>,
    /// What is occupied.
    pub blocker: Arc<Blocker>,
    metrics: Arc<Metrics>,
}

/// Why a part of the agent cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// A target of the configuration is refused.
    #[error("latency.targets: {0}")]
    Latency(#[from] LatencyError),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

impl Agent {
    /// As configured; nothing is measured until somebody drives it.
    pub fn new(config: &Config) -> Result<Self, AgentError> {
        let latency = Arc::new(Latency::new(&config.latency, &config.allow)?);
        let energy = Arc::new(Energy::new(&config.energy));
        let blocker = Arc::new(Blocker::new(&config.blocker, &config.allow)?);
        let metrics = Arc::new(Metrics::new(&latency, &energy, &blocker));
        Ok(Self { latency, energy, blocker, metrics })
    }

    /// All paths, for those who know the token.
    pub fn router(&self, token: Option<Token>) -> Router {
        Router::new()
            .route("/healthz", get(|| async { "ok" }))
            .route("/metrics", get(metrics))
            .route("/openapi.json", get(|| async { Json(document()) }))
            .route("/v1/latency", get(latency).post(measure))
            .route("/v1/latency/targets", put(set_targets))
            .route("/v1/energy", get(energy))
            .route("/v1/energy/process/{pid}", get(energy_of_process))
            .route("/v1/energy/pod/{uid}", get(energy_of_pod))
            .route("/v1/energy/cgroup", get(energy_of_cgroup))
            .route("/v1/blocks", get(blocks).post(hold))
            .route("/v1/blocks/{id}", get(block).delete(release))
            .route("/v1/blocks/{id}/heartbeat", post(heartbeat))
            .fallback(layers::no_such_path)
            .with_state(self.clone())
            .layer(DefaultBodyLimit::max(layers::LARGEST_BODY))
            .layer(from_fn_with_state(token.map(Arc::new), layers::authorize))
            .layer(from_fn(layers::time_limit))
            .layer(from_fn(layers::json_errors))
    }
}

/// An error with its status; the outermost layer makes JSON of it.
struct Failure(StatusCode, String);

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.0, self.1).into_response()
    }
}

impl From<LatencyError> for Failure {
    fn from(error: LatencyError) -> Self {
        Self(StatusCode::UNPROCESSABLE_ENTITY, error.to_string())
    }
}

impl From<EnergyError> for Failure {
    fn from(error: EnergyError) -> Self {
        let status = match error {
            EnergyError::NoProcess { .. } | EnergyError::NoCgroup { .. } | EnergyError::NoPod { .. } => {
                StatusCode::NOT_FOUND
            }
            EnergyError::TooMany(_) => StatusCode::UNPROCESSABLE_ENTITY,
            EnergyError::NoPower(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self(status, error.to_string())
    }
}

impl From<BlockError> for Failure {
    fn from(error: BlockError) -> Self {
        let status = match error {
            BlockError::OverLimit(_) | BlockError::Refused(_) | BlockError::Malformed(_) | BlockError::NoFolder => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            BlockError::Unknown(_) | BlockError::Ended { .. } => StatusCode::NOT_FOUND,
            BlockError::ShuttingDown | BlockError::NoThread(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self(status, error.to_string())
    }
}

type Answer<T> = Result<Json<T>, Failure>;

pub(crate) fn metrics_response(text: String) -> Response {
    ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response()
}

async fn metrics(State(agent): State<Agent>) -> Response {
    metrics_response(agent.metrics.text())
}

async fn latency(State(agent): State<Agent>) -> Json<LatencyReport> {
    Json(agent.latency.report())
}

async fn measure(State(agent): State<Agent>, Json(request): Json<MeasureRequest>) -> Answer<TargetReport> {
    Ok(Json(agent.latency.measure(&request).await?))
}

async fn set_targets(State(agent): State<Agent>, Json(request): Json<TargetsRequest>) -> Answer<LatencyReport> {
    agent.latency.set_targets(&request)?;
    Ok(Json(agent.latency.report()))
}

async fn energy(State(agent): State<Agent>) -> Json<EnergyReport> {
    Json(agent.energy.report())
}

async fn energy_of_process(State(agent): State<Agent>, Path(pid): Path<u32>) -> Answer<SubjectReport> {
    Ok(Json(agent.energy.subject(&Subject::Process(pid)).await?))
}

async fn energy_of_pod(State(agent): State<Agent>, Path(uid): Path<String>) -> Answer<SubjectReport> {
    Ok(Json(agent.energy.subject(&Subject::Pod(uid)).await?))
}

/// Which cgroup is asked for.
#[derive(Debug, Deserialize)]
struct CgroupQuery {
    /// Its path below the root of cgroups.
    path: PathBuf,
}

async fn energy_of_cgroup(State(agent): State<Agent>, Query(query): Query<CgroupQuery>) -> Answer<SubjectReport> {
    Ok(Json(agent.energy.subject(&Subject::Cgroup(query.path)).await?))
}

async fn blocks(State(agent): State<Agent>) -> Json<BlocksReport> {
    Json(agent.blocker.report())
}

async fn hold(
    State(agent): State<Agent>,
    Json(request): Json<BlockRequest>,
) -> Result<(StatusCode, Json<BlockReport>), Failure> {
    Ok((StatusCode::CREATED, Json(agent.blocker.hold(request).await?)))
}

async fn block(State(agent): State<Agent>, Path(id): Path<String>) -> Answer<BlockReport> {
    Ok(Json(agent.blocker.get(&id)?))
}

async fn heartbeat(State(agent): State<Agent>, Path(id): Path<String>) -> Answer<BlockReport> {
    Ok(Json(agent.blocker.heartbeat(&id)?))
}

async fn release(State(agent): State<Agent>, Path(id): Path<String>) -> Answer<BlockReport> {
    // It waits for workers to end, which may be in the midst of writing to a disk.
    let released = tokio::task::spawn_blocking(move || agent.blocker.release(&id)).await;
    let failed = |error: tokio::task::JoinError| Failure(StatusCode::INTERNAL_SERVER_ERROR, error.to_string());
    Ok(Json(released.map_err(failed)??))
}
