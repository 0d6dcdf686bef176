//! The policy that is shown unless another is named: part of the program, so that it is there wherever the program is started.

use crate::helm;
use anyhow::{Result, anyhow};
use plimsoll_core::policy::Policy;
use plimsoll_learn::model::{Card, weights_from_bytes};
use plimsoll_learn::reward::SharedObjectives;
use plimsoll_learn::workshop;
use std::path::Path;

/// The folder that it comes in.
pub const NAME: &str = "models/energy";

const CARD: &[u8] = include_bytes!("../../../../../models/energy/card.json");
const WEIGHTS: &[u8] = include_bytes!("../../../../../models/energy/model.safetensors");

/// A policy by name, or the model of a folder, with what [`helm::policy`] takes. It has all the time it wants, so that a day does not depend on how busy this machine is.
pub fn policy(name: &str, objectives: &SharedObjectives, trust: Option<f64>) -> Result<Box<dyn Policy>> {
    if name != NAME || Path::new(name).is_dir() {
        return helm::policy(name, objectives, trust);
    }
    let mut card: Card = serde_json::from_slice(CARD)?;
    card.trust = trust.unwrap_or(card.trust);
    let weights = weights_from_bytes(WEIGHTS).map_err(|problem| anyhow!("{NAME}: {problem}"))?;
    Ok(workshop::policy(&card, &weights)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_is_there_without_its_folder() {
        // Tests run in the folder of the crate, where there are no models.
        assert!(!Path::new(NAME).exists());
        let named = |name: &str| policy(name, &SharedObjectives::default(), Some(0.1));
        assert!(named(NAME).unwrap().counters().is_some());
        assert!(named("multi-objective").is_ok());
        assert!(named("guess").is_err());
    }
}
