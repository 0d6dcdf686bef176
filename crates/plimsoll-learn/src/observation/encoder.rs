//! From the state of a cluster to features: what changed is looked at anew, the rest is remembered.

use super::features::{
    AWAKE, CALLS, EMPTY, EXTENSION, EXTRA_COST, EXTRA_KWH, FRAGMENTATION, LATENCY_AHEAD, LOOKAHEAD, NODE_FEATURES,
    POD_FEATURES, RISE, SIBLINGS, STATIC_FEATURES, Wanted,
};
use super::rhythm::{Presence, Rhythm, SLOTS, part_of_day, presence};
use super::tenants::{Lifetimes, Tenants, seen};
use crate::lifetime::{HORIZONS, Horizons, Predictor};
use plimsoll_core::framework::Cycle;
use plimsoll_core::policy::FragmentationGradient;
use plimsoll_core::state::{ClusterState, Node, NodeId, PodId};
use plimsoll_core::telemetry::Away;
use std::time::Duration;

/// All features of a node, in the order of [`NODE_FEATURES`].
pub type NodeRow = [f32; NODE_FEATURES.len()];
/// All features of a pod, in the order of [`POD_FEATURES`].
pub type PodRow = [f32; POD_FEATURES.len()];

/// What is known of the pod of a decision.
#[derive(Debug, Clone, Copy)]
pub struct PodFacts {
    /// Its features.
    pub row: PodRow,
    /// For each span of time ahead, the chance that it runs, times the hours of the span.
    life: Horizons,
    /// How long it will run, in hours.
    pub life_hours: f32,
    /// When it will run; of use where latencies to come are wanted.
    presence: Presence,
    now: Duration,
    /// CPU that it asks for, in cores.
    pub cores: f32,
    owner: Option<u64>,
    latency: Option<(f64, f64)>,
    asks_for_gpus: bool,
}

/// What is known of a node for a decision.
#[derive(Debug, Clone, Copy)]
pub struct NodeFacts {
    /// Its features.
    pub row: NodeRow,
    /// How much longer it is busy with the pod, in hours.
    pub extension_hours: f32,
    /// Energy that the pod will cost here, in kWh.
    pub extra_kwh: f32,
    /// Money that the pod will cost here.
    pub extra_cost: f32,
    /// Carbon dioxide that the pod will cost here, in grams.
    pub extra_carbon: f32,
    /// Milliseconds to its users over its life, where that is wanted and known.
    pub latency_ahead: Option<f32>,
}

#[derive(Debug, Clone)]
struct Known {
    tenants: Tenants,
    rhythm: Rhythm,
    row: [f32; STATIC_FEATURES],
    here: bool,
    cpu: (i64, i64),
}

impl Default for Known {
    fn default() -> Self {
        let (tenants, rhythm) = (Tenants::default(), Rhythm::default());
        Self { tenants, rhythm, row: [0.0; STATIC_FEATURES], here: false, cpu: (0, 0) }
    }
}

/// Turns decisions into features.
#[derive(Debug, Clone)]
pub struct Encoder {
    lifetimes: Lifetimes,
    nodes: Vec<Known>,
    /// How far the changes of the state were followed.
    position: Option<u64>,
    /// CPU of all nodes: offered and asked for.
    cpu: (i64, i64),
    busy: usize,
    here: usize,
    changed: Vec<NodeId>,
    /// The node whose outlook is looked at next.
    next_look: usize,
    /// The part of the day up to which the latencies of all nodes were followed.
    part_of_day: usize,
    wanted: Wanted,
}

/// How many outlooks a decision works out anew at least. In a large cluster it is a share of the nodes: no decision pays for all.
const RENEWALS: usize = 16;
const RENEWED_SHARE: usize = 64;
/// How many nodes are looked at for each that may be worked out anew.
const LOOKS: usize = 8;

impl Encoder {
    /// An encoder that has seen nothing yet. Only the features that are wanted, and those that cost no time, are worked out; the others are zero.
    pub fn new(predictor: Predictor, wanted: Wanted) -> Self {
        Self {
            lifetimes: Lifetimes::new(predictor),
            nodes: Vec::new(),
            position: None,
            cpu: (0, 0),
            busy: 0,
            here: 0,
            changed: Vec::new(),
            next_look: 0,
            part_of_day: 0,
            wanted,
        }
    }

