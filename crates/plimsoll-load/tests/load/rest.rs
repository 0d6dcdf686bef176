//! Runs by REST.

use crate::{alone, shop};
use plimsoll_load::{Limits, Service, Token, serve};
use reqwest::Method;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

struct Server {
    url: String,
    token: Option<&'static str>,
    end: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Server {
    async fn start() -> Self {
        Self::with(None, None).await
    }

    async fn with(token: Option<Token>, sent: Option<&'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (end, ended) = oneshot::channel();
        let task = tokio::spawn(serve(listener, Service::new(Limits::default()), token, async {
            let _ = ended.await;
        }));
        Self { url, token: sent, end: Some(end), task }
    }

    async fn send(&self, method: Method, path: &str, body: Option<String>) -> (u16, String) {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let mut request = client.request(method, format!("{}{path}", self.url));
        if let Some(token) = self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body);
        }
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    async fn get(&self, path: &str, status: u16) -> Value {
        self.checked(Method::GET, path, None, status).await
    }

    async fn post(&self, path: &str, body: Option<Value>, status: u16) -> Value {
        self.checked(Method::POST, path, body.map(|body| body.to_string()), status).await
    }

    async fn checked(&self, method: Method, path: &str, body: Option<String>, status: u16) -> Value {
        let (found, text) = self.send(method, path, body).await;
        assert_eq!(found, status, "{path}: {text}");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}: {text}"))
    }
}

