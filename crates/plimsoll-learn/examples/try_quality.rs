//! Scratch.
#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]
use plimsoll_learn::{agent::{Agent, evolution::*}, lifetime::*, policy::fused::Factored, observation::features::*, policy::*};
use plimsoll_sim::{compare::*, scenario::Scenario, simulation::Nobody, workload::select::Window};
use std::{path::Path, sync::Arc, time::{Duration, Instant}};
use rayon::prelude::*;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let mut scenario = Scenario::read(Path::new(&args[1])).unwrap();
    let objective = args[2].clone();
    let base = args[3].clone();
    let gens: usize = args[4].parse().unwrap();
    let trust: f64 = args[5].parse().unwrap();
    let limit: f64 = args[6].parse().unwrap();
    let out = args[7].clone();
    let hidden: usize = args[8].parse().unwrap();
    let sigma: f32 = args[9].parse().unwrap();
    let from_h: f64 = args[10].parse().unwrap();
    let shares: Vec<f64> = args[11].split(',').map(|x| x.parse().unwrap()).collect();
    let train_end = 42.0 * 3600.0;
    let trace = scenario.trace(&scenario.fleet().unwrap()).unwrap();
    // predictor on all owners' first 42 h
    let mut whole = scenario.clone();
    whole.select = Default::default();
    let all = whole.prepare(&trace, 1).unwrap().workload;
    let span = all.span();
    let t = Instant::now();
    let data = Dataset::new(&all, Duration::from_secs_f64(train_end), 1);
    let (predictor, fit) = train(&data, &PredictorSettings::default(), 1);
    println!("predictor {fit:?} {:?}", t.elapsed());
    let get = move |m: &plimsoll_sim::measures::Measures| match objective.as_str() { "kwh" => m.kwh, "node-hours" => m.node_hours, _ => panic!() };
    let case = |scenario: &mut Scenario, seed, from: f64, to: f64| {
        scenario.select.window = Some(Window { from: Duration::ZERO, to: Some(Duration::from_secs_f64(to)) });
        scenario.run.warmup = from / to;
        Arc::new(PreparedCase::new(scenario, &trace, Case { window: None, seed }).unwrap())
    };
    let span = span.as_secs_f64();
    let test: Vec<_> = (1..=6).map(|seed| case(&mut scenario, seed, train_end, span)).collect();
    let nf: Vec<usize> = ["cpu-free","memory-free","pods","empty","threads","watts-per-thread","idle-watts","awake","remaining","cpu-left","memory-left","rise","extension","extension-share","extra-kwh","siblings"].iter().map(|n| node_feature(n).unwrap()).collect();
    let pf: Vec<usize> = ["cpu","memory","life","short","group","load","busy"].iter().map(|n| pod_feature(n).unwrap()).collect();
    let sizes = sizes(&nf, &pf, 4, hidden);
    let start = Factored::fresh(&sizes, 5);
    let parts = Parts { node_features: nf, pod_features: pf, network: Factored::new(&sizes, &start).unwrap(), predictor, base: base.clone(), trust, ranges: Ranges::default() };
    let bound = |c: &PreparedCase, hours: f64| { let b = c.bound.mean(); if args[2] == "kwh" { b.mean_kw * hours } else { b.active_nodes * hours } };
    let show = |name: &str, make: &(dyn Fn() -> Option<Box<dyn plimsoll_core::policy::Policy>> + Sync)| {
        let t = Instant::now();
        let r: Vec<(f64, u64)> = test.par_iter().map(|c| { let run = match make() { Some(p) => c.run_policy(name, p, &mut Nobody), None => c.run(name, &mut Nobody) }.unwrap(); let m = run.row.measures; (get(&m) / bound(c, m.hours), m.rejected + m.waiting) }).collect();
        println!("{name:>18} {:.4}  {:?} {:?}", r.iter().map(|x| x.0).sum::<f64>() / r.len() as f64, r.iter().map(|x| ((x.0 * 1e4).round() / 1e4, x.1)).collect::<Vec<_>>(), t.elapsed());
    };
    for name in ["best-fit", "longest-awake", "efficient-first", "marginal-watts", "lifetime-aware"] { show(name, &|| None); }
    let p2 = parts.clone();
    show("base", &|| Some(Box::new(Learned::new(Parts { trust: 0.0, ..p2.clone() }))));
    if gens > 0 {
        let train_cases: Vec<_> = (101..=112).map(|seed| { scenario.select.sample = Some(shares[seed as usize % shares.len()]); case(&mut scenario, seed, from_h * 3600.0, train_end) }).collect();
        let settings = EvolutionSettings { generations: gens, sigma, pairs: 10, cases: 3, validate_every: 8, ..Default::default() };
        let get2 = get.clone();
        let mut agent = Evolution::new(settings, parts.clone(), sizes, start, train_cases, Arc::new(move |m| get2(m)), 1).unwrap();
        let t = Instant::now();
        loop {
            let r = agent.iterate().unwrap();
            if r.scalars.len() > 2 {
                println!("{:?} {:.0}s {:?}", r.episodes, t.elapsed().as_secs_f64(), r.scalars);
                let w = agent.weights();
                let p3 = Parts { network: Factored::new(&sizes, &w).unwrap(), ..parts.clone() };
                show("learned", &|| Some(Box::new(Learned::new(p3.clone()))));
            }
            if r.progress >= 1.0 || t.elapsed().as_secs_f64() > limit { break }
        }
        std::fs::write(out, plimsoll_learn::model::weights_to_bytes(&agent.weights()).unwrap()).unwrap();
    }
}
