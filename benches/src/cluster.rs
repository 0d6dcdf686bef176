//! Clusters for benchmarks: a file of objects, one a line, that both schedulers read.

use anyhow::{Context, Result};
use flate2::read::GzDecoder;
use k8s_openapi::api::core::v1 as api;
use serde::Deserialize;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// A line of a cluster file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Line {
    /// A node.
    Node(Box<api::Node>),
    /// A pod that is already bound.
    Bound(Box<api::Pod>),
    /// A pod to place.
    Pending(Box<api::Pod>),
    /// A service.
    Service(Box<api::Service>),
    /// A namespace.
    Namespace(Box<api::Namespace>),
}

/// Reads a cluster file line by line.
pub fn read(path: &Path, mut each: impl FnMut(Line) -> Result<()>) -> Result<()> {
    let file = File::open(path).with_context(|| format!("cluster file {}", path.display()))?;
    for (number, line) in BufReader::new(GzDecoder::new(file)).lines().enumerate() {
        let at = || format!("{}:{}", path.display(), number + 1);
        each(serde_json::from_str(&line.with_context(at)?).with_context(at)?).with_context(at)?;
    }
    Ok(())
}
