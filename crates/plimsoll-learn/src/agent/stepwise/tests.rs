use super::*;
use crate::workshop;
use plimsoll_sim::compare::{Case, PreparedCase};
use plimsoll_sim::simulation::Nobody;

const SCENARIO: &str = r#"
name = "small"
[workload.generate]
kind = "poisson"
hours = 2
pods_per_hour = 40
[[pool]]
name = "n"
count = 5
cpu = 16
memory = "64Gi"
idle_watts = 50
full_watts = 150
zones = ["a", "b"]
[learn]
AGENT
[learn.train]
samples = [1, 2]
steps = 128
"#;

fn scenario(agent: &str) -> (Scenario, LearnSpec) {
    read(&SCENARIO.replace("AGENT", agent))
}

fn read(text: &str) -> (Scenario, LearnSpec) {
    let scenario = Scenario::parse(text).unwrap();
    let spec = LearnSpec::read(&scenario).unwrap();
    (scenario, spec)
}

/// Trains, and gives the model with the energy that it takes on pods it has not seen.
fn train(agent: &str) -> (Card, Weights, f64) {
    let (scenario, spec) = scenario(agent);
    train_on(&scenario, &spec)
}

fn train_on(scenario: &Scenario, spec: &LearnSpec) -> (Card, Weights, f64) {
    let mut learner = workshop::learner(scenario, spec).unwrap();
    while learner.agent().iterate().unwrap().progress < 1.0 {}
    let (card, weights) = (learner.card(), learner.agent().weights());
    let kwh = run(scenario, workshop::policy(&card, &weights).unwrap());
    (card, weights, kwh)
}

fn run(scenario: &Scenario, policy: Box<dyn plimsoll_core::policy::Policy>) -> f64 {
    let trace = scenario.trace(&scenario.fleet().unwrap()).unwrap();
    let case = PreparedCase::new(scenario, &trace, Case { window: None, seed: 1001 }).unwrap();
    case.run("model", policy, &mut Nobody).unwrap().row.measures.kwh
}

#[test]
#[cfg(feature = "burn")]
fn every_agent_trains_every_network_and_the_models_decide() {
    let agents = [
        "{ name = 'dqn', learning_starts = 32, batch = 16 }",
        "{ name = 'ppo', length = 32, batch = 32 }",
        "{ name = 'imitation', steps_each = 64, batch = 16, expert = 'worst-fit' }",
    ];
    for kind in crate::network::NetworkKind::ALL {
        for agent in agents {
            for observation in ["", "observation = 'plain'"] {
                let text = format!("agent = {agent}\nnetwork = '{kind}'\n{observation}");
                let (card, weights, kwh) = train(&text);
                assert!(kwh > 0.0 && card.alone, "{text}");
                assert_eq!(card.network.kind, kind.name());
                let features = card.node_features.len() + card.pod_features.len();
                assert_eq!(card.ranges.len(), features, "{text}");
                assert!(card.ranges.iter().all(|(least, most)| least <= most), "{text}: {:?}", card.ranges);
                assert_eq!(weights.keys().any(|name| Predictor::owns(name)), observation.is_empty());
            }
        }
    }
}

#[test]
#[cfg(feature = "burn")]
fn equal_seeds_give_equal_models_and_other_seeds_others() {
    let text = "agent = { name = 'dqn', learning_starts = 32, batch = 16 }\nnetwork = 'deepsets'";
    let (first, again) = (train(text), train(text));
    assert_eq!(first, again);
    assert_ne!(first.1, train(&format!("{text}\nseed = 2")).1);
}

#[test]
#[cfg(feature = "burn")]
fn an_imitation_does_as_its_expert_does() {
    let agent = "{ name = 'imitation', expert = 'EXPERT', steps_each = 64, batch = 64, updates_each = 64, learning_rate = 1e-2 }";
    let large = SCENARIO.replace("count = 5", "count = 20").replace("steps = 128", "steps = 512");
    let energy = |expert: &str| {
        let agent = format!("agent = {}\nbase = 'random'", agent.replace("EXPERT", expert));
        let (scenario, spec) = read(&large.replace("AGENT", &agent));
        train_on(&scenario, &spec).2
    };
    let (scenario, _) = read(&large.replace("AGENT", ""));
    let own = |name: &str| run(&scenario, plimsoll_core::policy::by_name(name).unwrap());
    let (full, spread) = (own("best-fit"), own("worst-fit"));
    assert!(full < spread * 0.9, "{full} and {spread} do not tell the two apart");
    let (taught_full, taught_spread) = (energy("best-fit"), energy("worst-fit"));
    assert!((taught_full - full).abs() < (spread - full) * 0.3, "{taught_full} is not near {full}, but {spread}");
    assert!((taught_spread - spread).abs() < (spread - full) * 0.3, "{taught_spread} is not near {spread}, but {full}");
}

