//! Environments of a scenario: the whole simulator, or the arena.

use crate::measure::policy_of;
use crate::scenario::Scenario;
use plimsoll_learn::agent::stepwise::{EnvironmentSpec, Ground, deal, reward};
use plimsoll_learn::environment::arena::{AnyRecorded, ArenaSettings, Recorded};
use plimsoll_learn::environment::{Arena, ClusterEnvironment, Environment, Shuffle, Step};
use plimsoll_learn::error::LearnError;
use plimsoll_learn::lifetime::{Predictor, PredictorFit, PredictorSettings};
use plimsoll_learn::observation::{Observation, View};
use plimsoll_learn::policy::Ranges;
use plimsoll_learn::reward::Rewards;
use plimsoll_learn::spec::LearnSpec;
use plimsoll_learn::variables;
use plimsoll_sim::scenario::{PowerSpec, Prepared};
use serde::Deserialize;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// The kinds of environments.
const KINDS: [&str; 2] = ["cluster", "arena"];
/// As many arenas, or more, are worth a core of their own: a step of one takes a few hundred nanoseconds.
const ARENAS_A_CORE: usize = 256;

/// What a caller says beside the scenario; what is not said is as `[learn]` has it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    pub kind: String,
    pub count: usize,
    pub reward: Option<toml::Value>,
    pub observation: Option<toml::Value>,
    pub samples: Option<Vec<u64>>,
    pub steps: Option<u64>,
    pub shuffle: Option<String>,
    pub expert: Option<String>,
    pub base: Option<String>,
}

/// Environments, and what a model that is trained in them has to know.
pub struct Made {
    pub walks: Vec<Walk>,
    pub grain: usize,
    pub view: View,
    pub predictor: Option<(Predictor, PredictorFit)>,
    /// What each saw of every feature; arenas do not note it.
    pub seen: Vec<Arc<Mutex<Ranges>>>,
    pub spec: LearnSpec,
}

/// An environment of either kind.
pub enum Walk {
    Cluster(Box<ClusterEnvironment>),
    Arena(Box<Arena>),
}

impl Walk {
    /// What is rewarded.
    pub fn rewards(&self) -> &Rewards {
        match self {
            Self::Cluster(environment) => environment.rewards(),
            Self::Arena(arena) => arena.rewards(),
        }
    }

    /// What the environment's expert would do.
    pub fn expert(&mut self) -> Result<usize, LearnError> {
        match self {
            Self::Cluster(environment) => environment.policy_action(),
            Self::Arena(_) => Err(LearnError::Invalid("an arena has no expert; use kind \"cluster\"".into())),
        }
    }
}

impl Environment for Walk {
    fn reset(&mut self, seed: u64) -> Result<(), LearnError> {
        match self {
            Self::Cluster(environment) => environment.reset(seed),
            Self::Arena(arena) => arena.reset(seed),
        }
    }

    #[inline]
    fn observation(&self) -> &Observation {
        match self {
            Self::Cluster(environment) => environment.observation(),
            Self::Arena(arena) => arena.observation(),
        }
    }

    #[inline]
    fn step(&mut self, action: usize) -> Result<Step, LearnError> {
        match self {
            Self::Cluster(environment) => environment.step(action),
            Self::Arena(arena) => arena.step(action),
        }
    }
}

/// Makes the environments that are asked for.
pub fn make(scenario: &Scenario, mut spec: LearnSpec, options: Options) -> Result<Made, LearnError> {
    let mut environment = spec.environment.take().unwrap_or_default();
    let whole = |number: u64| toml::Value::Integer(i64::try_from(number).unwrap_or(i64::MAX));
    environment.insert("count".into(), whole(options.count as u64));
    if let Some(steps) = options.steps {
        environment.insert("steps".into(), whole(steps));
    }
    if let Some(shuffle) = options.shuffle {
        environment.insert("shuffle".into(), toml::Value::String(shuffle));
    }
    spec.environment = Some(environment);
    spec.reward = options.reward.or(spec.reward);
    spec.observation = options.observation.or(spec.observation);
    spec.base = options.base.unwrap_or(spec.base);
    spec.override_by(&variables::environment)?;
    if let Some(samples) = options.samples {
        spec.train.samples = samples;
    }
    if spec.train.samples.is_empty() {
        return Err(LearnError::Invalid("samples: there is none; [1] is one".into()));
    }
    match options.kind.as_str() {
        "cluster" => cluster(scenario, spec, options.expert.as_deref()),
        "arena" if options.expert.is_some() => {
            Err(LearnError::Invalid("expert: an arena has none; use kind \"cluster\"".into()))
        }
        "arena" => arena(scenario, spec),
        other => Err(LearnError::unknown("kind", other, KINDS)),
    }
}

