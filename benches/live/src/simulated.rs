//! A cluster that is too large for any API server, simulated: how fast, in how much memory, and where the time goes.

use anyhow::{Context, Result};
use plimsoll_core::engine::Attempt;
use plimsoll_core::policy;
use plimsoll_sim::fleet::{Fleet, Machine, Pool};
use plimsoll_sim::simulation::{Observer, Seen, Settings, Setup, Simulation};
use plimsoll_sim::workload::Workload;
use plimsoll_sim::workload::generate::{Generator, LifetimeSetting, Poisson, Shape};
use plimsoll_sim::world::World;
use plimsoll_sim::world::power::PowerCurve;
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

const NODES: usize = 100_000;
const PODS: usize = 1_000_000;
const POLICIES: [&str; 2] = ["default", "best-fit"];

/// What came of a simulation.
#[derive(Debug, Clone)]
pub struct Simulated {
    policy: &'static str,
    nodes: usize,
    pods: usize,
    placed: u64,
    /// Until all nodes were known and the first pod could come.
    setup: Duration,
    /// From the first arrival to the last.
    run: Duration,
    /// What of it the engine took to decide.
    deciding: Duration,
    /// The most memory so far, in MiB.
    memory_mib: f64,
}

/// Simulates a part of the nodes and pods under each policy.
pub fn run(part: f64) -> Result<Vec<Simulated>> {
    let of = |count: usize| ((count as f64 * part).round() as usize).max(1);
    let (nodes, pods) = (of(NODES), of(PODS));
    let workload = workload(nodes, pods)?;
    let mut rows = Vec::new();
    for name in POLICIES {
        let row = simulate(name, nodes, &workload)?;
        println!("{nodes} nodes simulated, {}", line(&row));
        rows.push(row);
    }
    Ok(rows)
}

/// Pods of 4.2 cores on average that live for an hour on average: 7.5 an hour and node fill two thirds of the CPU once as many end as come.
fn workload(nodes: usize, pods: usize) -> Result<Workload> {
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
    let mut workload = Generator::Poisson(poisson).generate(1)?;
    workload.pods.truncate(pods);
    Ok(workload)
}

fn simulate(name: &'static str, nodes: usize, workload: &Workload) -> Result<Simulated> {
    let begun = Instant::now();
    let machine = Machine {
        name: "server".into(),
        cpu_milli: 48_000,
        memory: 384 << 30,
        pods: 1_000,
        gpus: None,
        power: Arc::new(PowerCurve::straight(100.0, 400.0).context("the line makes no curve")?),
        price: None,
    };
    let fleet = Fleet { pools: vec![Pool::new("node", machine, nodes)] };
    let settings = Settings { warmup: 0.0, ..Settings::default() };
    let setup = Setup { workload, fleet: &fleet, world: &World::default(), settings: &settings };
    let policy = policy::by_name(name).with_context(|| format!("there is no policy {name:?}"))?;
    let mut watch = Watch { begun, deciding: Duration::ZERO };
    let mut simulation = Simulation::new(setup, policy, &mut watch)?;
    let ready = Instant::now();
    simulation.run_to_end()?;
    let run = ready.elapsed();
    let placed = simulation.finish().measures.placed;
    let (_, memory_mib) = crate::contest::usage(std::process::id())?;
    let (pods, deciding) = (workload.pods.len(), watch.deciding);
    Ok(Simulated { policy: name, nodes, pods, placed, setup: ready - begun, run, deciding, memory_mib })
}

/// Takes the time of decisions.
struct Watch {
    begun: Instant,
    deciding: Duration,
}

impl Observer for Watch {
    fn see(&mut self, _: Duration, _: Seen<'_>) {}

    fn deciding(&mut self) {
        self.begun = Instant::now();
    }

    fn decided(&mut self, _: &Attempt) {
        self.deciding += self.begun.elapsed();
    }
}

fn line(row: &Simulated) -> String {
    format!(
        "{}: {} of {} pods in {:.1} s ({:.0} a second), of which {:.1} s deciding; {:.1} s until the first; {:.0} MiB",
        row.policy,
        row.placed,
        row.pods,
        row.run.as_secs_f64(),
        rate(row),
        row.deciding.as_secs_f64(),
        row.setup.as_secs_f64(),
        row.memory_mib
    )
}

fn rate(row: &Simulated) -> f64 {
    row.placed as f64 / row.run.as_secs_f64().max(f64::MIN_POSITIVE)
}

/// The part of the report.
pub fn section(page: &mut String, rows: &[Simulated]) {
    let Some(first) = rows.first() else { return };
    let _ = write!(
        page,
        "\n## Simulated\n\n{} nodes of 48 cores, {} pods that come and go, on one core. Deciding is what the engine takes from the question to its answer; the rest is what follows \
         from it: arrivals, pods that end, the queue, and what is measured. Memory is the most of the process, the workload included.\n\n\
         | policy | placed | seconds | pods/s | deciding | the rest | until the first pod | memory |\n|---|---|---|---|---|---|---|---|\n",
        first.nodes, first.pods
    );
    for row in rows {
        let share = 100.0 * row.deciding.as_secs_f64() / row.run.as_secs_f64().max(f64::MIN_POSITIVE);
        let _ = writeln!(
            page,
            "| {} | {} | {:.1} | {:.0} | {share:.0} % | {:.0} % | {:.1} s | {:.0} MiB |",
            row.policy,
            row.placed,
            row.run.as_secs_f64(),
            rate(row),
            100.0 - share,
            row.setup.as_secs_f64(),
            row.memory_mib
        );
    }
}
