//! The learners that `bench-learn` measures: ours, on the workload that `benches/python/arena.py` has too.

use anyhow::{Context, Result, anyhow, bail};
use plimsoll_learn::agent::Agent;
use plimsoll_learn::agent::chooser::{Chooser, Greedy, Rule};
use plimsoll_learn::agent::dqn::{Dqn, DqnSettings};
use plimsoll_learn::agent::imitation::{Imitation, ImitationSettings};
use plimsoll_learn::agent::ppo::{Ppo, PpoSettings};
use plimsoll_learn::environment::arena::{Arena, ArenaSettings, Made, Shape};
use plimsoll_learn::environment::{Environment, VectorEnvironment};
use plimsoll_learn::network::{Network, NetworkKind, NetworkSpec};
use plimsoll_learn::observation::{Observation, Observe, Plain};
use plimsoll_learn::reward::{RewardSpec, Rewards};
use plimsoll_sim::fleet::{Fleet, Machine, Pool};
use plimsoll_sim::world::power::PowerCurve;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The seeds of the episodes that policies are evaluated on; training never draws them.
pub const EVALUATION: Range<u64> = 1_000_000..1_000_010;
/// What is rewarded.
const REWARD: &str = "compress";
/// Environments that are stepped together where nothing is learned.
const SIDE_BY_SIDE: usize = 64;

/// Which pods come to which nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// Nodes, thousandths of a core, bytes and pods of each kind.
    pub kinds: Vec<(usize, i64, i64, i64)>,
    /// Thousandths of a core and bytes, each as likely as the others.
    pub shapes: Vec<(i64, i64)>,
    /// Seconds from one pod to the next, on average.
    pub gap_s: f64,
    /// Seconds that a pod runs, on average.
    pub lifetime_s: f64,
    /// Pods of an episode.
    pub pods: u64,
}

impl Default for Workload {
    /// 50 nodes, about half of whose CPU is in use.
    fn default() -> Self {
        Self {
            kinds: vec![(50, 24_000, 80 << 30, 110)],
            shapes: vec![(500, 1 << 30), (1000, 4 << 30), (2000, 2 << 30), (4000, 8 << 30)],
            gap_s: 1.0,
            lifetime_s: 320.0,
            pods: 1000,
        }
    }
}

impl Workload {
    /// An environment.
    pub fn arena(&self) -> Result<Arena> {
        let power = Arc::new(PowerCurve::straight(60.0, 250.0).context("a straight line")?);
        let pool = |(at, (count, cpu_milli, memory, pods)): (usize, &(usize, i64, i64, i64))| {
            let name = format!("kind-{at}");
            let machine = Machine {
                name: name.clone(),
                cpu_milli: *cpu_milli,
                memory: *memory,
                pods: *pods,
                gpus: None,
                power: Arc::clone(&power),
                price: None,
            };
            Pool::new(&name, machine, *count)
        };
        let fleet = Fleet { pools: self.kinds.iter().enumerate().map(pool).collect() };
        let shape = |(cpu_milli, memory): &(i64, i64)| Shape { cpu_milli: *cpu_milli, memory: *memory };
        let (gap, lifetime) = (Duration::from_secs_f64(self.gap_s), Duration::from_secs_f64(self.lifetime_s));
        let made = Made::new(self.shapes.iter().map(shape).collect(), gap, lifetime, self.pods)?;
        let rewards = Rewards::new(&RewardSpec::Name(REWARD.into()))?;
        Ok(Arena::new(&fleet, made, rewards, ArenaSettings::default())?)
    }

    /// A deterministic walk through an episode, with all that the other environment has to show alike.
    pub fn record(&self, seed: u64, most: usize) -> Result<Recording> {
        let mut arena = self.arena()?;
        arena.reset(seed)?;
        let mut steps = Vec::new();
        let mut over = false;
        while !over && steps.len() < most {
            let seen = arena.observation();
            let allowed: Vec<usize> = (0..seen.node_count()).filter(|node| seen.mask[*node]).collect();
            let action = allowed[steps.len() * 7 % allowed.len()];
            let numbers = seen.nodes.iter().chain(&seen.pod).enumerate();
            let sum = numbers.map(|(at, number)| (at % 7 + 1) as f64 * f64::from(*number)).sum();
            let step = arena.step(action)?;
            over = step.is_last();
            steps.push(Recorded { action, allowed: allowed.len(), sum, reward: step.reward });
        }
        Ok(Recording { workload: self.clone(), seed, over, steps })
    }
}

