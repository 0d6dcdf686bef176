//! Environments side by side, whose observations, rewards, flags and masks are written into arrays of the caller.

use crate::errors;
use crate::ground::{self, Made, Walk};
use crate::models::{self, NewModel};
use crate::scenario::Scenario;
use numpy::{
    PyArray1, PyArray2, PyArray3, PyArrayMethods, PyReadonlyArray1, PyReadonlyArrayDyn, PyUntypedArrayMethods,
};
use plimsoll_learn::environment::{Block, Lanes};
use plimsoll_learn::error::LearnError;
use plimsoll_learn::lifetime::{Predictor, PredictorFit};
use plimsoll_learn::observation::View;
use plimsoll_learn::observation::features::STATIC_FEATURES;
use plimsoll_learn::policy::Ranges;
use plimsoll_learn::spec::LearnSpec;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Environments of a scenario that are stepped together.
#[pyclass(module = "plimsoll._engine")]
pub struct Environments {
    core: Mutex<Core>,
    arrays: Option<Arrays>,
    scenario: plimsoll_sim::scenario::Scenario,
    spec: LearnSpec,
    view: View,
    predictor: Option<(Predictor, PredictorFit)>,
    seen: Vec<Arc<Mutex<Ranges>>>,
}

/// What knows nothing of Python.
struct Core {
    lanes: Lanes<Walk>,
    /// How many nodes an observation has room for.
    room: usize,
    actions: Vec<usize>,
    counts: Vec<usize>,
    /// The counts by which `present` was last written.
    shown: Vec<usize>,
    /// What an action that is masked costs; without, it is refused.
    masked_penalty: Option<f32>,
    /// Whether an episode that ends waits for a reset.
    waits: bool,
}

/// The arrays, which belong to the caller.
struct Arrays {
    nodes: Py<PyArray3<f32>>,
    pod: Py<PyArray2<f32>>,
    present: Py<PyArray2<f32>>,
    mask: Py<PyArray2<bool>>,
    rewards: Py<PyArray1<f32>>,
    elapsed_hours: Py<PyArray1<f32>>,
    terminated: Py<PyArray1<bool>>,
    truncated: Py<PyArray1<bool>>,
}

/// What lies in the arrays, borrowed for a call.
struct Memory<'a> {
    nodes: &'a mut [f32],
    pod: &'a mut [f32],
    present: &'a mut [f32],
    mask: &'a mut [bool],
    rewards: &'a mut [f32],
    elapsed_hours: &'a mut [f32],
    terminated: &'a mut [bool],
    truncated: &'a mut [bool],
}

impl Core {
    fn block<'a>(room: usize, counts: &'a mut [usize], memory: &'a mut Memory<'_>) -> Block<'a> {
        Block { nodes: room, features: memory.nodes, pods: memory.pod, mask: memory.mask, counts }
    }

    /// Which rows are nodes; that seldom changes.
    fn show(&mut self, memory: &mut Memory<'_>) {
        if self.counts == self.shown {
            return;
        }
        for (row, count) in memory.present.chunks_mut(self.room.max(1)).zip(&self.counts) {
            row[..*count].fill(1.0);
            row[*count..].fill(0.0);
        }
        self.shown.clone_from(&self.counts);
    }

    fn fits(&self, fits: bool) -> Result<(), LearnError> {
        if fits {
            return Ok(());
        }
        Err(LearnError::Invalid(format!(
            "a cluster has {} nodes, and observations have room for {}; give a larger max_nodes",
            self.lanes.most_nodes(),
            self.room
        )))
    }

    fn write(&mut self, memory: &mut Memory<'_>) -> Result<(), LearnError> {
        // What the caller did to the arrays meanwhile is not known.
        self.counts.fill(self.room);
        self.shown.clear();
        let fits = self.lanes.write(Self::block(self.room, &mut self.counts, memory));
        self.fits(fits)?;
        self.show(memory);
        Ok(())
    }

    /// Has actions that are masked replaced, or refuses them before anything is done.
    fn check(&mut self, memory: &Memory<'_>) -> Result<bool, LearnError> {
        let mut replaced = false;
        for (lane, (action, mask)) in self.actions.iter_mut().zip(memory.mask.chunks(self.room.max(1))).enumerate() {
            if mask.get(*action).is_some_and(|allowed| *allowed) {
                continue;
            }
            if self.masked_penalty.is_none() {
                let (chosen, room) = (action.cast_signed(), self.room);
                return Err(LearnError::Invalid(format!(
                    "action {chosen} of 0 to {} in environment {lane}: no rule allows that node; choose by the action mask, or give masked_penalty",
                    room.saturating_sub(1)
                )));
            }
            // Never a node, so that it is seen below.
            *action = usize::MAX;
            replaced = true;
        }
        Ok(replaced)
    }

    /// Takes the actions; how many episodes ended.
    fn step(&mut self, memory: &mut Memory<'_>) -> Result<usize, LearnError> {
        if self.waits && self.lanes.steps().any(|step| step.is_last()) {
            return Err(LearnError::Invalid("the episode is over; reset first".into()));
        }
        let replaced = self.check(memory)?;
        let mut penalised = Vec::new();
        if replaced {
            for (lane, action) in self.actions.iter_mut().enumerate().filter(|(_, action)| **action == usize::MAX) {
                let mask = &memory.mask[lane * self.room..(lane + 1) * self.room];
                *action = mask.iter().position(|allowed| *allowed).unwrap_or(0);
                penalised.push(lane);
            }
        }
        let fits = self.lanes.step(&self.actions, Self::block(self.room, &mut self.counts, memory))?;
        self.fits(fits)?;
        self.show(memory);
        let mut ended = 0;
        for (lane, step) in self.lanes.steps().enumerate() {
            memory.rewards[lane] = step.reward;
            memory.elapsed_hours[lane] = step.elapsed_hours;
            memory.terminated[lane] = step.terminated;
            memory.truncated[lane] = step.truncated;
            ended += usize::from(step.is_last());
        }
        for lane in penalised {
            memory.rewards[lane] -= self.masked_penalty.unwrap_or(0.0);
        }
        Ok(ended)
    }
}

