//! Results of runs, as tables and as JSON.

use anyhow::{Context, Result};
use plimsoll_sim::measures::{Measures, Row};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// How results are printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people
    #[default]
    Table,
    /// For programs: one row a policy, window and seed
    Json,
}

/// The version of the JSON results; it changes when a field changes its meaning or goes.
const VERSION: &str = "plimsoll.dev/results/v1";

/// Results as JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Results<'a> {
    version: &'static str,
    rows: Vec<&'a Row>,
}

impl<'a> Results<'a> {
    /// The results of these runs.
    pub fn new(rows: impl IntoIterator<Item = &'a Row>) -> Self {
        Self { version: VERSION, rows: rows.into_iter().collect() }
    }
}

/// A figure of a run with its meaning.
pub struct Figure {
    /// The name, as in JSON.
    pub name: String,
    /// The value; a dash where it was not measured.
    pub value: String,
    /// What it is.
    pub meaning: String,
}

/// Every figure of a run.
pub fn all(row: &Row) -> Vec<Figure> {
    let values = serde_json::to_value(row.measures).unwrap_or_default();
    let schema = schemars::schema_for!(Measures).to_value();
    let meaning = |name: &str| schema["properties"][name]["description"].as_str().unwrap_or_default().to_owned();
    let mut figures: Vec<_> = names()
        .into_iter()
        .map(|name| Figure { value: number(&values[&name]), meaning: meaning(&name), name })
        .collect();
    let ratio = |name: &str, ratio: f64, of: &str| Figure {
        name: name.into(),
        value: format!("{ratio:.3}"),
        meaning: format!("{of} as a multiple of the least that is possible"),
    };
    figures.push(ratio("active_nodes_ratio", row.active_nodes_ratio, "Active machines"));
    figures.push(ratio("kw_ratio", row.kw_ratio, "Power"));
    figures
}

/// The names of the measures, in the order in which they are defined.
fn names() -> Vec<String> {
    // A map would sort them: the order is that of the text.
    let text = serde_json::to_string(&Measures::default()).unwrap_or_default();
    let fields = text.trim_matches(['{', '}']).split(',');
    fields.filter_map(|field| Some(field.split(':').next()?.trim_matches('"').to_owned())).collect()
}

fn number(value: &serde_json::Value) -> String {
    match (value.as_u64(), value.as_f64()) {
        (Some(whole), _) => whole.to_string(),
        (None, Some(number)) => short(number),
        (None, None) => "-".into(),
    }
}

/// A number with as many decimals as matter.
pub fn short(number: f64) -> String {
    match number.abs() {
        size if size >= 1000.0 => format!("{number:.0}"),
        size if size >= 100.0 => format!("{number:.1}"),
        size if size >= 1.0 || size == 0.0 => format!("{number:.2}"),
        _ => format!("{number:.4}"),
    }
}

/// Writes a report into a folder.
pub fn write_report(folder: &Path, html: &str) -> Result<PathBuf> {
    std::fs::create_dir_all(folder).with_context(|| format!("{}: cannot be made", folder.display()))?;
    let path = folder.join("index.html");
    std::fs::write(&path, html).with_context(|| format!("{}: cannot be written", path.display()))?;
    Ok(path)
}
