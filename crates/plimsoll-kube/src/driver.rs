//! The loop of a live scheduler: what watches and writes tell goes into the engine, what the engine asks for goes out.
//!
//! The engine lives on a thread of its own and is never waited for by I/O, nor does it wait for any but extenders: writes are tasks that answer through
//! the inbox. While too many bindings are being written no further pod is tried; that is all the throttling there is.

#[cfg(test)]
mod tests;

use crate::advise::{Consultation, Judged, Objection, Placements, WhatIf};
use crate::clock::Clock;
use crate::explained::Explained;
use crate::extender::{Extenders, Verdict};
use crate::flight::{self, Flight, Patience, Written};
use crate::metrics::Metrics;
use crate::outbox::Outbox;
use crate::reasons::{Onlooker, Why};
use crate::shadow::{Comparison, Shadow};
use crate::survey::{Chronicle, Decision, NodeDetail, Ranked, Seen, Survey};
use crate::trace::{Traced, Tracer};
use crate::world::{Measured, World};
use k8s_openapi::api::core::v1::Pod;
use plimsoll_core::engine::{self, Asked, Attempt, Counts, Engine, Event, Object, PendingPod, PodRef};
use plimsoll_core::policy::Policy;
use plimsoll_core::reserve::Reservation;
use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::state::{ClusterState, NodeId, PodId};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// What the engine's thread is told.
pub enum Input {
    /// An object came, changed or left.
    Event(Event),
    /// All objects of a kind are known, for the first time or again.
    Synced,
    /// A kind is read anew, since what is known of it may be too old; `Synced` tells when it is done.
    Unsynced,
    /// A step of a binding is done, or has failed: the UID of the pod, and what came of it.
    Written(Box<str>, Written),
    /// The status of the pod with this UID, or an event of it, was not written: the next attempt says it again.
    Unsaid(Box<str>),
    /// Victims could not be removed for a pod.
    PreemptionFailed(PodRef),
    /// This process leads from now on, or no longer.
    Leads(bool),
    /// What was measured and counts now, by node.
    Measured(BTreeMap<String, Measured>),
    /// Somebody wants to know how things stand.
    Ask(Question),
    /// No further pod is to be tried; what is under way ends.
    Stop,
}

/// A question to the engine, with where the answer goes.
pub enum Question {
    /// How many pods are where.
    Counts(oneshot::Sender<Counts>),
    /// That figures about the queue and the cluster be put among the metrics.
    Measure(oneshot::Sender<()>),
    /// The users that pods name, to whom latencies are to be measured.
    Users(oneshot::Sender<BTreeSet<String>>),
    /// The pods that are not placed.
    Pending(oneshot::Sender<Vec<PendingPod>>),
    /// Why a pod goes where it goes, or waits: namespace and name.
    Explain(String, String, oneshot::Sender<Option<Explained>>),
    /// What is new since somebody has seen so far.
    Survey(Seen, oneshot::Sender<Survey>),
    /// What would be decided about a pod now by a profile, and what its policy makes of the allowed nodes, the best first.
    WhatIf(String, Box<Pod>, oneshot::Sender<Result<WhatIf, String>>),
    /// Why a decision was made.
    Why(Arc<Decision>, oneshot::Sender<Result<Why, String>>),
    /// A node with its pods, by its name.
    Node(String, oneshot::Sender<Option<NodeDetail>>),
    /// That a policy, under a name, rank for a profile from the next decision on; whether there is such a profile.
    SetPolicy(String, String, Box<dyn Policy>, oneshot::Sender<bool>),
    /// What another scheduler wants to know: the answers come in the order of its items.
    Advise(Consultation, oneshot::Sender<Vec<Result<Judged, String>>>),
    /// What the rules of a profile have against nodes for a pod.
    Object(String, Box<Pod>, oneshot::Sender<Result<Vec<Objection>, String>>),
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

    /// Asks the engine's thread, and waits for its answer.
    pub async fn ask<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> Question) -> Result<T, Closed> {
        let (answer, answered) = oneshot::channel();
        self.send(Input::Ask(question(answer))).await?;
        answered.await.map_err(|_| Closed)
    }

    /// Whether somebody takes in what is sent.
    pub async fn is_served(&self) -> bool {
        self.ask(Question::Counts).await.is_ok()
    }
}

/// Inputs that may wait.
const INBOX: usize = 4096;
/// Inputs that are taken in at once.
const BATCH: usize = 512;
/// Pods that are tried before the inbox is looked into again.
const TRIES: usize = 64;
/// Bindings that may be written at a time, if nothing else is said.
pub const IN_FLIGHT: usize = 256;

