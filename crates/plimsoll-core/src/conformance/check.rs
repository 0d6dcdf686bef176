//! Runs a case and compares.

use super::case::{Answer, Case, CaseError, Objects, Refused, Step, Victims};
use crate::config::Configuration;
use crate::explain::Explanation;
use crate::framework::Status;
use crate::plugins::gate_message;
use crate::scheduler::{Decision, Scheduler};
use crate::state::{NodeId, PodId};
use std::collections::BTreeMap;
use std::fmt;

/// A place where our answer is not the expected one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Which step of a sequence, from 0; none for a single pod.
    pub step: Option<usize>,
    /// What is compared, such as `rejected n3`.
    pub what: String,
    /// What the real scheduler answers.
    pub expected: String,
    /// What we answer.
    pub got: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(step) = self.step {
            write!(f, "step {step}: ")?;
        }
        write!(f, "{}: expected {}, got {}", self.what, self.expected, self.got)
    }
}

/// Runs a case; no difference means it passes.
pub fn check(case: &Case) -> Result<Vec<Difference>, CaseError> {
    let unusable = |problem: String| CaseError::Unusable { name: case.name.clone(), problem };
    let configuration = match &case.config {
        None => Configuration::default(),
        Some(value) => {
            Configuration::from_value(&case.name, value.clone()).map_err(|errors| unusable(errors.to_string()))?
        }
    };
    let mut scheduler = Scheduler::new(&configuration, 0);
    apply(&mut scheduler, &case.objects).map_err(unusable)?;
    let steps = case.steps();
    let is_sequence = steps.len() > 1;
    let mut differences = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        let found = run_step(&mut scheduler, step, is_sequence).map_err(unusable)?;
        differences.extend(found.into_iter().map(|d| Difference { step: is_sequence.then_some(at), ..d }));
        if !differences.is_empty() && is_sequence {
            // What follows builds on a step that already differs.
            break;
        }
    }
    Ok(differences)
}

/// Tells an engine of all objects of a cluster.
pub fn apply(scheduler: &mut Scheduler, objects: &Objects) -> Result<(), String> {
    let text = |error: &dyn fmt::Display| error.to_string();
    let state = &mut scheduler.state;
    objects.namespaces.iter().for_each(|namespace| state.apply_namespace(namespace));
    for node in &objects.nodes {
        state.apply_node(node).map_err(|error| text(&error))?;
    }
    objects.services.iter().for_each(|service| state.apply_service(service));
    objects.replication_controllers.iter().for_each(|controller| state.apply_replication_controller(controller));
    objects.replica_sets.iter().for_each(|set| state.apply_replica_set(set));
    objects.stateful_sets.iter().for_each(|set| state.apply_stateful_set(set));
    objects.pod_disruption_budgets.iter().for_each(|budget| state.apply_budget(budget));
    for volume in &objects.persistent_volumes {
        state.storage.apply_volume(volume).map_err(|error| text(&error))?;
    }
    for claim in &objects.persistent_volume_claims {
        state.storage.apply_claim(claim).map_err(|error| text(&error))?;
    }
    for class in &objects.storage_classes {
        state.storage.apply_class(class).map_err(|error| text(&error))?;
    }
    for node in &objects.csi_nodes {
        state.storage.apply_csi_node(node).map_err(|error| text(&error))?;
    }
    for driver in &objects.csi_drivers {
        state.storage.apply_csi_driver(driver).map_err(|error| text(&error))?;
    }
    for capacity in &objects.csi_storage_capacities {
        state.storage.apply_capacity(capacity).map_err(|error| text(&error))?;
    }
    for attachment in &objects.volume_attachments {
        state.storage.apply_attachment(attachment).map_err(|error| text(&error))?;
    }
    for slice in &objects.resource_slices {
        state.apply_resource_slice(slice).map_err(|error| text(&error))?;
    }
    for claim in &objects.resource_claims {
        state.apply_resource_claim(claim).map_err(|error| text(&error))?;
    }
    objects.device_classes.iter().for_each(|class| state.apply_device_class(class));
    for pod in &objects.pods {
        state.apply_pod(pod).map_err(|error| text(&error))?;
    }
    Ok(())
}

