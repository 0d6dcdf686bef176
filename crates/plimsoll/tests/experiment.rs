//! `plimsoll experiment`, as a user runs it.

#![expect(clippy::unwrap_used, reason = "the harness is test code, too")]

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Output, Stdio};

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

/// Asks for a page.
fn fetch(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    page
}

#[test]
fn a_report_is_served_while_the_experiment_runs() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args(["experiment", "qtable", "--steps", "100000000", "--quiet", "--serve", "127.0.0.1:0"])
        .env("NO_COLOR", "1")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
    let address = said.trim().strip_prefix("note: the report so far is at http://").unwrap().trim_end_matches('/');
    // A report comes every so many steps: training is drawn from the first one on.
    let page = loop {
        let page = fetch(address);
        assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
        if page.contains("<polyline") {
            break page;
        }
        assert!(child.try_wait().unwrap().is_none(), "it ended before a page showed its training");
    };
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(page.contains("Now: learning to balance, seeing 1 pods.") && page.contains("location.href"), "{page}");
    assert!(page.contains("Return of an episode") && page.contains("<b>0 of 0</b> held so far"), "{page}");
}

#[test]
fn a_report_is_not_served_to_other_machines_unless_allowed() {
    let output = plimsoll(&["experiment", "qtable", "--steps", "100", "--serve", "0.0.0.0:0"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("other machines") && error.contains("--allow-remote"), "{error}");
}
