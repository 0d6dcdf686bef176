//! Who is ahead: the best of many scores, kept while single scores change.
//!
//! A tree over node indices, each inner place with the best score below it and how many share it. A change walks from a leaf to the
//! root, a choice from the root to a leaf: neither looks at every node.

use crate::policy::Chosen;
use crate::rng::Rng;
use crate::state::NodeId;

/// The best score in a part of the tree, and how many nodes have it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Best {
    score: f64,
    count: u32,
}

/// Nobody can be chosen here.
const NOBODY: Best = Best { score: f64::NEG_INFINITY, count: 0 };

impl Best {
    fn of(left: Self, right: Self) -> Self {
        if left.score > right.score {
            left
        } else if right.score > left.score {
            right
        } else {
            Self { score: left.score, count: left.count + right.count }
        }
    }
}

/// Scores by node index.
#[derive(Debug, Default)]
pub struct Standings {
    /// A heap-shaped tree: the root at 1, the leaves in its second half.
    tree: Vec<Best>,
}

impl Standings {
    /// Forgets all, and makes room.
    pub fn reset(&mut self, nodes: usize) {
        self.tree.clear();
        self.tree.resize(2 * nodes.next_power_of_two(), NOBODY);
    }

    fn leaves(&self) -> usize {
        self.tree.len() / 2
    }

    fn set_leaf(&mut self, node: NodeId, score: Option<f64>) -> usize {
        let place = self.leaves() + node.index();
        // What is no number is never chosen.
        let score = score.filter(|score| *score > f64::NEG_INFINITY);
        self.tree[place] = score.map_or(NOBODY, |score| Best { score, count: 1 });
        place
    }

    /// Replaces the score of one node; none if it cannot be chosen.
    pub fn set(&mut self, node: NodeId, score: Option<f64>) {
        let mut place = self.set_leaf(node, score);
        while place > 1 {
            place /= 2;
            let best = Best::of(self.tree[2 * place], self.tree[2 * place + 1]);
            if self.tree[place] == best {
                break;
            }
            self.tree[place] = best;
        }
    }

    /// Sets many scores at once, all others being unset.
    pub fn fill(&mut self, scores: impl Iterator<Item = (NodeId, f64)>) {
        for (node, score) in scores {
            self.set_leaf(node, Some(score));
        }
        for place in (1..self.leaves()).rev() {
            self.tree[place] = Best::of(self.tree[2 * place], self.tree[2 * place + 1]);
        }
    }

    /// The node with the best score, equals by lot, exactly as [`crate::policy::choose`] draws it from a list.
    pub fn choose(&self, rng: &mut Rng) -> Option<Chosen<NodeId>> {
        let root = *self.tree.get(1)?;
        if root.count == 0 {
            return None;
        }
        let mut lot = if root.count > 1 { rng.below(root.count as usize) } else { 0 };
        let mut place = 1;
        while place < self.leaves() {
            let left = self.tree[2 * place];
            let ahead = if left.score == root.score { left.count as usize } else { 0 };
            place = 2 * place + usize::from(lot >= ahead);
            if lot >= ahead {
                lot -= ahead;
            }
        }
        Some(Chosen { of: NodeId::new(u32::try_from(place - self.leaves()).ok()?), ties: root.count as usize })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::choose;

    #[test]
    fn the_choice_is_that_of_a_look_at_every_score() {
        let mut numbers = Rng::new(3);
        for nodes in [1, 2, 3, 7, 64, 100] {
            let mut standings = Standings::default();
            standings.reset(nodes);
            let mut scores: Vec<Option<f64>> = vec![None; nodes];
            for step in 0..300 {
                let at = numbers.below(nodes);
                let score = (numbers.below(4) > 0).then(|| numbers.below(3) as f64);
                standings.set(NodeId::new(at as u32), score);
                scores[at] = score;
                let listed: Vec<_> = (0..nodes).filter_map(|at| Some((at, scores[at]?))).collect();
                let plain: Vec<_> = listed.iter().map(|(_, score)| *score).collect();
                let expected = choose(&plain, &mut Rng::new(step)).map(|chosen| (listed[chosen.of].0, chosen.ties));
                assert_eq!(
                    standings.choose(&mut Rng::new(step)).map(|chosen| (chosen.of.index(), chosen.ties)),
                    expected,
                    "{scores:?}"
                );
            }
        }
    }

    #[test]
    fn filling_equals_setting_one_by_one() {
        let (mut filled, mut set) = (Standings::default(), Standings::default());
        let scores: Vec<_> = (0..50).step_by(3).map(|at| (NodeId::new(at), f64::from(at % 7))).collect();
        filled.reset(50);
        filled.fill(scores.iter().copied());
        set.reset(50);
        for &(node, score) in &scores {
            set.set(node, Some(score));
        }
        assert_eq!(filled.tree, set.tree);
    }

    #[test]
    fn what_is_no_number_is_never_chosen() {
        let mut standings = Standings::default();
        standings.reset(2);
        standings.set(NodeId::new(0), Some(f64::NAN));
        assert_eq!(standings.choose(&mut Rng::new(1)), None);
        standings.set(NodeId::new(1), Some(-5.0));
        assert_eq!(standings.choose(&mut Rng::new(1)).map(|chosen| chosen.of), Some(NodeId::new(1)));
    }
}
