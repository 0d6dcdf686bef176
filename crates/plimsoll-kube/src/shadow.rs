//! Shadow: what this scheduler would have done, beside the one that does it. Nothing is written to the cluster.
//!
//! A pod is decided when it is seen to wait, and its room stays taken here until the other scheduler's binding is seen; then both are written
//! down side by side, and the cluster is again as the other made it.

use crate::metrics::Metrics;
use k8s_openapi::api::core::v1::Pod;
use plimsoll_core::engine::{Attempt, Engine, Event, Object};
use plimsoll_core::reserve::Reservation;
use plimsoll_core::state::pod_key;
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the other scheduler may take before a pod is decided anew.
const PATIENCE: Duration = Duration::from_secs(60);

/// A line of the shadow's book.
#[derive(Debug, Serialize, PartialEq)]
#[serde(tag = "what", rename_all = "kebab-case", rename_all_fields = "camelCase")]
enum Entry<'a> {
    /// It would have been bound.
    WouldBind { time: String, pod: &'a str, uid: &'a str, node: &'a str, feasible: usize, ties: usize, micros: u64 },
    /// It would have waited.
    WouldWait { time: String, pod: &'a str, uid: &'a str, message: &'a str, victims: Vec<String> },
    /// The other scheduler has bound it.
    Bound { time: String, pod: &'a str, uid: &'a str, ours: Option<&'a str>, theirs: &'a str, same: bool },
}

/// What was decided for a pod that is not bound yet.
struct Decided {
    /// Where it would go, with what is taken for it; nothing if it would wait.
    placed: Option<(String, Reservation)>,
    /// What was said of one that waits.
    message: String,
    until: Instant,
}

/// How a shadow compares with the scheduler that works.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Pods that went where they would have gone.
    pub same: u64,
    /// Pods that went elsewhere, or somewhere at all.
    pub other: u64,
    /// Pods that were bound before they were decided here.
    pub missed: u64,
}

/// The book of a shadow.
pub struct Shadow {
    book: Box<dyn Write + Send>,
    metrics: Arc<Metrics>,
    decided: FxHashMap<Box<str>, Decided>,
    /// How it compares so far.
    pub comparison: Comparison,
}

impl Shadow {
    /// A shadow that writes into a book, a JSON object a line.
    pub fn new(book: Box<dyn Write + Send>, metrics: Arc<Metrics>) -> Self {
        Self { book, metrics, decided: FxHashMap::default(), comparison: Comparison::default() }
    }

    fn write(book: &mut dyn Write, entry: &Entry<'_>) {
        let line = serde_json::to_string(entry).unwrap_or_default();
        if let Err(error) = writeln!(book, "{line}").and_then(|()| book.flush()) {
            tracing::error!(%error, line, "the shadow's book cannot be written");
        }
    }

    /// Takes note of what would have been done.
    pub fn attempted(&mut self, attempt: Attempt, took: Duration) {
        let until = Instant::now() + PATIENCE;
        let time = crate::record::micros(k8s_openapi::jiff::Timestamp::now());
        match attempt {
            Attempt::Bind { reservation, binding, feasible, ties } => {
                let pod = format!("{}/{}", binding.namespace, binding.name);
                let micros = took.as_micros() as u64;
                let entry = Entry::WouldBind {
                    time,
                    pod: &pod,
                    uid: &binding.uid,
                    node: &binding.node,
                    feasible,
                    ties,
                    micros,
                };
                let before = self.decided.get(&*reservation.uid).and_then(|before| before.placed.as_ref());
                if before.is_none_or(|(node, _)| *node != binding.node) {
                    Self::write(&mut *self.book, &entry);
                }
                let uid = reservation.uid.clone();
                let placed = Some((binding.node, reservation));
                self.decided.insert(uid, Decided { placed, message: String::new(), until });
            }
            Attempt::Wait { pod, message, preemption, .. } => {
                let said = self.decided.get(pod.uid.as_str()).is_some_and(|before| before.message == message);
                if !said {
                    let victims = preemption.map(|eviction| eviction.victims).unwrap_or_default();
                    let victims =
                        victims.iter().map(|victim| format!("{}/{}", victim.namespace, victim.name)).collect();
                    let name = format!("{}/{}", pod.namespace, pod.name);
                    let entry = Entry::WouldWait { time, pod: &name, uid: &pod.uid, message: &message, victims };
                    Self::write(&mut *self.book, &entry);
                }
                self.decided.insert(pod.uid.into(), Decided { placed: None, message, until });
            }
            Attempt::Failed { pod, error } => {
                tracing::error!(pod = format!("{}/{}", pod.namespace, pod.name), %error, "a pod could not be tried");
            }
        }
    }

    /// Looks at an event before the engine does: the reservation that it ends, if any.
    pub fn look(&mut self, engine: &Engine, event: &Event) -> Option<Reservation> {
        match event {
            Event::Apply(Object::Pod(pod)) => {
                let node =
                    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).filter(|name| !name.is_empty())?;
                self.bound(engine, pod, node)
            }
            Event::Delete(Object::Pod(pod)) => {
                self.decided.remove(pod_key(&pod.metadata).as_str()).and_then(|decided| Some(decided.placed?.1))
            }
            _ => None,
        }
    }

    fn bound(&mut self, engine: &Engine, pod: &Pod, theirs: &str) -> Option<Reservation> {
        let uid = pod_key(&pod.metadata);
        let Some(decided) = self.decided.remove(uid.as_str()) else {
            let waited = engine.state().pod_id(&uid).is_some_and(|id| engine.place(id).is_some());
            self.comparison.missed += u64::from(waited);
            return None;
        };
        let ours = decided.placed.as_ref().map(|(node, _)| node.as_str());
        let same = ours == Some(theirs);
        *(if same { &mut self.comparison.same } else { &mut self.comparison.other }) += 1;
        self.metrics.compared(same);
        let meta = &pod.metadata;
        let name =
            format!("{}/{}", meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default());
        let time = crate::record::micros(k8s_openapi::jiff::Timestamp::now());
        Self::write(&mut *self.book, &Entry::Bound { time, pod: &name, uid: &uid, ours, theirs, same });
        decided.placed.map(|(_, reservation)| reservation)
    }

    /// The reservations of pods that the other scheduler has left waiting for too long; they are decided anew.
    pub fn overdue(&mut self) -> Vec<Reservation> {
        let now = Instant::now();
        let late = |decided: &Decided| decided.until <= now && decided.placed.is_some();
        let mut uids: Vec<_> =
            self.decided.iter().filter(|(_, decided)| late(decided)).map(|(uid, _)| uid.clone()).collect();
        uids.sort_unstable();
        uids.iter().filter_map(|uid| Some(self.decided.remove(uid)?.placed?.1)).collect()
    }

    /// When to look for those again.
    pub fn deadline(&self) -> Option<Instant> {
        self.decided.values().filter(|decided| decided.placed.is_some()).map(|decided| decided.until).min()
    }
}
