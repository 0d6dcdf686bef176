use super::*;
use crate::workload::testing::assert_sound;
use crate::workload::{ReadOptions, info::Summary, table, testing};
use std::collections::BTreeSet;

fn generator(kind: &str, settings: &[&str]) -> Generator {
    Generator::parse(kind, settings).unwrap()
}

fn make(kind: &str, settings: &[&str], seed: u64) -> Workload {
    let workload = generator(kind, settings).generate(seed).unwrap();
    assert_sound(&workload);
    workload
}

#[track_caller]
fn near(is: f64, should: f64, tolerance: f64) {
    assert!((is / should - 1.0).abs() < tolerance, "{is} instead of about {should}");
}

/// How many pods run at a time.
fn running(workload: &Workload, at: f64) -> usize {
    let alive = |pod: &&PodRecord| {
        let from = pod.arrival.as_secs_f64();
        from <= at && pod.lifetime.is_none_or(|lifetime| from + lifetime.least.as_secs_f64() > at)
    };
    workload.pods.iter().filter(alive).count()
}

#[test]
fn every_generator_repeats_itself_by_seed_and_survives_a_table() {
    for (kind, _) in Generator::KINDS {
        let first = make(kind, &[], 7);
        assert_eq!(first.name, kind);
        assert_eq!(first, make(kind, &[], 7), "{kind}");
        if !kind.starts_with("thesis") {
            assert_ne!(first, make(kind, &[], 8), "{kind}");
        }
        let path = testing::path(&format!("{kind}.csv.gz"));
        table::write(&first, &path).unwrap();
        assert_eq!(table::read(&path, None, ReadOptions::STRICT).unwrap().0, first, "{kind}");
    }
}

#[test]
fn a_generator_is_read_as_it_was_written() {
    for (kind, _) in Generator::KINDS {
        let first = generator(kind, &[]);
        assert_eq!(first.kind(), kind);
        let text = toml::to_string(&first).unwrap();
        assert_eq!(toml::from_str::<Generator>(&text).unwrap(), first, "{text}");
    }
}

#[test]
fn poisson_pods_come_at_their_rate_and_shapes_by_weight() {
    let settings = ["pods_per_hour=1000", "hours=20", "lifetime.kind=exponential", "lifetime.mean_s=600"];
    let workload = make("poisson", &settings, 1);
    near(workload.pods.len() as f64, 20_000.0, 0.03);
    let summary = Summary::of(&workload);
    near(summary.lifetimes.mean_s.unwrap(), 600.0, 0.03);
    near(summary.running.mean, 1000.0 / 3600.0 * 600.0, 0.1);
    near(summary.shapes[0].pods as f64, 0.62 * 20_000.0, 0.03);
    assert_eq!(summary.owners, workload.pods.len());
}

#[test]
fn heavy_tails_are_a_setting_of_every_generator_with_lifetimes() {
    let tail = ["lifetime.kind=pareto", "lifetime.least_s=60", "lifetime.alpha=1.1", "lifetime.most_s=1e6"];
    for kind in ["poisson", "bursty", "diurnal", "gpu-sharing"] {
        let quantiles = Summary::of(&make(kind, &tail, 3)).lifetimes.quantiles_s.unwrap();
        assert!(quantiles.p95 > 6.0 * quantiles.p50, "{kind}: {quantiles:?}");
    }
    assert_eq!(Summary::of(&make("poisson", &["lifetime.kind=endless"], 3)).lifetimes.quantiles_s, None);
}

#[test]
fn batches_come_together_and_the_source_rests() {
    let workload = make("bursty", &["hours=200", "on_hours=2", "off_hours=6"], 5);
    let summary = Summary::of(&workload);
    near(summary.pods as f64 / summary.owners as f64, 4.9, 0.1);
    near(summary.owners as f64, 120.0 * 200.0 * 0.25, 0.35);
    let mut hours: BTreeSet<u64> = BTreeSet::new();
    let mut templates = std::collections::BTreeMap::new();
    for pod in &workload.pods {
        hours.insert(pod.arrival.as_secs() / 3600);
        assert_eq!(*templates.entry(pod.owner).or_insert(pod.template), pod.template, "a batch has one template");
    }
    assert!(hours.len() < 150, "pods come in {} of 200 hours", hours.len());
}

