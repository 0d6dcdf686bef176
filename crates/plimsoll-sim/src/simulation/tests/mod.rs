mod behaviour;
mod clusters;
mod laws;
mod stepping;

use super::*;
use crate::fleet::{Fleet, Machine as Kind, Pool, Scaling};
use crate::workload::{Lifetime, PodRecord, Template};
use crate::world::World;
use crate::world::power::PowerCurve;
use plimsoll_core::policy::by_name;

/// A pool of machines with some threads and GiB; they draw 100 W idle and 200 W full.
fn pool(name: &str, count: usize, threads: i64, gib: i64) -> Pool {
    let machine = Kind {
        name: name.into(),
        cpu_milli: threads * 1000,
        memory: gib << 30,
        pods: 110,
        gpus: None,
        power: Arc::new(PowerCurve::straight(100.0, 200.0).unwrap()),
        price: None,
    };
    Pool { zones: vec!["a".into(), "b".into()], region: "r".into(), ..Pool::new(name, machine, count) }
}

fn template(cpu_milli: i64) -> Template {
    Template { cpu_milli, memory: 1 << 28, ..Template::default() }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Pods as template, arrival and lifetime in seconds; a lifetime of 0 is none.
fn workload(templates: Vec<Template>, pods: &[(u32, u64, u64)]) -> Workload {
    let record = |(number, &(template, arrival, lifetime)): (usize, &(u32, u64, u64))| PodRecord {
        name: format!("pod-{number}").into(),
        template,
        owner: 0,
        arrival: seconds(arrival),
        lifetime: (lifetime > 0).then(|| Lifetime::exactly(seconds(lifetime))),
        usage: None,
    };
    Workload { templates, pods: pods.iter().enumerate().map(record).collect(), ..Workload::default() }
}

/// Everything is measured, up to this second.
fn settings(horizon: u64) -> Settings {
    Settings { warmup: 0.0, horizon: Some(seconds(horizon)), samples: 10, ..Settings::default() }
}

struct Bench {
    workload: Workload,
    fleet: Fleet,
    world: World,
    settings: Settings,
}

impl Bench {
    fn new(workload: Workload, pools: Vec<Pool>, horizon: u64) -> Self {
        Self { workload, fleet: Fleet { pools }, world: World::default(), settings: settings(horizon) }
    }

    fn watched(&self, policy: &str, observer: &mut dyn Observer) -> Outcome {
        let Self { workload, fleet, world, settings } = self;
        run(Setup { workload, fleet, world, settings }, by_name(policy).unwrap(), observer).unwrap()
    }

    fn run(&self, policy: &str) -> Outcome {
        self.watched(policy, &mut Nobody)
    }
}
