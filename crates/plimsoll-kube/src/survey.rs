//! What an engine at work tells whoever watches it: nodes that changed, decisions that were made, pods that wait. Only what changed since the last look is told,
//! so that looking costs little however large the cluster is.

use crate::reasons::Reasons;
use crate::world::GPU;
use plimsoll_core::engine::{Attempt, Counts, Engine};
use plimsoll_core::policy::Counters;
use plimsoll_core::state::{ClusterState, Node, NodeId};
use plimsoll_core::telemetry::NodeTelemetry;
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Decisions that are kept.
const KEPT: usize = 10_000;
/// Reasons that are kept: they take more room than decisions.
const REASONS_KEPT: usize = 1_000;
/// Pods of a node whose size is told one by one.
const SHARES: usize = 64;
/// What reads of labels as a node's zone.
const ZONE: &str = "topology.kubernetes.io/zone";

/// The taints of nodes whose kubelets do not say that they are ready.
const NOT_READY: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// How far somebody has seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seen {
    /// The changes of nodes; none if nothing was seen.
    pub nodes: Option<u64>,
    /// The number of the last decision.
    pub decisions: u64,
}

/// What is new.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    /// How far this goes.
    pub seen: Seen,
    /// Nodes that changed, by their number; none for one that is gone.
    pub nodes: Vec<(u32, Option<NodeView>)>,
    /// Decisions that were made.
    pub decisions: Vec<Arc<Decision>>,
    /// How many pods are where.
    pub counts: Counts,
    /// Pods that were placed since the start.
    pub placed: u64,
    /// The policy of each profile.
    pub policies: Vec<(String, String)>,
    /// Whether pods are placed here: not by one that stands by.
    pub leads: bool,
}

/// A node as people see it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct NodeView {
    /// Its name.
    pub name: String,
    /// Its zone.
    pub zone: String,
    /// Whether its kubelet says that it is ready.
    pub ready: bool,
    /// Whether pods may be placed on it.
    pub schedulable: bool,
    /// Thousandths of a core: asked for, and there.
    pub cpu_m: [i64; 2],
    /// Bytes: asked for, and there.
    pub memory: [i64; 2],
    /// Pods: there are, and may be.
    pub pods: [i64; 2],
    /// Whole GPUs: asked for, and there.
    pub gpu: [i64; 2],
    /// What each pod asks for of its CPU, in thousandths of the node, the largest first; at most 64.
    pub shares: Vec<u16>,
    /// Per cent of its CPU in use, as measured.
    pub usage_cpu: Option<f64>,
    /// Per cent of its memory in use, as measured.
    pub usage_memory: Option<f64>,
    /// What it draws by its curve and what is asked for; asleep if it has no pods.
    pub watts: Option<f64>,
    /// Milliseconds to users.
    pub latency_ms: Option<f64>,
    /// Money for an hour.
    pub price: Option<f64>,
    /// The cluster that it belongs to, or stands for.
    pub cluster: String,
    /// Whether it stands for another cluster.
    #[serde(rename = "virtual")]
    pub is_virtual: bool,
    /// What policies take for free, in thousandths of a core: less than is left where other virtual nodes have taken of the same cluster.
    pub free_cpu_m: i64,
    /// How many virtual nodes offer the same; sums count it once.
    #[serde(skip)]
    pub among: u32,
}

/// A decision that was made.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Decision {
    /// Its number: later ones have greater numbers.
    pub id: u64,
    /// When, in seconds since 1970.
    pub at: f64,
    /// The pod.
    pub namespace: String,
    /// Its name.
    pub pod: String,
    /// Its UID.
    pub uid: String,
    /// `placed`, `refused`, `preempting` or `failed`.
    pub outcome: &'static str,
    /// The node.
    pub node: Option<String>,
    /// The profile.
    pub profile: String,
    /// Its policy.
    pub policy: String,
    /// `model` or `heuristic`.
    pub decided_by: &'static str,
    /// Why a model did not decide: `unlike-training`, `not-a-number` or `late`.
    pub fallback: Option<&'static str>,
    /// How long it took.
    pub milliseconds: f64,
    /// How many nodes the rules allowed.
    pub feasible: usize,
    /// How many of them were as good as the chosen one.
    pub ties: usize,
    /// Why it waits.
    pub message: Option<String>,
    /// What the placement is worth by the weights in force.
    pub reward: Option<f64>,
}

