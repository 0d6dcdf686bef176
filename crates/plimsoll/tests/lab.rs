//! `plimsoll lab` as its users meet it, on the real control plane. Where that is not built (`make lab`), the test says so and passes.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "the harness is test code, too")]

use plimsoll_lab::{Binaries, State};
use std::path::Path;
use std::process::{Command, Output};

fn plimsoll(arguments: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.arg("lab").args(arguments).arg("--dir").arg(folder).env("NO_COLOR", "1");
    command.output().unwrap()
}

#[track_caller]
fn expect(output: &Output, status: i32, text: &str) {
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(status), "{said}");
    assert!(said.contains(text), "expected {text:?} in:\n{said}");
}

/// Ends the lab whatever becomes of the test.
struct Ended<'a>(&'a Path);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        let _ = plimsoll_lab::down(self.0, false);
    }
}

#[test]
fn a_lab_goes_up_stays_shows_its_state_and_goes_down_also_after_a_crash() {
    if let Err(error) = Binaries::find() {
        eprintln!("skipped: {error}");
        return;
    }
    let folder = std::env::temp_dir().join(format!("plimsoll-lab-cli-{}", std::process::id()));
    let _ended = Ended(&folder);
    expect(&plimsoll(&["status"], &folder), 2, "there is no lab in");
    expect(&plimsoll(&["up", "--nodes", "2", "--shape", "cpus=4"], &folder), 2, "there is no cpus");
    expect(&plimsoll(&["up", "--nodes", "2", "--shape", "cpu=4,zones=2"], &folder), 0, "export KUBECONFIG=");
    expect(&plimsoll(&["up"], &folder), 2, "already running");
    expect(&plimsoll(&["status"], &folder), 0, "2 of 2 nodes are ready");

    let state = State::read(&folder).unwrap();
    let kwok = state.components.iter().find(|component| component.name == "kwok").unwrap();
    let kill = Command::new("sh").arg("-c").arg(format!("kill -KILL {}", kwok.process.pid)).status().unwrap();
    assert!(kill.success());
    while kwok.process.is_alive() {
        std::thread::yield_now();
    }
    expect(&plimsoll(&["status"], &folder), 1, "ended");
    // The state file is lost in the crash, too.
    std::fs::remove_file(State::file(&folder)).unwrap();
    expect(&plimsoll(&["down"], &folder), 0, "ended 4 processes");
    for component in &state.components {
        assert!(!component.process.is_alive(), "{} still runs", component.name);
    }
    assert!(!folder.exists());
    expect(&plimsoll(&["down"], &folder), 0, "there is no lab in");
}
