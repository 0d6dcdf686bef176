//! The dashboard: files that are part of the program.

use crate::answer::Refused;
use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use rust_embed::RustEmbed;

#[derive(RustEmbed)]
#[folder = "../../web/dist"]
#[allow_missing = true]
struct Files;

/// Nothing but its own files, and no frame around it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The page.
pub async fn index() -> Response {
    file("index.html", "no-cache")
}

/// The mark of the page.
pub async fn mark() -> Response {
    file("mark.svg", "no-cache")
}

/// A file of the page; its name changes with its content.
pub async fn asset(Path(path): Path<String>) -> Response {
    file(&format!("assets/{path}"), "public, max-age=31536000, immutable")
}

fn file(path: &str, cache: &'static str) -> Response {
    let Some(found) = Files::get(path) else {
        let why = match path {
            "index.html" => "this build has no dashboard; build with `make web` before, or see /openapi.json",
            _ => "there is no such file",
        };
        return Refused::new(StatusCode::NOT_FOUND, why).into_response();
    };
    let headers = [
        (header::CONTENT_TYPE, found.metadata.mimetype().to_owned()),
        (header::CACHE_CONTROL, cache.to_owned()),
        (header::CONTENT_SECURITY_POLICY, POLICY.to_owned()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (header::REFERRER_POLICY, "no-referrer".to_owned()),
    ];
    (headers, found.data).into_response()
}
