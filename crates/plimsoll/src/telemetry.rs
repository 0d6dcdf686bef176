//! How things really are, read beside the work.

use crate::input::read_token;
use crate::section::{PrometheusSection, TelemetrySection};
use anyhow::{Context, Result};
use plimsoll_kube::driver::{Inbox, Input, Question};
use plimsoll_kube::twin::Latencies;
use plimsoll_kube::world::Measured;
use plimsoll_telemetry::{
    Agents, CPU_CORES, CPU_PERCENT, LATENCY_MS, MEMORY_AVAILABLE_GB, MEMORY_USED_GB, Prometheus, Query,
    ResourceMetrics, Settings, Store, preset, presets,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Begins to read, and to tell the engine; `address` is a Prometheus that counts more than that of the section.
pub fn start(
    section: &TelemetrySection,
    address: Option<&str>,
    client: &kube::Client,
    inbox: &Inbox,
) -> Result<Arc<Store>> {
    let seconds = Duration::from_secs_f64;
    let store = Arc::new(Store::new(Settings {
        stale_after: seconds(section.stale_after_seconds),
        window: seconds(section.window_seconds),
    }));
    follow(section, address, client, inbox, &store)?;
    Ok(store)
}

/// The same, into a store that is there.
pub fn follow(
    section: &TelemetrySection,
    address: Option<&str>,
    client: &kube::Client,
    inbox: &Inbox,
    store: &Arc<Store>,
) -> Result<()> {
    let interval = Duration::from_secs_f64(section.interval_seconds);
    let asked = section.asked(address);
    let is_read = asked.is_some() || section.resource_metrics;
    if let Some(asked) = asked {
        let queries = queries(&asked)?;
        tokio::spawn(Prometheus::new(&asked.address, queries, interval, Arc::clone(store))?.run());
    }
    if section.resource_metrics {
        tokio::spawn(ResourceMetrics::new(client.clone(), interval, Arc::clone(store)).run());
    }
    if let Some(section) = &section.agents {
        let token = read_token("telemetry.agents.tokenFile", section.token_file.as_deref())?;
        let agents = Agents::new(client.clone(), section.port, token).map_err(anyhow::Error::msg)?;
        tokio::spawn(send_users(agents, interval, inbox.clone()));
    }
    if is_read {
        tokio::spawn(tell(Arc::clone(store), interval, inbox.clone()));
    }
    Ok(())
}

/// What was measured of the way to users, for who places pods in thought.
pub fn latencies(store: &Arc<Store>) -> Latencies {
    let store = Arc::clone(store);
    Arc::new(move || {
        let now = SystemTime::now();
        store
            .nodes()
            .into_iter()
            .filter_map(|node| Some((node.clone(), store.fresh(&node, LATENCY_MS, now)?)))
            .collect()
    })
}

/// The queries of all sets, and those that are given.
pub fn queries(asked: &PrometheusSection) -> Result<Vec<Query>> {
    let mut queries = Vec::new();
    for name in &asked.sets {
        let known = || presets().iter().map(|set| set.name).collect::<Vec<_>>().join(", ");
        let set = preset(name)
            .with_context(|| format!("telemetry.prometheus.sets: {name:?} is not known; there are {}", known()))?;
        queries.extend(set.queries());
    }
    queries.retain(|query| !asked.queries.iter().any(|given| given.metric == query.metric));
    queries.extend(asked.queries.iter().cloned());
    Ok(queries)
}

/// An agent that was started anew has forgotten whom to measure: it is told again after so many intervals.
const REMINDER: u32 = 20;

/// Tells agents which users pods name, when they change and every now and then, until the engine ends.
async fn send_users(agents: Agents, interval: Duration, inbox: Inbox) {
    let mut ticks = tokio::time::interval(interval);
    let (mut told, mut since) = (BTreeSet::new(), 0);
    loop {
        ticks.tick().await;
        let Ok(users) = inbox.ask(Question::Users).await else { return };
        since += 1;
        if users == told && (since < REMINDER || users.is_empty()) {
            continue;
        }
        since = 0;
        match agents.measure(&users).await {
            Ok((nodes, None)) => tracing::info!(nodes, users = users.len(), "agents measure latencies"),
            Ok((nodes, Some(problem))) => tracing::warn!(nodes, problem, "not all agents take whom to measure"),
            Err(error) => tracing::warn!(%error, "agents could not be told whom to measure"),
        }
        told = users;
    }
}

/// Tells the engine on a schedule what counts, until it ends.
async fn tell(store: Arc<Store>, interval: Duration, inbox: Inbox) {
    let mut ticks = tokio::time::interval(interval);
    loop {
        ticks.tick().await;
        let now = SystemTime::now();
        store.forget_gone(now);
        let measured = store.nodes().into_iter().map(|node| {
            let fresh = |metric: &str| store.fresh(&node, metric, now);
            let measured = Measured {
                latency_ms: fresh(LATENCY_MS),
                cpu: fresh(CPU_PERCENT).map(|percent| percent / 100.0),
                cpu_cores: fresh(CPU_CORES),
                memory_available: fresh(MEMORY_AVAILABLE_GB).map(|gigabytes| gigabytes * 1e9),
                memory_used: fresh(MEMORY_USED_GB).map(|gigabytes| gigabytes * 1e9),
            };
            (node, measured)
        });
        if inbox.send(Input::Measured(measured.collect())).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_of_ones_own_stands_in_the_place_of_the_sets() {
        let own = Query { metric: "pods".into(), query: "up".into(), label: "node".into() };
        let asked = PrometheusSection { queries: vec![own.clone()], ..PrometheusSection::at("http://127.0.0.1:9090") };
        let all = queries(&asked).unwrap();
        assert_eq!(all.len(), 6);
        assert_eq!(all.iter().filter(|query| query.metric == "pods").collect::<Vec<_>>(), [&own]);
        let unknown = PrometheusSection { sets: vec!["keppler".into()], ..asked };
        let error = queries(&unknown).unwrap_err().to_string();
        assert!(error.contains("keppler") && error.contains("kepler, scaphandre"), "{error}");
    }
}
