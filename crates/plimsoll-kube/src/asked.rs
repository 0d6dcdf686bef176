//! Questions to an engine about pods that need not be there: what would be decided, what a policy makes of nodes, what the rules have against them.
//! A scheduler at work is asked so, and so is a simulated one.

use crate::advise::{Candidates, Judged, Objection, WhatIf};
use crate::reasons::{AsOf, Reasons, Why};
use crate::survey::Decision;
use k8s_openapi::api::core::v1::Pod;
use plimsoll_core::account::Account;
use plimsoll_core::engine::{Engine, Event};
use plimsoll_core::framework::{Code, Status};
use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::state::{NodeId, PodId, pod_key};

/// Nodes whose scores are told.
const BEST: usize = 10;

/// Who has an engine, and tells it what happens.
pub trait Told {
    /// The engine.
    fn engine(&mut self) -> &mut Engine;

    /// Tells it of an object, with all that follows from it.
    fn tell(&mut self, event: Event);

    /// A pod as it came, by its UID, where that is still known.
    fn pod_as_it_came(&self, uid: &str) -> Option<Pod>;
}

/// What would be decided about a pod now.
pub fn what_if(whom: &mut impl Told, profile: &str, pod: &Pod) -> Result<WhatIf, String> {
    as_if_there(whom, pod, |engine, id| weigh(engine.scheduler(), profile, id, Asking::Openly))
}

/// What would be decided now about one more pod like one that is there.
pub fn again(whom: &mut impl Told, profile: &str, uid: &str) -> Result<WhatIf, String> {
    let state = whom.engine().state();
    let id = state.pod_id(uid).ok_or("the pod is gone")?;
    if state.pod(id).is_some_and(|pod| pod.node_name.is_none()) {
        return weigh(whom.engine().scheduler(), profile, id, Asking::Openly);
    }
    // One that is placed is asked about as if it came once more.
    let mut more = whom.pod_as_it_came(uid).ok_or("nothing but its place is known of the pod any more")?;
    more.metadata.uid = Some(format!("{uid}-again"));
    if let Some(spec) = &mut more.spec {
        spec.node_name = None;
    }
    as_if_there(whom, &more, |engine, id| weigh(engine.scheduler(), profile, id, Asking::Openly))
}

/// Why a decision would be made now.
pub fn why_now(whom: &mut impl Told, decision: &Decision) -> Result<Why, String> {
    let now = again(whom, &decision.profile, &decision.uid)?;
    Ok(Why { as_of: AsOf::Now, reasons: Reasons::from(&now) })
}

/// What a policy makes of nodes for a pod.
pub fn judge(whom: &mut impl Told, profile: &str, item: Candidates) -> Result<Judged, String> {
    let Candidates { pod, nodes } = item;
    as_if_there(whom, &pod, |engine, id| {
        let state = engine.state();
        let mut known: Vec<(NodeId, usize)> =
            nodes.iter().enumerate().filter_map(|(at, name)| Some((state.node_named(name)?, at))).collect();
        known.sort_unstable();
        known.dedup_by_key(|(node, _)| *node);
        let ids: Vec<_> = known.iter().map(|(node, _)| *node).collect();
        let mut scores = vec![None; nodes.len()];
        if ids.is_empty() {
            return Ok(Judged { scores, learned: false, apart: false });
        }
        let advice = engine.scheduler().advise(profile, id, &ids).map_err(|error| error.to_string())?;
        for ((_, at), score) in known.iter().zip(&advice.scores) {
            scores[*at] = Some(*score);
        }
        Ok(Judged { scores, learned: advice.learned, apart: advice.apart })
    })
}

/// What the rules have against nodes for a pod.
pub fn object(whom: &mut impl Told, profile: &str, pod: &Pod) -> Result<Vec<Objection>, String> {
    as_if_there(whom, pod, |engine, id| {
        let refused = engine.scheduler().objections(profile, id).map_err(|error| error.to_string())?;
        let state = engine.state();
        let objection = |(node, status): &(NodeId, Status)| Objection {
            node: state.node_name(*node).to_owned(),
            reason: status.message(),
            resolvable: status.code != Code::UnschedulableAndUnresolvable,
        };
        Ok(refused.iter().map(objection).collect())
    })
}

/// How a policy is asked what it makes of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asking {
    /// Always.
    Openly,
    /// Only where it will not decide otherwise for having been asked.
    Aside,
}

/// Lays open what is decided about a pod.
pub(crate) fn weigh(scheduler: &mut Scheduler, profile: &str, id: PodId, asking: Asking) -> Result<WhatIf, String> {
    let explanation = scheduler.explain(id).map_err(|error| error.to_string())?;
    let name = scheduler.state.pod(id).map(|pod| scheduler.state.pod_name(pod)).unwrap_or_default();
    let account = Account::new(name, &explanation, &scheduler.state);
    let feasible = explanation.feasible;
    let mut best = Vec::new();
    if !feasible.is_empty() && (asking == Asking::Openly || scheduler.is_steady(profile)) {
        let advice = scheduler.preview(profile, id, &feasible).map_err(|error| error.to_string())?;
        let state = &scheduler.state;
        let named = feasible.iter().zip(&advice.scores).map(|(node, score)| (state.node_name(*node), *score));
        best.extend(named.map(|(node, score)| (node.to_owned(), score)));
        best.sort_by(|a, b| b.1.total_cmp(&a.1));
        best.truncate(BEST);
    }
    Ok(WhatIf { account, best, feasible: feasible.len() })
}

/// Does something with a pod, which is known for that long at least.
fn as_if_there<T>(
    whom: &mut impl Told,
    pod: &Pod,
    work: impl FnOnce(&mut Engine, PodId) -> Result<T, String>,
) -> Result<T, String> {
    let uid = pod_key(&pod.metadata);
    if let Some(id) = whom.engine().state().pod_id(&uid) {
        return work(whom.engine(), id);
    }
    whom.tell(Event::apply(pod.clone()));
    let result = match whom.engine().state().pod_id(&uid) {
        Some(id) => work(whom.engine(), id),
        None => Err("the pod cannot be read, or has ended".to_owned()),
    };
    whom.tell(Event::delete(pod.clone()));
    result
}
