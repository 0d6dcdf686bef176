//! What is asked of Prometheus: by default what node exporters tell, and what kube-state-metrics, Kepler, Scaphandre and goldpinger do where
//! they are wanted.

use serde::Deserialize;

/// Percent of a node's processors that are busy.
pub const CPU_PERCENT: &str = "cpu_percent";
/// Gigabytes of memory that could be had.
pub const MEMORY_AVAILABLE_GB: &str = "memory_available_gb";
/// Cores of a node that are busy, as the resource metrics API tells it.
pub const CPU_CORES: &str = "cpu_cores";
/// Gigabytes of memory in use, as the resource metrics API tells it.
pub const MEMORY_USED_GB: &str = "memory_used_gb";
/// Pods on a node.
pub const PODS: &str = "pods";
/// Watts that a node draws.
pub const POWER_WATTS: &str = "power_watts";
/// Milliseconds from a node to users.
pub const LATENCY_MS: &str = "latency_ms";

/// A question to Prometheus, whose answer has a value for each node.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Query {
    /// The name under which the answer is known.
    pub metric: String,
    /// The question, in PromQL.
    pub query: String,
    /// The label that names the node. A port at its end is not part of the name.
    #[serde(default = "instance")]
    pub label: String,
}

fn instance() -> String {
    "instance".to_owned()
}

/// A set of queries by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuerySet {
    /// Its name.
    pub name: &'static str,
    /// What answers them.
    pub about: &'static str,
    queries: &'static [(&'static str, &'static str, &'static str)],
}

impl QuerySet {
    /// The queries.
    pub fn queries(&self) -> Vec<Query> {
        let query = |(metric, query, label): &(&str, &str, &str)| Query {
            metric: (*metric).to_owned(),
            query: (*query).to_owned(),
            label: (*label).to_owned(),
        };
        self.queries.iter().map(query).collect()
    }
}

const SETS: &[QuerySet] = &[
    QuerySet {
        name: "node-exporter",
        about: "what nodes do, from node exporters; pods from kube-state-metrics, if it is there",
        queries: &[
            (
                CPU_PERCENT,
                "100 - (avg by (instance) (irate(node_cpu_seconds_total{mode=\"idle\"}[1m])) * 100)",
                "instance",
            ),
            (MEMORY_AVAILABLE_GB, "node_memory_MemAvailable_bytes / 1e9", "instance"),
            (
                "disk_used_percent",
                "100 - (node_filesystem_avail_bytes{mountpoint=\"/\"} / node_filesystem_size_bytes{mountpoint=\"/\"} * 100)",
                "instance",
            ),
            ("network_receive_bytes", "sum by (instance) (rate(node_network_receive_bytes_total[5m]))", "instance"),
            ("tcp_established", "node_netstat_Tcp_CurrEstab", "instance"),
            (PODS, "count by (node) (kube_pod_info)", "node"),
        ],
    },
    QuerySet {
        name: "kube-state-metrics",
        about: "what pods on a node ask for, as shares of what it has",
        queries: &[
            (
                "cpu_requested_percent",
                "100 * sum by (node) (kube_pod_container_resource_requests{resource=\"cpu\"}) / sum by (node) (kube_node_status_allocatable{resource=\"cpu\"})",
                "node",
            ),
            (
                "memory_requested_percent",
                "100 * sum by (node) (kube_pod_container_resource_requests{resource=\"memory\"}) / sum by (node) (kube_node_status_allocatable{resource=\"memory\"})",
                "node",
            ),
        ],
    },
    QuerySet {
        name: "kepler",
        about: "what nodes draw, from Kepler: the package alone, whose parts would count twice",
        queries: &[(POWER_WATTS, "sum by (instance) (kepler_node_cpu_watts{zone=\"package\"})", "instance")],
    },
    QuerySet {
        name: "scaphandre",
        about: "what nodes draw, from Scaphandre, which tells microwatts",
        queries: &[(POWER_WATTS, "sum by (instance) (scaph_host_power_microwatts) / 1e6", "instance")],
    },
    QuerySet {
        name: "goldpinger",
        about: "how long nodes take to reach the others, from goldpinger",
        queries: &[(
            LATENCY_MS,
            "1000 * sum by (goldpinger_instance) (rate(goldpinger_peers_response_time_s_sum{call_type=\"ping\"}[5m])) / sum by (goldpinger_instance) (rate(goldpinger_peers_response_time_s_count{call_type=\"ping\"}[5m]))",
            "goldpinger_instance",
        )],
    },
    QuerySet {
        name: "agent",
        about: "what Plimsoll's own node agents measure: watts, and the latency to users",
        queries: &[
            (POWER_WATTS, "sum by (instance) (plimsoll_node_power_watts)", "instance"),
            (LATENCY_MS, "1000 * max by (instance) (plimsoll_latency_ewma_seconds)", "instance"),
        ],
    },
];

/// A set by its name.
pub fn preset(name: &str) -> Option<QuerySet> {
    SETS.iter().copied().find(|set| set.name == name)
}

/// All sets.
pub fn presets() -> &'static [QuerySet] {
    SETS
}
