//! The smallest thing that learns: how much each of a few heuristics counts. Weights are tried on whole runs, and kept when they help.
//!
//! A blend has a handful of numbers, needs no features and learns in minutes. What it reaches is what any network has to beat.

use super::{Agent, AgentState, Report};
use crate::error::LearnError;
use crate::model::{CARD_SCHEMA, Card, NetworkCard, Tensor, TrainingCard, Weights};
use crate::policy::normalise;
use crate::spec::{LearnSpec, Objective};
use plimsoll_core::policy::{self, POLICIES, Policy, Ranking};
use plimsoll_core::rng::Rng;
use plimsoll_core::state::NodeId;
use plimsoll_sim::compare::{Case, PreparedCase};
use plimsoll_sim::report::catalogue::{self, Better, Entry};
use plimsoll_sim::scenario::Scenario;
use plimsoll_sim::simulation::Nobody;
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The kind of its network in cards.
pub const KIND: &str = "blend";
/// The name of its weights.
const WEIGHTS: &str = "weights";
/// How many weights a candidate changes, on average.
const CHANGED: f64 = 2.0;

/// How a blend is learned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BlendSettings {
    /// The heuristics; the base of the model begins with all the weight, and is added where it is not named.
    pub heuristics: Vec<String>,
    /// How many generations; fewer where the steps to train are limited and used up.
    pub generations: u64,
    /// How many blends are tried in each, after the first, which tries each heuristic alone.
    pub candidates: usize,
    /// How far they lie from the best so far, at first.
    pub spread: f64,
}

impl Default for BlendSettings {
    fn default() -> Self {
        let heuristics = ["best-fit", "longest-awake", "efficient-first", "marginal-watts", "dot-product", "balanced"];
        Self { heuristics: heuristics.map(str::to_owned).to_vec(), generations: 20, candidates: 8, spread: 0.5 }
    }
}

/// Ranks nodes by a weighted sum of heuristics' scores, each spread over 0 to 1 first.
pub struct Blend {
    parts: Vec<(Box<dyn Policy>, f64)>,
    scores: Vec<f64>,
}

impl Blend {
    /// A blend of heuristics with weights.
    pub fn new<'a>(parts: impl IntoIterator<Item = (&'a str, f64)>) -> Result<Self, LearnError> {
        let part = |(name, weight): (&str, f64)| {
            let found = policy::by_name(name).filter(|_| name != crate::evaluate::TOLD_LIFETIMES);
            let policy = found.ok_or_else(|| unknown(name))?;
            Ok((policy, weight))
        };
        let parts = parts.into_iter().map(part).collect::<Result<_, LearnError>>()?;
        Ok(Self { parts, scores: Vec::new() })
    }

    /// The blend of a model.
    pub fn load(card: &Card, weights: &Weights) -> Result<Self, LearnError> {
        let own = weights.get(WEIGHTS).map(|tensor| tensor.data.as_slice()).unwrap_or_default();
        if own.len() != card.node_features.len() {
            return Err(LearnError::Invalid(format!(
                "there are {} weights for {} heuristics",
                own.len(),
                card.node_features.len()
            )));
        }
        Self::new(card.node_features.iter().map(String::as_str).zip(own.iter().map(|weight| f64::from(*weight))))
    }
}

fn unknown(name: &str) -> LearnError {
    let known = POLICIES.iter().map(|(name, _)| *name).filter(|name| *name != crate::evaluate::TOLD_LIFETIMES);
    LearnError::unknown("learn.agent.heuristics: policy", name, known)
}

impl Policy for Blend {
    fn name(&self) -> &'static str {
        KIND
    }

    fn rank(&mut self, ranking: &mut Ranking<'_>, nodes: &[NodeId], scores: &mut [f64]) -> Result<(), String> {
        scores.fill(0.0);
        for (policy, weight) in self.parts.iter_mut().filter(|(_, weight)| *weight != 0.0) {
            self.scores.clear();
            self.scores.resize(nodes.len(), 0.0);
            policy.rank(ranking, nodes, &mut self.scores)?;
            normalise(&mut self.scores);
            for (sum, score) in scores.iter_mut().zip(&self.scores) {
                *sum += if score.is_finite() { score * *weight } else { f64::NEG_INFINITY };
            }
        }
        Ok(())
    }
}

/// What a blend came to on the training data: the measure so that less is better, and pods left without a machine.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Worth {
    cost: f64,
    unserved: f64,
}

impl Worth {
    fn is_better_than(self, other: Self) -> bool {
        self.unserved <= other.unserved && self.cost < other.cost
    }
}

/// Learns a blend.
pub struct BlendAgent {
    settings: BlendSettings,
    objective: Objective,
    entry: Vec<Entry>,
    cases: Vec<PreparedCase>,
    seed: u64,
    step_limit: Option<u64>,
    weights: Vec<f32>,
    worth: Option<Worth>,
    spread: f64,
    generation: u64,
    episodes: u64,
    steps: u64,
}

