//! Advice for a scheduler that decides itself: what a policy makes of the nodes that it may choose from.
//!
//! The other scheduler is ahead of what watches tell: it says which pods it has placed, and they take room here from then on.

use crate::asked::{self, Told};
use crate::driver::Driver;
use crate::reasons::{AsOf, Why};
use crate::survey::Decision;
use k8s_openapi::api::core::v1::Pod;
use plimsoll_core::account::Account;
use plimsoll_core::engine::{Engine, Event};
use plimsoll_core::state::Phase;
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A pod, and the nodes it may go to.
#[derive(Debug, Clone)]
pub struct Candidates {
    /// The pod.
    pub pod: Box<Pod>,
    /// The nodes, by name.
    pub nodes: Vec<String>,
}

/// Where another scheduler has placed a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The UID of the pod.
    pub uid: String,
    /// The node.
    pub node: String,
}

/// What another scheduler asks, and what it tells.
#[derive(Debug, Clone, Default)]
pub struct Consultation {
    /// The profile whose policy judges.
    pub profile: String,
    /// What it asks about.
    pub items: Vec<Candidates>,
    /// Where it has placed pods since.
    pub placed: Vec<Placed>,
    /// The UIDs of pods that it has placed, but could not bind.
    pub released: Vec<String>,
}

/// What is made of the nodes for a pod.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// A score for each node, in the order asked; none for one that is not known.
    pub scores: Vec<Option<f64>>,
    /// Whether a learned model judged.
    pub learned: bool,
    /// Whether each score is the same whichever other nodes are asked about.
    pub apart: bool,
}

/// A node that the rules refuse for a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Objection {
    /// The node.
    pub node: String,
    /// Why.
    pub reason: String,
    /// Whether removing pods might help.
    pub resolvable: bool,
}

/// What would be decided about a pod.
#[derive(Debug, Clone, Serialize)]
pub struct WhatIf {
    /// What the rules say of every node, and what their plugins score.
    pub account: Account,
    /// What the policy makes of the allowed nodes, the best first; at most ten.
    pub best: Vec<(String, f64)>,
    /// How many nodes the rules allow.
    pub feasible: usize,
}

/// How long a watch may take to tell that a pod is bound that another scheduler says it has placed.
const CONFIRMATION: Duration = Duration::from_secs(30);
/// Placements that may be waiting for it.
const MOST_PLACED: usize = 100_000;

/// The pods that another scheduler has placed, which no watch has told yet.
#[derive(Debug, Default)]
pub(crate) struct Placements {
    /// When each was told, by UID.
    told: FxHashMap<String, Instant>,
    /// In the order in which they were told.
    order: VecDeque<(Instant, String)>,
}

impl Placements {
    /// When the oldest has to be looked at.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.order.front().map(|(told, _)| *told + CONFIRMATION)
    }

    fn note(&mut self, uid: &str, now: Instant) {
        self.told.insert(uid.to_owned(), now);
        self.order.push_back((now, uid.to_owned()));
    }

    /// The next one that is overdue, or is one too many.
    fn overdue(&mut self, now: Instant) -> Option<String> {
        loop {
            let (told, uid) = self.order.front()?;
            if *told + CONFIRMATION > now && self.order.len() <= MOST_PLACED {
                return None;
            }
            let (told, uid) = (*told, uid.clone());
            self.order.pop_front();
            // One that was told again since is looked at when that is overdue.
            if self.told.get(&uid) == Some(&told) {
                self.told.remove(&uid);
                return Some(uid);
            }
        }
    }
}

impl Told for Driver {
    fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }

    fn tell(&mut self, event: Event) {
        self.take_event(event);
    }

    fn pod_as_it_came(&self, uid: &str) -> Option<Pod> {
        let state = self.engine.state();
        state.pod(state.pod_id(uid)?)?.object.as_deref().cloned()
    }
}

impl Driver {
    /// Judges nodes. What is asked about a pod that no watch has told of is answered as if it were there.
    pub(crate) fn advise(&mut self, told: Consultation) -> Vec<Result<Judged, String>> {
        for uid in &told.released {
            self.release(uid);
        }
        for placed in &told.placed {
            self.take_room(placed);
        }
        self.world.tell_time(&mut self.engine);
        told.items.into_iter().map(|item| asked::judge(self, &told.profile, item)).collect()
    }

    /// What the rules have against nodes for a pod.
    pub(crate) fn object(&mut self, profile: &str, pod: &Pod) -> Result<Vec<Objection>, String> {
        asked::object(self, profile, pod)
    }

    /// What would be decided about a pod now.
    pub(crate) fn what_if(&mut self, profile: &str, pod: &Pod) -> Result<WhatIf, String> {
        self.world.tell_time(&mut self.engine);
        asked::what_if(self, profile, pod)
    }

    /// Why a decision was made.
    pub(crate) fn why(&mut self, decision: &Decision) -> Result<Why, String> {
        if let Some(reasons) = self.chronicle.reasons(decision.id) {
            return Ok(Why { as_of: AsOf::Then, reasons: reasons.clone() });
        }
        self.world.tell_time(&mut self.engine);
        asked::why_now(self, decision)
    }

    fn take_room(&mut self, placed: &Placed) {
        let state = self.engine.state();
        let (Some(pod), Some(node)) = (state.pod_id(&placed.uid), state.node_named(&placed.node)) else { return };
        let before = state.pod(pod).and_then(|known| known.node_name).and_then(|name| state.node_id(name));
        if before.is_some_and(|before| before != node) {
            self.release(&placed.uid);
        }
        // One that a watch has told to be bound is not pending any more.
        if self.engine.scheduler().state.assume(pod, node).is_ok() {
            self.placements.note(&placed.uid, Instant::now());
            self.world.tell_awake(&mut self.engine, node);
        }
    }

    /// Gives the room of a pod back that is still not bound.
    fn release(&mut self, uid: &str) {
        let Some(pod) = self.engine.state().pod_id(uid) else { return };
        let Some(known) = self.engine.state().pod(pod).filter(|known| known.phase == Phase::Assumed) else { return };
        let node = known.node_name.and_then(|name| self.engine.state().node_id(name));
        if !self.flights.contains_key(uid) && self.engine.scheduler().state.forget(pod).is_ok() {
            node.into_iter().for_each(|node| self.world.tell_awake(&mut self.engine, node));
        }
    }

    /// Gives back what was said to be placed, and never was.
    pub(crate) fn look_at_placements(&mut self) {
        let now = Instant::now();
        while let Some(uid) = self.placements.overdue(now) {
            self.release(&uid);
        }
    }
}
