//! Training as `plimsoll train` has it, in this process or with runs that somebody elsewhere makes.

use crate::errors;
use crate::scenario::Scenario;
use numpy::{PyArray1, PyReadonlyArray1};
use plimsoll_learn::agent::evolution::{self, Crew, Job, Measured};
use plimsoll_learn::agent::evolve::{self, Evolve};
use plimsoll_learn::error::LearnError;
use plimsoll_learn::model::TrainingCard;
use plimsoll_learn::policy::Ranges;
use plimsoll_learn::spec::{self, LearnSpec};
use plimsoll_learn::train::model::{Order, check_room, make};
use plimsoll_learn::train::{Observer, Progress};
use plimsoll_learn::variables::environment;
use plimsoll_learn::workshop::{self, Learner};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// The one agent whose runs others can make.
const EVOLUTION: &str = "evolution";

/// The result of a run as Python has it: the figures, pods that were lost as a share, decisions, and the least and greatest value of each feature in turn.
type Told<'py> = (Vec<f64>, f64, u64, Bound<'py, PyArray1<f32>>);

/// The scenario, with what variables of the environment say in its `[learn]` section.
fn overridden(scenario: &Scenario) -> PyResult<plimsoll_sim::scenario::Scenario> {
    spec::with_variables(scenario.inner.clone(), &environment).map_err(errors::learn)
}

/// The `[learn]` section, with what the caller says instead.
fn section(scenario: &plimsoll_sim::scenario::Scenario, seed: Option<u64>, steps: Option<u64>) -> PyResult<LearnSpec> {
    let mut spec = LearnSpec::read(scenario).map_err(errors::learn)?;
    spec.seed = seed.unwrap_or(spec.seed);
    spec.train.steps = steps.or(spec.train.steps);
    Ok(spec)
}

/// Refuses agents whose runs cannot be made elsewhere.
fn evolved(spec: &LearnSpec) -> PyResult<()> {
    if spec.agent.name == EVOLUTION {
        return Ok(());
    }
    let problem =
        format!("learn.agent: runs of {:?} are not made elsewhere; those of {EVOLUTION:?} are", spec.agent.name);
    Err(errors::invalid(problem))
}

/// An exception that has to wait until the engine has returned.
#[derive(Clone, Default)]
struct Raised(Arc<Mutex<Option<PyErr>>>);

impl Raised {
    fn keep(&self, error: PyErr) -> LearnError {
        let said = LearnError::Invalid(error.to_string());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        said
    }

