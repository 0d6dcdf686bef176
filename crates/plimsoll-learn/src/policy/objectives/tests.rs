use super::*;
use plimsoll_sim::compare::{Case, PreparedCase};
use plimsoll_sim::scenario::Scenario;
use plimsoll_sim::simulation::Nobody;

const SCENARIO: &str = r#"
name = "small"
[workload.generate]
kind = "poisson"
hours = 2
pods_per_hour = 40
[[pool]]
name = "host"
count = 20
cpu = 16
memory = "64Gi"
idle_watts = 60
full_watts = 180
"#;

fn nobody(_: &str) -> Option<String> {
    None
}

/// Kilowatt-hours, and nodes in use, under a policy.
fn outcome(name: &str) -> (f64, f64) {
    let scenario = Scenario::parse(SCENARIO).unwrap();
    let trace = scenario.trace(&scenario.fleet().unwrap()).unwrap();
    let case = PreparedCase::new(&scenario, &trace, Case { window: None, seed: 1 }).unwrap();
    let policy = MultiObjective::named(name, &nobody).unwrap().unwrap();
    let measures = case.run(name, Box::new(policy), &mut Nobody).unwrap().row.measures;
    (measures.kwh, measures.active_nodes)
}

#[test]
fn weights_decide_what_becomes_of_a_cluster() {
    let energy = outcome("multi-objective:0,0,0,0,1");
    let balance = outcome("multi-objective:0,1,0,0,0");
    assert!(energy.0 < 0.9 * balance.0, "{energy:?} {balance:?}");
    assert!(energy.1 < 0.9 * balance.1, "{energy:?} {balance:?}");
}

#[test]
fn names_and_weights_that_make_no_sense_are_refused() {
    for name in
        ["multi-objective:0,0,0,0,0", "multi-objective:1,2", "multi-objective:1,1,1,1,-1", "multi-objective:nope"]
    {
        assert!(MultiObjective::named(name, &nobody).unwrap().is_err(), "{name}");
    }
    assert!(MultiObjective::named("best-fit", &nobody).is_none());
    assert!(MultiObjective::named("multi-objectives", &nobody).is_none());
    let set = |name: &str| (name == "REWARD_ENERGY").then(|| "0.9".to_owned());
    assert_eq!(MultiObjective::named(MULTI_OBJECTIVE, &set).unwrap().unwrap().weights.get().energy, 0.9);
    let shared = SharedObjectives::default();
    assert!(shared.set(Objectives { energy: f64::NAN, ..Objectives::default() }).is_err());
    assert_eq!(shared.get(), Objectives::default());
}

#[test]
fn sums_are_those_of_all_nodes_when_one_changes() {
    let shares = [(0.5, true, 100.0), (0.0, false, 5.0), (0.25, true, 80.0)];
    let share = |(utilisation, is_used, drawn)| Share { utilisation, is_used, drawn };
    let mut all = Standing { nodes: 3.0, most: 600.0, ..Standing::default() };
    shares.into_iter().for_each(|one| all.add(share(one), 1.0));
    all.add(share(shares[1]), -1.0);
    all.add(share((0.75, true, 120.0)), 1.0);
    let marks = all.marks(0.5, 1.0);
    assert!((marks.utilization - 0.5).abs() < 1e-12 && (marks.energy - 0.5).abs() < 1e-12, "{marks:?}");
    let deviation = ((0.0 + 2.0 * 0.0625) / 3.0_f64).sqrt();
    assert!((marks.balance - (1.0 - 2.0 * deviation)).abs() < 1e-12, "{marks:?}");
}
