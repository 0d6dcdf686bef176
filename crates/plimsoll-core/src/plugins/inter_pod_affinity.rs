//! InterPodAffinity: pods that must, must not, would or would rather not share a domain with other pods.
//!
//! Both sides are asked: what the incoming pod says about placed pods, and what placed pods say about it.

use super::topology_sums::TopologySums;
use crate::config::{InterPodAffinityArgs, PluginName};
use crate::framework::{Code, Cycle, MAX_NODE_SCORE, Plugin, PreFilter, PreScore, Refusal, Status};
use crate::model::PodAffinity;
use crate::state::{Counted, Node, NodeId, OwnedKind, Pod};

const AFFINITY: u16 = 0;
const ANTI_AFFINITY: u16 = 1;
const EXISTING_ANTI_AFFINITY: u16 = 2;

#[derive(Debug)]
pub struct InterPodAffinity {
    args: InterPodAffinityArgs,
    /// Placed pods that meet every required affinity term of the incoming pod.
    affinity: TopologySums,
    /// Placed pods that its required anti-affinity is about.
    anti_affinity: TopologySums,
    /// Placed pods whose required anti-affinity is about it.
    existing_anti_affinity: TopologySums,
    /// Whether the pod meets its own affinity, so that it may be the first of its kind.
    matches_itself: bool,
    scores: TopologySums,
}

impl InterPodAffinity {
    pub fn new(args: &InterPodAffinityArgs) -> Self {
        Self {
            args: args.clone(),
            affinity: TopologySums::default(),
            anti_affinity: TopologySums::default(),
            existing_anti_affinity: TopologySums::default(),
            matches_itself: false,
            scores: TopologySums::default(),
        }
    }

    fn has_affinity(&self, cycle: &Cycle<'_>, node: &Node) -> bool {
        let mut met = true;
        for sums in self.affinity.iter() {
            match sums.of(cycle.state, node) {
                None => return false,
                Some(count) => met &= count > 0,
            }
        }
        met || (self.matches_itself && self.affinity.iter().all(|sums| sums.total() == 0))
    }

    fn what_if(&mut self, cycle: &Cycle<'_>, pod: &Pod, node: &Node, amount: i64) {
        let (state, own) = (cycle.state, &cycle.entry.handles);
        let other = state.shape_of(pod);
        for &term in &other.handles.owned {
            let owned = state.classes.term(term);
            if owned.kind == OwnedKind::RequiredAnti && state.classes.terms_about(cycle.entry.class).contains(&term) {
                self.existing_anti_affinity.what_if(state, owned.topology, node, amount);
            }
        }
        if own.required_all.is_some_and(|counter| state.classes.is_counted(other.class, counter)) {
            for &topology in &own.required {
                self.affinity.what_if(state, topology, node, amount);
            }
        }
        for &Counted { counter, topology } in &own.required_anti {
            if counter.is_some_and(|counter| state.classes.is_counted(other.class, counter)) {
                self.anti_affinity.what_if(state, topology, node, amount);
            }
        }
    }
}

/// Whether a pod would rather, or rather not, be near others.
fn prefers(affinity: &PodAffinity) -> bool {
    !affinity.preferred.is_empty() || !affinity.preferred_anti.is_empty()
}

impl Plugin for InterPodAffinity {
    fn name(&self) -> PluginName {
        PluginName::InterPodAffinity
    }

    fn pre_filter(&mut self, cycle: &Cycle<'_>) -> PreFilter {
        let (state, own) = (cycle.state, &cycle.entry.handles);
        if let Some(error) = &cycle.shape().affinity.error {
            let reason = format!("parsing pod: {error}");
            return PreFilter::Reject(Status::new(Code::UnschedulableAndUnresolvable, self.name(), reason));
        }
        self.existing_anti_affinity.clear();
        for &id in state.classes.terms_about(cycle.entry.class) {
            let term = state.classes.term(id);
            if term.kind == OwnedKind::RequiredAnti {
                self.existing_anti_affinity.add_counts(state, term.topology, &term.counts, 1);
            }
        }
        self.affinity.clear();
        for &topology in &own.required {
            self.affinity.ensure(state, topology);
            if let Some(counter) = own.required_all {
                self.affinity.add_counts(state, topology, state.classes.counts(counter), 1);
            }
        }
        self.matches_itself =
            own.required_all.is_some_and(|counter| state.classes.is_counted(cycle.entry.class, counter));
        self.anti_affinity.clear();
        for &Counted { counter, topology } in &own.required_anti {
            self.anti_affinity.ensure(state, topology);
            if let Some(counter) = counter {
                self.anti_affinity.add_counts(state, topology, state.classes.counts(counter), 1);
            }
        }
        let nothing_to_check =
            own.required.is_empty() && own.required_anti.is_empty() && !self.existing_anti_affinity.is_touched();
        if nothing_to_check { PreFilter::Skip } else { PreFilter::Continue }
    }

