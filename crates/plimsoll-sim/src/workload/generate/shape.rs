//! What made-up pods ask for.

use super::positive;
use crate::workload::fields::{GPU_MILLI, MAX_CPU_MILLI, MAX_GPUS, MAX_MEMORY};
use crate::workload::{Builder, GpuRequest, LatencyConstraint, Template};
use plimsoll_core::rng::Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const MIB: i64 = 1 << 20;

/// A shape of pods, and how common it is among the shapes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// How common it is, beside the others' weights.
    #[serde(default = "one")]
    pub weight: f64,
    /// CPU, in thousandths of a core.
    pub cpu_milli: i64,
    /// Memory, in MiB.
    pub memory_mib: i64,
    /// GPUs.
    #[serde(default)]
    pub gpus: u32,
    /// The share of each GPU, in thousandths.
    #[serde(default = "whole")]
    pub gpu_milli: u32,
    /// The GPU models it can use; all if empty.
    #[serde(default)]
    pub gpu_models: Vec<String>,
    /// The label `app`.
    #[serde(default)]
    pub app: Option<String>,
    /// The priority.
    #[serde(default)]
    pub priority: i32,
}

fn one() -> f64 {
    1.0
}

fn whole() -> u32 {
    GPU_MILLI
}

impl Shape {
    /// A shape without GPUs.
    pub fn plain(weight: f64, cpu_milli: i64, memory_mib: i64) -> Self {
        Self {
            weight,
            cpu_milli,
            memory_mib,
            gpus: 0,
            gpu_milli: GPU_MILLI,
            gpu_models: Vec::new(),
            app: None,
            priority: 0,
        }
    }

    /// Small pods are common, large ones rare: the mix of Azure's machines, rounded.
    pub fn usual() -> Vec<Self> {
        vec![
            Self::plain(62.0, 1000, 1792),
            Self::plain(19.0, 2000, 3584),
            Self::plain(10.0, 4000, 7168),
            Self::plain(9.0, 8000, 14_336),
        ]
    }

    fn check(&self) -> Result<(), String> {
        positive("shapes.weight", self.weight)?;
        let range = |name: &str, value: i64, most: i64| {
            if (0..=most).contains(&value) {
                return Ok(());
            }
            Err(format!("shapes.{name} is {value}; it must be from 0 to {most}"))
        };
        range("cpu_milli", self.cpu_milli, MAX_CPU_MILLI)?;
        range("memory_mib", self.memory_mib, MAX_MEMORY / MIB)?;
        range("gpus", i64::from(self.gpus), i64::from(MAX_GPUS))?;
        range("gpu_milli", i64::from(self.gpu_milli), i64::from(GPU_MILLI))?;
        if self.gpus > 0 && self.gpu_milli == 0 {
            return Err("shapes.gpu_milli is 0; a pod with GPUs needs a share of them".to_owned());
        }
        if let Some(model) = self.gpu_models.iter().find(|model| model.trim().is_empty() || model.contains('|')) {
            return Err(format!("shapes.gpu_models holds {model:?}, which is no name of a model"));
        }
        Ok(())
    }

    /// The template of pods of this shape.
    pub(super) fn template(&self, latency: Option<LatencyConstraint>) -> Template {
        Template {
            app: self.app.clone(),
            cpu_milli: self.cpu_milli,
            memory: self.memory_mib.saturating_mul(MIB),
            gpu: (self.gpus > 0).then(|| GpuRequest {
                count: self.gpus,
                milli: self.gpu_milli,
                models: self.gpu_models.clone(),
            }),
            priority: self.priority,
            latency,
            ..Template::default()
        }
    }
}

/// Shapes to draw from, as templates.
pub(super) struct Mix {
    /// Templates with the sum of weights up to and with theirs.
    templates: Vec<(f64, u32)>,
}

impl Mix {
    /// Whether there is something to draw from.
    pub(super) fn check(shapes: &[Shape]) -> Result<(), String> {
        if shapes.is_empty() {
            return Err("shapes is empty; at least one shape is needed".to_owned());
        }
        shapes.iter().try_for_each(Shape::check)
    }

    pub(super) fn new(shapes: &[Shape], builder: &mut Builder) -> Self {
        let mut sum = 0.0;
        let add = |shape: &Shape| {
            sum += shape.weight;
            (sum, builder.template(shape.template(None)))
        };
        Self { templates: shapes.iter().map(add).collect() }
    }

    pub(super) fn draw(&self, rng: &mut Rng) -> u32 {
        let total = self.templates.last().map_or(0.0, |last| last.0);
        let at = rng.unit() * total;
        let found = self.templates.iter().find(|(sum, _)| at < *sum).or(self.templates.last());
        found.map_or(0, |(_, template)| *template)
    }
}
