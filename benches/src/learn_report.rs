//! What learners were measured to do, and the page and file it is written to.

use crate::decisions::Times;
use crate::learner::{Line, Point};
use crate::report::median;
use anyhow::{Context, Result};
use serde::Serialize;
use std::fmt;
use std::fmt::Write as _;

/// Who runs a learner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Runner {
    /// `benches/python`, with so many threads; all cores if 0.
    Python {
        /// Threads of PyTorch.
        threads: usize,
    },
    /// Ours, with so many threads; all cores if 0.
    Plimsoll {
        /// Threads of rayon.
        threads: usize,
    },
}

impl fmt::Display for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, threads) = match self {
            Self::Python { threads } => ("Python", threads),
            Self::Plimsoll { threads } => ("Plimsoll", threads),
        };
        let cores = if *threads == 1 { "one core" } else { "all cores" };
        f.pad(&format!("{name}, {cores}"))
    }
}

/// What is compared with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Part {
    /// The environment alone.
    Environment,
    /// Deep Q-learning.
    Dqn,
    /// Proximal policy optimisation.
    Ppo,
}

/// How fast a learner is.
#[derive(Debug, Clone, Serialize)]
pub struct Speed {
    /// What it is compared with.
    pub part: Part,
    /// Who ran it.
    pub runner: Runner,
    /// Its name.
    pub what: String,
    /// What each round came to.
    pub rounds: Vec<Line>,
}

impl Speed {
    /// Not measured yet.
    pub fn new(part: Part, runner: Runner, what: &str) -> Self {
        Self { part, runner, what: what.to_owned(), rounds: Vec::new() }
    }

    fn steps_per_s(&self) -> f64 {
        median(self.rounds.iter().map(|round| round.steps_per_s))
    }

    /// The slowest and the fastest round.
    fn spread(&self) -> (f64, f64) {
        let speeds = self.rounds.iter().map(|round| round.steps_per_s);
        (speeds.clone().fold(f64::INFINITY, f64::min), speeds.fold(0.0, f64::max))
    }

    /// Steps for each second of processor time: what is left when other work on the machine is taken out.
    fn steps_per_processor_s(&self) -> f64 {
        median(self.rounds.iter().map(|round| round.steps_per_s * round.seconds / round.processor_s.max(1e-9)))
    }
}

/// Learners that are to reach the same return.
#[derive(Debug, Clone, Serialize)]
pub struct Race {
    /// The seed of all of them.
    pub seed: u64,
    /// The best return that one of the Python learners settled at.
    pub goal: f64,
    /// The curves of the Python learners, by name.
    pub theirs: Vec<(String, Line)>,
    /// Ours.
    pub ours: Vec<(String, Line)>,
}

impl Race {
    /// Where a curve first reaches a return.
    fn reaches(line: &Line, goal: f64) -> Option<&Point> {
        line.curve.iter().find(|point| point.2 >= goal)
    }

    /// The one in Python that reached the goal first.
    fn first(&self) -> Option<(&str, &Point)> {
        let reached = self.theirs.iter();
        let reached = reached.filter_map(|(name, line)| Some((name.as_str(), Self::reaches(line, self.goal)?)));
        reached.min_by(|a, b| a.1.1.total_cmp(&b.1.1))
    }
}

/// The return at which a learner settled: the mean over the second half of its curve.
pub fn settled(line: &Line) -> f64 {
    let half = &line.curve[line.curve.len() / 2..];
    half.iter().map(|point| point.2).sum::<f64>() / half.len() as f64
}

/// How long decisions of a model take.
#[derive(Debug, Clone, Serialize)]
pub struct Decisions {
    /// The model.
    pub model: String,
    /// Nodes of the cluster.
    pub nodes: usize,
    /// The rounds.
    pub rounds: Vec<Times>,
}

impl fmt::Display for Decisions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |figure: fn(&Times) -> f64| median(self.rounds.iter().map(figure));
        let (p50, p99) = (of(|times| times.p50_ms), of(|times| times.p99_ms));
        write!(f, "{:>16} {:>5} nodes: p50 {p50:.3} ms, p99 {p99:.3} ms", self.model, self.nodes)
    }
}

