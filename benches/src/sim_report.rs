//! What simulators were measured to do, and the page and file it is written to.

use crate::report::median;
use crate::simulator::Figures;
use anyhow::{Context, Result};
use serde::Serialize;
use std::fmt;
use std::fmt::Write as _;

/// The workload of the synthetic case with ten times its pods.
pub const MORE_PODS: &str = "synthetic-longer";
/// The workload of the synthetic case on more nodes than it fills.
pub const MORE_NODES: &str = "synthetic-sparse";
const MIB: f64 = (1 << 20) as f64;

/// The figures of one simulator for some pods on some nodes: medians of the rounds.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Where the pods come from.
    pub workload: String,
    /// How many nodes.
    pub nodes: usize,
    /// How many pods: all, or the first.
    pub pods: usize,
    /// The policy.
    pub policy: String,
    /// `plimsoll`, `stock` or `numpy`.
    pub simulator: String,
    /// Placements a second.
    pub placements_per_s: f64,
    /// The slowest and the fastest round.
    pub placements_per_s_spread: (f64, f64),
    /// Seconds of the loop.
    pub seconds: f64,
    /// Peak of resident memory.
    pub rss_bytes: u64,
    /// Pods that got a node.
    pub placements: u64,
    /// Pods without a node at the end.
    pub waiting: u64,
    /// Nodes with a pod, on average over time: simulators that do the same agree about it but for ties.
    pub active_nodes_mean: f64,
    /// What the whole workload asks for at most at a time, as a share of the nodes.
    pub peak_demand: f64,
}

impl Row {
    /// From the rounds of a run.
    pub fn median(
        workload: &str,
        nodes: usize,
        pods: usize,
        policy: &str,
        simulator: &str,
        peak_demand: f64,
        rounds: &[Figures],
    ) -> Self {
        let of = |figure: fn(&Figures) -> f64| median(rounds.iter().map(figure));
        let speeds = rounds.iter().map(|round| round.placements_per_s);
        Self {
            workload: workload.into(),
            nodes,
            pods,
            policy: policy.into(),
            simulator: simulator.into(),
            placements_per_s: of(|round| round.placements_per_s),
            placements_per_s_spread: (speeds.clone().fold(f64::INFINITY, f64::min), speeds.fold(0.0, f64::max)),
            seconds: of(|round| round.seconds),
            rss_bytes: of(|round| round.rss_bytes as f64) as u64,
            placements: of(|round| round.placements as f64) as u64,
            waiting: of(|round| round.waiting as f64) as u64,
            active_nodes_mean: of(|round| round.active_nodes_mean),
            peak_demand,
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workload, nodes, pods, policy, simulator, placements_per_s, seconds, active_nodes_mean, .. } = self;
        let memory = self.rss_bytes as f64 / MIB;
        write!(
            f,
            "{workload:>16} {nodes:>6} nodes {pods:>7} pods {policy:>8} {simulator:>8} {placements_per_s:>9.1}/s in \
             {seconds:>7.3} s, {memory:>6.0} MiB, {active_nodes_mean:.1} active, {} waiting",
            self.waiting
        )
    }
}

/// Writes `target/bench/sim.json` and `docs/benchmarks-sim.md`.
pub fn write(rows: &[Row]) -> Result<()> {
    // Read now, at the end: it says whether the machine had other work to do meanwhile.
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let machine = Machine {
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        load: load.split(' ').nth(2).and_then(|load| load.parse().ok()).unwrap_or(0.0),
    };
    std::fs::create_dir_all("target/bench")?;
    std::fs::write("target/bench/sim.json", serde_json::to_string_pretty(rows)? + "\n")?;
    std::fs::write("docs/benchmarks-sim.md", page(rows, &machine)?)
        .context("docs/benchmarks-sim.md; run from the repository root")
}

/// Where the figures come from.
struct Machine {
    cores: usize,
    /// The load of the last quarter of an hour; a run alone makes it 1.
    load: f64,
}

fn page(rows: &[Row], machine: &Machine) -> Result<String> {
    let mut page = String::from(INTRODUCTION);
    writeln!(
        page,
        "\nThis run: {} cores, with a load of {:.1} over the last quarter of an hour, of which the benchmark makes 1.",
        machine.cores, machine.load
    )?;
    whole(&mut page, rows)?;
    beside(&mut page, rows)?;
    growth(&mut page, rows)?;
    Ok(page)
}

/// Ours, on all pods: the longest run of each workload, nodes and policy.
fn ours(rows: &[Row]) -> impl Iterator<Item = &Row> {
    rows.iter().filter(move |row| {
        row.simulator == "plimsoll" && !rows.iter().any(|other| same(row, other) && other.pods > row.pods)
    })
}

fn same(a: &Row, b: &Row) -> bool {
    (&a.workload, a.nodes, &a.policy) == (&b.workload, b.nodes, &b.policy)
}

