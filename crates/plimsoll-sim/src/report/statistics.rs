//! How sure a difference is: two policies met the same cases, so each case gives one difference.
//!
//! With five pairs or more the interval is a percentile bootstrap over pairs, from a fixed seed, so a report is the same each time. With
//! fewer, resampling would pretend to know the spread: Student's t is used instead, which is wide, and with one pair there is no interval.

/// How often pairs are drawn anew: the ends of a 95 % interval are then known to about a fiftieth of its width.
const RESAMPLES: usize = 4000;
/// The fewest pairs for which resampling is meaningful.
const LEAST_FOR_BOOTSTRAP: usize = 5;
/// Student's t at 97.5 % for one to three degrees of freedom.
const STUDENT: [f64; 3] = [12.706_204_736, 4.302_652_730, 3.182_446_305];

/// What a paired comparison found; differences are policy minus baseline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Paired {
    /// How many pairs.
    pub pairs: usize,
    /// The mean difference.
    pub mean: f64,
    /// The 95 % interval of the mean difference; none with a single pair.
    pub interval: Option<(f64, f64)>,
    /// The mean difference as a share of the baseline's mean; none where that is zero.
    pub relative: Option<f64>,
    /// The 95 % interval of that share, in which the baseline's mean is as unsure as the difference; none with a single pair.
    pub relative_interval: Option<(f64, f64)>,
    /// Pairs in which the policy had less than the baseline.
    pub less: usize,
    /// Pairs in which it had more.
    pub more: usize,
}

