//! What is steered while pods are scheduled: weights, shadows, recordings, learning; who may, and what the doctor says.

use crate::cluster::{Objects, Scratch, binaries, eventually, send, small_pod, start_plimsoll};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::PostParams;
use plimsoll_lab::{Lab, Options, Scheduler, User};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

/// Nodes whose power is known, and lessons that are short.
const CONFIGURATION: &str = r#"
apiVersion: plimsoll.dev/v1alpha1
kind: PlimsollConfiguration
nodes:
- {idleWatts: 100, fullWatts: 200}
training:
  enabled: true
  interval: 120
  trialSeconds: 8
  trialPlacements: 1000
  learn:
    agent: {name: evolution, search: {generations: 2, pairs: 2, cases: 1, validate_every: 1}}
    base: best-fit
    trust: 0.1
"#;

/// Pods that are there at a time.
const ALIVE: usize = 12;

async fn lab() -> Option<Lab> {
    let options = Options { nodes: 6, scheduler: Scheduler::None, binaries: Some(binaries()?), ..Options::default() };
    Some(Lab::start(options).await.unwrap())
}

/// Pods come and go, until the task is dropped.
async fn churn(objects: Objects) {
    for number in 0_usize.. {
        objects.create("Pod", &format!("churn-{number}"), json!({"spec": small_pod()})).await;
        if let Some(oldest) = number.checked_sub(ALIVE) {
            objects.start_deletion("Pod", &format!("churn-{oldest}")).await;
        }
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
}

fn ask(server: SocketAddr, request: &str, body: Value) -> Value {
    let (status, answer) = send(server, request, None, &body);
    assert!((200..300).contains(&status), "{request}: {status} {answer}");
    answer
}

async fn until(server: SocketAddr, path: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    eventually(what, || async {
        let answer = ask(server, &format!("GET {path}"), json!({}));
        if holds(&answer) { Ok(answer) } else { Err(format!("{answer:#}")) }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_learned_is_judged_tried_promoted_and_taken_back_at_will() {
    let Some(mut lab) = lab().await else { return };
    let scratch = Scratch::new("learning");
    std::fs::write(scratch.path("config.yaml"), CONFIGURATION).unwrap();
    let objects = Objects { client: lab.client(User::Admin).await.unwrap(), namespace: "default".to_owned() };
    let arguments = ["--config", &scratch.path("config.yaml"), "--data", &scratch.path("data"), "--compare"];
    let server = start_plimsoll(&mut lab, "learner", &arguments).await;
    let pods = tokio::spawn(churn(objects));

    ask(server, "POST /v1/recordings", json!({ "name": "day" }));
    assert_eq!(send(server, "POST /v1/recordings", None, &json!({ "name": "day" })).0, 409);

    // A policy in shadow, from the cluster as it is.
    ask(server, "POST /v1/policies/best-fit/shadow", json!({}));
    let policies = until(server, "/v1/policies", "the shadow places pods", |policies| {
        policies["shadow_figures"]["placed"].as_u64().is_some_and(|placed| placed > 2 * ALIVE as u64)
    })
    .await;
    assert_eq!((&policies["shadow"], &policies["active"]), (&json!("best-fit"), &json!("default")));
    assert_eq!(policies["shadow_figures"]["active_nodes"], 1, "{}", policies["shadow_figures"]);
    let decisions = until(server, "/v1/decisions?limit=50", "decisions have shadows", |decisions| {
        decisions["items"].as_array().unwrap().iter().any(|decision| decision["shadow_node"].is_string())
    })
    .await;
    assert!(decisions["items"][0]["reward"].is_number(), "{}", decisions["items"][0]);
    ask(server, "DELETE /v1/policies/shadow", json!({}));

    // Weights, tried before they apply.
    let energy = json!({ "weights": { "utilisation": 0, "balance": 0, "latency": 0, "affinity": 0, "energy": 1 } });
    let job = ask(server, "POST /v1/rewards/preview", energy.clone())["job"].as_str().unwrap().to_owned();
    let done = until(server, &format!("/v1/jobs/{job}"), "the preview ends", |job| job["state"] != "running").await;
    let watts = |side: &str| done["result"][side]["watts"].as_f64().unwrap_or_else(|| panic!("{done:#}"));
    // Pods come and go meanwhile: one of the two may know of one more.
    assert!(watts("then") <= watts("now") * 1.02, "{done:#}");
    assert_eq!(done["result"]["ranks"], false, "{done:#}");
    assert_eq!(ask(server, "PUT /v1/rewards", energy)["weights"]["energy"], 1.0);

    // The default policy spreads: what is learned on top of best fit is better, and ranks in the end.
    let promoted = |training: &Value| candidate(training, |one| one["verdict"] == "promoted").cloned();
    let training =
        until(server, "/v1/training", "a candidate is promoted", |training| promoted(training).is_some()).await;
    let candidate = promoted(&training).unwrap();
    assert!(candidate["high"].as_f64().unwrap() < 0.0, "{candidate}");
    assert!(!training["points"].as_array().unwrap().is_empty(), "{training}");
    let learned = candidate["version"].as_str().unwrap();
    assert_eq!(ask(server, "GET /v1/policies", json!({}))["active"], learned);
    until(server, "/cluster/state", "pods are packed", |state| state["totals"]["active_nodes"] == 1).await;
    assert_eq!(ask(server, "POST /model/save", json!({ "path": "kept" }))["path"], scratch.path("data/models/kept"));
    assert_eq!(ask(server, "POST /v1/policies/rollback", json!({}))["active"], "default");

    let recordings = ask(server, "GET /v1/recordings", json!({}));
    assert!(recordings["items"][0]["pods"].as_u64().unwrap() > 50, "{recordings}");
    assert_eq!(ask(server, "POST /v1/recordings/day/stop", json!({}))["state"], "done");
    pods.abort();
}

/// The first candidate of which this holds. The first lessons may be refused for too short a time.
fn candidate(training: &Value, holds: impl Fn(&Value) -> bool) -> Option<&Value> {
    training["candidates"].as_array()?.iter().find(|candidate| holds(candidate))
}

/// From here on the API server refuses every binding.
async fn refuse_bindings(admin: &Objects) {
    let rule =
        json!({ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"] });
    let validation = json!({ "expression": "false", "message": "nothing is bound today" });
    let policy = json!({ "spec": {
        "failurePolicy": "Fail", "matchConstraints": { "resourceRules": [rule] }, "validations": [validation],
    }});
    let binding = json!({ "spec": { "policyName": "no-bindings", "validationActions": ["Deny"] } });
    for (kind, object) in [("ValidatingAdmissionPolicy", policy), ("ValidatingAdmissionPolicyBinding", binding)] {
        admin.create(kind, "no-bindings", object).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_promoted_is_taken_back_by_itself_when_the_cluster_gets_worse() {
    let Some(mut lab) = lab().await else { return };
    let scratch = Scratch::new("worse");
    std::fs::write(scratch.path("config.yaml"), CONFIGURATION).unwrap();
    let objects = Objects { client: lab.client(User::Admin).await.unwrap(), namespace: "default".to_owned() };
    let arguments = ["--config", &scratch.path("config.yaml"), "--data", &scratch.path("data")];
    let server = start_plimsoll(&mut lab, "learner", &arguments).await;
    let pods = tokio::spawn(churn(objects.clone()));
    let with = |training: &Value, verdict: &str| candidate(training, |one| one["verdict"] == verdict).cloned();
    until(server, "/v1/training", "a candidate is promoted", |training| with(training, "promoted").is_some()).await;

    // Pods wait now, and in the shadow of the policy before they do not.
    refuse_bindings(&objects).await;
    let training =
        until(server, "/v1/training", "it is taken back", |training| with(training, "rolled-back").is_some()).await;
    let reason = with(&training, "rolled-back").unwrap()["reason"].clone();
    assert!(reason.as_str().is_some_and(|reason| reason.contains("pods waited")), "{reason}");
    assert_eq!(ask(server, "GET /v1/policies", json!({}))["active"], "default");
    pods.abort();
}

#[cfg(feature = "burn")]
#[tokio::test(flavor = "multi_thread")]
async fn a_deep_q_network_is_learned_while_pods_are_scheduled() {
    let Some(mut lab) = lab().await else { return };
    let scratch = Scratch::new("deep");
    let learn = CONFIGURATION.find("  learn:").unwrap();
    std::fs::write(scratch.path("config.yaml"), format!("{}  steps: 1500\n", &CONFIGURATION[..learn])).unwrap();
    let objects = Objects { client: lab.client(User::Admin).await.unwrap(), namespace: "default".to_owned() };
    let arguments = ["--config", &scratch.path("config.yaml"), "--data", &scratch.path("data")];
    let server = start_plimsoll(&mut lab, "learner", &arguments).await;
    let pods = tokio::spawn(churn(objects));
    // How good it is after so few steps is chance; that it was measured is not.
    let measured = |one: &Value| one["low"].is_number() && one["high"].is_number();
    let training =
        until(server, "/v1/training", "a candidate is measured", |training| candidate(training, measured).is_some())
            .await;
    let version = candidate(&training, measured).unwrap()["version"].as_str().unwrap().to_owned();
    assert!(training["points"].as_array().unwrap().iter().any(|point| point["loss"].is_number()), "{training}");
    let card = std::fs::read_to_string(std::path::Path::new(&version).join("card.json")).unwrap();
    let card: Value = serde_json::from_str(&card).unwrap();
    assert_eq!((&card["training"]["agent"], &card["network"]["kind"]), (&json!("dqn"), &json!("deepsets")), "{card}");
    pods.abort();
}

/// A token of a service account.
async fn token(objects: &Objects, name: &str) -> String {
    objects.create("ServiceAccount", name, json!({})).await;
    let accounts: Api<ServiceAccount> = Api::namespaced(objects.client.clone(), &objects.namespace);
    let request = accounts.create_token_request(name, &PostParams::default(), &TokenRequest::default()).await.unwrap();
    request.status.unwrap().token.unwrap()
}

async fn allow(objects: &Objects, name: &str, verbs: &[&str]) {
    objects.create("ClusterRole", name, json!({"rules": [{"nonResourceURLs": ["/plimsoll"], "verbs": verbs}]})).await;
    let binding = json!({
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": objects.namespace}],
    });
    objects.create("ClusterRoleBinding", name, binding).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_server_says_who_may_and_the_doctor_what_is_missing() {
    let Some(mut lab) = lab().await else { return };
    let objects = Objects { client: lab.client(User::Admin).await.unwrap(), namespace: "default".to_owned() };
    let server = start_plimsoll(&mut lab, "reviewed", &["--token-review"]).await;
    let (viewer, admin, nobody) = (
        token(&objects, "plimsoll-viewer").await,
        token(&objects, "plimsoll-admin").await,
        token(&objects, "nobody").await,
    );
    allow(&objects, "plimsoll-viewer", &["get"]).await;
    allow(&objects, "plimsoll-admin", &["get", "update"]).await;
    // The API server learns of rights a moment later.
    eventually("the viewer may read", || async {
        let (status, answer) = send(server, "GET /status", Some(&viewer), &json!({}));
        if status == 200 { Ok(()) } else { Err(format!("{status} {answer}")) }
    })
    .await;
    let change = |token: Option<&str>| send(server, "POST /v1/policies/best-fit/activate", token, &json!({})).0;
    assert_eq!(change(Some(&viewer)), 403);
    assert_eq!((change(None), change(Some("made-up")), change(Some(&nobody))), (401, 401, 401));
    assert_eq!(change(Some(&admin)), 200);
    let log = lab.log("reviewed").unwrap();
    assert!(!log.contains(&viewer) && !log.contains(&nobody), "tokens are not for logs");

    let kubeconfig = lab.kubeconfig(User::Plimsoll).display().to_string();
    let doctor = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        let output = command.args(["doctor", "--kubeconfig", &kubeconfig]).args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (status, said) = doctor(&[]);
    assert_eq!(status, Some(0), "{said}");
    for found in ["ok   rights: all", "ok   nodes: 6 of 6 ready", "note power: what 6 of 6", "note telemetry: none"] {
        assert!(said.contains(found), "{found}: {said}");
    }
    let (status, said) = doctor(&["--policy", "nonsense"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("BAD  policies") && said.contains("nonsense"), "{said}");
    let (_, said) = doctor(&["--prometheus", "http://127.0.0.1:1"]);
    assert!(said.contains("note Prometheus"), "{said}");
}
