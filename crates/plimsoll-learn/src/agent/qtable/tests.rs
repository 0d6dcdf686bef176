use super::*;
use crate::environment::testing::{inputs, pool, workload};
use crate::environment::{Again, ClusterEnvironment, ClusterSettings, Shuffle};
use crate::observation::{Observation, Observe, Plain};
use crate::reward::{RewardSpec, Rewards};
use plimsoll_core::rng::Rng;
use proptest::prelude::*;

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn empty(fallback: &str) -> QTable {
    let settings = TableSettings { bins: 4, fallback: fallback.into(), ..TableSettings::default() };
    QTable::new(settings, &names(&["cpu-free", "memory-free"]), &names(&["cpu"])).unwrap()
}

fn observation(rows: &[[f32; 2]], mask: &[bool]) -> Observation {
    Observation {
        node_width: 2,
        nodes: rows.concat(),
        pod: vec![0.3],
        mask: mask.to_vec(),
        places: vec![[0; 2]; mask.len()],
    }
}

proptest! {
    /// What is learned in one order of nodes is known in every other, and the choice is the same node.
    #[test]
    fn states_that_differ_by_order_alone_are_one(
        rows in prop::collection::vec([0.0_f32..1.0, 0.0_f32..1.0], 2..6),
        chosen in 0_usize..6,
        seed in 0_u64..100,
    ) {
        let chosen = chosen % rows.len();
        let mut table = empty("first-fit");
        let mask = vec![true; rows.len()];
        let seen = observation(&rows, &mask);
        table.learn(table.place(&seen, chosen), 5.0, 0.5);
        let mut order: Vec<usize> = (0..rows.len()).collect();
        let mut rng = Rng::new(seed);
        for at in (1..order.len()).rev() {
            order.swap(at, rng.below(at + 1));
        }
        let permuted: Vec<_> = order.iter().map(|row| rows[*row]).collect();
        let other = observation(&permuted, &mask);
        prop_assert_eq!(table.worth(&other), 5.0);
        let row = table.choose(&other).unwrap();
        let bins = |row: [f32; 2]| row.map(|value| (value * 4.0) as u8);
        prop_assert_eq!(bins(permuted[row]), bins(rows[chosen]), "a node that looks like the one that was learned");
        prop_assert_eq!((table.len(), table.fallbacks()), (1, 0));
    }
}

#[test]
fn an_unseen_state_is_left_to_the_rule() {
    let seen = observation(&[[0.9, 0.9], [0.2, 0.3], [0.5, 0.5]], &[true, false, true]);
    for (rule, expected) in [("best-fit", 2), ("worst-fit", 0), ("first-fit", 0)] {
        let mut table = empty(rule);
        assert_eq!(table.choose(&seen).unwrap(), expected, "{rule}");
        assert_eq!((table.len(), table.fallbacks()), (0, 1), "looking keeps nothing");
    }
}

#[test]
fn the_best_known_choice_is_taken() {
    let mut table = empty("best-fit");
    let seen = observation(&[[0.9, 0.9], [0.2, 0.3], [0.5, 0.5]], &[true; 3]);
    table.learn(table.place(&seen, 1), 1.0, 0.5);
    table.learn(table.place(&seen, 2), 3.0, 0.5);
    assert_eq!(table.choose(&seen).unwrap(), 2);
    for _ in 0..20 {
        table.learn(table.place(&seen, 2), -5.0, 0.5);
    }
    assert_eq!(table.choose(&seen).unwrap(), 1);
    let other_mask = observation(&[[0.9, 0.9], [0.2, 0.3], [0.5, 0.5]], &[true, false, true]);
    let average = table.worth(&other_mask);
    assert!(average < 0.0 && average > -5.0, "other nodes allowed is another state, worth the average: {average}");
}

#[test]
fn a_table_is_stored_and_read_and_a_bad_one_is_refused() {
    let mut table = empty("best-fit");
    for (at, free) in [0.1, 0.4, 0.6, 0.9].into_iter().enumerate() {
        let seen = observation(&[[free, 0.5], [0.5, free]], &[true; 2]);
        table.learn(table.place(&seen, at % 2), at as f64 / 3.0, 0.1);
    }
    let stored = table.to_json();
    let read = QTable::from_json(&stored).unwrap();
    assert_eq!(read.to_json(), stored);
    assert_eq!(read.to_weights(), table.to_weights());
    table.ensure_like(&read).unwrap();
    assert!(empty("worst-fit").ensure_like(&read).unwrap_err().to_string().contains("worst-fit"));
    let mut other = stored.clone();
    other["schema"] = "else".into();
    assert!(QTable::from_json(&other).unwrap_err().to_string().contains("schema"));
    let mut cut = stored;
    cut["states"][0]["key"] = serde_json::json!([1, 2]);
    assert!(QTable::from_json(&cut).unwrap_err().to_string().contains("does not fit"));
    let error = QTable::new(TableSettings { bins: 1, ..TableSettings::default() }, &[], &[]).unwrap_err().to_string();
    assert!(error.contains("bins is 1"), "{error}");
}

fn learner(reward: &str, steps: u64) -> QLearning {
    let pods: Vec<_> = (0..12).map(|at| (1000, 1024, at * 10, 0)).collect();
    let inputs = inputs(workload(&pods), vec![pool("a", 3, 16, 16)], 125);
    let rewards = Rewards::new(&RewardSpec::Name(reward.into())).unwrap();
    let observe = Plain::default();
    let (nodes, pods) = (observe.node_features(), observe.pod_features());
    let settings = ClusterSettings { shuffle: Shuffle::Episodes, ..ClusterSettings::default() };
    let environment = ClusterEnvironment::new(Again(inputs), observe, rewards, settings).unwrap();
    let table = TableSettings {
        node_features: names(&["cpu-free"]),
        pod_features: names(&["cpu"]),
        bins: 32,
        // The wrong rule, so that only learning can do well.
        fallback: if reward == "balance" { "best-fit".into() } else { "worst-fit".into() },
    };
    let settings = QSettings { steps, table, report_every: 600, ..QSettings::default() };
    QLearning::new(settings, &nodes, &pods, Box::new(environment), 3).unwrap()
}

#[test]
fn learning_beats_chance_and_keeps_few_states() {
    for reward in ["balance", "compress"] {
        let mut agent = learner(reward, 12_000);
        let first = agent.iterate().unwrap();
        let mut last = first.clone();
        while last.progress < 1.0 {
            last = agent.iterate().unwrap();
        }
        let (before, after) = (first.mean_return.unwrap(), last.mean_return.unwrap());
        assert!(after > before + 0.3, "{reward}: {before} before, {after} after");
        // Twelve pods on three nodes that look alike: 49 ways to be loaded, counting the beginnings.
        assert!((30..=100).contains(&agent.table().len()), "{reward}: {} states", agent.table().len());
    }
}

#[test]
fn learning_goes_on_where_it_was() {
    let mut agent = learner("compress", 3000);
    agent.iterate().unwrap();
    let state = agent.state();
    let mut other = learner("compress", 3000);
    other.restore(&state).unwrap();
    assert_eq!(other.table().to_json(), agent.table().to_json());
    let report = other.iterate().unwrap();
    assert_eq!(report.steps, 1200);
    let mut again = learner("compress", 3000);
    again.restore(&state).unwrap();
    again.iterate().unwrap();
    assert_eq!(again.table().to_json(), other.table().to_json(), "equal seeds learn equally");
    assert!(learner("balance", 3000).restore(&state).is_err(), "a table of another rule is refused");
}
