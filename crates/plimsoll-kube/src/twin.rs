//! The cluster as it would be under the default policy: the same pods come and go, and another engine places them. What it says is an estimate, of what
//! is asked for, and of pods of our profiles only: others are where they are.

use crate::survey::watts;
use crate::world::{NodeKind, World};
use k8s_openapi::api::core::v1::Pod;
use plimsoll_core::config::Configuration;
use plimsoll_core::engine::{Attempt, Engine, Event, Object};
use plimsoll_core::state::pod_key;
use rustc_hash::FxHashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often totals are told.
const TELL: Duration = Duration::from_secs(1);

/// Figures of the twin.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TwinTotals {
    /// What nodes draw, if that is known of all of them.
    pub watts: Option<f64>,
    /// Nodes that have pods.
    pub active_nodes: usize,
    /// The standard deviation of the share of CPU that is asked for.
    pub balance: f64,
    /// Milliseconds to users, by pods.
    pub latency_ms: Option<f64>,
}

/// The twin, on a thread of its own.
pub struct Twin {
    events: Sender<Event>,
    totals: Arc<Mutex<TwinTotals>>,
}

impl Twin {
    /// Starts a twin for these profiles, which decide as kube-scheduler does, on nodes of these kinds.
    pub fn start(configuration: &Configuration, kinds: Vec<NodeKind>) -> std::io::Result<Self> {
        let (events, received) = channel();
        let totals: Arc<Mutex<TwinTotals>> = Arc::default();
        let profiles = configuration.profiles.iter().map(|profile| profile.scheduler_name.clone()).collect();
        let mut engine = Engine::new(configuration, 1);
        // Nobody reads why its pods wait.
        engine.set_words_messages(false);
        let told = Arc::clone(&totals);
        let inner =
            Inner { engine, world: World::new(kinds), profiles, pods: FxHashMap::default(), begun: Instant::now() };
        std::thread::Builder::new().name("twin".to_owned()).spawn(move || inner.run(&received, &told))?;
        Ok(Self { events, totals })
    }

    /// Tells it what happened.
    pub fn tell(&self, event: &Event) {
        if matches!(event, Event::Apply(_) | Event::Delete(_)) {
            // One that has ended need not know.
            let _ = self.events.send(event.clone());
        }
    }

    /// Where its figures are.
    pub fn totals(&self) -> Arc<Mutex<TwinTotals>> {
        Arc::clone(&self.totals)
    }
}

struct Inner {
    engine: Engine,
    world: World,
    profiles: Vec<String>,
    /// The pods that this engine places, by UID, without their node.
    pods: FxHashMap<String, Box<Pod>>,
    begun: Instant,
}

