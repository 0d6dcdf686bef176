//! Evolution strategies: whole runs are measured under slightly different networks, and the network moves towards those that did well.
//!
//! A placement shows its worth hours later, among thousands of others; no gradient through single decisions is as clear as the figure of a
//! whole run. Separable natural evolution strategies (Schaul, Glasmachers, Schmidhuber, 2011), with mirrored samples, the same cases for
//! all networks of a generation, and ranks instead of values.

use super::{Agent, AgentState, Report};
use crate::error::LearnError;
use crate::model::{Tensor, Weights};
use crate::policy::fused::{Factored, Sizes};
use crate::policy::{Learned, Parts, Ranges};
use plimsoll_core::policy::Policy;
use plimsoll_core::rng::Rng;
use plimsoll_sim::compare::PreparedCase;
use plimsoll_sim::measures::Row;
use plimsoll_sim::simulation::Nobody;
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};

/// Hyper-parameters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EvolutionSettings {
    /// Generations.
    pub generations: usize,
    /// Pairs of mirrored networks in a generation.
    pub pairs: usize,
    /// Cases on which each network of a generation is measured.
    pub cases: usize,
    /// How far networks of the first generation lie from each other, for each weight.
    pub sigma: f32,
    /// The same where training begins with a model, as a share of `sigma`: what was learned is not to be drowned in noise.
    pub fine: f32,
    /// How far the network moves, as a share of the natural gradient.
    pub rate: f32,
    /// How fast the spread adapts.
    pub sigma_rate: f32,
    /// After so many generations the network is measured on all cases, and kept if it is the best so far.
    pub validate_every: usize,
    /// What a share of pods that were rejected, or still wait at the end, or by which a limit is broken, weighs against the measure.
    pub penalty: f64,
}

impl Default for EvolutionSettings {
    fn default() -> Self {
        Self {
            generations: 150,
            pairs: 12,
            cases: 2,
            sigma: 0.1,
            fine: 0.25,
            rate: 1.0,
            sigma_rate: 0.1,
            validate_every: 10,
            penalty: 10.0,
        }
    }
}

/// The figure that is to be small, then those that are limited; none if the scenario does not measure one of them.
pub type Objective = Arc<dyn Fn(&Row) -> Option<Vec<f64>> + Send + Sync>;

/// A run that is to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The weights of the network, one after the other.
    pub network: Vec<f32>,
    /// The case, by its place among the cases of the scenario.
    pub case: usize,
}

/// What a run came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// The figure that is to be small, then those that are limited.
    pub figures: Vec<f64>,
    /// Pods that were rejected, or still wait at the end, as a share.
    pub lost: f64,
    /// Decisions that the network was asked about.
    pub decisions: u64,
    /// The least and the greatest value that each feature had.
    pub ranges: Ranges,
}

/// Who makes the runs: threads of this process, unless it is somebody elsewhere.
pub trait Crew: Send {
    /// Makes all of them, and tells what they came to in their order.
    fn measure(&mut self, jobs: &[Job]) -> Result<Vec<Measured>, LearnError>;
}

/// All that a run needs beside its network and the place of its case. It is the same for everybody who has the same scenario.
pub struct Stage {
    parts: Parts,
    sizes: Sizes,
    cases: Vec<Arc<PreparedCase>>,
    objective: Objective,
    template: Weights,
}

impl Stage {
    /// A stage with these cases; networks have the shape of `template`.
    pub fn new(
        parts: Parts,
        template: Weights,
        cases: Vec<Arc<PreparedCase>>,
        objective: Objective,
    ) -> Result<Self, LearnError> {
        if cases.is_empty() {
            return Err(LearnError::Invalid("there is no case to train on; give a window of the workload".into()));
        }
        Ok(Self { sizes: *parts.network.sizes(), parts, cases, objective, template })
    }

    /// How many numbers a network has.
    pub fn weights(&self) -> usize {
        self.template.values().map(|tensor| tensor.data.len()).sum()
    }

    /// How many cases there are.
    pub fn cases(&self) -> usize {
        self.cases.len()
    }

    /// How many pods they have together.
    pub fn pods(&self) -> usize {
        self.cases.iter().map(|case| case.prepared.workload.pods.len()).sum()
    }

    /// Makes runs on all cores.
    pub fn measure(&self, jobs: &[Job]) -> Result<Vec<Measured>, LearnError> {
        jobs.par_iter().map(|job| self.run(job)).collect()
    }

