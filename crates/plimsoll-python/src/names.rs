//! What can be named: policies, rewards, features, generators, measures.

use crate::errors;
use plimsoll_core::policy::POLICIES;
use plimsoll_learn::observation::features::{NODE_FEATURES, POD_FEATURES};
use plimsoll_learn::policy::{ABOUT_MULTI_OBJECTIVE, BASES, MULTI_OBJECTIVE};
use plimsoll_learn::reward::REWARDS;
use plimsoll_sim::report::catalogue;
use plimsoll_sim::workload::generate::Generator;
use pyo3::prelude::*;

/// The names of a kind, each with what it is.
#[pyfunction]
pub fn names(kind: &str) -> PyResult<Vec<(String, String)>> {
    let both = |list: &[(&str, &str)]| -> Vec<(String, String)> {
        list.iter().map(|(name, about)| ((*name).to_owned(), (*about).to_owned())).collect()
    };
    Ok(match kind {
        "policies" => {
            let mut all = both(POLICIES);
            all.push((MULTI_OBJECTIVE.to_owned(), ABOUT_MULTI_OBJECTIVE.to_owned()));
            all
        }
        "bases" => both(&[BASES, POLICIES].concat()),
        "rewards" => REWARDS.iter().map(|known| (known.name.to_owned(), known.description.to_owned())).collect(),
        "generators" => both(&Generator::KINDS),
        "node features" => {
            NODE_FEATURES.iter().map(|(name, _, about)| ((*name).to_owned(), (*about).to_owned())).collect()
        }
        "pod features" => both(&POD_FEATURES),
        "measures" => catalogue::entries().into_iter().map(|entry| (entry.key.to_owned(), entry.definition)).collect(),
        other => {
            let known = "policies, bases, rewards, generators, node features, pod features, measures";
            return Err(errors::invalid(format!("names {other:?} are not known; there are {known}")));
        }
    })
}
