//! What people see and steer: the cluster, decisions, pods that wait, measures, policies. It is kept up to date beside the engine, which is asked a few times a
//! second for what changed: who reads does not keep it from deciding.

pub mod cluster;
pub mod decisions;
pub mod demo;
pub mod events;
mod figures;
pub mod jobs;
mod page;
pub mod policies;
pub mod rewards;
pub mod shelf;
pub mod status;
mod totals;
pub mod training;

pub use page::{asset, index, mark};

use crate::answer::Refused;
use crate::stage::Stage;
use axum::body::Bytes;
use plimsoll_core::engine::Counts;
use plimsoll_core::policy::Policy;
use plimsoll_kube::driver::{Inbox, Question};
use plimsoll_kube::survey::{Decision, NodeView, Seen, Survey};
use plimsoll_kube::twin::{Account, Told, Twin, Whole};
use plimsoll_learn::reward::{Objectives, SharedObjectives};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::{broadcast, oneshot};

/// How often the engine is asked what changed.
const LOOK: Duration = Duration::from_millis(250);
/// How often measures are taken.
const MEASURE: Duration = Duration::from_secs(5);
/// Points that are kept: a day.
const POINTS: usize = 17_280;
/// Decisions that are kept to be searched.
const DECISIONS: usize = 10_000;
/// Updates that a reader may lag behind before it has to begin anew.
const LAG: usize = 256;

/// How a policy is had by its name; a model with another weight of its own score against its heuristic's than its card says, if one is given.
pub type Load = Box<dyn Fn(&str, Option<f64>) -> Result<Box<dyn Policy>, String> + Send + Sync>;

/// How a twin is started in which a policy, with a weight as above, places the pods that come.
pub type StartShadow = Box<dyn Fn(&str, Option<f64>) -> Result<Twin, String> + Send + Sync>;
/// How weights are tried: the policy `multi-objective` with each of them. What cannot be tried here is said at once; the rest takes a while.
pub type Preview = Box<dyn Fn([Objectives; 2]) -> Result<Previewed, String> + Send + Sync>;
/// What weights come to.
pub type Previewed = Pin<Box<dyn Future<Output = Result<[Account; 2], String>> + Send>>;
/// How the model of a folder is kept under a name; where it is then.
pub type Save = Box<dyn Fn(&str, &str) -> Result<String, String> + Send + Sync>;

/// What the program that serves can do, and how it was started.
pub struct Helm {
    /// `schedule`, `shadow`, `advise` or `demo`.
    pub mode: &'static str,
    /// The configuration in force, without secrets.
    pub config: Value,
    /// The policies that can be chosen, with the evidence for each.
    pub catalogue: Box<dyn Fn() -> Vec<PolicyEntry> + Send + Sync>,
    /// A policy by its name, or the model of a folder.
    pub load: Load,
    /// What the cluster would be like under the default policy.
    pub twin: Option<Arc<Told>>,
    /// A twin in which a policy places the pods that come from now on.
    pub shadow: StartShadow,
    /// What all pods, placed anew by some weights and by others, would come to.
    pub preview: Preview,
    /// What placements are rewarded for.
    pub objectives: SharedObjectives,
    /// What is learned.
    pub training: Arc<training::Training>,
    /// Keeps a model.
    pub save: Save,
    /// Who records.
    pub recorder: Option<Arc<dyn shelf::Recorder>>,
    /// Who runs experiments.
    pub laboratory: Option<shelf::Laboratory>,
    /// The day that is shown, in a demo.
    pub demo: Option<Arc<Stage>>,
}

impl Default for Helm {
    fn default() -> Self {
        Self {
            mode: "advise",
            config: json!({}),
            catalogue: Box::new(Vec::new),
            load: Box::new(|name, _| Err(format!("{name:?} cannot be loaded here"))),
            twin: None,
            shadow: Box::new(|_, _| Err("there is no cluster here that could be watched".to_owned())),
            preview: Box::new(|_| Err("there is no cluster here that could be watched".to_owned())),
            objectives: SharedObjectives::default(),
            training: Arc::default(),
            save: Box::new(|_, _| Err("nothing is kept here".to_owned())),
            recorder: None,
            laboratory: None,
            demo: None,
        }
    }
}

