//! DefaultPreemption: when nothing fits, finds the node where removing less important pods does least harm.

use crate::config::DefaultPreemptionArgs;
use crate::framework::{Code, Cycle, Refusal};
use crate::rng::Rng;
use crate::rules::Rules;
use crate::state::{ClusterState, Node, NodeId, Pod, PodId};
use std::cmp::Reverse;

/// A node to be cleared for a pod, and the pods to remove from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preemption {
    /// The node.
    pub node: NodeId,
    /// The pods, the most important first.
    pub victims: Vec<PodId>,
    /// How many of them a disruption budget protects.
    pub violations: usize,
}

/// Why no pod is removed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PreemptionError {
    /// The pod may not preempt.
    #[error("not eligible due to preemptionPolicy=Never.")]
    Never,
    /// Pods are already leaving the node that is kept for it.
    #[error("not eligible due to a terminating pod on the nominated node.")]
    Waiting,
    /// No node becomes feasible by removing pods; the reason a node, as far as nodes were tried.
    #[error("{}", .0.message())]
    NotHelpful(Box<NotHelpful>),
}

/// What stands against preemption on the nodes that were tried.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NotHelpful {
    /// All nodes of the cluster.
    pub nodes: usize,
    /// For each reason, on how many nodes it stands.
    pub reasons: std::collections::BTreeMap<String, usize>,
}

impl NotHelpful {
    fn message(&self) -> String {
        crate::explain::unavailable_message(self.nodes, &self.reasons)
    }

    /// Counts the nodes that were not tried.
    fn with_untried(mut self, tried: usize) -> PreemptionError {
        let untried = self.nodes - tried;
        if untried > 0 {
            *self.reasons.entry("Preemption is not helpful for scheduling".into()).or_default() += untried;
        }
        PreemptionError::NotHelpful(Box::new(self))
    }
}

/// Finds the pods to remove for a pod that nothing had room for, and where.
///
/// `refused` are the nodes with their refusal; only those where removing pods may help are tried.
pub fn preempt(
    rules: &mut Rules,
    cycle: &Cycle<'_>,
    args: &DefaultPreemptionArgs,
    refused: &[(NodeId, Refusal)],
    rng: &mut Rng,
) -> Result<Preemption, PreemptionError> {
    check_eligible(cycle, refused)?;
    let nodes: Vec<NodeId> =
        refused.iter().filter(|(_, refusal)| refusal.code == Code::Unschedulable).map(|(node, _)| *node).collect();
    if let Some(error) = nobody_to_preempt(cycle, nodes.len(), rng) {
        return Err(error);
    }
    let wanted = candidates_wanted(args, nodes.len());
    let start = rng.below(nodes.len());
    let mut not_helpful = NotHelpful { nodes: cycle.state.node_count(), ..NotHelpful::default() };
    let mut candidates: Vec<Preemption> = Vec::new();
    let mut harmless = false;
    for at in 0..nodes.len() {
        let Some(node) = cycle.state.node(nodes[(start + at) % nodes.len()]) else { continue };
        match select_victims(rules, cycle, node) {
            Ok(candidate) => {
                harmless |= candidate.violations == 0;
                candidates.push(candidate);
                if harmless && candidates.len() >= wanted {
                    break;
                }
            }
            Err(reasons) => {
                for reason in reasons {
                    *not_helpful.reasons.entry(reason).or_default() += 1;
                }
            }
        }
    }
    // The start is random, so the order of candidates is brought back: equals are decided by the node's index alone.
    candidates.sort_unstable_by_key(|candidate| candidate.node);
    match candidates.into_iter().min_by_key(|candidate| harm(cycle.state, candidate)) {
        Some(best) => Ok(best),
        None => Err(not_helpful.with_untried(nodes.len())),
    }
}

/// What preemption says where no pod is less important than the one that waits; none where one is. The pod is not nominated,
/// and `resolvable` are the nodes that were not refused for good.
pub fn nobody_to_preempt(cycle: &Cycle<'_>, resolvable: usize, rng: &mut Rng) -> Option<PreemptionError> {
    if cycle.shape().never_preempts {
        return Some(PreemptionError::Never);
    }
    if cycle.state.has_less_important(cycle.shape().priority) {
        return None;
    }
    // The same number is drawn as for a search, so that what is decided later does not depend on how this was found out.
    rng.below(resolvable);
    let mut not_helpful = NotHelpful { nodes: cycle.state.node_count(), ..NotHelpful::default() };
    if resolvable > 0 {
        not_helpful.reasons.insert(NO_VICTIMS.into(), resolvable);
    }
    Some(not_helpful.with_untried(resolvable))
}

const NO_VICTIMS: &str = "No preemption victims found for incoming pod";

fn check_eligible(cycle: &Cycle<'_>, refused: &[(NodeId, Refusal)]) -> Result<(), PreemptionError> {
    if cycle.shape().never_preempts {
        return Err(PreemptionError::Never);
    }
    let Some(nominated) = cycle.pod.nominated.and_then(|name| cycle.state.node_id(name)) else {
        return Ok(());
    };
    let hopeless =
        refused.iter().any(|(node, refusal)| *node == nominated && refusal.code == Code::UnschedulableAndUnresolvable);
    let pods = cycle.state.node(nominated).map(|node| node.pods.as_slice()).unwrap_or_default();
    let leaving = pods.iter().filter_map(|id| cycle.state.pod(*id)).any(|pod| {
        pod.terminating && pod.preempted && cycle.state.shape_of(pod).shape.priority < cycle.shape().priority
    });
    if leaving && !hopeless { Err(PreemptionError::Waiting) } else { Ok(()) }
}

