//! Scenarios: TOML files, or their text.

use crate::errors;
use plimsoll_learn::spec::LearnSpec;
use pyo3::prelude::*;
use std::path::PathBuf;

/// A scenario: pods, machines, the world they are in, and what is learned of it.
#[pyclass(frozen, module = "plimsoll._engine")]
pub struct Scenario {
    pub inner: plimsoll_sim::scenario::Scenario,
}

#[pymethods]
impl Scenario {
    /// Reads a scenario file.
    #[staticmethod]
    fn read(path: PathBuf) -> PyResult<Self> {
        let inner = plimsoll_sim::scenario::Scenario::read(&path).map_err(|error| errors::input(&path, &error))?;
        Ok(Self { inner })
    }

    /// Reads the text of a scenario; file names in it are relative to the folder.
    #[staticmethod]
    fn parse(text: &str, folder: PathBuf) -> PyResult<Self> {
        let parsed = plimsoll_sim::scenario::Scenario::parse(text);
        let inner = parsed.map_err(|(line, problem)| match line {
            Some(line) => errors::invalid(format!("scenario, line {line}: {problem}")),
            None => errors::invalid(format!("scenario: {problem}")),
        })?;
        Ok(Self { inner: plimsoll_sim::scenario::Scenario { folder, ..inner } })
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.inner.name
    }

    /// All of it as JSON.
    fn to_json(&self) -> PyResult<String> {
        errors::json(&self.inner)
    }

    /// How many machines there may ever be.
    fn most_nodes(&self) -> PyResult<usize> {
        Ok(self.inner.fleet().map_err(|error| errors::scenario(&error))?.limits().map(|(_, most)| most).sum())
    }

    fn __repr__(&self) -> String {
        format!("Scenario({:?})", self.inner.name)
    }
}

impl Scenario {
    /// Its `[learn]` section; where there is none, what is usual, on the seeds of the run.
    pub fn learn(&self) -> PyResult<LearnSpec> {
        if self.inner.learn.is_some() {
            return LearnSpec::read(&self.inner).map_err(errors::learn);
        }
        let mut spec = LearnSpec::default();
        if !self.inner.run.seeds.is_empty() {
            spec.train.samples.clone_from(&self.inner.run.seeds);
        }
        Ok(spec)
    }
}
