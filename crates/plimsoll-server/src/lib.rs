//! All that is served over HTTP: what people see and steer (`bridge`), suggestions for a plugin or any other program, the endpoints of a scheduler
//! extender, recommendations that people or programs set, and what is known of nodes. Nothing is decided here: the engine is asked.

mod answer;
mod auth;
mod bridge;
#[cfg(test)]
mod bridge_tests;
mod extender;
mod limits;
mod listen;
mod metrics;
mod nodes;
mod openapi;
mod points;
mod process;
mod recommendations;
mod scores;
mod stage;
#[cfg(test)]
mod tests;

pub use auth::Token;
pub use bridge::shelf::{Laboratory, Recorder, Recording};
pub use bridge::training::{Candidate, Phase, Training, TrainingPoint};
pub use bridge::{Bridge, Helm, PolicyEntry, Previewed, Totals};
pub use listen::{ListenError, Listener, Tls};
pub use metrics::Metrics;
pub use openapi::document;
pub use recommendations::Recommendations;
pub use stage::{Day, Figures, Pace, SPEEDS, Side, SideView, Stage};

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use axum::{Json, Router, middleware};
use plimsoll_kube::api::Api;
use plimsoll_kube::driver::Inbox;
use plimsoll_kube::review::Reviewer;
use plimsoll_telemetry::Store;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Semaphore;

/// What is served.
pub struct App {
    /// The engine.
    pub inbox: Inbox,
    /// Whether all objects of the cluster are known.
    pub ready: Arc<AtomicBool>,
    /// The policies that may be asked for, by name; the first is used where none is named.
    pub policies: Vec<String>,
    /// What is known of nodes.
    pub telemetry: Arc<Store>,
    /// Who binds for the extender; nobody if not given.
    pub binder: Option<Api>,
    /// Who may do everything.
    pub token: Option<Token>,
    /// Who may read, and ask for advice.
    pub viewer_token: Option<Token>,
    /// Who says what owners of other tokens may do.
    pub reviewer: Option<Reviewer>,
    /// The figures of the engine, if it schedules.
    pub engine_metrics: Option<Arc<plimsoll_kube::metrics::Metrics>>,
    /// Other machines can reach it and nobody has a token: only figures are told.
    pub figures_only: bool,
    /// What people see and steer.
    bridge: Arc<Bridge>,
    recommendations: Arc<Recommendations>,
    metrics: Metrics,
    /// Requests that may be worked on at a time.
    slots: Semaphore,
}

impl App {
    /// Serves an engine that has these policies.
    pub fn new(inbox: Inbox, ready: Arc<AtomicBool>, policies: Vec<String>, telemetry: Arc<Store>, helm: Helm) -> Self {
        Self {
            bridge: Bridge::new(inbox.clone(), helm),
            inbox,
            ready,
            policies,
            telemetry,
            binder: None,
            token: None,
            viewer_token: None,
            reviewer: None,
            engine_metrics: None,
            figures_only: false,
            recommendations: Arc::default(),
            metrics: Metrics::default(),
            slots: Semaphore::new(limits::AT_A_TIME),
        }
    }
}

impl App {
    /// What people see and steer, for who does so from within the process.
    pub fn bridge(&self) -> Arc<Bridge> {
        Arc::clone(&self.bridge)
    }

    /// What is recommended, for who does so from within the process.
    pub fn recommendations(&self) -> Arc<Recommendations> {
        Arc::clone(&self.recommendations)
    }
}

impl App {
    /// Whether who asks needs a token.
    fn asks_for_tokens(&self) -> bool {
        self.token.is_some() || self.viewer_token.is_some() || self.reviewer.is_some()
    }
}

type Shared = State<Arc<App>>;