/// How a driver works.
pub struct Settings {
    /// How many kinds of objects must be known before a pod is tried.
    pub kinds: usize,
    /// How many bindings may be written at a time; those that wait for others to do something do not count.
    pub max_in_flight: usize,
    /// How long bindings wait, by profile.
    pub patience: FxHashMap<String, Patience>,
    /// What is known beside the objects.
    pub world: World,
    /// The policies of profiles, with what they count.
    pub policies: Vec<Ranked>,
    /// Set where another scheduler does the work.
    pub shadow: Option<Shadow>,
    /// Who else is asked about nodes.
    pub extenders: Option<Extenders>,
    /// Who collects traces, if anybody does.
    pub tracer: Option<Box<dyn Tracer>>,
    /// What a placement that was made is worth, if anybody wants to know.
    pub critic: Option<Critic>,
}

/// Says what a placement is worth, in the cluster as it is with it.
pub type Critic = Box<dyn Fn(&ClusterState, PodId, NodeId) -> f64 + Send>;

/// The engine at work on a cluster.
pub struct Driver {
    pub(crate) engine: Engine,
    pub(crate) clock: Clock,
    pub(crate) outbox: Outbox,
    pub(crate) metrics: Arc<Metrics>,
    /// Bindings under way, by the UID of the pod.
    pub(crate) flights: FxHashMap<Box<str>, Flight>,
    /// Those of them that wait for others to do something: until when, and the UID.
    pub(crate) waiting: BTreeSet<(Instant, Box<str>)>,
    /// Whether something happened that they may wait for.
    stirred: bool,
    /// Kinds whose objects are not all known yet.
    unsynced: usize,
    max_in_flight: usize,
    /// How long bindings wait, by profile.
    pub(crate) patience: FxHashMap<String, Patience>,
    leads: bool,
    stops: bool,
    /// Told once all is known.
    ready: Option<oneshot::Sender<()>>,
    pub(crate) chronicle: Chronicle,
    onlooker: Onlooker,
    /// What is known beside the objects.
    pub(crate) world: World,
    /// What another scheduler says it has placed.
    pub(crate) placements: Placements,
    /// Set where another scheduler does the work: what would be done is written down, and nothing else.
    shadow: Option<Shadow>,
    /// Who else is asked about nodes.
    pub(crate) extenders: Option<Extenders>,
    tracer: Option<Box<dyn Tracer>>,
    critic: Option<Critic>,
}

impl Driver {
    /// A driver of an engine that knows nothing yet; it tries no pod before all kinds are known, and before it is told to lead.
    pub fn new(
        mut engine: Engine,
        outbox: Outbox,
        metrics: Arc<Metrics>,
        settings: Settings,
        ready: oneshot::Sender<()>,
    ) -> Self {
        for Ranked { profile, counters, .. } in &settings.policies {
            metrics.ranks(profile, counters.clone());
        }
        engine.set_spares_victims(true);
        Self {
            engine,
            clock: Clock::new(),
            outbox,
            metrics,
            flights: FxHashMap::default(),
            waiting: BTreeSet::new(),
            stirred: false,
            unsynced: settings.kinds,
            max_in_flight: settings.max_in_flight,
            patience: settings.patience,
            leads: false,
            stops: false,
            ready: Some(ready),
            chronicle: Chronicle::new(settings.policies),
            onlooker: Onlooker::new(Instant::now()),
            world: settings.world,
            placements: Placements::default(),
            shadow: settings.shadow,
            extenders: settings.extenders,
            tracer: settings.tracer,
            critic: settings.critic,
        }
    }