    /// Follows what changed; gives the nodes whose static features may be others, each once.
    pub fn follow(&mut self, state: &ClusterState) -> &[NodeId] {
        self.changed.clear();
        let log = &state.changes;
        match self.position.and_then(|position| log.since(position)) {
            Some(changes) => {
                self.changed.extend(changes);
                self.changed.sort_unstable();
                self.changed.dedup();
            }
            None => {
                let limit = state.node_limit().max(self.nodes.len());
                self.changed.extend((0..limit as u32).map(NodeId::new));
            }
        }
        self.position = Some(log.end());
        if self.nodes.len() < state.node_limit() {
            self.nodes.resize_with(state.node_limit(), Known::default);
        }
        for at in 0..self.changed.len() {
            self.follow_node(state, self.changed[at]);
        }
        self.renew(state.telemetry.now);
        self.listen(state.telemetry.now);
        &self.changed
    }

    /// Works out anew the outlooks that time has made stale, node after node, a few in each decision.
    fn renew(&mut self, now: Duration) {
        let mut left = RENEWALS.max(self.nodes.len() / RENEWED_SHARE);
        for _ in 0..self.nodes.len().min(left * LOOKS) {
            self.next_look = if self.next_look + 1 < self.nodes.len() { self.next_look + 1 } else { 0 };
            left -= usize::from(self.nodes[self.next_look].tenants.refresh(now, &self.lifetimes));
            if left == 0 {
                break;
            }
        }
    }

    /// Has nodes whose latency does not change learn that it did not, once in each part of the day.
    fn listen(&mut self, now: Duration) {
        let part = part_of_day(now);
        if self.wanted.has(LATENCY_AHEAD) && self.part_of_day != part {
            self.part_of_day = part;
            self.nodes.iter_mut().for_each(|known| known.rhythm.go_on(now));
        }
    }

    fn follow_node(&mut self, state: &ClusterState, id: NodeId) {
        let Some(known) = self.nodes.get_mut(id.index()) else { return };
        let is_busy = |known: &Known| usize::from(known.here && known.row[EMPTY] == 0.0);
        self.busy -= is_busy(known);
        self.here -= usize::from(known.here);
        self.cpu = (self.cpu.0 - known.cpu.0, self.cpu.1 - known.cpu.1);
        match state.node(id) {
            Some(node) => {
                known.tenants.follow(state, node, &mut self.lifetimes);
                if self.wanted.has(LATENCY_AHEAD) {
                    known.rhythm.follow(state.telemetry.now, state.telemetry.node(id).latency_ms);
                }
                known.row = static_row(state, node);
                known.here = true;
                // What several virtual nodes offer is there once.
                let among = state.telemetry.node(id).shared.map_or(1, |shared| i64::from(shared.among.max(1)));
                known.cpu = (node.allocatable.cpu / among, node.requested.cpu);
            }
            // What was on it is gone with it; nobody ended.
            None => *known = Known::default(),
        }
        self.cpu = (self.cpu.0 + known.cpu.0, self.cpu.1 + known.cpu.1);
        self.here += usize::from(known.here);
        self.busy += is_busy(known);
    }

    /// The nodes that the last call of [`Self::follow`] looked at.
    pub fn changed(&self) -> &[NodeId] {
        &self.changed
    }

    /// The static features of a node; none if it is gone.
    pub fn static_row(&self, id: NodeId) -> Option<&[f32; STATIC_FEATURES]> {
        self.nodes.get(id.index()).filter(|known| known.here).map(|known| &known.row)
    }

