//! The search over pools that grow and shrink: how many machines are always there, how many there may be, and how long an empty one is kept.
//!
//! Machines are asked for as soon as a pod waits that none has room for, of the first pool in the catalogue that can take it, and are
//! given back when they were empty for long enough. The search begins with the best fleets that stay as they are.

use super::SizingError;
use super::bench::{Candidate, PoolSize};
use super::catalogue::Kind;
use super::search::{BATCH, Found, Search};
use std::time::Duration;

/// How long an empty machine may be kept, in seconds: the steps of the search.
const IDLE: [u64; 9] = [60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400];
/// How long it is kept at first.
const FIRST_IDLE: [usize; 3] = [0, 3, 6];
/// The share of the fleet that is always there at first.
const BASE: [f64; 4] = [0.0, 0.5, 0.75, 0.9];
/// How large it may grow at first, by the size of the fleet that stays as it is.
const GROWTH: [f64; 2] = [1.0, 1.2];
/// How many of the fleets that stay as they are it begins with.
const FLEETS: usize = 2;

/// Fleets that grow and shrink, and keep the risk.
pub fn search(search: &mut Search<'_>, fixed: &Found, kinds: &[Kind]) -> Result<Found, SizingError> {
    search.allow_more();
    let mut starts = Vec::new();
    for (candidate, _) in fixed.iter().take(FLEETS) {
        for growth in GROWTH {
            for base in BASE {
                starts.extend(FIRST_IDLE.map(|idle| scaled(candidate, kinds, base, growth, IDLE[idle])));
            }
        }
    }
    for batch in starts.chunks(BATCH) {
        if !search.is_cut_short() {
            search.run_all(batch.to_vec())?;
        }
    }
    let starts: Found = starts.iter().filter_map(|candidate| search.known_good(candidate)).collect();
    let all = search.descend_from(starts, &|candidate, step| beside(candidate, step, kinds))?;
    Ok(all.into_iter().filter(|(candidate, _)| candidate.0.iter().any(|pool| pool.idle_after.is_some())).collect())
}

fn scaled(candidate: &Candidate, kinds: &[Kind], base: f64, growth: f64, idle: u64) -> Candidate {
    let pool = |(kind, size): (&Kind, &PoolSize)| {
        let max = ((size.max as f64 * growth).ceil() as usize).min(kind.most);
        let min = ((size.max as f64 * base).round() as usize).clamp(kind.least, max);
        PoolSize { min, max, idle_after: Some(Duration::from_secs(idle)) }
    };
    Candidate(kinds.iter().zip(&candidate.0).map(pool).collect())
}

/// Fleets with other limits of one pool, or another patience of all.
fn beside(candidate: &Candidate, step: usize, kinds: &[Kind]) -> Vec<Candidate> {
    let mut beside = Vec::new();
    for (at, kind) in kinds.iter().enumerate() {
        let PoolSize { min, max, .. } = candidate.0[at];
        let limits = [
            (min.saturating_sub(step).max(kind.least), max),
            ((min + step).min(max), max),
            (min.min(max.saturating_sub(step).max(kind.least)), max.saturating_sub(step).max(kind.least)),
            (min, (max + step).min(kind.most)),
        ];
        beside.extend(limits.into_iter().map(|(min, max)| {
            let mut other = candidate.clone();
            (other.0[at].min, other.0[at].max) = (min, max);
            other
        }));
    }
    let now = candidate.0.iter().filter_map(|pool| pool.idle_after).next().unwrap_or_default();
    let place = IDLE.iter().position(|seconds| Duration::from_secs(*seconds) >= now).unwrap_or(0);
    for idle in [place.checked_sub(1), Some(place + 1)].into_iter().flatten().filter_map(|place| IDLE.get(place)) {
        let mut other = candidate.clone();
        for pool in &mut other.0 {
            pool.idle_after = Some(Duration::from_secs(*idle));
        }
        beside.push(other);
    }
    beside.retain(|other| other != candidate);
    beside
}
