//! Readings from the resource metrics API, which metrics-server serves.

use crate::queries::{CPU_CORES, MEMORY_USED_GB};
use crate::store::{Reading, Store};
use http::Request;
use kube::Client;
use plimsoll_core::quantity::Quantity;
use serde::Deserialize;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

const PATH: &str = "/apis/metrics.k8s.io/v1beta1/nodes";

/// A metrics-server, by way of the API server.
pub struct ResourceMetrics {
    client: Client,
    interval: Duration,
    store: Arc<Store>,
}

#[derive(Deserialize)]
struct List {
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    metadata: Named,
    usage: Usage,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
struct Usage {
    cpu: String,
    memory: String,
}

impl ResourceMetrics {
    /// Asks on a schedule.
    pub fn new(client: Client, interval: Duration, store: Arc<Store>) -> Self {
        Self { client, interval, store }
    }

    /// Asks until the task is ended.
    pub async fn run(self) {
        let mut ticks = tokio::time::interval(self.interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            match tokio::time::timeout(self.interval, self.ask()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "the resource metrics API does not answer"),
                Err(_) => tracing::debug!("the resource metrics API does not answer in time"),
            }
        }
    }

    /// Asks once.
    pub async fn ask(&self) -> Result<(), kube::Error> {
        let request = Request::get(PATH).body(Vec::new()).map_err(kube::Error::HttpError)?;
        let list: List = self.client.request(request).await?;
        take(&self.store, list, SystemTime::now());
        Ok(())
    }
}

fn take(store: &Store, list: List, at: SystemTime) {
    for item in list.items {
        let put = |metric: &str, quantity: &str, unit: f64| {
            if let Ok(quantity) = quantity.parse::<Quantity>() {
                store.put(&item.metadata.name, metric, Reading { value: quantity.approximate_f64() / unit, at });
            }
        };
        put(CPU_CORES, &item.usage.cpu, 1.0);
        put(MEMORY_USED_GB, &item.usage.memory, 1e9);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_read_in_cores_and_gigabytes() {
        let list = serde_json::json!({ "kind": "NodeMetricsList", "items": [{
            "metadata": { "name": "n" }, "timestamp": "2026-01-01T00:00:00Z", "window": "10s",
            "usage": { "cpu": "1500m", "memory": "2000000Ki" },
        }]});
        let (store, now) = (Store::default(), SystemTime::now());
        take(&store, serde_json::from_value(list).unwrap(), now);
        assert_eq!(store.fresh("n", "cpu_cores", now), Some(1.5));
        assert_eq!(store.fresh("n", "memory_used_gb", now), Some(2.048));
    }
}
