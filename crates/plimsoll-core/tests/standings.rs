//! What is recalled of standings is what a look at every node finds, policy by policy, draw by draw.

#![expect(clippy::unwrap_used, reason = "the harness is test code, too")]

use k8s_openapi::api::core::v1 as api;
use plimsoll_core::config::Configuration;
use plimsoll_core::policy::{POLICIES, Policy, Ranking, Scope, by_name};
use plimsoll_core::rng::Rng;
use plimsoll_core::scheduler::{Decision, Scheduler};
use plimsoll_core::state::NodeId;
use plimsoll_core::telemetry::PowerCurve;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// A policy that says nothing of what its scores depend on, so that nothing of them is remembered.
struct Unremembered(Box<dyn Policy>);

impl Policy for Unremembered {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn rank(&mut self, ranking: &mut Ranking<'_>, nodes: &[NodeId], scores: &mut [f64]) -> Result<(), String> {
        self.0.rank(ranking, nodes, scores)
    }
}

fn parse<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn node(number: usize, rng: &mut Rng) -> api::Node {
    let cpu = [2, 4, 8][rng.below(3)];
    let taints = if rng.below(5) == 0 { json!([{"key": "slow", "effect": "PreferNoSchedule"}]) } else { json!([]) };
    let allocatable = json!({"cpu": cpu.to_string(), "memory": "8Gi", "pods": "20"});
    parse(
        json!({"metadata": {"name": format!("n{number}"), "labels": {"kubernetes.io/hostname": format!("n{number}")}},
                 "spec": {"taints": taints}, "status": {"allocatable": allocatable}}),
    )
}

fn pod(number: usize, rng: &mut Rng) -> api::Pod {
    let cpu = ["100m", "500m", "1", "3"][rng.below(4)];
    let priority = [0, 0, 0, 7][rng.below(4)];
    let uid = number.to_string();
    parse(json!({"metadata": {"name": uid, "namespace": "d", "uid": uid},
                 "spec": {"priority": priority, "containers":
                          [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "256Mi"}}}]}}))
}

/// Places, ends, changes and tells at random; both schedulers hear the same.
fn drive(policy: &str, seed: u64) {
    let configuration = Configuration::default();
    let mut both = [Scheduler::new(&configuration, seed), Scheduler::new(&configuration, seed)];
    both[0].set_policy("default-scheduler", by_name(policy).unwrap());
    both[1].set_policy("default-scheduler", Box::new(Unremembered(by_name(policy).unwrap())));
    let mut rng = Rng::new(seed);
    let mut running: Vec<String> = Vec::new();
    let mut waited = 0;
    for number in 0..12 {
        let node = node(number, &mut rng);
        both.iter_mut().for_each(|scheduler| assert!(scheduler.state.apply_node(&node).is_ok()));
    }
    let curves = [(50.0, 200.0), (20.0, 300.0)].map(|(idle, full)| Arc::new(PowerCurve::straight(idle, full).unwrap()));
    for step in 0..400 {
        match rng.below(10) {
            0 => {
                let changed = node(rng.below(14), &mut rng);
                both.iter_mut().for_each(|scheduler| assert!(scheduler.state.apply_node(&changed).is_ok()));
            }
            1 => {
                let (id, curve) = (NodeId::new(rng.below(12) as u32), Arc::clone(&curves[rng.below(2)]));
                let since = Duration::from_secs(rng.below(100) as u64);
                for scheduler in &mut both {
                    scheduler.state.tell(id, |known| {
                        (known.power, known.awake_since) = (Some(Arc::clone(&curve)), Some(since));
                    });
                }
            }
            2..=4 if !running.is_empty() => {
                let uid = running.swap_remove(rng.below(running.len()));
                both.iter_mut().for_each(|scheduler| assert!(scheduler.state.delete_pod(&uid).is_some()));
            }
            _ => {
                let object = pod(step, &mut rng);
                let ids = both.each_mut().map(|scheduler| scheduler.state.apply_pod(&object).unwrap().unwrap());
                let decisions = [0, 1].map(|at| both[at].decide(ids[at]).unwrap());
                assert_eq!(decisions[0], decisions[1], "{policy}, seed {seed}, step {step}");
                let messages = both.each_mut().map(Scheduler::failure_message);
                assert_eq!(messages[0], messages[1], "{policy}, seed {seed}, step {step}");
                let uid = step.to_string();
                match decisions[0] {
                    Decision::Place { node, .. } => {
                        for (scheduler, id) in both.iter_mut().zip(ids) {
                            scheduler.state.assume(id, node).unwrap();
                        }
                        running.push(uid);
                    }
                    Decision::Wait { .. } => {
                        waited += 1;
                        both.iter_mut().for_each(|scheduler| assert!(scheduler.state.delete_pod(&uid).is_some()));
                    }
                }
            }
        }
    }
    assert!(running.len() > 5 && waited > 0, "{policy}: {} run, {waited} waited", running.len());
}

#[test]
fn recalling_and_looking_decide_alike() {
    for (policy, _) in POLICIES {
        for seed in 0..6 {
            drive(policy, seed);
        }
    }
}