fn whole(page: &mut String, rows: &[Row]) -> Result<()> {
    page.push_str("\n## Whole runs\n\n");
    page.push_str("`full` is what the pods ask for at most at a time, as a share of the nodes' CPU or memory.\n\n");
    page.push_str("| workload | nodes | pods | full | policy | seconds | placements/s | of the rounds | resident |\n");
    page.push_str("|---|---|---|---|---|---|---|---|---|\n");
    for row in ours(rows) {
        let (low, high) = row.placements_per_s_spread;
        writeln!(
            page,
            "| {} | {} | {} | {:.0} % | {} | {:.2} | {:.0} | {low:.0} - {high:.0} | {:.0} MiB |",
            row.workload,
            row.nodes,
            row.pods,
            row.peak_demand * 100.0,
            row.policy,
            row.seconds,
            row.placements_per_s,
            row.rss_bytes as f64 / MIB
        )?;
    }
    Ok(())
}

fn beside(page: &mut String, rows: &[Row]) -> Result<()> {
    for (rival, title) in [("stock", "Beside the stock scheduler's framework"), ("numpy", "Beside numpy")] {
        write!(page, "\n## {title}\n\nThe same first pods, on nodes that are empty at the start.\n\n")?;
        writeln!(
            page,
            "| workload | nodes | first pods | policy | {rival}: placements/s | of the rounds | resident | active nodes \
             | Plimsoll: placements/s | of the rounds | resident | active nodes | ratio |"
        )?;
        page.push_str("|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
        for theirs in rows.iter().filter(|row| row.simulator == rival) {
            let ours =
                rows.iter().find(|row| row.simulator == "plimsoll" && same(row, theirs) && row.pods == theirs.pods);
            let ours = ours.with_context(|| format!("{theirs}: Plimsoll was not measured"))?;
            write!(page, "| {} | {} | {} | {} |", theirs.workload, theirs.nodes, theirs.pods, theirs.policy)?;
            for row in [theirs, ours] {
                let (low, high) = row.placements_per_s_spread;
                let (speed, memory) = (row.placements_per_s, row.rss_bytes as f64 / MIB);
                // Pods that all come at one time leave no time to average over.
                let active = Some(row.active_nodes_mean).filter(|_| ours.active_nodes_mean > 0.0);
                let active = active.map_or_else(|| "-".to_owned(), |active| format!("{active:.1}"));
                write!(page, " {speed:.1} | {low:.1} - {high:.1} | {memory:.0} MiB | {active} |")?;
            }
            writeln!(page, " {:.1} x |", ours.placements_per_s / theirs.placements_per_s)?;
        }
    }
    Ok(())
}

fn growth(page: &mut String, rows: &[Row]) -> Result<()> {
    page.push_str("\n## Growth\n\n| policy | from | to | grows | seconds | time grows | memory grows |\n|---|---|---|---|---|---|---|\n");
    let base = ours(rows).filter(|row| {
        row.workload == "synthetic" && ours(rows).any(|more| more.workload == MORE_PODS && more.nodes == row.nodes)
    });
    for base in base {
        let mut from = base;
        let more = ours(rows).filter(|row| row.policy == base.policy);
        for to in more.filter(|row| [MORE_PODS, MORE_NODES].contains(&row.workload.as_str())) {
            // Each step of nodes starts at the step before.
            let start = if to.workload == MORE_PODS { base } else { std::mem::replace(&mut from, to) };
            let (what, factor) = if to.workload == MORE_PODS {
                ("pods", to.pods as f64 / start.pods as f64)
            } else {
                ("nodes", to.nodes as f64 / start.nodes as f64)
            };
            writeln!(
                page,
                "| {} | {} nodes, {} pods | {} nodes, {} pods | {what} {factor:.0} x | {:.2} - {:.2} | {:.1} x | {:.1} x |",
                base.policy,
                start.nodes,
                start.pods,
                to.nodes,
                to.pods,
                start.seconds,
                to.seconds,
                to.seconds / start.seconds,
                to.rss_bytes as f64 / start.rss_bytes as f64
            )?;
        }
    }
    Ok(())
}

const INTRODUCTION: &str = "# Benchmarks of the simulator

Written by `make bench-sim`: the same arrivals, with the same lifetimes, through Plimsoll's simulator, through the stock
scheduler's own framework driven by an in-memory loop (Kubernetes v1.36.3, `conformance/cmd/stock-sim`) and through a numpy loop
(`benches/python/sim.py`), one core each, in one run on one machine, the simulators in turn, each run in a process of its own.
Figures are medians of three rounds, beside the slowest and the fastest. Time is that of the loop, from the first arrival to
the last, without reading the arrivals and adding the nodes; `resident` is the peak of the whole process. All three decide
over every node for every pod; nodes have 48 threads and 384 GiB and run any number of pods.

`azure` is the trace of 259,159 virtual machines, with its owners repeated or thinned out for more or fewer nodes; `synthetic` has
Poisson arrivals that live for an hour on average. `default` is the default profile; numpy knows its two scores of resources
alone. What the stock scheduler has for `best-fit` is the default profile with `MostAllocated`. The rivals are slow: they get as
many of the first pods as take some seconds, and are compared with Plimsoll on those. With few pods that is hard on Plimsoll,
which looks at all nodes once for each kind of pod and then remembers. The nodes in use show that the three do the same (`-` where
the first pods all come at one time). They may differ a little: ties are broken differently, the rivals average from the first
arrival on, and a pod without any lifetime is gone before the next pod of the same time with the rivals, but after all pods of that
time with Plimsoll. Plimsoll also meters power, waiting and utilisation meanwhile, and looks for preemption where a pod fits
nowhere; the rivals do neither.
";
