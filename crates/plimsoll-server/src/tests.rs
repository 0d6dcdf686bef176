//! The server with a real engine behind it; only the API server is not there.

use crate::{App, Helm, Token, router};
use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use plimsoll_core::config::Configuration;
use plimsoll_core::engine::{Engine, Event};
use plimsoll_core::policy;
use plimsoll_kube::api::Api;
use plimsoll_kube::driver::{Driver, Inbox, Input, Settings};
use plimsoll_kube::fence::Fence;
use plimsoll_kube::metrics::Metrics;
use plimsoll_kube::outbox::Outbox;
use plimsoll_kube::record::Recorder;
use plimsoll_kube::survey::Ranked;
use plimsoll_kube::world::World;
use plimsoll_telemetry::{Reading, Store};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;
use tower::ServiceExt;

const POLICIES: [&str; 2] = ["best-fit", "worst-fit"];

/// A server whose cluster has these objects.
pub(crate) async fn server(events: Vec<Event>, change: impl FnOnce(&mut App)) -> Router {
    let (inbox, receiver) = Inbox::new();
    // Nothing is written in these tests: whoever tries is told that nobody is there.
    let nobody = tower::service_fn(|_: Request<kube::client::Body>| async {
        Err::<axum::http::Response<kube::client::Body>, _>(std::io::Error::other("nobody is there"))
    });
    let api = Api::new(Client::new(nobody, "default"), Fence::closed());
    let metrics = Arc::new(Metrics::new());
    let (recorder, _) = Recorder::new(&api, &inbox, Arc::clone(&metrics), "host");
    let outbox = Outbox::new(api, inbox.clone(), tokio::runtime::Handle::current(), recorder, Arc::clone(&metrics));
    let mut configuration = Configuration::default();
    let profile = configuration.profiles[0].clone();
    configuration.profiles = POLICIES
        .map(|name| {
            let mut own = profile.clone();
            own.scheduler_name = name.to_owned();
            own
        })
        .into();
    let mut engine = Engine::new(&configuration, 1);
    for name in POLICIES {
        engine.set_policy(name, policy::by_name(name).unwrap());
    }
    let settings = Settings {
        kinds: 0,
        max_in_flight: 1,
        patience: FxHashMap::default(),
        world: World::new(Vec::new()),
        policies: POLICIES
            .map(|name| Ranked { profile: name.to_owned(), policy: name.to_owned(), counters: None })
            .into(),
        shadow: None,
        extenders: None,
        tracer: None,
        critic: None,
    };
    let driver = Driver::new(engine, outbox, metrics, settings, tokio::sync::oneshot::channel().0);
    tokio::spawn(driver.run(receiver));
    for event in events {
        inbox.send(Input::Event(event)).await.unwrap();
    }
    let ready = Arc::new(AtomicBool::new(true));
    let mut app =
        App::new(inbox, ready, POLICIES.map(str::to_owned).into(), Arc::new(Store::default()), Helm::default());
    change(&mut app);
    router(app)
}

pub(crate) fn node(name: &str, cpu: &str) -> Event {
    let resources = json!({ "cpu": cpu, "memory": "32Gi", "pods": "110" });
    let node: Node = serde_json::from_value(json!({
        "metadata": { "name": name }, "status": { "allocatable": resources, "capacity": resources },
    }))
    .unwrap();
    Event::apply(node)
}

pub(crate) fn pod(name: &str, cpu: &str) -> Value {
    json!({
        "metadata": { "name": name, "namespace": "default", "uid": format!("uid-{name}") },
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [{ "name": "c", "resources": { "requests": { "cpu": cpu, "memory": "1Gi" } } }],
        },
    })
}

pub(crate) fn three_nodes() -> Vec<Event> {
    vec![node("small", "2"), node("medium", "4"), node("large", "8")]
}

