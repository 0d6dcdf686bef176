//! What the thesis found, and whether it holds here.

use super::{Finding, Policy, Run, Runs, Sample, ThesisSettings};

/// A share from which on something counts as so: an odd placement does not make it wrong.
const NEARLY_ALL: f64 = 0.95;

/// Every finding that was expected.
pub fn findings(settings: &ThesisSettings, runs: &Runs) -> Vec<Finding> {
    let of = |runs: &[Run], policy: Policy| runs.iter().find(|run| run.policy == policy).cloned();
    let mut findings = Vec::new();
    let mut add = |expected: &str, (held, evidence): (bool, String)| {
        findings.push(Finding { expected: expected.to_owned(), held, evidence });
    };
    for policy in [Policy::Ee, Policy::ElRl] {
        let name = policy.name();
        if let Some(run) = of(&runs.test1, policy) {
            add(&format!("{name} keeps one node active (test 1)"), one_active(&run, &[]));
        }
        if let Some(run) = of(&runs.test2, policy) {
            let settling = if policy == Policy::ElRl { &runs.changes[..] } else { &[] };
            add(&format!("{name} keeps one node active (test 2)"), one_active(&run, settling));
        }
    }
    for policy in [Policy::Lb, Policy::Default] {
        for (test, list) in [(1, &runs.test1), (2, &runs.test2)] {
            if let Some(run) = of(list, policy) {
                add(
                    &format!("{} spreads over all nodes (test {test})", policy.name()),
                    all_active(&run, settings.nodes),
                );
            }
        }
    }
    if let Some(run) = of(&runs.test2, Policy::ElRl) {
        add("EL-RL follows the lowest latency when latencies change", follows(&run, &runs.changes));
    }
    if let (Some(ee), Some(el)) = (of(&runs.test2, Policy::Ee), of(&runs.test2, Policy::ElRl)) {
        add("EE ignores latency", ignores(&ee, &el));
    }
    for (what, list, nodes) in
        [("permuted", &runs.permuted, settings.nodes), ("shrunk", &runs.shrunk, settings.nodes - 1)]
    {
        for run in list {
            let (held, evidence) = match run.policy {
                Policy::Ee => one_active(run, &[]),
                Policy::ElRl => follows(run, &runs.changes),
                Policy::Lb | Policy::Default => all_active(run, nodes),
            };
            add(&format!("{} still works on a {what} set of nodes", run.policy.name()), (held, evidence));
        }
    }
    findings
}

fn share<'a>(samples: impl Iterator<Item = &'a Sample>, is: impl Fn(&Sample) -> bool) -> f64 {
    let (hits, count) =
        samples.fold((0.0, 0.0), |(hits, count), sample| (hits + f64::from(u8::from(is(sample))), count + 1.0));
    if count > 0.0 { hits / count } else { 0.0 }
}

fn per_cent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// Whether one node is active at nearly all steps at which pods run, apart from those in which pods of before a change are still there.
fn one_active(run: &Run, changes: &[usize]) -> (bool, String) {
    let settles = |step: usize| changes.iter().any(|change| (*change..*change + run.alive).contains(&step));
    let looked_at = run.samples.iter().enumerate().filter(|(step, sample)| !settles(*step) && sample.active() > 0);
    let share = share(looked_at.map(|(_, sample)| sample), |sample| sample.active() == 1);
    let mean = run.samples.iter().map(|sample| sample.active() as f64).sum::<f64>() / run.samples.len().max(1) as f64;
    let apart = if changes.is_empty() { "" } else { " once pods from before a change are gone" };
    (share >= NEARLY_ALL, format!("one node at {} of steps{apart}; {mean:.2} nodes on average", per_cent(share)))
}

/// Whether all nodes are active at nearly all steps at which there are as many pods as nodes.
fn all_active(run: &Run, nodes: usize) -> (bool, String) {
    let pods = nodes;
    let enough = run.samples.iter().filter(|sample| sample.pods.iter().sum::<u32>() as usize >= pods);
    let share = share(enough, |sample| sample.active() == nodes);
    (share >= NEARLY_ALL, format!("all {nodes} nodes at {} of steps with {pods} pods or more", per_cent(share)))
}

/// Whether pods go to the node with the lowest latency, after each change as well.
fn follows(run: &Run, changes: &[usize]) -> (bool, String) {
    let ends: Vec<usize> = changes.iter().copied().chain([run.samples.len()]).collect();
    let mut start = 0;
    let mut shares = Vec::new();
    for end in ends {
        let phase = run.samples.get(start..end.min(run.samples.len())).unwrap_or_default();
        shares.push(share(phase.iter(), |sample| sample.nearest.contains(&sample.chosen)));
        start = end;
    }
    let held = shares.iter().all(|share| *share >= NEARLY_ALL);
    let list = shares.into_iter().map(per_cent).collect::<Vec<_>>().join(", ");
    (held, format!("pods placed on the node with the lowest latency, before, between and after the changes: {list}"))
}

/// Whether EE stays where it is when latencies change, and so has the higher latency.
fn ignores(ee: &Run, el: &Run) -> (bool, String) {
    let mut counts = vec![0_usize; ee.samples.iter().map(|sample| sample.chosen + 1).max().unwrap_or(0)];
    ee.samples.iter().for_each(|sample| counts[sample.chosen] += 1);
    let stays = counts.iter().copied().max().unwrap_or(0) as f64 / ee.samples.len().max(1) as f64;
    let mean = |run: &Run| {
        let known: Vec<f64> = run.samples.iter().filter_map(|sample| sample.latency_ms).collect();
        known.iter().sum::<f64>() / known.len().max(1) as f64
    };
    let (slow, fast) = (mean(ee), mean(el));
    let held = stays >= NEARLY_ALL && slow > fast;
    (held, format!("{} of pods on one node throughout; {slow:.1} ms on average, EL-RL {fast:.1} ms", per_cent(stays)))
}
