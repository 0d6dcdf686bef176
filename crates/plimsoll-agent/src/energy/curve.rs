//! A node's power by its load, for nodes whose power cannot be read.

use serde::{Deserialize, Serialize};

/// Watts by utilisation: either at rest and at full load, or point by point.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Curve {
    /// Watts at rest.
    pub idle_watts: Option<f64>,
    /// Watts at full load.
    pub full_watts: Option<f64>,
    /// Pairs of utilisation (0 to 1, ascending) and watts.
    pub points: Vec<[f64; 2]>,
}

impl Curve {
    /// Says what is wrong with it.
    pub fn check(&self) -> Result<(), String> {
        let points = match (self.idle_watts, self.full_watts, self.points.as_slice()) {
            (Some(idle), Some(full), []) => vec![[0.0, idle], [1.0, full]],
            (None, None, points) if points.len() >= 2 => points.to_vec(),
            _ => return Err("give idle_watts and full_watts, or at least two points, and not both".to_owned()),
        };
        for [load, watts] in &points {
            if !(0.0..=1.0).contains(load) || !watts.is_finite() || *watts < 0.0 {
                return Err(format!("the point [{load}, {watts}] is none: load is 0 to 1, and watts are not negative"));
            }
        }
        for pair in points.windows(2) {
            if pair[0][0] >= pair[1][0] || pair[0][1] > pair[1][1] {
                return Err(format!("{:?} and {:?}: load must ascend, and watts must not fall", pair[0], pair[1]));
            }
        }
        Ok(())
    }

    /// Watts at a utilisation between 0 and 1, straight between points and level beyond them.
    pub fn watts(&self, load: f64) -> f64 {
        if let (Some(idle), Some(full)) = (self.idle_watts, self.full_watts) {
            return idle + (full - idle) * load.clamp(0.0, 1.0);
        }
        let after = self.points.iter().position(|[at, _]| *at >= load);
        match after {
            Some(0) => self.points[0][1],
            Some(next) => {
                let ([a, from], [b, to]) = (self.points[next - 1], self.points[next]);
                from + (to - from) * (load - a) / (b - a)
            }
            None => self.points.last().map_or(0.0, |[_, watts]| *watts),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watts_are_straight_between_points_and_level_beyond() {
        let line = Curve { idle_watts: Some(50.0), full_watts: Some(150.0), points: vec![] };
        let points = Curve { points: vec![[0.1, 60.0], [0.5, 100.0], [0.9, 120.0]], ..Curve::default() };
        for (curve, load, expected) in [
            (&line, 0.0, 50.0),
            (&line, 0.25, 75.0),
            (&line, 1.0, 150.0),
            (&points, 0.0, 60.0),
            (&points, 0.3, 80.0),
            (&points, 0.5, 100.0),
            (&points, 0.7, 110.0),
            (&points, 1.0, 120.0),
        ] {
            let watts = curve.watts(load);
            assert!((watts - expected).abs() < 1e-9, "expected {expected} W at {load}, and got {watts}");
        }
    }

    #[test]
    fn curves_that_are_none_are_refused() {
        let both = Curve { idle_watts: Some(1.0), full_watts: Some(2.0), points: vec![[0.0, 1.0], [1.0, 2.0]] };
        let half = Curve { idle_watts: Some(1.0), ..Curve::default() };
        let backwards = Curve { points: vec![[1.0, 1.0], [0.0, 2.0]], ..Curve::default() };
        let nan = Curve { points: vec![[0.0, f64::NAN], [1.0, 2.0]], ..Curve::default() };
        for curve in [both, half, backwards, nan, Curve::default()] {
            assert!(curve.check().is_err(), "{curve:?} was taken");
        }
    }
}
