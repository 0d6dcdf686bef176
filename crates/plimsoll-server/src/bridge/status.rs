//! How things stand: `/health`, `/status`, `/config`, `/v1/measures`.

use super::Point;
use crate::Shared;
use crate::answer::{Problem, Query, within};
use crate::auth::Role;
use axum::extract::State;
use axum::{Extension, Json};
use plimsoll_core::engine::Counts;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use utoipa::{IntoParams, ToSchema};

/// Decisions whose times are looked at.
const TIMED: usize = 1000;

/// Whether it answers.
#[utoipa::path(get, path = "/health", responses((status = 200, description = "It answers")), security(()))]
pub async fn health() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

pub fn queues(counts: &Counts) -> Value {
    let Counts { active, backoff, unschedulable, gated, .. } = counts;
    json!({ "active": active, "backoff": backoff, "unschedulable": unschedulable, "gated": gated })
}

/// How long decisions took, in milliseconds.
#[derive(Debug, Clone, Copy, Default, Serialize, ToSchema)]
pub struct Times {
    p50: f64,
    p99: f64,
}

/// How it is.
#[utoipa::path(get, path = "/status", responses((status = 200, description = "How it is"), (status = 401, body = Problem), (status = 503, body = Problem)))]
pub async fn status(State(app): Shared, Extension(role): Extension<Role>) -> Json<Value> {
    let bridge = &app.bridge;
    let mut took: Vec<f64> =
        bridge.read(|view| view.decisions.iter().rev().take(TIMED).map(|decision| decision.milliseconds).collect());
    took.sort_by(f64::total_cmp);
    let at = |share: f64| took.get(((took.len() as f64 * share) as usize).min(took.len().saturating_sub(1))).copied();
    let times = Times { p50: at(0.5).unwrap_or(0.0), p99: at(0.99).unwrap_or(0.0) };
    let (counts, placed, policies) = bridge.read(|view| (view.counts, view.placed, view.policies.clone()));
    let started = bridge.started_at.duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "role": role.name(),
        "mode": bridge.helm.mode,
        "leader": bridge.read(|view| view.leads),
        "ready": app.ready.load(Ordering::Acquire),
        "uptime_seconds": bridge.started.elapsed().as_secs_f64(),
        "started": plimsoll_kube::record::seconds_at(started),
        "policy": policies.first().map_or("default", |(_, policy)| policy),
        "training": bridge.helm.training.status(),
        "pending": queues(&counts),
        "placed_total": placed,
        "decision_ms": times,
    }))
}

/// The configuration in force.
#[utoipa::path(get, path = "/config", responses((status = 200, description = "The configuration in force"), (status = 401, body = Problem), (status = 503, body = Problem)))]
pub async fn config(State(app): Shared) -> Json<Value> {
    Json(app.bridge.helm.config.clone())
}

/// Which measures.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Span {
    /// Of so many minutes; 60 if not given.
    #[param(minimum = 0, maximum = 1440)]
    #[serde(default, deserialize_with = "minutes")]
    minutes: Option<f64>,
}

fn minutes<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    within(from, 0.0..=1440.0)
}

/// What was measured.
#[utoipa::path(get, path = "/v1/measures", params(Span), responses((status = 200, description = "What was measured"), (status = 400, body = Problem), (status = 401, body = Problem), (status = 503, body = Problem)))]
pub async fn measures(State(app): Shared, Query(span): Query<Span>) -> Json<Value> {
    let minutes = span.minutes.unwrap_or(60.0);
    let points: Vec<Point> = app.bridge.read(|view| {
        let last = view.points.back().map_or(0.0, |point| point.at);
        view.points.iter().filter(|point| point.at >= last - minutes * 60.0).cloned().collect()
    });
    Json(json!({ "points": points }))
}
