//! PrioritySort: the more important pod is tried first, and of equals the one that waits longer.

use std::cmp::Ordering;

/// Orders `(priority, time queued)`: what is to be tried first comes first.
pub fn more_urgent(a: (i32, u64), b: (i32, u64)) -> Ordering {
    b.0.cmp(&a.0).then(a.1.cmp(&b.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priority_goes_before_age() {
        let mut queue = [(0, 1), (10, 5), (10, 2)];
        queue.sort_by(|a, b| more_urgent(*a, *b));
        assert_eq!(queue, [(10, 2), (10, 5), (0, 1)]);
    }
}
