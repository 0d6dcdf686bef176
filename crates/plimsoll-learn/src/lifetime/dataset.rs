//! What a recorded workload teaches of lifetimes: pods as they were seen, from which age on, and when they ended.

use super::curve::{AGES, Curve};
use super::history::{FEATURES, History, Seen};
use plimsoll_core::rng::Rng;
use plimsoll_sim::simulation::lifetimes;
use plimsoll_sim::workload::Workload;
use rustc_hash::FxHashMap;
use std::time::Duration;

/// One look at a pod.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// How it was seen.
    pub features: [f32; FEATURES],
    /// The step of age from which on it was watched.
    pub from: usize,
    /// The step in which it ended or was lost sight of.
    pub to: usize,
    /// Whether it ended.
    pub ended: bool,
}

/// Looks at the pods of a workload.
#[derive(Debug, Clone, Default)]
pub struct Dataset {
    /// The looks.
    pub samples: Vec<Sample>,
    /// From when on looks are kept, in seconds.
    pub from: f64,
}

/// How many of an owner's running pods are looked at again when one of its pods ends: all would drown the others.
const SIBLINGS: usize = 3;

struct Life {
    seen: Seen,
    arrived: f64,
    ends: f64,
}

impl Dataset {
    /// Looks at the pods that come before `until`, as somebody would who knows nothing of what is after it.
    pub fn new(workload: &Workload, until: Duration, seed: u64) -> Self {
        Self::after(workload, Duration::ZERO, until, seed)
    }

    /// The same, but only looks from `from` on are kept: the time before is history.
    pub fn after(workload: &Workload, from: Duration, until: Duration, seed: u64) -> Self {
        let from = from.as_secs_f64();
        let until = until.as_secs_f64();
        let lives: Vec<_> = lives(workload, seed).into_iter().filter(|life| life.arrived < until).collect();
        let mut ends: Vec<usize> = (0..lives.len()).filter(|at| lives[*at].ends < until).collect();
        ends.sort_by(|a, b| lives[*a].ends.total_cmp(&lives[*b].ends));
        let mut ends = ends.into_iter().peekable();
        let (mut history, mut rng) = (History::default(), Rng::new(seed));
        let mut running: FxHashMap<u64, Vec<usize>> = FxHashMap::default();
        let mut data = Self { from, ..Self::default() };
        for (number, life) in lives.iter().enumerate() {
            while let Some(ended) = ends.next_if(|at| lives[*at].ends <= life.arrived) {
                data.look_at_siblings(&lives, ended, &mut history, &mut running, &mut rng, until);
            }
            data.look(&history, life, life.arrived, until);
            if let Some(owner) = life.seen.owner {
                running.entry(owner).or_default().push(number);
            }
        }
        for ended in ends {
            data.look_at_siblings(&lives, ended, &mut history, &mut running, &mut rng, until);
        }
        data
    }

    /// A pod ends; some of those that its owner still runs are looked at with that knowledge.
    fn look_at_siblings(
        &mut self,
        lives: &[Life],
        ended: usize,
        history: &mut History,
        running: &mut FxHashMap<u64, Vec<usize>>,
        rng: &mut Rng,
        until: f64,
    ) {
        let life = &lives[ended];
        history.ended(&life.seen, (life.ends - life.arrived) as f32);
        let Some(siblings) = life.seen.owner.and_then(|owner| running.get_mut(&owner)) else { return };
        siblings.retain(|other| *other != ended);
        for _ in 0..SIBLINGS.min(siblings.len()) {
            let other = siblings[rng.below(siblings.len())];
            self.look(history, &lives[other], life.ends, until);
        }
    }

    fn look(&mut self, history: &History, life: &Life, now: f64, until: f64) {
        let ended = life.ends < until;
        let age = |time: f64| Curve::step((time - life.arrived) as f32);
        let mut seen = life.seen;
        if now > life.arrived {
            // Those that ended no longer belong to the group.
            seen.group = seen.group.saturating_sub(1).max(1);
        }
        let sample = Sample { features: history.features(&seen), from: age(now), to: age(life.ends.min(until)), ended };
        if now >= self.from && (sample.ended || sample.to > sample.from) {
            self.samples.push(sample);
        }
    }

    /// Log-odds of ending in each step of age, over all samples that were looked at from the beginning.
    pub fn common(&self) -> Vec<f32> {
        let (mut reached, mut ended) = ([0.0_f64; AGES], [0.0_f64; AGES]);
        for sample in self.samples.iter().filter(|sample| sample.from == 0) {
            // Who was lost sight of within a step says nothing of it.
            let whole = sample.to + usize::from(sample.ended);
            for slot in &mut reached[..whole] {
                *slot += 1.0;
            }
            if sample.ended {
                ended[sample.to] += 1.0;
            }
        }
        // Where nobody got to, an eighth ends with each step: about as many as of the oldest that are known anywhere.
        let odds = reached.iter().zip(ended).map(|(reached, ended)| {
            let hazard = (ended + 0.125 * 4.0) / (reached + 4.0);
            (hazard / (1.0 - hazard)).ln() as f32
        });
        odds.collect()
    }
}

/// The pods of a workload with when they come and end, if none of them waits; by arrival.
fn lives(workload: &Workload, seed: u64) -> Vec<Life> {
    let mut groups: FxHashMap<(u32, Duration), u32> = FxHashMap::default();
    for pod in &workload.pods {
        *groups.entry((pod.owner, pod.arrival)).or_default() += 1;
    }
    let pods = workload.pods.iter().zip(lifetimes(workload, seed)).filter_map(|(pod, lifetime)| {
        let template = workload.templates.get(pod.template as usize)?;
        let arrived = pod.arrival.as_secs_f64();
        let seen = Seen {
            cpu_milli: template.cpu_milli,
            memory: template.memory,
            priority: template.priority,
            gpus: template.gpus().map_or(0, |gpu| gpu.count),
            owner: Some(u64::from(pod.owner)),
            template: u64::from(pod.template),
            group: groups.get(&(pod.owner, pod.arrival)).copied().unwrap_or(1),
            arrived: arrived as f32,
        };
        Some(Life { seen, arrived, ends: lifetime.map_or(f64::INFINITY, |life| arrived + life.as_secs_f64()) })
    });
    pods.collect()
}
