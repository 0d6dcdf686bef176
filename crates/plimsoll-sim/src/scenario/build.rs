//! From a scenario to what a run is made of.

use super::{Intensity, LatencyOverTime, PoolSpec, Scenario, Time};
use crate::error::InputError;
use crate::fleet::{Fleet, Machine, Pool, Price, Scaling};
use crate::simulation::{Disruption, Failures, Settings, Setup, taint};
use crate::workload::generate::SettingsError;
use crate::workload::select::SelectError;
use crate::workload::{Format, ReadOptions, Skipped, Workload, alibaba};
use crate::world::catalogue::{Catalogue, DEFAULT_PODS};
use crate::world::latency::LatencyTable;
use crate::world::power::{AlwaysAwake, Power, PowerCurve, SleepWhenEmpty};
use crate::world::price::ListPrices;
use crate::world::steps::Steps;
use crate::world::thermal::ShareOfFull;
use crate::world::usage::{AsRequested, Usage, Varied};
use crate::world::{World, carbon};
use plimsoll_core::config::Configuration;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// More machines of one kind are a slip of the pen.
const MOST_MACHINES: usize = 5_000_000;
/// As many devices a node can have in one slice.
const MOST_GPUS: u32 = 128;

/// Why a scenario cannot be run.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ScenarioError {
    /// A file cannot be used.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A generator cannot be used.
    #[error(transparent)]
    Generator(#[from] SettingsError),
    /// What is to be taken of the workload cannot be.
    #[error("select: {0}")]
    Select(#[from] SelectError),
    /// Something does not make sense.
    #[error("{place}: {problem}")]
    Nonsense {
        /// Where in the scenario.
        place: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
}

impl ScenarioError {
    pub(super) fn at(place: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Nonsense { place: place.into(), problem: problem.into() }
    }
}

/// A recorded workload before anything is taken of it, or none where one is made up for each seed.
#[derive(Debug, Clone)]
pub struct Trace {
    /// The workload.
    pub workload: Option<Workload>,
    /// What was skipped while it was read.
    pub skipped: Skipped,
}

/// All that a run needs.
pub struct Prepared {
    /// The pods.
    pub workload: Workload,
    /// The machines.
    pub fleet: Fleet,
    /// The models.
    pub world: World,
    /// How it goes.
    pub settings: Settings,
}

impl Prepared {
    /// What a run is made of.
    pub fn setup(&self) -> Setup<'_> {
        Setup { workload: &self.workload, fleet: &self.fleet, world: &self.world, settings: &self.settings }
    }
}

impl Scenario {
    /// Reads the recorded workload, if there is one: once, for all seeds.
    pub fn trace(&self, fleet: &Fleet) -> Result<Trace, ScenarioError> {
        let source = &self.workload;
        match (&source.file, &source.generate) {
            (Some(_), Some(_)) => Err(ScenarioError::at("workload", "file and generate exclude each other")),
            (None, None) => Err(ScenarioError::at("workload", "name a file, or a generator under workload.generate")),
            (None, Some(_)) => Ok(Trace { workload: None, skipped: Skipped::default() }),
            (Some(file), None) => {
                let path = self.folder.join(file);
                let format = match &source.format {
                    Some(name) => name.parse().map_err(|problem| ScenarioError::at("workload.format", problem))?,
                    None => Format::detect(&path)?,
                };
                let options = ReadOptions { lenient: source.lenient };
                let (workload, skipped) = crate::workload::read(&path, format, Some(fleet), options)?;
                Ok(Trace { workload: Some(workload), skipped })
            }
        }
    }

    /// The pods of a seed.
    pub fn pods(&self, trace: &Trace, seed: u64) -> Result<Workload, ScenarioError> {
        let whole = match (&trace.workload, &self.workload.generate) {
            (Some(workload), _) => workload.clone(),
            (None, Some(generator)) => generator.generate(seed)?,
            (None, None) => return Err(ScenarioError::at("workload", "name a file, or a generator")),
        };
        let mut workload = self.select.apply(whole, seed)?;
        if let Some(pace) = self.workload.pace {
            if !(pace.is_finite() && pace > 0.0) {
                return Err(ScenarioError::at("workload.pace", format!("{pace} pods a second is no pace")));
            }
            for (number, pod) in workload.pods.iter_mut().enumerate() {
                let arrival = Duration::try_from_secs_f64(number as f64 / pace);
                pod.arrival = arrival
                    .map_err(|_| ScenarioError::at("workload.pace", format!("{pace} pods a second is too slow")))?;
            }
        }
        Ok(workload)
    }

    /// The machines.
    pub fn fleet(&self) -> Result<Fleet, ScenarioError> {
        if self.pool.is_empty() && self.machines.is_none() {
            return Err(ScenarioError::at("pool", "there is none; say which machines there are with [[pool]]"));
        }
        let listed = match &self.machines {
            Some(file) => alibaba::read_nodes(&self.folder.join(file), ReadOptions::STRICT)?.0.pools,
            None => Vec::new(),
        };
        let catalogue = self.catalogue.as_ref().map(|file| Catalogue::read(&self.folder.join(file))).transpose()?;
        let mut names: BTreeSet<_> = listed.iter().map(|pool| pool.name.clone()).collect();
        let pools = self.pool.iter().map(|spec| {
            if !names.insert(spec.name.clone()) {
                return Err(ScenarioError::at(format!("pool {}", spec.name), "there is another pool of this name"));
            }
            pool(spec, catalogue.as_ref())
        });
        let pools = pools.collect::<Result<Vec<_>, _>>()?;
        Ok(Fleet { pools: listed.into_iter().chain(pools).collect() })
    }

    /// The models.
    pub fn world(&self, seed: u64) -> Result<World, ScenarioError> {
        let power: Box<dyn Power> = match self.power {
            spec if !spec.sleep => Box::new(AlwaysAwake),
            spec => Box::new(SleepWhenEmpty {
                after: spec.sleep_after.0,
                sleep_watts: not_negative("power.sleep_watts", spec.sleep_watts)?,
                boot_delay: spec.boot_delay.0,
                boot_watts: spec.boot_watts.map(|watts| not_negative("power.boot_watts", watts)).transpose()?,
            }),
        };
        let usage: Box<dyn Usage> = match self.usage {
            None => Box::new(AsRequested),
            Some(spec) => {
                let (least, most) = (not_negative("usage.least", spec.least)?, not_negative("usage.most", spec.most)?);
                if least > most {
                    return Err(ScenarioError::at("usage", format!("least {least} is more than most {most}")));
                }
                let daily_swing = not_negative("usage.daily_swing", spec.daily_swing)?;
                Box::new(Varied { least, most, daily_swing, contends: spec.contention, seed })
            }
        };
        let has_prices = self.pool.iter().any(|pool| pool.price.is_some() || pool.spot_price.is_some());
        Ok(World {
            power,
            carbon: self.carbon()?.map(|model| Box::new(model) as Box<dyn carbon::Carbon>),
            price: has_prices.then(|| Box::new(ListPrices) as _),
            latency: self.latency()?.map(|table| Box::new(table) as _),
            usage,
            thermal: match self.thermal {
                None => None,
                Some(spec) => {
                    let share = positive("thermal.limit", spec.limit)?;
                    Some(Box::new(ShareOfFull { share, throttles: spec.throttles }))
                }
            },
            clusters: self.clusters(seed)?,
        })
    }

    fn carbon(&self) -> Result<Option<carbon::RecordedIntensity>, ScenarioError> {
        let Some(spec) = &self.carbon else { return Ok(None) };
        let mut model = carbon::RecordedIntensity::default();
        for (region, intensity) in &spec.regions {
            let steps = match intensity {
                Intensity::Constant(grams) => {
                    Steps::constant(not_negative(&format!("carbon.regions.{region}"), *grams)?)
                }
                Intensity::Recorded(file) => carbon::read(&self.folder.join(file), spec.start.0)?,
            };
            model.regions.insert(region.clone(), steps);
        }
        Ok(Some(model))
    }

    fn latency(&self) -> Result<Option<LatencyTable>, ScenarioError> {
        let Some(spec) = &self.latency else {
            // Where only the ways between clusters are known, they are all that is felt.
            let near = LatencyTable { elsewhere_ms: 0.0, ..LatencyTable::default() };
            return Ok((!self.cluster.is_empty()).then_some(near));
        };
        let mut table = LatencyTable::default();
        let steps = |place: &str, given: &LatencyOverTime| repeated(place, given, spec.repeat);
        if let Some(ms) = spec.elsewhere {
            table.elsewhere_ms = not_negative("latency.elsewhere", ms)?;
        }
        let between = [
            (&mut table.same_node, &spec.same_node, "same_node"),
            (&mut table.same_zone, &spec.same_zone, "same_zone"),
            (&mut table.same_region, &spec.same_region, "same_region"),
            (&mut table.across, &spec.across, "across"),
        ];
        for (slot, given, name) in between {
            if let Some(given) = given {
                *slot = steps(&format!("latency.{name}"), given)?;
            }
        }
        for (name, given) in &spec.to_user {
            table.to_user.insert(name.clone(), steps(&format!("latency.to_user.{name}"), given)?);
        }
        Ok(Some(table))
    }

    /// How a run goes.
    pub fn settings(&self, seed: u64) -> Result<Settings, ScenarioError> {
        let configuration = match &self.run.configuration {
            None => Configuration::default(),
            Some(file) => {
                let path = self.folder.join(file);
                let text = std::fs::read_to_string(&path)
                    .map_err(|error| InputError::new(&path, format!("cannot be read: {error}")))?;
                let mut configuration = Configuration::parse(&path.display().to_string(), &text)
                    .map_err(|errors| InputError::new(&path, errors))?;
                // There is nobody to ask.
                configuration.leave_out_extenders();
                configuration
            }
        };
        if !(0.0..1.0).contains(&self.run.warmup) {
            let problem = format!("{} is no share; at least 0 and less than 1", self.run.warmup);
            return Err(ScenarioError::at("run.warmup", problem));
        }
        // Who runs the scenario may know policies of its own: models, by their folders, and those that weigh objectives.
        let is_others = |name: &str| name.contains(std::path::MAIN_SEPARATOR) || name.starts_with("multi-objective");
        let is_known = |name: &str| is_others(name) || plimsoll_core::policy::by_name(name).is_some();
        if let Some(name) = self.run.policies.iter().find(|name| !is_known(name)) {
            let problem = format!("there is no policy {name:?}; `plimsoll policies` lists those there are");
            return Err(ScenarioError::at("run.policies", problem));
        }
        let disruption = |spec: &super::DisruptionSpec| Disruption {
            at: spec.at.0,
            pool: spec.pool.clone(),
            count: spec.count,
            kind: spec.kind,
        };
        if self.failures.is_some_and(|spec| spec.every.0 < Duration::from_secs(1)) {
            return Err(ScenarioError::at("failures.every", "a machine cannot fail more often than every second"));
        }
        Ok(Settings {
            seed,
            configuration,
            warmup: self.run.warmup,
            horizon: self.run.horizon.map(|time| time.0),
            max_wait: self.run.max_wait.map(|time| time.0),
            lookahead: self.run.lookahead,
            disruptions: self.disruption.iter().map(disruption).collect(),
            failures: self.failures.map(|spec| Failures { every: spec.every.0, repair: spec.repair.0 }),
            ..Settings::default()
        })
    }

    /// All that a run with this seed needs.
    pub fn prepare(&self, trace: &Trace, seed: u64) -> Result<Prepared, ScenarioError> {
        let fleet = self.fleet()?;
        self.check_names(&fleet)?;
        let (workload, settings) = (self.pods(trace, seed)?, self.settings(seed)?);
        let prepared = Prepared { workload, fleet, world: self.world(seed)?, settings };
        if prepared.setup().measured().1.is_zero() {
            let problem = "all pods arrive at one time, so that there is no time to measure; say when the run ends";
            return Err(ScenarioError::at("run.horizon", problem));
        }
        Ok(prepared)
    }

    /// Pools and regions that are named must be there.
    fn check_names(&self, fleet: &Fleet) -> Result<(), ScenarioError> {
        let names = |names: Vec<&str>| names.join(", ");
        for spec in &self.disruption {
            if !fleet.pools.iter().any(|pool| pool.name == spec.pool) {
                let pools = names(fleet.pools.iter().map(|pool| pool.name.as_str()).collect());
                let problem = format!("there is no pool {:?}; there are {pools}", spec.pool);
                return Err(ScenarioError::at("disruption", problem));
            }
        }
        self.check_clusters(fleet)?;
        let Some(carbon) = &self.carbon else { return Ok(()) };
        if let Some(pool) = fleet.pools.iter().find(|pool| !carbon.regions.contains_key(&pool.region)) {
            let known = names(carbon.regions.keys().map(String::as_str).collect());
            let problem = format!("there is no region {:?} in carbon.regions; there are {known}", pool.region);
            return Err(ScenarioError::at(format!("pool {}", pool.name), problem));
        }
        Ok(())
    }
}

fn positive(place: &str, number: f64) -> Result<f64, ScenarioError> {
    if number.is_finite() && number > 0.0 {
        return Ok(number);
    }
    Err(ScenarioError::at(place, format!("{number} makes no sense; more than zero is right")))
}

pub(super) fn latency_steps(place: &str, given: &LatencyOverTime) -> Result<Steps, ScenarioError> {
    match given {
        LatencyOverTime::Constant(ms) => Ok(Steps::constant(not_negative(place, *ms)?)),
        LatencyOverTime::Changing(steps) => {
            let step = |step: &super::LatencyStep| Ok((step.at.0, not_negative(place, step.ms)?));
            Ok(Steps::new(steps.iter().map(step).collect::<Result<_, ScenarioError>>()?))
        }
    }
}

/// Latencies that come again, where they do.
fn repeated(place: &str, given: &LatencyOverTime, repeat: Option<Time>) -> Result<Steps, ScenarioError> {
    let steps = latency_steps(place, given)?;
    let Some(Time(every)) = repeat else { return Ok(steps) };
    if every.is_zero() {
        return Err(ScenarioError::at(
            "latency.repeat",
            "0 makes no sense; say after how long changes come again, such as \"24h\"",
        ));
    }
    if let LatencyOverTime::Changing(given) = given
        && let Some(late) = given.iter().find(|step| step.at.0 >= every)
    {
        let (at, every) = (late.at.0.as_secs(), every.as_secs());
        let problem =
            format!("a change after {at} s never comes, for all begins anew after {every} s (latency.repeat)");
        return Err(ScenarioError::at(place, problem));
    }
    Ok(steps.repeating(every))
}

pub(super) fn not_negative(place: &str, number: f64) -> Result<f64, ScenarioError> {
    if number.is_finite() && number >= 0.0 {
        return Ok(number);
    }
    Err(ScenarioError::at(place, format!("{number} makes no sense; zero or more is right")))
}

fn pool(spec: &PoolSpec, catalogue: Option<&Catalogue>) -> Result<Pool, ScenarioError> {
    let place = format!("pool {}", spec.name);
    let error = |problem: &str| ScenarioError::at(&place, problem);
    let known = match (&spec.machine, catalogue) {
        (Some(name), Some(catalogue)) => Some(catalogue.find(name)?.clone()),
        (None, _) => None,
        (Some(_), None) if spec.watts.is_some() || spec.idle_watts.is_some() || spec.full_watts.is_some() => None,
        (Some(_), None) => return Err(error("machine names one of the catalogue, but no catalogue is given")),
    };
    let amount = |given: Option<i64>, of: fn(&Machine) -> i64, name: &str| {
        given.or_else(|| known.as_ref().map(of)).filter(|amount| *amount > 0).ok_or_else(|| {
            error(&format!("{name} is missing; say how much a machine has, or name a machine of the catalogue"))
        })
    };
    let power = match (spec.watts, spec.idle_watts, spec.full_watts) {
        (Some(watts), None, None) => Some(PowerCurve::new(watts).ok_or_else(|| error("watts make no curve"))?),
        (None, Some(idle), Some(full)) => {
            Some(PowerCurve::straight(idle, full).ok_or_else(|| error("idle_watts and full_watts make no curve"))?)
        }
        (None, None, None) => None,
        _ => return Err(error("say either watts, or both idle_watts and full_watts")),
    };
    let power = power.map(Arc::new).or_else(|| known.as_ref().map(|machine| Arc::clone(&machine.power)));
    for (name, price) in [("price", spec.price), ("spot_price", spec.spot_price)] {
        price.map(|price| not_negative(&format!("{place}: {name}"), price)).transpose()?;
    }
    let most = spec.scaling.map_or(spec.count, |scaling| scaling.max.max(spec.count));
    if most > MOST_MACHINES {
        return Err(error(&format!("{most} machines are more than the {MOST_MACHINES} that can be simulated")));
    }
    if spec.scaling.is_some_and(|scaling| scaling.min > scaling.max) {
        return Err(error("scaling.min is more than scaling.max"));
    }
    if spec.gpus > MOST_GPUS {
        return Err(error(&format!("a machine with more than {MOST_GPUS} GPUs cannot be simulated")));
    }
    if spec.pods.is_some_and(|pods| pods <= 0) {
        return Err(error("pods must be more than zero"));
    }
    for text in &spec.taints {
        if taint(text).is_none() {
            return Err(error(&format!("taint {text:?} is not of the form key=value:NoSchedule")));
        }
    }
    let machine = Machine {
        name: spec.machine.clone().unwrap_or_else(|| spec.name.clone()),
        cpu_milli: amount(spec.cpu.as_ref().map(|cpu| cpu.0.milli_value()), |machine| machine.cpu_milli, "cpu")?,
        memory: amount(spec.memory.as_ref().map(|memory| memory.0.value()), |machine| machine.memory, "memory")?,
        pods: spec.pods.unwrap_or(DEFAULT_PODS),
        gpus: (spec.gpus > 0).then(|| (spec.gpus, spec.gpu_model.clone())),
        power: power.ok_or_else(|| error("its watts are not known; say watts, or idle_watts and full_watts"))?,
        price: (spec.price.or(spec.spot_price))
            .map(|price| Price { on_demand: spec.price.unwrap_or(price), spot: spec.spot_price.unwrap_or(price) }),
    };
    Ok(Pool {
        name: spec.name.clone(),
        machine,
        count: spec.scaling.map_or(spec.count, |scaling| scaling.min.max(spec.count)),
        zones: spec.zones.clone(),
        region: spec.region.clone(),
        cluster: spec.cluster.clone(),
        spot: spec.spot,
        labels: spec.labels.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
        taints: spec.taints.clone(),
        scaling: spec.scaling.map(|scaling| Scaling {
            min: scaling.min,
            max: scaling.max,
            boot_delay: scaling.boot_delay.0,
            idle_after: scaling.idle_after.0,
        }),
    })
}
