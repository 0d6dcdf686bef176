use plimsoll_core::policy;
use plimsoll_sim::fleet::*;
use plimsoll_sim::simulation::*;
use plimsoll_sim::workload::*;
use plimsoll_sim::world::catalogue::Catalogue;
use plimsoll_sim::world::*;
use std::path::Path;
use std::sync::Arc;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let policy_name = &args[1];
    let nodes: usize = args[2].parse().unwrap();
    let share: f64 = args[3].parse().unwrap();
    let seed: u64 = args[4].parse().unwrap();
    let (mut w, _) =
        azure::read(Path::new("../shared/traces/azure-v1-2017/azure_v1_dev.csv.gz"), ReadOptions::STRICT).unwrap();
    w.pods.retain(|p| {
        let mut r = plimsoll_core::rng::Rng::new(seed ^ (u64::from(p.owner) * 7919));
        (r.next_u64() >> 11) as f64 / (1u64 << 53) as f64 <= share
    });
    let cat = Catalogue::read(Path::new("../shared/traces/power-curves/curated.csv")).unwrap();
    let mk = |name: &str, count, cpu: i64, mem: i64| {
        let mut m = cat.find(name).unwrap().clone();
        m.cpu_milli = cpu * 1000;
        m.memory = mem << 30;
        m.pods = 1000;
        Pool {
            name: name.replace(' ', "-").to_lowercase(),
            machine: m,
            count,
            zones: vec!["a".into()],
            region: "r".into(),
            cluster: String::new(),
            spot: false,
            labels: vec![],
            taints: vec![],
            scaling: None,
        }
    };
    let fleet = if nodes == 0 {
        Fleet {
            pools: vec![
                mk("R740", 30, 112, 192),
                mk("SR635", 40, 64, 256),
                mk("NF5280M5", 60, 48, 384),
                mk("RX1330", 80, 16, 64),
            ],
        }
    } else {
        Fleet { pools: vec![mk("NF5280M5", nodes, 48, 384)] }
    };
    let world = World::default();
    let settings = Settings { seed, tells_lifetimes: policy_name == "lifetime-aware", ..Settings::default() };
    let t = std::time::Instant::now();
    let setup = Setup { workload: &w, fleet: &fleet, world: &world, settings: &settings };
    let out = run(setup, policy::by_name(policy_name).unwrap(), &mut Nobody).unwrap();
    let m = out.measures;
    // fluid
    let secs = t.elapsed().as_secs_f64();
    let (mut ev, end) = (vec![], w.span().as_secs_f64());
    for (i, p) in w.pods.iter().enumerate() {
        let _ = i;
        let tpl = &w.templates[p.template as usize];
        let l = p.lifetime.unwrap();
        let d = (l.least.as_secs_f64() + l.most.as_secs_f64()) / 2.0;
        let a = p.arrival.as_secs_f64();
        ev.push((a, tpl.cpu_milli as f64 / 1000.0, tpl.memory as f64));
        ev.push((a + d, -tpl.cpu_milli as f64 / 1000.0, -tpl.memory as f64));
    }
    ev.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut c, mut mem, mut t0, mut int) = (0.0, 0.0, end * 0.1, 0.0);
    for (t, dc, dm) in ev {
        if t > end {
            break;
        }
        if t > t0 {
            int += (t - t0) * f64::max(c / 48.0, mem / (384.0 * 1073741824.0));
            t0 = t;
        }
        c += dc;
        mem += dm;
    }
    let bound = int / (end * 0.9);
    println!(
        "{policy_name} pods {} arrived {} active {:.1} bound {:.1} ratio {:.3} kW {:.2} waiting {} secs {:.2} rate {:.0}/s {}",
        w.pods.len(),
        m.arrived,
        m.active_nodes,
        bound,
        m.active_nodes / bound,
        m.mean_kw,
        m.waiting,
        secs,
        w.pods.len() as f64 / secs,
        out.checksum
    );
    let _ = Arc::new(0);
}
