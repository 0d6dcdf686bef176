//! The command line as its users meet it: every command, its output and its exit status.

#![expect(clippy::unwrap_used, reason = "the harness is test code, too")]

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A command line, and what came of it.
struct Run {
    status: i32,
    stdout: String,
    stderr: String,
}

impl Run {
    fn last_line(&self) -> &str {
        self.stdout.lines().last().unwrap_or_default()
    }

    /// Fails with all that was printed unless the status is as expected.
    #[track_caller]
    fn expect(self, status: i32) -> Self {
        assert_eq!(self.status, status, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    #[track_caller]
    fn says(self, text: &str) -> Self {
        assert!(self.stdout.contains(text), "expected {text:?} in:\n{}", self.stdout);
        self
    }

    #[track_caller]
    fn complains(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "expected {text:?} in:\n{}", self.stderr);
        self
    }

    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}:\n{}", self.stdout))
    }
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(args).current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).stdin(Stdio::null());
    command
}

fn plimsoll(args: &[&str]) -> Run {
    finish(command(args).output().unwrap())
}

fn plimsoll_reading(args: &[&str], input: &[u8]) -> Run {
    let mut child = command(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A command that does not want its input may be gone before it is written.
    let _ = child.stdin.take().unwrap().write_all(input);
    finish(child.wait_with_output().unwrap())
}

fn finish(output: std::process::Output) -> Run {
    Run {
        status: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A file that only this test uses.
fn file(name: &str, content: impl AsRef<[u8]>) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

fn gzip(content: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// A case of one tainted node that refuses the pod for `reason`, as a line; kube-scheduler's reason is [`TAINTED`].
fn case(name: &str, reason: &str) -> String {
    let case = json!({
        "name": name,
        "objects": {"nodes": [{
            "metadata": {"name": "n1"},
            "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
            "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"}},
        }]},
        "pod": {"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": [{"name": "c"}]}},
        "expect": {"feasible": [], "rejected": {"n1": {
            "plugin": "TaintToleration", "code": "UnschedulableAndUnresolvable", "reasons": [reason],
        }}},
    });
    format!("{case}\n")
}

const TAINTED: &str = "node(s) had untolerated taint(s)";
const SHOP: &str = "examples/cluster/shop.yaml";

#[test]
fn conformance_passes_cases_that_agree() {
    let cases = case("taints/1", TAINTED) + "\n" + &case("other/1", TAINTED);
    let path = file("agree.jsonl", &cases);
    let run = plimsoll(&["conformance", &path]).expect(0);
    assert_eq!(run.last_line(), "2 passed, 0 failed");
    run.says("FAMILY").says("taints").says("other");
    let run = plimsoll(&["conformance", &file("agree.jsonl.gz", gzip(&cases)), &path]).expect(0);
    assert_eq!(run.last_line(), "4 passed, 0 failed");
}

#[test]
fn conformance_shows_the_first_cases_that_differ_in_full() {
    let cases: String = (0..4).map(|seed| case(&format!("taints/{seed}"), "another reason")).collect();
    let path = file("differ.jsonl", cases + &case("taints/4", TAINTED));
    let run = plimsoll(&["conformance", &path, "--show", "2"]).expect(1);
    assert_eq!(run.last_line(), "1 passed, 4 failed");
    assert_eq!(run.stdout.matches("rejected n1: expected").count(), 2, "{}", run.stdout);
    run.says("differ.jsonl:1: taints/0 differs").says("another reason").says(TAINTED);
}

#[test]
fn conformance_reads_standard_input_and_gzip_from_it() {
    let cases = case("taints/1", TAINTED);
    for (args, input) in [
        (vec!["conformance"], cases.clone().into_bytes()),
        (vec!["conformance", "-"], cases.clone().into_bytes()),
        (vec!["conformance"], gzip(&cases)),
    ] {
        let run = plimsoll_reading(&args, &input).expect(0);
        assert_eq!(run.last_line(), "1 passed, 0 failed");
    }
}

#[test]
fn conformance_reports_malformed_lines_and_runs_the_others() {
    let mut cases = case("taints/1", TAINTED).into_bytes();
    cases.extend_from_slice(b"{\"name\": \"broken\n\n[1, 2]\nnull\n\xff\xfe\n");
    cases.extend_from_slice(case("config/1", TAINTED).replacen('{', "{\"config\": {\"kind\": 3},", 1).as_bytes());
    cases.extend_from_slice(case("taints/2", TAINTED).as_bytes());
    let path = file("malformed.jsonl", cases);
    let run = plimsoll(&["conformance", &path]).expect(1);
    assert_eq!(run.last_line(), "2 passed, 5 failed");
    let run = run.says("(malformed)");
    for line in [2, 4, 5, 6, 7] {
        assert!(run.stderr.contains(&format!("malformed.jsonl:{line}: ")), "line {line} in:\n{}", run.stderr);
    }
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    run.complains("case config/1: ");
}

#[test]
fn conformance_reports_a_damaged_file_and_goes_on_with_the_next() {
    let whole = gzip(&case("taints/1", TAINTED).repeat(200));
    let damaged = file("damaged.jsonl.gz", &whole[..whole.len() / 2]);
    let sound = file("sound.jsonl", case("sound/1", TAINTED));
    plimsoll(&["conformance", &damaged, &sound]).expect(1).says("sound").complains("cannot be read from here on");
}

#[test]
fn conformance_takes_only_the_families_asked_for() {
    let path = file("families.jsonl", case("a/1", TAINTED) + &case("b/1", "wrong") + &case("c/1", TAINTED));
    let run = plimsoll(&["conformance", &path, "--family", "a", "--family", "c"]).expect(0);
    assert_eq!(run.last_line(), "2 passed, 0 failed");
    plimsoll(&["conformance", &path, "--family", "nonsense"]).expect(2).complains("nonsense");
}

#[test]
fn conformance_prints_the_same_with_any_number_of_jobs() {
    let reason = |seed: usize| if seed.is_multiple_of(3) { "wrong" } else { TAINTED };
    let cases: String = (0..300).map(|seed| case(&format!("f{}/{seed}", seed % 7), reason(seed))).collect();
    let path = file("jobs.jsonl", cases);
    let [one, many] = ["1", "7"].map(|jobs| plimsoll(&["conformance", &path, "--jobs", jobs, "--show", "50"]));
    assert_eq!(one.stdout, many.stdout);
    assert_eq!(many.expect(1).last_line(), "200 passed, 100 failed");
}

#[test]
fn wrong_usage_and_missing_files_end_with_status_2_and_a_message() {
    for (args, message) in [
        (vec!["conformance", "absent.jsonl"], "cannot open absent.jsonl"),
        (vec!["conformance", "examples"], "is a folder"),
        (vec!["conformance", "--jobs", "0"], "--jobs"),
        (vec!["conformance", "--nonsense"], "--nonsense"),
        (vec!["place"], "--cluster"),
        (vec!["place", "--cluster", "absent.yaml"], "cannot open absent.yaml"),
        (vec!["place", "--cluster", SHOP, "--policy", "guess"], "best-fit"),
        (vec!["place", "--cluster", SHOP, "--explain", "nobody"], "no pending pod default/nobody"),
        (vec!["place", "--cluster", SHOP, "--config", SHOP], "is not a valid configuration"),
        (vec!["explain", "--cluster", SHOP], "--pod"),
        (vec!["explain", "--cluster", SHOP, "--pod", "nobody"], "they hold default/report"),
        (vec!["check-config"], "FILE"),
        (vec!["check-config", "absent.yaml"], "cannot open absent.yaml"),
        (vec!["tour", "--nodes", "1"], "3..=50000"),
        (vec!["demo", "--speed", "0"], "from 1 to 100000"),
        (vec!["demo", "--policy", "guess"], "guess"),
        (vec!["nonsense"], "unrecognized subcommand"),
        (vec![], "Usage"),
    ] {
        let run = plimsoll(&args).expect(2);
        assert!(run.stdout.is_empty(), "{args:?} printed:\n{}", run.stdout);
        run.complains(message);
    }
}

#[test]
fn help_and_version_are_printed_on_standard_output() {
    plimsoll(&["--help"]).expect(0).says("conformance").says("check-config").says("demo");
    plimsoll(&["place", "--help"]).expect(0).says("--cluster <FILE>");
    plimsoll(&["--version"]).expect(0).says(env!("CARGO_PKG_VERSION"));
}

#[test]
fn a_reader_that_has_read_enough_is_no_error() {
    let mut child =
        command(&["conformance"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    child.stdin.take().unwrap().write_all(case("taints/1", "wrong").as_bytes()).unwrap();
    let run = finish(child.wait_with_output().unwrap());
    assert_eq!((run.status, run.stderr.as_str()), (0, ""));
}

#[test]
fn place_says_where_pods_go_and_why_others_stay() {
    plimsoll(&["place", "--cluster", SHOP])
        .expect(0)
        .says("after removing default/report")
        .says("the only feasible node")
        .says("0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu.")
        .says("waiting for scheduling gates: [example.com/quota]")
        .says("3 placed (1 by preemption of 1 pod), 1 pending, 1 gated")
        .complains("not taken into account: 1 ConfigMap (v1)");
}

#[test]
fn place_prints_the_same_facts_as_json() {
    let run = plimsoll(&["place", "--cluster", SHOP, "--output", "json", "--explain", "default/web-1"]).expect(0);
    let printed = run.json();
    let pod = |name: &str| {
        let pods = printed["pods"].as_array().unwrap();
        pods.iter().find(|pod| pod["pod"] == name).unwrap_or_else(|| panic!("{name} in {printed}")).clone()
    };
    assert_eq!(
        pod("default/db")["preemption"],
        json!({
            "node": "node-1", "victims": ["default/report"], "brokenBudgets": 0,
        })
    );
    assert_eq!(pod("default/db")["node"], "node-1");
    assert_eq!(pod("default/giant")["outcome"], "pending");
    assert_eq!(pod("default/held")["outcome"], "gated");
    assert_eq!(pod("default/web-1")["explanation"]["feasible"].as_array().unwrap().len(), 2);
    assert_eq!(printed["summary"]["placed"], 3);
}

#[test]
fn place_follows_the_policy_the_configuration_and_the_seed() {
    let node_of_web = |more: &[&str]| {
        let args = [&["place", "--cluster", SHOP, "--output", "json"], more].concat();
        let printed = plimsoll(&args).expect(0).json();
        let pods = printed["pods"].as_array().unwrap().clone();
        pods.iter().find(|pod| pod["pod"] == "default/web-1").unwrap()["node"].as_str().unwrap().to_owned()
    };
    assert_eq!(node_of_web(&[]), "node-2", "the default spreads");
    assert_eq!(node_of_web(&["--policy", "best-fit"]), "node-1", "best fit packs");
    assert_eq!(node_of_web(&["--config", "examples/config/bin-packing.yaml"]), "node-1", "so does MostAllocated");
    let by_lot = |seed: &str| node_of_web(&["--policy", "random", "--seed", seed]);
    let seeds = ["1", "2", "3", "4", "5", "6", "7", "8"];
    let first = seeds.map(by_lot);
    assert_eq!(first, seeds.map(by_lot), "a seed repeats");
    assert!(first.contains(&"node-1".to_owned()) && first.contains(&"node-2".to_owned()), "{first:?}");
}

#[test]
fn place_reads_what_kubectl_prints_from_several_files_and_standard_input() {
    let nodes = json!({"apiVersion": "v1", "kind": "NodeList", "items": [
        {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"}}}]});
    let pod = |name: &str, created: &str| {
        json!({"apiVersion": "v1", "kind": "Pod",
               "metadata": {"name": name, "namespace": "a", "creationTimestamp": created},
               "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1500m"}}}]}})
    };
    let pods = json!({"apiVersion": "v1", "kind": "List",
                      "items": [pod("young", "2026-01-02T00:00:00Z"), pod("old", "2026-01-01T00:00:00Z")]});
    let path = file("nodes.json", nodes.to_string());
    let args = ["place", "--cluster", &path, "--cluster", "-", "--output", "json"];
    let printed = plimsoll_reading(&args, pods.to_string().as_bytes()).expect(0).json();
    let outcomes: Vec<_> =
        printed["pods"].as_array().unwrap().iter().map(|pod| (&pod["pod"], &pod["outcome"])).collect();
    assert_eq!(outcomes, [(&json!("a/old"), &json!("placed")), (&json!("a/young"), &json!("pending"))]);
}

#[test]
fn an_object_that_comes_twice_counts_as_it_is_written_last() {
    let smaller = "\
apiVersion: v1
kind: Pod
metadata: {name: giant, uid: other}
spec: {containers: [{name: c, resources: {requests: {cpu: 100m}}}]}
---
apiVersion: v1
kind: Node
metadata: {name: node-3}
status: {allocatable: {cpu: '8', memory: 32Gi, pods: '110'}}
";
    let args = ["place", "--cluster", SHOP, "--cluster", "-", "--output", "json"];
    let printed = plimsoll_reading(&args, smaller.as_bytes()).expect(0).json();
    let pods: Vec<_> = printed["pods"].as_array().unwrap().iter().filter(|pod| pod["pod"] == "default/giant").collect();
    assert_eq!(pods.len(), 1, "{printed}");
    assert_eq!(pods[0]["outcome"], "placed", "{printed}");
    let mut pods = printed["pods"].as_array().unwrap().iter();
    assert!(pods.any(|pod| pod["node"] == "node-3"), "its taint is gone: {printed}");
}

#[test]
fn place_leaves_pods_of_other_schedulers_and_those_being_deleted_alone() {
    let cluster = "\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: '1', memory: 1Gi, pods: '10'}}
---
apiVersion: v1
kind: Pod
metadata: {name: foreign}
spec: {schedulerName: somebody-else, containers: [{name: c}]}
---
apiVersion: v1
kind: Pod
metadata: {name: leaving, deletionTimestamp: '2026-01-01T00:00:00Z'}
spec: {containers: [{name: c}]}
---
apiVersion: v1
kind: Pod
metadata: {name: done}
spec: {containers: [{name: c}]}
status: {phase: Succeeded}
";
    plimsoll_reading(&["place", "--cluster", "-"], cluster.as_bytes())
        .expect(0)
        .says("left out default/foreign: no profile for schedulerName \"somebody-else\"")
        .says("left out default/leaving: is being deleted")
        .says("0 placed, 0 pending, 2 left out");
}

#[test]
fn a_cluster_file_that_cannot_be_used_is_an_error_that_says_where() {
    for (text, message) in [
        ("a: [\n", "<stdin>:2:1: invalid YAML"),
        ("{\"kind\": }", "<stdin>:1:10: invalid JSON"),
        ("a: 1\n", "an object needs apiVersion and kind"),
        ("- 1\n", "an object needs apiVersion and kind"),
        ("", "no Node and no Pod"),
        ("apiVersion: v1\nkind: PodList\nitems: 3\n", "PodList: items must be a list"),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: 5}\n",
            "Pod default/p is not as the API has it",
        ),
        (
            "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {allocatable: {cpu: lots}}\n",
            "node n1: status.allocatable",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {priorityClassName: lost, containers: []}\n",
            "no PriorityClass \"lost\"",
        ),
    ] {
        plimsoll_reading(&["place", "--cluster", "-"], text.as_bytes()).expect(2).complains(message);
    }
}

