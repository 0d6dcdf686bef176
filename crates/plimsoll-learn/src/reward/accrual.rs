//! Rewards that judge what accrued in simulated time between two decisions. What costs counts below zero.

use plimsoll_sim::simulation::Readings;

/// Kilowatt-hours of the power model.
pub fn energy(since: &Readings) -> f64 {
    -since.kwh
}

/// Hours of awake nodes.
pub fn node_hours(since: &Readings) -> f64 {
    -since.node_hours
}

/// Money.
pub fn money(since: &Readings) -> f64 {
    -since.cost
}

/// Kilograms of carbon dioxide.
pub fn carbon(since: &Readings) -> f64 {
    -since.co2_kg
}

/// Latency to users.
pub fn latency(since: &Readings) -> f64 {
    -since.latency_ms_hours
}

/// Pod-hours above the soft latency constraint.
pub fn latency_violations(since: &Readings) -> f64 {
    -since.soft_violation_hours
}

/// Hours of free cores and GPUs that are of no use to pods to come.
pub fn fragmentation(since: &Readings) -> f64 {
    -since.stranded_core_hours - since.stranded_gpu_hours
}

/// Hours of free GPUs that are of no use to pods to come.
pub fn gpu_fragmentation(since: &Readings) -> f64 {
    -since.stranded_gpu_hours
}

/// Hours for which pods wait.
pub fn waiting(since: &Readings) -> f64 {
    -since.waiting_hours
}

/// Pods that gave up.
pub fn rejections(since: &Readings) -> f64 {
    -since.rejected
}

/// Hours of overloaded nodes.
pub fn overload(since: &Readings) -> f64 {
    -since.overload_hours
}
