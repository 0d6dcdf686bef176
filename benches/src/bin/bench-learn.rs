//! `make bench-learn`: our environment and learners beside numpy, PyTorch and stable-baselines3, and how long decisions of our models take.
//!
//! Without arguments it runs everything and writes `docs/benchmarks-learn.md` and `target/bench/learn.json`; with names of parts
//! (`speed`, `race`, `decisions`) it runs those alone and writes nothing. With `run LEARNER -steps N -seed N -evaluate-every N` it is a learner
//! as those in Python are, and prints the same JSON line; `record` prints the walks that both environments are tested with.
//! The driver starts itself that way, so that neither side profits from what ran before.

use anyhow::{Context, Result, bail, ensure};
use plimsoll_bench::decisions::{self, Times};
use plimsoll_bench::learn_report::{self, Decisions, Part, Race, Results, Runner, Speed};
use plimsoll_bench::learner::{self, Line, Task};
use plimsoll_bench::process::output;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const PYTHON: &str = "target/bench/venv-learn/bin/python";
const LEARNERS: &str = "benches/python/learn.py";
const MODELS: &str = "models";
/// Medians are over this many rounds.
const ROUNDS: usize = 3;
/// Sizes of clusters on which decisions are timed.
const NODES: [usize; 2] = [500, 5000];
/// Seeds of the races for a return.
const SEEDS: [u64; 3] = [1, 2, 3];

/// Who is measured, and for how many steps: enough for some seconds each.
const SPEEDS: &[(Part, Runner, &str, u64)] = &[
    (Part::Environment, Runner::Python { threads: 1 }, "env", 50_000),
    (Part::Environment, Runner::Plimsoll { threads: 1 }, "env", 10_000_000),
    (Part::Environment, Runner::Plimsoll { threads: 0 }, "env", 20_000_000),
    (Part::Dqn, Runner::Python { threads: 1 }, "dqn", 2_300),
    (Part::Dqn, Runner::Python { threads: 0 }, "dqn", 2_300),
    (Part::Dqn, Runner::Plimsoll { threads: 1 }, "dqn", 6_000),
    (Part::Dqn, Runner::Plimsoll { threads: 0 }, "dqn", 10_000),
    (Part::Dqn, Runner::Plimsoll { threads: 0 }, "dqn-10", 10_000),
    (Part::Ppo, Runner::Python { threads: 1 }, "ppo", 4_096),
    (Part::Ppo, Runner::Python { threads: 0 }, "ppo", 4_096),
    (Part::Ppo, Runner::Python { threads: 1 }, "ppo-mlp", 8_192),
    (Part::Ppo, Runner::Plimsoll { threads: 1 }, "ppo", 4_096),
    (Part::Ppo, Runner::Plimsoll { threads: 0 }, "ppo", 8_192),
];

/// What Python may take to learn: learner, steps, and steps from one evaluation to the next.
const RIVALS: &[(&str, u64, u64)] =
    &[("dqn", 10_000, 1_000), ("ppo", 10_240, 1), ("ppo-mlp", 16_384, 1), ("ppo-quick", 10_240, 1)];
/// Ours: who is to reach the best return of those, with the most steps it may take.
const RACERS: &[(&str, u64, u64)] =
    &[("fast", 50_000, 1), ("imitation", 20_000, 1), ("ppo", 20_480, 1), ("dqn-10", 10_000, 1_000)];

fn main() -> ExitCode {
    match start() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-learn: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((first, rest)) if first == "run" => {
            println!("{}", serde_json::to_string(&learner::run(&Task::parse(rest)?)?)?);
            Ok(())
        }
        Some((first, [])) if first == "record" => {
            println!("{}", serde_json::to_string(&learner::recordings()?)?);
            Ok(())
        }
        _ => measure(&arguments),
    }
}

/// Runs all parts, or those named.
fn measure(only: &[String]) -> Result<()> {
    for tool in [PYTHON, LEARNERS, MODELS].map(PathBuf::from) {
        ensure!(
            tool.exists(),
            "{} is missing: run `make bench-learn`, which makes it, from the repository root",
            tool.display()
        );
    }
    if let Some(unknown) = only.iter().find(|name| !["speed", "race", "decisions"].contains(&name.as_str())) {
        bail!("there is no part {unknown}; there are speed, race and decisions");
    }
    let wanted = |part: &str| only.is_empty() || only.iter().any(|name| name == part);
    let mut results = Results { best_fit: same_returns()?, ..Results::default() };
    if wanted("speed") {
        results.speeds = speeds()?;
    }
    if wanted("race") {
        results.races = SEEDS.iter().map(|seed| race(*seed)).collect::<Result<_>>()?;
    }
    if wanted("decisions") {
        results.decisions = all_decisions()?;
    }
    if only.is_empty() { learn_report::write(&results) } else { Ok(()) }
}

