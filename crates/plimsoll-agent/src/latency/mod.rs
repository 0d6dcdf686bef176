//! Latency to users: targets that are measured again and again, or once on request, and what is known of each.

mod endpoint;
mod probe;
mod window;

pub use endpoint::{Endpoint, Malformed, Method};
pub use probe::ProbeError;
pub use window::Window;

use crate::allow::{AllowList, Refused};
use crate::config::LatencyConfig;
use crate::lock;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use thiserror::Error;
use tokio::sync::{Notify, Semaphore};

/// How many round trips one request may ask for: with the default timeout it ends within the time a request has.
pub const MOST_AT_ONCE: u32 = 20;
/// How many targets are measured at the same time: more would measure the agent instead of the network.
const PARALLEL: usize = 8;
/// A day: a longer interval is a mistake.
const LONGEST_INTERVAL: f64 = 86_400.0;

/// Why latency was not measured.
#[derive(Debug, Error)]
pub enum LatencyError {
    /// The target cannot be understood.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The target is not allowed, or cannot be resolved.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// There are as many targets as there may be.
    #[error("{asked} targets are more than latency.max_targets ({most}): raise it, or name fewer")]
    TooMany {
        /// How many there would be.
        asked: usize,
        /// How many there may be.
        most: usize,
    },
    /// More round trips than one request may ask for.
    #[error("count is {0}: it must be 1 to {MOST_AT_ONCE}")]
    Count(u32),
    /// An interval that is none.
    #[error("{target}: intervalSeconds is {asked}: it must be {shortest} to {LONGEST_INTERVAL}")]
    Interval {
        /// Of which target.
        target: String,
        /// As it was given.
        asked: f64,
        /// The shortest there may be.
        shortest: f64,
    },
}

/// What is asked for when latency is measured once.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MeasureRequest {
    /// `host:port`, `http://host:port/path`, or `host`, as the method has it.
    pub target: String,
    /// How it is measured.
    #[serde(default)]
    pub method: Method,
    /// How many round trips.
    #[serde(default = "one")]
    pub count: u32,
}

fn one() -> u32 {
    1
}

/// A target that is measured again and again.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TargetRequest {
    /// `host:port`, `http://host:port/path`, or `host`, as the method has it.
    pub target: String,
    /// How it is measured.
    #[serde(default)]
    pub method: Method,
    /// How often.
    #[serde(default = "ten")]
    pub interval_seconds: f64,
}

fn ten() -> f64 {
    10.0
}

/// The targets that are to be measured from now on, beside those of the configuration.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TargetsRequest {
    /// All of them: those that were set before and are not named are forgotten.
    pub targets: Vec<TargetRequest>,
}

/// What is known of one target.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetReport {
    /// As it was named.
    pub target: String,
    /// How it is measured.
    pub method: Method,
    /// The address that was measured last.
    pub address: Option<String>,
    /// How often it is measured; absent where it was measured on request.
    pub interval_seconds: Option<f64>,
    /// Round trips so far.
    pub count: u64,
    /// Attempts so far that had no answer.
    pub failures: u64,
    /// Why the last attempt failed, if it did.
    pub last_error: Option<String>,
    /// The last round trip.
    pub last_seconds: Option<f64>,
    /// The moving average.
    pub ewma_seconds: Option<f64>,
    /// Half of the newest round trips took no longer.
    pub p50_seconds: Option<f64>,
    /// 95 % of the newest round trips took no longer.
    pub p95_seconds: Option<f64>,
    /// 99 % of the newest round trips took no longer.
    pub p99_seconds: Option<f64>,
}

/// What is known of all targets.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct LatencyReport {
    /// By method and name.
    pub targets: Vec<TargetReport>,
}

/// Who wants a target measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// The configuration: it stays.
    Configured,
    /// The API, by a list that replaces the one before.
    Set,
    /// Somebody who asked once: it gives way to others.
    Asked,
}

type Key = (Method, String);

#[derive(Debug)]
struct Record {
    endpoint: Endpoint,
    wanted: Wanted,
    interval: Option<Duration>,
    due: Instant,
    measuring: bool,
    address: Option<SocketAddr>,
    window: Window,
    failures: u64,
    last_error: Option<String>,
}

/// All targets and what is known of them.
#[derive(Debug)]
pub struct Latency {
    allow: AllowList,
    config: LatencyConfig,
    records: Mutex<BTreeMap<Key, Record>>,
    parallel: Semaphore,
    changed: Notify,
}

