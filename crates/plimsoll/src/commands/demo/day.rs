//! The day: the same pods come to two equal clusters, which two policies fill. It goes in steps of simulated time, so that its figures are those of
//! its seed however fast it is shown.

use anyhow::{Context, Result, anyhow};
use k8s_openapi::api::core::v1::Pod;
use plimsoll_core::engine::{Attempt, Engine, Event};
use plimsoll_core::policy::Policy;
use plimsoll_kube::asked::Told;
use plimsoll_kube::survey::{Chronicle, NodeView, Ranked, Survey};
use plimsoll_kube::twin::{Account, Whole};
use plimsoll_server::{Figures, Side};
use plimsoll_sim::scenario::{Prepared, Scenario};
use plimsoll_sim::simulation::{Inputs, Observer, Seen, Simulation};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What is lived through; also there to be changed and run.
const SCENARIO: &str = include_str!("../../../../../examples/scenarios/day.toml");
/// How far the day goes at a time: at usual speeds, less than what a screen shows at a time.
pub const STEP: Duration = Duration::from_secs(10);
/// What the left side does.
pub const DEFAULT: &str = "default";

/// The scenario of the day.
pub fn scenario() -> Result<Scenario> {
    Scenario::parse(SCENARIO).map_err(|(_, problem)| anyhow!("the scenario of the demo: {problem}"))
}

/// A policy, and the name that it was chosen by.
pub struct Named {
    /// The name.
    pub name: String,
    /// The policy.
    pub policy: Box<dyn Policy>,
}

/// The day, under two policies.
pub struct Day {
    /// Under the default scheduler.
    pub left: Cluster,
    /// Under the policy that is shown.
    pub right: Cluster,
}

impl Day {
    /// A day that begins.
    pub fn new(seed: u64, left: Named, right: Named) -> Result<Self> {
        let scenario = scenario()?;
        let trace = scenario.trace(&scenario.fleet()?)?;
        let Prepared { workload, fleet, world, settings } = scenario.prepare(&trace, seed)?;
        let inputs =
            Inputs { workload: workload.into(), fleet: fleet.into(), world: world.into(), settings: settings.into() };
        Ok(Self { left: Cluster::new(inputs.clone(), left)?, right: Cluster::new(inputs, right)? })
    }

    /// Goes on by a step.
    pub fn step(&mut self) -> Result<()> {
        let time = self.clock() + STEP;
        for side in [&mut self.left, &mut self.right] {
            side.simulation.advance_to(time).with_context(|| format!("under {}", side.policy))?;
        }
        Ok(())
    }

    /// What the day comes to by a time with each of two policies, whoever is shown.
    pub fn previewed(seed: u64, policies: [Named; 2], clock: Duration) -> Result<[Account; 2]> {
        let [left, right] = policies;
        let mut day = Self::new(seed, left, right)?;
        while day.clock() < clock && !day.is_over() {
            day.step()?;
        }
        Ok([&mut day.left, &mut day.right].map(Cluster::account))
    }

    /// The time of the day.
    pub fn clock(&self) -> Duration {
        self.right.simulation.now()
    }

    /// Whether it is over.
    pub fn is_over(&self) -> bool {
        self.right.simulation.is_over()
    }
}

/// A simulated cluster that a policy fills.
pub struct Cluster {
    simulation: Simulation<'static>,
    chronicle: Arc<Mutex<Chronicle>>,
    policy: String,
    profile: String,
    /// The nodes as they were looked at last, by number.
    nodes: BTreeMap<u32, NodeView>,
    looked: plimsoll_kube::survey::Seen,
}

impl Cluster {
    fn new(inputs: Inputs<'static>, Named { name, policy }: Named) -> Result<Self> {
        let profile = inputs.settings.configuration.profiles.first();
        let profile = profile.map(|profile| profile.scheduler_name.clone()).context("there is no profile")?;
        let ranked = Ranked { profile: profile.clone(), policy: name.clone(), counters: policy.counters() };
        let chronicle = Arc::new(Mutex::new(Chronicle::new(vec![ranked])));
        let witness = Witness { chronicle: Arc::clone(&chronicle), begun: Instant::now() };
        let mut simulation = Simulation::new(inputs, policy, witness)?;
        // People read why pods wait.
        simulation.engine().set_words_messages(true);
        let (nodes, looked) = (BTreeMap::new(), plimsoll_kube::survey::Seen::default());
        Ok(Self { simulation, chronicle, policy: name, profile, nodes, looked })
    }

    /// Looks at the nodes that changed.
    pub fn look(&mut self) {
        let Survey { seen, nodes, .. } = self.survey(self.looked);
        for (number, node) in nodes {
            match node {
                Some(node) => drop(self.nodes.insert(number, node)),
                None => drop(self.nodes.remove(&number)),
            }
        }
        self.looked = seen;
    }

    /// How things stand.
    fn account(&mut self) -> Account {
        let Figures { placed, pending, .. } = self.figures();
        Account { is_ready: true, whole: Whole::of_state(self.simulation.engine().state()), placed, waiting: pending }
    }

