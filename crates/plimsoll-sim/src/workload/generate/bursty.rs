//! Pods that come in batches, while the source is on: one owner a batch, whose pods live and die alike.

use super::draw::{exponential, geometric, log_normal};
use super::lifetime::{LifetimeSetting, known, time};
use super::shape::{Mix, Shape};
use super::{add, few_enough, positive, short_enough};
use crate::workload::{Builder, PodRecord, Workload};
use plimsoll_core::rng::Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of arrivals in batches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Bursty {
    /// Batches an hour, on average while the source is on.
    pub batches_per_hour: f64,
    /// Pods of a batch, on average.
    pub batch_size: f64,
    /// The time over which the pods of a batch come, in seconds.
    pub batch_spread_s: f64,
    /// How far lifetimes differ within a batch, as the spread of their logarithm: 0.56 among Azure's machines.
    pub batch_sigma: f64,
    /// How long the source is on at a time, on average.
    pub on_hours: f64,
    /// How long it is off, on average; 0: never.
    pub off_hours: f64,
    /// How long batches come.
    pub hours: f64,
    /// What the pods ask for: all of a batch the same.
    pub shapes: Vec<Shape>,
    /// How long a batch's pods run, before they differ.
    pub lifetime: LifetimeSetting,
}

impl Default for Bursty {
    fn default() -> Self {
        Self {
            batches_per_hour: 120.0,
            // As among Azure's machines.
            batch_size: 4.9,
            batch_spread_s: 60.0,
            batch_sigma: 0.56,
            on_hours: 1.0,
            off_hours: 1.0,
            hours: 24.0,
            shapes: Shape::usual(),
            lifetime: LifetimeSetting::default(),
        }
    }
}

impl Bursty {
    pub(super) fn generate(&self, seed: u64) -> Result<Workload, String> {
        self.check()?;
        let (mut rng, mut builder) = (Rng::new(seed), Builder::new());
        let mix = Mix::new(&self.shapes, &mut builder);
        let gap = 1.0 / self.batches_per_hour;
        let mut hour = 0.0;
        let mut on_until = exponential(&mut rng, self.on_hours);
        let mut owner = 0;
        loop {
            hour += exponential(&mut rng, gap);
            // Without memory: what is left of a gap when the source goes off is as long when it is on again.
            while self.off_hours > 0.0 && hour >= on_until && hour < self.hours {
                let off = exponential(&mut rng, self.off_hours);
                hour += off;
                on_until += off + exponential(&mut rng, self.on_hours);
            }
            if hour >= self.hours {
                return Ok(builder.finish("", Vec::new()));
            }
            self.batch(hour, owner, &mix, &mut rng, &mut builder);
            owner += 1;
        }
    }

    fn batch(&self, hour: f64, owner: u32, mix: &Mix, rng: &mut Rng, builder: &mut Builder) {
        let (template, base) = (mix.draw(rng), self.lifetime.draw(rng));
        for at in 0..geometric(rng, self.batch_size) {
            let pod = PodRecord {
                name: format!("batch-{owner}-{at}").into(),
                template,
                owner,
                arrival: time(hour * 3600.0 + self.batch_spread_s * rng.unit()),
                lifetime: known(base.map(|base| log_normal(rng, base, self.batch_sigma))),
                usage: None,
            };
            add(builder, pod);
        }
    }

    fn check(&self) -> Result<(), String> {
        positive("batches_per_hour", self.batches_per_hour)?;
        positive("on_hours", self.on_hours)?;
        short_enough("hours", self.hours)?;
        if !(self.batch_size.is_finite() && self.batch_size >= 1.0) {
            return Err(format!("batch_size is {}; it must be at least 1", self.batch_size));
        }
        let day = 86_400.0;
        for (name, value, most) in [
            ("batch_spread_s", self.batch_spread_s, day),
            ("batch_sigma", self.batch_sigma, 10.0),
            ("off_hours", self.off_hours, 1e6),
        ] {
            if !(0.0..=most).contains(&value) {
                return Err(format!("{name} is {value}; it must be from 0 to {most}"));
            }
        }
        // An on/off cycle shorter than a second would be no burst, and take for ever to walk through.
        if self.off_hours > 0.0 && self.on_hours + self.off_hours < 1.0 / 3600.0 {
            return Err("on_hours and off_hours together are less than a second".to_owned());
        }
        few_enough(self.batches_per_hour * self.hours * self.batch_size)?;
        Mix::check(&self.shapes)?;
        self.lifetime.check()
    }
}
