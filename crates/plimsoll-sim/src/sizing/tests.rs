//! Small cases whose best fleet is known, because every fleet is tried.

use super::bench::{Bench, Part};
use super::*;
use crate::compare::by_name;
use crate::fleet::Fleet;
use crate::scenario::Scenario;
use crate::workload::testing::{file, shared};
use crate::workload::{Lifetime, PodRecord, Template, Workload};
use plimsoll_core::rng::Rng;

const TWO_KINDS: &str = r#"
[[machine]]
name = "small"
cpu = 4
memory = "16Gi"
idle_watts = 30
full_watts = 90
price = 1.0
embodied_kg = 300
most = 7
region = "r"

[[machine]]
name = "large"
cpu = 16
memory = "32Gi"
idle_watts = 80
full_watts = 240
price = 3.1
embodied_kg = 900
most = 3
region = "r"

[carbon.regions]
r = 400
"#;

fn machines(text: &str) -> Machines {
    toml::from_str(text).unwrap()
}

fn pod(number: usize, template: u32, arrival: u64, lifetime: u64) -> PodRecord {
    PodRecord {
        name: format!("pod-{number}").into(),
        template,
        owner: 0,
        arrival: Duration::from_secs(arrival),
        lifetime: Some(Lifetime::exactly(Duration::from_secs(lifetime))),
        usage: None,
    }
}

fn templates(cpus: &[i64]) -> Vec<Template> {
    cpus.iter().map(|cpu| Template { cpu_milli: cpu * 1000, memory: cpu << 31, ..Template::default() }).collect()
}

/// Pods of one to five threads that come over two hours.
fn some_pods(seed: u64) -> Workload {
    let mut rng = Rng::new(seed);
    let mut below = |most: u64| rng.next_u64() % most;
    let mut pods: Vec<_> = (0..45).map(|_| (below(7200), below(4) as u32, 300 + below(3000))).collect();
    pods.sort_unstable();
    let pods = pods.into_iter().enumerate();
    let pods = pods.map(|(number, (arrival, template, lifetime))| pod(number, template, arrival, lifetime)).collect();
    Workload { templates: templates(&[1, 2, 3, 5]), pods, ..Workload::default() }
}

fn prepared(machines: &Machines, workload: Workload) -> Prepared {
    let scenario = machines.scenario(Scenario::default());
    let fleet: Fleet = scenario.fleet().unwrap();
    let mut settings = scenario.settings(3).unwrap();
    settings.warmup = 0.0;
    Prepared { workload, fleet, world: scenario.world(3).unwrap(), settings }
}

fn question(objective: Objective) -> Question {
    Question {
        objective,
        policy: "best-fit".into(),
        risk: 0.03,
        wait: Duration::from_secs(30),
        runners_up: 3,
        most_runs: 400,
        holdout: None,
        autoscale: false,
    }
}

fn ask(question: &Question, machines: &Machines, workload: Workload) -> Result<Answer, SizingError> {
    size(question, machines, &prepared(machines, workload), &by_name)
}

/// The least that any fleet comes to that keeps the risk, by trying all.
fn by_enumeration(question: &Question, machines: &Machines, workload: Workload) -> Option<f64> {
    let prepared = prepared(machines, workload);
    let kinds = machines.kinds(&prepared.fleet);
    let bench = Bench::new(question, &kinds, &prepared.world, &by_name);
    let part = Part { workload: Cow::Borrowed(&prepared.workload), settings: prepared.settings.clone() };
    let sizes = (0..=kinds[0].most).flat_map(|small| (0..=kinds[1].most).map(move |large| [small, large]));
    let figures =
        sizes.filter(|sizes| *sizes != [0, 0]).map(|sizes| bench.run(&part, &Candidate::fixed(sizes)).unwrap());
    let kept = figures.filter(|figures| figures.keeps(question.risk));
    kept.map(|figures| figures.value(question.objective)).reduce(f64::min)
}

#[test]
fn the_best_fleet_is_that_of_all_fleets_tried_and_never_below_the_bound() {
    let machines = machines(TWO_KINDS);
    for (seed, objective, risk, wait) in [
        (1, Objective::Cost, 0.03, 30),
        (2, Objective::Cost, 0.0, 0),
        (3, Objective::Cost, 0.1, 300),
        (4, Objective::Energy, 0.03, 30),
        (5, Objective::Energy, 0.0, 0),
        (6, Objective::Carbon, 0.03, 60),
        (7, Objective::Carbon, 0.2, 600),
    ] {
        let question = Question { risk, wait: Duration::from_secs(wait), ..question(objective) };
        let answer = ask(&question, &machines, some_pods(seed)).unwrap();
        let least = by_enumeration(&question, &machines, some_pods(seed)).unwrap();
        let found = answer.fleets[0].figures.value(objective);
        assert!((found - least).abs() <= 1e-9 * least, "{objective:?} {seed}: found {found}, least {least}");
        assert!(answer.bound > 0.0 && answer.bound <= least, "{objective:?} {seed}: {} {least}", answer.bound);
        assert!(answer.fleets.iter().all(|row| row.figures.keeps(risk) && row.ratio >= 1.0), "{:?}", answer.fleets);
        assert!(answer.fleets.is_sorted_by_key(|row| row.figures.value(objective)));
    }
}

