//! Hard spread constraints: no domain may get further ahead of the emptiest than the skew allows.

use super::{ABSENT, InForce, MISSING_LABEL, NOT_SPREAD, count_of};
use crate::config::PluginName;
use crate::framework::{Code, Cycle, Refusal};
use crate::state::{NO_DOMAIN, Node, Pod, TopologyId};

/// The hard constraints of the pod under decision; memory is kept from one decision to the next.
#[derive(Debug, Default)]
pub struct HardConstraints {
    list: Vec<Counted>,
    used: usize,
}

#[derive(Debug)]
struct Counted {
    topology: TopologyId,
    max_skew: i64,
    min_domains: i64,
    /// 1 if the pod matches its own selector.
    itself: i64,
    /// Matching pods by domain; [`ABSENT`] for domains without a node that takes part.
    by_domain: Vec<i64>,
    domains: i64,
    emptiest: Emptiest,
    /// What-if changes, and the emptiest domains before them.
    undo: Vec<(u32, i64)>,
    before: Option<Emptiest>,
}

/// The two domains with the fewest pods: as long as a what-if touches one domain only, the first is the emptiest of all.
#[derive(Debug, Clone, Copy)]
struct Emptiest([(u32, i64); 2]);

impl Default for Emptiest {
    fn default() -> Self {
        Self([(NO_DOMAIN, i64::from(i32::MAX)); 2])
    }
}

impl Emptiest {
    fn update(&mut self, domain: u32, count: i64) {
        let [first, second] = &mut self.0;
        if domain == first.0 {
            first.1 = count;
        } else if domain == second.0 {
            second.1 = count;
        } else if count < first.1 {
            *second = *first;
            *first = (domain, count);
        } else if count < second.1 {
            *second = (domain, count);
        }
        if first.1 > second.1 {
            std::mem::swap(first, second);
        }
    }
}

impl Counted {
    /// The fewest matching pods in any domain.
    fn fewest(&self) -> i64 {
        if self.domains < self.min_domains { 0 } else { self.emptiest.0[0].1 }
    }
}

impl HardConstraints {
    /// Counts the matching pods by domain.
    pub fn prepare(&mut self, cycle: &Cycle<'_>, constraints: &[InForce<'_>]) {
        self.used = constraints.len();
        for (at, in_force) in constraints.iter().enumerate() {
            if at == self.list.len() {
                self.list.push(Counted {
                    topology: in_force.topology,
                    max_skew: 0,
                    min_domains: 0,
                    itself: 0,
                    by_domain: Vec::new(),
                    domains: 0,
                    emptiest: Emptiest::default(),
                    undo: Vec::new(),
                    before: None,
                });
            }
            let slot = &mut self.list[at];
            slot.topology = in_force.topology;
            slot.max_skew = i64::from(in_force.constraint.max_skew);
            slot.min_domains = i64::from(in_force.constraint.min_domains);
            slot.itself = i64::from(matches(cycle, in_force, cycle.pod));
            slot.undo.clear();
            slot.before = None;
            slot.by_domain.clear();
            slot.by_domain.resize(cycle.state.topologies.get(in_force.topology).domain_limit(), ABSENT);
        }
        let simple = constraints.iter().all(|c| c.includes_every_node(cycle) && c.labels_every_node(cycle));
        if simple {
            self.count_every_node(cycle, constraints);
        } else {
            self.count_eligible_nodes(cycle, constraints);
        }
        for slot in &mut self.list[..self.used] {
            slot.emptiest = Emptiest::default();
            slot.domains = 0;
            for (&count, domain) in slot.by_domain.iter().zip(0..) {
                if count != ABSENT {
                    slot.domains += 1;
                    slot.emptiest.update(domain, count);
                }
            }
        }
    }

    fn count_every_node(&mut self, cycle: &Cycle<'_>, constraints: &[InForce<'_>]) {
        for (slot, in_force) in self.list.iter_mut().zip(constraints) {
            let topology = cycle.state.topologies.get(in_force.topology);
            for (domain, count) in slot.by_domain.iter_mut().enumerate() {
                if topology.members(domain) > 0 {
                    *count = 0;
                }
            }
            if let Some(counter) = in_force.counter {
                let domains = topology.domains();
                for &(node, count) in cycle.state.classes.counts(counter).entries() {
                    slot.by_domain[domains[node.index()] as usize] += i64::from(count);
                }
            }
        }
    }

    fn count_eligible_nodes(&mut self, cycle: &Cycle<'_>, constraints: &[InForce<'_>]) {
        for node in cycle.state.nodes() {
            if constraints.iter().any(|in_force| in_force.domain(cycle, node.id) == NO_DOMAIN) {
                continue;
            }
            for (slot, in_force) in self.list.iter_mut().zip(constraints) {
                if in_force.includes(cycle, node) {
                    let matching = in_force.counter.map_or(0, |id| cycle.state.classes.counts(id).get(node.id));
                    let count = &mut slot.by_domain[in_force.domain(cycle, node.id) as usize];
                    *count = (*count).max(0) + i64::from(matching);
                }
            }
        }
    }

    /// Why the pod may not go to a node.
    pub fn refusal(&self, cycle: &Cycle<'_>, node: &Node) -> Option<Refusal> {
        for slot in &self.list[..self.used] {
            let domain = cycle.state.topologies.get(slot.topology).domain(node.id);
            if domain == NO_DOMAIN {
                let code = Code::UnschedulableAndUnresolvable;
                return Some(Refusal::new(PluginName::PodTopologySpread, code, MISSING_LABEL));
            }
            if count_of(&slot.by_domain, domain) + slot.itself - slot.fewest() > slot.max_skew {
                return Some(Refusal::new(PluginName::PodTopologySpread, Code::Unschedulable, NOT_SPREAD));
            }
        }
        None
    }

    /// What if `amount` pods like `pod` came to a node.
    pub fn what_if(&mut self, cycle: &Cycle<'_>, constraints: &[InForce<'_>], pod: &Pod, node: &Node, amount: i64) {
        if cycle.state.shape_of(pod).shape.namespace != cycle.shape().namespace
            || constraints.iter().any(|in_force| in_force.domain(cycle, node.id) == NO_DOMAIN)
        {
            return;
        }
        for (slot, in_force) in self.list[..self.used].iter_mut().zip(constraints) {
            if matches(cycle, in_force, pod) && in_force.includes(cycle, node) {
                let domain = in_force.domain(cycle, node.id);
                slot.before.get_or_insert(slot.emptiest);
                slot.undo.push((domain, amount));
                slot.by_domain[domain as usize] += amount;
                slot.emptiest.update(domain, slot.by_domain[domain as usize]);
            }
        }
    }

    /// Takes back every what-if.
    pub fn end_what_if(&mut self) {
        for slot in &mut self.list[..self.used] {
            for (domain, amount) in slot.undo.drain(..) {
                slot.by_domain[domain as usize] -= amount;
            }
            if let Some(before) = slot.before.take() {
                slot.emptiest = before;
            }
        }
    }
}

/// Whether a constraint selects a pod of the namespace. Beyond what is counted, the empty selector selects every pod.
fn matches(cycle: &Cycle<'_>, in_force: &InForce<'_>, pod: &Pod) -> bool {
    match in_force.counter {
        Some(counter) => cycle.state.classes.is_counted(cycle.state.shape_of(pod).class, counter),
        None => in_force.constraint.selector.is_everything(),
    }
}
