//! What a run does, case by case.

use super::*;
use crate::fleet::Price;
use crate::workload::{Call, GpuRequest, LatencyConstraint};
use crate::world::carbon::RecordedIntensity;
use crate::world::latency::LatencyTable;
use crate::world::power::{AlwaysAwake, SleepWhenEmpty};
use crate::world::price::ListPrices;
use crate::world::steps::Steps;
use crate::world::thermal::ShareOfFull;
use crate::world::usage::Varied;

fn near(came: f64, expected: f64) {
    assert!((came - expected).abs() <= expected.abs() * 1e-9 + 1e-9, "expected {expected}, came {came}");
}

#[test]
fn machines_sleep_when_empty_and_draw_their_curve_when_not() {
    // One pod of half a machine for an hour of two.
    let bench = Bench::new(workload(vec![template(2000)], &[(0, 0, 3600)]), vec![pool("n", 3, 4, 8)], 7200);
    let measures = bench.run("best-fit").measures;
    near(measures.active_nodes, 0.5);
    near(measures.node_hours, 1.0);
    near(measures.kwh, 0.150);
    near(measures.empty_node_share, (2.0 / 3.0 + 1.0) / 2.0);
    near(measures.cpu_utilization, 0.25);
    assert_eq!((measures.arrived, measures.finished, measures.wakes), (1, 1, 1));
}

#[test]
fn machines_that_never_sleep_draw_power_all_the_time() {
    let mut bench = Bench::new(workload(vec![template(2000)], &[(0, 0, 3600)]), vec![pool("n", 3, 4, 8)], 7200);
    bench.world.power = Box::new(AlwaysAwake);
    let measures = bench.run("best-fit").measures;
    near(measures.kwh, 0.6 + 0.05);
    near(measures.node_hours, 6.0);
}

#[test]
fn a_machine_takes_its_time_to_wake_and_to_sleep() {
    let mut bench = Bench::new(workload(vec![template(4000)], &[(0, 0, 3600)]), vec![pool("n", 1, 4, 8)], 7200);
    let (after, boot_delay) = (seconds(900), seconds(600));
    bench.world.power = Box::new(SleepWhenEmpty { after, sleep_watts: 10.0, boot_delay, boot_watts: Some(50.0) });
    let outcome = bench.run("best-fit");
    near(outcome.measures.wait_mean_s, 600.0);
    let joules = 600.0 * 50.0 + 3600.0 * 200.0 + 900.0 * 100.0 + (7200.0 - 5100.0) * 10.0;
    near(outcome.measures.kwh, joules / 3.6e6);
    assert_eq!(outcome.measures.finished, 1);
}

#[test]
fn pods_wait_for_room_and_are_placed_when_it_comes() {
    let pods = [(0, 0, 1000), (0, 10, 1000), (0, 20, 0)];
    let bench = Bench::new(workload(vec![template(4000)], &pods), vec![pool("n", 1, 4, 8)], 5000);
    let measures = bench.run("default").measures;
    assert_eq!((measures.finished, measures.running, measures.waiting), (2, 1, 0));
    assert!(measures.wait_p99_s >= 1980.0 && measures.wait_p99_s < 2020.0, "{}", measures.wait_p99_s);
}

#[test]
fn pods_that_wait_too_long_give_up() {
    let mut bench =
        Bench::new(workload(vec![template(4000)], &[(0, 0, 0), (0, 10, 100)]), vec![pool("n", 1, 4, 8)], 5000);
    bench.settings.max_wait = Some(seconds(60));
    let measures = bench.run("default").measures;
    assert_eq!((measures.running, measures.rejected, measures.waiting), (1, 1, 0));
}

#[test]
fn more_important_pods_remove_less_important_ones_which_come_back() {
    let important = Template { priority: 100, ..template(4000) };
    let pods = [(0, 0, 5000), (1, 1000, 1000)];
    let bench = Bench::new(workload(vec![template(4000), important], &pods), vec![pool("n", 1, 4, 8)], 9000);
    let measures = bench.run("default").measures;
    assert_eq!((measures.preemptions, measures.finished, measures.placed), (1, 2, 2));
    // The victim ran 1000 s before and has 4000 s left, after the other has run its 1000 s.
    assert!((measures.active_nodes * 9000.0 - 6000.0).abs() < 30.0, "{}", measures.active_nodes * 9000.0);
}

