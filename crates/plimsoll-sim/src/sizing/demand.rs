//! What surely runs at each time, whatever the policy, if no more pods wait too long than may.
//!
//! A pod that starts within the time it may wait runs at least from the end of that time to the end of its lifetime counted from its
//! arrival. The pods that may wait longer can be taken off, as many as the risk allows: at an instant, for each resource by itself, no more
//! than the largest of those that run; over the whole time, no more than those that take most of it. What is left is a demand that every
//! fleet has to bear, so what it costs to serve is a lower bound. Pods that only some kinds of machines can run make a demand on those kinds.

use super::bench::{Part, allowance};
use super::catalogue::Kind;
use super::{Question, SizingError};
use crate::bounds::demand::{RESOURCES, supplies};
use crate::scenario::Prepared;
use crate::simulation::{self, Objects};
use crate::workload::{PodRecord, Template};
use std::collections::BTreeSet;
use std::time::Duration;

/// Into how many steps the time is cut: enough for hours of a month to be told apart.
const STEPS: u32 = 720;

/// Which kinds of machines can run the pods of each template.
pub type Able = Vec<Vec<bool>>;

/// What surely runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Surely {
    /// The most at any time of pods that these kinds alone can run.
    pub peaks: Vec<Peak>,
    /// The averages over time.
    pub steps: Vec<Step>,
    /// What the pods that may wait can take off over the whole time, in hours of each resource.
    pub may_miss: [f64; RESOURCES],
    /// When most is asked for, as a share of what the machines of the catalogue have.
    pub peak_at: Duration,
}

/// The most that is asked of some kinds.
#[derive(Debug, Clone, PartialEq)]
pub struct Peak {
    pub kinds: Vec<bool>,
    pub amounts: [f64; RESOURCES],
}

/// What is asked for over a step, on average.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    pub from: Duration,
    pub to: Duration,
    /// Of all pods.
    pub asked: [f64; RESOURCES],
    /// Of those that may wait, at most.
    pub may_wait: [f64; RESOURCES],
}

impl Step {
    pub fn hours(&self) -> f64 {
        (self.to - self.from).as_secs_f64() / 3600.0
    }
}

/// Asks the engine which kinds can run which pods; a pod that none can run is an error.
pub fn able(prepared: &Prepared, kinds: &[Kind]) -> Result<Able, SizingError> {
    let workload = &prepared.workload;
    let objects = Objects::new(workload);
    let mut first: Vec<Option<&PodRecord>> = vec![None; workload.templates.len()];
    for pod in &workload.pods {
        if let Some(first) = first.get_mut(pod.template as usize) {
            first.get_or_insert(pod);
        }
    }
    let mut able = Vec::with_capacity(first.len());
    for (template, record) in workload.templates.iter().zip(first) {
        let Some(record) = record else {
            able.push(vec![true; kinds.len()]);
            continue;
        };
        let can = |kind: &Kind| {
            let could_run =
                simulation::could_run(&prepared.settings.configuration, &kind.pool, template, record, &objects)?;
            Ok(kind.most > 0 && could_run)
        };
        let those: Vec<bool> = kinds.iter().map(can).collect::<Result<_, SizingError>>()?;
        if !those.contains(&true) {
            return Err(no_machine(record, template, kinds));
        }
        able.push(those);
    }
    Ok(able)
}

fn no_machine(record: &PodRecord, template: &Template, kinds: &[Kind]) -> SizingError {
    let asked = asks(template);
    let lacks = |kind: &Kind| {
        if kind.most == 0 {
            return format!("{} cannot be had (most = 0)", kind.pool.name);
        }
        let short = asked.iter().zip(supplies(&kind.pool.machine)).map(|(asked, has)| asked - has);
        let short: Vec<_> =
            short.enumerate().filter(|(_, amount)| *amount > 0).map(|(r, amount)| words(r, amount)).collect();
        match short.is_empty() {
            false => format!("{} lacks {}", kind.pool.name, short.join(" and ")),
            true => format!("{} has not the labels, GPUs or taints that it wants", kind.pool.name),
        }
    };
    let asks: Vec<_> = (0..3).filter(|r| asked[*r] > 0).map(|r| words(r, asked[r])).collect();
    SizingError::NoMachine {
        pod: format!("{}/{}", template.namespace(), record.name),
        asks: asks.join(", "),
        shortage: kinds.iter().map(lacks).collect::<Vec<_>>().join("; "),
    }
}

