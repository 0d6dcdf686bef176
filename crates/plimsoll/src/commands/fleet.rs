//! `plimsoll fleet`

use crate::Verdict;
use crate::evaluation::policy_of;
use crate::figures::short;
use crate::output::{BAD, DIM, GOOD, HEADING, Output, count, table};
use crate::scenario_args::trace;
use crate::workload_args::WorkloadArgs;
use anyhow::{Result, bail};
use plimsoll_sim::scenario::{RunSpec, Scenario};
use plimsoll_sim::sizing::{Answer, Figures, Machines, Objective, PoolRow, Question, Row, size};
use plimsoll_sim::workload::select::parse_time;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

/// The version of the JSON answer; it changes when a field changes its meaning or goes.
const VERSION: &str = "plimsoll.dev/fleet/v1";

/// Find out which machines, and how many, serve a workload at the least cost, energy or carbon
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    workload: WorkloadArgs,
    /// The machines that can be had: a TOML file, as examples/fleet/machines.toml
    #[arg(long, value_name = "FILE")]
    catalogue: PathBuf,
    /// What is to be least
    #[arg(long, value_enum, default_value_t)]
    objective: Least,
    /// The policy that will place the pods, or the folder of a model
    #[arg(long, value_name = "NAME", default_value = "default")]
    policy: String,
    /// The share of pods that may wait longer than --wait
    #[arg(long, value_name = "SHARE", default_value_t = 0.01)]
    risk: f64,
    /// How long a pod may wait, in seconds or as in `5m`
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "60")]
    wait: Duration,
    /// Decides what is random: the sample, lifetimes within their range, and ties
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How many fleets to tell beside the best
    #[arg(long, value_name = "K", default_value_t = 4)]
    top: usize,
    /// Choose fleets without this share of the time, at its end, and check them on it
    #[arg(long, value_name = "SHARE")]
    holdout: Option<f64>,
    /// Look for pools that grow and shrink, too
    #[arg(long)]
    autoscale: bool,
    /// After how many simulations the search ends, and as many again for pools that grow and shrink
    #[arg(long, value_name = "N", default_value_t = 300)]
    runs: usize,
    /// The share of the time, from the start, that is not measured
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    warmup: f64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What is to be least.
#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
enum Least {
    /// Money for machines, whether they are used or not
    #[default]
    Cost,
    /// Energy
    Energy,
    /// Carbon dioxide, of energy and of making machines
    Carbon,
}

/// The answer as JSON.
#[derive(Serialize)]
struct Told<'a> {
    version: &'static str,
    seed: u64,
    #[serde(flatten)]
    answer: &'a Answer,
}

/// Finds and tells the fleets.
pub fn run(args: Args, out: &mut Output) -> Result<Verdict> {
    let machines = Machines::read(&args.catalogue)?;
    let run = RunSpec { warmup: args.warmup, seeds: vec![args.seed], ..RunSpec::default() };
    let mut scenario = Scenario { name: "fleet".into(), run, ..Scenario::default() };
    args.workload.apply(&mut scenario)?;
    if scenario.workload.file.is_none() && scenario.workload.generate.is_none() {
        bail!("name a workload: --trace FILE or --generate KIND");
    }
    let scenario = machines.scenario(scenario);
    let trace = trace(&scenario, &scenario.fleet()?, out)?;
    let prepared = scenario.prepare(&trace, args.seed)?;
    let answer = size(&args.question(), &machines, &prepared, &policy_of)?;
    if args.json {
        out.json(&Told { version: VERSION, seed: args.seed, answer: &answer })?;
    } else {
        print(&answer, out)?;
    }
    let keeps = |row: &Row| row.held_out.as_ref().is_none_or(|held_out| held_out.keeps_risk);
    Ok(if answer.fleets.first().is_none_or(keeps) { Verdict::Good } else { Verdict::Bad })
}

impl Args {
    fn question(&self) -> Question {
        Question {
            objective: match self.objective {
                Least::Cost => Objective::Cost,
                Least::Energy => Objective::Energy,
                Least::Carbon => Objective::Carbon,
            },
            policy: self.policy.clone(),
            risk: self.risk,
            wait: self.wait,
            runners_up: self.top,
            most_runs: self.runs,
            holdout: self.holdout,
            autoscale: self.autoscale,
        }
    }
}