    /// What is known of the pod of a decision. Changes must have been followed.
    pub fn pod(&self, cycle: &Cycle<'_>) -> PodFacts {
        let state = cycle.state;
        let telemetry = &state.telemetry;
        let told = telemetry.pod(cycle.pod_id);
        let seen = seen(state, cycle.pod_id, cycle.pod, telemetry.now.as_secs_f64());
        let curve = self.lifetimes.curve(&seen);
        let ahead = curve.ahead(0.0);
        let mut life = [0.0; HORIZONS];
        for ((slot, alive), hours) in life.iter_mut().zip(ahead).zip(&self.lifetimes.hours) {
            *slot = alive * hours;
        }
        let life_hours: f32 = life.iter().sum();
        let presence = match self.wanted.has(LATENCY_AHEAD) {
            true => presence(telemetry.now, life_hours, |seconds| curve.alive(seconds)),
            false => [0.0; SLOTS],
        };
        let cores = seen.cpu_milli as f32 / 1000.0;
        let (count, milli) = told.gpus.unwrap_or_default();
        let (soft, hard) = told.latency_ms.unwrap_or_default();
        let (next, next_cpu, next_memory) = upcoming(state, cycle.pod_id);
        let row = [
            log2(cores.max(0.001)) / 4.0,
            log2((seen.memory.max(1) as f32 / GIB).max(0.001)) / 4.0,
            count as f32 * milli as f32 / 8000.0,
            hours_feature(life_hours),
            // The sixth span ends an hour and a quarter from now; the middle of the fifth and sixth lie around the hour.
            1.0 - (ahead[5] + ahead[6]) / 2.0,
            log2(1.0 + seen.group as f32) / 8.0,
            f32::from(u8::from(seen.priority > 0)),
            soft as f32 / 100.0,
            hard as f32 / 100.0,
            if self.cpu.0 > 0 { self.cpu.1 as f32 / self.cpu.0 as f32 } else { 0.0 },
            self.busy as f32 / self.here.max(1) as f32,
            log2(1.0 + next as f32) / 8.0,
            next_cpu,
            next_memory,
        ];
        PodFacts {
            row,
            life,
            life_hours,
            presence,
            now: telemetry.now,
            cores,
            owner: told.owner,
            latency: told.latency_ms,
            asks_for_gpus: count > 0,
        }
    }

    /// What is known of a node for the pod of a decision. Changes must have been followed.
    pub fn node(&self, cycle: &Cycle<'_>, pod: &PodFacts, node: &Node) -> NodeFacts {
        let telemetry = &cycle.state.telemetry;
        let known = &self.nodes[node.id.index()];
        let told = telemetry.node(node.id);
        let wanted = &cycle.local().resources.wanted;
        let share = |amount: i64, of: i64| if of > 0 { amount as f32 / of as f32 } else { 0.0 };
        let (offered, mut taken) = (node.allocatable, node.requested);
        let elsewhere = told.taken_elsewhere();
        (taken.cpu, taken.memory) = (taken.cpu + elsewhere.0, taken.memory + elsewhere.1);
        let away = telemetry.away(cycle.pod_id, node.id);
        let Away { ms: distance, price: transfer } = away.unwrap_or_default();
        let (before, after) = (share(taken.cpu, offered.cpu), share(taken.cpu + wanted.cpu, offered.cpu));
        let extension_hours = known.tenants.extension(&pod.life);
        let (mut rise, mut extra_kwh) = (0.0, 0.0);
        if let Some(curve) = told.power.as_ref().filter(|_| self.wanted.has(RISE) || self.wanted.has(EXTRA_KWH)) {
            let alone = (curve.at(f64::from(share(wanted.cpu, offered.cpu))) - told.sleep_watts) as f32;
            rise = if node.pods.is_empty() {
                alone
            } else {
                (curve.at(f64::from(after)) - curve.at(f64::from(before))) as f32
            };
            // While others keep the node busy the pod costs what it adds; for as long as it alone does, all that the node draws.
            let watt_hours = rise * (pod.life_hours - extension_hours) + alone * extension_hours;
            extra_kwh = watt_hours.max(0.0) / 1000.0;
        }
        // A machine costs for as long as it is awake; of a virtual node the pod pays what it takes.
        let price = told.price.unwrap_or(0.0) as f32;
        let machine_cost = match told.is_virtual() {
            true => price * share(wanted.cpu, offered.cpu) * pod.life_hours,
            false => price * extension_hours,
        };
        let extra_cost = machine_cost + transfer as f32 * pod.cores * pod.life_hours;
        let extra_carbon = extra_kwh * told.carbon.unwrap_or(0.0) as f32;
        let over = |limit: f64| {
            let ms = told.latency_ms.filter(|_| limit > 0.0);
            ms.map_or(0.0, |ms| ((ms + distance - limit) / limit).clamp(-1.0, 2.0) as f32)
        };
        let (soft, hard) = pod.latency.unwrap_or_default();
        let latency_ahead = self.latency_ahead(pod, node.id).map(|ms| ms + distance as f32);
        let if_wanted = |feature: usize, value: &dyn Fn() -> f32| {
            if self.wanted.has(feature) { value() } else { 0.0 }
        };
        let cores = pod.cores.max(0.1);
        let mut row = [0.0; NODE_FEATURES.len()];
        row[..STATIC_FEATURES].copy_from_slice(&known.row);
        row[STATIC_FEATURES..].copy_from_slice(&[
            if_wanted(AWAKE, &|| {
                let awake = told.awake_since.map(|since| telemetry.now.saturating_sub(since).as_secs_f32() / 3600.0);
                log2(1.0 + awake.unwrap_or(0.0)) / 8.0
            }),
            known.tenants.remaining(),
            1.0 - after,
            share(offered.memory - taken.memory - wanted.memory, offered.memory),
            rise / cores / 20.0,
            if_wanted(EXTENSION, &|| hours_feature(extension_hours)),
            extension_hours / pod.life_hours.max(1e-6),
            if_wanted(EXTRA_KWH, &|| log2(1.0 + 10.0 * extra_kwh / cores) / 8.0),
            if_wanted(EXTRA_COST, &|| log2(1.0 + 100.0 * extra_cost / cores) / 8.0),
            over(soft),
            over(hard),
            if_wanted(FRAGMENTATION, &|| {
                let concerns = pod.asks_for_gpus || !told.gpus.is_empty();
                if concerns { (FragmentationGradient::rise(cycle, node) / 1000.0) as f32 } else { 0.0 }
            }),
            if_wanted(SIBLINGS, &|| log2(1.0 + known.tenants.siblings(pod.owner) as f32) / 8.0),
            f32::from(u8::from(away.is_some())),
            distance as f32 / 100.0,
            transfer as f32 * 10.0,
            if_wanted(CALLS, &|| telemetry.calls(cycle.pod_id, &node.pods) as f32 / 10.0),
            latency_ahead.unwrap_or(0.0) / 100.0,
        ]);
        NodeFacts { row, extension_hours, extra_kwh, extra_cost, extra_carbon, latency_ahead }
    }

