//! A run: the engine's decisions carried out on simulated machines, by a virtual clock.
//!
//! Time jumps from one happening to the next. At each time what makes room comes first, then what arrives, then the engine is asked
//! until no pod is ready. The engine decides everything; this carries it out.

mod agenda;
mod course;
mod felt;
mod gpu;
mod inputs;
mod latency;
mod lifecycle;
mod machines;
mod meter;
mod observer;
mod pods;
mod pools;
mod readings;
mod settings;
mod stepping;
#[cfg(test)]
mod tests;
mod trial;

pub use course::Waits;
pub use inputs::{Held, Inputs, Setup};
pub use machines::taint;
pub use observer::{Nobody, Observer, Seen, Timeline};
pub use pods::Objects;
pub use readings::Readings;
pub use settings::{Disruption, DisruptionKind, Failures, Settings};
pub use stepping::Choice;
pub use trial::could_run;

use crate::measures::{Measures, Series};
use crate::workload::Workload;
use agenda::{Agenda, Happening};
use course::{Course, MACHINES_DRAWN};
use felt::AwayMeter;
use latency::LatencyMeter;
use machines::{Machine, State, Yardstick};
use meter::Meter;
use plimsoll_core::engine::{Asked, Attempt, Engine, EngineError, Event, Question};
use plimsoll_core::policy::Policy;
use plimsoll_core::telemetry::{Calls, ExpectedPod};
use pods::{PodRun, Stage};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Why a run cannot be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SimulationError {
    /// An object of the scenario is refused by the engine.
    #[error("{object}: {error}")]
    Refused {
        /// The object.
        object: String,
        /// Why.
        error: EngineError,
    },
    /// A GPU cannot be described.
    #[error("{0}")]
    Gpu(String),
    /// A disruption names a pool that does not exist.
    #[error("disruption at {at:?}: there is no pool {pool:?}; there are {pools}")]
    UnknownPool {
        /// When.
        at: Duration,
        /// The name.
        pool: String,
        /// The names there are.
        pools: String,
    },
    /// A choice was answered that nobody asked for.
    #[error("a node was chosen, but no choice is open; go on to the next choice first")]
    NoChoice,
    /// A pod cannot be tried.
    #[error("pod {pod}: {problem}")]
    Attempt {
        /// The pod.
        pod: String,
        /// What went wrong.
        problem: String,
    },
}

/// What a run came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The figures.
    pub measures: Measures,
    /// The course.
    pub series: Series,
    /// How long pods waited.
    pub waits: Waits,
    /// A checksum over every placement.
    pub checksum: String,
}

/// A run under way.
pub struct Simulation<'a> {
    setup: Inputs<'a>,
    observer: Box<dyn Observer + 'a>,
    engine: Engine,
    now: Duration,
    agenda: Agenda,
    /// The next pod to arrive.
    next_arrival: usize,
    machines: Vec<Machine>,
    /// The machine of each node, by the node's index.
    machine_of_node: Vec<u32>,
    regions: Vec<String>,
    pods: Vec<PodRun>,
    objects: Objects,
    pools: Vec<pools::PoolRun>,
    expected: Arc<[ExpectedPod]>,
    mean_pod: (i64, i64),
    usage_factor: f64,
    meter: Meter,
    latency: LatencyMeter,
    away: AwayMeter,
    /// The cluster that each pod comes from, by its place among the clusters.
    homes: Vec<Option<usize>>,
    call_latency: f64,
    /// Whether pods came or went since calls were looked at.
    calls_are_stale: bool,
    call_hours: f64,
    course: Course,
    counts: Measures,
    waiting: usize,
    /// Waiting pods by template.
    waiting_of: Vec<usize>,
    running: usize,
    measured_from: Duration,
    end: Duration,
    next_wake: Option<Duration>,
    /// Whether the engine has work at this time, or may have.
    is_scheduling: bool,
    /// The choice that is to be made outside, while there is one.
    question: Option<Question>,
    waiting_hours: f64,
    gave_up: u64,
    /// What was measured before the warm-up was over.
    warmed: Readings,
}