/// A policy that can be chosen.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PolicyEntry {
    /// The name it is chosen by.
    pub name: String,
    /// `model` or `heuristic`.
    pub kind: &'static str,
    /// What it does.
    pub description: String,
    /// Which weights it has, for a model.
    pub version: Option<String>,
    /// What it reached, for a model.
    pub evidence: Option<Value>,
}

/// What is seen.
#[derive(Default)]
struct View {
    seen: Seen,
    revision: u64,
    nodes: BTreeMap<u32, NodeView>,
    decisions: VecDeque<Arc<Decision>>,
    counts: Counts,
    placed: u64,
    policies: Vec<(String, String)>,
    /// The versions of those that are models, as of when they were read; none where that is to be looked up.
    versions: Option<Vec<Option<String>>>,
    leads: bool,
    points: VecDeque<Point>,
    saved_kwh: f64,
    /// The answer to `/cluster/state`, as long as nothing changed.
    written: Option<(u64, Bytes)>,
}

/// Figures of the whole cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Totals {
    nodes: usize,
    active_nodes: usize,
    pods: i64,
    cpu_m: [i64; 2],
    memory: [i64; 2],
    watts: Option<f64>,
    watts_default: Option<f64>,
    balance: f64,
    latency_ms: Option<f64>,
}

/// Measures at a time.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Point {
    at: f64,
    watts: Option<f64>,
    watts_default: Option<f64>,
    active_nodes: usize,
    active_nodes_default: Option<usize>,
    balance: f64,
    balance_default: Option<f64>,
    latency_ms: Option<f64>,
    latency_ms_default: Option<f64>,
    pods: i64,
    saving_kwh: Option<f64>,
    placed_per_second: f64,
}

/// Something new, ready to be sent.
#[derive(Debug, Clone)]
pub struct Update {
    event: &'static str,
    data: Arc<str>,
}

/// See the description of the module.
pub struct Bridge {
    inbox: Inbox,
    helm: Helm,
    view: RwLock<View>,
    updates: broadcast::Sender<Update>,
    started: Instant,
    started_at: SystemTime,
    /// The policies before each switch, the last at the end.
    before: Mutex<Vec<Vec<(String, String)>>>,
    /// Who places pods in thought beside the policy in force.
    shadow: Mutex<Option<policies::Shadow>>,
    /// How much models' own scores weigh, if not as their cards say.
    trust: Mutex<Option<f64>>,
    jobs: Arc<jobs::Jobs>,
}

impl Bridge {
    /// A bridge to an engine.
    pub fn new(inbox: Inbox, helm: Helm) -> Arc<Self> {
        Arc::new(Self {
            inbox,
            helm,
            view: RwLock::default(),
            updates: broadcast::Sender::new(LAG),
            started: Instant::now(),
            started_at: SystemTime::now(),
            before: Mutex::default(),
            shadow: Mutex::default(),
            trust: Mutex::default(),
            jobs: Arc::default(),
        })
    }

    /// Looks at the engine until it ends.
    pub async fn follow(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(LOOK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut measured, mut placed) = (Instant::now(), 0);
        loop {
            ticks.tick().await;
            if self.look().await.is_err() {
                return;
            }
            let since = measured.elapsed();
            if since >= MEASURE {
                measured = Instant::now();
                placed = self.measure(since, placed);
            }
        }
    }

    /// Brings what is seen up to date.
    async fn look(&self) -> Result<(), Refused> {
        let seen = self.read(|view| view.seen);
        let survey = self.ask(|answer| Question::Survey(seen, answer)).await?;
        let is_listened_to = self.updates.receiver_count() > 0;
        let updates = self.take(survey, is_listened_to);
        for update in updates {
            // Nobody may listen.
            let _ = self.updates.send(update);
        }
        Ok(())
    }

