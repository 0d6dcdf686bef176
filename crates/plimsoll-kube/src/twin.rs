//! The cluster as it would be under other policies: the same pods come and go, and another engine places them. What it says is an estimate, of what
//! is asked for, and of pods of our profiles only: others are where they are.

use crate::driver::{Inbox, Input};
use crate::run::Watches;
use crate::survey::watts;
use crate::world::{Measured, NodeKinds, World, is_placed};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use plimsoll_core::config::Configuration;
use plimsoll_core::engine::{Attempt, Counts, Engine, Event, Object};
use plimsoll_core::policy::Policy;
use plimsoll_core::state::{ClusterState, pod_key};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

/// How often it tells what it has to tell.
const TELL: Duration = Duration::from_secs(1);
/// How long twins may take to place all pods.
const PATIENCE: Duration = Duration::from_secs(300);
/// Inputs that are taken in at once.
const BATCH: usize = 512;

/// A node, as far as figures of the whole need it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Part {
    /// Its pods.
    pub pods: usize,
    /// Thousandths of a core: asked for, and there.
    pub cpu_m: [i64; 2],
    /// What it draws.
    pub watts: Option<f64>,
    /// Milliseconds to users.
    pub latency_ms: Option<f64>,
    /// Whether it stands for another cluster.
    pub is_virtual: bool,
}

/// Figures of a whole cluster.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Whole {
    /// What nodes draw, if that is known of all of them; virtual ones are left out.
    pub watts: Option<f64>,
    /// Nodes that have pods.
    pub active_nodes: usize,
    /// The standard deviation of the share of CPU that is asked for.
    pub balance: f64,
    /// Milliseconds to users, by pods.
    pub latency_ms: Option<f64>,
}

impl Whole {
    /// What the nodes of a cluster come to together.
    pub fn of_state(state: &ClusterState) -> Self {
        Self::of(state.nodes().map(|node| {
            let known = state.telemetry.node(node.id);
            Part {
                pods: node.pods.len(),
                cpu_m: [node.requested.cpu, node.allocatable.cpu],
                watts: watts(node, known),
                latency_ms: known.latency_ms,
                is_virtual: known.is_virtual(),
            }
        }))
    }

    /// What nodes come to together.
    pub fn of(parts: impl Iterator<Item = Part>) -> Self {
        let (mut watts, mut active_nodes, mut shares) = (Some(0.0), 0, Vec::new());
        let (mut far, mut measured) = (0.0, 0.0);
        for part in parts {
            let pods = part.pods as f64;
            if let Some(ms) = part.latency_ms {
                far += ms * pods;
                measured += pods;
            }
            // What other clusters draw, and how full they are, is not a matter of this one.
            if part.is_virtual {
                continue;
            }
            watts = watts.zip(part.watts).map(|(sum, watts)| sum + watts);
            active_nodes += usize::from(part.pods > 0);
            shares.push(part.cpu_m[0] as f64 / part.cpu_m[1].max(1) as f64);
        }
        Self {
            watts: watts.filter(|_| !shares.is_empty()),
            active_nodes,
            balance: deviation(&shares),
            latency_ms: (measured > 0.0).then(|| far / measured),
        }
    }
}

/// How a twin begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// All pods of our profiles are placed anew.
    Anew,
    /// Pods that are there stay where they are; those that come are placed.
    AsItIs,
}

/// What a twin has to tell.
#[derive(Debug, Clone, Default)]
pub struct Account {
    /// Whether all objects are known, and all pods that were there then were tried.
    pub is_ready: bool,
    /// The figures of the cluster as it would be.
    pub whole: Whole,
    /// Pods that were placed.
    pub placed: u64,
    /// Pods that wait.
    pub waiting: usize,
}

/// Where what a twin has to tell is.
#[derive(Debug, Default)]
pub struct Told {
    account: Mutex<Account>,
    /// The node of each pod that was placed, by its UID.
    places: Mutex<FxHashMap<String, String>>,
}

impl Told {
    /// How things stand in the cluster as it would be.
    pub fn account(&self) -> Account {
        lock(&self.account).clone()
    }

    /// Changes how things stand.
    pub fn set(&self, account: Account) {
        *lock(&self.account) = account;
    }

