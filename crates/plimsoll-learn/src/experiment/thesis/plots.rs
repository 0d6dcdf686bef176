//! The figures of the thesis.

use super::{Run, Runs, Sample, ThesisSettings};
use crate::experiment::{Figure, Line, moving_average};

/// Rounds of test 1 that are drawn step by step.
const ROUNDS_DRAWN: usize = 5;
/// Steps over which lines are averaged, for each step that is drawn.
const WINDOW: usize = 20;

type Section = (String, String, Vec<Figure>);

/// The figures in sections.
pub fn sections(settings: &ThesisSettings, runs: &Runs) -> Vec<Section> {
    let changes: Vec<_> = runs.changes.iter().map(|step| (*step as f64, "latencies change".to_owned())).collect();
    let round = settings.pods_of_round as usize;
    let mut one = compared(&runs.test1, &[], round);
    one.extend(runs.test1.iter().map(|run| {
        pods(run, &format!("{}: pods per node, {ROUNDS_DRAWN} rounds", run.policy.name()), ROUNDS_DRAWN * round, &[])
    }));
    let mut two = compared(&runs.test2, &changes, WINDOW);
    two.extend(
        runs.test2.iter().map(|run| pods(run, &format!("{}: pods per node", run.policy.name()), usize::MAX, &changes)),
    );
    let training: Vec<Run> = runs.training.iter().map(|(run, _)| run.clone()).collect();
    let mut learning = compared(&training, &[], 2 * WINDOW);
    learning.push(averaged("Reward", "reward", &training, &[], 2 * WINDOW, |sample| Some(sample.reward)));
    learning.extend(
        training
            .iter()
            .map(|run| pods(run, &format!("{}: pods per node in training", run.policy.name()), usize::MAX, &[])),
    );
    let mut others = Vec::new();
    for (what, list) in [("nodes in another order at every step", &runs.permuted), ("one node fewer", &runs.shrunk)] {
        others
            .extend(list.iter().map(|run| pods(run, &format!("{}: {what}", run.policy.name()), usize::MAX, &changes)));
    }
    let section = |heading: &str, lead: &str, figures: Vec<Figure>| (heading.to_owned(), lead.to_owned(), figures);
    let sections = vec![
        section(
            "Test 1",
            "Deployments of one pod are created one by one, then all are deleted, round after round.",
            one,
        ),
        section(
            "Test 2",
            "As many deployments stay alive: the oldest goes for each new one. The latencies of the nodes change twice.",
            two,
        ),
        section(
            "Training",
            "The same while the agents learn. A wrong choice ends an episode, and the cluster is empty again.",
            learning,
        ),
        section(
            "Other sets of nodes",
            "Test 2 with the same policies on nodes in another order, and on fewer nodes.",
            others,
        ),
    ];
    sections.into_iter().filter(|(.., figures)| figures.iter().any(|figure| !figure.lines.is_empty())).collect()
}

/// Active nodes and latency of several runs.
fn compared(runs: &[Run], marks: &[(f64, String)], window: usize) -> Vec<Figure> {
    vec![
        averaged("Active nodes", "nodes with pods", runs, marks, window, |sample| Some(sample.active() as f64)),
        averaged("Latency to users", "ms, mean over pods", runs, marks, window, |sample| sample.latency_ms),
    ]
}

/// A figure of each step, as a moving average over its raw values.
fn averaged(
    title: &str,
    y: &str,
    runs: &[Run],
    marks: &[(f64, String)],
    window: usize,
    value: impl Fn(&Sample) -> Option<f64>,
) -> Figure {
    let mut lines = Vec::new();
    for (colour, run) in runs.iter().enumerate() {
        let mut last = 0.0;
        let values: Vec<f64> = run
            .samples
            .iter()
            .map(|sample| {
                last = value(sample).unwrap_or(last);
                last
            })
            .collect();
        if values.len() <= 600 {
            lines.push(Line::over_steps("", colour, &values).faint());
        }
        lines.push(Line::over_steps(run.policy.name(), colour, &moving_average(&values, window)));
    }
    Figure {
        title: format!("{title} (moving average over {window} steps)"),
        x: "step".into(),
        y: y.into(),
        lines,
        marks: marks.to_vec(),
    }
}

/// Pods on each node over steps.
fn pods(run: &Run, title: &str, steps: usize, marks: &[(f64, String)]) -> Figure {
    let samples = &run.samples[..steps.min(run.samples.len())];
    let nodes = samples.iter().map(|sample| sample.pods.len()).max().unwrap_or(0);
    let lines = (0..nodes).map(|node| {
        let values: Vec<f64> =
            samples.iter().map(|sample| f64::from(sample.pods.get(node).copied().unwrap_or(0))).collect();
        Line::over_steps(&format!("node {node}"), node, &values)
    });
    Figure {
        title: title.to_owned(),
        x: "step".into(),
        y: "pods".into(),
        lines: lines.collect(),
        marks: marks.to_vec(),
    }
}
