//! The engine: the state of the cluster, the queue and the decisions, tied together as kube-scheduler ties them.
//!
//! A driver (the simulator, or the live scheduler) tells what happens with [`Engine::apply`], asks for work with
//! [`Engine::next`], carries out what the attempt asks for, and says how it went with [`Engine::bound`] or
//! [`Engine::bind_failed`]. One that chooses nodes itself uses [`Engine::ask`] and [`Engine::answer`] instead. When there is
//! no work, [`Engine::wake_at`] says when time alone will bring some. Time is passed in, counted from some whole second that
//! the driver chose.

mod apply;
mod attempt;
mod change;
mod event;
mod hints;
mod pods;
#[cfg(test)]
mod tests;

pub use attempt::{Asked, Attempt, AttemptError, Eviction, PodRef, Question};
pub use event::{Event, Object};

use crate::config::{Configuration, PluginName};
use crate::dra::ObjectError;
use crate::model::Sym;
use crate::plugins::{DetachedNode, gate_message};
use crate::policy::Policy;
use crate::queue::{self, Cause, Place, SchedulingQueue, Settings, UNSCHEDULABLE_FLUSH_INTERVAL};
use crate::reserve::{ClaimWrite, Reservation};
use crate::scheduler::Scheduler;
use crate::state::{ClusterState, NodeId, Phase, PodId, StateError};
use crate::storage::StorageError;
use crate::storage::reservation::VolumeReservation;
use change::{Changed, NodeMarks, PodView};
use hints::{PluginHints, ProfileHints, Victims};
use k8s_openapi::api::resource::v1::ResourceClaim;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A pod in the queue. Ids of pods are used again, so that alone they do not tell a pod in flight from its successor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct QueueKey {
    serial: u64,
    pod: PodId,
}

/// Why an event is not taken in; everything is as it was before.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EngineError {
    /// A node or pod.
    #[error(transparent)]
    State(#[from] StateError),
    /// A storage object.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// An object of dynamic resource allocation. One that was known before and cannot be read now is forgotten.
    #[error(transparent)]
    Devices(#[from] ObjectError),
}

/// How many pods are where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Ready to be tried.
    pub active: usize,
    /// Waiting for their backoff to end.
    pub backoff: usize,
    /// Waiting for an event that helps.
    pub unschedulable: usize,
    /// Kept from being tried by a plugin.
    pub gated: usize,
    /// Being bound.
    pub in_flight: usize,
}

/// What there is to be measured.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Figures {
    /// How many pods came to which place of the queue, and why.
    pub incoming: Vec<(Place, Cause, u64)>,
    /// How many pods wait because of a plugin, by profile.
    pub rejected: BTreeMap<(String, PluginName), usize>,
    /// Nodes that are known.
    pub nodes: usize,
    /// Pods on nodes.
    pub pods: usize,
    /// Those of them that are being bound.
    pub assumed: usize,
}

/// A pod that is not placed yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingPod {
    /// The pod.
    pub pod: PodRef,
    /// Where in the queue it is.
    pub place: Place,
    /// The plugin that keeps it from being tried.
    pub gated_by: Option<PluginName>,
    /// How often it was tried.
    pub attempts: u32,
    /// Why it waits, as far as it was tried or has gates.
    pub message: Option<String>,
}

type Queue = SchedulingQueue<QueueKey, Sym, Changed>;

/// A scheduler at work; see the description of the module.
pub struct Engine {
    scheduler: Scheduler,
    queue: Queue,
    profiles: Vec<ProfileHints>,
    /// The pods of our profiles that are not bound.
    keys: FxHashMap<PodId, QueueKey>,
    next_serial: u64,
    /// The pods whose binding is under way, by UID.
    binding: FxHashMap<Box<str>, QueueKey>,
    victims: Victims,
    /// When pods that have waited too long are looked for next.
    next_flush: Duration,
    node_marks: FxHashMap<Sym, NodeMarks>,
    messages: FxHashMap<QueueKey, String>,
    words_messages: bool,
    /// How many pods of the queue are shown: as many as the driver says, and as the policies look at.
    shown: (usize, usize),
    /// Whether a pod that has others removed time and again has to wait in between, and the pods that had others removed.
    spares_victims: bool,
    preemptors: FxHashSet<QueueKey>,
}

