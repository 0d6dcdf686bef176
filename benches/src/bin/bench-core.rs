//! `make bench-core`: the same clusters and pods through the stock scheduler's own code and through ours, on one core each,
//! interleaved.
//!
//! Without arguments it runs everything and writes `docs/benchmarks.md` and `target/bench/core.json`. With
//! `run CLUSTER DECISIONS` it times our engine, once for each line of standard input, and prints a JSON line: the driver
//! starts itself that way, so that each scheduler has a process of its own.

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::Pod;
use plimsoll_bench::alloc::{self, Counting};
use plimsoll_bench::cluster::{self, Line};
use plimsoll_bench::process::output;
use plimsoll_bench::report::{self, Row};
use plimsoll_core::config::Configuration;
use plimsoll_core::scheduler::{Decision, Scheduler};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SHAPES: [&str; 7] = [
    "plain",
    "node-affinity",
    "pod-anti-affinity",
    "preferred-pod-affinity",
    "topology-spread",
    "default-spread",
    "preemption",
];
const SIZES: [usize; 4] = [100, 1_000, 5_000, 20_000];
/// Medians are over this many rounds.
const ROUNDS: usize = 5;
/// Decisions of ours in a round.
const DECISIONS: usize = 500;
/// The first decisions of a run are not timed: caches and remembered answers are filled, as in a scheduler that runs.
const WARM_UP: usize = 100;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-core: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["run", cluster, decisions] => time_ours(Path::new(cluster), decisions.parse()?),
        rest => compare(rest),
    }
}

/// Runs all shapes and sizes, or those named.
fn compare(only: &[&str]) -> Result<()> {
    let stock = PathBuf::from(std::env::var("STOCK_BENCH").unwrap_or_else(|_| "bin/stock-bench".into()));
    if !stock.exists() {
        bail!("{} is missing: build it with `make bin/stock-bench`, or name it in STOCK_BENCH", stock.display());
    }
    let folder = Path::new("target/bench/clusters");
    std::fs::create_dir_all(folder)?;
    let mut rows = Vec::new();
    for nodes in SIZES {
        for shape in SHAPES {
            let name = format!("{shape}-{nodes}");
            if !only.is_empty() && !only.contains(&name.as_str()) && !only.contains(&shape) {
                continue;
            }
            let cluster = folder.join(format!("{name}.jsonl.gz"));
            if !cluster.exists() {
                make_cluster(&stock, shape, nodes, &cluster)?;
            }
            rows.extend(measure(&stock, shape, nodes, &cluster).with_context(|| name)?);
        }
    }
    report::write(&rows)
}

fn make_cluster(stock: &Path, shape: &str, nodes: usize, path: &Path) -> Result<()> {
    let (nodes, pods) = (nodes.to_string(), (ROUNDS * DECISIONS + WARM_UP).to_string());
    let path = path.to_string_lossy();
    output(Command::new(stock).args(["cluster", "-shape", shape, "-nodes", &nodes, "-pods", &pods, "-o", &path]))
        .map(|_| ())
}

/// The three schedulers in turn, so that a slow minute of the machine hits all of them; the median of each.
fn measure(stock: &Path, shape: &str, nodes: usize, cluster: &Path) -> Result<Vec<Row>> {
    let path = cluster.to_string_lossy().into_owned();
    // The stock scheduler is slow where it examines all: fewer decisions give the same median.
    let few = (150_000 / nodes.max(1)).clamp(20, DECISIONS).to_string();
    let warm_up = WARM_UP.min(20).to_string();
    let stock = |mode| {
        let mut command = Command::new(stock);
        command.args(["run", "-stepped", "-cluster", &path, "-mode", mode, "-decisions", &few, "-warmup", &warm_up]);
        Runner::start(command.env("GOMAXPROCS", "1"))
    };
    let mut ours = Command::new(std::env::current_exe()?);
    let mut runners = [
        ("stock-sampled", stock("sampled")?),
        ("stock-all", stock("all")?),
        ("plimsoll", Runner::start(ours.args(["run", &path, &DECISIONS.to_string()]))?),
    ];
    let mut rounds: BTreeMap<&str, Vec<Row>> = BTreeMap::new();
    for _ in 0..ROUNDS {
        for (scheduler, runner) in &mut runners {
            let line = runner.step().with_context(|| (*scheduler).to_owned())?;
            rounds.entry(scheduler).or_default().push(Row::parse(&line, shape, nodes, scheduler)?);
        }
    }
    let rows: Vec<Row> = rounds.into_values().map(|rounds| Row::median(&rounds)).collect();
    for row in &rows {
        eprintln!("{row}");
    }
    Ok(rows)
}

