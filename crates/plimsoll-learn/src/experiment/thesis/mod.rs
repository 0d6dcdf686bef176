//! The experiments of a thesis on learning schedulers: DQN with DeepSets for energy (EE), load balancing (LB), and energy with latency
//! (EL-RL), against the default scheduler.
//!
//! Test 1 creates one-pod deployments one by one, deletes all, and begins again. Test 2 keeps as many alive, deleting the oldest for each new
//! one, while the latencies of nodes change twice.

mod advised;
mod cluster;
mod findings;
mod plots;
#[cfg(test)]
mod tests;

use super::{Draw, Experiment, Finding, Progress, Recorder, Sample, Watched};
use crate::agent::chooser::{Chooser, Greedy};
use crate::agent::dqn::{Dqn, DqnSettings};
use crate::agent::{Agent, Report};
use crate::environment::{Environment, Shuffle};
use crate::error::LearnError;
use crate::network::{Network, NetworkKind, NetworkSpec};
pub use advised::{Advised, Seat};
pub use cluster::{Test, alive_at_once, latencies_at};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the experiment is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct ThesisSettings {
    /// The seed.
    pub seed: u64,
    /// How many nodes there are.
    pub nodes: usize,
    /// Rounds of test 1.
    pub rounds: u32,
    /// Pods of a round.
    pub pods_of_round: u32,
    /// Pods of test 2.
    pub pods: u32,
    /// Pods that stay alive in test 2.
    pub alive: u32,
    /// Pods that stay alive in test 2 of EL-RL.
    pub alive_with_latency: u32,
    /// The agent's hyper-parameters.
    pub agent: DqnSettings,
}

impl Default for ThesisSettings {
    fn default() -> Self {
        Self {
            seed: 1,
            nodes: 4,
            rounds: 500,
            pods_of_round: 30,
            pods: 500,
            alive: 30,
            alive_with_latency: 20,
            // Rewards of ten a step make long gradients: without short ones some seeds learn nothing in so few steps.
            agent: DqnSettings { clip: 1.0, ..DqnSettings::thesis() },
        }
    }
}

/// A scheduler of the experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Energy.
    Ee,
    /// Load balancing.
    Lb,
    /// Energy and latency.
    ElRl,
    /// The default scheduler.
    Default,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Ee, Self::Lb, Self::ElRl, Self::Default];

    /// Its name in figures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ee => "EE",
            Self::Lb => "LB",
            Self::ElRl => "EL-RL",
            Self::Default => "default",
        }
    }

    /// What it learns by; none for the default scheduler.
    pub fn reward(self) -> Option<&'static str> {
        match self {
            Self::Ee => Some("ee"),
            Self::Lb => Some("lb"),
            Self::ElRl => Some("el-rl"),
            Self::Default => None,
        }
    }
}

/// A policy as it came out of training.
pub struct Trained {
    /// What chooses.
    pub chooser: Box<dyn Chooser>,
    /// How training went.
    pub reports: Vec<Report>,
}

/// Whatever trains the experiment's policies.
pub trait Trainer {
    /// Learns by a reward, in an environment whose observations are so wide for a node and a pod.
    fn train(&self, policy: Policy, environment: Watched, widths: (usize, usize)) -> Result<Trained, LearnError>;
}

/// The trainer of the thesis: DQN with DeepSets.
pub struct DqnTrainer {
    settings: DqnSettings,
    seed: u64,
}

impl Trainer for DqnTrainer {
    fn train(&self, _: Policy, environment: Watched, widths: (usize, usize)) -> Result<Trained, LearnError> {
        let (node_width, pod_width) = widths;
        let spec = NetworkSpec { kind: NetworkKind::Deepsets, node_width, pod_width, ..NetworkSpec::default() };
        let environments: Vec<Box<dyn Environment>> = vec![Box::new(environment)];
        let mut agent = Dqn::new(self.settings.clone(), &spec, environments, self.seed)?;
        let mut reports = Vec::new();
        while reports.last().is_none_or(|report: &Report| report.progress < 1.0) {
            reports.push(agent.iterate()?);
        }
        let network = Network::with_weights(&spec, agent.weights())?;
        Ok(Trained { chooser: Box::new(Greedy(network)), reports })
    }
}

