//! What an agent walks on: the training data of a scenario as environments.

use crate::agent::data::{looks, read};
use crate::environment::{AnyOf, ClusterEnvironment, ClusterSettings, Shuffle};
use crate::error::LearnError;
use crate::lifetime::{Predictor, PredictorFit, PredictorSettings, train};
use crate::observation::{FeatureNames, Observation, Observe, View};
use crate::policy::{Heuristic, Ranges};
use crate::reward::{REWARDS, RewardSpec, Rewards, WeightHandle};
use crate::spec::LearnSpec;
use plimsoll_core::framework::Cycle;
use plimsoll_core::policy::Policy;
use plimsoll_core::state::NodeId;
use plimsoll_sim::scenario::Scenario;
use plimsoll_sim::simulation::Inputs;
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, PoisonError};

/// How environments go, as `[learn.environment]` has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EnvironmentSpec {
    /// How many are walked through side by side; one for each sample if not given. Samples are dealt out to them in turn.
    pub count: Option<usize>,
    /// When the rows of observations change places.
    pub shuffle: Shuffle,
    /// After how many steps an episode is cut off; it goes on to the end of its time if not given.
    pub steps: Option<u64>,
}

/// Environments, and what they show.
pub struct Ground {
    /// What they show.
    pub view: View,
    /// The predictor of lifetimes that features need, and how well it fits.
    pub predictor: Option<(Predictor, PredictorFit)>,
    /// The environments.
    pub environments: Vec<ClusterEnvironment>,
    /// What each saw of every feature.
    pub seen: Vec<Arc<Mutex<Ranges>>>,
    /// The weights of what each rewards.
    pub weights: Vec<WeightHandle>,
}

impl Ground {
    /// Prepares the training data. `wants_plain` says what is shown if the scenario does not; the expert, if there is one, can be asked in
    /// each environment.
    pub fn new(
        scenario: &Scenario,
        spec: &LearnSpec,
        predictor: &PredictorSettings,
        wants_plain: bool,
        expert: Option<&str>,
    ) -> Result<Self, LearnError> {
        let (environment, view) = (environment(spec)?, view(spec, wants_plain)?);
        let reward = reward(spec)?;
        Rewards::new(&reward)?;
        let own = spec.training(scenario);
        let trace = own.trace(&own.fleet()?)?;
        let predictor = match view.needs_predictor() {
            true => Some(train(&looks(&own, &trace, spec)?, predictor, spec.seed)),
            false => None,
        };
        let prepare = |seed: &u64| {
            let mut prepared = own.prepare(&trace, *seed)?;
            // Only the reference may know what no scheduler can; what it is asked for teaches those who do not.
            prepared.settings.tells_lifetimes = expert == Some("lifetime-aware");
            // Nobody but the view knows how far it looks: the policy in the run is another's.
            prepared.settings.lookahead = prepared.settings.lookahead.max(view.lookahead());
            Ok(Inputs::from(prepared))
        };
        let samples = spec.train.samples.par_iter().map(prepare).collect::<Result<Vec<_>, LearnError>>()?;
        // What will stand in for the model is tried before anything is learned.
        Heuristic::new(&spec.base, predictor.as_ref().map(|(predictor, _)| predictor))?;
        let mut ground = Self { view, predictor, environments: Vec::new(), seen: Vec::new(), weights: Vec::new() };
        for samples in deal(&samples, environment.count)? {
            ground.add(samples, &environment, &reward, expert)?;
        }
        Ok(ground)
    }