fn cluster(scenario: &Scenario, spec: LearnSpec, expert: Option<&str>) -> Result<Made, LearnError> {
    let model = expert.filter(|expert| Path::new(expert).is_dir());
    let named = expert.filter(|_| model.is_none());
    let mut ground = Ground::new(&scenario.inner, &spec, &PredictorSettings::default(), true, named)?;
    if let Some(model) = model {
        policy_of(model)?;
        for environment in &mut ground.environments {
            let own = model.to_owned();
            environment.set_policy(Box::new(move || Ok(policy_of(&own)?)));
        }
    }
    let Ground { view, predictor, environments, seen, .. } = ground;
    let walks = environments.into_iter().map(|environment| Walk::Cluster(Box::new(environment))).collect();
    Ok(Made { walks, grain: 1, view, predictor, seen, spec })
}

fn arena(scenario: &Scenario, spec: LearnSpec) -> Result<Made, LearnError> {
    let view = spec.observation.as_ref().map(View::from_toml).transpose()?;
    if !matches!(view, None | Some(View::Plain { lookahead: 1 })) {
        let problem = "observation: an arena shows the plain features; use kind \"cluster\" for others";
        return Err(LearnError::Invalid(problem.into()));
    }
    let own = spec.training(&scenario.inner);
    if own.power != PowerSpec::default() {
        let problem = "power: in an arena machines sleep as soon as they are empty, draw nothing then, and wake at once; leave it out, or use kind \"cluster\"";
        return Err(LearnError::Invalid(problem.into()));
    }
    let trace = own.trace(&own.fleet()?)?;
    let prepare = |seed: &u64| Ok(Arc::new(own.prepare(&trace, *seed)?));
    let samples = spec.train.samples.iter().map(prepare).collect::<Result<Vec<Arc<Prepared>>, LearnError>>()?;
    let workloads: Vec<_> = samples.iter().map(|sample| Arc::new(sample.workload.clone())).collect();
    let options = spec.environment.clone().unwrap_or_default();
    let read: Result<EnvironmentSpec, _> = options.try_into();
    let EnvironmentSpec { count, steps, shuffle } =
        read.map_err(|error: toml::de::Error| LearnError::Invalid(format!("learn.environment: {}", error.message())))?;
    if shuffle != Shuffle::Never {
        let problem = "shuffle: the rows of an arena keep their places, \"never\"; use kind \"cluster\" for others";
        return Err(LearnError::Invalid(problem.into()));
    }
    let reward = reward(&spec)?;
    let mut walks = Vec::new();
    let places: Vec<usize> = (0..samples.len()).collect();
    for dealt in deal(&places, count)? {
        let recorded = dealt.iter().map(|&at| {
            let recorded = Recorded::new(Arc::clone(&workloads[at]))?;
            Ok(match samples[at].settings.horizon {
                Some(horizon) => recorded.until(horizon),
                None => recorded,
            })
        });
        let arrivals = AnyRecorded::new(recorded.collect::<Result<_, LearnError>>()?)?;
        let Prepared { fleet, settings, .. } = &*samples[dealt[0]];
        let settings = ArenaSettings { steps, skips_single_choices: settings.skips_single_choices };
        walks.push(Walk::Arena(Box::new(Arena::new(fleet, arrivals, Rewards::new(&reward)?, settings)?)));
    }
    let view = View::Plain { lookahead: 1 };
    Ok(Made { walks, grain: ARENAS_A_CORE, view, predictor: None, seen: Vec::new(), spec })
}
