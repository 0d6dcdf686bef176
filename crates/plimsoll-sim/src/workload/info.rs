//! A summary of a workload.

use super::{Template, Workload};
use rustc_hash::FxHashSet;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// How many of the most common shapes are listed.
const SHAPES: usize = 10;
/// What a workload is, in figures. Lifetimes known as a range count with its middle.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// What it is called.
    pub name: String,
    /// How many pods.
    pub pods: usize,
    /// How many owners.
    pub owners: usize,
    /// The most pods of one owner.
    pub largest_owner: usize,
    /// How many templates.
    pub templates: usize,
    /// How many calls between services.
    pub calls: usize,
    /// From the start to the last arrival, in seconds.
    pub span_s: f64,
    /// Arrivals an hour, on average over the span.
    pub arrivals_per_hour: Option<f64>,
    /// Pods that run at a time.
    pub running: Demand,
    /// Cores asked for at a time.
    pub cpu_cores: Demand,
    /// Memory asked for at a time, in GiB.
    pub memory_gib: Demand,
    /// GPUs asked for at a time; shares count as such.
    pub gpus: Demand,
    /// Pods that ask for a GPU.
    pub gpu_pods: usize,
    /// Lifetimes, in seconds.
    pub lifetimes: Lifetimes,
    /// The most common shapes.
    pub shapes: Vec<ShapeCount>,
}

/// What is asked for at a time if every pod starts as it arrives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Demand {
    /// On average over the span.
    pub mean: f64,
    /// At most.
    pub peak: f64,
}

/// How long pods run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Lifetimes {
    /// Pods that run to the end.
    pub endless: usize,
    /// Pods whose lifetime is known as a range.
    pub ranges: usize,
    /// The mean of the others, in seconds.
    pub mean_s: Option<f64>,
    /// Their quantiles, in seconds.
    pub quantiles_s: Option<Quantiles>,
}

/// Quantiles: `p5` is what one in twenty is below.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Quantiles {
    /// The least.
    pub min: f64,
    /// 5 %.
    pub p5: f64,
    /// 25 %.
    pub p25: f64,
    /// 50 %.
    pub p50: f64,
    /// 75 %.
    pub p75: f64,
    /// 95 %.
    pub p95: f64,
    /// The most.
    pub max: f64,
}

impl Quantiles {
    /// By name, from the least to the most.
    pub fn named(&self) -> [(&'static str, f64); 7] {
        let Self { min, p5, p25, p50, p75, p95, max } = *self;
        [("min", min), ("p5", p5), ("p25", p25), ("p50", p50), ("p75", p75), ("p95", p95), ("max", max)]
    }

    /// Of numbers in order; none of no numbers.
    fn of(sorted: &[f64]) -> Option<Self> {
        let at = |share: f64| sorted.get((sorted.len().saturating_sub(1) as f64 * share).round() as usize).copied();
        Some(Self {
            min: at(0.0)?,
            p5: at(0.05)?,
            p25: at(0.25)?,
            p50: at(0.5)?,
            p75: at(0.75)?,
            p95: at(0.95)?,
            max: at(1.0)?,
        })
    }
}

/// A shape, and how many pods have it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ShapeCount {
    /// CPU, in thousandths of a core.
    pub cpu_milli: i64,
    /// Memory, in bytes.
    pub memory_bytes: i64,
    /// GPUs.
    pub gpu_count: u32,
    /// The share of each, in thousandths.
    pub gpu_milli: u32,
    /// How many pods.
    pub pods: usize,
}

