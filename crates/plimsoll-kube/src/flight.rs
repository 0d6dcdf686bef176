//! A binding under way: volumes, devices, then the binding itself. Until it is through, what it takes stays taken.

use crate::api::WriteError;
use crate::driver::Driver;
use crate::trace::Traced;
use k8s_openapi::api::resource::v1::ResourceClaim;
use plimsoll_core::reserve::{Binding, ClaimWrite, Reservation};
use std::time::{Duration, Instant};

/// Where a binding is.
#[derive(Debug)]
pub enum Stage {
    /// A write is under way.
    Writing,
    /// Volumes are asked for, and must be there by then.
    Volumes {
        /// When it is given up.
        until: Instant,
    },
}

/// A binding under way.
#[derive(Debug)]
pub struct Flight {
    pub(crate) reservation: Reservation,
    pub(crate) binding: Binding,
    pub(crate) stage: Stage,
    /// When the pod was taken from the queue.
    started: Instant,
    /// How long the decision took.
    decided: Duration,
    /// When the step that is under way began.
    stepped: Instant,
}

impl Flight {
    /// When it is to be looked at, whatever happens.
    pub fn deadline(&self) -> Option<Instant> {
        match self.stage {
            Stage::Volumes { until } => Some(until),
            Stage::Writing => None,
        }
    }
}

/// What came of a step of a binding.
#[derive(Debug)]
pub enum Written {
    /// Volumes were asked for: the version that each write gave its object, as far as they went.
    Volumes(Vec<String>, Option<WriteError>),
    /// Claims were written, as far as they went.
    Claims(Vec<(ClaimWrite, ResourceClaim)>, Option<WriteError>),
    /// The pod is bound, or is not.
    Bound(Result<(), WriteError>),
}

impl Driver {
    /// Begins a binding.
    pub(crate) fn take_off(&mut self, reservation: Reservation, binding: Binding, started: Instant) {
        let uid = reservation.uid.clone();
        let writes = reservation.volumes.as_ref().map(|volumes| volumes.writes()).unwrap_or_default();
        let waits = reservation.volumes.as_ref().is_some_and(|volumes| !volumes.all_bound());
        if waits {
            self.outbox.write_volumes(uid.clone(), &binding, writes);
        }
        let (decided, stepped) = (started.elapsed(), Instant::now());
        let flight = Flight { reservation, binding, stage: Stage::Writing, started, decided, stepped };
        self.flights.insert(uid.clone(), flight);
        if !waits {
            self.write_claims(&uid);
        }
    }

    /// Goes on with a binding after a step.
    pub(crate) fn go_on(&mut self, uid: &str, written: Written) {
        let now = self.clock.now();
        match written {
            Written::Volumes(versions, error) => {
                let Some(flight) = self.flights.get_mut(uid) else { return };
                if let Some(volumes) = &mut flight.reservation.volumes {
                    for (index, version) in versions.iter().enumerate() {
                        volumes.record_written(index, version);
                    }
                }
                let patience = self.patience.get(&flight.binding.scheduler).copied().unwrap_or_default();
                flight.stage = Stage::Volumes { until: Instant::now() + patience };
                match error {
                    Some(error) => self.crash(uid, "binding volumes", &error.to_string()),
                    None => self.look_at_volumes_of(uid),
                }
            }
            Written::Claims(written, error) => {
                for (write, claim) in written {
                    if let Err(error) = self.engine.claim_written(now, &write, claim) {
                        tracing::warn!(%error, "a claim that was written cannot be read");
                    }
                }
                match error {
                    Some(error) => self.crash(uid, "reserving devices", &error.to_string()),
                    None => self.bind(uid),
                }
            }
            Written::Bound(Ok(())) => {
                let Some(flight) = self.flights.remove(uid) else { return };
                if let Some((attempts, since)) = self.engine.tries(uid) {
                    self.metrics.scheduled(attempts, now.saturating_sub(since));
                }
                self.engine.bound(now, flight.reservation);
                self.metrics.step("Bind", true, &flight.binding.scheduler, flight.stepped.elapsed());
                self.metrics.bound(&flight.binding.scheduler, flight.started.elapsed());
                self.trace_flight(&flight.binding, "scheduled", flight.decided, flight.started);
                self.outbox.scheduled(&flight.binding);
            }
            Written::Bound(Err(error)) => self.crash(uid, "binding rejected", &error.to_string()),
        }
    }

    /// Looks whether the volumes of a pod are there.
    pub(crate) fn look_at_volumes_of(&mut self, uid: &str) {
        let Some(flight) = self.flights.get(uid) else { return };
        let (Some(volumes), Stage::Volumes { until }) = (&flight.reservation.volumes, &flight.stage) else { return };
        let late = Instant::now() >= *until;
        match self.engine.volumes_complete(volumes, flight.reservation.node) {
            Ok(true) => self.write_claims(uid),
            Ok(false) if late => self.crash(uid, "binding volumes", "timed out waiting for the condition"),
            Ok(false) => {}
            Err(problem) => self.crash(uid, "binding volumes", &problem),
        }
    }

    fn write_claims(&mut self, uid: &str) {
        let Some(flight) = self.flights.get_mut(uid) else { return };
        flight.stage = Stage::Writing;
        let writes = self.engine.claim_writes(&flight.reservation, self.clock.now().as_secs_f64());
        if writes.is_empty() {
            self.bind(uid);
        } else {
            self.outbox.write_claims(uid.into(), &flight.binding, writes);
        }
    }

    fn bind(&mut self, uid: &str) {
        let Some(flight) = self.flights.get_mut(uid) else { return };
        self.metrics.step("PreBind", true, &flight.binding.scheduler, flight.stepped.elapsed());
        flight.stepped = Instant::now();
        self.outbox.bind(uid.into(), flight.binding.clone());
    }

    fn trace_flight(&mut self, binding: &Binding, result: &'static str, decided: Duration, started: Instant) {
        let Binding { namespace, name, node, scheduler, .. } = binding;
        let (node, took) = (Some(node.as_str()), started.elapsed());
        self.trace(&Traced { namespace, name, node, profile: scheduler, result, decided, took });
    }

    /// A binding failed: what it took is given back, and the pod is tried again after a while.
    fn crash(&mut self, uid: &str, what: &str, problem: &str) {
        let Some(flight) = self.flights.remove(uid) else { return };
        let Flight { reservation, binding, started, decided, .. } = flight;
        let pod = format!("{}/{}", binding.namespace, binding.name);
        tracing::warn!(pod, node = binding.node, problem, "{what}; the pod is tried again");
        self.metrics.bind_failed(&binding.scheduler, started.elapsed());
        self.trace_flight(&binding, "error", decided, started);
        let undo = self.engine.bind_failed(self.clock.now(), reservation);
        self.outbox.undo(&binding, undo);
        self.outbox.failed(&binding, &format!("{what}: {problem}"));
    }
}