#[test]
fn machines_that_sleep_change_what_is_best_and_the_bound_holds_for_them_too() {
    let text = format!("{TWO_KINDS}\n[power]\nsleep_after = '1m'\nsleep_watts = 3");
    let machines = machines(&text);
    for (seed, objective) in [(11, Objective::Energy), (12, Objective::Carbon)] {
        let question = question(objective);
        let answer = ask(&question, &machines, some_pods(seed)).unwrap();
        let least = by_enumeration(&question, &machines, some_pods(seed)).unwrap();
        let found = answer.fleets[0].figures.value(objective);
        assert!((found - least).abs() <= 1e-9 * least, "{objective:?} {seed}: found {found}, least {least}");
        assert!(answer.bound <= least, "{objective:?}: {} {least}", answer.bound);
    }
}

#[test]
fn the_answer_does_not_depend_on_how_many_cores_there_are() {
    let machines = machines(TWO_KINDS);
    let question = Question { autoscale: true, holdout: Some(0.3), most_runs: 40, ..question(Objective::Carbon) };
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| ask(&question, &machines, some_pods(21)).unwrap())
    };
    assert_eq!(on(1), on(4));
}

#[test]
fn pods_that_few_machines_can_run_make_the_bound_tighter() {
    // The large pods need large machines, though small ones are cheaper for the rest.
    let machines = machines(&TWO_KINDS.replace("price = 1.0", "price = 0.2"));
    let pods = (0..4).map(|number| pod(number, 0, 10 * number as u64, 3600)).collect();
    let workload = Workload { templates: templates(&[9]), pods, ..Workload::default() };
    let question = Question { risk: 0.25, wait: Duration::ZERO, ..question(Objective::Cost) };
    let prepared = prepared(&machines, workload.clone());
    let prepared =
        Prepared { settings: Settings { horizon: Some(Duration::from_secs(3600)), ..prepared.settings }, ..prepared };
    let answer = size(&question, &machines, &prepared, &by_name).unwrap();
    let names: Vec<_> = answer.fleets[0].pools.iter().map(|pool| (pool.name.as_str(), pool.max)).collect();
    assert_eq!(names, [("large", 3)], "a pod of four may wait");
    assert!(answer.bound > 3.1 * 27.0 / 16.0 - 0.01, "three pods of 9 threads need large machines: {}", answer.bound);
}

#[test]
fn a_pod_that_no_machine_holds_is_named_with_what_is_lacking() {
    let mut workload = some_pods(1);
    workload.templates.push(Template { cpu_milli: 20_500, memory: 1 << 30, ..Template::default() });
    workload.pods[7].template = 4;
    let error = ask(&question(Objective::Cost), &machines(TWO_KINDS), workload).unwrap_err().to_string();
    for part in ["pod default/pod-7 asks for 20.5 CPU", "small lacks 16.5 CPU", "large lacks 4.5 CPU"] {
        assert!(error.contains(part), "{part} is missing: {error}");
    }
}

#[test]
fn a_catalogue_with_too_few_machines_is_said_with_what_is_needed() {
    let few = machines(&TWO_KINDS.replace("most = 7", "most = 1").replace("most = 3", "most = 1"));
    let error = ask(&question(Objective::Cost), &few, some_pods(1)).unwrap_err().to_string();
    assert!(error.contains("of large has 16 CPU") && error.contains("Raise `most`"), "{error}");
    // Enough for a fluid, not for whole pods: four of three threads do not fit on three machines of four.
    let pods = (0..4).map(|number| pod(number, 0, number as u64, 900)).collect();
    let workload = Workload { templates: templates(&[3]), pods, ..Workload::default() };
    let three = machines(
        &TWO_KINDS
            .replace("most = 7", "most = 3")
            .replace("most = 3\nregion = \"r\"\n\n[carbon", "most = 0\nregion = \"r\"\n\n[carbon"),
    );
    let mut prepared = prepared(&three, workload);
    prepared.settings.horizon = Some(Duration::from_secs(600));
    let question = Question { risk: 0.0, ..question(Objective::Cost) };
    let error = size(&question, &three, &prepared, &by_name).unwrap_err().to_string();
    assert!(error.contains("25.000 % of the pods wait") && error.contains("1 never placed"), "{error}");
}

