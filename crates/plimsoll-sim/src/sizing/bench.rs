//! A fleet judged by a simulation.

use super::catalogue::Kind;
use super::{HeldOut, Objective, PoolRow, Question, Row, SizingError};
use crate::compare::{CompareError, Make};
use crate::fleet::{Fleet, Pool, Scaling};
use crate::simulation::{self, Observer, Seen, Settings, Setup};
use crate::workload::Workload;
use crate::world::World;
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

/// How many machines of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PoolSize {
    /// At least so many.
    pub min: usize,
    /// At most so many.
    pub max: usize,
    /// How long a machine stays empty before it is given back; none where the pool stays as it is.
    pub idle_after: Option<Duration>,
}

impl PoolSize {
    /// A pool that stays as it is.
    pub fn fixed(count: usize) -> Self {
        Self { min: count, max: count, idle_after: None }
    }
}

/// A fleet: one size a kind, in the order of the catalogue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate(pub Vec<PoolSize>);

impl Candidate {
    /// Pools that stay as they are.
    pub fn fixed(counts: impl IntoIterator<Item = usize>) -> Self {
        Self(counts.into_iter().map(PoolSize::fixed).collect())
    }

    /// The most machines that it may have of each kind.
    pub fn counts(&self) -> impl Iterator<Item = usize> {
        self.0.iter().map(|pool| pool.max)
    }

    /// The most machines that it may have.
    pub fn machines(&self) -> usize {
        self.counts().sum()
    }
}

/// What a simulation of a fleet came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    /// Hours over which it was measured.
    pub hours: f64,
    /// Machines there were, on average over time, in use or not.
    pub machines: f64,
    /// Money for them; none if a machine has no price.
    pub cost: Option<f64>,
    /// Energy, in kWh.
    pub kwh: f64,
    /// Carbon dioxide of the energy and of making the machines, in kg; none if nothing is known of it.
    pub co2_kg: Option<f64>,
    /// The part of it that is of making the machines.
    pub embodied_kg: f64,
    /// Seconds from arrival to start, half of the pods wait less.
    pub wait_p50_s: f64,
    /// Seconds from arrival to start, 99 % of the pods wait less.
    pub wait_p99_s: f64,
    /// Pods that arrived.
    pub pods: usize,
    /// Pods that waited longer than they may, or were removed for others.
    pub late: usize,
    /// The share of the pods that those are.
    pub late_share: f64,
    /// Pods that were never placed.
    pub never_placed: usize,
    /// A checksum over every placement.
    pub placements_checksum: String,
}

impl Figures {
    /// What is to be least.
    pub fn value(&self, objective: Objective) -> f64 {
        match objective {
            Objective::Cost => self.cost.unwrap_or(f64::INFINITY),
            Objective::Energy => self.kwh,
            Objective::Carbon => self.co2_kg.unwrap_or(f64::INFINITY),
        }
    }

    /// Whether no more pods waited too long than may.
    pub fn keeps(&self, risk: f64) -> bool {
        self.late <= allowance(risk, self.pods)
    }
}

/// How many of so many pods may wait too long.
pub fn allowance(risk: f64, pods: usize) -> usize {
    // A share such as 0.01 of 700 must be 7, whatever its last bit is.
    (risk * pods as f64 + 1e-9).floor() as usize
}

/// Pods, and the time over which they are looked at.
#[derive(Debug, Clone)]
pub struct Part<'a> {
    pub workload: Cow<'a, Workload>,
    pub settings: Settings,
}

impl Part<'_> {
    /// From when to when it is measured.
    pub fn measured(&self) -> (Duration, Duration) {
        let end = self.settings.horizon.unwrap_or_else(|| self.workload.span());
        (end.mul_f64(self.settings.warmup.clamp(0.0, 1.0)), end)
    }

    /// For how many hours.
    pub fn hours(&self) -> f64 {
        let (from, to) = self.measured();
        (to - from).as_secs_f64() / 3600.0
    }
}

/// Judges fleets.
pub struct Bench<'a> {
    pub question: &'a Question,
    pub kinds: &'a [Kind],
    world: &'a World,
    make: Make<'a>,
}

impl<'a> Bench<'a> {
    pub fn new(question: &'a Question, kinds: &'a [Kind], world: &'a World, make: Make<'a>) -> Self {
        Self { question, kinds, world, make }
    }