/// Who ranks for a profile.
#[derive(Debug, Clone)]
pub struct Ranked {
    /// The profile.
    pub profile: String,
    /// The policy, by the name it was chosen by.
    pub policy: String,
    /// What it counts, if it is a model.
    pub counters: Option<Arc<Counters>>,
}

/// The last decisions.
#[derive(Default)]
pub struct Chronicle {
    kept: VecDeque<Arc<Decision>>,
    /// Why some of them were made, by their numbers.
    reasons: VecDeque<(u64, Reasons)>,
    /// The number of the last decision about each pod.
    by_uid: FxHashMap<Box<str>, u64>,
    last: u64,
    placed: u64,
    /// The policy of each profile, and what it counts if it is a model.
    policies: FxHashMap<String, (String, Option<Counted>)>,
}

struct Counted {
    counters: Arc<Counters>,
    seen: [u64; 3],
}

/// The causes for which a model leaves a decision to its heuristic, in the order of [`causes`].
const CAUSES: [&str; 3] = ["unlike-training", "not-a-number", "late"];

fn causes(counters: &Counters) -> [u64; 3] {
    use std::sync::atomic::Ordering::Relaxed;
    [&counters.outside, &counters.not_finite, &counters.late].map(|counter| counter.load(Relaxed))
}

impl Chronicle {
    /// A chronicle that begins; these are the policies of profiles, with what they count.
    pub fn new(policies: Vec<Ranked>) -> Self {
        let mut chronicle = Self::default();
        for Ranked { profile, policy, counters } in policies {
            chronicle.set_policy(&profile, &policy, counters);
        }
        chronicle
    }

    /// From now on this policy ranks for a profile.
    pub fn set_policy(&mut self, profile: &str, policy: &str, counters: Option<Arc<Counters>>) {
        let counted = counters.map(|counters| Counted { seen: causes(&counters), counters });
        self.policies.insert(profile.to_owned(), (policy.to_owned(), counted));
    }

    /// A decision is about to be made: what models have counted before is not of it.
    pub fn begin(&mut self) {
        let counted = self.policies.values_mut().filter_map(|(_, counted)| counted.as_mut());
        counted.for_each(|counted| counted.seen = causes(&counted.counters));
    }

