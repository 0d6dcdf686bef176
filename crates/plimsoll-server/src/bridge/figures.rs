//! Figures of the cluster and its policies, for Prometheus: the bridge knows them already, so that nothing is counted twice.

use super::Bridge;
use crate::App;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::SystemTime;

impl Bridge {
    /// Writes the figures as OpenMetrics.
    pub fn write_figures(&self, app: &App, text: &mut String) {
        let (totals, saved, points) =
            self.read(|view| (self.totals(view), view.saved_kwh, view.points.back().cloned()));
        let (policies, versions) = self.read(|view| (view.policies.clone(), view.versions.clone().unwrap_or_default()));
        let share = |[taken, offered]: [i64; 2]| taken as f64 / offered.max(1) as f64;
        gauge(
            text,
            "drl_scheduler_cluster_cpu_usage",
            "Share of the cluster's CPU that is asked for",
            [("", share(totals.cpu_m))],
        );
        gauge(
            text,
            "drl_scheduler_cluster_memory_usage",
            "Share of the cluster's memory that is asked for",
            [("", share(totals.memory))],
        );
        let leads = self.read(|view| f64::from(u8::from(view.leads)));
        let words = "Whether pods are placed here: 1, or 0 for one that stands by";
        gauge(text, "leader_election_master_status", words, [("{name=\"plimsoll\"}", leads)]);
        let ranked = policies.iter().enumerate().map(|(at, (profile, policy))| {
            let version = versions.get(at).cloned().flatten().unwrap_or_default();
            let labels = [("profile", profile), ("policy", policy), ("version", &version)];
            (format!("{{{}}}", labels.map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).join(",")), 1.0)
        });
        gauge(text, "plimsoll_policy_info", "Who ranks nodes for a profile, and which weights a model has", ranked);
        let sides = [("{policy=\"active\"}", totals.watts), ("{policy=\"default\"}", totals.watts_default)];
        let watts = sides.into_iter().filter_map(|(labels, watts)| Some((labels, watts?)));
        gauge(
            text,
            "plimsoll_cluster_watts",
            "What nodes draw by their curves, and would under the default policy",
            watts,
        );
        let default = points.and_then(|point| point.active_nodes_default);
        let active = [("{policy=\"active\"}", Some(totals.active_nodes)), ("{policy=\"default\"}", default)];
        let active = active.into_iter().filter_map(|(labels, nodes)| Some((labels, nodes? as f64)));
        gauge(text, "plimsoll_active_nodes", "Nodes that have pods, and would under the default policy", active);
        if totals.watts.and(totals.watts_default).is_some() {
            // It may fall: a policy can be worse.
            gauge(
                text,
                "plimsoll_saved_kilowatt_hours",
                "Energy saved against the default policy, as estimated",
                [("", saved)],
            );
        }
        let (episodes, loss) =
            self.helm.training.read(|lesson| (lesson.episodes, lesson.points.back().and_then(|point| point.loss)));
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "# HELP drl_scheduler_training_episodes Episodes of all trainings.\n# TYPE drl_scheduler_training_episodes counter\n\
             drl_scheduler_training_episodes_total {episodes}"
        );
        gauge(text, "drl_scheduler_training_loss", "The loss of training, last", loss.map(|loss| ("", loss)));
        let ages = ages(app).into_iter().map(|(metric, age)| (format!("{{metric=\"{}\"}}", escaped(&metric)), age));
        gauge(text, "plimsoll_telemetry_age_seconds", "Age of the oldest reading of a metric that counts", ages);
    }
}

/// The age of the oldest reading that counts, by metric.
fn ages(app: &App) -> BTreeMap<String, f64> {
    let now = SystemTime::now();
    let mut ages: BTreeMap<String, f64> = BTreeMap::new();
    for node in app.telemetry.nodes() {
        for known in app.telemetry.node(&node, now).into_iter().filter(|known| !known.stale) {
            let age = now.duration_since(known.last.at).unwrap_or_default().as_secs_f64();
            let oldest = ages.entry(known.metric).or_default();
            *oldest = oldest.max(age);
        }
    }
    ages
}

fn gauge<L: AsRef<str>>(text: &mut String, name: &str, words: &str, values: impl IntoIterator<Item = (L, f64)>) {
    let mut values = values.into_iter().peekable();
    if values.peek().is_none() {
        return;
    }
    // Writing to a string does not fail.
    let _ = writeln!(text, "# HELP {name} {words}.\n# TYPE {name} gauge");
    for (labels, value) in values {
        let _ = writeln!(text, "{name}{} {value}", labels.as_ref());
    }
}

/// The value of a label as OpenMetrics has it.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
