//! The students' prototype: three nodes of different size, pods at a controlled pace, and a table that learns to balance or to compress.

mod cluster;
#[cfg(test)]
mod tests;

use super::{Draw, Experiment, Figure, Finding, Line, Progress, Sample, Watched};
use crate::agent::chooser::{ByLot, Chooser, Rule};
use crate::agent::qtable::{QLearning, QSettings, QTable, TableSettings};
use crate::agent::schedule::Schedule;
use crate::agent::{Agent, Report};
use crate::environment::{Environment, Shuffle};
use crate::error::LearnError;
use plimsoll_core::rng::Rng;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The objectives.
const OBJECTIVES: [&str; 2] = ["balance", "compress"];
/// Unseen episodes are drawn from seeds that training does not come to.
const UNSEEN: u64 = 1 << 41;

/// What the experiment is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct QTableSettings {
    /// The seed.
    pub seed: u64,
    /// Pending pods that are seen, one table each.
    pub lookaheads: Vec<usize>,
    /// Episodes on which policies are measured, none of them seen in training.
    pub episodes: u64,
    /// The agent's hyper-parameters.
    pub agent: QSettings,
}

impl Default for QTableSettings {
    fn default() -> Self {
        let agent = QSettings {
            // With three pods seen there are some 20,000 states: each has to be come across often enough.
            steps: 1_000_000,
            // What a placement does to the next ones soon fades: pods live for a few batches.
            gamma: 0.5,
            epsilon: Schedule::Linear { start: 1.0, end: 0.02, fraction: 0.7 },
            table: TableSettings { bins: 8, ..TableSettings::default() },
            ..QSettings::default()
        };
        Self { seed: 1, lookaheads: vec![1, 3], episodes: 20, agent }
    }
}

/// What came of one objective with one lookahead.
#[derive(Debug, Clone)]
pub struct Learned {
    /// The objective.
    pub objective: &'static str,
    /// Pending pods that are seen.
    pub lookahead: usize,
    /// How training went.
    pub reports: Vec<Report>,
    /// What was learned.
    pub table: QTable,
    /// Mean rewards of a decision.
    pub scores: Scores,
    /// One unseen episode with the table, and the same with the default scheduler.
    pub samples: [Vec<Sample>; 2],
}

/// Mean rewards of a decision, over unseen episodes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Scores {
    /// By the table.
    pub learned: f64,
    /// By the table, with rows in another order at every decision.
    pub shuffled: f64,
    /// By the rule alone that unseen states fall back to.
    pub rule: f64,
    /// By the default scheduler.
    pub default: f64,
    /// By lot.
    pub lot: f64,
    /// By the table on four nodes, none of whose states it has seen.
    pub four_nodes: f64,
    /// Choices on four nodes that were left to the rule, as a share.
    pub fallbacks: f64,
}

/// How training goes: whose it is, and its reports.
type Curve = (String, Vec<Report>);

/// The experiment as far as it has come.
struct Board {
    settings: QTableSettings,
    state: Mutex<(Vec<Learned>, Curve)>,
}

impl Board {
    fn state(&self) -> MutexGuard<'_, (Vec<Learned>, Curve)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn experiment(&self) -> Experiment {
        let (all, under_way) = self.state().clone();
        let mut curves: Vec<Curve> = all.iter().map(|learned| (learned.name(), learned.reports.clone())).collect();
        curves.extend((!under_way.1.is_empty()).then_some(under_way));
        Experiment {
            title: "The three-node prototype, reproduced".into(),
            summary: format!(
                "Tabular Q-learning on nodes of 4, 8 and 16 cores; {} steps of training; measured on {} episodes that training did not see.",
                self.settings.agent.steps, self.settings.episodes
            ),
            findings: findings(&all),
            sections: sections(&all, &curves),
        }
    }
}

/// Runs the experiment.
pub fn run(settings: &QTableSettings, progress: Progress<'_>) -> Result<(Vec<Learned>, Experiment), LearnError> {
    if settings.episodes == 0 || settings.lookaheads.is_empty() {
        return Err(LearnError::Invalid("the experiment needs an episode to measure and a lookahead".into()));
    }
    let board = Arc::new(Board { settings: settings.clone(), state: Mutex::default() });
    let drawn = Arc::clone(&board);
    let draw: Draw = Arc::new(move || drawn.experiment());
    for objective in OBJECTIVES {
        for &lookahead in &settings.lookaheads {
            progress(&format!("learning to {objective}, seeing {lookahead} pods"), &draw);
            board.state().1 = (name(objective, lookahead), Vec::new());
            let learned = learn(settings, objective, lookahead, &mut |report| board.state().1.1.push(report.clone()))?;
            let mut state = board.state();
            state.0.push(learned);
            state.1.1.clear();
        }
    }
    let experiment = board.experiment();
    let all = board.state().0.clone();
    Ok((all, experiment))
}

fn name(objective: &str, lookahead: usize) -> String {
    format!("{objective}, {lookahead} seen")
}

impl Learned {
    fn name(&self) -> String {
        name(self.objective, self.lookahead)
    }
}