/// The routes.
pub fn router(app: App) -> Router {
    let app = Arc::new(app);
    tokio::spawn(Arc::clone(&app.bridge).follow());
    tokio::spawn(Arc::clone(&app.bridge).tell_day());
    let steering = Router::new()
        .route("/v1/policies/{name}/activate", post(bridge::policies::activate))
        .route("/v1/policies/rollback", post(bridge::policies::rollback))
        .route("/v1/policies/{name}/shadow", post(bridge::policies::shadow))
        .route("/v1/policies/shadow", delete(bridge::policies::end_shadow))
        .route("/v1/policies/trust", put(bridge::policies::trust))
        .route("/v1/rewards", put(bridge::rewards::reweigh))
        .route("/v1/rewards/preview", post(bridge::rewards::preview))
        .route("/v1/recordings", post(bridge::shelf::record))
        .route("/v1/recordings/{name}/stop", post(bridge::shelf::stop))
        .route("/v1/experiments", post(bridge::shelf::experiment))
        .route("/training/trigger", post(bridge::training::trigger))
        .route("/model/save", post(bridge::training::save))
        .route("/model/load", post(bridge::policies::load))
        .route("/v1/demo", post(bridge::demo::set_pace))
        .route("/v1/recommendations/{namespace}/{pod}", put(recommendations::put).delete(recommendations::delete))
        .layer(middleware::from_fn_with_state(Arc::clone(&app), auth::check_admin));
    let binding = Router::new()
        .route("/extender/bind", post(extender::bind))
        .layer(middleware::from_fn_with_state(Arc::clone(&app), auth::check_admin));
    let advice = Router::new()
        .route("/v1/scores", post(scores::scores))
        .layer(axum::extract::DefaultBodyLimit::max(limits::SCORES_BODY))
        .merge(
            Router::new()
                .route("/extender/filter", post(extender::filter))
                .route("/extender/prioritize", post(extender::prioritize))
                .route("/extender/preempt", post(extender::preempt))
                .merge(binding)
                .layer(axum::extract::DefaultBodyLimit::max(limits::EXTENDER_BODY)),
        )
        .merge(
            Router::new()
                .route("/status", get(bridge::status::status))
                .route("/config", get(bridge::status::config))
                .route("/cluster/state", get(bridge::cluster::state))
                .route("/cluster/nodes", get(bridge::cluster::nodes))
                .route("/cluster/nodes/{name}", get(bridge::cluster::node))
                .route("/v1/decisions", get(bridge::decisions::decisions))
                .route("/v1/decisions/{id}", get(bridge::decisions::decision))
                .route("/v1/pending", get(bridge::decisions::pending))
                .route("/explain/{namespace}/{name}", get(bridge::decisions::explain))
                .route("/v1/what-if", post(bridge::decisions::what_if))
                .route("/v1/measures", get(bridge::status::measures))
                .route("/v1/policies", get(bridge::policies::policies))
                .route("/v1/rewards", get(bridge::rewards::rewards))
                .route("/v1/training", get(bridge::training::training))
                .route("/v1/jobs/{id}", get(bridge::jobs::job))
                .route("/v1/recordings", get(bridge::shelf::recordings))
                .route("/v1/experiments", get(bridge::shelf::experiments))
                .route("/v1/experiments/{name}/report", get(bridge::shelf::report))
                .route("/v1/demo", get(bridge::demo::demo))
                .merge(steering)
                .route("/v1/recommendations", get(recommendations::list))
                .route("/v1/recommendations/{namespace}/{pod}", get(recommendations::get))
                .route("/v1/nodes", get(nodes::list))
                .route("/v1/nodes/{name}/metrics", get(nodes::metrics))
                .route("/metrics", get(metrics::text))
                .layer(axum::extract::DefaultBodyLimit::max(limits::SMALL_BODY)),
        )
        .layer(middleware::from_fn_with_state(Arc::clone(&app), limits::bound))
        // A stream takes no place among the requests that are worked on.
        .merge(Router::new().route("/v1/events", get(bridge::events::events)))
        .layer(middleware::from_fn_with_state(Arc::clone(&app), auth::check));
    Router::new()
        .route("/", get(bridge::index))
        .route("/mark.svg", get(bridge::mark))
        .route("/assets/{*path}", get(bridge::asset))
        .route("/health", get(bridge::status::health))
        .route("/healthz", get(|| async { "ok" }))
        .route("/livez", get(live))
        .route("/readyz", get(ready))
        .route("/openapi.json", get(|| async { Json(openapi::document()) }))
        .merge(advice)
        .fallback(|| async { answer::Refused::new(StatusCode::NOT_FOUND, "there is nothing here; see /openapi.json") })
        .method_not_allowed_fallback(|| async {
            answer::Refused::new(StatusCode::METHOD_NOT_ALLOWED, "not with this method; see /openapi.json")
        })
        .with_state(app)
}

/// Alive is who answers: the engine is asked.
async fn live(State(app): Shared) -> Response {
    match app.inbox.is_served().await {
        true => "ok".into_response(),
        false => (StatusCode::INTERNAL_SERVER_ERROR, "the engine has ended").into_response(),
    }
}

async fn ready(State(app): Shared) -> Response {
    match app.ready.load(Ordering::Acquire) {
        true => ([(header::CACHE_CONTROL, "no-store")], "ok").into_response(),
        false => (StatusCode::SERVICE_UNAVAILABLE, "not all objects of the cluster are known yet").into_response(),
    }
}
