//! Energy: what the node takes, by RAPL or by a curve, and which part of it a process, a cgroup or a pod has caused.

mod account;
mod cpu;
mod curve;
#[cfg(test)]
mod fixture;
mod rapl;
mod sampler;

pub use account::{Account, Span};
pub use curve::Curve;
pub use rapl::{Kind, NoRapl, Zone};
pub use sampler::Sampler;

use crate::config::EnergyConfig;
use crate::lock;
use cpu::{Clock, CpuTime};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, PathBuf};
use std::sync::Mutex;
use std::time::Duration;
use thiserror::Error;
use tokio::sync::watch;

/// Pods are looked for this often; they live longer than that.
const LOOK_FOR_PODS: Duration = Duration::from_secs(1);
/// What nobody asks about is followed no longer.
const FORGET: Duration = Duration::from_secs(600);

/// Where the node's power is known from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// It is measured.
    Rapl,
    /// It is worked out from the load.
    Estimate,
    /// It is not known.
    None,
}

impl Source {
    /// Its name, as in the API and in labels.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rapl => "rapl",
            Self::Estimate => "estimate",
            Self::None => "none",
        }
    }
}

/// Whose energy is asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A process by its number.
    Process(u32),
    /// A cgroup by its path below the root.
    Cgroup(PathBuf),
    /// A pod by its UID.
    Pod(String),
}

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum EnergyError {
    /// The process is not there.
    #[error("there is no process {pid} below {}", proc.display())]
    NoProcess {
        /// Its number.
        pid: u32,
        /// Where it was looked for.
        proc: PathBuf,
    },
    /// The cgroup is not there.
    #[error("there is no cgroup {} with cpu.stat of cgroup v2 below {}", path.display(), root.display())]
    NoCgroup {
        /// As it was given.
        path: PathBuf,
        /// Where it was looked for.
        root: PathBuf,
    },
    /// The pod is not on this node.
    #[error("there is no cgroup of a pod with the UID {uid:?} below {}: is it on this node?", root.display())]
    NoPod {
        /// As it was given.
        uid: String,
        /// Where it was looked for.
        root: PathBuf,
    },
    /// As many are followed as may be.
    #[error("energy.max_followed ({0}) processes and cgroups are followed already: raise it, or ask again later")]
    TooMany(usize),
    /// There is no power to attribute.
    #[error("the node's power is not known: {0}; set energy.curve for an estimate")]
    NoPower(String),
}

/// A zone of RAPL.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ZoneReport {
    /// Its name, with that of the zone it is in.
    pub zone: String,
    /// Its power in the last window.
    pub watts: f64,
    /// Its energy since the agent started.
    pub joules: f64,
    /// Whether it counts for the node; if not, it is part of another that does, or overlaps all.
    pub counted: bool,
}

/// What the node takes.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnergyReport {
    /// Where it is known from.
    pub source: Source,
    /// Why it is not measured, where it is not.
    pub note: Option<String>,
    /// The length of a window.
    pub window_ms: u64,
    /// The node's power in the last window: packages and DRAM, or the estimate.
    pub watts: Option<f64>,
    /// The node's energy since the agent started.
    pub joules: Option<f64>,
    /// Which part of their time the processors were busy in the last window.
    pub utilisation: Option<f64>,
    /// How long it is counted.
    pub seconds: f64,
    /// The zones of RAPL.
    pub zones: Vec<ZoneReport>,
    /// The pods that are followed, by UID.
    pub pods: Vec<PodReport>,
}

/// The energy of a pod in the report of the node.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodReport {
    /// Its UID.
    pub pod_uid: String,
    /// Its power in the last window.
    pub milliwatts: f64,
    /// Its energy since it is followed.
    pub joules: f64,
}