/// A walk through an episode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// The workload.
    pub workload: Workload,
    /// The seed of the episode.
    pub seed: u64,
    /// Whether the last step ended it.
    pub over: bool,
    /// What was done and seen.
    pub steps: Vec<Recorded>,
}

/// A step of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// The node that was chosen.
    pub action: usize,
    /// How many nodes were allowed.
    pub allowed: usize,
    /// The numbers of the observation, each times its place's weight from 1 to 7, added up.
    pub sum: f64,
    /// The reward.
    pub reward: f32,
}

/// What a run of a learner came to.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Line {
    /// Environment steps a second.
    pub steps_per_s: f64,
    /// Seconds of training, without those of evaluations.
    pub seconds: f64,
    /// Seconds of processor time meanwhile, of all threads.
    pub processor_s: f64,
    /// How training went, evaluation by evaluation.
    pub curve: Vec<Point>,
    /// Returns of the evaluation episodes.
    pub returns: Vec<f64>,
}

/// Steps so far, seconds of training, the mean return over the evaluation episodes, and seconds of processor time.
pub type Point = (u64, f64, f64, f64);

/// What to run.
#[derive(Debug, Clone)]
pub struct Task {
    /// Who learns; see [`run`].
    pub what: String,
    /// Environment steps.
    pub steps: u64,
    /// The seed.
    pub seed: u64,
    /// Steps from one evaluation to the next; 0 for none.
    pub evaluate_every: u64,
    /// A return at which training may stop.
    pub until: Option<f64>,
}

impl Task {
    /// Reads `WHAT -steps N -seed N -evaluate-every N -until RETURN`, all but the first optional.
    pub fn parse(arguments: &[String]) -> Result<Self> {
        let (what, rest) = arguments.split_first().context("want what to run")?;
        let mut task = Self { what: what.clone(), steps: 20_000, seed: 1, evaluate_every: 0, until: None };
        for pair in rest.chunks(2) {
            let [name, value] = pair else { bail!("{}: its value is missing", pair[0]) };
            let number = || value.parse::<u64>().with_context(|| format!("{name} {value}"));
            match name.as_str() {
                "-steps" => task.steps = number()?,
                "-seed" => task.seed = number()?,
                "-evaluate-every" => task.evaluate_every = number()?,
                "-until" => task.until = Some(value.parse().with_context(|| format!("{name} {value}"))?),
                _ => bail!("unknown option {name}"),
            }
        }
        Ok(task)
    }
}

/// Runs a task in this process.
pub fn run(task: &Task) -> Result<Line> {
    match task.what.as_str() {
        "env" => environment(task),
        "best-fit" => {
            let rule = Rule::by_name("best-fit", &Plain::default().node_features())?;
            Ok(Line { returns: returns(|| Ok(rule.clone()))?, ..Line::default() })
        }
        what => learn(what, task),
    }
}

/// Many environments side by side on each core, always the first node with room; without a policy.
fn environment(task: &Task) -> Result<Line> {
    let cores = rayon::current_num_threads() as u64;
    let rounds = task.steps.div_ceil(cores * SIDE_BY_SIDE as u64);
    let walk = |core: u64| -> Result<()> {
        let workload = Workload::default();
        let arenas = (0..SIDE_BY_SIDE).map(|_| workload.arena()).collect::<Result<Vec<_>>>()?;
        // As many as are worth a core of their own: this one's.
        let mut vector = VectorEnvironment::new(arenas, task.seed + core, SIDE_BY_SIDE)?;
        let mut actions = vec![0; SIDE_BY_SIDE];
        for _ in 0..rounds {
            let seen = vector.observations();
            for (at, action) in actions.iter_mut().enumerate() {
                *action = seen.mask_of(at).iter().position(|allowed| *allowed).unwrap_or(0);
            }
            vector.step(&actions)?;
        }
        Ok(())
    };
    let (start, busy) = (Instant::now(), processor_seconds());
    std::thread::scope(|scope| {
        let walks: Vec<_> = (0..cores).map(|core| scope.spawn(move || walk(core))).collect();
        walks.into_iter().try_for_each(|walk| walk.join().map_err(|_| anyhow!("a thread panicked"))?)
    })?;
    let (seconds, processor_s) = (start.elapsed().as_secs_f64(), processor_seconds() - busy);
    let steps = (cores * rounds * SIDE_BY_SIDE as u64) as f64;
    Ok(Line { steps_per_s: steps / seconds, seconds, processor_s, ..Line::default() })
}

