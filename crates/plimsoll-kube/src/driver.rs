//! The loop of a live scheduler: what watches and writes tell goes into the engine, what the engine asks for goes out.
//!
//! The engine lives on a thread of its own and is never waited for by I/O, nor does it wait for any: writes are tasks that answer through
//! the inbox. While too many bindings are under way no further pod is tried; that is all the throttling there is.

use crate::clock::Clock;
use crate::flight::{Flight, Stage, Written};
use crate::metrics::Metrics;
use crate::outbox::Outbox;
use plimsoll_core::engine::{Attempt, Counts, Engine, Event, Object, PendingPod, PodRef};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// What the engine's thread is told.
pub enum Input {
    /// An object came, changed or left.
    Event(Event),
    /// All objects of a kind are known for the first time.
    Synced,
    /// A step of a binding is done, or has failed: the UID of the pod, and what came of it.
    Written(Box<str>, Written),
    /// The status of the pod with this UID was not written.
    Unsaid(Box<str>),
    /// Victims could not be removed for a pod.
    PreemptionFailed(PodRef),
    /// This process leads from now on, or no longer.
    Leads(bool),
    /// Somebody wants to know how things stand.
    Ask(Question),
    /// No further pod is to be tried; what is under way ends.
    Stop,
}

/// A question to the engine, with where the answer goes.
pub enum Question {
    /// How many pods are where.
    Counts(oneshot::Sender<Counts>),
    /// The pods that are not placed.
    Pending(oneshot::Sender<Vec<PendingPod>>),
    /// Why a pod goes where it goes, or waits: namespace and name.
    Explain(String, String, oneshot::Sender<Result<String, String>>),
}

/// The scheduler has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the scheduler has ended")]
pub struct Closed;

/// Where inputs go.
#[derive(Clone)]
pub struct Inbox(mpsc::Sender<Input>);

impl Inbox {
    /// An inbox, and its other end. Who sends more than is taken in waits.
    pub fn new() -> (Self, mpsc::Receiver<Input>) {
        let (sender, receiver) = mpsc::channel(INBOX);
        (Self(sender), receiver)
    }

    /// Tells the engine's thread.
    pub async fn send(&self, input: Input) -> Result<(), Closed> {
        self.0.send(input).await.map_err(|_| Closed)
    }
}

/// Inputs that may wait.
const INBOX: usize = 4096;
/// Inputs that are taken in at once.
const BATCH: usize = 512;
/// Pods that are tried before the inbox is looked into again.
const TRIES: usize = 64;
/// Bindings that may be under way.
pub const IN_FLIGHT: usize = 256;

/// The engine at work on a cluster.
pub struct Driver {
    pub(crate) engine: Engine,
    pub(crate) clock: Clock,
    pub(crate) outbox: Outbox,
    pub(crate) metrics: Arc<Metrics>,
    /// Bindings under way, by the UID of the pod.
    pub(crate) flights: FxHashMap<Box<str>, Flight>,
    /// Kinds whose objects are not all known yet.
    unsynced: usize,
    leads: bool,
    stops: bool,
    /// Told once all is known.
    ready: Option<oneshot::Sender<()>>,
}

impl Driver {
    /// A driver of an engine that knows nothing yet; it tries no pod before so many kinds are known, and it leads.
    pub fn new(
        engine: Engine,
        outbox: Outbox,
        metrics: Arc<Metrics>,
        kinds: usize,
        ready: oneshot::Sender<()>,
    ) -> Self {
        Self {
            engine,
            clock: Clock::new(),
            outbox,
            metrics,
            flights: FxHashMap::default(),
            unsynced: kinds,
            leads: false,
            stops: false,
            ready: Some(ready),
        }
    }

    /// Works until it is told to stop and no write is under way, or everybody who could tell it something is gone.
    pub async fn run(mut self, mut inbox: mpsc::Receiver<Input>) {
        let mut inputs = Vec::with_capacity(BATCH);
        loop {
            let busy = self.try_pods();
            if self.stops && self.may_end() {
                return;
            }
            // With work left, only what is there is taken in.
            let taken = if busy {
                while inputs.len() < BATCH
                    && let Ok(input) = inbox.try_recv()
                {
                    inputs.push(input);
                }
                !inbox.is_closed() || !inputs.is_empty()
            } else {
                let wait = self.wait();
                match tokio::time::timeout(wait, inbox.recv_many(&mut inputs, BATCH)).await {
                    Ok(taken) => taken > 0,
                    Err(_) => true,
                }
            };
            if !taken {
                return;
            }
            for input in inputs.drain(..) {
                self.take(input);
            }
            self.look_at_volumes();
            self.metrics.pending(&self.engine.counts());
        }
    }