fn candidates_wanted(args: &DefaultPreemptionArgs, nodes: usize) -> usize {
    let share = nodes * args.min_candidate_nodes_percentage as usize / 100;
    share.max(args.min_candidate_nodes_absolute as usize).min(nodes)
}

/// The least important pods whose removal makes a node feasible: all less important ones are taken off, then as many as
/// possible are put back, the most important first.
fn select_victims(rules: &mut Rules, cycle: &Cycle<'_>, node: &Node) -> Result<Preemption, Vec<String>> {
    let state = cycle.state;
    let mut removable: Vec<(PodId, &Pod)> = node
        .pods
        .iter()
        .filter_map(|id| Some((*id, state.pod(*id)?)))
        .filter(|(_, pod)| state.shape_of(pod).shape.priority < cycle.shape().priority)
        .collect();
    if removable.is_empty() {
        return Err(vec![NO_VICTIMS.into()]);
    }
    let mut node = node.clone();
    for &(id, pod) in &removable {
        rules.remove_pod(cycle, &mut node, id, pod);
    }
    if let Some(refusal) = rules.check_what_if(cycle, &node) {
        let reasons = rules.reasons_at(cycle, &node, refusal);
        rules.end_what_if();
        return Err(reasons);
    }
    sort_by_importance(state, &mut removable);
    let (protected, unprotected) = by_budget(state, &removable);
    let (mut victims, mut violations) = (Vec::new(), 0);
    let both = !protected.is_empty() && !unprotected.is_empty();
    for (group, is_protected) in [(protected, true), (unprotected, false)] {
        for (id, pod) in group {
            rules.add_pod(cycle, &mut node, id, pod);
            if rules.check_what_if(cycle, &node).is_some() {
                rules.remove_pod(cycle, &mut node, id, pod);
                victims.push((id, pod));
                violations += usize::from(is_protected);
            }
        }
    }
    rules.end_what_if();
    if both {
        sort_by_importance(state, &mut victims);
    }
    if victims.is_empty() {
        return Err(vec![format!("expected at least one victim pod on node {:?}", state.node_name(node.id))]);
    }
    Ok(Preemption { node: node.id, victims: victims.into_iter().map(|(id, _)| id).collect(), violations })
}

/// Sorts the more important pod first: by priority, then by how long it runs.
///
/// A pod that has not started counts as starting now. Of several such pods the one that came last is taken to be the more
/// important: kube-scheduler reads the clock anew for each comparison, and its sort then turns their order around.
fn sort_by_importance(state: &ClusterState, pods: &mut [(PodId, &Pod)]) {
    pods.reverse();
    pods.sort_by_key(|(_, pod)| (Reverse(state.shape_of(pod).shape.priority), pod.start_time.unwrap_or(i64::MAX)));
    for equals in pods.chunk_by_mut(|(_, a), (_, b)| {
        a.start_time.is_some()
            && a.start_time == b.start_time
            && state.shape_of(a).shape.priority == state.shape_of(b).shape.priority
    }) {
        equals.reverse();
    }
}

type Victims<'a> = Vec<(PodId, &'a Pod)>;

/// Splits pods into those whose removal breaks a disruption budget and the others, in their order.
fn by_budget<'a>(state: &ClusterState, pods: &[(PodId, &'a Pod)]) -> (Victims<'a>, Victims<'a>) {
    let budgets: Vec<_> = state.budgets().collect();
    let mut allowed: Vec<i32> = budgets.iter().map(|budget| budget.disruptions_allowed).collect();
    pods.iter().partition(|(_, pod)| {
        let shape = &state.shape_of(pod).shape;
        let mut broken = false;
        if !shape.labels.is_empty() {
            for (budget, allowed) in budgets.iter().zip(&mut allowed) {
                let covers = budget.namespace == shape.namespace
                    && !budget.selector.is_everything()
                    && budget.selector.matches(&shape.labels, &state.strings)
                    && !budget.disrupted.contains(&pod.name);
                if covers {
                    *allowed = allowed.wrapping_sub(1);
                    broken |= *allowed < 0;
                }
            }
        }
        broken
    })
}

/// What a preemption costs, the least first: broken budgets, the most important victim, the sum of their importance, their
/// number, and among equals the ones that started last.
fn harm(state: &ClusterState, candidate: &Preemption) -> (usize, i32, i64, usize, Reverse<i64>) {
    let victims: Vec<_> = candidate.victims.iter().filter_map(|id| state.pod(*id)).collect();
    let priority = |pod: &Pod| state.shape_of(pod).shape.priority;
    let highest = victims.iter().map(|pod| priority(pod)).max().unwrap_or(i32::MIN);
    // Shifted so that every victim costs something, whatever the sign of its priority.
    let sum = victims.iter().map(|pod| i64::from(priority(pod)) + i64::from(i32::MAX) + 1).sum();
    let earliest = victims
        .iter()
        .filter(|pod| priority(pod) == highest)
        .map(|pod| pod.start_time.unwrap_or(i64::MAX))
        .min()
        .unwrap_or(i64::MAX);
    let first = victims.first().map_or(i32::MIN, |pod| priority(pod));
    (candidate.violations, first, sum, victims.len(), Reverse(earliest))
}