async fn send(router: &Router, request: Request<Body>) -> (StatusCode, Value) {
    let response = router.clone().oneshot(request).await.unwrap();
    let status = response.status();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap_or(Value::String(String::from_utf8_lossy(&bytes).into_owned())))
}

pub(crate) async fn call(router: &Router, method: &str, path: &str, body: &Value) -> (StatusCode, Value) {
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    send(router, request.body(Body::from(body.to_string())).unwrap()).await
}

pub(crate) async fn get(router: &Router, path: &str) -> (StatusCode, Value) {
    send(router, Request::get(path).body(Body::empty()).unwrap()).await
}

async fn ask(router: &Router, body: &Value) -> Value {
    let (status, answer) = call(router, "POST", "/v1/scores", body).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    answer["items"].clone()
}

fn item(pod: Value) -> Value {
    json!({ "pod": pod, "nodes": ["large", "nobody", "small", "medium"] })
}

#[tokio::test]
async fn nodes_are_judged_by_the_policy_that_is_asked_for() {
    let router = server(three_nodes(), |_| {}).await;
    let items = ask(&router, &json!({ "items": [item(pod("a", "1")), item(pod("b", "1"))] })).await;
    assert_eq!(items[0]["decidedBy"], "heuristic");
    assert_eq!(items[0]["policy"], "best-fit");
    assert_eq!((&items[0]["scores"][2], &items[0]["scores"][1]), (&json!(100), &Value::Null), "{items}");
    assert_eq!(items[0], items[1]);
    let worst = ask(&router, &json!({ "items": [item(pod("a", "1"))], "policy": "worst-fit" })).await;
    assert_eq!(worst[0]["scores"][0], 100, "{worst}");
}

#[tokio::test]
async fn fine_scores_of_some_nodes_can_be_brought_to_what_these_alone_would_have() {
    let mut events = three_nodes();
    events.push(node("huge", "13"));
    let router = server(events, |_| {}).await;
    let some = ["huge", "medium", "large"];
    let about =
        |nodes: &[&str], most: u64| json!({ "items": [{ "pod": pod("a", "1"), "nodes": nodes }], "most": most });
    let alone = ask(&router, &about(&some, 100)).await;
    let all = ask(&router, &about(&["huge", "medium", "large", "small", "nobody"], 1_000_000_000)).await;
    assert_eq!(
        (&all[0]["scores"][3], &all[0]["scores"][4], &all[0]["apart"]),
        (&json!(1_000_000_000), &Value::Null, &json!(true))
    );
    let fine: Vec<f64> = (0..some.len()).map(|at| all[0]["scores"][at].as_f64().unwrap()).collect();
    let (best, worst) = (fine.iter().copied().fold(f64::MIN, f64::max), fine.iter().copied().fold(f64::MAX, f64::min));
    let again: Vec<_> = fine.iter().map(|score| ((score - worst) / (best - worst) * 100.0).round() as i64).collect();
    assert_eq!(alone[0]["scores"], json!(again), "{all}");
    assert_eq!(
        call(&router, "PUT", "/v1/recommendations/default/a*", &json!({ "node": "small" })).await.0,
        StatusCode::CREATED
    );
    let items = ask(&router, &about(&["small", "large"], 1000)).await;
    assert_eq!(
        (&items[0]["scores"], &items[0]["apart"]),
        (&json!([1000, 0]), &json!(false)),
        "without small, the policy would decide"
    );
}

#[tokio::test]
async fn what_was_placed_takes_room_until_it_is_released() {
    let waiting: Pod = serde_json::from_value(pod("placed", "1500m")).unwrap();
    let mut events = three_nodes();
    events.push(Event::apply(waiting));
    let router = server(events, |_| {}).await;
    let best = async |more: Value| {
        let mut body = json!({ "items": [item(pod("a", "1"))] });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ask(&router, &body).await[0]["scores"].clone()
    };
    let before = best(json!({})).await;
    let placed =
        json!({ "placed": [{ "namespace": "default", "name": "placed", "uid": "uid-placed", "node": "medium" }] });
    let after = best(placed).await;
    assert_ne!(before, after, "the room that was taken is not seen");
    assert_eq!(after, best(json!({})).await, "it stays taken");
    let elsewhere = json!({ "placed": [{ "uid": "uid-placed", "node": "large" }] });
    assert_ne!(after, best(elsewhere).await, "the last word counts");
    assert_eq!(before, best(json!({ "released": ["uid-placed"] })).await);
}