    fn run(&self, job: &Job) -> Result<Measured, LearnError> {
        let Some(case) = self.cases.get(job.case).filter(|_| job.network.len() == self.weights()) else {
            return Err(LearnError::Invalid(format!(
                "a run of {} weights on case {} is of another scenario: this one has {} weights and {} cases",
                job.network.len(),
                job.case,
                self.weights(),
                self.cases()
            )));
        };
        let network = Factored::new(&self.sizes, &self.weights_of(&job.network)).map_err(LearnError::Invalid)?;
        let mut policy = Learned::new(Parts { network, ranges: Ranges::default(), ..self.parts.clone() });
        let ranges = Ranges::nothing(self.parts.node_features.len() + self.parts.pod_features.len());
        let ranges = Arc::new(Mutex::new(ranges));
        policy.note_ranges(Arc::clone(&ranges));
        let counters = policy.counters();
        let run = case.run("learned", Box::new(policy), &mut Nobody).map_err(LearnError::from)?;
        let measures = &run.row.measures;
        let lost = (measures.rejected + measures.waiting) as f64 / measures.arrived.max(1) as f64;
        let figures = (self.objective)(&run.row).ok_or_else(|| {
            LearnError::Invalid(format!("learn.objective: it is not measured in scenario {:?}", run.row.scenario))
        })?;
        let decisions = counters.map_or(0, |counters| counters.decisions.load(std::sync::atomic::Ordering::Relaxed));
        let ranges = ranges.lock().map(|ranges| ranges.clone()).unwrap_or_default();
        Ok(Measured { figures, lost, decisions, ranges })
    }

    fn weights_of(&self, flat: &[f32]) -> Weights {
        let mut flat = flat.iter().copied();
        let tensor = |tensor: &Tensor| Tensor {
            shape: tensor.shape.clone(),
            data: flat.by_ref().take(tensor.data.len()).collect(),
        };
        let tensors: Vec<_> = self.template.values().map(tensor).collect();
        self.template.keys().cloned().zip(tensors).collect()
    }
}

/// The agent.
pub struct Evolution {
    settings: EvolutionSettings,
    stage: Arc<Stage>,
    /// Who makes the runs, if not this process.
    crew: Option<Box<dyn Crew>>,
    /// The base's figures on each case: what others are divided by. Empty before it is known.
    reference: Vec<Vec<f64>>,
    /// What the further figures may be at most, as multiples of the base's.
    limits: Vec<f64>,
    rng: Rng,
    generation: usize,
    mean: Vec<f32>,
    sigma: Vec<f32>,
    best: Vec<f32>,
    best_figure: f64,
    ranges: Ranges,
    steps: u64,
}

impl Evolution {
    /// An agent that starts with these weights on a stage.
    pub fn new(
        settings: EvolutionSettings,
        stage: Arc<Stage>,
        start: &Weights,
        limits: Vec<f64>,
        seed: u64,
        crew: Option<Box<dyn Crew>>,
    ) -> Result<Self, LearnError> {
        let mean: Vec<f32> = start.values().flat_map(|tensor| tensor.data.iter().copied()).collect();
        let mut agent = Self {
            sigma: vec![settings.sigma; mean.len()],
            best: mean.clone(),
            best_figure: f64::INFINITY,
            ranges: Ranges::nothing(stage.parts.node_features.len() + stage.parts.pod_features.len()),
            mean,
            settings,
            stage,
            crew,
            reference: Vec::new(),
            limits,
            rng: Rng::new(seed),
            generation: 0,
            steps: 0,
        };
        let jobs = agent.everywhere();
        agent.reference = agent.run(&jobs)?.into_iter().map(|run| run.figures).collect();
        agent.best_figure = agent.validate()?;
        Ok(agent)
    }

    /// Where its runs are made.
    pub fn stage(&self) -> &Stage {
        &self.stage
    }

    /// What features took for values so far.
    pub fn ranges(&self) -> Ranges {
        self.ranges.clone()
    }

    /// The best network's figure over all cases, as a share of the heuristic's.
    pub fn best_figure(&self) -> f64 {
        self.best_figure
    }

    /// The network as it is, on each case.
    fn everywhere(&self) -> Vec<Job> {
        (0..self.stage.cases()).map(|case| Job { network: self.mean.clone(), case }).collect()
    }