impl Latency {
    /// With the targets of the configuration, which was checked when it was read.
    pub fn new(config: &LatencyConfig, allow: &AllowList) -> Result<Self, LatencyError> {
        let latency = Self {
            allow: allow.clone(),
            config: config.clone(),
            records: Mutex::default(),
            parallel: Semaphore::new(PARALLEL),
            changed: Notify::new(),
        };
        for target in &config.targets {
            let endpoint = latency.checked(target.method, &target.target)?;
            let interval = latency.interval(&target.target, target.interval_seconds)?;
            let record = latency.record(endpoint, Wanted::Configured, Some(interval));
            lock(&latency.records).insert((target.method, target.target.clone()), record);
        }
        Ok(latency)
    }

    fn checked(&self, method: Method, target: &str) -> Result<Endpoint, LatencyError> {
        let endpoint = Endpoint::parse(method, target)?;
        self.allow.check(&endpoint.host)?;
        Ok(endpoint)
    }

    fn interval(&self, target: &str, asked: f64) -> Result<Duration, LatencyError> {
        let shortest = self.config.min_interval_seconds;
        // Written so that a value that is no number is refused, too.
        if asked >= shortest && asked <= LONGEST_INTERVAL {
            return Ok(Duration::from_secs_f64(asked));
        }
        Err(LatencyError::Interval { target: target.to_owned(), asked, shortest })
    }

    fn record(&self, endpoint: Endpoint, wanted: Wanted, interval: Option<Duration>) -> Record {
        Record {
            endpoint,
            wanted,
            interval,
            due: Instant::now(),
            measuring: false,
            address: None,
            window: Window::new(self.config.window, self.config.alpha),
            failures: 0,
            last_error: None,
        }
    }

    /// Replaces the targets that were set before; those of the configuration stay, and what is known of targets that stay is kept.
    pub fn set_targets(&self, request: &TargetsRequest) -> Result<(), LatencyError> {
        let mut wanted = BTreeMap::new();
        for target in &request.targets {
            let endpoint = self.checked(target.method, &target.target)?;
            let interval = self.interval(&target.target, target.interval_seconds)?;
            wanted.insert((target.method, target.target.clone()), (endpoint, interval));
        }
        let mut records = lock(&self.records);
        let configured = |record: &Record| record.wanted == Wanted::Configured;
        let held = records.iter().filter(|(key, record)| configured(record) && !wanted.contains_key(*key)).count();
        let (asked, most) = (held + wanted.len(), self.config.max_targets);
        if asked > most {
            return Err(LatencyError::TooMany { asked, most });
        }
        records.retain(|key, record| configured(record) || wanted.contains_key(key));
        for (key, (endpoint, interval)) in wanted {
            let record = records.entry(key).or_insert_with(|| self.record(endpoint, Wanted::Set, None));
            // The configuration's own interval is the operator's word.
            if record.wanted != Wanted::Configured {
                (record.wanted, record.interval) = (Wanted::Set, Some(interval));
            }
        }
        drop(records);
        self.changed.notify_one();
        Ok(())
    }

    /// Measures one target now, and says what is known of it then.
    pub async fn measure(&self, request: &MeasureRequest) -> Result<TargetReport, LatencyError> {
        if request.count == 0 || request.count > MOST_AT_ONCE {
            return Err(LatencyError::Count(request.count));
        }
        let endpoint = self.checked(request.method, &request.target)?;
        let addresses = self.allow.resolve(&endpoint.host, endpoint.port).await?;
        let key = (request.method, request.target.clone());
        self.make_room(&key, &endpoint)?;
        self.round_trips(&key, &endpoint, addresses, request.count).await;
        let records = lock(&self.records);
        let gone = LatencyError::TooMany { asked: records.len() + 1, most: self.config.max_targets };
        records.get(&key).map(|record| report(&key, record)).ok_or(gone)
    }

