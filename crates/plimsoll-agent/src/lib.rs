//! The node agent of Plimsoll, one on each node: it measures the latency to users, reads how much energy the node takes and attributes it to
//! pods, and occupies resources so that experiments can be repeated. It decides nothing and knows nothing of scheduling.

pub mod allow;
pub mod app;
pub mod blocker;
pub mod config;
pub mod energy;
pub mod http;
pub mod latency;
pub mod metrics;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks; what a thread that panicked has left is whole after each statement here, and is used further.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
