//! The proving ground: a workload, recorded or made up, is replayed on simulated machines under any policy.
//!
//! Decisions are those of `plimsoll-core`, through its real queue; nothing here schedules. Around it are a virtual clock, machines
//! that wake, sleep, join and fail, and models of the world: power, carbon, price, latency, usage. The same seed gives the same
//! run, bit for bit.

pub mod bounds;
pub mod checksum;
pub mod compare;
pub mod error;
pub mod fleet;
pub mod measures;
pub mod report;
pub mod scenario;
pub mod simulation;
pub mod sizing;
pub mod workload;
pub mod world;
