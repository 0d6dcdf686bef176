//! How many steps the arena makes on one core: 50 nodes, observation kept up to date, the first allowed node chosen.
//!
//! ```sh
//! cargo run --release -p plimsoll-learn --example arena_speed
//! ```

use plimsoll_learn::environment::Environment;
use plimsoll_learn::environment::arena::{Arena, ArenaSettings, Made, Shape};
use plimsoll_learn::error::LearnError;
use plimsoll_learn::reward::{RewardSpec, Rewards};
use plimsoll_sim::fleet::{Fleet, Machine, Pool};
use plimsoll_sim::world::power::PowerCurve;
use std::sync::Arc;
use std::time::{Duration, Instant};

const NODES: usize = 50;
const STEPS: u64 = 4_000_000;

#[allow(clippy::print_stdout, reason = "an example shows what it found")]
fn main() -> Result<(), LearnError> {
    let kind = |name: &str, threads: i64, gib: i64| Machine {
        name: name.into(),
        cpu_milli: threads * 1000,
        memory: gib << 30,
        pods: 110,
        gpus: None,
        power: Arc::new(PowerCurve::straight(60.0, 250.0).unwrap_or_else(|| unreachable!("a straight line"))),
        price: None,
    };
    let pools =
        vec![Pool::new("a", kind("a", 16, 64), NODES / 2), Pool::new("b", kind("b", 32, 96), NODES - NODES / 2)];
    let shapes =
        [(500, 1), (1000, 4), (2000, 2), (4000, 8)].map(|(cpu_milli, gib)| Shape { cpu_milli, memory: gib << 30 });
    // About half of the CPU is in use.
    let lifetime = Duration::from_secs(320);
    for reward in ["energy", "ee", "compress"] {
        let made = Made::new(shapes.to_vec(), Duration::from_secs(1), lifetime, u64::MAX)?;
        let rewards = Rewards::new(&RewardSpec::Name(reward.into()))?;
        let fleet = Fleet { pools: pools.clone() };
        let mut arena = Arena::new(&fleet, made, rewards, ArenaSettings::default())?;
        arena.reset(1)?;
        let (start, mut sum) = (Instant::now(), 0.0);
        for seed in 0..STEPS {
            let action = arena.observation().mask.iter().position(|allowed| *allowed).unwrap_or(0);
            let step = arena.step(action)?;
            sum += step.reward;
            if step.is_last() {
                arena.reset(seed)?;
            }
        }
        let rate = STEPS as f64 / start.elapsed().as_secs_f64();
        println!("{reward:<10} {:.2} M steps/s on one core, {NODES} nodes (return {sum:.1})", rate / 1e6);
    }
    Ok(())
}
