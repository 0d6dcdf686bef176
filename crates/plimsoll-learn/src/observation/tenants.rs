//! Who is on a node, and how long that will keep it busy.

use super::encoder::hours_feature;
use crate::lifetime::{Curve, HORIZONS, History, Horizons, Predictor, Seen, horizon_hours};
use plimsoll_core::state::{ClusterState, Node, Pod, PodId};
use std::time::Duration;

/// A pod on a node.
#[derive(Debug, Clone)]
struct Tenant {
    id: PodId,
    /// When it started; tells a pod from a later one with the same id.
    start_time: Option<i64>,
    since: f64,
    seen: Seen,
    chapter: u32,
    curve: Curve,
}

/// The pods on a node, and the outlook of the node.
#[derive(Debug, Clone)]
pub struct Tenants {
    pods: Vec<Tenant>,
    /// For each span of time ahead, the chance that all pods are gone in the midst of it.
    gone: Horizons,
    /// How long the node will stay busy, as a feature.
    remaining: f32,
    reckoned_at: f64,
    changed_at: f64,
}

impl Default for Tenants {
    fn default() -> Self {
        Self { pods: Vec::new(), gone: [1.0; HORIZONS], remaining: 0.0, reckoned_at: 0.0, changed_at: 0.0 }
    }
}

/// What is known of lifetimes: how pods fared, and what follows from it.
#[derive(Debug, Clone)]
pub struct Lifetimes {
    /// How pods fared so far.
    pub history: History,
    /// The predictor.
    pub predictor: Predictor,
    /// How long each span of time ahead is, in hours.
    pub hours: Horizons,
}

impl Lifetimes {
    /// Nothing is seen yet.
    pub fn new(predictor: Predictor) -> Self {
        Self { history: History::default(), predictor, hours: horizon_hours() }
    }

    /// The survival curve of a pod, as far as is known now.
    pub fn curve(&self, seen: &Seen) -> Curve {
        self.predictor.curve(&self.history.features(seen))
    }
}

/// What a scheduler sees of a pod.
pub fn seen(state: &ClusterState, id: PodId, pod: &Pod, arrived: f64) -> Seen {
    let told = state.telemetry.pod(id);
    let shape = &state.shape_of(pod).shape;
    let wanted = &shape.local.resources.wanted;
    Seen {
        cpu_milli: wanted.cpu,
        memory: wanted.memory,
        priority: shape.priority,
        gpus: told.gpus.map_or(0, |(count, _)| count),
        owner: told.owner,
        template: pod.shape.index() as u64,
        group: told.owner.map_or(1, |owner| state.telemetry.pods_of(owner)),
        arrived: arrived as f32,
    }
}

/// A look ahead is made anew when so much time passed since the last change of the node, as a share of that time: what has not
/// changed for long will not change soon.
const STALE_SHARE: f64 = 0.1;
/// And never sooner than this, in seconds.
const STALE_AT_LEAST: f64 = 150.0;

impl Tenants {
    /// Takes note of who came and who left.
    pub fn follow(&mut self, state: &ClusterState, node: &Node, lifetimes: &mut Lifetimes) {
        let now = state.telemetry.now.as_secs_f64();
        let mut before = std::mem::take(&mut self.pods);
        self.pods.reserve(node.pods.len());
        for (at, &id) in node.pods.iter().enumerate() {
            let Some(pod) = state.pod(id) else { continue };
            let is_it = |tenant: &Tenant| {
                tenant.id == id && (tenant.start_time == pod.start_time || tenant.start_time.is_none())
            };
            let known = match before.get(at) {
                Some(tenant) if is_it(tenant) => Some(at),
                _ => before.iter().position(is_it),
            };
            // A pod that is found leaves its place to nobody, so that those who are left over have gone.
            let tenant = match known {
                Some(at) => {
                    let mut tenant = before[at].clone();
                    before[at].since = f64::INFINITY;
                    if tenant.start_time.is_none() && pod.start_time.is_some() {
                        tenant.start_time = pod.start_time;
                        tenant.since = started(pod, now);
                    }
                    tenant
                }
                None => {
                    let since = started(pod, now);
                    let seen = seen(state, id, pod, since);
                    let chapter = lifetimes.history.chapter(seen.owner);
                    Tenant { id, start_time: pod.start_time, since, seen, chapter, curve: lifetimes.curve(&seen) }
                }
            };
            self.pods.push(tenant);
        }
        for gone in before.iter().filter(|tenant| tenant.since.is_finite()) {
            lifetimes.history.ended(&gone.seen, (now - gone.since) as f32);
        }
        self.changed_at = now;
        self.reckon(now, lifetimes);
    }

    /// Works out the outlook anew if it is stale, and says whether it was.
    pub fn refresh(&mut self, now: Duration, lifetimes: &Lifetimes) -> bool {
        let now = now.as_secs_f64();
        let stale = ((now - self.changed_at) * STALE_SHARE).max(STALE_AT_LEAST);
        let renews = !self.pods.is_empty() && now - self.reckoned_at >= stale;
        if renews {
            self.reckon(now, lifetimes);
        }
        renews
    }

    fn reckon(&mut self, now: f64, lifetimes: &Lifetimes) {
        self.reckoned_at = now;
        self.gone = [1.0; HORIZONS];
        for tenant in &mut self.pods {
            let chapter = lifetimes.history.chapter(tenant.seen.owner);
            if chapter != tenant.chapter {
                tenant.chapter = chapter;
                tenant.curve = lifetimes.curve(&tenant.seen);
            }
            let ahead = tenant.curve.ahead((now - tenant.since).max(0.0) as f32);
            for (gone, alive) in self.gone.iter_mut().zip(ahead) {
                *gone *= 1.0 - alive;
            }
        }
        let busy_hours = self.gone.iter().zip(&lifetimes.hours).map(|(gone, hours)| (1.0 - gone) * hours).sum();
        self.remaining = hours_feature(busy_hours);
    }

    /// How long the node will stay busy, as a feature.
    pub fn remaining(&self) -> f32 {
        self.remaining
    }

    /// How many pods of an owner are on the node.
    pub fn siblings(&self, owner: Option<u64>) -> usize {
        self.pods.iter().filter(|tenant| owner.is_some() && tenant.seen.owner == owner).count()
    }

    /// How much longer the node is busy with a pod, in hours. `life_hours` are the pod's chances to run, times the length of each span.
    pub fn extension(&self, life_hours: &Horizons) -> f32 {
        self.gone.iter().zip(life_hours).map(|(gone, hours)| gone * hours).sum()
    }
}

/// When a pod started; now, if it is about to.
fn started(pod: &Pod, now: f64) -> f64 {
    pod.start_time.map_or(now, |nanoseconds| nanoseconds as f64 / 1e9)
}
