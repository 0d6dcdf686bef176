//! Many runs: policies × windows × seeds, each case the same pods for every policy, on all cores, and resumable.

use crate::bounds::{self, BoundSeries, Demand, ExactError, Stay};
use crate::checksum;
use crate::measures::{Bounds, Row, Run};
use crate::report::CaseBound;
use crate::scenario::{Prepared, Scenario, ScenarioError, Trace};
use crate::simulation::{self, Observer, SimulationError};
use crate::workload::select::Window;
use crate::workload::{Skipped, Workload};
use plimsoll_core::policy::{self, Policy};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Why a comparison cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// The scenario cannot be run.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A run cannot be made.
    #[error("policy {policy}: {error}")]
    Simulation {
        /// The policy.
        policy: String,
        /// Why.
        error: Box<SimulationError>,
    },
    /// There is no such policy.
    #[error("there is no policy {0:?}; `plimsoll policies` lists those there are")]
    UnknownPolicy(String),
    /// A policy cannot be made.
    #[error("policy {policy}: {problem}")]
    Policy {
        /// Its name.
        policy: String,
        /// Why.
        problem: String,
    },
    /// Results cannot be kept.
    #[error("results cannot be kept: {0}")]
    Store(#[from] std::io::Error),
}

/// Makes the policy of a name, for one run.
pub type Make<'a> = &'a (dyn Fn(&str) -> Result<Box<dyn Policy>, CompareError> + Sync);

/// Makes the engine's policies.
pub fn by_name(name: &str) -> Result<Box<dyn Policy>, CompareError> {
    policy::by_name(name).ok_or_else(|| CompareError::UnknownPolicy(name.to_owned()))
}

/// Which pods: a window of the workload, and a seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    /// The window; as the scenario has it if not given.
    pub window: Option<Window>,
    /// The seed.
    pub seed: u64,
}

/// What is to be run.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The policies.
    pub policies: Vec<String>,
    /// The cases.
    pub cases: Vec<Case>,
}

impl Plan {
    /// Every policy on every window with every seed.
    pub fn new(policies: Vec<String>, windows: &[Window], seeds: &[u64]) -> Self {
        let windows: Vec<_> = if windows.is_empty() { vec![None] } else { windows.iter().copied().map(Some).collect() };
        let cases = windows.into_iter().flat_map(|window| seeds.iter().map(move |&seed| Case { window, seed }));
        Self { policies, cases: cases.collect() }
    }

    /// How many runs that is.
    pub fn len(&self) -> usize {
        self.policies.len() * self.cases.len()
    }

    /// Whether there is nothing to run.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A case with all that its runs share.
pub struct PreparedCase {
    /// What runs are made of.
    pub prepared: Prepared,
    /// What no policy can beat, over time.
    pub bound: BoundSeries,
    settings: bounds::Settings,
    scenario: String,
    window: String,
    seed: u64,
}

impl PreparedCase {
    /// Prepares a case of a scenario.
    pub fn new(scenario: &Scenario, trace: &Trace, case: Case) -> Result<Self, CompareError> {
        let mut scenario = scenario.clone();
        if case.window.is_some() {
            scenario.select.window = case.window;
        }
        let prepared = scenario.prepare(trace, case.seed)?;
        let window = scenario.select.window.map_or_else(|| "all".to_owned(), |window| window.to_string());
        // A machine that never sleeps draws at least what its curve has lowest.
        let sleep_watts = if scenario.power.sleep { scenario.power.sleep_watts } else { f64::INFINITY };
        let settings = bounds::Settings { sleep_watts, ..bounds::Settings::default() };
        let bound = bound(&prepared, &settings);
        Ok(Self { prepared, bound, settings, scenario: scenario.name, window, seed: case.seed })
    }

    /// Runs a policy on it, under this name.
    pub fn run(&self, name: &str, policy: Box<dyn Policy>, observer: &mut dyn Observer) -> Result<Run, CompareError> {
        let settings = simulation::Settings {
            // Only the reference may know what no scheduler can.
            tells_lifetimes: name == "lifetime-aware",
            ..self.prepared.settings.clone()
        };
        let setup = simulation::Setup { settings: &settings, ..self.prepared.setup() };
        let outcome = simulation::run(setup, policy, observer)
            .map_err(|error| CompareError::Simulation { policy: name.to_owned(), error: Box::new(error) })?;
        let bounds = self.bound.mean();
        let ratio = |figure: f64, bound: f64| if bound > 0.0 { figure / bound } else { 1.0 };
        let row = Row {
            scenario: self.scenario.clone(),
            policy: name.to_owned(),
            window: self.window.clone(),
            seed: self.seed,
            active_nodes_ratio: ratio(outcome.measures.active_nodes, bounds.active_nodes),
            kw_ratio: ratio(outcome.measures.mean_kw, bounds.mean_kw),
            measures: outcome.measures,
            bounds,
            placements_checksum: outcome.checksum,
        };
        Ok(Run { row, series: outcome.series })
    }

