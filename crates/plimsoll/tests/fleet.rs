//! `plimsoll fleet`, as a user runs it.

#![expect(clippy::unwrap_used, reason = "the harness is test code, too")]

mod program;

use program::{bad, good, plimsoll};
use serde_json::Value;

const SMALL: &str =
    "fleet --generate poisson --set hours=2 --catalogue examples/fleet/machines.toml --policy best-fit --runs 60";

#[test]
fn fleets_are_told_as_a_table_with_their_bound() {
    let table = good(SMALL);
    for part in ["Least cost for", "with policy best-fit", "x BOUND", "NEVER PLACED", "cannot come below", "rx1330"] {
        assert!(table.contains(part), "{part} is missing:\n{table}");
    }
}

#[test]
fn fleets_are_told_as_json_and_the_same_seed_has_the_same_answer() {
    let args = format!("{SMALL} --objective carbon --top 2 --holdout 0.3 --risk 0.05 --wait 2m --json");
    let text = || String::from_utf8(plimsoll(&args).stdout).unwrap();
    let first = text();
    assert_eq!(first, text());
    let json: Value = serde_json::from_str(&first).unwrap();
    assert_eq!(json["version"], "plimsoll.dev/fleet/v1");
    assert_eq!((&json["objective"], &json["wait_s"]), (&"carbon".into(), &120.0.into()));
    let fleets = json["fleets"].as_array().unwrap();
    assert!((1..=3).contains(&fleets.len()), "{first}");
    for fleet in fleets {
        assert!(fleet["ratio"].as_f64().unwrap() >= 1.0, "{fleet}");
        assert!(fleet["figures"]["late_share"].as_f64().unwrap() <= 0.05, "{fleet}");
        assert!(fleet["figures"]["embodied_kg"].as_f64().unwrap() > 0.0, "{fleet}");
        assert!(fleet["held_out"]["figures"]["pods"].as_u64().unwrap() > 0, "{fleet}");
    }
}

#[test]
fn what_cannot_be_answered_is_said() {
    assert!(bad("fleet --generate poisson").contains("--catalogue"));
    assert!(bad("fleet --catalogue examples/fleet/machines.toml").contains("name a workload"));
    assert!(bad("fleet --generate poisson --catalogue absent.toml").contains("absent.toml: cannot be read"));
    assert!(bad(&format!("{SMALL} --risk 2")).contains("risk of 2"));
    let path = std::env::temp_dir().join(format!("plimsoll-fleet-{}.toml", std::process::id()));
    let tiny = "[[machine]]\nname = 'tiny'\ncpu = '500m'\nmemory = '64Gi'\nidle_watts = 1\nfull_watts = 2\nprice = 1\nmost = 9\n";
    std::fs::write(&path, tiny).unwrap();
    let error = bad(&format!("fleet --generate poisson --set hours=2 --catalogue {}", path.display()));
    assert!(error.contains("pod default/") && error.contains("tiny lacks"), "{error}");
}
