//! Attempts: the most urgent pod is tried, and what comes of it.

use super::{Engine, QueueKey};
use crate::config::PluginSet;
use crate::dra::plugin::Release;
use crate::plugins::Preemption;
use crate::queue::{Nomination, Rejectors, UNSCHEDULABLE_FLUSH_INTERVAL};
use crate::reserve::{Binding, Reservation, ReserveError, Unreserve};
use crate::scheduler::{Considered, Decision, DecisionError, Scheduler};
use crate::state::{NodeId, Phase, PodId};
use std::time::Duration;

/// A pod, for effects outside the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodRef {
    /// Its id, for as long as it is known.
    pub id: PodId,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its `metadata.generation`, which conditions name.
    pub generation: i64,
    /// Its `schedulerName`, under which events and figures go.
    pub scheduler: String,
}

/// A node to be cleared for a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eviction {
    /// The node.
    pub node: String,
    /// The pods to delete; those that are leaving already are not among them. Their deletion is told as any event is; if it
    /// fails, with [`Engine::preemption_failed`].
    pub victims: Vec<PodRef>,
    /// Less important pods that had hopes for the node: their `status.nominatedNodeName` is to be cleared.
    pub unnominated: Vec<PodRef>,
}

/// What came of trying a pod.
#[derive(Debug)]
pub enum Attempt {
    /// It has a node, where its room is taken. Bind it, then say how that went: [`Engine::bound`] or
    /// [`Engine::bind_failed`].
    Bind {
        /// What is taken for it.
        reservation: Reservation,
        /// The write to carry out.
        binding: Binding,
        /// How many nodes were feasible.
        feasible: usize,
        /// How many of them were as good as the chosen one, itself included.
        ties: usize,
    },
    /// It fits nowhere, and waits for an event that may change that.
    Wait {
        /// The pod.
        pod: PodRef,
        /// Why, in the words of kube-scheduler; empty if no words are wanted.
        message: String,
        /// The plugins that refused a node.
        plugins: PluginSet,
        /// What to make of `status.nominatedNodeName`: set it, clear it, or leave it. The engine knows already.
        nomination: Nomination<String>,
        /// A node to be cleared for it.
        preemption: Option<Eviction>,
        /// A claim to be released, whose devices are where the pod cannot be.
        release: Option<Release>,
    },
    /// It could not be tried to the end; it is tried again after a while. Its nomination is to be cleared.
    Failed {
        /// The pod.
        pod: PodRef,
        /// What went wrong.
        error: AttemptError,
    },
}

