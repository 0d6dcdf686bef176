//! The scheduling queue: which pod is tried next, and when a pod that could not be scheduled is tried again.
//!
//! A pod is in exactly one place. *Active* pods are popped by priority, then by age. A pod that was popped is
//! *in flight* until it is done or comes back rejected; then it is *unschedulable* until an event happens
//! that one of the plugins that rejected it says might help, and returns to the active pods after a
//! *backoff* that doubles with every failure. Pods that a plugin *gates* are unschedulable without having
//! been tried. When nothing is active, pods in backoff are popped early rather than leave the scheduler idle.
//!
//! These are the semantics of kube-scheduler v1.36 with its default features. Time is passed in, as the
//! duration since some whole second that the caller chose, and never runs backwards.

mod events;
mod hints;
mod in_flight;
mod incoming;
mod nominator;
mod places;
mod pod;
mod registrations;
#[cfg(test)]
mod tests;

use std::hash::Hash;
use std::time::Duration;

pub use events::{ActionType, Event, EventResource, Registration};
pub use hints::{Hint, Hints};
pub use incoming::Cause;
pub use nominator::Nomination;
pub use places::Place;
pub use pod::{PodFields, QueuedPod, Rejectors, Settings};
pub use registrations::{EXTENDER_EVENTS, events_to_register};

use hints::Interest;
use in_flight::{InFlight, Missed};
use incoming::Incoming;
use nominator::Nominator;
use places::{Entry, Places};

/// How often a driver calls [`SchedulingQueue::flush_backoff`], at whole seconds.
pub const BACKOFF_FLUSH_INTERVAL: Duration = Duration::from_secs(1);
/// How often a driver calls [`SchedulingQueue::flush_unschedulable`].
pub const UNSCHEDULABLE_FLUSH_INTERVAL: Duration = Duration::from_secs(30);

/// A pod came back that was never popped, or is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the pod is not in flight")]
pub struct NotInFlight;

/// What becomes of a pod after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Requeue {
    Skip,
    AfterBackoff,
    Immediately,
}

/// The pods that wait to be scheduled. `K` names a pod, `N` a node, `O` is what events carry.
#[derive(Clone, Debug)]
pub struct SchedulingQueue<K, N, O = ()> {
    settings: Settings,
    places: Places<K, N>,
    in_flight: InFlight<K, O>,
    nominator: Nominator<K, N>,
    arrivals: u64,
    cycle: u64,
    incoming: Incoming,
}

