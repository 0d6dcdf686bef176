//! A policy of the experiment as a policy of the engine, for a cluster whose scheduler asks.

use crate::agent::chooser::Chooser;
use crate::environment::Shuffle;
use crate::observation::{Exported, Observation, Observe};
use plimsoll_core::policy::{Policy, Ranking};
use plimsoll_core::state::NodeId;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Who sits in a seat, and how the nodes are ordered for them.
type Sitting = Option<(Box<dyn Chooser>, Shuffle)>;

/// Where the chooser sits that decides at the moment.
#[derive(Clone, Default)]
pub struct Seat(Arc<Mutex<Sitting>>);

impl Seat {
    fn lock(&self) -> MutexGuard<'_, Sitting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on this one decides.
    pub fn take(&self, chooser: Box<dyn Chooser>, shuffle: Shuffle) {
        *self.lock() = Some((chooser, shuffle));
    }

    /// Nobody decides any more.
    pub fn leave(&self) -> Option<Box<dyn Chooser>> {
        self.lock().take().map(|(chooser, _)| chooser)
    }
}

/// Ranks first what the chooser in the seat chooses.
pub struct Advised {
    seat: Seat,
    seen: Exported,
    observation: Observation,
}

impl Advised {
    /// A policy for whoever takes the seat.
    pub fn new(seat: Seat) -> Self {
        Self { seat, seen: Exported::default(), observation: Observation::default() }
    }
}

impl Policy for Advised {
    fn name(&self) -> &'static str {
        "thesis"
    }

    fn rank(&mut self, ranking: &mut Ranking<'_>, nodes: &[NodeId], scores: &mut [f64]) -> Result<(), String> {
        let mut seat = self.seat.lock();
        let Some((chooser, shuffle)) = seat.as_mut() else { return Err("nobody is there to choose".to_owned()) };
        let mut rows: Vec<_> = nodes.iter().copied().enumerate().collect();
        if *shuffle != Shuffle::Never {
            for at in (1..rows.len()).rev() {
                rows.swap(at, ranking.rng.below(at + 1));
            }
        }
        let ids: Vec<_> = rows.iter().map(|(_, node)| *node).collect();
        // Nodes come and go between decisions: nothing is remembered of them.
        self.seen.begin();
        self.seen.observe(&ranking.cycle, &ids, &ids, &mut self.observation);
        let row = chooser.choose(&self.observation).map_err(|error| error.to_string())?;
        scores.fill(0.0);
        match rows.get(row) {
            Some((at, _)) => scores[*at] = 1.0,
            None => return Err(format!("row {row} was chosen of {}", rows.len())),
        }
        Ok(())
    }
}
