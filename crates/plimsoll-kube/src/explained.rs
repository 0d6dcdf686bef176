//! Why a pod is where it is, or waits, as the scheduler at work knows it.

use crate::survey::{Chronicle, Decision};
use plimsoll_core::account::Account;
use plimsoll_core::engine::Engine;
use plimsoll_core::queue::Place;
use plimsoll_core::state::PodId;
use serde::{Deserialize, Serialize};

/// What is known of a pod.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explained {
    /// `namespace/name`
    pub pod: String,
    /// The node it is on, or about to be on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Where in the queue it is, for one that waits: `active`, `backoff`, `unschedulable`, `gated` or `inflight`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// How often it was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// What was said when it was tried last, or which gates hold it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The last decision about it, where it is among the last thousands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decided>,
    /// Every node with the rule that refuses it, or its scores: what would be decided now. Only for pods that wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<Account>,
}

/// A decision that was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decided {
    /// When.
    pub time: String,
    /// The node.
    pub node: String,
    /// How many nodes were feasible.
    pub feasible: usize,
    /// How many of them were as good, the chosen one included: it was chosen among those by lot.
    pub ties: usize,
    /// How long it took, in microseconds.
    pub micros: u64,
}

impl Chronicle {
    /// What is known of a pod; nothing if it is not there.
    pub fn explain(&self, engine: &mut Engine, namespace: &str, name: &str) -> Option<Explained> {
        let id = find(engine, namespace, name)?;
        let pending = engine.pending().into_iter().find(|pending| pending.pod.id == id);
        let waits = pending.as_ref().is_some_and(|pending| pending.place != Place::InFlight);
        let account = if waits { account(engine, id, format!("{namespace}/{name}")) } else { None };
        let state = engine.state();
        let pod = state.pod(id)?;
        Some(Explained {
            pod: format!("{namespace}/{name}"),
            node: pod.node_name.map(|name| state.strings.resolve(name).to_owned()),
            queue: pending.as_ref().map(|pending| match pending.gated_by {
                Some(_) => "gated".to_owned(),
                None => format!("{:?}", pending.place).to_lowercase(),
            }),
            attempts: pending.as_ref().map(|pending| pending.attempts),
            message: pending.and_then(|pending| pending.message),
            decision: self
                .about(&pod.uid)
                .filter(|decision| decision.outcome == "placed")
                .map(|made| Decided::of(made)),
            account,
        })
    }
}

impl Decided {
    fn of(made: &Decision) -> Self {
        Self {
            time: crate::record::seconds_at(made.at),
            node: made.node.clone().unwrap_or_default(),
            feasible: made.feasible,
            ties: made.ties,
            micros: (made.milliseconds * 1e3) as u64,
        }
    }
}

fn find(engine: &Engine, namespace: &str, name: &str) -> Option<PodId> {
    let state = engine.state();
    let is_it = |pod: &plimsoll_core::state::Pod| {
        *pod.name == *name && state.strings.resolve(state.shape_of(pod).shape.namespace) == namespace
    };
    state.pods().find(|(_, pod)| is_it(pod)).map(|(id, _)| id)
}

fn account(engine: &mut Engine, id: PodId, name: String) -> Option<Account> {
    let explanation = engine.scheduler().explain(id).ok()?;
    Some(Account::new(name, &explanation, engine.state()))
}
