use super::*;
use crate::measures::{Bounds, Measures, Row};

fn run(scenario: &str, policy: &str, seed: u64, kw: f64) -> Run {
    let measures =
        Measures { mean_kw: kw, active_nodes: 10.0 * kw, cpu_utilization: 0.5, hours: 9.0, ..Measures::default() };
    let bounds = Bounds { active_nodes: 8.0, mean_kw: 1.0 };
    let row = Row {
        scenario: scenario.into(),
        policy: policy.into(),
        window: "0..36000".into(),
        seed,
        measures,
        bounds,
        active_nodes_ratio: 10.0 * kw / 8.0,
        kw_ratio: kw,
        placements_checksum: String::new(),
    };
    let series = Series {
        hours: vec![0.0, 5.0, 10.0],
        active_nodes: vec![1.0, 2.0, f64::NAN],
        kw: vec![kw; 3],
        wait_upper_s: vec![0.0, 1.0, f64::INFINITY],
        wait_count: vec![5, 1, 0],
        ..Series::default()
    };
    Run { row, series }
}

fn page(runs: &[Run], baseline: Option<&str>) -> String {
    html(&Report { title: "A <comparison>", runs, baseline, bounds: &[] })
}

#[test]
fn findings_stand_above_the_tables_as_text() {
    let runs = [run("s", "p", 1, 1.0)];
    let report = Report { title: "t", runs: &runs, baseline: None, bounds: &[] };
    let page = html_with_preface(&report, &["a < b".to_owned()]);
    let (before, _) = page.split_once("class=\"overview\"").unwrap();
    assert!(before.contains("<h2>Findings</h2>") && before.contains("<li>a &lt; b</li>"));
    assert!(!html(&report).contains("Findings"));
}

fn embedded(page: &str) -> Value {
    let (_, rest) = page.split_once("id=\"data\">").unwrap();
    let (text, _) = rest.split_once("</script>").unwrap();
    serde_json::from_str(text).unwrap()
}

#[test]
fn names_are_text_wherever_they_appear() {
    let nasty = "</script><script>alert('x')</script>\"&<!--";
    let page = page(&[run(nasty, nasty, 1, 1.0), run(nasty, "plain", 1, 1.0)], None);
    assert!(!page.contains("<script>alert") && !page.contains("<!--") && page.contains("A &lt;comparison&gt;"));
    assert_eq!(page.matches("</script>").count(), 2, "one for the data, one for the script");
    assert_eq!(embedded(&page)["policies"], json!([nasty, "plain"]));
}

#[test]
fn nothing_is_fetched() {
    let page = page(&[run("s", "a", 1, 1.0)], None);
    let without_namespace = page.replace("http://www.w3.org/2000/svg", "");
    for forbidden in ["http:", "https:", "src=", "href=", "@import", "url(", "fetch("] {
        assert!(!without_namespace.contains(forbidden), "{forbidden}");
    }
}

#[test]
fn differences_pair_runs_of_the_same_case_with_the_baseline() {
    let runs = [
        run("s", "a", 1, 1.0),
        run("s", "a", 2, 3.0),
        run("s", "b", 2, 2.5),
        run("s", "b", 1, 0.5),
        run("s", "b", 3, 99.0),
    ];
    let data = embedded(&page(&runs, Some("a")));
    let measures = data["measures"].as_array().unwrap();
    let kw = measures.iter().position(|measure| measure["key"] == "mean_kw").unwrap();
    let rows = data["scenarios"][0]["differences"].as_array().unwrap();
    let row = rows.iter().find(|row| row["measure"] == kw).unwrap();
    assert_eq!(row["policies"][0], Value::Null, "the baseline is not compared with itself");
    assert_eq!((&row["policies"][1]["mean"], &row["policies"][1]["pairs"]), (&json!(-0.5), &json!(2)));
    assert_eq!(row["policies"][1]["less"], 2);
}

#[test]
fn the_table_shows_means_over_cases_with_units_and_definitions() {
    let page = page(&[run("s", "a", 1, 1.0), run("s", "a", 2, 2.0), run("s", "b", 1, 4.0)], Some("b"));
    assert!(page.contains("<td data-value=\"1.5\" class=\"best\">1.50</td>"), "the mean of a's power is best");
    assert!(page.contains("</i>b <small class=\"tag\">baseline</small> <small class=\"tag\">1 of 2 cases</small>"));
    assert!(page.contains("title=\"Power, in kW, on average over time.\""));
    assert!(page.contains("<td data-value=\"50\">50.0</td>"), "shares are per cent");
    assert!(!page.contains(">CO₂<"), "what was never measured has no column");
}

#[test]
fn values_that_are_no_numbers_are_gaps() {
    let mut odd = run("s", "a", 1, 1.0);
    odd.row.kw_ratio = f64::NAN;
    odd.row.measures.kwh = f64::INFINITY;
    let page = page(&[odd], None);
    assert!(!page.contains("NaN<") && !page.contains("inf<"));
    let series = &embedded(&page)["cases"][0]["runs"][0]["series"];
    assert_eq!(series["active_nodes"], json!([1, 2, null]));
    assert_eq!(series["wait_upper_s"], json!([0, 1, null]));
}

#[test]
fn bounds_are_drawn_with_the_case_they_belong_to() {
    let series =
        BoundSeries { hours: vec![1.0], step_hours: vec![2.0], active_nodes: vec![3.25], kw: vec![0.123_456_7] };
    let bounds = [CaseBound { scenario: "s".into(), window: "0..36000".into(), seed: 2, series }];
    let runs = [run("s", "a", 1, 1.0), run("s", "a", 2, 1.0)];
    let data = embedded(&html(&Report { title: "t", runs: &runs, baseline: None, bounds: &bounds }));
    assert_eq!(data["cases"][0]["bound"], Value::Null);
    assert_eq!(data["cases"][1]["bound"], json!({ "hours": [1], "active_nodes": [3.25], "kw": [0.12346] }));
    assert_eq!(data["cases"][1]["from"], 1.0, "the series is ten hours long, nine of them measured");
}

#[test]
fn without_runs_there_is_a_page_that_says_so() {
    let page = page(&[], Some("a"));
    assert!(page.contains("0 runs") && page.ends_with("</html>\n"));
}

#[test]
fn many_cases_are_counted_in_the_tables_and_drawn_in_part() {
    let runs: Vec<Run> = (0..20).map(|seed| run("s", "a", seed, 1.0)).collect();
    let page = page(&runs, None);
    assert_eq!(embedded(&page)["cases"].as_array().unwrap().len(), MOST_DRAWN);
    assert!(page.contains("Means over 20 cases") && page.contains("the first 12 of 20"));
}