#[test]
fn explain_gives_every_node_a_score_or_a_reason() {
    plimsoll(&["explain", "--cluster", SHOP, "--pod", "web-1"])
        .expect(0)
        .says("pod default/web-1: 2 of 3 nodes feasible")
        .says("Toleration")
        .says("node-3  TaintToleration  node(s) had untolerated taint(s)");
    let printed =
        plimsoll(&["explain", "--cluster", SHOP, "--pod", "default/web-1", "--output", "json"]).expect(0).json();
    let totals: Vec<_> = printed["feasible"].as_array().unwrap().iter().map(|node| node["total"].as_i64()).collect();
    assert!(totals.is_sorted_by(|a, b| a >= b), "{totals:?}");
    assert_eq!(printed["refused"][0]["plugin"], "TaintToleration");
}

#[test]
fn explain_looks_at_a_running_pod_as_if_it_were_to_be_placed() {
    plimsoll(&["explain", "--cluster", SHOP, "--pod", "report"])
        .expect(0)
        .says("2 of 3 nodes feasible")
        .says("The pod runs on node-1");
}

#[test]
fn explain_says_what_preemption_would_do() {
    plimsoll(&["explain", "--cluster", SHOP, "--pod", "db"])
        .expect(0)
        .says("0 of 3 nodes feasible")
        .says("preemption would remove default/report from node-1");
}

