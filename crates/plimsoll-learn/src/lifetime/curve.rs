//! Survival curves over ages that are spaced by their logarithm, and what follows from them for the time ahead.

/// How many ages a curve is given at: from two and a half minutes, each a factor of the square root of two above the one before, to about
/// forty days.
pub const AGES: usize = 30;
/// The first age, in seconds.
const FIRST_AGE: f32 = 150.0;
/// Ages to a doubling.
const PER_DOUBLING: usize = 2;

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

/// The ages of the grid, in seconds. Ages below the first lie between it and zero.
const GRID: [f32; AGES + 1] = {
    let mut grid = [0.0; AGES + 1];
    let mut at = 0;
    while at < AGES {
        let doubled = FIRST_AGE * (1_u32 << (at / PER_DOUBLING)) as f32;
        grid[at + 1] = if at % PER_DOUBLING == 0 { doubled } else { doubled * std::f32::consts::SQRT_2 };
        at += 1;
    }
    grid
};

/// How much of a step of the grid a second is; the step after the last is as long as it would be.
const STEP_SHARE: [f32; AGES + 1] = {
    let mut shares = [0.0; AGES + 1];
    let mut at = 0;
    while at <= AGES {
        let end = if at < AGES { GRID[at + 1] } else { GRID[AGES] * std::f32::consts::SQRT_2 };
        shares[at] = 1.0 / (end - GRID[at]);
        at += 1;
    }
    shares
};

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
        self.alive_in(Self::step_of(seconds), seconds)
    }

    /// The chance to live longer than an age that lies in this step of the grid.
    fn alive_in(&self, step: usize, seconds: f32) -> f32 {
        let before = if step == 0 { 1.0 } else { self.alive[step - 1] };
        // Beyond the grid as many more of those that are left end with each step as did in the last.
        let after = if step < AGES { self.alive[step] } else { before * (self.alive[AGES - 1] / self.alive[AGES - 2]) };
        let share = (seconds - GRID[step]) * STEP_SHARE[step];
        before + (after - before) * share.clamp(0.0, 1.0)
    }

    /// The step of the grid that an age lies in, the one beyond the last age included.
    fn step_of(seconds: f32) -> usize {
        GRID[1..].partition_point(|age| *age <= seconds)
    }

    /// For a pod of this age, the chance that it still runs in the midst of each span of time ahead.
    pub fn ahead(&self, age_seconds: f32) -> Horizons {
        let mut step = Self::step_of(age_seconds);
        let now = self.alive_in(step, age_seconds).max(1e-12);
        let mut ahead = [0.0; HORIZONS];
        for (slot, middle) in ahead.iter_mut().zip(MIDDLES) {
            let then = age_seconds + middle;
            while step < AGES && GRID[step + 1] <= then {
                step += 1;
            }
            *slot = self.alive_in(step, then) / now;
        }
        ahead
    }

    /// Which step of the grid an age lies in: the steps before it were survived.
    pub fn step(seconds: f32) -> usize {
        Self::step_of(seconds).min(AGES - 1)
    }

    /// The ages of the grid, in seconds.
    pub fn ages() -> impl Iterator<Item = f32> {
        GRID[1..].iter().copied()
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
