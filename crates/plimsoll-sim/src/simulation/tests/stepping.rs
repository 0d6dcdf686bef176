//! A run stepped from outside is the same run.

use super::*;
use crate::workload::LatencyConstraint;
use crate::world::latency::LatencyTable;
use crate::world::steps::Steps;
use plimsoll_core::policy::POLICIES;

/// Pods of two sizes, more than fit at times, some more important than others.
fn bench() -> Bench {
    let latency = Some(LatencyConstraint { soft_ms: 20.0, hard_ms: 30.0 });
    let important = Template { priority: 5, ..template(2000) };
    let templates = vec![Template { latency, ..template(500) }, template(1500), important];
    let pods: Vec<_> = (0..200_u64).map(|at| ((at % 3) as u32, at * 7, 30 + at * 37 % 260)).collect();
    let mut bench = Bench::new(workload(templates, &pods), vec![pool("a", 4, 4, 16), pool("b", 2, 8, 16)], 2000);
    bench.settings.warmup = 0.2;
    bench.settings.max_wait = Some(seconds(300));
    let to_user = [("a-0".to_owned(), Steps::new(vec![(seconds(0), 10.0), (seconds(700), 60.0)]))].into();
    bench.world.latency = Some(Box::new(LatencyTable { to_user, elsewhere_ms: 25.0, ..LatencyTable::default() }));
    bench
}

impl Bench {
    fn simulation(&self, policy: &str) -> Simulation<'_> {
        let Self { workload, fleet, world, settings } = self;
        Simulation::new(Setup { workload, fleet, world, settings }, by_name(policy).unwrap(), Nobody).unwrap()
    }
}

#[test]
fn choosing_as_the_policy_would_gives_the_run_of_the_policy() {
    let bench = bench();
    for (policy, _) in POLICIES.iter().filter(|(name, _)| *name != "lifetime-aware") {
        let mut simulation = bench.simulation(policy);
        let mut choices = 0;
        while simulation.advance_to_choice().unwrap().is_some() {
            let node = simulation.policy_choice().unwrap();
            simulation.choose(node).unwrap();
            choices += 1;
        }
        assert!(simulation.is_over() && choices > 60, "{policy}: {choices} choices");
        assert_eq!(simulation.finish(), bench.run(policy), "{policy}");
    }
}

#[test]
fn a_run_that_stops_at_times_is_the_run_that_does_not() {
    let bench = bench();
    let mut simulation = bench.simulation("best-fit");
    let mut waited = 0;
    for at in 0..400 {
        simulation.advance_to(seconds(at * 7)).unwrap();
        assert_eq!(simulation.now(), seconds(at * 7).min(simulation.end()));
        waited = waited.max(simulation.waiting());
    }
    assert!(simulation.is_over() && waited > 0);
    assert_eq!(simulation.object("3").unwrap().metadata.uid.as_deref(), Some("3"));
    assert_eq!(simulation.object("what-if"), None);
    let (stepped, whole) = (simulation.finish(), bench.run("best-fit"));
    assert_eq!(stepped.checksum, whole.checksum);
    assert!((stepped.measures.kwh / whole.measures.kwh - 1.0).abs() < 1e-9);
}

#[test]
fn single_choices_are_shown_on_request() {
    let mut bench = Bench::new(workload(vec![template(3000)], &[(0, 1, 0), (0, 2, 0), (0, 3, 0)]), vec![], 10);
    bench.fleet.pools = vec![pool("a", 2, 4, 16)];
    let feasible = |bench: &Bench| {
        let mut simulation = bench.simulation("first-fit");
        let mut seen = Vec::new();
        while let Some(choice) = simulation.advance_to_choice().unwrap() {
            let nodes = choice.nodes.to_vec();
            seen.push((choice.number, choice.now.as_secs(), nodes.len()));
            simulation.choose(nodes[0]).unwrap();
        }
        seen
    };
    assert_eq!(feasible(&bench), [(0, 1, 2)]);
    bench.settings.skips_single_choices = false;
    assert_eq!(feasible(&bench), [(0, 1, 2), (1, 2, 1)]);
}

#[test]
fn only_an_open_choice_can_be_answered_and_only_with_a_feasible_node() {
    let bench =
        Bench::new(workload(vec![template(3000)], &[(0, 1, 0)]), vec![pool("a", 2, 4, 16), pool("b", 1, 1, 1)], 9);
    let mut simulation = bench.simulation("first-fit");
    let node = plimsoll_core::state::NodeId::new(0);
    assert_eq!(simulation.choose(node), Err(SimulationError::NoChoice));
    let refused = simulation.advance_to_choice().unwrap().unwrap().state.node_named("b-0").unwrap();
    let error = simulation.choose(refused).unwrap_err().to_string();
    assert!(error.contains("\"b-0\"") && error.contains("not among the 2"), "{error}");
}

#[test]
fn hours_of_pods_are_read_without_a_latency_model() {
    let bench =
        Bench::new(workload(vec![template(1000)], &[(0, 0, 0), (0, 1800, 1800)]), vec![pool("a", 2, 4, 16)], 7200);
    let mut simulation = bench.simulation("first-fit");
    simulation.advance_to(seconds(7200)).unwrap();
    let hours = simulation.readings().pod_hours;
    assert!((hours - 2.5).abs() < 1e-9, "{hours}");
}

#[test]
fn readings_sum_up_to_the_measures_and_outlive_the_warm_up() {
    let mut bench = bench();
    bench.settings.warmup = 0.0;
    let expected = bench.run("best-fit").measures;
    for warmup in [0.0, 0.3] {
        bench.settings.warmup = warmup;
        let mut simulation = bench.simulation("best-fit");
        let (mut sum, mut before) = (Readings::default(), Readings::default());
        while simulation.advance_to_choice().unwrap().is_some() {
            let node = simulation.policy_choice().unwrap();
            simulation.choose(node).unwrap();
            let now = simulation.readings();
            sum = sum + (now - before);
            before = now;
        }
        sum = sum + (simulation.readings() - before);
        let rejected = simulation.finish().measures.rejected;
        let close = |a: f64, b: f64, what: &str| assert!((a - b).abs() < 1e-6, "{what}: {a} is not {b}");
        close(sum.hours, expected.hours, "hours");
        close(sum.kwh, expected.kwh, "kWh");
        close(sum.node_hours, expected.node_hours, "node hours");
        close(sum.soft_violation_hours * 60.0, expected.soft_violation_minutes, "soft violations");
        close(sum.hard_violation_hours * 60.0, expected.hard_violation_minutes, "hard violations");
        close(sum.latency_ms_hours / sum.pod_hours, expected.latency_mean_ms.unwrap(), "latency");
        assert!(sum.waiting_hours > 0.0 && sum.rejected >= rejected as f64, "{sum:?}");
    }
}
