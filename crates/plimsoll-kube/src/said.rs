//! What was said of pods that wait, so that the API server is not told again what it knows.

use k8s_openapi::api::core::v1::Pod;
use plimsoll_core::queue::Nomination;
use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

use crate::record::{Subject, seconds_now};

/// What was said of a pod.
#[derive(Debug, Default)]
struct Said {
    /// Reason and message of its condition PodScheduled, which is False.
    condition: Option<(String, String)>,
    /// Its nominated node.
    node: Option<String>,
    /// The event that says why it waits.
    event: Option<Series>,
}

/// An event that may come again.
#[derive(Debug)]
struct Series {
    name: String,
    text: String,
    count: u32,
    written: Instant,
}

/// How an event is to be recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Again {
    /// It says something new.
    No,
    /// It says what an earlier event says, which is to say how often.
    Count(String, u32),
    /// It is counted, and the count is written later.
    Silent,
}

/// How long a count may wait: an event that is not written for an hour is removed by the API server.
const REFRESH: Duration = Duration::from_secs(300);

/// What was said, by the UID of the pod.
#[derive(Debug, Default)]
pub struct Book(FxHashMap<String, Said>);

impl Book {
    /// A watch tells of a pod. What an earlier process, or the API server, has said of it counts as said.
    pub fn heard(&mut self, pod: &Pod) {
        let Some(uid) = pod.metadata.uid.as_deref() else { return };
        if pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()) {
            self.forget(uid);
            return;
        }
        // What is in the book is newer than what a watch brings.
        let Some(status) = pod.status.as_ref().filter(|_| !self.0.contains_key(uid)) else { return };
        let mut conditions = status.conditions.iter().flatten();
        if let Some(told) = conditions.find(|told| told.type_ == "PodScheduled" && told.status == "False") {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            let condition = Some((text(&told.reason), text(&told.message)));
            let node = status.nominated_node_name.clone().filter(|node| !node.is_empty());
            self.0.insert(uid.to_owned(), Said { condition, node, event: None });
        }
    }

    /// Whether anything was said of a pod.
    pub fn knows(&self, uid: &str) -> bool {
        self.0.contains_key(uid)
    }

    /// A pod is gone, or bound, or it is not known what the API server was told.
    pub fn forget(&mut self, uid: &str) {
        self.0.remove(uid);
    }

    /// The status to be written for a pod that is not scheduled; none if it has been.
    pub fn status(
        &mut self,
        pod: Subject<'_>,
        (reason, message): (&str, &str),
        nomination: &Nomination<String>,
    ) -> Option<Value> {
        let said = self.0.entry(pod.uid.to_owned()).or_default();
        let node = match nomination {
            Nomination::Node(node) => Some(node.clone()),
            Nomination::None => None,
            Nomination::FromStatus => said.node.clone(),
        };
        let is_known = said.condition.as_ref().is_some_and(|(said, words)| said == reason && words == message);
        if is_known && said.node == node {
            return None;
        }
        let mut condition = json!({
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": message,
            "observedGeneration": pod.generation,
            "lastProbeTime": null,
        });
        // A condition that was False before has its transition behind it.
        if said.condition.is_none() {
            condition["lastTransitionTime"] = json!(seconds_now());
        }
        let mut status = json!({ "conditions": [condition] });
        if !matches!(nomination, Nomination::FromStatus) {
            status["nominatedNodeName"] = json!(node);
        }
        said.condition = Some((reason.to_owned(), message.to_owned()));
        said.node = node;
        Some(status)
    }

    /// A pod is about to be bound to a node, after volumes or devices: who looks on is told where. None if it has been.
    pub fn expectation(&mut self, uid: &str, node: &str) -> Option<Value> {
        let said = self.0.entry(uid.to_owned()).or_default();
        let before = said.node.replace(node.to_owned());
        (before.as_deref() != Some(node)).then(|| json!({ "nominatedNodeName": node }))
    }

    /// The nomination of a pod is taken back.
    pub fn unnominated(&mut self, uid: &str) {
        if let Some(said) = self.0.get_mut(uid) {
            said.node = None;
        }
    }

    /// How to record that a pod waits.
    pub fn event(&mut self, uid: &str, text: &str) -> Again {
        let Some(series) = self.0.get_mut(uid).and_then(|said| said.event.as_mut()) else { return Again::No };
        if series.text != text {
            return Again::No;
        }
        series.count += 1;
        if series.count > 2 && series.written.elapsed() < REFRESH {
            return Again::Silent;
        }
        series.written = Instant::now();
        Again::Count(series.name.clone(), series.count)
    }

    /// An event was recorded under a name.
    pub fn recorded(&mut self, uid: &str, name: String, text: &str) {
        let series = Series { name, text: text.to_owned(), count: 1, written: Instant::now() };
        self.0.entry(uid.to_owned()).or_default().event = Some(series);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject() -> Subject<'static> {
        Subject { namespace: "n", name: "p", uid: "u", generation: 3, scheduler: "s" }
    }

    fn pod(value: Value) -> Pod {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn what_is_known_is_not_said_again() {
        let mut book = Book::default();
        let wait = ("Unschedulable", "full");
        let first = book.status(subject(), wait, &Nomination::None).unwrap();
        assert_eq!(first["conditions"][0]["observedGeneration"], 3);
        assert!(first["conditions"][0]["lastTransitionTime"].is_string());
        assert_eq!(book.status(subject(), wait, &Nomination::None), None);
        let nominated = book.status(subject(), wait, &Nomination::Node("a".into())).unwrap();
        assert_eq!(nominated["nominatedNodeName"], "a");
        assert_eq!(nominated["conditions"][0].get("lastTransitionTime"), None, "it was False before");
        assert_eq!(book.status(subject(), wait, &Nomination::FromStatus), None);
        assert!(book.status(subject(), ("SchedulerError", "full"), &Nomination::FromStatus).is_some());
        book.forget("u");
        assert!(book.status(subject(), wait, &Nomination::None).is_some());
    }

    #[test]
    fn what_an_earlier_process_said_counts_unless_something_newer_was_said() {
        let told = |message: &str| {
            pod(json!({
                "metadata": {"uid": "u"},
                "status": {"conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
                ]},
            }))
        };
        let mut book = Book::default();
        book.heard(&told("full"));
        assert_eq!(book.status(subject(), ("Unschedulable", "full"), &Nomination::None), None);
        assert!(book.status(subject(), ("Unschedulable", "tainted"), &Nomination::None).is_some());
        book.heard(&told("full"));
        assert_eq!(book.status(subject(), ("Unschedulable", "tainted"), &Nomination::None), None);
        book.heard(&pod(json!({"metadata": {"uid": "u"}, "spec": {"nodeName": "a", "containers": []}})));
        assert!(book.0.is_empty(), "a bound pod does not wait");
    }

    #[test]
    fn an_event_that_comes_again_is_counted() {
        let mut book = Book::default();
        assert_eq!(book.event("u", "full"), Again::No);
        book.recorded("u", "p.1".into(), "full");
        assert_eq!(book.event("u", "full"), Again::Count("p.1".into(), 2));
        assert_eq!(book.event("u", "full"), Again::Silent);
        assert_eq!(book.event("u", "tainted"), Again::No);
    }

    #[test]
    fn an_expected_node_is_taken_back_when_the_binding_fails() {
        let mut book = Book::default();
        assert_eq!(book.expectation("u", "a").unwrap()["nominatedNodeName"], "a");
        assert_eq!(book.expectation("u", "a"), None);
        let failed = book.status(subject(), ("SchedulerError", "refused"), &Nomination::None).unwrap();
        assert_eq!(failed["nominatedNodeName"], Value::Null);
    }
}
