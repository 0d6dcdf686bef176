//! `plimsoll trace` as its users meet it: files in, files and figures out, bad files told by their place.

#![expect(clippy::unwrap_used, reason = "the harness is test code, too")]

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const AZURE: &str = "vm,batch,arrival_s,vcpu,mem_gib,duration_lo_s,duration_hi_s,censored\n\
    0,a,1800000,8,14.0,300,300,0\n1,b,1803600,1,0.75,3900,7200,0\n2,b,1803600,1,0.75,3900,7200,1\n3,c,1807200,2,3.5,0,0,0\n";
const PODS: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n\
    p0,12000,16384,1,1000,,LS,Running,0,200,20\np1,6000,12288,1,460,H900,LS,Running,30,100,30\n";
const NODES: &str = "sn,cpu_milli,memory_mib,gpu,model\nn0,96000,786432,8,T4\n";

/// A command line, and what came of it.
struct Run {
    status: i32,
    stdout: String,
    stderr: String,
}

impl Run {
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

    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}:\n{}", self.stdout))
    }
}

fn trace(args: &[&str]) -> Run {
    let output = Command::new(env!("CARGO_BIN_EXE_plimsoll")).arg("trace").args(args).output().unwrap();
    Run {
        status: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// The path of a file that only one test uses.
fn path(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("trace");
    fs::create_dir_all(&folder).unwrap();
    folder.join(name).to_str().unwrap().to_owned()
}

fn file(name: &str, content: impl AsRef<[u8]>) -> String {
    let path = path(name);
    fs::write(&path, content).unwrap();
    path
}

fn gzip(content: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// A file beside the repository, where there is one.
#[expect(clippy::print_stderr, reason = "whoever runs the tests should know what was not tested")]
fn shared(name: &str) -> Option<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(name);
    if !path.exists() {
        eprintln!("skipped: there is no ../shared/{name}");
        return None;
    }
    path.to_str().map(str::to_owned)
}

#[test]
fn info_sums_a_workload_up() {
    let input = file("info.csv.gz", gzip(AZURE));
    let run = trace(&["info", &input]).expect(0);
    run.says("azure: 4 pods of 3 owners in 3 templates, over 2.0 h").says("2.0 arrivals an hour").says("LIFETIME");
    let run = trace(&["info", "--from", "azure", &input, "--format", "json"]).expect(0);
    let info = run.json();
    assert_eq!((&info["pods"], &info["owners"], &info["span_s"]), (&4.into(), &3.into(), &7200.0.into()));
    assert_eq!(info["cpu_cores"]["peak"], 8.0);
    assert_eq!(info["lifetimes"]["quantiles_s"]["max"], 5550.0);
    assert_eq!(info["skipped"]["count"], 0);
}

#[test]
fn convert_writes_what_can_be_read_again() {
    let input = file("convert.csv", AZURE);
    for name in ["converted.csv", "converted.csv.gz"] {
        let output = path(name);
        trace(&["convert", &format!("azure={input}"), &output]).expect(0).complains("wrote 4 pods");
        let again = path("again.csv");
        trace(&["convert", "--from", "table", &output, &again]).expect(0);
        let info = trace(&["info", &again, "--format", "json"]).expect(0).json();
        assert_eq!((&info["pods"], &info["owners"], &info["templates"]), (&4.into(), &3.into(), &3.into()));
    }
    let text = fs::read_to_string(path("again.csv")).unwrap();
    assert_eq!(text.lines().nth(1), Some("vm-0,,,0,0,300,,8000,15032385536,,,,,,,,"));
    assert_eq!(text, fs::read_to_string(path("converted.csv")).unwrap());
}

#[test]
fn a_part_or_more_of_a_workload_is_taken() {
    let input = file("take.csv", AZURE);
    let pods = |args: &[&str]| {
        let run = trace(&[&["info", &input, "--format", "json"], args].concat()).expect(0);
        run.json()["pods"].as_u64().unwrap()
    };
    assert_eq!(pods(&["--window", "1h..2h"]), 2);
    assert_eq!(pods(&["--window", "2h.."]), 1);
    assert_eq!(pods(&["--window", "65m..", "--carry-over"]), 3, "two run on, one comes");
    assert_eq!(pods(&["--train", "0.5"]), 1);
    assert_eq!(pods(&["--test", "0.5"]), 3);
    assert_eq!(pods(&["--scale", "3"]), 12);
    assert!([1, 2].contains(&pods(&["--sample", "0.3", "--seed", "4"])));
    trace(&["info", &input, "--window", "3h..4h"]).expect(2).complains("none of the 4 pods is selected");
    trace(&["info", &input, "--window", "2h"]).expect(2).complains("FROM..TO");
    trace(&["info", &input, "--sample", "2"]).expect(2).complains("sample is 2");
    trace(&["info", &input, "--train", "0.5", "--test", "0.5"]).expect(2).complains("cannot be used with");
}

#[test]
fn workloads_are_made_up_by_seed() {
    let make = |name: &str, args: &[&str]| {
        let output = path(name);
        trace(&[&["generate"], args, &["-o", &output]].concat()).expect(0);
        fs::read(output).unwrap()
    };
    let settings = ["poisson", "--set", "hours=2", "--set", "lifetime.kind=endless"];
    let first = make("made-1.csv", &[&settings[..], &["--seed", "1"]].concat());
    assert_eq!(first, make("made-2.csv", &[&settings[..], &["--seed", "1"]].concat()));
    assert_ne!(first, make("made-3.csv", &[&settings[..], &["--seed", "2"]].concat()));
    for kind in ["poisson", "bursty", "diurnal", "thesis-1", "thesis-2", "shop", "gpu-sharing"] {
        let name = format!("{kind}.csv.gz");
        make(&name, &[kind]);
        let info = trace(&["info", &path(&name), "--format", "json"]).expect(0).json();
        assert!(info["pods"].as_u64().unwrap() > 50, "{kind}: {info}");
    }
    trace(&["info", &path("shop.csv.gz")]).expect(0).says("15 calls between services");
    let output = path("not-made.csv");
    trace(&["generate", "weekly", "-o", &output]).expect(2).complains("possible values: poisson");
    trace(&["generate", "poisson", "--set", "rate=1", "-o", &output]).expect(2).complains("unknown field `rate`");
    trace(&["generate", "poisson", "--set", "hours=-1", "-o", &output]).expect(2).complains("hours is -1");
    assert!(!Path::new(&output).exists());
}

#[test]
fn bad_rows_are_told_by_file_line_and_column_or_counted() {
    let input = file("bad.csv", format!("{AZURE}4,c,-5,1,1,0,0,0\n0,c,1807200,1,1,0,0,0\n5,c,1807200,1,1,9,1,0\n"));
    trace(&["info", &input]).expect(2).complains("bad.csv: line 6: column arrival_s: -5 is negative");
    let run = trace(&["info", &input, "--lenient"]).expect(0).says("4 pods");
    run.complains("skipped 1 time: a negative number, first").complains("line 7: column vm").complains("line 8");
    let info = trace(&["info", &input, "--lenient", "--format", "json"]).expect(0).json();
    assert_eq!(info["skipped"]["count"], 3);
    assert_eq!(info["skipped"]["reasons"]["departs-before-arrival"]["count"], 1);
    let unwritten = path("never-written.csv");
    trace(&["convert", &input, &unwritten]).expect(2).complains("line 6");
    assert!(!Path::new(&unwritten).exists());
    let output = path("bad-out.csv");
    trace(&["convert", &input, &output, "--lenient"])
        .expect(0)
        .complains("the name is taken")
        .complains("wrote 4 pods");
}

#[test]
fn pods_that_ask_for_unknown_machines_are_bad_where_machines_are_given() {
    let (pods, nodes) = (file("pods.csv", PODS), file("nodes.csv", NODES));
    trace(&["info", &pods]).expect(0).says("2 pods");
    let run = trace(&["info", &pods, "--nodes", &nodes]).expect(2);
    run.complains("pods.csv: line 3: column gpu_spec: no machine of the fleet has a GPU H900");
    let run = trace(&["info", &pods, "--nodes", &nodes, "--lenient"]).expect(0);
    run.says("1 pod ").complains("asks for an unknown machine");
    let table = path("pods-table.csv");
    trace(&["convert", &pods, &table]).expect(0);
    trace(&["info", &table, "--nodes", &nodes]).expect(2).complains("line 3: column gpu_models");
}

#[test]
fn files_that_are_no_workload_are_told() {
    let long: String = (0..3000).map(|vm| format!("{vm},{vm},{},1,1,{vm},{vm},0\n", vm * 7919 % 3001)).collect();
    let mut cut = gzip(&format!("{}\n{long}", AZURE.lines().next().unwrap()));
    cut.truncate(cut.len() / 2);
    let cut = file("cut.csv.gz", cut);
    trace(&["info", &cut]).expect(2).complains("cut.csv.gz: line ").complains("truncated");
    trace(&["info", &cut, "--lenient"]).expect(0).complains("the file breaks off");
    trace(&["info", &file("empty.csv", "")]).expect(2).complains("is empty");
    trace(&["info", &file("other.csv", "a,b\n1,2\n")]).expect(2).complains("azure, alibaba or table");
    trace(&["info", &file("less.csv", AZURE.replace("vcpu", "cpus"))])
        .expect(2)
        .complains("line 1: column vcpu: the column is missing");
    trace(&["info", "no-such-file.csv"]).expect(2).complains("no-such-file.csv: cannot be read");
    trace(&["info", "borg=file.csv"]).expect(2).complains("there is no format \"borg\"");
    trace(&["info", env!("CARGO_TARGET_TMPDIR")]).expect(2).complains("is a folder");
    let run = trace(&["convert", &file("ok.csv", AZURE), "no-such-folder/out.csv"]).expect(2);
    run.complains("no-such-folder/out.csv: cannot be written");
}

#[cfg(not(feature = "parquet"))]
#[test]
fn parquet_needs_a_build_with_it() {
    let run = trace(&["convert", &file("plain.csv", AZURE), &path("out.parquet")]).expect(2);
    run.complains("--features parquet");
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_holds_the_same() {
    let (output, again) = (path("same.parquet"), path("same.csv"));
    trace(&["generate", "shop", "-o", &output]).expect(0);
    trace(&["convert", &output, &again]).expect(0);
    trace(&["generate", "shop", "-o", &path("shop-1.csv")]).expect(0);
    assert_eq!(fs::read(again).unwrap(), fs::read(path("shop-1.csv")).unwrap());
}

#[test]
fn the_shared_traces_are_summed_up() {
    let Some(azure) = shared("traces/azure-v1-2017/azure_v1_dev.csv.gz") else { return };
    let info = trace(&["info", &azure, "--sample", "0.15", "--seed", "1", "--format", "json"]).expect(0).json();
    let pods = info["pods"].as_u64().unwrap();
    assert!((30_000..50_000).contains(&pods), "{pods}");
    assert_eq!(info["owners"], 7966);
    let Some(pods) = shared("traces/alibaba-openb-2023/openb_pod_list_default.csv.gz") else { return };
    let Some(nodes) = shared("traces/alibaba-openb-2023/openb_node_list_all_node.csv.gz") else { return };
    let run = trace(&["info", &pods, "--nodes", &nodes]).expect(0);
    run.says("8152 pods").says("GPUs");
}