    fn is_some(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn take(&self) -> Option<PyErr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Has runs made by a callable of Python.
struct Callable {
    measure: Py<PyAny>,
    raised: Raised,
}

impl Crew for Callable {
    fn measure(&mut self, jobs: &[Job]) -> Result<Vec<Measured>, LearnError> {
        Python::attach(|py| {
            let given: Vec<_> = jobs.iter().map(|job| (PyArray1::from_slice(py, &job.network), job.case)).collect();
            let told: Vec<Told<'_>> = self.measure.call1(py, (given,))?.extract(py)?;
            told.into_iter().map(measured).collect::<PyResult<Vec<_>>>()
        })
        .map_err(|error| self.raised.keep(error))
    }
}

fn measured((figures, lost, decisions, ranges): Told<'_>) -> PyResult<Measured> {
    let ranges: PyReadonlyArray1<'_, f32> = ranges.extract()?;
    let ranges = ranges.as_slice()?.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    Ok(Measured { figures, lost, decisions, ranges: Ranges(ranges) })
}

/// Tells Python how far training is, and hears whether it is to end.
struct Watcher {
    progress: Option<Py<PyAny>>,
    note: Py<PyAny>,
    raised: Raised,
    last: Option<Progress>,
}

impl Watcher {
    fn tell(&self, progress: &Progress) -> PyResult<()> {
        let Some(callable) = &self.progress else { return Ok(()) };
        let told = errors::json(&told(progress))?;
        Python::attach(|py| callable.call1(py, (told,)).map(drop))
    }
}

impl Observer for Watcher {
    fn progress(&mut self, progress: &Progress) {
        if let Err(error) = self.tell(progress) {
            self.raised.keep(error);
        }
        self.last = Some(progress.clone());
    }

    fn note(&mut self, note: &str) {
        if let Err(error) = Python::attach(|py| self.note.call1(py, (note,))) {
            self.raised.keep(error);
        }
    }

    fn stops(&mut self) -> bool {
        if let Err(error) = Python::attach(|py| py.check_signals()) {
            self.raised.keep(error);
        }
        self.raised.is_some()
    }
}

fn told(progress: &Progress) -> serde_json::Value {
    let report = &progress.report;
    let scalars: serde_json::Map<_, _> =
        report.figures().map(|(name, value)| (name, serde_json::json!(value))).collect();
    serde_json::json!({
        "steps": report.steps, "episodes": report.episodes, "return": report.mean_return, "progress": report.progress,
        "scalars": scalars, "seconds": progress.elapsed.as_secs_f64(), "steps_per_second": progress.steps_per_second,
        "remaining": progress.remaining.map(|left| left.as_secs_f64()),
    })
}

/// Trains a model and stores it. What Python raises on the way ends training: from `progress` with a checkpoint, from `measure` with the last that
/// was due.
#[pyfunction]
#[pyo3(signature = (scenario, out, seed, steps, resume, replace, begin_with, command, measure, progress, note))]
#[expect(clippy::too_many_arguments, reason = "the package gives them by name")]
pub fn train(
    py: Python<'_>,
    scenario: &Scenario,
    out: PathBuf,
    seed: Option<u64>,
    steps: Option<u64>,
    resume: bool,
    replace: bool,
    begin_with: Option<PathBuf>,
    command: String,
    measure: Option<Py<PyAny>>,
    progress: Option<Py<PyAny>>,
    note: Py<PyAny>,
) -> PyResult<String> {
    if resume && begin_with.is_some() {
        return Err(errors::invalid("training either goes on from a checkpoint or begins with a model"));
    }
    if resume && replace {
        return Err(errors::invalid("training either goes on from a checkpoint or replaces what is there"));
    }
    check_room(&out, resume, replace).map_err(errors::learn)?;
    let own = overridden(scenario)?;
    let spec = section(&own, seed, steps)?;
    if measure.is_some() {
        evolved(&spec)?;
    }
    py.detach(|| {
        let raised = Raised::default();
        let run = || -> Result<_, LearnError> {
            let scenario = &own;
            let mut learner: Box<dyn Learner> = match measure {
                Some(measure) => {
                    let crew = Callable { measure, raised: raised.clone() };
                    Box::new(Evolve::with_crew(scenario, &spec, Some(Box::new(crew)))?)
                }
                None => workshop::learner(scenario, &spec)?,
            };
            let training = TrainingCard::of(scenario, &spec, command)?;
            let clock = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let order = Order {
                folder: &out,
                training: &training,
                from: begin_with.as_deref(),
                resume,
                replace,
                checkpoint_every: spec.checkpoint.every.0,
                clock: &clock,
            };
            let mut watcher = Watcher { progress, note, raised: raised.clone(), last: None };
            let trained = make(learner.as_mut(), &order, &mut watcher)?;
            Ok((trained, watcher.last))
        };
        let found = run();
        if let Some(error) = raised.take() {
            return Err(error);
        }
        let (trained, last) = found.map_err(errors::learn)?;
        let mut answer = last.as_ref().map_or_else(|| serde_json::json!({}), told);
        answer["folder"] = serde_json::json!(out);
        answer["trained"] = serde_json::json!(trained.is_some());
        errors::json(&answer)
    })
}

/// What runs on the training data of a scenario need beside their networks; whoever has one can make runs for a training elsewhere.
#[pyclass(frozen, module = "plimsoll._engine")]
pub struct Stage {
    inner: evolution::Stage,
    fingerprint: String,
}

#[pymethods]
impl Stage {
    #[new]
    #[pyo3(signature = (scenario, seed))]
    fn new(py: Python<'_>, scenario: &Scenario, seed: Option<u64>) -> PyResult<Self> {
        let spec = section(&scenario.inner, seed, None)?;
        evolved(&spec)?;
        py.detach(|| {
            let inner = evolve::stage(&scenario.inner, &spec)?;
            Ok(Self { inner, fingerprint: spec::fingerprint(&scenario.inner)? })
        })
        .map_err(errors::learn)
    }

    /// How many cases there are.
    #[getter]
    fn cases(&self) -> usize {
        self.inner.cases()
    }

    /// How many numbers a network has.
    #[getter]
    fn weights(&self) -> usize {
        self.inner.weights()
    }

    /// A hash of the scenario and the files it names.
    #[getter]
    fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Makes runs, each of a network on a case.
    fn measure<'py>(
        &self,
        py: Python<'py>,
        jobs: Vec<(PyReadonlyArray1<'py, f32>, usize)>,
    ) -> PyResult<Vec<Told<'py>>> {
        let job = |(network, case): &(PyReadonlyArray1<'_, f32>, usize)| Job {
            network: network.as_array().iter().copied().collect(),
            case: *case,
        };
        let jobs: Vec<Job> = jobs.iter().map(job).collect();
        let runs = py.detach(|| self.inner.measure(&jobs)).map_err(errors::learn)?;
        let told = |Measured { figures, lost, decisions, ranges }: Measured| {
            let ranges = ranges.0.into_iter().flat_map(|(least, most)| [least, most]).collect();
            (figures, lost, decisions, PyArray1::from_vec(py, ranges))
        };
        Ok(runs.into_iter().map(told).collect())
    }
}

/// A hash of a scenario and of the files it names.
#[pyfunction]
pub fn fingerprint(scenario: &Scenario) -> PyResult<String> {
    spec::fingerprint(&scenario.inner).map_err(errors::learn)
}

/// The configurations that a search tries, the budgets of its rounds, and how many times fewer go on each time, as JSON.
#[pyfunction]
#[pyo3(signature = (scenario, seed, steps))]
pub fn search(scenario: &Scenario, seed: Option<u64>, steps: Option<u64>) -> PyResult<String> {
    let spec = section(&scenario.inner, seed, steps)?;
    let Some(steps) = spec.train.steps else {
        return Err(errors::invalid("learn.train.steps: say how many steps the last round trains for, or give steps"));
    };
    let configurations = plimsoll_learn::tune::configurations(&spec.tune, spec.seed).map_err(errors::learn)?;
    errors::json(&serde_json::json!({
        "objective": spec.objective().map_err(errors::learn)?, "seed": spec.seed, "configurations": configurations,
        "budgets": plimsoll_learn::tune::budgets(&spec.tune, steps), "keep_one_in": spec.tune.keep_one_in,
    }))
}

/// Trains a configuration, given as JSON, and judges it whenever one of the budgets is spent; `report` is told budget and score, more being better.
#[pyfunction]
pub fn trial(
    py: Python<'_>,
    scenario: &Scenario,
    configuration: &str,
    budgets: Vec<u64>,
    seed: u64,
    report: Py<PyAny>,
) -> PyResult<()> {
    let configuration = serde_json::from_str(configuration).map_err(|error| errors::invalid(error.to_string()))?;
    let own = overridden(scenario)?;
    py.detach(|| {
        let raised = Raised::default();
        let mut watch = |budget: u64, score: f64| {
            let told = Python::attach(|py| {
                py.check_signals()?;
                report.call1(py, (budget, score)).map(drop)
            });
            told.map(|()| true).map_err(|error| raised.keep(error))
        };
        let found = plimsoll_learn::tune::watched_trial(&own, &configuration, &budgets, seed, &mut watch);
        match raised.take() {
            Some(error) => Err(error),
            None => found.map_err(errors::learn),
        }
    })
}