/// An amount of a resource in words.
pub fn words(resource: usize, amount: i64) -> String {
    let number = |value: f64| format!("{value:.2}").trim_end_matches('0').trim_end_matches('.').to_owned();
    match resource {
        0 => format!("{} CPU", number(amount as f64 / 1000.0)),
        1 => format!("{}Gi of memory", number(amount as f64 / f64::from(1 << 30))),
        2 => format!("{} GPUs", number(amount as f64 / 1000.0)),
        _ => format!("{amount} places for pods"),
    }
}

fn asks(template: &Template) -> [i64; RESOURCES] {
    let gpus = template.gpus().map_or(0, |gpu| i64::from(gpu.count) * i64::from(gpu.milli));
    [template.cpu_milli.max(0), template.memory.max(0), gpus, 1]
}

/// What surely runs of a part of the workload.
pub fn surely_running(part: &Part<'_>, able: &Able, kinds: &[Kind], question: &Question) -> Surely {
    let (from, to) = part.measured();
    let workload = &part.workload;
    let counts = |pod: &PodRecord| pod.arrival >= from && pod.arrival <= to;
    let lifetimes = simulation::lifetimes(workload, part.settings.seed);
    let pods = workload.pods.iter().filter(|pod| counts(pod)).count();
    let may_wait = allowance(question.risk, pods);

    let mut changes: Vec<(Duration, bool, u32)> = Vec::new();
    let mut taken: [Vec<f64>; RESOURCES] = Default::default();
    for (pod, lifetime) in workload.pods.iter().zip(lifetimes).filter(|(pod, _)| counts(pod)) {
        let begin = pod.arrival.saturating_add(question.wait);
        let end = lifetime.map_or(to, |lifetime| pod.arrival.saturating_add(lifetime)).min(to);
        if begin < end {
            changes.push((begin, true, pod.template));
            changes.push((end, false, pod.template));
            let hours = (end - begin).as_secs_f64() / 3600.0;
            let asks = workload.templates.get(pod.template as usize).map_or([0; RESOURCES], asks);
            for (taken, amount) in taken.iter_mut().zip(asks) {
                taken.push(amount as f64 * hours);
            }
        }
    }
    // What ends makes room for what begins at the same time.
    changes.sort_unstable();
    let sets: BTreeSet<Vec<bool>> =
        able.iter().cloned().chain([vec![true; able.first().map_or(0, Vec::len)]]).collect();
    let mut tallies: Vec<Tally> =
        sets.into_iter().map(|kinds| Tally::new(kinds, &workload.templates, able, may_wait)).collect();
    let has = total(kinds);
    let mut course = Course::new(from, to);
    let mut peak = (0.0, from);
    for (at, (now, begins, template)) in changes.iter().enumerate() {
        for tally in &mut tallies {
            tally.change(*template as usize, *begins);
        }
        let next = changes.get(at + 1).map_or(to, |(next, ..)| *next);
        if next <= *now {
            continue;
        }
        for tally in &mut tallies {
            tally.note_peak();
        }
        // The last set is the largest: that of all kinds, which counts every pod.
        let Some(all) = tallies.last() else { continue };
        let asked: [f64; RESOURCES] = std::array::from_fn(|r| all.sum[r] as f64);
        course.add(*now, next, asked, std::array::from_fn(|r| asked[r] - all.left(r)));
        let share = (0..RESOURCES).filter(|r| has[*r] > 0.0).map(|r| all.sum[r] as f64 / has[r]).fold(0.0, f64::max);
        if share > peak.0 {
            peak = (share, *now);
        }
    }
    let peaks = tallies.into_iter().map(|tally| Peak { kinds: tally.kinds, amounts: tally.peak });
    Surely {
        peaks: peaks.filter(|peak| peak.amounts != [0.0; RESOURCES]).collect(),
        steps: course.steps,
        may_miss: taken.map(|taken| largest(taken, may_wait)),
        peak_at: peak.1,
    }
}

/// The sum of the largest.
fn largest(mut amounts: Vec<f64>, number: usize) -> f64 {
    amounts.sort_unstable_by(|a, b| b.total_cmp(a));
    amounts.iter().take(number).sum()
}