impl<K, N, O> SchedulingQueue<K, N, O>
where
    K: Copy + Ord + Hash,
    N: Copy + Eq + Hash,
    O: Clone,
{
    /// An empty queue.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            places: Places::new(settings),
            in_flight: InFlight::default(),
            nominator: Nominator::default(),
            arrivals: 0,
            cycle: 0,
            incoming: Incoming::default(),
        }
    }

    /// Adds a new pod: to the active ones, or if it is gated to the unschedulable ones. A pod that is
    /// already here stays where it is.
    pub fn add(&mut self, now: Duration, key: K, fields: PodFields<N>, hints: &impl Hints<K, O>) -> Place {
        if let Some(Entry { mut pod, place }) = self.places.detach(key) {
            // Whoever deleted it in flight was wrong.
            pod.deleted = false;
            return self.places.attach(key, pod, place);
        }
        self.arrivals += 1;
        let pod = QueuedPod::new(fields, now, self.arrivals);
        let place = self.activate_or_gate(now, key, pod, hints);
        self.incoming.count(place, Cause::Event(EventResource::UnschedulablePod, ActionType::ADD));
        if place == Place::Active {
            self.nominator.set(key, fields.nominated_node, Nomination::FromStatus);
        }
        place
    }

    /// Takes over an update of a pod. `events` says what about the pod changed, in terms of
    /// [`EventResource::UnschedulablePod`]; it moves the pod if a plugin that rejected it says so.
    pub fn update(
        &mut self,
        now: Duration,
        key: K,
        fields: PodFields<N>,
        events: &[Event<O>],
        hints: &impl Hints<K, O>,
    ) -> Place {
        let Some(mut entry) = self.places.detach(key) else { return self.add(now, key, fields, hints) };
        let before = std::mem::replace(&mut entry.pod.fields, fields);
        if entry.place == Place::InFlight {
            for event in events {
                self.in_flight.record(|| Missed::Event(event.clone(), Interest::of(event, hints)));
            }
            return self.places.attach(key, entry.pod, Place::InFlight);
        }
        self.nominator.update(key, before.nominated_node, fields.nominated_node);
        if entry.place != Place::Unschedulable {
            return self.places.attach(key, entry.pod, entry.place);
        }
        let mut pod = entry.pod;
        for event in events {
            let requeue = self.worth(key, &pod, event, Interest::of(event, hints), hints);
            if requeue == Requeue::Skip {
                continue;
            }
            let place = self.requeue(now, key, pod, requeue, hints);
            if place != Place::Unschedulable {
                self.incoming.count(place, Cause::Event(event.resource, event.action));
                // A general update brings the pod in as if it were new, with what its status says.
                if place == Place::Active && event.action == ActionType::UPDATE {
                    self.nominator.set(key, fields.nominated_node, Nomination::FromStatus);
                }
                return place;
            }
            // A plugin gates it, perhaps another one than before.
            let Some(gated) = self.places.detach(key) else { return place };
            pod = gated.pod;
        }
        self.places.attach(key, pod, Place::Unschedulable)
    }

    /// Removes a pod that was deleted, or bound by somebody else. In flight, it will not come back.
    pub fn delete(&mut self, key: K) -> bool {
        self.nominator.remove(key);
        match self.places.detach(key) {
            Some(Entry { mut pod, place: Place::InFlight }) => {
                pod.deleted = true;
                self.places.attach(key, pod, Place::InFlight);
                true
            }
            taken => taken.is_some(),
        }
    }

    /// The pod to try next, now in flight.
    pub fn pop(&mut self) -> Option<K> {
        let key = self.places.next()?;
        let mut entry = self.places.detach(key)?;
        if entry.place == Place::Backoff {
            self.incoming.count(Place::Active, Cause::PoppedEarly);
        }
        entry.pod.attempts += 1;
        self.cycle += 1;
        self.in_flight.start(key);
        self.places.attach(key, entry.pod, Place::InFlight);
        Some(key)
    }

    /// From now on a pod waits for its backoff to end, though there be nothing else to do.
    pub fn be_patient(&mut self, key: K) {
        if let Some(Entry { mut pod, place }) = self.places.detach(key) {
            pod.is_patient = true;
            self.places.attach(key, pod, place);
        }
    }

    /// A pod in flight is about to be bound: should that fail, it failed by an error, and is tried again whatever happened meanwhile.
    pub fn stop_listening(&mut self, key: K) {
        self.in_flight.stop_listening(key);
    }

    /// Ends the attempt of a pod in flight that does not come back: it is bound, or gone.
    pub fn done(&mut self, key: K) {
        if self.place(key) == Some(Place::InFlight) {
            self.places.detach(key);
            self.in_flight.finish(key);
        }
    }

    /// Takes back a pod in flight that could not be scheduled. With nobody who rejected it, it failed by an
    /// error. Returns where it went, or `None` if it was deleted meanwhile.
    pub fn add_unschedulable(
        &mut self,
        now: Duration,
        key: K,
        rejectors: Rejectors,
        hints: &impl Hints<K, O>,
    ) -> Result<Option<Place>, NotInFlight> {
        if self.place(key) != Some(Place::InFlight) {
            return Err(NotInFlight);
        }
        let Some(Entry { mut pod, .. }) = self.places.detach(key) else { return Err(NotInFlight) };
        if pod.deleted {
            self.in_flight.finish(key);
            return Ok(None);
        }
        pod.rejectors = rejectors;
        pod.gated_by = None;
        pod.flushed = false;
        pod.timestamp = now;
        if rejectors.is_empty() {
            pod.consecutive_errors += 1;
        } else {
            pod.unschedulable_count += 1;
            pod.consecutive_errors = 0;
        }
        let requeue = self.worth_after_flight(key, &pod, hints);
        self.in_flight.finish(key);
        let place = self.requeue(now, key, pod, requeue, hints);
        Ok(Some(self.incoming.count(place, Cause::AttemptFailed)))
    }

    /// Tells the queue of a change of the cluster: moves the unschedulable pods it might help.
    pub fn move_all(&mut self, now: Duration, event: &Event<O>, hints: &impl Hints<K, O>) -> usize {
        self.move_if(now, event, hints, |_, _| true)
    }

    /// Like [`SchedulingQueue::move_all`], of the pods for which `check` holds.
    pub fn move_if(
        &mut self,
        now: Duration,
        event: &Event<O>,
        hints: &impl Hints<K, O>,
        check: impl Fn(K, &QueuedPod<N>) -> bool,
    ) -> usize {
        let passes = |places: &Places<K, N>, key: K| places.get(key).is_some_and(|entry| check(key, &entry.pod));
        if event.is_wildcard() {
            let mut keys = self.places.unschedulable_since(Duration::MAX);
            keys.retain(|key| passes(&self.places, *key));
            return self.move_anyway(now, &keys, Cause::Event(event.resource, event.action), hints);
        }
        let interest = Interest::of(event, hints);
        if interest.is_empty() {
            return 0;
        }
        let mut moved = 0;
        for key in self.places.rejected_by(interest) {
            let Some(Entry { pod, .. }) = self.places.get(key) else { continue };
            let concerns_gate = pod.gated_by.is_none_or(|gate| interest.plugins().contains(gate));
            if !concerns_gate || !passes(&self.places, key) {
                continue;
            }
            let requeue = self.worth(key, pod, event, interest, hints);
            if requeue == Requeue::Skip {
                continue;
            }
            let Some(taken) = self.places.detach(key) else { continue };
            let place = self.requeue(now, key, taken.pod, requeue, hints);
            if place != Place::Unschedulable {
                self.incoming.count(place, Cause::Event(event.resource, event.action));
                moved += 1;
            }
        }
        self.in_flight.record(|| Missed::Event(event.clone(), interest));
        moved
    }

    /// Moves these pods to the active ones at once, because a plugin asks for it. Pods in flight are tried
    /// again when they come back.
    pub fn activate(&mut self, now: Duration, keys: impl IntoIterator<Item = K>, hints: &impl Hints<K, O>) {
        for key in keys {
            match self.place(key) {
                Some(Place::Unschedulable) => {
                    if let Some(taken) = self.places.detach(key) {
                        let place = self.activate_or_gate(now, key, taken.pod, hints);
                        self.incoming.count(place, Cause::Forced);
                    }
                }
                Some(Place::Backoff) => {
                    if let Some(taken) = self.places.detach(key) {
                        self.make_active(now, key, taken.pod);
                        self.incoming.count(Place::Active, Cause::Forced);
                    }
                }
                Some(Place::InFlight) => self.in_flight.record(|| Missed::Only(key)),
                Some(Place::Active) | None => {}
            }
        }
    }

    /// Moves pods whose backoff has ended to the active ones.
    pub fn flush_backoff(&mut self, now: Duration) -> usize {
        let keys = self.places.backoff_ended(now);
        for &key in &keys {
            if let Some(taken) = self.places.detach(key) {
                self.make_active(now, key, taken.pod);
                self.incoming.count(Place::Active, Cause::BackoffEnded);
            }
        }
        keys.len()
    }

    /// Moves unschedulable pods that have waited too long for an event. Gated pods stay.
    pub fn flush_unschedulable(&mut self, now: Duration, hints: &impl Hints<K, O>) -> usize {
        let Some(limit) = now.checked_sub(self.settings.max_in_unschedulable) else { return 0 };
        let keys = self.places.unschedulable_since(limit);
        // A gated pod that has waited as long does not move, but pods in flight hear of it as well.
        if keys.is_empty() && self.places.first_gated().is_none_or(|since| since >= limit) {
            return 0;
        }
        for &key in &keys {
            if let Some(Entry { mut pod, place }) = self.places.detach(key) {
                pod.flushed = true;
                self.places.attach(key, pod, place);
            }
        }
        self.move_anyway(now, &keys, Cause::WaitedTooLong, hints)
    }

    /// The earliest time at which [`SchedulingQueue::flush_backoff`] will move a pod.
    pub fn next_backoff_flush(&self) -> Option<Duration> {
        // In the second in which it ends a backoff still holds.
        Some(self.places.first_backoff()?.saturating_add(BACKOFF_FLUSH_INTERVAL))
    }

    /// The earliest time at which [`SchedulingQueue::flush_unschedulable`] will move a pod.
    pub fn next_unschedulable_flush(&self) -> Option<Duration> {
        let since = self.places.first_unschedulable()?;
        Some(since.saturating_add(self.settings.max_in_unschedulable).saturating_add(Duration::from_nanos(1)))
    }

    /// Sets the nomination of a pod that is here; of any other, there is none.
    pub fn nominate(&mut self, key: K, nomination: Nomination<N>) {
        match self.places.get(key) {
            Some(Entry { pod, .. }) if !pod.deleted => {
                self.nominator.set(key, pod.fields.nominated_node, nomination);
            }
            _ => self.nominator.remove(key),
        }
    }

    /// Ends the nomination of a pod, as when it was given its node.
    pub fn remove_nomination(&mut self, key: K) {
        self.nominator.remove(key);
    }

    /// The pods nominated to `node`, in the order of nomination.
    pub fn nominated_pods(&self, node: N) -> &[K] {
        self.nominator.pods_of(node)
    }

    /// The node a pod is nominated to.
    pub fn nominated_node(&self, key: K) -> Option<N> {
        self.nominator.node_of(key)
    }

    /// Where a pod is, if it is here.
    pub fn place(&self, key: K) -> Option<Place> {
        self.places.get(key).map(|entry| entry.place)
    }

    /// What is known about a pod that is here.
    pub fn get(&self, key: K) -> Option<&QueuedPod<N>> {
        self.places.get(key).map(|entry| &entry.pod)
    }

    /// How many pods are in `place`.
    pub fn len(&self, place: Place) -> usize {
        match place {
            Place::InFlight => self.in_flight.len(),
            _ => self.places.len(place),
        }
    }

    /// The pods in `place`: active ones in the order they are popped, others with those that have waited
    /// longest, or wait least long from now, first.
    pub fn keys(&self, place: Place) -> Vec<K> {
        match place {
            Place::InFlight => self.in_flight.keys().collect(),
            _ => self.places.keys(place),
        }
    }

    /// The pods that are ready, in the order in which they will be tried.
    pub fn upcoming(&self) -> impl Iterator<Item = K> {
        self.places.upcoming()
    }

    /// How many of the unschedulable pods are gated.
    pub fn gated(&self) -> usize {
        self.places.gated()
    }

    /// How many events are remembered for pods in flight.
    #[cfg(test)]
    pub(crate) fn remembered(&self) -> usize {
        self.in_flight.remembered()
    }

    /// Whether there is no pod at all, not even in flight.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// How many pods were popped so far.
    pub fn scheduling_cycle(&self) -> u64 {
        self.cycle
    }

    /// How many pods came to which place so far, and why.
    pub fn incoming(&self) -> Vec<(Place, Cause, u64)> {
        self.incoming.all()
    }

    /// Moves unschedulable pods without asking those who rejected them, and has pods in flight do the same.
    fn move_anyway(&mut self, now: Duration, keys: &[K], cause: Cause, hints: &impl Hints<K, O>) -> usize {
        let mut moved = 0;
        for &key in keys {
            let Some(taken) = self.places.detach(key) else { continue };
            let place = self.requeue(now, key, taken.pod, Requeue::AfterBackoff, hints);
            if place != Place::Unschedulable {
                self.incoming.count(place, cause);
                moved += 1;
            }
        }
        self.in_flight.record(|| Missed::All);
        moved
    }

    /// What an event means for a pod that was rejected.
    fn worth(
        &self,
        key: K,
        pod: &QueuedPod<N>,
        event: &Event<O>,
        interest: Interest,
        hints: &impl Hints<K, O>,
    ) -> Requeue {
        let Rejectors { pending, extender, .. } = pod.rejectors;
        if pod.rejectors.is_empty() || event.is_wildcard() {
            return Requeue::AfterBackoff;
        }
        let mut requeue = Requeue::Skip;
        for plugin in pod.rejectors.plugins().intersection(interest.plugins()).iter() {
            // With nothing pending it cannot become better than this.
            if pending.is_empty() && requeue == Requeue::AfterBackoff {
                break;
            }
            if !interest.always.contains(plugin) && hints.hint(plugin, key, event) == Hint::Skip {
                continue;
            }
            if pending.contains(plugin) {
                return Requeue::Immediately;
            }
            requeue = Requeue::AfterBackoff;
        }
        if requeue == Requeue::Skip && extender && interest.extender {
            return Requeue::AfterBackoff;
        }
        requeue
    }

    /// What the events that a pod missed in flight mean for it.
    fn worth_after_flight(&self, key: K, pod: &QueuedPod<N>, hints: &impl Hints<K, O>) -> Requeue {
        if pod.rejectors.is_empty() {
            return Requeue::AfterBackoff;
        }
        let mut best = Requeue::Skip;
        for missed in self.in_flight.missed_by(key) {
            let requeue = match missed {
                Missed::Event(event, interest) => self.worth(key, pod, event, *interest, hints),
                Missed::All => Requeue::AfterBackoff,
                Missed::Only(only) if *only == key => Requeue::AfterBackoff,
                Missed::Only(_) => Requeue::Skip,
            };
            match requeue {
                Requeue::Skip => {}
                Requeue::Immediately => return Requeue::Immediately,
                Requeue::AfterBackoff => {
                    best = Requeue::AfterBackoff;
                    if pod.rejectors.pending.is_empty() {
                        break;
                    }
                }
            }
        }
        best
    }

    fn requeue(
        &mut self,
        now: Duration,
        key: K,
        mut pod: QueuedPod<N>,
        requeue: Requeue,
        hints: &impl Hints<K, O>,
    ) -> Place {
        match requeue {
            Requeue::Skip => self.places.attach(key, pod, Place::Unschedulable),
            Requeue::AfterBackoff if pod.is_backing_off(&self.settings, now) => {
                // Asked now and not when the backoff ends, because the pod may be popped before.
                if self.gate(key, &mut pod, hints) {
                    return self.places.attach(key, pod, Place::Unschedulable);
                }
                self.places.attach(key, pod, Place::Backoff)
            }
            _ => self.activate_or_gate(now, key, pod, hints),
        }
    }

    fn activate_or_gate(&mut self, now: Duration, key: K, mut pod: QueuedPod<N>, hints: &impl Hints<K, O>) -> Place {
        if self.gate(key, &mut pod, hints) {
            return self.places.attach(key, pod, Place::Unschedulable);
        }
        self.make_active(now, key, pod)
    }

    fn make_active(&mut self, now: Duration, key: K, mut pod: QueuedPod<N>) -> Place {
        pod.initial_attempt.get_or_insert(now);
        self.places.attach(key, pod, Place::Active)
    }

    /// Whether a plugin keeps the pod from being tried.
    fn gate(&self, key: K, pod: &mut QueuedPod<N>, hints: &impl Hints<K, O>) -> bool {
        pod.gated_by = hints.pre_enqueue(key, pod.gated_by);
        if let Some(gate) = pod.gated_by {
            pod.rejectors.unschedulable.insert(gate);
        }
        pod.gated_by.is_some()
    }
}
