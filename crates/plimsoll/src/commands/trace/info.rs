//! `plimsoll trace info`

use super::InputArgs;
use crate::Verdict;
use crate::commands::place::Format;
use crate::output::{DIM, HEADING, Output, count, table};
use crate::workload_args::tell;
use anyhow::Result;
use plimsoll_sim::workload::Skipped;
use plimsoll_sim::workload::info::{Demand, ShapeCount, Summary};
use serde::Serialize;
use std::io::Write;

/// Sum a workload up: pods, owners, demand, lifetimes, shapes
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    input: InputArgs,
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Serialize)]
struct Info {
    #[serde(flatten)]
    summary: Summary,
    skipped: Skipped,
}

/// Reads, selects and sums up.
pub fn run(args: Args, out: &mut Output) -> Result<Verdict> {
    let (workload, skipped) = args.input.load()?;
    let summary = Summary::of(&workload);
    match args.format {
        Format::Json => out.json(&Info { summary, skipped })?,
        Format::Table => {
            tell(&skipped, out);
            print(&summary, out)?;
        }
    }
    Ok(Verdict::Good)
}

fn print(summary: &Summary, out: &mut Output) -> Result<()> {
    writeln!(
        out,
        "{HEADING}{}{HEADING:#}: {} of {} in {}, over {}",
        summary.name,
        count(summary.pods, "pod"),
        count(summary.owners, "owner"),
        count(summary.templates, "template"),
        time(summary.span_s)
    )?;
    if let Some(rate) = summary.arrivals_per_hour {
        writeln!(out, "  {rate:.1} arrivals an hour, at most {} of one owner", count(summary.largest_owner, "pod"))?;
    }
    if summary.calls > 0 {
        writeln!(out, "  {} between services", count(summary.calls, "call"))?;
    }
    writeln!(out)?;
    let mut demand = table(["DEMAND", "MEAN", "PEAK"], &[1, 2]);
    let rows = [
        ("pods", summary.running),
        ("CPU, cores", summary.cpu_cores),
        ("memory, GiB", summary.memory_gib),
        ("GPUs", summary.gpus),
    ];
    demand.add_rows(
        rows.map(|(what, Demand { mean, peak })| [what.to_owned(), format!("{mean:.1}"), format!("{peak:.1}")]),
    );
    out.table("  ", &demand)?;
    writeln!(out)?;
    print_lifetimes(summary, out)?;
    writeln!(out)?;
    let mut shapes = table(["SHAPE", "PODS", "SHARE"], &[1, 2]);
    shapes.add_rows(summary.shapes.iter().map(|shape| {
        let share = shape.pods as f64 / summary.pods.max(1) as f64 * 100.0;
        [name(shape), shape.pods.to_string(), format!("{share:.1} %")]
    }));
    out.table("  ", &shapes)?;
    Ok(())
}

fn print_lifetimes(summary: &Summary, out: &mut Output) -> Result<()> {
    let lifetimes = &summary.lifetimes;
    if let (Some(mean), Some(quantiles)) = (lifetimes.mean_s, lifetimes.quantiles_s) {
        let (names, times): (Vec<_>, Vec<_>) = quantiles.named().into_iter().map(|(name, at)| (name, time(at))).unzip();
        let mut list = table(["LIFETIME", "mean"].into_iter().chain(names), &[1, 2, 3, 4, 5, 6, 7, 8]);
        list.add_row([String::new(), time(mean)].into_iter().chain(times));
        out.table("  ", &list)?;
    }
    if lifetimes.ranges > 0 {
        writeln!(out, "  {DIM}{} known as a range: its middle counts{DIM:#}", count(lifetimes.ranges, "lifetime"))?;
    }
    if lifetimes.endless > 0 {
        writeln!(out, "  {} run to the end", count(lifetimes.endless, "pod"))?;
    }
    Ok(())
}

fn name(shape: &ShapeCount) -> String {
    let cores = shape.cpu_milli as f64 / 1000.0;
    let gib = shape.memory_bytes as f64 / (1u64 << 30) as f64;
    let mut name = format!("{cores} CPU, {gib:.2} GiB");
    if shape.gpu_count > 0 {
        name = format!("{name}, {} GPU", f64::from(shape.gpu_count) * f64::from(shape.gpu_milli) / 1000.0);
    }
    name
}

/// A time in the unit that suits it.
fn time(seconds: f64) -> String {
    match seconds {
        ..120.0 => format!("{seconds:.0} s"),
        ..7200.0 => format!("{:.1} min", seconds / 60.0),
        ..172_800.0 => format!("{:.1} h", seconds / 3600.0),
        _ => format!("{:.1} d", seconds / 86_400.0),
    }
}
