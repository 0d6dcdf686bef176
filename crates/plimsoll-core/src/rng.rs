//! Seeded random numbers: the same seed gives the same decisions on every machine.

/// A small, fast generator (SplitMix64).
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// A generator that always gives the same numbers for a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The seed that goes on from here.
    pub const fn state(&self) -> u64 {
        self.0
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 up to, but not including, 1.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number below `limit`; 0 if the limit is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        // The bias of scaling a 64-bit number down to a node count is far below anything measurable.
        ((u128::from(self.next_u64()) * limit as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_repeat_for_a_seed_and_stay_in_range() {
        let (mut a, mut b) = (Rng::new(7), Rng::new(7));
        for limit in 1..100 {
            let number = a.below(limit);
            assert!(number < limit);
            assert_eq!(number, b.below(limit));
        }
        assert_eq!(a.below(0), 0);
        assert!((0..100).map(|_| a.unit()).all(|unit| (0.0..1.0).contains(&unit)));
    }
}