    /// Milliseconds to the users, who are near this node, over the life of a pod; none if that is not wanted or not known.
    pub fn latency_ahead(&self, pod: &PodFacts, node: NodeId) -> Option<f32> {
        let known = self.nodes.get(node.index()).filter(|_| self.wanted.has(LATENCY_AHEAD))?;
        known.rhythm.ahead(pod.now, &pod.presence)
    }
}

const GIB: f32 = (1_u64 << 30) as f32;

/// Hours on a scale that tells minutes from each other as well as days.
pub(super) fn hours_feature(hours: f32) -> f32 {
    log2(1.0 + 12.0 * hours) / 8.0
}

fn log2(value: f32) -> f32 {
    libm::log2f(value)
}

/// How many pods wait beside this one, and their mean size.
fn upcoming(state: &ClusterState, first: PodId) -> (usize, f32, f32) {
    let others = state.telemetry.upcoming.iter().filter(|id| **id != first).take(LOOKAHEAD - 1);
    let (mut count, mut cpu, mut memory) = (0, 0.0, 0.0);
    for pod in others.filter_map(|id| state.pod(*id)) {
        let wanted = &state.shape_of(pod).shape.local.resources.wanted;
        cpu += wanted.cpu as f32 / 1000.0;
        memory += wanted.memory as f32 / GIB;
        count += 1;
    }
    if count == 0 {
        return (0, 0.0, 0.0);
    }
    let mean = |sum: f32| log2((sum / count as f32).max(0.001)) / 4.0;
    (count, mean(cpu), mean(memory))
}

