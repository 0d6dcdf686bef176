//! What stands beside scheduling: the shadow, the recorder, explanations, and what is said where rights are missing.

use crate::cluster::{Objects, PATIENCE, Scratch, binaries, eventually, get, merge, small_pod, start_plimsoll};
use plimsoll_lab::{Lab, Options, Scheduler, User};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

/// Everything about pods, with the objects.
const AUDIT_POLICY: &str = r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
    "rules": [{"level": "RequestResponse", "resources": [{"group": "", "resources": ["pods", "pods/binding", "pods/status"]}]}, {"level": "None"}]}"#;

fn plimsoll(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_plimsoll")).args(arguments).output().unwrap()
}

/// The standard output of a command that must succeed.
fn said(arguments: &[&str]) -> String {
    let output = plimsoll(arguments);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{arguments:?}: {out}{err}");
    out.into_owned()
}

/// A lab with the stock scheduler that writes an audit log.
async fn audited(scratch: &Scratch) -> Option<Lab> {
    let binaries = binaries()?;
    std::fs::write(scratch.path("policy.json"), AUDIT_POLICY).unwrap();
    let options = Options {
        nodes: 3,
        scheduler: Scheduler::stock(),
        binaries: Some(binaries),
        apiserver_arguments: vec![
            format!("--audit-policy-file={}", scratch.path("policy.json")),
            format!("--audit-log-path={}", scratch.path("audit.log")),
            "--audit-log-mode=blocking".to_owned(),
        ],
        ..Options::default()
    };
    Some(Lab::start(options).await.unwrap())
}

