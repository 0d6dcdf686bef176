//! What is never exceeded, so that no caller can take more than its part.

use crate::Shared;
use crate::answer::Refused;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::time::{Duration, Instant};

/// Requests that are worked on at a time: with their bodies, they take two gigabytes at the very worst.
pub const AT_A_TIME: usize = 32;
/// The longest body that asks for scores: names of a hundred thousand nodes and some pods.
pub const SCORES_BODY: usize = 8 << 20;
/// The longest body of an extender's call: five thousand nodes with all that they say.
pub const EXTENDER_BODY: usize = 64 << 20;
/// The longest body of anything else.
pub const SMALL_BODY: usize = 64 << 10;
/// Pods that are asked about at a time.
pub const ITEMS: usize = 256;
/// Nodes that are asked about at a time, over all pods.
pub const NODES: usize = 100_000;
/// The most that the best node may be given: so fine that scores of some of the nodes, brought to 100 again, are as if those alone had been asked about.
pub const MOST: u64 = 1_000_000_000;
/// How long a request may take to come and to be answered.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// How long the engine may take where the caller does not say.
pub const DEADLINE: Duration = Duration::from_secs(1);

/// Works on a request if there is room, and not for too long.
pub async fn bound(State(app): Shared, request: Request, next: Next) -> Response {
    let Ok(_slot) = app.slots.try_acquire() else {
        app.metrics.refused("busy");
        return Refused::busy("too many requests are being worked on; ask again").into_response();
    };
    let path = request.extensions().get::<axum::extract::MatchedPath>().map(|path| path.as_str().to_owned());
    let begin = Instant::now();
    let response = match tokio::time::timeout(PATIENCE, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Refused::new(StatusCode::REQUEST_TIMEOUT, "the request took too long to come").into_response(),
    };
    app.metrics.answered(path.as_deref().unwrap_or("other"), response.status(), begin.elapsed());
    response
}
