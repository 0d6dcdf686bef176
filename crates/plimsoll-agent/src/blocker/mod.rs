//! Occupied resources: blocks of CPU, memory, disk and network at given levels, for a given time, released when their owner vanishes.

mod limits;
pub(crate) mod load;
mod stop;
mod watchdog;

pub use limits::{BlockRequest, CpuKind, Limits, OverLimit};

use crate::allow::{AllowList, Refused};
use crate::config::BlockerConfig;
use crate::latency::{Endpoint, Malformed, Method};
use crate::lock;
use load::{Done, MIB};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use stop::Stop;
use thiserror::Error;

/// How many blocks that have ended are remembered, so that one can ask why.
const REMEMBERED: usize = 64;

/// Why a block is not held.
#[derive(Debug, Error)]
pub enum BlockError {
    /// It is over a limit.
    #[error(transparent)]
    OverLimit(#[from] OverLimit),
    /// The target of datagrams is not allowed.
    #[error("networkTarget: {0}")]
    Refused(#[from] Refused),
    /// The target of datagrams cannot be understood.
    #[error("networkTarget: {0}")]
    Malformed(#[from] Malformed),
    /// There is nowhere to write.
    #[error("diskMibPerS: no folder is configured for disk load; set blocker.disk_folder")]
    NoFolder,
    /// It never was.
    #[error("there is no block {0}")]
    Unknown(String),
    /// It has ended.
    #[error("block {id} is no longer held: {reason}")]
    Ended {
        /// Which.
        id: String,
        /// Why it ended.
        reason: String,
    },
    /// The agent is ending.
    #[error("the agent is shutting down and holds no more")]
    ShuttingDown,
    /// A thread could not be started.
    #[error("cannot start a worker: {0}")]
    NoThread(io::Error),
}

/// How far a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// It holds what was asked for.
    Held,
    /// It gives back what it holds.
    Releasing,
    /// It holds nothing any more.
    Released,
}

/// What a block has done so far.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DoneReport {
    /// Seconds that processors worked.
    pub cpu_seconds: f64,
    /// MiB of memory that are held and written to.
    pub memory_mib: u64,
    /// MiB written to disk.
    pub disk_mib: f64,
    /// MiB sent.
    pub network_mib: f64,
}

/// A block.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockReport {
    /// Its name.
    pub id: String,
    /// How far it is.
    pub phase: Phase,
    /// Why it ended, if it did.
    pub reason: Option<String>,
    /// What was asked for.
    pub request: BlockRequest,
    /// What it has done so far.
    pub done: DoneReport,
    /// How long it is still held.
    pub seconds_left: f64,
    /// How long it is still held without a heartbeat.
    pub ttl_seconds_left: f64,
}

/// All blocks.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct BlocksReport {
    /// Those that are held, or being released.
    pub blocks: Vec<BlockReport>,
    /// Those that have ended lately, the last one last.
    pub ended: Vec<BlockReport>,
}

/// What a worker does until it is stopped.
type Job = Box<dyn FnOnce(&Stop, &Done) -> io::Result<()> + Send>;