#[test]
fn explain_of_a_pod_that_has_ended_is_an_error() {
    let cluster =
        "apiVersion: v1\nkind: Pod\nmetadata: {name: done}\nspec: {containers: []}\nstatus: {phase: Failed}\n";
    let run = plimsoll_reading(&["explain", "--cluster", "-", "--pod", "done"], cluster.as_bytes());
    run.expect(2).complains("pod default/done has ended");
}

#[test]
fn check_config_shows_what_is_in_force() {
    plimsoll(&["check-config", "examples/config/two-profiles.yaml", "examples/config/bin-packing.yaml"])
        .expect(0)
        .says("two-profiles.yaml: valid")
        .says("bin-packing.yaml: valid")
        .says("profile batch")
        .says("NodeResourcesFit × 10")
        .says("PodTopologySpread × 5");
}

#[test]
fn check_config_reports_every_mistake_of_every_file() {
    let wrong = file(
        "wrong.yaml",
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparalelism: 3\nprofiles: 5\n",
    );
    let run = plimsoll(&["check-config", &wrong, "examples/config/bin-packing.yaml"]).expect(1);
    run.says("wrong.yaml:3:1: paralelism").says("wrong.yaml:4:1: profiles").says("bin-packing.yaml: valid");
    let run = plimsoll(&["check-config", "absent.yaml", "examples/config/bin-packing.yaml"]).expect(2);
    run.says("bin-packing.yaml: valid").complains("cannot open absent.yaml");
}

