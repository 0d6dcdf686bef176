//! Our simulator, timed as its rivals time themselves: the loop alone, on one core.

use crate::arrivals;
use anyhow::{Context, Result, bail};
use plimsoll_core::policy;
use plimsoll_sim::fleet::{Fleet, Machine, Pool};
use plimsoll_sim::simulation::{Nobody, Settings, Setup, Simulation};
use plimsoll_sim::world::World;
use plimsoll_sim::world::power::PowerCurve;
use serde::{Deserialize, Serialize};
use std::io::BufRead;
use std::sync::Arc;
use std::time::Instant;

/// Threads of a machine, in thousandths: those of a common two-socket server, and what the rivals take unless told otherwise.
pub const CPU_MILLI: i64 = 48_000;
/// Memory of a machine, 384 GiB.
pub const MEMORY: i64 = 384 << 30;
/// More than a machine can hold of the smallest pod: its room decides, not the count.
pub const PODS: i64 = 1_000;

/// What to simulate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// How many machines.
    pub nodes: usize,
    /// The policy, by the name it has with us.
    pub policy: String,
    /// Only the first pods; 0: all.
    pub limit: usize,
}

impl Task {
    /// From the flags that the rivals take too.
    pub fn parse(flags: &[String]) -> Result<Self> {
        let mut task = Self { nodes: 1000, policy: "default".into(), limit: 0 };
        for pair in flags.chunks(2) {
            let [flag, value] = pair else { bail!("{} has no value", pair.join(" ")) };
            match flag.as_str() {
                "-nodes" => task.nodes = value.parse().context("-nodes")?,
                "-policy" => task.policy.clone_from(value),
                "-limit" => task.limit = value.parse().context("-limit")?,
                "-pods" if *value == PODS.to_string() => {}
                _ => bail!("{flag} {value}: there are -nodes, -policy, -limit and -pods {PODS}"),
            }
        }
        Ok(task)
    }
}

/// What a simulator prints about a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Figures {
    /// Pods that got a machine.
    pub placements: u64,
    /// From the first arrival to the last.
    pub seconds: f64,
    /// Both together.
    pub placements_per_s: f64,
    /// Machines with a pod, on average over time.
    pub active_nodes_mean: f64,
    /// Pods without a machine at the end.
    pub waiting: u64,
    /// The peak of resident memory.
    pub rss_bytes: u64,
}

/// Simulates arrivals.
pub fn simulate(task: &Task, arrivals: &mut dyn BufRead) -> Result<Figures> {
    let workload = arrivals::read(arrivals, task.limit)?;
    let fleet = fleet(task.nodes)?;
    let policy = policy::by_name(&task.policy).with_context(|| format!("there is no policy {:?}", task.policy))?;
    // Rivals have no warm-up: every placement counts.
    let settings = Settings { warmup: 0.0, ..Settings::default() };
    let setup = Setup { workload: &workload, fleet: &fleet, world: &World::default(), settings: &settings };
    let mut nobody = Nobody;
    let mut simulation = Simulation::new(setup, policy, &mut nobody)?;
    let start = Instant::now();
    simulation.run_to_end()?;
    let seconds = start.elapsed().as_secs_f64();
    let measures = simulation.finish().measures;
    Ok(Figures {
        placements: measures.placed,
        seconds,
        placements_per_s: measures.placed as f64 / seconds.max(f64::MIN_POSITIVE),
        active_nodes_mean: measures.active_nodes,
        waiting: measures.waiting,
        rss_bytes: peak_resident()?,
    })
}

fn fleet(nodes: usize) -> Result<Fleet> {
    let power = PowerCurve::straight(100.0, 400.0).context("the line makes no curve")?;
    let machine = Machine {
        name: "bench".into(),
        cpu_milli: CPU_MILLI,
        memory: MEMORY,
        pods: PODS,
        gpus: None,
        power: Arc::new(power),
        price: None,
    };
    Ok(Fleet { pools: vec![Pool::new("node", machine, nodes)] })
}

/// From the process' own status, as the rivals do: what getrusage gives can be the peak of the program that started this one.
fn peak_resident() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").context("/proc/self/status")?;
    let kib =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix("kB")?.trim().parse().ok());
    Ok(kib.unwrap_or(0_u64) << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pod_is_placed_where_its_policy_wants_it() {
        let arrivals = "name,arrival_s,lifetime_s,cpu_milli,memory_bytes\na,0,,1000,0\nb,0,,1000,0\nc,10,,1000,0\n";
        for (policy, active) in [("default", 2.0), ("best-fit", 1.0)] {
            let task = Task { nodes: 3, policy: policy.into(), limit: 0 };
            let figures = simulate(&task, &mut arrivals.as_bytes()).unwrap();
            assert_eq!((figures.placements, figures.waiting, figures.active_nodes_mean), (3, 0, active), "{policy}");
            assert!(figures.rss_bytes > 1 << 20);
        }
    }
}
