use super::*;
use crate::agent::toys::{Largest, NODE_WIDTH, POD_WIDTH, Patience, share_right, train};
use crate::network::NetworkKind;

fn spec(kind: NetworkKind) -> NetworkSpec {
    let mut spec = NetworkSpec::new(kind, NODE_WIDTH, POD_WIDTH);
    if kind == NetworkKind::Deepsets {
        // The thesis' sizes are more than a toy needs.
        spec.sizes = [("first".to_owned(), 24), ("second".to_owned(), 16)].into();
    }
    spec
}

fn settings(steps: u64) -> DqnSettings {
    DqnSettings {
        steps,
        learning_starts: 200,
        train_every: 4,
        batch: 64,
        learning_rate: 3e-3,
        epsilon: Schedule::Linear { start: 1.0, end: 0.1, fraction: 0.5 },
        target_every: 25,
        ..DqnSettings::default()
    }
}

fn environments(make: fn() -> Box<dyn Environment>) -> Vec<Box<dyn Environment>> {
    (0..4).map(|_| make()).collect()
}

#[test]
fn the_largest_node_is_found_by_every_variant() {
    let plain = DqnSettings { gamma: 0.0, ..settings(3_000) };
    let variants = [
        ("factored", NetworkKind::Factored, plain.clone()),
        (
            "thesis network, not double",
            NetworkKind::Deepsets,
            DqnSettings { double: false, huber: false, ..plain.clone() },
        ),
        ("dueling", NetworkKind::Factored, DqnSettings { dueling: true, ..plain.clone() }),
        ("by priority", NetworkKind::Factored, DqnSettings { priority: Some(0.6), ..plain.clone() }),
    ];
    for (name, kind, settings) in variants {
        let mut agent = Dqn::new(settings, &spec(kind), environments(Largest::boxed), 7).unwrap();
        let report = train(&mut agent);
        let share = share_right(&spec(kind), agent.weights(), Largest::boxed(), &Largest::right);
        assert!(share > 0.95, "{name}: {share} right, {report:?}");
        assert!(report.mean_return.unwrap() > 6.0 && report.steps == 3_000, "{name}: {report:?}");
    }
}

#[test]
fn a_reward_that_comes_later_reaches_the_choice_that_earned_it() {
    for (name, n_step, discount_by) in
        [("one step", 1, DiscountBy::Step), ("two steps, by the hour", 2, DiscountBy::Hour)]
    {
        let settings = DqnSettings { n_step, discount_by, gamma: 0.95, ..settings(8_000) };
        let mut agent = Dqn::new(settings, &spec(NetworkKind::Factored), environments(Patience::boxed), 3).unwrap();
        train(&mut agent);
        let share = share_right(&spec(NetworkKind::Factored), agent.weights(), Patience::boxed(), &Patience::right);
        assert!(share > 0.9, "{name}: {share} right");
    }
}

#[test]
fn equal_seeds_give_equal_weights() {
    for kind in [NetworkKind::Factored, NetworkKind::Deepsets] {
        let run = |seed| {
            let settings = DqnSettings { priority: Some(0.6), n_step: 3, ..settings(600) };
            let mut agent = Dqn::new(settings, &spec(kind), environments(Largest::boxed), seed).unwrap();
            train(&mut agent);
            agent.weights()
        };
        assert_eq!(run(5), run(5), "{kind}");
        assert_ne!(run(5), run(6), "{kind}");
    }
}

#[test]
fn training_goes_on_from_a_state() {
    let make = || Dqn::new(settings(1_200), &spec(NetworkKind::Factored), environments(Largest::boxed), 9).unwrap();
    let mut first = make();
    (0..6).for_each(|_| drop(first.iterate().unwrap()));
    let state = first.state();
    let finish = || {
        let mut agent = make();
        agent.restore(&state).unwrap();
        assert_eq!(agent.state(), state);
        let report = train(&mut agent);
        assert_eq!(report.steps, 1_200);
        agent.weights()
    };
    let weights = finish();
    assert_eq!(weights, finish());
    assert_ne!(weights, first.weights(), "nothing was learned after the restart");
    let mut other = Dqn::new(settings(9), &spec(NetworkKind::Graph), environments(Largest::boxed), 9).unwrap();
    assert!(other.restore(&state).unwrap_err().to_string().contains("of another network"));
}

#[test]
fn what_begins_with_a_model_explores_as_at_the_end() {
    let epsilon = |agent: &mut Dqn| {
        let report = agent.iterate().unwrap();
        report.scalars.iter().find(|(name, _)| *name == "epsilon").unwrap().1
    };
    let make = |explore_again| {
        let settings = DqnSettings { explore_again, ..settings(1_200) };
        Dqn::new(settings, &spec(NetworkKind::Factored), environments(Largest::boxed), 9).unwrap()
    };
    let mut fresh = make(false);
    assert!(epsilon(&mut fresh) > 0.8);
    for (explore_again, expected) in [(false, 0.1), (true, epsilon(&mut make(false)))] {
        let mut agent = make(explore_again);
        agent.begin_with(&fresh.weights()).unwrap();
        assert_eq!(epsilon(&mut agent), expected, "{explore_again}");
        // So it does after a restart.
        let mut again = make(explore_again);
        again.restore(&agent.state()).unwrap();
        assert_eq!(epsilon(&mut again), epsilon(&mut agent), "{explore_again}");
    }
}

#[test]
fn settings_are_read_by_their_names() {
    let settings = DqnSettings::thesis();
    assert_eq!((settings.steps, settings.learning_starts, settings.learning_rate), (2_000, 300, 2.5e-3));
    assert!(toml::from_str::<DqnSettings>("learning_rat = 1").is_err());
}
