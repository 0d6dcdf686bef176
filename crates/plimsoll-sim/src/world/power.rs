//! What a machine draws, by load.

/// Loads at which a curve is given: idle, and every tenth up to full.
pub const POINTS: usize = 11;

/// Watts by load, straight between points that are a tenth of the machine apart.
///
/// Measured curves are far from straight: the step from idle to a tenth is large, and the last fifth is steep.
#[derive(Debug, Clone, PartialEq)]
pub struct PowerCurve {
    watts: [f64; POINTS],
}

impl PowerCurve {
    /// A curve by its eleven points; none if one of them is not a sensible number of watts.
    pub fn new(watts: [f64; POINTS]) -> Option<Self> {
        watts.iter().all(|watts| watts.is_finite() && *watts >= 0.0).then_some(Self { watts })
    }

    /// A straight line from idle to full load.
    pub fn straight(idle: f64, full: f64) -> Option<Self> {
        let steps = (POINTS - 1) as f64;
        Self::new(std::array::from_fn(|at| idle + (full - idle) * at as f64 / steps))
    }

    /// Watts at a load between 0 and 1; beyond, as at the nearer end.
    pub fn at(&self, load: f64) -> f64 {
        let place = load.clamp(0.0, 1.0) * (POINTS - 1) as f64;
        let below = (place as usize).min(POINTS - 2);
        let share = place - below as f64;
        self.watts[below] + (self.watts[below + 1] - self.watts[below]) * share
    }

    /// Watts without load.
    pub fn idle(&self) -> f64 {
        self.watts[0]
    }

    /// Watts at full load.
    pub fn full(&self) -> f64 {
        self.watts[POINTS - 1]
    }

    /// The points.
    pub fn points(&self) -> &[f64; POINTS] {
        &self.watts
    }

    /// The fewest watts for a unit of load at which the machine can be run.
    pub fn least_watts_per_load(&self) -> f64 {
        let loads = (1..POINTS).map(|at| at as f64 / (POINTS - 1) as f64);
        loads.map(|load| self.at(load) / load).fold(f64::INFINITY, f64::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_straight_between_its_points_and_flat_beyond() {
        let curve =
            PowerCurve::new([50.0, 130.0, 150.0, 170.0, 195.0, 224.0, 255.0, 292.0, 344.0, 408.0, 457.0]).unwrap();
        assert_eq!([curve.at(0.0), curve.at(0.1), curve.at(1.0)], [50.0, 130.0, 457.0]);
        assert_eq!(curve.at(0.05), 90.0);
        assert_eq!([curve.at(-1.0), curve.at(7.0)], [50.0, 457.0]);
        assert!((curve.least_watts_per_load() - 224.0 / 0.5).abs() < 40.0);
    }

    #[test]
    fn nonsense_is_no_curve() {
        assert!(PowerCurve::straight(-1.0, 5.0).is_none());
        assert!(PowerCurve::straight(1.0, f64::NAN).is_none());
    }
}