fn learn(
    settings: &QTableSettings,
    objective: &'static str,
    lookahead: usize,
    tell: &mut dyn FnMut(&Report),
) -> Result<Learned, LearnError> {
    let mut agent = settings.agent.clone();
    agent.table.fallback = Rule::best_for(objective).to_owned();
    let (node_features, pod_features) = cluster::features(lookahead);
    let environment = cluster::environment(objective, 3, lookahead, Shuffle::Episodes)?;
    let mut agent = QLearning::new(agent, &node_features, &pod_features, Box::new(environment), settings.seed)?;
    let mut reports = Vec::new();
    while reports.last().is_none_or(|report: &Report| report.progress < 1.0) {
        let report = agent.iterate()?;
        tell(&report);
        reports.push(report);
    }
    let table = agent.table().clone();
    let mut chooser = table.clone();
    let measure = |nodes: usize, shuffle: Shuffle, chooser: Option<&mut dyn Chooser>| {
        let environment = cluster::environment(objective, nodes, lookahead, shuffle)?;
        measure(settings, environment, chooser)
    };
    let (learned, by_table) = measure(3, Shuffle::Never, Some(&mut chooser))?;
    let (shuffled, _) = measure(3, Shuffle::Decisions, Some(&mut chooser))?;
    let mut rule = Rule::by_name(Rule::best_for(objective), &node_features)?;
    let (rule, _) = measure(3, Shuffle::Never, Some(&mut rule))?;
    let (default, by_default) = measure(3, Shuffle::Never, None)?;
    let (lot, _) = measure(3, Shuffle::Never, Some(&mut ByLot(Rng::new(settings.seed))))?;
    let before = chooser.fallbacks();
    let (four_nodes, samples) = measure(4, Shuffle::Never, Some(&mut chooser))?;
    let fallbacks = (chooser.fallbacks() - before) as f64 / (samples.len() as u64 * settings.episodes).max(1) as f64;
    let scores = Scores { learned, shuffled, rule, default, lot, four_nodes, fallbacks };
    Ok(Learned { objective, lookahead, reports, table, scores, samples: [by_table, by_default] })
}

/// The mean reward of a decision over unseen episodes, and the first of them step by step.
fn measure(
    settings: &QTableSettings,
    environment: crate::environment::ClusterEnvironment,
    mut chooser: Option<&mut dyn Chooser>,
) -> Result<(f64, Vec<Sample>), LearnError> {
    let (mut watched, recorder) = Watched::new(environment);
    let (mut sum, mut steps, mut first) = (0.0, 0.0, Vec::new());
    for episode in 0..settings.episodes {
        watched.reset(UNSEEN + episode)?;
        loop {
            let action = match &mut chooser {
                Some(chooser) => chooser.choose(watched.observation())?,
                None => watched.environment.policy_action()?,
            };
            let step = watched.step(action)?;
            (sum, steps) = (sum + f64::from(step.reward), steps + 1.0);
            if step.is_last() {
                break;
            }
        }
        let samples = recorder.take();
        if episode == 0 {
            first = samples;
        }
    }
    Ok((sum / steps, first))
}

fn findings(all: &[Learned]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for Learned { objective, lookahead, table, scores, .. } in all {
        let of = format!("{objective}, {lookahead} pod{} seen", if *lookahead == 1 { "" } else { "s" });
        let mut add = |expected: &str, held: bool, evidence: String| {
            findings.push(Finding { expected: format!("{expected} ({of})"), held, evidence });
        };
        let Scores { learned, shuffled, rule, default, lot, four_nodes, fallbacks } = *scores;
        add("Learning beats chance", learned > lot, format!("{learned:.3} a decision, by lot {lot:.3}"));
        add(
            "The same simulation with learning does better than without",
            learned > default,
            format!(
                "{learned:.3}, default scheduler {default:.3}; the rule that unseen states fall back to has {rule:.3}"
            ),
        );
        add(
            "The order of nodes does not matter",
            (learned - shuffled).abs() < 0.01,
            format!(
                "{learned:.3}, with rows in another order at every decision {shuffled:.3}; {} states kept",
                table.len()
            ),
        );
        add(
            "Unseen states are no failure",
            fallbacks > 0.99 && four_nodes > 0.0,
            format!(
                "on four nodes {:.0} % of choices fell back to the rule, for {four_nodes:.3} a decision",
                100.0 * fallbacks
            ),
        );
    }
    findings
}

fn sections(all: &[Learned], curves: &[Curve]) -> Vec<(String, String, Vec<Figure>)> {
    let curve = |title: &str, y: &str, value: &dyn Fn(&Report) -> Option<f64>| {
        let line = |(colour, (name, reports)): (usize, &Curve)| {
            let points = reports.iter().filter_map(|report| Some((report.steps as f64, value(report)?)));
            Line { name: Some(name.clone()), colour, points: points.collect() }
        };
        let lines = curves.iter().enumerate().map(line).collect();
        Figure { title: title.into(), x: "step".into(), y: y.into(), lines, marks: Vec::new() }
    };
    let scalar = |wanted: &'static str| {
        move |report: &Report| report.scalars.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value)
    };
    let training = vec![
        curve("Return of an episode", "mean of the latest episodes", &|report| report.mean_return),
        curve("States visited", "states", &scalar("states")),
        curve("Exploration", "epsilon", &scalar("epsilon")),
    ];
    let pods = all.iter().flat_map(|learned| {
        let whose = [learned.name(), format!("{}: default scheduler", learned.name())];
        learned.samples.iter().zip(whose).map(|(samples, title)| {
            let node = |node: usize| {
                let values: Vec<f64> = samples.iter().map(|sample| f64::from(sample.pods[node])).collect();
                Line::over_steps(["4 cores", "8 cores", "16 cores"][node], node, &values)
            };
            Figure { title, x: "step".into(), y: "pods".into(), lines: (0..3).map(node).collect(), marks: Vec::new() }
        })
    });
    vec![
        ("Training".into(), "How the tables grew, and what they reached.".into(), training),
        ("An unseen episode".into(), "Pods per node, step by step.".into(), pods.collect()),
    ]
}
