//! Cases answered by the real kube-scheduler, and how ours compares.
//!
//! A case is a cluster and a pod (or a sequence of pods, each placed before the next is looked at) with the expected
//! answer: which nodes are feasible, who refused the others and why, every score, and what would be preempted.

mod case;
mod check;

pub use case::{Answer, Case, CaseError, Objects, Refused, Step, Steps, Victims};
pub use check::{Difference, apply, check};