impl BlendAgent {
    /// Prepares the training data of a scenario; also says what the model will be.
    pub fn new(scenario: &Scenario, spec: &LearnSpec) -> Result<(Self, Card), LearnError> {
        let options = spec.agent.options.clone();
        let mut settings: BlendSettings = options
            .try_into()
            .map_err(|error: toml::de::Error| LearnError::Invalid(format!("learn.agent: {}", error.message())))?;
        if !settings.heuristics.contains(&spec.base) {
            settings.heuristics.insert(0, spec.base.clone());
        }
        Blend::new(settings.heuristics.iter().map(|name| (name.as_str(), 1.0)))?;
        let own = spec.training(scenario);
        let trace = own.trace(&own.fleet()?)?;
        let case = |seed: &u64| PreparedCase::new(&own, &trace, Case { window: None, seed: *seed });
        let cases = spec.train.samples.par_iter().map(case).collect::<Result<Vec<_>, _>>()?;
        let objective = spec.objective()?;
        let card = Card {
            schema: CARD_SCHEMA.into(),
            name: String::new(),
            description: spec.description.clone(),
            network: NetworkCard { kind: KIND.into(), sizes: BTreeMap::new() },
            node_features: settings.heuristics.clone(),
            pod_features: Vec::new(),
            ranges: Vec::new(),
            base: spec.base.clone(),
            trust: spec.trust,
            alone: false,
            training: TrainingCard::default(),
            figures: BTreeMap::new(),
        };
        let agent = Self {
            weights: settings.heuristics.iter().map(|name| f32::from(u8::from(*name == spec.base))).collect(),
            spread: settings.spread,
            entry: catalogue::entry(&objective.measure).into_iter().collect(),
            seed: spec.seed,
            step_limit: spec.train.steps,
            settings,
            objective,
            cases,
            worth: None,
            generation: 0,
            episodes: 0,
            steps: 0,
        };
        Ok((agent, card))
    }

    /// Runs a blend on all training data; also says how many pods arrived.
    fn try_out(&self, weights: &[f32]) -> Result<(Worth, u64), LearnError> {
        let runs = self.cases.par_iter().map(|case| {
            let parts = self.settings.heuristics.iter().map(String::as_str);
            let blend = Blend::new(parts.zip(weights.iter().map(|weight| f64::from(*weight))))?;
            let row = case.run(KIND, Box::new(blend), &mut Nobody)?.row;
            let value = catalogue::values(&row, &self.entry).first().copied().flatten().ok_or_else(|| {
                let measure = &self.objective.measure;
                LearnError::Invalid(format!(
                    "learn.objective: {measure} is not measured in scenario {:?}",
                    row.scenario
                ))
            })?;
            Ok((value, row.measures.rejected + row.measures.waiting, row.measures.arrived))
        });
        let runs = runs.collect::<Result<Vec<_>, LearnError>>()?;
        let sign = if self.objective.better == Better::More { -1.0 } else { 1.0 };
        let cost = runs.iter().map(|(value, ..)| value * sign).sum::<f64>() / runs.len().max(1) as f64;
        let unserved = runs.iter().map(|(_, unserved, _)| *unserved as f64).sum();
        Ok((Worth { cost, unserved }, runs.iter().map(|(.., arrived)| arrived).sum()))
    }

    /// The blends of a generation: first each heuristic alone, then some at a distance from the best so far, drawn from the seed and
    /// the generation alone.
    fn candidates(&self) -> Vec<Vec<f32>> {
        let count = self.weights.len();
        if self.generation == 0 {
            let alone = |one: usize| (0..count).map(|at| f32::from(u8::from(at == one))).collect();
            return (0..count).map(alone).collect();
        }
        let mut rng = Rng::new(self.seed ^ self.generation.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut normal = || {
            let (drawn, length, angle) = (rng.unit(), rng.unit().max(f64::MIN_POSITIVE), rng.unit());
            (drawn, libm::sqrt(-2.0 * libm::log(length)) * libm::cos(angle * std::f64::consts::TAU))
        };
        // Few weights at a time: most heuristics only harm the rest.
        let share = CHANGED / count as f64;
        let mut candidate = |_| {
            let change = |weight: &f32| {
                let (drawn, by) = normal();
                if drawn < share { weight + (by * self.spread) as f32 } else { *weight }
            };
            self.weights.iter().map(change).collect()
        };
        (0..self.settings.candidates.max(1)).map(&mut candidate).collect()
    }
}

impl Agent for BlendAgent {
    fn iterate(&mut self) -> Result<Report, LearnError> {
        let mut worth = match self.worth {
            Some(worth) => worth,
            None => {
                let (worth, steps) = self.try_out(&self.weights)?;
                self.steps += steps;
                worth
            }
        };
        let tried = self.candidates();
        let found = tried.par_iter().map(|weights| self.try_out(weights)).collect::<Result<Vec<_>, _>>()?;
        let (mut better, found_count) = (0, found.len());
        for (weights, (found, steps)) in tried.into_iter().zip(found) {
            self.steps += steps;
            if found.is_better_than(worth) {
                (worth, self.weights, better) = (found, weights, better + 1);
            }
        }
        if self.generation > 0 {
            // Where a step helps, a longer one may; where none does, they are too long.
            self.spread *= if better > 0 { 1.1 } else { 0.8 };
        }
        self.episodes += (found_count * self.cases.len()) as u64;
        self.worth = Some(worth);
        self.generation += 1;
        let by_generation = self.generation as f64 / self.settings.generations.max(1) as f64;
        let by_steps = self.step_limit.map_or(0.0, |limit| self.steps as f64 / limit.max(1) as f64);
        Ok(Report {
            steps: self.steps,
            episodes: self.episodes,
            mean_return: Some(-worth.cost),
            scalars: vec![("spread", self.spread), ("unserved", worth.unserved)],
            progress: by_generation.max(by_steps).min(1.0),
            ..Report::default()
        })
    }