fn run_step(scheduler: &mut Scheduler, step: &Step, is_sequence: bool) -> Result<Vec<Difference>, String> {
    let pod = scheduler.state.apply_pod(&step.pod).map_err(|error| error.to_string())?;
    let Some(pod) = pod else { return Err("the pod to place has already ended".into()) };
    let (ours, explanation) = answer(scheduler, pod)?;
    let mut differences = compare(&step.expect, &ours);
    if let Some(explanation) = explanation {
        differences.extend(decision_agrees(scheduler, pod, &explanation)?);
    }
    if is_sequence && differences.is_empty() {
        carry_over(scheduler, pod, &step.expect)?;
    }
    Ok(differences)
}

/// Our answer, in the form of the cases.
fn answer(scheduler: &mut Scheduler, pod: PodId) -> Result<(Answer, Option<Explanation>), String> {
    let known = scheduler.state.pod(pod).ok_or("the pod is gone")?;
    if let Some(message) = gate_message(&scheduler.state.shape_of(known).shape) {
        let pre_enqueue = Refused {
            plugin: "SchedulingGates".into(),
            code: "UnschedulableAndUnresolvable".into(),
            reasons: vec![message],
        };
        return Ok((Answer { pre_enqueue: Some(pre_enqueue), ..Answer::default() }, None));
    }
    let explanation = scheduler.explain(pod).map_err(|error| error.to_string())?;
    let state = &scheduler.state;
    let name = |node: &NodeId| state.node_name(*node).to_owned();
    let mut feasible: Vec<_> = explanation.feasible.iter().map(name).collect();
    let by_node = |values: &[i64]| feasible.iter().cloned().zip(values.iter().copied()).collect::<BTreeMap<_, _>>();
    let scores =
        explanation.scores.iter().map(|(plugin, values)| (plugin.as_str().to_owned(), by_node(values))).collect();
    let totals = by_node(&explanation.totals);
    feasible.sort_unstable();
    let ours = Answer {
        pre_enqueue: None,
        pre_filter: explanation.pre_filter.as_ref().map(refused),
        rejected: explanation.refused.iter().map(|(node, status)| (name(node), refused(status))).collect(),
        feasible,
        scores,
        totals,
        preemption: explanation.preemption.as_ref().map(|found| {
            let victims = found.victims.iter().filter_map(|id| state.pod(*id));
            let mut victims: Vec<_> = victims.map(|victim| state.pod_name(victim)).collect();
            victims.sort_unstable();
            Victims { nominated: name(&found.node), victims }
        }),
        selected: None,
    };
    Ok((ours, Some(explanation)))
}

fn refused(status: &Status) -> Refused {
    let mut reasons = status.reasons.clone();
    reasons.sort_unstable();
    Refused {
        plugin: status.plugin.map_or_else(String::new, |plugin| plugin.as_str().to_owned()),
        code: status.code.to_string(),
        reasons,
    }
}

