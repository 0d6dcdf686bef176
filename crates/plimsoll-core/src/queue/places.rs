//! Where every pod is, and the orders in which pods leave each place.
//!
//! A pod is taken out of its place before anything about it changes and put back afterwards, so that the
//! orders below always agree with what is known about it.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::time::Duration;

use rustc_hash::FxHashMap;

use super::hints::Interest;
use super::pod::{QueuedPod, Rejectors, Settings, whole_seconds};
use crate::config::PluginName;
use crate::plugins::{Urgency, urgency};

/// Where a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// Waiting to be popped.
    Active,
    /// Waiting for its backoff to end.
    Backoff,
    /// Waiting for an event that helps, or gated.
    Unschedulable,
    /// Popped, and neither done nor back.
    InFlight,
}

/// A pod and where it is.
#[derive(Clone, Debug)]
pub(super) struct Entry<N> {
    pub pod: QueuedPod<N>,
    pub place: Place,
}

/// The order by some time, then by arrival.
type TimeOrder = (Duration, u64);
/// The place of the extender in the index by rejector, after all plugins.
const EXTENDER: u8 = PluginName::ALL.len() as u8;

#[derive(Clone, Debug)]
pub(super) struct Places<K, N> {
    settings: Settings,
    pods: FxHashMap<K, Entry<N>>,
    active: BTreeMap<Urgency, K>,
    /// Pods that were rejected, by the end of their backoff.
    backoff: BTreeMap<(Duration, Urgency), K>,
    /// Pods whose attempt failed by an error, or that wait in any case. They are never popped early, to spare whatever fails.
    error_backoff: BTreeMap<TimeOrder, K>,
    /// Pods that are not gated, by when they came back.
    unschedulable: BTreeMap<TimeOrder, K>,
    gated: BTreeMap<TimeOrder, K>,
    /// Unschedulable and gated pods by who rejected them, so that an event finds those it concerns.
    by_rejector: BTreeMap<(u8, u64), K>,
}

