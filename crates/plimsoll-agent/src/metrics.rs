//! The agent's figures for Prometheus, read from its parts when somebody asks.

use crate::blocker::{BlockRequest, Blocker};
use crate::energy::{Energy, Source};
use crate::latency::Latency;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::Arc;

/// All figures.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
}

impl Metrics {
    /// Of these parts.
    pub fn new(latency: &Arc<Latency>, energy: &Arc<Energy>, blocker: &Arc<Blocker>) -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(OfLatency(Arc::clone(latency))));
        registry.register_collector(Box::new(OfEnergy(Arc::clone(energy))));
        registry.register_collector(Box::new(OfBlocker(Arc::clone(blocker))));
        Self { registry }
    }

    /// As Prometheus reads them.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

type Labels<'a> = &'a [(&'a str, &'a str)];

fn gauge(metric: &mut MetricEncoder<'_>, labels: Labels<'_>, value: f64) -> fmt::Result {
    ConstGauge::new(value).encode(metric.encode_family(&labels)?)
}

fn counter(metric: &mut MetricEncoder<'_>, labels: Labels<'_>, value: f64) -> fmt::Result {
    ConstCounter::new(value).encode(metric.encode_family(&labels)?)
}

#[derive(Debug)]
struct OfLatency(Arc<Latency>);

impl Collector for OfLatency {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let targets = self.0.report().targets;
        let words = "Round trips to a target: percentiles over the newest";
        let mut metric = encoder.encode_descriptor("plimsoll_latency_seconds", words, None, MetricType::Gauge)?;
        for target in &targets {
            let parts = [("0.5", target.p50_seconds), ("0.95", target.p95_seconds), ("0.99", target.p99_seconds)];
            for (quantile, seconds) in parts {
                let labels =
                    [("target", target.target.as_str()), ("method", target.method.name()), ("quantile", quantile)];
                seconds.map_or(Ok(()), |seconds| gauge(&mut metric, &labels, seconds))?;
            }
        }
        let words = "Round trips to a target: exponentially weighted moving average";
        let mut metric = encoder.encode_descriptor("plimsoll_latency_ewma_seconds", words, None, MetricType::Gauge)?;
        for target in &targets {
            let labels = [("target", target.target.as_str()), ("method", target.method.name())];
            target.ewma_seconds.map_or(Ok(()), |seconds| gauge(&mut metric, &labels, seconds))?;
        }
        let words = "Attempts to measure a target, by whether an answer came";
        let mut metric = encoder.encode_descriptor("plimsoll_latency_attempts", words, None, MetricType::Counter)?;
        for target in &targets {
            for (result, count) in [("answered", target.count), ("failed", target.failures)] {
                let labels = [("target", target.target.as_str()), ("method", target.method.name()), ("result", result)];
                counter(&mut metric, &labels, count as f64)?;
            }
        }
        Ok(())
    }
}

#[derive(Debug)]
struct OfEnergy(Arc<Energy>);

impl Collector for OfEnergy {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let report = self.0.report();
        let source = report.source.name();
        let words = "Where the node's power is known from: the one that is 1";
        let mut metric = encoder.encode_descriptor("plimsoll_energy_source", words, None, MetricType::Gauge)?;
        for known in [Source::Rapl, Source::Estimate, Source::None] {
            gauge(&mut metric, &[("source", known.name())], f64::from(u8::from(known == report.source)))?;
        }
        let words = "Energy of a zone of RAPL since the agent started; core, uncore and psys overlap others";
        let mut metric = encoder.encode_descriptor("plimsoll_energy_joules", words, None, MetricType::Counter)?;
        for zone in &report.zones {
            counter(&mut metric, &[("zone", &zone.zone)], zone.joules)?;
        }
        let words = "The node's power in the last window: packages and DRAM, or an estimate";
        let mut metric = encoder.encode_descriptor("plimsoll_node_power_watts", words, None, MetricType::Gauge)?;
        report.watts.map_or(Ok(()), |watts| gauge(&mut metric, &[("source", source)], watts))?;
        let words = "The node's energy since the agent started: packages and DRAM, or an estimate";
        let mut metric = encoder.encode_descriptor("plimsoll_node_energy_joules", words, None, MetricType::Counter)?;
        report.joules.map_or(Ok(()), |joules| counter(&mut metric, &[("source", source)], joules))?;
        let words = "Energy of packages that is attributed to a pod by its part of the busy time";
        let mut metric = encoder.encode_descriptor("plimsoll_pod_energy_joules", words, None, MetricType::Counter)?;
        for pod in &report.pods {
            counter(&mut metric, &[("pod_uid", &pod.pod_uid), ("source", source)], pod.joules)?;
        }
        Ok(())
    }
}

#[derive(Debug)]
struct OfBlocker(Arc<Blocker>);

impl Collector for OfBlocker {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let blocks = self.0.report().blocks;
        let words = "Blocks that are held";
        let metric = encoder.encode_descriptor("plimsoll_blocks", words, None, MetricType::Gauge)?;
        ConstGauge::new(blocks.len() as i64).encode(metric)?;
        let sum = |of: fn(&BlockRequest) -> f64| blocks.iter().fold(0.0, |sum, block| sum + of(&block.request));
        let words = "What blocks hold: cores, MiB, MiB a second";
        let mut metric = encoder.encode_descriptor("plimsoll_blocked", words, None, MetricType::Gauge)?;
        let sums = [
            ("cpu", sum(|request| request.cpu)),
            ("memory_mib", sum(|request| request.memory_mib as f64)),
            ("disk_mib_per_s", sum(|request| request.disk_mib_per_s)),
            ("network_mib_per_s", sum(|request| request.network_mib_per_s)),
        ];
        for (resource, sum) in sums {
            gauge(&mut metric, &[("resource", resource)], sum)?;
        }
        Ok(())
    }
}
