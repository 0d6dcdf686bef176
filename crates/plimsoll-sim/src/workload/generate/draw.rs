//! The few distributions that the generators draw from.
//!
//! Logarithms and their kin come from `libm`: those of the system differ in their last bits from machine to machine.

use libm::{cos, exp, log, pow};
use plimsoll_core::rng::Rng;

/// Uniform between two bounds.
pub fn uniform(rng: &mut Rng, least: f64, most: f64) -> f64 {
    least + (most - least) * rng.unit()
}

/// Exponential with a mean.
pub fn exponential(rng: &mut Rng, mean: f64) -> f64 {
    // The logarithm of a number above 0, as 1 is not reached.
    -log(1.0 - rng.unit()) * mean
}

/// Standard normal, by the method of Box and Muller.
pub fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * log(1.0 - rng.unit())).sqrt();
    radius * cos(std::f64::consts::TAU * rng.unit())
}

/// Log-normal: `e` to a normal number of this spread, times the median.
pub fn log_normal(rng: &mut Rng, median: f64, sigma: f64) -> f64 {
    median * exp(sigma * normal(rng))
}

/// Pareto from a least value on: the smaller `alpha`, the heavier the tail.
pub fn pareto(rng: &mut Rng, least: f64, alpha: f64) -> f64 {
    least / pow(1.0 - rng.unit(), 1.0 / alpha)
}

/// Geometric from 1 on, with a mean of at least 1.
pub fn geometric(rng: &mut Rng, mean: f64) -> u32 {
    if mean <= 1.0 {
        return 1;
    }
    let failures = log(1.0 - rng.unit()) / log(1.0 - 1.0 / mean);
    1 + failures.floor().min(f64::from(u32::MAX - 1)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_of(draw: impl Fn(&mut Rng) -> f64) -> f64 {
        let mut rng = Rng::new(1);
        let count = 100_000;
        (0..count).map(|_| draw(&mut rng)).sum::<f64>() / f64::from(count)
    }

    #[test]
    fn distributions_have_their_means() {
        let near = |is: f64, should: f64| assert!((is / should - 1.0).abs() < 0.02, "{is} instead of {should}");
        near(mean_of(Rng::unit), 0.5);
        near(mean_of(|rng| uniform(rng, 10.0, 30.0)), 20.0);
        near(mean_of(|rng| exponential(rng, 7.0)), 7.0);
        near(mean_of(|rng| normal(rng).powi(2)), 1.0);
        near(mean_of(|rng| log_normal(rng, 5.0, 0.5)), 5.0 * (0.125f64).exp());
        near(mean_of(|rng| pareto(rng, 2.0, 3.0)), 3.0);
        near(mean_of(|rng| f64::from(geometric(rng, 4.9))), 4.9);
        assert_eq!(mean_of(|rng| f64::from(geometric(rng, 1.0))), 1.0);
    }
}