    /// A place for what is found out about a target that was asked for once; the one that was asked for longest ago gives way.
    fn make_room(&self, key: &Key, endpoint: &Endpoint) -> Result<(), LatencyError> {
        let mut records = lock(&self.records);
        if let Some(record) = records.get_mut(key) {
            record.due = Instant::now();
            return Ok(());
        }
        let most = self.config.max_targets;
        if records.len() >= most {
            let asked = records.iter().filter(|(_, record)| record.wanted == Wanted::Asked);
            let oldest = asked.min_by_key(|(_, record)| record.due).map(|(key, _)| key.clone());
            let Some(oldest) = oldest else { return Err(LatencyError::TooMany { asked: records.len() + 1, most }) };
            records.remove(&oldest);
        }
        records.insert(key.clone(), self.record(endpoint.clone(), Wanted::Asked, None));
        Ok(())
    }

    async fn round_trips(&self, key: &Key, endpoint: &Endpoint, addresses: Vec<SocketAddr>, count: u32) {
        // The semaphore is never closed.
        let _permit = self.parallel.acquire().await;
        let timeout = Duration::from_secs_f64(self.config.timeout_seconds);
        let mut addresses = addresses.into_iter();
        let Some(mut address) = addresses.next() else { return };
        for _ in 0..count {
            let mut found = probe::probe(endpoint, address, timeout).await;
            // A host may listen at one of its addresses alone: `localhost` has two.
            while let (Err(ProbeError::Unreachable { .. }), Some(next)) = (&found, addresses.next()) {
                address = next;
                found = probe::probe(endpoint, address, timeout).await;
            }
            let is_final = matches!(found, Err(ProbeError::NotPermitted));
            if let Some(record) = lock(&self.records).get_mut(key) {
                record.address = Some(address);
                record.note(found.map_err(|error| error.to_string()));
            }
            if is_final {
                break;
            }
        }
    }

    /// Measures what is due, until the future is dropped.
    pub async fn run(self: Arc<Self>) {
        loop {
            let (due, next) = self.take_due(Instant::now());
            for (key, endpoint) in due {
                let latency = Arc::clone(&self);
                tokio::spawn(async move { latency.measure_due(key, endpoint).await });
            }
            tokio::select! {
                () = tokio::time::sleep_until(next.into()) => {}
                () = self.changed.notified() => {}
            }
        }
    }

    /// Those that are due and not being measured, and when there is something to do next.
    fn take_due(&self, now: Instant) -> (Vec<(Key, Endpoint)>, Instant) {
        let mut due = Vec::new();
        let mut next = now + Duration::from_secs(60);
        for (key, record) in lock(&self.records).iter_mut() {
            let Some(interval) = record.interval else { continue };
            if record.due <= now {
                // One that takes longer than its interval is left out, not measured twice at a time.
                if !record.measuring {
                    record.measuring = true;
                    due.push((key.clone(), record.endpoint.clone()));
                }
                record.due = now + interval;
            }
            next = next.min(record.due);
        }
        (due, next)
    }

    async fn measure_due(&self, key: Key, endpoint: Endpoint) {
        match self.allow.resolve(&endpoint.host, endpoint.port).await {
            Ok(addresses) => self.round_trips(&key, &endpoint, addresses, 1).await,
            Err(error) => {
                if let Some(record) = lock(&self.records).get_mut(&key) {
                    record.note(Err(error.to_string()));
                }
            }
        }
        if let Some(record) = lock(&self.records).get_mut(&key) {
            record.measuring = false;
        }
    }

    /// What is known of all targets.
    pub fn report(&self) -> LatencyReport {
        LatencyReport { targets: lock(&self.records).iter().map(|(key, record)| report(key, record)).collect() }
    }
}

impl Record {
    fn note(&mut self, found: Result<Duration, String>) {
        match found {
            Ok(took) => {
                self.window.add(took.as_secs_f64());
                self.last_error = None;
            }
            Err(error) => {
                self.failures += 1;
                self.last_error = Some(error);
            }
        }
    }
}

fn report((method, target): &Key, record: &Record) -> TargetReport {
    let [p50, p95, p99] = match record.window.percentiles([0.5, 0.95, 0.99]) {
        Some(parts) => parts.map(Some),
        None => [None; 3],
    };
    TargetReport {
        target: target.clone(),
        method: *method,
        address: record.address.map(|address| address.ip().to_string()),
        interval_seconds: record.interval.map(|interval| interval.as_secs_f64()),
        count: record.window.count(),
        failures: record.failures,
        last_error: record.last_error.clone(),
        last_seconds: record.window.last(),
        ewma_seconds: record.window.average(),
        p50_seconds: p50,
        p95_seconds: p95,
        p99_seconds: p99,
    }
}

#[cfg(test)]
mod tests;
