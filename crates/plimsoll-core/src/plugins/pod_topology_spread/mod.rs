//! PodTopologySpread: pods of a kind are spread over zones, hosts or whatever a node label distinguishes.
//!
//! Hard constraints refuse nodes ([`hard`]), soft ones rank them ([`soft`]).

mod hard;
mod soft;

use super::taint_toleration::tolerates_node;
use crate::config::{DefaultingType, PluginName, PodTopologySpreadArgs};
use crate::framework::{Code, Cycle, Plugin, PreFilter, PreScore, Refusal, Status};
use crate::model::{LabelSet, Selector, SpreadConstraint};
use crate::state::{ClusterState, CounterId, NO_DOMAIN, Node, NodeId, Pod, TopologyId};
use hard::HardConstraints;
use soft::SoftConstraints;

const NOT_SPREAD: u16 = 0;
const MISSING_LABEL: u16 = 1;

/// The built-in default constraints: label and skew.
const SYSTEM_DEFAULTS: [(&str, i32); 2] = [("kubernetes.io/hostname", 3), ("topology.kubernetes.io/zone", 5)];

#[derive(Debug)]
pub struct PodTopologySpread {
    /// Constraints for pods that have none themselves; their selector comes from services and controllers.
    defaults: Vec<(SpreadConstraint, TopologyId)>,
    /// With the built-in defaults, nodes without one of the labels still count for the other.
    system_defaults: bool,
    hard: HardConstraints,
    soft: SoftConstraints,
}

/// A constraint in force for a pod.
#[derive(Clone, Copy)]
struct InForce<'a> {
    constraint: &'a SpreadConstraint,
    topology: TopologyId,
    /// The matching pods; none if by the rules nothing is counted.
    counter: Option<CounterId>,
}

impl InForce<'_> {
    /// Whether the inclusion policies let a node take part.
    fn includes(&self, cycle: &Cycle<'_>, node: &Node) -> bool {
        let local = cycle.local();
        let affinity = &local.node_affinity;
        (!self.constraint.honor_node_affinity
            || affinity.is_unconstrained()
            || affinity.accepts(node.spec.name, &node.spec.labels, &cycle.state.strings))
            && (!self.constraint.honor_taints || tolerates_node(local, node))
    }

    /// Whether no node can be left out by the inclusion policies.
    fn includes_every_node(&self, cycle: &Cycle<'_>) -> bool {
        (!self.constraint.honor_node_affinity || cycle.local().node_affinity.is_unconstrained())
            && !self.constraint.honor_taints
    }

    /// Whether every node has the label.
    fn labels_every_node(&self, cycle: &Cycle<'_>) -> bool {
        cycle.state.topologies.get(self.topology).labelled() == cycle.state.node_count()
    }

    /// A node's domain.
    fn domain(&self, cycle: &Cycle<'_>, node: NodeId) -> u32 {
        cycle.state.topologies.get(self.topology).domain(node)
    }
}

impl PodTopologySpread {
    pub fn new(args: &PodTopologySpreadArgs, state: &mut ClusterState) -> Self {
        let system_defaults = args.defaulting_type == DefaultingType::System;
        let constraints: Vec<SpreadConstraint> = if system_defaults {
            SYSTEM_DEFAULTS
                .iter()
                .map(|&(key, max_skew)| SpreadConstraint {
                    max_skew,
                    topology_key: state.strings.intern(key),
                    hard: false,
                    selector: Selector::Nothing,
                    min_domains: 1,
                    honor_node_affinity: true,
                    honor_taints: false,
                })
                .collect()
        } else {
            // Validation has refused what cannot be compiled.
            let compile = |c| SpreadConstraint::compile(c, &LabelSet::default(), &mut state.strings).ok();
            args.default_constraints.iter().filter_map(compile).collect()
        };
        let defaults = constraints
            .into_iter()
            .map(|constraint| {
                let key = state.strings.resolve(constraint.topology_key).to_owned();
                (constraint, state.ensure_topology(&key))
            })
            .collect();
        Self { defaults, system_defaults, hard: HardConstraints::default(), soft: SoftConstraints::default() }
    }
}

