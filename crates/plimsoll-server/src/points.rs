//! From a policy's scores, which may be any numbers, to points that a scheduler understands.

/// Points from zero to `most`. Only the best get the most, so that rounding never makes another as good as the best.
pub fn points(scores: &[Option<f64>], most: i64) -> Vec<Option<i64>> {
    let finite = || scores.iter().flatten().copied().filter(|score| score.is_finite());
    let (best, worst) = (finite().fold(f64::NEG_INFINITY, f64::max), finite().fold(f64::INFINITY, f64::min));
    let point = |score: f64| match score {
        score if score == best => most,
        score if !score.is_finite() => 0,
        // Halves keep the difference of very large numbers from being infinite.
        score => {
            let share = (score / 2.0 - worst / 2.0) / (best / 2.0 - worst / 2.0);
            ((share * most as f64).round() as i64).clamp(0, most - 1)
        }
    };
    scores.iter().map(|score| score.map(point)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_best_alone_get_the_most() {
        assert_eq!(points(&[Some(1.0), None, Some(3.0), Some(2.0)], 100), [Some(0), None, Some(100), Some(50)]);
        assert_eq!(points(&[Some(1e9), Some(1e9 - 1.0), Some(0.0)], 10), [Some(10), Some(9), Some(0)]);
        assert_eq!(points(&[Some(5.0), Some(5.0)], 10), [Some(10), Some(10)]);
        assert_eq!(points(&[Some(f64::NAN), Some(f64::NEG_INFINITY), Some(-1.0)], 10), [Some(0), Some(0), Some(10)]);
        assert_eq!(points(&[Some(f64::NAN)], 10), [Some(0)]);
        assert_eq!(points(&[Some(f64::MAX), Some(f64::MIN), Some(0.0)], 100), [Some(100), Some(0), Some(50)]);
    }

    proptest! {
        #[test]
        fn points_are_in_range_and_keep_the_order(scores in prop::collection::vec(-1e12..1e12_f64, 1..50)) {
            let given: Vec<_> = scores.iter().copied().map(Some).collect();
            let given = points(&given, 100);
            let best = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            for (a, x) in scores.iter().zip(&given) {
                let x = x.unwrap();
                prop_assert!((0..=100).contains(&x));
                prop_assert_eq!(x == 100, *a == best);
                for (b, y) in scores.iter().zip(&given) {
                    prop_assert!(a > b || x <= y.unwrap());
                }
            }
        }
    }
}
