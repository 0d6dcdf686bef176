//! How long a decision of a model takes, over nodes of which one changed since the last decision: rules and model together.

use anyhow::{Context, Result};
use plimsoll_core::config::Configuration;
use plimsoll_core::rng::Rng;
use plimsoll_core::scheduler::{Decision, Scheduler};
use plimsoll_core::state::PodId;
use plimsoll_core::telemetry::{PodTelemetry, PowerCurve};
use plimsoll_learn::workshop;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Pods on each node before decisions are timed.
const PODS_A_NODE: usize = 12;
/// Decisions that are timed.
const DECISIONS: usize = 2000;
/// Decisions before those.
const BEFORE: usize = 100;

/// How long decisions took.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Times {
    /// The median.
    pub p50_ms: f64,
    /// All but one in a hundred are faster.
    pub p99_ms: f64,
}

/// Times decisions of the model in a folder.
pub fn time(folder: &Path, nodes: usize) -> Result<Times> {
    let mut scheduler = Scheduler::new(&Configuration::default(), 1);
    scheduler.set_policy("default-scheduler", workshop::load(folder)?);
    let curve = Arc::new(PowerCurve::straight(60.0, 250.0).context("a straight line")?);
    for node in 0..nodes {
        let id = scheduler.state.apply_node(&serde_json::from_value(serde_json::json!({
            "metadata": { "name": format!("n{node}") },
            "status": { "allocatable": { "cpu": "48", "memory": "384Gi", "pods": "110" } },
        }))?)?;
        scheduler.state.tell(id, |known| known.power = Some(Arc::clone(&curve)));
    }
    let mut rng = Rng::new(1);
    let mut pods = 0;
    for node in 0..nodes {
        for _ in 0..PODS_A_NODE {
            pod(&mut scheduler, &mut rng, &mut pods, Some(node))?;
        }
    }
    let mut times = Vec::with_capacity(DECISIONS);
    for decision in 0..BEFORE + DECISIONS {
        scheduler.state.telemetry.now += Duration::from_secs(3);
        let id = pod(&mut scheduler, &mut rng, &mut pods, None)?;
        let start = Instant::now();
        let decided = scheduler.decide(id)?;
        let took = start.elapsed();
        if let Decision::Place { node, .. } = decided {
            scheduler.reserve(id, node)?;
        }
        if decision >= BEFORE {
            times.push(took.as_secs_f64() * 1e3);
        }
    }
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[(times.len() as f64 * share) as usize];
    Ok(Times { p50_ms: at(0.5), p99_ms: at(0.99) })
}

/// A pod that waits, or is bound to a node.
fn pod(scheduler: &mut Scheduler, rng: &mut Rng, pods: &mut u64, node: Option<usize>) -> Result<PodId> {
    *pods += 1;
    let cpu = [1, 2, 4][rng.below(3)];
    let object = serde_json::from_value(serde_json::json!({
        "metadata": { "name": format!("p{pods}"), "namespace": "default", "uid": pods.to_string() },
        "spec": {
            "nodeName": node.map(|node| format!("n{node}")),
            "schedulerName": "default-scheduler",
            "containers": [{ "name": "c", "resources": { "requests": {
                "cpu": cpu.to_string(), "memory": format!("{}Mi", cpu * 1792) } } }],
        },
    }))?;
    let id = scheduler.state.apply_pod(&object)?.context("the pod has ended")?;
    scheduler.state.telemetry.set_pod(id, PodTelemetry { owner: Some(*pods / 5), ..PodTelemetry::default() });
    Ok(id)
}
