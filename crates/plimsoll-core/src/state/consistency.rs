//! Recomputes what the state keeps by difference, and names the first thing that differs.

use super::classes::{CounterId, OwnedTermId};
use super::cluster::ClusterState;
use super::counts::NodeCounts;
use super::node::{Node, NodeId};
use super::pod::{Phase, Pod, PodId};
use super::shapes::{ShapeEntry, spread_key};
use super::topology::NO_DOMAIN;
use crate::model::Sym;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

type Check = Result<(), String>;

/// A pod on an existing node.
struct Placed<'a> {
    pod: &'a Pod,
    node: NodeId,
    entry: &'a ShapeEntry,
}

impl ClusterState {
    /// Recomputes every sum, count and reference from nodes and pods alone; the error names the first that differs.
    ///
    /// It costs as much as building the state anew: it is for tests, and for an operator who mistrusts a decision.
    pub fn check_consistency(&self) -> Check {
        self.check_pods()?;
        self.check_nodes()?;
        self.check_nominations()?;
        self.check_shapes()?;
        let placed: Vec<_> = self.placed().collect();
        self.check_classes(&placed)?;
        self.check_counters(&placed)?;
        self.check_terms(&placed)?;
        self.check_topologies()?;
        self.storage.check_consistency(placed.iter().filter_map(|placed| placed.entry.shape.volumes.as_deref()))
    }