/// One run in a process of its own.
fn run(runner: Runner, what: &str, rest: &[String]) -> Result<Line> {
    let mut command = match runner {
        Runner::Python { threads } => {
            let mut command = Command::new(PYTHON);
            // OpenMP must not spin where cores are shared: a waiting thread would take the time of the one it waits for.
            command.arg(LEARNERS).env("OMP_WAIT_POLICY", "PASSIVE");
            command.args(match what {
                "ppo-mlp" => vec!["ppo", "-network", "mlp"],
                "ppo-quick" => vec!["ppo", "-quick"],
                what => vec![what],
            });
            if threads > 0 {
                command.args(["-threads", &threads.to_string()]).env("OMP_NUM_THREADS", threads.to_string());
            }
            command
        }
        Runner::Plimsoll { threads } => {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["run", what]).env("RAYON_NUM_THREADS", threads.to_string());
            command
        }
    };
    let line = output(command.args(rest))?;
    serde_json::from_str(&line).with_context(|| format!("{runner}: {what}: {line:?}"))
}

fn options(pairs: &[(&str, String)]) -> Vec<String> {
    pairs.iter().flat_map(|(name, value)| [format!("-{name}"), value.clone()]).collect()
}

/// Best fit must come to the same on all evaluation episodes in both environments; gives its mean return.
fn same_returns() -> Result<f64> {
    let theirs = run(Runner::Python { threads: 1 }, "best-fit", &[])?.returns;
    let ours = run(Runner::Plimsoll { threads: 0 }, "best-fit", &[])?.returns;
    let is_same = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-3;
    ensure!(
        theirs.len() == ours.len() && theirs.iter().zip(&ours).all(is_same),
        "the environments differ: best fit comes to {theirs:?} in Python and {ours:?} here"
    );
    Ok(ours.iter().sum::<f64>() / ours.len() as f64)
}

/// All in turn, so that a slow minute of the machine hits all of them.
fn speeds() -> Result<Vec<Speed>> {
    let new = |(part, runner, what, _): &(Part, Runner, &str, u64)| Speed::new(*part, *runner, what);
    let mut speeds: Vec<Speed> = SPEEDS.iter().map(new).collect();
    for round in 0..ROUNDS {
        for (speed, (_, runner, what, steps)) in speeds.iter_mut().zip(SPEEDS) {
            let seed = (round + 1).to_string();
            let line = run(*runner, what, &options(&[("steps", steps.to_string()), ("seed", seed)]))?;
            eprintln!("{what:>8} {runner:<24} {:>12.0} steps/s", line.steps_per_s);
            speed.rounds.push(line);
        }
    }
    Ok(speeds)
}

/// The learners in Python have their steps; ours then has to reach the best return that any of them settled at.
fn race(seed: u64) -> Result<Race> {
    let curve = |runner: Runner, (what, steps, every): &(&str, u64, u64), until: Option<f64>| {
        let mut given =
            vec![("steps", steps.to_string()), ("seed", seed.to_string()), ("evaluate-every", every.to_string())];
        given.extend(until.map(|until| ("until", until.to_string())));
        let line = run(runner, what, &options(&given))?;
        let last = line.curve.last().map_or(f64::NAN, |point| point.2);
        eprintln!("{what:>9} {runner:<24} seed {seed}: {last:.1} after {:.1} s", line.seconds);
        Ok::<_, anyhow::Error>(((*what).to_owned(), line))
    };
    let python = Runner::Python { threads: 1 };
    let theirs = RIVALS.iter().map(|rival| curve(python, rival, None)).collect::<Result<Vec<_>>>()?;
    let goal = theirs.iter().map(|(_, line)| learn_report::settled(line)).fold(f64::NEG_INFINITY, f64::max);
    let ours = Runner::Plimsoll { threads: 0 };
    let ours = RACERS.iter().map(|racer| curve(ours, racer, Some(goal))).collect::<Result<Vec<_>>>()?;
    Ok(Race { seed, goal, theirs, ours })
}

fn all_decisions() -> Result<Vec<Decisions>> {
    let mut folders: Vec<PathBuf> =
        std::fs::read_dir(MODELS)?.map(|entry| Ok(entry?.path())).collect::<Result<_, std::io::Error>>()?;
    folders.retain(|folder| folder.is_dir());
    folders.sort();
    let mut rows = Vec::new();
    for folder in &folders {
        for nodes in NODES {
            let rounds = (0..ROUNDS).map(|_| decisions::time(folder, nodes)).collect::<Result<Vec<Times>>>()?;
            let row = Decisions { model: name(folder), nodes, rounds };
            eprintln!("{row}");
            rows.push(row);
        }
    }
    Ok(rows)
}

fn name(folder: &Path) -> String {
    folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
