//! Who looks on while a run goes: for the audit of every decision.

use k8s_openapi::api::core::v1::{Node, Pod};
use plimsoll_core::engine::Attempt;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::time::Duration;

/// Something happened that decides, or was decided.
#[derive(Debug)]
pub enum Seen<'a> {
    /// A node came or changed.
    Node(&'a Node),
    /// A node left.
    NodeGone(&'a str),
    /// A pod came.
    Pod(&'a Pod),
    /// A pod was placed.
    Place {
        /// Its UID.
        uid: &'a str,
        /// The node.
        node: &'a str,
        /// How many nodes were feasible.
        feasible: usize,
        /// How many of them were as good.
        ties: usize,
    },
    /// A pod fits nowhere.
    Wait {
        /// Its UID.
        uid: &'a str,
    },
    /// A node is cleared for a pod.
    Preempt {
        /// Its UID.
        uid: &'a str,
        /// The node.
        node: &'a str,
        /// The UIDs of the pods that have to go.
        victims: Vec<&'a str>,
    },
    /// A pod ended, or was removed.
    PodGone(&'a str),
}

/// Looks on.
pub trait Observer: Send {
    /// Something happened.
    fn see(&mut self, now: Duration, seen: Seen<'_>);

    /// The engine is about to be asked, for those who want to know how long it takes.
    fn deciding(&mut self) {}

    /// The engine has decided, and nothing of it is carried out yet.
    fn decided(&mut self, _attempt: &Attempt) {}
}

impl<T: Observer + ?Sized> Observer for &mut T {
    fn see(&mut self, now: Duration, seen: Seen<'_>) {
        (**self).see(now, seen);
    }

    fn deciding(&mut self) {
        (**self).deciding();
    }

    fn decided(&mut self, attempt: &Attempt) {
        (**self).decided(attempt);
    }
}

/// Nobody looks on.
#[derive(Debug, Default)]
pub struct Nobody;

impl Observer for Nobody {
    fn see(&mut self, _: Duration, _: Seen<'_>) {}
}

/// Writes everything down, one JSON object a line.
pub struct Timeline<W: Write> {
    out: W,
    result: io::Result<()>,
}

impl<W: Write> Timeline<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> Self {
        Self { out, result: Ok(()) }
    }

    /// Ends it: what went wrong, if anything did.
    pub fn finish(mut self) -> io::Result<()> {
        self.result?;
        self.out.flush()
    }
}

impl<W: Write + Send> Observer for Timeline<W> {
    fn see(&mut self, now: Duration, seen: Seen<'_>) {
        if self.result.is_err() {
            return;
        }
        let (key, value): (&str, Value) = match seen {
            Seen::Node(node) => ("node", serde_json::to_value(node).unwrap_or_default()),
            Seen::NodeGone(name) => ("nodeGone", name.into()),
            Seen::Pod(pod) => ("pod", serde_json::to_value(pod).unwrap_or_default()),
            Seen::Place { uid, node, feasible, ties } => {
                ("place", json!({"uid": uid, "node": node, "feasible": feasible, "ties": ties}))
            }
            Seen::Wait { uid } => ("wait", json!({"uid": uid})),
            Seen::Preempt { uid, node, victims } => ("preempt", json!({"uid": uid, "node": node, "victims": victims})),
            Seen::PodGone(uid) => ("podGone", uid.into()),
        };
        self.result = writeln!(self.out, "{}", json!({"at": now.as_secs_f64(), key: value}));
    }
}
