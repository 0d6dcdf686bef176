//! What placements are rewarded for: `/v1/rewards`. The weights count for the reward that is told of each placement, for who learns beside the scheduler, and where the
//! policy `multi-objective` ranks, for decisions.

use crate::Shared;
use crate::answer::{Body, Problem, Refused};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use plimsoll_kube::twin::Account;
use plimsoll_learn::policy::MULTI_OBJECTIVE;
use plimsoll_learn::reward::Objectives;
use plimsoll_learn::reward::objectives::PROFILES;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::time::Instant;
use utoipa::ToSchema;

/// How much each objective counts: numbers from 0 up, not all of them 0.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Weights {
    /// Nodes in use are used well.
    #[schema(minimum = 0)]
    utilisation: f64,
    /// Nodes are used alike.
    #[schema(minimum = 0)]
    balance: f64,
    /// Users and those whom pods talk to are near.
    #[schema(minimum = 0)]
    latency: f64,
    /// What pods prefer is met.
    #[schema(minimum = 0)]
    affinity: f64,
    /// Machines draw little.
    #[schema(minimum = 0)]
    energy: f64,
}

impl From<Objectives> for Weights {
    fn from(from: Objectives) -> Self {
        let Objectives { utilization, balance, latency, affinity, energy } = from;
        Self { utilisation: utilization, balance, latency, affinity, energy }
    }
}

impl Weights {
    fn objectives(self) -> Result<Objectives, Refused> {
        let Self { utilisation, balance, latency, affinity, energy } = self;
        let objectives = Objectives { utilization: utilisation, balance, latency, affinity, energy };
        objectives.check().map_err(|error| Refused::unprocessable(error.to_string()))?;
        Ok(objectives)
    }
}

/// Other weights: those of a profile, or given one by one.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Reweigh {
    /// The name of a workload profile.
    #[serde(default)]
    profile: Option<String>,
    /// The weights.
    #[serde(default)]
    weights: Option<Weights>,
}

fn shown(objectives: Objectives) -> Json<Value> {
    let named = PROFILES.iter().find(|(.., weights)| *weights == objectives).map(|(name, ..)| *name);
    let profiles: Vec<Value> = PROFILES
        .iter()
        .map(|(name, about, weights)| json!({ "name": name, "description": about, "weights": Weights::from(*weights) }))
        .collect();
    Json(json!({
        "profile": named,
        "profiles": profiles,
        "weights": Weights::from(objectives),
        "defaults": Weights::from(Objectives::default()),
    }))
}

/// The weights in force, and those of workload profiles.
#[utoipa::path(get, path = "/v1/rewards", responses((status = 200, description = "The weights"), (status = 401, body = Problem), (status = 503, body = Problem)))]
pub async fn rewards(State(app): Shared) -> Json<Value> {
    shown(app.bridge.helm.objectives.get())
}

/// Sets the weights, all at once, from the next placement on.
#[utoipa::path(put, path = "/v1/rewards", request_body = Reweigh, responses((status = 200, description = "The weights as they are now"), (status = 400, body = Problem), (status = 401, body = Problem), (status = 403, body = Problem), (status = 408, body = Problem), (status = 413, body = Problem), (status = 415, body = Problem), (status = 422, body = Problem), (status = 503, body = Problem)))]
pub async fn reweigh(State(app): Shared, Body(request): Body<Reweigh>) -> Result<Json<Value>, Refused> {
    let refused = |error: plimsoll_learn::error::LearnError| Refused::unprocessable(error.to_string());
    let objectives = match (request.profile, request.weights) {
        (Some(profile), None) => Objectives::profile(&profile).map_err(refused)?,
        (None, Some(weights)) => weights.objectives()?,
        _ => return Err(Refused::unprocessable("say either profile or weights")),
    };
    app.bridge.helm.objectives.set(objectives).map_err(refused)?;
    tracing::info!(weights = ?objectives.weights(), "placements are rewarded by other weights");
    Ok(shown(objectives))
}

/// The weights to be tried.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    weights: Weights,
}

/// Places all pods of the cluster anew, in thought, with the policy `multi-objective`: by the weights in force and by others. Nothing is changed.
#[utoipa::path(post, path = "/v1/rewards/preview", request_body = Trial, responses((status = 202, description = "The job, for /v1/jobs; its result has `now` and `then`, what the policy multi-objective comes to with the weights in force and with these, and `ranks`, whether that policy ranks"), (status = 400, body = Problem), (status = 401, body = Problem), (status = 403, body = Problem), (status = 408, body = Problem), (status = 409, body = Problem), (status = 413, body = Problem), (status = 415, body = Problem), (status = 422, body = Problem), (status = 429, body = Problem), (status = 503, body = Problem)))]
pub async fn preview(State(app): Shared, Body(request): Body<Trial>) -> Result<(StatusCode, Json<Value>), Refused> {
    let (now, then) = (app.bridge.helm.objectives.get(), request.weights.objectives()?);
    let placing = (app.bridge.helm.preview)([now, then]).map_err(|why| Refused::new(StatusCode::CONFLICT, why))?;
    // Where another policy ranks, weights say what is learned, not what is decided.
    let ranks = app.bridge.ranks(MULTI_OBJECTIVE);
    let started = Instant::now();
    let job = app.bridge.start_job("preview", |progress| async move {
        progress.tell(0.1, "all pods are placed anew, in thought");
        let [now, then] = placing.await?;
        let seconds = started.elapsed().as_secs_f64();
        Ok(json!({
            "now": outcome(&now), "then": outcome(&then), "pods": then.placed, "seconds": seconds, "ranks": ranks,
        }))
    })?;
    Ok((StatusCode::ACCEPTED, job))
}

fn outcome(account: &Account) -> Value {
    let whole = &account.whole;
    json!({
        "watts": whole.watts, "active_nodes": whole.active_nodes, "balance": whole.balance,
        "latency_ms": whole.latency_ms, "refused": account.waiting,
    })
}
