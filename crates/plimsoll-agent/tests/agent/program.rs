//! The program itself: how it starts, what it refuses, how it ends.

use crate::server::{Folder, Program, command, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::process::Stdio;

#[test]
fn it_serves_until_it_is_told_to_end_and_releases_what_it_holds() {
    let folder = Folder::new();
    let token = folder.write("token", "0123456789abcdef-secret\n");
    let config = folder.write("agent.toml", "");
    let args = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--token-file",
        token.to_str().unwrap(),
        "--config",
        config.to_str().unwrap(),
    ];
    let (mut program, mut client) = Program::start(&args);
    client.get("/healthz").with(200);
    client.get("/v1/energy").with(401);
    client.token = Some("0123456789abcdef-secret".to_owned());
    client.post("/v1/blocks", &json!({ "cpu": 0.5, "memoryMib": 8, "seconds": 600, "ttlSeconds": 300 })).with(201);
    kill_process(Pid::from_child(&program.0), Signal::TERM).unwrap();
    let status = until(|| program.0.try_wait().unwrap());
    assert!(status.success(), "it ended with {status}");
}

#[test]
fn the_service_for_experiments_starts_and_ends() {
    let (mut program, client) = Program::start(&["app", "--listen", "127.0.0.1:0", "--max-ms", "50"]);
    client.get("/cpu?ms=1").with(200);
    client.get("/cpu?ms=51").with(422);
    kill_process(Pid::from_child(&program.0), Signal::INT).unwrap();
    assert!(until(|| program.0.try_wait().unwrap()).success());
}

#[test]
fn what_is_unsafe_or_unknown_is_refused_with_a_reason() {
    let folder = Folder::new();
    let short = folder.write("short", "abc\n");
    let wrong = folder.write("wrong.toml", "[latency]\nwindow = 0\n");
    let (short, wrong) = (short.to_str().unwrap(), wrong.to_str().unwrap());
    for (args, expected) in [
        (vec!["serve", "--listen", "0.0.0.0:0"], "give --token-file"),
        (vec!["serve", "--listen", "0.0.0.0:0", "--token-file", short], "at least 16"),
        (vec!["serve", "--token-file", "/no/such/token"], "/no/such/token"),
        (vec!["serve", "--config", wrong], "latency.window is 0"),
        (vec!["serve", "--config", "/no/such.toml"], "/no/such.toml"),
    ] {
        let output = command(&args).stderr(Stdio::piped()).output().unwrap();
        let words = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {words}");
        assert!(words.contains(expected), "expected {expected:?} in {words:?}");
    }
}

#[test]
fn the_power_of_the_node_is_printed_once() {
    let folder = Folder::new();
    let curve =
        format!("[energy]\npowercap = '{}'\n[energy.curve]\nidle_watts = 10\nfull_watts = 20\n", folder.0.display());
    let config = folder.write("agent.toml", &curve);
    let output =
        command(&["energy", "--once", "--config", config.to_str().unwrap()]).stdout(Stdio::piped()).output().unwrap();
    assert!(output.status.success());
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["source"], "estimate");
}