/// The part of one process, cgroup or pod.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubjectReport {
    /// Where the node's power is known from.
    pub source: Source,
    /// The length of a window.
    pub window_ms: u64,
    /// Its power in the last window.
    pub milliwatts: f64,
    /// Its power in the last windows, the newest last.
    pub recent_milliwatts: Vec<f64>,
    /// Its energy since it is followed.
    pub joules: f64,
    /// Its part of the busy time in the last window, 0 to 1.
    pub cpu_share: f64,
    /// Windows since it is followed.
    pub windows: u64,
}

#[derive(Debug, Default, Clone)]
struct Counted {
    before: Option<u64>,
    joules: f64,
    watts: f64,
}

#[derive(Debug, Default)]
struct State {
    at: Option<Duration>,
    first: Duration,
    looked: Option<Duration>,
    zones: Vec<Counted>,
    cpu: Option<CpuTime>,
    cgroups_busy: Option<u64>,
    watts: Option<f64>,
    joules: f64,
    utilisation: Option<f64>,
    pods: BTreeMap<String, PathBuf>,
    accounts: BTreeMap<Subject, Account>,
    unreadable: BTreeSet<String>,
}

/// Joules of a window.
#[derive(Debug, Default, Clone, Copy)]
struct Joules {
    packages: f64,
    node: f64,
}

/// A window as processes are told it, by ticks, and as cgroups are, more finely.
#[derive(Debug, Clone, Copy)]
struct Spans {
    of_processes: Span,
    of_cgroups: Span,
}

/// What the node takes, and who causes it.
#[derive(Debug)]
pub struct Energy {
    config: EnergyConfig,
    clock: Clock,
    zones: Vec<Zone>,
    source: Source,
    note: Option<String>,
    state: Mutex<State>,
    samples: watch::Sender<u64>,
}

