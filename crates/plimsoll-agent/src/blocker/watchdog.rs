//! The one thread that ends blocks: when their time is over, when their owner is not heard of, and when somebody asked for it.

use super::{Phase, REMEMBERED, Shared, State};
use crate::lock;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// How long it sleeps where nothing is due.
const IDLE: Duration = Duration::from_secs(3600);

/// Ends blocks until the blocker is closed and nothing is held.
pub fn watch(shared: &Shared) {
    let mut state = lock(&shared.state);
    loop {
        let now = Instant::now();
        let next = end_overdue(&mut state, now);
        let ending = state.held.iter().find(|(_, block)| block.reason.is_some()).map(|(id, _)| *id);
        if let Some(id) = ending {
            let workers = state.held.get_mut(&id).map(|block| std::mem::take(&mut block.workers)).unwrap_or_default();
            // Workers take this lock when they fail.
            drop(state);
            workers.into_iter().for_each(|worker| drop(worker.join()));
            state = lock(&shared.state);
            finish(&mut state, id);
            shared.changed.notify_all();
            continue;
        }
        if state.closing && state.held.is_empty() {
            return;
        }
        let wait = next.map_or(IDLE, |next| next.saturating_duration_since(now));
        state = shared.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// Tells those to end that are due, and returns when the next one is.
fn end_overdue(state: &mut State, now: Instant) -> Option<Instant> {
    let mut next = None;
    for block in state.held.values_mut() {
        let (deadline, why) = block.deadline();
        if deadline <= now {
            block.end(why);
        } else if next.is_none_or(|next| deadline < next) {
            next = Some(deadline);
        }
    }
    next
}

fn finish(state: &mut State, id: u64) {
    let Some(block) = state.held.remove(&id) else { return };
    let mut report = block.report(id, Instant::now());
    report.phase = Phase::Released;
    report.seconds_left = 0.0;
    report.ttl_seconds_left = 0.0;
    tracing::info!(id = report.id, reason = report.reason, "a block was released");
    if state.ended.len() == REMEMBERED {
        state.ended.pop_front();
    }
    state.ended.push_back((id, report));
}
