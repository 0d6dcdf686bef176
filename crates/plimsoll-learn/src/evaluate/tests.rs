use super::*;
use crate::spec::{LearnSpec, Objective};
use plimsoll_sim::report::catalogue::Better;

const SCENARIO: &str = r#"
name = "small"
[workload.generate]
kind = "poisson"
hours = 6
pods_per_hour = 60
[[pool]]
name = "n"
count = 40
cpu = 16
memory = "64Gi"
idle_watts = 50
full_watts = 150
[learn]
objective = "node-hours"
[learn.train]
window = "..2h"
[learn.evaluate]
from = "2h"
to = "5h"
count = 6
samples = [1001, 1002]
baselines = ["worst-fit", "best-fit", "lifetime-aware"]
"#;

fn evaluated(model: &str, objective: Option<Objective>) -> Result<(Evaluation, Runs), LearnError> {
    let scenario = Scenario::parse(SCENARIO).unwrap();
    let spec = LearnSpec::read(&scenario).unwrap();
    let own = model.to_owned();
    let make: Make<'_> = Box::new(move |_| Ok(policy::by_name(&own).unwrap()));
    let model = Contender::new("model", Role::Model, make)?;
    let contenders = against_baselines(model, &spec.baselines())?;
    let runs = run(&scenario, &spec.held_out(&scenario)?, &contenders, &|_, _| {})?;
    let objective = objective.map_or_else(|| spec.objective(), Ok)?;
    Ok((Evaluation::new(&runs, &contenders, objective, spec.gap_from())?, runs))
}

#[test]
fn a_better_policy_is_found_to_be_better_and_a_worse_one_worse() {
    let (evaluation, runs) = evaluated("best-fit", None).unwrap();
    assert_eq!((evaluation.windows, evaluation.samples, evaluation.over.as_str()), (6, 2, "windows"));
    let spread = evaluation.against("worst-fit").unwrap();
    assert_eq!((spread.verdict, spread.better, spread.worse), (Verdict::SignificantlyBetter, 6, 0));
    let (low, high) = spread.interval.unwrap();
    assert!(low < spread.relative.unwrap() && spread.relative.unwrap() < high && high < 0.0, "{spread:?}");
    let closed = spread.gap_closed.unwrap();
    assert!(closed > 0.3 && closed < 1.0, "{closed}");
    // It is best fit itself: no difference, and none of the gap is closed.
    let same = evaluation.against("best-fit").unwrap();
    assert_eq!((same.verdict, same.relative, same.gap_closed), (Verdict::NoDifference, Some(0.0), Some(0.0)));
    assert_eq!((evaluation.best_baseline.as_deref(), evaluation.verdict), (Some("best-fit"), Verdict::NoDifference));
    let (worse, _) = evaluated("worst-fit", None).unwrap();
    assert_eq!(worse.verdict, Verdict::SignificantlyWorse);
    let html = html(&evaluation, &runs);
    assert!(html.contains("against best-fit (the best baseline)") && html.contains("model on unseen windows"));
}

#[test]
fn the_clairvoyant_is_shown_and_is_no_baseline() {
    let (evaluation, _) = evaluated("best-fit", None).unwrap();
    let told = evaluation.policies.iter().find(|figures| figures.policy == TOLD_LIFETIMES).unwrap();
    assert_eq!(told.role, Role::Reference);
    assert!(evaluation.policies.iter().all(|figures| figures.mean >= evaluation.bound.unwrap()));
    assert!(
        evaluation.findings().iter().any(|finding| finding.starts_with("lifetime-aware is told how long pods run"))
    );
    let make: Make<'_> = Box::new(|_| Ok(policy::by_name("best-fit").unwrap()));
    assert!(Contender::new(TOLD_LIFETIMES, Role::Model, make).is_err());
}

#[test]
fn only_the_window_is_measured_and_runs_meet_the_same_pods() {
    let (evaluation, runs) = evaluated("best-fit", None).unwrap();
    for case in runs.runs.chunks(4) {
        assert!(case.iter().all(|run| (run.row.measures.hours - 0.5).abs() < 1e-6), "{}", case[0].row.measures.hours);
        assert!(case.iter().all(|run| run.row.measures.arrived == case[0].row.measures.arrived));
    }
    assert_eq!(evaluation.cases[0].window, "7200..9000");
    assert_eq!(evaluation.cases.len(), 12);
}

#[test]
fn equal_scenarios_give_equal_evaluations_and_json_says_it_all() {
    let first = evaluated("dot-product", None).unwrap().0;
    assert_eq!(first, evaluated("dot-product", None).unwrap().0);
    let json = serde_json::to_string(&first).unwrap();
    assert!(json.contains("plimsoll.dev/evaluation/v1"));
    assert_eq!(serde_json::from_str::<Evaluation>(&json).unwrap(), first);
    assert!(first.without_rows().rows.is_empty());
}

#[test]
fn more_may_be_better_and_what_is_not_measured_is_an_error() {
    let more = Objective::new("cpu-utilization", None).unwrap();
    let (evaluation, _) = evaluated("worst-fit", Some(more)).unwrap();
    let against = evaluation.against("best-fit").unwrap();
    assert_eq!((against.verdict, against.gap_closed, evaluation.bound), (Verdict::SignificantlyWorse, None, None));
    assert_eq!(evaluation.best_baseline.as_deref(), Some("best-fit"));
    let spread = Objective::new("cpu-spread", Some(Better::Less)).unwrap();
    assert_eq!(evaluated("worst-fit", Some(spread)).unwrap().0.best_baseline.as_deref(), Some("worst-fit"));
    let error = evaluated("best-fit", Some(Objective::new("cost", None).unwrap())).unwrap_err().to_string();
    assert!(error.contains("cost is not measured in scenario \"small\""), "{error}");
}
