//! Variables of the environment that count more than the `[learn]` section.

use super::LearnSpec;
use crate::agent::schedule::Schedule;
use crate::error::LearnError;
use crate::reward::objectives::VARIABLES;
use crate::reward::{Objectives, RewardSpec, Term};
use crate::variables::{Lookup, number};
use plimsoll_sim::scenario::Scenario;

/// The reward whose weights variables set.
const WEIGHED: &str = "multi-objective";

impl LearnSpec {
    /// Takes over what variables say: `LEARNING_RATE` and `GAMMA` for `dqn` and `ppo`, `EPSILON_START`, `EPSILON_END` and `EPSILON_DECAY` for `dqn`, any
    /// of which makes exploration exponential, and the weights of `multi-objective` under [`VARIABLES`].
    pub fn override_by(&mut self, lookup: Lookup<'_>) -> Result<(), LearnError> {
        self.override_agent(lookup)?;
        self.override_reward(lookup)
    }

    fn override_agent(&mut self, lookup: Lookup<'_>) -> Result<(), LearnError> {
        let (rate, gamma) = (number("LEARNING_RATE", lookup)?, number("GAMMA", lookup)?);
        let names = ["EPSILON_START", "EPSILON_END", "EPSILON_DECAY"];
        let [start, end, decay] = names.map(|name| number(name, lookup));
        let (start, end, decay) = (start?, end?, decay?);
        let name = self.agent.name.as_str();
        if !matches!(name, "dqn" | "ppo") {
            return Ok(());
        }
        for (option, value) in [("learning_rate", rate), ("gamma", gamma)] {
            let value = value.map(|value| (option.to_owned(), toml::Value::Float(value)));
            self.agent.options.extend(value);
        }
        if name == "dqn" && (start.is_some() || end.is_some() || decay.is_some()) {
            let epsilon = Schedule::Exponential {
                start: start.unwrap_or(1.0),
                end: end.unwrap_or(0.01),
                decay: decay.unwrap_or(0.995),
            };
            self.agent.options.insert("epsilon".into(), written(&epsilon)?);
        }
        Ok(())
    }

    fn override_reward(&mut self, lookup: Lookup<'_>) -> Result<(), LearnError> {
        let Some(value) = self.reward.as_mut().filter(|_| VARIABLES.iter().any(|name| lookup(name).is_some())) else {
            return Ok(());
        };
        let mut terms = RewardSpec::from_toml(value)?.terms();
        let Some((_, options)) = terms.iter_mut().find(|(name, _)| name == WEIGHED) else { return Ok(()) };
        let mut objectives = Objectives::of(options)?;
        objectives.override_by(lookup)?;
        options.objectives = Some(objectives);
        let terms = terms.into_iter().map(|(name, options)| (name, Term::Options(options)));
        *value = written(&RewardSpec::Sum(terms.collect()))?;
        Ok(())
    }
}

fn written(value: &impl serde::Serialize) -> Result<toml::Value, LearnError> {
    toml::Value::try_from(value).map_err(|error| LearnError::Invalid(format!("learn: {error}")))
}

/// The scenario, with what variables say in its `[learn]` section, if it has one: whoever hashes it hashes what is trained.
pub fn with_variables(mut scenario: Scenario, lookup: Lookup<'_>) -> Result<Scenario, LearnError> {
    if scenario.learn.is_none() {
        return Ok(scenario);
    }
    let before = LearnSpec::read(&scenario)?;
    let mut after = before.clone();
    after.override_by(lookup)?;
    if let Some(table) = scenario.learn.as_mut().filter(|_| after != before) {
        table.insert("agent".into(), written(&after.agent)?);
        table.extend(after.reward.map(|reward| ("reward".to_owned(), reward)));
    }
    Ok(scenario)
}

#[cfg(test)]
mod tests {
    use super::super::fingerprint;
    use super::*;
    use crate::agent::stepwise::reward;

    const FILE: &str = "[[pool]]\nname = 'a'\ncount = 1\ncpu = 1\nmemory = '1Gi'\nidle_watts = 1\nfull_watts = 2\n[workload.generate]\nkind = 'poisson'\n[learn]\n";

    fn read(learn: &str, set: &[(&str, &str)]) -> Result<(Scenario, LearnSpec), LearnError> {
        let lookup = |name: &str| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let scenario = with_variables(Scenario::parse(&format!("{FILE}{learn}")).unwrap(), &lookup)?;
        let spec = LearnSpec::read(&scenario)?;
        Ok((scenario, spec))
    }

    fn weights(spec: &LearnSpec) -> Objectives {
        Objectives::of(&reward(spec).unwrap().terms().remove(0).1).unwrap()
    }

    #[test]
    fn variables_count_more_than_the_weights_and_the_profile_of_the_file() {
        let set = [("REWARD_ENERGY", "0.7")];
        for (learn, balance) in [
            ("reward = 'multi-objective'", 0.25),
            ("reward = { multi-objective = 2.0 }", 0.25),
            ("reward = { multi-objective = { weight = 2.0, profile = 'data' } }", 0.40),
            ("reward = { multi-objective = { objectives = { balance = 0.9, energy = 0.1 } } }", 0.9),
        ] {
            let found = weights(&read(learn, &set).unwrap().1);
            assert_eq!((found.energy, found.balance), (0.7, balance), "{learn}");
        }
        let (_, spec) = read("reward = { energy = 1.0, multi-objective = 2.0 }", &set).unwrap();
        let terms = reward(&spec).unwrap().terms();
        assert_eq!((terms[0].1.weight, terms[1].1.weight), (Some(1.0), Some(2.0)));
        let (_, spec) = read("reward = 'ee'", &set).unwrap();
        assert_eq!(spec.reward, Some(toml::Value::String("ee".into())));
        let error = read("reward = 'multi-objective'", &[("REWARD_ENERGY", "much")]).unwrap_err().to_string();
        assert!(error.contains("REWARD_ENERGY is \"much\""), "{error}");
    }

    #[test]
    fn the_agent_takes_over_its_variables_and_is_another_training_with_them() {
        let set = [("LEARNING_RATE", "0.0003"), ("GAMMA", "0.9"), ("EPSILON_DECAY", "0.9")];
        let (plain, _) = read("agent = 'dqn'", &[]).unwrap();
        let (scenario, spec) = read("agent = 'dqn'", &set).unwrap();
        assert_eq!(spec.agent.options["learning_rate"].as_float(), Some(0.0003));
        assert_eq!(spec.agent.options["gamma"].as_float(), Some(0.9));
        let epsilon: Schedule = spec.agent.options["epsilon"].clone().try_into().unwrap();
        assert_eq!(epsilon, Schedule::Exponential { start: 1.0, end: 0.01, decay: 0.9 });
        assert_ne!(fingerprint(&scenario).unwrap(), fingerprint(&plain).unwrap());
        let (_, ppo) = read("agent = { name = 'ppo', gamma = 0.5 }", &set).unwrap();
        assert_eq!((ppo.agent.options["gamma"].as_float(), ppo.agent.options.get("epsilon")), (Some(0.9), None));
        let (blend, spec) = read("agent = 'blend'", &set).unwrap();
        assert!(spec.agent.options.is_empty());
        assert_eq!(blend.learn.unwrap()["agent"].as_str(), Some("blend"));
        let error = read("agent = 'dqn'", &[("GAMMA", "high")]).unwrap_err().to_string();
        assert!(error.contains("GAMMA is \"high\""), "{error}");
    }
}