    /// What the best possible assignment of whole pods reaches, searched for so long; for windows of a few pods.
    pub fn exact(&self, time: Duration) -> Result<Bounds, ExactError> {
        let (from, to) = self.prepared.setup().measured();
        let settings = bounds::Settings { exact_time: time, ..self.settings };
        let asked = stays(&self.prepared.workload, self.seed, to);
        let mut exact = bounds::exact(&asked, &self.prepared.fleet, from, to, &settings)?;
        let usage = &self.prepared.world.usage;
        if !usage.is_as_requested() {
            let steps = (from.as_secs()..=to.as_secs()).step_by(300).map(Duration::from_secs);
            let least = steps.map(|at| usage.factor(at)).fold(f64::INFINITY, f64::min);
            let used = used_stays(&self.prepared, &asked, least);
            exact.mean_kw = bounds::exact(&used, &self.prepared.fleet, from, to, &settings)?.mean_kw;
        }
        Ok(exact)
    }

    /// The bound, as a report draws it.
    pub fn case_bound(&self) -> CaseBound {
        CaseBound {
            scenario: self.scenario.clone(),
            window: self.window.clone(),
            seed: self.seed,
            series: self.bound.clone(),
        }
    }
}

/// When pods come and go if none of them waits.
pub fn stays(workload: &Workload, seed: u64, end: Duration) -> Vec<Stay> {
    let lifetimes = simulation::lifetimes(workload, seed);
    let pods = workload.pods.iter().zip(lifetimes).filter_map(|(pod, lifetime)| {
        let template = workload.templates.get(pod.template as usize)?;
        Some(Stay {
            arrival: pod.arrival,
            end: lifetime.map_or(end, |lifetime| pod.arrival.saturating_add(lifetime)),
            cpu_milli: template.cpu_milli,
            memory: template.memory,
            gpu_milli: template.gpu.as_ref().map_or(0, |gpu| i64::from(gpu.count) * i64::from(gpu.milli)),
        })
    });
    pods.collect()
}

/// What no policy can beat: machines by what pods ask for, power by what they use.
fn bound(prepared: &Prepared, settings: &bounds::Settings) -> BoundSeries {
    let (from, to) = prepared.setup().measured();
    let asked = stays(&prepared.workload, prepared.settings.seed, to);
    let demand = Demand::new(&asked, &prepared.fleet, from, to, settings.step);
    let mut bound = bounds::fluid_over_time(&demand, &prepared.fleet, settings);
    let usage = &prepared.world.usage;
    if !usage.is_as_requested() {
        let mut used = Demand::new(&used_stays(prepared, &asked, 1.0), &prepared.fleet, from, to, settings.step);
        used.scale_cpu(|from, to| usage.factor(from).min(usage.factor(to)));
        bound.kw = bounds::fluid_over_time(&used, &prepared.fleet, settings).kw;
    }
    bound
}

/// Stays by what pods use, times a factor; of pods that fit on some machine. Rounded down, so that a bound stays one.
fn used_stays(prepared: &Prepared, asked: &[Stay], factor: f64) -> Vec<Stay> {
    let fits = |stay: &Stay| {
        let mut kinds = prepared.fleet.pools.iter().map(|pool| &pool.machine);
        kinds.any(|machine| stay.cpu_milli <= machine.cpu_milli && stay.memory <= machine.memory)
    };
    let used = |(number, stay): (usize, &Stay)| {
        let share = prepared.world.usage.share(number, prepared.workload.pods[number].usage);
        Stay { cpu_milli: (stay.cpu_milli as f64 * share * factor) as i64, ..*stay }
    };
    asked.iter().enumerate().filter(|(_, stay)| fits(stay)).map(used).collect()
}

/// Runs that were made before, and where new ones are kept.
pub struct Store {
    known: BTreeMap<String, Run>,
    file: Option<Mutex<std::fs::File>>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    key: String,
    run: Run,
}

impl Store {
    /// Keeps nothing.
    pub fn none() -> Self {
        Self { known: BTreeMap::new(), file: None }
    }

    /// Keeps runs in a file, one JSON object a line; those that are there need not be made again. A line that was cut off by
    /// an interruption is made again.
    pub fn open(path: &std::path::Path) -> std::io::Result<Self> {
        let mut known = BTreeMap::new();
        let mut whole = true;
        if path.exists() {
            for line in std::io::BufReader::new(std::fs::File::open(path)?).lines() {
                let line = line?;
                match serde_json::from_str::<Line>(&line) {
                    Ok(line) => drop(known.insert(line.key, line.run)),
                    Err(_) => whole = false,
                }
            }
        }
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
        if !whole {
            // What was cut off must not swallow the next line.
            writeln!(file)?;
        }
        Ok(Self { known, file: Some(Mutex::new(file)) })
    }

