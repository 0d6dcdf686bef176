use super::*;

#[test]
fn tables_learn_both_objectives_and_the_order_of_nodes_does_not_matter() {
    let mut settings = QTableSettings { lookaheads: vec![1], episodes: 5, ..QTableSettings::default() };
    settings.agent.steps = 20_000;
    let (all, experiment) = run(&settings, &mut |_, _| {}).unwrap();
    assert_eq!(all.len(), 2);
    for finding in &experiment.findings {
        // Whether the default scheduler is beaten takes longer training.
        assert!(finding.held || finding.expected.contains("without"), "{finding:?}");
    }
    for learned in &all {
        assert!(learned.table.len() > 100, "{}", learned.table.len());
        assert!(learned.scores.learned > learned.scores.lot, "{:?}", learned.scores);
    }
    let html = experiment.html();
    assert!(
        html.contains("three-node prototype") && html.matches("<svg").count() == 7,
        "{}",
        html.matches("<svg").count()
    );
}

#[test]
fn a_longer_lookahead_is_seen() {
    let (_, one) = cluster::features(1);
    let (_, three) = cluster::features(3);
    assert_eq!((one.len(), three.len()), (1, 3));
    let mut environment = cluster::environment("balance", 3, 3, Shuffle::Never).unwrap();
    environment.reset(5).unwrap();
    let pod = &environment.observation().pod;
    assert!(pod.len() == 3 && pod.iter().all(|value| *value > 0.0), "three pods come at once: {pod:?}");
    let action = environment.observation().mask.iter().position(|allowed| *allowed).unwrap();
    environment.step(action).unwrap();
    assert_eq!(environment.observation().pod[2], 0.0, "two are left");
}

#[test]
fn an_experiment_without_episodes_is_refused() {
    assert!(run(&QTableSettings { episodes: 0, ..QTableSettings::default() }, &mut |_, _| {}).is_err());
}