/// The constraints in force for a pod, hard or soft: its own, or else the defaults with the selector of its services.
fn in_force<'a>(
    defaults: &'a [(SpreadConstraint, TopologyId)],
    cycle: &Cycle<'a>,
    hard: bool,
) -> Result<Vec<InForce<'a>>, String> {
    let spread = &cycle.shape().spread;
    let (error, kind) = if hard { (&spread.hard_error, "hard") } else { (&spread.soft_error, "soft") };
    if let Some(error) = error {
        return Err(format!("obtaining pod's {kind} topology spread constraints: {error}"));
    }
    let default_counter = cycle.entry.default_spread.and_then(|(_, counter)| counter);
    let defaults = if !spread.is_stated && default_counter.is_some() { defaults } else { &[] };
    let own = spread.constraints.iter().zip(&cycle.entry.handles.spread).map(|(constraint, counted)| InForce {
        constraint,
        topology: counted.topology,
        counter: counted.counter,
    });
    let defaults = defaults.iter().map(|(constraint, topology)| InForce {
        constraint,
        topology: *topology,
        counter: default_counter,
    });
    Ok(own.chain(defaults).filter(|in_force| in_force.constraint.hard == hard).collect())
}

impl Plugin for PodTopologySpread {
    fn name(&self) -> PluginName {
        PluginName::PodTopologySpread
    }

    fn pre_filter(&mut self, cycle: &Cycle<'_>) -> PreFilter {
        match in_force(&self.defaults, cycle, true) {
            Err(error) => {
                let reason = format!("get constraints from pod: {error}");
                PreFilter::Reject(Status::new(Code::Error, self.name(), reason))
            }
            Ok(constraints) if constraints.is_empty() => PreFilter::Skip,
            Ok(constraints) => {
                self.hard.prepare(cycle, &constraints);
                PreFilter::Continue
            }
        }
    }

    fn filter(&self, cycle: &Cycle<'_>, node: &Node) -> Option<Refusal> {
        self.hard.refusal(cycle, node)
    }

    fn reasons(&self, _: &Cycle<'_>, _: &Node, refusal: Refusal) -> Vec<String> {
        vec![match refusal.detail {
            NOT_SPREAD => "node(s) didn't match pod topology spread constraints".into(),
            _ => "node(s) didn't match pod topology spread constraints (missing required label)".into(),
        }]
    }

    fn add_pod(&mut self, cycle: &Cycle<'_>, pod: &Pod, node: &Node) {
        self.change(cycle, pod, node, 1);
    }

    fn remove_pod(&mut self, cycle: &Cycle<'_>, pod: &Pod, node: &Node) {
        self.change(cycle, pod, node, -1);
    }

    fn end_what_if(&mut self) {
        self.hard.end_what_if();
    }

    fn has_preference(&self, cycle: &Cycle<'_>) -> bool {
        in_force(&self.defaults, cycle, false).map_or(true, |constraints| !constraints.is_empty())
    }

    fn pre_score(&mut self, cycle: &Cycle<'_>, nodes: &[NodeId]) -> PreScore {
        match in_force(&self.defaults, cycle, false) {
            Err(error) => PreScore::Error(format!("calculating preScoreState: {error}")),
            Ok(constraints) if constraints.is_empty() => PreScore::Skip,
            Ok(constraints) => {
                let own = cycle.shape().spread.is_stated;
                self.soft.prepare(cycle, &constraints, nodes, own || !self.system_defaults);
                PreScore::Continue
            }
        }
    }

    fn score(&self, cycle: &Cycle<'_>, nodes: &[NodeId], scores: &mut [i64]) {
        self.soft.score(cycle, nodes, scores);
    }

    fn normalizes(&self) -> bool {
        true
    }

    fn normalize(&self, _: &Cycle<'_>, nodes: &[NodeId], scores: &mut [i64]) {
        self.soft.normalize(nodes, scores);
    }
}

impl PodTopologySpread {
    fn change(&mut self, cycle: &Cycle<'_>, pod: &Pod, node: &Node, amount: i64) {
        // Preparing fails or is skipped for pods without hard constraints: then there is nothing to change.
        if let Ok(constraints) = in_force(&self.defaults, cycle, true)
            && !constraints.is_empty()
        {
            self.hard.what_if(cycle, &constraints, pod, node, amount);
        }
    }
}

/// Marks a domain that takes no part.
const ABSENT: i64 = i64::MIN;

/// A domain's count, where one that takes no part counts nothing.
fn count_of(by_domain: &[i64], domain: u32) -> i64 {
    match by_domain.get(domain as usize) {
        Some(&count) if count != ABSENT && domain != NO_DOMAIN => count,
        _ => 0,
    }
}