#[test]
fn by_day_more_pods_come_than_by_night() {
    let workload = make("diurnal", &["peak_hour=12", "amplitude=0.5", "hours=240"], 9);
    near(workload.pods.len() as f64, 300.0 * 240.0, 0.03);
    let within = |from: u64, to: u64| {
        let hour = |pod: &&PodRecord| (from..to).contains(&(pod.arrival.as_secs() / 3600 % 24));
        workload.pods.iter().filter(hour).count() as f64
    };
    near(within(11, 13) / (within(0, 1) + within(23, 24)), 1.5 / 0.5, 0.15);
}

#[test]
fn services_follow_their_users_and_jobs_come_by_night() {
    let workload = make("day", &["services=20", "peak_hour=12"], 3);
    let (jobs, services): (Vec<_>, Vec<_>) = workload.pods.iter().cloned().partition(|pod| pod.owner >= 20);
    let alone = |pods: Vec<PodRecord>| Workload { pods, ..workload.clone() };
    let (noon, midnight) = (12.0 * 3600.0, 23.9 * 3600.0);
    let services = alone(services);
    near(running(&services, noon) as f64, 20.0 * 20.0, 0.3);
    assert!(running(&services, midnight) * 2 < running(&services, noon));
    let by_day = jobs.iter().filter(|pod| (6..18).contains(&(pod.arrival.as_secs() / 3600))).count();
    assert!(by_day * 3 < jobs.len() * 2 && by_day * 5 > jobs.len(), "{by_day} of {}", jobs.len());
}

#[test]
fn test_1_creates_thirty_one_by_one_and_deletes_all() {
    let workload = make("thesis-1", &["rounds=3"], 0);
    assert_eq!((workload.pods.len(), workload.templates.len()), (90, 1));
    assert_eq!((workload.templates[0].cpu_milli, workload.templates[0].memory), (250, 64 << 20));
    assert_eq!(workload.templates[0].latency, None);
    let created = 29.0 * 5.0;
    for round in 0..3 {
        let start = f64::from(round) * (created + 60.0);
        assert_eq!(running(&workload, start + 7.0), 2);
        assert_eq!(running(&workload, start + created + 29.0), 30);
        assert_eq!(running(&workload, start + created + 31.0), 0);
    }
    assert_eq!(make("thesis-1", &[], 0).pods.len(), 15_000);
}

#[test]
fn test_2_keeps_as_many_alive() {
    let workload = make("thesis-2", &["alive=20", "latency=true"], 0);
    let latency = workload.templates[0].latency.unwrap();
    assert_eq!((latency.soft_ms, latency.hard_ms), (20.0, 30.0));
    for at in [200, 205, 1111, 4999] {
        assert_eq!(running(&workload, f64::from(at)), 20, "at {at} s");
    }
    assert_eq!(running(&make("thesis-2", &[], 0), 1e9), 30, "the last ones stay");
}

#[test]
fn the_shop_has_eleven_services_that_are_called_from_its_front() {
    let workload = make("shop", &["latency=true"], 2);
    let apps: BTreeSet<_> = workload.templates.iter().filter_map(|template| template.app.as_deref()).collect();
    assert_eq!((apps.len(), workload.templates.len()), (11, 11));
    assert!(workload.calls.iter().all(|call| apps.contains(&*call.from) && apps.contains(&*call.to)));
    let mut reached = BTreeSet::from(["storefront"]);
    for _ in 0..apps.len() {
        for call in &workload.calls {
            if reached.contains(&*call.from) {
                reached.insert(&*call.to);
            }
        }
    }
    assert_eq!(reached, apps);
    let bound: Vec<_> = workload.templates.iter().filter(|template| template.latency.is_some()).collect();
    assert_eq!((bound.len(), bound[0].app.as_deref()), (1, Some("storefront")));
    let replicas = 18;
    for hour in 1..48 {
        let alive = running(&workload, f64::from(hour) * 3600.0);
        assert!((replicas..=replicas * 2).contains(&alive), "{alive} run after {hour} h");
    }
    let three = make("shop", &["shops=3", "size=2", "rollouts_per_day=0"], 2);
    assert_eq!((three.pods.len(), three.templates.len()), (replicas * 6, 33));
}

