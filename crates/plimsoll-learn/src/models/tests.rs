use super::*;
use crate::evaluate::{Figures, Role};
use crate::model::{NetworkCard, Tensor, TrainingCard};
use crate::spec::Objective;
use crate::train::tests::folder;

fn card(name: &str) -> Card {
    Card {
        schema: CARD_SCHEMA.into(),
        name: name.into(),
        description: "for tests".into(),
        network: NetworkCard::default(),
        node_features: vec!["free".into()],
        pod_features: vec![],
        ranges: vec![(0.0, 1.0)],
        base: "best-fit".into(),
        trust: 1.0,
        alone: false,
        training: TrainingCard::default(),
        figures: BTreeMap::new(),
    }
}

fn store(folder: &Path, name: &str, weight: f32) {
    let weights = Weights::from([("w".to_owned(), Tensor { shape: vec![1], data: vec![weight] })]);
    save(&folder.join(name), &card(name), &weights).unwrap();
}

/// An evaluation that found this against best fit, and that against another model.
fn evaluation(folder: &Path, model: &str, best: Verdict, other: Option<(&str, Verdict)>) -> Evaluation {
    let against = |policy: &str, role: Role, verdict: Verdict| Against {
        policy: policy.into(),
        role,
        relative: Some(-0.05),
        interval: Some((-0.06, -0.04)),
        better: 10,
        worse: 0,
        gap_closed: Some(0.4),
        serves_less: false,
        verdict,
    };
    let figures = |policy: &str, role: Role| Figures {
        policy: policy.into(),
        role,
        mean: 9.5,
        arrived: 100.0,
        rejected: 0.0,
        waiting: 0.0,
        wait_mean_s: 0.0,
        wait_p95_s: 0.0,
    };
    Evaluation {
        version: "plimsoll.dev/evaluation/v1".into(),
        scenario: "s".into(),
        model: model.into(),
        fingerprint: Some(fingerprint(&folder.join(model)).unwrap()),
        objective: Objective::new("kwh", None).unwrap(),
        windows: 10,
        samples: 1,
        over: "windows".into(),
        bound: Some(8.0),
        policies: vec![figures(model, Role::Model), figures("best-fit", Role::Baseline)],
        against: std::iter::once(against("best-fit", Role::Baseline, best))
            .chain(other.map(|(name, verdict)| against(name, Role::Incumbent, verdict)))
            .collect(),
        best_baseline: Some("best-fit".into()),
        gap_from: "best-fit".into(),
        verdict: best,
        cases: Vec::new(),
        rows: Vec::new(),
    }
}

/// When models are promoted here.
const NOW: &str = "2026-01-01T00:00:00Z";

use Verdict::{NoDifference, SignificantlyBetter};

#[test]
fn a_model_is_promoted_over_the_best_baseline_and_then_over_the_one_in_use() {
    let folder = folder("promote");
    store(&folder, "first", 1.0);
    store(&folder, "second", 2.0);
    let error =
        promote(&folder, "first", &evaluation(&folder, "first", NoDifference, None), NOW).unwrap_err().to_string();
    assert!(error.contains("against best-fit the difference is -5.00 %") && error.contains("no difference"), "{error}");
    assert!(promotions(&folder).unwrap().models.is_empty());
    let promotion = promote(&folder, "first", &evaluation(&folder, "first", SignificantlyBetter, None), NOW).unwrap();
    assert_eq!(promotion.over, "best-fit");
    // From now on, beating the baselines is not enough.
    let error = promote(&folder, "second", &evaluation(&folder, "second", SignificantlyBetter, None), NOW).unwrap_err();
    assert!(error.to_string().contains("first is in use for kwh, and the evaluation is not against it"), "{error}");
    let no_gain = evaluation(&folder, "second", SignificantlyBetter, Some(("first", NoDifference)));
    assert!(promote(&folder, "second", &no_gain, NOW).unwrap_err().to_string().contains("against first"));
    let gain = evaluation(&folder, "second", SignificantlyBetter, Some(("first", SignificantlyBetter)));
    assert_eq!(promote(&folder, "second", &gain, NOW).unwrap().over, "first");
    assert_eq!(incumbent(&folder, "kwh", "first").unwrap().as_deref(), Some("second"));
    assert_eq!(promotions(&folder).unwrap().models["kwh"].promoted_at, NOW);
    assert_eq!(in_use(&folder, "kwh").unwrap(), Some(folder.join("second")));
    assert_eq!(in_use(&folder, "cost").unwrap(), None);
    let listed = list(&folder).unwrap();
    let names: Vec<_> = listed.iter().map(|model| (model.name.as_str(), model.promoted_for.len())).collect();
    assert_eq!(names, [("first", 0), ("second", 1)]);
}