#[test]
fn a_pool_grows_while_pods_wait_and_shrinks_when_machines_are_idle() {
    let mut growing = pool("n", 1, 4, 8);
    let scaling = Scaling { min: 1, max: 4, boot_delay: seconds(120), idle_after: seconds(300) };
    growing.scaling = Some(scaling);
    let pods = [(0, 0, 1000), (0, 0, 1000), (0, 0, 1000), (0, 0, 1000), (0, 0, 1000)];
    let mut bench = Bench::new(workload(vec![template(4000)], &pods), vec![growing], 10_000);
    bench.settings.samples = 100;
    let outcome = bench.run("best-fit");
    assert_eq!(outcome.measures.finished, 5);
    // Three more machines from 120 s on; the fifth pod waits for the first to end; all but one are given back.
    let most = outcome.series.active_nodes.iter().copied().fold(0.0, f64::max);
    assert_eq!(most, 4.0);
    let hours = outcome.measures.node_hours * 3600.0;
    assert!((hours - (10_000.0 + 3.0 * 1300.0 + 700.0)).abs() < 1400.0, "{hours} machine-seconds");
}

#[test]
fn a_failed_machine_loses_its_pods_and_comes_back_empty() {
    let mut bench = Bench::new(workload(vec![template(3000)], &[(0, 0, 3000)]), vec![pool("n", 2, 4, 8)], 9000);
    let at = |at: u64, kind| Disruption { at: seconds(at), pool: "n".into(), count: 2, kind };
    bench.settings.disruptions = vec![at(1000, DisruptionKind::Fail), at(2000, DisruptionKind::Return)];
    let measures = bench.run("first-fit").measures;
    assert_eq!((measures.evictions, measures.finished), (1, 1));
    // It ran a third, waited until the machines returned, and ran the rest.
    assert!((measures.active_nodes * 9000.0 - 3000.0).abs() < 1.0, "{}", measures.active_nodes * 9000.0);
}

#[test]
fn a_drained_machine_takes_no_pod_until_it_returns() {
    let mut bench =
        Bench::new(workload(vec![template(3000)], &[(0, 0, 0), (0, 100, 0)]), vec![pool("n", 2, 4, 8)], 1000);
    let drain = Disruption { at: seconds(50), pool: "n".into(), count: 1, kind: DisruptionKind::Drain };
    bench.settings.disruptions = vec![drain.clone()];
    let measures = bench.run("first-fit").measures;
    assert_eq!((measures.evictions, measures.running, measures.waiting), (1, 1, 1));
    let back = Disruption { at: seconds(500), kind: DisruptionKind::Return, ..drain };
    bench.settings.disruptions.push(back);
    assert_eq!(bench.run("first-fit").measures.waiting, 0);
}

#[test]
fn machines_that_fail_by_chance_do_so_about_as_often_as_said() {
    let mut bench = Bench::new(workload(vec![template(1000)], &[(0, 0, 0)]), vec![pool("n", 50, 4, 8)], 1_000_000);
    bench.settings.failures = Some(Failures { every: seconds(100_000), repair: seconds(1000) });
    struct Gone(usize);
    impl Observer for Gone {
        fn see(&mut self, _: Duration, seen: Seen<'_>) {
            self.0 += usize::from(matches!(seen, Seen::NodeGone(_)));
        }
    }
    let mut gone = Gone(0);
    bench.watched("best-fit", &mut gone);
    assert!((400..600).contains(&gone.0), "{} failures, expected about 495", gone.0);
}

#[test]
fn a_disruption_of_no_pool_is_an_error() {
    let mut bench = Bench::new(workload(vec![template(1000)], &[(0, 0, 0)]), vec![pool("n", 1, 4, 8)], 100);
    bench.settings.disruptions =
        vec![Disruption { at: seconds(1), pool: "m".into(), count: 1, kind: DisruptionKind::Fail }];
    let Bench { workload, fleet, world, settings } = &bench;
    let error = run(Setup { workload, fleet, world, settings }, by_name("default").unwrap(), &mut Nobody).unwrap_err();
    assert!(error.to_string().contains("there is no pool \"m\"; there are n"), "{error}");
}

