//! `plimsoll compare`

use crate::Verdict;
use crate::evaluation::policy_of;
use crate::figures::{self, Format, short};
use crate::output::{DIM, HEADING, Output, count, table};
use crate::scenario_args::ScenarioArgs;
use crate::workload_args;
use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use plimsoll_sim::compare::{Comparison, Plan, Store, compare};
use plimsoll_sim::measures::Row;
use plimsoll_sim::report::statistics::paired;
use plimsoll_sim::report::{Report, html};
use plimsoll_sim::workload::select::Window;
use std::io::Write;
use std::path::PathBuf;

/// Run many policies on the same pods, and say how they differ
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    scenario: ScenarioArgs,
    /// The policies and models' folders, the first being what the others are compared with; the scenario's if not given
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    policies: Vec<String>,
    /// How many seeds, counted from the scenario's first: each draws its own sample and lifetimes
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
    /// Windows of the workload, each a case of its own, as in `0d..1d,1d..2d`
    #[arg(long, value_name = "WINDOWS", value_delimiter = ',')]
    windows: Vec<Window>,
    /// How many runs at once; as many as there are cores if not given
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// How results are printed
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Write a report with plots to this folder, and keep runs there: a comparison that is interrupted goes on from them
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Show no progress
    #[arg(long)]
    quiet: bool,
}

/// Runs the comparison.
pub fn run(args: Args, out: &mut Output) -> Result<Verdict> {
    let scenario = args.scenario.scenario()?;
    let policies = if args.policies.is_empty() { scenario.run.policies.clone() } else { args.policies.clone() };
    let seeds = match (args.seeds, scenario.run.seeds.first()) {
        (Some(number), first) => (0..number).map(|seed| first.copied().unwrap_or(1) + seed).collect(),
        (None, Some(_)) => scenario.run.seeds.clone(),
        (None, None) => vec![1],
    };
    let plan = Plan::new(policies, &args.windows, &seeds);
    let store = match &args.report {
        None => Store::none(),
        Some(folder) => {
            std::fs::create_dir_all(folder).with_context(|| format!("{}: cannot be made", folder.display()))?;
            let path = folder.join("runs.jsonl");
            Store::open(&path).with_context(|| format!("{}: cannot be used", path.display()))?
        }
    };
    let threads = args.jobs.or_else(|| std::thread::available_parallelism().ok().map(usize::from)).unwrap_or(1);
    let bar = if args.quiet { ProgressBar::hidden() } else { progress(plan.len() as u64) };
    let done = |_: usize, row: &Row| {
        bar.set_message(format!("{} {} seed {}", row.policy, row.window, row.seed));
        bar.inc(1);
    };
    let comparison = compare(&scenario, &plan, &policy_of, threads, &store, &done)?;
    bar.finish_and_clear();
    workload_args::tell(&comparison.skipped, out);
    if let Some(folder) = &args.report {
        let report = Report {
            title: &scenario.name,
            runs: &comparison.runs,
            baseline: plan.policies.first().map(String::as_str),
            bounds: &comparison.bounds,
        };
        let path = figures::write_report(folder, &html(&report))?;
        out.note(&format!("report written to {}", path.display()));
    }
    match args.format {
        Format::Json => out.json(&figures::Results::new(comparison.runs.iter().map(|run| &run.row)))?,
        Format::Table => print(&plan, &comparison, out)?,
    }
    Ok(Verdict::Good)
}

fn progress(runs: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} runs, {eta} left  {msg}");
    // The template is ours, and right; without it the bar is plain.
    ProgressBar::new(runs).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// A column of the table: its name, its figure, and whether it is always shown.
type Column = (&'static str, fn(&Row) -> Option<f64>, bool);

const COLUMNS: &[Column] = &[
    ("ACTIVE", |row| Some(row.measures.active_nodes), true),
    ("x BOUND", |row| Some(row.active_nodes_ratio), true),
    ("kW", |row| Some(row.measures.mean_kw), true),
    ("x BOUND", |row| Some(row.kw_ratio), true),
    ("CO2 KG", |row| row.measures.co2_kg, false),
    ("COST", |row| row.measures.cost, false),
    ("AWAY", |row| row.measures.away_share, false),
    ("CPU USED", |row| Some(row.measures.cpu_utilization), true),
    ("SPREAD", |row| Some(row.measures.cpu_spread), true),
    ("GPU FRAG", |row| row.measures.gpu_fragmentation, false),
    ("LATENCY", |row| row.measures.latency_mean_ms, false),
    ("WAIT P95", |row| Some(row.measures.wait_p95_s), true),
    ("WAITING", |row| Some(row.measures.waiting as f64), true),
    ("REJECTED", |row| Some(row.measures.rejected as f64), false),
];

/// Prints the comparison.
pub fn print(plan: &Plan, comparison: &Comparison, out: &mut Output) -> Result<()> {
    let rows: Vec<&Row> = comparison.runs.iter().map(|run| &run.row).collect();
    let of = |policy: &str| rows.iter().copied().filter(move |row| row.policy == policy).collect::<Vec<_>>();
    let columns: Vec<&Column> = COLUMNS
        .iter()
        .filter(|(_, figure, always)| *always || rows.iter().any(|row| figure(row).is_some_and(|value| value != 0.0)))
        .collect();
    let baseline = plan.policies.first().map(String::as_str).unwrap_or_default();
    let header = ["POLICY"].into_iter().chain(columns.iter().map(|(name, ..)| *name)).chain(["kW AGAINST FIRST"]);
    let right: Vec<_> = (1..columns.len() + 2).collect();
    let mut list = table(header, &right);
    for policy in &plan.policies {
        let own = of(policy);
        let mut cells = vec![policy.clone()];
        for (_, figure, _) in &columns {
            let values: Vec<f64> = own.iter().filter_map(|row| figure(row)).collect();
            cells.push(if values.is_empty() { "-".into() } else { mean_and_spread(&values) });
        }
        let pairs: Vec<_> =
            of(baseline).iter().zip(&own).map(|(a, b)| (a.measures.mean_kw, b.measures.mean_kw)).collect();
        cells.push(if policy == baseline { "-".into() } else { difference(&pairs) });
        list.add_row(cells);
    }
    let cases = plan.cases.len();
    writeln!(
        out,
        "{HEADING}{} on {}{HEADING:#}",
        count(plan.policies.len(), "policy").replace("policys", "policies"),
        count(cases, "case")
    )?;
    out.table("", &list)?;
    let resumed = match comparison.resumed {
        0 => String::new(),
        runs => format!("; {} known from before", count(runs, "run")),
    };
    writeln!(
        out,
        "{DIM}means over cases, ± half the range; the last column is the paired difference with its 95 % interval{resumed}{DIM:#}"
    )?;
    Ok(())
}

fn mean_and_spread(values: &[f64]) -> String {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    if values.len() < 2 || most == least {
        short(mean)
    } else {
        format!("{} ±{}", short(mean), short((most - least) / 2.0))
    }
}

fn difference(pairs: &[(f64, f64)]) -> String {
    let baseline = pairs.iter().map(|(first, _)| first).sum::<f64>() / pairs.len().max(1) as f64;
    let percent = |value: f64| if baseline > 0.0 { value / baseline * 100.0 } else { 0.0 };
    let Some(paired) = paired(pairs, 1) else { return "-".into() };
    let mean = format!("{:+.1} %", percent(paired.mean));
    match paired.interval {
        Some((low, high)) => format!("{mean} [{:+.1}, {:+.1}]", percent(low), percent(high)),
        None => mean,
    }
}
