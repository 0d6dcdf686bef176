//! A small service to be scheduled and loaded in experiments: each path costs one resource, as much as the request says, within limits.

use crate::blocker::{CpuKind, load};
use crate::http::{layers, metrics_response};
use axum::body::Bytes;
use axum::extract::{MatchedPath, Query, Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The most one request may cost, and the most of all together.
#[derive(Debug, Clone)]
pub struct AppLimits {
    /// Milliseconds of a processor, or of holding memory.
    pub ms: u64,
    /// MiB of memory, of all requests together.
    pub memory_mib: u32,
    /// MiB written to disk.
    pub disk_mib: u64,
    /// KiB in an answer.
    pub network_kib: usize,
    /// Requests that are worked on at a time.
    pub requests: usize,
}

impl Default for AppLimits {
    fn default() -> Self {
        Self { ms: 10_000, memory_mib: 256, disk_mib: 64, network_kib: 16_384, requests: 64 }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Served {
    path: String,
    code: u16,
}

/// The service.
#[derive(Debug)]
pub struct App {
    limits: AppLimits,
    folder: PathBuf,
    places: Arc<Semaphore>,
    memory: Arc<Semaphore>,
    body: Bytes,
    registry: Registry,
    durations: Family<Served, Histogram>,
    in_flight_refused: Counter,
}

type Shared = State<Arc<App>>;
type Refusal = (StatusCode, String);

impl App {
    /// One that writes into a folder.
    pub fn new(limits: AppLimits, folder: PathBuf) -> Self {
        let mut registry = Registry::default();
        let buckets = || Histogram::new(exponential_buckets(0.001, 2.0, 16));
        let durations: Family<Served, Histogram> = Family::new_with_constructor(buckets);
        let refused = Counter::default();
        let words = "How long requests took, by path and status";
        registry.register("plimsoll_app_request_duration_seconds", words, durations.clone());
        let words = "Requests that were refused because too many were worked on";
        registry.register("plimsoll_app_requests_refused", words, refused.clone());
        Self {
            places: Arc::new(Semaphore::new(limits.requests)),
            memory: Arc::new(Semaphore::new(limits.memory_mib as usize)),
            // Made once and shared, so that answers cost the network and not memory.
            body: Bytes::from(vec![b'x'; limits.network_kib * 1024]),
            limits,
            folder,
            registry,
            durations,
            in_flight_refused: refused,
        }
    }

    /// All paths.
    pub fn router(self) -> Router {
        let app = Arc::new(self);
        Router::new()
            .route("/healthz", get(|| async { "ok" }))
            .route("/metrics", get(metrics))
            .route("/cpu", get(cpu))
            .route("/memory", get(memory))
            .route("/disk", get(disk))
            .route("/network", get(network))
            .fallback(layers::no_such_path)
            .layer(from_fn_with_state(Arc::clone(&app), observe))
            .with_state(app)
            .layer(from_fn(layers::time_limit))
            .layer(from_fn(layers::json_errors))
    }

    /// A place among those that are worked on; a service that is overloaded says so at once.
    fn place(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            self.in_flight_refused.inc();
            (
                StatusCode::SERVICE_UNAVAILABLE,
                format!("{} requests are worked on already; try again", self.limits.requests),
            )
        })
    }
}

fn within(name: &str, asked: u64, most: u64) -> Result<(), Refusal> {
    let refusal = || (StatusCode::UNPROCESSABLE_ENTITY, format!("{name} is {asked}: it must be at most {most}"));
    if asked <= most { Ok(()) } else { Err(refusal()) }
}

fn failed(error: impl std::fmt::Display) -> Refusal {
    (StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
}

async fn observe(State(app): Shared, request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().map_or("other", MatchedPath::as_str).to_owned();
    let start = Instant::now();
    let response = next.run(request).await;
    let served = Served { path, code: response.status().as_u16() };
    app.durations.get_or_create(&served).observe(start.elapsed().as_secs_f64());
    response
}

async fn metrics(State(app): Shared) -> Response {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = encode(&mut text, &app.registry);
    metrics_response(text)
}

#[derive(Debug, Deserialize)]
struct CpuQuery {
    ms: u64,
}

/// Milliseconds that a processor worked for this thread: on a busy node the answer takes longer, as that of a real service would.
async fn cpu(State(app): Shared, Query(query): Query<CpuQuery>) -> Result<Json<Value>, Refusal> {
    within("ms", query.ms, app.limits.ms)?;
    let place = app.place()?;
    let start = Instant::now();
    let worked = tokio::task::spawn_blocking(move || {
        let _place = place;
        let wanted = Duration::from_millis(query.ms);
        // Longer than this no caller waits.
        let last = start + Duration::from_secs(60);
        let begin = load::thread_time();
        while load::thread_time().saturating_sub(begin) < wanted && Instant::now() < last {
            load::work(CpuKind::Fibonacci, Instant::now() + Duration::from_micros(100));
        }
        load::thread_time().saturating_sub(begin)
    });
    let worked = worked.await.map_err(failed)?;
    Ok(Json(json!({ "cpuMs": worked.as_secs_f64() * 1e3, "wallMs": start.elapsed().as_secs_f64() * 1e3 })))
}

#[derive(Debug, Deserialize)]
struct MemoryQuery {
    mib: u32,
    #[serde(default)]
    ms: u64,
}

async fn memory(State(app): Shared, Query(query): Query<MemoryQuery>) -> Result<Json<Value>, Refusal> {
    within("mib", query.mib.into(), app.limits.memory_mib.into())?;
    within("ms", query.ms, app.limits.ms)?;
    let _place = app.place()?;
    let full = |_| (StatusCode::SERVICE_UNAVAILABLE, "other requests hold the memory; try again".to_owned());
    let share = Arc::clone(&app.memory).try_acquire_many_owned(query.mib).map_err(full)?;
    // With its share, so that a caller who leaves does not free what is still being written.
    let taken = tokio::task::spawn_blocking(move || (load::take_memory(query.mib.into(), |_| true), share));
    let (held, _share) = taken.await.map_err(failed)?;
    let held = held.map_err(failed)?;
    tokio::time::sleep(Duration::from_millis(query.ms)).await;
    Ok(Json(json!({ "mib": held.len() / load::MIB })))
}

#[derive(Debug, Deserialize)]
struct DiskQuery {
    mib: u64,
}

async fn disk(State(app): Shared, Query(query): Query<DiskQuery>) -> Result<Json<Value>, Refusal> {
    within("mib", query.mib, app.limits.disk_mib)?;
    let place = app.place()?;
    let start = Instant::now();
    let folder = app.folder.clone();
    let written = tokio::task::spawn_blocking(move || -> std::io::Result<()> {
        let _place = place;
        let chunk = vec![0xa5; load::MIB];
        let mut file = load::nameless_file(&folder)?;
        (0..query.mib).try_for_each(|_| file.write_all(&chunk))?;
        file.sync_data()
    });
    let cannot = |error| failed(format!("cannot write into {}: {error}", app.folder.display()));
    written.await.map_err(failed)?.map_err(cannot)?;
    Ok(Json(json!({ "mib": query.mib, "wallMs": start.elapsed().as_secs_f64() * 1e3 })))
}

#[derive(Debug, Deserialize)]
struct NetworkQuery {
    kib: usize,
}

async fn network(State(app): Shared, Query(query): Query<NetworkQuery>) -> Result<Response, Refusal> {
    within("kib", query.kib as u64, app.limits.network_kib as u64)?;
    Ok(app.body.slice(..query.kib * 1024).into_response())
}