#[test]
fn what_was_evaluated_is_what_is_promoted() {
    let folder = folder("changed");
    store(&folder, "model", 1.0);
    let found = evaluation(&folder, "model", SignificantlyBetter, None);
    store(&folder, "model", 2.0);
    let error = promote(&folder, "model", &found, NOW).unwrap_err().to_string();
    assert!(error.contains("it was not evaluated as it is"), "{error}");
    promote(&folder, "model", &evaluation(&folder, "model", SignificantlyBetter, None), NOW).unwrap();
    store(&folder, "model", 3.0);
    let error = in_use(&folder, "kwh").unwrap_err().to_string();
    assert!(error.contains("evaluate and promote it again"), "{error}");
}

#[test]
fn a_model_whose_scores_mean_something_else_is_not_gone_on_from() {
    struct Takes;
    impl Agent for Takes {
        fn iterate(&mut self) -> Result<crate::agent::Report, LearnError> {
            Ok(crate::agent::Report::default())
        }
        fn state(&self) -> crate::agent::AgentState {
            crate::agent::AgentState::default()
        }
        fn restore(&mut self, _: &crate::agent::AgentState) -> Result<(), LearnError> {
            Ok(())
        }
        fn begin_with(&mut self, _: &Weights) -> Result<(), LearnError> {
            Ok(())
        }
        fn weights(&self) -> Weights {
            Weights::new()
        }
    }
    let folder = folder("meaning");
    store(&folder, "model", 1.0);
    let own = card("own");
    let model = folder.join("model");
    go_on_from(&model, &own, &mut Takes).unwrap();
    for (other, said) in [
        (Card { base: "worst-fit".into(), ..own.clone() }, "asks for adds to the scores of \"worst-fit\" with trust 1"),
        (Card { trust: 0.5, ..own.clone() }, "with trust 0.5"),
        (Card { alone: true, ..own.clone() }, "decides alone"),
    ] {
        let error = go_on_from(&model, &other, &mut Takes).unwrap_err().to_string();
        assert!(
            error.contains("it adds to the scores of \"best-fit\" with trust 1") && error.contains(said),
            "{error}"
        );
    }
    // What decides alone has its heuristic only to fall back to.
    let alone = Card { alone: true, ..card("alone") };
    save(&folder.join("alone"), &alone, &Weights::new()).unwrap();
    go_on_from(&folder.join("alone"), &Card { base: "random".into(), trust: 3.0, ..alone }, &mut Takes).unwrap();
}

#[test]
fn a_gain_by_turning_pods_away_is_none() {
    let folder = folder("unserved");
    store(&folder, "model", 1.0);
    let mut found = evaluation(&folder, "model", SignificantlyBetter, None);
    found.against[0].serves_less = true;
    let error = promote(&folder, "model", &found, NOW).unwrap_err().to_string();
    assert!(error.contains("leaves more pods without a machine than best-fit"), "{error}");
}

#[test]
fn what_an_evaluation_found_is_noted_in_the_card() {
    let folder = folder("record");
    store(&folder, "model", 1.0);
    record(&folder.join("model"), &evaluation(&folder, "model", SignificantlyBetter, None)).unwrap();
    let card = read_card(&folder.join("model")).unwrap();
    assert_eq!(card.figures["kwh"]["gapClosed"], 0.4);
    assert_eq!(card.figures["kwh"]["verdict"], "significantly-better");
}

#[test]
fn a_card_of_another_version_or_cut_off_is_refused_and_the_others_are_listed() {
    let folder = folder("cards");
    store(&folder, "good", 1.0);
    store(&folder, "bad", 1.0);
    let path = folder.join("bad").join(CARD_FILE);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("model/v1", "model/v9")).unwrap();
    assert!(read_card(&folder.join("bad")).unwrap_err().to_string().contains("version \"plimsoll.dev/model/v9\""));
    std::fs::write(&path, &text[..50]).unwrap();
    let listed = list(&folder).unwrap();
    assert!(listed[0].card.is_err() && listed[1].card.is_ok());
}
