//! What goes wrong, when: drawn from the seed, each fault with the moment at which it ends.

use plimsoll_core::rng::Rng;
use plimsoll_lab::{Line, Rates};
use std::time::Duration;

/// Something that is done to the cluster. Schedulers are counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The scheduler is killed, and started again a moment later.
    Kill(usize),
    /// The scheduler is stopped without ending, and goes on as if no time had passed.
    Pause(usize),
    Resume(usize),
    /// How the line between the scheduler and the API server is.
    Line(usize, Line),
    /// The API server is killed and started again.
    CrashApi,
    /// The store stands still.
    PauseEtcd,
    ResumeEtcd,
    /// The lines of all schedulers get this bad.
    Lines(Rates),
    /// Somebody whose clock is off by so many seconds takes the lease, and is not heard of again.
    Usurp(i64),
}

/// How many kinds of faults there are.
const KINDS: usize = 9;

/// What is usual: a little of everything.
pub const USUAL: Rates = Rates {
    conflict: 10,
    gone: 10,
    too_many: 10,
    error: 10,
    lost_request: 10,
    lost_answer: 20,
    late_request: 30,
    late_answer: 30,
    cut: 300,
};

/// The faults of a run of this length, in order of time. They end within it.
pub fn plan(seed: u64, length: Duration, schedulers: usize, lease: Duration) -> Vec<(Duration, Action)> {
    let mut rng = Rng::new(seed);
    let mut plan = vec![(Duration::ZERO, Action::Lines(USUAL))];
    // The cluster fills first.
    let mut now = Duration::from_secs(4);
    let seconds = |rng: &mut Rng, least: f64, most: f64| Duration::from_secs_f64(least + (most - least) * rng.unit());
    // The first round has every kind, so that the shortest run has them all.
    let mut deck: Vec<usize> = (0..KINDS).collect();
    shuffle(&mut deck, &mut rng);
    let mut drawn = deck.into_iter();
    while now < length {
        let who = rng.below(schedulers);
        let kind = drawn.next().unwrap_or_else(|| rng.below(KINDS));
        let end = now + seconds(&mut rng, 0.5, 4.0);
        let actions = match kind {
            0 | 1 => vec![(now, Action::Kill(who))],
            2 => vec![(now, Action::Pause(who)), (end + Duration::from_secs(3), Action::Resume(who))],
            3 => vec![
                (now, Action::Line(who, Line::Silent)),
                (end + Duration::from_secs(3), Action::Line(who, Line::Clear)),
            ],
            4 => vec![(now, Action::CrashApi)],
            5 => vec![(now, Action::PauseEtcd), (end, Action::ResumeEtcd)],
            6 => vec![(now, Action::Lines(storm(&mut rng))), (end, Action::Lines(USUAL))],
            7 => heir(now, who, schedulers, lease),
            _ => vec![(now, Action::Usurp(if rng.below(2) == 0 { -86_400 } else { 86_400 }))],
        };
        plan.extend(actions);
        now += seconds(&mut rng, 0.5, 4.0);
    }
    plan.sort_by_key(|(when, _)| *when);
    plan
}

/// The others stand still until their lease is over, and who takes over has not heard for a while what they bound.
fn heir(now: Duration, who: usize, schedulers: usize, lease: Duration) -> Vec<(Duration, Action)> {
    let (stops, ends) = (now + Duration::from_secs(3), now + Duration::from_secs(6) + lease);
    let others = (0..schedulers).filter(|other| *other != who);
    let paused = others.flat_map(|other| [(stops, Action::Pause(other)), (ends, Action::Resume(other))]);
    [(now, Action::Line(who, Line::Stale)), (ends, Action::Line(who, Line::Clear))].into_iter().chain(paused).collect()
}

fn shuffle(deck: &mut [usize], rng: &mut Rng) {
    for at in (1..deck.len()).rev() {
        deck.swap(at, rng.below(at + 1));
    }
}

/// One fault, far more often than usual.
fn storm(rng: &mut Rng) -> Rates {
    let none = Rates::default();
    let bad = 400;
    let one = match rng.below(7) {
        0 => Rates { conflict: bad, ..none },
        1 => Rates { gone: bad, ..none },
        2 => Rates { too_many: bad, ..none },
        3 => Rates { error: bad, ..none },
        4 => Rates { lost_answer: bad, ..none },
        5 => Rates { late_request: bad, late_answer: bad, ..none },
        _ => Rates { cut: 1000, lost_request: bad, ..none },
    };
    USUAL.worse(one)
}