#[test]
fn pods_on_an_overloaded_machine_run_slower() {
    let mut bench =
        Bench::new(workload(vec![template(2000)], &[(0, 0, 1000), (0, 0, 1000)]), vec![pool("n", 1, 4, 8)], 5000);
    let varied = Varied { least: 2.0, most: 2.0, daily_swing: 0.0, contends: true, seed: 1 };
    bench.world.usage = Box::new(varied);
    let measures = bench.run("best-fit").measures;
    // Both use twice what they ask for, so together twice what the machine has: half the speed.
    near(measures.overload_minutes, 2000.0 / 60.0);
    assert!((measures.active_nodes * 5000.0 - 2000.0).abs() < 1.0);
    bench.world.usage = Box::new(Varied { contends: false, ..varied });
    assert!((bench.run("best-fit").measures.active_nodes * 5000.0 - 1000.0).abs() < 1.0);
}

#[test]
fn a_machine_above_its_thermal_limit_is_counted_and_may_slow_down() {
    let mut bench = Bench::new(workload(vec![template(4000)], &[(0, 0, 900)]), vec![pool("n", 1, 4, 8)], 5000);
    bench.world.thermal = Some(Box::new(ShareOfFull { share: 0.75, throttles: false }));
    let measures = bench.run("best-fit").measures;
    near(measures.thermal_minutes, 15.0);
    near(measures.kwh, 200.0 * 900.0 / 3.6e6);
    bench.world.thermal = Some(Box::new(ShareOfFull { share: 0.75, throttles: true }));
    let slowed = bench.run("best-fit").measures;
    near(slowed.thermal_minutes, 20.0);
    near(slowed.kwh, 150.0 * 1200.0 / 3.6e6);
}

#[test]
fn carbon_and_money_follow_time_region_and_price() {
    let mut dear = pool("n", 1, 4, 8);
    dear.machine.price = Some(Price { on_demand: 3.0, spot: 1.0 });
    let mut bench = Bench::new(workload(vec![template(4000)], &[(0, 0, 0)]), vec![dear], 7200);
    let steps = Steps::new(vec![(seconds(0), 100.0), (seconds(3600), 400.0)]);
    bench.world.carbon = Some(Box::new(RecordedIntensity { regions: [("r".to_owned(), steps)].into() }));
    bench.world.price = Some(Box::new(ListPrices));
    let measures = bench.run("best-fit").measures;
    near(measures.co2_kg.unwrap(), 0.2 * (0.1 + 0.4));
    near(measures.cost.unwrap(), 6.0);
    bench.fleet.pools[0].spot = true;
    near(bench.run("best-fit").measures.cost.unwrap(), 2.0);
}

#[test]
fn latency_is_felt_as_it_changes() {
    let constraint = Some(LatencyConstraint { soft_ms: 20.0, hard_ms: 30.0 });
    let felt = Template { latency: constraint, ..template(1000) };
    let mut bench = Bench::new(workload(vec![felt], &[(0, 0, 0)]), vec![pool("n", 1, 4, 8)], 3600);
    let mut table = LatencyTable::default();
    table.to_user.insert("n-0".into(), Steps::new(vec![(seconds(0), 10.0), (seconds(1800), 40.0)]));
    bench.world.latency = Some(Box::new(table));
    let outcome = bench.run("best-fit");
    near(outcome.measures.latency_mean_ms.unwrap(), 25.0);
    near(outcome.measures.latency_p95_ms.unwrap(), 40.0);
    near(outcome.measures.soft_violation_minutes, 30.0);
    near(outcome.measures.hard_violation_minutes, 30.0);
    assert_eq!(outcome.series.latency_ms.last(), Some(&40.0));
}