    /// Has runs made, and takes note of what they saw.
    fn run(&mut self, jobs: &[Job]) -> Result<Vec<Measured>, LearnError> {
        let runs = match &mut self.crew {
            Some(crew) => crew.measure(jobs)?,
            None => self.stage.measure(jobs)?,
        };
        if runs.len() != jobs.len() {
            let problem = format!("{} runs were asked for, and {} came back", jobs.len(), runs.len());
            return Err(LearnError::Invalid(problem));
        }
        runs.iter().for_each(|run| self.ranges.join(&run.ranges));
        Ok(runs)
    }

    /// The figure of each network on its case, as a share of the heuristic's.
    fn measure(&mut self, jobs: &[Job]) -> Result<Vec<f64>, LearnError> {
        let runs = self.run(jobs)?;
        self.steps += runs.iter().map(|run| run.decisions).sum::<u64>();
        Ok(runs.iter().zip(jobs).map(|(run, job)| self.judge(run, job.case)).collect())
    }

    /// One figure for a run: the objective as a share of the heuristic's, and more where a limit is broken or pods are lost.
    fn judge(&self, run: &Measured, case: usize) -> f64 {
        let shares: Vec<f64> =
            run.figures.iter().zip(&self.reference[case]).map(|(figure, base)| figure / base.max(1e-9)).collect();
        let broken = shares.iter().skip(1).zip(&self.limits).map(|(share, limit)| (share - limit).max(0.0));
        shares.first().copied().unwrap_or(1.0) + self.settings.penalty * (run.lost + broken.sum::<f64>())
    }

    /// A number from the normal distribution.
    fn normal(&mut self) -> f32 {
        // Box and Muller.
        let (a, b) = (self.rng.unit().max(1e-300), self.rng.unit());
        ((-2.0 * libm::log(a)).sqrt() * libm::cos(std::f64::consts::TAU * b)) as f32
    }

    fn validate(&mut self) -> Result<f64, LearnError> {
        let jobs = self.everywhere();
        let figures = self.measure(&jobs)?;
        let figure = figures.iter().sum::<f64>() / figures.len() as f64;
        if figure < self.best_figure {
            self.best_figure = figure;
            self.best.clone_from(&self.mean);
        }
        Ok(figure)
    }

    /// Moves the network and its spread by the ranks of a generation.
    fn learn(&mut self, steps: &[Vec<f32>], figures: &[f64]) {
        let mut order: Vec<usize> = (0..figures.len()).collect();
        order.sort_by(|a, b| figures[*a].total_cmp(&figures[*b]));
        let count = figures.len() as f64;
        // The better half counts, the best most; the mean of all is taken off.
        let raw: Vec<f64> =
            (1..=figures.len()).map(|rank| ((count / 2.0 + 1.0).ln() - (rank as f64).ln()).max(0.0)).collect();
        let sum: f64 = raw.iter().sum();
        let mut utility = vec![0.0_f32; figures.len()];
        for (rank, at) in order.into_iter().enumerate() {
            utility[at] = (raw[rank] / sum - 1.0 / count) as f32;
        }
        let EvolutionSettings { rate, sigma_rate, .. } = self.settings;
        for (weight, (mean, sigma)) in self.mean.iter_mut().zip(&mut self.sigma).enumerate() {
            let (mut along, mut spread) = (0.0, 0.0);
            for (step, utility) in steps.iter().zip(&utility) {
                along += utility * step[weight];
                spread += utility * (step[weight] * step[weight] - 1.0);
            }
            *mean += rate * *sigma * along;
            *sigma *= libm::expf(sigma_rate / 2.0 * spread);
        }
    }
}

