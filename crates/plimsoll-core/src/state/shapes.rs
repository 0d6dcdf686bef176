//! The distinct shapes of pods, each with its class and the counts its rules read.

use super::classes::{ClassId, CounterId, CounterKey, Namespaces, OwnedKind, OwnedTermId, PodClasses};
use super::topology::TopologyId;
use crate::model::affinity::PodMatch;
use crate::model::{AffinityTerm, Interner, LocalShape, PodShape, Selector, Sym};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// A shape, as an index that may be used again after the last pod of that shape is gone.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ShapeId(u32);

impl ShapeId {
    /// Its place in arrays with an entry a shape.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A counter and the topology its sums are taken over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counted {
    /// The counter; none for a selector that by the rules counts nothing.
    pub counter: Option<CounterId>,
    /// The topology.
    pub topology: TopologyId,
}

/// The counts a shape's rules read, found once for all its pods.
#[derive(Debug, Default)]
pub struct Handles {
    /// For each spread constraint.
    pub spread: Box<[Counted]>,
    /// Pods that match every required affinity term.
    pub required_all: Option<CounterId>,
    /// The topology of each required affinity term.
    pub required: Box<[TopologyId]>,
    /// For each required anti-affinity term.
    pub required_anti: Box<[Counted]>,
    /// For each preferred affinity term.
    pub preferred: Box<[Counted]>,
    /// For each preferred anti-affinity term.
    pub preferred_anti: Box<[Counted]>,
    /// The terms its placed pods carry.
    pub owned: Box<[OwnedTermId]>,
}

/// A shape with all that hangs on it.
#[derive(Debug)]
pub struct ShapeEntry {
    /// The shape.
    pub shape: Arc<PodShape>,
    /// Identifies the part that one node alone decides; never used again for another.
    pub local_id: u64,
    /// Its pods' class.
    pub class: ClassId,
    /// The counts its rules read.
    pub handles: Handles,
    /// Pods of default spreading: the selector's counter, and for which version of the controllers it holds.
    pub default_spread: Option<(u64, Option<CounterId>)>,
    pub(super) refs: u32,
}

/// All shapes.
#[derive(Debug, Default)]
pub struct Shapes {
    entries: Vec<Option<ShapeEntry>>,
    ids: FxHashMap<Arc<PodShape>, ShapeId>,
    free: Vec<u32>,
    pub(super) locals: FxHashMap<Arc<LocalShape>, (u64, u32)>,
    next_local: u64,
}

impl Shapes {
    /// A shape.
    pub fn get(&self, id: ShapeId) -> &ShapeEntry {
        self.entries[id.0 as usize].as_ref().expect("a shape lives while pods refer to it")
    }

    /// Every shape with its id.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ShapeId, &ShapeEntry)> {
        self.entries.iter().zip(0..).filter_map(|(entry, at)| Some((ShapeId(at), entry.as_ref()?)))
    }

    /// The id of a shape, if it is known.
    pub(super) fn find(&self, shape: &PodShape) -> Option<ShapeId> {
        self.ids.get(shape).copied()
    }

    pub(super) fn get_mut(&mut self, id: ShapeId) -> &mut ShapeEntry {
        self.entries[id.0 as usize].as_mut().expect("a shape lives while pods refer to it")
    }

    /// The id of an equal shape, with one more reference, if there is one.
    pub(super) fn reuse(&mut self, shape: &PodShape) -> Option<ShapeId> {
        let id = *self.ids.get(shape)?;
        self.get_mut(id).refs += 1;
        Some(id)
    }

    /// Adds a shape that has no equal.
    pub(super) fn insert(
        &mut self,
        mut shape: PodShape,
        classes: &mut PodClasses,
        namespaces: &Namespaces,
        strings: &Interner,
        topology: &mut impl FnMut(Sym) -> TopologyId,
    ) -> ShapeId {
        let class = classes.acquire_class(shape.namespace, &shape.labels, namespaces, strings);
        let local_id = match self.locals.get_key_value(&shape.local) {
            Some((known, &(id, refs))) => {
                let known = Arc::clone(known);
                shape.local = Arc::clone(&known);
                self.locals.insert(known, (id, refs + 1));
                id
            }
            None => {
                self.next_local += 1;
                self.locals.insert(Arc::clone(&shape.local), (self.next_local, 1));
                self.next_local
            }
        };
        let handles = handles(&shape, classes, namespaces, strings, topology);
        let shape = Arc::new(shape);
        let entry = ShapeEntry { shape: Arc::clone(&shape), local_id, class, handles, default_spread: None, refs: 1 };
        let id = match self.free.pop() {
            Some(at) => {
                self.entries[at as usize] = Some(entry);
                ShapeId(at)
            }
            None => {
                self.entries.push(Some(entry));
                ShapeId(self.entries.len() as u32 - 1)
            }
        };
        self.ids.insert(shape, id);
        id
    }

    /// Gives a reference back; a shape without pods is forgotten, and what only it needed.
    pub(super) fn release(&mut self, id: ShapeId, classes: &mut PodClasses) {
        let entry = self.get_mut(id);
        entry.refs -= 1;
        if entry.refs > 0 {
            return;
        }
        let Some(entry) = self.entries[id.0 as usize].take() else { return };
        self.free.push(id.0);
        self.ids.remove(&entry.shape);
        if let Some((local_id, refs)) = self.locals.remove(&entry.shape.local)
            && refs > 1
        {
            self.locals.insert(Arc::clone(&entry.shape.local), (local_id, refs - 1));
        }
        let handles = &entry.handles;
        let counted = [&handles.spread, &handles.required_anti, &handles.preferred, &handles.preferred_anti];
        for counter in counted.into_iter().flatten().filter_map(|c| c.counter) {
            classes.release_counter(counter);
        }
        let default_spread = entry.default_spread.and_then(|(_, counter)| counter);
        for counter in [handles.required_all, default_spread].into_iter().flatten() {
            classes.release_counter(counter);
        }
        for &term in &handles.owned {
            classes.release_term(term);
        }
        classes.release_class(entry.class);
    }
}

