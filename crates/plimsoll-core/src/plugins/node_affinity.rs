//! NodeAffinity: the nodes a pod, or the administrator for all pods of a profile, asks for and prefers by label.

use crate::config::{NodeAffinityArgs, PluginName};
use crate::framework::{Code, Cycle, Plugin, PreFilter, PreScore, Refusal, Status, default_normalize};
use crate::model::NodeAffinity as Wanted;
use crate::model::PreferredTerm;
use crate::state::{ClusterState, Node, NodeId};

const NOT_MATCHED: u16 = 0;
const NOT_ENFORCED: u16 = 1;

#[derive(Debug)]
pub struct NodeAffinity {
    added: Option<Wanted>,
}

impl NodeAffinity {
    pub fn new(args: &NodeAffinityArgs, state: &mut ClusterState) -> Self {
        let added = args.added_affinity.as_ref();
        Self { added: added.map(|affinity| Wanted::compile(None, Some(affinity), &mut state.strings)) }
    }

    fn added_preferred(&self) -> &[PreferredTerm] {
        match self.added.as_ref().and_then(|added| added.preferred.as_ref()) {
            Some(Ok(terms)) => terms,
            _ => &[],
        }
    }

    fn has_added_required(&self) -> bool {
        self.added.as_ref().is_some_and(|added| added.required.is_some())
    }
}

impl Plugin for NodeAffinity {
    fn name(&self) -> PluginName {
        PluginName::NodeAffinity
    }

    fn is_local(&self) -> bool {
        true
    }

    fn pre_filter(&mut self, cycle: &Cycle<'_>) -> PreFilter {
        let wanted = &cycle.local().node_affinity;
        if wanted.is_unconstrained() && !self.has_added_required() {
            return PreFilter::Skip;
        }
        match wanted.named.as_deref() {
            None => PreFilter::Continue,
            Some([]) => PreFilter::Reject(Status::new(
                Code::UnschedulableAndUnresolvable,
                PluginName::NodeAffinity,
                "pod affinity terms conflict",
            )),
            Some(names) => {
                PreFilter::Restrict(names.iter().map(|name| cycle.state.strings.resolve(*name).to_owned()).collect())
            }
        }
    }

    fn filter(&self, cycle: &Cycle<'_>, node: &Node) -> Option<Refusal> {
        let strings = &cycle.state.strings;
        let refuse = |detail| Some(Refusal::new(PluginName::NodeAffinity, Code::UnschedulableAndUnresolvable, detail));
        if let Some(added) = &self.added
            && !added.accepts(node.spec.name, &node.spec.labels, strings)
        {
            return refuse(NOT_ENFORCED);
        }
        if !cycle.local().node_affinity.accepts(node.spec.name, &node.spec.labels, strings) {
            return refuse(NOT_MATCHED);
        }
        None
    }

    fn reasons(&self, _: &Cycle<'_>, _: &Node, refusal: Refusal) -> Vec<String> {
        vec![match refusal.detail {
            NOT_ENFORCED => "node(s) didn't match scheduler-enforced node affinity".into(),
            _ => "node(s) didn't match Pod's node affinity/selector".into(),
        }]
    }

    fn pre_score(&mut self, cycle: &Cycle<'_>, _: &[NodeId]) -> PreScore {
        match &cycle.local().node_affinity.preferred {
            Some(Err(error)) => PreScore::Error(error.clone()),
            None if self.added.as_ref().is_none_or(|added| added.preferred.is_none()) => PreScore::Skip,
            _ => PreScore::Continue,
        }
    }

    fn score(&self, cycle: &Cycle<'_>, nodes: &[NodeId], scores: &mut [i64]) {
        let own = match &cycle.local().node_affinity.preferred {
            Some(Ok(terms)) => &**terms,
            _ => &[],
        };
        let strings = &cycle.state.strings;
        for (score, node) in scores.iter_mut().zip(nodes) {
            let Some(node) = cycle.state.node(*node) else { continue };
            *score = self
                .added_preferred()
                .iter()
                .chain(own)
                .filter(|preferred| preferred.term.matches(node.spec.name, &node.spec.labels, strings))
                .map(|preferred| i64::from(preferred.weight))
                .sum();
        }
    }

    fn normalizes(&self) -> bool {
        true
    }

    fn normalize(&self, _: &Cycle<'_>, _: &[NodeId], scores: &mut [i64]) {
        default_normalize(false, scores);
    }
}
