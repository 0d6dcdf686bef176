use super::*;
use crate::workload::testing::assert_sound;
use crate::workload::{Builder, Template};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Workloads of a few owners, in whole seconds.
fn workload() -> impl Strategy<Value = Workload> {
    let pod = (0..12u32, 0..3i64, 0..1000u64, prop::option::of((0..500u64, 0..500u64)), any::<bool>());
    prop::collection::vec(pod, 1..60).prop_map(|pods| {
        let mut builder = Builder::new();
        for (at, (owner, cpu_milli, arrival, lifetime, odd)) in pods.into_iter().enumerate() {
            let template = builder.template(Template { cpu_milli, ..Template::default() });
            let lifetime = lifetime.map(|(least, more)| Lifetime {
                least: Duration::from_secs(least),
                most: Duration::from_secs(least + more),
            });
            // Some names look like those of copies.
            let name = if odd { format!("p-x{at}") } else { format!("p{at}") };
            let arrival = Duration::from_secs(arrival);
            builder.push(PodRecord { name: name.into(), template, owner, arrival, lifetime, usage: None }).unwrap();
        }
        builder.finish("w", Vec::new())
    })
}

fn pods_of_owners(workload: &Workload) -> BTreeMap<u32, Vec<&str>> {
    let mut owners: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
    for pod in &workload.pods {
        owners.entry(pod.owner).or_default().push(&pod.name);
    }
    owners
}

fn names(workload: &Workload) -> BTreeSet<&str> {
    workload.pods.iter().map(|pod| &*pod.name).collect()
}

/// What a pod asks for, and when, whatever its template's number is.
fn demand<'a>(workload: &'a Workload, name: &str) -> Option<(Duration, &'a Template, Option<Lifetime>)> {
    let pod = workload.pods.iter().find(|pod| &*pod.name == name)?;
    Some((pod.arrival, &workload.templates[pod.template as usize], pod.lifetime))
}

proptest! {
    #[test]
    fn a_window_keeps_what_arrives_in_it(workload in workload(), from in 0..900u64, length in 1..900u64) {
        let (from, to) = (Duration::from_secs(from), Duration::from_secs(from + length));
        let cut = Window { from, to: Some(to) }.of(workload.clone(), None);
        assert_sound(&cut);
        for pod in &workload.pods {
            let expected = (from..to).contains(&pod.arrival).then(|| {
                (pod.arrival - from, &workload.templates[pod.template as usize], pod.lifetime)
            });
            prop_assert_eq!(demand(&cut, &pod.name), expected);
        }
    }

    #[test]
    fn pods_carried_over_are_those_that_may_still_run(workload in workload(), from in 0..900u64, seed in any::<u64>()) {
        let from = Duration::from_secs(from);
        let cut = Window { from, to: None }.of(workload.clone(), Some(seed));
        assert_sound(&cut);
        for pod in workload.pods.iter().filter(|pod| pod.arrival < from) {
            let kept = demand(&cut, &pod.name);
            let Some(lifetime) = pod.lifetime else {
                prop_assert!(kept.is_some(), "{pod:?} runs for ever");
                continue;
            };
            if pod.arrival + lifetime.most <= from {
                prop_assert!(kept.is_none(), "{pod:?} is over");
            }
            if pod.arrival + lifetime.least >= from && lifetime.most > from - pod.arrival {
                prop_assert!(kept.is_some(), "{pod:?} runs on");
            }
            if let Some((arrival, _, Some(rest))) = kept {
                prop_assert_eq!(arrival, Duration::ZERO);
                prop_assert_eq!(from + rest.most, pod.arrival + lifetime.most, "it ends when it would have");
            }
        }
        let without = Window { from, to: None }.of(workload, None);
        prop_assert!(names(&without).is_subset(&names(&cut)));
    }

    #[test]
    fn a_sample_keeps_whole_owners_and_repeats(workload in workload(), share in 0.01..1.0f64, seed in any::<u64>()) {
        let kept = sample(workload.clone(), share, seed).unwrap();
        assert_sound(&kept);
        let (all, some) = (pods_of_owners(&workload), pods_of_owners(&kept));
        prop_assert_eq!(some.len(), ((all.len() as f64 * share).round() as usize).max(1));
        for (owner, pods) in &some {
            prop_assert_eq!(pods, &all[owner]);
        }
        prop_assert_eq!(&sample(workload.clone(), share, seed).unwrap(), &kept);
        let half = sample(workload, share / 2.0, seed).unwrap();
        prop_assert!(names(&half).is_subset(&names(&kept)), "a smaller sample is a part of a larger one");
    }

    #[test]
    fn scaling_repeats_whole_owners(workload in workload(), factor in 0.05..4.0f64, seed in any::<u64>()) {
        let scaled = scale(workload.clone(), factor, seed).unwrap();
        assert_sound(&scaled);
        let (owners, more) = (pods_of_owners(&workload), pods_of_owners(&scaled));
        let expected = (owners.len() as f64 * factor).round().max(1.0);
        prop_assert!((more.len() as f64 - expected).abs() <= 1.0, "{} of {expected} owners", more.len());
        if factor >= 1.0 {
            prop_assert!(names(&workload).is_subset(&names(&scaled)));
        }
        let sizes: BTreeSet<usize> = owners.values().map(Vec::len).collect();
        prop_assert!(more.values().all(|pods| sizes.contains(&pods.len())), "owners are repeated whole");
        prop_assert!(scaled.span() <= workload.span());
    }

    #[test]
    fn train_and_test_share_nothing_and_miss_nothing(workload in workload(), percent in 1..100u32) {
        let share = f64::from(percent) / 100.0;
        let early = train(workload.clone(), share).unwrap();
        let late = test(workload.clone(), 1.0 - share).unwrap();
        prop_assert!(names(&early).is_disjoint(&names(&late)));
        prop_assert_eq!(early.pods.len() + late.pods.len(), workload.pods.len());
        let (before, after) = split(&workload, Duration::from_secs(500));
        prop_assert_eq!(before.pods.len() + after.pods.len(), workload.pods.len());
        prop_assert!(before.pods.iter().all(|pod| pod.arrival < Duration::from_secs(500)));
    }

    #[test]
    fn a_window_is_read_as_it_was_written(from in 0..1_000_000u64, length in prop::option::of(1..1_000_000u64)) {
        let from = Duration::from_millis(from);
        let window = Window { from, to: length.map(|length| from + Duration::from_millis(length)) };
        prop_assert_eq!(window.to_string().parse(), Ok(window));
    }
}

