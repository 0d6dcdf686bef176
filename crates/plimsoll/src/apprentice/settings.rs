//! How is learned: the section of the configuration, and the variables of the environment, which count more.

use anyhow::{Result, bail, ensure};
use plimsoll_learn::variables::{Lookup, number};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

/// Learning while the scheduler runs, as a configuration has it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct TrainingSection {
    /// Whether it learns.
    pub enabled: bool,
    /// After how many placements.
    pub interval: u64,
    /// Of how many hours the workload is remembered.
    pub window_hours: f64,
    /// The measure that candidates are judged by; `kwh` where the power of all nodes is known, `node_hours` if not.
    pub objective: Option<String>,
    /// Steps of a training.
    pub steps: u64,
    /// How long a candidate is in shadow, and then watched, at most.
    pub trial_seconds: f64,
    /// After how many placements that ends sooner.
    pub trial_placements: u64,
    /// By how much a measure of the live cluster may be worse than that of the shadow, as a share.
    pub tolerance: f64,
    /// What is said under `[learn]` of a scenario, in place of the usual: agent, network, reward, observation, base.
    pub learn: serde_json::Map<String, Value>,
}

impl Default for TrainingSection {
    fn default() -> Self {
        Self {
            enabled: false,
            interval: 100,
            window_hours: 24.0,
            objective: None,
            steps: 10_000,
            trial_seconds: 600.0,
            trial_placements: 100,
            tolerance: 0.02,
            learn: serde_json::Map::new(),
        }
    }
}

/// How is learned.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingSettings {
    pub interval: u64,
    pub window: Duration,
    pub objective: Option<String>,
    pub trial: Duration,
    pub trial_placements: u64,
    pub tolerance: f64,
    pub steps: u64,
    /// What is said under `[learn]` of a scenario.
    pub learn: serde_json::Map<String, Value>,
}

impl TrainingSettings {
    /// What counts where, and whether it learns at all.
    pub fn new(section: &TrainingSection, lookup: Lookup<'_>) -> Result<Option<Self>> {
        let enabled = match lookup("ENABLE_TRAINING").as_deref().map(str::trim) {
            None => section.enabled,
            Some("true" | "1") => true,
            Some("false" | "0" | "") => false,
            Some(other) => bail!("ENABLE_TRAINING is {other:?}; it must be true or false"),
        };
        let interval = number("TRAINING_INTERVAL", lookup)?.map_or(section.interval, |interval| interval as u64);
        ensure!(interval > 0, "TRAINING_INTERVAL: after at least one placement is right");
        let hours = section.window_hours;
        ensure!(
            hours.is_finite() && hours > 0.0 && hours <= 24.0 * 366.0,
            "training.windowHours must be more than zero"
        );
        let trial = Duration::try_from_secs_f64(section.trial_seconds);
        let Ok(trial) = trial else { bail!("training.trialSeconds must be a number of seconds") };
        ensure!(section.tolerance.is_finite() && section.tolerance >= 0.0, "training.tolerance must be zero or more");
        ensure!(section.steps > 0, "training.steps must be more than zero");
        let mut learn = usual(agent_of(&section.learn));
        learn.extend(section.learn.clone());
        override_agent(&mut learn, lookup)?;
        Ok(enabled.then(|| Self {
            interval,
            window: Duration::from_secs_f64(hours * 3600.0),
            objective: section.objective.clone(),
            trial,
            trial_placements: section.trial_placements,
            tolerance: section.tolerance,
            steps: section.steps,
            learn,
        }))
    }

    /// The measure, in words.
    pub fn objective_label(&self) -> String {
        self.objective.clone().unwrap_or_else(|| "the measure".to_owned())
    }
}

/// The agent that a section names: by its name, or by a table.
fn agent_of(learn: &serde_json::Map<String, Value>) -> Option<&str> {
    let agent = learn.get("agent")?;
    agent.as_str().or_else(|| agent.get("name")?.as_str())
}

/// The agent where none is named: deep Q-learning, where networks can be trained.
const USUAL: &str = if cfg!(feature = "burn") { "dqn" } else { "evolution" };

/// What goes with an agent where nothing else is said.
fn usual(agent: Option<&str>) -> serde_json::Map<String, Value> {
    let agent = agent.unwrap_or(USUAL);
    let mut learn = object(json!({
        "description": "Learned from the cluster's own workload while it ran",
        "base": "best-fit",
    }));
    match agent {
        "dqn" | "ppo" | "imitation" => {
            let network = json!({ "name": "deepsets", "first": 48, "second": 32 });
            learn.extend([("network".to_owned(), network), ("observation".to_owned(), json!("plain"))]);
            learn.insert("agent".to_owned(), json!({ "name": agent }));
        }
        "evolution" => {
            let search = json!({ "generations": 8, "pairs": 8, "cases": 1, "validate_every": 4 });
            learn.insert("agent".to_owned(), json!({ "name": agent, "search": search }));
            learn.insert("trust".to_owned(), json!(0.3));
        }
        _ => {
            learn.insert("agent".to_owned(), json!({ "name": agent }));
        }
    }
    learn
}