/// The key of the counter behind a spread selector; none where the rules count nothing.
pub(super) fn spread_key(namespace: Sym, selector: &Selector) -> Option<CounterKey> {
    // A spread selector without requirements counts no pod, though it matches all: so Kubernetes has it.
    let counts = !selector.is_everything() && *selector != Selector::Nothing;
    counts.then(|| CounterKey::Spread { namespace, selector: selector.clone() })
}

fn handles(
    shape: &PodShape,
    classes: &mut PodClasses,
    namespaces: &Namespaces,
    strings: &Interner,
    topology: &mut impl FnMut(Sym) -> TopologyId,
) -> Handles {
    let affinity = &shape.affinity;
    let spread = &shape.spread.constraints;
    let mut owned = Vec::new();
    let kinds = affinity
        .required
        .iter()
        .map(|term| (OwnedKind::Required, 1, term))
        .chain(affinity.required_anti.iter().map(|term| (OwnedKind::RequiredAnti, 1, term)))
        .chain(affinity.preferred.iter().map(|w| (OwnedKind::Preferred, w.weight, &w.term)))
        .chain(affinity.preferred_anti.iter().map(|w| (OwnedKind::PreferredAnti, w.weight, &w.term)));
    for (kind, weight, term) in kinds {
        let id = topology(term.topology_key);
        owned.push(classes.acquire_term(kind, weight, term, id, namespaces, strings));
    }
    let mut one = |classes: &mut PodClasses, term: &AffinityTerm| Counted {
        counter: Some(classes.acquire_counter(CounterKey::Affinity([term.pods.clone()].into()), namespaces, strings)),
        topology: topology(term.topology_key),
    };
    let required_anti = affinity.required_anti.iter().map(|term| one(classes, term)).collect();
    let preferred = affinity.preferred.iter().map(|w| one(classes, &w.term)).collect();
    let preferred_anti = affinity.preferred_anti.iter().map(|w| one(classes, &w.term)).collect();
    let required_all = (!affinity.required.is_empty()).then(|| {
        let mut pods: Vec<PodMatch> = affinity.required.iter().map(|term| term.pods.clone()).collect();
        pods.sort_unstable();
        pods.dedup();
        classes.acquire_counter(CounterKey::Affinity(pods.into()), namespaces, strings)
    });
    Handles {
        spread: spread
            .iter()
            .map(|constraint| Counted {
                counter: spread_key(shape.namespace, &constraint.selector)
                    .map(|key| classes.acquire_counter(key, namespaces, strings)),
                topology: topology(constraint.topology_key),
            })
            .collect(),
        required_all,
        required: affinity.required.iter().map(|term| topology(term.topology_key)).collect(),
        required_anti,
        preferred,
        preferred_anti,
        owned: owned.into(),
    }
}
