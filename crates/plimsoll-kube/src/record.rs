//! Events of pods, and the lanes on which they and conditions are sent.

use crate::api::{Api, JSON, Write};
use crate::metrics::Metrics;
use http::Method;
use k8s_openapi::jiff::Timestamp;
use plimsoll_core::engine::PodRef;
use rustc_hash::FxHasher;
use serde_json::{Value, json};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::mpsc;

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A pod was bound.
    Scheduled,
    /// A pod fits nowhere, or could not be tried or bound.
    FailedScheduling,
    /// A pod was removed for a more important one.
    Preempted,
}

impl Kind {
    /// Reason, action and type, as kube-scheduler has them.
    fn words(self) -> [&'static str; 3] {
        match self {
            Self::Scheduled => ["Scheduled", "Binding", "Normal"],
            Self::FailedScheduling => ["FailedScheduling", "Scheduling", "Warning"],
            Self::Preempted => ["Preempted", "Preempting", "Normal"],
        }
    }
}

/// An event to be recorded.
#[derive(Debug)]
pub struct Note {
    namespace: String,
    name: String,
    uid: String,
    kind: Kind,
    text: String,
    related: Option<Value>,
}

/// The longest text of an event that the API server takes.
const LONGEST: usize = 1024;

impl Note {
    /// An event of a pod.
    pub fn new(namespace: &str, name: &str, uid: &str, kind: Kind, mut text: String) -> Self {
        if text.len() > LONGEST {
            let end = (0..=LONGEST).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
            text.truncate(end);
        }
        let own = |text: &str| text.to_owned();
        Self { namespace: own(namespace), name: own(name), uid: own(uid), kind, text, related: None }
    }

    /// The event has to do with another pod, too.
    pub fn related_to(mut self, pod: &PodRef) -> Self {
        self.related = Some(reference(&pod.namespace, &pod.name, &pod.uid));
        self
    }
}

fn reference(namespace: &str, name: &str, uid: &str) -> Value {
    json!({ "kind": "Pod", "apiVersion": "v1", "namespace": namespace, "name": name, "uid": uid })
}

/// Lanes on which writes are made one after the other.
const LANES: usize = 32;
/// Writes that may wait on a lane.
const QUEUE: usize = 1024;
/// How often a write is sent.
const ATTEMPTS: Option<u32> = Some(4);

/// Records events, and sends other writes in their order.
#[derive(Clone)]
pub struct Recorder {
    lanes: Arc<[mpsc::Sender<Write>]>,
    metrics: Arc<Metrics>,
    serial: Arc<AtomicU64>,
    /// Who reports: the scheduler's name, and the process.
    pub scheduler: Arc<str>,
    instance: Arc<str>,
}

impl Recorder {
    /// A recorder under a scheduler's name and that of its process; its lanes are tasks of the current runtime.
    pub fn new(api: &Api, metrics: Arc<Metrics>, scheduler: &str, instance: &str) -> Self {
        let lane = |_| {
            let (sender, mut receiver) = mpsc::channel::<Write>(QUEUE);
            let (api, metrics) = (api.clone(), Arc::clone(&metrics));
            tokio::spawn(async move {
                while let Some(write) = receiver.recv().await {
                    if let Err(error) = api.send(&write, ATTEMPTS).await {
                        metrics.unsaid.inc();
                        tracing::debug!(path = write.path, %error, "an event or condition was not written");
                    }
                }
            });
            sender
        };
        Self {
            lanes: (0..LANES).map(lane).collect(),
            metrics,
            serial: Arc::default(),
            scheduler: scheduler.into(),
            instance: instance.into(),
        }
    }

    /// Sends a write on the lane of a pod; what finds no room is counted and left out: events are no promise.
    pub fn send(&self, uid: &str, write: Write) {
        let mut hasher = FxHasher::default();
        uid.hash(&mut hasher);
        let lane = &self.lanes[hasher.finish() as usize % self.lanes.len()];
        if lane.try_send(write).is_err() {
            self.metrics.unsaid.inc();
        }
    }

    /// Records an event.
    pub fn record(&self, note: Note) {
        let now = Timestamp::now();
        let [reason, action, kind] = note.kind.words();
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        let stamp = now.as_nanosecond() as u64;
        let body = json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": { "name": format!("{}.{:x}", note.name, stamp.wrapping_add(serial)), "namespace": note.namespace },
            "eventTime": micros(now),
            "reportingController": &*self.scheduler,
            "reportingInstance": &*self.instance,
            "action": action,
            "reason": reason,
            "regarding": reference(&note.namespace, &note.name, &note.uid),
            "related": note.related,
            "note": note.text,
            "type": kind,
        });
        let path = format!("/apis/events.k8s.io/v1/namespaces/{}/events", note.namespace);
        self.send(&note.uid, Write::new(Method::POST, path, JSON, &body));
    }
}

/// A time with six digits after the second, which is what MicroTime takes.
pub fn micros(time: Timestamp) -> String {
    format!("{}.{:06}Z", time.strftime("%Y-%m-%dT%H:%M:%S"), time.subsec_microsecond())
}

/// The time now, to the second.
pub fn seconds_now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
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
    fn long_texts_are_cut_between_characters() {
        let note = Note::new("n", "p", "u", Kind::FailedScheduling, "ä".repeat(600));
        assert_eq!(note.text.len(), 1024);
        let odd = Note::new("n", "p", "u", Kind::FailedScheduling, format!("a{}", "ä".repeat(600)));
        assert_eq!(odd.text.len(), 1023);
    }
}
