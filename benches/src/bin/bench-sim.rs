//! `make bench-sim`: the same arrivals through our simulator, through the stock scheduler's framework in a loop, and through a
//! numpy loop, on one core each, interleaved.
//!
//! Without arguments it runs everything and writes `docs/benchmarks-sim.md` and `target/bench/sim.json`; with names such as
//! `azure-1000` it measures those alone and writes nothing. With `run -nodes N -policy NAME -pods N -limit N` it is a simulator
//! as its rivals are: arrivals come on standard input, and a JSON line goes out. The driver starts itself that way, so that
//! resident memory is that of one run.

use anyhow::{Context, Result, bail};
use plimsoll_bench::arrivals;
use plimsoll_bench::process::output;
use plimsoll_bench::sim_report::{self, Row};
use plimsoll_bench::simulator::{self, CPU_MILLI, MEMORY, Task};
use plimsoll_sim::simulation;
use plimsoll_sim::workload::generate::{Generator, LifetimeSetting, Poisson, Shape};
use plimsoll_sim::workload::select::Selection;
use plimsoll_sim::workload::{ReadOptions, Workload, azure};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

const TRACE: &str = "../shared/traces/azure-v1-2017/azure_v1_dev.csv.gz";
const FOLDER: &str = "target/bench/arrivals";
const STOCK: &str = "bin/stock-sim";
const PYTHON: &str = "target/bench/venv/bin/python";
const NUMPY: &str = "benches/python/sim.py";
const POLICIES: [&str; 2] = ["default", "best-fit"];
/// Medians are over this many rounds.
const ROUNDS: usize = 3;
const SEED: u64 = 1;
/// Nodes, and by how much the trace is multiplied: as it is it asks for nine tenths of 1,000 nodes at its peak. To fill the
/// largest clusters too it would take tens of millions of pods.
const AZURE: [(usize, f64); 4] = [(100, 0.08), (1_000, 1.0), (10_000, 2.0), (100_000, 3.86)];
/// Nodes, and how many pods come.
const SYNTHETIC: [(usize, usize); 4] = [(100, 20_000), (1_000, 100_000), (10_000, 500_000), (100_000, 1_000_000)];
/// For the growth with nodes: the pods of the second synthetic case on these; with pods: ten times its pods on its nodes.
const MORE_NODES: [usize; 2] = [10_000, 100_000];

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-sim: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((first, rest)) if first == "run" => {
            let figures = simulator::simulate(&Task::parse(rest)?, &mut std::io::stdin().lock())?;
            println!("{}", serde_json::to_string(&figures)?);
            Ok(())
        }
        _ => compare(&arguments),
    }
}

/// Arrivals on nodes, and who takes part.
struct Case {
    name: String,
    workload: &'static str,
    nodes: usize,
    rivals: bool,
    make: Box<dyn Fn() -> Result<Workload>>,
}

fn cases() -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    if Path::new(TRACE).exists() {
        let (trace, _) = azure::read(Path::new(TRACE), ReadOptions::STRICT)?;
        for (nodes, scale) in AZURE {
            let trace = trace.clone();
            let make = move || {
                let scale = (scale != 1.0).then_some(scale);
                Ok(Selection { scale, ..Selection::default() }.apply(trace.clone(), SEED)?)
            };
            cases.push(Case::new("azure", nodes, true, make));
        }
    } else {
        eprintln!("no trace at {TRACE}: the rows of the Azure workload are skipped");
    }
    for (nodes, pods) in SYNTHETIC {
        cases.push(Case::new("synthetic", nodes, true, move || synthetic(nodes, pods)));
    }
    let (nodes, pods) = SYNTHETIC[1];
    cases.push(Case::new(sim_report::MORE_PODS, nodes, false, move || synthetic(nodes, pods * 10)));
    for more in MORE_NODES {
        cases.push(Case::new(sim_report::MORE_NODES, more, false, move || synthetic(nodes, pods)));
    }
    Ok(cases)
}

/// Twice the usual shapes, 4.2 cores on average, that live for an hour on average: 7.5 an hour and node fill two thirds of the
/// CPU once as many end as come.
fn synthetic(nodes: usize, pods: usize) -> Result<Workload> {
    let pods_per_hour = 7.5 * nodes as f64;
    let twice = |shape: Shape| Shape { cpu_milli: 2 * shape.cpu_milli, memory_mib: 2 * shape.memory_mib, ..shape };
    let mut poisson = Poisson {
        pods_per_hour,
        // A little longer than needed, as the number of arrivals is random; what is too much is cut off.
        hours: 1.05 * pods as f64 / pods_per_hour,
        lifetime: LifetimeSetting::Exponential { mean_s: 3600.0 },
        ..Poisson::default()
    };
    poisson.shapes = poisson.shapes.into_iter().map(twice).collect();
    let mut workload = Generator::Poisson(poisson).generate(SEED)?;
    workload.pods.truncate(pods);
    Ok(workload)
}

impl Case {
    fn new(workload: &'static str, nodes: usize, rivals: bool, make: impl Fn() -> Result<Workload> + 'static) -> Self {
        Self { name: format!("{workload}-{nodes}"), workload, nodes, rivals, make: Box::new(make) }
    }