    /// Takes note of an attempt.
    pub fn note(&mut self, attempt: &Attempt, took: Duration, reward: Option<f64>, reasons: Option<Reasons>) {
        let (namespace, pod, uid, profile) = match attempt {
            Attempt::Bind { binding: of, .. } => (&of.namespace, &of.name, &of.uid, &of.scheduler),
            Attempt::Wait { pod: of, .. } | Attempt::Failed { pod: of, .. } => {
                (&of.namespace, &of.name, &of.uid, &of.scheduler)
            }
        };
        let (outcome, node, feasible, ties, message) = match attempt {
            Attempt::Bind { binding, feasible, ties, .. } => ("placed", Some(&binding.node), *feasible, *ties, None),
            Attempt::Wait { preemption: Some(eviction), message, .. } => {
                ("preempting", Some(&eviction.node), 0, 0, Some(message.clone()))
            }
            Attempt::Wait { message, .. } => ("refused", None, 0, 0, Some(message.clone())),
            Attempt::Failed { error, .. } => ("failed", None, 0, 0, Some(error.to_string())),
        };
        let mut fallback = None;
        let (policy, decided_by) = match self.policies.get_mut(profile.as_str()) {
            None => ("default".to_owned(), "heuristic"),
            Some((policy, None)) => (policy.clone(), "heuristic"),
            Some((policy, Some(counted))) => {
                let now = causes(&counted.counters);
                let before = std::mem::replace(&mut counted.seen, now);
                fallback = (0..CAUSES.len()).find(|at| now[*at] > before[*at]).map(|at| CAUSES[at]);
                (policy.clone(), if fallback.is_some() { "heuristic" } else { "model" })
            }
        };
        self.last += 1;
        self.placed += u64::from(outcome == "placed");
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let decision = Decision {
            id: self.last,
            at: since.as_secs_f64(),
            namespace: namespace.clone(),
            pod: pod.clone(),
            uid: uid.clone(),
            outcome,
            node: node.cloned(),
            profile: profile.clone(),
            policy,
            decided_by,
            fallback,
            milliseconds: took.as_secs_f64() * 1e3,
            feasible,
            ties,
            message,
            reward,
        };
        if self.kept.len() == KEPT
            && let Some(oldest) = self.kept.pop_front()
            && self.by_uid.get(oldest.uid.as_str()) == Some(&oldest.id)
        {
            self.by_uid.remove(oldest.uid.as_str());
        }
        self.by_uid.insert(uid.as_str().into(), decision.id);
        if let Some(reasons) = reasons {
            self.reasons.push_back((decision.id, reasons));
            let excess = self.reasons.len().saturating_sub(REASONS_KEPT);
            self.reasons.drain(..excess);
        }
        self.kept.push_back(Arc::new(decision));
    }

    /// A decision by its number, if it is among the last thousands.
    pub fn decision(&self, id: u64) -> Option<&Arc<Decision>> {
        let first = self.kept.front()?.id;
        self.kept.get(usize::try_from(id.checked_sub(first)?).ok()?)
    }

    /// Why a decision was made, where it was looked at and is among the last of those.
    pub fn reasons(&self, id: u64) -> Option<&Reasons> {
        let at = self.reasons.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        self.reasons.get(at).map(|(_, reasons)| reasons)
    }

    /// The last decision about a pod.
    pub fn about(&self, uid: &str) -> Option<&Arc<Decision>> {
        self.decision(*self.by_uid.get(uid)?)
    }

    /// Pods that were placed since the start.
    pub fn placed(&self) -> u64 {
        self.placed
    }

    fn after(&self, seen: u64) -> Vec<Arc<Decision>> {
        let new = usize::try_from(self.last.saturating_sub(seen)).unwrap_or(usize::MAX).min(self.kept.len());
        self.kept.range(self.kept.len() - new..).cloned().collect()
    }

    /// What is new since somebody has seen so far.
    pub fn survey(&self, engine: &Engine, seen: Seen) -> Survey {
        let state = engine.state();
        let mut changed: Vec<NodeId> = match seen.nodes.and_then(|position| state.changes.since(position)) {
            Some(changes) => changes.collect(),
            None => (0..state.node_limit() as u32).map(NodeId::new).collect(),
        };
        changed.sort_unstable();
        changed.dedup();
        let view = |id: NodeId| (id.index() as u32, state.node(id).map(|node| node_view(state, node)));
        let mut policies: Vec<_> =
            self.policies.iter().map(|(profile, (policy, _))| (profile.clone(), policy.clone())).collect();
        policies.sort_unstable();
        Survey {
            seen: Seen { nodes: Some(state.changes.end()), decisions: self.last },
            nodes: changed.into_iter().map(view).collect(),
            decisions: self.after(seen.decisions),
            counts: engine.counts(),
            placed: self.placed,
            policies,
            leads: true,
        }
    }
}

