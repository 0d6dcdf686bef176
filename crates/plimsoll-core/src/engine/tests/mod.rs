mod behaviour;
mod binding;
mod preemption;

use super::*;
use crate::config::Configuration;
use k8s_openapi::api::core::v1 as api;
use serde_json::{Value, json};

/// An engine and the time, with objects in short.
struct World {
    engine: Engine,
    now: Duration,
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn node(name: &str, cpu: &str) -> api::Node {
    let node =
        json!({"metadata": {"name": name}, "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"}}});
    serde_json::from_value(node).unwrap()
}

/// A pod of this name and UID.
fn pod(name: &str, cpu: &str, priority: i32) -> api::Pod {
    let requests = json!({"requests": {"cpu": cpu}});
    let pod = json!({
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"priority": priority, "containers": [{"name": "c", "resources": requests}]},
    });
    serde_json::from_value(pod).unwrap()
}

fn changed(pod: &api::Pod, field: &str, value: Value) -> api::Pod {
    let mut json = serde_json::to_value(pod).unwrap();
    *json.pointer_mut(field.rsplit_once('/').unwrap().0).unwrap() = {
        let (parent, name) = field.rsplit_once('/').unwrap();
        let mut object = json.pointer(parent).cloned().unwrap();
        object[name] = value;
        object
    };
    serde_json::from_value(json).unwrap()
}

fn bound_to(pod: &api::Pod, node: &str) -> api::Pod {
    changed(pod, "/spec/nodeName", json!(node))
}

impl World {
    fn new() -> Self {
        Self { engine: Engine::new(&Configuration::default(), 1), now: Duration::ZERO }
    }

    fn apply(&mut self, object: impl Into<Object>) {
        self.engine.apply(self.now, Event::apply(object)).unwrap();
    }

    fn delete(&mut self, object: impl Into<Object>) {
        self.engine.apply(self.now, Event::delete(object)).unwrap();
    }

    fn next(&mut self) -> Option<Attempt> {
        self.engine.next(self.now)
    }

    /// The next attempt in short: `bind pod node`, `wait pod` or `fail pod`. A pod that can be is bound.
    fn step(&mut self) -> Option<String> {
        Some(match self.next()? {
            Attempt::Bind { reservation, binding, .. } => {
                self.engine.bound(self.now, reservation);
                format!("bind {} {}", binding.name, binding.node)
            }
            Attempt::Wait { pod, .. } => format!("wait {}", pod.name),
            Attempt::Failed { pod, .. } => format!("fail {}", pod.name),
        })
    }

    /// All that can be done now.
    fn steps(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.step()).take(100).collect()
    }

    /// The pod that is to be bound next.
    fn reserve(&mut self) -> Reservation {
        match self.next() {
            Some(Attempt::Bind { reservation, .. }) => reservation,
            other => panic!("expected a binding, got {other:?}"),
        }
    }

    fn requested_cpu(&self, node: &str) -> i64 {
        let id = self.engine.state().node_named(node).unwrap();
        self.engine.state().node(id).unwrap().requested.cpu
    }
}
