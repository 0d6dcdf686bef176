//! The search for better hyper-parameters by successive halving: many configurations are tried briefly, the best of them for longer.
//!
//! What a trial is, the caller says: it is given a configuration and a budget, and returns a score. The first configuration is the
//! scenario as it stands, so that a search never ends with less than one had.

use crate::error::LearnError;
use crate::evaluate::{self, Contender, Evaluation, Make, Role};
use crate::spec::{Choices, LearnSpec, TuneSpec};
use crate::workshop;
use plimsoll_core::rng::Rng;
use plimsoll_sim::report::catalogue::Better;
use plimsoll_sim::scenario::Scenario;
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use std::collections::BTreeMap;

/// How often a configuration is drawn that was drawn before, until the space is taken to hold no more.
const MOST_REPEATS: usize = 100;

/// Values by field of `[learn]`; fields that are not named stay as they are.
pub type Configuration = BTreeMap<String, toml::Value>;

/// One configuration in one round.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// The number of the configuration; 0 is the scenario as it stands.
    pub number: usize,
    /// The configuration.
    pub configuration: Configuration,
    /// The round, counted from one.
    pub round: usize,
    /// The budget it had.
    pub budget: u64,
    /// Its score, more being better, or why it has none.
    pub score: Result<f64, String>,
}

/// Tries configurations, all of a round side by side. `budget` is what the last round has; each before it has as many times less as
/// fewer configurations go on. Returns all trials, round by round, in each the best first.
pub fn successive_halving(
    spec: &TuneSpec,
    budget: u64,
    seed: u64,
    score: &(dyn Fn(&Configuration, u64) -> Result<f64, LearnError> + Sync),
    done: &(dyn Fn(&Trial) + Sync),
) -> Result<Vec<Trial>, LearnError> {
    let mut left: Vec<(usize, Configuration)> = configurations(spec, seed)?.into_iter().enumerate().collect();
    let mut trials = Vec::new();
    for round in 1..=spec.rounds {
        let budget = budget_of(spec, budget, round);
        let one = |(number, configuration): &(usize, Configuration)| {
            let found = score(configuration, budget).map_err(|error| error.to_string());
            let score = found
                .and_then(|score| if score.is_finite() { Ok(score) } else { Err(format!("its score is {score}")) });
            let trial = Trial { number: *number, configuration: configuration.clone(), round, budget, score };
            done(&trial);
            trial
        };
        let mut made: Vec<Trial> = left.par_iter().map(one).collect();
        let rank = |trial: &Trial| trial.score.as_ref().copied().unwrap_or(f64::NEG_INFINITY);
        made.sort_by(|a, b| rank(b).total_cmp(&rank(a)).then(a.number.cmp(&b.number)));
        if let Some(Trial { score: Err(problem), .. }) = made.first() {
            return Err(LearnError::Invalid(format!("no configuration could be trained; the first says: {problem}")));
        }
        let kept = made.len().div_ceil(spec.keep_one_in);
        left = made
            .iter()
            .filter(|trial| trial.score.is_ok())
            .take(kept)
            .map(|trial| (trial.number, trial.configuration.clone()))
            .collect();
        trials.extend(made);
    }
    Ok(trials)
}

/// The configurations that a search tries; the first is the scenario as it stands.
pub fn configurations(spec: &TuneSpec, seed: u64) -> Result<Vec<Configuration>, LearnError> {
    check(spec)?;
    Ok(draw(&spec.space, spec.configurations, seed))
}

/// What each round may spend, where the last may spend `budget`.
pub fn budgets(spec: &TuneSpec, budget: u64) -> Vec<u64> {
    (1..=spec.rounds).map(|round| budget_of(spec, budget, round)).collect()
}

fn budget_of(spec: &TuneSpec, budget: u64, round: usize) -> u64 {
    let less = u32::try_from(spec.rounds - round).unwrap_or(u32::MAX);
    (budget / (spec.keep_one_in as u64).saturating_pow(less)).max(1)
}

/// A trial as users mean it: trains a configuration for so many steps on the first part of the training data, and judges the model on
/// the rest. The score is the objective, turned so that more is better.
pub fn trial(scenario: &Scenario, configuration: &Configuration, steps: u64, seed: u64) -> Result<f64, LearnError> {
    let mut last = f64::NAN;
    watched_trial(scenario, configuration, &[steps], seed, &mut |_, score| {
        last = score;
        Ok(true)
    })?;
    Ok(last)
}

