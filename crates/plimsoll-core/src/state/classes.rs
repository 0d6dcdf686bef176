//! Who matches whom, kept by difference.
//!
//! Pods with equal namespace and labels form a class. Whether a selector matches is decided once for a selector and a
//! class, never for a pod; from then on a pod that comes or goes moves one integer for each selector that its class
//! matches. Two kinds of counts result: for a selector, the matching pods on each node ([`CounterKey`]); for an affinity
//! term that placed pods carry, the pods that carry it on each node ([`OwnedTerm`]).

use super::counts::NodeCounts;
use super::node::NodeId;
use super::topology::TopologyId;
use crate::model::affinity::PodMatch;
use crate::model::{AffinityTerm, Interner, LabelSet, Selector, Sym};
use rustc_hash::FxHashMap;

/// A set of pods with equal namespace and labels.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ClassId(u32);

/// A count of matching pods a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct CounterId(u32);

/// An affinity term carried by placed pods.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct OwnedTermId(u32);

/// What a counter counts.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum CounterKey {
    /// Pods of a namespace that a spread constraint selects; pods being deleted do not count.
    Spread {
        /// The namespace.
        namespace: Sym,
        /// The selector.
        selector: Selector,
    },
    /// Pods that match every one of these, as an incoming pod's affinity asks.
    Affinity(Box<[PodMatch]>),
}

/// The role of a term that a placed pod carries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OwnedKind {
    /// Required affinity.
    Required,
    /// Required anti-affinity.
    RequiredAnti,
    /// Preferred affinity.
    Preferred,
    /// Preferred anti-affinity.
    PreferredAnti,
}

/// A term that placed pods carry, and how many carry it on each node.
#[derive(Debug)]
pub struct OwnedTerm {
    /// Its role.
    pub kind: OwnedKind,
    /// Its weight; 1 for required terms.
    pub weight: i32,
    /// Which pods it is about.
    pub pods: PodMatch,
    /// The topology it counts in.
    pub topology: TopologyId,
    /// Pods that carry it. A pod that states it twice counts twice.
    pub counts: NodeCounts,
    pub(super) refs: u32,
}

#[derive(Debug)]
pub(super) struct Class {
    pub(super) namespace: Sym,
    pub(super) labels: LabelSet,
    pub(super) refs: u32,
    /// Placed pods of the class that are not being deleted.
    pub(super) live: NodeCounts,
    /// Placed pods of the class that are being deleted.
    pub(super) terminating: NodeCounts,
    pub(super) counters: Vec<CounterId>,
    pub(super) matching_terms: Vec<OwnedTermId>,
}

#[derive(Debug)]
pub(super) struct Counter {
    pub(super) key: CounterKey,
    pub(super) counts: NodeCounts,
    pub(super) refs: u32,
}

type OwnedKey = (OwnedKind, i32, PodMatch, TopologyId);

/// Labels of namespaces, by name.
pub type Namespaces = FxHashMap<Sym, LabelSet>;

/// All classes, counters and carried terms.
#[derive(Debug, Default)]
pub struct PodClasses {
    classes: Vec<Option<Class>>,
    class_ids: FxHashMap<(Sym, LabelSet), ClassId>,
    free_classes: Vec<u32>,
    counters: Vec<Option<Counter>>,
    counter_ids: FxHashMap<CounterKey, CounterId>,
    free_counters: Vec<u32>,
    terms: Vec<Option<OwnedTerm>>,
    term_ids: FxHashMap<OwnedKey, OwnedTermId>,
    free_terms: Vec<u32>,
    no_labels: LabelSet,
}

fn slot<T>(list: &mut Vec<Option<T>>, free: &mut Vec<u32>, value: T) -> u32 {
    match free.pop() {
        Some(at) => {
            list[at as usize] = Some(value);
            at
        }
        None => {
            list.push(Some(value));
            list.len() as u32 - 1
        }
    }
}

impl CounterKey {
    pub(super) fn counts_terminating(&self) -> bool {
        matches!(self, Self::Affinity(_))
    }

    pub(super) fn matches(
        &self,
        namespace: Sym,
        labels: &LabelSet,
        namespaces: &Namespaces,
        strings: &Interner,
    ) -> bool {
        match self {
            Self::Spread { namespace: wanted, selector } => *wanted == namespace && selector.matches(labels, strings),
            Self::Affinity(terms) => {
                terms.iter().all(|term| term.matches_existing(namespace, namespaces.get(&namespace), labels, strings))
            }
        }
    }
}

impl PodClasses {
    fn class(&self, id: ClassId) -> &Class {
        self.classes[id.0 as usize].as_ref().expect("a class lives while pods refer to it")
    }

    fn class_mut(&mut self, id: ClassId) -> &mut Class {
        self.classes[id.0 as usize].as_mut().expect("a class lives while pods refer to it")
    }

