//! Connections: so many at a time, each with so long for its headers, and ended in order when the agent ends.

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

/// More callers at a time than a scheduler, a Prometheus and some people need.
const CONNECTIONS: usize = 256;
/// How long a caller may take for its headers; this also ends connections that idle.
const HEADERS: Duration = Duration::from_secs(15);
/// How long answers that are under way may take once the agent ends; kubelet kills after thirty seconds.
const GRACE: Duration = Duration::from_secs(10);

/// Serves until `shutdown` is ready, then ends what is under way.
pub async fn serve(listener: TcpListener, router: Router, shutdown: impl Future<Output = ()>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let (closing, _) = watch::channel(());
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (listener.accept().await, place)
        };
        tokio::select! {
            () = &mut shutdown => break,
            (accepted, place) = next => match accepted {
                Ok((stream, _)) => {
                    let (router, closing) = (router.clone(), closing.subscribe());
                    connections.spawn(async move {
                        let _place = place;
                        connection(stream, router, closing).await;
                    });
                }
                Err(error) => {
                    tracing::warn!("a connection cannot be accepted: {error}");
                    // Where file descriptors are short, trying at once would only burn time.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    // Nobody listens where there are no connections.
    let _ = closing.send(());
    let finished = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(GRACE, finished).await.is_err() {
        tracing::warn!("answers that were under way are cut off");
    }
    connections.shutdown().await;
}

async fn connection(stream: TcpStream, router: Router, mut closing: watch::Receiver<()>) {
    // Where it cannot be set, answers are a little late.
    let _ = stream.set_nodelay(true);
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADERS);
    let mut serving = pin!(builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)));
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        _ = closing.changed() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!("a connection ended: {error}");
    }
}