#[test]
fn calls_between_services_take_longer_across_zones() {
    let service = |app: &str, cpu| Template { app: Some(app.into()), ..template(cpu) };
    let mut pods = workload(vec![service("front", 3000), service("back", 3000)], &[(0, 0, 0), (1, 0, 0)]);
    pods.calls = vec![Call { from: "front".into(), to: "back".into(), per_request: 2.0 }];
    let mut bench = Bench::new(pods, vec![pool("n", 2, 4, 8)], 3600);
    bench.world.latency = Some(Box::new(LatencyTable::default()));
    // The machines stand in zones a and b.
    near(bench.run("first-fit").measures.call_latency_ms.unwrap(), 2.0 * 1.0);
    bench.fleet.pools = vec![pool("n", 1, 8, 8)];
    near(bench.run("first-fit").measures.call_latency_ms.unwrap(), 2.0 * 0.05);
}

#[test]
fn shares_of_gpus_are_allocated_device_by_device() {
    let share =
        |count, milli| Template { gpu: Some(GpuRequest { count, milli, models: vec!["big".into()] }), ..template(100) };
    let mut gpus = pool("g", 2, 8, 16);
    gpus.machine.gpus = Some((2, "big".into()));
    // Two machines with two GPUs: 0.6 of one each, then a whole one, then two whole ones that fit nowhere.
    let pods = [(0, 0, 0), (0, 1, 0), (1, 2, 0), (2, 3, 0)];
    let bench = Bench::new(workload(vec![share(1, 600), share(1, 1000), share(2, 1000)], &pods), vec![gpus], 3600);
    let measures = bench.run("first-fit").measures;
    assert_eq!((measures.running, measures.waiting), (3, 1));
    near((measures.gpu_utilization.unwrap() * 100.0).round(), 55.0);
    assert!(measures.gpu_fragmentation.unwrap() > 0.0);
}

#[test]
fn gpu_models_that_no_machine_has_keep_pods_waiting() {
    let wants =
        Template { gpu: Some(GpuRequest { count: 1, milli: 500, models: vec!["rare".into()] }), ..template(100) };
    let mut gpus = pool("g", 1, 8, 16);
    gpus.machine.gpus = Some((2, "big".into()));
    let bench = Bench::new(workload(vec![wants], &[(0, 0, 0)]), vec![gpus], 3600);
    assert_eq!(bench.run("fgd").measures.waiting, 1);
}

#[test]
fn fragmentation_gradient_descent_keeps_whole_gpus_whole() {
    let share = |milli| Template { gpu: Some(GpuRequest { count: 1, milli, models: Vec::new() }), ..template(100) };
    let mut gpus = pool("g", 2, 8, 16);
    gpus.machine.gpus = Some((1, "big".into()));
    // Halves and wholes are to come: the second half belongs beside the first.
    let pods = [(0, 0, 0), (0, 1, 0), (1, 2, 0)];
    let bench = Bench::new(workload(vec![share(500), share(1000)], &pods), vec![gpus], 3600);
    assert_eq!(bench.run("fgd").measures.waiting, 0);
    assert_eq!(bench.run("worst-fit").measures.waiting, 1);
}

#[test]
fn the_reference_that_knows_lifetimes_uses_them() {
    // A short pod, a long one, and another long one that has room beside either.
    let pods = [(0, 0, 100), (0, 1, 10_000), (1, 2, 10_000)];
    let templates = vec![template(3000), template(1000)];
    let mut bench = Bench::new(workload(templates, &pods), vec![pool("n", 2, 4, 8)], 10_000);
    bench.settings.tells_lifetimes = true;
    let told = bench.run("lifetime-aware").measures.active_nodes;
    bench.settings.tells_lifetimes = false;
    let blind = bench.run("first-fit").measures.active_nodes;
    assert!(told < 1.1 && blind > 1.9, "told {told}, blind {blind}");
}