/// Who chooses among feasible nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decider {
    /// The policy.
    Policy,
    /// Whoever drives the run.
    Outside,
}

/// How long pods run, as drawn for a seed; none for those that run to the end.
pub fn lifetimes(workload: &Workload, seed: u64) -> Vec<Option<Duration>> {
    workload.pods.iter().enumerate().map(|(number, record)| PodRun::new(record, number, seed).left).collect()
}

/// Runs a workload under a policy.
pub fn run(setup: Setup<'_>, policy: Box<dyn Policy>, observer: &mut dyn Observer) -> Result<Outcome, SimulationError> {
    let mut simulation = Simulation::new(setup, policy, observer)?;
    simulation.run_to_end()?;
    Ok(simulation.finish())
}

impl<'a> Simulation<'a> {
    /// A run at time zero: machines are there, no pod has come.
    pub fn new(
        setup: impl Into<Inputs<'a>>,
        policy: Box<dyn Policy>,
        observer: impl Observer + 'a,
    ) -> Result<Self, SimulationError> {
        let inputs = setup.into();
        let setup = inputs.setup();
        let Setup { workload, fleet, world, settings } = setup;
        let mut engine = Engine::new(&settings.configuration, settings.seed);
        engine.set_words_messages(false);
        let profile = settings.configuration.profiles.first().map(|profile| profile.scheduler_name.as_str());
        engine.set_policy(profile.unwrap_or_default(), policy);
        engine.set_lookahead(settings.lookahead);
        let regions: BTreeSet<_> = fleet.pools.iter().map(|pool| pool.region.clone()).collect();
        let (measured_from, end) = setup.measured();
        let count = workload.pods.len().max(1) as i128;
        let mean = |each: fn(&crate::workload::Template) -> i64| {
            let template = |pod: &crate::workload::PodRecord| workload.templates.get(pod.template as usize);
            let sum: i128 = workload.pods.iter().filter_map(template).map(|template| i128::from(each(template))).sum();
            i64::try_from(sum / count).unwrap_or(i64::MAX)
        };
        let new_run = |(number, record)| PodRun::new(record, number, settings.seed);
        let home = |record: &crate::workload::PodRecord| {
            world.clusters.as_ref()?.home(workload.templates.get(record.template as usize), record)
        };
        let mut simulation = Self {
            observer: Box::new(observer),
            engine,
            now: Duration::ZERO,
            agenda: Agenda::default(),
            next_arrival: 0,
            machines: Vec::with_capacity(fleet.len()),
            machine_of_node: Vec::new(),
            regions: regions.into_iter().collect(),
            pods: workload.pods.iter().enumerate().map(new_run).collect(),
            objects: Objects::new(workload),
            pools: fleet.pools.iter().map(pools::PoolRun::new).collect(),
            expected: pods::expected(workload).into(),
            mean_pod: (mean(|template| template.cpu_milli), mean(|template| template.memory)),
            usage_factor: world.usage.factor(Duration::ZERO),
            meter: Meter::new(world.carbon.is_some(), world.price.is_some()),
            latency: LatencyMeter::default(),
            away: AwayMeter::default(),
            homes: workload.pods.iter().map(home).collect(),
            call_latency: 0.0,
            calls_are_stale: false,
            call_hours: 0.0,
            course: Course::default(),
            counts: Measures::default(),
            waiting: 0,
            waiting_of: vec![0; workload.templates.len()],
            running: 0,
            measured_from,
            end,
            next_wake: None,
            is_scheduling: false,
            question: None,
            waiting_hours: 0.0,
            gave_up: 0,
            warmed: Readings::default(),
            setup: inputs.clone(),
        };
        simulation.open()?;
        Ok(simulation)
    }

