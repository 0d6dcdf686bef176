//! Scratch.
#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]
use plimsoll_learn::lifetime::*;
use plimsoll_sim::scenario::Scenario;
use std::{path::Path, time::Duration};
fn nll(p: &Predictor, s: &[Sample]) -> f64 {
    let ages: Vec<f32> = Curve::ages().collect();
    let mut sum = 0.0;
    for x in s {
        let c = p.curve(&x.features);
        let alive = |i: usize| if i == 0 { 1.0 } else { c.alive(ages[i - 1]) };
        for step in x.from..x.to + usize::from(x.ended) {
            let h = 1.0 - alive(step + 1) / alive(step);
            let ends = x.ended && step == x.to;
            sum -= f64::from(if ends { h } else { 1.0 - h }.max(1e-9)).ln();
        }
    }
    sum / s.len() as f64
}
fn main() {
    let scenario = Scenario::read(Path::new("examples/scenarios/one-kind.toml")).unwrap();
    let trace = scenario.trace(&scenario.fleet().unwrap()).unwrap();
    let mut whole = scenario.clone();
    whole.select = Default::default();
    let all = whole.prepare(&trace, 1).unwrap().workload;
    let end = Duration::from_secs(42 * 3600);
    let train_set = Dataset::new(&all, end, 1);
    let late = Dataset::after(&all, end, all.span(), 1);
    println!("train {} late {}", train_set.samples.len(), late.samples.len());
    for drop in [vec![3usize, 4], vec![3, 4, 5, 13]] {
        let mask = |d: &Dataset| { let mut d = d.clone(); for s in &mut d.samples { for f in &drop { s.features[*f] = 0.0; } } d };
        let (tr, te) = (mask(&train_set), mask(&late));
        for (epochs, decay, hidden) in [(2, 3e-3, 16), (2, 1e-2, 16), (1, 3e-3, 32), (4, 3e-3, 16)] {
            let (p, fit) = train(&tr, &PredictorSettings { epochs, decay, hidden, ..Default::default() }, 1);
            let fresh: Vec<_> = te.samples.iter().copied().filter(|s| s.from == 0).collect();
            println!("drop {drop:?} epochs {epochs} decay {decay} hidden {hidden}: train {:.4} (common {:.4}) late {:.4} late fresh {:.4}", fit.predictor, fit.common, nll(&p, &te.samples), nll(&p, &fresh));
        }
    }
}
