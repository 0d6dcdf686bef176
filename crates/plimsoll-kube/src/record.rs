//! Events of pods, and the lanes on which they and conditions are sent.

use crate::api::{Api, JSON, STRATEGIC_MERGE, Write, WriteError};
use crate::driver::{Inbox, Input};
use crate::metrics::Metrics;
use http::Method;
use k8s_openapi::jiff::Timestamp;
use plimsoll_core::engine::PodRef;
use plimsoll_core::reserve::Binding;
use rustc_hash::FxHasher;
use serde_json::{Value, json};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A pod was bound.
    Scheduled,
    /// A pod fits nowhere, or could not be tried or bound.
    FailedScheduling,
    /// A pod was removed for a more important one.
    Preempted,
    /// A pod is bound as soon as its devices are ready.
    BindingConditionsPending,
}

impl Kind {
    /// Reason, action and type, as kube-scheduler has them.
    fn words(self) -> [&'static str; 3] {
        match self {
            Self::Scheduled => ["Scheduled", "Binding", "Normal"],
            Self::FailedScheduling => ["FailedScheduling", "Scheduling", "Warning"],
            Self::Preempted => ["Preempted", "Preempting", "Normal"],
            Self::BindingConditionsPending => ["BindingConditionsPending", "Scheduling", "Normal"],
        }
    }
}

/// The pod that an event or a status is about.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its UID.
    pub uid: &'a str,
    /// Its generation.
    pub generation: i64,
    /// Its `schedulerName`.
    pub scheduler: &'a str,
}

impl<'a> From<&'a PodRef> for Subject<'a> {
    fn from(pod: &'a PodRef) -> Self {
        let PodRef { namespace, name, uid, generation, scheduler, .. } = pod;
        Self { namespace, name, uid, generation: *generation, scheduler }
    }
}

impl<'a> From<&'a Binding> for Subject<'a> {
    fn from(binding: &'a Binding) -> Self {
        let Binding { namespace, name, uid, generation, scheduler, .. } = binding;
        Self { namespace, name, uid, generation: *generation, scheduler }
    }
}

impl Subject<'_> {
    fn reference(&self) -> Value {
        let Self { namespace, name, uid, .. } = self;
        json!({ "kind": "Pod", "apiVersion": "v1", "namespace": namespace, "name": name, "uid": uid })
    }
}

/// The longest text of an event that the API server takes.
const LONGEST: usize = 1024;
/// What stands for the rest of a text.
const REST: &str = " ...";

/// A text as an event can have it.
fn cut(text: &str) -> String {
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    let end = (0..=LONGEST - REST.len()).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}{REST}", &text[..end])
}

/// Lanes on which writes are made one after the other.
const LANES: usize = 32;
/// Writes that may wait on a lane.
const QUEUE: usize = 1024;
/// How often an event or a status is sent: for half a minute, longer than an API server takes to start.
const ATTEMPTS: Option<u32> = Some(20);

/// How many seconds a server may need to learn who may do what.
const UNKNOWN_RIGHTS: u32 = 20;

/// What is done on a lane.
enum Job {
    /// An event or the status of the pod with this UID.
    Write(Box<str>, Write),
    /// Somebody waits until everything before this is done.
    Mark(oneshot::Sender<()>),
}

type Lanes = Arc<[mpsc::Sender<Job>]>;

/// Records events, and writes the status of pods in the order in which it is said.
#[derive(Clone)]
pub struct Recorder {
    events: Lanes,
    /// Apart from events, of which many may wait.
    statuses: Lanes,
    metrics: Arc<Metrics>,
    serial: Arc<AtomicU64>,
    /// The machine on which we are.
    host: Arc<str>,
}

impl Recorder {
    /// A recorder on a machine; its lanes are tasks of the current runtime, which end when the recorder is gone and all is written.
    pub fn new(api: &Api, inbox: &Inbox, metrics: Arc<Metrics>, host: &str) -> (Self, Vec<JoinHandle<()>>) {
        let lane = |_| {
            let (sender, receiver) = mpsc::channel(QUEUE);
            (sender, tokio::spawn(drive(api.clone(), inbox.clone(), Arc::clone(&metrics), receiver)))
        };
        let (events, mut tasks): (Vec<_>, Vec<_>) = (0..LANES).map(lane).unzip();
        let (statuses, more): (Vec<_>, Vec<_>) = (0..LANES).map(lane).unzip();
        tasks.extend(more);
        let serial = Arc::default();
        (Self { events: events.into(), statuses: statuses.into(), metrics, serial, host: host.into() }, tasks)
    }

    /// Hands a job to the lane of a pod; false if it finds no room, which is counted.
    fn hand(&self, lanes: &Lanes, uid: &str, job: Job) -> bool {
        let handed = lanes[lane_of(uid)].try_send(job).is_ok();
        if !handed {
            self.metrics.unsaid.inc();
        }
        handed
    }

