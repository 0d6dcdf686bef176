//! A policy in shadow beside the one that ranks: both on the same pods, from the same start.

use super::TrainingSettings;
use plimsoll_kube::twin::Whole;
use plimsoll_server::Bridge;
use std::time::{Duration, Instant};

/// How often both are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// The first part of a trial, in which both are still alike, does not count.
const LEAD_IN: f64 = 0.25;

/// With fewer placements the two are still alike.
const LEAST: u64 = 20;

/// A trial.
pub struct Trial<'a> {
    pub bridge: &'a Bridge,
    pub settings: &'a TrainingSettings,
}

/// What came of it: means over its time, less being better.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    measure: &'static str,
    live: f64,
    shadow: f64,
    /// Pods that wait, live and in shadow.
    waiting: [f64; 2],
    placements: u64,
}

impl Compared {
    /// Whether the shadow is at most so much worse than the live cluster.
    pub fn shadow_is_no_worse(&self, tolerance: f64) -> bool {
        let [live, shadow] = self.waiting;
        is_no_worse(self.shadow, self.live, tolerance) && is_no_worse(shadow, live + UNSERVED, tolerance)
    }

    /// Whether the live cluster is at most so much worse than the shadow.
    pub fn live_is_no_worse(&self, tolerance: f64) -> bool {
        let [live, shadow] = self.waiting;
        is_no_worse(self.live, self.shadow, tolerance) && is_no_worse(live, shadow + UNSERVED, tolerance)
    }

    /// The same in words.
    pub fn words(&self) -> String {
        let Self { measure, live, shadow, waiting: [waiting, others], placements } = self;
        format!(
            "{measure} over {placements} placements: {live:.3} live, {shadow:.3} in shadow; {waiting:.1} and {others:.1} pods waited"
        )
    }
}

/// Who leaves pods waiting needs fewer machines for the rest; so many, on average, are no matter.
const UNSERVED: f64 = 0.5;

fn is_no_worse(own: f64, other: f64, tolerance: f64) -> bool {
    own <= other * (1.0 + tolerance)
}

/// The figure of a cluster that a measure of simulations corresponds to. Where watts are not known, nodes in use stand in.
fn figure(objective: Option<&str>, whole: &Whole) -> (&'static str, f64) {
    match (objective, whole.watts, whole.latency_ms) {
        (Some("latency_mean_ms" | "latency_p95_ms"), _, Some(latency)) => ("latency in ms", latency),
        (Some("cpu_spread"), ..) => ("spread of CPU", whole.balance),
        (Some("node_hours" | "active_nodes"), ..) | (_, None, _) => ("nodes in use", whole.active_nodes as f64),
        (_, Some(watts), _) => ("watts", watts),
    }
}

impl Trial<'_> {
    /// Has a policy place pods in thought for a while, and compares. Where too few come for that, it is given up, or gone on with, if `until_enough`.
    pub async fn run(&self, policy: &str, until_enough: bool) -> Result<Compared, String> {
        self.bridge.begin_shadow(policy).map_err(|refused| refused.to_string())?;
        let result = self.watch(policy, until_enough).await;
        self.bridge.end_shadow_of(policy);
        result
    }

    async fn watch(&self, policy: &str, until_enough: bool) -> Result<Compared, String> {
        let objective = self.settings.objective.as_deref();
        let begun = Instant::now();
        let least = self.settings.trial_placements.min(LEAST);
        let mut seen = Vec::new();
        let placements = loop {
            tokio::time::sleep(LOOK).await;
            let gone = "the shadow was ended by somebody, or another took its place";
            let shadow = self.bridge.shadow_of(policy).ok_or(gone)?;
            if shadow.is_ready {
                let (measure, live) = figure(objective, &self.bridge.whole());
                let waiting = [self.bridge.waiting() as f64, shadow.waiting as f64];
                seen.push(Point { measure, live, shadow: figure(objective, &shadow.whole).1, waiting });
            }
            let is_over = begun.elapsed() >= self.settings.trial && (shadow.placed >= least || !until_enough);
            if is_over || shadow.placed >= self.settings.trial_placements {
                break shadow.placed;
            }
        };
        if placements < least {
            let seconds = self.settings.trial.as_secs();
            return Err(format!("{placements} placements in {seconds} s are too few to compare; {least} are needed"));
        }
        compare(&seen, placements)
    }
}

/// Both at a time.
#[derive(Debug, Clone, Copy)]
struct Point {
    measure: &'static str,
    live: f64,
    shadow: f64,
    waiting: [f64; 2],
}

fn compare(seen: &[Point], placements: u64) -> Result<Compared, String> {
    let counted = &seen[(seen.len() as f64 * LEAD_IN) as usize..];
    let Some(last) = counted.last() else { return Err("the shadow did not get ready in time".to_owned()) };
    let mean = |of: fn(&Point) -> f64| counted.iter().map(of).sum::<f64>() / counted.len() as f64;
    Ok(Compared {
        measure: last.measure,
        live: mean(|point| point.live),
        shadow: mean(|point| point.shadow),
        waiting: [mean(|point| point.waiting[0]), mean(|point| point.waiting[1])],
        placements,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_worse_beyond_the_tolerance_is_worse() {
        let point = |live, shadow| Point { measure: "watts", live, shadow, waiting: [0.0, 0.0] };
        let points = [point(900.0, 900.0), point(100.0, 103.0), point(100.0, 103.0), point(100.0, 103.0)];
        let compared = compare(&points, 40).unwrap();
        assert_eq!((compared.live, compared.shadow), (100.0, 103.0), "the beginning does not count");
        assert!(!compared.shadow_is_no_worse(0.02) && compared.shadow_is_no_worse(0.05));
        assert!(compared.live_is_no_worse(0.0));
        assert!(compare(&[], 0).is_err());
    }

    #[test]
    fn who_leaves_pods_waiting_is_worse_whatever_it_saves() {
        let lazy = Point { measure: "watts", live: 100.0, shadow: 80.0, waiting: [0.0, 3.0] };
        let compared = compare(&[lazy; 8], 40).unwrap();
        assert!(!compared.shadow_is_no_worse(0.05), "{}", compared.words());
        let busy = Point { waiting: [3.0, 3.0], ..lazy };
        assert!(compare(&[busy; 8], 40).unwrap().shadow_is_no_worse(0.05));
    }

    #[test]
    fn figures_follow_the_measure_and_what_is_known() {
        let whole = Whole { watts: Some(300.0), active_nodes: 4, balance: 0.2, latency_ms: None };
        assert_eq!(figure(Some("kwh"), &whole), ("watts", 300.0));
        assert_eq!(figure(Some("node_hours"), &whole), ("nodes in use", 4.0));
        assert_eq!(figure(Some("cpu_spread"), &whole), ("spread of CPU", 0.2));
        assert_eq!(figure(Some("kwh"), &Whole { watts: None, ..whole }), ("nodes in use", 4.0));
    }
}