/// All that was measured.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Results {
    /// The mean return of best fit on the evaluation episodes, the same in both environments.
    pub best_fit: f64,
    /// How fast each is.
    pub speeds: Vec<Speed>,
    /// Races for a return.
    pub races: Vec<Race>,
    /// How long decisions take.
    pub decisions: Vec<Decisions>,
}

/// Writes `target/bench/learn.json` and `docs/benchmarks-learn.md`.
pub fn write(results: &Results) -> Result<()> {
    std::fs::create_dir_all("target/bench")?;
    std::fs::write("target/bench/learn.json", serde_json::to_string_pretty(results)? + "\n")?;
    std::fs::write("docs/benchmarks-learn.md", page(results)?)
        .context("docs/benchmarks-learn.md; run from the repository root")
}

fn page(results: &Results) -> Result<String> {
    let mut page = String::from(INTRODUCTION);
    // Read now, at the end: it says whether the machine had other work to do meanwhile.
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').nth(2).unwrap_or("unknown").to_owned();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    writeln!(page, "\nThis run: {cores} cores, with a load of {load} over the last quarter of an hour.")?;
    for (part, title, text) in [
        (Part::Environment, "The environment alone", ENVIRONMENT),
        (Part::Dqn, "DQN with equal hyper-parameters", DQN),
        (Part::Ppo, "PPO with equal hyper-parameters", PPO),
    ] {
        speeds(&mut page, results, part, title, text)?;
    }
    races(&mut page, results)?;
    decisions(&mut page, results)?;
    Ok(page)
}

fn speeds(page: &mut String, results: &Results, part: Part, title: &str, text: &str) -> Result<()> {
    write!(page, "\n## {title}\n\n{text}\n\n")?;
    page.push_str(
        "| who | steps/s | of the rounds | times Python's | steps/s of processor time | times Python's |\n|---|---|---|---|---|---|\n",
    );
    let all = || results.speeds.iter().filter(|speed| speed.part == part);
    let python = all().filter(|speed| matches!(speed.runner, Runner::Python { .. }) && speed.what != "ppo-mlp");
    let (wall, busy) = python.fold((0.0_f64, 0.0_f64), |(wall, busy), speed| {
        (wall.max(speed.steps_per_s()), busy.max(speed.steps_per_processor_s()))
    });
    for speed in all() {
        let (low, high) = speed.spread();
        let times = |own: f64, python: f64| match speed.runner {
            Runner::Plimsoll { .. } => format!("{:.1} x", own / python),
            Runner::Python { .. } => String::new(),
        };
        let (own, own_busy) = (speed.steps_per_s(), speed.steps_per_processor_s());
        writeln!(
            page,
            "| {}, {} | {own:.0} | {low:.0} - {high:.0} | {} | {own_busy:.0} | {} |",
            name(&speed.what),
            speed.runner,
            times(own, wall),
            times(own_busy, busy)
        )?;
    }
    Ok(())
}

fn name(what: &str) -> &str {
    match what {
        "env" => "steps alone",
        "dqn" => "DQN",
        "dqn-10" => "DQN, 10 environments",
        "ppo" => "PPO",
        "ppo-mlp" => "PPO, perceptron",
        "ppo-quick" => "PPO, quick",
        "fast" => "PPO, quick, factored network",
        "imitation" => "imitation of best fit",
        other => other,
    }
}

