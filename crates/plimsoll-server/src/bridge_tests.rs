//! What people see and steer, with a real engine behind it.

use crate::tests::{call, get, pod, server, three_nodes};
use crate::{App, Figures, Helm, Pace, PolicyEntry, Side, Stage, Token};
use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::Pod;
use plimsoll_core::engine::Event;
use plimsoll_core::policy;
use plimsoll_kube::survey::NodeView;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tower::ServiceExt;

fn helm() -> Helm {
    let entry = |name: &str| PolicyEntry { name: name.to_owned(), kind: "heuristic", ..PolicyEntry::default() };
    Helm {
        mode: "schedule",
        catalogue: Box::new(move || ["best-fit", "worst-fit", "models/broken"].map(entry).to_vec()),
        load: Box::new(|name, _| policy::by_name(name).ok_or_else(|| format!("{name}: its weights are cut off"))),
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

/// The tokens of [`guarded`].
const ADMIN: &str = "the-token-of-admins";
const VIEWER: &str = "the-token-of-viewers";

/// A server that lets in who knows a token, and the folder of the tokens.
async fn guarded(name: &str) -> (Router, PathBuf) {
    let folder = std::env::temp_dir().join(format!("plimsoll-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let token = |name: &str| {
        std::fs::write(folder.join(name), name).unwrap();
        Token::read(&folder.join(name)).unwrap()
    };
    let (admin, viewer) = (token(ADMIN), token(VIEWER));
    let router = with_helm(three_nodes(), |app| (app.token, app.viewer_token) = (Some(admin), Some(viewer))).await;
    (router, folder)
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
    let (router, folder) = guarded("roles").await;
    let ask = async |method: &str, path: &str, token: &str| {
        let request = Request::builder().method(method).uri(path).header("authorization", format!("Bearer {token}"));
        router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap().status()
    };
    let change = "/v1/policies/best-fit/activate";
    assert_eq!(ask("GET", "/cluster/state", VIEWER).await, StatusCode::OK);
    assert_eq!(ask("POST", change, VIEWER).await, StatusCode::FORBIDDEN);
    assert_eq!(ask("POST", change, ADMIN).await, StatusCode::OK);
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

#[tokio::test]
async fn weights_apply_as_a_whole_or_not_at_all() {
    let router = with_helm(three_nodes(), |_| {}).await;
    let (_, before) = get(&router, "/v1/rewards").await;
    assert_eq!((&before["profile"], &before["weights"]["utilisation"]), (&json!("default"), &json!(0.3)));
    let weights = |energy: Value| json!({ "weights": { "utilisation": 0, "balance": 0, "latency": 0, "affinity": 0, "energy": energy } });
    let zero = weights(json!(0));
    for wrong in [zero.clone(), weights(json!(-1)), weights(json!("much")), json!({}), json!({ "profile": "nobody" })] {
        let (status, answer) = call(&router, "PUT", "/v1/rewards", &wrong).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
    }
    assert_eq!(get(&router, "/v1/rewards").await.1, before);
    let (status, after) = call(&router, "PUT", "/v1/rewards", &weights(json!(1))).await;
    assert_eq!((status, &after["weights"]["energy"]), (StatusCode::OK, &json!(1.0)), "{after}");
    let (_, green) = call(&router, "PUT", "/v1/rewards", &json!({ "profile": "green" })).await;
    assert_eq!((&green["profile"], &green["weights"]["energy"]), (&json!("green"), &json!(0.5)));
    // There is no cluster to try weights on here.
    assert_eq!(call(&router, "POST", "/v1/rewards/preview", &weights(json!(1))).await.0, StatusCode::CONFLICT);
    assert_eq!(call(&router, "POST", "/v1/rewards/preview", &zero).await.0, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn who_learns_is_seen_and_told_to_begin() {
    let training: std::sync::Arc<crate::Training> = Default::default();
    let shown = std::sync::Arc::clone(&training);
    let router = with_helm(three_nodes(), |app| {
        let helm = Helm { training: shown, save: Box::new(|from, name| Ok(format!("{from} as {name}"))), ..helm() };
        app.bridge = crate::Bridge::new(app.inbox.clone(), helm);
    })
    .await;
    assert_eq!(call(&router, "POST", "/training/trigger", &json!({})).await.0, StatusCode::CONFLICT, "nobody learns");
    assert_eq!(call(&router, "POST", "/model/save", &json!({})).await.0, StatusCode::CONFLICT);
    training.write(|lesson| (lesson.stage, lesson.interval) = (crate::Phase::Waiting, 100));
    let (status, begun) = call(&router, "POST", "/training/trigger", &json!({})).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{begun}");
    tokio::time::timeout(Duration::from_secs(10), training.triggered()).await.unwrap();
    training.write(|lesson| {
        lesson.stage = crate::Phase::Training;
        lesson.episodes = 7;
        lesson.last = Some("models/learned".to_owned());
        lesson.points.push_back(crate::TrainingPoint { step: 5, loss: Some(0.5), ..Default::default() });
    });
    assert_eq!(
        call(&router, "POST", "/training/trigger", &json!({})).await.0,
        StatusCode::CONFLICT,
        "it learns already"
    );
    let (_, seen) = get(&router, "/v1/training").await;
    assert_eq!(
        (&seen["state"], &seen["points"][0]["loss"], &seen["interval"]),
        (&json!("training"), &json!(0.5), &json!(100))
    );
    let (_, status) = get(&router, "/status").await;
    assert_eq!((&status["training"]["running"], &status["training"]["episodes"]), (&json!(true), &json!(7)));
    training.write(|lesson| (lesson.stage, lesson.lessons) = (crate::Phase::Waiting, 1));
    let job = format!("/v1/jobs/{}", begun["job"].as_str().unwrap());
    until(&router, &job, |job| job["state"] == "done").await;
    let (_, saved) = call(&router, "POST", "/model/save", &json!({ "path": "mine" })).await;
    assert_eq!(saved["path"], "models/learned as mine");
    let (status, _) = call(&router, "POST", "/model/save", &json!({ "path": "../mine" })).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn experiments_are_jobs_and_their_reports_are_read() {
    let folder = std::env::temp_dir().join(format!("plimsoll-experiments-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let laboratory = crate::Laboratory {
        folder: folder.clone(),
        kinds: &["qtable"],
        command: |_, report| {
            let mut command = std::process::Command::new("cp");
            command.arg("/proc/self/status").arg(report);
            Ok(command)
        },
    };
    let router = with_helm(three_nodes(), |app| {
        app.bridge = crate::Bridge::new(app.inbox.clone(), Helm { laboratory: Some(laboratory), ..helm() });
    })
    .await;
    let (status, answer) = call(&router, "POST", "/v1/experiments", &json!({ "kind": "thesis" })).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
    let (status, answer) = call(&router, "POST", "/v1/experiments", &json!({ "kind": "qtable" })).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
    let job = format!("/v1/jobs/{}", answer["job"].as_str().unwrap());
    let done = until(&router, &job, |job| job["state"] != "running").await;
    assert_eq!(done["state"], "done", "{done}");
    let (_, listed) = get(&router, "/v1/experiments").await;
    assert_eq!(listed["items"][0]["name"], done["result"]["name"]);
    let report = |name: &str| Request::get(format!("/v1/experiments/{name}/report")).body(Body::empty()).unwrap();
    let found = router.clone().oneshot(report(done["result"]["name"].as_str().unwrap())).await.unwrap();
    assert_eq!(
        (found.status(), found.headers()["content-type"].to_str().unwrap()),
        (StatusCode::OK, "text/html; charset=utf-8")
    );
    assert_eq!(router.clone().oneshot(report("nothing")).await.unwrap().status(), StatusCode::NOT_FOUND);
    assert_eq!(router.clone().oneshot(report("..%2fsecret")).await.unwrap().status(), StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(get(&router, "/v1/jobs/99").await.0, StatusCode::NOT_FOUND);
    std::fs::remove_dir_all(&folder).unwrap();
    // Nothing is kept where there is no folder for it.
    let bare = with_helm(three_nodes(), |_| {}).await;
    assert_eq!(call(&bare, "POST", "/v1/recordings", &json!({ "name": "a" })).await.0, StatusCode::CONFLICT);
    assert_eq!(
        call(&bare, "POST", "/v1/recordings", &json!({ "name": "a/b" })).await.0,
        StatusCode::UNPROCESSABLE_ENTITY
    );
    assert_eq!(get(&bare, "/v1/recordings").await.1["items"], json!([]));
}

/// Every route of the API's description asks who it is, and every one that changes something asks for an admin.
#[tokio::test]
async fn no_route_is_open_to_who_has_no_token() {
    let (router, folder) = guarded("routes").await;
    let document = crate::document();
    let mut asked = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let uri =
                path.replace("{id}", "1").replace("{name}", "x").replace("{namespace}", "x").replace("{pod}", "x");
            let send = async |token: Option<&str>| {
                let mut request = Request::builder().method(method.to_uppercase().as_str()).uri(&uri);
                if let Some(token) = token {
                    request = request.header("authorization", format!("Bearer {token}"));
                }
                let request = request.header("content-type", "application/json").body(Body::from("{}")).unwrap();
                router.clone().oneshot(request).await.unwrap().status()
            };
            if operation["security"] == json!([{}]) {
                assert_eq!(path, "/health", "{path} is open");
                continue;
            }
            asked += 1;
            for nobody in [None, Some("wrong"), Some("")] {
                assert_eq!(send(nobody).await, StatusCode::UNAUTHORIZED, "{method} {path}");
            }
            // Who asks for advice changes nothing, though it takes a body.
            let is_question =
                ["/v1/scores", "/v1/what-if", "/extender/filter", "/extender/prioritize", "/extender/preempt"]
                    .contains(&path.as_str());
            let is_change = method != "get" && !is_question;
            assert_eq!(operation["responses"]["403"].is_object(), is_change, "{method} {path} says who may");
            assert_eq!(send(Some(VIEWER)).await == StatusCode::FORBIDDEN, is_change, "{method} {path}");
        }
    }
    assert!(asked > 30, "{asked}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Two nodes a side: one pod on each on the left, both pods on one on the right.
fn on_stage(clock: f64, stage: &Stage) {
    let node = |taken| NodeView { cpu_m: [taken, 4000], pods: [i64::from(taken > 0), 10], ..NodeView::default() };
    let (spread, packed) = ([node(1000), node(1000)], [node(2000), node(0)]);
    let figures = |kwh| Figures { kwh, ..Figures::default() };
    let left = Side { policy: "default", figures: figures(clock / 100.0), nodes: spread.iter().collect() };
    let right = Side { policy: "models/energy", figures: figures(clock / 200.0), nodes: packed.iter().collect() };
    stage.show(clock, false, &left, &right);
}

#[tokio::test]
async fn a_day_for_show_is_told_and_steered() {
    let stage = Arc::new(Stage::new(Pace { speed: 480.0, paused: false }));
    for clock in [0.0, 100.0, 300.0, 650.0] {
        on_stage(clock, &stage);
    }
    let shown = Arc::clone(&stage);
    let router = server(three_nodes(), |app| {
        app.bridge = crate::Bridge::new(app.inbox.clone(), Helm { mode: "demo", demo: Some(shown), ..helm() });
    })
    .await;
    let (status, day) = get(&router, "/v1/demo").await;
    assert_eq!(status, StatusCode::OK, "{day}");
    assert_eq!((&day["clock"], &day["speed"], &day["paused"]), (&json!(650.0), &json!(480.0), &json!(false)));
    assert_eq!((&day["left"]["loads"], &day["right"]["loads"]), (&json!([250, 250]), &json!([500, 0])));
    assert_eq!((&day["left"]["active_nodes"], &day["right"]["totals"]["active_nodes"]), (&json!(2), &json!(1)));
    let clocks: Vec<_> = day["history"].as_array().unwrap().iter().map(|moment| &moment["clock"]).collect();
    assert_eq!(clocks, [&json!(0.0), &json!(300.0), &json!(650.0)], "every five minutes, and not more often");
    let (_, day) = call(&router, "POST", "/v1/demo", &json!({ "paused": true, "speed": 60 })).await;
    assert_eq!((&day["speed"], &day["paused"]), (&json!(60.0), &json!(true)));
    for body in [json!({ "speed": 0 }), json!({ "speed": 1e9 }), json!({ "speed": "fast" }), json!({ "sped": 5 })] {
        let (status, answer) = call(&router, "POST", "/v1/demo", &body).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
    }
    assert_eq!(stage.pace(), Pace { speed: 60.0, paused: true }, "what is refused changes nothing");
    assert_eq!(get(&router, "/status").await.1["mode"], "demo");
    let elsewhere = with_helm(three_nodes(), |_| {}).await;
    assert_eq!(get(&elsewhere, "/v1/demo").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn those_who_listen_hear_how_the_day_goes() {
    let stage = Arc::new(Stage::new(Pace { speed: 480.0, paused: false }));
    let shown = Arc::clone(&stage);
    let router = server(three_nodes(), |app| {
        app.bridge = crate::Bridge::new(app.inbox.clone(), Helm { mode: "demo", demo: Some(shown), ..helm() });
    })
    .await;
    let response = router.clone().oneshot(Request::get("/v1/events").body(Body::empty()).unwrap()).await.unwrap();
    let (mut body, mut heard, begin) = (response.into_body(), String::new(), Instant::now());
    on_stage(700.0, &stage);
    while !heard.contains("\"clock\":700.0") {
        assert!(begin.elapsed() < Duration::from_secs(30), "{heard}");
        if let Ok(Some(frame)) = tokio::time::timeout(Duration::from_millis(200), body.frame()).await {
            heard.push_str(&String::from_utf8_lossy(frame.unwrap().data_ref().unwrap()));
        }
    }
    assert!(heard.contains("event: demo") && !heard.contains("history"), "{heard}");
}