/// A test that a policy goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trial {
    /// The policy.
    pub policy: Policy,
    /// The test.
    pub test: Test,
    /// How many nodes there are.
    pub nodes: usize,
    /// How the nodes are ordered that a policy sees.
    pub shuffle: Shuffle,
}

/// Where tests are run.
pub trait Stage {
    /// Runs a test and records its steps. The default scheduler chooses where there is no chooser; one that is taken out is put back.
    fn run(
        &mut self,
        settings: &ThesisSettings,
        trial: &Trial,
        chooser: &mut Option<Box<dyn Chooser>>,
        recorder: &Recorder,
    ) -> Result<(), LearnError>;
}

/// Tests in simulation.
pub struct Simulated;

impl Stage for Simulated {
    fn run(
        &mut self,
        settings: &ThesisSettings,
        trial: &Trial,
        chooser: &mut Option<Box<dyn Chooser>>,
        recorder: &Recorder,
    ) -> Result<(), LearnError> {
        let watched = Watched::with(cluster::test(settings, trial)?, recorder.clone());
        walk(watched, chooser.as_deref_mut(), settings.seed)
    }
}

/// One policy through one test.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// The policy.
    pub policy: Policy,
    /// What happened, step by step.
    pub samples: Vec<Sample>,
    /// Pods that stay alive, where they do.
    pub alive: usize,
}

/// All that was run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Runs {
    /// Training: what happened, and the reports.
    pub training: Vec<(Run, Vec<Report>)>,
    /// Test 1.
    pub test1: Vec<Run>,
    /// Test 2.
    pub test2: Vec<Run>,
    /// When latencies change in test 2, in steps.
    pub changes: Vec<usize>,
    /// Test 2 with rows in another order at every decision.
    pub permuted: Vec<Run>,
    /// Test 2 with fewer nodes.
    pub shrunk: Vec<Run>,
}

/// A part of the experiment that a policy goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Training,
    Test1,
    Test2,
    Permuted,
    Shrunk,
}

impl Runs {
    fn push(&mut self, part: Part, run: Run, reports: Vec<Report>) {
        match part {
            Part::Training => self.training.push((run, reports)),
            Part::Test1 => self.test1.push(run),
            Part::Test2 => self.test2.push(run),
            Part::Permuted => self.permuted.push(run),
            Part::Shrunk => self.shrunk.push(run),
        }
    }
}

/// What is done, and what is being recorded.
type SoFar = (Runs, Option<(Part, Policy, Recorder)>);

/// The experiment as far as it has come.
struct Board {
    settings: ThesisSettings,
    state: Mutex<SoFar>,
}

impl Board {
    fn state(&self) -> MutexGuard<'_, SoFar> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, part: Part, policy: Policy, recorder: Recorder) {
        self.state().1 = Some((part, policy, recorder));
    }

    /// Keeps what was recorded of the part that was begun last.
    fn end(&self, reports: Vec<Report>) {
        let (runs, recorded) = &mut *self.state();
        if let Some((part, policy, recorder)) = recorded.take() {
            runs.push(part, self.run(part, policy, recorder.take()), reports);
        }
    }

    fn run(&self, part: Part, policy: Policy, samples: Vec<Sample>) -> Run {
        let alive = match part {
            Part::Training => self.settings.pods_of_round,
            _ => cluster::alive_at_once(&self.settings, policy),
        };
        Run { policy, samples, alive: alive as usize }
    }

    /// Findings are about what is done; figures show what is under way, too.
    fn experiment(&self) -> Experiment {
        let (mut runs, recorded) = self.state().clone();
        let settings = &self.settings;
        let findings = findings::findings(settings, &runs);
        if let Some((part, policy, recorder)) = recorded {
            runs.push(part, self.run(part, policy, recorder.so_far()), Vec::new());
        }
        Experiment {
            title: "The thesis, reproduced".into(),
            summary: format!(
                "{} nodes; DQN with DeepSets, {} steps of training; test 1: {} rounds of {} pods; test 2: {} pods, {} alive (EL-RL: {}).",
                settings.nodes,
                settings.agent.steps,
                settings.rounds,
                settings.pods_of_round,
                settings.pods,
                settings.alive,
                settings.alive_with_latency
            ),
            findings,
            sections: plots::sections(settings, &runs),
        }
    }
}