    fn filter(&self, cycle: &Cycle<'_>, node: &Node) -> Option<Refusal> {
        let refuse = |code, detail| Some(Refusal::new(PluginName::InterPodAffinity, code, detail));
        let crowded = |sums: &TopologySums| sums.iter().any(|s| s.of(cycle.state, node).is_some_and(|count| count > 0));
        if !self.has_affinity(cycle, node) {
            return refuse(Code::UnschedulableAndUnresolvable, AFFINITY);
        }
        if crowded(&self.anti_affinity) {
            return refuse(Code::Unschedulable, ANTI_AFFINITY);
        }
        if crowded(&self.existing_anti_affinity) {
            return refuse(Code::Unschedulable, EXISTING_ANTI_AFFINITY);
        }
        None
    }

    fn reasons(&self, _: &Cycle<'_>, _: &Node, refusal: Refusal) -> Vec<String> {
        vec![match refusal.detail {
            AFFINITY => "node(s) didn't match pod affinity rules".into(),
            ANTI_AFFINITY => "node(s) didn't match pod anti-affinity rules".into(),
            _ => "node(s) didn't satisfy existing pods anti-affinity rules".into(),
        }]
    }

    fn add_pod(&mut self, cycle: &Cycle<'_>, pod: &Pod, node: &Node) {
        self.what_if(cycle, pod, node, 1);
    }

    fn remove_pod(&mut self, cycle: &Cycle<'_>, pod: &Pod, node: &Node) {
        self.what_if(cycle, pod, node, -1);
    }

    fn end_what_if(&mut self) {
        self.affinity.end_what_if();
        self.anti_affinity.end_what_if();
        self.existing_anti_affinity.end_what_if();
    }

    fn has_preference(&self, cycle: &Cycle<'_>) -> bool {
        prefers(&cycle.shape().affinity)
            || !self.args.ignore_preferred_terms_of_existing_pods
                && !cycle.state.classes.terms_about(cycle.entry.class).is_empty()
    }

    fn pre_score(&mut self, cycle: &Cycle<'_>, _: &[NodeId]) -> PreScore {
        let (state, own, affinity) = (cycle.state, &cycle.entry.handles, &cycle.shape().affinity);
        if self.args.ignore_preferred_terms_of_existing_pods && !prefers(affinity) {
            return PreScore::Skip;
        }
        self.scores.clear();
        let with = own.preferred.iter().zip(affinity.preferred.iter().map(|term| i64::from(term.weight)));
        let without = own.preferred_anti.iter().zip(affinity.preferred_anti.iter().map(|term| -i64::from(term.weight)));
        for (&Counted { counter, topology }, weight) in with.chain(without) {
            if let Some(counter) = counter {
                self.scores.add_counts(state, topology, state.classes.counts(counter), weight);
            }
        }
        for &id in state.classes.terms_about(cycle.entry.class) {
            let term = state.classes.term(id);
            let weight = match term.kind {
                OwnedKind::Required if self.args.hard_pod_affinity_weight > 0 => {
                    i64::from(self.args.hard_pod_affinity_weight)
                }
                OwnedKind::Preferred => i64::from(term.weight),
                OwnedKind::PreferredAnti => -i64::from(term.weight),
                OwnedKind::Required | OwnedKind::RequiredAnti => continue,
            };
            self.scores.add_counts(state, term.topology, &term.counts, weight);
        }
        if self.scores.is_touched() { PreScore::Continue } else { PreScore::Skip }
    }

    fn score(&self, cycle: &Cycle<'_>, nodes: &[NodeId], scores: &mut [i64]) {
        scores.fill(0);
        for sums in self.scores.iter() {
            let domains = cycle.state.topologies.get(sums.topology).domains();
            let by_domain = sums.by_domain();
            for (score, node) in scores.iter_mut().zip(nodes) {
                // Out of range is a node without the label.
                *score += by_domain.get(domains[node.index()] as usize).copied().unwrap_or(0);
            }
        }
    }

    fn normalizes(&self) -> bool {
        true
    }

    fn normalize(&self, _: &Cycle<'_>, _: &[NodeId], scores: &mut [i64]) {
        let min = scores.iter().copied().min().unwrap_or(0);
        let range = scores.iter().copied().max().unwrap_or(0) - min;
        for score in scores {
            *score =
                if range > 0 { (MAX_NODE_SCORE as f64 * ((*score - min) as f64 / range as f64)) as i64 } else { 0 };
        }
    }
}
