//! The cluster of the experiment: like nodes, each with its own latency to users.

use super::{Policy, ThesisSettings, Trial};
use crate::environment::{ClusterEnvironment, ClusterSettings, Shuffle};
use crate::error::LearnError;
use crate::observation::{Exported, Observe};
use crate::reward::{RewardSpec, Rewards};
use plimsoll_core::rng::Rng;
use plimsoll_sim::fleet::{Fleet, Machine, Pool};
use plimsoll_sim::simulation::{Inputs, Settings};
use plimsoll_sim::workload::Workload;
use plimsoll_sim::workload::generate::{Generator, Thesis1, Thesis2};
use plimsoll_sim::world::World;
use plimsoll_sim::world::latency::LatencyTable;
use plimsoll_sim::world::power::PowerCurve;
use plimsoll_sim::world::steps::Steps;
use std::sync::Arc;
use std::time::Duration;

/// Latencies to users: one pleasant, one bearable, the others not. Further nodes are further away.
const LATENCIES: [f64; 4] = [12.0, 25.0, 40.0, 60.0];
/// All pods of a round fit on one node: 30 of 250m are 7.5 cores.
const CORES: i64 = 8;
const GIB: i64 = 16;
/// Rounds of an episode of training.
const TRAINING_ROUNDS: u32 = 4;
/// The salt that keeps the latencies of training apart from other draws of its seed.
const SALT: u64 = 0x7e51;

/// A test of the experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Test {
    /// Rounds.
    One,
    /// The oldest goes for each new one.
    Two,
}

/// How many numbers describe a node and a pod.
pub fn widths() -> (usize, usize) {
    let seen = Exported::default();
    (seen.node_features().len(), seen.pod_features().len())
}

/// Pods that stay alive in test 2.
pub fn alive_at_once(settings: &ThesisSettings, policy: Policy) -> u32 {
    if policy == Policy::ElRl { settings.alive_with_latency } else { settings.alive }
}

/// The steps of test 2 at which latencies change: after one third and two thirds.
pub fn changes(settings: &ThesisSettings) -> Vec<usize> {
    [1, 2].map(|third| settings.pods as usize * third / 3).to_vec()
}

/// The latencies of nodes, moved on by so many nodes.
fn latencies(nodes: usize, moved: usize) -> Vec<f64> {
    let of = |at: usize| LATENCIES.get(at).copied().unwrap_or_else(|| LATENCIES[3] + 10.0 * (at - 3) as f64);
    (0..nodes).map(|node| of((node + nodes - moved % nodes) % nodes)).collect()
}

fn fleet(nodes: usize) -> Result<Fleet, LearnError> {
    let power = PowerCurve::straight(60.0, 180.0).ok_or_else(|| LearnError::Invalid("no power curve".into()))?;
    let machine = Machine {
        name: "worker".into(),
        cpu_milli: CORES * 1000,
        memory: GIB << 30,
        pods: 110,
        gpus: None,
        power: Arc::new(power),
        price: None,
    };
    Ok(Fleet { pools: vec![Pool::new("worker", machine, nodes)] })
}

/// A run on nodes whose latencies change in steps.
fn inputs(workload: Workload, latencies: &[Vec<(Duration, f64)>], seed: u64) -> Result<Inputs<'static>, LearnError> {
    let steps = |(node, steps): (usize, &Vec<(Duration, f64)>)| (format!("worker-{node}"), Steps::new(steps.clone()));
    let to_user = latencies.iter().enumerate().map(steps).collect();
    let world =
        World { latency: Some(Box::new(LatencyTable { to_user, ..LatencyTable::default() })), ..World::default() };
    let settings = Settings { seed, warmup: 0.0, ..Settings::default() };
    let fleet = fleet(latencies.len())?;
    Ok(Inputs { workload: workload.into(), fleet: fleet.into(), world: world.into(), settings: settings.into() })
}