#[derive(Debug)]
struct Block {
    request: BlockRequest,
    ends: Instant,
    ttl: Duration,
    beat: Instant,
    reason: Option<String>,
    stop: Arc<Stop>,
    done: Arc<Done>,
    workers: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct State {
    last: u64,
    held: BTreeMap<u64, Block>,
    ended: VecDeque<(u64, BlockReport)>,
    closing: bool,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// Holds blocks and releases them.
#[derive(Debug)]
pub struct Blocker {
    config: BlockerConfig,
    allow: AllowList,
    shared: Arc<Shared>,
    watchdog: Option<JoinHandle<()>>,
}

impl Block {
    fn end(&mut self, reason: &str) {
        self.reason.get_or_insert_with(|| reason.to_owned());
        self.stop.raise();
    }

    /// When it ends unless its owner is heard of, and why then.
    fn deadline(&self) -> (Instant, &'static str) {
        let vanished = self.beat + self.ttl;
        if vanished < self.ends {
            (vanished, "no heartbeat within ttlSeconds")
        } else {
            (self.ends, "its time is over")
        }
    }

    fn report(&self, id: u64, now: Instant) -> BlockReport {
        let mib = |bytes: u64| bytes as f64 / MIB as f64;
        let of = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let left = |until: Instant| until.saturating_duration_since(now).as_secs_f64();
        BlockReport {
            id: name(id),
            phase: if self.reason.is_some() { Phase::Releasing } else { Phase::Held },
            reason: self.reason.clone(),
            request: self.request.clone(),
            done: DoneReport {
                cpu_seconds: of(&self.done.cpu_us) as f64 / 1e6,
                memory_mib: of(&self.done.memory) / MIB as u64,
                disk_mib: mib(of(&self.done.disk)),
                network_mib: mib(of(&self.done.network)),
            },
            seconds_left: left(self.ends),
            ttl_seconds_left: left(self.beat + self.ttl),
        }
    }
}

fn name(id: u64) -> String {
    format!("block-{id}")
}

impl State {
    fn find(&self, id: &str) -> Result<u64, BlockError> {
        let number = id.strip_prefix("block-").and_then(|number| number.parse().ok());
        let number = number.filter(|number| *number > 0 && *number <= self.last && name(*number) == id);
        number.ok_or_else(|| BlockError::Unknown(id.to_owned()))
    }

    fn report(&self, id: u64) -> Result<BlockReport, BlockError> {
        if let Some(block) = self.held.get(&id) {
            return Ok(block.report(id, Instant::now()));
        }
        let ended = self.ended.iter().find(|(number, _)| *number == id).map(|(_, report)| report.clone());
        ended.ok_or_else(|| BlockError::Unknown(name(id)))
    }
}

impl Shared {
    fn end(&self, id: u64, reason: &str) {
        if let Some(block) = lock(&self.state).held.get_mut(&id) {
            block.end(reason);
        }
        self.changed.notify_all();
    }

    fn end_all(&self, reason: &str) {
        lock(&self.state).held.values_mut().for_each(|block| block.end(reason));
        self.changed.notify_all();
    }

    /// Waits until a block, or all of them, hold nothing any more.
    fn wait_released(&self, id: Option<u64>) {
        let held = |state: &mut State| id.map_or(!state.held.is_empty(), |id| state.held.contains_key(&id));
        let state = lock(&self.state);
        drop(self.changed.wait_while(state, held).unwrap_or_else(PoisonError::into_inner));
    }

    /// Starts the workers of a block that may be held.
    fn start(
        self: &Arc<Self>,
        limits: &Limits,
        request: BlockRequest,
        jobs: Vec<(&str, Job)>,
    ) -> Result<BlockReport, BlockError> {
        let mut state = lock(&self.state);
        if state.closing {
            return Err(BlockError::ShuttingDown);
        }
        // A block that gives back what it holds still holds it.
        limits.admit(&request, state.held.values().map(|block| &block.request))?;
        let id = state.last + 1;
        let (stop, done) = (Arc::new(Stop::default()), Arc::new(Done::default()));
        let mut workers = Vec::new();
        for (what, job) in jobs {
            match self.worker(id, what, job, &stop, &done) {
                Ok(worker) => workers.push(worker),
                Err(error) => {
                    stop.raise();
                    drop(state);
                    workers.into_iter().for_each(|worker| drop(worker.join()));
                    return Err(BlockError::NoThread(error));
                }
            }
        }
        let now = Instant::now();
        let ends = now + Duration::from_secs_f64(request.seconds);
        let ttl = Duration::from_secs_f64(request.ttl());
        let block = Block { request, ends, ttl, beat: now, reason: None, stop, done, workers };
        let report = block.report(id, now);
        state.last = id;
        state.held.insert(id, block);
        drop(state);
        self.changed.notify_all();
        Ok(report)
    }

    fn worker(
        self: &Arc<Self>,
        id: u64,
        what: &str,
        job: Job,
        stop: &Arc<Stop>,
        done: &Arc<Done>,
    ) -> io::Result<JoinHandle<()>> {
        let (shared, stop, done, what) = (Arc::clone(self), Arc::clone(stop), Arc::clone(done), what.to_owned());
        std::thread::Builder::new().name(format!("block-{what}")).spawn(move || {
            let run = std::panic::AssertUnwindSafe(|| job(&stop, &done));
            match std::panic::catch_unwind(run) {
                Ok(Ok(())) => {}
                Ok(Err(error)) => shared.end(id, &format!("{what} cannot be occupied: {error}")),
                // What panics here is a mistake of ours, of unknown reach: nothing is held any further.
                Err(_) => {
                    let why = format!("a worker for {what} of {} panicked, and all blocks were released", name(id));
                    shared.end_all(&why);
                }
            }
        })
    }
}

impl Blocker {
    /// Holds nothing yet.
    pub fn new(config: &BlockerConfig, allow: &AllowList) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let watched = Arc::clone(&shared);
        let run = move || watchdog::watch(&watched);
        let watchdog = std::thread::Builder::new().name("watchdog".to_owned()).spawn(run)?;
        Ok(Self { config: config.clone(), allow: allow.clone(), shared, watchdog: Some(watchdog) })
    }

    /// Holds what is asked for, if the limits allow it.
    pub async fn hold(&self, request: BlockRequest) -> Result<BlockReport, BlockError> {
        // Limits come before anything is resolved; they are checked again when the block is entered.
        self.config.limits.admit(&request, std::iter::empty())?;
        let target = match &request.network_target {
            Some(target) => {
                let endpoint = Endpoint::parse(Method::Tcp, target)?;
                self.allow.resolve(&endpoint.host, endpoint.port).await?.into_iter().next()
            }
            None => None,
        };
        let folder = match (&self.config.disk_folder, request.disk_mib_per_s > 0.0) {
            (None, true) => return Err(BlockError::NoFolder),
            (folder, _) => folder.clone().unwrap_or_default(),
        };
        let jobs = jobs(&request, folder, target);
        self.shared.start(&self.config.limits, request, jobs)
    }

    /// All blocks.
    pub fn report(&self) -> BlocksReport {
        let state = lock(&self.shared.state);
        let now = Instant::now();
        BlocksReport {
            blocks: state.held.iter().map(|(id, block)| block.report(*id, now)).collect(),
            ended: state.ended.iter().map(|(_, report)| report.clone()).collect(),
        }
    }

    /// One block, held or ended lately.
    pub fn get(&self, id: &str) -> Result<BlockReport, BlockError> {
        let state = lock(&self.shared.state);
        state.report(state.find(id)?)
    }

    /// Its owner is still there.
    pub fn heartbeat(&self, id: &str) -> Result<BlockReport, BlockError> {
        let mut state = lock(&self.shared.state);
        let number = state.find(id)?;
        match state.held.get_mut(&number) {
            Some(block) if block.reason.is_none() => {
                block.beat = Instant::now();
                Ok(block.report(number, Instant::now()))
            }
            _ => {
                let report = state.report(number)?;
                Err(BlockError::Ended { id: report.id, reason: report.reason.unwrap_or_default() })
            }
        }
    }

    /// Releases a block, and returns when it holds nothing any more.
    pub fn release(&self, id: &str) -> Result<BlockReport, BlockError> {
        let number = lock(&self.shared.state).find(id)?;
        self.shared.end(number, "it was asked for");
        self.shared.wait_released(Some(number));
        lock(&self.shared.state).report(number)
    }

    /// Releases all, holds no more, and returns when nothing is held.
    pub fn shut_down(&self) {
        lock(&self.shared.state).closing = true;
        self.shared.end_all("the agent was shut down");
        self.shared.wait_released(None);
    }
}

impl Drop for Blocker {
    fn drop(&mut self) {
        self.shut_down();
        self.shared.changed.notify_all();
        if let Some(watchdog) = self.watchdog.take() {
            // A thread that panicked has been reported by the panic itself.
            let _ = watchdog.join();
        }
    }
}

/// What the workers of a block do: a thread a core, and one for each other resource.
fn jobs(request: &BlockRequest, folder: PathBuf, target: Option<SocketAddr>) -> Vec<(&'static str, Job)> {
    let mut jobs: Vec<(&str, Job)> = Vec::new();
    let kind = request.cpu_kind;
    let mut cores = request.cpu;
    while cores > 1e-9 {
        let duty = cores.min(1.0);
        jobs.push(("cpu", Box::new(move |stop: &Stop, done: &Done| load::cpu(kind, duty, stop, done))));
        cores -= duty;
    }
    let mib = request.memory_mib;
    if mib > 0 {
        jobs.push(("memory", Box::new(move |stop: &Stop, done: &Done| load::memory(mib, stop, done))));
    }
    let rate = request.disk_mib_per_s;
    if rate > 0.0 {
        jobs.push(("disk", Box::new(move |stop: &Stop, done: &Done| load::disk(&folder, rate, stop, done))));
    }
    let rate = request.network_mib_per_s;
    if rate > 0.0 {
        jobs.push(("network", Box::new(move |stop: &Stop, done: &Done| load::network(target, rate, stop, done))));
    }
    jobs
}

#[cfg(test)]
mod tests;