/// What went wrong in an attempt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AttemptError {
    /// Nothing could be decided.
    #[error(transparent)]
    Decision(#[from] DecisionError),
    /// What was decided could not be taken.
    #[error(transparent)]
    Reserve(#[from] ReserveError),
    /// An extender could not be asked, or failed.
    #[error("{0}")]
    Extender(String),
}

/// What kube-scheduler says of a cluster without nodes.
const NO_NODES: &str = "no nodes available to schedule pods";

/// A pod whose node somebody outside has to choose; see [`Engine::ask`]. It is in flight until it is answered.
#[derive(Debug)]
pub struct Question {
    key: QueueKey,
    /// The pod.
    pub pod: PodRef,
    /// The feasible nodes, by index; at least one.
    pub nodes: Vec<NodeId>,
}

/// What came of asking for work.
#[derive(Debug)]
pub enum Asked {
    /// The rules alone decided.
    Attempt(Attempt),
    /// A node is to be chosen: [`Engine::answer`].
    Choose(Question),
}

impl Engine {
    /// Tries the most urgent pod that is ready; none if no pod is.
    pub fn next(&mut self, now: Duration) -> Option<Attempt> {
        self.next_after(now, |_, _| ())
    }

    /// As [`Self::next`]; before the pod is decided about, somebody may look at all as it is.
    pub fn next_after(&mut self, now: Duration, look: impl FnOnce(&mut Scheduler, &PodRef)) -> Option<Attempt> {
        let (key, pod) = self.pop(now)?;
        look(&mut self.scheduler, &pod);
        let decision = self.scheduler.decide(key.pod);
        Some(self.follow(now, key, pod, decision))
    }

    /// As [`Self::next`], but the policy is not asked: where nodes are feasible, the question comes back to be answered from
    /// outside. Nothing else may be done with the engine in between.
    pub fn ask(&mut self, now: Duration) -> Option<Asked> {
        self.ask_after(now, |_, _| ())
    }

    /// As [`Self::ask`]; before the pod is looked at, somebody may look at all as it is.
    pub fn ask_after(&mut self, now: Duration, look: impl FnOnce(&mut Scheduler, &PodRef)) -> Option<Asked> {
        let (key, pod) = self.pop(now)?;
        look(&mut self.scheduler, &pod);
        Some(match self.scheduler.consider(key.pod) {
            Ok(Considered::Choose(nodes)) => Asked::Choose(Question { key, pod, nodes }),
            Ok(Considered::Decided(decision)) => Asked::Attempt(self.follow(now, key, pod, Ok(decision))),
            Err(error) => Asked::Attempt(self.follow(now, key, pod, Err(error))),
        })
    }

    /// Answers a question of [`Self::ask`] with one of its nodes.
    pub fn answer(&mut self, now: Duration, question: Question, node: NodeId) -> Attempt {
        let Question { key, pod, nodes } = question;
        let feasible = nodes.len();
        let decision = if nodes.contains(&node) {
            Ok(Decision::Place { node, feasible, ties: 1 })
        } else {
            let node = self.state().node_name(node).to_owned();
            Err(DecisionError::NotFeasible { pod: format!("{}/{}", pod.namespace, pod.name), node, feasible })
        };
        self.follow(now, key, pod, decision)
    }

    /// Answers a question of [`Self::ask`] with some of its nodes: the pod's policy chooses, with points on top, one entry a node.
    pub fn answer_among(&mut self, now: Duration, question: Question, nodes: &[NodeId], points: &[f64]) -> Attempt {
        let Question { key, pod, .. } = question;
        let decision = self.scheduler.choose(key.pod, nodes, points);
        self.follow(now, key, pod, decision)
    }

    /// Answers a question of [`Self::ask`] with none of its nodes; an extender refuses each for a reason.
    pub fn answer_none(&mut self, now: Duration, question: Question, reasons: Vec<String>) -> Attempt {
        let Question { key, pod, .. } = question;
        match self.scheduler.refuse(key.pod, reasons) {
            Ok(Decision::Wait { plugins, preemption }) => {
                let rejectors = Rejectors { unschedulable: plugins, extender: true, ..Rejectors::default() };
                self.wait(now, key, pod, rejectors, preemption)
            }
            decision => self.follow(now, key, pod, decision),
        }
    }

    /// A question of [`Self::ask`] could not be answered.
    pub fn answer_failed(&mut self, now: Duration, question: Question, problem: String) -> Attempt {
        let Question { key, pod, .. } = question;
        self.fail(now, key, pod, AttemptError::Extender(problem))
    }

    /// Takes the most urgent pod that is ready out of the queue.
    fn pop(&mut self, now: Duration) -> Option<(QueueKey, PodRef)> {
        self.flush(now);
        self.scheduler.state.dra.now_s = now.as_secs_f64();
        loop {
            let key = self.queue.pop()?;
            let is_current = self.keys.get(&key.pod) == Some(&key);
            let waits = self.state().pod(key.pod).is_some_and(|pod| pod.phase == Phase::Pending && !pod.terminating);
            match self.pod_ref(key.pod).filter(|_| is_current && waits) {
                Some(pod) => {
                    self.victims.remove(&key);
                    self.show_upcoming(key.pod);
                    return Some((key, pod));
                }
                None => self.queue.done(key),
            }
        }
    }

    /// Tells of the pods that will be tried after this one, where somebody looks at them.
    fn show_upcoming(&mut self, first: PodId) {
        let Self { scheduler, queue, keys, .. } = self;
        let upcoming = &mut scheduler.state.telemetry.upcoming;
        upcoming.clear();
        let count = self.shown.0.max(self.shown.1);
        if count > 1 {
            let next = queue.upcoming().filter(|key| keys.get(&key.pod) == Some(key)).map(|key| key.pod);
            upcoming.extend(std::iter::once(first).chain(next).take(count));
        }
    }

    /// Moves pods that have waited long enough.
    fn flush(&mut self, now: Duration) {
        self.queue.flush_backoff(now);
        if now < self.next_flush {
            return;
        }
        // As of the round that is due: a driver that calls late must not have pods wait less.
        let interval = UNSCHEDULABLE_FLUSH_INTERVAL.as_secs();
        let round = now.as_secs() / interval;
        self.next_flush = Duration::from_secs(round.saturating_add(1).saturating_mul(interval));
        let (queue, hints) = self.parts();
        queue.flush_unschedulable(Duration::from_secs(round * interval), &hints);
    }

    /// Does what was decided about a pod.
    fn follow(
        &mut self,
        now: Duration,
        key: QueueKey,
        pod: PodRef,
        decision: Result<Decision, DecisionError>,
    ) -> Attempt {
        match decision {
            Ok(Decision::Place { node, feasible, ties }) => match self.scheduler.reserve(key.pod, node) {
                Ok(reservation) => self.start_binding(key, pod, reservation, (feasible, ties)),
                Err(error) => self.fail(now, key, pod, error.into()),
            },
            Ok(Decision::Wait { plugins, preemption }) => {
                let rejectors = Rejectors { unschedulable: plugins, ..Rejectors::default() };
                self.wait(now, key, pod, rejectors, preemption)
            }
            Err(DecisionError::NoNodes(_)) => {
                self.put_back(now, key, Rejectors::default(), &Nomination::None, NO_NODES);
                let (plugins, nomination) = (PluginSet::EMPTY, Nomination::None);
                Attempt::Wait { pod, message: NO_NODES.into(), plugins, nomination, preemption: None, release: None }
            }
            Err(error) => self.fail(now, key, pod, error.into()),
        }
    }

    fn start_binding(
        &mut self,
        key: QueueKey,
        pod: PodRef,
        reservation: Reservation,
        (feasible, ties): (usize, usize),
    ) -> Attempt {
        self.queue.remove_nomination(key);
        self.queue.stop_listening(key);
        self.messages.remove(&key);
        self.binding.insert(reservation.uid.clone(), key);
        let node = self.state().node_name(reservation.node).to_owned();
        let PodRef { namespace, name, uid, generation, scheduler, .. } = pod;
        let binding = Binding { namespace, name, uid, generation, scheduler, node };
        Attempt::Bind { reservation, binding, feasible, ties }
    }

    fn wait(
        &mut self,
        now: Duration,
        key: QueueKey,
        pod: PodRef,
        rejectors: Rejectors,
        preemption: Option<Preemption>,
    ) -> Attempt {
        let keeps = self.scheduler.keeps_nomination();
        let words = if self.words_messages { self.scheduler.failure_message() } else { None };
        let message = words.unwrap_or_default();
        let release = self.scheduler.claim_release();
        let preemption = preemption.map(|preemption| self.evict(key, &preemption));
        let nomination = match &preemption {
            Some(eviction) => Nomination::Node(eviction.node.clone()),
            None if keeps => Nomination::FromStatus,
            None => Nomination::None,
        };
        self.put_back(now, key, rejectors, &nomination, &message);
        Attempt::Wait { pod, message, plugins: rejectors.unschedulable, nomination, preemption, release }
    }

    fn fail(&mut self, now: Duration, key: QueueKey, pod: PodRef, error: AttemptError) -> Attempt {
        self.put_back(now, key, Rejectors::default(), &Nomination::None, &error.to_string());
        Attempt::Failed { pod, error }
    }

    /// Puts a pod back that was tried in vain. With nobody who refused it, it failed by an error.
    fn put_back(
        &mut self,
        now: Duration,
        key: QueueKey,
        rejectors: Rejectors,
        nomination: &Nomination<String>,
        message: &str,
    ) {
        if !message.is_empty() {
            self.messages.insert(key, message.to_owned());
        }
        let (queue, hints) = self.parts();
        // It was popped just now, so it is in flight.
        let _ = queue.add_unschedulable(now, key, rejectors, &hints);
        let nomination = match nomination {
            // What is in memory may be newer than the status, and is as good.
            Nomination::FromStatus => None,
            Nomination::None => Some(Nomination::None),
            Nomination::Node(name) => Some(Nomination::Node(self.scheduler.state.strings.intern(name))),
        };
        if let Some(nomination) = nomination {
            self.queue.nominate(key, nomination);
        }
        self.follow_nomination(key.pod);
    }

    /// Takes note of a preemption: until the victims leave the pod is not tried again.
    fn evict(&mut self, key: QueueKey, preemption: &Preemption) -> Eviction {
        if self.spares_victims && !self.preemptors.insert(key) {
            self.queue.be_patient(key);
        }
        let unnominated = self.end_lesser_nominations(key, preemption.node);
        let victims: Vec<_> = preemption.victims.iter().filter_map(|&victim| self.pod_ref(victim)).collect();
        self.victims.insert(key, victims.iter().map(|victim| victim.uid.as_str().into()).collect());
        let stays = |victim: &PodRef| self.state().pod(victim.id).is_some_and(|pod| !pod.terminating);
        let victims = victims.into_iter().filter(stays).collect();
        Eviction { node: self.state().node_name(preemption.node).to_owned(), victims, unnominated }
    }

    /// Less important pods may no longer hope for a node; those of other schedulers are for those to tell.
    fn end_lesser_nominations(&mut self, key: QueueKey, node: NodeId) -> Vec<PodRef> {
        let state = self.state();
        let priority = |id: PodId| state.pod(id).map(|pod| state.shape_of(pod).shape.priority);
        let nominated = state.node(node).map(|node| state.nominated_on(node.spec.name)).unwrap_or_default();
        let is_lesser = |id: &PodId| self.keys.contains_key(id) && priority(*id) < priority(key.pod);
        let lesser: Vec<_> = nominated.iter().copied().filter(is_lesser).collect();
        for &id in &lesser {
            if let Some(&key) = self.keys.get(&id) {
                self.queue.nominate(key, Nomination::None);
            }
            self.follow_nomination(id);
        }
        lesser.into_iter().filter_map(|id| self.pod_ref(id)).collect()
    }

    /// Victims could not be deleted: the pod that they were to make room for is tried again.
    pub fn preemption_failed(&mut self, now: Duration, pod: &PodRef) {
        let Some(&key) = self.state().pod_id(&pod.uid).and_then(|id| self.keys.get(&id)) else { return };
        if self.victims.remove(&key).is_some() {
            let (queue, hints) = self.parts();
            queue.activate(now, [key], &hints);
        }
    }

    /// The binding was carried out. Whether a watch has told so already makes no difference.
    pub fn bound(&mut self, now: Duration, reservation: Reservation) {
        let Some(key) = self.binding.remove(&reservation.uid) else { return };
        self.queue.done(key);
        // A pod that is gone, or being deleted, is no longer assumed to be on its node.
        if self.keys.get(&key.pod) == Some(&key) && self.scheduler.state.confirm(key.pod).is_ok() {
            self.add_bound(now, key.pod);
        }
    }

    /// The binding failed: what was taken is free again, the pod is tried again after a while. What is to be undone
    /// in the API is returned; the pod's `status.nominatedNodeName` is to be cleared.
    pub fn bind_failed(&mut self, now: Duration, reservation: Reservation) -> Vec<Unreserve> {
        let Some(key) = self.binding.remove(&reservation.uid) else { return self.scheduler.release(reservation) };
        let is_current = self.keys.get(&key.pod) == Some(&key);
        let old = self.view(key.pod).filter(|old| is_current && old.assigned);
        let undo = match old {
            None if self.is_bound(&reservation) => {
                // Somebody else has bound it, and what its claims have is in use.
                let _ = self.scheduler.release(reservation);
                Vec::new()
            }
            None => self.scheduler.release(reservation),
            Some(old) => {
                let undo = self.scheduler.unreserve(reservation);
                self.tell_left(now, old);
                undo
            }
        };
        if is_current {
            self.put_back(now, key, Rejectors::default(), &Nomination::None, "");
        } else {
            self.queue.done(key);
        }
        undo
    }

    fn is_bound(&self, reservation: &Reservation) -> bool {
        let pod = self.state().pod_id(&reservation.uid).and_then(|id| self.state().pod(id));
        pod.is_some_and(|pod| pod.phase == Phase::Bound)
    }
}
