use super::*;
use crate::environment::testing::{inputs, pool, workload};
use crate::environment::{Again, ClusterEnvironment, ClusterSettings};
use crate::observation::Plain;
use crate::reward::RewardSpec;
use plimsoll_core::rng::Rng;
use proptest::prelude::*;
use std::time::Duration;

fn rewards(name: &str) -> Rewards {
    Rewards::new(&RewardSpec::Name(name.into())).unwrap()
}

fn made(pods: u64) -> Made {
    let shapes =
        [(500, 1), (1000, 4), (2000, 2), (4000, 8)].map(|(cpu_milli, gib)| Shape { cpu_milli, memory: gib << 30 });
    Made::new(shapes.to_vec(), Duration::from_secs(1), Duration::from_secs(40), pods).unwrap()
}

fn fleet() -> Fleet {
    Fleet { pools: vec![pool("a", 4, 8, 32), pool("b", 3, 16, 48)] }
}

/// A random allowed action, the same for both.
fn action(mask: &[bool], rng: &mut Rng) -> usize {
    let allowed = mask.iter().filter(|allowed| **allowed).count();
    let nth = rng.below(allowed);
    mask.iter().enumerate().filter(|(_, allowed)| **allowed).nth(nth).unwrap().0
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Where pods ask for CPU and memory alone and none has to wait, the arena is the simulator.
    #[test]
    fn an_arena_is_the_simulator_where_only_cpu_and_memory_matter(seed in 0_u64..1000, reward in 0_usize..7) {
        let reward = ["balance", "compress", "lb", "energy", "node-hours", "money", "ee"][reward];
        let mut rng = Rng::new(seed);
        let pods: Vec<_> = (0..80)
            .map(|at| (250 + 250 * rng.below(8) as i64, 256 * (1 + rng.below(9) as i64), at * 5, 30 + rng.below(150) as u64))
            .collect();
        let (workload, pools) = (workload(&pods), vec![pool("a", 3, 8, 32), pool("b", 2, 16, 48)]);
        let recorded = Recorded::new(Arc::new(workload.clone())).unwrap().until(Duration::from_secs(500));
        let fleet = Fleet { pools: pools.clone() };
        let mut arena = Arena::new(&fleet, recorded, rewards(reward), ArenaSettings::default()).unwrap();
        let episodes = Again(inputs(workload, pools, 500));
        let settings = ClusterSettings::default();
        let mut cluster = ClusterEnvironment::new(episodes, Plain::default(), rewards(reward), settings).unwrap();
        arena.reset(seed).unwrap();
        cluster.reset(seed).unwrap();
        loop {
            prop_assert_eq!(arena.observation(), cluster.observation());
            let state = cluster.simulation().unwrap().state();
            let pods: Vec<u32> = state.nodes().map(|node| node.pods.len() as u32).collect();
            prop_assert_eq!(arena.pods().collect::<Vec<_>>(), pods);
            let action = action(&arena.observation().mask, &mut rng);
            let (a, b) = (arena.step(action).unwrap(), cluster.step(action).unwrap());
            prop_assert!((a.reward - b.reward).abs() < 1e-5, "{a:?}, {b:?}");
            prop_assert!((a.elapsed_hours - b.elapsed_hours).abs() < 1e-6, "{a:?}, {b:?}");
            prop_assert_eq!((a.terminated, a.truncated), (b.terminated, b.truncated));
            if a.is_last() {
                prop_assert_eq!(arena.rejected(), 0);
                break;
            }
        }
    }

    /// Rows kept by difference are those of a look at every node, and nothing is ever overcommitted.
    #[test]
    fn rows_kept_by_difference_are_right(seed in 0_u64..1000) {
        let mut arena = Arena::new(&fleet(), made(600), rewards("energy"), ArenaSettings::default()).unwrap();
        arena.reset(seed).unwrap();
        let mut rng = Rng::new(seed);
        loop {
            let mut taken = vec![(0, 0, 0); 7];
            for (_, node, shape) in arena.ends.iter().copied().map(parts) {
                let shape = arena.shapes[shape as usize];
                let sum = &mut taken[node];
                *sum = (sum.0 + shape.cpu_milli, sum.1 + shape.memory, sum.2 + 1);
            }
            for (node, (cpu, memory, pods)) in taken.into_iter().enumerate() {
                let (threads, gib) = if node < 4 { (8000, 32_i64 << 30) } else { (16_000, 48 << 30) };
                prop_assert!(cpu <= threads && memory <= gib, "node {node}: {cpu} and {memory}");
                let row = arena.observation().node(node);
                let expected = [1.0 - cpu as f32 / threads as f32, 1.0 - memory as f32 / gib as f32];
                prop_assert_eq!(&row[..2], &expected[..]);
                prop_assert_eq!(row[3], pods as f32 / PODS);
                let shape = arena.shapes[arena.pod.shape as usize];
                let fits = threads - cpu >= shape.cpu_milli && gib - memory >= shape.memory;
                prop_assert_eq!(arena.observation().mask[node], fits);
            }
            let action = action(&arena.observation().mask, &mut rng);
            if arena.step(action).unwrap().is_last() {
                break;
            }
        }
    }
}