/// Runs the experiment as the thesis did.
pub fn run(settings: &ThesisSettings, progress: Progress<'_>) -> Result<(Runs, Experiment), LearnError> {
    let trainer = DqnTrainer { settings: settings.agent.clone(), seed: settings.seed };
    run_with(settings, &trainer, &mut Simulated, progress)
}

/// Runs the experiment with tests somewhere else. Policies learn in simulation.
pub fn run_on(
    settings: &ThesisSettings,
    stage: &mut dyn Stage,
    progress: Progress<'_>,
) -> Result<(Runs, Experiment), LearnError> {
    let trainer = DqnTrainer { settings: settings.agent.clone(), seed: settings.seed };
    run_with(settings, &trainer, stage, progress)
}

/// Runs the experiment with policies that are trained otherwise.
pub fn run_with(
    settings: &ThesisSettings,
    trainer: &dyn Trainer,
    stage: &mut dyn Stage,
    progress: Progress<'_>,
) -> Result<(Runs, Experiment), LearnError> {
    if settings.nodes < 3 || settings.pods < 3 * settings.alive || settings.rounds == 0 {
        return Err(LearnError::Invalid(
            "the experiment needs at least 3 nodes, a round, and three times as many pods as stay alive".into(),
        ));
    }
    let runs = Runs { changes: cluster::changes(settings), ..Runs::default() };
    let board = Arc::new(Board { settings: settings.clone(), state: Mutex::new((runs, None)) });
    let drawn = Arc::clone(&board);
    let draw: Draw = Arc::new(move || drawn.experiment());
    for policy in Policy::ALL {
        let mut chooser = None;
        if let Some(reward) = policy.reward() {
            progress(&format!("training {}", policy.name()), &draw);
            let (watched, recorder) = Watched::new(cluster::training(settings, reward)?);
            board.begin(Part::Training, policy, recorder);
            let trained = trainer.train(policy, watched, cluster::widths())?;
            board.end(trained.reports);
            chooser = Some(trained.chooser);
        }
        progress(&format!("testing {}", policy.name()), &draw);
        let mut test = |part: Part, test: Test, nodes: usize, shuffle: Shuffle| {
            let recorder = Recorder::default();
            board.begin(part, policy, recorder.clone());
            stage.run(settings, &Trial { policy, test, nodes, shuffle }, &mut chooser, &recorder)?;
            board.end(Vec::new());
            Ok::<(), LearnError>(())
        };
        test(Part::Test1, Test::One, settings.nodes, Shuffle::Never)?;
        test(Part::Test2, Test::Two, settings.nodes, Shuffle::Never)?;
        if policy.reward().is_some() {
            test(Part::Permuted, Test::Two, settings.nodes, Shuffle::Decisions)?;
            test(Part::Shrunk, Test::Two, settings.nodes - 1, Shuffle::Never)?;
        }
    }
    let experiment = board.experiment();
    let runs = board.state().0.clone();
    Ok((runs, experiment))
}

/// Goes through an episode: by a chooser, or as the default scheduler would.
fn walk(mut watched: Watched, mut chooser: Option<&mut (dyn Chooser + 'static)>, seed: u64) -> Result<(), LearnError> {
    watched.reset(seed)?;
    loop {
        let action = match &mut chooser {
            Some(chooser) => chooser.choose(watched.observation())?,
            None => watched.environment.policy_action()?,
        };
        if watched.step(action)?.is_last() {
            return Ok(());
        }
    }
}
