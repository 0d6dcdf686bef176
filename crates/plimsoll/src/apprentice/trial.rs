//! A policy in shadow beside the one that ranks: both on the same pods, from the same start.

use super::TrainingSettings;
use plimsoll_kube::twin::Whole;
use plimsoll_server::Bridge;
use std::time::{Duration, Instant};

/// How often both are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// The first part of a trial, in which both are still alike, does not count.
const LEAD_IN: f64 = 0.25;

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
    placements: u64,
}

impl Compared {
    /// Whether the shadow is at most so much worse than the live cluster.
    pub fn shadow_is_no_worse(&self, tolerance: f64) -> bool {
        self.shadow <= self.live * (1.0 + tolerance)
    }

    /// Whether the live cluster is at most so much worse than the shadow.
    pub fn live_is_no_worse(&self, tolerance: f64) -> bool {
        self.live <= self.shadow * (1.0 + tolerance)
    }

    /// The same in words.
    pub fn words(&self) -> String {
        let Self { measure, live, shadow, placements } = self;
        format!("{measure} over {placements} placements: {live:.3} live, {shadow:.3} in shadow")
    }
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
    /// Has a policy place pods in thought for a while, and compares.
    pub async fn run(&self, policy: &str) -> Result<Compared, String> {
        self.bridge.begin_shadow(policy).map_err(|refused| refused.to_string())?;
        let result = self.watch().await;
        self.bridge.end_shadow();
        result
    }

    async fn watch(&self) -> Result<Compared, String> {
        let objective = self.settings.objective.as_deref();
        let begun = Instant::now();
        let mut seen: Vec<(&'static str, f64, f64)> = Vec::new();
        let placements = loop {
            tokio::time::sleep(LOOK).await;
            let shadow = self.bridge.shadow().ok_or("the shadow was ended by somebody")?;
            if shadow.is_ready {
                let (measure, live) = figure(objective, &self.bridge.whole());
                seen.push((measure, live, figure(objective, &shadow.whole).1));
            }
            if begun.elapsed() >= self.settings.trial || shadow.placed >= self.settings.trial_placements {
                break shadow.placed;
            }
        };
        compare(&seen, placements)
    }
}

fn compare(seen: &[(&'static str, f64, f64)], placements: u64) -> Result<Compared, String> {
    let counted = &seen[(seen.len() as f64 * LEAD_IN) as usize..];
    let Some((measure, ..)) = counted.last() else { return Err("the shadow did not get ready in time".to_owned()) };
    let mean = |of: fn(&(&'static str, f64, f64)) -> f64| counted.iter().map(of).sum::<f64>() / counted.len() as f64;
    Ok(Compared { measure, live: mean(|point| point.1), shadow: mean(|point| point.2), placements })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_worse_beyond_the_tolerance_is_worse() {
        let points =
            [("watts", 900.0, 900.0), ("watts", 100.0, 103.0), ("watts", 100.0, 103.0), ("watts", 100.0, 103.0)];
        let compared = compare(&points, 40).unwrap();
        assert_eq!((compared.live, compared.shadow), (100.0, 103.0), "the beginning does not count");
        assert!(!compared.shadow_is_no_worse(0.02) && compared.shadow_is_no_worse(0.05));
        assert!(compared.live_is_no_worse(0.0));
        assert!(compare(&[], 0).is_err());
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
