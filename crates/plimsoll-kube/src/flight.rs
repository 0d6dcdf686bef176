//! A binding under way: volumes, devices, then the binding itself. Until it is through, what it takes stays taken.

use crate::api::WriteError;
use crate::driver::Driver;
use crate::trace::Traced;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::ResourceClaim;
use plimsoll_core::engine::{Event, Object};
use plimsoll_core::reserve::{Binding, ClaimWrite, Reservation};
use std::time::{Duration, Instant};

/// Where a binding is.
#[derive(Debug)]
pub enum Stage {
    /// A write is under way.
    Writing,
    /// Others do what was asked for.
    Waiting {
        /// What is asked for.
        awaited: Awaited,
        /// When it is given up.
        until: Instant,
    },
}

/// What a binding waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaited {
    /// That controllers bind or make its volumes.
    Volumes,
    /// That drivers say that its devices are ready.
    Devices,
}

/// How long bindings wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Patience {
    /// For volumes.
    pub volumes: Duration,
    /// For devices.
    pub devices: Duration,
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
    /// The step that is under way, as the scheduling framework names it, and when it began.
    step: &'static str,
    stepped: Instant,
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
        let (stage, step) = (Stage::Writing, "PreBind");
        let flight = Flight { reservation, binding, stage, started, decided, step, stepped };
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
                match error {
                    Some(error) => self.crash(uid, "binding volumes", &error.to_string()),
                    None => self.wait_for(uid, Awaited::Volumes),
                }
            }
            Written::Claims(written, error) => {
                let Some(flight) = self.flights.get_mut(uid) else { return };
                for (write, claim) in written {
                    if let Err(error) = self.engine.claim_written(now, &mut flight.reservation, &write, claim) {
                        tracing::warn!(%error, "a claim that was written cannot be read");
                    }
                }
                match error {
                    Some(error) => self.crash(uid, "reserving devices", &error.to_string()),
                    None => self.wait_for_devices(uid),
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

    /// Has a binding wait for what others do, unless that is done already.
    fn wait_for(&mut self, uid: &str, awaited: Awaited) {
        let Some(flight) = self.flights.get_mut(uid) else { return };
        let Patience { volumes, devices } = self.patience.get(&flight.binding.scheduler).copied().unwrap_or_default();
        let patience = if awaited == Awaited::Volumes { volumes } else { devices };
        let until = Instant::now() + patience;
        flight.stage = Stage::Waiting { awaited, until };
        self.waiting.insert((until, uid.into()));
        self.look_at_waiting_pod(uid);
    }

    fn wait_for_devices(&mut self, uid: &str) {
        let Some(flight) = self.flights.get(uid) else { return };
        if !flight.reservation.has_binding_conditions() {
            return self.bind(uid);
        }
        self.outbox.waits_for_devices(&flight.binding);
        self.wait_for(uid, Awaited::Devices);
    }

    /// Looks whether what a pod waits for is there.
    pub(crate) fn look_at_waiting_pod(&mut self, uid: &str) {
        let Some(flight) = self.flights.get(uid) else { return };
        let Stage::Waiting { awaited, until } = flight.stage else { return };
        let (is_there, what) = match (awaited, &flight.reservation.volumes) {
            (Awaited::Volumes, Some(volumes)) => {
                (self.engine.volumes_complete(volumes, flight.reservation.node), "binding volumes")
            }
            (Awaited::Volumes, None) => (Ok(true), "binding volumes"),
            (Awaited::Devices, _) => {
                let patience = self.patience.get(&flight.binding.scheduler).copied().unwrap_or_default();
                let ready = self.engine.devices_ready(&flight.reservation, self.clock.now(), patience.devices);
                (ready, "preparing devices")
            }
        };
        match is_there {
            Ok(true) => {
                self.waiting.remove(&(until, uid.into()));
                match awaited {
                    Awaited::Volumes => self.write_claims(uid),
                    Awaited::Devices => self.bind(uid),
                }
            }
            Ok(false) if Instant::now() >= until => self.crash(uid, what, "timed out waiting for the condition"),
            Ok(false) => {}
            Err(problem) => self.crash(uid, what, &problem),
        }
    }

    /// A pod that waits will not be bound by us any more: it is gone, or somebody else has bound it.
    pub(crate) fn end_waiting(&mut self, uid: &str) {
        if self.flights.get(uid).is_some_and(|flight| matches!(flight.stage, Stage::Waiting { .. })) {
            tracing::debug!(uid, "a pod is gone that was waited for");
            self.fall(uid);
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
        (flight.stage, flight.step, flight.stepped) = (Stage::Writing, "Bind", Instant::now());
        let binder = self.extenders.as_ref().and_then(|extenders| extenders.binder(uid));
        self.outbox.bind(uid.into(), flight.binding.clone(), binder);
    }

    fn trace_flight(&mut self, binding: &Binding, result: &'static str, decided: Duration, started: Instant) {
        let Binding { namespace, name, node, scheduler, .. } = binding;
        let (node, took) = (Some(node.as_str()), started.elapsed());
        self.trace(&Traced { namespace, name, node, profile: scheduler, result, decided, took });
    }

    /// A binding failed: what it took is given back, and the pod is tried again after a while.
    fn crash(&mut self, uid: &str, what: &str, problem: &str) {
        let Some(binding) = self.fall(uid) else { return };
        let pod = format!("{}/{}", binding.namespace, binding.name);
        tracing::warn!(pod, node = binding.node, problem, "{what}; the pod is tried again");
        self.outbox.failed(&binding, &format!("{what}: {problem}"));
    }

    /// Ends a binding that came to nothing: what it took is given back, what it wrote is undone.
    fn fall(&mut self, uid: &str) -> Option<Binding> {
        let Flight { reservation, binding, stage, started, decided, step, stepped } = self.flights.remove(uid)?;
        if let Stage::Waiting { until, .. } = stage {
            self.waiting.remove(&(until, uid.into()));
        }
        self.metrics.step(step, false, &binding.scheduler, stepped.elapsed());
        self.metrics.bind_failed(&binding.scheduler, started.elapsed());
        self.trace_flight(&binding, "error", decided, started);
        let undo = self.engine.bind_failed(self.clock.now(), reservation);
        self.outbox.undo(&binding, undo);
        Some(binding)
    }
}

/// The pod that an event tells to be gone, or about to be, or bound.
pub(crate) fn no_longer_ours(event: &Event) -> Option<Box<str>> {
    let pod = match event {
        Event::Delete(Object::Pod(pod)) => pod,
        Event::Apply(Object::Pod(pod)) if is_done_with(pod) => pod,
        _ => return None,
    };
    pod.metadata.uid.as_deref().map(Into::into)
}

fn is_done_with(pod: &Pod) -> bool {
    let is_bound = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).is_some_and(|node| !node.is_empty());
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    is_bound || pod.metadata.deletion_timestamp.is_some() || matches!(phase, Some("Succeeded" | "Failed"))
}

/// Whether an event may be what a binding waits for.
pub(crate) fn may_be_awaited(event: &Event) -> bool {
    let (Event::Apply(object) | Event::Delete(object)) = event;
    matches!(
        object,
        Object::Node(_)
            | Object::PersistentVolume(_)
            | Object::PersistentVolumeClaim(_)
            | Object::StorageClass(_)
            | Object::CsiNode(_)
            | Object::CsiDriver(_)
            | Object::ResourceClaim(_)
    )
}