    /// Sets the stage: machines join, and what is known to happen is entered.
    fn open(&mut self) -> Result<(), SimulationError> {
        let Inputs { fleet, world, settings, workload } = self.setup.clone();
        let telemetry = &mut self.engine.scheduler().state.telemetry;
        telemetry.expected = Arc::clone(&self.expected);
        telemetry.calls =
            Calls::new(workload.calls.iter().map(|call| (call.from.as_str(), call.to.as_str(), call.per_request)));
        self.ways_change();
        if workload.templates.iter().any(|template| template.gpu.is_some()) {
            let class = gpu::class().map_err(SimulationError::Gpu)?;
            self.tell(Event::apply(class), || "the device class of GPUs".into())?;
        }
        for (index, pool) in fleet.pools.iter().enumerate() {
            for _ in 0..pool.count {
                self.add_machine(index)?;
            }
        }
        if self.machines.len() <= MACHINES_DRAWN && fleet.pools.iter().all(|pool| pool.scaling.is_none()) {
            self.course.series.nodes = self.machines.iter().map(|machine| machine.name.clone()).collect();
            self.course.series.pods_per_node = vec![Vec::new(); self.machines.len()];
        }
        for (index, disruption) in settings.disruptions.iter().enumerate() {
            if !fleet.pools.iter().any(|pool| pool.name == disruption.pool) {
                let pools = fleet.pools.iter().map(|pool| pool.name.as_str()).collect::<Vec<_>>().join(", ");
                return Err(SimulationError::UnknownPool { at: disruption.at, pool: disruption.pool.clone(), pools });
            }
            self.agenda.enter(disruption.at, Happening::Disrupt { disruption: index as u32 });
        }
        self.set_intensities();
        if let Some(at) = world.next_change(Duration::ZERO) {
            self.agenda.enter(at, Happening::World);
        }
        self.agenda.enter(self.measured_from, Happening::Warm);
        for sample in 1..=settings.samples {
            self.agenda.enter(self.end / settings.samples * sample, Happening::Sample);
        }
        Ok(())
    }

    /// Runs until the time is over.
    pub fn run_to_end(&mut self) -> Result<(), SimulationError> {
        self.go_on(Decider::Policy, self.end)
    }

    /// Goes on until this time, or until somebody outside has to choose a node.
    fn go_on(&mut self, decider: Decider, until: Duration) -> Result<(), SimulationError> {
        loop {
            if !self.is_scheduling {
                let Some(next) = self.next_time().filter(|next| *next <= until) else { break };
                self.pass_time(next);
                while let Some(happening) = self.agenda.take_due(next) {
                    self.happen(happening)?;
                }
                self.arrivals()?;
                self.is_scheduling = true;
            }
            self.schedule(decider)?;
            if self.question.is_some() {
                return Ok(());
            }
            self.plan_wake();
            self.grow_pools()?;
            self.is_scheduling = false;
        }
        self.pass_time(until);
        Ok(())
    }

    fn next_time(&self) -> Option<Duration> {
        let arrival = self.setup.workload.pods.get(self.next_arrival).map(|pod| pod.arrival);
        arrival.into_iter().chain(self.agenda.next_time()).min()
    }

    fn pass_time(&mut self, to: Duration) {
        if std::mem::take(&mut self.calls_are_stale) {
            self.refresh_calls();
        }
        let hours = to.saturating_sub(self.now).as_secs_f64() / 3600.0;
        self.call_hours += self.call_latency * hours;
        self.waiting_hours += self.waiting as f64 * hours;
        self.meter.advance(to);
        self.away.advance(hours);
        self.now = to;
        self.engine.scheduler().state.telemetry.now = to;
    }

