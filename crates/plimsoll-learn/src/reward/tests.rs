use super::*;
use std::collections::BTreeMap;

/// Nodes by their pods, each pod a tenth of a node, with this latency everywhere.
fn loads(pods: &[u32], latency_ms: f32) -> Loads {
    let mut loads = Loads::default();
    for &count in pods {
        let pods = count as f32;
        loads.push(NodeLoad { pods, cpu: pods / 10.0, memory: pods / 10.0, disk: 0.0, latency_ms });
    }
    loads
}

/// A pod goes to a node of those with so many pods before.
fn judge(name: &str, before: &[u32], chosen: usize, options: Options) -> Judgement {
    judge_with(name, before, chosen, options, 10.0, Some((20.0, 30.0)))
}

fn judge_with(
    name: &str,
    before: &[u32],
    chosen: usize,
    options: Options,
    latency_ms: f32,
    constraint: Option<(f32, f32)>,
) -> Judgement {
    let mut pods = before.to_vec();
    pods[chosen] += 1;
    let (was, loads) = (loads(before, latency_ms).node(chosen), loads(&pods, latency_ms));
    let context = Context::default();
    let placed = Placed { loads: &loads, chosen, before: was, constraint, context };
    match by_name(name).unwrap().judge {
        Judge::Placement(judge) | Judge::InContext(judge) => judge(&placed, &options),
        Judge::Accrual(_) => panic!("{name} judges what accrues"),
    }
}

fn of(load: Load) -> Options {
    Options { load, ..Options::default() }
}

#[test]
fn ee_rewards_unused_nodes_and_ends_with_any_but_the_most_loaded() {
    // before, chosen, reward, end: int(unused / (n - 1) * 10)
    let cases: [(&[u32], usize, f64, bool); 6] = [
        (&[0, 0, 0, 0], 2, 10.0, false),
        (&[5, 0, 0, 0], 0, 10.0, false),
        (&[5, 0, 0, 0], 1, 0.0, true),
        (&[5, 3, 0, 0], 0, 6.0, false),
        (&[5, 5, 1, 0], 1, 3.0, false),
        (&[2, 2, 2, 2], 3, 0.0, false),
    ];
    for (before, chosen, reward, terminated) in cases {
        let found = judge("ee", before, chosen, of(Load::Pods));
        assert_eq!(found, Judgement { reward, terminated }, "{before:?}, {chosen}");
    }
    // By CPU a node with 1 % or more is used: a tenth of a node is.
    assert_eq!(judge("ee", &[1, 0, 0], 0, of(Load::Cpu)), 10.0.into());
    // Nobody asks for disk: every node is unused, and as loaded as any other.
    assert_eq!(judge("ee", &[1, 0, 0], 1, of(Load::Disk)), 15.0.into());
}

#[test]
fn lb_rewards_the_least_loaded_and_ends_with_the_most_loaded() {
    let cases: [(&[u32], usize, f64, bool); 5] = [
        (&[0, 0, 0], 1, 10.0, false),
        (&[3, 2, 1], 2, 10.0, false),
        (&[3, 2, 1], 1, 0.0, false),
        (&[3, 2, 1], 0, -1.0, true),
        (&[3, 3, 1], 1, -1.0, true),
    ];
    for load in [Load::Pods, Load::Cpu, Load::Memory] {
        for (before, chosen, reward, terminated) in cases {
            let found = judge("lb", before, chosen, of(load));
            assert_eq!(found, Judgement { reward, terminated }, "{load:?}, {before:?}, {chosen}");
        }
    }
}

