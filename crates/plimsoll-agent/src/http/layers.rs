//! What all requests go through: a time limit, the token, and errors as JSON.

use super::token::Token;
use axum::Json;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// The largest body of a request: 64 targets of 512 characters fit.
pub const LARGEST_BODY: usize = 64 * 1024;
/// How long an answer may take: 20 round trips that time out after a second each fit.
const LONGEST: Duration = Duration::from_secs(30);

/// Ends requests that take too long, also those whose body does not come.
pub async fn time_limit(request: Request, next: Next) -> Response {
    match tokio::time::timeout(LONGEST, next.run(request)).await {
        Ok(response) => response,
        Err(_) => (StatusCode::REQUEST_TIMEOUT, format!("no answer within {} s", LONGEST.as_secs())).into_response(),
    }
}

/// Lets nobody through who does not know the token; whether the agent is healthy, everybody may ask.
pub async fn authorize(State(token): State<Option<Arc<Token>>>, request: Request, next: Next) -> Response {
    let Some(token) = token else { return next.run(request).await };
    let given = request.headers().get(header::AUTHORIZATION);
    if request.uri().path() == "/healthz" || given.is_some_and(|given| token.accepts(given.as_bytes())) {
        return next.run(request).await;
    }
    let words = "a token is needed: send the header `Authorization: Bearer …` with the token of --token-file";
    ([(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))], (StatusCode::UNAUTHORIZED, words))
        .into_response()
}

/// Has every error say what is wrong in JSON, those of the framework, too.
pub async fn json_errors(request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    let status = response.status();
    if !status.is_client_error() && !status.is_server_error() {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let text = to_bytes(body, LARGEST_BODY).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let words = if text.is_empty() { status.canonical_reason().unwrap_or("unknown error") } else { &text };
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.remove(header::CONTENT_TYPE);
    let mut response = (status, Json(json!({ "error": words }))).into_response();
    for (name, value) in &parts.headers {
        response.headers_mut().insert(name, value.clone());
    }
    response
}

/// What there is not.
pub async fn no_such_path() -> Response {
    (StatusCode::NOT_FOUND, "there is no such path; /openapi.json lists those there are").into_response()
}