#[test]
fn what_cannot_be_asked_is_said() {
    let unpriced = machines(&TWO_KINDS.replace("price = 3.1", ""));
    let error = ask(&question(Objective::Cost), &unpriced, some_pods(1)).unwrap_err().to_string();
    assert!(error.contains("machine \"large\" has no price"), "{error}");
    let dark = machines(TWO_KINDS.split("[carbon").next().unwrap());
    let error = ask(&question(Objective::Carbon), &dark, some_pods(1)).unwrap_err().to_string();
    assert!(error.contains("[carbon.regions]"), "{error}");
    for (question, problem) in [
        (Question { risk: 1.0, ..question(Objective::Cost) }, "risk of 1"),
        (Question { holdout: Some(1.5), ..question(Objective::Cost) }, "1.5 is no share of the time"),
        (Question { policy: "guess".into(), ..question(Objective::Cost) }, "there is no policy \"guess\""),
    ] {
        let error = ask(&question, &machines(TWO_KINDS), some_pods(1)).unwrap_err().to_string();
        assert!(error.contains(problem), "{problem}: {error}");
    }
}

#[test]
fn mistakes_in_a_catalogue_are_named_with_their_line() {
    let machine = "[[machine]]\nname = 'a'\ncpu = 4\nmemory = '8Gi'\nidle_watts = 1\nfull_watts = 2\n";
    for (text, problem) in [
        (machine.to_owned(), "`most` is missing"),
        (format!("{machine}most = 3\ncount = 2"), "no count and no scaling"),
        (format!("{machine}most = 3\nprize = 2"), "unknown field `prize`"),
        (format!("{machine}most = 3\nleast = 4"), "least 4 is more than most 3"),
        (format!("{machine}most = 'all'"), "most: invalid type"),
        (format!("{machine}most = 3\nembodied_kg = -1.0"), "embodied_kg -1"),
        (String::new(), "[[machine]]"),
    ] {
        let path = file("machines.toml", &text);
        let error = Machines::read(&path).unwrap_err().to_string();
        assert!(error.contains(problem), "{problem}: {error}");
        assert_eq!(error.contains("line 1"), !text.is_empty(), "{error}");
    }
}

#[test]
fn a_fleet_is_checked_on_what_it_was_not_chosen_by() {
    // After an hour and a half twice as many pods come.
    let mut pods = Vec::new();
    for minute in 0..120_u64 {
        let more = if minute < 90 { 1 } else { 2 };
        pods.extend((0..more).map(|_| pod(0, 0, minute * 60, 600)));
    }
    for (number, pod) in pods.iter_mut().enumerate() {
        pod.name = format!("pod-{number}").into();
    }
    let workload = Workload { templates: templates(&[1]), pods, ..Workload::default() };
    let question = Question { holdout: Some(0.25), ..question(Objective::Cost) };
    let answer = ask(&question, &machines(TWO_KINDS), workload).unwrap();
    let held_out = answer.fleets[0].held_out.as_ref().unwrap();
    assert!(answer.fleets[0].figures.keeps(0.03) && !held_out.keeps_risk, "{answer:?}");
    assert!(held_out.figures.pods >= 60 && held_out.figures.late > 10, "{held_out:?}");
}

#[test]
fn pools_that_shrink_after_a_short_peak_cost_less() {
    let mut pods: Vec<_> = (0..40).map(|number| pod(number, 0, 60 * number as u64, 900)).collect();
    pods.extend((40..80).map(|number| pod(number, 0, 2400 + number as u64, 1200)));
    pods.extend((80..120).map(|number| pod(number, 0, 2500 + 300 * (number as u64 - 79), 900)));
    let workload = Workload { templates: templates(&[1]), pods, ..Workload::default() };
    let question =
        Question { autoscale: true, wait: Duration::from_secs(200), risk: 0.05, ..question(Objective::Cost) };
    let answer = ask(&question, &machines(TWO_KINDS), workload).unwrap();
    let (fixed, elastic) = (&answer.fleets[0].figures, &answer.elastic[0].figures);
    assert!(elastic.cost.unwrap() < 0.6 * fixed.cost.unwrap(), "{elastic:?} {fixed:?}");
    assert!(elastic.keeps(0.05) && elastic.machines < fixed.machines);
    assert!(answer.elastic_bound.unwrap() <= elastic.cost.unwrap(), "{answer:?}");
    assert!(answer.elastic_bound.unwrap() <= answer.bound);
}

#[test]
fn a_recorded_workload_gets_a_fleet_near_its_bound() {
    let Some(path) = shared("traces/azure-v1-2017/azure_v1_dev.csv.gz") else { return };
    let machines = machines(&TWO_KINDS.replace("most = 7", "most = 400").replace("most = 3", "most = 400"));
    let mut scenario = machines.scenario(Scenario::default());
    scenario.workload.file = Some(path);
    scenario.select.sample = Some(0.002);
    scenario.run.warmup = 0.0;
    let trace = scenario.trace(&scenario.fleet().unwrap()).unwrap();
    let prepared = scenario.prepare(&trace, 1).unwrap();
    let answer = size(&question(Objective::Cost), &machines, &prepared, &by_name).unwrap();
    let ratio = answer.fleets[0].ratio;
    assert!((1.0..3.0).contains(&ratio), "{ratio}: {:?}", answer.fleets[0]);
}
