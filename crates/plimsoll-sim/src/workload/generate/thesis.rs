//! The two experiments of a thesis on learning schedulers: one-pod deployments, created one by one.

use super::lifetime::time;
use super::shape::{Mix, Shape};
use super::{add, few_enough, positive};
use crate::workload::fields::MAX_SECONDS;
use crate::workload::{Builder, LatencyConstraint, Lifetime, PodRecord, Template, Workload};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Settings of test 1: rounds in which deployments are created one by one and then all deleted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Thesis1 {
    /// Rounds.
    pub rounds: u32,
    /// Deployments of a round, of one pod each.
    pub pods: u32,
    /// From one creation to the next, in seconds.
    pub interval_s: f64,
    /// From the last creation of a round to the deletion of all, in seconds.
    pub hold_s: f64,
    /// From the deletion to the next round, in seconds.
    pub pause_s: f64,
    /// CPU of a pod, in thousandths of a core.
    pub cpu_milli: i64,
    /// Memory of a pod, in MiB.
    pub memory_mib: i64,
    /// Whether pods bear only so much latency to the user.
    pub latency: bool,
    /// Latency that is pleasant, in ms.
    pub latency_soft_ms: f64,
    /// Latency that is bearable, in ms.
    pub latency_hard_ms: f64,
}

impl Default for Thesis1 {
    fn default() -> Self {
        Self {
            rounds: 500,
            pods: 30,
            interval_s: 5.0,
            hold_s: 30.0,
            pause_s: 30.0,
            cpu_milli: 250,
            memory_mib: 64,
            latency: false,
            latency_soft_ms: 20.0,
            latency_hard_ms: 30.0,
        }
    }
}

/// Settings of test 2: for each new deployment the oldest is deleted, so that as many stay alive.
///
/// The variant with energy and latency has `alive = 20` and `latency = true`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Thesis2 {
    /// Deployments, of one pod each, in all.
    pub pods: u32,
    /// How many stay alive.
    pub alive: u32,
    /// From one creation to the next, in seconds.
    pub interval_s: f64,
    /// CPU of a pod, in thousandths of a core.
    pub cpu_milli: i64,
    /// Memory of a pod, in MiB.
    pub memory_mib: i64,
    /// Whether pods bear only so much latency to the user.
    pub latency: bool,
    /// Latency that is pleasant, in ms.
    pub latency_soft_ms: f64,
    /// Latency that is bearable, in ms.
    pub latency_hard_ms: f64,
}

impl Default for Thesis2 {
    fn default() -> Self {
        Self {
            pods: 500,
            alive: 30,
            interval_s: 10.0,
            cpu_milli: 250,
            memory_mib: 64,
            latency: false,
            latency_soft_ms: 20.0,
            latency_hard_ms: 30.0,
        }
    }
}

impl Thesis1 {
    pub(super) fn generate(&self) -> Result<Workload, String> {
        positive("interval_s", self.interval_s)?;
        not_negative("hold_s", self.hold_s)?;
        not_negative("pause_s", self.pause_s)?;
        at_least_one("rounds", self.rounds)?;
        at_least_one("pods", self.pods)?;
        few_enough(f64::from(self.rounds) * f64::from(self.pods))?;
        let creations = f64::from(self.pods - 1) * self.interval_s;
        let round_s = creations + self.hold_s + self.pause_s;
        not_too_long(round_s * f64::from(self.rounds))?;
        let latency = constraint(self.latency, self.latency_soft_ms, self.latency_hard_ms)?;
        let template = template(self.cpu_milli, self.memory_mib, latency)?;
        let mut builder = Builder::new();
        let template = builder.template(template);
        for round in 0..self.rounds {
            let start = f64::from(round) * round_s;
            let deletion = time(start + creations + self.hold_s);
            for at in 0..self.pods {
                let arrival = time(start + f64::from(at) * self.interval_s);
                let lifetime = Lifetime::exactly(deletion.saturating_sub(arrival));
                let name = format!("round-{round}-{at}");
                add(&mut builder, one_pod(name, template, arrival, Some(lifetime), round * self.pods + at));
            }
        }
        Ok(builder.finish("", Vec::new()))
    }
}

impl Thesis2 {
    pub(super) fn generate(&self) -> Result<Workload, String> {
        positive("interval_s", self.interval_s)?;
        at_least_one("pods", self.pods)?;
        at_least_one("alive", self.alive)?;
        few_enough(f64::from(self.pods))?;
        not_too_long(self.interval_s * f64::from(self.pods))?;
        let latency = constraint(self.latency, self.latency_soft_ms, self.latency_hard_ms)?;
        let template = template(self.cpu_milli, self.memory_mib, latency)?;
        let mut builder = Builder::new();
        let template = builder.template(template);
        let created = |at: u32| time(f64::from(at) * self.interval_s);
        for at in 0..self.pods {
            // The last ones are the oldest of nothing: they run to the end.
            let deleted_for = at.checked_add(self.alive).filter(|next| *next < self.pods);
            let lifetime = deleted_for.map(|next| Lifetime::exactly(created(next).saturating_sub(created(at))));
            add(&mut builder, one_pod(format!("pod-{at}"), template, created(at), lifetime, at));
        }
        Ok(builder.finish("", Vec::new()))
    }
}

fn one_pod(name: String, template: u32, arrival: Duration, lifetime: Option<Lifetime>, owner: u32) -> PodRecord {
    PodRecord { name: name.into(), template, owner, arrival, lifetime, usage: None }
}

fn template(cpu_milli: i64, memory_mib: i64, latency: Option<LatencyConstraint>) -> Result<Template, String> {
    let shape = Shape::plain(1.0, cpu_milli, memory_mib);
    Mix::check(std::slice::from_ref(&shape))?;
    Ok(shape.template(latency))
}

/// The latency that pods bear, where that is asked for.
pub(super) fn constraint(wanted: bool, soft_ms: f64, hard_ms: f64) -> Result<Option<LatencyConstraint>, String> {
    positive("latency_soft_ms", soft_ms)?;
    positive("latency_hard_ms", hard_ms)?;
    if hard_ms < soft_ms {
        return Err(format!("latency_hard_ms, {hard_ms}, is below latency_soft_ms, {soft_ms}"));
    }
    Ok(wanted.then_some(LatencyConstraint { soft_ms, hard_ms }))
}

fn not_negative(name: &str, value: f64) -> Result<(), String> {
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    Err(format!("{name} is {value}; it must be 0 or more"))
}

fn at_least_one(name: &str, value: u32) -> Result<(), String> {
    if value > 0 {
        return Ok(());
    }
    Err(format!("{name} is 0; it must be at least 1"))
}

fn not_too_long(seconds: f64) -> Result<(), String> {
    if seconds <= MAX_SECONDS as f64 {
        return Ok(());
    }
    Err(format!("these settings take {seconds} s; {MAX_SECONDS} s are the most"))
}
