//! Pods that ask for a share of a GPU, for one, or for several.

use super::draw::exponential;
use super::lifetime::{LifetimeSetting, known, time};
use super::{add, few_enough, positive, share, short_enough};
use crate::workload::{Builder, GpuRequest, PodRecord, Template, Workload};
use plimsoll_core::rng::Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of pods that share GPUs. The defaults are near Alibaba's cluster of 2023.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GpuSharing {
    /// Arrivals an hour, on average.
    pub pods_per_hour: f64,
    /// How long pods come.
    pub hours: f64,
    /// The share of pods that ask for a part of one GPU.
    pub fractional: f64,
    /// The share that asks for several GPUs.
    pub multiple: f64,
    /// The share that asks for no GPU; what is left of the pods asks for one whole GPU.
    pub without: f64,
    /// The models that some pods insist on, each as likely.
    pub models: Vec<String>,
    /// The share of GPU pods that insist on one of the models.
    pub choosy: f64,
    /// How long pods run.
    pub lifetime: LifetimeSetting,
}

impl Default for GpuSharing {
    fn default() -> Self {
        Self {
            pods_per_hour: 60.0,
            hours: 72.0,
            fractional: 0.38,
            multiple: 0.01,
            without: 0.13,
            models: Vec::new(),
            choosy: 0.0,
            // Training and inference run for hours, a few for days.
            lifetime: LifetimeSetting::LogNormal { median_s: 3600.0, sigma: 1.8 },
        }
    }
}

/// Shares of one GPU that pods ask for, in thousandths.
const PARTS: [u32; 8] = [100, 200, 250, 330, 460, 500, 590, 750];
/// How many GPUs pods ask for that ask for several; eight, a whole machine, is the most common.
const SEVERAL: [u32; 5] = [2, 4, 8, 8, 8];
/// CPU and memory that come with a whole GPU: in thousandths of a core, in MiB.
const BESIDE_A_GPU: (i64, i64) = (8000, 32_768);
/// The least beside a share, and what a pod without a GPU asks for.
const LEAST: (i64, i64) = (1000, 2048);
const MIB: i64 = 1 << 20;

impl GpuSharing {
    pub(super) fn generate(&self, seed: u64) -> Result<Workload, String> {
        self.check()?;
        let (mut rng, mut builder) = (Rng::new(seed), Builder::new());
        let (gap, end) = (3600.0 / self.pods_per_hour, self.hours * 3600.0);
        let mut now = exponential(&mut rng, gap);
        while now < end {
            let template = self.template(&mut rng);
            let owner = builder.len() as u32;
            let pod = PodRecord {
                name: format!("gpu-pod-{owner}").into(),
                template: builder.template(template),
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

    fn template(&self, rng: &mut Rng) -> Template {
        let kind = rng.unit();
        let (count, milli) = if kind < self.without {
            (0, 0)
        } else if kind < self.without + self.fractional {
            (1, pick(&PARTS, rng))
        } else if kind < self.without + self.fractional + self.multiple {
            (pick(&SEVERAL, rng), 1000)
        } else {
            (1, 1000)
        };
        let choosy = count > 0 && rng.unit() < self.choosy;
        let models = if choosy { self.models.get(rng.below(self.models.len())).cloned() } else { None };
        let beside = |whole: i64, least: i64| (whole * i64::from(count * milli) / 1000).max(least);
        Template {
            cpu_milli: beside(BESIDE_A_GPU.0, LEAST.0),
            memory: beside(BESIDE_A_GPU.1, LEAST.1) * MIB,
            gpu: (count > 0).then(|| GpuRequest { count, milli, models: models.into_iter().collect() }),
            ..Template::default()
        }
    }

    fn check(&self) -> Result<(), String> {
        positive("pods_per_hour", self.pods_per_hour)?;
        short_enough("hours", self.hours)?;
        few_enough(self.pods_per_hour * self.hours)?;
        for (name, value) in [
            ("fractional", self.fractional),
            ("multiple", self.multiple),
            ("without", self.without),
            ("choosy", self.choosy),
        ] {
            share(name, value)?;
        }
        if self.fractional + self.multiple + self.without > 1.0 + 1e-9 {
            return Err("fractional, multiple and without together are more than 1".to_owned());
        }
        if self.choosy > 0.0 && self.models.is_empty() {
            return Err("choosy is above 0, but models is empty".to_owned());
        }
        if let Some(model) = self.models.iter().find(|model| model.trim().is_empty() || model.contains('|')) {
            return Err(format!("models holds {model:?}, which is no name of a model"));
        }
        self.lifetime.check()
    }
}

fn pick(values: &[u32], rng: &mut Rng) -> u32 {
    values.get(rng.below(values.len())).copied().unwrap_or(1)
}