#[tokio::test]
async fn a_recommendation_counts_more_than_a_policy() {
    let router = server(three_nodes(), |_| {}).await;
    let path = "/v1/recommendations/default/a*";
    assert_eq!(call(&router, "GET", path, &Value::Null).await.0, StatusCode::NOT_FOUND);
    let wanted = json!({ "node": "medium", "reason": "a person" });
    assert_eq!(call(&router, "PUT", path, &wanted).await, (StatusCode::CREATED, wanted.clone()));
    let items = ask(&router, &json!({ "items": [item(pod("a-1", "1")), item(pod("b-1", "1"))] })).await;
    assert_eq!(items[0]["scores"], json!([0, 0, 0, 100]));
    assert_eq!((&items[0]["decidedBy"], &items[1]["decidedBy"]), (&json!("recommendation"), &json!("heuristic")));
    let args = json!({ "Pod": pod("a-1", "1"), "NodeNames": ["small", "medium"] });
    let (_, points) = call(&router, "POST", "/extender/prioritize", &args).await;
    assert_eq!(points, json!([{ "Host": "medium", "Score": 10 }]));
    let (_, list) = call(&router, "GET", "/v1/recommendations", &Value::Null).await;
    assert_eq!(list[0]["pod"], "a*");
    assert_eq!(call(&router, "DELETE", path, &Value::Null).await.0, StatusCode::NO_CONTENT);
    assert_eq!(call(&router, "DELETE", path, &Value::Null).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn an_extender_filters_ranks_and_agrees_to_preemptions() {
    let router = server(three_nodes(), |_| {}).await;
    let args = json!({ "Pod": pod("a", "3"), "NodeNames": ["small", "medium", "nobody"] });
    let (status, answer) = call(&router, "POST", "/extender/filter", &args).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(answer["NodeNames"], json!(["medium", "nobody"]));
    assert_eq!(answer["FailedAndUnresolvableNodes"], json!({ "small": "Insufficient cpu" }), "{answer}");
    assert_eq!((&answer["Nodes"], &answer["Error"]), (&Value::Null, &json!("")));
    let whole = json!({ "items": [{ "metadata": { "name": "small" } }, { "metadata": { "name": "large", "labels": { "a": "b" } } }] });
    let (_, answer) = call(&router, "POST", "/extender/filter", &json!({ "Pod": pod("a", "3"), "Nodes": whole })).await;
    assert_eq!(answer["Nodes"]["items"][0]["metadata"], whole["items"][1]["metadata"], "{answer}");
    let (_, points) =
        call(&router, "POST", "/extender/prioritize", &json!({ "Pod": pod("a", "1"), "Nodes": whole })).await;
    assert_eq!(points, json!([{ "Host": "small", "Score": 10 }]));
    let victims = json!({ "n": { "Pods": [{ "metadata": { "name": "v", "uid": "u" } }], "NumPDBViolations": 1 } });
    let args = json!({ "Pod": pod("a", "1"), "NodeNameToVictims": victims });
    let (_, answer) = call(&router, "POST", "/extender/preempt", &args).await;
    assert_eq!(
        answer,
        json!({ "NodeNameToMetaVictims": { "n": { "Pods": [{ "UID": "u" }], "NumPDBViolations": 1 } } })
    );
    let args = json!({ "PodName": "a", "PodNamespace": "default", "PodUID": "u", "Node": "n" });
    assert_eq!(call(&router, "POST", "/extender/bind", &args).await.0, StatusCode::NOT_FOUND, "it binds nothing");
    let args = json!({ "PodName": "../a", "PodNamespace": "default", "PodUID": "u", "Node": "n" });
    assert_eq!(call(&router, "POST", "/extender/bind", &args).await.0, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn what_cannot_be_is_refused_with_what_is_wrong() {
    let router = server(three_nodes(), |_| {}).await;
    let names: Vec<_> = (0..100_001).map(|at| format!("n{at}")).collect();
    let many: Vec<_> = (0..257).map(|_| json!({ "pod": {}, "nodes": [] })).collect();
    for (body, status, word) in [
        (json!({ "items": [], "policy": "guess" }), 404, "best-fit, worst-fit"),
        (json!({ "pods": [] }), 422, "pods"),
        (json!({ "items": [{ "pod": pod("a", "1"), "nodes": names }] }), 422, "100000"),
        (json!({ "items": many }), 422, "257"),
        (json!({ "items": [], "deadlineMs": 0 }), 422, "deadlineMs"),
        (json!({ "items": [], "deadlineMs": 30_001 }), 422, "deadlineMs"),
        (json!({ "items": [], "most": 0 }), 422, "most"),
        (json!({ "items": [], "most": 1_000_000_001 }), 422, "most"),
    ] {
        let (code, answer) = call(&router, "POST", "/v1/scores", &body).await;
        assert_eq!(code.as_u16(), status, "{answer}");
        assert!(answer["error"].as_str().unwrap().contains(word), "{answer}");
    }
    let raw = |body: Vec<u8>, kind: &str| {
        Request::post("/v1/scores").header("content-type", kind).body(Body::from(body)).unwrap()
    };
    let (code, answer) = send(&router, raw(b"{".to_vec(), "application/json")).await;
    assert_eq!((code.as_u16(), answer["error"].is_string()), (400, true));
    assert_eq!(send(&router, raw(b"{}".to_vec(), "text/plain")).await.0.as_u16(), 415);
    assert_eq!(send(&router, raw(vec![b' '; 9 << 20], "application/json")).await.0.as_u16(), 413);
    // A pod that cannot be read spoils its own answer alone.
    let odd = json!({ "metadata": { "name": "odd", "uid": "odd" }, "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": "many" } } }] } });
    let items = ask(&router, &json!({ "items": [item(odd), item(pod("a", "1"))] })).await;
    assert!(items[0]["error"].is_string() && items[1]["scores"].is_array(), "{items}");
    assert_eq!(call(&router, "GET", "/v1/nothing", &Value::Null).await.0.as_u16(), 404);
    assert_eq!(call(&router, "GET", "/v1/scores", &Value::Null).await.0.as_u16(), 405);
}

