//! Machines join, wake, sleep, fail, are drained and given back.

use super::agenda::Happening;
use super::machines::Machine;
use super::settings::DisruptionKind;
use super::{Inputs, Seen, Simulation, SimulationError, State, gpu, trial};
use crate::fleet::Pool;
use crate::workload::Template;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use plimsoll_core::engine::Event;
use plimsoll_core::rng::Rng;
use std::sync::Arc;
use std::time::Duration;

/// Failures have nothing to do with what else is drawn by seed and number.
const SALT: u64 = 0x1405_7b7e_f767_814f;
/// A new machine is kept for at least this long: the pods it was asked for may still be in their backoff.
const LEAST_IDLE: Duration = Duration::from_secs(30);

/// A pool of a run.
#[derive(Debug)]
pub struct PoolRun {
    /// How many machines it ever had: the number of the next.
    made: usize,
    /// How many belong to the cluster.
    present: usize,
    /// How many were asked for and have not joined.
    ordered: usize,
    /// Whether its machines could run pods of a template, as far as that was found out.
    could_run: Vec<Option<bool>>,
}

impl PoolRun {
    /// A pool before its machines join.
    pub fn new(_: &Pool) -> Self {
        Self { made: 0, present: 0, ordered: 0, could_run: Vec::new() }
    }
}