#[test]
#[cfg(feature = "burn")]
fn a_factored_network_decides_the_same_whether_or_not_its_towers_are_remembered() {
    use crate::network::{Network, NetworkSpec};
    use crate::policy::{Learned, Observing, Parts};
    use plimsoll_core::policy::Policy;
    let agent = "agent = { name = 'dqn', learning_starts = 32, batch = 16 }\nnetwork = { name = 'factored', tower = 6, hidden = 5 }";
    let (card, weights, kwh) = train(agent);
    assert_eq!(card.network.sizes["tower_inputs"], 7, "those that change with the node alone");
    let (scenario, _) = scenario(agent);
    let remembering = Learned::new(Parts::from_card(&card, &weights).unwrap());
    let spec = NetworkSpec::from_card(&card.network, card.node_features.len(), card.pod_features.len()).unwrap();
    let own =
        weights.iter().filter(|(name, _)| !Predictor::owns(name)).map(|(name, tensor)| (name.clone(), tensor.clone()));
    let network = Network::with_weights(&spec, own.collect()).unwrap();
    let observing = Observing::new(&card, &weights, network).unwrap();
    let counters = [remembering.counters().unwrap(), observing.counters().unwrap()];
    assert_eq!(run(&scenario, Box::new(remembering)), kwh);
    assert_eq!(run(&scenario, Box::new(observing)), kwh);
    for counters in counters {
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(std::sync::atomic::Ordering::Relaxed);
        assert!(count(&counters.outside) * 2 < count(&counters.decisions), "the network hardly decides: {counters:?}");
    }
}

#[test]
#[cfg(feature = "burn")]
fn pods_that_come_next_are_seen_in_training_and_asked_for_by_the_model() {
    let bursts =
        "[workload.generate]\nkind = 'bursty'\nhours = 2\nbatches_per_hour = 20\nbatch_spread_s = 0\noff_hours = 0";
    let usual = "[workload.generate]\nkind = \"poisson\"\nhours = 2\npods_per_hour = 40";
    assert!(SCENARIO.contains(usual));
    for (observation, feature, lookahead) in [
        ("{ lookahead = 3 }", "next-2-cpu", 3),
        ("{ nodes = ['cpu-free'], pods = ['cpu', 'upcoming', 'next-memory'] }", "upcoming", 64),
    ] {
        for network in ["deepsets", "factored"] {
            let learn = format!(
                "agent = {{ name = 'dqn', learning_starts = 32, batch = 16 }}\nnetwork = '{network}'\nobservation = {observation}"
            );
            let (scenario, spec) = read(&SCENARIO.replace(usual, bursts).replace("AGENT", &learn));
            let (card, weights, _) = train_on(&scenario, &spec);
            let at = card.node_features.len() + card.pod_features.iter().position(|name| name == feature).unwrap();
            let (least, most) = card.ranges[at];
            assert!(least == 0.0 && most > 0.05, "{feature} was seen from {least} to {most}");
            assert_eq!(workshop::policy(&card, &weights).unwrap().lookahead(), lookahead, "{learn}");
        }
    }
}

#[test]
fn a_table_is_trained_and_read_again() {
    let text =
        "agent = { name = 'qtable', table = { bins = 3, node_features = ['cpu-free'], pod_features = ['cpu'] } }";
    let (card, weights, kwh) = train(text);
    assert!(kwh > 0.0);
    let table =
        crate::agent::qtable::QTable::from_weights(3, &card.node_features, &card.pod_features, &weights).unwrap();
    assert!(!table.is_empty());
    assert_eq!(table.to_weights(), weights);
    let mut short = weights.clone();
    short.remove("known");
    let error = workshop::policy(&card, &short).err().unwrap().to_string();
    assert!(error.contains("\"known\" is missing"), "{error}");
}

