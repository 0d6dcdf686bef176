//! An engine under test, and its answers in words that do not depend on how it numbers things.

use k8s_openapi::api::core::v1 as api;
use plimsoll_core::Preemption;
use plimsoll_core::config::{Configuration, DEFAULT_SCHEDULER_NAME};
use plimsoll_core::explain::Explanation;
use plimsoll_core::framework::{Code, Status};
use plimsoll_core::policy::{Policy, Ranking};
use plimsoll_core::scheduler::{Decision, DecisionError, Scheduler};
use plimsoll_core::state::{NodeId, PodId};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

type Totals = Arc<Mutex<BTreeMap<NodeId, i64>>>;

/// A scheduler of two profiles whose totals, partly remembered, can be looked at.
pub struct Engine {
    pub scheduler: Scheduler,
    totals: Totals,
}

/// Ranks as the default policy does, and writes down by what.
struct Recorder(Totals);

impl Policy for Recorder {
    fn name(&self) -> &'static str {
        "recorder"
    }

    fn rank(&mut self, ranking: &mut Ranking<'_>, nodes: &[NodeId], scores: &mut [f64]) -> Result<(), String> {
        ranking.rules.totals(&ranking.cycle, nodes, ranking.totals)?;
        *self.0.lock().unwrap() = nodes.iter().copied().zip(ranking.totals.iter().copied()).collect();
        for (score, total) in scores.iter_mut().zip(&*ranking.totals) {
            *score = *total as f64;
        }
        Ok(())
    }
}

/// Two profiles, so that what one remembers is not mistaken for the other's; the second has what the first lacks.
fn configuration() -> Configuration {
    let args = |name: &str, args: serde_json::Value| json!({"name": name, "args": args});
    let expression = json!({"key": "disk", "operator": "NotIn", "values": ["hdd"]});
    let resources = json!([{"name": "cpu", "weight": 1}, {"name": "example.com/gpu", "weight": 5}]);
    let value = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {"schedulerName": DEFAULT_SCHEDULER_NAME},
            {"schedulerName": "packer", "pluginConfig": [
                args("NodeResourcesFit", json!({"scoringStrategy": {"type": "MostAllocated", "resources": resources}})),
                args("NodeAffinity", json!({"addedAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 20, "preference": {"matchExpressions": [expression]}}]}})),
                args("InterPodAffinity", json!({"hardPodAffinityWeight": 40})),
                args("PodTopologySpread", json!({"defaultingType": "List", "defaultConstraints": [
                    {"maxSkew": 2, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"},
                    {"maxSkew": 1, "topologyKey": "disk", "whenUnsatisfiable": "ScheduleAnyway"}]})),
            ]},
        ],
    });
    Configuration::from_value("test", value).unwrap()
}

/// How a pod's verdict reads by names: equal clusters give equal verdicts.
#[derive(Debug, PartialEq)]
pub struct Verdict {
    pre_filter: Option<String>,
    refused: BTreeMap<String, String>,
    scores: BTreeMap<&'static str, BTreeMap<String, i64>>,
    totals: BTreeMap<String, i64>,
    preemption: Option<(String, Vec<String>, usize)>,
    preemption_message: Option<String>,
}

impl Engine {
    pub fn new() -> Self {
        let mut scheduler = Scheduler::new(&configuration(), 7);
        let totals = Totals::default();
        for profile in [DEFAULT_SCHEDULER_NAME, "packer"] {
            assert!(scheduler.set_policy(profile, Box::new(Recorder(Arc::clone(&totals)))));
        }
        Self { scheduler, totals }
    }

    pub fn pod(&self, uid: &str) -> Option<PodId> {
        self.scheduler.state.pod_id(uid)
    }

    pub fn apply_pod(&mut self, object: &api::Pod) -> Result<Option<PodId>, String> {
        self.scheduler.state.apply_pod(object).map_err(|error| error.to_string())
    }

    /// What the engine says about a pod; the error is one it reports itself.
    pub fn verdict(&mut self, pod: PodId) -> Result<Verdict, String> {
        let explanation = self.scheduler.explain(pod).map_err(|error| error.to_string())?;
        let name = |node: NodeId| self.scheduler.state.node_name(node).to_owned();
        let by_node = |values: &[i64]| -> BTreeMap<String, i64> {
            explanation.feasible.iter().map(|node| name(*node)).zip(values.iter().copied()).collect()
        };
        let verdict = Verdict {
            pre_filter: explanation.pre_filter.as_ref().map(words),
            refused: explanation.refused.iter().map(|(node, status)| (name(*node), words(status))).collect(),
            scores: explanation.scores.iter().map(|(plugin, scores)| (plugin.as_str(), by_node(scores))).collect(),
            totals: by_node(&explanation.totals),
            preemption: explanation.preemption.as_ref().map(|found| self.preemption(found)),
            preemption_message: explanation.preemption_message.clone(),
        };
        Ok(verdict)
    }

    fn preemption(&self, found: &Preemption) -> (String, Vec<String>, usize) {
        let state = &self.scheduler.state;
        let victims = found.victims.iter().filter_map(|id| state.pod(*id)).map(|pod| pod.uid.to_string()).collect();
        (state.node_name(found.node).to_owned(), victims, found.violations)
    }

    /// Decides, and checks the decision, made from memory and by lot, against the explanation, which is neither.
    pub fn decide(&mut self, pod: PodId) -> Result<Result<Decision, DecisionError>, String> {
        let explained = self.scheduler.explain(pod);
        self.totals.lock().unwrap().clear();
        let decided = self.scheduler.decide(pod);
        let recorded = std::mem::take(&mut *self.totals.lock().unwrap());
        let agrees = match (&explained, &decided) {
            // With one feasible node nothing is ranked, so what is wrong with the ranking does not show.
            (Err(_), Ok(decision)) => matches!(decision, Decision::Place { feasible: 1, .. }),
            (Err(explained), Err(decided)) => explained == decided,
            (Ok(explanation), Err(_)) => has_error(explanation),
            (Ok(explanation), Ok(Decision::Wait { preemption, .. })) => {
                let found = |found: Option<&Preemption>| found.map(|found| self.preemption(found));
                explanation.feasible.is_empty()
                    && !has_error(explanation)
                    && found(preemption.as_ref()) == found(explanation.preemption.as_ref())
            }
            (Ok(explanation), Ok(Decision::Place { node, feasible, .. })) => {
                let totals: BTreeMap<_, _> =
                    explanation.feasible.iter().copied().zip(explanation.totals.iter().copied()).collect();
                *feasible == totals.len()
                    && !has_error(explanation)
                    && totals.get(node) == totals.values().max()
                    && (*feasible == 1 || recorded == totals)
            }
        };
        if agrees {
            Ok(decided)
        } else {
            Err(format!("decided {decided:?} by totals {recorded:?}, but the explanation is {explained:?}"))
        }
    }
}

/// Whether a rule failed, so that nothing is decided.
fn has_error(explanation: &Explanation) -> bool {
    let statuses = explanation.refused.iter().map(|(_, status)| status).chain(&explanation.pre_filter);
    statuses.into_iter().any(|status| status.code == Code::Error)
}

fn words(status: &Status) -> String {
    let mut reasons = status.reasons.clone();
    reasons.sort_unstable();
    format!("{:?} {}: {}", status.plugin, status.code, reasons.join(", "))
}
