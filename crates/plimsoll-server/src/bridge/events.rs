//! `/v1/events`: what happens, as it happens.

use super::Update;
use crate::Shared;
use crate::answer::Problem;
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::{Stream, StreamExt, stream};
use serde_json::json;
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;

/// A reader that hears nothing for so long may think that nobody is there.
const SIGN_OF_LIFE: Duration = Duration::from_secs(10);

/// What happens, as server-sent events.
#[utoipa::path(get, path = "/v1/events", responses((status = 200, description = "Server-sent events: hello, nodes, decision, pending, measures, policy, training, demo, lost", content_type = "text/event-stream"), (status = 401, body = Problem), (status = 503, body = Problem)))]
pub async fn events(State(app): Shared) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let updates = app.bridge.updates.subscribe();
    let revision = app.bridge.read(|view| view.revision);
    let hello = Update::new("hello", &json!({ "revision": revision }));
    let first = stream::once(async move { hello });
    let rest = stream::unfold(updates, |mut updates| async move {
        match updates.recv().await {
            Ok(update) => Some((update, updates)),
            // It lags too far behind: what it knows is void.
            Err(RecvError::Lagged(_)) => Some((Update::new("lost", &json!({})), updates)),
            Err(RecvError::Closed) => None,
        }
    });
    let numbered = first
        .chain(rest)
        .enumerate()
        .map(|(at, update)| Ok(Event::default().event(update.event).id(at.to_string()).data(&*update.data)));
    Sse::new(numbered).keep_alive(KeepAlive::new().interval(SIGN_OF_LIFE))
}