fn print(answer: &Answer, out: &mut Output) -> Result<()> {
    let (noun, unit) = match answer.objective {
        Objective::Cost => ("cost", ""),
        Objective::Energy => ("energy", " kWh"),
        Objective::Carbon => ("carbon", " kg"),
    };
    writeln!(
        out,
        "{HEADING}Least {noun} for {} in {} h with policy {}{HEADING:#}; at most {} % may wait longer than {} s",
        count(answer.pods, "pod"),
        short(answer.hours),
        answer.policy,
        short(answer.risk * 100.0),
        answer.wait_s,
    )?;
    fleets(&answer.fleets, out)?;
    let bound = |what: &str, bound: f64| format!("{what} cannot come below {}{unit}, with any policy", short(bound));
    writeln!(out, "{DIM}{}{DIM:#}", bound("fleets that stay as they are", answer.bound))?;
    if let Some(elastic_bound) = answer.elastic_bound {
        writeln!(out)?;
        writeln!(out, "{HEADING}Pools that grow and shrink{HEADING:#}")?;
        match answer.elastic.first() {
            None => writeln!(out, "none was found that keeps the risk")?,
            Some(best) => {
                fleets(&answer.elastic, out)?;
                writeln!(out, "{}", against(best, answer))?;
            }
        }
        writeln!(out, "{DIM}{}{DIM:#}", bound("fleets whose machines come and go at will", elastic_bound))?;
    }
    held_out(answer, out)?;
    let looks = if answer.looks > 0 { format!(", {} of a part", answer.looks) } else { String::new() };
    writeln!(
        out,
        "{DIM}every fleet shown was simulated from end to end; {}{looks}{DIM:#}",
        count(answer.runs, "simulation")
    )?;
    if answer.cut_short {
        out.note("the search ended because it had made as many simulations as it may; --runs allows more");
    }
    Ok(())
}

/// How the best pools that grow and shrink do against the best fleet that does not.
fn against(best: &Row, answer: &Answer) -> String {
    let value = |row: &Row| row.figures.value(answer.objective);
    let Some(fixed) = answer.fleets.first().filter(|fixed| value(fixed) > 0.0) else { return String::new() };
    let percent = (value(best) / value(fixed) - 1.0) * 100.0;
    format!("the best is {percent:+.1} % against the best fleet that stays as it is")
}

fn fleets(rows: &[Row], out: &mut Output) -> Result<()> {
    let header =
        ["FLEET", "MACHINES", "COST", "kWh", "CO2 KG", "WAIT P50", "WAIT P99", "TOO LONG", "NEVER PLACED", "x BOUND"];
    let mut list = table(header, &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
    for row in rows {
        let mut cells = vec![pools(&row.pools)];
        cells.extend(cells_of(&row.figures));
        cells.push(format!("{:.3}", row.ratio));
        list.add_row(cells);
    }
    out.table("", &list)?;
    Ok(())
}

fn cells_of(figures: &Figures) -> [String; 8] {
    let or_dash = |figure: Option<f64>| figure.map_or_else(|| "-".to_owned(), short);
    [
        short(figures.machines),
        or_dash(figures.cost),
        short(figures.kwh),
        or_dash(figures.co2_kg),
        short(figures.wait_p50_s),
        short(figures.wait_p99_s),
        format!("{:.3} %", figures.late_share * 100.0),
        figures.never_placed.to_string(),
    ]
}

/// `12 r740 + 3..8 sr635, empty ones kept 10m`
fn pools(pools: &[PoolRow]) -> String {
    let size = |pool: &PoolRow| match pool.idle_after_s {
        None => format!("{} {}", pool.max, pool.name),
        Some(_) => format!("{}..{} {}", pool.min, pool.max, pool.name),
    };
    let sizes: Vec<_> = pools.iter().map(size).collect();
    let kept = pools.iter().find_map(|pool| pool.idle_after_s);
    let kept = kept.map_or_else(String::new, |seconds| match seconds {
        0..3600 => format!(", empty ones kept {}m", seconds / 60),
        _ => format!(", empty ones kept {}h", seconds / 3600),
    });
    format!("{}{kept}", sizes.join(" + "))
}

/// How fleets do on the part that they were not chosen by.
fn held_out(answer: &Answer, out: &mut Output) -> Result<()> {
    let rows: Vec<_> = answer.fleets.iter().chain(&answer.elastic).collect();
    let Some(first) = rows.iter().find_map(|row| row.held_out.as_ref()) else { return Ok(()) };
    writeln!(out)?;
    writeln!(
        out,
        "{HEADING}On the {} h held out{HEADING:#}, with {} that no fleet was chosen by",
        short(first.figures.hours),
        count(first.figures.pods, "pod")
    )?;
    let header =
        ["FLEET", "MACHINES", "COST", "kWh", "CO2 KG", "WAIT P50", "WAIT P99", "TOO LONG", "NEVER PLACED", "RISK"];
    let mut list = table(header, &[1, 2, 3, 4, 5, 6, 7, 8]);
    for (row, held_out) in rows.iter().filter_map(|row| Some((row, row.held_out.as_ref()?))) {
        let mut cells = vec![pools(&row.pools)];
        cells.extend(cells_of(&held_out.figures));
        let style = if held_out.keeps_risk { GOOD } else { BAD };
        let word = if held_out.keeps_risk { "kept" } else { "not kept" };
        cells.push(format!("{style}{word}{style:#}"));
        list.add_row(cells);
    }
    out.table("", &list)?;
    Ok(())
}