    fn happen(&mut self, happening: Happening) -> Result<(), SimulationError> {
        match happening {
            Happening::End { pod, run } => self.end_pod(pod as usize, run)?,
            Happening::Booted { machine } => self.booted(machine as usize),
            Happening::Idle { machine, spell } => self.idle(machine as usize, spell)?,
            Happening::Join { pool } => self.join(pool as usize)?,
            Happening::Fail { machine, failure } => self.fail_by_chance(machine as usize, failure)?,
            Happening::Repaired { machine, failure } => self.repaired(machine as usize, failure)?,
            Happening::Disrupt { disruption } => self.disrupt(disruption as usize)?,
            Happening::World => self.world_changes(),
            Happening::Warm => {
                self.warmed = self.readings();
                self.meter.start_over();
                self.latency.start_over(self.now);
                self.away.start_over();
                self.call_hours = 0.0;
                (self.waiting_hours, self.gave_up) = (0.0, 0);
                self.counts = Measures::default();
            }
            Happening::GiveUp { pod, made_anew } => self.give_up(pod as usize, made_anew)?,
            Happening::Wake => self.next_wake = None,
            Happening::Sample => self.sample(),
        }
        Ok(())
    }

    /// The pods that come now.
    fn arrivals(&mut self) -> Result<(), SimulationError> {
        let workload = self.setup.workload.clone();
        while workload.pods.get(self.next_arrival).is_some_and(|record| record.arrival <= self.now) {
            self.counts.arrived += 1;
            self.enqueue(self.next_arrival)?;
            self.next_arrival += 1;
        }
        Ok(())
    }

    /// Has the engine place what can be placed, up to a choice that somebody outside has to make.
    fn schedule(&mut self, decider: Decider) -> Result<(), SimulationError> {
        loop {
            self.observer.deciding();
            let asked = match decider {
                Decider::Policy => self.engine.next(self.now).map(Asked::Attempt),
                Decider::Outside => self.engine.ask(self.now),
            };
            match asked {
                None => return Ok(()),
                Some(Asked::Attempt(attempt)) => self.carry_out(attempt)?,
                Some(Asked::Choose(question)) => match question.nodes[..] {
                    [node] if self.setup.settings.skips_single_choices => {
                        let attempt = self.engine.answer(self.now, question, node);
                        self.carry_out(attempt)?;
                    }
                    _ => {
                        self.question = Some(question);
                        return Ok(());
                    }
                },
            }
        }
    }

    /// Does what an attempt of the engine asks for.
    fn carry_out(&mut self, attempt: Attempt) -> Result<(), SimulationError> {
        self.observer.decided(&attempt);
        match attempt {
            Attempt::Bind { reservation, binding, feasible, ties } => {
                let seen = Seen::Place { uid: &binding.uid, node: &binding.node, feasible, ties };
                self.observer.see(self.now, seen);
                self.start(reservation, &binding)
            }
            Attempt::Wait { pod, preemption: None, .. } => {
                self.observer.see(self.now, Seen::Wait { uid: &pod.uid });
                Ok(())
            }
            Attempt::Wait { pod, preemption: Some(eviction), .. } => self.preempt(&pod, &eviction),
            Attempt::Failed { pod, error } => {
                Err(SimulationError::Attempt { pod: pod.name, problem: error.to_string() })
            }
        }
    }

    /// Enters when time alone makes a waiting pod ready.
    fn plan_wake(&mut self) {
        if let Some(at) = self.engine.wake_at()
            && self.waiting > 0
            && self.next_wake.is_none_or(|planned| at < planned)
        {
            // Time must pass, or the run would never end.
            let at = at.max(self.now + Duration::from_millis(1));
            self.next_wake = Some(at);
            self.agenda.enter(at, Happening::Wake);
        }
    }

    fn world_changes(&mut self) {
        let world = self.setup.world.clone();
        self.set_intensities();
        self.usage_factor = world.usage.factor(self.now);
        let ways = self.ways_change();
        for machine in 0..self.machines.len() {
            self.latency_changes(machine, ways);
            self.carbon_changes(machine);
            self.refresh(machine);
        }
        self.calls_are_stale = true;
        if let Some(at) = world.next_change(self.now) {
            self.agenda.enter(at, Happening::World);
        }
    }