/// The same, judged on the way: whenever one of the budgets is spent, the smallest first. The last is what it trains for, unless `watch`, which
/// is told budget and score, has it end before.
pub fn watched_trial(
    scenario: &Scenario,
    configuration: &Configuration,
    budgets: &[u64],
    seed: u64,
    watch: &mut dyn FnMut(u64, f64) -> Result<bool, LearnError>,
) -> Result<(), LearnError> {
    let Some(&last) = budgets.last() else { return Ok(()) };
    let scenario = apply(scenario, configuration)?;
    let spec = LearnSpec::read(&scenario)?;
    let (mut spec, cases) = spec.split(&scenario)?;
    (spec.train.steps, spec.seed) = (Some(last), seed);
    let objective = spec.objective()?;
    let sign = if objective.better == Better::More { 1.0 } else { -1.0 };
    let mut learner = workshop::learner(&scenario, &spec)?;
    let mut done = 0.0;
    for &budget in budgets {
        let share = if budget == last { 1.0 } else { budget as f64 / last as f64 };
        while done < share {
            done = learner.agent().iterate()?.progress;
        }
        let (card, weights) = (learner.card(), learner.agent().weights());
        let make: Make<'_> = Box::new(|_| workshop::policy(&card, &weights));
        let contenders = [Contender::new("trial", Role::Model, make)?];
        let runs = evaluate::run(&scenario, &cases, &contenders, &|_, _| {})?;
        let evaluation = Evaluation::new(&runs, &contenders, objective.clone(), spec.gap_from())?;
        let score = evaluation.policies.first().map_or(f64::NAN, |figures| sign * figures.mean);
        if !watch(budget, score)? {
            break;
        }
    }
    Ok(())
}

fn check(spec: &TuneSpec) -> Result<(), LearnError> {
    let problem = if spec.space.is_empty() {
        "space: there is nothing to search; name a field, as in \"agent.learning_rate\" = { low = 1e-5, high = 1e-2, log = true }"
    } else if spec.configurations < 2 {
        "configurations: there must be two at least"
    } else if spec.rounds == 0 {
        "rounds: there must be one at least"
    } else if spec.keep_one_in < 2 {
        "keep_one_in: with less than two, none would be dropped"
    } else {
        return Ok(());
    };
    Err(LearnError::Invalid(format!("learn.tune.{problem}")))
}

/// Draws configurations that differ; the first changes nothing.
fn draw(space: &BTreeMap<String, Choices>, count: usize, seed: u64) -> Vec<Configuration> {
    let mut rng = Rng::new(seed);
    let mut drawn = vec![Configuration::new()];
    let mut repeats = 0;
    while drawn.len() < count && repeats < MOST_REPEATS {
        let next: Configuration = space.iter().map(|(name, choices)| (name.clone(), choices.draw(&mut rng))).collect();
        if drawn.contains(&next) {
            repeats += 1;
        } else {
            drawn.push(next);
        }
    }
    drawn
}

/// The scenario with a configuration in its `[learn]` section.
pub fn apply(scenario: &Scenario, configuration: &Configuration) -> Result<Scenario, LearnError> {
    let mut own = scenario.clone();
    let learn = own.learn.get_or_insert_default();
    for (path, value) in configuration {
        set(learn, path, value.clone())?;
    }
    Ok(own)
}

