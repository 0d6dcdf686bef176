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

/// The loss as it stands in the paper, for one visit.
fn loss(agent: &Ppo, visit: &Visit, scores: &[f32], value: f32) -> f64 {
    let PpoSettings { clip_ratio, entropy, value: weight, .. } = agent.settings;
    let total: f64 = scores.iter().map(|score| f64::from(*score).exp()).sum();
    let log = |node: usize| f64::from(scores[node]) - total.ln();
    let ratio = (log(visit.action) - f64::from(visit.likelihood)).exp();
    let advantage = f64::from(visit.advantage);
    let gain = (ratio * advantage).min(ratio.clamp(1.0 - clip_ratio, 1.0 + clip_ratio) * advantage);
    let undecided: f64 = -(0..scores.len()).map(|node| log(node) * log(node).exp()).sum::<f64>();
    let error = f64::from(value - visit.advantage - visit.value);
    -gain + weight * 0.5 * error * error - entropy * undecided
}

#[test]
fn slopes_are_those_of_the_loss_by_differences() {
    let agent = agent(PpoSettings { entropy: 0.3, ..settings(100) }, NetworkKind::Factored, Largest::boxed, 1);
    let scores = [0.3_f32, -0.8, 1.1];
    // Within the limits, and beyond them on either side.
    let visits = [(0, -1.3, 1.5), (0, -1.9, 1.5), (1, -2.4, -0.7), (2, -2.0, -0.7), (2, -2.0, 0.7)];
    for (action, likelihood, advantage) in visits {
        let (seen, value, reward) = (Arc::default(), 0.4, 0.0);
        let visit = Visit { seen, action, likelihood, value, reward, discount: 0.0, cut: None, advantage };
        let mut slopes = Slopes::default();
        let likelihoods = Likelihoods::new(&scores, &[true; 3]);
        agent.slopes(&visit, advantage, &likelihoods, 0.9, &mut slopes, &mut Losses::default());
        let step = 1e-3;
        for node in 0..3 {
            let moved = |by: f32| {
                let mut scores = scores;
                scores[node] += by;
                loss(&agent, &visit, &scores, 0.9)
            };
            let measured = (moved(step) - moved(-step)) / f64::from(2.0 * step);
            let found = f64::from(slopes.scores[node]);
            assert!((measured - found).abs() < 2e-3, "action {action}, node {node}: {measured} is not {found}");
        }
        let moved = |by: f32| loss(&agent, &visit, &scores, 0.9 + by);
        let measured = (moved(step) - moved(-step)) / f64::from(2.0 * step);
        assert!((measured - f64::from(slopes.values[0])).abs() < 2e-3);
    }
}