impl Simulation<'_> {
    /// A new machine joins the cluster.
    pub(super) fn add_machine(&mut self, pool: usize) -> Result<(), SimulationError> {
        let kind = &self.setup.fleet.pools[pool];
        let number = self.pools[pool].made;
        self.pools[pool].made += 1;
        let region = self.regions.iter().position(|region| *region == kind.region).unwrap_or(0);
        let index = self.machines.len();
        self.machines.push(Machine::new(kind, pool, number, region));
        self.enter_cluster(index)?;
        if let Some(failures) = self.setup.settings.failures {
            self.plan_failure(index, failures.every);
        }
        Ok(())
    }

    /// A machine's node appears in the cluster, empty.
    fn enter_cluster(&mut self, index: usize) -> Result<(), SimulationError> {
        let machine = &self.machines[index];
        let fleet = self.setup.fleet.clone();
        let pool = &fleet.pools[machine.pool];
        let object = machine.object(pool);
        let slice = gpu::slice(machine, pool).map_err(SimulationError::Gpu)?;
        let name = machine.name.clone();
        self.observer.see(self.now, Seen::Node(&object));
        self.tell(Event::apply(object), || format!("node {name}"))?;
        if let Some(slice) = slice {
            self.tell(Event::apply(slice), || format!("the GPUs of node {name}"))?;
        }
        let sleeps = self.setup.world.power.sleep_after().is_some() && pool.scaling.is_none();
        let machine = &mut self.machines[index];
        machine.state = if sleeps { State::Asleep } else { State::Awake(self.now) };
        let Some(node) = self.engine.state().node_named(&name) else { return Ok(()) };
        let machine = &mut self.machines[index];
        machine.node = Some(node);
        self.pools[machine.pool].present += 1;
        if self.machine_of_node.len() <= node.index() {
            self.machine_of_node.resize(node.index() + 1, 0);
        }
        self.machine_of_node[node.index()] = index as u32;
        let asleep = crate::world::power::Activity::Asleep;
        let sleep_watts = self.setup.world.power.watts(&pool.machine.power, asleep);
        let price = self.setup.world.price.as_ref().map(|prices| prices.hourly(pool));
        let carbon = self.intensity(pool);
        let cluster = self.engine.state().telemetry.clusters.find(&pool.cluster);
        let (power, gpus) = (Arc::clone(&pool.machine.power), self.machines[index].gpus.clone());
        self.engine.scheduler().state.tell(node, |known| {
            known.power = Some(power);
            known.sleep_watts = sleep_watts;
            known.price = price;
            known.carbon = carbon;
            known.gpus = gpus;
            known.cluster = cluster;
        });
        self.tell_awake(index);
        self.latency_changes(index, false);
        self.refresh(index);
        if pool.scaling.is_some() {
            self.becomes_empty(index);
        }
        Ok(())
    }

    /// A machine's node disappears; its pods are made anew elsewhere.
    fn leave_cluster(&mut self, index: usize) -> Result<(), SimulationError> {
        for pod in self.machines[index].running.clone() {
            self.counts.evictions += 1;
            self.make_anew(pod as usize, index)?;
        }
        let machine = &mut self.machines[index];
        machine.state = State::Gone;
        machine.node = None;
        machine.spell += 1;
        machine.cordoned = false;
        self.pools[machine.pool].present -= 1;
        let name = self.machines[index].name.clone();
        self.observer.see(self.now, Seen::NodeGone(&name));
        let gone =
            Node { metadata: ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() }, ..Node::default() };
        self.tell(Event::delete(gone), || format!("node {name}"))?;
        let pool = &self.setup.fleet.pools[self.machines[index].pool];
        if let Some(slice) = gpu::slice(&self.machines[index], pool).map_err(SimulationError::Gpu)? {
            self.tell(Event::delete(slice), || format!("the GPUs of node {name}"))?;
        }
        self.refresh(index);
        Ok(())
    }

    fn tell_awake(&mut self, index: usize) {
        let machine = &self.machines[index];
        let since = match machine.state {
            State::Awake(since) | State::Booting(since) => Some(since),
            State::Asleep | State::Gone => None,
        };
        if let Some(node) = machine.node {
            self.engine.scheduler().state.tell(node, |known| known.awake_since = since);
        }
    }

    /// A pod was placed on a machine that may sleep.
    pub(super) fn wake(&mut self, index: usize) {
        if self.machines[index].state != State::Asleep {
            return;
        }
        self.counts.wakes += 1;
        let delay = self.setup.world.power.boot_delay();
        let machine = &mut self.machines[index];
        machine.spell += 1;
        machine.state =
            if delay.is_zero() { State::Awake(self.now) } else { State::Booting(self.now.saturating_add(delay)) };
        if let State::Booting(awake) = machine.state {
            self.agenda.enter(awake, Happening::Booted { machine: index as u32 });
        }
        self.tell_awake(index);
    }

    /// A machine may be awake now.
    pub(super) fn booted(&mut self, index: usize) {
        if self.machines[index].state != State::Booting(self.now) {
            return;
        }
        self.machines[index].state = State::Awake(self.now);
        self.refresh(index);
        if self.machines[index].running.is_empty() {
            self.becomes_empty(index);
            self.refresh(index);
        }
    }

    /// The last pod left a machine, or it is new: it sleeps, or is given back, if that stays so.
    pub(super) fn becomes_empty(&mut self, index: usize) {
        let machine = &self.machines[index];
        let scaling = self.setup.fleet.pools[machine.pool].scaling;
        let after = match scaling {
            Some(scaling) => Some(scaling.idle_after.max(LEAST_IDLE)),
            None => self.setup.world.power.sleep_after(),
        };
        match after {
            Some(after) if after.is_zero() && scaling.is_none() && matches!(machine.state, State::Awake(_)) => {
                self.fall_asleep(index);
            }
            Some(after) => {
                let happening = Happening::Idle { machine: index as u32, spell: machine.spell };
                self.agenda.enter(self.now.saturating_add(after), happening);
            }
            None => {}
        }
    }

    fn fall_asleep(&mut self, index: usize) {
        self.machines[index].state = State::Asleep;
        self.tell_awake(index);
    }

    /// A machine was empty for long enough.
    pub(super) fn idle(&mut self, index: usize, spell: u32) -> Result<(), SimulationError> {
        let machine = &self.machines[index];
        let is_idle = machine.spell == spell && machine.running.is_empty() && matches!(machine.state, State::Awake(_));
        if !is_idle {
            return Ok(());
        }
        match self.setup.fleet.pools[machine.pool].scaling {
            None => {
                self.fall_asleep(index);
                self.refresh(index);
            }
            Some(scaling) if self.pools[machine.pool].present > scaling.min => {
                self.machines[index].given_back = true;
                self.leave_cluster(index)?;
            }
            Some(scaling) => {
                // The pool may not shrink now, but perhaps later.
                let again = self.now.saturating_add(scaling.idle_after.max(Duration::from_secs(60)));
                self.agenda.enter(again, Happening::Idle { machine: index as u32, spell });
            }
        }
        Ok(())
    }

    /// Asks for machines where pods wait that none has room for: of the first pool that can take them and may grow.
    pub(super) fn grow_pools(&mut self) -> Result<(), SimulationError> {
        if self.waiting == 0 || self.setup.fleet.pools.iter().all(|pool| pool.scaling.is_none()) {
            return Ok(());
        }
        let Inputs { fleet, workload, .. } = self.setup.clone();
        // Pods in their backoff are tried again first: something happened that may have helped them. Without any node there is
        // nothing that could.
        if self.engine.counts().unschedulable == 0 && self.engine.state().node_count() > 0 {
            return Ok(());
        }
        let mut waiting = self.waiting_of.clone();
        // What is on its way serves those it can take, in the order of the pools.
        for (index, pool) in fleet.pools.iter().enumerate() {
            let Some(scaling) = pool.scaling else { continue };
            let run = &self.pools[index];
            let room = scaling.max.saturating_sub(run.present + run.ordered);
            // Empty machines serve some of those that wait, as soon as these are tried again.
            let is_free = |machine: &&Machine| {
                machine.pool == index && machine.running.is_empty() && machine.node.is_some() && !machine.cordoned
            };
            let coming = run.ordered + self.machines.iter().filter(is_free).count();
            let mut for_it = self.those_it_could_run(index, &waiting)?;
            let before = for_it.clone();
            let more = machines_for(pool, &workload.templates, &mut for_it, coming, room);
            for (waiting, (before, after)) in waiting.iter_mut().zip(before.into_iter().zip(for_it)) {
                *waiting -= before - after;
            }
            self.pools[index].ordered += more;
            for _ in 0..more {
                self.agenda.enter(self.now.saturating_add(scaling.boot_delay), Happening::Join { pool: index as u32 });
            }
        }
        Ok(())
    }

    /// Of the waiting pods, those that a pool could run; found out once for each template.
    fn those_it_could_run(&mut self, pool: usize, waiting: &[usize]) -> Result<Vec<usize>, SimulationError> {
        let Inputs { fleet, workload, settings, .. } = &self.setup;
        let mut those = waiting.to_vec();
        for (at, (template, count)) in workload.templates.iter().zip(&mut those).enumerate() {
            if *count == 0 {
                continue;
            }
            let known = self.pools[pool].could_run.get(at).copied().flatten();
            let could_run = match (known, workload.pods.iter().find(|pod| pod.template as usize == at)) {
                (Some(known), _) => known,
                (None, None) => false,
                (None, Some(record)) => {
                    trial::could_run(&settings.configuration, &fleet.pools[pool], template, record, &self.objects)?
                }
            };
            self.pools[pool].could_run.resize(workload.templates.len(), None);
            self.pools[pool].could_run[at] = Some(could_run);
            if !could_run {
                *count = 0;
            }
        }
        Ok(those)
    }

    /// A machine that was asked for joins.
    pub(super) fn join(&mut self, pool: usize) -> Result<(), SimulationError> {
        self.pools[pool].ordered = self.pools[pool].ordered.saturating_sub(1);
        self.add_machine(pool)
    }

    fn plan_failure(&mut self, index: usize, every: Duration) {
        let failure = self.machines[index].failures;
        let seed =
            self.setup.settings.seed ^ SALT ^ (index as u64).wrapping_mul(0xd129_0d3b_31d8_95b5) ^ self.now.as_secs();
        let after = every.mul_f64(-libm::log(1.0 - Rng::new(seed).unit()));
        self.agenda.enter(self.now.saturating_add(after), Happening::Fail { machine: index as u32, failure });
    }

    /// A machine fails by chance, unless it failed otherwise meanwhile.
    pub(super) fn fail_by_chance(&mut self, index: usize, failure: u32) -> Result<(), SimulationError> {
        if self.machines[index].failures == failure { self.fail(index) } else { Ok(()) }
    }

    fn fail(&mut self, index: usize) -> Result<(), SimulationError> {
        if self.machines[index].state == State::Gone {
            return Ok(());
        }
        self.machines[index].failures += 1;
        self.leave_cluster(index)?;
        if let Some(failures) = self.setup.settings.failures {
            let at = self.now.saturating_add(failures.repair);
            let failure = self.machines[index].failures;
            self.agenda.enter(at, Happening::Repaired { machine: index as u32, failure });
        }
        Ok(())
    }

    /// A machine that failed is back, unless it came back before.
    pub(super) fn repaired(&mut self, index: usize, failure: u32) -> Result<(), SimulationError> {
        let machine = &self.machines[index];
        if machine.state == State::Gone && machine.failures == failure { self.come_back(index) } else { Ok(()) }
    }

    /// A machine that was gone joins again, unless its pool has found a replacement and may not grow.
    fn come_back(&mut self, index: usize) -> Result<(), SimulationError> {
        let pool = self.machines[index].pool;
        let run = &self.pools[pool];
        let is_full =
            self.setup.fleet.pools[pool].scaling.is_some_and(|scaling| run.present + run.ordered >= scaling.max);
        if is_full {
            self.machines[index].given_back = true;
            return Ok(());
        }
        self.enter_cluster(index)?;
        if let Some(failures) = self.setup.settings.failures {
            self.plan_failure(index, failures.every);
        }
        Ok(())
    }

    /// Something happens to machines, as the scenario has it.
    pub(super) fn disrupt(&mut self, which: usize) -> Result<(), SimulationError> {
        let settings = self.setup.settings.clone();
        let disruption = &settings.disruptions[which];
        let of_pool = |machine: &Machine| self.setup.fleet.pools[machine.pool].name == disruption.pool;
        let concerns = |machine: &Machine| match disruption.kind {
            DisruptionKind::Fail => machine.state != State::Gone,
            DisruptionKind::Drain => machine.state != State::Gone && !machine.cordoned,
            DisruptionKind::Return => (machine.state == State::Gone && !machine.given_back) || machine.cordoned,
            DisruptionKind::Join => false,
        };
        let machines = self.machines.iter().enumerate().filter(|(_, machine)| of_pool(machine) && concerns(machine));
        let chosen: Vec<_> = machines.map(|(index, _)| index).take(disruption.count).collect();
        for index in chosen {
            match disruption.kind {
                DisruptionKind::Fail => self.fail(index)?,
                DisruptionKind::Drain => self.drain(index)?,
                DisruptionKind::Return if self.machines[index].state == State::Gone => self.come_back(index)?,
                DisruptionKind::Return => self.cordon(index, false)?,
                DisruptionKind::Join => {}
            }
        }
        if disruption.kind == DisruptionKind::Join {
            let pool = self.setup.fleet.pools.iter().position(|pool| pool.name == disruption.pool).unwrap_or(0);
            for _ in 0..disruption.count {
                self.add_machine(pool)?;
            }
        }
        Ok(())
    }

    fn drain(&mut self, index: usize) -> Result<(), SimulationError> {
        self.cordon(index, true)?;
        for pod in self.machines[index].running.clone() {
            self.counts.evictions += 1;
            self.make_anew(pod as usize, index)?;
        }
        Ok(())
    }

    fn cordon(&mut self, index: usize, cordoned: bool) -> Result<(), SimulationError> {
        self.machines[index].cordoned = cordoned;
        let machine = &self.machines[index];
        let object = machine.object(&self.setup.fleet.pools[machine.pool]);
        let name = machine.name.clone();
        self.observer.see(self.now, Seen::Node(&object));
        self.tell(Event::apply(object), || format!("node {name}"))
    }
}

/// How many more machines of a pool the waiting pods need, all of which it could run, at most `room`; those it serves are taken
/// off the list.
fn machines_for(pool: &Pool, templates: &[Template], waiting: &mut [usize], coming: usize, room: usize) -> usize {
    let kind = &pool.machine;
    let limits = [kind.cpu_milli, kind.memory, kind.pods].map(i128::from);
    let mut taken = [0_i128; 3];
    for (template, waiting) in templates.iter().zip(waiting).filter(|(_, waiting)| **waiting > 0) {
        let each = [template.cpu_milli, template.memory, 1].map(i128::from);
        let room = |at: usize| (limits[at] * (coming + room) as i128 - taken[at]) / each[at].max(1);
        let served = (0..3).map(room).min().unwrap_or(0).clamp(0, *waiting as i128);
        for (taken, each) in taken.iter_mut().zip(each) {
            *taken += served * each;
        }
        *waiting -= served as usize;
    }
    let needed = taken.iter().zip(limits).map(|(taken, limit)| (taken + limit - 1) / limit.max(1)).max().unwrap_or(0);
    usize::try_from(needed).unwrap_or(usize::MAX).saturating_sub(coming).min(room)
}