fn set(learn: &mut toml::Table, path: &str, value: toml::Value) -> Result<(), LearnError> {
    let mut names: Vec<&str> = path.split('.').collect();
    let last = names.pop().unwrap_or_default();
    let default = LearnSpec::default();
    let mut table = learn;
    for (depth, name) in names.into_iter().enumerate() {
        let named = |name: &str| toml::Table::from_iter([("name".to_owned(), toml::Value::String(name.to_owned()))]);
        let slot = table.entry(name).or_insert_with(|| {
            toml::Value::Table(match (depth, name) {
                (0, "agent") => named(&default.agent.name),
                (0, "network") => named(&default.network.name),
                _ => toml::Table::new(),
            })
        });
        // `agent = "dqn"` is short for a table with that name.
        if let toml::Value::String(short) = slot {
            *slot = toml::Value::Table(named(short));
        }
        let toml::Value::Table(next) = slot else {
            return Err(LearnError::Invalid(format!("learn.tune.space: {path}: {name} is no table")));
        };
        table = next;
    }
    table.insert(last.to_owned(), value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Range;
    use std::sync::Mutex;

    fn spec() -> TuneSpec {
        let range = Choices::Range(Range { low: 1e-4, high: 1.0, log: true, whole: false });
        TuneSpec { space: BTreeMap::from([("agent.rate".to_owned(), range)]), ..TuneSpec::default() }
    }

    fn rate(configuration: &Configuration) -> f64 {
        configuration.get("agent.rate").and_then(toml::Value::as_float).unwrap_or(1.0)
    }

    #[test]
    fn the_best_go_on_with_more_and_the_search_is_the_same_each_time() {
        let score = |configuration: &Configuration, _: u64| Ok(-(libm::log10(rate(configuration)) + 2.0).abs());
        let search = || successive_halving(&spec(), 900, 7, &score, &|_| {}).unwrap();
        let trials = search();
        let rounds = |round: usize| trials.iter().filter(|trial| trial.round == round).collect::<Vec<_>>();
        assert_eq!(
            [1, 2, 3].map(|round| (rounds(round).len(), rounds(round)[0].budget)),
            [(9, 100), (3, 300), (1, 900)]
        );
        let best = rounds(1).iter().map(|trial| trial.score.clone().unwrap()).fold(f64::NEG_INFINITY, f64::max);
        assert_eq!(rounds(3)[0].score, Ok(best));
        assert!(trials.iter().any(|trial| trial.number == 0 && trial.configuration.is_empty()));
        assert_eq!(trials, search());
        assert_ne!(trials, successive_halving(&spec(), 900, 8, &score, &|_| {}).unwrap());
    }

    #[test]
    fn what_fails_drops_out_and_if_all_fail_it_is_said() {
        let seen = Mutex::new(0);
        let picky = |configuration: &Configuration, _: u64| {
            *seen.lock().unwrap() += 1;
            if rate(configuration) > 0.01 {
                Err(LearnError::Invalid("diverged".into()))
            } else {
                Ok(rate(configuration))
            }
        };
        let trials = successive_halving(&spec(), 90, 1, &picky, &|_| {}).unwrap();
        assert_eq!(trials.len(), *seen.lock().unwrap());
        assert!(trials.iter().filter(|trial| trial.round == 1).any(|trial| trial.score == Err("diverged".into())));
        assert!(trials.iter().filter(|trial| trial.round > 1).all(|trial| trial.score.is_ok()));
        let none = |_: &Configuration, _: u64| Ok(f64::NAN);
        let error = successive_halving(&spec(), 90, 1, &none, &|_| {}).unwrap_err().to_string();
        assert!(error.contains("no configuration could be trained") && error.contains("NaN"), "{error}");
        let error = successive_halving(&TuneSpec::default(), 1, 1, &none, &|_| {}).unwrap_err().to_string();
        assert!(error.contains("learn.tune.space"), "{error}");
    }

    #[test]
    fn a_small_space_is_not_drawn_twice() {
        let list = Choices::List(vec![1.into(), 2.into()]);
        let drawn = draw(&BTreeMap::from([("seed".to_owned(), list)]), 9, 1);
        assert_eq!(drawn.len(), 3);
    }

    #[test]
    fn a_configuration_is_set_in_tables_short_names_and_missing_ones() {
        let scenario = Scenario::parse("[learn]\nnetwork='deepsets'\n[learn.train]\nsamples=[1]").unwrap();
        let fields = [
            ("agent.rate", 0.5.into()),
            ("network.hidden", 64.into()),
            ("trust", 2.0.into()),
            ("train.steps", 9.into()),
        ];
        let configuration: Configuration =
            fields.map(|(name, value): (&str, toml::Value)| (name.to_owned(), value)).into();
        let learn = apply(&scenario, &configuration).unwrap().learn.unwrap();
        assert_eq!(learn["agent"]["name"].as_str(), Some("dqn"));
        assert_eq!(learn["agent"]["rate"].as_float(), Some(0.5));
        assert_eq!(
            (learn["network"]["name"].as_str(), learn["network"]["hidden"].as_integer()),
            (Some("deepsets"), Some(64))
        );
        assert_eq!((learn["trust"].as_float(), learn["train"]["steps"].as_integer()), (Some(2.0), Some(9)));
        let wrong = Configuration::from([("trust.much".to_owned(), 1.into())]);
        let scenario = Scenario::parse("[learn]\ntrust=1.0").unwrap();
        assert!(apply(&scenario, &wrong).unwrap_err().to_string().contains("trust is no table"));
    }
}