#[test]
fn times_have_suffixes() {
    let window: Window = "1d..1.5d".parse().unwrap();
    assert_eq!((window.from.as_secs(), window.to.map(|to| to.as_secs())), (86_400, Some(129_600)));
    assert_eq!("..2h".parse(), Ok(Window { from: Duration::ZERO, to: Some(Duration::from_secs(7200)) }));
    assert_eq!("90..".parse(), Ok(Window { from: Duration::from_secs(90), to: None }));
    assert_eq!(parse_time("3m"), Ok(Duration::from_secs(180)));
    for bad in ["", "1d", "3d..1d", "1d..1d", "x..2d", "1..-2", "1w..2w", "..nan", "..99999999999d"] {
        assert!(bad.parse::<Window>().is_err(), "{bad}");
    }
}

#[test]
fn selections_that_make_no_sense_are_errors() {
    let mut builder = Builder::new();
    let template = builder.template(Template::default());
    let arrival = Duration::ZERO;
    builder.push(PodRecord { name: "a".into(), template, owner: 1, arrival, lifetime: None, usage: None }).unwrap();
    let workload = builder.finish("w", Vec::new());
    let none = Selection::default();
    let cases = [
        (Selection { sample: Some(0.0), ..none.clone() }, "sample is 0"),
        (Selection { sample: Some(f64::NAN), ..none.clone() }, "sample is NaN"),
        (Selection { sample: Some(1.5), ..none.clone() }, "sample is 1.5"),
        (Selection { scale: Some(-1.0), ..none.clone() }, "scale is -1"),
        (Selection { scale: Some(f64::INFINITY), ..none.clone() }, "scale is inf"),
        (Selection { scale: Some(1e12), ..none.clone() }, "can be run"),
        (Selection { train: Some(2.0), ..none.clone() }, "train is 2"),
        (Selection { train: Some(0.5), test: Some(0.5), ..none.clone() }, "one at a time"),
        (Selection { window: Some("1d..2d".parse().unwrap()), ..none.clone() }, "none of the 1 pods"),
    ];
    for (selection, problem) in cases {
        let error = selection.apply(workload.clone(), 0).unwrap_err().to_string();
        assert!(error.contains(problem), "{selection:?}: {error}");
    }
    assert_eq!(none.apply(workload.clone(), 0).unwrap(), workload);
}

#[test]
fn different_seeds_draw_different_owners() {
    let mut builder = Builder::new();
    let template = builder.template(Template::default());
    for owner in 0..100 {
        let (name, arrival) = (format!("p{owner}").into(), Duration::ZERO);
        builder.push(PodRecord { name, template, owner, arrival, lifetime: None, usage: None }).unwrap();
    }
    let workload = builder.finish("w", Vec::new());
    let drawn: BTreeSet<Vec<u32>> = (0..20)
        .map(|seed| sample(workload.clone(), 0.15, seed).unwrap().pods.iter().map(|pod| pod.owner).collect())
        .collect();
    assert_eq!(drawn.len(), 20);
    assert!(drawn.iter().all(|owners| owners.len() == 15));
}