impl Summary {
    /// Sums a workload up.
    pub fn of(workload: &Workload) -> Self {
        let span = workload.span().as_secs_f64();
        let [running, cpu, memory, gpus] = demands(workload);
        let mut owners: Vec<u32> = workload.pods.iter().map(|pod| pod.owner).collect();
        owners.sort_unstable();
        let largest_owner = owners.chunk_by(|a, b| a == b).map(<[u32]>::len).max().unwrap_or(0);
        Self {
            name: workload.name.clone(),
            pods: workload.pods.len(),
            owners: owners.iter().collect::<FxHashSet<_>>().len(),
            largest_owner,
            templates: workload.templates.len(),
            calls: workload.calls.len(),
            span_s: span,
            arrivals_per_hour: (span > 0.0).then(|| workload.pods.len() as f64 * 3600.0 / span),
            running,
            cpu_cores: cpu,
            memory_gib: memory,
            gpus,
            gpu_pods: templates(workload).filter(|template| template.gpu.is_some()).count(),
            lifetimes: lifetimes(workload),
            shapes: shapes(workload),
        }
    }
}

fn templates(workload: &Workload) -> impl Iterator<Item = &Template> {
    workload.pods.iter().filter_map(|pod| workload.templates.get(pod.template as usize))
}

/// Pods, cores, GiB and GPUs asked for.
fn demands(workload: &Workload) -> [Demand; 4] {
    let end = workload.span();
    // Departures go before arrivals of the same time, which take their places.
    let mut events: Vec<(Duration, bool, u32)> = Vec::with_capacity(workload.pods.len() * 2);
    for pod in &workload.pods {
        events.push((pod.arrival, true, pod.template));
        if let Some(lifetime) = pod.lifetime {
            let leaves = pod.arrival + (lifetime.least + lifetime.most) / 2;
            if leaves <= end {
                // A pod that leaves as it comes still comes first.
                events.push((leaves, leaves == pod.arrival, pod.template | LEAVES));
            }
        }
    }
    events.sort_by_key(|(time, late, template)| (*time, *late, template & LEAVES));
    let sizes: Vec<[i128; 4]> = workload.templates.iter().map(size).collect();
    let (mut now, mut last) = ([0i128; 4], Duration::ZERO);
    let (mut sums, mut peaks) = ([0.0; 4], [0i128; 4]);
    for (time, _, template) in events {
        let elapsed = time.saturating_sub(last).as_secs_f64();
        last = time;
        let sign = if template & LEAVES == 0 { 1 } else { -1 };
        let size = sizes.get((template & !LEAVES) as usize).copied().unwrap_or_default();
        for at in 0..now.len() {
            sums[at] += now[at] as f64 * elapsed;
            now[at] += sign * size[at];
            peaks[at] = peaks[at].max(now[at]);
        }
    }
    let span = end.as_secs_f64();
    // All at once: what is asked for then is what is asked for.
    std::array::from_fn(|at| {
        let peak = peaks[at] as f64;
        let mean = if span > 0.0 { sums[at] / span } else { peak };
        Demand { mean: mean / UNITS[at], peak: peak / UNITS[at] }
    })
}

/// Marks the template of a pod that leaves.
const LEAVES: u32 = 1 << 31;

/// What one pod, core, GiB and GPU is of what a [`size`] counts.
const UNITS: [f64; 4] = [1.0, 1000.0, (1u64 << 30) as f64, 1000.0];

/// Whole numbers, so that nothing is left over when all pods have gone.
fn size(template: &Template) -> [i128; 4] {
    let gpus = template.gpu.as_ref().map_or(0, |gpu| i128::from(gpu.count) * i128::from(gpu.milli));
    [1, i128::from(template.cpu_milli), i128::from(template.memory), gpus]
}

fn lifetimes(workload: &Workload) -> Lifetimes {
    let known = || workload.pods.iter().filter_map(|pod| pod.lifetime);
    let mut seconds: Vec<f64> = known().map(|lifetime| ((lifetime.least + lifetime.most) / 2).as_secs_f64()).collect();
    seconds.sort_unstable_by(f64::total_cmp);
    Lifetimes {
        endless: workload.pods.len() - seconds.len(),
        ranges: known().filter(|lifetime| lifetime.least != lifetime.most).count(),
        mean_s: (!seconds.is_empty()).then(|| seconds.iter().sum::<f64>() / seconds.len() as f64),
        quantiles_s: Quantiles::of(&seconds),
    }
}

