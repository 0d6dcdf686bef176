//! What benchmarks share: counting allocations, reading clusters and arrivals, running simulators, reporting.

pub mod alloc;
pub mod arrivals;
pub mod cluster;
pub mod decisions;
pub mod learn_report;
pub mod learner;
pub mod process;
pub mod report;
pub mod sim_report;
pub mod simulator;