    /// As it is shown; nodes as they were looked at last.
    pub fn side(&self) -> Side<'_> {
        Side { policy: &self.policy, figures: self.figures(), nodes: self.nodes.values().collect() }
    }

    /// What it came to so far.
    pub fn figures(&self) -> Figures {
        let sums = self.simulation.readings();
        let placed = lock(&self.chronicle).placed();
        let mean = |sum: f64, over: f64| if over > 0.0 { sum / over } else { 0.0 };
        Figures {
            kwh: sums.kwh,
            mean_active_nodes: mean(sums.active_node_hours, sums.hours),
            pending: self.simulation.waiting(),
            placed,
            rejected: sums.rejected as u64,
            mean_wait_s: mean(sums.waiting_hours * 3600.0, placed as f64),
        }
    }

    /// What is new since somebody has seen so far.
    pub fn survey(&mut self, seen: plimsoll_kube::survey::Seen) -> Survey {
        lock(&self.chronicle).survey(self.simulation.engine(), seen)
    }

    /// What is known of a pod.
    pub fn explain(&mut self, namespace: &str, name: &str) -> Option<plimsoll_kube::explained::Explained> {
        lock(&self.chronicle).explain(self.simulation.engine(), namespace, name)
    }

    /// Has another policy rank from the next decision on, if it is for the profile that there is.
    pub fn set_policy(&mut self, profile: &str, Named { name, policy }: Named) -> bool {
        let counters = policy.counters();
        let is_there = profile == self.profile && self.simulation.engine().set_policy(profile, policy);
        if is_there {
            lock(&self.chronicle).set_policy(profile, &name, counters);
            self.policy = name;
        }
        is_there
    }

    /// The only profile.
    pub fn profile(&self) -> &str {
        &self.profile
    }
}

impl Told for Cluster {
    fn engine(&mut self) -> &mut Engine {
        self.simulation.engine()
    }

    fn tell(&mut self, event: Event) {
        let now = self.simulation.now();
        // What cannot be read is not there afterwards, which is what whoever asks looks at.
        let _ = self.simulation.engine().apply(now, event);
    }

    fn pod_as_it_came(&self, uid: &str) -> Option<Pod> {
        self.simulation.object(uid)
    }
}

/// Writes down what is decided, and how long it took.
struct Witness {
    chronicle: Arc<Mutex<Chronicle>>,
    begun: Instant,
}

impl Observer for Witness {
    fn see(&mut self, _: Duration, _: Seen<'_>) {}

    fn deciding(&mut self) {
        self.begun = Instant::now();
    }

    fn decided(&mut self, attempt: &Attempt) {
        lock(&self.chronicle).note(attempt, self.begun.elapsed(), None, None);
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::demo::shipped;
    use plimsoll_core::policy::by_name;
    use plimsoll_kube::asked::{again, what_if};
    use plimsoll_kube::survey::Seen;
    use plimsoll_learn::reward::SharedObjectives;

    fn day(seed: u64, hours: u64) -> Day {
        let left = Named { name: DEFAULT.to_owned(), policy: by_name(DEFAULT).unwrap() };
        let right = Named {
            name: shipped::NAME.to_owned(),
            policy: shipped::policy(shipped::NAME, &SharedObjectives::default(), None).unwrap(),
        };
        let mut day = Day::new(seed, left, right).unwrap();
        while day.clock() < Duration::from_secs(hours * 3600) {
            day.step().unwrap();
        }
        day
    }

    #[test]
    fn the_same_seed_gives_the_same_figures_and_another_gives_others() {
        let both = |seed| {
            let day = day(seed, 3);
            (day.left.figures(), day.right.figures())
        };
        let first = both(1);
        assert_eq!(first, both(1));
        assert_ne!(first, both(2));
    }

    #[test]
    fn the_shipped_policy_needs_less_energy_for_the_same_pods() {
        let mut day = day(1, 24);
        assert!(day.is_over());
        let (left, right) = (day.left.figures(), day.right.figures());
        assert!(right.kwh < 0.8 * left.kwh && right.mean_active_nodes < left.mean_active_nodes, "{left:?}, {right:?}");
        assert_eq!((left.placed, left.rejected, left.pending), (right.placed, right.rejected, right.pending));
        // What is shown is what was measured.
        day.right.look();
        let side = day.right.side();
        assert_eq!((side.figures, side.nodes.len()), (right, 200));
        day.step().unwrap();
        assert_eq!(day.right.figures(), right, "a day that is over does not go on");
    }

    #[test]
    fn decisions_can_be_asked_about_and_nothing_changes_by_it() {
        let (mut asked, quiet) = (day(1, 1), day(1, 1));
        let last = asked.right.survey(Seen::default()).decisions.pop().unwrap();
        let answer = again(&mut asked.right, &last.profile, &last.uid);
        assert!(answer.is_err() || !answer.unwrap().best.is_empty());
        let pod: Pod = serde_json::from_value(serde_json::json!({
            "metadata": { "name": "q", "namespace": "d", "uid": "what-if" },
            "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": "65" } } }] },
        }))
        .unwrap();
        let profile = asked.right.profile().to_owned();
        assert_eq!(what_if(&mut asked.right, &profile, &pod).unwrap().feasible, 0);
        assert!(asked.right.explain(&last.namespace, &last.pod).is_some());
        assert_eq!(asked.right.figures(), quiet.right.figures());
        assert!(!asked.right.set_policy("nobody", Named { name: "x".into(), policy: by_name("best-fit").unwrap() }));
    }
}