    fn keep(&self, key: String, run: &Run) -> std::io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let line = serde_json::to_string(&Line { key, run: run.clone() }).map_err(std::io::Error::other)?;
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(file, "{line}")?;
        file.flush()
    }
}

/// What came of a comparison.
#[derive(Debug)]
pub struct Comparison {
    /// The runs: case by case, in each the policies in their order.
    pub runs: Vec<Run>,
    /// The bounds of the cases.
    pub bounds: Vec<CaseBound>,
    /// How many runs were known before.
    pub resumed: usize,
    /// What was skipped of the workload while it was read.
    pub skipped: Skipped,
}

/// Makes all runs of a plan, `threads` at a time, with policies by `make`. `done` hears of each run that is finished, with how many are.
pub fn compare(
    scenario: &Scenario,
    plan: &Plan,
    make: Make<'_>,
    threads: usize,
    store: &Store,
    done: &(dyn Fn(usize, &Row) + Sync),
) -> Result<Comparison, CompareError> {
    // What cannot be made is said before anything is run.
    plan.policies.iter().try_for_each(|policy| make(policy).map(drop))?;
    let fleet = scenario.fleet()?;
    let trace = scenario.trace(&fleet)?;
    let identity = identity(scenario);
    let (finished, resumed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let threads = threads.max(1);
    let cases_at_once = threads.min(plan.cases.len().max(1));
    // A case's pods and bound are shared by all its runs, which are made side by side where cases are fewer than threads.
    let policies_at_once = (threads / cases_at_once).max(1);
    let cases = side_by_side(&plan.cases, cases_at_once, &|&case| {
        let prepared = PreparedCase::new(scenario, &trace, case)?;
        let runs = side_by_side(&plan.policies, policies_at_once, &|policy| {
            let key = format!("{identity}/{}/{}/{}", prepared.window, case.seed, policy_identity(policy));
            let run = match store.known.get(&key) {
                Some(run) => {
                    resumed.fetch_add(1, Ordering::Relaxed);
                    run.clone()
                }
                None => {
                    let run = prepared.run(policy, make(policy)?, &mut simulation::Nobody)?;
                    store.keep(key, &run)?;
                    run
                }
            };
            done(finished.fetch_add(1, Ordering::Relaxed) + 1, &run.row);
            Ok(run)
        })?;
        Ok((runs, prepared.case_bound()))
    })?;
    let mut comparison =
        Comparison { runs: Vec::new(), bounds: Vec::new(), resumed: resumed.into_inner(), skipped: trace.skipped };
    for (runs, bound) in cases {
        comparison.runs.extend(runs);
        comparison.bounds.push(bound);
    }
    Ok(comparison)
}

/// Does something for each item on several threads; the results are in the order of the items, the first error ends it.
fn side_by_side<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    each: &(dyn Fn(&T) -> Result<R, CompareError> + Sync),
) -> Result<Vec<R>, CompareError> {
    if threads <= 1 {
        return items.iter().map(each).collect();
    }
    let next = AtomicUsize::new(0);
    let results: Mutex<BTreeMap<usize, Result<R, CompareError>>> = Mutex::default();
    let work = || {
        while let at = next.fetch_add(1, Ordering::Relaxed)
            && let Some(item) = items.get(at)
        {
            let result = each(item);
            if result.is_err() {
                // Nobody needs the rest.
                next.store(items.len(), Ordering::Relaxed);
            }
            results.lock().unwrap_or_else(PoisonError::into_inner).insert(at, result);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.min(items.len()) {
            scope.spawn(work);
        }
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
}

/// A policy's name; of one that lies in a folder, when its files were written, too.
fn policy_identity(policy: &str) -> String {
    let Ok(folder) = std::fs::read_dir(policy) else { return policy.to_owned() };
    let mut files: Vec<_> = folder
        .flatten()
        .map(|file| {
            let known = file.metadata().ok().filter(std::fs::Metadata::is_file);
            format!("{:?}{:?}", file.file_name(), known.map(|known| (known.len(), known.modified().ok())))
        })
        .collect();
    files.sort();
    format!("{policy}@{:016x}", checksum::fold(checksum::START, files.concat().bytes()))
}

/// What a run depends on, beside policy, window and seed: the scenario, the files it names, and the version. Results of
/// another are not taken for its own.
fn identity(scenario: &Scenario) -> String {
    let run = crate::scenario::RunSpec { policies: Vec::new(), seeds: Vec::new(), ..scenario.run.clone() };
    let plain = Scenario { run, learn: None, ..scenario.clone() };
    let mut text = serde_json::to_string(&plain).unwrap_or_default() + env!("CARGO_PKG_VERSION");
    for file in scenario.files() {
        let known = std::fs::metadata(&file).ok();
        let changed = known.as_ref().and_then(|known| known.modified().ok());
        text.push_str(&format!("{}{:?}{changed:?}", file.display(), known.map(|known| known.len())));
    }
    format!("{:016x}", checksum::fold(checksum::START, text.bytes()))
}
