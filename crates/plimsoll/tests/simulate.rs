//! `plimsoll simulate`, `compare`, `bounds` and `scenario`, as a user runs them.

#![expect(clippy::unwrap_used, reason = "the harness is test code, too")]

mod program;

use program::{bad, good};
use serde_json::Value;
use std::path::PathBuf;

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("plimsoll-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

const SMALL: &str = "--generate poisson --set hours=3 --nodes 90 --cpu 16 --memory 64Gi";

#[test]
fn a_run_is_told_as_a_table_and_as_json() {
    let table = good(&format!("simulate {SMALL} --policy best-fit"));
    for part in ["best-fit on 90 machines", "active_nodes", "kwh", "wait_p99_s", "kw_ratio", "Energy, in kWh."] {
        assert!(table.contains(part), "{part} is missing:\n{table}");
    }
    let json: Value =
        serde_json::from_str(&good(&format!("simulate {SMALL} --policy best-fit --format json"))).unwrap();
    assert_eq!(json["version"], "plimsoll.dev/results/v1");
    let row = &json["rows"][0];
    assert_eq!(row["policy"], "best-fit");
    assert!(row["measures"]["kwh"].as_f64().unwrap() > 0.0 && row["active_nodes_ratio"].as_f64().unwrap() >= 1.0);
}

#[test]
fn equal_seeds_give_equal_placements_and_other_seeds_others() {
    let checksum = |seed: u32| {
        let json: Value =
            serde_json::from_str(&good(&format!("simulate {SMALL} --policy random --seed {seed} --format json")))
                .unwrap();
        json["rows"][0]["placements_checksum"].as_str().unwrap().to_owned()
    };
    assert_eq!(checksum(7), checksum(7));
    assert_ne!(checksum(7), checksum(8));
}

#[test]
fn every_decision_is_written_down_on_demand() {
    let path = folder("timeline").join("t.jsonl");
    good(&format!("simulate {SMALL} --policy default --timeline {}", path.display()));
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let count = |key: &str| lines.iter().filter(|line| !line[key].is_null()).count();
    assert_eq!(count("node"), 90);
    assert!(
        count("pod") > 500 && count("place") == count("pod"),
        "{} pods, {} placements",
        count("pod"),
        count("place")
    );
}

#[test]
fn a_comparison_is_paired_and_goes_on_where_it_was_interrupted() {
    let folder = folder("compare");
    let args = format!("compare {SMALL} --policies default,best-fit --seeds 2 --quiet --report {}", folder.display());
    let first = good(&args);
    assert!(first.contains("2 policies on 2 cases") && first.contains("best-fit"), "{first}");
    let runs = folder.join("runs.jsonl");
    let kept = std::fs::read_to_string(&runs).unwrap();
    assert_eq!(kept.lines().count(), 4);
    // The last run is cut off, as by a crash.
    std::fs::write(&runs, &kept[..kept.len() - 40]).unwrap();
    let again = good(&args);
    assert!(again.contains("3 runs known from before"), "{again}");
    let table = |text: &str| text.lines().take(4).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(table(&first), table(&again));
    let html = std::fs::read_to_string(folder.join("index.html")).unwrap();
    assert!(html.contains("<svg") || html.contains("application/json"), "the report has plots");
    for fetches in ["src=\"http", "href=\"http", "url(http", "@import", "fetch(", "XMLHttpRequest"] {
        assert!(!html.contains(fetches), "the report needs something from elsewhere: {fetches}");
    }
}

#[test]
fn windows_are_cases_of_their_own() {
    let json: Value = serde_json::from_str(&good(&format!(
        "compare {SMALL} --policies best-fit --windows 0s..1h,1h..2h --carry-over --quiet --format json"
    )))
    .unwrap();
    let windows: Vec<_> = json["rows"].as_array().unwrap().iter().map(|row| row["window"].as_str().unwrap()).collect();
    assert_eq!(windows, ["0..3600", "3600..7200"]);
}

#[test]
fn bounds_are_below_what_policies_reach_and_exact_ones_are_tighter() {
    let small = "--generate poisson --set hours=1 --set pods_per_hour=12 --nodes 4 --cpu 8 --memory 32Gi";
    let json: Value = serde_json::from_str(&good(&format!("bounds {small} --exact --format json"))).unwrap();
    let (fluid, exact) = (&json["fluid"]["active_nodes"], &json["exact"]["active_nodes"]);
    assert!(fluid.as_f64().unwrap() <= exact.as_f64().unwrap() + 1e-9, "{json}");
    let run: Value = serde_json::from_str(&good(&format!("simulate {small} --policy best-fit --format json"))).unwrap();
    let reached = run["rows"][0]["measures"]["active_nodes"].as_f64().unwrap();
    assert!(exact.as_f64().unwrap() <= reached + 1e-6, "{exact} {reached}");
    assert!(bad(&format!("bounds {SMALL} --exact")).contains("take a shorter window"));
}

#[test]
fn scenarios_are_checked_and_have_a_schema() {
    assert!(
        good("scenario check examples/scenarios/shop.toml").contains("online shop: 81 pods on 12 machines in 2 pools")
    );
    let schema: Value = serde_json::from_str(&good("scenario schema")).unwrap();
    assert!(schema["properties"]["pool"].is_object());
    let path = folder("scenario").join("wrong.toml");
    std::fs::write(&path, "name = 'x'\n[[pool]]\nname = 'n'\ncount = 'many'\n").unwrap();
    let error = bad(&format!("scenario check {}", path.display()));
    assert!(error.contains("wrong.toml: line 4"), "{error}");
}

#[test]
fn what_cannot_be_run_is_said() {
    assert!(bad("simulate --nodes 3").contains("name a workload"));
    assert!(bad("simulate --generate poisson").contains("[[pool]]"));
    assert!(bad(&format!("simulate {SMALL} --policy guess")).contains("there is no policy \"guess\""));
    assert!(bad(&format!("compare {SMALL} --policies default,guess --quiet")).contains("there is no policy \"guess\""));
    assert!(bad("simulate --trace azure=absent.csv --nodes 2").contains("absent.csv: cannot be read"));
    assert!(bad(&format!("simulate {SMALL} --warmup 2")).contains("run.warmup"));
}
