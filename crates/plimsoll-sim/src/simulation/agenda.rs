//! What is going to happen, in the order of simulated time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// What happens at some time. Of things at one time those listed first come first: what makes room before what takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Happening {
    /// A pod ends, if this is still its run.
    End {
        /// The pod.
        pod: u32,
        /// Which of its runs.
        run: u32,
    },
    /// A machine is awake now, if it still boots.
    Booted {
        /// The machine.
        machine: u32,
    },
    /// A machine that is empty for long enough falls asleep, or is given back.
    Idle {
        /// The machine.
        machine: u32,
        /// Which of its spells.
        spell: u32,
    },
    /// A machine that a pool asked for joins.
    Join {
        /// The pool.
        pool: u32,
    },
    /// A machine fails by chance.
    Fail {
        /// The machine.
        machine: u32,
        /// Which of its failures; one that was planned before another came is void.
        failure: u32,
    },
    /// A failed machine is back.
    Repaired {
        /// The machine.
        machine: u32,
        /// Which of its failures.
        failure: u32,
    },
    /// A disruption of the scenario.
    Disrupt {
        /// Which.
        disruption: u32,
    },
    /// A model of the world changes.
    World,
    /// The warm-up is over.
    Warm,
    /// A pod has waited for too long.
    GiveUp {
        /// The pod.
        pod: u32,
        /// Which time it was made.
        made_anew: u32,
    },
    /// Time alone makes a waiting pod ready.
    Wake,
    /// The course is sampled.
    Sample,
}

/// Happenings by time.
#[derive(Debug, Default)]
pub struct Agenda {
    heap: BinaryHeap<Reverse<(Duration, Happening, u64)>>,
    entered: u64,
}

impl Agenda {
    /// Enters something.
    pub fn enter(&mut self, at: Duration, happening: Happening) {
        self.entered += 1;
        self.heap.push(Reverse((at, happening, self.entered)));
    }

    /// When the next thing happens.
    pub fn next_time(&self) -> Option<Duration> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// The next thing that happens not later than `now`.
    pub fn take_due(&mut self, now: Duration) -> Option<Happening> {
        self.next_time().filter(|at| *at <= now)?;
        self.heap.pop().map(|Reverse((_, happening, _))| happening)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_room_comes_first() {
        let mut agenda = Agenda::default();
        let second = Duration::from_secs(1);
        agenda.enter(second, Happening::World);
        agenda.enter(second, Happening::End { pod: 2, run: 0 });
        agenda.enter(second, Happening::End { pod: 1, run: 0 });
        agenda.enter(Duration::ZERO, Happening::Sample);
        assert_eq!(agenda.next_time(), Some(Duration::ZERO));
        let order: Vec<_> = std::iter::from_fn(|| agenda.take_due(second)).collect();
        let ends = [1, 2].map(|pod| Happening::End { pod, run: 0 });
        assert_eq!(order, [Happening::Sample, ends[0], ends[1], Happening::World]);
        assert_eq!(agenda.take_due(second), None);
    }
}