fn spec(kind: NetworkKind) -> NetworkSpec {
    let plain = Plain::default();
    NetworkSpec::new(kind, plain.node_features().len(), plain.pod_features().len())
}

fn arenas(count: usize) -> Result<Vec<Box<dyn Environment>>> {
    let workload = Workload::default();
    (0..count).map(|_| Ok(Box::new(workload.arena()?) as Box<dyn Environment>)).collect()
}

/// The agent of a name, the network it trains, and the steps before it learns.
fn agent(what: &str, task: &Task) -> Result<(Box<dyn Agent>, NetworkSpec, u64)> {
    let sets = spec(NetworkKind::Deepsets);
    let Task { steps, seed, .. } = *task;
    Ok(match what {
        "dqn" | "dqn-10" => {
            let settings = DqnSettings { steps, report_every: 100, ..DqnSettings::thesis() };
            let starts = settings.learning_starts;
            let width = if what == "dqn" { 1 } else { 10 };
            (Box::new(Dqn::new(settings, &sets, arenas(width)?, seed)?), sets, starts)
        }
        "ppo" => (Box::new(Ppo::new(as_sb3(steps), &sets, arenas(8)?, seed)?), sets, 0),
        "fast" => {
            let factored = spec(NetworkKind::Factored);
            (Box::new(Ppo::new(quick(steps), &factored, arenas(4)?, seed)?), factored, 0)
        }
        "imitation" => {
            let factored = spec(NetworkKind::Factored);
            let settings = ImitationSettings { steps, learning_rate: 3e-3, ..ImitationSettings::default() };
            let mut rule = Rule::by_name("best-fit", &Plain::default().node_features())?;
            let expert = move |_: usize, seen: &Observation| rule.choose(seen);
            (Box::new(Imitation::new(settings, &factored, arenas(16)?, Box::new(expert), seed)?), factored, 0)
        }
        other => bail!("there is no learner {other}; there are env, best-fit, dqn, dqn-10, ppo, fast, imitation"),
    })
}

/// The usual settings of stable-baselines3.
fn as_sb3(steps: u64) -> PpoSettings {
    PpoSettings {
        steps,
        length: 256,
        epochs: 10,
        batch: 256,
        learning_rate: 3e-4,
        anneal: false,
        entropy: 0.0,
        ..PpoSettings::default()
    }
}

/// Settings that suit this workload: many updates from few steps, and no further ahead than needed.
fn quick(steps: u64) -> PpoSettings {
    PpoSettings {
        steps,
        length: 256,
        epochs: 2,
        batch: 256,
        learning_rate: 5e-3,
        anneal: false,
        gamma: 0.9,
        entropy: 0.0,
        ..PpoSettings::default()
    }
}

