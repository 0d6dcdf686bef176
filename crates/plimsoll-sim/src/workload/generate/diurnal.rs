//! Pods that come more often by day than by night.

use super::draw::exponential;
use super::lifetime::{LifetimeSetting, known, time};
use super::shape::{Mix, Shape};
use super::{add, few_enough, positive, share, short_enough};
use crate::workload::{Builder, PodRecord, Workload};
use plimsoll_core::rng::Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::f64::consts::TAU;

/// Settings of arrivals whose rate is a sine over the day.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Diurnal {
    /// Arrivals an hour, on average over a day.
    pub pods_per_hour: f64,
    /// By what share of the average the rate rises at its peak and falls at its lowest.
    pub amplitude: f64,
    /// The hour of the day, of which the workload begins at 0, at which most pods come.
    pub peak_hour: f64,
    /// How long a day is, in hours.
    pub day_hours: f64,
    /// How long pods come.
    pub hours: f64,
    /// What they ask for.
    pub shapes: Vec<Shape>,
    /// How long they run.
    pub lifetime: LifetimeSetting,
}

impl Default for Diurnal {
    fn default() -> Self {
        Self {
            pods_per_hour: 300.0,
            amplitude: 0.8,
            peak_hour: 14.0,
            day_hours: 24.0,
            hours: 72.0,
            shapes: Shape::usual(),
            lifetime: LifetimeSetting::default(),
        }
    }
}

impl Diurnal {
    pub(super) fn generate(&self, seed: u64) -> Result<Workload, String> {
        positive("pods_per_hour", self.pods_per_hour)?;
        share("amplitude", self.amplitude)?;
        positive("day_hours", self.day_hours)?;
        if !self.peak_hour.is_finite() {
            return Err(format!("peak_hour is {}; it must be a number", self.peak_hour));
        }
        short_enough("hours", self.hours)?;
        few_enough(self.pods_per_hour * self.hours * (1.0 + self.amplitude))?;
        Mix::check(&self.shapes)?;
        self.lifetime.check()?;
        let (mut rng, mut builder) = (Rng::new(seed), Builder::new());
        let mix = Mix::new(&self.shapes, &mut builder);
        // Candidates come at the highest rate; each is kept with the chance that the rate of its hour has of it.
        let highest = 1.0 + self.amplitude;
        let gap = 1.0 / (self.pods_per_hour * highest);
        let mut hour = exponential(&mut rng, gap);
        while hour < self.hours {
            let rate = 1.0 + self.amplitude * libm::cos(TAU * (hour - self.peak_hour) / self.day_hours);
            if rng.unit() * highest < rate {
                let owner = builder.len() as u32;
                let pod = PodRecord {
                    name: format!("pod-{owner}").into(),
                    template: mix.draw(&mut rng),
                    owner,
                    arrival: time(hour * 3600.0),
                    lifetime: known(self.lifetime.draw(&mut rng)),
                    usage: None,
                };
                add(&mut builder, pod);
            }
            hour += exponential(&mut rng, gap);
        }
        Ok(builder.finish("", Vec::new()))
    }
}
