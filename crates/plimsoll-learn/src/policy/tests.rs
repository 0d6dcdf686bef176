//! The learned policy stays with its heuristic where it is not to be trusted, and what it remembers is what it would work out anew.

use super::fused::{Factored, Sizes};
use super::{Learned, Parts, Ranges, sizes};
use crate::lifetime::{Dataset, PredictorSettings, train};
use crate::model::Weights;
use crate::observation::features::{node_feature, pod_feature};
use plimsoll_core::policy::{Counters, Policy, Ranking};
use plimsoll_core::rng::Rng;
use plimsoll_core::state::NodeId;
use plimsoll_sim::compare::{Case, PreparedCase};
use plimsoll_sim::scenario::Scenario;
use plimsoll_sim::simulation::Nobody;
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const SCENARIO: &str = r#"
name = "small"
[workload.generate]
kind = "poisson"
[[pool]]
name = "host"
count = 12
cpu = 16
memory = "64Gi"
idle_watts = 60
full_watts = 180
"#;

fn case(nodes: usize) -> PreparedCase {
    let mut scenario = Scenario::parse(SCENARIO).unwrap();
    scenario.pool[0].count = nodes;
    let trace = scenario.trace(&scenario.fleet().unwrap()).unwrap();
    PreparedCase::new(&scenario, &trace, Case { window: None, seed: 1 }).unwrap()
}

fn parts(case: &PreparedCase, change: impl FnOnce(&mut Weights)) -> Parts {
    let workload = &case.prepared.workload;
    let data = Dataset::new(workload, workload.span(), 1);
    let (predictor, _) = train(&data, &PredictorSettings { epochs: 1, ..PredictorSettings::default() }, 1);
    let node_features: Vec<_> = ["cpu-free", "empty", "remaining", "cpu-left", "extension"]
        .iter()
        .filter_map(|name| node_feature(name))
        .collect();
    let pod_features: Vec<_> = ["cpu", "life"].iter().filter_map(|name| pod_feature(name)).collect();
    let sizes = sizes(&node_features, &pod_features, 4, 6);
    let mut weights = Factored::fresh(&sizes, 3);
    change(&mut weights);
    Parts {
        network: Factored::new(&sizes, &weights).unwrap(),
        node_features,
        pod_features,
        predictor,
        base: "expected-hours".into(),
        // More than hours of machines: the network decides where it may.
        trust: 1e3,
        ranges: Ranges::default(),
        alone: false,
    }
}

fn loud(weights: &mut Weights) {
    let out = &mut weights.get_mut("out.weight").unwrap().data;
    // Of both signs, and within the bounds: what is cut off at them would be the same for all nodes.
    out.iter_mut().enumerate().for_each(|(at, weight)| *weight = if at % 2 == 0 { 0.3 } else { -0.3 });
}

/// The checksum of all placements, and who decided.
fn run(case: &PreparedCase, policy: Learned) -> (String, Arc<Counters>) {
    let counters = policy.counters().unwrap();
    let run = case.run("learned", Box::new(policy), &mut Nobody).unwrap();
    (run.row.placements_checksum, counters)
}

#[test]
fn a_network_moves_decisions_and_without_trust_the_heuristic_decides() {
    let case = case(12);
    let (base, _) = run(&case, Learned::new(Parts { trust: 0.0, ..parts(&case, loud) }));
    let (silent, _) = run(&case, Learned::new(parts(&case, |_| {})));
    assert_eq!(silent, base, "a network whose output is nothing adds nothing");
    let (moved, counters) = run(&case, Learned::new(parts(&case, loud)));
    assert_ne!(moved, base);
    assert!(counters.decisions.load(Ordering::Relaxed) > 100);
    let (again, _) = run(&case, Learned::new(parts(&case, loud)));
    assert_eq!(again, moved, "equal models decide equally");
}

#[test]
fn what_is_not_a_number_is_never_followed() {
    let case = case(12);
    let (base, _) = run(&case, Learned::new(Parts { trust: 0.0, ..parts(&case, loud) }));
    let broken = parts(&case, |weights| {
        loud(weights);
        weights.get_mut("head.direct").unwrap().data.fill(f32::MAX);
        weights.get_mut("out.weight").unwrap().data[0] = f32::NAN;
    });
    let (placed, counters) = run(&case, Learned::new(broken));
    assert_eq!(placed, base);
    let (decisions, broken) = (counters.decisions.load(Ordering::Relaxed), counters.not_finite.load(Ordering::Relaxed));
    assert_eq!(decisions, broken, "every decision is counted as taken by the heuristic");
}

