use super::*;
use crate::environment::testing::{inputs, pool, workload};
use crate::environment::{Again, OfScenario};
use crate::observation::Plain;
use crate::reward::RewardSpec;
use plimsoll_sim::scenario::Scenario;
use plimsoll_sim::simulation::Settings;
use std::sync::Arc;

fn environment(inputs: Inputs<'static>, reward: &str, settings: ClusterSettings) -> ClusterEnvironment {
    let rewards = Rewards::new(&RewardSpec::Name(reward.into())).unwrap();
    ClusterEnvironment::new(Again(inputs), Plain::new(3), rewards, settings).unwrap()
}

/// Pods of 1 and 2 cores, a few of them at a time.
fn some() -> Inputs<'static> {
    let pods: Vec<_> =
        (0..60_u64).map(|at| (1000 + 1000 * (at as i64 % 2), 512, at * 20, 100 + at * 13 % 200)).collect();
    inputs(workload(&pods), vec![pool("a", 3, 4, 16), pool("b", 2, 8, 32)], 2000)
}

fn run(environment: &mut ClusterEnvironment, seed: u64) -> (Vec<Vec<f32>>, Vec<Step>) {
    environment.reset(seed).unwrap();
    let (mut seen, mut steps) = (Vec::new(), Vec::new());
    loop {
        let observation = environment.observation();
        seen.push(observation.nodes.iter().chain(&observation.pod).copied().collect());
        let action = observation.mask.iter().rposition(|allowed| *allowed).unwrap();
        steps.push(environment.step(action).unwrap());
        if steps[steps.len() - 1].is_last() {
            return (seen, steps);
        }
    }
}

#[test]
fn rewards_add_up_to_the_measures_of_the_run() {
    for (reward, figure) in [("energy", 0), ("node-hours", 1), ("money", 2)] {
        let settings = ClusterSettings { policy: "best-fit".into(), ..ClusterSettings::default() };
        let mut environment = environment(some(), reward, settings);
        environment.reset(1).unwrap();
        let (mut sum, mut hours) = (0.0, 0.0);
        loop {
            let action = environment.policy_action().unwrap();
            let step = environment.step(action).unwrap();
            sum += f64::from(step.reward);
            hours += f64::from(step.elapsed_hours);
            assert!(!step.truncated);
            if step.terminated {
                break;
            }
        }
        let inputs = some();
        let policy = policy::by_name("best-fit").unwrap();
        let measures = plimsoll_sim::simulation::run(inputs.setup(), policy, &mut Nobody).unwrap().measures;
        let expected = [measures.kwh, measures.node_hours, measures.cost.unwrap()][figure];
        assert!((sum + expected).abs() < 1e-3 && expected > 0.01, "{reward}: {sum}, not {expected}");
        // Time before the first decision belongs to no step.
        assert!((hours - 2000.0 / 3600.0).abs() < 1e-4, "{hours}");
    }
}

#[test]
fn equal_seeds_give_equal_episodes_whatever_happened_before() {
    let settings = ClusterSettings { shuffle: Shuffle::Decisions, ..ClusterSettings::default() };
    let mut environment = environment(some(), "balance", settings);
    let first = run(&mut environment, 7);
    let other = run(&mut environment, 8);
    assert_eq!(run(&mut environment, 7), first);
    assert_ne!(other.0, first.0, "rows are shuffled by seed");
}

#[test]
fn shuffled_rows_are_the_same_nodes_in_another_order() {
    let rows = |shuffle: Shuffle| {
        let mut environment = environment(some(), "balance", ClusterSettings { shuffle, ..ClusterSettings::default() });
        environment.reset(3).unwrap();
        let rows: Vec<Vec<f32>> = (0..5).map(|row| environment.observation().node(row).to_vec()).collect();
        (environment.rows().to_vec(), rows)
    };
    let (plain, shuffled) = (rows(Shuffle::Never), rows(Shuffle::Episodes));
    assert_ne!(plain.0, shuffled.0);
    for (row, node) in shuffled.0.iter().enumerate() {
        let at = plain.0.iter().position(|other| other == node).unwrap();
        assert_eq!(plain.1[at], shuffled.1[row]);
    }
}

#[test]
fn the_mask_is_what_the_rules_allow() {
    // The second pod fits the large nodes alone; the third has to wait until the first two are gone.
    let pods = [(3000, 100, 0, 500), (6000, 100, 10, 500), (1000, 100, 20, 0)];
    let mut environment = environment(
        inputs(workload(&pods), vec![pool("a", 2, 4, 16), pool("b", 2, 8, 32)], 100),
        "balance",
        Default::default(),
    );
    environment.reset(1).unwrap();
    assert_eq!(environment.observation().mask, [true; 4]);
    let error = environment.step(4).unwrap_err().to_string();
    assert!(error.contains("action 4 of 4 is masked"), "{error}");
    environment.step(0).unwrap();
    assert_eq!(environment.observation().mask, [false, false, true, true]);
    assert!(environment.step(0).is_err());
    environment.step(2).unwrap();
    assert_eq!(environment.observation().mask, [true; 4]);
    let last = environment.step(1).unwrap();
    assert!(last.terminated && !last.truncated, "no further pod comes");
    assert!(environment.step(1).unwrap_err().to_string().contains("reset it first"));
}