fn seconds_of(rounds: usize, core: &mut Core, memory: &mut Memory<'_>) -> Result<f64, LearnError> {
    let start = Instant::now();
    for _ in 0..rounds {
        for (action, mask) in core.actions.iter_mut().zip(memory.mask.chunks(core.room.max(1))) {
            *action = mask.iter().position(|allowed| *allowed).unwrap_or(0);
        }
        core.step(memory)?;
    }
    Ok(start.elapsed().as_secs_f64())
}

impl Environments {
    /// Does something with the environments and the arrays, while other threads of Python run.
    fn with<T: Send>(
        &mut self,
        py: Python<'_>,
        act: impl FnOnce(&mut Core, &mut Memory<'_>) -> Result<T, LearnError> + Send,
    ) -> PyResult<T> {
        let core = self.core.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(arrays) = &self.arrays else {
            return Err(errors::invalid("there are no arrays to write into; bind some first"));
        };
        macro_rules! borrow {
            ($memory:ident: $($name:ident),*) => {
                $(let mut $name = arrays.$name.bind(py).try_readwrite().map_err(|error| {
                    errors::invalid(format!("{}: its array cannot be written into: {error}", stringify!($name)))
                })?;)*
                let mut $memory = Memory { $($name: $name.as_slice_mut().map_err(errors::invalid)?),* };
            };
        }
        borrow!(memory: nodes, pod, present, mask, rewards, elapsed_hours, terminated, truncated);
        py.detach(|| act(core, &mut memory)).map_err(errors::learn)
    }

    fn core(&self) -> std::sync::MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Environments {
    /// Environments of a scenario; options are JSON. `waits` says whether an episode that ends waits for a reset.
    #[new]
    #[pyo3(signature = (scenario, options, max_nodes, masked_penalty, waits))]
    fn new(
        py: Python<'_>,
        scenario: &Scenario,
        options: &str,
        max_nodes: Option<usize>,
        masked_penalty: Option<f32>,
        waits: bool,
    ) -> PyResult<Self> {
        let options: ground::Options =
            serde_json::from_str(options).map_err(|error| errors::invalid(format!("options: {error}")))?;
        let spec = scenario.learn()?;
        py.detach(|| {
            let fleet = scenario.inner.fleet().map_err(|error| errors::scenario(&error))?;
            let most: usize = fleet.limits().map(|(_, most)| most).sum();
            let Made { walks, grain, view, predictor, seen, spec } =
                ground::make(scenario, spec, options).map_err(errors::learn)?;
            let mut lanes = Lanes::new(walks, spec.seed, grain).map_err(errors::learn)?;
            if waits {
                lanes = lanes.waiting_at_ends();
            }
            let count = lanes.len();
            let room = max_nodes.unwrap_or_else(|| most.max(lanes.most_nodes()));
            let core = Core {
                lanes,
                room,
                actions: vec![0; count],
                counts: vec![0; count],
                shown: Vec::new(),
                masked_penalty,
                waits,
            };
            core.fits(room >= core.lanes.most_nodes()).map_err(errors::learn)?;
            let scenario = scenario.inner.clone();
            Ok(Self { core: Mutex::new(core), arrays: None, scenario, spec, view, predictor, seen })
        })
    }

    /// How many environments there are.
    fn __len__(&self) -> usize {
        self.core().lanes.len()
    }

    /// How many nodes an observation has room for.
    #[getter]
    fn max_nodes(&self) -> usize {
        self.core().room
    }

    /// What describes a node.
    #[getter]
    fn node_features(&self) -> Vec<String> {
        self.view.node_features()
    }

    /// What describes a pod.
    #[getter]
    fn pod_features(&self) -> Vec<String> {
        self.view.pod_features()
    }

    /// How many features of a node change only with it, so that a scheduler may remember what a network makes of them; they come first. None are
    /// where features have no place in a factored network.
    #[getter]
    fn tower_inputs(&self) -> usize {
        match &self.view {
            View::Named { nodes, .. } => nodes.iter().filter(|feature| **feature < STATIC_FEATURES).count(),
            View::Plain { .. } | View::Exported => 0,
        }
    }

    /// The heuristic that a model which is trained here falls back to.
    #[getter]
    fn base(&self) -> &str {
        &self.spec.base
    }

    /// Takes the arrays that everything is written into from now on.
    #[expect(clippy::too_many_arguments, reason = "one for each array")]
    fn bind(
        &mut self,
        nodes: Bound<'_, PyArray3<f32>>,
        pod: Bound<'_, PyArray2<f32>>,
        present: Bound<'_, PyArray2<f32>>,
        mask: Bound<'_, PyArray2<bool>>,
        rewards: Bound<'_, PyArray1<f32>>,
        elapsed_hours: Bound<'_, PyArray1<f32>>,
        terminated: Bound<'_, PyArray1<bool>>,
        truncated: Bound<'_, PyArray1<bool>>,
    ) -> PyResult<()> {
        let (size, room, (node_width, pod_width)) = {
            let core = self.core();
            (core.lanes.len(), core.room, core.lanes.widths())
        };
        let given: [(&str, &[usize], bool, Vec<usize>); 8] = [
            ("nodes", nodes.shape(), nodes.is_c_contiguous(), vec![size, room, node_width]),
            ("pod", pod.shape(), pod.is_c_contiguous(), vec![size, pod_width]),
            ("present", present.shape(), present.is_c_contiguous(), vec![size, room]),
            ("mask", mask.shape(), mask.is_c_contiguous(), vec![size, room]),
            ("rewards", rewards.shape(), rewards.is_c_contiguous(), vec![size]),
            ("elapsed_hours", elapsed_hours.shape(), elapsed_hours.is_c_contiguous(), vec![size]),
            ("terminated", terminated.shape(), terminated.is_c_contiguous(), vec![size]),
            ("truncated", truncated.shape(), truncated.is_c_contiguous(), vec![size]),
        ];
        for (name, shape, is_whole, wanted) in given {
            if shape != wanted {
                return Err(errors::invalid(format!("{name}: the array is {shape:?}, and {wanted:?} is wanted")));
            }
            if !is_whole {
                return Err(errors::invalid(format!("{name}: the array is not in one piece; it must be C-contiguous")));
            }
        }
        self.arrays = Some(Arrays {
            nodes: nodes.unbind(),
            pod: pod.unbind(),
            present: present.unbind(),
            mask: mask.unbind(),
            rewards: rewards.unbind(),
            elapsed_hours: elapsed_hours.unbind(),
            terminated: terminated.unbind(),
            truncated: truncated.unbind(),
        });
        Ok(())
    }

    /// Begins an episode in those that are named, all if none is: the first of those that follow from its seed, the next where there is none.
    #[pyo3(signature = (seeds, which))]
    fn reset(&mut self, py: Python<'_>, seeds: Vec<Option<u64>>, which: Option<Vec<bool>>) -> PyResult<()> {
        self.with(py, |core, memory| {
            match which {
                None => core.lanes.begin(&seeds)?,
                Some(which) => {
                    let some: Vec<_> = seeds.iter().zip(which).map(|(seed, is)| is.then_some(*seed)).collect();
                    core.lanes.begin_some(&some)?;
                }
            }
            core.write(memory)
        })
    }

    /// Takes a step in each; how many episodes ended.
    fn step(&mut self, py: Python<'_>, actions: PyReadonlyArray1<'_, i64>) -> PyResult<usize> {
        let core = self.core.get_mut().unwrap_or_else(PoisonError::into_inner);
        core.actions.clear();
        // What is below 0 becomes more than there can be nodes.
        core.actions.extend(actions.as_array().iter().map(|action| action.cast_unsigned() as usize));
        if core.actions.len() != core.lanes.len() {
            let problem =
                format!("{} actions for {} environments; each needs one", core.actions.len(), core.lanes.len());
            return Err(errors::invalid(problem));
        }
        self.with(py, Core::step)
    }

    /// Walks on without Python, each environment taking the first node that is allowed: for comparison. Gives the seconds that it took.
    fn walk(&mut self, py: Python<'_>, rounds: usize) -> PyResult<f64> {
        self.with(py, |core, memory| seconds_of(rounds, core, memory))
    }

    /// Writes what the last episode of an environment showed at last; false if none has ended.
    fn last_observation(
        &mut self,
        index: usize,
        nodes: &Bound<'_, PyArray2<f32>>,
        pod: &Bound<'_, PyArray1<f32>>,
        present: &Bound<'_, PyArray1<f32>>,
        mask: &Bound<'_, PyArray1<bool>>,
    ) -> PyResult<bool> {
        let core = self.core();
        if index >= core.lanes.len() {
            return Err(errors::invalid(format!("environment {index} of {} is none", core.lanes.len())));
        }
        let Some(seen) = core.lanes.last_observation(index) else { return Ok(false) };
        let (count, width) = (seen.node_count(), seen.node_width);
        let wanted = (vec![core.room, width], vec![seen.pod.len()], vec![core.room], vec![core.room]);
        let given = (nodes.shape().to_vec(), pod.shape().to_vec(), present.shape().to_vec(), mask.shape().to_vec());
        if wanted != given {
            return Err(errors::invalid(format!("the arrays are {given:?}, and {wanted:?} are wanted")));
        }
        macro_rules! fill {
            ($array:ident, $used:expr, $values:expr, $rest:expr) => {
                let mut borrowed = $array.try_readwrite().map_err(errors::invalid)?;
                let slice = borrowed.as_slice_mut().map_err(errors::invalid)?;
                let used = $used.min(slice.len());
                slice[..used].copy_from_slice(&$values[..used]);
                slice[used..].fill($rest);
            };
        }
        let ones = vec![1.0_f32; count];
        fill!(nodes, count * width, seen.nodes, 0.0);
        fill!(pod, seen.pod.len(), seen.pod, 0.0);
        fill!(present, count, ones, 0.0);
        fill!(mask, count, seen.mask, false);
        Ok(true)
    }

    /// What the expert of each would do for the decision that is due.
    fn expert_actions(&mut self, py: Python<'_>) -> PyResult<Vec<usize>> {
        let core = self.core.get_mut().unwrap_or_else(PoisonError::into_inner);
        let asked = py.detach(|| core.lanes.environments_mut().map(Walk::expert).collect::<Result<Vec<_>, _>>());
        asked.map_err(errors::learn)
    }

    /// The rewards that are added up, with the weight of each. Those of constraints adapt in each environment; it is their mean.
    fn reward_weights(&self) -> PyResult<Vec<(String, f64)>> {
        let core = self.core();
        let count = core.lanes.len();
        let weights = |at: usize| core.lanes.environment(at).rewards().weights();
        let adapting: Vec<_> = weights(0).adapted().map(|(name, _)| name).collect();
        let mean = |name: &str| {
            let sum = (0..count).map(|at| weights(at).get(name)).sum::<Result<f64, LearnError>>()?;
            Ok(sum / count as f64)
        };
        let weight = |name: &str| if adapting.contains(&name) { mean(name) } else { weights(0).get(name) };
        let named = weights(0).names().iter().map(|name| Ok(((*name).to_owned(), weight(name)?)));
        named.collect::<Result<_, LearnError>>().map_err(errors::learn)
    }

    /// Has a reward count more or less from now on.
    fn set_reward_weight(&self, name: &str, weight: f64) -> PyResult<()> {
        let core = self.core();
        let each =
            (0..core.lanes.len()).try_for_each(|at| core.lanes.environment(at).rewards().weights().set(name, weight));
        each.map_err(errors::learn)
    }

    /// Stores weights that were trained in these environments as a model; what is told of it is JSON.
    fn save_model(
        &self,
        folder: PathBuf,
        weights: Vec<(String, PyReadonlyArrayDyn<'_, f32>)>,
        about: &str,
    ) -> PyResult<()> {
        let about: NewModel =
            serde_json::from_str(about).map_err(|error| errors::invalid(format!("model: {error}")))?;
        let weights = models::tensors(&weights);
        let mut ranges = Ranges::nothing(self.view.node_features().len() + self.view.pod_features().len());
        for seen in &self.seen {
            ranges.join(&seen.lock().unwrap_or_else(PoisonError::into_inner));
        }
        let ranges = if self.seen.is_empty() { Ranges::default() } else { ranges };
        let card = models::card(&self.scenario, &self.spec, &self.view, ranges, self.predictor.as_ref(), about);
        let card = card.map_err(errors::learn)?;
        models::save(&folder, card, weights, self.predictor.as_ref().map(|(predictor, _)| predictor))
    }
}
