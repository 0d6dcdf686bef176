//! What policies come to: simulations, comparisons, evaluations, bounds. Each does what the command of its name does, and answers with the same JSON.

use crate::errors;
use crate::scenario::Scenario;
use plimsoll_core::policy::{self, Policy};
use plimsoll_learn::error::LearnError;
use plimsoll_learn::evaluate::{self as evaluation, Contender, Evaluation, Make, Role};
use plimsoll_learn::policy::MultiObjective;
use plimsoll_learn::spec::Objective;
use plimsoll_learn::variables::environment;
use plimsoll_learn::{models, workshop};
use plimsoll_sim::compare::{self as comparison, Case, CompareError, Plan, PreparedCase, Store};
use plimsoll_sim::measures::Row;
use plimsoll_sim::report::{self, Report, catalogue, statistics};
use plimsoll_sim::simulation::{Nobody, Timeline};
use pyo3::prelude::*;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The version of results, as the command line prints them.
const RESULTS: &str = "plimsoll.dev/results/v1";

/// The policy of a name, or of the model in a folder.
pub fn policy_of(text: &str) -> Result<Box<dyn Policy>, CompareError> {
    let failed = |error: LearnError| CompareError::Policy { policy: text.to_owned(), problem: error.to_string() };
    if Path::new(text).is_dir() {
        return workshop::load(Path::new(text)).map_err(failed);
    }
    match MultiObjective::named(text, &environment) {
        Some(policy) => Ok(Box::new(policy.map_err(failed)?)),
        None => comparison::by_name(text),
    }
}

fn case(scenario: &Scenario, seed: Option<u64>) -> PyResult<(PreparedCase, u64)> {
    let scenario = &scenario.inner;
    let seed = seed.or(scenario.run.seeds.first().copied()).unwrap_or(1);
    let fleet = scenario.fleet().map_err(|error| errors::scenario(&error))?;
    let trace = scenario.trace(&fleet).map_err(|error| errors::scenario(&error))?;
    let case =
        PreparedCase::new(scenario, &trace, Case { window: None, seed }).map_err(|error| errors::compare(&error))?;
    Ok((case, seed))
}

fn file(path: &Path) -> PyResult<File> {
    File::create(path).map_err(|error| errors::learn(LearnError::File { path: path.to_owned(), error }))
}

fn write(path: &Path, text: &str) -> PyResult<()> {
    std::fs::write(path, text).map_err(|error| errors::learn(LearnError::File { path: path.to_owned(), error }))
}

/// Runs one policy on a scenario.
#[pyfunction]
#[pyo3(signature = (scenario, policy, seed, timeline, report))]
pub fn simulate(
    py: Python<'_>,
    scenario: &Scenario,
    policy: Option<String>,
    seed: Option<u64>,
    timeline: Option<PathBuf>,
    report: Option<PathBuf>,
) -> PyResult<String> {
    py.detach(|| {
        let first = scenario.inner.run.policies.first().cloned();
        let policy = policy.or(first).unwrap_or_else(|| "default".into());
        let chosen = policy_of(&policy).map_err(|error| errors::compare(&error))?;
        let (case, _) = case(scenario, seed)?;
        let run = match timeline {
            None => case.run(&policy, chosen, &mut Nobody).map_err(|error| errors::compare(&error))?,
            Some(path) => {
                let mut timeline = Timeline::new(BufWriter::new(file(&path)?));
                let run = case.run(&policy, chosen, &mut timeline).map_err(|error| errors::compare(&error))?;
                timeline.finish().map_err(|error| errors::learn(LearnError::File { path, error }))?;
                run
            }
        };
        if let Some(path) = report {
            let (title, bounds) = (format!("{}: {policy}", scenario.inner.name), [case.case_bound()]);
            let runs = std::slice::from_ref(&run);
            write(&path, &report::html(&Report { title: &title, runs, baseline: None, bounds: &bounds }))?;
        }
        errors::json(&run.row)
    })
}

