//! What benchmarks share: counting allocations and reading clusters.

pub mod alloc;
pub mod cluster;
pub mod report;
