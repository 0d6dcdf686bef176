//! What people see and steer, with a real engine behind it.

use crate::tests::{call, get, pod, server, three_nodes};
use crate::{App, Helm, PolicyEntry, Token};
use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::Pod;
use plimsoll_core::engine::Event;
use plimsoll_core::policy;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tower::ServiceExt;

fn helm() -> Helm {
    let entry = |name: &str| PolicyEntry { name: name.to_owned(), kind: "heuristic", ..PolicyEntry::default() };
    Helm {
        mode: "schedule",
        catalogue: Box::new(move || ["best-fit", "worst-fit", "models/broken"].map(entry).to_vec()),
        load: Box::new(|name| policy::by_name(name).ok_or_else(|| format!("{name}: its weights are cut off"))),
        ..Helm::default()
    }
}

async fn with_helm(events: Vec<Event>, change: impl FnOnce(&mut App)) -> Router {
    server(events, |app| {
        app.bridge = crate::Bridge::new(app.inbox.clone(), helm());
        change(app);
    })
    .await
}

/// Asks until the answer is as wanted: what is seen follows the engine by a moment.
async fn until(router: &Router, path: &str, is_it: impl Fn(&Value) -> bool) -> Value {
    let begin = Instant::now();
    loop {
        let (status, answer) = get(router, path).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        if is_it(&answer) {
            return answer;
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "{path}: {answer}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn bound(name: &str, node: &str) -> Event {
    let mut value = pod(name, "1");
    value["spec"]["nodeName"] = json!(node);
    Event::apply(serde_json::from_value::<Pod>(value).unwrap())
}

#[tokio::test]
async fn the_cluster_is_seen_with_its_pods_and_page_by_page() {
    let mut events = three_nodes();
    events.extend([bound("a", "small"), bound("b", "small"), bound("c", "large")]);
    let router = with_helm(events, |_| {}).await;
    let state = until(&router, "/cluster/state", |state| state["totals"]["pods"] == 3).await;
    assert_eq!((&state["totals"]["nodes"], &state["totals"]["active_nodes"]), (&json!(3), &json!(2)));
    assert_eq!(state["totals"]["cpu_m"], json!([3000, 14000]));
    let small = state["nodes"].as_array().unwrap().iter().find(|node| node["name"] == "small").unwrap();
    assert_eq!(
        (&small["cpu_m"], &small["pods"], &small["shares"]),
        (&json!([2000, 2000]), &json!([2, 110]), &json!([500, 500]))
    );
    let (_, first) = get(&router, "/cluster/nodes?limit=2").await;
    assert_eq!((&first["items"][0]["name"], &first["next"]), (&json!("large"), &json!("medium")));
    let (_, rest) = get(&router, "/cluster/nodes?limit=2&cursor=medium").await;
    assert_eq!((rest["items"].as_array().unwrap().len(), &rest["next"]), (1, &Value::Null));
    let (_, node) = get(&router, "/cluster/nodes/small").await;
    assert_eq!((&node["pod_list"][1]["name"], &node["pod_list"][1]["cpu_m"]), (&json!("b"), &json!(1000)));
    assert_eq!(get(&router, "/cluster/nodes/nobody").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn what_if_says_where_why_and_who_refused() {
    let router = with_helm(three_nodes(), |_| {}).await;
    let (status, answer) =
        call(&router, "POST", "/v1/what-if", &json!({ "pod": pod("p", "3"), "profile": "best-fit" })).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    assert_eq!((&answer["outcome"], &answer["node"]), (&json!("placed"), &json!("medium")));
    assert_eq!((&answer["scores"][0]["node"], answer["scores"].as_array().unwrap().len()), (&json!("medium"), 2));
    assert_eq!(
        (&answer["refused"][0]["reason"], &answer["refused"][0]["count"]),
        (&json!("Insufficient cpu"), &json!(1))
    );
    let (_, answer) =
        call(&router, "POST", "/v1/what-if", &json!({ "pod": pod("p", "30"), "profile": "best-fit" })).await;
    assert_eq!((&answer["outcome"], &answer["node"]), (&json!("refused"), &Value::Null));
    assert!(answer["message"].as_str().unwrap().starts_with("0/3 nodes are available"), "{answer}");
    // Nothing is left of it.
    let (_, pending) = get(&router, "/v1/pending").await;
    assert_eq!(pending["items"], json!([]));
}

#[tokio::test]
async fn a_policy_is_switched_as_a_whole_or_not_at_all_and_back() {
    let router = with_helm(three_nodes(), |_| {}).await;
    let ask = json!({ "pod": pod("p", "1"), "profile": "best-fit" });
    let place = async || call(&router, "POST", "/v1/what-if", &ask).await.1["node"].clone();
    assert_eq!(place().await, "small");
    let load = |path: &str| json!({ "path": path, "profile": "best-fit" });
    let (status, answer) = call(&router, "POST", "/model/load", &load("worst-fit")).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    assert_eq!(place().await, "large");
    let (_, policies) = get(&router, "/v1/policies").await;
    assert_eq!((&policies["active"], &policies["items"][2]["name"]), (&json!("worst-fit"), &json!("models/broken")));
    for (path, status, told) in [
        ("models/broken", StatusCode::UNPROCESSABLE_ENTITY, "cut off"),
        ("/etc/passwd", StatusCode::NOT_FOUND, "/v1/policies lists"),
    ] {
        let (got, answer) = call(&router, "POST", "/model/load", &load(path)).await;
        assert_eq!(got, status, "{answer}");
        assert!(answer["error"].as_str().unwrap().contains(told), "{answer}");
        assert_eq!(place().await, "large", "a policy that cannot be had changes nothing");
    }
    assert_eq!(call(&router, "POST", "/v1/policies/nobody/activate", &json!({})).await.0, StatusCode::NOT_FOUND);
    let (status, policies) = call(&router, "POST", "/v1/policies/best-fit/activate", &json!({})).await;
    assert_eq!((status, &policies["active"]), (StatusCode::OK, &json!("best-fit")));
    assert_eq!(place().await, "small");
    let (status, policies) = call(&router, "POST", "/v1/policies/rollback", &json!({})).await;
    assert_eq!((status, &policies["active"]), (StatusCode::OK, &json!("worst-fit")));
    assert_eq!(place().await, "large");
}

#[tokio::test]
async fn a_viewer_reads_and_changes_nothing_and_without_tokens_others_get_figures_alone() {
    let folder = std::env::temp_dir().join(format!("plimsoll-roles-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let token = |name: &str| {
        std::fs::write(folder.join(name), name).unwrap();
        Token::read(&folder.join(name)).unwrap()
    };
    let (admin, viewer) = (token("admin"), token("viewer"));
    let router = with_helm(three_nodes(), |app| (app.token, app.viewer_token) = (Some(admin), Some(viewer))).await;
    let ask = async |method: &str, path: &str, token: &str| {
        let request = Request::builder().method(method).uri(path).header("authorization", format!("Bearer {token}"));
        router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap().status()
    };
    let change = "/v1/policies/best-fit/activate";
    assert_eq!(ask("GET", "/cluster/state", "viewer").await, StatusCode::OK);
    assert_eq!(ask("POST", change, "viewer").await, StatusCode::FORBIDDEN);
    assert_eq!(ask("POST", change, "admin").await, StatusCode::OK);
    assert_eq!(ask("POST", change, "other").await, StatusCode::UNAUTHORIZED);
    std::fs::remove_dir_all(&folder).unwrap();
    let open = with_helm(three_nodes(), |app| app.figures_only = true).await;
    for (path, status) in
        [("/metrics", StatusCode::OK), ("/healthz", StatusCode::OK), ("/cluster/state", StatusCode::FORBIDDEN)]
    {
        assert_eq!(get(&open, path).await.0, status, "{path}");
    }
}

#[tokio::test]
async fn what_happens_is_told_as_it_happens() {
    let router = with_helm(three_nodes(), |_| {}).await;
    until(&router, "/cluster/state", |state| state["totals"]["nodes"] == 3).await;
    let response = router.clone().oneshot(Request::get("/v1/events").body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut body = response.into_body();
    let mut heard = String::new();
    let begin = Instant::now();
    let mut switched = false;
    while !heard.contains("event: policy") {
        assert!(begin.elapsed() < Duration::from_secs(30), "{heard}");
        if let Ok(Some(frame)) = tokio::time::timeout(Duration::from_millis(200), body.frame()).await {
            heard.push_str(&String::from_utf8_lossy(frame.unwrap().data_ref().unwrap()));
        }
        if !switched && heard.contains("event: hello") {
            switched = true;
            let load = json!({ "path": "worst-fit", "profile": "best-fit" });
            assert_eq!(call(&router, "POST", "/model/load", &load).await.0, StatusCode::OK);
        }
    }
}
