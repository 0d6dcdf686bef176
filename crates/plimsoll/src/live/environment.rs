//! A real cluster as reinforcement learning sees it.
//!
//! An observation is what a model on this cluster would see: the engine of the adviser is asked, which knows what telemetry tells. A choice
//! becomes a recommendation, then a deployment is created: the scheduler asks, and places its pod there. What follows is read from
//! telemetry and from the users that are played.

use super::blocker::Blocker;
use super::site::{ADVISED, STOCK, Site, Wanted, pod};
use super::spec::LiveSpec;
use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::Pod;
use plimsoll_core::rng::Rng;
use plimsoll_kube::advise::{Candidates, Consultation};
use plimsoll_kube::driver::Question;
use plimsoll_kube::twin::deviation;
use plimsoll_learn::environment::{Environment, Step};
use plimsoll_learn::error::LearnError;
use plimsoll_learn::observation::Observation;
use plimsoll_learn::policy::{Sight, Sights};
use plimsoll_learn::reward::{Context as Around, Placed, Rewards};
use plimsoll_sim::simulation::Readings;
use plimsoll_telemetry::POWER_WATTS;
use serde_json::json;
use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant, SystemTime};
use tokio::runtime::Handle;

/// The profile of the adviser whose policy sees.
pub const WITNESS: &str = "witness";
/// The profile of the adviser that the scheduler asks.
pub const LIVE: &str = "live";

/// What users met.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Served {
    /// The latency that one in twenty requests exceeded, in milliseconds.
    pub p95_ms: f64,
    /// Requests that failed.
    pub errors: u64,
}

/// Plays users for a while.
pub type Users = Box<dyn FnMut() -> Result<Served> + Send>;

/// Who places a pod.
#[derive(Debug, Clone, Copy)]
pub enum Placer<'a> {
    /// The node with this name is recommended.
    Us(&'a str),
    /// kube-scheduler, as it comes.
    Stock,
}

/// What a placement came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// What was rewarded.
    pub reward: f64,
    /// Whether the reward ends the episode.
    pub terminated: bool,
    /// Since the last placement.
    pub since: Readings,
    /// Watts that nodes draw, if that is measured of all of them.
    pub watts: Option<f64>,
    /// Nodes that have pods.
    pub active: usize,
    /// The standard deviation of the nodes' CPU in use.
    pub spread: f64,
    /// The latency to users from where pods are, in milliseconds.
    pub latency_ms: f64,
    /// What users met.
    pub served: Option<Served>,
    /// Whether the pod is elsewhere than where it was to be.
    pub strayed: bool,
}

/// A cluster, and what is done to it.
pub struct LiveEnvironment {
    runtime: Handle,
    site: Site,
    spec: LiveSpec,
    rewards: Rewards,
    sights: Sights,
    blocker: Blocker,
    users: Option<Users>,
    sight: Sight,
    alive: VecDeque<String>,
    created: usize,
    steps: usize,
    last: Instant,
}

impl LiveEnvironment {
    /// Drives a cluster. What the adviser's witness sees is kept in these sights.
    pub fn new(
        runtime: Handle,
        site: Site,
        spec: LiveSpec,
        rewards: Rewards,
        sights: Sights,
        users: Option<Users>,
    ) -> Result<Self> {
        let blocker = Blocker::new(&site, &spec.block)?;
        runtime.block_on(site.clear())?;
        Ok(Self {
            runtime,
            site,
            spec,
            rewards,
            sights,
            blocker,
            users,
            sight: Sight::default(),
            alive: VecDeque::new(),
            created: 0,
            steps: 0,
            last: Instant::now(),
        })
    }

    /// What is seen of the decision that is due.
    pub fn sight(&self) -> &Sight {
        &self.sight
    }

    /// Begins an episode: no pods, and some nodes busy.
    pub fn begin(&mut self, seed: u64) -> Result<()> {
        let runtime = self.runtime.clone();
        runtime.block_on(async {
            self.clear().await?;
            let mut nodes = self.site.nodes().await?;
            let mut rng = Rng::new(seed);
            let busy = (nodes.len() as f64 * self.spec.block.nodes).round() as usize;
            for _ in 0..busy.min(nodes.len().saturating_sub(1)) {
                let node = nodes.swap_remove(rng.below(nodes.len()));
                self.blocker.block(&self.site, &node, &self.spec.block).await?;
            }
            self.settle().await;
            (self.steps, self.last) = (0, Instant::now());
            self.look().await
        })
    }

    /// Removes pods and blocks.
    pub async fn clear(&mut self) -> Result<()> {
        let all: Vec<_> = self.alive.drain(..).collect();
        self.site.delete(all, 0).await?;
        self.blocker.release(&self.site).await
    }

