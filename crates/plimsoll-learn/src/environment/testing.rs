//! Small clusters for tests.

use plimsoll_sim::fleet::{Fleet, Machine, Pool, Price};
use plimsoll_sim::simulation::{Inputs, Settings};
use plimsoll_sim::workload::{Lifetime, PodRecord, Template, Workload};
use plimsoll_sim::world::World;
use plimsoll_sim::world::power::PowerCurve;
use plimsoll_sim::world::price::ListPrices;
use std::sync::Arc;
use std::time::Duration;

/// A pool of machines with some threads and GiB; they draw 100 W idle and 200 W full, and cost 2 an hour.
pub fn pool(name: &str, count: usize, threads: i64, gib: i64) -> Pool {
    let machine = Machine {
        name: name.into(),
        cpu_milli: threads * 1000,
        memory: gib << 30,
        pods: 110,
        gpus: None,
        power: Arc::new(PowerCurve::straight(100.0, 200.0).unwrap()),
        price: Some(Price { on_demand: 2.0, spot: 1.0 }),
    };
    Pool::new(name, machine, count)
}

/// Pods as CPU in thousandths, memory in MiB, arrival and lifetime in seconds; a lifetime of 0 is none.
pub fn workload(pods: &[(i64, i64, u64, u64)]) -> Workload {
    let mut workload = Workload::default();
    for (number, &(cpu_milli, mib, arrival, lifetime)) in pods.iter().enumerate() {
        let template = Template { cpu_milli, memory: mib << 20, ..Template::default() };
        let at = workload.templates.iter().position(|known| *known == template).unwrap_or_else(|| {
            workload.templates.push(template);
            workload.templates.len() - 1
        });
        workload.pods.push(PodRecord {
            name: format!("pod-{number}").into(),
            template: at as u32,
            owner: 0,
            arrival: Duration::from_secs(arrival),
            lifetime: (lifetime > 0).then(|| Lifetime::exactly(Duration::from_secs(lifetime))),
            usage: None,
        });
    }
    workload
}

/// A run with prices, over so many seconds.
pub fn inputs(workload: Workload, pools: Vec<Pool>, horizon: u64) -> Inputs<'static> {
    let world = World { price: Some(Box::new(ListPrices)), ..World::default() };
    let settings = Settings { warmup: 0.0, horizon: Some(Duration::from_secs(horizon)), ..Settings::default() };
    Inputs { workload: workload.into(), fleet: Fleet { pools }.into(), world: world.into(), settings: settings.into() }
}
