//! What is known of nodes, with the age of every reading.

use crate::Shared;
use crate::answer::{Path, Problem, Refused};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use plimsoll_telemetry::{Known, Reading};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::SystemTime;
use utoipa::ToSchema;

/// A reading.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReadingInfo {
    /// What was read.
    value: f64,
    /// Seconds since.
    age_seconds: f64,
    /// Whether that is too long ago for it to count.
    stale: bool,
    /// The readings before it, oldest first: seconds ago, and value.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    history: Vec<(f64, f64)>,
}

/// What is known of a node.
#[derive(Debug, Serialize, ToSchema)]
pub struct NodeInfo {
    /// The node.
    node: String,
    /// What was read of it, by metric; one that is missing was never read.
    metrics: BTreeMap<String, ReadingInfo>,
}

fn age(reading: &Reading, now: SystemTime) -> f64 {
    now.duration_since(reading.at).unwrap_or_default().as_secs_f64()
}

fn info(node: String, known: Vec<Known>, now: SystemTime, with_history: bool) -> NodeInfo {
    let row = |known: Known| {
        let history = known.history.iter().map(|reading| (age(reading, now), reading.value));
        let reading = ReadingInfo {
            value: known.last.value,
            age_seconds: age(&known.last, now),
            stale: known.stale,
            history: if with_history { history.collect() } else { Vec::new() },
        };
        (known.metric, reading)
    };
    NodeInfo { node, metrics: known.into_iter().map(row).collect() }
}

/// What was read of a node, as the dashboard has it.
pub fn readings(app: &crate::App, node: &str) -> Vec<serde_json::Value> {
    let now = SystemTime::now();
    let row = |known: Known| {
        let state = if known.stale { "stale" } else { "fresh" };
        serde_json::json!({ "metric": known.metric, "value": known.last.value, "age_seconds": age(&known.last, now), "state": state })
    };
    app.telemetry.node(node, now).into_iter().map(row).collect()
}

/// The last readings of all nodes.
#[utoipa::path(get, path = "/v1/nodes", responses(
    (status = 200, body = [NodeInfo]), (status = 401, body = Problem), (status = 503, body = Problem),
))]
pub async fn list(State(app): Shared) -> Json<Vec<NodeInfo>> {
    let now = SystemTime::now();
    let nodes = app.telemetry.nodes();
    Json(
        nodes
            .into_iter()
            .map(|node| {
                let known = app.telemetry.node(&node, now);
                info(node, known, now, false)
            })
            .collect(),
    )
}

/// The readings of a node, those of the last minutes as well.
#[utoipa::path(get, path = "/v1/nodes/{name}/metrics", params(("name" = String, Path, max_length = 253)), responses(
    (status = 200, body = NodeInfo), (status = 400, body = Problem), (status = 401, body = Problem), (status = 404, body = Problem),
    (status = 503, body = Problem),
))]
pub async fn metrics(State(app): Shared, Path(node): Path<String>) -> Result<Json<NodeInfo>, Refused> {
    let now = SystemTime::now();
    let known = app.telemetry.node(&node, now);
    if known.is_empty() {
        return Err(Refused::new(StatusCode::NOT_FOUND, format!("nothing was read of node {node:?}")));
    }
    Ok(Json(info(node, known, now, true)))
}
