//! Recorded workloads, and those that are made up.

use crate::errors;
use plimsoll_sim::workload::generate::Generator;
use plimsoll_sim::workload::info::Summary;
use plimsoll_sim::workload::{self, Format, ReadOptions};
use pyo3::prelude::*;
use std::path::PathBuf;

/// Reads a recorded workload and sums it up, as JSON; where a file is named, it is written there in our own format.
#[pyfunction]
#[pyo3(signature = (path, format, lenient, out))]
pub fn read_trace(
    py: Python<'_>,
    path: PathBuf,
    format: Option<&str>,
    lenient: bool,
    out: Option<PathBuf>,
) -> PyResult<String> {
    py.detach(|| {
        let found = match format {
            Some(name) => name.parse().map_err(|problem: String| errors::invalid(problem))?,
            None => Format::detect(&path).map_err(|error| errors::input(&path, &error))?,
        };
        let read = workload::read(&path, found, None, ReadOptions { lenient });
        let (workload, skipped) = read.map_err(|error| errors::input(&path, &error))?;
        if let Some(out) = out {
            workload::write(&workload, &out).map_err(errors::invalid)?;
        }
        let mut summary = serde_json::json!(Summary::of(&workload));
        summary["skipped"] = serde_json::json!(skipped);
        errors::json(&summary)
    })
}

/// Makes a workload up and sums it up, as JSON; settings are as in `key = value` of a scenario.
#[pyfunction]
#[pyo3(signature = (kind, settings, seed, out))]
pub fn generate_trace(
    py: Python<'_>,
    kind: &str,
    settings: Vec<String>,
    seed: u64,
    out: Option<PathBuf>,
) -> PyResult<String> {
    py.detach(|| {
        let generator = Generator::parse(kind, &settings).map_err(errors::invalid)?;
        let workload = generator.generate(seed).map_err(errors::invalid)?;
        if let Some(out) = out {
            workload::write(&workload, &out).map_err(errors::invalid)?;
        }
        errors::json(&Summary::of(&workload))
    })
}