    /// Where a pod was placed, by its UID.
    pub fn place(&self, uid: &str) -> Option<String> {
        lock(&self.places).get(uid).cloned()
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Milliseconds to users, as measured, by node.
pub type Latencies = Arc<dyn Fn() -> BTreeMap<String, f64> + Send + Sync>;

/// The cluster that there are twins of.
#[derive(Clone)]
pub struct Site {
    /// How it is watched.
    pub client: Client,
    /// The profiles of pods that are placed.
    pub configuration: Configuration,
    /// What its nodes are like.
    pub kinds: NodeKinds,
    /// How far its nodes are from users. What pods use of them is not asked for: it is used where the pods really are.
    pub latencies: Latencies,
}

/// A cluster as it would be under other policies, on a thread of its own. It ends when it is dropped.
pub struct Twin {
    told: Arc<Told>,
    _watches: Watches,
}

impl Twin {
    /// Starts a twin of a cluster, whose profiles decide as kube-scheduler does unless a policy is given. It watches the cluster by itself: who schedules is not
    /// slowed by it.
    pub fn start(site: &Site, policies: Vec<(String, Box<dyn Policy>)>, begin: Begin) -> Self {
        let (inbox, inputs) = Inbox::new();
        let watches = Watches::all(site.client.clone(), inbox);
        let mut inner = Inner::new(&site.configuration, &site.kinds, policies, begin, watches.kinds());
        inner.latencies = Arc::clone(&site.latencies);
        let told = Arc::clone(&inner.told);
        let runtime = Handle::current();
        tokio::task::spawn_blocking(move || runtime.block_on(inner.run(inputs)));
        Self { told, _watches: watches }
    }

    /// Where what it tells is.
    pub fn told(&self) -> &Arc<Told> {
        &self.told
    }

    /// What twins have to tell once they have placed what can be placed.
    pub async fn settled<const N: usize>(twins: &[Self; N]) -> Result<[Account; N], String> {
        let begun = Instant::now();
        loop {
            tokio::time::sleep(TELL / 4).await;
            let accounts = twins.each_ref().map(|twin| twin.told.account());
            if accounts.iter().all(|account| account.is_ready) {
                return Ok(accounts);
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!("the pods were not placed within {} seconds", PATIENCE.as_secs()));
            }
        }
    }
}

struct Inner {
    engine: Engine,
    world: World,
    latencies: Latencies,
    profiles: Vec<String>,
    begin: Begin,
    /// Kinds whose objects are not all known yet.
    unsynced: usize,
    /// The pods of our profiles, by UID: without their node if this engine places them, none if they stay where they are.
    pods: FxHashMap<String, Option<Box<Pod>>>,
    told: Arc<Told>,
    placed: u64,
    begun: Instant,
}

impl Inner {
    fn new(
        configuration: &Configuration,
        kinds: &NodeKinds,
        policies: Vec<(String, Box<dyn Policy>)>,
        begin: Begin,
        unsynced: usize,
    ) -> Self {
        let mut engine = Engine::new(configuration, 1);
        // Nobody reads why its pods wait.
        engine.set_words_messages(false);
        for (profile, policy) in policies {
            engine.set_policy(&profile, policy);
        }
        Self {
            engine,
            world: World::new(kinds.clone()),
            latencies: Arc::new(BTreeMap::new),
            profiles: configuration.profiles.iter().map(|profile| profile.scheduler_name.clone()).collect(),
            begin,
            unsynced,
            pods: FxHashMap::default(),
            told: Arc::default(),
            placed: 0,
            begun: Instant::now(),
        }
    }

    async fn run(mut self, mut inputs: mpsc::Receiver<Input>) {
        let mut last = Instant::now();
        let mut taken = Vec::new();
        loop {
            // What came at once is decided upon at once.
            if let Ok(0) = tokio::time::timeout(TELL, inputs.recv_many(&mut taken, BATCH)).await {
                return;
            }
            for input in taken.drain(..) {
                match input {
                    Input::Event(event) => self.take(event),
                    Input::Synced => self.unsynced = self.unsynced.saturating_sub(1),
                    _ => {}
                }
            }
            if self.unsynced > 0 {
                continue;
            }
            let is_due = last.elapsed() >= TELL;
            if is_due {
                self.measure();
            }
            self.decide();
            if is_due {
                last = Instant::now();
                self.told.set(self.account());
            }
        }
    }

    fn measure(&mut self) {
        let measured = |(node, latency)| (node, Measured { latency_ms: Some(latency), ..Measured::default() });
        self.world.measured(&mut self.engine, (self.latencies)().into_iter().map(measured).collect());
    }

