//! How fast DQN learns with the thesis' network: 50 nodes, batches of 128, an update every 10 steps.
//!
//! `cargo run --release -p plimsoll-learn --example dqn_speed [environments [steps]]`

use plimsoll_core::rng::Rng;
use plimsoll_learn::agent::Agent;
use plimsoll_learn::agent::dqn::{Dqn, DqnSettings};
use plimsoll_learn::environment::{Environment, Step};
use plimsoll_learn::error::LearnError;
use plimsoll_learn::network::{Batch, Network, NetworkKind, NetworkSpec, Slopes};
use plimsoll_learn::observation::Observation;
use std::io::Write;
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const NODES: usize = 50;
const NODE_WIDTH: usize = 12;
const POD_WIDTH: usize = 4;

/// Loads that go up where pods are placed and down with time; the reward is for balance.
struct Loads {
    rng: Rng,
    seen: Observation,
    steps: usize,
}

impl Environment for Loads {
    fn reset(&mut self, seed: u64) -> Result<(), LearnError> {
        self.rng = Rng::new(seed);
        self.steps = 0;
        self.seen = Observation {
            node_width: NODE_WIDTH,
            nodes: (0..NODES * NODE_WIDTH).map(|_| self.rng.unit() as f32).collect(),
            pod: (0..POD_WIDTH).map(|_| self.rng.unit() as f32).collect(),
            mask: vec![true; NODES],
            places: vec![[0, 0]; NODES],
        };
        Ok(())
    }

    fn observation(&self) -> &Observation {
        &self.seen
    }

    fn step(&mut self, action: usize) -> Result<Step, LearnError> {
        self.steps += 1;
        let reward = 1.0 - self.seen.nodes[action * NODE_WIDTH];
        for row in self.seen.nodes.chunks_mut(NODE_WIDTH) {
            row[0] *= 0.98;
        }
        self.seen.nodes[action * NODE_WIDTH] += 0.5;
        self.seen.pod[0] = self.rng.unit() as f32;
        Ok(Step { reward, elapsed_hours: 0.1, terminated: false, truncated: self.steps == 200 })
    }
}

/// Seconds of processor time of all threads so far, where Linux tells: on a machine with other work, the clock alone says little.
fn processor_seconds() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let time = |task: std::fs::DirEntry| -> Option<f64> {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<f64>().ok()
    };
    tasks.filter_map(time).sum::<f64>() / 1e9
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let width: usize = std::env::args().nth(1).map_or(Ok(10), |text| text.parse())?;
    let steps: u64 = std::env::args().nth(2).map_or(Ok(10_000), |text| text.parse())?;
    let mut out = std::io::stdout().lock();
    let spec = NetworkSpec::new(NetworkKind::Deepsets, NODE_WIDTH, POD_WIDTH);
    for (name, kind, double) in [
        ("thesis network", NetworkKind::Deepsets, false),
        ("thesis network, double", NetworkKind::Deepsets, true),
        ("factored network", NetworkKind::Factored, false),
    ] {
        let settings = DqnSettings { steps: steps + 1_000, report_every: 1_000, double, ..DqnSettings::thesis() };
        let environments = (0..width)
            .map(|_| {
                Box::new(Loads { rng: Rng::new(0), seen: Observation::default(), steps: 0 }) as Box<dyn Environment>
            })
            .collect();
        let mut agent = Dqn::new(settings, &NetworkSpec { kind, ..spec.clone() }, environments, 1)?;
        agent.iterate()?;
        let (start, before) = (Instant::now(), processor_seconds());
        while agent.iterate()?.progress < 1.0 {}
        let (wall, busy) = (start.elapsed().as_secs_f64(), processor_seconds() - before);
        let steps = steps as f64;
        writeln!(out, "{name}: {:.0} steps/s, {:.3} ms of processor time a step", steps / wall, busy * 1e3 / steps)?;
    }
    let network = Network::new(&spec, 1)?;
    let mut environment = Loads { rng: Rng::new(0), seen: Observation::default(), steps: 0 };
    environment.reset(1)?;
    let batch = Batch::new(&spec, (0..128).map(|_| environment.observation()))?;
    let chosen: Vec<usize> = (0..128).map(|index| index % NODES).collect();
    let mut measure =
        |name: &str, work: &mut dyn FnMut() -> Result<(), LearnError>| -> Result<(), Box<dyn std::error::Error>> {
            work()?;
            let (start, before) = (Instant::now(), processor_seconds());
            for _ in 0..50 {
                work()?;
            }
            let (wall, busy) = (start.elapsed().as_secs_f64(), processor_seconds() - before);
            writeln!(out, "{name}: {:.2} ms, {:.2} ms of processor time", wall * 20.0, busy * 20.0)?;
            Ok(())
        };
    measure("scores of 128 x 50", &mut || network.scores(&batch).map(drop))?;
    measure("scores of 128 x 50 by burn", &mut || network.burn_scores_and_values(&batch).map(drop))?;
    let mut slopes = Slopes { scores: vec![0.0; 128 * NODES], values: Vec::new() };
    chosen.iter().enumerate().for_each(|(row, node)| slopes.scores[row * NODES + node] = 0.01);
    measure("gradients of 128 x 50", &mut || network.gradients(&batch, &mut |_, _| Ok(slopes.clone())).map(drop))?;
    measure("gradients of 128 x 50 by burn", &mut || {
        network.burn_gradients(&batch, &mut |_, _| Ok(slopes.clone())).map(drop)
    })?;
    Ok(())
}