impl Inner {
    fn run(mut self, events: &Receiver<Event>, totals: &Mutex<TwinTotals>) {
        let mut last = Instant::now();
        loop {
            match events.recv_timeout(TELL) {
                Ok(event) => self.take(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            // What came at once is decided upon at once.
            while let Ok(event) = events.try_recv() {
                self.take(event);
            }
            self.decide();
            if last.elapsed() >= TELL {
                last = Instant::now();
                *totals.lock().unwrap_or_else(PoisonError::into_inner) = self.totals();
            }
        }
    }

    fn take(&mut self, event: Event) {
        let event = match event {
            Event::Apply(Object::Pod(pod)) if self.is_ours(&pod) => {
                let uid = pod_key(&pod.metadata);
                // Where it really is does not matter here, and nothing else about it changes.
                if self.pods.contains_key(&uid) {
                    return;
                }
                let pod = without_node(*pod);
                self.pods.insert(uid, pod.clone());
                Event::Apply(Object::Pod(pod))
            }
            Event::Delete(Object::Pod(pod)) => {
                self.pods.remove(&pod_key(&pod.metadata));
                Event::Delete(Object::Pod(pod))
            }
            other => other,
        };
        self.apply(event);
    }

    fn apply(&mut self, event: Event) {
        let told = self.world.look(&event);
        // What cannot be read is told of elsewhere.
        if self.engine.apply(self.begun.elapsed(), event).is_ok() {
            self.world.tell(&mut self.engine, told);
        }
    }

    fn is_ours(&self, pod: &Pod) -> bool {
        let scheduler = pod.spec.as_ref().and_then(|spec| spec.scheduler_name.as_deref());
        self.profiles.iter().any(|profile| profile == scheduler.unwrap_or("default-scheduler"))
    }

    fn decide(&mut self) {
        while let Some(attempt) = self.engine.next(self.begun.elapsed()) {
            // Nobody is removed for another here, and a pod that waits is tried again by itself.
            let Attempt::Bind { reservation, binding, .. } = attempt else { continue };
            self.engine.bound(self.begun.elapsed(), reservation);
            if let Some(pod) = self.pods.get(&binding.uid) {
                let mut pod = pod.clone();
                pod.spec.get_or_insert_default().node_name = Some(binding.node);
                self.apply(Event::Apply(Object::Pod(pod)));
            }
        }
    }

    fn totals(&self) -> TwinTotals {
        let state = self.engine.state();
        let (mut drawn, mut active, mut shares) = (Some(0.0), 0, Vec::with_capacity(state.node_count()));
        let (mut far, mut pods) = (0.0, 0.0);
        for node in state.nodes() {
            let known = state.telemetry.node(node.id);
            drawn = drawn.zip(watts(node, known)).map(|(sum, watts)| sum + watts);
            active += usize::from(!node.pods.is_empty());
            shares.push(node.requested.cpu as f64 / node.allocatable.cpu.max(1) as f64);
            if let Some(ms) = known.latency_ms {
                far += ms * node.pods.len() as f64;
                pods += node.pods.len() as f64;
            }
        }
        TwinTotals {
            watts: drawn.filter(|_| !shares.is_empty()),
            active_nodes: active,
            balance: deviation(&shares),
            latency_ms: (pods > 0.0).then(|| far / pods),
        }
    }
}

fn without_node(mut pod: Pod) -> Box<Pod> {
    if let Some(spec) = &mut pod.spec {
        spec.node_name = None;
    }
    if let Some(status) = &mut pod.status {
        status.nominated_node_name = None;
    }
    Box::new(pod)
}

/// The standard deviation; 0 of nothing.
pub fn deviation(values: &[f64]) -> f64 {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    (values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / count).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Node;
    use serde_json::json;

    fn node(name: &str) -> Event {
        let resources = json!({ "cpu": "4", "memory": "8Gi", "pods": "10" });
        let node: Node = serde_json::from_value(
            json!({ "metadata": { "name": name }, "status": { "allocatable": resources, "capacity": resources } }),
        )
        .unwrap();
        Event::apply(node)
    }

    fn pod(name: &str, node: Option<&str>) -> Pod {
        serde_json::from_value(json!({
            "metadata": { "name": name, "namespace": "d", "uid": name },
            "spec": { "nodeName": node, "schedulerName": "default-scheduler",
                "containers": [{ "name": "c", "resources": { "requests": { "cpu": "1" } } }] },
        }))
        .unwrap()
    }

    #[test]
    fn pods_that_really_share_a_node_are_spread_as_the_default_would() {
        let engine = Engine::new(&Configuration::default(), 1);
        let profiles = vec!["default-scheduler".to_owned()];
        let mut twin = Inner {
            engine,
            world: World::new(Vec::new()),
            profiles,
            pods: FxHashMap::default(),
            begun: Instant::now(),
        };
        for event in [node("a"), node("b"), Event::apply(pod("p", Some("a"))), Event::apply(pod("q", Some("a")))] {
            twin.take(event);
        }
        twin.decide();
        assert_eq!(twin.totals(), TwinTotals { watts: None, active_nodes: 2, balance: 0.0, latency_ms: None });
        // What is told of a pod again moves nothing; its end frees its place.
        twin.take(Event::apply(pod("p", Some("a"))));
        twin.take(Event::delete(pod("q", Some("a"))));
        twin.decide();
        assert_eq!(twin.totals().active_nodes, 1);
    }
}