    fn placed(&self) -> impl Iterator<Item = Placed<'_>> {
        self.pods().filter_map(|(_, pod)| Some(Placed { pod, node: pod.node?, entry: self.shape_of(pod) }))
    }

    fn check_pods(&self) -> Check {
        equal("known pods", self.pods().count(), self.pod_ids.len())?;
        check_free_list("pod ids", &self.pods, &self.free_pods, PodId::index)?;
        let mut orphans: FxHashMap<Sym, Vec<PodId>> = FxHashMap::default();
        for (id, pod) in self.pods() {
            let name = self.pod_name(pod);
            equal(&format!("pod {name}: the id of its UID"), self.pod_id(&pod.uid), Some(id))?;
            equal(&format!("pod {name}: being placed"), pod.node_name.is_some(), pod.phase != Phase::Pending)?;
            equal(&format!("pod {name}: its node"), pod.node, pod.node_name.and_then(|name| self.node_id(name)))?;
            if let (Some(node), None) = (pod.node_name, pod.node) {
                orphans.entry(node).or_default().push(id);
            }
        }
        equal("pods on nodes", self.bound_pods, self.placed().count())?;
        equal_lists("pods on unknown nodes", &self.orphans, orphans)
    }

    fn check_nodes(&self) -> Check {
        equal("known nodes", self.nodes().count(), self.node_ids.len())?;
        check_free_list("node ids", &self.nodes, &self.free_nodes, NodeId::index)?;
        let mut images: BTreeMap<Sym, u32> = BTreeMap::new();
        let mut pods: FxHashMap<NodeId, Vec<(PodId, &Pod)>> = FxHashMap::default();
        for (id, pod) in self.pods() {
            pods.entry(pod.node.unwrap_or(NodeId::new(u32::MAX))).or_default().push((id, pod));
        }
        for node in self.nodes() {
            let name = self.node_name(node.id);
            equal(&format!("node {name}: its id"), self.node_id(node.spec.name), Some(node.id))?;
            let mut fresh = Node::new(node.id, Arc::clone(&node.spec));
            for (id, pod) in pods.remove(&node.id).unwrap_or_default() {
                fresh.add_pod(id, &self.shape_of(pod).shape);
            }
            equal(&format!("node {name}"), summary(node), summary(&fresh))?;
            for &(image, _) in &node.spec.images {
                *images.entry(image).or_default() += 1;
            }
        }
        let kept: BTreeMap<Sym, u32> = self.image_nodes.iter().map(|(image, count)| (*image, *count)).collect();
        equal("nodes with each image", kept, images)
    }

    fn check_nominations(&self) -> Check {
        let mut nominated: FxHashMap<Sym, Vec<PodId>> = FxHashMap::default();
        for (id, pod) in self.pods() {
            if let Some(node) = pod.nominated {
                equal(&format!("pod {}: phase of a nominated pod", self.pod_name(pod)), pod.phase, Phase::Pending)?;
                nominated.entry(node).or_default().push(id);
            }
        }
        equal_lists("nominated pods", &self.nominated, nominated)
    }

    fn check_shapes(&self) -> Check {
        let pods = tally(self.pods().map(|(_, pod)| pod.shape));
        let locals = tally(self.shapes.iter().map(|(_, entry)| entry.local_id));
        for (id, entry) in self.shapes.iter() {
            equal(&format!("shape {id:?}: pods"), entry.refs, count(&pods, &id))?;
            equal(&format!("shape {id:?}: its id"), self.shapes.find(&entry.shape), Some(id))?;
            let local = self.shapes.locals.get(&entry.shape.local).copied();
            equal(
                &format!("shape {id:?}: its local part"),
                local,
                Some((entry.local_id, count(&locals, &entry.local_id))),
            )?;
            if let Some((version, counter)) = entry.default_spread
                && version == self.controllers.version()
            {
                let selector = self.controllers.default_selector(&entry.shape, &self.strings);
                let key = counter.and_then(|id| self.classes.counters().find(|(known, _)| *known == id));
                let key = key.map(|(_, counter)| counter.key.clone());
                let expected = spread_key(entry.shape.namespace, &selector);
                equal(&format!("shape {id:?}: the counter of its default spreading"), key, expected)?;
            }
        }
        equal("local parts of shapes", self.shapes.locals.len(), locals.len())
    }

    fn check_classes(&self, placed: &[Placed<'_>]) -> Check {
        let shapes = tally(self.shapes.iter().map(|(_, entry)| entry.class));
        for (id, class) in self.classes.classes() {
            let name = format!("class {id:?} of namespace {}", self.strings.resolve(class.namespace));
            equal(&format!("{name}: shapes"), class.refs, count(&shapes, &id))?;
            for (what, terminating, kept) in
                [("pods", false, &class.live), ("terminating pods", true, &class.terminating)]
            {
                let of_class = placed.iter().filter(|p| p.entry.class == id && p.pod.terminating == terminating);
                equal_counts(&format!("{name}: {what}"), kept, of_class.map(|p| p.node))?;
            }
            let counters = self.classes.counters().filter(|(_, counter)| {
                counter.key.matches(class.namespace, &class.labels, &self.namespaces, &self.strings)
            });
            let counters: Vec<CounterId> = counters.map(|(id, _)| id).collect();
            equal(&format!("{name}: counters"), sorted(&class.counters), sorted(&counters))?;
            let no_labels = Default::default();
            let namespace_labels = self.namespaces.get(&class.namespace).unwrap_or(&no_labels);
            let terms = self.classes.terms().filter(|(_, term)| {
                term.pods.matches_incoming(class.namespace, namespace_labels, &class.labels, &self.strings)
            });
            let terms: Vec<OwnedTermId> = terms.map(|(id, _)| id).collect();
            equal(&format!("{name}: terms about it"), sorted(&class.matching_terms), sorted(&terms))?;
        }
        Ok(())
    }

    fn check_counters(&self, placed: &[Placed<'_>]) -> Check {
        let readers = self.shapes.iter().flat_map(|(_, entry)| {
            let handles = &entry.handles;
            let lists = [&handles.spread, &handles.required_anti, &handles.preferred, &handles.preferred_anti];
            let default_spread = entry.default_spread.and_then(|(_, counter)| counter);
            let single = [handles.required_all, default_spread].into_iter().flatten();
            lists.into_iter().flatten().filter_map(|counted| counted.counter).chain(single)
        });
        let readers = tally(readers);
        for (id, counter) in self.classes.counters() {
            equal(&format!("counter {id:?}: readers"), counter.refs, count(&readers, &id))?;
            let matching = placed.iter().filter(|placed| {
                let shape = &placed.entry.shape;
                (!placed.pod.terminating || counter.key.counts_terminating())
                    && counter.key.matches(shape.namespace, &shape.labels, &self.namespaces, &self.strings)
            });
            let name = format!("counter {id:?} ({:?})", counter.key);
            equal_counts(&name, &counter.counts, matching.map(|placed| placed.node))?;
        }
        equal("counters read by shapes", self.classes.counters().count(), readers.len())
    }

    fn check_terms(&self, placed: &[Placed<'_>]) -> Check {
        let owners = tally(self.shapes.iter().flat_map(|(_, entry)| entry.handles.owned.iter().copied()));
        for (id, term) in self.classes.terms() {
            equal(&format!("term {id:?}: shapes that carry it"), term.refs, count(&owners, &id))?;
            let carried = placed.iter().flat_map(|placed| {
                placed.entry.handles.owned.iter().filter(|owned| **owned == id).map(|_| placed.node)
            });
            equal_counts(&format!("term {id:?} ({:?} {:?})", term.kind, term.pods), &term.counts, carried)?;
        }
        equal("terms carried by shapes", self.classes.terms().count(), owners.len())
    }

    fn check_topologies(&self) -> Check {
        for topology in self.topologies.iter() {
            let key = self.strings.resolve(topology.key);
            let mut members: BTreeMap<Sym, u32> = BTreeMap::new();
            for index in 0..self.nodes.len().max(topology.domains().len()) {
                let id = NodeId::new(u32::try_from(index).unwrap_or(u32::MAX));
                let value = self.node(id).and_then(|node| node.spec.labels.get(topology.key));
                let domain = topology.domain(id);
                let kept = (domain != NO_DOMAIN).then(|| topology.members[domain as usize].0);
                equal(&format!("topology {key}: the domain of node {}", self.node_name(id)), kept, value)?;
                if let Some(value) = value {
                    *members.entry(value).or_default() += 1;
                }
            }
            equal(
                &format!("topology {key}: nodes with the label"),
                topology.labelled() as u32,
                members.values().sum(),
            )?;
            let kept: BTreeMap<Sym, u32> =
                topology.by_value.iter().map(|(value, domain)| (*value, topology.members(*domain as usize))).collect();
            equal(&format!("topology {key}: nodes in each domain"), kept, members)?;
        }
        Ok(())
    }
}

/// What pods add up to on a node, in an order that does not depend on theirs.
fn summary(node: &Node) -> impl Debug + PartialEq {
    // An entry of zeros means the same as no entry.
    let scalars = node.scalars.iter().filter(|scalar| scalar.allocatable != 0 || scalar.requested != 0);
    let mut scalars: Vec<_> = scalars.map(|scalar| (scalar.id, scalar.allocatable, scalar.requested)).collect();
    scalars.sort_unstable();
    let nonzero = (node.nonzero_cpu, node.nonzero_memory);
    (node.allocatable, node.requested, nonzero, scalars, sorted(&node.ports), sorted(&node.pods))
}

/// An error that names `what`, unless both are equal.
pub(crate) fn equal<T: PartialEq + Debug>(what: &str, kept: T, recomputed: T) -> Result<(), String> {
    if kept == recomputed { Ok(()) } else { Err(format!("{what}: kept {kept:?}, recomputed {recomputed:?}")) }
}

fn equal_counts(what: &str, kept: &NodeCounts, pods: impl Iterator<Item = NodeId>) -> Check {
    let mut recomputed: BTreeMap<NodeId, u32> = BTreeMap::new();
    pods.for_each(|node| *recomputed.entry(node).or_default() += 1);
    equal(&format!("{what}, in total"), kept.total(), recomputed.values().map(|count| u64::from(*count)).sum())?;
    for &(node, count) in kept.entries() {
        equal(&format!("{what}, looked up on node #{}", node.index()), kept.get(node), count)?;
    }
    equal(what, kept.entries().iter().copied().collect(), recomputed)
}

fn equal_lists(what: &str, kept: &FxHashMap<Sym, Vec<PodId>>, recomputed: FxHashMap<Sym, Vec<PodId>>) -> Check {
    let canonical = |lists: &FxHashMap<Sym, Vec<PodId>>| -> BTreeMap<Sym, Vec<PodId>> {
        lists.iter().map(|(name, pods)| (*name, sorted(pods))).collect()
    };
    equal(what, canonical(kept), canonical(&recomputed))
}

/// Every slot without an object waits once to be used again.
fn check_free_list<T, I: Copy>(what: &str, slots: &[Option<T>], free: &[I], index: impl Fn(I) -> usize) -> Check {
    let mut kept: Vec<_> = free.iter().map(|id| index(*id)).collect();
    kept.sort_unstable();
    let empty: Vec<_> = slots.iter().enumerate().filter(|(_, slot)| slot.is_none()).map(|(at, _)| at).collect();
    equal(&format!("{what} to use again"), kept, empty)
}

fn tally<K: Hash + Eq>(items: impl Iterator<Item = K>) -> FxHashMap<K, u32> {
    let mut tally = FxHashMap::default();
    items.for_each(|item| *tally.entry(item).or_default() += 1);
    tally
}

fn count<K: Hash + Eq>(tally: &FxHashMap<K, u32>, key: &K) -> u32 {
    tally.get(key).copied().unwrap_or(0)
}

fn sorted<T: Ord + Clone>(list: &[T]) -> Vec<T> {
    let mut list = list.to_vec();
    list.sort_unstable();
    list
}
