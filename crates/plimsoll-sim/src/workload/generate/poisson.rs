//! Pods that come independently of each other, at one rate.

use super::draw::exponential;
use super::lifetime::{LifetimeSetting, known, time};
use super::shape::{Mix, Shape};
use super::{add, few_enough, positive, short_enough};
use crate::workload::{Builder, PodRecord, Workload};
use plimsoll_core::rng::Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of Poisson arrivals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Poisson {
    /// Arrivals an hour, on average.
    pub pods_per_hour: f64,
    /// How long pods come.
    pub hours: f64,
    /// What they ask for.
    pub shapes: Vec<Shape>,
    /// How long they run.
    pub lifetime: LifetimeSetting,
}

impl Default for Poisson {
    fn default() -> Self {
        Self { pods_per_hour: 300.0, hours: 24.0, shapes: Shape::usual(), lifetime: LifetimeSetting::default() }
    }
}

impl Poisson {
    pub(super) fn generate(&self, seed: u64) -> Result<Workload, String> {
        positive("pods_per_hour", self.pods_per_hour)?;
        short_enough("hours", self.hours)?;
        few_enough(self.pods_per_hour * self.hours)?;
        Mix::check(&self.shapes)?;
        self.lifetime.check()?;
        let (mut rng, mut builder) = (Rng::new(seed), Builder::new());
        let mix = Mix::new(&self.shapes, &mut builder);
        let (gap, end) = (3600.0 / self.pods_per_hour, self.hours * 3600.0);
        let mut now = exponential(&mut rng, gap);
        while now < end {
            let owner = builder.len() as u32;
            let pod = PodRecord {
                name: format!("pod-{owner}").into(),
                template: mix.draw(&mut rng),
                owner,
                arrival: time(now),
                lifetime: known(self.lifetime.draw(&mut rng)),
                usage: None,
            };
            add(&mut builder, pod);
            now += exponential(&mut rng, gap);
        }
        Ok(builder.finish("", Vec::new()))
    }
}