impl<K: Copy + Ord + Hash, N> Places<K, N> {
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            pods: FxHashMap::default(),
            active: BTreeMap::new(),
            backoff: BTreeMap::new(),
            error_backoff: BTreeMap::new(),
            unschedulable: BTreeMap::new(),
            gated: BTreeMap::new(),
            by_rejector: BTreeMap::new(),
        }
    }

    pub fn get(&self, key: K) -> Option<&Entry<N>> {
        self.pods.get(&key)
    }

    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// Puts a pod that is nowhere into a place.
    pub fn attach(&mut self, key: K, pod: QueuedPod<N>, place: Place) -> Place {
        match place {
            Place::Active => {
                self.active.insert(active_order(&pod), key);
            }
            Place::Backoff => {
                let until = pod.backoff_until(&self.settings).unwrap_or_default();
                if pod.rejectors.is_empty() || pod.is_patient {
                    self.error_backoff.insert((until, pod.arrival), key);
                } else {
                    self.backoff.insert((until, active_order(&pod)), key);
                }
            }
            Place::Unschedulable => {
                let waiting = if pod.gated_by.is_some() { &mut self.gated } else { &mut self.unschedulable };
                waiting.insert((pod.timestamp, pod.arrival), key);
                for rejector in indices(&pod.rejectors) {
                    self.by_rejector.insert((rejector, pod.arrival), key);
                }
            }
            Place::InFlight => {}
        }
        self.pods.insert(key, Entry { pod, place });
        place
    }

    /// Takes a pod out of its place.
    pub fn detach(&mut self, key: K) -> Option<Entry<N>> {
        let entry = self.pods.remove(&key)?;
        let pod = &entry.pod;
        match entry.place {
            Place::Active => {
                self.active.remove(&active_order(pod));
            }
            Place::Backoff => {
                let until = pod.backoff_until(&self.settings).unwrap_or_default();
                self.error_backoff.remove(&(until, pod.arrival));
                self.backoff.remove(&(until, active_order(pod)));
            }
            Place::Unschedulable => {
                self.unschedulable.remove(&(pod.timestamp, pod.arrival));
                self.gated.remove(&(pod.timestamp, pod.arrival));
                for rejector in indices(&pod.rejectors) {
                    self.by_rejector.remove(&(rejector, pod.arrival));
                }
            }
            Place::InFlight => {}
        }
        Some(entry)
    }

    /// The pod to pop: the first active one, or else the one that would be active next.
    pub fn next(&self) -> Option<K> {
        self.active.values().next().or_else(|| self.backoff.values().next()).copied()
    }

    /// The pods whose backoff has ended.
    pub fn backoff_ended(&self, now: Duration) -> Vec<K> {
        let now = whole_seconds(now);
        let ended = self.backoff.iter().take_while(|((until, _), _)| *until < now).map(|(_, key)| *key);
        let failed = self.error_backoff.iter().take_while(|((until, _), _)| *until < now).map(|(_, key)| *key);
        ended.chain(failed).collect()
    }

    /// The end of the backoff that ends first.
    pub fn first_backoff(&self) -> Option<Duration> {
        let ended = self.backoff.keys().next().map(|(until, _)| *until);
        let failed = self.error_backoff.keys().next().map(|(until, _)| *until);
        ended.into_iter().chain(failed).min()
    }

    /// The unschedulable pods that came back before `limit`, without those that are gated.
    pub fn unschedulable_since(&self, limit: Duration) -> Vec<K> {
        self.unschedulable.iter().take_while(|((since, _), _)| *since < limit).map(|(_, key)| *key).collect()
    }

    /// When the unschedulable pod that has waited longest came back, gated ones aside.
    pub fn first_unschedulable(&self) -> Option<Duration> {
        self.unschedulable.keys().next().map(|(since, _)| *since)
    }

    /// When the gated pod that has waited longest came back.
    pub fn first_gated(&self) -> Option<Duration> {
        self.gated.keys().next().map(|(since, _)| *since)
    }

    /// Unschedulable pods that someone interested rejected, in the order of arrival.
    pub fn rejected_by(&self, interest: Interest) -> Vec<K> {
        let plugins = interest.plugins().iter().map(|plugin| plugin as u8);
        let rejectors = plugins.chain(interest.extender.then_some(EXTENDER));
        let of = |rejector: u8| self.by_rejector.range((rejector, 0)..=(rejector, u64::MAX));
        let mut found: Vec<(u64, K)> = rejectors.flat_map(of).map(|((_, arrival), key)| (*arrival, *key)).collect();
        found.sort_unstable();
        found.dedup();
        found.into_iter().map(|(_, key)| key).collect()
    }

    /// The active pods, in the order in which they will be tried.
    pub fn upcoming(&self) -> impl Iterator<Item = K> {
        self.active.values().copied()
    }

    /// The pods of a place in its order; none of those in flight, which have no order here.
    pub fn keys(&self, place: Place) -> Vec<K> {
        match place {
            Place::Active => self.upcoming().collect(),
            Place::Backoff => self.backoff.values().chain(self.error_backoff.values()).copied().collect(),
            Place::Unschedulable => self.unschedulable.values().chain(self.gated.values()).copied().collect(),
            Place::InFlight => Vec::new(),
        }
    }

    /// How many pods are in a place; none of those in flight, which are not counted here.
    pub fn len(&self, place: Place) -> usize {
        match place {
            Place::Active => self.active.len(),
            Place::Backoff => self.backoff.len() + self.error_backoff.len(),
            Place::Unschedulable => self.unschedulable.len() + self.gated.len(),
            Place::InFlight => 0,
        }
    }

    pub fn gated(&self) -> usize {
        self.gated.len()
    }
}

fn active_order<N>(pod: &QueuedPod<N>) -> Urgency {
    urgency(pod.fields.priority, pod.timestamp, pod.arrival)
}

fn indices(rejectors: &Rejectors) -> impl Iterator<Item = u8> + use<> {
    rejectors.plugins().iter().map(|plugin| plugin as u8).chain(rejectors.extender.then_some(EXTENDER))
}
