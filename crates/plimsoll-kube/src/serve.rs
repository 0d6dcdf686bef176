//! What others may ask over HTTP: health, readiness, metrics, pods that wait.

use crate::driver::{Inbox, Input, Question};
use crate::metrics::{Metrics, OPEN_METRICS};
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// What is served.
#[derive(Clone)]
pub struct Served {
    /// The figures.
    pub metrics: Arc<Metrics>,
    /// Whether all objects are known.
    pub ready: Arc<AtomicBool>,
    /// The engine.
    pub inbox: Inbox,
}

/// Serves until the process ends.
pub async fn serve(listener: TcpListener, served: Served) -> std::io::Result<()> {
    let router = Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/livez", get(live))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/pending", get(pending))
        .route("/explain/{namespace}/{name}", get(explain))
        .with_state(served);
    axum::serve(listener, router).await
}

/// Alive is who answers: the engine is asked.
async fn live(State(served): State<Served>) -> Response {
    match served.inbox.is_served().await {
        true => "ok".into_response(),
        false => (StatusCode::INTERNAL_SERVER_ERROR, "the scheduler has ended").into_response(),
    }
}

async fn ready(State(served): State<Served>) -> Response {
    if served.ready.load(Ordering::Acquire) {
        "ok".into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not all objects of the cluster are known yet").into_response()
    }
}

async fn metrics(State(served): State<Served>) -> Response {
    let (answer, measured) = oneshot::channel();
    if served.inbox.send(Input::Ask(Question::Measure(answer))).await.is_ok() {
        // One that has ended is measured no more; what is known of it is still told.
        let _ = measured.await;
    }
    ([(header::CONTENT_TYPE, OPEN_METRICS)], served.metrics.text()).into_response()
}

fn as_json(value: &serde_json::Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

async fn pending(State(served): State<Served>) -> Response {
    let (answer, pods) = oneshot::channel();
    let asked = served.inbox.send(Input::Ask(Question::Pending(answer))).await;
    let Some(pods) = (if asked.is_ok() { pods.await.ok() } else { None }) else {
        return (StatusCode::INTERNAL_SERVER_ERROR, "the scheduler has ended").into_response();
    };
    let row = |pod: &plimsoll_core::engine::PendingPod| {
        json!({
            "namespace": pod.pod.namespace,
            "name": pod.pod.name,
            "queue": format!("{:?}", pod.place).to_lowercase(),
            "attempts": pod.attempts,
            "message": pod.message,
        })
    };
    as_json(&json!({ "pods": pods.iter().map(row).collect::<Vec<_>>() }))
}

async fn explain(State(served): State<Served>, Path((namespace, name)): Path<(String, String)>) -> Response {
    let (answer, said) = oneshot::channel();
    let asked = served.inbox.send(Input::Ask(Question::Explain(namespace, name, answer))).await;
    match if asked.is_ok() { said.await.ok() } else { None } {
        Some(Some(explained)) => as_json(&serde_json::to_value(&explained).unwrap_or_default()),
        Some(None) => (StatusCode::NOT_FOUND, "no such pod, or it has ended").into_response(),
        None => (StatusCode::INTERNAL_SERVER_ERROR, "the scheduler has ended").into_response(),
    }
}
