//! Several clusters: what being away from home costs and how it feels.

use super::*;
use crate::fleet::Price;
use crate::workload::Call;
use crate::world::clusters::{Cluster, Federation, Link};
use crate::world::latency::LatencyTable;
use crate::world::price::ListPrices;
use crate::world::steps::Steps;

fn near(came: f64, expected: f64) {
    assert!((came - expected).abs() <= expected.abs() * 1e-9 + 1e-9, "expected {expected}, came {came}");
}

/// One machine of four cores in each of two clusters; pods come from the first, 20 ms and 0.5 a gigabyte away from the second. The second is cheaper.
fn bench(workload: Workload, horizon: u64) -> Bench {
    let of = |name: &str, price: f64| {
        let mut pool = Pool { cluster: name.into(), ..pool(name, 1, 4, 8) };
        pool.machine.price = Some(Price { on_demand: price, spot: price });
        pool
    };
    let mut bench = Bench::new(workload, vec![of("a", 3.0), of("b", 1.0)], horizon);
    let cluster = |name: &str, share| Cluster { name: name.into(), share, traffic_gb: 2.0, ..Cluster::default() };
    let half = seconds(horizon / 2);
    let link = Link { ms: Steps::new(vec![(Duration::ZERO, 20.0), (half, 40.0)]), price: 0.5 };
    bench.world.clusters = Some(Federation::new(vec![cluster("a", 1.0), cluster("b", 0.0)], vec![((0, 1), link)], 1));
    bench.world.price = Some(Box::new(ListPrices));
    bench.world.latency = Some(Box::new(LatencyTable { elsewhere_ms: 5.0, ..LatencyTable::default() }));
    bench
}

#[test]
fn a_pod_away_from_home_pays_for_the_way_and_one_at_home_does_not() {
    // The first pod fills its home; the second, of two cores, has to leave it.
    let pods = workload(vec![template(4000), template(2000)], &[(0, 0, 0), (1, 0, 0)]);
    let measures = bench(pods, 7200).run("home-first").measures;
    near(measures.away_share.unwrap(), 0.5);
    // Two cores, two gigabytes an hour for each, 0.5 a gigabyte, for two hours.
    near(measures.transfer_cost.unwrap(), 4.0);
    near(measures.cost.unwrap(), 4.0 + 2.0 * (3.0 + 1.0));
    // 5 ms at home; 25 ms away, and 45 ms once the way is longer.
    near(measures.latency_mean_ms.unwrap(), (5.0 + (25.0 + 45.0) / 2.0) / 2.0);
}

#[test]
fn what_was_paid_before_the_warm_up_was_over_does_not_count() {
    let pods = workload(vec![template(4000), template(2000)], &[(0, 0, 0), (1, 0, 0)]);
    let mut bench = bench(pods, 7200);
    bench.settings.warmup = 0.5;
    let measures = bench.run("home-first").measures;
    near(measures.transfer_cost.unwrap(), 2.0);
    near(measures.latency_mean_ms.unwrap(), (5.0 + 45.0) / 2.0);
}

#[test]
fn policies_differ_in_where_pods_run() {
    let pods: Vec<_> = (0..4).map(|number| (0, number, 0)).collect();
    let away = |policy: &str| {
        let bench = bench(workload(vec![template(1000)], &pods), 7200);
        bench.run(policy).measures.away_share.unwrap()
    };
    near(away("home-first"), 0.0);
    near(away("nearest"), 0.0);
    assert!(away("least-allocated") > 0.4, "spread over both clusters: {}", away("least-allocated"));
}

#[test]
fn a_pod_that_ends_leaves_nothing_behind() {
    let pods = workload(vec![template(4000), template(2000)], &[(0, 0, 0), (1, 0, 3600), (1, 7200, 0)]);
    let measures = bench(pods, 14400).run("home-first").measures;
    near(measures.transfer_cost.unwrap(), 2.0 + 4.0);
    near(measures.away_share.unwrap(), 3.0 / 7.0);
}

#[test]
fn services_in_two_clusters_call_each_other_over_the_way_between_them() {
    let app = |name: &str| Template { app: Some(name.into()), ..template(4000) };
    let mut pods = workload(vec![app("web"), app("db")], &[(0, 0, 0), (1, 0, 0)]);
    pods.calls = vec![Call { from: "web".into(), to: "db".into(), per_request: 2.0 }];
    let measures = bench(pods, 7200).run("home-first").measures;
    near(measures.call_latency_ms.unwrap(), 2.0 * (20.0 + 40.0) / 2.0);
}

#[test]
fn without_clusters_nothing_is_said_of_them() {
    let mut bench = bench(workload(vec![template(1000)], &[(0, 0, 0)]), 7200);
    bench.world.clusters = None;
    let measures = bench.run("home-first").measures;
    assert_eq!((measures.away_share, measures.transfer_cost), (None, None));
    near(measures.latency_mean_ms.unwrap(), 5.0);
}