    fn counter_mut(&mut self, id: CounterId) -> &mut Counter {
        self.counters[id.0 as usize].as_mut().expect("a counter lives while shapes refer to it")
    }

    /// Every class with its id.
    pub(super) fn classes(&self) -> impl Iterator<Item = (ClassId, &Class)> {
        ids(&self.classes).map(|(at, class)| (ClassId(at), class))
    }

    /// Every counter with its id.
    pub(super) fn counters(&self) -> impl Iterator<Item = (CounterId, &Counter)> {
        ids(&self.counters).map(|(at, counter)| (CounterId(at), counter))
    }

    /// Every carried term with its id.
    pub(super) fn terms(&self) -> impl Iterator<Item = (OwnedTermId, &OwnedTerm)> {
        ids(&self.terms).map(|(at, term)| (OwnedTermId(at), term))
    }

    /// The counts of a counter.
    pub fn counts(&self, id: CounterId) -> &NodeCounts {
        &self.counters[id.0 as usize].as_ref().expect("a counter lives while shapes refer to it").counts
    }

    /// Whether pods of a class are counted by a counter.
    pub fn is_counted(&self, class: ClassId, counter: CounterId) -> bool {
        self.class(class).counters.contains(&counter)
    }

    /// A carried term.
    pub fn term(&self, id: OwnedTermId) -> &OwnedTerm {
        self.terms[id.0 as usize].as_ref().expect("a term lives while shapes refer to it")
    }

    /// The carried terms that are about pods of this class.
    pub fn terms_about(&self, class: ClassId) -> &[OwnedTermId] {
        &self.class(class).matching_terms
    }

    /// The class of these labels, with one more reference.
    pub fn acquire_class(
        &mut self,
        namespace: Sym,
        labels: &LabelSet,
        namespaces: &Namespaces,
        strings: &Interner,
    ) -> ClassId {
        let key = (namespace, labels.clone());
        if let Some(&id) = self.class_ids.get(&key) {
            self.class_mut(id).refs += 1;
            return id;
        }
        let class = Class {
            namespace,
            labels: labels.clone(),
            refs: 1,
            live: NodeCounts::default(),
            terminating: NodeCounts::default(),
            counters: self.matching_counters(namespace, labels, namespaces, strings),
            matching_terms: self.matching_terms(namespace, labels, namespaces, strings),
        };
        let id = ClassId(slot(&mut self.classes, &mut self.free_classes, class));
        self.class_ids.insert(key, id);
        id
    }

    fn matching_counters(
        &self,
        namespace: Sym,
        labels: &LabelSet,
        namespaces: &Namespaces,
        strings: &Interner,
    ) -> Vec<CounterId> {
        ids(&self.counters)
            .filter(|(_, counter)| counter.key.matches(namespace, labels, namespaces, strings))
            .map(|(at, _)| CounterId(at))
            .collect()
    }

    fn matching_terms(
        &self,
        namespace: Sym,
        labels: &LabelSet,
        namespaces: &Namespaces,
        strings: &Interner,
    ) -> Vec<OwnedTermId> {
        let namespace_labels = namespaces.get(&namespace).unwrap_or(&self.no_labels);
        ids(&self.terms)
            .filter(|(_, term)| term.pods.matches_incoming(namespace, namespace_labels, labels, strings))
            .map(|(at, _)| OwnedTermId(at))
            .collect()
    }

    /// Gives a reference back; a class nobody refers to is forgotten.
    pub fn release_class(&mut self, id: ClassId) {
        let class = self.class_mut(id);
        class.refs -= 1;
        if class.refs == 0 {
            let key = (class.namespace, class.labels.clone());
            self.class_ids.remove(&key);
            self.classes[id.0 as usize] = None;
            self.free_classes.push(id.0);
        }
    }

    /// The counter of a key, with one more reference; counted from the classes if it is new.
    pub fn acquire_counter(&mut self, key: CounterKey, namespaces: &Namespaces, strings: &Interner) -> CounterId {
        if let Some(&id) = self.counter_ids.get(&key) {
            self.counter_mut(id).refs += 1;
            return id;
        }
        let counter = Counter { key: key.clone(), counts: NodeCounts::default(), refs: 1 };
        let id = CounterId(slot(&mut self.counters, &mut self.free_counters, counter));
        let mut counts = NodeCounts::default();
        for class in self.classes.iter_mut().flatten() {
            if key.matches(class.namespace, &class.labels, namespaces, strings) {
                class.counters.push(id);
                counts.merge(&class.live);
                if key.counts_terminating() {
                    counts.merge(&class.terminating);
                }
            }
        }
        self.counter_mut(id).counts = counts;
        self.counter_ids.insert(key, id);
        id
    }

    /// Gives a reference back; a counter nobody asks for is forgotten.
    pub fn release_counter(&mut self, id: CounterId) {
        let counter = self.counter_mut(id);
        counter.refs -= 1;
        if counter.refs == 0 {
            let key = counter.key.clone();
            self.counter_ids.remove(&key);
            self.counters[id.0 as usize] = None;
            self.free_counters.push(id.0);
            for class in self.classes.iter_mut().flatten() {
                class.counters.retain(|counter| *counter != id);
            }
        }
    }