    fn state(&self) -> AgentState {
        let mut state = AgentState { tensors: self.weights(), ..AgentState::default() };
        let worth = self.worth.map(|worth| [worth.cost, worth.unserved]);
        for (name, value) in [
            ("worth", serde_json::json!(worth)),
            ("spread", self.spread.into()),
            ("generation", self.generation.into()),
            ("episodes", self.episodes.into()),
            ("steps", self.steps.into()),
        ] {
            state.values.insert(name.into(), value);
        }
        state
    }

    fn begin_with(&mut self, weights: &Weights) -> Result<(), LearnError> {
        let found = weights.get(WEIGHTS).filter(|tensor| tensor.data.len() == self.weights.len());
        let found = found.ok_or_else(|| {
            LearnError::Invalid(format!("the other model does not weigh {} heuristics", self.weights.len()))
        })?;
        self.weights.clone_from(&found.data);
        // Each heuristic alone was tried by the other.
        self.generation = 1;
        Ok(())
    }

    fn restore(&mut self, state: &AgentState) -> Result<(), LearnError> {
        let missing = |name: &str| LearnError::Invalid(format!("the state of a blend lacks {name:?}"));
        let value = |name: &str| state.values.get(name).cloned().ok_or_else(|| missing(name));
        let weights = &state.tensors.get(WEIGHTS).ok_or_else(|| missing(WEIGHTS))?.data;
        if weights.len() != self.weights.len() {
            let problem = format!("the state has {} weights for {} heuristics", weights.len(), self.weights.len());
            return Err(LearnError::Invalid(problem));
        }
        self.weights.clone_from(weights);
        let worth: Option<[f64; 2]> = serde_json::from_value(value("worth")?).map_err(|_| missing("worth"))?;
        self.worth = worth.map(|[cost, unserved]| Worth { cost, unserved });
        self.spread = value("spread")?.as_f64().ok_or_else(|| missing("spread"))?;
        self.generation = value("generation")?.as_u64().ok_or_else(|| missing("generation"))?;
        self.episodes = value("episodes")?.as_u64().ok_or_else(|| missing("episodes"))?;
        self.steps = value("steps")?.as_u64().ok_or_else(|| missing("steps"))?;
        Ok(())
    }

    fn weights(&self) -> Weights {
        let tensor = Tensor { shape: vec![self.weights.len()], data: self.weights.clone() };
        Weights::from([(WEIGHTS.to_owned(), tensor)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIO: &str = r#"
[workload.generate]
kind = "poisson"
hours = 2
pods_per_hour = 60
[[pool]]
name = "n"
count = 20
cpu = 16
memory = "64Gi"
idle_watts = 50
full_watts = 150
[learn]
base = "worst-fit"
agent = { name = "blend", generations = 6, candidates = 4, heuristics = ["best-fit", "worst-fit"] }
"#;

    fn agent() -> BlendAgent {
        let scenario = Scenario::parse(SCENARIO).unwrap();
        BlendAgent::new(&scenario, &LearnSpec::read(&scenario).unwrap()).unwrap().0
    }

    fn to_end(agent: &mut BlendAgent) -> f64 {
        loop {
            let report = agent.iterate().unwrap();
            if report.progress >= 1.0 {
                return report.mean_return.unwrap();
            }
        }
    }

    #[test]
    fn it_learns_that_best_fit_needs_less_energy_than_worst_fit() {
        let mut agent = agent();
        let (before, _) = agent.try_out(&agent.weights.clone()).unwrap();
        let after = -to_end(&mut agent);
        assert!(after < 0.8 * before.cost, "{after} kWh, from {}", before.cost);
        assert!(agent.weights[0] > agent.weights[1], "{:?}", agent.weights);
    }

    #[test]
    fn it_goes_on_from_a_state_as_if_it_had_never_stopped() {
        let (mut whole, mut first) = (agent(), agent());
        to_end(&mut whole);
        for _ in 0..3 {
            first.iterate().unwrap();
        }
        let mut second = agent();
        second.restore(&first.state()).unwrap();
        to_end(&mut second);
        assert_eq!(second.state(), whole.state());
    }

    #[test]
    fn it_cannot_be_told_lifetimes() {
        let Err(error) = Blend::new([("lifetime-aware", 1.0)]) else { panic!("it can") };
        assert!(error.to_string().contains("\"lifetime-aware\" is not known; there are default"), "{error}");
    }
}