fn record(kubeconfig: &Path, out: &str) -> Child {
    let kubeconfig = kubeconfig.display().to_string();
    let arguments = ["record", "--kubeconfig", &kubeconfig, "--out", out, "--every", "1"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(arguments).stderr(Stdio::piped()).spawn().unwrap()
}

/// Ends a process as a person would, and waits for it.
fn interrupt(mut child: Child) {
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let begin = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(begin.elapsed() < PATIENCE, "the recorder does not end");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn book(path: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn about<'a>(book: &'a [Value], what: &'a str) -> impl Iterator<Item = &'a Value> {
    book.iter().filter(move |entry| entry["what"] == what)
}

const PODS: usize = 6;

#[tokio::test(flavor = "multi_thread")]
async fn a_shadow_binds_nothing_and_a_recording_can_be_replayed() {
    let scratch = Scratch::new("tools");
    let Some(mut lab) = audited(&scratch).await else { return };
    let objects = Objects { client: lab.client(User::Admin).await.unwrap(), namespace: "default".to_owned() };
    let recorder = record(&lab.kubeconfig(User::Admin), &scratch.path("seen.csv"));
    let shadow = format!("--shadow={}", scratch.path("book.jsonl"));
    let server = start_plimsoll(&mut lab, "shadow", &[&shadow]).await;
    eventually("the recorder has begun", || async {
        Path::new(&scratch.path("seen.csv")).exists().then_some(()).ok_or_else(|| "no file".to_owned())
    })
    .await;
    for number in 0..PODS {
        objects.create("Pod", &format!("small-{number}"), json!({"spec": small_pod()})).await;
    }
    let mut giant = small_pod();
    merge(
        &mut giant,
        &json!({"containers": [{"name": "main", "image": "lab/none", "resources": {"requests": {"cpu": "9000"}}}]}),
    );
    objects.create("Pod", "giant", json!({"spec": giant})).await;
    objects.until_bound(PODS).await;
    let path = scratch.path("book.jsonl");
    let entries = eventually("the shadow has seen all", || async {
        let entries = book(&path);
        let all = about(&entries, "bound").count() == PODS && about(&entries, "would-wait").count() >= 1;
        if all { Ok(entries) } else { Err(format!("{entries:#?}")) }
    })
    .await;
    for entry in about(&entries, "bound") {
        assert!(entry["ours"].is_string(), "it was bound before it was decided: {entry}");
        assert_eq!(entry["same"], json!(entry["ours"] == entry["theirs"]));
    }
    let waits = about(&entries, "would-wait").next().unwrap();
    assert!(waits["message"].as_str().unwrap().contains("3 Insufficient cpu"), "{waits}");
    only_the_stock_scheduler_spoke(&objects).await;
    explanations(&objects, &lab, &format!("http://{server}"));
    let metrics = get(server, "/metrics").unwrap();
    assert!(metrics.contains("plimsoll_shadow_pods_total"), "{metrics}");

    for name in ["small-0", "small-1"] {
        objects.delete("Pod", name).await;
    }
    recordings(&scratch, recorder).await;
}

/// Events of another process than the stock scheduler would be the shadow's.
async fn only_the_stock_scheduler_spoke(objects: &Objects) {
    let events = eventually("an event tells of each binding", || async {
        let events = objects.list("Event").await;
        let scheduled = events.iter().filter(|event| event["reason"] == "Scheduled").count();
        if scheduled >= PODS { Ok(events) } else { Err(format!("{scheduled} of {PODS}")) }
    })
    .await;
    assert_eq!(events.iter().filter(|event| event["reason"] == "Scheduled").count(), PODS, "{events:#?}");
    let instances = events.iter().filter_map(|event| event["reportingInstance"].as_str());
    let strangers: Vec<_> =
        instances.filter(|name| !name.is_empty() && !name.starts_with("default-scheduler-")).collect();
    assert_eq!(strangers, Vec::<&str>::new());
}

fn explanations(objects: &Objects, lab: &Lab, server: &str) {
    assert_eq!(objects.namespace, "default");
    let waits = said(&["explain", "--server", server, "--pod", "giant"]);
    assert!(waits.contains("waits") && waits.contains("NodeResourcesFit"), "{waits}");
    let placed = said(&["explain", "--server", server, "--pod", "small-3", "--output", "json"]);
    let placed: Value = serde_json::from_str(&placed).unwrap();
    assert_eq!(placed["decision"]["feasible"], 3, "{placed}");
    let unknown = plimsoll(&["explain", "--server", server, "--pod", "nobody"]);
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("knows no pod default/nobody"));
    let kubeconfig = lab.kubeconfig(User::Plimsoll).display().to_string();
    let now = said(&["explain", "--kubeconfig", &kubeconfig, "--pod", "small-3"]);
    assert!(now.contains("3 of 3 nodes feasible"), "{now}");
    let place = said(&["place", "--kubeconfig", &kubeconfig]);
    assert!(place.contains("pending default/giant"), "{place}");
}

/// What was watched and what the audit log says is the same workload, and the simulator takes it.
async fn recordings(scratch: &Scratch, recorder: Child) {
    let (seen, audited) = (scratch.path("seen.csv"), scratch.path("audited.csv"));
    let rows = |path: &str| {
        let text = std::fs::read_to_string(path).unwrap();
        let rows: Vec<_> =
            text.lines().skip(1).map(|row| row.split(',').map(str::to_owned).collect::<Vec<_>>()).collect();
        let ended = rows.iter().filter(|row| !row[5].is_empty()).count();
        let mut names: Vec<_> = rows.into_iter().map(|row| (row[0].clone(), row[7].clone())).collect();
        names.sort();
        (names, ended)
    };
    eventually("both ends are recorded", || async {
        let found = rows(&seen);
        if found.1 == 2 { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
    interrupt(recorder);
    said(&["record", "--audit", &scratch.path("audit.log"), "--out", &audited, "--namespace", "default"]);
    let (names, ended) = rows(&seen);
    assert_eq!((names.len(), ended), (PODS + 1, 2));
    assert_eq!(rows(&audited), (names, 2));
    // The API server tells when pods came to the second, and these came in one: the run needs an end.
    let scenario = scratch.path("replay.toml");
    let text = format!(
        "name = \"replay\"\n[workload]\nfile = \"{seen}\"\n[run]\nhorizon = \"10m\"\nwarmup = 0\n[[pool]]\nname = \"n\"\ncount = 3\ncpu = 8\nmemory = \"32Gi\"\nidle_watts = 50\nfull_watts = 200\n"
    );
    std::fs::write(&scenario, text).unwrap();
    let run: Value = serde_json::from_str(&said(&["simulate", &scenario, "--format", "json"])).unwrap();
    assert_eq!(run["rows"][0]["measures"]["arrived"], 7, "{run}");
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_rights_are_named_one_by_one() {
    let Some(binaries) = binaries() else { return };
    let lab = Lab::start(Options { binaries: Some(binaries), ..Options::default() }).await.unwrap();
    let kubeconfig = lab.kubeconfig(User::Kwok).display().to_string();
    let output = plimsoll(&["run", "--kubeconfig", &kubeconfig, "--listen", "off"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    for right in ["create pods/binding", "watch csinodes.storage.k8s.io", "list resourceclaims.resource.k8s.io"] {
        assert!(error.contains(right), "{right} is not named: {error}");
    }
    assert!(!error.contains("watch pods,"), "it may watch pods: {error}");
}
