//! `plimsoll models import`, as a user runs it.

#![cfg(feature = "onnx")]
#![expect(clippy::unwrap_used, reason = "the harness is test code, too")]

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

const SCENARIO: &str = r#"
name = "elsewhere"
[workload.generate]
kind = "thesis-1"
rounds = 2
pods = 20
[[pool]]
name = "n"
count = 6
cpu = 8
memory = "16Gi"
idle_watts = 60
full_watts = 180
[learn]
[learn.train]
samples = [1]
[learn.evaluate]
samples = [1001, 1002]
baselines = ["worst-fit"]
"#;

fn run(args: &str) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    let Output { status, stdout, stderr } =
        command.args(args.split_whitespace()).env("NO_COLOR", "1").output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap() + &String::from_utf8_lossy(&stderr))
}

#[test]
fn a_network_of_pytorch_is_imported_and_measured() {
    let folder = std::env::temp_dir().join(format!("plimsoll-elsewhere-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let scenario = folder.join("elsewhere.toml");
    std::fs::write(&scenario, SCENARIO).unwrap();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plimsoll-learn/tests/onnx/deepsets.onnx");
    let model = folder.join("models").join("torch");
    let import = format!("models import {} --out {} --base worst-fit", file.display(), model.display());
    let (code, refused) = run(&format!("{import} --lookahead 3"));
    assert_eq!(code, Some(2), "{refused}");
    assert!(refused.contains("deepsets.onnx") && !model.exists(), "{refused}");
    let (code, told) = run(&import);
    assert!(code == Some(0) && told.contains("is a model"), "{told}");
    let (_, shown) = run(&format!("models show {}", model.display()));
    assert!(shown.contains("onnx") && shown.contains("trained elsewhere") && shown.contains("cpu-free"), "{shown}");
    let (code, found) = run(&format!("evaluate {} {} --json --quiet", model.display(), scenario.display()));
    assert_eq!(code, Some(0), "{found}");
    let found: Value = serde_json::from_str(&found).unwrap();
    // It learned to prefer full nodes; the heuristic that would stand in for it does the opposite.
    assert_eq!(found["verdict"], "significantly-better", "{found}");
    std::fs::remove_dir_all(&folder).unwrap();
}