impl Engine {
    /// An engine with an empty cluster; equal seeds and events give equal attempts.
    pub fn new(configuration: &Configuration, seed: u64) -> Self {
        let mut scheduler = Scheduler::new(configuration, seed);
        let state = &mut scheduler.state;
        let profiles = configuration.profiles.iter().map(|profile| ProfileHints::new(profile, state)).collect();
        Self {
            scheduler,
            queue: Queue::new(Settings::from(configuration)),
            profiles,
            keys: FxHashMap::default(),
            next_serial: 0,
            binding: FxHashMap::default(),
            victims: Victims::default(),
            next_flush: Duration::ZERO,
            node_marks: FxHashMap::default(),
            messages: FxHashMap::default(),
            words_messages: true,
            shown: (1, 1),
            spares_victims: false,
            preemptors: FxHashSet::default(),
        }
    }

    /// The cluster.
    pub fn state(&self) -> &ClusterState {
        &self.scheduler.state
    }

    /// The decisions, for explanations.
    pub fn scheduler(&mut self) -> &mut Scheduler {
        &mut self.scheduler
    }

    /// Lets a profile rank by another policy; false if there is no such profile.
    pub fn set_policy(&mut self, scheduler_name: &str, policy: Box<dyn Policy>) -> bool {
        let is_there = self.scheduler.set_policy(scheduler_name, policy);
        self.shown.1 = self.scheduler.lookahead();
        is_there
    }

    /// Has so many pods of the queue shown to policies, the one to be placed included, also to those that do not ask for it.
    pub fn set_lookahead(&mut self, count: usize) {
        self.shown.0 = count;
    }

    /// Whether attempts say in words why a pod waits. It takes a look at every node, which a simulation may not need.
    pub fn set_words_messages(&mut self, words: bool) {
        self.words_messages = words;
    }

    /// Whether a pod that has others removed a second time, since somebody else took the room, waits for its backoff from then on.
    /// kube-scheduler, which thinks itself alone, tries it at once.
    pub fn set_spares_victims(&mut self, spares: bool) {
        self.spares_victims = spares;
    }

    /// The claims to write before a pod is bound. `now_s` is the time, in seconds since 1970.
    pub fn claim_writes(&self, reservation: &Reservation, now_s: f64) -> Vec<ClaimWrite> {
        self.scheduler.claim_writes(reservation, now_s)
    }

    /// A claim was written for a reservation, as far as it went: `written` is what the API server answered last. A binding that fails
    /// then has it undone.
    pub fn claim_written(
        &mut self,
        now: Duration,
        reservation: &mut Reservation,
        write: &ClaimWrite,
        written: ResourceClaim,
    ) -> Result<(), EngineError> {
        let name = (written.metadata.namespace.clone(), written.metadata.name.clone());
        let old = self.resource_claim(&name);
        self.scheduler.claim_written(reservation, write, written)?;
        let new = self.resource_claim(&name);
        self.tell_claim(now, old, new);
        Ok(())
    }

    /// Whether volumes that were asked for are there, on a node; an error means that the pod has to be tried again.
    pub fn volumes_complete(&self, volumes: &VolumeReservation, node: NodeId) -> Result<bool, String> {
        let state = self.state();
        let at = state.node(node).ok_or_else(|| format!("node {} is gone", state.node_name(node)))?;
        volumes.is_complete(&state.storage, &DetachedNode::new(state, at))
    }

    /// Whether the devices of a placement, whose claims are written, are ready; an error means that the pod has to be tried again.
    pub fn devices_ready(&self, reservation: &Reservation, now: Duration, timeout: Duration) -> Result<bool, String> {
        self.scheduler.devices_ready(reservation, now.as_secs_f64(), timeout.as_secs_f64())
    }

    /// When time alone makes a pod ready, for a driver to whom [`Self::next`] gave nothing.
    pub fn wake_at(&self) -> Option<Duration> {
        let waited_too_long = self.queue.next_unschedulable_flush().map(|due| {
            let interval = UNSCHEDULABLE_FLUSH_INTERVAL.as_secs();
            let rounds = due.as_secs().saturating_add(u64::from(due.subsec_nanos() > 0)).div_ceil(interval);
            Duration::from_secs(rounds.saturating_mul(interval)).max(self.next_flush)
        });
        self.queue.next_backoff_flush().into_iter().chain(waited_too_long).min()
    }