fn body(target: SocketAddr, seconds: u32) -> Value {
    json!({
        "name": "shop",
        "target": format!("http://{target}"),
        "users": 2,
        "seconds": seconds,
        "think": { "min_seconds": 0.02, "max_seconds": 0.05 },
        "transactions": [{ "name": "browse", "requests": [{ "path": "/fast" }, { "path": "/broken" }] }],
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_begins_is_looked_at_and_has_results() {
    let _alone = alone().await;
    let (target, hits) = shop::open().await;
    let server = Server::start().await;
    assert_eq!(server.send(Method::GET, "/healthz", None).await, (200, "ok".to_owned()));
    assert_eq!(server.get("/v1/runs", 200).await, json!([]));
    let created = server.post("/v1/runs", Some(body(target, 3)), 201).await;
    assert_eq!(
        (&created["id"], &created["state"], &created["plannedSeconds"]),
        (&json!("run-1"), &json!("running"), &json!(3))
    );
    let early = server.get("/v1/runs/run-1/results", 409).await;
    assert!(early["error"].as_str().unwrap().contains("under way"), "{early}");
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let live = server.get("/v1/runs/run-1?window=5", 200).await;
    assert_eq!(live["state"], "running");
    assert!(live["total"]["requests"].as_u64() > Some(3), "{live}");
    assert!(live["recent"]["latencyMs"]["p95"].as_f64() > Some(0.0), "{live}");
    assert!((0.2..0.8).contains(&live["recent"]["errorRate"].as_f64().unwrap()), "{live}");
    let done = async {
        while server.get("/v1/runs/run-1", 200).await["state"] == "running" {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), done).await.unwrap();
    let report = server.get("/v1/runs/run-1/results", 200).await;
    let seen = hits.lock().unwrap().clone();
    assert_eq!(report["total"]["requests"].as_u64(), Some(seen.values().sum()));
    assert_eq!(report["total"]["errorsByKind"]["status 503"].as_u64(), Some(seen["/broken"]));
    assert_eq!((&report["ended"], &report["requests"][0]["name"]), (&json!("finished"), &json!("GET /fast")));
    let (_, metrics) = server.send(Method::GET, "/metrics", None).await;
    for line in [
        format!("plimsoll_load_requests_total {}", seen.values().sum::<u64>()),
        format!("plimsoll_load_errors_total{{kind=\"status 503\"}} {}", seen["/broken"]),
        format!("plimsoll_load_latency_seconds_count {}", seen["/fast"]),
        "plimsoll_load_running 0".to_owned(),
    ] {
        assert!(metrics.contains(&line), "expected {line:?} in\n{metrics}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_run_waits_until_the_first_is_stopped() {
    let _alone = alone().await;
    let (target, _) = shop::open().await;
    let mut server = Server::start().await;
    server.post("/v1/runs", Some(body(target, 600)), 201).await;
    let refused = server.post("/v1/runs", Some(body(target, 600)), 409).await;
    assert!(refused["error"].as_str().unwrap().contains("POST /v1/runs/run-1/stop"), "{refused}");
    tokio::time::sleep(Duration::from_millis(800)).await;
    let stopped = server.post("/v1/runs/run-1/stop", None, 200).await;
    assert_eq!(stopped["state"], "stopped");
    assert!(stopped["total"]["requests"].as_u64() > Some(0), "{stopped}");
    assert_eq!(server.get("/v1/runs/run-1/results", 200).await["ended"], "stopped");
    // Once more does no harm.
    assert_eq!(server.post("/v1/runs/run-1/stop", None, 200).await["state"], "stopped");
    server.post("/v1/runs", Some(body(target, 600)), 201).await;
    assert_eq!(server.get("/v1/runs", 200).await.as_array().unwrap().len(), 2);
    // A service that ends takes its run with it.
    server.end.take().unwrap().send(()).unwrap();
    tokio::time::timeout(Duration::from_secs(20), server.task).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_a_run_is_refused_in_words() {
    let (target, _) = shop::open().await;
    let server = Server::start().await;
    let post = |body: String| server.send(Method::POST, "/v1/runs", Some(body));
    let with = |field: &str, value: Value| {
        let mut body = body(target, 1);
        body[field] = value;
        body.to_string()
    };
    for (body, status, words) in [
        ("{".to_owned(), 400, "EOF"),
        ("[]".to_owned(), 422, "Scenario"),
        (with("speed", json!(1)), 422, "unknown field `speed`"),
        (with("users", json!("two")), 422, "users"),
        (with("users", json!(5000)), 422, "max_users is 1000"),
        (with("target", json!("http://93.184.216.34")), 422, "is not allowed"),
        (with("transactions", json!([])), 422, "at least one"),
        (with("name", json!("x".repeat(1 << 20))), 413, "length limit"),
    ] {
        let (found, text) = post(body.clone()).await;
        let start: String = body.chars().take(80).collect();
        assert_eq!(found, status, "{start}: {text}");
        let error = serde_json::from_str::<Value>(&text).unwrap()["error"].as_str().unwrap().to_owned();
        assert!(error.contains(words), "{start}: expected {words:?} in: {error}");
    }
    for (method, path, status) in [
        (Method::GET, "/v1/runs/run-9", 404),
        (Method::GET, "/v1/runs/run-9/results", 404),
        (Method::POST, "/v1/runs/run-9/stop", 404),
        (Method::GET, "/nowhere", 404),
        (Method::PUT, "/v1/runs", 405),
        (Method::GET, "/v1/runs/run-9?window=x", 400),
        (Method::GET, "/v1/runs/run-9?window=0", 422),
    ] {
        let answer = server.checked(method, path, None, status).await;
        assert!(answer["error"].is_string(), "{answer}");
    }
    assert_eq!(server.get("/v1/runs", 200).await, json!([]), "nothing was begun");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_token_only_health_is_told() {
    let file = std::env::temp_dir().join(format!("plimsoll-load-token-{}", std::process::id()));
    std::fs::write(&file, "0123456789abcdef\n").unwrap();
    let token = || Some(Token::read(&file).unwrap());
    let server = Server::with(token(), None).await;
    assert_eq!(server.send(Method::GET, "/healthz", None).await.0, 200);
    for path in ["/metrics", "/v1/runs"] {
        server.get(path, 401).await;
    }
    let knows = Server::with(token(), Some("0123456789abcdef")).await;
    assert_eq!(knows.get("/v1/runs", 200).await, json!([]));
    std::fs::remove_file(&file).unwrap();
}
