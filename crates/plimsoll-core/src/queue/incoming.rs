//! How many pods came to which place of the queue, and why.

use super::{ActionType, EventResource, Place};
use rustc_hash::FxHashMap;

/// Why a pod came to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// The cluster changed, or the pod itself.
    Event(EventResource, ActionType),
    /// An attempt at it failed.
    AttemptFailed,
    /// Its backoff has ended.
    BackoffEnded,
    /// Nothing else was to be tried.
    PoppedEarly,
    /// It had waited too long for an event.
    WaitedTooLong,
    /// A plugin asked for it.
    Forced,
}

impl Cause {
    /// The label that kube-scheduler gives it in metrics.
    pub fn label(self) -> String {
        match self {
            Self::Event(resource, action) => format!("{}{action}", resource.as_str()),
            Self::AttemptFailed => "ScheduleAttemptFailure".to_owned(),
            Self::BackoffEnded => "BackoffComplete".to_owned(),
            Self::PoppedEarly => "PopFromBackoffQ".to_owned(),
            Self::WaitedTooLong => "UnschedulableTimeout".to_owned(),
            Self::Forced => "ForceActivate".to_owned(),
        }
    }
}

/// The counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Incoming(FxHashMap<(Place, Cause), u64>);

impl Incoming {
    /// A pod came to a place; which is returned.
    pub fn count(&mut self, place: Place, cause: Cause) -> Place {
        *self.0.entry((place, cause)).or_default() += 1;
        place
    }

    /// All counts, in the order of places and causes.
    pub fn all(&self) -> Vec<(Place, Cause, u64)> {
        let mut all: Vec<_> = self.0.iter().map(|((place, cause), count)| (*place, *cause, *count)).collect();
        all.sort_unstable();
        all
    }
}