    /// Grams of carbon dioxide for a kilowatt-hour where a pool stands, now.
    fn intensity(&self, pool: &crate::fleet::Pool) -> Option<f64> {
        self.setup.world.carbon.as_ref()?.intensity(&pool.region, self.now)
    }

    /// Tells policies what electricity emits at a machine, if that changed.
    fn carbon_changes(&mut self, machine: usize) {
        let known = &self.machines[machine];
        let Some(node) = known.node else { return };
        let carbon = self.intensity(&self.setup.fleet.pools[known.pool]);
        if self.engine.state().telemetry.node(node).carbon != carbon {
            self.engine.scheduler().state.tell(node, |known| known.carbon = carbon);
        }
    }

    fn set_intensities(&mut self) {
        let Some(carbon) = &self.setup.world.carbon else { return };
        for (index, region) in self.regions.iter().enumerate() {
            self.meter.set_intensity(index, carbon.intensity(region, self.now).unwrap_or(0.0));
        }
    }

    /// Brings up to date what a machine contributes, and how fast its pods run.
    fn refresh(&mut self, machine: usize) {
        let by = Yardstick {
            world: &self.setup.world,
            usage_factor: self.usage_factor,
            mean_pod: self.mean_pod,
            expected: &self.expected,
        };
        let known = &mut self.machines[machine];
        let (contribution, speed) = known.judge(&self.setup.fleet.pools[known.pool], &by);
        self.meter.replace(known.region, &known.contribution, &contribution);
        known.contribution = contribution;
        let before = std::mem::replace(&mut known.speed, speed);
        if before != speed {
            self.change_speed(machine, before);
        }
    }

    fn sample(&mut self) {
        let series = &mut self.course.series;
        series.hours.push(self.now.as_secs_f64() / 3600.0);
        series.active_nodes.push(self.meter.active() as f64);
        series.kw.push(self.meter.kilowatts());
        series.running.push(self.running as f64);
        series.waiting.push(self.waiting as f64);
        if self.setup.world.latency.is_some() {
            series.latency_ms.push(self.latency.mean_ms().unwrap_or(0.0));
        }
        for (pods, machine) in series.pods_per_node.iter_mut().zip(&self.machines) {
            pods.push(machine.running.len() as u32);
        }
    }

    fn tell(&mut self, event: Event, name: impl FnOnce() -> String) -> Result<(), SimulationError> {
        self.engine.apply(self.now, event).map_err(|error| SimulationError::Refused { object: name(), error })
    }

    /// The figures.
    pub fn finish(mut self) -> Outcome {
        let mut measures = self.counts;
        self.meter.read(&mut measures);
        self.latency.read(self.now, &mut measures);
        if !self.setup.workload.calls.is_empty() && self.setup.world.latency.is_some() && measures.hours > 0.0 {
            measures.call_latency_ms = Some(self.call_hours / measures.hours);
        }
        if let Some(all) = &self.setup.world.clusters {
            measures.away_share = self.away.share();
            if all.has_prices() {
                measures.transfer_cost = Some(self.away.cost());
                measures.cost = Some(measures.cost.unwrap_or(0.0) + self.away.cost());
            }
        }
        let counted = self.setup.workload.pods.iter().zip(&self.pods);
        let counted = counted.filter(|(record, _)| record.arrival >= self.measured_from);
        for (record, pod) in counted {
            match pod.stage {
                Stage::Ahead => continue,
                Stage::Waiting => measures.waiting += 1,
                Stage::Running { .. } => measures.running += 1,
                Stage::Finished => measures.finished += 1,
                Stage::Rejected => measures.rejected += 1,
            }
            measures.placed += u64::from(pod.was_placed);
            if !pod.was_placed {
                let waited = if pod.stage == Stage::Rejected { Duration::MAX } else { self.now - record.arrival };
                self.course.never_started(waited.as_secs_f64());
            }
        }
        let checksum = self.course.checksum();
        let (series, waits) = self.course.finish(&mut measures);
        Outcome { measures, series, waits, checksum }
    }
}