fn generate(generator: &Generator, seed: u64) -> Result<Workload, LearnError> {
    generator.generate(seed).map_err(|error| LearnError::Invalid(error.to_string()))
}

fn rewards(name: &str) -> Result<Rewards, LearnError> {
    Rewards::new(&RewardSpec::Name(name.to_owned()))
}

/// The environment of training: a few rounds, with the latencies dealt out anew twice a round: an agent for which they never change has not
/// seen a node that is full and far away, and does not leave it.
pub fn training(settings: &ThesisSettings, reward: &str) -> Result<ClusterEnvironment, LearnError> {
    let (nodes, pods) = (settings.nodes, settings.pods_of_round);
    let episodes = move |seed: u64| {
        let rounds = Thesis1 { rounds: TRAINING_ROUNDS, pods, latency: true, ..Thesis1::default() };
        let round_s = f64::from(pods) * rounds.interval_s + rounds.hold_s + rounds.pause_s;
        let mut rng = Rng::new(seed ^ SALT);
        let mut steps = vec![Vec::new(); nodes];
        for half in 0..2 * TRAINING_ROUNDS {
            let mut dealt = latencies(nodes, 0);
            for at in (1..nodes).rev() {
                dealt.swap(at, rng.below(at + 1));
            }
            let at = Duration::from_secs_f64(f64::from(half) / 2.0 * round_s);
            steps.iter_mut().zip(dealt).for_each(|(steps, ms)| steps.push((at, ms)));
        }
        inputs(generate(&Generator::Thesis1(rounds), seed)?, &steps, seed)
    };
    let settings = ClusterSettings { shuffle: Shuffle::Episodes, ..ClusterSettings::default() };
    ClusterEnvironment::new(episodes, Exported::default(), rewards(reward)?, settings)
}

/// How many nodes latencies move on by at each change.
fn moves(nodes: usize) -> usize {
    (nodes - 2).max(1)
}

/// The latencies of nodes at a step of a test.
pub fn latencies_at(settings: &ThesisSettings, trial: &Trial, step: usize) -> Vec<f64> {
    let changed = match trial.test {
        Test::One => 0,
        Test::Two => changes(settings).iter().filter(|change| step >= **change).count(),
    };
    latencies(trial.nodes, changed * moves(trial.nodes))
}

/// The environment of a test.
pub fn test(settings: &ThesisSettings, trial: &Trial) -> Result<ClusterEnvironment, LearnError> {
    let settings = settings.clone();
    let Trial { policy, test, nodes, shuffle } = *trial;
    let alive = alive_at_once(&settings, policy);
    let episodes = move |seed: u64| {
        let constant = || latencies(nodes, 0).into_iter().map(|ms| vec![(Duration::ZERO, ms)]).collect::<Vec<_>>();
        let (generator, steps) = match test {
            Test::One => {
                let (rounds, pods) = (settings.rounds, settings.pods_of_round);
                (Generator::Thesis1(Thesis1 { rounds, pods, latency: true, ..Thesis1::default() }), constant())
            }
            Test::Two => {
                let two = Thesis2 { pods: settings.pods, alive, latency: true, ..Thesis2::default() };
                let mut steps = constant();
                for (change, step) in changes(&settings).into_iter().enumerate() {
                    // Between two creations, so that it is plain which come after it.
                    let at = Duration::from_secs_f64((step as f64 - 0.5) * two.interval_s);
                    let moved = latencies(nodes, (change + 1) * moves(nodes));
                    steps.iter_mut().zip(moved).for_each(|(steps, ms)| steps.push((at, ms)));
                }
                (Generator::Thesis2(two), steps)
            }
        };
        inputs(generate(&generator, seed)?, &steps, seed)
    };
    // A reward that never ends an episode: a test goes on whatever is chosen.
    let settings = ClusterSettings { shuffle, ..ClusterSettings::default() };
    ClusterEnvironment::new(episodes, Exported::default(), rewards("energy")?, settings)
}