#[test]
fn gpus_are_asked_for_in_parts_one_by_one_and_together() {
    let settings = ["pods_per_hour=300", r#"models=["T4", "A10"]"#, "choosy=0.2", "multiple=0.1"];
    let workload = make("gpu-sharing", &settings, 4);
    let all = workload.pods.len() as f64;
    let share = |wanted: &dyn Fn(u32, u32) -> bool| {
        let matches = |pod: &&PodRecord| {
            let gpu = workload.templates[pod.template as usize].gpu.as_ref();
            wanted(gpu.map_or(0, |gpu| gpu.count), gpu.map_or(0, |gpu| gpu.milli))
        };
        workload.pods.iter().filter(matches).count() as f64 / all
    };
    near(share(&|_, milli| (1..1000).contains(&milli)), 0.38, 0.05);
    near(share(&|count, _| count > 1), 0.1, 0.1);
    near(share(&|count, _| count == 0), 0.13, 0.1);
    let choosy = |pod: &&PodRecord| {
        workload.templates[pod.template as usize].gpu.as_ref().is_some_and(|gpu| gpu.models.len() == 1)
    };
    near(workload.pods.iter().filter(choosy).count() as f64 / all, 0.2 * 0.87, 0.1);
}

#[test]
fn settings_that_make_no_workload_are_named() {
    let cases: [(&str, &[&str], &str); 21] = [
        ("weekly", &[], "there are poisson, bursty"),
        ("poisson", &["rate=5"], "unknown field `rate`"),
        ("poisson", &["pods_per_hour=-5"], "pods_per_hour is -5"),
        ("poisson", &["pods_per_hour=nan"], "pods_per_hour is NaN"),
        ("poisson", &["pods_per_hour=many"], "invalid type"),
        ("poisson", &["pods_per_hour=1e9"], "at most 20000000"),
        ("poisson", &["hours=1e30"], "hours is"),
        ("poisson", &["shapes=[]"], "shapes is empty"),
        ("poisson", &["shapes=[{cpu_milli=-1, memory_mib=1}]"], "cpu_milli is -1"),
        ("poisson", &["lifetime.kind=pareto", "lifetime.least_s=1", "lifetime.alpha=0"], "alpha is 0"),
        ("poisson", &["lifetime.kind=uniform", "lifetime.least_s=9", "lifetime.most_s=1"], "least_s is 9"),
        ("poisson", &["hours"], "KEY=VALUE"),
        ("poisson", &["=5"], "no name of a setting"),
        ("bursty", &["batch_size=0"], "batch_size is 0"),
        ("diurnal", &["amplitude=1.5"], "amplitude is 1.5"),
        ("thesis-1", &["rounds=0"], "rounds is 0"),
        ("thesis-2", &["latency_hard_ms=10"], "is below latency_soft_ms"),
        ("shop", &["size=0"], "at least 1"),
        ("gpu-sharing", &["choosy=0.5"], "models is empty"),
        ("day", &["by_night=2"], "by_night"),
        ("day", &["jobs_per_hour=1e9"], "at most"),
    ];
    for (kind, settings, problem) in cases {
        let error = Generator::parse(kind, settings).and_then(|made| made.generate(0)).unwrap_err().to_string();
        assert!(error.contains(kind) && error.contains(problem), "{kind} {settings:?}: {error}");
    }
}

#[test]
fn later_settings_count_and_nested_ones_are_joined() {
    let made = generator("poisson", &["hours=1", "lifetime.kind=fixed", "lifetime.seconds=5", "hours=2"]);
    let Generator::Poisson(settings) = made else { panic!("{made:?}") };
    assert_eq!(settings.hours, 2.0);
    assert_eq!(settings.lifetime, LifetimeSetting::Fixed { seconds: 5.0 });
}

#[test]
fn the_schema_names_every_kind() {
    let schema = serde_json::to_string(&schemars::schema_for!(Generator)).unwrap();
    for (kind, _) in Generator::KINDS {
        assert!(schema.contains(&format!("\"const\":\"{kind}\"")), "{kind}");
    }
}