fn shapes(workload: &Workload) -> Vec<ShapeCount> {
    let mut counts: BTreeMap<(i64, i64, u32, u32), usize> = BTreeMap::new();
    for template in templates(workload) {
        let (count, milli) = template.gpu.as_ref().map_or((0, 0), |gpu| (gpu.count, gpu.milli));
        *counts.entry((template.cpu_milli, template.memory, count, milli)).or_default() += 1;
    }
    let mut shapes: Vec<ShapeCount> = counts
        .into_iter()
        .map(|((cpu_milli, memory_bytes, gpu_count, gpu_milli), pods)| ShapeCount {
            cpu_milli,
            memory_bytes,
            gpu_count,
            gpu_milli,
            pods,
        })
        .collect();
    shapes.sort_by_key(|shape| std::cmp::Reverse(shape.pods));
    shapes.truncate(SHAPES);
    shapes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Builder, GpuRequest, Lifetime, PodRecord};

    /// Owner, arrival, lifetime, and whether with a GPU.
    type Pod = (u32, u64, Option<(u64, u64)>, bool);

    /// Pods of one core and 2 GiB, or of 4 cores and half a GPU.
    fn workload(pods: &[Pod]) -> Workload {
        let mut builder = Builder::new();
        for (at, (owner, arrival, lifetime, gpu)) in pods.iter().enumerate() {
            let plain = Template { cpu_milli: 1000, memory: 2 << 30, ..Template::default() };
            let half = GpuRequest { count: 1, milli: 500, models: Vec::new() };
            let template = if *gpu { Template { cpu_milli: 4000, gpu: Some(half), ..plain } } else { plain };
            let template = builder.template(template);
            let lifetime = lifetime
                .map(|(least, most)| Lifetime { least: Duration::from_secs(least), most: Duration::from_secs(most) });
            let (name, arrival) = (format!("p{at}").into(), Duration::from_secs(*arrival));
            builder.push(PodRecord { name, template, owner: *owner, arrival, lifetime, usage: None }).unwrap();
        }
        builder.finish("w", Vec::new())
    }

    #[test]
    fn demand_is_averaged_over_the_span_and_peaks_between_events() {
        let summary = Summary::of(&workload(&[
            (1, 0, Some((10, 30)), false),
            (1, 10, None, true),
            (2, 20, Some((0, 0)), false),
            (2, 40, Some((100, 100)), false),
        ]));
        assert_eq!((summary.pods, summary.owners, summary.largest_owner, summary.templates), (4, 2, 2, 2));
        assert_eq!(summary.span_s, 40.0);
        assert_eq!(summary.arrivals_per_hour, Some(360.0));
        // One core for 20 s and four for 30 s; a pod takes the place of the one that leaves.
        assert_eq!(summary.cpu_cores, Demand { mean: (20.0 + 4.0 * 30.0) / 40.0, peak: 5.0 });
        assert_eq!(summary.gpus, Demand { mean: 0.5 * 30.0 / 40.0, peak: 0.5 });
        assert_eq!(summary.running.peak, 2.0);
        assert_eq!(summary.gpu_pods, 1);
        assert_eq!((summary.lifetimes.endless, summary.lifetimes.ranges), (1, 1));
        assert_eq!(summary.lifetimes.mean_s, Some(40.0));
        let quantiles = summary.lifetimes.quantiles_s.unwrap();
        assert_eq!((quantiles.min, quantiles.p50, quantiles.max), (0.0, 20.0, 100.0));
        assert_eq!((summary.shapes[0].cpu_milli, summary.shapes[0].pods), (1000, 3));
    }

    #[test]
    fn a_workload_of_no_time_or_no_pods_can_be_summed_up() {
        let at_once = Summary::of(&workload(&[(1, 0, None, false), (1, 0, None, false)]));
        assert_eq!((at_once.arrivals_per_hour, at_once.cpu_cores), (None, Demand { mean: 2.0, peak: 2.0 }));
        assert_eq!(at_once.lifetimes.quantiles_s, None);
        let none = Summary::of(&Workload::default());
        assert_eq!((none.pods, none.running), (0, Demand::default()));
    }
}