    /// A carried term, with one more reference.
    pub fn acquire_term(
        &mut self,
        kind: OwnedKind,
        weight: i32,
        term: &AffinityTerm,
        topology: TopologyId,
        namespaces: &Namespaces,
        strings: &Interner,
    ) -> OwnedTermId {
        let key = (kind, weight, term.pods.clone(), topology);
        if let Some(&id) = self.term_ids.get(&key) {
            if let Some(term) = &mut self.terms[id.0 as usize] {
                term.refs += 1;
            }
            return id;
        }
        let pods = term.pods.clone();
        let owned = OwnedTerm { kind, weight, pods: pods.clone(), topology, counts: NodeCounts::default(), refs: 1 };
        let id = OwnedTermId(slot(&mut self.terms, &mut self.free_terms, owned));
        self.term_ids.insert(key, id);
        for class in self.classes.iter_mut().flatten() {
            let namespace_labels = namespaces.get(&class.namespace).unwrap_or(&self.no_labels);
            if pods.matches_incoming(class.namespace, namespace_labels, &class.labels, strings) {
                class.matching_terms.push(id);
            }
        }
        id
    }

    /// Gives a reference back; a term nobody carries is forgotten.
    pub fn release_term(&mut self, id: OwnedTermId) {
        let Some(term) = &mut self.terms[id.0 as usize] else {
            return;
        };
        term.refs -= 1;
        if term.refs == 0 {
            let key = (term.kind, term.weight, term.pods.clone(), term.topology);
            self.term_ids.remove(&key);
            self.terms[id.0 as usize] = None;
            self.free_terms.push(id.0);
            for class in self.classes.iter_mut().flatten() {
                class.matching_terms.retain(|term| *term != id);
            }
        }
    }

    /// A placed pod of a class came to a node (or its deletion began or was taken back: remove, then add).
    pub fn add_pod(&mut self, class: ClassId, owned: &[OwnedTermId], node: NodeId, terminating: bool) {
        self.move_pod(class, owned, node, terminating, NodeCounts::add);
    }

    /// A placed pod of a class left a node.
    pub fn remove_pod(&mut self, class: ClassId, owned: &[OwnedTermId], node: NodeId, terminating: bool) {
        self.move_pod(class, owned, node, terminating, NodeCounts::remove);
    }

    fn move_pod(
        &mut self,
        class: ClassId,
        owned: &[OwnedTermId],
        node: NodeId,
        terminating: bool,
        step: fn(&mut NodeCounts, NodeId, u32),
    ) {
        let Some(class) = &mut self.classes[class.0 as usize] else {
            return;
        };
        step(if terminating { &mut class.terminating } else { &mut class.live }, node, 1);
        for id in &class.counters {
            if let Some(counter) = &mut self.counters[id.0 as usize]
                && (!terminating || counter.key.counts_terminating())
            {
                step(&mut counter.counts, node, 1);
            }
        }
        for id in owned {
            if let Some(term) = &mut self.terms[id.0 as usize] {
                step(&mut term.counts, node, 1);
            }
        }
    }

    /// The labels of a namespace changed: what depends on them is decided and counted again.
    pub fn namespace_changed(&mut self, namespace: Sym, namespaces: &Namespaces, strings: &Interner) {
        let members: Vec<_> =
            ids(&self.classes).filter(|(_, c)| c.namespace == namespace).map(|(at, _)| ClassId(at)).collect();
        for id in members {
            let labels = self.class(id).labels.clone();
            let counters = self.matching_counters(namespace, &labels, namespaces, strings);
            let terms = self.matching_terms(namespace, &labels, namespaces, strings);
            let Some(class) = &mut self.classes[id.0 as usize] else { continue };
            class.matching_terms = terms;
            let before = std::mem::replace(&mut class.counters, counters);
            for (list, other, step) in [
                (&before, &class.counters, NodeCounts::remove as fn(&mut NodeCounts, NodeId, u32)),
                (&class.counters, &before, NodeCounts::add),
            ] {
                for counter in list.iter().filter(|counter| !other.contains(counter)) {
                    let Some(counter) = &mut self.counters[counter.0 as usize] else { continue };
                    let terminating = counter.key.counts_terminating().then_some(&class.terminating);
                    for counts in [Some(&class.live), terminating].into_iter().flatten() {
                        for &(node, count) in counts.entries() {
                            step(&mut counter.counts, node, count);
                        }
                    }
                }
            }
        }
    }
}

fn ids<T>(list: &[Option<T>]) -> impl Iterator<Item = (u32, &T)> {
    list.iter().zip(0..).filter_map(|(entry, at)| Some((at, entry.as_ref()?)))
}