/// Compares pairs of baseline and policy; none without pairs, or if one of the values is not a number.
pub fn paired(pairs: &[(f64, f64)], seed: u64) -> Option<Paired> {
    if pairs.is_empty() || pairs.iter().any(|(a, b)| !a.is_finite() || !b.is_finite()) {
        return None;
    }
    let differences: Vec<f64> = pairs.iter().map(|(baseline, policy)| policy - baseline).collect();
    let mean = mean(&differences);
    let baseline = pairs.iter().map(|(baseline, _)| baseline).sum::<f64>() / pairs.len() as f64;
    let relative = (baseline != 0.0).then(|| mean / baseline.abs());
    let (interval, relative_interval) = if differences.len() >= LEAST_FOR_BOOTSTRAP {
        let (interval, relative) = bootstrap(pairs, seed);
        (Some(interval), relative)
    } else {
        // Seen from its own mean, the share is a mean of differences to what that share of each baseline would be.
        let share = relative.and_then(|share| {
            let share = share * baseline.signum();
            let rest: Vec<f64> = pairs.iter().map(|(baseline, policy)| policy - baseline - share * baseline).collect();
            let (low, high) = student(&rest, 0.0)?;
            let relative = share * baseline.signum();
            Some((relative + low / baseline.abs(), relative + high / baseline.abs()))
        });
        (student(&differences, mean), share)
    };
    Some(Paired {
        pairs: pairs.len(),
        mean,
        interval,
        relative,
        relative_interval,
        less: differences.iter().filter(|difference| **difference < 0.0).count(),
        more: differences.iter().filter(|difference| **difference > 0.0).count(),
    })
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn student(differences: &[f64], mean: f64) -> Option<(f64, f64)> {
    let freedom = differences.len().checked_sub(1)?;
    let t = STUDENT.get(freedom.checked_sub(1)?)?;
    let squares: f64 = differences.iter().map(|difference| (difference - mean).powi(2)).sum();
    let half = t * (squares / freedom as f64 / differences.len() as f64).sqrt();
    Some((mean - half, mean + half))
}

/// The intervals of the mean difference, and of it as a share of the baseline where no resample's is zero.
fn bootstrap(pairs: &[(f64, f64)], seed: u64) -> ((f64, f64), Option<(f64, f64)>) {
    let mut state = seed;
    let count = pairs.len();
    let (mut means, mut shares) = (Vec::with_capacity(RESAMPLES), Vec::with_capacity(RESAMPLES));
    for _ in 0..RESAMPLES {
        let (mut difference, mut baselines) = (0.0, 0.0);
        for _ in 0..count {
            let (baseline, policy) = pairs[(split_mix(&mut state) % count as u64) as usize];
            difference += policy - baseline;
            baselines += baseline;
        }
        means.push(difference / count as f64);
        shares.push(difference / f64::abs(baselines));
    }
    let ends = |values: &mut Vec<f64>| {
        values.sort_unstable_by(f64::total_cmp);
        (quantile(values, 0.025), quantile(values, 0.975))
    };
    let shares = shares.iter().all(|share| share.is_finite()).then(|| ends(&mut shares));
    (ends(&mut means), shares)
}

/// A quantile of sorted values, straight between neighbours.
fn quantile(sorted: &[f64], at: f64) -> f64 {
    let place = at * (sorted.len() - 1) as f64;
    let below = place as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

/// The generator SplitMix64: enough to draw indices, and the same everywhere.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_counted_and_averaged() {
        let found =
            paired(&[(10.0, 9.0), (10.0, 8.0), (10.0, 10.0), (10.0, 11.0), (10.0, 7.0), (10.0, 9.0)], 1).unwrap();
        assert_eq!((found.pairs, found.less, found.more), (6, 4, 1));
        assert!((found.mean + 1.0).abs() < 1e-12);
        assert!((found.relative.unwrap() + 0.1).abs() < 1e-12);
    }

    #[test]
    fn two_to_four_pairs_have_students_interval() {
        // Differences 1, 2, 3: mean 2, standard deviation 1, so 2 ± 4.302653 / √3.
        let (low, high) = paired(&[(0.0, 1.0), (0.0, 2.0), (0.0, 3.0)], 1).unwrap().interval.unwrap();
        assert!((low - (2.0 - 2.484_138)).abs() < 1e-5 && (high - (2.0 + 2.484_138)).abs() < 1e-5, "{low} {high}");
    }

    #[test]
    fn a_share_of_the_baseline_is_surer_than_its_parts_where_it_is_the_same_in_every_pair() {
        let pairs = |cases: u32| (1..=cases).map(|case| (f64::from(case), 0.9 * f64::from(case))).collect::<Vec<_>>();
        for cases in [3, 12] {
            let found = paired(&pairs(cases), 1).unwrap();
            let (low, high) = found.relative_interval.unwrap();
            assert!((low + 0.1).abs() < 1e-9 && (high + 0.1).abs() < 1e-9, "{cases} cases: {low} {high}");
            let (low, high) = found.interval.unwrap();
            assert!(high - low > 0.1, "{cases} cases: {low} {high}");
        }
        assert_eq!(paired(&[(0.0, 1.0); 6], 1).unwrap().relative_interval, None);
    }

    #[test]
    fn one_pair_has_no_interval_and_none_is_no_comparison() {
        assert_eq!(paired(&[(1.0, 2.0)], 1).unwrap().interval, None);
        assert_eq!(paired(&[], 1), None);
        assert_eq!(paired(&[(1.0, f64::NAN)], 1), None);
        assert_eq!(paired(&[(0.0, 1.0)], 1).unwrap().relative, None);
    }

    #[test]
    fn equal_differences_leave_no_doubt() {
        let pairs: Vec<(f64, f64)> = (0..8).map(|case| (f64::from(case), f64::from(case) - 0.5)).collect();
        assert_eq!(paired(&pairs, 7).unwrap().interval, Some((-0.5, -0.5)));
    }

    #[test]
    fn the_bootstrap_approaches_the_normal_interval_on_many_pairs() {
        // Half of the differences are 0, half 1: the mean's standard error is 0.5 / √400 = 0.025.
        let pairs: Vec<(f64, f64)> = (0..400).map(|case| (5.0, 5.0 + f64::from(case % 2))).collect();
        let (low, high) = paired(&pairs, 3).unwrap().interval.unwrap();
        assert!(
            (low - (0.5 - 1.96 * 0.025)).abs() < 0.005 && (high - (0.5 + 1.96 * 0.025)).abs() < 0.005,
            "{low} {high}"
        );
        assert_eq!(paired(&pairs, 3), paired(&pairs, 3));
    }
}