#[tokio::test]
async fn who_has_no_token_learns_nothing_but_that_it_is_alive() {
    let file = std::env::temp_dir().join(format!("plimsoll-token-{}", std::process::id()));
    std::fs::write(&file, "sixteen-or-longer\n").unwrap();
    let router = server(three_nodes(), |app| app.token = Some(Token::read(&file).unwrap())).await;
    std::fs::write(&file, "too-short").unwrap();
    assert!(Token::read(&file).err().unwrap().to_string().contains("16 printable characters"));
    let with = |token: &str| Request::get("/v1/policies").header("authorization", token).body(Body::empty()).unwrap();
    for wrong in ["", "sixteen-or-longer", "Bearer ", "Bearer sixteen-or-longe", "Bearer sixteen-or-longer2"] {
        assert_eq!(send(&router, with(wrong)).await.0, StatusCode::UNAUTHORIZED, "{wrong:?}");
    }
    let (status, policies) = send(&router, with("bearer sixteen-or-longer")).await;
    assert_eq!((status, policies["items"].is_array()), (StatusCode::OK, true));
    assert_eq!(call(&router, "GET", "/healthz", &Value::Null).await.0, StatusCode::OK);
    assert_eq!(call(&router, "GET", "/metrics", &Value::Null).await.0, StatusCode::UNAUTHORIZED);
    std::fs::remove_file(&file).unwrap();
}