    /// How long nothing happens by itself.
    fn wait(&self) -> Duration {
        let now = Instant::now();
        let queue = self.engine.wake_at().filter(|_| self.decides()).map(|time| self.clock.moment(time));
        let volumes = self.flights.values().filter_map(|flight| flight.deadline()).min();
        let next = queue.into_iter().chain(volumes).min();
        next.map_or(Duration::from_secs(3600), |moment| moment.saturating_duration_since(now))
    }

    /// Whether no write is under way. Who comes after us goes on with volumes that were asked for: that may take minutes.
    fn may_end(&self) -> bool {
        self.flights.values().all(|flight| matches!(flight.stage, Stage::Volumes { .. }))
    }

    fn decides(&self) -> bool {
        self.leads && !self.stops && self.unsynced == 0
    }

    /// Tries pods; whether there may be more to try at once.
    fn try_pods(&mut self) -> bool {
        if !self.decides() {
            return false;
        }
        for _ in 0..TRIES {
            if self.flights.len() >= IN_FLIGHT {
                return false;
            }
            let start = Instant::now();
            let Some(attempt) = self.engine.next(self.clock.now()) else { return false };
            self.metrics.attempted(&attempt, start.elapsed());
            self.carry_out(attempt, start);
        }
        true
    }

    fn carry_out(&mut self, attempt: Attempt, start: Instant) {
        match attempt {
            Attempt::Bind { reservation, binding, .. } => self.take_off(reservation, binding, start),
            Attempt::Wait { pod, message, nomination, preemption, release, .. } => {
                self.outbox.waits(&pod, &message, &nomination);
                if let Some(release) = release {
                    self.outbox.release(release);
                }
                if let Some(eviction) = preemption {
                    self.metrics.preempted(eviction.victims.len());
                    self.outbox.evict(pod, eviction);
                }
            }
            Attempt::Failed { pod, error } => {
                tracing::error!(pod = format!("{}/{}", pod.namespace, pod.name), %error, "a pod could not be tried");
                self.outbox.failed(&pod, &error.to_string());
            }
        }
    }

    fn take(&mut self, input: Input) {
        let now = self.clock.now();
        match input {
            Input::Event(event) => {
                self.hear(&event);
                if let Err(error) = self.engine.apply(now, event) {
                    self.metrics.unreadable.inc();
                    tracing::warn!(%error, "an object cannot be read; it is taken as if it were not there");
                }
            }
            Input::Synced => {
                self.unsynced = self.unsynced.saturating_sub(1);
                if self.unsynced == 0
                    && let Some(ready) = self.ready.take()
                {
                    // Nobody may wait for it.
                    let _ = ready.send(());
                }
            }
            Input::Written(uid, written) => self.go_on(&uid, written),
            Input::Unsaid(uid) => self.outbox.forget(&uid),
            Input::PreemptionFailed(pod) => self.engine.preemption_failed(now, &pod),
            Input::Leads(leads) => self.leads = leads,
            Input::Ask(question) => self.answer(question),
            Input::Stop => self.stops = true,
        }
    }

    /// What was said of a pod is kept as long as the pod waits.
    fn hear(&mut self, event: &Event) {
        match event {
            Event::Apply(Object::Pod(pod)) => self.outbox.heard(pod),
            Event::Delete(Object::Pod(pod)) => self.outbox.forget(pod.metadata.uid.as_deref().unwrap_or_default()),
            _ => {}
        }
    }

    /// Volumes are bound by controllers: what happened may have been what a pod waits for.
    fn look_at_volumes(&mut self) {
        let waiting: Vec<_> = self
            .flights
            .iter()
            .filter(|(_, flight)| matches!(flight.stage, Stage::Volumes { .. }))
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in waiting {
            self.look_at_volumes_of(&uid);
        }
    }

    fn answer(&mut self, question: Question) {
        // Who asked may be gone.
        match question {
            Question::Counts(answer) => drop(answer.send(self.engine.counts())),
            Question::Pending(answer) => drop(answer.send(self.engine.pending())),
            Question::Explain(namespace, name, answer) => drop(answer.send(self.explain(&namespace, &name))),
        }
    }

    fn explain(&mut self, namespace: &str, name: &str) -> Result<String, String> {
        let found =
            self.engine.pending().into_iter().find(|pod| pod.pod.namespace == namespace && pod.pod.name == name);
        let pod = found.ok_or_else(|| format!("pod {namespace}/{name} does not wait here"))?;
        Ok(pod.message.unwrap_or_else(|| "it was not tried yet".into()))
    }
}