fn learn(what: &str, task: &Task) -> Result<Line> {
    let (mut start, mut busy) = (Instant::now(), processor_seconds());
    let (mut agent, spec, starts) = agent(what, task)?;
    let mut line = Line::default();
    let (mut due, mut learning_from) = (task.evaluate_every, None);
    loop {
        let report = agent.iterate()?;
        let is_over = report.progress >= 1.0;
        if report.steps >= starts && learning_from.is_none() {
            learning_from = Some((report.steps, line.seconds + start.elapsed().as_secs_f64()));
        }
        if task.evaluate_every > 0 && (report.steps >= due || is_over) {
            line.seconds += start.elapsed().as_secs_f64();
            line.processor_s += processor_seconds() - busy;
            due = report.steps + task.evaluate_every;
            let weights = agent.weights();
            let returns = returns(|| Ok(Greedy(Network::with_weights(&spec, weights.clone())?)))?;
            let mean = returns.iter().sum::<f64>() / returns.len() as f64;
            line.curve.push((report.steps, line.seconds, mean, line.processor_s));
            (start, busy) = (Instant::now(), processor_seconds());
            if task.until.is_some_and(|until| mean >= until) {
                break;
            }
        }
        if is_over {
            break;
        }
    }
    line.seconds += start.elapsed().as_secs_f64();
    line.processor_s += processor_seconds() - busy;
    let (steps, seconds) = if starts > 0 { learning_from.unwrap_or_default() } else { (0, 0.0) };
    line.steps_per_s = (task.steps - steps.min(task.steps)) as f64 / (line.seconds - seconds).max(1e-9);
    Ok(line)
}

/// The returns of the evaluation episodes, on all cores.
fn returns<C: Chooser>(make: impl Fn() -> Result<C> + Sync) -> Result<Vec<f64>> {
    let one = |seed: u64| {
        let (mut arena, mut chooser) = (Workload::default().arena()?, make()?);
        arena.reset(seed)?;
        let mut sum = 0.0;
        loop {
            let step = arena.step(chooser.choose(arena.observation())?)?;
            sum += f64::from(step.reward);
            if step.is_last() {
                return Ok(sum);
            }
        }
    };
    EVALUATION.into_par_iter().map(one).collect()
}

/// Seconds of processor time of all threads so far, those that ended too, where Linux tells.
fn processor_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name, which stands in brackets: in user mode, then in the kernel, in hundredths of a second.
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// Walks that both environments are held against: the workload itself, and a cluster that is too small for its pods.
pub fn recordings() -> Result<Vec<Recording>> {
    let small = Workload {
        kinds: vec![(2, 4_000, 8 << 30, 3), (1, 8_000, 8 << 30, 110)],
        lifetime_s: 8.0,
        pods: 200,
        ..Workload::default()
    };
    Ok(vec![Workload::default().record(7, 400)?, small.record(11, 1_000)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The file that the tests of the Python environment read, too.
    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python/arena.json");

    #[test]
    fn the_arena_walks_as_recorded() {
        let known: Vec<Recording> = serde_json::from_str(&std::fs::read_to_string(FILE).unwrap()).unwrap();
        let now = recordings().unwrap();
        assert_eq!(now.len(), known.len());
        for (now, known) in now.iter().zip(&known) {
            assert_eq!((&now.workload, now.over, now.steps.len()), (&known.workload, known.over, known.steps.len()));
            for (at, (now, known)) in now.steps.iter().zip(&known.steps).enumerate() {
                assert_eq!((now.action, now.allowed), (known.action, known.allowed), "step {at}");
                assert!((now.sum - known.sum).abs() < 1e-4 && (now.reward - known.reward).abs() < 1e-6, "step {at}");
            }
        }
        // The small cluster turns pods away, and puts some where alone they fit.
        assert!(now[1].over && now[1].steps.len() < 150, "{}", now[1].steps.len());
    }

    #[test]
    fn learners_reach_a_return_and_say_when() {
        let task = Task::parse(&["dqn-10", "-steps", "600", "-evaluate-every", "300"].map(String::from)).unwrap();
        let line = run(&task).unwrap();
        assert_eq!(line.curve.iter().map(|point| point.0).collect::<Vec<_>>(), [300, 600]);
        assert!(line.curve.iter().all(|point| point.2 > 200.0 && point.1 > 0.0), "{line:?}");
        assert!(line.steps_per_s > 0.0);
        let task = Task { until: Some(1.0), ..task };
        assert_eq!(run(&task).unwrap().curve.len(), 1);
        assert!(run(&Task { what: "guess".into(), ..task }).unwrap_err().to_string().contains("dqn-10"));
    }
}