fn static_row(state: &ClusterState, node: &Node) -> [f32; STATIC_FEATURES] {
    let told = state.telemetry.node(node.id);
    let elsewhere = told.taken_elsewhere();
    let free = |offered: i64, taken: i64| if offered > 0 { (offered - taken) as f32 / offered as f32 } else { 0.0 };
    let threads = (node.allocatable.cpu as f32 / 1000.0).max(0.001);
    let whole = told.gpus.iter().filter(|free| **free >= 1000).count() as f32;
    let part: u32 = told.gpus.iter().filter(|free| **free < 1000).sum();
    let idle = told.power.as_ref().map_or(0.0, |curve| curve.idle() as f32);
    let best = told.power.as_ref().map_or(0.0, |curve| curve.least_watts_per_load() as f32);
    [
        free(node.allocatable.cpu, node.requested.cpu + elsewhere.0),
        free(node.allocatable.memory, node.requested.memory + elsewhere.1),
        free(node.allocatable.ephemeral_storage, node.requested.ephemeral_storage),
        log2(1.0 + node.pods.len() as f32) / 8.0,
        // A virtual node does not sleep.
        f32::from(u8::from(node.pods.is_empty() && !told.is_virtual())),
        log2(threads) / 8.0,
        best / threads / 10.0,
        idle / threads / 10.0,
        told.latency_ms.unwrap_or(0.0) as f32 / 100.0,
        told.price.unwrap_or(0.0) as f32 / threads * 10.0,
        told.carbon.unwrap_or(0.0) as f32 / 1000.0,
        whole / 8.0,
        part as f32 / 8000.0,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifetime::{AGES, FEATURES};
    use crate::observation::features::node_feature;
    use plimsoll_core::config::Configuration;
    use plimsoll_core::scheduler::Scheduler;
    use plimsoll_core::telemetry::{PodTelemetry, Shared};
    use serde_json::json;

    fn predictor() -> Predictor {
        Predictor {
            common: vec![0.0; AGES],
            hidden: vec![0.0; FEATURES],
            hidden_bias: vec![0.0],
            out: vec![0.0; AGES],
            out_bias: vec![0.0; AGES],
        }
    }

    #[test]
    fn another_cluster_is_seen_by_its_way_its_price_and_what_its_virtual_nodes_share() {
        let mut scheduler = Scheduler::new(&Configuration::default(), 1);
        let state = &mut scheduler.state;
        for name in ["machine", "virtual"] {
            let allocatable = json!({ "cpu": "10", "memory": "10Gi", "pods": "20" });
            let node = json!({ "metadata": { "name": name }, "status": { "allocatable": allocatable } });
            state.apply_node(&serde_json::from_value(node).unwrap()).unwrap();
        }
        let [home, far] = ["a", "b"].map(|name| state.telemetry.clusters.know(name).unwrap());
        state.telemetry.clusters.set_away(home, far, Away { ms: 30.0, price: 0.2 });
        let ids = ["machine", "virtual"].map(|name| state.node_named(name).unwrap());
        state.tell(ids[0], |known| (known.cluster, known.latency_ms) = (Some(home), Some(10.0)));
        state.tell(ids[1], |known| {
            (known.cluster, known.latency_ms, known.price) = (Some(far), Some(10.0), Some(5.0));
            known.shared = Some(Shared { cpu: 4000, memory: 5 << 30, among: 2 });
        });
        let containers = json!([{ "name": "c", "resources": { "requests": { "cpu": "1", "memory": "1Gi" } } }]);
        let pod =
            json!({ "metadata": { "name": "p", "namespace": "d", "uid": "u" }, "spec": { "containers": containers } });
        let pod = state.apply_pod(&serde_json::from_value(pod).unwrap()).unwrap().unwrap();
        let bears = PodTelemetry { home: Some(home), latency_ms: Some((20.0, 40.0)), ..PodTelemetry::default() };
        state.telemetry.set_pod(pod, bears);
        let mut encoder = Encoder::new(predictor(), Wanted::these(&[EXTRA_COST]));
        encoder.follow(state);
        let cycle = Cycle::new(state, pod).unwrap();
        let facts = encoder.pod(&cycle);
        let rows = ids.map(|id| encoder.node(&cycle, &facts, state.node(id).unwrap()));
        let of = |name: &str| rows.each_ref().map(|node| node.row[node_feature(name).unwrap()]);
        let near = |came: [f32; 2], expected: [f32; 2]| {
            came.iter()
                .zip(expected)
                .for_each(|(came, expected)| assert!((came - expected).abs() < 1e-5, "{came} is not {expected}"));
        };
        near(of("away"), [0.0, 1.0]);
        near(of("distance"), [0.0, 0.3]);
        near(of("transfer"), [0.0, 2.0]);
        near(of("cpu-free"), [1.0, 0.6]);
        near(of("cpu-left"), [0.9, 0.5]);
        near(of("memory-left"), [0.9, 0.4]);
        near(of("over-soft"), [-0.5, 1.0]);
        near(of("over-hard"), [-0.75, 0.0]);
        // A virtual node without pods is not asleep.
        near(of("empty"), [1.0, 0.0]);
        // A tenth of its price, and the traffic of a core.
        near([rows[1].extra_cost, 0.0], [(0.5 + 0.2) * facts.life_hours, 0.0]);
        // What two virtual nodes offer is there once.
        assert_eq!(encoder.cpu, (15_000, 0));
    }
}
