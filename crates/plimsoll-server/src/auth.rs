//! Who may ask: whoever knows a token, or is known to the API server.

use crate::answer::Refused;
use crate::{App, Shared};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use plimsoll_kube::review::May;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};
use std::time::SystemTime;
use subtle::ConstantTimeEq;

/// What stands before a token.
const BEARER: &[u8] = b"Bearer ";
/// Shorter tokens can be guessed.
const SHORTEST: usize = 16;

/// A secret in a file, which may be replaced while it is in use.
pub struct Token {
    file: PathBuf,
    known: RwLock<(Option<SystemTime>, Vec<u8>)>,
}

impl Token {
    /// The token in a file; blank space around it does not count.
    pub fn read(file: &Path) -> std::io::Result<Self> {
        let token = Self { file: file.to_owned(), known: RwLock::default() };
        let content = content(file)?;
        *token.known.write().unwrap_or_else(PoisonError::into_inner) = (changed(file), content);
        Ok(token)
    }

    /// Whether this is the token. A file that changed is read again; one that cannot be read leaves the token as it was.
    fn is(&self, given: &[u8]) -> bool {
        let now = changed(&self.file);
        let is_new = self.known.read().unwrap_or_else(PoisonError::into_inner).0 != now;
        if is_new {
            let read = content(&self.file);
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            // It is said once for each change.
            known.0 = now;
            match read {
                Ok(content) => known.1 = content,
                Err(error) => {
                    let file = self.file.display();
                    tracing::warn!(%file, %error, "the token was changed to what is none; the one before stays");
                }
            }
        }
        // It takes as long for a wrong token as for the right one.
        self.known.read().unwrap_or_else(PoisonError::into_inner).1.ct_eq(given).into()
    }
}

fn changed(file: &Path) -> Option<SystemTime> {
    std::fs::metadata(file).and_then(|data| data.modified()).ok()
}

fn content(file: &Path) -> std::io::Result<Vec<u8>> {
    let content = std::fs::read_to_string(file)?.trim().as_bytes().to_vec();
    if content.len() < SHORTEST || !content.iter().all(u8::is_ascii_graphic) {
        let why =
            format!("a token is {SHORTEST} printable characters or more, without blank space: `openssl rand -hex 16`");
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, why));
    }
    Ok(content)
}

/// Whether a browser asks for another's page. Where nobody needs a token, whoever has the browser of somebody on this machine open a page could steer otherwise: by
/// a form, or by a name of theirs that leads here.
fn is_foreign(request: &Request) -> bool {
    let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    let host = request.uri().authority().map(Authority::as_str).or_else(|| header("host"));
    let is_elsewhere = header("sec-fetch-site").is_some_and(|site| !matches!(site, "same-origin" | "none"));
    let origin = header("origin").map(|origin| origin.split_once("://").map(|(_, authority)| authority));
    let is_other = origin.is_some_and(|origin| origin.is_none() || origin != host);
    is_elsewhere || is_other || host.is_some_and(|host| !is_loopback(host))
}

/// Whether a host, with or without a port, is this machine.
fn is_loopback(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host();
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// What somebody may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Read, and ask for advice.
    Viewer,
    /// Change things, too.
    Admin,
}

impl Role {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Admin => "admin",
        }
    }
}

/// Lets pass who knows a token, and tells what follows who it is.
pub async fn check(State(app): Shared, mut request: Request, next: Next) -> Response {
    // Who comes by loopback is on this machine, or was let in by a port forward.
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
    if app.figures_only && !peer.is_some_and(|peer| peer.0.ip().is_loopback()) {
        if request.uri().path() == "/metrics" {
            return next.run(request).await;
        }
        let why = "other machines can reach this address: start with --token-file, or ask on loopback";
        return Refused::new(StatusCode::FORBIDDEN, why).into_response();
    }
    if !app.asks_for_tokens() && is_foreign(&request) {
        app.metrics.refused("origin");
        let why = "a page of another origin asks; open the dashboard at localhost, or start with --token-file";
        return Refused::new(StatusCode::FORBIDDEN, why).into_response();
    }
    let given = request.headers().get(header::AUTHORIZATION).cloned();
    if let Some(role) = role(&app, given.as_ref()).await {
        request.extensions_mut().insert(role);
        return next.run(request).await;
    }
    app.metrics.refused("token");
    let refused = Refused::new(StatusCode::UNAUTHORIZED, "who asks must send `Authorization: Bearer TOKEN`");
    ([(header::WWW_AUTHENTICATE, "Bearer")], refused).into_response()
}

/// Lets pass who may change things.
pub async fn check_admin(State(app): Shared, request: Request, next: Next) -> Response {
    if request.extensions().get::<Role>() == Some(&Role::Admin) {
        return next.run(request).await;
    }
    app.metrics.refused("role");
    Refused::new(StatusCode::FORBIDDEN, "only the role admin may do that; this token is a viewer's").into_response()
}

async fn role(app: &App, given: Option<&HeaderValue>) -> Option<Role> {
    if !app.asks_for_tokens() {
        return Some(Role::Admin);
    }
    let (scheme, given) = given?.as_bytes().split_at_checked(BEARER.len())?;
    if !scheme.eq_ignore_ascii_case(BEARER) {
        return None;
    }
    let is = |token: &Option<Token>| token.as_ref().is_some_and(|token| token.is(given));
    match (is(&app.token), is(&app.viewer_token)) {
        (true, _) => Some(Role::Admin),
        (false, true) => Some(Role::Viewer),
        (false, false) => {
            let token = std::str::from_utf8(given).ok().filter(|token| !token.is_empty())?;
            match app.reviewer.as_ref()?.may(token).await {
                May::Change => Some(Role::Admin),
                May::Read => Some(Role::Viewer),
                May::Nothing => None,
            }
        }
    }
}
