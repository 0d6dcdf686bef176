//! What agents share in reading a scenario: their options, and what its training data teaches of lifetimes.

use crate::error::LearnError;
use crate::lifetime::Dataset;
use crate::spec::LearnSpec;
use plimsoll_sim::scenario::{Scenario, Trace};
use plimsoll_sim::workload::select::Selection;
use serde::Deserialize;
use std::time::Duration;

/// Reads options of `[learn]`.
pub fn read<T: for<'de> Deserialize<'de>>(what: &str, options: &toml::Table) -> Result<T, LearnError> {
    options.clone().try_into().map_err(|error| invalid(what, &error))
}

/// Says where in `[learn]` something is wrong.
pub fn invalid(what: &str, error: &toml::de::Error) -> LearnError {
    LearnError::Invalid(format!("learn.{what}: {}", error.message()))
}

/// What the training data teaches of lifetimes: all owners of a recorded workload, or the made up workload of each sample. Nothing after the
/// training window is looked at.
pub fn looks(own: &Scenario, trace: &Trace, spec: &LearnSpec) -> Result<Dataset, LearnError> {
    let mut whole = own.clone();
    whole.select = Selection { window: own.select.window, train: own.select.train, ..Selection::default() };
    let until = own.select.window.and_then(|window| Some(window.to?.saturating_sub(window.from)));
    let seeds = if own.workload.file.is_some() { &spec.train.samples[..1] } else { &spec.train.samples[..] };
    let mut data = Dataset::default();
    for &seed in seeds {
        let workload = whole.prepare(trace, seed)?.workload;
        let until = until.unwrap_or_else(|| workload.span() + Duration::from_secs(1));
        data.samples.extend(Dataset::new(&workload, until, seed).samples);
    }
    Ok(data)
}