#[test]
fn beyond_what_training_saw_the_heuristic_decides_and_it_is_counted() {
    let case = case(12);
    let (base, _) = run(&case, Learned::new(Parts { trust: 0.0, ..parts(&case, loud) }));
    let narrow = Ranges(vec![(50.0, 60.0); 7]);
    let (placed, counters) = run(&case, Learned::new(Parts { ranges: narrow, ..parts(&case, loud) }));
    assert_eq!(placed, base);
    assert_eq!(counters.outside.load(Ordering::Relaxed), counters.decisions.load(Ordering::Relaxed));
    let wide = Ranges(vec![(-1e6, 1e6); 7]);
    let (placed, counters) = run(&case, Learned::new(Parts { ranges: wide, ..parts(&case, loud) }));
    assert_ne!(placed, base);
    assert_eq!(counters.outside.load(Ordering::Relaxed), 0);
}

#[test]
fn who_is_late_leaves_the_decision_to_the_heuristic() {
    let case = case(600);
    let (base, _) = run(&case, Learned::new(Parts { trust: 0.0, ..parts(&case, loud) }));
    let mut policy = Learned::new(parts(&case, loud));
    let ticks = AtomicU64::new(0);
    let clock = move || Duration::from_secs(ticks.fetch_add(1, Ordering::Relaxed));
    policy.set_deadline(Box::new(clock), Duration::from_millis(1));
    let (placed, counters) = run(&case, policy);
    assert_eq!(placed, base);
    assert!(counters.late.load(Ordering::Relaxed) > 0);
}

/// Asks about every second node alone, as well; counts how many scores that changes.
struct Halved {
    policy: Learned,
    changed: Arc<AtomicU64>,
}

impl Policy for Halved {
    fn name(&self) -> &'static str {
        "halved"
    }

    fn rank(&mut self, ranking: &mut Ranking<'_>, nodes: &[NodeId], scores: &mut [f64]) -> Result<(), String> {
        let half: Vec<_> = nodes.iter().copied().step_by(2).collect();
        let mut alone = vec![0.0; half.len()];
        self.policy.rank(ranking, &half, &mut alone)?;
        self.policy.rank(ranking, nodes, scores)?;
        let changed = scores.iter().step_by(2).zip(&alone).filter(|(all, alone)| all != alone).count();
        self.changed.fetch_add(changed as u64, Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn scores_do_not_depend_on_other_nodes_where_a_model_says_so() {
    let case = case(12);
    let changed = |parts: Parts| {
        let changed = Arc::new(AtomicU64::new(0));
        let policy = Learned::new(parts);
        let apart = policy.judges_apart();
        case.run("halved", Box::new(Halved { policy, changed: Arc::clone(&changed) }), &mut Nobody).unwrap();
        (apart, changed.load(Ordering::Relaxed))
    };
    assert_eq!(changed(parts(&case, loud)), (true, 0));
    let (apart, some) = changed(Parts { base: "best-fit".into(), ..parts(&case, loud) });
    assert!(!apart && some > 0, "{some} scores of a policy of the engine were brought to other numbers");
    assert!(!changed(Parts { alone: true, ..parts(&case, loud) }).0);
}

#[test]
fn the_network_goes_no_further_against_the_heuristic_than_it_is_trusted_to() {
    let case = case(12);
    let (base, _) = run(&case, Learned::new(Parts { trust: 0.0, ..parts(&case, loud) }));
    let shout = |weights: &mut Weights| weights.get_mut("out.weight").unwrap().data.fill(1e6);
    // The heuristic's scores differ by more than a billionth.
    let (placed, _) = run(&case, Learned::new(Parts { trust: 1e-12, ..parts(&case, shout) }));
    assert_eq!(placed, base);
}

fn row(rng: &mut Rng, width: usize) -> Vec<f32> {
    (0..width).map(|_| (rng.unit() * 2.0 - 1.0) as f32).collect()
}

proptest! {
    #[test]
    fn what_is_remembered_is_what_would_be_worked_out(seed in 0_u64..1000, changes in 1_usize..60) {
        let sizes = Sizes { tower_inputs: 3, node: 5, pod: 2, tower: 4, hidden: 6 };
        let mut weights = Factored::fresh(&sizes, seed);
        loud(&mut weights);
        let mut rng = Rng::new(seed);
        let mut kept = Factored::new(&sizes, &weights).unwrap();
        let mut nodes: Vec<Option<Vec<f32>>> = vec![None; 7];
        for _ in 0..changes {
            let node = rng.below(nodes.len());
            nodes[node] = (rng.below(4) > 0).then(|| row(&mut rng, sizes.node));
            kept.renew(node, nodes[node].as_deref().map(|row| &row[..3]));
        }
        // The same cluster, its nodes in another order and looked at for the first time.
        let mut fresh = Factored::new(&sizes, &weights).unwrap();
        for (node, features) in nodes.iter().enumerate() {
            fresh.renew(6 - node, features.as_deref().map(|row| &row[..3]));
        }
        let pod = row(&mut rng, sizes.pod);
        kept.begin(&pod);
        fresh.begin(&pod);
        for (node, features) in nodes.iter().enumerate() {
            if let Some(features) = features {
                let (a, b) = (kept.score(node, features), fresh.score(6 - node, features));
                prop_assert!((a - b).abs() <= 1e-5 * a.abs().max(1.0), "node {}: {} remembered, {} anew", node, a, b);
            }
        }
    }
}
