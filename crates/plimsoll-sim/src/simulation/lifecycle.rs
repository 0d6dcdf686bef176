//! Pods come, start, slow down, end, and lose their machines.

use super::agenda::Happening;
use super::pods::{self, Stage};
use super::{Seen, Simulation, SimulationError, State, gpu};
use crate::workload::Template;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::ResourceClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use plimsoll_core::engine::{Event, Eviction, PodRef};
use plimsoll_core::reserve::{Binding, Reservation};
use plimsoll_core::telemetry::PodTelemetry;
use std::time::Duration;

impl Simulation<'_> {
    /// A pod waits from now on.
    pub(super) fn enqueue(&mut self, pod: usize) -> Result<(), SimulationError> {
        let workload = self.setup.workload.clone();
        let record = &workload.pods[pod];
        let uid = self.pods[pod].uid(pod);
        let object = self.objects.pod(record, uid.clone());
        self.observer.see(self.now, Seen::Pod(&object));
        let template = workload.templates.get(record.template as usize);
        let gpu = template.and_then(Template::gpus);
        if let Some(request) = gpu {
            let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
            let claim = gpu::claim(request, namespace, &uid).map_err(SimulationError::Gpu)?;
            self.tell(Event::apply(claim), || format!("the GPU claim of pod {}", record.name))?;
        }
        self.tell(Event::apply(object), || format!("pod {}", record.name))?;
        self.pods[pod].stage = Stage::Waiting;
        self.count_waiting(pod, true);
        if let Some(max_wait) = self.setup.settings.max_wait {
            let made_anew = self.pods[pod].made_anew;
            let at = self.now.saturating_add(max_wait);
            self.agenda.enter(at, Happening::GiveUp { pod: pod as u32, made_anew });
        }
        let told = PodTelemetry {
            lifetime: self.pods[pod].left.filter(|_| self.setup.settings.tells_lifetimes),
            gpus: gpu.map(|gpu| (gpu.count, gpu.milli)),
            owner: Some(u64::from(record.owner)),
            latency_ms: template.and_then(|template| template.latency).map(|bears| (bears.soft_ms, bears.hard_ms)),
            home: self.homes[pod].and_then(|home| self.engine.state().telemetry.clusters.at(home)),
            service: template
                .and_then(|template| template.app.as_deref())
                .and_then(|app| self.engine.state().telemetry.calls.find(app)),
        };
        let state = &mut self.engine.scheduler().state;
        if let Some(id) = state.pod_id(&uid) {
            state.telemetry.set_pod(id, told);
        }
        Ok(())
    }

    /// A pod has a machine: it is bound, and runs as soon as the machine is awake.
    pub(super) fn start(&mut self, mut reservation: Reservation, binding: &Binding) -> Result<(), SimulationError> {
        let (node, id) = (reservation.node, reservation.pod);
        for write in self.engine.claim_writes(&reservation, self.now.as_secs_f64()) {
            if let Some(pod) = pods::number(&binding.uid) {
                self.pods[pod].gpus = gpu::given(&write.claim);
            }
            let written = write.claim.clone();
            self.engine
                .claim_written(self.now, &mut reservation, &write, written)
                .map_err(|error| SimulationError::Refused { object: format!("pod {}", binding.name), error })?;
        }
        self.engine.bound(self.now, reservation);
        let machine = self.machine_of_node.get(node.index()).copied();
        let (Some(pod), Some(machine)) = (pods::number(&binding.uid), machine) else { return Ok(()) };
        let machine_index = machine as usize;
        self.wake(machine_index);
        let arrival = self.setup.workload.pods[pod].arrival;
        let starts = match self.machines[machine_index].state {
            State::Booting(awake) => awake,
            _ => self.now,
        };
        let nanoseconds = i64::try_from(starts.as_nanos()).unwrap_or(i64::MAX);
        self.engine.scheduler().state.set_start_time(id, nanoseconds);
        self.count_waiting(pod, false);
        self.running += 1;
        self.course.placed(pod, machine_index, self.now.as_nanos());
        let run = &mut self.pods[pod];
        run.stage = Stage::Running { machine };
        run.counted_to = starts;
        if !std::mem::replace(&mut run.was_placed, true) && arrival >= self.measured_from {
            self.course.waited(starts.saturating_sub(arrival).as_secs_f64());
        }
        self.take_room(pod, machine_index, 1);
        self.machines[machine_index].running.push(pod as u32);
        self.machines[machine_index].spell += 1;
        self.plan_end(pod, self.machines[machine_index].speed);
        self.feel(pod, machine_index);
        self.refresh(machine_index);
        self.tell_busy(machine_index);
        self.calls_are_stale = true;
        Ok(())
    }

    /// A pod waits, or no longer.
    fn count_waiting(&mut self, pod: usize, waits: bool) {
        let by = if waits { 1 } else { -1 };
        self.waiting = self.waiting.saturating_add_signed(by);
        if let Some(count) = self.waiting_of.get_mut(self.setup.workload.pods[pod].template as usize) {
            *count = count.saturating_add_signed(by);
        }
    }

    /// A pod takes (1) or gives back (-1) what it needs of a machine.
    fn take_room(&mut self, pod: usize, machine: usize, sign: i64) {
        let record = &self.setup.workload.pods[pod];
        let Some(template) = self.setup.workload.templates.get(record.template as usize) else { return };
        let share = self.setup.world.usage.share(pod, record.usage);
        let known = &mut self.machines[machine];
        known.cpu_taken += sign * template.cpu_milli;
        known.memory_taken += sign * template.memory;
        known.used += sign * (template.cpu_milli as f64 * 1000.0 * share).round() as i64;
        if let Some(request) = &template.gpu {
            for &gpu in &self.pods[pod].gpus {
                if let Some(free) = known.gpus.get_mut(usize::from(gpu)) {
                    *free = if sign > 0 { free.saturating_sub(request.milli) } else { *free + request.milli };
                }
            }
            let (node, gpus) = (known.node, known.gpus.clone());
            if let Some(node) = node {
                self.engine.scheduler().state.tell(node, |known| known.gpus = gpus);
            }
        }
    }

    /// Enters when a pod ends, at the speed its machine has.
    fn plan_end(&mut self, pod: usize, speed: f64) {
        let run = &mut self.pods[pod];
        run.run += 1;
        if let Some(left) = run.left {
            let takes = at_speed(left, speed);
            let end = run.counted_to.saturating_add(takes);
            self.agenda.enter(end, Happening::End { pod: pod as u32, run: run.run });
        }
    }

    /// Accounts for what a pod has run since it was last looked at.
    fn count_run(&mut self, pod: usize, speed: f64) {
        let run = &mut self.pods[pod];
        let ran = self.now.saturating_sub(run.counted_to);
        run.counted_to = run.counted_to.max(self.now);
        if let Some(left) = &mut run.left {
            *left = left.saturating_sub(if speed == 1.0 { ran } else { ran.mul_f64(speed) });
        }
    }

    /// The pods of a machine run slower or faster from now on.
    pub(super) fn change_speed(&mut self, machine: usize, before: f64) {
        let speed = self.machines[machine].speed;
        for pod in self.machines[machine].running.clone() {
            self.count_run(pod as usize, before);
            self.plan_end(pod as usize, speed);
        }
    }

    /// A pod has run its time.
    pub(super) fn end_pod(&mut self, pod: usize, run: u32) -> Result<(), SimulationError> {
        let known = &self.pods[pod];
        if known.run == run
            && let Stage::Running { machine } = known.stage
        {
            self.leave(pod, machine as usize)?;
            self.pods[pod].stage = Stage::Finished;
        }
        Ok(())
    }

    /// A pod leaves its machine.
    pub(super) fn leave(&mut self, pod: usize, machine: usize) -> Result<(), SimulationError> {
        let speed = self.machines[machine].speed;
        self.count_run(pod, speed);
        self.pods[pod].run += 1;
        self.running -= 1;
        let known = &mut self.machines[machine];
        if let Some(at) = known.running.iter().position(|other| *other as usize == pod) {
            known.running.swap_remove(at);
        }
        known.spell += 1;
        self.feel_no_more(pod);
        self.take_room(pod, machine, -1);
        self.pods[pod].gpus.clear();
        self.remove(pod)?;
        if self.machines[machine].running.is_empty() {
            self.becomes_empty(machine);
        }
        self.refresh(machine);
        self.tell_busy(machine);
        self.calls_are_stale = true;
        Ok(())
    }

    /// The engine forgets a pod.
    fn remove(&mut self, pod: usize) -> Result<(), SimulationError> {
        let workload = self.setup.workload.clone();
        let record = &workload.pods[pod];
        let uid = self.pods[pod].uid(pod);
        self.observer.see(self.now, Seen::PodGone(&uid));
        let template = workload.templates.get(record.template as usize);
        let claims = template.is_some_and(|template| template.gpus().is_some());
        let namespace = template.map_or("default", Template::namespace);
        let metadata = |name: String| ObjectMeta {
            name: Some(name),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        };
        let gone = Pod {
            metadata: ObjectMeta { uid: Some(uid.clone()), ..metadata(record.name.to_string()) },
            ..Pod::default()
        };
        self.tell(Event::delete(gone), || format!("pod {}", record.name))?;
        if claims {
            let claim = ResourceClaim { metadata: metadata(pods::claim_name(&uid)), ..ResourceClaim::default() };
            self.tell(Event::delete(claim), || format!("the GPU claim of pod {}", record.name))?;
        }
        Ok(())
    }

    /// A pod loses its machine and is made anew, as its controller would.
    pub(super) fn make_anew(&mut self, pod: usize, machine: usize) -> Result<(), SimulationError> {
        self.leave(pod, machine)?;
        self.pods[pod].made_anew += 1;
        self.enqueue(pod)
    }

    /// A node is cleared for a pod; the victims are made anew.
    pub(super) fn preempt(&mut self, pod: &PodRef, eviction: &Eviction) -> Result<(), SimulationError> {
        let victims = eviction.victims.iter().map(|victim| victim.uid.as_str()).collect();
        self.observer.see(self.now, Seen::Preempt { uid: &pod.uid, node: &eviction.node, victims });
        for victim in &eviction.victims {
            let Some(number) = pods::number(&victim.uid) else { continue };
            if let Stage::Running { machine } = self.pods[number].stage {
                self.counts.preemptions += 1;
                self.make_anew(number, machine as usize)?;
            }
        }
        Ok(())
    }

    /// A pod has waited for too long.
    pub(super) fn give_up(&mut self, pod: usize, made_anew: u32) -> Result<(), SimulationError> {
        if self.pods[pod].stage == Stage::Waiting && self.pods[pod].made_anew == made_anew {
            self.remove(pod)?;
            self.count_waiting(pod, false);
            self.gave_up += 1;
            self.pods[pod].stage = Stage::Rejected;
        }
        Ok(())
    }

    /// Tells policies until when a machine is busy, where they may know.
    fn tell_busy(&mut self, machine: usize) {
        let known = &self.machines[machine];
        let Some(node) = known.node.filter(|_| self.setup.settings.tells_lifetimes) else { return };
        let end = |pod: &u32| {
            let run = &self.pods[*pod as usize];
            run.left.map_or(Duration::MAX, |left| run.counted_to.saturating_add(at_speed(left, known.speed)))
        };
        let until = known.running.iter().map(end).max();
        self.engine.scheduler().state.tell(node, |known| known.busy_until = until);
    }
}

/// How long it takes at this speed; for ever if it stands still.
fn at_speed(left: Duration, speed: f64) -> Duration {
    if speed == 1.0 {
        return left;
    }
    Duration::try_from_secs_f64(left.as_secs_f64() / speed).unwrap_or(Duration::MAX)
}