impl Energy {
    /// Finds out where power is known from, and says so.
    pub fn new(config: &EnergyConfig) -> Self {
        let (zones, note) = match rapl::discover(&config.powercap) {
            Ok(zones) => (zones, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        let source = match (&note, &config.curve) {
            (None, _) => Source::Rapl,
            (Some(_), Some(_)) => Source::Estimate,
            (Some(_), None) => Source::None,
        };
        match &note {
            None => tracing::info!(zones = zones.len(), "energy is measured by RAPL"),
            Some(note) => tracing::warn!(source = source.name(), "energy is not measured: {note}"),
        }
        let state = State { zones: vec![Counted::default(); zones.len()], ..State::default() };
        let clock = Clock::new(&config.proc);
        let samples = watch::Sender::new(0);
        Self { config: config.clone(), clock, zones, source, note, state: Mutex::new(state), samples }
    }

    /// The length of a window.
    pub fn window(&self) -> Duration {
        Duration::from_millis(self.config.window_ms)
    }

    /// Ends a window: reads all counters, and attributes what was used since the last time. `at` is the time since the start.
    pub fn sample(&self, at: Duration) {
        let mut state = lock(&self.state);
        let length = state.at.map(|before| at.saturating_sub(before));
        if length == Some(Duration::ZERO) {
            return;
        }
        if state.looked.is_none_or(|looked| at.saturating_sub(looked) >= LOOK_FOR_PODS) {
            self.look_for_pods(&mut state, at);
        }
        let measured = self.read_zones(&mut state, length);
        let busy = self.read_busy(&mut state);
        if state.at.is_none() {
            state.first = at;
        }
        state.at = Some(at);
        let spans = length.and_then(|length| {
            let joules = self.count_node(&mut state, length, measured)?;
            let (time, cgroups) = busy?;
            let span = |busy| Span { length, joules, busy };
            Some(Spans { of_processes: span(time.busy), of_cgroups: span(cgroups.unwrap_or(time.busy)) })
        });
        self.attribute(&mut state, at, spans);
        drop(state);
        self.samples.send_modify(|count| *count += 1);
    }

    /// Adds what the node used in a window, and returns what of it is attributed: the packages' joules, or all that is estimated.
    fn count_node(&self, state: &mut State, length: Duration, measured: Joules) -> Option<f64> {
        let (attributed, node) = match (self.source, &self.config.curve) {
            (Source::Rapl, _) => (measured.packages, measured.node),
            (Source::Estimate, Some(curve)) => {
                let joules = curve.watts(state.utilisation?) * length.as_secs_f64();
                (joules, joules)
            }
            _ => return None,
        };
        state.joules += node;
        state.watts = Some(node / length.as_secs_f64());
        Some(attributed)
    }

    /// Joules of packages, and of the node, since the last time.
    fn read_zones(&self, state: &mut State, length: Option<Duration>) -> Joules {
        let mut sum = Joules::default();
        let State { zones, unreadable, .. } = state;
        for (zone, counted) in self.zones.iter().zip(zones) {
            let now = match zone.read() {
                Ok(now) => now,
                Err(error) => {
                    if unreadable.insert(zone.label.clone()) {
                        tracing::warn!(zone = zone.label, "the counter of a zone can no longer be read: {error}");
                    }
                    counted.watts = 0.0;
                    continue;
                }
            };
            let (Some(before), Some(length)) = (counted.before.replace(now), length) else { continue };
            let joules = zone.between(before, now) as f64 / 1e6;
            counted.joules += joules;
            counted.watts = joules / length.as_secs_f64();
            match zone.kind {
                Kind::Package => {
                    sum.packages += joules;
                    sum.node += joules;
                }
                Kind::Dram => sum.node += joules,
                Kind::Overlapping => {}
            }
        }
        sum
    }

    /// How long processors were busy since the last time: by ticks, and by the root cgroup, which is finer, where it says so.
    fn read_busy(&self, state: &mut State) -> Option<(CpuTime, Option<u64>)> {
        let now = match self.clock.total() {
            Ok(now) => now,
            Err(error) => {
                if state.unreadable.insert("proc".to_owned()) {
                    tracing::warn!("the time of processors cannot be read: {error}; set energy.proc");
                }
                return None;
            }
        };
        let cgroups_now = cpu::cgroup(&self.config.cgroup).ok();
        let cgroups = state.cgroups_busy.zip(cgroups_now).map(|(before, now)| now.saturating_sub(before));
        state.cgroups_busy = cgroups_now;
        let before = state.cpu.replace(now)?;
        let since = CpuTime { busy: now.busy.saturating_sub(before.busy), idle: now.idle.saturating_sub(before.idle) };
        // Ticks are coarse: in a short window there may be none.
        let total = since.busy.saturating_add(since.idle);
        if total > 0 {
            state.utilisation = Some(since.busy as f64 / total as f64);
        }
        Some((since, cgroups))
    }

    fn attribute(&self, state: &mut State, at: Duration, spans: Option<Spans>) {
        let State { accounts, pods, .. } = state;
        accounts.retain(|subject, account| {
            let (used, span) = match subject {
                Subject::Process(pid) => {
                    let time = self.clock.process(*pid).ok();
                    // A number is given again; another process is another account.
                    let same = time.filter(|time| *account.started.get_or_insert(time.started) == time.started);
                    (same.map(|time| time.used), spans.map(|spans| spans.of_processes))
                }
                Subject::Cgroup(path) => {
                    (cpu::cgroup(&self.config.cgroup.join(path)).ok(), spans.map(|spans| spans.of_cgroups))
                }
                Subject::Pod(uid) => {
                    let used = pods.get(uid).and_then(|folder| cpu::cgroup(folder).ok());
                    (used, spans.map(|spans| spans.of_cgroups))
                }
            };
            let Some(used) = used else {
                if let Subject::Pod(uid) = subject {
                    pods.remove(uid);
                }
                return false;
            };
            account.advance(used, span);
            matches!(subject, Subject::Pod(_)) || at.saturating_sub(account.asked) < FORGET
        });
    }

    fn look_for_pods(&self, state: &mut State, at: Duration) {
        state.pods = cpu::pods(&self.config.cgroup, self.config.max_followed);
        state.looked = Some(at);
        for uid in state.pods.keys() {
            state.accounts.entry(Subject::Pod(uid.clone())).or_default();
        }
    }

    /// What the node takes.
    pub fn report(&self) -> EnergyReport {
        let state = lock(&self.state);
        let is_known = self.source != Source::None;
        let zone = |(zone, counted): (&Zone, &Counted)| ZoneReport {
            zone: zone.label.clone(),
            watts: counted.watts,
            joules: counted.joules,
            counted: zone.kind != Kind::Overlapping,
        };
        EnergyReport {
            source: self.source,
            note: self.note.clone(),
            window_ms: self.config.window_ms,
            watts: state.watts,
            joules: is_known.then_some(state.joules),
            utilisation: state.utilisation,
            seconds: state.at.map_or(0.0, |at| at.saturating_sub(state.first).as_secs_f64()),
            zones: self.zones.iter().zip(&state.zones).map(zone).collect(),
            pods: if is_known { state.accounts.iter().filter_map(pod_report).collect() } else { Vec::new() },
        }
    }

    /// Follows a subject from now on, if it is there.
    pub fn follow(&self, subject: &Subject) -> Result<(), EnergyError> {
        if self.source == Source::None {
            return Err(EnergyError::NoPower(self.note.clone().unwrap_or_default()));
        }
        let mut state = lock(&self.state);
        let at = state.at.unwrap_or_default();
        match subject {
            Subject::Process(pid) => {
                let missing = |_| EnergyError::NoProcess { pid: *pid, proc: self.config.proc.clone() };
                self.clock.process(*pid).map_err(missing)?;
            }
            Subject::Cgroup(path) => {
                let root = &self.config.cgroup;
                // A path that leaves the root would read files elsewhere.
                let inside = path.components().all(|part| matches!(part, Component::Normal(_)));
                if !inside || cpu::cgroup(&root.join(path)).is_err() {
                    return Err(EnergyError::NoCgroup { path: path.clone(), root: root.clone() });
                }
            }
            Subject::Pod(uid) => {
                if cpu::is_uid(uid) && !state.pods.contains_key(uid) {
                    self.look_for_pods(&mut state, at);
                }
                if !state.pods.contains_key(uid) {
                    return Err(EnergyError::NoPod { uid: uid.clone(), root: self.config.cgroup.clone() });
                }
            }
        }
        let followed = state.accounts.keys().filter(|subject| !matches!(subject, Subject::Pod(_))).count();
        let is_pod = matches!(subject, Subject::Pod(_));
        if !is_pod && !state.accounts.contains_key(subject) && followed >= self.config.max_followed {
            return Err(EnergyError::TooMany(self.config.max_followed));
        }
        state.accounts.entry(subject.clone()).or_default().asked = at;
        Ok(())
    }

    /// What is attributed to a subject that is followed, if a window has passed since.
    pub fn attributed(&self, subject: &Subject) -> Option<SubjectReport> {
        let state = lock(&self.state);
        let account = state.accounts.get(subject).filter(|account| account.windows > 0)?;
        Some(SubjectReport {
            source: self.source,
            window_ms: self.config.window_ms,
            milliwatts: account.recent.back().copied().unwrap_or(0.0),
            recent_milliwatts: account.recent.iter().copied().collect(),
            joules: account.joules,
            cpu_share: account.share,
            windows: account.windows,
        })
    }

    /// Follows a subject, and waits until a window has passed if it was not followed before.
    pub async fn subject(&self, subject: &Subject) -> Result<SubjectReport, EnergyError> {
        let mut samples = self.samples.subscribe();
        loop {
            self.follow(subject)?;
            if let Some(report) = self.attributed(subject) {
                return Ok(report);
            }
            // The sender lives as long as this.
            let _ = samples.changed().await;
        }
    }
}

fn pod_report((subject, account): (&Subject, &Account)) -> Option<PodReport> {
    let Subject::Pod(uid) = subject else { return None };
    let milliwatts = account.recent.back().copied().unwrap_or(0.0);
    Some(PodReport { pod_uid: uid.clone(), milliwatts, joules: account.joules })
}

#[cfg(test)]
mod tests;
