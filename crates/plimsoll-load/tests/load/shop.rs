//! A service with known answers and known delays, which counts what it is asked.

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long `/slow` takes.
pub const SLOW: Duration = Duration::from_millis(60);

/// How often each path was asked for.
pub type Hits = Arc<Mutex<BTreeMap<String, u64>>>;

/// Starts it; it ends with the test.
pub async fn open() -> (SocketAddr, Hits) {
    let hits = Hits::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().fallback(answer).with_state((Arc::clone(&hits), address.port()));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, hits)
}

async fn answer(State((hits, port)): State<(Hits, u16)>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    *hits.lock().unwrap().entry(path.clone()).or_default() += 1;
    let headers = request.headers().clone();
    let given = |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    match path.as_str() {
        "/fast" => "ok".into_response(),
        "/slow" => {
            tokio::time::sleep(SLOW).await;
            "late".into_response()
        }
        "/hang" => {
            tokio::time::sleep(Duration::from_secs(60)).await;
            "never".into_response()
        }
        "/login" => ([(header::SET_COOKIE, "session=7")], "in").into_response(),
        "/account" if given(header::COOKIE) == Some("session=7") => "yours".into_response(),
        "/account" => StatusCode::UNAUTHORIZED.into_response(),
        "/order" => {
            let is_json = given(header::CONTENT_TYPE) == Some("application/json");
            let is_known = given(header::AUTHORIZATION) == Some("Bearer customer");
            let method = request.method().clone();
            let body = axum::body::to_bytes(request.into_body(), 1024).await.unwrap();
            let fits = is_json && is_known && method == "POST" && &body[..] == br#"{"item":3}"#;
            if fits { StatusCode::CREATED.into_response() } else { StatusCode::BAD_REQUEST.into_response() }
        }
        "/here" => Redirect::to("/fast").into_response(),
        "/elsewhere" => Redirect::to(&format!("http://localhost:{port}/fast")).into_response(),
        "/gone" => StatusCode::GONE.into_response(),
        _ => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}