    /// Removes what was made here.
    pub fn end(&mut self) -> Result<()> {
        let runtime = self.runtime.clone();
        runtime.block_on(self.clear())
    }

    async fn settle(&self) {
        tokio::time::sleep(Duration::from_secs_f64(self.spec.settle_seconds)).await;
    }

    fn wanted(&self, scheduler: &'static str) -> Wanted<'_> {
        let LiveSpec { cpu, memory, image, latency_ms, .. } = &self.spec;
        Wanted { scheduler, requests: [cpu, memory], image, latency_ms: *latency_ms }
    }

    /// The pod that comes next, as the adviser is asked about it.
    fn template(&self) -> Result<Pod> {
        let mut template: Pod = serde_json::from_value(pod(&json!({}), &self.wanted(ADVISED)))?;
        template.metadata.name = Some("next".to_owned());
        template.metadata.namespace = Some("default".to_owned());
        template.metadata.uid = Some("next".to_owned());
        Ok(template)
    }

    /// Sees the decision that is due: all nodes, and which of them the rules allow.
    async fn look(&mut self) -> Result<()> {
        let nodes = self.site.nodes().await?;
        let template = self.template()?;
        let refused = self.refused(&template).await?;
        self.judge(WITNESS, &template, nodes).await?;
        self.sight = self.sights.latest();
        let Sight { observation, nodes, .. } = &mut self.sight;
        observation.mask = nodes.iter().map(|node| !refused.contains(node)).collect();
        if !observation.mask.contains(&true) {
            bail!(
                "no node is allowed for a pod of {} and {}; see live.cpu and live.alive",
                self.spec.cpu,
                self.spec.memory
            );
        }
        Ok(())
    }

    async fn refused(&self, template: &Pod) -> Result<BTreeSet<String>> {
        let pod = Box::new(template.clone());
        let asked = self.site.adviser.inbox.ask(|answer| Question::Object(WITNESS.to_owned(), pod, answer)).await;
        let refused = asked.context("the adviser has ended")?.map_err(anyhow::Error::msg)?;
        Ok(refused.into_iter().map(|objection| objection.node).collect())
    }

    /// What a profile of the adviser makes of nodes.
    async fn judge(&self, profile: &str, template: &Pod, nodes: Vec<String>) -> Result<Vec<Option<f64>>> {
        let items = vec![Candidates { pod: Box::new(template.clone()), nodes }];
        let asked = Consultation { profile: profile.to_owned(), items, ..Consultation::default() };
        let judged = self.site.adviser.inbox.ask(|answer| Question::Advise(asked, answer)).await;
        let judged = judged.context("the adviser has ended")?.pop().context("the adviser has no answer")?;
        Ok(judged.map_err(anyhow::Error::msg)?.scores)
    }

    /// The allowed node that a profile of the adviser likes best.
    pub fn best_for(&self, profile: &str) -> Result<String> {
        let template = self.template()?;
        let allowed = self.sight.nodes.iter().zip(&self.sight.observation.mask).filter(|(_, allowed)| **allowed);
        let nodes: Vec<_> = allowed.map(|(node, _)| node.clone()).collect();
        let scores = self.runtime.block_on(self.judge(profile, &template, nodes.clone()))?;
        let scored = nodes.into_iter().zip(scores).filter_map(|(node, score)| Some((node, score?)));
        scored.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(node, _)| node).context("no node has a score")
    }

    /// Has a pod placed, waits for what comes of it, and sees the next decision.
    pub fn place(&mut self, placer: Placer<'_>) -> Result<Outcome> {
        let runtime = self.runtime.clone();
        let (before, chosen, strayed) = runtime.block_on(self.create(placer))?;
        // Users are played while nothing else waits for this thread.
        let served = self.users.as_mut().map(|users| users()).transpose()?;
        runtime.block_on(async {
            self.look().await?;
            self.steps += 1;
            self.judged(before, &chosen, strayed, served)
        })
    }

    async fn create(&mut self, placer: Placer<'_>) -> Result<(Sight, String, bool)> {
        let leave = (self.alive.len() + 1).saturating_sub(self.spec.alive);
        if leave > 0 {
            let oldest: Vec<_> = self.alive.drain(..leave).collect();
            self.site.delete(oldest, self.alive.len()).await?;
        }
        self.created += 1;
        let name = format!("live-{}-{}", std::process::id(), self.created);
        let scheduler = match placer {
            Placer::Us(node) => {
                // The hyphen keeps live-1-1 from standing for live-1-10, too.
                self.site.adviser.recommendations.recommend("default", &format!("{name}-*"), node);
                ADVISED
            }
            Placer::Stock => STOCK,
        };
        self.site.create(&name, &self.wanted(scheduler)).await?;
        self.alive.push_back(name.clone());
        let chosen = self.site.bound(&name).await?;
        self.site.adviser.recommendations.withdraw("default", &format!("{name}-*"));
        self.settle().await;
        let strayed = matches!(placer, Placer::Us(node) if node != chosen);
        Ok((std::mem::take(&mut self.sight), chosen, strayed))
    }