    /// Simulates a fleet on a part of the workload.
    pub fn run(&self, part: &Part<'_>, candidate: &Candidate) -> Result<Figures, SizingError> {
        let fleet = self.fleet(candidate);
        let policy = &self.question.policy;
        let setup = Setup { workload: &part.workload, fleet: &fleet, world: self.world, settings: &part.settings };
        let (from, to) = part.measured();
        let mut roster = Roster::new(from);
        let outcome = simulation::run(setup, (self.make)(policy)?, &mut roster)
            .map_err(|error| CompareError::Simulation { policy: policy.clone(), error: Box::new(error) })?;
        let hours_of = roster.finish(to);
        let sum = |rate: &dyn Fn(&Kind) -> f64| -> f64 {
            let hours = |kind: &Kind| hours_of.get(&kind.pool.name).copied().unwrap_or(0.0);
            self.kinds.iter().map(|kind| rate(kind) * hours(kind)).sum()
        };
        let has_prices = self.kinds.iter().all(|kind| kind.price.is_some());
        let embodied_kg = sum(&|kind| kind.embodied_kg_hourly);
        let measures = outcome.measures;
        let pods = outcome.waits.pods();
        // A pod that had to go for another is not where it was asked for: it counts as one that waits.
        let removed = usize::try_from(measures.preemptions).unwrap_or(usize::MAX);
        let late = outcome.waits.longer_than(self.question.wait.as_secs_f64()).saturating_add(removed).min(pods);
        Ok(Figures {
            hours: measures.hours,
            machines: if measures.hours > 0.0 { sum(&|_| 1.0) / measures.hours } else { 0.0 },
            cost: has_prices.then(|| sum(&|kind| kind.price.unwrap_or(0.0))),
            kwh: measures.kwh,
            co2_kg: measures.co2_kg.map(|kg| kg + embodied_kg),
            embodied_kg,
            wait_p50_s: measures.wait_p50_s,
            wait_p99_s: measures.wait_p99_s,
            pods,
            late,
            late_share: if pods > 0 { late as f64 / pods as f64 } else { 0.0 },
            never_placed: outcome.waits.unserved.len(),
            placements_checksum: outcome.checksum,
        })
    }

    /// The machines of a candidate; those that scale begin with the most they may have, and give back what they do not need.
    fn fleet(&self, candidate: &Candidate) -> Fleet {
        let pools = self.kinds.iter().zip(&candidate.0).filter(|(_, size)| size.max > 0);
        let pool = |(kind, size): (&Kind, &PoolSize)| Pool {
            count: size.max,
            scaling: size.idle_after.map(|idle_after| Scaling {
                min: size.min,
                max: size.max,
                boot_delay: kind.boot_delay,
                idle_after,
            }),
            ..kind.pool.clone()
        };
        Fleet { pools: pools.map(pool).collect() }
    }

    /// What a fleet that stays as it is costs, which no simulation need say.
    pub fn known_value(&self, candidate: &Candidate, hours: f64) -> Option<f64> {
        let is_known = self.question.objective == Objective::Cost;
        let is_fixed = candidate.0.iter().all(|pool| pool.idle_after.is_none());
        (is_known && is_fixed).then(|| {
            let pools = self.kinds.iter().zip(candidate.counts());
            pools.map(|(kind, count)| kind.price.unwrap_or(0.0) * count as f64 * hours).sum()
        })
    }

    /// A fleet as it is told.
    pub fn row(&self, candidate: &Candidate, figures: &Figures, bound: f64, rest: Option<Figures>) -> Row {
        let pools = self.kinds.iter().zip(&candidate.0).filter(|(_, size)| size.max > 0);
        let pool = |(kind, size): (&Kind, &PoolSize)| PoolRow {
            name: kind.pool.name.clone(),
            min: size.min,
            max: size.max,
            idle_after_s: size.idle_after.map(|time| time.as_secs()),
        };
        let value = figures.value(self.question.objective);
        let held_out = rest.map(|figures| HeldOut { keeps_risk: figures.keeps(self.question.risk), figures });
        Row {
            pools: pools.map(pool).collect(),
            ratio: if bound > 0.0 { value / bound } else { 1.0 },
            figures: figures.clone(),
            held_out,
        }
    }
}

/// Who was there for how long: machines cost while they are there, awake or asleep.
struct Roster {
    from: Duration,
    joined: BTreeMap<String, Duration>,
    hours: BTreeMap<String, f64>,
}

impl Roster {
    fn new(from: Duration) -> Self {
        Self { from, joined: BTreeMap::new(), hours: BTreeMap::new() }
    }

    fn leave(&mut self, name: &str, now: Duration) {
        let Some(joined) = self.joined.remove(name) else { return };
        // Nodes are called after their pool, with a number at the end.
        let pool = name.rsplit_once('-').map_or(name, |(pool, _)| pool);
        let hours = now.saturating_sub(joined.max(self.from)).as_secs_f64() / 3600.0;
        *self.hours.entry(pool.to_owned()).or_default() += hours;
    }

    /// Hours by pool.
    fn finish(mut self, end: Duration) -> BTreeMap<String, f64> {
        for name in self.joined.keys().cloned().collect::<Vec<_>>() {
            self.leave(&name, end);
        }
        self.hours
    }
}

impl Observer for Roster {
    fn see(&mut self, now: Duration, seen: Seen<'_>) {
        match seen {
            Seen::Node(node) => {
                if let Some(name) = &node.metadata.name {
                    self.joined.entry(name.clone()).or_insert(now);
                }
            }
            Seen::NodeGone(name) => self.leave(name, now),
            _ => {}
        }
    }
}