#[test]
fn a_policy_is_shown_as_many_waiting_pods_as_asked_for() {
    struct Looks(usize, Arc<std::sync::atomic::AtomicUsize>);
    impl Policy for Looks {
        fn name(&self) -> &'static str {
            "looks"
        }
        fn lookahead(&self) -> usize {
            self.0
        }
        fn rank(
            &mut self,
            ranking: &mut plimsoll_core::policy::Ranking<'_>,
            _: &[plimsoll_core::state::NodeId],
            scores: &mut [f64],
        ) -> Result<(), String> {
            let upcoming = &ranking.cycle.state.telemetry.upcoming;
            assert!(upcoming.first().is_none_or(|first| *first == ranking.cycle.pod_id), "{upcoming:?}");
            self.1.fetch_max(upcoming.len(), std::sync::atomic::Ordering::Relaxed);
            scores.fill(0.0);
            Ok(())
        }
    }
    let pods: Vec<_> = (0..9).map(|_| (0, 0, 0)).collect();
    let mut bench = Bench::new(workload(vec![template(100)], &pods), vec![pool("n", 2, 4, 8)], 100);
    // What the scenario says, what the policy asks for, and what is seen.
    for (said, asked, expected) in [(1, 1, 0), (4, 1, 4), (1, 4, 4), (3, 5, 5)] {
        bench.settings.lookahead = said;
        let most = Arc::default();
        let Bench { workload, fleet, world, settings } = &bench;
        let looks = Looks(asked, Arc::clone(&most));
        run(Setup { workload, fleet, world, settings }, Box::new(looks), &mut Nobody).unwrap();
        let seen = most.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!(seen, expected, "{said} are shown, {asked} asked for");
    }
}

#[test]
fn a_pool_orders_no_second_machine_for_a_pod_in_its_backoff() {
    for boot in [0, 60] {
        let mut growing = pool("n", 0, 64, 256);
        growing.scaling = Some(Scaling { min: 0, max: 40, boot_delay: seconds(boot), idle_after: seconds(0) });
        let pods: Vec<_> = (0..20).map(|number| (0, 100 + number, 3000)).collect();
        let bench = Bench::new(workload(vec![template(500)], &pods), vec![growing], 3000);
        struct Joined(usize);
        impl Observer for Joined {
            fn see(&mut self, _: Duration, seen: Seen<'_>) {
                self.0 += usize::from(matches!(seen, Seen::Node(_)));
            }
        }
        let mut joined = Joined(0);
        let measures = bench.watched("best-fit", &mut joined).measures;
        assert_eq!((measures.running, joined.0), (20, 1), "boot delay {boot}");
    }
}

#[test]
fn the_pool_that_can_run_a_pod_grows_for_it() {
    let wants = Template { gpu: Some(GpuRequest { count: 1, milli: 1000, models: Vec::new() }), ..template(100) };
    let scaling = Some(Scaling { min: 0, max: 5, boot_delay: seconds(10), idle_after: seconds(300) });
    let (mut plain, mut gpus) = (pool("c", 0, 8, 16), pool("g", 0, 8, 16));
    (plain.scaling, gpus.scaling) = (scaling, scaling);
    gpus.machine.gpus = Some((1, "big".into()));
    let bench = Bench::new(workload(vec![wants], &[(0, 0, 0), (0, 1, 0)]), vec![plain, gpus], 3600);
    let measures = bench.run("best-fit").measures;
    assert_eq!((measures.running, measures.waiting), (2, 0));
    near((measures.node_hours * 10.0).round(), 20.0);
}

#[test]
fn a_scaling_pool_stays_within_its_bounds_when_machines_come_back() {
    let mut one = pool("n", 1, 8, 16);
    one.scaling = Some(Scaling { min: 1, max: 1, boot_delay: seconds(60), idle_after: seconds(300) });
    let mut bench = Bench::new(workload(vec![template(500)], &[(0, 0, 0)]), vec![one], 9000);
    let at = |at: u64, kind| Disruption { at: seconds(at), pool: "n".into(), count: 1, kind };
    bench.settings.disruptions = vec![at(1000, DisruptionKind::Fail), at(5000, DisruptionKind::Return)];
    let measures = bench.run("best-fit").measures;
    assert_eq!(measures.running, 1);
    assert!(measures.node_hours * 3600.0 < 9000.0, "{} machine-seconds", measures.node_hours * 3600.0);
}

#[test]
fn a_machine_that_stands_still_never_ends_its_pods() {
    let mut bench = Bench::new(workload(vec![template(4000)], &[(0, 0, 900)]), vec![pool("n", 1, 4, 8)], 5000);
    bench.world.thermal = Some(Box::new(ShareOfFull { share: 0.0, throttles: true }));
    let measures = bench.run("best-fit").measures;
    assert_eq!((measures.running, measures.finished), (1, 0));
}