fn object(value: Value) -> serde_json::Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

/// Takes over the rate, the discount and how is explored, for the agents that have them.
fn override_agent(learn: &mut serde_json::Map<String, Value>, lookup: Lookup<'_>) -> Result<()> {
    let rate = number("LEARNING_RATE", lookup)?;
    let gamma = number("GAMMA", lookup)?;
    let epsilon = [number("EPSILON_START", lookup)?, number("EPSILON_END", lookup)?, number("EPSILON_DECAY", lookup)?];
    if rate.is_none() && gamma.is_none() && epsilon.iter().all(Option::is_none) {
        return Ok(());
    }
    let mut agent = match learn.get("agent") {
        Some(Value::Object(agent)) => agent.clone(),
        Some(Value::String(name)) => object(json!({ "name": name })),
        _ => object(json!({ "name": "dqn" })),
    };
    let name = agent.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    if !matches!(name.as_str(), "dqn" | "ppo") {
        tracing::warn!(
            agent = name,
            "LEARNING_RATE, GAMMA and EPSILON_* are for dqn and ppo; this agent has none of them"
        );
        return Ok(());
    }
    agent.extend(rate.map(|rate| ("learning_rate".to_owned(), json!(rate))));
    agent.extend(gamma.map(|gamma| ("gamma".to_owned(), json!(gamma))));
    if name == "dqn" && epsilon.iter().any(Option::is_some) {
        let [start, end, decay] = epsilon;
        let (start, end, decay) = (start.unwrap_or(1.0), end.unwrap_or(0.01), decay.unwrap_or(0.995));
        agent
            .insert("epsilon".to_owned(), json!({ "kind": "exponential", "start": start, "end": end, "decay": decay }));
    }
    learn.insert("agent".to_owned(), Value::Object(agent));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(section: &TrainingSection, set: &[(&str, &str)]) -> Result<Option<TrainingSettings>> {
        let lookup = |name: &str| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        TrainingSettings::new(section, &lookup)
    }

    #[test]
    fn the_environment_counts_more_than_the_section() {
        let section = TrainingSection { interval: 7, ..TrainingSection::default() };
        assert_eq!(settings(&section, &[]).unwrap(), None);
        let found = settings(&section, &[("ENABLE_TRAINING", "true")]).unwrap().unwrap();
        assert_eq!(found.interval, 7);
        let found = settings(&section, &[("ENABLE_TRAINING", "true"), ("TRAINING_INTERVAL", "100")]).unwrap().unwrap();
        assert_eq!(found.interval, 100);
        let enabled = TrainingSection { enabled: true, ..section };
        assert_eq!(settings(&enabled, &[("ENABLE_TRAINING", "false")]).unwrap(), None);
    }

    #[test]
    fn the_agent_takes_over_its_variables() {
        let mut section = TrainingSection { enabled: true, ..TrainingSection::default() };
        section.learn = object(json!({ "agent": "dqn" }));
        let set = [("LEARNING_RATE", "0.0003"), ("GAMMA", "0.99"), ("EPSILON_DECAY", "0.9")];
        let agent = settings(&section, &set).unwrap().unwrap().learn["agent"].clone();
        let epsilon = json!({ "kind": "exponential", "start": 1.0, "end": 0.01, "decay": 0.9 });
        assert_eq!(agent, json!({ "name": "dqn", "learning_rate": 0.0003, "gamma": 0.99, "epsilon": epsilon }));
    }

    #[test]
    fn an_agent_brings_what_goes_with_it_and_nothing_of_another() {
        let learned = |agent: Value| {
            let learn = object(json!({ "agent": agent }));
            let section = TrainingSection { enabled: true, learn, ..TrainingSection::default() };
            settings(&section, &[]).unwrap().unwrap().learn
        };
        assert_eq!(learned(json!("dqn"))["network"]["name"], "deepsets");
        for agent in [json!("evolution"), json!({ "name": "evolution" }), json!("blend")] {
            assert!(!learned(agent).contains_key("network"));
        }
    }

    #[test]
    fn nonsense_is_refused_by_its_name() {
        let section = TrainingSection { enabled: true, ..TrainingSection::default() };
        for (name, value) in [("ENABLE_TRAINING", "maybe"), ("TRAINING_INTERVAL", "0"), ("GAMMA", "high")] {
            let error = settings(&section, &[(name, value)]).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
    }
}
