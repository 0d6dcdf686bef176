//! Why a decision was what it was, small enough to be kept: the best nodes with what they scored, and who refused the others.

use crate::advise::WhatIf;
use crate::asked;
use plimsoll_core::account::Account;
use plimsoll_core::engine::PodRef;
use plimsoll_core::scheduler::Scheduler;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Names of nodes that are told for each reason.
const NAMED: usize = 5;

/// Why a node was chosen, or none.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reasons {
    /// What the policy makes of the best nodes.
    pub scores: Vec<NodeScore>,
    /// Who refused the others, the most common reason first.
    pub refused: Vec<Refusals>,
    /// How many nodes were looked at.
    pub evaluated: usize,
}

/// Why a decision was made.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Why {
    /// Of which time.
    pub as_of: AsOf,
    /// The reasons.
    #[serde(flatten)]
    pub reasons: Reasons,
}

/// The time that reasons are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AsOf {
    /// When the decision was made.
    Then,
    /// When they were asked for: the pod is looked at as if it came once more.
    Now,
}

/// What a node scores.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeScore {
    node: String,
    score: f64,
    parts: Vec<Part>,
}

/// What a plugin gives a node.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Part {
    plugin: String,
    score: i64,
    /// Always one: scores are told as they are summed.
    weight: u32,
}

/// Nodes that were refused for one reason.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Refusals {
    reason: String,
    plugin: String,
    count: usize,
    /// Some of them.
    nodes: Vec<String>,
}

impl From<&WhatIf> for Reasons {
    fn from(weighed: &WhatIf) -> Self {
        let parts = |node: &str| {
            let scored = weighed.account.feasible.iter().find(|scored| scored.node == node);
            let scores = scored.map(|scored| &scored.scores).into_iter().flatten();
            scores.map(|(plugin, score)| Part { plugin: plugin.clone(), score: *score, weight: 1 }).collect()
        };
        let score = |(node, score): &(String, f64)| NodeScore { node: node.clone(), score: *score, parts: parts(node) };
        Self {
            scores: weighed.best.iter().map(score).collect(),
            refused: refusals(&weighed.account),
            evaluated: weighed.account.refused.len() + weighed.feasible,
        }
    }
}

fn refusals(account: &Account) -> Vec<Refusals> {
    let mut by_reason: BTreeMap<(String, &str), Vec<&str>> = BTreeMap::new();
    for refused in &account.refused {
        let key = (refused.refusal.reasons.join("; "), refused.refusal.plugin.as_str());
        by_reason.entry(key).or_default().push(&refused.node);
    }
    let row = |((reason, plugin), nodes): ((String, &str), Vec<&str>)| Refusals {
        reason,
        plugin: plugin.to_owned(),
        count: nodes.len(),
        nodes: nodes.iter().take(NAMED).map(|node| (*node).to_owned()).collect(),
    };
    let mut rows: Vec<_> = by_reason.into_iter().map(row).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.count));
    rows
}

/// Looks at decisions as they are made, as often as that takes little of the time: most in a small or quiet cluster, some in a large and busy one.
pub(crate) struct Onlooker {
    /// What may be spent on looking.
    spare: Duration,
    /// When more was granted last.
    granted: Instant,
}

/// One part of the time in so many.
const SHARE: u32 = 100;
/// What is saved up at most, for pods that come together after a quiet time.
const MOST: Duration = Duration::from_millis(50);

impl Onlooker {
    pub(crate) fn new(now: Instant) -> Self {
        Self { spare: MOST, granted: now }
    }

    /// Why the pod that is about to be decided about will be placed as it will, where there is time to look.
    pub(crate) fn look(&mut self, scheduler: &mut Scheduler, pod: &PodRef) -> Option<Reasons> {
        let begun = Instant::now();
        self.grant(begun);
        if self.spare.is_zero() {
            return None;
        }
        let reasons = asked::weigh(scheduler, &pod.scheduler, pod.id, asked::Asking::Aside).ok();
        self.spend(begun.elapsed());
        reasons.as_ref().map(Reasons::from)
    }

    fn grant(&mut self, now: Instant) {
        self.spare = MOST.min(self.spare + now.saturating_duration_since(self.granted) / SHARE);
        self.granted = now;
    }

    /// What takes longer than there was left is paid for by a longer pause.
    fn spend(&mut self, took: Duration) {
        match self.spare.checked_sub(took) {
            Some(left) => self.spare = left,
            None => {
                self.granted += (took - self.spare) * SHARE;
                self.spare = Duration::ZERO;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_takes_its_share_of_the_time_and_no_more() {
        let start = Instant::now();
        let mut onlooker = Onlooker::new(start);
        // Pods come every millisecond for ten seconds, and each look takes two.
        let mut looks = 0;
        for milliseconds in 0..10_000 {
            onlooker.grant(start + Duration::from_millis(milliseconds));
            if !onlooker.spare.is_zero() {
                looks += 1;
                onlooker.spend(Duration::from_millis(2));
            }
        }
        // A hundredth of ten seconds, and what was saved up before.
        assert!((74..=76).contains(&looks), "{looks}");
    }
}
