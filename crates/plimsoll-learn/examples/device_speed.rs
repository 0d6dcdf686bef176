//! How long networks take on a device, from those that ship to ones that fill a GPU: scores of a batch, and an update (gradients and a step of
//! the optimiser).
//!
//! `cargo run --release -p plimsoll-learn --example device_speed [device]`, with a device as `plimsoll train --device` takes it.

use plimsoll_core::rng::Rng;
use plimsoll_learn::agent::adam::Adam;
use plimsoll_learn::error::LearnError;
use plimsoll_learn::network::{Batch, Compute, Network, NetworkKind, NetworkSpec, Slopes};
use plimsoll_learn::observation::Observation;
use std::io::Write;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const NODE_WIDTH: usize = 12;
const POD_WIDTH: usize = 4;
/// Each measurement goes on for so long, and is made once at least.
const SPAN: Duration = Duration::from_secs(1);

/// Network, sizes, nodes, decisions in a batch.
type Case = (NetworkKind, &'static [(&'static str, usize)], usize, usize);

const CASES: &[Case] = &[
    (NetworkKind::Deepsets, &[("first", 48), ("second", 32)], 6, 128),
    (NetworkKind::Deepsets, &[("first", 120), ("second", 84)], 50, 128),
    (NetworkKind::Factored, &[("tower", 24), ("hidden", 24)], 100, 256),
    (NetworkKind::Deepsets, &[("first", 256), ("second", 256)], 100, 256),
    (NetworkKind::Deepsets, &[("first", 1024), ("second", 1024)], 500, 1024),
    (NetworkKind::Attention, &[("width", 32), ("heads", 4), ("hidden", 32)], 50, 128),
    (NetworkKind::Attention, &[("width", 256), ("heads", 8), ("hidden", 256)], 100, 256),
    (NetworkKind::Attention, &[("width", 1024), ("heads", 16), ("hidden", 1024)], 500, 256),
    (NetworkKind::Graph, &[("width", 32), ("rounds", 2)], 50, 128),
    (NetworkKind::Graph, &[("width", 256), ("rounds", 3)], 500, 256),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = std::env::args().nth(1).unwrap_or_else(|| "cpu".to_owned());
    device.parse::<Compute>()?.choose()?;
    let mut out = std::io::stdout();
    for (kind, sizes, nodes, size) in CASES {
        let mut spec = NetworkSpec::new(*kind, NODE_WIDTH, POD_WIDTH);
        spec.sizes = sizes.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        let mut network = Network::new(&spec, 1)?;
        let batch = batch(&spec, *nodes, *size)?;
        let scores = milliseconds(|| network.scores(&batch).map(drop))?;
        let mut adam = Adam::new(network.weights(), 1e-8);
        // As of Q-learning: one score of each decision matters.
        let mut slopes = Slopes { scores: vec![0.0; size * nodes], values: Vec::new() };
        slopes.scores.iter_mut().step_by(*nodes).for_each(|slope| *slope = 1.0 / *size as f32);
        let update = milliseconds(|| {
            let gradients = network.gradients(&batch, &mut |_, _| Ok(slopes.clone()))?;
            adam.step(network.weights_mut(), &gradients, 1e-4);
            Ok(())
        })?;
        let sizes: Vec<String> = sizes.iter().map(|(name, value)| format!("{name} {value}")).collect();
        writeln!(
            out,
            "{device}: {kind} ({}), {nodes} nodes, batch {size}: scores {scores:.2} ms, update {update:.2} ms",
            sizes.join(", ")
        )?;
    }
    Ok(())
}

/// Decisions drawn by lot.
fn batch(spec: &NetworkSpec, nodes: usize, size: usize) -> Result<Batch, LearnError> {
    let mut rng = Rng::new(1);
    let mut numbers = |count: usize| (0..count).map(|_| rng.unit() as f32).collect::<Vec<f32>>();
    let seen: Vec<Observation> = (0..size)
        .map(|_| Observation {
            node_width: NODE_WIDTH,
            nodes: numbers(nodes * NODE_WIDTH),
            pod: numbers(POD_WIDTH),
            mask: vec![true; nodes],
            places: (0..nodes as u32).map(|node| [node % 8, node % 2]).collect(),
        })
        .collect();
    Batch::new(spec, &seen)
}

/// The mean time of a piece of work. The first time counts only where it takes the whole span: it also pays for what is set up once.
fn milliseconds(mut work: impl FnMut() -> Result<(), LearnError>) -> Result<f64, LearnError> {
    let start = Instant::now();
    work()?;
    let first = start.elapsed();
    if first >= SPAN {
        return Ok(first.as_secs_f64() * 1e3);
    }
    let start = Instant::now();
    let mut count = 0;
    while start.elapsed() < SPAN {
        work()?;
        count += 1;
    }
    Ok(start.elapsed().as_secs_f64() * 1e3 / f64::from(count))
}