    /// What a placement came to, now that its consequences are seen.
    fn judged(&mut self, before: Sight, chosen: &str, strayed: bool, served: Option<Served>) -> Result<Outcome> {
        let row = |sight: &Sight| sight.nodes.iter().position(|node| node == chosen);
        let now = row(&self.sight).with_context(|| format!("node {chosen} is gone"))?;
        let then = row(&before).map(|row| before.loads.node(row)).unwrap_or_default();
        let constraint = self.spec.latency_ms.map(|(soft, hard)| (soft as f32, hard as f32));
        let watts = self.watts();
        let since = self.since(watts, served);
        let loads = &self.sight.loads;
        let placed = Placed { loads, chosen: now, before: then, constraint, context: Around::default() };
        let judgement = self.rewards.placement(&placed);
        let reward = judgement.reward + self.rewards.accrual(&since);
        let shares: Vec<f64> = loads.cpu.iter().copied().map(f64::from).collect();
        let pods: f64 = loads.pods.iter().copied().map(f64::from).sum();
        Ok(Outcome {
            reward,
            terminated: judgement.terminated,
            watts,
            active: loads.pods.iter().filter(|pods| **pods > 0.0).count(),
            spread: deviation(&shares),
            latency_ms: latency(loads) / pods.max(1.0),
            served,
            strayed,
            since,
        })
    }

    /// What nodes draw, if all of them are measured.
    fn watts(&self) -> Option<f64> {
        let now = SystemTime::now();
        self.sight.nodes.iter().map(|node| self.site.adviser.telemetry.fresh(node, POWER_WATTS, now)).sum()
    }

    /// What accrued since the last placement, taken to have been all the time as it is now.
    fn since(&mut self, watts: Option<f64>, served: Option<Served>) -> Readings {
        let hours = self.last.elapsed().as_secs_f64() / 3600.0;
        self.last = Instant::now();
        let loads = &self.sight.loads;
        let pods: f64 = loads.pods.iter().copied().map(f64::from).sum();
        let active = loads.pods.iter().filter(|pods| **pods > 0.0).count() as f64;
        let soft = self.spec.latency_ms.map_or(f64::INFINITY, |(soft, _)| soft);
        let far = loads.pods.iter().zip(&loads.latency_ms).filter(|(_, ms)| f64::from(**ms) > soft);
        // What users meet counts more than what probes do.
        let latency_ms = served.map_or_else(|| latency(loads), |served| served.p95_ms * pods);
        Readings {
            hours,
            node_hours: active * hours,
            active_node_hours: active * hours,
            kwh: watts.unwrap_or(0.0) / 1000.0 * hours,
            latency_ms_hours: latency_ms * hours,
            soft_violation_hours: far.map(|(pods, _)| f64::from(*pods)).sum::<f64>() * hours,
            rejected: served.map_or(0.0, |served| served.errors as f64),
            ..Readings::default()
        }
    }
}

/// Milliseconds to users, summed over pods.
fn latency(loads: &plimsoll_learn::reward::Loads) -> f64 {
    loads.pods.iter().zip(&loads.latency_ms).map(|(pods, ms)| f64::from(pods * ms)).sum()
}

fn on_cluster(error: anyhow::Error) -> LearnError {
    LearnError::Invalid(format!("on the cluster: {error:#}"))
}

impl Environment for LiveEnvironment {
    fn reset(&mut self, seed: u64) -> Result<(), LearnError> {
        self.begin(seed).map_err(on_cluster)
    }

    fn observation(&self) -> &Observation {
        &self.sight.observation
    }

    fn step(&mut self, action: usize) -> Result<Step, LearnError> {
        let node = self.sight.nodes.get(action).cloned();
        let node = node.ok_or_else(|| LearnError::Invalid(format!("there is no row {action}")))?;
        let outcome = self.place(Placer::Us(&node)).map_err(on_cluster)?;
        if outcome.strayed {
            tracing::warn!(node, "a pod was not placed where it was to be; the scheduler did not follow");
        }
        Ok(Step {
            reward: outcome.reward as f32,
            elapsed_hours: outcome.since.hours as f32,
            terminated: outcome.terminated,
            truncated: self.steps >= self.spec.pods && !outcome.terminated,
        })
    }
}

impl Drop for LiveEnvironment {
    fn drop(&mut self) {
        // A lab is gone anyway; elsewhere nothing may be left behind.
        if !self.site.is_lab()
            && let Err(error) = self.end()
        {
            tracing::warn!(%error, "what was created is not all removed; delete deployments with the label plimsoll.dev/experiment=live");
        }
    }
}