/// Runs policies on the same pods. Beside the rows of results, says how each policy differs from the first by a measure.
#[pyfunction]
#[pyo3(signature = (scenario, policies, seeds, windows, measure, threads, report))]
#[expect(clippy::too_many_arguments, reason = "the package gives them by name")]
pub fn compare(
    py: Python<'_>,
    scenario: &Scenario,
    policies: Vec<String>,
    seeds: Vec<u64>,
    windows: Vec<String>,
    measure: &str,
    threads: Option<usize>,
    report: Option<PathBuf>,
) -> PyResult<String> {
    py.detach(|| {
        let Some(entry) = catalogue::entry(measure) else {
            let entries = catalogue::entries();
            return Err(errors::learn(LearnError::unknown("measure", measure, entries.iter().map(|entry| entry.key))));
        };
        let own = &scenario.inner;
        let policies = if policies.is_empty() { own.run.policies.clone() } else { policies };
        let Some(first) = policies.first().cloned() else {
            return Err(errors::invalid("name the policies that are compared; the scenario names none"));
        };
        let seeds = match (seeds.is_empty(), own.run.seeds.is_empty()) {
            (false, _) => seeds,
            (true, false) => own.run.seeds.clone(),
            (true, true) => vec![1],
        };
        let windows = windows.iter().map(|window| window.parse().map_err(errors::invalid));
        let plan = Plan::new(policies, &windows.collect::<PyResult<Vec<_>>>()?, &seeds);
        let threads = threads.or_else(|| std::thread::available_parallelism().ok().map(usize::from)).unwrap_or(1);
        let found = comparison::compare(own, &plan, &policy_of, threads, &Store::none(), &|_, _| ());
        let found = found.map_err(|error| errors::compare(&error))?;
        if let Some(path) = report {
            let (runs, bounds) = (&found.runs, &found.bounds);
            write(&path, &report::html(&Report { title: &own.name, runs, baseline: Some(&first), bounds }))?;
        }
        let rows: Vec<&Row> = found.runs.iter().map(|run| &run.row).collect();
        let of = |policy: &str| -> Vec<Option<f64>> {
            let rows = rows.iter().filter(|row| row.policy == policy);
            rows.map(|row| catalogue::values(row, std::slice::from_ref(&entry)).pop().flatten()).collect()
        };
        let baseline = of(&first);
        let difference = |policy: &String| {
            let pairs: Option<Vec<_>> = baseline.iter().zip(of(policy)).map(|(a, b)| Some(((*a)?, b?))).collect();
            let paired = pairs.and_then(|pairs| statistics::paired(&pairs, 1));
            let found = paired.map(|found| {
                serde_json::json!({
                    "pairs": found.pairs, "mean": found.mean, "interval": found.interval, "relative": found.relative,
                    "relativeInterval": found.relative_interval, "less": found.less, "more": found.more,
                })
            });
            (policy.clone(), found.unwrap_or_default())
        };
        let differences: serde_json::Map<_, _> = plan.policies.iter().skip(1).map(difference).collect();
        errors::json(&serde_json::json!({
            "version": RESULTS, "rows": rows, "baseline": first, "measure": entry.key, "differences": differences,
        }))
    })
}

/// What no policy can beat; exact within so many seconds, where they are given.
#[pyfunction]
#[pyo3(signature = (scenario, seed, exact_seconds))]
pub fn bounds(py: Python<'_>, scenario: &Scenario, seed: Option<u64>, exact_seconds: Option<f64>) -> PyResult<String> {
    py.detach(|| {
        let (case, seed) = case(scenario, seed)?;
        let exact = match exact_seconds {
            None => None,
            Some(seconds) => {
                let time = Duration::try_from_secs_f64(seconds);
                let time = time.map_err(|error| errors::invalid(format!("exact_seconds: {seconds}: {error}")))?;
                Some(case.exact(time).map_err(|error| errors::invalid(format!("exact bound: {error}")))?)
            }
        };
        errors::json(&serde_json::json!({"seed": seed, "fluid": case.bound.mean(), "exact": exact}))
    })
}

fn contender(text: &str, role: Role) -> Result<Contender<'static>, LearnError> {
    if policy::by_name(text).is_some() {
        return Contender::named(text, role);
    }
    let folder = PathBuf::from(text);
    // What cannot be loaded is said before anything is run.
    workshop::load(&folder)?;
    let name = models::name(&folder);
    let make: Make<'_> = Box::new(move |_| workshop::load(&folder));
    Contender::new(&name, role, make)
}

/// Measures a model or a policy against others on data that nothing was learned from.
#[pyfunction]
#[pyo3(signature = (model, scenario, objective, baselines, against, report, record))]
#[expect(clippy::too_many_arguments, reason = "the package gives them by name")]
pub fn evaluate(
    py: Python<'_>,
    model: &str,
    scenario: &Scenario,
    objective: Option<String>,
    baselines: Vec<String>,
    against: Vec<String>,
    report: Option<PathBuf>,
    record: bool,
) -> PyResult<String> {
    py.detach(|| {
        let mut spec = scenario.learn()?;
        if let Some(name) = objective {
            let better = if name == spec.objective { spec.better } else { None };
            Objective::new(&name, better).map_err(errors::learn)?;
            (spec.objective, spec.better) = (name, better);
        }
        if !baselines.is_empty() {
            spec.evaluate.baselines = baselines;
        }
        let run = || -> Result<_, LearnError> {
            let subject = contender(model, Role::Model)?;
            let cases = spec.held_out(&scenario.inner)?;
            let mut contenders = evaluation::against_baselines(subject, &spec.baselines())?;
            for (at, other) in against.iter().enumerate() {
                contenders.insert(1 + at, contender(other, Role::Incumbent)?);
            }
            let runs = evaluation::run(&scenario.inner, &cases, &contenders, &|_, _| ())?;
            let mut found = Evaluation::new(&runs, &contenders, spec.objective()?, spec.gap_from())?;
            if policy::by_name(model).is_none() {
                found.fingerprint = Some(models::fingerprint(Path::new(model))?);
                if record {
                    models::record(Path::new(model), &found)?;
                }
            }
            Ok((found, runs))
        };
        let (found, runs) = run().map_err(errors::learn)?;
        if let Some(path) = report {
            write(&path, &evaluation::html(&found, &runs))?;
        }
        let mut told = serde_json::to_value(&found).map_err(|error| errors::invalid(error.to_string()))?;
        told["findings"] = serde_json::json!(found.findings());
        errors::json(&told)
    })
}