    /// Works until it is told to stop and no write is under way, or everybody who could tell it something is gone.
    pub async fn run(mut self, mut inbox: mpsc::Receiver<Input>) {
        let mut inputs = Vec::with_capacity(BATCH);
        loop {
            let busy = self.try_pods().await;
            if self.stops && self.may_end() {
                return self.end();
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
            self.look_at_waiting();
            self.look_at_shadow();
            self.look_at_placements();
            self.metrics.pending(&self.engine.counts());
        }
    }

    fn end(self) {
        if let Some(shadow) = self.shadow {
            let Comparison { same, other, missed } = shadow.comparison;
            tracing::info!(same, other, missed, "pods that the other scheduler bound, and where this one would have");
        }
    }

    /// How long nothing happens by itself.
    fn wait(&self) -> Duration {
        let now = Instant::now();
        let queue = self.engine.wake_at().filter(|_| self.decides()).map(|time| self.clock.moment(time));
        let waiting = self.waiting.first().map(|(until, _)| *until);
        let shadow = self.shadow.as_ref().and_then(Shadow::deadline);
        let placements = self.placements.deadline();
        let next = queue.into_iter().chain(waiting).chain(shadow).chain(placements).min();
        next.map_or(Duration::from_secs(3600), |moment| moment.saturating_duration_since(now))
    }

    /// Whether no write is under way. Who comes after us goes on with volumes that were asked for: that may take minutes.
    fn may_end(&self) -> bool {
        self.writing() == 0
    }

    /// How many bindings are being written.
    fn writing(&self) -> usize {
        self.flights.len().saturating_sub(self.waiting.len())
    }

    fn decides(&self) -> bool {
        self.leads && !self.stops && self.unsynced == 0
    }

    /// Tries pods; whether there may be more to try at once.
    async fn try_pods(&mut self) -> bool {
        if !self.decides() {
            return false;
        }
        self.world.tell_time(&mut self.engine);
        for _ in 0..TRIES {
            if self.writing() >= self.max_in_flight {
                return false;
            }
            let mut start = Instant::now();
            let mut reasons = None;
            let look = |scheduler: &mut Scheduler, pod: &PodRef| {
                reasons = self.onlooker.look(scheduler, pod);
                self.chronicle.begin();
                start = Instant::now();
            };
            let now = self.clock.now();
            let asked = match self.extenders {
                None => self.engine.next_after(now, look).map(Asked::Attempt),
                Some(_) => self.engine.ask_after(now, look),
            };
            let attempt = match asked {
                None => return false,
                Some(Asked::Attempt(attempt)) => attempt,
                Some(Asked::Choose(question)) => self.ask_extenders(question).await,
            };
            let took = start.elapsed();
            self.metrics.attempted(&attempt, took);
            let mut reward = None;
            if let Attempt::Bind { reservation, .. } = &attempt {
                self.world.tell_awake(&mut self.engine, reservation.node);
                let judge = |critic: &Critic| critic(self.engine.state(), reservation.pod, reservation.node);
                reward = self.critic.as_ref().map(judge);
                self.metrics.rewarded(reward);
            }
            self.chronicle.note(&attempt, took, reward, reasons);
            match &mut self.shadow {
                Some(shadow) => shadow.attempted(attempt, start.elapsed()),
                None => self.carry_out(attempt, start),
            }
        }
        true
    }

    /// Has extenders say what they make of the nodes that the rules allow, and goes on by that.
    async fn ask_extenders(&mut self, question: engine::Question) -> Attempt {
        let state = self.engine.state();
        let names: Vec<_> = question.nodes.iter().map(|node| state.node_name(*node).to_owned()).collect();
        let hearing = self.extenders.as_ref().and_then(|extenders| extenders.hearing(&question.pod.uid, &names));
        let verdict = match hearing {
            Some(hearing) => hearing.hold(&names).await,
            None => Verdict::Failed("the pod is no longer known".to_owned()),
        };
        let now = self.clock.now();
        match verdict {
            Verdict::Among(left) => {
                let (nodes, points): (Vec<_>, Vec<_>) =
                    left.into_iter().map(|(at, points)| (question.nodes[at], points)).unzip();
                self.engine.answer_among(now, question, &nodes, &points)
            }
            Verdict::Nowhere(reasons) => self.engine.answer_none(now, question, reasons),
            Verdict::Failed(problem) => self.engine.answer_failed(now, question, problem),
        }
    }

    /// Tells who collects traces of an attempt that has ended.
    pub(crate) fn trace(&mut self, attempt: &Traced<'_>) {
        if let Some(tracer) = &mut self.tracer {
            tracer.trace(attempt);
        }
    }

    fn trace_failure(&mut self, pod: &PodRef, result: &'static str, start: Instant) {
        let took = start.elapsed();
        let PodRef { namespace, name, scheduler, .. } = pod;
        self.trace(&Traced { namespace, name, node: None, profile: scheduler, result, decided: took, took });
    }

    fn carry_out(&mut self, attempt: Attempt, start: Instant) {
        match attempt {
            Attempt::Bind { reservation, binding, .. } => self.take_off(reservation, binding, start),
            Attempt::Wait { pod, message, plugins, nomination, preemption, release } => {
                self.trace_failure(&pod, "unschedulable", start);
                // Without a rule that refused a node there was no node to be cleared.
                if !plugins.is_empty() && self.engine.scheduler().preempts(&pod.scheduler) {
                    self.metrics.looked_for_victims();
                }
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
                self.trace_failure(&pod, "error", start);
                tracing::error!(pod = format!("{}/{}", pod.namespace, pod.name), %error, "a pod could not be tried");
                self.outbox.failed(&pod, &error.to_string());
            }
        }
    }

    fn take(&mut self, input: Input) {
        let now = self.clock.now();
        match input {
            Input::Event(event) => self.take_event(event),
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
            Input::Unsynced => self.unsynced += 1,
            Input::Measured(all) => self.world.measured(&mut self.engine, all),
            Input::Ask(question) => self.answer(question),
            Input::Stop => self.stops = true,
        }
    }

    pub(crate) fn take_event(&mut self, event: Event) {
        self.hear(&event);
        let now = self.clock.now();
        if let Some(extenders) = &mut self.extenders {
            extenders.hear(&event);
        }
        self.stirred |= flight::may_be_awaited(&event);
        let gone = flight::no_longer_ours(&event).filter(|_| !self.waiting.is_empty());
        let told = self.world.look(&event);
        let ended = self.shadow.as_mut().and_then(|shadow| shadow.look(&self.engine, &event));
        if let Err(error) = self.engine.apply(now, event) {
            self.metrics.unreadable.inc();
            tracing::warn!(%error, "an object cannot be read; it is taken as if it were not there");
        }
        if let Some(reservation) = ended {
            self.give_back(reservation);
        }
        if let Some(uid) = gone {
            self.end_waiting(&uid);
        }
        self.world.tell(&mut self.engine, told);
    }

    /// What was taken in the shadow is free again. Nothing was written, so there is nothing to undo.
    fn give_back(&mut self, reservation: Reservation) {
        let _ = self.engine.bind_failed(self.clock.now(), reservation);
    }

    fn look_at_shadow(&mut self) {
        for reservation in self.shadow.as_mut().map(Shadow::overdue).unwrap_or_default() {
            self.give_back(reservation);
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

    /// Looks at bindings whose time is up, or at all that wait, where something happened that may be what they wait for.
    fn look_at_waiting(&mut self) {
        let (all, now) = (std::mem::take(&mut self.stirred), Instant::now());
        let to_look_at = self.waiting.iter().take_while(|(until, _)| all || *until <= now);
        let uids: Vec<_> = to_look_at.map(|(_, uid)| uid.clone()).collect();
        for uid in uids {
            self.look_at_waiting_pod(&uid);
        }
    }

    fn answer(&mut self, question: Question) {
        // Who asked may be gone.
        match question {
            Question::Counts(answer) => drop(answer.send(self.engine.counts())),
            Question::Measure(answer) => {
                self.metrics.measured(self.engine.figures());
                let _ = answer.send(());
            }
            Question::Survey(seen, answer) => {
                let survey = Survey { leads: self.leads, ..self.chronicle.survey(&self.engine, seen) };
                drop(answer.send(survey));
            }
            Question::WhatIf(profile, pod, answer) => drop(answer.send(self.what_if(&profile, &pod))),
            Question::Why(decision, answer) => drop(answer.send(self.why(&decision))),
            Question::Node(name, answer) => drop(answer.send(NodeDetail::of(self.engine.state(), &name))),
            Question::SetPolicy(profile, name, policy, answer) => {
                let counters = policy.counters();
                let is_there = self.engine.set_policy(&profile, policy);
                if is_there {
                    self.metrics.ranks(&profile, counters.clone());
                    self.chronicle.set_policy(&profile, &name, counters);
                    tracing::info!(profile, policy = name, "another policy ranks nodes");
                }
                let _ = answer.send(is_there);
            }
            Question::Users(answer) => drop(answer.send(self.world.users())),
            Question::Pending(answer) => drop(answer.send(self.engine.pending())),
            Question::Explain(namespace, name, answer) => {
                drop(answer.send(self.chronicle.explain(&mut self.engine, &namespace, &name)));
            }
            Question::Advise(mut asked, answer) => {
                // What was placed is placed, even if nobody waits for the answer any more.
                if answer.is_closed() {
                    asked.items.clear();
                }
                drop(answer.send(self.advise(asked)));
            }
            Question::Object(profile, pod, answer) => drop(answer.send(self.object(&profile, &pod))),
        }
    }
}
