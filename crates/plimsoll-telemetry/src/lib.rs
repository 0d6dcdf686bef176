//! What the world looks like beside the objects of a cluster: how busy nodes really are, what they draw, how far users are.
//!
//! Everything is read on a schedule, side by side, and kept with the time it is of. Nobody who decides waits for it: what is missing or too
//! old is a value, too.

mod agents;
mod prometheus;
mod queries;
mod resource_metrics;
mod store;

pub use agents::{Agents, agent_address};
pub use prometheus::{Prometheus, PrometheusError};
pub use queries::{
    CPU_CORES, CPU_PERCENT, LATENCY_MS, MEMORY_AVAILABLE_GB, MEMORY_USED_GB, PODS, POWER_WATTS, Query, QuerySet,
    preset, presets,
};
pub use resource_metrics::ResourceMetrics;
pub use store::{Known, Reading, Settings, Store};
