//! Scores as likelihoods: forbidden nodes have none.

use plimsoll_core::rng::Rng;

/// How likely each node is, and the logarithms of that.
#[derive(Debug, Clone, PartialEq)]
pub struct Likelihoods {
    /// From 0 to 1; they add up to 1.
    pub shares: Vec<f32>,
    /// Their logarithms; 0 for forbidden nodes, whose share is 0.
    pub logs: Vec<f32>,
}

impl Likelihoods {
    /// The softmax over the allowed nodes.
    pub fn new(scores: &[f32], mask: &[bool]) -> Self {
        let allowed = || scores.iter().zip(mask).filter(|(_, allowed)| **allowed).map(|(score, _)| *score);
        let most = allowed().fold(f32::NEG_INFINITY, f32::max);
        let total: f32 = allowed().map(|score| libm::expf(score - most)).sum();
        let normaliser = most + libm::logf(total);
        let log = |(score, allowed): (&f32, &bool)| if *allowed { score - normaliser } else { 0.0 };
        let logs: Vec<f32> = scores.iter().zip(mask).map(log).collect();
        let share = |(log, allowed): (&f32, &bool)| if *allowed { libm::expf(*log) } else { 0.0 };
        Self { shares: logs.iter().zip(mask).map(share).collect(), logs }
    }

    /// Draws a node as often as it is likely.
    pub fn draw(&self, rng: &mut Rng) -> usize {
        let mut point = rng.unit() as f32;
        let mut last = 0;
        for (index, share) in self.shares.iter().enumerate().filter(|(_, share)| **share > 0.0) {
            if point < *share {
                return index;
            }
            point -= share;
            // Rounding may leave a little over: it goes to the last one that can be drawn.
            last = index;
        }
        last
    }

    /// How undecided it is.
    pub fn entropy(&self) -> f32 {
        -self.shares.iter().zip(&self.logs).map(|(share, log)| share * log).sum::<f32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_drawn_as_likely_as_their_scores_say() {
        let scores = [0.0, 50.0, f32::ln(2.0), f32::ln(5.0)];
        let likelihoods = Likelihoods::new(&scores, &[true, false, true, true]);
        for (share, expected) in likelihoods.shares.iter().zip([0.125, 0.0, 0.25, 0.625]) {
            assert!((share - expected).abs() < 1e-6, "{likelihoods:?}");
        }
        let expected = -[0.125_f32, 0.25, 0.625].map(|share| share * share.ln()).iter().sum::<f32>();
        assert!((likelihoods.entropy() - expected).abs() < 1e-6);
        let mut rng = Rng::new(3);
        let mut counts = [0; 4];
        (0..8_000).for_each(|_| counts[likelihoods.draw(&mut rng)] += 1);
        assert_eq!(counts[1], 0);
        assert!((900..1_100).contains(&counts[0]) && (1_850..2_150).contains(&counts[2]), "{counts:?}");
    }
}