    /// Writes the status of a pod. False, or an [`Input::Unsaid`] later, says that it is not written.
    pub fn write_status(&self, uid: &str, write: Write) -> bool {
        self.hand(&self.statuses, uid, Job::Write(uid.into(), write))
    }

    /// Waits until what was to be written of a pod's status is written, or given up. Whatever ends the wait of the pod comes after that:
    /// a condition that says that it waits must not arrive when it is bound.
    pub async fn settle(&self, uid: &str) {
        let (tell, done) = oneshot::channel();
        if self.statuses[lane_of(uid)].send(Job::Mark(tell)).await.is_ok() {
            // A lane that has ended writes nothing more.
            let _ = done.await;
        }
    }

    /// Records an event, which may have to do with another pod, too; its name. Events are no promise: one may get lost.
    pub fn record(&self, pod: Subject<'_>, kind: Kind, text: &str, related: Option<&PodRef>) -> String {
        let now = Timestamp::now();
        let [reason, action, weight] = kind.words();
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        let stamp = now.as_nanosecond() as u64;
        let name = format!("{}.{:x}", pod.name, stamp.wrapping_add(serial));
        let body = json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": { "name": &name, "namespace": pod.namespace },
            "eventTime": micros(now),
            "reportingController": pod.scheduler,
            "reportingInstance": format!("{}-{}", pod.scheduler, self.host),
            "action": action,
            "reason": reason,
            "regarding": pod.reference(),
            "related": related.map(|related| Subject::from(related).reference()),
            "note": cut(text),
            "type": weight,
        });
        let write = Write::new(Method::POST, events_path(pod.namespace), JSON, &body);
        self.hand(&self.events, pod.uid, Job::Write(pod.uid.into(), write));
        name
    }

    /// An event came again, so often by now.
    pub fn repeat(&self, pod: Subject<'_>, name: &str, count: u32) {
        let body = json!({ "series": { "count": count, "lastObservedTime": micros(Timestamp::now()) } });
        let path = format!("{}/{name}", events_path(pod.namespace));
        let write = Write::new(Method::PATCH, path, STRATEGIC_MERGE, &body);
        self.hand(&self.events, pod.uid, Job::Write(pod.uid.into(), write));
    }
}

fn events_path(namespace: &str) -> String {
    format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events")
}

fn lane_of(uid: &str) -> usize {
    let mut hasher = FxHasher::default();
    uid.hash(&mut hasher);
    hasher.finish() as usize % LANES
}

/// Does the jobs of a lane.
async fn drive(api: Api, inbox: Inbox, metrics: Arc<Metrics>, mut jobs: mpsc::Receiver<Job>) {
    while let Some(job) = jobs.recv().await {
        let (uid, write) = match job {
            Job::Write(uid, write) => (uid, write),
            Job::Mark(tell) => {
                // Who waited may have been ended.
                let _ = tell.send(());
                continue;
            }
        };
        let Err(error) = send(&api, &write).await else { continue };
        metrics.unsaid.inc();
        tracing::debug!(path = write.path, %error, "an event or condition was not written");
        // The scheduler may have ended.
        let _ = inbox.send(Input::Unsaid(uid)).await;
    }
}

/// Writes. An API server that has just started knows nobody's rights yet and forbids what it will allow in a second: it is asked again.
async fn send(api: &Api, write: &Write) -> Result<(), WriteError> {
    for _ in 0..UNKNOWN_RIGHTS {
        match api.send(write, ATTEMPTS).await {
            Err(WriteError::Refused { code: 401 | 403, .. }) => tokio::time::sleep(Duration::from_secs(1)).await,
            other => return other.map(drop),
        }
    }
    api.send(write, ATTEMPTS).await.map(drop)
}

/// A time with six digits after the second, which is what MicroTime takes.
pub fn micros(time: Timestamp) -> String {
    format!("{}.{:06}Z", time.strftime("%Y-%m-%dT%H:%M:%S"), time.subsec_microsecond())
}

/// The time now, to the second.
pub fn seconds_now() -> String {
    to_seconds(Timestamp::now())
}

/// A time in seconds since 1970, to the second.
pub fn seconds_at(since_1970: f64) -> String {
    to_seconds(Timestamp::from_second(since_1970 as i64).unwrap_or_default())
}

fn to_seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_six_digits() {
        let time = Timestamp::from_nanosecond(1_700_000_000_000_042_000).unwrap();
        assert_eq!(micros(time), "2023-11-14T22:13:20.000042Z");
    }

    #[test]
    fn long_texts_are_cut_between_characters_and_say_so() {
        assert_eq!(cut("short"), "short");
        assert_eq!(cut(&"a".repeat(1024)).len(), 1024);
        let even = cut(&"ä".repeat(600));
        assert_eq!((even.len(), even.ends_with("ä ...")), (1024, true));
        let odd = cut(&format!("a{}", "ä".repeat(600)));
        assert_eq!((odd.len(), odd.ends_with("ä ...")), (1023, true));
    }
}
