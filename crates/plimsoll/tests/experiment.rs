//! `plimsoll experiment`, as a user runs it.

#![expect(clippy::unwrap_used, reason = "the harness is test code, too")]

use serde_json::Value;
use std::process::{Command, Output};

fn plimsoll(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_plimsoll")).args(args).env("NO_COLOR", "1").output().unwrap()
}

#[test]
fn an_experiment_says_what_held_and_writes_a_page() {
    let page = std::env::temp_dir().join(format!("plimsoll-experiment-{}.html", std::process::id()));
    let path = page.to_str().unwrap();
    let args =
        ["experiment", "qtable", "--steps", "3000", "--lookahead", "1", "--quiet", "--format", "json", "--out", path];
    let output = plimsoll(&args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = result["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 8);
    assert!(findings.iter().all(|finding| finding["held"].is_boolean() && finding["evidence"].is_string()));
    let html = std::fs::read_to_string(&page).unwrap();
    std::fs::remove_file(&page).unwrap();
    assert!(html.starts_with("<!doctype html>") && html.contains("<svg") && !html.contains("src="));
}

#[test]
fn an_experiment_that_cannot_be_is_refused() {
    let output = plimsoll(&["experiment", "thesis", "--nodes", "1", "--quiet"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("at least 3 nodes"), "{error}");
    assert_eq!(plimsoll(&["experiment", "guess"]).status.code(), Some(2));
}