    fn take(&mut self, event: Event) {
        let event = match event {
            Event::Apply(Object::Pod(pod)) if self.is_ours(&pod) => {
                let uid = pod_key(&pod.metadata);
                match self.pods.get(&uid) {
                    // Where it really is does not matter here, and nothing else about it changes.
                    Some(Some(_)) => return,
                    Some(None) => Event::Apply(Object::Pod(pod)),
                    None if self.begin == Begin::AsItIs && self.unsynced > 0 && is_placed(&pod) => {
                        self.pods.insert(uid, None);
                        Event::Apply(Object::Pod(pod))
                    }
                    None => {
                        let pod = without_node(*pod);
                        self.pods.insert(uid, Some(pod.clone()));
                        Event::Apply(Object::Pod(pod))
                    }
                }
            }
            Event::Delete(Object::Pod(pod)) => {
                let uid = pod_key(&pod.metadata);
                self.pods.remove(&uid);
                lock(&self.told.places).remove(&uid);
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
        self.world.tell_time(&mut self.engine);
        while let Some(attempt) = self.engine.next(self.begun.elapsed()) {
            // Nobody is removed for another here, and a pod that waits is tried again by itself.
            let Attempt::Bind { reservation, binding, .. } = attempt else { continue };
            self.world.tell_awake(&mut self.engine, reservation.node);
            self.engine.bound(self.begun.elapsed(), reservation);
            if let Some(Some(pod)) = self.pods.get(&binding.uid) {
                let mut pod = pod.clone();
                pod.spec.get_or_insert_default().node_name = Some(binding.node.clone());
                self.placed += 1;
                lock(&self.told.places).insert(binding.uid, binding.node);
                self.apply(Event::Apply(Object::Pod(pod)));
            }
        }
    }

    fn account(&self) -> Account {
        let Counts { active, backoff, unschedulable, .. } = self.engine.counts();
        Account {
            is_ready: active == 0,
            whole: Whole::of_state(self.engine.state()),
            placed: self.placed,
            waiting: active + backoff + unschedulable,
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

    fn twin(policies: Vec<(String, Box<dyn Policy>)>, begin: Begin) -> Inner {
        Inner::new(&Configuration::default(), &NodeKinds::default(), policies, begin, 1)
    }

    #[test]
    fn pods_that_really_share_a_node_are_spread_as_the_default_would() {
        let mut twin = twin(Vec::new(), Begin::Anew);
        for event in [node("a"), node("b"), Event::apply(pod("p", Some("a"))), Event::apply(pod("q", Some("a")))] {
            twin.take(event);
        }
        twin.decide();
        assert_eq!(
            Whole::of_state(twin.engine.state()),
            Whole { watts: None, active_nodes: 2, balance: 0.0, latency_ms: None }
        );
        assert_eq!((twin.account().placed, twin.account().waiting, lock(&twin.told.places).len()), (2, 0, 2));
        // What is told of a pod again moves nothing; its end frees its place.
        twin.take(Event::apply(pod("p", Some("a"))));
        twin.take(Event::delete(pod("q", Some("a"))));
        twin.decide();
        assert_eq!(Whole::of_state(twin.engine.state()).active_nodes, 1);
        // How far nodes are is as true of the cluster in thought.
        twin.latencies = Arc::new(|| BTreeMap::from([("a".to_owned(), 7.0), ("b".to_owned(), 7.0)]));
        twin.measure();
        assert_eq!(Whole::of_state(twin.engine.state()).latency_ms, Some(7.0));
    }

    #[test]
    fn pods_that_are_there_may_stay_and_a_policy_places_those_that_come() {
        let policy = plimsoll_core::policy::by_name("best-fit").unwrap();
        let mut twin = twin(vec![("default-scheduler".to_owned(), policy)], Begin::AsItIs);
        for event in [node("a"), node("b"), Event::apply(pod("p", Some("a"))), Event::apply(pod("q", Some("b")))] {
            twin.take(event);
        }
        twin.unsynced = 0;
        twin.decide();
        assert_eq!((Whole::of_state(twin.engine.state()).active_nodes, twin.placed), (2, 0), "nobody moves");
        twin.take(Event::delete(pod("q", Some("b"))));
        // The other scheduler has spread it; this one does not.
        twin.take(Event::apply(pod("r", Some("b"))));
        twin.decide();
        assert_eq!(
            (Whole::of_state(twin.engine.state()).active_nodes, twin.told.place("r").as_deref()),
            (1, Some("a"))
        );
    }
}