#[test]
fn the_doctor_reads_policies_as_whom_they_are_for() {
    let doctor = |more: &[&str]| {
        plimsoll(&[&["doctor", "--kubeconfig", "/nowhere", "--policy", "green=models/energy"], more].concat()).expect(1)
    };
    doctor(&["--adviser"]).says("ok   policies: green by models/energy");
    doctor(&[]).says("BAD  policies: --policy green=models/energy: there is no profile");
}

#[test]
fn policies_are_listed() {
    plimsoll(&["policies"]).expect(0).says("default").says("best-fit").says("dot-product");
}

#[test]
fn tour_fits_a_terminal_and_shows_every_kind_of_reason() {
    let run = plimsoll(&["tour"]).expect(0);
    assert!(run.stdout.lines().count() < 75, "{}", run.stdout);
    assert!(run.stdout.lines().all(|line| line.chars().count() <= 260), "{}", run.stdout);
    run.says("after removing shop/backfill")
        .says("Why this node")
        .says("TaintToleration")
        .says("0/15 nodes are available")
        .says("Prove it first")
        .says("lifetime-aware");
}

#[test]
fn tour_repeats_for_a_seed_and_takes_any_size() {
    let shown = |args: &[&str]| {
        let run = plimsoll(&[&["tour"], args].concat()).expect(0);
        // The second line tells how long decisions took, and another how long the comparison did.
        let timed = |at: usize, line: &str| at == 1 || line.starts_with("Prove it first");
        let lines = run.stdout.lines().enumerate().filter(|(at, line)| !timed(*at, line));
        lines.map(|(_, line)| format!("{line}\n")).collect::<String>()
    };
    assert_eq!(shown(&["--seed", "7"]), shown(&["--seed", "7"]));
    assert_ne!(shown(&["--seed", "7"]), shown(&["--seed", "8"]));
    for (nodes, pods) in [("3", "10"), ("4", "200"), ("200", "1000")] {
        assert!(shown(&["--nodes", nodes, "--pods", pods]).contains("Why pending"), "{nodes} nodes, {pods} pods");
    }
}
