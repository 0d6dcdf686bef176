//! Figures, their medians, and the page and file they are written to.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;

/// What one run measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Figures {
    /// Decisions a second, from their summed time.
    pub decisions_per_s: f64,
    /// The median decision.
    pub p50_ms: f64,
    /// All but one in a hundred are faster.
    pub p99_ms: f64,
    /// Bytes allocated for a decision.
    pub bytes_per_decision: f64,
    /// Bytes kept for a node.
    pub bytes_per_node: f64,
    /// Bytes kept for a bound pod.
    pub bytes_per_pod: f64,
}

impl Figures {
    /// From the times of decisions in ms, the bytes they allocated, `(bytes of nodes, remembered bytes, nodes)` and
    /// `(bytes of pods, pods)`. What is remembered from decision to decision is charged to the nodes.
    pub fn new(times: &mut [f64], allocated: u64, nodes: (u64, u64, u64), pods: (u64, u64)) -> Self {
        times.sort_by(f64::total_cmp);
        let (count, sum) = (times.len().max(1), times.iter().sum::<f64>().max(f64::MIN_POSITIVE));
        let at = |share: usize| times.get((times.len() * share / 100).min(times.len().saturating_sub(1))).copied();
        let each = |bytes: u64, count: u64| bytes as f64 / count.max(1) as f64;
        Self {
            decisions_per_s: count as f64 / sum * 1e3,
            p50_ms: at(50).unwrap_or_default(),
            p99_ms: at(99).unwrap_or_default(),
            bytes_per_decision: each(allocated, count as u64),
            bytes_per_node: each(nodes.0 + nodes.1, nodes.2),
            bytes_per_pod: each(pods.0, pods.1),
        }
    }
}

/// The median of some values; 0 if there is none.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// The figures of one scheduler for one shape and size.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// What kind of pods.
    pub shape: String,
    /// How many nodes.
    pub nodes: usize,
    /// `stock-sampled`, `stock-all` or `plimsoll`.
    pub scheduler: String,
    /// What was measured: the median of the rounds.
    #[serde(flatten)]
    pub figures: Figures,
    /// The fastest and the slowest round's median decision.
    pub p50_ms_spread: (f64, f64),
}

impl Row {
    /// From a line that a run printed.
    pub fn parse(line: &str, shape: &str, nodes: usize, scheduler: &str) -> Result<Self> {
        let figures: Figures = serde_json::from_str(line.trim()).with_context(|| format!("output {line:?}"))?;
        let spread = (figures.p50_ms, figures.p50_ms);
        Ok(Self { shape: shape.into(), nodes, scheduler: scheduler.into(), figures, p50_ms_spread: spread })
    }

