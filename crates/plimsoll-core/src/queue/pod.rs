//! What the queue knows about a pod.

use std::time::Duration;

use crate::config::{Configuration, PluginName, PluginSet};

/// How long pods wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// First wait after a failed attempt; each further one doubles it.
    pub initial_backoff: Duration,
    /// Longest wait; zero for none at all.
    pub max_backoff: Duration,
    /// After this long without an event that helps, an unschedulable pod is tried anyway.
    pub max_in_unschedulable: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self::from(&Configuration::default())
    }
}

impl From<&Configuration> for Settings {
    fn from(configuration: &Configuration) -> Self {
        Self {
            initial_backoff: Duration::from_secs(configuration.pod_initial_backoff_seconds),
            max_backoff: Duration::from_secs(configuration.pod_max_backoff_seconds),
            // kube-scheduler has it as a command line flag with this default, not in its configuration.
            max_in_unschedulable: Duration::from_secs(5 * 60),
        }
    }
}

impl Settings {
    /// The wait of a pod that failed `count` times.
    pub(super) fn backoff(&self, count: u32) -> Duration {
        if count == 0 {
            return Duration::ZERO;
        }
        match 1u32.checked_shl(count - 1).and_then(|factor| self.initial_backoff.checked_mul(factor)) {
            Some(backoff) => backoff.min(self.max_backoff),
            None => self.max_backoff,
        }
    }
}

/// What of a pod decides its place in the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodFields<N> {
    /// `spec.priority`, zero if there is none.
    pub priority: i32,
    /// `status.nominatedNodeName`.
    pub nominated_node: Option<N>,
}

/// Who rejected a pod in its last attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rejectors {
    /// Plugins that found it unschedulable. An event that helps with one of them is worth a try after backoff.
    pub unschedulable: PluginSet,
    /// Plugins that wait for something. When it has come, the pod is tried without backoff.
    pub pending: PluginSet,
    /// Whether an extender refused nodes.
    pub extender: bool,
}

impl Rejectors {
    /// Whether nobody rejected it: its attempt failed by an error.
    pub fn is_empty(&self) -> bool {
        self.plugins().is_empty() && !self.extender
    }

    /// All plugins that rejected it.
    pub fn plugins(&self) -> PluginSet {
        self.unschedulable.union(self.pending)
    }
}

/// A pod that waits or is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuedPod<N> {
    /// What of the pod itself matters.
    pub fields: PodFields<N>,
    /// When it was added, or came back from its last attempt.
    pub timestamp: Duration,
    /// When it first became active.
    pub initial_attempt: Option<Duration>,
    /// How often it was popped.
    pub attempts: u32,
    /// How many attempts ended with a rejection.
    pub unschedulable_count: u32,
    /// How many attempts in a row ended with an error.
    pub consecutive_errors: u32,
    /// Who rejected it last.
    pub rejectors: Rejectors,
    /// The plugin that keeps it from the active queue. It is among the rejectors as well.
    pub gated_by: Option<PluginName>,
    /// Whether it was last moved only because it had waited so long.
    pub flushed: bool,
    /// Whether it waits for its backoff to end, though there be nothing else to do.
    pub(super) is_patient: bool,
    /// The place in the order of arrival, which decides between pods that are otherwise equal.
    pub(super) arrival: u64,
    /// Whether it was deleted in flight and will not come back.
    pub(super) deleted: bool,
}

impl<N> QueuedPod<N> {
    pub(super) fn new(fields: PodFields<N>, now: Duration, arrival: u64) -> Self {
        Self {
            fields,
            timestamp: now,
            initial_attempt: None,
            attempts: 0,
            unschedulable_count: 0,
            consecutive_errors: 0,
            rejectors: Rejectors::default(),
            gated_by: None,
            flushed: false,
            is_patient: false,
            arrival,
            deleted: false,
        }
    }

    /// When its backoff ends, to the second: pods that end theirs in one second are ordered as in the active
    /// queue. `None` if it has none.
    pub(super) fn backoff_until(&self, settings: &Settings) -> Option<Duration> {
        let count = match self.consecutive_errors {
            0 => self.unschedulable_count,
            errors => errors,
        };
        if count == 0 || settings.max_backoff.is_zero() {
            return None;
        }
        Some(whole_seconds(self.timestamp.saturating_add(settings.backoff(count))))
    }

    /// Whether it still has to wait. In the second in which the backoff ends it does.
    pub(super) fn is_backing_off(&self, settings: &Settings, now: Duration) -> bool {
        self.backoff_until(settings).is_some_and(|until| until >= whole_seconds(now))
    }
}

pub(super) const fn whole_seconds(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_its_limit() {
        let settings = Settings::default();
        let seconds: Vec<_> = (0..7).map(|count| settings.backoff(count).as_secs()).collect();
        assert_eq!(seconds, [0, 1, 2, 4, 8, 10, 10]);
        assert_eq!(settings.backoff(u32::MAX), Duration::from_secs(10));
        let odd =
            Settings { initial_backoff: Duration::from_secs(3), max_backoff: Duration::from_secs(10), ..settings };
        assert_eq!((1..5).map(|count| odd.backoff(count).as_secs()).collect::<Vec<_>>(), [3, 6, 10, 10]);
    }

    #[test]
    fn errors_in_a_row_count_instead_of_rejections() {
        let settings = Settings::default();
        let mut pod = QueuedPod::<()>::new(PodFields::default(), Duration::from_millis(1_500), 0);
        assert_eq!(pod.backoff_until(&settings), None);
        pod.unschedulable_count = 3;
        assert_eq!(pod.backoff_until(&settings), Some(Duration::from_secs(5)));
        pod.consecutive_errors = 1;
        assert_eq!(pod.backoff_until(&settings), Some(Duration::from_secs(2)));
        assert!(pod.is_backing_off(&settings, Duration::from_millis(2_999)));
        assert!(!pod.is_backing_off(&settings, Duration::from_secs(3)));
        let none = Settings { max_backoff: Duration::ZERO, ..settings };
        assert_eq!(pod.backoff_until(&none), None);
    }
}
