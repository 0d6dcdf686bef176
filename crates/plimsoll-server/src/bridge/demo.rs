//! A day for show: `/v1/demo`, and the event `demo`.

use super::{Bridge, Update};
use crate::Shared;
use crate::answer::{Body, Problem, Refused};
use crate::stage::{Day, Stage};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use utoipa::ToSchema;

/// How often it is told how the day goes on.
const TELL: Duration = Duration::from_millis(250);

/// The day so far, under both schedulers.
#[utoipa::path(get, path = "/v1/demo", responses((status = 200, description = "The day so far, under both schedulers", body = Day), (status = 401, body = Problem), (status = 404, body = Problem), (status = 503, body = Problem)))]
pub async fn demo(State(app): Shared) -> Result<Json<Day>, Refused> {
    Ok(Json(app.bridge.stage()?.day(true)))
}

/// How the day is to go on. What is not said stays as it is.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PaceRequest {
    /// Seconds of the day for each real one.
    #[schema(minimum = 1, maximum = 100_000)]
    speed: Option<f64>,
    /// Whether it stands still.
    paused: Option<bool>,
}

/// Has the day go faster, slower, stand still or go on.
#[utoipa::path(post, path = "/v1/demo", request_body = PaceRequest, responses((status = 200, description = "The day so far", body = Day), (status = 400, body = Problem), (status = 401, body = Problem), (status = 403, body = Problem), (status = 404, body = Problem), (status = 408, body = Problem), (status = 413, body = Problem), (status = 415, body = Problem), (status = 422, body = Problem), (status = 503, body = Problem)))]
pub async fn set_pace(State(app): Shared, Body(request): Body<PaceRequest>) -> Result<Json<Day>, Refused> {
    let stage = app.bridge.stage()?;
    stage.set_pace(request.speed, request.paused).map_err(Refused::unprocessable)?;
    Ok(Json(stage.day(true)))
}

impl Bridge {
    fn stage(&self) -> Result<&Stage, Refused> {
        let why = "no day is shown here; `plimsoll demo` shows one";
        self.helm.demo.as_deref().ok_or_else(|| Refused::new(StatusCode::NOT_FOUND, why))
    }

    /// Tells those who listen how the day goes on, where there is one.
    pub async fn tell_day(self: Arc<Self>) {
        let Some(stage) = self.helm.demo.clone() else { return };
        let mut ticks = tokio::time::interval(TELL);
        let mut told = None;
        loop {
            ticks.tick().await;
            let mark = stage.mark();
            if told == Some(mark) || self.updates.receiver_count() == 0 {
                continue;
            }
            told = Some(mark);
            let day = serde_json::to_value(stage.day(false)).unwrap_or_default();
            // Whoever listened may be gone.
            let _ = self.updates.send(Update::new("demo", &day));
        }
    }
}
