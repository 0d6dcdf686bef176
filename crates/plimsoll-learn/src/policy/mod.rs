//! A trained model as a policy: it ranks, beside a heuristic that it builds on and that stands in where it is not to be trusted.

mod base;
pub mod fused;
mod learned;

pub use base::{BASES, Base};
pub use learned::{Clock, Counters, Learned, Parts, Ranges, sizes};

use crate::error::LearnError;
use crate::model::{CARD_FILE, CARD_SCHEMA, Card, WEIGHTS_FILE, read_weights};
use std::path::Path;

/// Reads a card.
pub fn read_card(folder: &Path) -> Result<Card, LearnError> {
    let path = folder.join(CARD_FILE);
    let problem = |problem: String| LearnError::Model { path: path.clone(), problem };
    let text = std::fs::read_to_string(&path).map_err(|error| LearnError::File { path: path.clone(), error })?;
    let card: Card = serde_json::from_str(&text).map_err(|error| problem(format!("not a model card: {error}")))?;
    if card.schema != CARD_SCHEMA {
        return Err(problem(format!("its schema is {:?}, not {CARD_SCHEMA:?}; train it again", card.schema)));
    }
    Ok(card)
}

/// Reads a model out of its folder.
pub fn load(folder: &Path) -> Result<Learned, LearnError> {
    let card = read_card(folder)?;
    let weights = read_weights(&folder.join(WEIGHTS_FILE))?;
    let parts = Parts::from_card(&card, &weights)
        .map_err(|problem| LearnError::Model { path: folder.to_owned(), problem })?;
    Ok(Learned::new(parts))
}