    /// How many pods are where.
    pub fn counts(&self) -> Counts {
        let gated = self.queue.gated();
        Counts {
            active: self.queue.len(Place::Active),
            backoff: self.queue.len(Place::Backoff),
            unschedulable: self.queue.len(Place::Unschedulable).saturating_sub(gated),
            gated,
            in_flight: self.queue.len(Place::InFlight),
        }
    }

    /// What there is to be measured about the queue and the cluster; it takes a look at every pod.
    pub fn figures(&self) -> Figures {
        let mut rejected: BTreeMap<(String, PluginName), usize> = BTreeMap::new();
        for key in self.queue.keys(Place::Unschedulable) {
            let (Some(pod), Some(queued)) = (self.pod_ref(key.pod), self.queue.get(key)) else { continue };
            for plugin in queued.rejectors.plugins().iter() {
                *rejected.entry((pod.scheduler.clone(), plugin)).or_default() += 1;
            }
        }
        let state = self.state();
        let (mut pods, mut assumed) = (0, 0);
        for (_, pod) in state.pods() {
            pods += usize::from(pod.node_name.is_some());
            assumed += usize::from(pod.phase == Phase::Assumed);
        }
        Figures { incoming: self.queue.incoming(), rejected, nodes: state.node_count(), pods, assumed }
    }

    /// How often a pod whose binding is under way was tried, and when it could be tried first.
    pub fn tries(&self, uid: &str) -> Option<(u32, Duration)> {
        let queued = self.queue.get(*self.binding.get(uid)?)?;
        Some((queued.attempts, queued.initial_attempt.unwrap_or(queued.timestamp)))
    }

    /// Where a pod is in the queue, if it is there.
    pub fn place(&self, pod: PodId) -> Option<Place> {
        self.queue.place(*self.keys.get(&pod)?)
    }

    /// The pods that are not bound, those that are to be tried first in front.
    pub fn pending(&self) -> Vec<PendingPod> {
        let places = [Place::InFlight, Place::Active, Place::Backoff, Place::Unschedulable];
        let keys = places.into_iter().flat_map(|place| self.queue.keys(place));
        keys.filter_map(|key| self.pending_pod(key)).collect()
    }

    fn pending_pod(&self, key: QueueKey) -> Option<PendingPod> {
        self.keys.get(&key.pod).filter(|current| **current == key)?;
        let (queued, place) = (self.queue.get(key)?, self.queue.place(key)?);
        let shape = &self.state().shape_of(self.state().pod(key.pod)?).shape;
        Some(PendingPod {
            pod: self.pod_ref(key.pod)?,
            place,
            gated_by: queued.gated_by,
            attempts: queued.attempts,
            message: gate_message(shape).or_else(|| self.messages.get(&key).cloned()),
        })
    }

    /// The queue, and the plugins as it asks them.
    fn parts(&mut self) -> (&mut Queue, PluginHints<'_>) {
        let Self { scheduler, queue, profiles, victims, .. } = self;
        (queue, PluginHints { state: &scheduler.state, profiles, victims })
    }

    /// Tells the queue of a change, which moves the pods that it might help.
    fn tell(&mut self, now: Duration, event: &queue::Event<Changed>) {
        let (queue, hints) = self.parts();
        queue.move_all(now, event, &hints);
    }

    /// What hints may ask about a pod.
    fn view(&self, pod: PodId) -> Option<PodView> {
        let known = self.state().pod(pod)?;
        Some(PodView {
            key: self.keys.get(&pod).copied(),
            shape: Arc::clone(&self.state().shape_of(known).shape),
            assigned: known.node_name.is_some(),
            nominated: known.nominated.is_some(),
            object: known.object.clone(),
        })
    }

    fn pod_ref(&self, pod: PodId) -> Option<PodRef> {
        let known = self.state().pod(pod)?;
        let (shape, strings) = (&self.state().shape_of(known).shape, &self.state().strings);
        Some(PodRef {
            id: pod,
            namespace: strings.resolve(shape.namespace).to_owned(),
            name: known.name.to_string(),
            uid: known.uid.to_string(),
            generation: known.generation,
            scheduler: strings.resolve(shape.scheduler_name).to_owned(),
        })
    }
}
