//! The machines that a simulation runs on.

use crate::world::power::PowerCurve;
use std::sync::Arc;
use std::time::Duration;

/// A fleet: pools of like machines.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Fleet {
    /// The pools.
    pub pools: Vec<Pool>,
}

/// Like machines, one beside the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Pool {
    /// Its name; nodes are called `name-0`, `name-1`, …
    pub name: String,
    /// What each machine is.
    pub machine: Machine,
    /// How many there are at the start.
    pub count: usize,
    /// Where they stand; machines are dealt out to the zones in turn.
    pub zones: Vec<String>,
    /// The region, for latency and carbon.
    pub region: String,
    /// The cluster they belong to, where there are several.
    pub cluster: String,
    /// Whether they are preemptible: cheaper, and marked `plimsoll.dev/spot`.
    pub spot: bool,
    /// Labels beside those of place and pool.
    pub labels: Vec<(String, String)>,
    /// Taints, as `key=value:Effect`.
    pub taints: Vec<String>,
    /// How the pool grows and shrinks; without, it stays as it is.
    pub scaling: Option<Scaling>,
}

/// Bounds between which a pool grows and shrinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scaling {
    /// At least so many machines.
    pub min: usize,
    /// At most so many.
    pub max: usize,
    /// From asking for a machine to its joining.
    pub boot_delay: Duration,
    /// How long a machine stays empty before it is given back.
    pub idle_after: Duration,
}

/// A kind of machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// Its name in reports.
    pub name: String,
    /// Threads, in thousandths.
    pub cpu_milli: i64,
    /// Memory, in bytes.
    pub memory: i64,
    /// How many pods it may run.
    pub pods: i64,
    /// GPUs: how many, of which model.
    pub gpus: Option<(u32, String)>,
    /// What it draws.
    pub power: Arc<PowerCurve>,
    /// What it costs an hour, on demand and preemptible.
    pub price: Option<Price>,
}

/// What a machine costs for an hour.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// On demand.
    pub on_demand: f64,
    /// Preemptible.
    pub spot: f64,
}

impl Pool {
    /// Like machines that stand nowhere in particular and stay as they are.
    pub fn new(name: impl Into<String>, machine: Machine, count: usize) -> Self {
        Self {
            name: name.into(),
            machine,
            count,
            zones: Vec::new(),
            region: String::new(),
            cluster: String::new(),
            spot: false,
            labels: Vec::new(),
            taints: Vec::new(),
            scaling: None,
        }
    }
}

impl Fleet {
    /// How many machines there are at the start.
    pub fn len(&self) -> usize {
        self.pools.iter().map(|pool| pool.count).sum()
    }

    /// Whether there is no machine.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many machines there may ever be of each pool.
    pub fn limits(&self) -> impl Iterator<Item = (&Pool, usize)> {
        self.pools.iter().map(|pool| (pool, pool.scaling.map_or(pool.count, |scaling| scaling.max.max(pool.count))))
    }
}