fn races(page: &mut String, results: &Results) -> Result<()> {
    write!(
        page,
        "\n## Time to the same return\n\n{RACE}\n\nBest fit, a heuristic, comes to {:.1}.\n\n",
        results.best_fit
    )?;
    page.push_str("| seed | goal | first in Python | steps | seconds | of processor time | ours | steps | seconds | of processor time ");
    page.push_str("| share | of processor time |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n");
    for race in &results.races {
        let (theirs, (steps, seconds, _, busy)) = race.first().context("a race without a curve")?;
        for (ours, line) in &race.ours {
            let (seed, goal, theirs) = (race.seed, race.goal, name(theirs));
            write!(page, "| {seed} | {goal:.1} | {theirs} | {steps} | {seconds:.1} | {busy:.1} | {} |", name(ours))?;
            match Race::reaches(line, race.goal) {
                Some((steps, own, _, own_busy)) => {
                    let (share, share_busy) = (seconds / own, busy / own_busy.max(0.01));
                    writeln!(page, " {steps} | {own:.2} | {own_busy:.2} | 1/{share:.0} | 1/{share_busy:.0} |")?;
                }
                None => writeln!(page, " not reached | {:.1} | {:.1} | | |", line.seconds, line.processor_s)?,
            }
        }
    }
    page.push_str("\nWhere each learner in Python settled (the mean return over the second half of its evaluations), and when it was first\n");
    page.push_str("evaluated to the goal:\n\n| seed | learner | settled at | all steps | all seconds | goal after |\n|---|---|---|---|---|---|\n");
    for race in &results.races {
        for (what, line) in &race.theirs {
            let steps = line.curve.last().map_or(0, |point| point.0);
            let (seed, name, settled) = (race.seed, name(what), settled(line));
            let goal = Race::reaches(line, race.goal).map_or("never".into(), |point| format!("{:.1} s", point.1));
            writeln!(page, "| {seed} | {name} | {settled:.1} | {steps} | {:.1} | {goal} |", line.seconds)?;
        }
    }
    Ok(())
}

fn decisions(page: &mut String, results: &Results) -> Result<()> {
    write!(page, "\n## How long a decision of a model takes\n\n{DECISIONS}\n\n")?;
    page.push_str("| model | nodes | p50 | p99 | p99 of the rounds |\n|---|---|---|---|---|\n");
    for row in &results.decisions {
        let of = |figure: fn(&Times) -> f64| median(row.rounds.iter().map(figure));
        let p99 = row.rounds.iter().map(|times| times.p99_ms);
        let (low, high) = (p99.clone().fold(f64::INFINITY, f64::min), p99.fold(0.0, f64::max));
        writeln!(
            page,
            "| {} | {} | {:.3} ms | {:.3} ms | {low:.3} - {high:.3} ms |",
            row.model,
            row.nodes,
            of(|times| times.p50_ms),
            of(|times| times.p99_ms)
        )?;
    }
    Ok(())
}

const INTRODUCTION: &str = "# Benchmarks of the learner

Written by `make bench-learn`: the same workload through Plimsoll and through what one would write in Python (`benches/python`: a
Gymnasium environment around numpy, DQN on PyTorch in the style of CleanRL, MaskablePPO of sb3-contrib), in one run on one machine, in turn,
each run in a process of its own. Figures are medians of three rounds, beside the slowest and the fastest. Where the machine has other work,
two threads get no more of it than one; figures for each second of processor time, of all threads, say what is left when that is taken out.

The workload: 50 nodes with 24 threads and 80 GiB; pods of four shapes come every second
on average and run for 320 seconds on average, which takes about half of the CPU; an episode has 1,000 of them. The reward is
`compress`. Pods, observations, masks and rewards are the same in both, by seed: both are tested against one recorded walk, and before
anything is measured best fit must come to the same returns in both on all ten evaluation episodes.
";

const ENVIRONMENT: &str = "The first node with room is taken, whoever asks; the observation of every step is written out. Ours steps 64 clusters side by
side on each core.";

const DQN: &str = "The network of the thesis (120, 84), batches of 128, an update every 10 steps, the same replay, target network, optimiser and
exploration. Steps before the first update are not counted. With 10 environments there are as many updates, but nodes for ten decisions are
chosen at once.";

const PPO: &str = "The usual settings of stable-baselines3, on 8 environments of 256 steps, batches of 256, 10 epochs, with the network of the thesis;
`perceptron` is its usual network, two layers of 64, which knows nothing of nodes.";

const RACE: &str = "Every learner in Python gets its steps and is evaluated now and then, always with the same ten episodes, on which it chooses
greedily; seconds are those of training alone. The goal is the best return that one of them settled at; who is first in Python is first
evaluated to it or better. Python has one thread here, which is faster wherever cores are shared. Ours stops when it is evaluated to the goal or
better. All begin with random weights and know nothing, but for `imitation`, which is shown what best fit would do. `quick` are the
settings with which ours was found to be quickest (4 environments of 256 steps, two epochs, a learning rate of 0.005, a discount of
0.9); Python has them too.";

const DECISIONS: &str = "Rules and model together, over nodes of which one changed since the last decision; 2,000 decisions a round, on one core.";