fn node_view(state: &ClusterState, node: &Node) -> NodeView {
    let known = state.telemetry.node(node.id);
    let (offered, taken) = (&node.allocatable, &node.requested);
    let mut shares: Vec<u16> = node
        .pods
        .iter()
        .filter_map(|id| {
            let wanted = state.shape_of(state.pod(*id)?).shape.local.resources.wanted.cpu;
            Some((wanted.saturating_mul(1000) / offered.cpu.max(1)).clamp(0, 1000) as u16)
        })
        .collect();
    shares.sort_unstable_by(|a, b| b.cmp(a));
    shares.truncate(SHARES);
    let (spec, strings) = (&node.spec, &state.strings);
    let zone = strings.get(ZONE).and_then(|key| spec.labels.get(key)).map(|zone| strings.resolve(zone).to_owned());
    let has_taint = |key: &&str| {
        let key = strings.get(key);
        spec.taints.iter().any(|taint| Some(taint.key) == key)
    };
    let (gpus, gpus_taken) = state.resources.get(GPU).map(|gpu| node.scalar(gpu)).unwrap_or_default();
    let usage = known.usage.unwrap_or_default();
    NodeView {
        name: state.node_name(node.id).to_owned(),
        zone: zone.unwrap_or_default(),
        ready: !NOT_READY.iter().any(has_taint),
        schedulable: !spec.unschedulable,
        cpu_m: [taken.cpu, offered.cpu],
        memory: [taken.memory, offered.memory],
        pods: [node.pods.len() as i64, spec.max_pods],
        gpu: [gpus_taken, gpus],
        shares,
        usage_cpu: usage.cpu.map(|(share, _)| share * 100.0),
        usage_memory: usage.memory.map(|(share, _)| share * 100.0),
        watts: watts(node, known),
        latency_ms: known.latency_ms,
        price: known.price,
        cluster: known.cluster.map(|id| state.telemetry.clusters.name(id).to_owned()).unwrap_or_default(),
        is_virtual: known.is_virtual(),
        free_cpu_m: (offered.cpu - taken.cpu - known.taken_elsewhere().0).max(0),
        among: known.shared.map_or(1, |shared| shared.among),
    }
}

/// A node, with all that is on it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeDetail {
    /// What is seen from afar.
    #[serde(flatten)]
    pub view: NodeView,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its taints.
    pub taints: Vec<TaintView>,
    /// Its pods, by namespace and name.
    pub pod_list: Vec<PodView>,
}

/// A taint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TaintView {
    key: String,
    value: String,
    effect: String,
}

/// A pod on a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct PodView {
    namespace: String,
    name: String,
    /// Thousandths of a core that it asks for.
    cpu_m: i64,
    /// Bytes that it asks for.
    memory: i64,
    priority: i32,
}

impl NodeDetail {
    /// A node by its name.
    pub fn of(state: &ClusterState, name: &str) -> Option<Self> {
        let node = state.node(state.node_named(name)?)?;
        let text = |symbol| state.strings.resolve(symbol).to_owned();
        let taint = |taint: &plimsoll_core::model::Taint| TaintView {
            key: text(taint.key),
            value: text(taint.value),
            effect: format!("{:?}", taint.effect),
        };
        let pod = |id: &plimsoll_core::state::PodId| {
            let pod = state.pod(*id)?;
            let shape = &state.shape_of(pod).shape;
            let wanted = &shape.local.resources.wanted;
            Some(PodView {
                namespace: text(shape.namespace),
                name: pod.name.to_string(),
                cpu_m: wanted.cpu,
                memory: wanted.memory,
                priority: shape.priority,
            })
        };
        let mut pod_list: Vec<_> = node.pods.iter().filter_map(pod).collect();
        pod_list.sort_unstable();
        Some(Self {
            view: node_view(state, node),
            labels: node.spec.labels.iter().map(|(key, value)| (text(key), text(value))).collect(),
            taints: node.spec.taints.iter().map(taint).collect(),
            pod_list,
        })
    }
}

/// What a node draws by its curve.
pub fn watts(node: &Node, known: &NodeTelemetry) -> Option<f64> {
    let curve = known.power.as_ref()?;
    if node.pods.is_empty() {
        return Some(known.sleep_watts);
    }
    Some(curve.at(node.requested.cpu as f64 / node.allocatable.cpu.max(1) as f64))
}