    /// The median of every figure over some rounds.
    pub fn median(rounds: &[Self]) -> Self {
        let median = |figure: fn(&Figures) -> f64| median(rounds.iter().map(|round| figure(&round.figures)));
        let p50 = rounds.iter().map(|round| round.figures.p50_ms);
        Self {
            figures: Figures {
                decisions_per_s: median(|f| f.decisions_per_s),
                p50_ms: median(|f| f.p50_ms),
                p99_ms: median(|f| f.p99_ms),
                bytes_per_decision: median(|f| f.bytes_per_decision),
                bytes_per_node: median(|f| f.bytes_per_node),
                bytes_per_pod: median(|f| f.bytes_per_pod),
            },
            p50_ms_spread: (p50.clone().fold(f64::INFINITY, f64::min), p50.fold(0.0, f64::max)),
            ..rounds[0].clone()
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { decisions_per_s, p50_ms, p99_ms, .. } = self.figures;
        write!(
            f,
            "{:>24} {:>6} {:>14} {decisions_per_s:>9.0}/s p50 {p50_ms:.4} ms p99 {p99_ms:.4} ms",
            self.shape, self.nodes, self.scheduler
        )
    }
}

type Key = (usize, String);

/// Writes `target/bench/core.json` and `docs/benchmarks.md`.
pub fn write(rows: &[Row]) -> Result<()> {
    std::fs::create_dir_all("target/bench")?;
    std::fs::write("target/bench/core.json", serde_json::to_string_pretty(rows)? + "\n")?;
    std::fs::write("docs/benchmarks.md", page(rows)?).context("docs/benchmarks.md; run from the repository root")
}

fn page(rows: &[Row]) -> Result<String> {
    let mut by_key: BTreeMap<Key, BTreeMap<&str, &Row>> = BTreeMap::new();
    let mut order: Vec<Key> = Vec::new();
    for row in rows {
        let key = (row.nodes, row.shape.clone());
        if !order.contains(&key) {
            order.push(key.clone());
        }
        by_key.entry(key).or_default().insert(&row.scheduler, row);
    }
    let mut page = String::from(INTRODUCTION);
    page.push_str("\n## Time of a decision\n\n");
    page.push_str("| nodes | pods | stock, sampling | stock, all nodes | Plimsoll, all nodes | p99 | against sampling | against all |\n");
    page.push_str("|---|---|---|---|---|---|---|---|\n");
    for key in &order {
        let row = |name| by_key[key].get(name).map(|row| &row.figures);
        if let (Some(sampled), Some(all), Some(ours)) = (row("stock-sampled"), row("stock-all"), row("plimsoll")) {
            writeln!(
                page,
                "| {} | {} | {:.2} ms | {:.2} ms | {:.4} ms | {:.4} ms | {:.0} x | {:.0} x |",
                key.0,
                key.1,
                sampled.p50_ms,
                all.p50_ms,
                ours.p50_ms,
                ours.p99_ms,
                sampled.p50_ms / ours.p50_ms,
                all.p50_ms / ours.p50_ms
            )?;
        }
    }
    page.push_str("\n## Throughput, memory and spread\n\n");
    page.push_str("| nodes | pods | scheduler | decisions/s | p50 of the rounds | allocated a decision | kept a node | kept a bound pod |\n");
    page.push_str("|---|---|---|---|---|---|---|---|\n");
    for row in rows {
        let (f, (low, high)) = (&row.figures, row.p50_ms_spread);
        writeln!(
            page,
            "| {} | {} | {} | {:.0} | {low:.4} - {high:.4} ms | {:.1} KiB | {:.2} KiB | {:.2} KiB |",
            row.nodes,
            row.shape,
            row.scheduler,
            f.decisions_per_s,
            f.bytes_per_decision / 1024.0,
            f.bytes_per_node / 1024.0,
            f.bytes_per_pod / 1024.0
        )?;
    }
    page.push_str("\n## Growth of our decision with the cluster\n\n| pods | from | to | nodes grow | time grows |\n|---|---|---|---|---|\n");
    let ours: BTreeMap<Key, f64> = rows
        .iter()
        .filter(|row| row.scheduler == "plimsoll")
        .map(|row| ((row.nodes, row.shape.clone()), row.figures.p50_ms))
        .collect();
    for ((nodes, shape), time) in &ours {
        let larger = ours.iter().find(|((other, s), _)| s == shape && other > nodes);
        if let Some(((larger, _), more)) = larger {
            let grow = *larger as f64 / *nodes as f64;
            writeln!(page, "| {shape} | {nodes} | {larger} | {grow:.0} x | {:.1} x |", more / time)?;
        }
    }
    Ok(page)
}

const INTRODUCTION: &str = "# Benchmarks of the engine

Written by `make bench-core`: the same clusters and pods through the stock scheduler's own framework and snapshot code (Kubernetes
v1.36.3, as a Go library, `conformance/cmd/stock-bench`) and through Plimsoll, one core each, in one run on one machine, the
schedulers in turn, each in a process of its own. Figures are medians of five rounds. \"Sampling\" is the stock scheduler's
default: it looks at 5 to 50 % of the nodes. Plimsoll looks at every node. For `preemption` a decision includes the search for the
pods to remove; for both schedulers what is written to an API server is not part of it. What Plimsoll remembers from decision to decision
is counted as kept for nodes.
";
