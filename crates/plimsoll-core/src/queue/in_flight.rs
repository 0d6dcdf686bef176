//! Pods that were popped and have not come back, and the events they missed meanwhile.
//!
//! One log serves all of them: a pod remembers where in the log it was popped, and an event is forgotten
//! when no pod that may ask for it is older than it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::Hash;

use rustc_hash::FxHashMap;

use super::events::Event;
use super::hints::Interest;

/// Something that happened while pods were in flight.
#[derive(Clone, Debug)]
pub(super) enum Missed<K, O> {
    /// A change of the cluster, and who is interested in it.
    Event(Event<O>, Interest),
    /// Every pod is to be tried again.
    All,
    /// This pod is to be tried again.
    Only(K),
}

#[derive(Clone, Debug)]
pub(super) struct InFlight<K, O> {
    popped_at: FxHashMap<K, u64>,
    /// The pods by when they were popped.
    pods: BTreeMap<u64, K>,
    /// When those were popped that may ask what they missed.
    listening: BTreeSet<u64>,
    log: VecDeque<(u64, Missed<K, O>)>,
    /// The next position in the log.
    next: u64,
}

impl<K, O> Default for InFlight<K, O> {
    fn default() -> Self {
        Self {
            popped_at: FxHashMap::default(),
            pods: BTreeMap::new(),
            listening: BTreeSet::new(),
            log: VecDeque::new(),
            next: 0,
        }
    }
}

impl<K: Copy + Eq + Hash, O> InFlight<K, O> {
    pub fn start(&mut self, pod: K) {
        let position = self.advance();
        self.pods.insert(position, pod);
        self.listening.insert(position);
        if let Some(earlier) = self.popped_at.insert(pod, position) {
            self.pods.remove(&earlier);
            self.listening.remove(&earlier);
        }
    }

    /// Remembers `missed` if there is a pod that may ask for it.
    pub fn record(&mut self, missed: impl FnOnce() -> Missed<K, O>) {
        if !self.listening.is_empty() {
            let position = self.advance();
            self.log.push_back((position, missed()));
        }
    }

    /// What happened since `pod` was popped, in order.
    pub fn missed_by(&self, pod: K) -> impl Iterator<Item = &Missed<K, O>> {
        let from = match self.popped_at.get(&pod).filter(|start| self.listening.contains(start)) {
            Some(start) => self.log.partition_point(|(position, _)| position < start),
            None => self.log.len(),
        };
        self.log.range(from..).map(|(_, missed)| missed)
    }

    /// The pod stays in flight, and will not ask what it missed.
    pub fn stop_listening(&mut self, pod: K) {
        if let Some(start) = self.popped_at.get(&pod) {
            self.listening.remove(start);
            self.forget();
        }
    }

    pub fn finish(&mut self, pod: K) {
        if let Some(start) = self.popped_at.remove(&pod) {
            self.pods.remove(&start);
            self.listening.remove(&start);
        }
        self.forget();
    }

    /// Forgets what nobody can ask for.
    fn forget(&mut self) {
        let oldest = self.listening.first().copied().unwrap_or(u64::MAX);
        while self.log.front().is_some_and(|(position, _)| *position < oldest) {
            self.log.pop_front();
        }
    }

    /// The pods in flight, in the order they were popped.
    pub fn keys(&self) -> impl Iterator<Item = K> {
        self.pods.values().copied()
    }

    pub fn len(&self) -> usize {
        self.popped_at.len()
    }

    /// How many events are remembered.
    #[cfg(test)]
    pub fn remembered(&self) -> usize {
        self.log.len()
    }

    fn advance(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}