    /// All simulators in turn, so that a slow minute of the machine hits all of them; the median of each.
    fn measure(&self) -> Result<Vec<Row>> {
        let workload = (self.make)()?;
        let path = Path::new(FOLDER).join(format!("{}.csv", self.name));
        arrivals::write(&workload, SEED, &path)?;
        let (pods, demand) = (workload.pods.len(), peak_demand(&workload, self.nodes));
        drop(workload);
        // A rival's pods are few enough for some seconds.
        let stock = (500_000 / self.nodes).clamp(10, 2_000).min(pods);
        let numpy = (20_000_000 / self.nodes).clamp(200, 20_000).min(pods);
        let mut runs = vec![("plimsoll", pods)];
        if self.rivals {
            runs.extend([("plimsoll", stock), ("stock", stock), ("plimsoll", numpy), ("numpy", numpy)]);
            // Where the first pods are all there are, or those of both rivals, once is enough.
            let mut known = std::collections::BTreeSet::new();
            runs.retain(|run| known.insert(*run));
        }
        let mut rows = Vec::new();
        for policy in POLICIES {
            let mut rounds = vec![Vec::new(); runs.len()];
            for _ in 0..ROUNDS {
                for ((simulator, pods), rounds) in runs.iter().zip(&mut rounds) {
                    let task = Task { nodes: self.nodes, policy: policy.to_owned(), limit: *pods };
                    let line = output(command(simulator, &task)?.stdin(Stdio::from(File::open(&path)?)))?;
                    rounds.push(serde_json::from_str(&line).with_context(|| format!("{simulator}: {line:?}"))?);
                }
            }
            for ((simulator, pods), rounds) in runs.iter().zip(&rounds) {
                let row = Row::median(self.workload, self.nodes, *pods, policy, simulator, demand, rounds);
                eprintln!("{row}");
                rows.push(row);
            }
        }
        std::fs::remove_file(path)?;
        Ok(rows)
    }
}

/// What the pods ask for at most at a time if none of them waits, as a share of the nodes: of CPU or memory, what is scarcer.
fn peak_demand(workload: &Workload, nodes: usize) -> f64 {
    let mut changes: Vec<(Duration, i64, i64)> = Vec::new();
    for (pod, lifetime) in workload.pods.iter().zip(simulation::lifetimes(workload, SEED)) {
        let Some(template) = workload.templates.get(pod.template as usize) else { continue };
        changes.push((pod.arrival, template.cpu_milli, template.memory));
        if let Some(lifetime) = lifetime {
            changes.push((pod.arrival + lifetime, -template.cpu_milli, -template.memory));
        }
    }
    // What ends comes before what arrives at the same time.
    changes.sort_unstable();
    let (mut cpu, mut memory, mut most) = (0, 0, 0.0_f64);
    for (at, more_cpu, more_memory) in changes {
        if at > workload.span() {
            break;
        }
        (cpu, memory) = (cpu + more_cpu, memory + more_memory);
        most = most.max(cpu as f64 / CPU_MILLI as f64).max(memory as f64 / MEMORY as f64);
    }
    most / nodes as f64
}

fn command(simulator: &str, task: &Task) -> Result<Command> {
    let mut command = match simulator {
        "stock" => Command::new(STOCK),
        "numpy" => {
            let mut python = Command::new(PYTHON);
            python.arg(NUMPY);
            python
        }
        _ => {
            let mut ours = Command::new(std::env::current_exe()?);
            ours.arg("run");
            ours
        }
    };
    // What comes closest to best fit in the stock scheduler.
    let policy = if simulator == "stock" && task.policy == "best-fit" { "most-allocated" } else { &task.policy };
    command.args(["-policy", policy, "-nodes", &task.nodes.to_string(), "-limit", &task.limit.to_string()]);
    command.args(["-pods", &simulator::PODS.to_string()]);
    // One core each: neither the collector of Go nor the libraries below numpy may use another.
    command.envs([("GOMAXPROCS", "1"), ("OPENBLAS_NUM_THREADS", "1"), ("OMP_NUM_THREADS", "1")]);
    Ok(command)
}

/// Runs all cases, or those named.
fn compare(only: &[String]) -> Result<()> {
    for tool in [STOCK, PYTHON, NUMPY].map(PathBuf::from) {
        if !tool.exists() {
            bail!("{} is missing: run `make bench-sim`, which makes it, from the repository root", tool.display());
        }
    }
    std::fs::create_dir_all(FOLDER)?;
    let mut rows = Vec::new();
    let cases = cases()?;
    if let Some(unknown) = only.iter().find(|name| !cases.iter().any(|case| case.name == **name)) {
        let known: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        bail!("there is no case {unknown}; there are {}", known.join(", "));
    }
    for case in cases.iter().filter(|case| only.is_empty() || only.contains(&case.name)) {
        rows.extend(case.measure().with_context(|| case.name.clone())?);
    }
    if only.is_empty() { sim_report::write(&rows) } else { Ok(()) }
}
