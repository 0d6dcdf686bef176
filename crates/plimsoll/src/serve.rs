//! One page over HTTP, drawn anew for everyone who asks, while a command does its work.

use anyhow::{Context, Result, bail};
use axum::Router;
use axum::extract::State;
use axum::response::Html;
use axum::routing::get;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};

/// How a page is drawn.
type Draw = Arc<dyn Fn() -> String + Send + Sync>;

/// A page that changes.
#[derive(Clone, Default)]
pub struct Page(Arc<Mutex<Option<Draw>>>);

impl Page {
    /// From now on it is drawn like this.
    pub fn set(&self, draw: impl Fn() -> String + Send + Sync + 'static) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(draw));
    }

    fn html(&self) -> String {
        // Not drawn under the lock: the command must not wait for a reader.
        let draw = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        draw.map_or_else(
            || "<!doctype html>\n<meta http-equiv=\"refresh\" content=\"1\">\n<p>It begins.</p>\n".into(),
            |draw| draw(),
        )
    }
}

/// Serves a page until the process ends; returns the address that it is at.
pub fn start(address: SocketAddr, allow_remote: bool, page: Page) -> Result<SocketAddr> {
    if !address.ip().is_loopback() && !allow_remote {
        bail!("{address} can be reached by other machines: serve at 127.0.0.1 or ::1, or allow it with --allow-remote");
    }
    let failed = || format!("{address}: cannot be served at");
    let listener = TcpListener::bind(address).with_context(failed)?;
    listener.set_nonblocking(true).with_context(failed)?;
    let address = listener.local_addr().with_context(failed)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().with_context(failed)?;
    let listener = {
        let _inside = runtime.enter();
        tokio::net::TcpListener::from_std(listener).with_context(failed)?
    };
    let router =
        Router::new().route("/", get(|State(page): State<Page>| async move { Html(page.html()) })).with_state(page);
    std::thread::Builder::new()
        .name("report".into())
        .spawn(move || runtime.block_on(async { axum::serve(listener, router).await }))
        .with_context(failed)?;
    Ok(address)
}