#[tokio::test]
async fn pages_of_others_steer_nothing_where_no_token_is_asked_for() {
    let router = server(three_nodes(), |_| {}).await;
    let status = async |headers: &[(&str, &str)]| {
        let mut request = Request::get("/v1/policies");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        send(&router, request.body(Body::empty()).unwrap()).await.0
    };
    for own in [
        &[][..],
        &[("host", "localhost:10259")],
        &[("host", "[::1]:10259"), ("origin", "http://[::1]:10259"), ("sec-fetch-site", "same-origin")],
        &[("host", "127.0.0.1:1"), ("sec-fetch-site", "none")],
    ] {
        assert_eq!(status(own).await, StatusCode::OK, "{own:?}");
    }
    for foreign in [
        &[("host", "localhost:10259"), ("origin", "http://example.com")][..],
        &[("host", "localhost:10259"), ("origin", "null")],
        &[("host", "localhost:10259"), ("sec-fetch-site", "cross-site")],
        &[("host", "localhost:10259"), ("sec-fetch-site", "same-site")],
        &[("host", "example.com")],
    ] {
        assert_eq!(status(foreign).await, StatusCode::FORBIDDEN, "{foreign:?}");
    }
}

#[tokio::test]
async fn nothing_is_said_before_all_is_known() {
    let router = server(three_nodes(), |app| app.ready.store(false, Ordering::Release)).await;
    let request = Request::post("/v1/scores").header("content-type", "application/json");
    let response = router.clone().oneshot(request.body(Body::from("{\"items\":[]}")).unwrap()).await.unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(response.headers().contains_key("retry-after"));
    assert_eq!(call(&router, "GET", "/readyz", &Value::Null).await.0, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(call(&router, "GET", "/livez", &Value::Null).await.0, StatusCode::OK);
}

#[tokio::test]
async fn readings_are_told_with_their_age() {
    let router = server(three_nodes(), |app| {
        let now = SystemTime::now();
        app.telemetry.put("small", "cpu_percent", Reading { value: 12.5, at: now });
        app.telemetry.put(
            "large",
            "cpu_percent",
            Reading { value: 1.0, at: now - std::time::Duration::from_secs(120) },
        );
    })
    .await;
    let (_, nodes) = call(&router, "GET", "/v1/nodes", &Value::Null).await;
    assert_eq!(
        (&nodes[0]["node"], &nodes[0]["metrics"]["cpu_percent"]["stale"]),
        (&json!("large"), &json!(true)),
        "{nodes}"
    );
    let (_, small) = call(&router, "GET", "/v1/nodes/small/metrics", &Value::Null).await;
    assert_eq!(small["metrics"]["cpu_percent"]["value"], 12.5);
    assert_eq!(small["metrics"]["cpu_percent"]["history"].as_array().unwrap().len(), 1);
    assert_eq!(call(&router, "GET", "/v1/nodes/medium/metrics", &Value::Null).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn every_path_is_described_and_counted() {
    let router = server(three_nodes(), |_| {}).await;
    let (_, document) = call(&router, "GET", "/openapi.json", &Value::Null).await;
    let paths: Vec<_> = document["paths"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(paths.len(), 40, "{paths:?}");
    ask(&router, &json!({ "items": [item(pod("a", "1"))] })).await;
    let (_, metrics) = call(&router, "GET", "/metrics", &Value::Null).await;
    let metrics = metrics.as_str().unwrap();
    assert!(metrics.contains("plimsoll_suggestions_total{decided_by=\"heuristic\"} 1"), "{metrics}");
    assert!(metrics.contains("path=\"/v1/scores\",code=\"200\""), "{metrics}");
}