#[test]
fn el_rl_adds_up_nodes_off_pods_per_node_and_latency() {
    let close = |found: Judgement, reward: f64, terminated: bool| {
        assert!((found.reward - reward).abs() < 1e-9 && found.terminated == terminated, "{found:?}, not {reward}");
    };
    let at = |latency_ms, constraint| judge_with("el-rl", &[9, 0, 0, 0], 0, Options::default(), latency_ms, constraint);
    let constraint = Some((20.0, 30.0));
    // (4 - 1) / 4 + (10 / 1) / 50 + 1
    close(at(20.0, constraint), 0.75 + 0.2 + 1.0, false);
    close(at(20.5, constraint), 0.75 + 0.2 + 0.5, false);
    close(at(30.0, constraint), 0.75 + 0.2 + 0.5, false);
    close(at(30.5, constraint), 0.75 + 0.2, true);
    close(at(10.0, None), 0.75 + 0.2, true);
    close(judge("el-rl", &[9, 0, 0, 0], 3, Options::default()), 0.5 + 0.1 + 1.0, false);
}

#[test]
fn balance_and_compress_want_opposite_things() {
    for (name, spread, packed) in [("balance", 1.0, 1.0 - 2.0 * 0.4), ("compress", 0.04, 1.0 - 0.32)] {
        // 4 + 4 against 8 + 0, of 10.
        let found = [judge(name, &[3, 4], 0, Options::default()), judge(name, &[7, 0], 0, Options::default())];
        for (found, expected) in found.into_iter().zip([spread, packed]) {
            assert!((found.reward - expected).abs() < 1e-6 && !found.terminated, "{name}: {found:?}, not {expected}");
        }
    }
}

#[test]
fn objectives_are_weighed_by_profile_and_by_variables() {
    let default = Objectives::default();
    assert_eq!(
        [default.utilization, default.balance, default.latency, default.affinity, default.energy],
        [0.30, 0.25, 0.25, 0.10, 0.10]
    );
    for (name, _, weights) in objectives::PROFILES {
        let Objectives { utilization, balance, latency, affinity, energy } = weights;
        let sum = utilization + balance + latency + affinity + energy;
        assert!((sum - 1.0).abs() < 1e-9, "{name} adds up to {sum}");
    }
    let error = Objectives::profile("games").unwrap_err().to_string();
    assert!(error.contains("games") && error.contains("web, batch"), "{error}");
    // Node 0 is half used, node 1 is empty: utilisation 0.5, balance 1 - 2 * 0.25, all else perfect.
    let found = judge("multi-objective", &[4, 0], 0, Options::default());
    assert!((found.reward - (0.30 * 0.5 + 0.25 * 0.5 + 0.25 + 0.10 + 0.10)).abs() < 1e-6, "{found:?}");

    let spec = RewardSpec::Name("multi-objective".into());
    let variables = |name: &str| (name == "REWARD_ENERGY").then(|| "0.7".to_owned());
    assert!(Rewards::with_own(&spec, &[], &variables).is_ok());
    let mut objectives = Objectives::default();
    objectives.override_by(&variables).unwrap();
    assert_eq!((objectives.energy, objectives.balance), (0.7, 0.25));
    let error = objectives.override_by(&|_| Some("much".into())).unwrap_err().to_string();
    assert!(error.contains("REWARD_RESOURCE_UTIL is \"much\""), "{error}");
}

#[test]
fn a_scenario_names_rewards_in_several_ways() {
    let read = |text: &str| {
        let table: toml::Table = text.parse().unwrap();
        RewardSpec::from_toml(&table["reward"]).and_then(|spec| Rewards::new(&spec))
    };
    assert_eq!(read("reward = 'ee'").unwrap().weights().get("ee").unwrap(), 1.0);
    let sum = read("reward = { energy = 1.0, waiting = 0.1 }").unwrap();
    assert_eq!(sum.weights().names(), ["energy", "waiting"]);
    assert_eq!(sum.weights().get("waiting").unwrap(), 0.1);
    assert!(read("reward = { lb = { load = 'cpu' } }").unwrap().judges_placements());
    assert!(read("reward = { multi-objective = { weight = 2, profile = 'web' } }").unwrap().needs_context());
    let held = read("reward = { energy = 1, latency-violations = { at_most = 0.05, per = 'pod-hours' } }").unwrap();
    assert_eq!(held.weights().adapted().collect::<Vec<_>>(), [("latency-violations", 0.0)]);
    for (text, problem) in [
        ("reward = 'fun'", "reward \"fun\" is not known; there are balance, compress, ee, lb, el-rl"),
        ("reward = { energy = 'much' }", "neither a name nor names with weights"),
        ("reward = { lb = { loaf = 'cpu' } }", "neither a name nor names with weights"),
        ("reward = { ee = { at_most = 1.0 } }", "leave at_most out"),
        ("reward = { energy = nan }", "weight is NaN"),
        ("reward = {}", "nothing is rewarded"),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(problem), "{text}: {error}");
    }
}