impl Agent for Evolution {
    fn iterate(&mut self) -> Result<Report, LearnError> {
        let pairs = self.settings.pairs.max(1);
        let mut steps = Vec::with_capacity(2 * pairs);
        for _ in 0..pairs {
            let step: Vec<f32> = (0..self.mean.len()).map(|_| self.normal()).collect();
            steps.push(step.iter().map(|value| -value).collect());
            steps.push(step);
        }
        let wanted = self.settings.cases.clamp(1, self.stage.cases());
        let mut cases: Vec<usize> = (0..self.stage.cases()).collect();
        for at in 0..wanted {
            let other = at + self.rng.below(cases.len() - at);
            cases.swap(at, other);
        }
        cases.truncate(wanted);
        let at = |step: &Vec<f32>| -> Vec<f32> {
            self.mean.iter().zip(&self.sigma).zip(step).map(|((mean, sigma), step)| mean + sigma * step).collect()
        };
        let on = |network: Vec<f32>| cases.iter().map(move |case| Job { network: network.clone(), case: *case });
        let jobs: Vec<_> = steps.iter().map(at).flat_map(on).collect();
        let figures = self.measure(&jobs)?;
        let figures: Vec<f64> = figures.chunks(wanted).map(|runs| runs.iter().sum::<f64>() / wanted as f64).collect();
        self.learn(&steps, &figures);
        self.generation += 1;
        let mean = figures.iter().sum::<f64>() / figures.len() as f64;
        let spread = self.sigma.iter().sum::<f32>() / self.sigma.len() as f32;
        let mut scalars = vec![("figure", mean), ("sigma", f64::from(spread))];
        let last = self.generation >= self.settings.generations;
        if last || self.generation.is_multiple_of(self.settings.validate_every.max(1)) {
            scalars.push(("validated", self.validate()?));
            scalars.push(("best", self.best_figure));
        }
        Ok(Report {
            steps: self.steps,
            episodes: (self.generation * jobs.len()) as u64,
            mean_return: Some(-mean),
            scalars,
            progress: (self.generation as f64 / self.settings.generations.max(1) as f64).min(1.0),
            ..Report::default()
        })
    }

    fn state(&self) -> AgentState {
        let tensor = |data: &Vec<f32>| Tensor { shape: vec![data.len()], data: data.clone() };
        let ranges: Vec<f32> =
            self.ranges.0.iter().flat_map(|(least, most)| [least.max(-1e30), most.min(1e30)]).collect();
        let tensors = [("mean", &self.mean), ("sigma", &self.sigma), ("best", &self.best), ("ranges", &ranges)];
        let values = serde_json::json!({
            "generation": self.generation, "steps": self.steps, "best_figure": self.best_figure,
            "rng": self.rng.state().to_string(),
        });
        let serde_json::Value::Object(values) = values else { return AgentState::default() };
        AgentState {
            tensors: tensors.into_iter().map(|(name, data)| (name.to_owned(), tensor(data))).collect(),
            values,
        }
    }

    fn restore(&mut self, state: &AgentState) -> Result<(), LearnError> {
        let take = |name: &str, length: usize| match state.tensors.get(name) {
            Some(tensor) if tensor.data.len() == length => Ok(tensor.data.clone()),
            Some(tensor) => Err(LearnError::Invalid(format!(
                "the checkpoint's {name:?} has {} numbers, this network has {length}; it is of another scenario",
                tensor.data.len()
            ))),
            None => Err(LearnError::Invalid(format!("the checkpoint has no {name:?}; it is of another agent"))),
        };
        let weights = self.mean.len();
        (self.mean, self.sigma, self.best) = (take("mean", weights)?, take("sigma", weights)?, take("best", weights)?);
        let ranges = take("ranges", self.ranges.0.len() * 2)?;
        self.ranges.join(&Ranges(ranges.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()));
        let number = |name: &str| state.values.get(name);
        self.generation = number("generation").and_then(serde_json::Value::as_u64).unwrap_or(0) as usize;
        self.steps = number("steps").and_then(serde_json::Value::as_u64).unwrap_or(0);
        self.best_figure = number("best_figure").and_then(serde_json::Value::as_f64).unwrap_or(1.0);
        if let Some(rng) = number("rng").and_then(serde_json::Value::as_str).and_then(|text| text.parse().ok()) {
            self.rng = Rng::new(rng);
        }
        Ok(())
    }

    fn begin_with(&mut self, weights: &Weights) -> Result<(), LearnError> {
        let mut flat = Vec::with_capacity(self.mean.len());
        for (name, own) in &self.stage.template {
            let other = weights.get(name).filter(|other| other.shape == own.shape);
            let other = other.ok_or_else(|| {
                LearnError::Invalid(format!(
                    "the other model's {name:?} is missing, or of another shape than {:?}",
                    own.shape
                ))
            })?;
            flat.extend_from_slice(&other.data);
        }
        (self.mean, self.best) = (flat.clone(), flat);
        self.sigma.fill(self.settings.sigma * self.settings.fine);
        // Small steps are worth a look each.
        self.settings.validate_every = 1;
        self.best_figure = f64::INFINITY;
        self.best_figure = self.validate()?;
        Ok(())
    }

    fn latest(&self) -> Weights {
        self.stage.weights_of(&self.mean)
    }

    fn weights(&self) -> Weights {
        let mut weights = self.stage.weights_of(&self.best);
        weights.extend(self.stage.parts.predictor.weights());
        weights
    }
}
