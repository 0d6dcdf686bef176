//! What a run came to.

use crate::figures::{Figures, LatencyMs, Tally};
use crate::live::{Live, Summary};
use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::{Deserialize, Serialize};
use std::time::{Duration, SystemTime};

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ended {
    /// As planned.
    Finished,
    /// Because somebody stopped it; the figures are those of the time until then.
    Stopped,
}

/// What a run came to.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The name of the scenario.
    pub scenario: String,
    /// The service that was loaded.
    pub target: String,
    /// When it began, in seconds since 1970.
    pub began: f64,
    /// How it ended.
    pub ended: Ended,
    /// All requests, and those of each name.
    #[serde(flatten)]
    pub summary: Summary,
    /// Each second of the run.
    pub series: Vec<Second>,
}

/// The requests that ended in one second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Second {
    /// Seconds since the beginning.
    pub second: u64,
    /// Requests that were answered or failed.
    pub requests: u64,
    /// Those that failed.
    pub errors: u64,
    /// How long expected answers took; nothing where none came.
    pub latency_ms: Option<LatencyMs>,
}

impl Second {
    pub(crate) fn of((second, tally): &(u64, Tally)) -> Self {
        let Figures { requests, errors, latency_ms, .. } = tally.figures(Duration::from_secs(1));
        Self { second: *second, requests, errors, latency_ms }
    }

    pub(crate) fn empty(second: u64) -> Self {
        Self { second, requests: 0, errors: 0, latency_ms: None }
    }
}

impl Report {
    pub(crate) fn of(scenario: &str, target: &str, ended: Ended, live: &Live) -> Self {
        let began = live.begun().and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
        Self {
            scenario: scenario.to_owned(),
            target: target.trim_end_matches('/').to_owned(),
            began: began.map_or(0.0, |since| since.as_secs_f64()),
            ended,
            summary: live.summary(),
            series: live.series(),
        }
    }

    /// The figures of each name and of all, a line each; times in milliseconds.
    pub fn table(&self) -> Table {
        let header = [
            "request",
            "requests",
            "errors",
            "per second",
            "mean ms",
            "p50",
            "p90",
            "p95",
            "p99",
            "max",
            "errors by kind",
        ];
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(header.map(Cell::new));
        let named = self.summary.requests.iter().map(|named| (named.name.as_str(), &named.figures));
        for (name, figures) in named.chain([("total", &self.summary.total)]) {
            table.add_row(row(name, figures));
        }
        let last = header.len() - 1;
        for (at, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, 2));
            if at > 0 && at < last {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table
    }
}

fn row(name: &str, figures: &Figures) -> Vec<Cell> {
    let times =
        figures.latency_ms.map(|ms| [ms.mean, ms.p50, ms.p90, ms.p95, ms.p99, ms.max].map(|ms| format!("{ms:.1}")));
    let times = times.unwrap_or_else(|| std::array::from_fn(|_| "-".to_owned()));
    let kinds: Vec<_> = figures.errors_by_kind.iter().map(|(kind, count)| format!("{kind}: {count}")).collect();
    let counts = [
        name.to_owned(),
        figures.requests.to_string(),
        figures.errors.to_string(),
        format!("{:.1}", figures.per_second),
    ];
    counts.into_iter().chain(times).chain([kinds.join(", ")]).map(Cell::new).collect()
}
