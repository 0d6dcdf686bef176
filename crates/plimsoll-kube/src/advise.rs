//! Advice for a scheduler that decides itself: what a policy makes of the nodes that it may choose from.
//!
//! The other scheduler is ahead of what watches tell: it says which pods it has placed, and they take room here from then on.

use crate::driver::Driver;
use k8s_openapi::api::core::v1::Pod;
use plimsoll_core::account::Account;
use plimsoll_core::engine::{Engine, Event};
use plimsoll_core::framework::Code;
use plimsoll_core::state::{NodeId, Phase, PodId, pod_key};
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

/// Nodes whose scores are told.
const BEST: usize = 10;

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

fn what_if(engine: &mut Engine, profile: &str, id: PodId) -> Result<WhatIf, String> {
    let explanation = engine.scheduler().explain(id).map_err(|error| error.to_string())?;
    let state = engine.state();
    let name = state.pod(id).map(|pod| state.pod_name(pod)).unwrap_or_default();
    let account = Account::new(name, &explanation, state);
    let feasible = explanation.feasible;
    let mut best = Vec::new();
    if !feasible.is_empty() {
        let advice = engine.scheduler().advise(profile, id, &feasible).map_err(|error| error.to_string())?;
        let state = engine.state();
        let named = feasible.iter().zip(&advice.scores).map(|(node, score)| (state.node_name(*node), *score));
        best.extend(named.map(|(node, score)| (node.to_owned(), score)));
        best.sort_by(|a, b| b.1.total_cmp(&a.1));
        best.truncate(BEST);
    }
    Ok(WhatIf { account, best, feasible: feasible.len() })
}

impl Driver {
    /// Judges nodes. What is asked about a pod that no watch has told of is answered as if it were there.
    pub(crate) fn advise(&mut self, asked: Consultation) -> Vec<Result<Judged, String>> {
        for uid in &asked.released {
            self.release(uid);
        }
        for placed in &asked.placed {
            self.take_room(placed);
        }
        self.world.tell_time(&mut self.engine);
        asked.items.into_iter().map(|item| self.judge(&asked.profile, item)).collect()
    }

    fn judge(&mut self, profile: &str, item: Candidates) -> Result<Judged, String> {
        let Candidates { pod, nodes } = item;
        self.as_if_there(&pod, |engine, id| {
            let state = engine.state();
            let mut known: Vec<(NodeId, usize)> =
                nodes.iter().enumerate().filter_map(|(at, name)| Some((state.node_named(name)?, at))).collect();
            known.sort_unstable();
            known.dedup_by_key(|(node, _)| *node);
            let ids: Vec<_> = known.iter().map(|(node, _)| *node).collect();
            let mut scores = vec![None; nodes.len()];
            if ids.is_empty() {
                return Ok(Judged { scores, learned: false });
            }
            let advice = engine.scheduler().advise(profile, id, &ids).map_err(|error| error.to_string())?;
            for ((_, at), score) in known.iter().zip(&advice.scores) {
                scores[*at] = Some(*score);
            }
            Ok(Judged { scores, learned: advice.learned })
        })
    }

    /// What the rules have against nodes for a pod.
    pub(crate) fn object(&mut self, profile: &str, pod: &Pod) -> Result<Vec<Objection>, String> {
        self.as_if_there(pod, |engine, id| {
            let refused = engine.scheduler().objections(profile, id).map_err(|error| error.to_string())?;
            let state = engine.state();
            let objection = |(node, status): &(NodeId, plimsoll_core::framework::Status)| Objection {
                node: state.node_name(*node).to_owned(),
                reason: status.message(),
                resolvable: status.code != Code::UnschedulableAndUnresolvable,
            };
            Ok(refused.iter().map(objection).collect())
        })
    }

    /// What would be decided about a pod now.
    pub(crate) fn what_if(&mut self, profile: &str, pod: &Pod) -> Result<WhatIf, String> {
        self.world.tell_time(&mut self.engine);
        self.as_if_there(pod, |engine, id| what_if(engine, profile, id))
    }

    /// What would be decided now about one more pod like one that is there.
    pub(crate) fn again(&mut self, profile: &str, uid: &str) -> Result<WhatIf, String> {
        self.world.tell_time(&mut self.engine);
        let id = self.engine.state().pod_id(uid).ok_or("the pod is gone")?;
        let pod = self.engine.state().pod(id).filter(|pod| pod.node_name.is_some());
        let Some(pod) = pod else { return what_if(&mut self.engine, profile, id) };
        // One that is placed is asked about as if it came once more.
        let mut more = pod.object.as_deref().cloned().ok_or("nothing but its place is known of the pod any more")?;
        more.metadata.uid = Some(format!("{uid}-again"));
        if let Some(spec) = &mut more.spec {
            spec.node_name = None;
        }
        self.as_if_there(&more, |engine, id| what_if(engine, profile, id))
    }

    /// Does something with a pod, which is known for that long at least.
    fn as_if_there<T>(
        &mut self,
        pod: &Pod,
        work: impl FnOnce(&mut Engine, PodId) -> Result<T, String>,
    ) -> Result<T, String> {
        let uid = pod_key(&pod.metadata);
        if let Some(id) = self.engine.state().pod_id(&uid) {
            return work(&mut self.engine, id);
        }
        self.take_event(Event::apply(pod.clone()));
        let result = match self.engine.state().pod_id(&uid) {
            Some(id) => work(&mut self.engine, id),
            None => Err("the pod cannot be read, or has ended".to_owned()),
        };
        self.take_event(Event::delete(pod.clone()));
        result
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