    fn add(
        &mut self,
        samples: Vec<Inputs<'static>>,
        environment: &EnvironmentSpec,
        reward: &RewardSpec,
        expert: Option<&str>,
    ) -> Result<(), LearnError> {
        let predictor = self.predictor.as_ref().map(|(predictor, _)| predictor);
        let features = self.view.node_features().len() + self.view.pod_features().len();
        let seen = Arc::new(Mutex::new(Ranges::nothing(features)));
        let observe = Noting { observe: self.view.observe(predictor)?, seen: Arc::clone(&seen) };
        let EnvironmentSpec { shuffle, steps, .. } = *environment;
        let settings = ClusterSettings { shuffle, steps, ..ClusterSettings::default() };
        // Each has rewards of its own: weights that adapt must not depend on who steps first.
        let mut made = ClusterEnvironment::new(AnyOf(samples), observe, Rewards::new(reward)?, settings)?;
        if let Some(expert) = expert {
            let (name, predictor) = (expert.to_owned(), predictor.cloned());
            Heuristic::new(&name, predictor.as_ref())?;
            made.set_policy(Box::new(move || {
                let policy: Box<dyn Policy> = Box::new(Heuristic::new(&name, predictor.as_ref())?);
                Ok(policy)
            }));
        }
        self.weights.push(made.rewards().weights().clone());
        self.environments.push(made);
        self.seen.push(seen);
        Ok(())
    }
}

/// How environments go, as the scenario has it.
fn environment(spec: &LearnSpec) -> Result<EnvironmentSpec, LearnError> {
    read("environment", &spec.environment.clone().unwrap_or_default())
}

/// What is shown: as the scenario has it, or what is usual.
fn view(spec: &LearnSpec, wants_plain: bool) -> Result<View, LearnError> {
    match &spec.observation {
        Some(value) => View::from_toml(value),
        None if wants_plain => Ok(View::Plain { lookahead: 1 }),
        None => View::named(&FeatureNames::default()),
    }
}

/// Whether environments can be made as the scenario has them, as far as can be said without its data.
pub fn check(spec: &LearnSpec) -> Result<(), LearnError> {
    environment(spec)?;
    view(spec, true)?;
    Rewards::new(&reward(spec)?).map(drop)
}

/// Deals samples out to environments, so that each has one at least.
pub fn deal<T: Clone>(samples: &[T], count: Option<usize>) -> Result<Vec<Vec<T>>, LearnError> {
    let count = count.unwrap_or(samples.len());
    if count == 0 {
        return Err(LearnError::Invalid("learn.environment.count: 0 environments are none; 1 is one".into()));
    }
    let mut hands = vec![Vec::new(); count];
    for at in 0..count.max(samples.len()) {
        hands[at % count].push(samples[at % samples.len()].clone());
    }
    Ok(hands)
}

/// What is rewarded: as the scenario has it, or what its objective counts.
pub fn reward(spec: &LearnSpec) -> Result<RewardSpec, LearnError> {
    if let Some(value) = &spec.reward {
        return RewardSpec::from_toml(value);
    }
    let objective = spec.objective()?;
    let name = match objective.measure.as_str() {
        "kwh" | "mean_kw" | "kw_ratio" => "energy",
        "node_hours" | "active_nodes" | "active_nodes_ratio" => "node-hours",
        "cost" => "money",
        "co2_kg" => "carbon",
        "latency_mean_ms" | "latency_p95_ms" => "latency",
        "soft_violation_minutes" | "hard_violation_minutes" => "latency-violations",
        "fragmentation" => "fragmentation",
        "gpu_fragmentation" => "gpu-fragmentation",
        "wait_mean_s" | "wait_p50_s" | "wait_p95_s" | "wait_p99_s" | "waiting" => "waiting",
        "rejected" => "rejections",
        "overload_minutes" => "overload",
        other => {
            let known = REWARDS.iter().map(|known| known.name).collect::<Vec<_>>().join(", ");
            let problem = format!("learn.reward: no reward counts the objective {other:?}; name one of {known}");
            return Err(LearnError::Invalid(problem));
        }
    };
    Ok(RewardSpec::Name(name.into()))
}

/// Notes what values features take.
struct Noting {
    observe: Box<dyn Observe>,
    seen: Arc<Mutex<Ranges>>,
}

impl Observe for Noting {
    fn node_features(&self) -> Vec<String> {
        self.observe.node_features()
    }

    fn pod_features(&self) -> Vec<String> {
        self.observe.pod_features()
    }

    fn begin(&mut self) {
        self.observe.begin();
    }

    fn observe(&mut self, cycle: &Cycle<'_>, nodes: &[NodeId], feasible: &[NodeId], out: &mut Observation) {
        self.observe.observe(cycle, nodes, feasible, out);
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).note(out);
    }
}
