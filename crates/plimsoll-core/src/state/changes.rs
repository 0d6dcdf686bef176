//! Which nodes changed, in order, so that remembered results are refreshed by difference.

use super::node::NodeId;
use std::collections::VecDeque;

/// Changes remembered before a reader that lags further behind has to look at every node again.
///
/// A decision changes one node, so a remembered result that was not used for this many decisions is worth little.
const CAPACITY: usize = 4096;

/// A bounded log of node changes.
#[derive(Debug, Default)]
pub struct ChangeLog {
    recent: VecDeque<NodeId>,
    /// The position after the last change; positions only grow.
    end: u64,
}

impl ChangeLog {
    /// Notes that a node, or the pods on it, changed.
    pub fn push(&mut self, node: NodeId) {
        if self.recent.len() == CAPACITY {
            self.recent.pop_front();
        }
        self.recent.push_back(node);
        self.end += 1;
    }

    /// The position to remember, for [`Self::since`] later.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The changes after a position, or none if the log does not reach back that far.
    pub fn since(&self, position: u64) -> Option<impl Iterator<Item = NodeId> + '_> {
        let behind = usize::try_from(self.end - position).ok()?;
        let start = self.recent.len().checked_sub(behind)?;
        Some(self.recent.range(start..).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_sees_exactly_what_it_missed() {
        let mut log = ChangeLog::default();
        log.push(NodeId::new(1));
        let position = log.end();
        log.push(NodeId::new(2));
        log.push(NodeId::new(2));
        let seen: Vec<_> = log.since(position).unwrap().collect();
        assert_eq!(seen, [NodeId::new(2), NodeId::new(2)]);
        assert_eq!(log.since(log.end()).unwrap().count(), 0);
    }

    #[test]
    fn a_reader_too_far_behind_is_told() {
        let mut log = ChangeLog::default();
        for n in 0..=CAPACITY as u32 {
            log.push(NodeId::new(n));
        }
        assert!(log.since(0).is_none());
        assert_eq!(log.since(1).unwrap().count(), CAPACITY);
    }
}
