//! Rewards that judge a placement as soon as it is made.

use super::{Judgement, Loads, Options, Placed};
use pulp::{Simd, WithSimd};

/// As many pods on a node as are full marks for it.
const FULL_NODE: f64 = 50.0;
/// The reward of the best choice, in the policies that give whole points.
const BEST: f64 = 10.0;
/// Sums that are taken side by side.
const LANES: usize = 8;

/// One less twice the standard deviation of the nodes' utilisation: 1 when all are used alike, 0 when half are full and half are empty.
pub fn balance(placed: &Placed<'_>, _: &Options) -> Judgement {
    let (mean, count) = (mean(utilisations(placed.loads)), placed.loads.len().max(1) as f64);
    let variance = utilisations(placed.loads).map(|value| (value - mean) * (value - mean)).sum::<f64>() / count;
    (1.0 - 2.0 * variance.sqrt()).into()
}

/// How far nodes are from being half full: 1 when each is full or empty, 0 when all are half full.
pub fn compress(placed: &Placed<'_>, _: &Options) -> Judgement {
    let Loads { cpu, memory, .. } = placed.loads;
    (pulp::Arch::new().dispatch(OffHalf { cpu, memory }) / cpu.len().max(1) as f64).into()
}

/// The squares of how far nodes are from being half full, added up by the widest vectors that the processor has.
struct OffHalf<'a> {
    cpu: &'a [f32],
    memory: &'a [f32],
}

impl WithSimd for OffHalf<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> f64 {
        let Self { cpu, memory } = self;
        // Several sums side by side, so that none has to wait for another. No closures: what is not inlined loses the wide vectors.
        let mut sums = [0.0; LANES];
        for (cpu, memory) in cpu.chunks(LANES).zip(memory.chunks(LANES)) {
            for (sum, (cpu, memory)) in sums.iter_mut().zip(cpu.iter().zip(memory)) {
                // Twice the mean of both, less one.
                let value = f64::from(cpu + memory) - 1.0;
                *sum += value * value;
            }
        }
        sums.iter().sum()
    }
}

/// Energy: the most loaded node is right, and the more nodes are unused the better. Another node ends the episode.
pub fn ee(placed: &Placed<'_>, options: &Options) -> Judgement {
    let (column, unit) = options.load.column(placed.loads);
    let before = options.load.of(&placed.before);
    if others(column, placed.chosen).any(|value| value * unit > before) {
        return Judgement { reward: 0.0, terminated: true };
    }
    let unused = column.iter().filter(|value| **value * unit < 1.0).count() as f64;
    let others = column.len().saturating_sub(1).max(1) as f64;
    (unused / others * BEST).trunc().into()
}

/// Load balancing: 10 for the least loaded node, the end for the most loaded one, nothing between.
pub fn lb(placed: &Placed<'_>, options: &Options) -> Judgement {
    let (column, unit) = options.load.column(placed.loads);
    let before = options.load.of(&placed.before);
    let (mut least, mut most) = (true, true);
    for value in others(column, placed.chosen) {
        least &= value * unit >= before;
        most &= value * unit <= before;
    }
    match (least, most) {
        (true, _) => BEST.into(),
        (false, true) => Judgement { reward: -1.0, terminated: true },
        (false, false) => 0.0.into(),
    }
}

/// Energy and latency: few nodes on, many pods on each, and the latency of the chosen node within what the pod bears.
pub fn el_rl(placed: &Placed<'_>, _: &Options) -> Judgement {
    let nodes = placed.loads.len().max(1) as f64;
    let (mut on, mut pods) = (0.0, 0.0);
    for count in &placed.loads.pods {
        on += f64::from(u8::from(*count > 0.0));
        pods += f64::from(*count);
    }
    let off_share = (nodes - on) / nodes;
    let fullness = if on > 0.0 { pods / on / FULL_NODE } else { 0.0 };
    let latency = placed.loads.latency_ms[placed.chosen];
    let (in_time, terminated) = match placed.constraint {
        Some((soft, _)) if latency <= soft => (1.0, false),
        Some((_, hard)) if latency <= hard => (0.5, false),
        _ => (0.0, true),
    };
    Judgement { reward: off_share + fullness + in_time, terminated }
}

/// The mean of CPU and memory in use, node by node.
pub fn utilisations(loads: &Loads) -> impl Iterator<Item = f64> + '_ {
    loads.cpu.iter().zip(&loads.memory).map(|(cpu, memory)| f64::from(cpu + memory) / 2.0)
}

/// The mean; 0 of nothing.
pub fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    if count > 0.0 { sum / count } else { 0.0 }
}

fn others(column: &[f32], chosen: usize) -> impl Iterator<Item = f32> + '_ {
    column.iter().enumerate().filter(move |(row, _)| *row != chosen).map(|(_, value)| *value)
}