#[test]
fn equal_seeds_give_equal_episodes() {
    let mut arena = Arena::new(&fleet(), made(500), rewards("compress"), ArenaSettings::default()).unwrap();
    let mut run = |seed: u64| {
        arena.reset(seed).unwrap();
        let (mut rng, mut sum, mut steps) = (Rng::new(1), 0.0, 0);
        loop {
            let step = arena.step(action(&arena.observation().mask, &mut rng)).unwrap();
            (sum, steps) = (sum + step.reward, steps + 1);
            if step.is_last() {
                return (sum, steps, arena.rejected());
            }
        }
    };
    let first = run(5);
    assert_ne!(run(6), first);
    assert_eq!(run(5), first);
    assert!(first.1 > 300, "{first:?}");
}

#[test]
fn a_node_with_as_many_pods_as_it_may_is_masked() {
    let mut small = pool("a", 3, 8, 32);
    small.machine.pods = 1;
    let pods = workload(&[(100, 1, 0, 0), (100, 1, 1, 0), (100, 1, 2, 0)]);
    let recorded = Recorded::new(Arc::new(pods)).unwrap();
    let settings = ArenaSettings { skips_single_choices: false, ..ArenaSettings::default() };
    let mut arena = Arena::new(&Fleet { pools: vec![small] }, recorded, rewards("balance"), settings).unwrap();
    arena.reset(1).unwrap();
    arena.step(1).unwrap();
    assert_eq!(arena.observation().mask, [true, false, true]);
    assert!(arena.step(1).unwrap_err().to_string().contains("does not fit"));
    arena.step(0).unwrap();
    assert_eq!(arena.observation().mask, [false, false, true]);
    assert!(arena.step(2).unwrap().terminated);
}

#[test]
fn what_an_arena_does_not_know_is_refused() {
    let mut asks = workload(&[(100, 1, 0, 0)]);
    asks.templates[0].gpu = Some(plimsoll_sim::workload::GpuRequest { count: 1, milli: 1000, models: Vec::new() });
    let error = Recorded::new(Arc::new(asks)).unwrap_err().to_string();
    assert!(error.contains("more than CPU and memory"), "{error}");
    let one = Fleet { pools: vec![pool("a", 1, 8, 32)] };
    assert!(Arena::new(&one, made(5), rewards("ee"), ArenaSettings::default()).is_err());
    for name in NOT_HERE {
        let refused = Arena::new(&fleet(), made(5), rewards(name), ArenaSettings::default());
        let error = refused.err().map(|error| error.to_string()).unwrap_or_default();
        let listed = "it can reward balance, compress, ee, lb, multi-objective, energy, node-hours, money, rejections;";
        assert!(error.contains(&format!("reward {name:?}")) && error.contains(listed), "{name}: {error}");
    }
}