#[test]
fn weights_change_while_in_use_and_for_all_clones() {
    let spec = RewardSpec::Sum(BTreeMap::from([
        ("energy".to_owned(), Term::Weight(1.0)),
        ("waiting".to_owned(), Term::Weight(0.5)),
    ]));
    let mut rewards = Rewards::new(&spec).unwrap();
    let mut clone = rewards.clone();
    let since = Readings { kwh: 2.0, waiting_hours: 4.0, ..Readings::default() };
    assert_eq!(rewards.accrual(&since), -4.0);
    rewards.weights().set("waiting", 0.0).unwrap();
    assert_eq!((rewards.accrual(&since), clone.accrual(&since)), (-2.0, -2.0));
    assert!(rewards.weights().set("money", 1.0).is_err());
    assert!(rewards.weights().set("energy", f64::INFINITY).is_err());
}

#[test]
fn a_constraint_takes_over_as_it_is_violated() {
    let text = "reward = { energy = 1, latency-violations = { at_most = 0.05, per = 'pod-hours', rate = 1 } }";
    let table: toml::Table = text.parse().unwrap();
    let mut rewards = Rewards::new(&RewardSpec::from_toml(&table["reward"]).unwrap()).unwrap();
    let violated =
        Readings { hours: 1.0, pod_hours: 10.0, soft_violation_hours: 10.0, kwh: 1.0, ..Readings::default() };
    assert_eq!(rewards.accrual(&violated), -1.0);
    assert!((rewards.accrual(&violated) - (-1.0 - 0.95 * 10.0)).abs() < 1e-9);
    let slack = Readings { soft_violation_hours: 0.0, ..violated };
    for _ in 0..100 {
        rewards.accrual(&slack);
    }
    assert_eq!(rewards.weights().get("latency-violations").unwrap(), 0.0);
    // It goes on from what somebody sets.
    rewards.weights().set("latency-violations", 3.0).unwrap();
    assert!((rewards.accrual(&violated) - (-1.0 - 3.0 * 10.0)).abs() < 1e-9);
    assert!((rewards.weights().get("latency-violations").unwrap() - 3.95).abs() < 1e-9);
}

#[test]
fn physical_rewards_are_what_accrued_below_zero() {
    let since = Readings {
        kwh: 1.0,
        node_hours: 2.0,
        cost: 3.0,
        co2_kg: 4.0,
        soft_violation_hours: 5.0,
        stranded_core_hours: 6.0,
        stranded_gpu_hours: 0.5,
        waiting_hours: 7.0,
        ..Readings::default()
    };
    let expected = [
        ("energy", -1.0),
        ("node-hours", -2.0),
        ("money", -3.0),
        ("carbon", -4.0),
        ("latency-violations", -5.0),
        ("fragmentation", -6.5),
        ("gpu-fragmentation", -0.5),
        ("waiting", -7.0),
    ];
    for (name, worth) in expected {
        let mut rewards = Rewards::new(&RewardSpec::Name(name.into())).unwrap();
        assert_eq!(rewards.accrual(&since), worth, "{name}");
        assert!(!rewards.judges_placements());
    }
}
