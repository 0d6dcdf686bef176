use super::*;
use crate::agent::toys::{Largest, NODE_WIDTH, POD_WIDTH, Patience, share_right, train};
use crate::network::NetworkKind;

fn spec(kind: NetworkKind) -> NetworkSpec {
    NetworkSpec::new(kind, NODE_WIDTH, POD_WIDTH)
}

fn agent(settings: PpoSettings, kind: NetworkKind, make: fn() -> Box<dyn Environment>, seed: u64) -> Ppo {
    Ppo::new(settings, &spec(kind), (0..16).map(|_| make()).collect(), seed).unwrap()
}

fn settings(steps: u64) -> PpoSettings {
    PpoSettings { steps, length: 32, batch: 128, learning_rate: 1e-2, ..PpoSettings::default() }
}

#[test]
fn the_largest_node_is_found() {
    let mut agent = agent(settings(25_000), NetworkKind::Factored, Largest::boxed, 2);
    let report = train(&mut agent);
    let share = share_right(&spec(NetworkKind::Factored), agent.weights(), Largest::boxed(), &Largest::right);
    assert!(share > 0.95, "{share} right, {report:?}");
    assert!(report.mean_return.unwrap() > 8.0, "{report:?}");
}

#[test]
fn a_reward_that_comes_later_reaches_the_choice_that_earned_it() {
    let settings = PpoSettings { discount_by: DiscountBy::Hour, gamma: 0.95, ..settings(25_000) };
    let mut agent = agent(settings, NetworkKind::Factored, Patience::boxed, 2);
    let report = train(&mut agent);
    let share = share_right(&spec(NetworkKind::Factored), agent.weights(), Patience::boxed(), &Patience::right);
    assert!(share > 0.85, "{share} right, {report:?}");
}

#[test]
fn equal_seeds_give_equal_weights_and_a_state_goes_on() {
    let run = |seed| {
        let mut agent = agent(settings(1_024), NetworkKind::Deepsets, Largest::boxed, seed);
        train(&mut agent);
        agent
    };
    let (a, b) = (run(1), run(1));
    assert_eq!(a.weights(), b.weights());
    assert_ne!(a.weights(), run(2).weights());
    let mut again = agent(settings(2_048), NetworkKind::Deepsets, Largest::boxed, 1);
    again.restore(&a.state()).unwrap();
    assert_eq!(again.state(), a.state());
    assert_eq!(train(&mut again).steps, 2_048);
}

#[test]
fn advantages_are_those_of_a_walk_by_hand() {
    let settings = PpoSettings { gamma: 0.5, lambda: 0.5, ..settings(100) };
    let agent = agent(settings, NetworkKind::Factored, Largest::boxed, 1);
    let visit = |reward, value, discount, cut| Visit {
        seen: Arc::default(),
        action: 0,
        likelihood: 0.0,
        value,
        reward,
        discount,
        cut,
        advantage: 0.0,
    };
    // An episode that ends, one that is cut off where it is worth 4, and one that goes on.
    let walk = vec![
        visit(1.0, 1.0, 0.5, None),
        visit(2.0, 2.0, 0.0, None),
        visit(1.0, 0.0, 0.5, Some(4.0)),
        visit(1.0, 2.0, 0.5, None),
    ];
    let mut walks: Vec<Vec<Visit>> = vec![walk];
    walks.resize_with(16, Vec::new);
    agent.advantages(&mut walks).unwrap();
    let found: Vec<f32> = walks[0].iter().map(|visit| visit.advantage).collect();
    // Backwards: the ending brings 2 - 2 = 0; before it, 1 + 0.5 × 2 - 1 = 1; the cut, 1 + 0.5 × 4 - 0 = 3.
    assert_eq!(found[..3], [1.0, 0.0, 3.0]);
    let due = agent.rollout.observations();
    let batch = Batch::new(agent.network.spec(), [&*due[0]]).unwrap();
    let end = agent.network.scores_and_values(&batch).unwrap().1[0];
    assert!((found[3] - (1.0 + 0.5 * end - 2.0)).abs() < 1e-5);
}

#[test]
fn choices_are_drawn_as_likely_as_their_scores_say() {
    let scores = [0.0, network::INVALID, 2.0_f32.ln(), f32::ln(5.0)];
    let mut rng = Rng::new(3);
    let mut counts = [0; 4];
    for _ in 0..8_000 {
        let (choice, likelihood) = sample(&scores, &[true, false, true, true], &mut rng);
        counts[choice] += 1;
        assert!((likelihood - (scores[choice] - f32::ln(8.0))).abs() < 1e-5);
    }
    assert_eq!(counts[1], 0);
    assert!((900..1_100).contains(&counts[0]) && (1_850..2_150).contains(&counts[2]), "{counts:?}");
}
