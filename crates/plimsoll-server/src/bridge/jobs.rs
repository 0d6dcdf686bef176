//! Work that takes a while: `/v1/jobs`. Who starts it is told its number, and asks how far it is.

use super::{Bridge, lock};
use crate::Shared;
use crate::answer::{Path, Problem, Refused};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use utoipa::ToSchema;

/// Jobs that are remembered.
const REMEMBERED: usize = 100;
/// Jobs that may be under way.
const AT_A_TIME: usize = 4;

/// How far a job is.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub struct Job {
    id: String,
    /// What is done: `preview`, `experiment` or `training`.
    kind: &'static str,
    /// `running`, `done` or `failed`.
    state: &'static str,
    /// From 0 to 1.
    progress: f64,
    /// What is being done, or what went wrong.
    message: String,
    /// What came of it.
    result: Option<Value>,
}

/// The jobs of a server, by number.
#[derive(Debug, Default)]
pub struct Jobs(Mutex<BTreeMap<u64, Job>>);

/// Says how far a job is.
pub struct Progress {
    jobs: Arc<Jobs>,
    id: u64,
}

impl Progress {
    /// So much of it is done, from 0 to 1, and this is what is being done.
    pub fn tell(&self, progress: f64, message: &str) {
        self.change(|job| (job.progress, job.message) = (progress.clamp(0.0, 1.0), message.to_owned()));
    }

    fn change(&self, change: impl FnOnce(&mut Job)) {
        lock(&self.jobs.0).get_mut(&self.id).map(change);
    }
}

impl Bridge {
    /// Starts work; its number. Too much at a time is refused.
    pub(crate) fn start_job<F>(
        &self,
        kind: &'static str,
        work: impl FnOnce(Arc<Progress>) -> F,
    ) -> Result<Json<Value>, Refused>
    where
        F: Future<Output = Result<Value, String>> + Send + 'static,
    {
        let mut jobs = lock(&self.jobs.0);
        if jobs.values().filter(|job| job.state == "running").count() >= AT_A_TIME {
            let why = format!("{AT_A_TIME} jobs are under way; ask again when one has ended");
            return Err(Refused::new(StatusCode::TOO_MANY_REQUESTS, why));
        }
        let id = jobs.last_key_value().map_or(1, |(last, _)| last + 1);
        jobs.insert(id, Job { id: id.to_string(), kind, state: "running", ..Job::default() });
        let oldest = jobs.iter().find(|(_, job)| job.state != "running").map(|(id, _)| *id);
        if let Some(oldest) = oldest.filter(|_| jobs.len() > REMEMBERED) {
            jobs.remove(&oldest);
        }
        drop(jobs);
        let progress = Arc::new(Progress { jobs: Arc::clone(&self.jobs), id });
        let work = work(Arc::clone(&progress));
        tokio::spawn(async move {
            let ended = work.await;
            progress.change(|job| match ended {
                Ok(result) => (job.state, job.progress, job.result) = ("done", 1.0, Some(result)),
                Err(why) => (job.state, job.message) = ("failed", why),
            });
        });
        Ok(Json(json!({ "job": id.to_string() })))
    }
}

/// How far a job is.
#[utoipa::path(get, path = "/v1/jobs/{id}", params(("id" = u64, Path, description = "Its number")), responses((status = 200, description = "How far it is", body = Job), (status = 400, body = Problem), (status = 401, body = Problem), (status = 404, body = Problem), (status = 503, body = Problem)))]
pub async fn job(State(app): Shared, Path(id): Path<u64>) -> Result<Json<Job>, Refused> {
    let found = lock(&app.bridge.jobs.0).get(&id).cloned();
    found
        .map(Json)
        .ok_or_else(|| Refused::new(StatusCode::NOT_FOUND, format!("there is no job {id}, or it is forgotten")))
}
