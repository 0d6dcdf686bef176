//! Readings from Prometheus.

use crate::queries::Query;
use crate::store::{Reading, Store};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use prometheus_http_query::Client;
use prometheus_http_query::response::InstantVector;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Why Prometheus cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum PrometheusError {
    /// Its address is none.
    #[error("Prometheus at {0:?}: {1}; give a URL such as http://127.0.0.1:9090")]
    Address(String, String),
}

/// Questions that are asked at a time.
const AT_A_TIME: usize = 8;

/// A Prometheus, and what it is asked.
pub struct Prometheus {
    client: Client,
    queries: Vec<Query>,
    interval: Duration,
    store: Arc<Store>,
}

impl Prometheus {
    /// Asks a Prometheus at an address, at most as often as `interval`.
    pub fn new(
        address: &str,
        queries: Vec<Query>,
        interval: Duration,
        store: Arc<Store>,
    ) -> Result<Self, PrometheusError> {
        let client = address
            .parse::<Client>()
            .map_err(|error| PrometheusError::Address(address.to_owned(), error.to_string()))?;
        Ok(Self { client, queries, interval, store })
    }

    /// Asks on a schedule, until the task is ended.
    pub async fn run(self) {
        let mut ticks = tokio::time::interval(self.interval);
        // After a pause nothing is made up for.
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut was_answered = true;
        loop {
            ticks.tick().await;
            let failed = self.ask().await;
            // Said once, not every quarter of a minute.
            match &failed {
                Some(problem) if was_answered => {
                    tracing::warn!(problem, "Prometheus does not answer; readings become stale")
                }
                None if !was_answered => tracing::info!("Prometheus answers again"),
                _ => {}
            }
            was_answered = failed.is_none();
        }
    }

    /// Asks everything once, side by side; what failed, if anything.
    pub async fn ask(&self) -> Option<String> {
        // Boxed, for the compiler's sake: it does not see that a borrowing future can be sent.
        let asked: Vec<BoxFuture<'_, Result<(), String>>> =
            self.queries.iter().map(|query| self.ask_one(query).boxed()).collect();
        let answers: Vec<_> = stream::iter(asked).buffer_unordered(AT_A_TIME).collect().await;
        answers.into_iter().find_map(Result::err)
    }

    async fn ask_one(&self, query: &Query) -> Result<(), String> {
        let asked = self.client.query(query.query.as_str()).timeout(self.interval.as_millis().max(1) as i64).get();
        let failed = |problem: String| format!("{}: {problem}", query.metric);
        let answer = tokio::time::timeout(self.interval, asked)
            .await
            .map_err(|_| failed("no answer in time".to_owned()))?
            .map_err(|error| failed(error.to_string()))?;
        let vector = answer.data().as_vector().ok_or_else(|| failed("the answer is no vector".to_owned()))?;
        vector.iter().for_each(|sample| self.take(query, sample));
        Ok(())
    }

    fn take(&self, query: &Query, sample: &InstantVector) {
        let Some(node) = sample.metric().get(&query.label).map(|label| node_of(label)) else { return };
        let seconds = sample.sample().timestamp();
        let Ok(since) = Duration::try_from_secs_f64(seconds) else { return };
        let reading = Reading { value: sample.sample().value(), at: SystemTime::UNIX_EPOCH + since };
        self.store.put(node, &query.metric, reading);
    }
}

/// The node that an instance is of: without its port.
fn node_of(instance: &str) -> &str {
    match instance.rsplit_once(':') {
        Some((node, port))
            if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) && !node.ends_with(':') =>
        {
            node.trim_start_matches('[').trim_end_matches(']')
        }
        _ => instance,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_not_part_of_a_node() {
        for (instance, node) in [
            ("node-1:9100", "node-1"),
            ("node-1", "node-1"),
            ("10.0.0.1:9100", "10.0.0.1"),
            ("[::1]:9100", "::1"),
            ("fe80::1", "fe80::1"),
            ("name:http", "name:http"),
        ] {
            assert_eq!(node_of(instance), node);
        }
    }
}
