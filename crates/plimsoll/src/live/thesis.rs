//! The thesis' tests on a real control plane: a stock kube-scheduler with our plugin places pods, and asks the policies.

use super::site::{ADVISED, STOCK, Site, Wanted};
use anyhow::{Context, Result};
use plimsoll_core::config::Configuration;
use plimsoll_core::engine::Engine;
use plimsoll_kube::world::Measured;
use plimsoll_learn::agent::chooser::Chooser;
use plimsoll_learn::error::LearnError;
use plimsoll_learn::experiment::thesis::{
    Advised, Seat, Stage, Test, ThesisSettings, Trial, alive_at_once, latencies_at,
};
use plimsoll_learn::experiment::{Recorder, Sample};
use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// What the policy is called that the plugin asks for.
const POLICY: &str = "thesis";
/// A node: all pods of a round fit on one.
const SHAPE: &str = "cpu=8,memory=16Gi,pods=110";
/// What a pod asks for, and the latency that it bears.
const REQUESTS: [&str; 2] = ["250m", "64Mi"];
const LATENCY_MS: (f64, f64) = (20.0, 30.0);

/// A lab in which tests are run.
pub struct LiveStage {
    /// Left to the end of the process: one that is taken down under its tasks makes them panic.
    runtime: ManuallyDrop<Runtime>,
    cluster: Cluster,
}

struct Cluster {
    site: Site,
    seat: Seat,
    nodes: usize,
    created: usize,
}

impl LiveStage {
    /// Starts a lab of so many nodes with a scheduler that has our plugin.
    pub fn start(nodes: usize, scheduler: &Path) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let cluster = runtime.block_on(Cluster::start(nodes, scheduler))?;
        Ok(Self { runtime: ManuallyDrop::new(runtime), cluster })
    }
}

impl Stage for LiveStage {
    fn run(
        &mut self,
        settings: &ThesisSettings,
        trial: &Trial,
        chooser: &mut Option<Box<dyn Chooser>>,
        recorder: &Recorder,
    ) -> Result<(), LearnError> {
        let scheduler = match chooser.take() {
            Some(chooser) => {
                self.cluster.seat.take(chooser, trial.shuffle);
                ADVISED
            }
            None => STOCK,
        };
        let done = self.runtime.block_on(self.cluster.trial(settings, trial, scheduler, recorder));
        *chooser = self.cluster.seat.leave();
        done.map_err(|error| LearnError::Invalid(format!("on the cluster: {error:#}")))
    }
}

impl Cluster {
    async fn start(nodes: usize, scheduler: &Path) -> Result<Self> {
        let mut configuration = Configuration::default();
        configuration.profiles[0].scheduler_name = POLICY.to_owned();
        let mut engine = Engine::new(&configuration, 1);
        let seat = Seat::default();
        engine.set_policy(POLICY, Box::new(Advised::new(seat.clone())));
        let site = Site::lab("thesis", (nodes, SHAPE), (scheduler, POLICY), (engine, false)).await?;
        Ok(Self { site, seat, nodes, created: 0 })
    }

    async fn trial(
        &mut self,
        settings: &ThesisSettings,
        trial: &Trial,
        scheduler: &str,
        recorder: &Recorder,
    ) -> Result<()> {
        for at in 0..self.nodes {
            self.site.set_used(&node(at), at < trial.nodes).await?;
        }
        let mut alive = VecDeque::new();
        let begin = Instant::now();
        let (steps, most) = match trial.test {
            Test::One => ((settings.rounds * settings.pods_of_round) as usize, settings.pods_of_round),
            Test::Two => (settings.pods as usize, alive_at_once(settings, trial.policy)),
        };
        for step in 0..steps {
            if alive.len() >= most as usize {
                let leave = match trial.test {
                    Test::One => alive.len(),
                    Test::Two => 1,
                };
                self.delete(&mut alive, leave).await?;
            }
            let latencies = latencies_at(settings, trial, step);
            self.tell(&latencies).await?;
            self.created += 1;
            let name = format!("thesis-{}", self.created);
            let wanted = Wanted { scheduler, requests: REQUESTS, image: "lab/none", latency_ms: Some(LATENCY_MS) };
            self.site.create(&name, &wanted).await?;
            alive.push_back(name.clone());
            let chosen = number(&self.site.bound(&name).await?)?;
            let pods = self.pods_by_node(trial.nodes).await?;
            recorder.push(sample(pods, chosen, &latencies, begin.elapsed()));
        }
        let all = alive.len();
        self.delete(&mut alive, all).await
    }

    /// Users are so far from nodes from now on.
    async fn tell(&self, latencies: &[f64]) -> Result<()> {
        let far = |ms: &f64| Measured { latency_ms: Some(*ms), ..Measured::default() };
        self.site.tell(latencies.iter().enumerate().map(|(at, ms)| (node(at), far(ms))).collect()).await
    }

    async fn pods_by_node(&self, nodes: usize) -> Result<Vec<u32>> {
        let mut counts = vec![0; nodes];
        for place in self.site.places().await? {
            if let Some(count) = counts.get_mut(number(&place)?) {
                *count += 1;
            }
        }
        Ok(counts)
    }

    /// Deletes the oldest deployments, and waits until their pods are gone.
    async fn delete(&mut self, alive: &mut VecDeque<String>, count: usize) -> Result<()> {
        let oldest: Vec<_> = alive.drain(..count).collect();
        self.site.delete(oldest, alive.len()).await
    }
}

fn node(at: usize) -> String {
    format!("node-{at}")
}

/// The number in the name of a node.
fn number(node: &str) -> Result<usize> {
    let number = node.rsplit_once('-').and_then(|(_, number)| number.parse().ok());
    number.with_context(|| format!("{node} is no node of this lab"))
}

fn sample(pods: Vec<u32>, chosen: usize, latencies: &[f64], since: Duration) -> Sample {
    let least = latencies.iter().copied().fold(f64::INFINITY, f64::min);
    let nearest = latencies.iter().enumerate().filter(|(_, ms)| **ms <= least).map(|(at, _)| at).collect();
    let count: u32 = pods.iter().sum();
    let sum: f64 = pods.iter().zip(latencies).map(|(pods, ms)| f64::from(*pods) * ms).sum();
    let latency_ms = (count > 0).then(|| sum / f64::from(count));
    Sample { pods, chosen, nearest, latency_ms, seconds: since.as_secs_f64(), reward: 0.0 }
}
