//! The program, as a user runs it from the root of the repository.

use std::path::Path;
use std::process::{Command, Output};

/// Runs it.
pub fn plimsoll(args: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    command.args(args.split_whitespace()).env("NO_COLOR", "1").output().unwrap()
}

/// What it prints where all goes well.
pub fn good(args: &str) -> String {
    let output = plimsoll(args);
    assert!(output.status.success(), "{args}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What it says where it cannot work.
pub fn bad(args: &str) -> String {
    let output = plimsoll(args);
    assert_eq!(output.status.code(), Some(2), "{args}: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}
