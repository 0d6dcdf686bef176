use super::*;
use crate::environment::ClusterEnvironment;
use crate::observation::Observation;

/// Policies that need no learning: perfect ones, or others on purpose.
struct Rules([&'static str; 3]);

/// Pods of a node, and its latency, by their places in an observation.
const PODS: usize = 3;
const LATENCY: usize = 4;

/// The node with the most pods, the fewest, or the least latency.
struct Rule(&'static str);

impl Chooser for Rule {
    fn choose(&mut self, observation: &Observation) -> Result<usize, LearnError> {
        let cost = |row: usize| match self.0 {
            "fullest" => -observation.node(row)[PODS],
            "emptiest" => observation.node(row)[PODS],
            _ => observation.node(row)[LATENCY],
        };
        let allowed = (0..observation.node_count()).filter(|row| observation.mask[*row]);
        Ok(allowed.min_by(|a, b| cost(*a).total_cmp(&cost(*b))).unwrap())
    }
}

impl Trainer for Rules {
    fn train(&self, policy: Policy, mut environment: Watched, _: (usize, usize)) -> Result<Trained, LearnError> {
        let name = match policy {
            Policy::Ee => self.0[0],
            Policy::Lb => self.0[1],
            _ => self.0[2],
        };
        let mut rule = Rule(name);
        environment.reset(1)?;
        for _ in 0..5 {
            let action = rule.choose(environment.observation())?;
            if environment.step(action)?.is_last() {
                environment.reset(2)?;
            }
        }
        Ok(Trained { chooser: Box::new(rule), reports: Vec::new() })
    }
}

fn small() -> ThesisSettings {
    ThesisSettings { rounds: 3, pods: 120, ..ThesisSettings::default() }
}

fn held(experiment: &Experiment, words: &str) -> bool {
    let found: Vec<_> = experiment.findings.iter().filter(|finding| finding.expected.contains(words)).collect();
    assert!(!found.is_empty(), "no finding about {words:?}");
    found.iter().all(|finding| finding.held)
}

#[test]
fn every_finding_holds_for_perfect_policies() {
    let (runs, experiment) =
        run_with(&small(), &Rules(["fullest", "emptiest", "nearest"]), &mut Simulated, &mut |_, _| {}).unwrap();
    let failed: Vec<_> = experiment.findings.iter().filter(|finding| !finding.held).collect();
    assert!(failed.is_empty(), "{failed:?}");
    assert_eq!(experiment.findings.len(), 16);
    assert_eq!((runs.test1.len(), runs.test2.len(), runs.permuted.len(), runs.shrunk.len()), (4, 4, 3, 3));
    assert_eq!(runs.test1[0].samples.len(), 90);
    let html = experiment.html();
    assert!(html.contains("<b>16 of 16</b> held") && html.matches("<svg").count() > 15);
    assert!(!html.contains("http"), "nothing is fetched");
}

#[test]
fn findings_do_not_hold_for_policies_that_do_something_else() {
    let (_, experiment) =
        run_with(&small(), &Rules(["emptiest", "fullest", "fullest"]), &mut Simulated, &mut |_, _| {}).unwrap();
    for words in
        ["EE keeps one node", "LB spreads", "EL-RL follows", "EE still works", "LB still works", "EL-RL still works"]
    {
        assert!(!held(&experiment, words), "{words}");
    }
    for words in ["default spreads", "EL-RL keeps one node active (test 1)"] {
        assert!(held(&experiment, words), "{words}");
    }
}

#[test]
fn what_cannot_be_run_is_refused() {
    let settings = ThesisSettings { nodes: 2, ..small() };
    let error = run_with(&settings, &Rules(["fullest"; 3]), &mut Simulated, &mut |_, _| {}).unwrap_err().to_string();
    assert!(error.contains("at least 3 nodes"), "{error}");
}

#[test]
fn a_learned_policy_is_made_of_a_network() {
    let agent = DqnSettings { steps: 60, learning_starts: 40, batch: 16, ..DqnSettings::thesis() };
    let settings = ThesisSettings { agent, rounds: 1, pods: 90, ..ThesisSettings::default() };
    let (runs, experiment) = run(&settings, &mut |_, _| {}).unwrap();
    assert_eq!(runs.training.len(), 3);
    for (run, reports) in &runs.training {
        assert_eq!(run.samples.len(), 60, "{:?}", run.policy);
        assert_eq!(reports.last().map(|report| report.steps), Some(60));
    }
    assert_eq!(experiment.findings.len(), 16);
    let again = super::run(&settings, &mut |_, _| {}).unwrap();
    assert_eq!(again.0.test2, runs.test2, "equal seeds give equal runs");
}

#[test]
fn nodes_are_seen_in_the_units_of_prometheus() {
    let settings = small();
    let mut environment: ClusterEnvironment = cluster::test(
        &settings,
        &Trial { policy: Policy::Ee, test: Test::One, nodes: settings.nodes, shuffle: Shuffle::Never },
    )
    .unwrap();
    environment.reset(1).unwrap();
    assert_eq!(environment.observation().node(0), [0.0, 16.0, 0.0, 0.0, 12.0, 1.0]);
    environment.step(0).unwrap();
    // A pod of 250m on 8 cores, and of 64Mi.
    assert_eq!(environment.observation().node(0), [3.125, 15.9375, 0.0, 1.0, 12.0, 1.0]);
}

#[test]
fn what_there_is_so_far_can_be_drawn_at_any_time() {
    let mut pages = Vec::new();
    let mut draw = |what: &str, draw: &Draw| pages.push((what.to_owned(), draw()));
    run_with(&small(), &Rules(["fullest", "emptiest", "nearest"]), &mut Simulated, &mut draw).unwrap();
    let count = |what: &str| {
        let (_, page) = pages.iter().find(|(next, _)| next == what).unwrap();
        (page.findings.len(), page.sections.len())
    };
    assert_eq!(count("training EE"), (0, 0));
    assert_eq!(count("testing EE"), (0, 1), "training is drawn");
    // EE keeps one node in both tests, on permuted and on fewer nodes.
    assert_eq!(count("training LB"), (4, 4));
    assert!(pages[1].1.live_html("testing EE").contains("Now: testing EE."));
    assert!(!pages[1].1.html().contains("location"), "a page on disk fetches nothing");
}
