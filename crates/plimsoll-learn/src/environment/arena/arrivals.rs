//! The pods that come to an arena: made up by seed, or those of a workload.

use crate::error::LearnError;
use plimsoll_core::rng::Rng;
use plimsoll_sim::simulation;
use plimsoll_sim::workload::Workload;
use std::sync::Arc;
use std::time::Duration;

/// What a pod asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shape {
    /// Thousandths of a core.
    pub cpu_milli: i64,
    /// Bytes.
    pub memory: i64,
}

/// A pod that comes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Arrival {
    /// When, in nanoseconds from the start.
    pub at: u64,
    /// How long it runs, in nanoseconds; none to the end.
    pub lifetime: Option<u64>,
    /// What it asks for, as a place in the list of shapes.
    pub shape: u32,
}

/// Where pods come from.
pub trait Arrivals: Send {
    /// Begins anew; equal seeds give equal pods.
    fn begin(&mut self, seed: u64) -> Result<(), LearnError>;

    /// What pods ask for, in this episode.
    fn shapes(&self) -> &[Shape];

    /// The next pod, none if no more come.
    fn next(&mut self) -> Option<Arrival>;

    /// When the episode ends, in nanoseconds from the start.
    fn end(&self) -> u64;
}

/// Pods that are made up: they come by chance at a pace, and run for a while.
#[derive(Debug, Clone)]
pub struct Made {
    shapes: Vec<Shape>,
    /// Nanoseconds from one pod to the next, on average.
    gap: f64,
    /// Nanoseconds that a pod runs, on average.
    lifetime: f64,
    pods: u64,
    made: u64,
    now: u64,
    rng: Rng,
}

impl Made {
    /// Pods of these shapes, each as likely as the others; gaps and lifetimes have no memory.
    pub fn new(shapes: Vec<Shape>, gap: Duration, lifetime: Duration, pods: u64) -> Result<Self, LearnError> {
        if shapes.is_empty() || gap.is_zero() || lifetime.is_zero() {
            return Err(LearnError::Invalid("pods need a shape, a gap and a lifetime above 0".into()));
        }
        let nanoseconds = |time: Duration| time.as_nanos() as f64;
        let (gap, lifetime) = (nanoseconds(gap), nanoseconds(lifetime));
        Ok(Self { shapes, gap, lifetime, pods, made: 0, now: 0, rng: Rng::new(0) })
    }

    fn exponential(&mut self, mean: f64) -> u64 {
        (-libm::log(1.0 - self.rng.unit()) * mean) as u64
    }
}

impl Arrivals for Made {
    fn begin(&mut self, seed: u64) -> Result<(), LearnError> {
        (self.made, self.now, self.rng) = (0, 0, Rng::new(seed));
        Ok(())
    }

    fn shapes(&self) -> &[Shape] {
        &self.shapes
    }

    fn next(&mut self) -> Option<Arrival> {
        if self.made == self.pods {
            return None;
        }
        self.made += 1;
        self.now += self.exponential(self.gap);
        let lifetime = Some(self.exponential(self.lifetime));
        Some(Arrival { at: self.now, lifetime, shape: self.rng.below(self.shapes.len()) as u32 })
    }

    fn end(&self) -> u64 {
        self.now
    }
}

/// The pods of a workload; what they ask for beside CPU and memory is not seen.
#[derive(Debug, Clone)]
pub struct Recorded {
    workload: Arc<Workload>,
    shapes: Vec<Shape>,
    lifetimes: Vec<Option<Duration>>,
    next: usize,
    end: Duration,
}

impl Recorded {
    /// A workload that asks for CPU and memory alone; one that asks for more is refused.
    pub fn new(workload: Arc<Workload>) -> Result<Self, LearnError> {
        if let Some(at) =
            workload.templates.iter().position(|template| template.gpu.is_some() || template.spec.is_some())
        {
            return Err(LearnError::Invalid(format!(
                "template {at} of workload {:?} asks for more than CPU and memory, which an arena does not know; use the whole simulator",
                workload.name
            )));
        }
        let shape = |template: &plimsoll_sim::workload::Template| Shape {
            cpu_milli: template.cpu_milli,
            memory: template.memory,
        };
        let (shapes, end) = (workload.templates.iter().map(shape).collect(), workload.span());
        Ok(Self { workload, shapes, lifetimes: Vec::new(), next: 0, end })
    }

    /// The same, with an episode that ends at this time.
    #[must_use]
    pub fn until(mut self, end: Duration) -> Self {
        self.end = end;
        self
    }
}

impl Arrivals for Recorded {
    fn begin(&mut self, seed: u64) -> Result<(), LearnError> {
        self.lifetimes = simulation::lifetimes(&self.workload, seed);
        self.next = 0;
        Ok(())
    }

    fn shapes(&self) -> &[Shape] {
        &self.shapes
    }

    fn next(&mut self) -> Option<Arrival> {
        let pod = self.workload.pods.get(self.next).filter(|pod| pod.arrival <= self.end)?;
        let lifetime = self.lifetimes[self.next].map(nanoseconds);
        self.next += 1;
        Some(Arrival { at: nanoseconds(pod.arrival), lifetime, shape: pod.template })
    }

    fn end(&self) -> u64 {
        nanoseconds(self.end)
    }
}

/// One of several workloads, which the seed chooses.
#[derive(Debug, Clone)]
pub struct AnyRecorded {
    of: Vec<Recorded>,
    chosen: usize,
}

impl AnyRecorded {
    /// Workloads, of which there must be one.
    pub fn new(of: Vec<Recorded>) -> Result<Self, LearnError> {
        if of.is_empty() {
            return Err(LearnError::Invalid("an arena has no workload to choose from".into()));
        }
        Ok(Self { of, chosen: 0 })
    }
}

impl Arrivals for AnyRecorded {
    fn begin(&mut self, seed: u64) -> Result<(), LearnError> {
        self.chosen = Rng::new(seed).below(self.of.len());
        self.of[self.chosen].begin(seed)
    }

    fn shapes(&self) -> &[Shape] {
        self.of[self.chosen].shapes()
    }

    #[inline]
    fn next(&mut self) -> Option<Arrival> {
        self.of[self.chosen].next()
    }

    fn end(&self) -> u64 {
        self.of[self.chosen].end()
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