fn total(kinds: &[Kind]) -> [f64; RESOURCES] {
    let mut total = [0.0; RESOURCES];
    for kind in kinds {
        for (sum, has) in total.iter_mut().zip(supplies(&kind.pool.machine)) {
            *sum += has as f64 * kind.most as f64;
        }
    }
    total
}

/// The running pods that no kinds but some can run, counted by what they ask for.
struct Tally {
    kinds: Vec<bool>,
    may_wait: usize,
    /// For each resource what pods ask for, the largest first.
    amounts: [Vec<i64>; RESOURCES],
    /// How many of the running pods ask for that.
    counts: [Vec<usize>; RESOURCES],
    /// Where each template's amounts are; none for a template that other kinds can run.
    places: Vec<Option<[usize; RESOURCES]>>,
    sum: [i128; RESOURCES],
    peak: [f64; RESOURCES],
}

impl Tally {
    fn new(kinds: Vec<bool>, templates: &[Template], able: &Able, may_wait: usize) -> Self {
        let belongs = |able: &[bool]| able.iter().zip(&kinds).all(|(able, among)| !able || *among);
        let amounts: [Vec<i64>; RESOURCES] = std::array::from_fn(|r| {
            let all: BTreeSet<i64> = templates.iter().map(|template| asks(template)[r]).collect();
            all.into_iter().rev().collect()
        });
        let place = |template: &Template| {
            let asks = asks(template);
            std::array::from_fn(|r| amounts[r].partition_point(|amount| *amount > asks[r]))
        };
        let places =
            templates.iter().zip(able).map(|(template, able)| belongs(able).then(|| place(template))).collect();
        let counts = std::array::from_fn(|r| vec![0; amounts[r].len()]);
        Self { kinds, may_wait, amounts, counts, places, sum: [0; RESOURCES], peak: [0.0; RESOURCES] }
    }

    fn change(&mut self, template: usize, begins: bool) {
        let Some(Some(places)) = self.places.get(template) else { return };
        for (r, place) in places.iter().enumerate() {
            let (count, amount) = (&mut self.counts[r][*place], i128::from(self.amounts[r][*place]));
            if begins {
                *count += 1;
                self.sum[r] += amount;
            } else {
                *count -= 1;
                self.sum[r] -= amount;
            }
        }
    }

    /// What is asked of a resource without the largest pods that may wait.
    fn left(&self, r: usize) -> f64 {
        let mut waiting = self.may_wait;
        let mut sum = self.sum[r];
        for (amount, count) in self.amounts[r].iter().zip(&self.counts[r]) {
            if waiting == 0 {
                break;
            }
            let taken = waiting.min(*count);
            sum -= i128::from(*amount) * taken as i128;
            waiting -= taken;
        }
        sum as f64
    }

    fn note_peak(&mut self) {
        for r in 0..RESOURCES {
            // Taking pods off cannot raise it: most instants need no closer look.
            if self.sum[r] as f64 > self.peak[r] {
                self.peak[r] = self.peak[r].max(self.left(r));
            }
        }
    }
}

/// Averages over steps.
struct Course {
    steps: Vec<Step>,
}

impl Course {
    fn new(from: Duration, to: Duration) -> Self {
        let long = ((to - from) / STEPS).max(Duration::from_millis(1));
        let mut steps = Vec::new();
        let mut begin = from;
        while begin < to {
            let end = if steps.len() + 1 == STEPS as usize { to } else { begin.saturating_add(long).min(to) };
            steps.push(Step { from: begin, to: end, asked: [0.0; RESOURCES], may_wait: [0.0; RESOURCES] });
            begin = end;
        }
        Self { steps }
    }

    fn add(&mut self, begin: Duration, end: Duration, asked: [f64; RESOURCES], may_wait: [f64; RESOURCES]) {
        let first = self.steps.partition_point(|step| step.to <= begin);
        for step in self.steps.iter_mut().skip(first).take_while(|step| step.from < end) {
            let shared = end.min(step.to).saturating_sub(begin.max(step.from));
            let share = shared.as_secs_f64() / (step.to - step.from).as_secs_f64();
            for r in 0..RESOURCES {
                step.asked[r] += asked[r] * share;
                step.may_wait[r] += may_wait[r] * share;
            }
        }
    }
}
