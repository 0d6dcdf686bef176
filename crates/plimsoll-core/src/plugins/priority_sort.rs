//! PrioritySort: the more important pod is tried first, and of equals the one that waits longer.

use std::cmp::Reverse;
use std::time::Duration;

/// Orders pods that wait for their turn, the most urgent first; the number of their arrival tells equals apart.
pub type Urgency = (Reverse<i32>, Duration, u64);

/// The place of a pod of this priority, queued at this time.
pub fn urgency(priority: i32, queued: Duration, arrival: u64) -> Urgency {
    (Reverse(priority), queued, arrival)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priority_goes_before_age_and_age_before_arrival() {
        let pod = |priority, seconds, arrival| urgency(priority, Duration::from_secs(seconds), arrival);
        let mut queue = [pod(0, 1, 0), pod(10, 5, 1), pod(10, 2, 3), pod(10, 2, 2)];
        queue.sort();
        assert_eq!(queue, [pod(10, 2, 2), pod(10, 2, 3), pod(10, 5, 1), pod(0, 1, 0)]);
    }
}
