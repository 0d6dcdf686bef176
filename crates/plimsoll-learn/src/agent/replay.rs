//! What was lived through, kept to learn from: a ring of transitions, drawn evenly or by how much they surprised.

use crate::observation::Observation;
use plimsoll_core::rng::Rng;
use std::sync::Arc;

/// A decision, what was done, and what came of it over one or more steps.
#[derive(Debug, Clone)]
pub struct Transition {
    /// What was seen.
    pub before: Arc<Observation>,
    /// What was done.
    pub action: usize,
    /// What it brought, discounted.
    pub reward: f32,
    /// What is seen afterwards; none if the episode ended.
    pub after: Option<Arc<Observation>>,
    /// How much of what follows counts now.
    pub discount: f32,
}

/// A ring: the newest replaces the oldest. Drawn evenly, or by priority.
#[derive(Debug)]
pub struct Replay {
    capacity: usize,
    next: usize,
    transitions: Vec<Transition>,
    /// Present when transitions are drawn by priority.
    priorities: Option<Priorities>,
}

#[derive(Debug)]
struct Priorities {
    tree: SumTree,
    exponent: f64,
    /// New transitions get the highest priority seen, so that each is looked at once.
    highest: f64,
}

/// Added to every priority so that nothing is never drawn again.
const LEAST_PRIORITY: f64 = 1e-3;

/// What was drawn: places in the ring and the weights that undo the unevenness.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Draw {
    /// Places in the ring.
    pub places: Vec<usize>,
    /// A weight for each, 1 at most.
    pub weights: Vec<f32>,
}

impl Replay {
    /// An empty ring; with an exponent, drawn by priority to its power.
    pub fn new(capacity: usize, exponent: Option<f64>) -> Self {
        let capacity = capacity.max(1);
        let priorities = |exponent| Priorities { tree: SumTree::new(capacity), exponent, highest: 1.0 };
        Self { capacity, next: 0, transitions: Vec::new(), priorities: exponent.map(priorities) }
    }

    /// How many transitions it holds.
    pub fn len(&self) -> usize {
        self.transitions.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.transitions.is_empty()
    }

    /// The transition at a place.
    pub fn get(&self, place: usize) -> &Transition {
        &self.transitions[place]
    }

    /// Keeps a transition.
    pub fn push(&mut self, transition: Transition) {
        if self.transitions.len() < self.capacity {
            self.transitions.push(transition);
        } else {
            self.transitions[self.next] = transition;
        }
        if let Some(priorities) = &mut self.priorities {
            priorities.tree.set(self.next, libm::pow(priorities.highest, priorities.exponent));
        }
        self.next = (self.next + 1) % self.capacity;
    }

    /// Draws some of what is held, with weights to the power `beta`.
    pub fn draw(&self, count: usize, beta: f64, rng: &mut Rng) -> Draw {
        let Some(Priorities { tree, .. }) = &self.priorities else {
            let places = (0..count).map(|_| rng.below(self.transitions.len())).collect();
            return Draw { places, weights: vec![1.0; count] };
        };
        // One from each of `count` equal slices of the sum: spread out, and still by priority.
        let slice = tree.total() / count as f64;
        let places: Vec<usize> = (0..count)
            .map(|index| tree.find((index as f64 + rng.unit()) * slice).min(self.transitions.len() - 1))
            .collect();
        let weight = |place: &usize| {
            let share = tree.get(*place) / tree.total();
            libm::pow(share * self.transitions.len() as f64, -beta)
        };
        let weights: Vec<f64> = places.iter().map(weight).collect();
        let highest = weights.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        Draw { weights: weights.iter().map(|weight| (weight / highest) as f32).collect(), places }
    }

    /// Remembers how far off the predictions of what was drawn were.
    pub fn surprise(&mut self, places: &[usize], errors: &[f32]) {
        let Some(priorities) = &mut self.priorities else { return };
        for (place, error) in places.iter().zip(errors) {
            let priority = f64::from(error.abs()) + LEAST_PRIORITY;
            priorities.highest = priorities.highest.max(priority);
            priorities.tree.set(*place, libm::pow(priority, priorities.exponent));
        }
    }
}

/// Sums of priorities in a binary tree: setting one and finding one by a point on the line of all take a few steps.
#[derive(Debug)]
struct SumTree {
    leaves: usize,
    sums: Vec<f64>,
}

impl SumTree {
    fn new(capacity: usize) -> Self {
        let leaves = capacity.next_power_of_two();
        Self { leaves, sums: vec![0.0; 2 * leaves] }
    }

    fn total(&self) -> f64 {
        self.sums[1]
    }

    fn get(&self, place: usize) -> f64 {
        self.sums[self.leaves + place]
    }

    fn set(&mut self, place: usize, value: f64) {
        let mut at = self.leaves + place;
        self.sums[at] = value;
        while at > 1 {
            at /= 2;
            // Added up anew rather than by difference, so that rounding does not pile up.
            self.sums[at] = self.sums[2 * at] + self.sums[2 * at + 1];
        }
    }

    fn find(&self, mut point: f64) -> usize {
        let mut at = 1;
        while at < self.leaves {
            at *= 2;
            if point >= self.sums[at] && self.sums[at + 1] > 0.0 {
                point -= self.sums[at];
                at += 1;
            }
        }
        at - self.leaves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transition(action: usize) -> Transition {
        Transition { before: Arc::default(), action, reward: 0.0, after: None, discount: 0.0 }
    }

    fn counts(replay: &Replay, draws: usize) -> Vec<usize> {
        let mut rng = Rng::new(5);
        let mut counts = vec![0; replay.len()];
        for _ in 0..draws {
            replay.draw(8, 0.5, &mut rng).places.into_iter().for_each(|place| counts[place] += 1);
        }
        counts
    }

    #[test]
    fn the_newest_replaces_the_oldest() {
        let mut replay = Replay::new(3, None);
        (0..5).for_each(|action| replay.push(transition(action)));
        let held: Vec<usize> = (0..replay.len()).map(|place| replay.get(place).action).collect();
        assert_eq!(held, [3, 4, 2]);
        assert!(counts(&replay, 300).iter().all(|count| (700..900).contains(count)));
    }

    #[test]
    fn what_surprised_is_drawn_more_often_and_weighs_less() {
        let mut replay = Replay::new(6, Some(1.0));
        (0..5).for_each(|action| replay.push(transition(action)));
        replay.surprise(&[0, 1, 2, 3, 4], &[3.0, 0.0, 1.0, -1.0, 0.0]);
        let counts = counts(&replay, 500);
        assert!((2_300..2_500).contains(&counts[0]), "{counts:?}");
        assert!((700..900).contains(&counts[2]) && (700..900).contains(&counts[3]), "{counts:?}");
        assert!(counts[1] < 20, "{counts:?}");
        let draw = replay.draw(64, 1.0, &mut Rng::new(1));
        for (place, weight) in draw.places.iter().zip(&draw.weights) {
            assert!(*place != 0 || *weight < 0.4, "the likeliest weighs {weight}");
        }
    }

    #[test]
    fn a_point_on_the_line_finds_its_leaf() {
        let mut tree = SumTree::new(5);
        for (place, value) in [1.0, 2.0, 0.0, 3.0, 4.0].into_iter().enumerate() {
            tree.set(place, value);
        }
        assert_eq!(tree.total(), 10.0);
        for (point, place) in
            [(0.0, 0), (0.9, 0), (1.0, 1), (2.9, 1), (3.0, 3), (5.9, 3), (6.0, 4), (9.9, 4), (10.0, 4)]
        {
            assert_eq!(tree.find(point), place, "point {point}");
        }
    }
}