fn compare(expected: &Answer, ours: &Answer) -> Vec<Difference> {
    let mut differences = Vec::new();
    let mut differ = |what: String, expected: String, got: String| {
        if expected != got {
            differences.push(Difference { step: None, what, expected, got });
        }
    };
    let show = |refused: Option<&Refused>| match refused {
        None => "nothing".to_owned(),
        Some(Refused { plugin, code, reasons }) => format!("{plugin} {code} {reasons:?}"),
    };
    differ("preEnqueue".into(), show(expected.pre_enqueue.as_ref()), show(ours.pre_enqueue.as_ref()));
    differ("preFilter".into(), show(expected.pre_filter.as_ref()), show(ours.pre_filter.as_ref()));
    differ("feasible".into(), format!("{:?}", expected.feasible), format!("{:?}", ours.feasible));
    for node in keys(&expected.rejected, &ours.rejected) {
        differ(format!("rejected {node}"), show(expected.rejected.get(node)), show(ours.rejected.get(node)));
    }
    let none = BTreeMap::new();
    let number = |value: Option<&i64>| value.map_or_else(|| "nothing".to_owned(), i64::to_string);
    for plugin in keys(&expected.scores, &ours.scores) {
        let theirs = expected.scores.get(plugin).unwrap_or(&none);
        let mine = ours.scores.get(plugin).unwrap_or(&none);
        for node in keys(theirs, mine) {
            differ(format!("score {plugin} {node}"), number(theirs.get(node)), number(mine.get(node)));
        }
    }
    for node in keys(&expected.totals, &ours.totals) {
        differ(format!("total {node}"), number(expected.totals.get(node)), number(ours.totals.get(node)));
    }
    let victims =
        |v: Option<&Victims>| v.map_or_else(|| "nothing".to_owned(), |v| format!("{} {:?}", v.nominated, v.victims));
    differ("preemption".into(), victims(expected.preemption.as_ref()), victims(ours.preemption.as_ref()));
    differences
}

fn keys<'a, V>(a: &'a BTreeMap<String, V>, b: &'a BTreeMap<String, V>) -> impl Iterator<Item = &'a String> {
    a.keys().chain(b.keys().filter(|key| !a.contains_key(*key)))
}

/// The decision itself, made from remembered answers and by lot among equals, must be one the explanation allows.
fn decision_agrees(
    scheduler: &mut Scheduler,
    pod: PodId,
    explanation: &Explanation,
) -> Result<Option<Difference>, String> {
    let nominated = scheduler.state.pod(pod).and_then(|pod| pod.nominated).is_some();
    let decision = scheduler.decide(pod).map_err(|error| error.to_string())?;
    let best = explanation.totals.iter().max();
    let agrees = match &decision {
        Decision::Place { node, .. } => explanation
            .feasible
            .iter()
            .zip(&explanation.totals)
            .any(|(feasible, total)| feasible == node && (nominated || Some(total) == best)),
        Decision::Wait { preemption, .. } => {
            explanation.feasible.is_empty() && preemption.is_some() == explanation.preemption.is_some()
        }
    };
    Ok((!agrees).then(|| Difference {
        step: None,
        what: "decision".into(),
        expected: format!("one of the nodes with total {best:?}"),
        got: format!("{decision:?}"),
    }))
}

/// The next step sees the outcome of this one.
fn carry_over(scheduler: &mut Scheduler, pod: PodId, expected: &Answer) -> Result<(), String> {
    if let Some(name) = &expected.selected {
        let node = scheduler.state.node_named(name).ok_or_else(|| format!("selected node {name} does not exist"))?;
        let mut reservation = scheduler.reserve(pod, node).map_err(|error| error.to_string())?;
        for write in scheduler.claim_writes(&reservation, 0.0) {
            let written = write.claim.clone();
            scheduler.claim_written(&mut reservation, &write, written).map_err(|error| error.to_string())?;
        }
    } else if let Some(preemption) = &expected.preemption {
        let state = &mut scheduler.state;
        let victims: Vec<_> = state
            .pods()
            .filter(|(_, known)| preemption.victims.contains(&state.pod_name(known)))
            .map(|(_, known)| known.uid.clone())
            .collect();
        for uid in victims {
            state.delete_pod(&uid);
        }
        let name = state.strings.intern(&preemption.nominated);
        state.nominate(pod, Some(name));
    } else if let Some(known) = scheduler.state.pod(pod) {
        // A pod that got nowhere leaves the cluster.
        let uid = known.uid.clone();
        scheduler.state.delete_pod(&uid);
    }
    Ok(())
}
