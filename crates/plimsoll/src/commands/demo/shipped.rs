//! The policy that is shown unless another is named: part of the program, so that it is there wherever the program is started.

use crate::evaluation::policy_of;
use anyhow::{Result, anyhow};
use plimsoll_core::policy::Policy;
use plimsoll_learn::model::{Card, weights_from_bytes};
use plimsoll_learn::workshop;
use std::path::Path;

/// The folder that it comes in.
pub const NAME: &str = "models/energy";

const CARD: &[u8] = include_bytes!("../../../../../models/energy/card.json");
const WEIGHTS: &[u8] = include_bytes!("../../../../../models/energy/model.safetensors");

/// A policy by name, or the model of a folder. It has all the time it wants, so that a day does not depend on how busy this machine is.
pub fn policy(name: &str) -> Result<Box<dyn Policy>> {
    if name != NAME || Path::new(name).is_dir() {
        return Ok(policy_of(name)?);
    }
    let card: Card = serde_json::from_slice(CARD)?;
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
        assert!(policy(NAME).unwrap().counters().is_some());
        assert!(policy("guess").is_err());
    }
}