/// A process that measures once for each line it is sent, and answers with its figures.
struct Runner {
    process: Child,
    steps: ChildStdin,
    figures: BufReader<ChildStdout>,
}

impl Runner {
    fn start(command: &mut Command) -> Result<Self> {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {command:?}"))?;
        let steps = process.stdin.take().context("no standard input")?;
        let figures = BufReader::new(process.stdout.take().context("no standard output")?);
        Ok(Self { process, steps, figures })
    }

    fn step(&mut self) -> Result<String> {
        writeln!(self.steps)?;
        let mut line = String::new();
        if self.figures.read_line(&mut line)? == 0 {
            bail!("it ended without an answer");
        }
        Ok(line)
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        // It waits for its next step, which does not come; that it is gone already is as good.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Times our engine on one core, once for each line of standard input: every node is examined for every pod.
fn time_ours(path: &Path, decisions: usize) -> Result<()> {
    let mut scheduler = Scheduler::new(&Configuration::default(), 1);
    let mut lines = Vec::new();
    cluster::read(path, |line| {
        lines.push(line);
        Ok(())
    })?;
    let (mut nodes, mut bound) = (0_u64, 0_u64);
    let empty = alloc::in_use();
    for line in &lines {
        match line {
            Line::Namespace(namespace) => scheduler.state.apply_namespace(namespace),
            Line::Service(service) => scheduler.state.apply_service(service),
            Line::Node(node) => {
                scheduler.state.apply_node(node)?;
                nodes += 1;
            }
            Line::Bound(_) | Line::Pending(_) => {}
        }
    }
    let with_nodes = alloc::in_use();
    for line in &lines {
        if let Line::Bound(pod) = line {
            scheduler.state.apply_pod(pod)?;
            bound += 1;
        }
    }
    let with_pods = alloc::in_use();
    let mut pending = lines.iter().filter_map(|line| match line {
        Line::Pending(pod) => Some(&**pod),
        _ => None,
    });
    for pod in pending.by_ref().take(WARM_UP) {
        decide(&mut scheduler, pod)?;
    }
    // What the decisions remember belongs to the nodes; what the pods placed so far take, to the pods.
    let remembered =
        (alloc::in_use() - with_pods).saturating_sub((with_pods - with_nodes) / bound.max(1) * WARM_UP as u64);
    for step in std::io::stdin().lines() {
        step?;
        let (mut times, mut bytes) = (Vec::new(), 0);
        for pod in pending.by_ref().take(decisions) {
            let (elapsed, allocated) = decide(&mut scheduler, pod)?;
            times.push(elapsed.as_secs_f64() * 1e3);
            bytes += allocated;
        }
        let pods = (with_pods - with_nodes, bound);
        let figures = report::Figures::new(&mut times, bytes, (with_nodes - empty, remembered, nodes), pods);
        println!("{}", serde_json::to_string(&figures)?);
    }
    Ok(())
}

/// One decision with the room it takes, as the stock scheduler is timed too; removing victims is not part of it.
fn decide(scheduler: &mut Scheduler, pod: &Pod) -> Result<(Duration, u64)> {
    let id = scheduler.state.apply_pod(pod)?.context("a pending pod has ended")?;
    let (before, start) = (alloc::allocated(), Instant::now());
    let decision = scheduler.decide(id)?;
    if let Decision::Place { node, .. } = decision {
        scheduler.reserve(id, node)?;
    }
    let timed = (start.elapsed(), alloc::allocated() - before);
    if let Decision::Wait { preemption: Some(preemption), .. } = decision {
        for victim in preemption.victims {
            let uid = scheduler.state.pod(victim).map(|pod| pod.uid.clone()).unwrap_or_default();
            scheduler.state.delete_pod(&uid);
        }
        scheduler.reserve(id, preemption.node)?;
    }
    Ok(timed)
}