#[test]
#[cfg(feature = "burn")]
fn training_goes_on_from_a_state() {
    let (scenario, spec) = scenario("agent = { name = 'ppo', length = 16, batch = 32 }");
    let mut first = workshop::learner(&scenario, &spec).unwrap();
    first.agent().iterate().unwrap();
    let state = first.agent().state();
    let mut second = workshop::learner(&scenario, &spec).unwrap();
    second.agent().restore(&state).unwrap();
    assert_eq!(second.agent().weights(), first.agent().weights());
    // What was seen before the restart still counts.
    for (ours, theirs) in second.card().ranges.iter().zip(&first.card().ranges) {
        assert!(ours.0 <= theirs.0 && ours.1 >= theirs.1);
    }
    assert_eq!(second.agent().iterate().unwrap().steps, 64);
}

#[test]
fn weights_of_constraints_are_told_and_outlive_a_restart() {
    // No latency model: hours of pods are counted all the same.
    let text = "agent = { name = 'qtable', report_every = 32 }\nreward = { energy = 1, node-hours = { at_most = 0.0, per = 'pod-hours', rate = 0.5, every_hours = 0.1 } }";
    let (scenario, spec) = scenario(text);
    let mut first = workshop::learner(&scenario, &spec).unwrap();
    let report = first.agent().iterate().unwrap();
    let [("node-hours", weight)] = report.weights[..] else { panic!("{report:?}") };
    assert!(weight > 0.0, "{report:?}");
    assert!(report.figures().any(|figure| figure == ("weight/node-hours".to_owned(), weight)), "{report:?}");
    let state = first.agent().state();
    assert_eq!(state.values["reward_weights"], serde_json::json!([{ "node-hours": weight }]));
    let mut second = workshop::learner(&scenario, &spec).unwrap();
    second.agent().restore(&state).unwrap();
    assert_eq!(second.agent().state().values["reward_weights"], state.values["reward_weights"]);
}

#[test]
#[cfg(feature = "burn")]
fn a_graph_network_takes_calls_by_their_name() {
    let shop = "[workload.generate]\nkind = 'shop'\nhours = 2\nrollouts_per_day = 40";
    let usual = "[workload.generate]\nkind = \"poisson\"\nhours = 2\npods_per_hour = 40";
    let learn = "agent = { name = 'dqn', learning_starts = 16, batch = 16 }\nnetwork = 'graph'\nobservation = { nodes = ['cpu-free', 'calls', 'pods'], pods = ['cpu'] }";
    let (scenario, spec) = read(&SCENARIO.replace(usual, shop).replace("AGENT", learn));
    let (card, weights, _) = train_on(&scenario, &spec);
    assert_eq!(card.node_features, ["cpu-free", "pods", "calls"]);
    assert_eq!(card.network.sizes["calls"], 3);
    assert!(weights.contains_key("round0.calls"));
    let (least, most) = card.ranges[2];
    assert!(least == 0.0 && most > 0.1, "calls were seen from {least} to {most}");
}

#[test]
fn what_is_wrong_is_said() {
    let problem = |text: &str| {
        let (scenario, spec) = scenario(text);
        workshop::learner(&scenario, &spec).err().map(|error| error.to_string()).unwrap_or_default()
    };
    #[cfg(feature = "burn")]
    for (text, said) in [
        ("agent = { name = 'dqn', lerning_rate = 1 }", "learn.agent: unknown field `lerning_rate`"),
        ("agent = { name = 'dqn', preset = 'best' }", "there are thesis"),
        ("agent = { name = 'imitation', expert = 'me' }", "policy \"me\" is not known"),
        ("agent = 'dqn'\nnetwork = { name = 'deepsets', hidden = 3 }", "size of a network \"hidden\" is not known"),
        ("agent = 'dqn'\nreward = 'joy'", "reward \"joy\" is not known"),
        ("agent = 'dqn'\nobjective = 'placed'", "learn.reward: no reward counts the objective \"placed\""),
    ] {
        let found = problem(text);
        assert!(found.contains(said), "{text}: {found}");
    }
    let found = problem("agent = 'qtable'\nenvironment = { wheels = 4 }");
    assert!(found.contains("learn.environment: unknown field `wheels`"), "{found}");
    let found = problem("agent = 'qtable'\nbase = 'expected-hours'");
    assert!(found.contains("\"expected-hours\" needs predicted lifetimes"), "{found}");
}
