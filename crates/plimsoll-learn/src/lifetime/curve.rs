//! Survival curves over ages that are spaced by their logarithm, and what follows from them for the time ahead.

/// How many ages a curve is given at: from two and a half minutes, each a factor of the square root of two above the one before, to about
/// forty days.
pub const AGES: usize = 30;
/// The first age, in seconds.
const FIRST_AGE: f32 = 150.0;
/// Ages to a doubling.
const PER_DOUBLING: f32 = 2.0;

/// How many spans of time ahead are looked at: from five minutes to three and a half days, spaced by their logarithm.
pub const HORIZONS: usize = 16;
/// The end of the first span, in seconds.
const FIRST_HORIZON: f32 = 300.0;
/// Spans to a doubling.
const SPANS_PER_DOUBLING: f32 = 1.5;

/// A figure for each span of time ahead: the chance that something still lasts in the midst of it.
pub type Horizons = [f32; HORIZONS];

/// The chance that a pod lives longer than each of the ages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Curve {
    alive: [f32; AGES],
}

/// An age of the grid, in seconds.
fn age(at: usize) -> f32 {
    FIRST_AGE * (at as f32 / PER_DOUBLING).exp2()
}

/// The place of an age in the grid: the last age that it reached, counted from 1, and the share of the way to the next. Ages below the first
/// are a share of the way to it.
fn place(seconds: f32) -> (usize, f32) {
    if seconds < FIRST_AGE {
        return (0, (seconds / FIRST_AGE).max(0.0));
    }
    let place = (seconds / FIRST_AGE).log2() * PER_DOUBLING;
    let below = (place as usize).min(AGES - 1);
    (below + 1, place - below as f32)
}

impl Curve {
    /// A curve from the chance of ending in each step of the grid, for those that reached it.
    pub fn from_hazards(hazards: impl IntoIterator<Item = f32>) -> Self {
        let mut left = 1.0;
        let mut alive = [0.0; AGES];
        for (slot, hazard) in alive.iter_mut().zip(hazards) {
            left *= 1.0 - hazard.clamp(0.0, 1.0);
            *slot = left.max(1e-12);
        }
        Self { alive }
    }

    /// The chance to live longer than this.
    pub fn alive(&self, seconds: f32) -> f32 {
        let (at, share) = place(seconds);
        let before = if at == 0 { 1.0 } else { self.alive[at - 1] };
        // Beyond the grid as many more of those that are left end with each step as did in the last.
        let after = if at < AGES { self.alive[at] } else { before * (self.alive[AGES - 1] / self.alive[AGES - 2]) };
        before + (after - before) * share.min(1.0)
    }

    /// For a pod of this age, the chance that it still runs in the midst of each span of time ahead.
    pub fn ahead(&self, age_seconds: f32) -> Horizons {
        let now = self.alive(age_seconds).max(1e-12);
        let mut ahead = [0.0; HORIZONS];
        for (slot, middle) in ahead.iter_mut().zip(MIDDLES) {
            *slot = self.alive(age_seconds + middle) / now;
        }
        ahead
    }

    /// Which step of the grid an age lies in: the steps before it were survived.
    pub fn step(seconds: f32) -> usize {
        place(seconds).0.min(AGES - 1)
    }

    /// The ages of the grid, in seconds.
    pub fn ages() -> impl Iterator<Item = f32> {
        (0..AGES).map(age)
    }
}

/// The middles of the spans, in seconds; the ends are `FIRST_HORIZON * 2^(k / SPANS_PER_DOUBLING)`.
const MIDDLES: [f32; HORIZONS] = [
    150.0, 388.1, 616.1, 978.0, 1552.4, 2464.3, 3911.9, 6209.8, 9857.4, 15647.6, 24839.1, 39429.5, 62590.5, 99356.2,
    157718.1, 250361.9,
];

/// How long each span is, in hours.
pub fn horizon_hours() -> Horizons {
    let end = |span: usize| FIRST_HORIZON * (span as f32 / SPANS_PER_DOUBLING).exp2();
    let mut hours = [0.0; HORIZONS];
    for (span, slot) in hours.iter_mut().enumerate() {
        *slot = (end(span) - if span == 0 { 0.0 } else { end(span - 1) }) / 3600.0;
    }
    hours
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middles_lie_in_their_spans() {
        let mut start = 0.0;
        for (middle, hours) in MIDDLES.iter().zip(horizon_hours()) {
            let end = start + hours * 3600.0;
            assert!(start < *middle && *middle < end, "{start} {middle} {end}");
            assert!((middle - (start + end) / 2.0).abs() <= (end - start) * 0.05, "{middle} is not the middle");
            start = end;
        }
    }

    #[test]
    fn a_curve_falls_with_age_and_an_old_pod_lives_on() {
        let curve = Curve::from_hazards([0.2; AGES]);
        let ages = [0.0, 10.0, 150.0, 151.0, 1e3, 1e4, 1e5, 1e6, 1e7, 1e9];
        let alive = ages.map(|seconds| curve.alive(seconds));
        assert_eq!(alive[0], 1.0);
        assert!((alive[2] - 0.8).abs() < 1e-6);
        assert!(alive.windows(2).all(|pair| pair[1] <= pair[0]), "{alive:?}");
        // Where each doubling of the age is survived alike, who is old has longer to go.
        assert!(curve.ahead(1e5)[8] > curve.ahead(1e3)[8]);
        assert_eq!([Curve::step(0.0), Curve::step(150.0), Curve::step(299.0), Curve::step(1e12)], [0, 1, 2, AGES - 1]);
    }
}