#[test]
fn the_pods_to_come_are_seen() {
    let pods = [(1000, 1024, 0, 0), (2000, 2048, 0, 0), (4000, 4096, 0, 0)];
    let mut inputs = inputs(workload(&pods), vec![pool("a", 3, 16, 64)], 10);
    inputs.settings = Settings { lookahead: 3, ..Settings::clone(&inputs.settings) }.into();
    let mut environment = environment(inputs, "balance", Default::default());
    environment.reset(1).unwrap();
    let pod = &environment.observation().pod;
    let names = Plain::new(3).pod_features();
    assert_eq!(
        names,
        ["cpu", "memory", "latency-soft", "latency-hard", "next-1-cpu", "next-1-memory", "next-2-cpu", "next-2-memory"]
    );
    assert_eq!(pod, &[1.0 / 16.0, 1.0 / 64.0, 0.0, 0.0, 2.0 / 16.0, 2.0 / 64.0, 4.0 / 16.0, 4.0 / 64.0]);
}

#[test]
fn a_reward_counts_the_way_between_clusters() {
    use plimsoll_sim::workload::LatencyConstraint;
    use plimsoll_sim::world::World;
    use plimsoll_sim::world::clusters::{Cluster, Federation, Link};
    use plimsoll_sim::world::latency::LatencyTable;
    use plimsoll_sim::world::steps::Steps;
    let mut pods = workload(&[(1000, 100, 0, 0), (1000, 100, 1, 0)]);
    pods.templates[0].latency = Some(LatencyConstraint { soft_ms: 20.0, hard_ms: 30.0 });
    let pools = ["home", "far"].map(|name| plimsoll_sim::fleet::Pool { cluster: name.into(), ..pool(name, 1, 8, 16) });
    let cluster = |name: &str, share| Cluster { name: name.into(), share, ..Cluster::default() };
    let link = Link { ms: Steps::constant(20.0), price: 0.0 };
    let all = Federation::new(vec![cluster("home", 1.0), cluster("far", 0.0)], vec![((0, 1), link)], 1);
    let latency = LatencyTable { elsewhere_ms: 5.0, ..LatencyTable::default() };
    let world = World { clusters: Some(all), latency: Some(Box::new(latency)), ..World::default() };
    let inputs = Inputs { world: world.into(), ..inputs(pods, pools.into(), 100) };
    // One of two nodes is empty, and one pod is on the other. At home users are 5 ms away, from afar 25 ms: pleasant, and bearable.
    for (node, latency) in [(0, 1.0), (1, 0.5)] {
        let mut environment = environment(inputs.clone(), "el-rl", ClusterSettings::default());
        environment.reset(1).unwrap();
        let reward = environment.step(node).unwrap().reward;
        assert!((reward - (0.5 + 1.0 / 50.0 + latency)).abs() < 1e-6, "node {node}: {reward}");
    }
}

#[test]
fn a_reward_ends_the_episode() {
    let mut environment = environment(some(), "ee", ClusterSettings::default());
    environment.reset(1).unwrap();
    assert_eq!(environment.step(0).unwrap(), Step { reward: 10.0, elapsed_hours: 20.0 / 3600.0, ..Step::default() });
    let step = environment.step(1).unwrap();
    assert_eq!((step.reward, step.terminated, step.truncated), (0.0, true, false));
    assert!(environment.step(0).is_err(), "an episode that ended has no further step");
}

#[test]
fn an_episode_is_cut_off_after_so_many_steps() {
    let mut environment = environment(some(), "energy", ClusterSettings { steps: Some(5), ..Default::default() });
    let steps = run(&mut environment, 1).1;
    assert_eq!((steps.len(), steps[4].truncated, steps[4].terminated), (5, true, false));
}

#[test]
fn an_episode_without_a_choice_is_refused() {
    let mut environment =
        environment(inputs(workload(&[(1000, 1, 0, 0)]), vec![pool("a", 1, 4, 16)], 9), "ee", Default::default());
    let error = environment.reset(4).unwrap_err().to_string();
    assert!(error.contains("seed 4 has no decision"), "{error}");
}

#[test]
fn a_scenario_makes_episodes() {
    let text = "[workload.generate]\nkind = 'poisson'\nhours = 1.0\n[[pool]]\nname = 'a'\ncount = 8\ncpu = 16\nmemory = '64Gi'\nidle_watts = 50\nfull_watts = 200\n";
    let scenario = Scenario::parse(text).unwrap();
    let fleet = scenario.fleet().unwrap();
    let trace = Arc::new(scenario.trace(&fleet).unwrap());
    let episodes = OfScenario { scenario, trace, windows: Vec::new() };
    let rewards = Rewards::new(&RewardSpec::Name("multi-objective".into())).unwrap();
    let mut environment = ClusterEnvironment::new(episodes, Plain::default(), rewards, Default::default()).unwrap();
    let (first, other) = (run(&mut environment, 1), run(&mut environment, 2));
    assert_ne!(first.0, other.0, "each seed has a workload of its own");
    assert!(first.1.iter().all(|step| (0.0..=1.0).contains(&step.reward)), "{:?}", first.1);
}