    fn take(&self, survey: Survey, is_listened_to: bool) -> Vec<Update> {
        let mut updates = Vec::new();
        let mut view = self.view.write().unwrap_or_else(PoisonError::into_inner);
        let (mut changed, mut gone, mut differs) = (Vec::new(), Vec::new(), false);
        for (id, node) in survey.nodes {
            let before = view.nodes.get(&id);
            match node {
                Some(node) if before == Some(&node) => {}
                Some(node) => {
                    // A number may be another node's by now.
                    gone.extend(before.filter(|before| before.name != node.name).map(|before| before.name.clone()));
                    if is_listened_to {
                        changed.push(node.clone());
                    }
                    view.nodes.insert(id, node);
                    differs = true;
                }
                None => gone.extend(view.nodes.remove(&id).map(|node| node.name)),
            }
        }
        if differs || !gone.is_empty() {
            view.revision += 1;
            view.written = None;
        }
        if is_listened_to && !(changed.is_empty() && gone.is_empty()) {
            let (revision, totals) = (view.revision, self.totals(&view));
            updates.push(Update::new(
                "nodes",
                &json!({ "revision": revision, "changed": changed, "gone": gone, "totals": totals }),
            ));
        }
        if is_listened_to && !survey.decisions.is_empty() {
            updates.push(Update::new("decision", &json!({ "items": survey.decisions })));
        }
        view.decisions.extend(survey.decisions);
        let excess = view.decisions.len().saturating_sub(DECISIONS);
        view.decisions.drain(..excess);
        if view.counts != survey.counts {
            updates.push(Update::new("pending", &status::queues(&survey.counts)));
        }
        (view.seen, view.counts, view.placed) = (survey.seen, survey.counts, survey.placed);
        if view.versions.is_none() || view.policies != survey.policies {
            let known = (self.helm.catalogue)();
            let version = |name: &str| known.iter().find(|entry| entry.name == name)?.version.clone();
            view.versions = Some(survey.policies.iter().map(|(_, name)| version(name)).collect());
        }
        (view.policies, view.leads) = (survey.policies, survey.leads);
        updates
    }

    /// Takes measures; how many pods were placed so far.
    fn measure(&self, since: Duration, placed_before: u64) -> u64 {
        let mut view = self.view.write().unwrap_or_else(PoisonError::into_inner);
        let totals = self.totals(&view);
        let twin = self.helm.twin.as_ref().map(|twin| twin.account().whole);
        if let (Some(watts), Some(default)) = (totals.watts, totals.watts_default) {
            view.saved_kwh += (default - watts) / 1000.0 * since.as_secs_f64() / 3600.0;
        }
        if let Some(stage) = &self.helm.demo {
            view.saved_kwh = stage.saved_kwh();
        }
        let point = Point {
            at: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64(),
            watts: totals.watts,
            watts_default: totals.watts_default,
            active_nodes: totals.active_nodes,
            active_nodes_default: twin.as_ref().map(|twin| twin.active_nodes),
            balance: totals.balance,
            balance_default: twin.as_ref().map(|twin| twin.balance),
            latency_ms: totals.latency_ms,
            latency_ms_default: twin.as_ref().and_then(|twin| twin.latency_ms),
            pods: totals.pods,
            saving_kwh: totals.watts_default.and(totals.watts).map(|_| view.saved_kwh),
            placed_per_second: view.placed.saturating_sub(placed_before) as f64 / since.as_secs_f64(),
        };
        self.tell("measures", &json!({ "point": point }));
        view.points.push_back(point);
        if view.points.len() > POINTS {
            view.points.pop_front();
        }
        view.placed
    }

    fn totals(&self, view: &View) -> Totals {
        let watts_default = self.helm.twin.as_ref().and_then(|twin| twin.account().whole.watts);
        Totals::of(view.nodes.values(), watts_default)
    }

    fn read<T>(&self, read: impl FnOnce(&View) -> T) -> T {
        read(&self.view.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Pods that wait.
    pub fn waiting(&self) -> usize {
        self.read(|view| view.counts.active + view.counts.backoff + view.counts.unschedulable)
    }

    /// Whether a policy ranks for a profile.
    fn ranks(&self, policy: &str) -> bool {
        self.read(|view| view.policies.iter().any(|(_, name)| name == policy))
    }

    /// Pods that were placed since the start.
    pub fn placed(&self) -> u64 {
        self.read(|view| view.placed)
    }

    /// The cluster as it is.
    pub fn whole(&self) -> Whole {
        self.read(|view| self.totals(view)).whole()
    }

    /// Tells all who listen.
    pub fn tell(&self, event: &'static str, data: &Value) {
        // Nobody may listen.
        let _ = self.updates.send(Update::new(event, data));
    }

    /// Asks the engine.
    pub(crate) async fn ask<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> Question) -> Result<T, Refused> {
        self.inbox.ask(question).await.map_err(|_| Refused::ended())
    }
}

impl Update {
    fn new(event: &'static str, data: &Value) -> Self {
        Self { event, data: data.to_string().into() }
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
