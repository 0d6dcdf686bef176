//! The agent over HTTP: its API and limits, wrong tokens, bodies that are too large, owners who vanish, and its end.

#![expect(clippy::unwrap_used, reason = "the harness is test code, too")]

mod app;
mod client;
mod program;
mod server;

use serde_json::{Value, json};
use server::{Server, until};
use std::net::{TcpListener, UdpSocket};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn held(server: &Server) -> Vec<Value> {
    server.client.get("/v1/blocks").with(200).json()["blocks"].as_array().unwrap().clone()
}

#[test]
fn latency_is_measured_on_request_and_told_in_metrics() {
    let server = Server::agent("", None);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let asked = json!({ "target": target, "method": "tcp", "count": 5 });
    let report = server.client.post("/v1/latency", &asked).with(200).json();
    assert_eq!((&report["count"], &report["failures"]), (&json!(5), &json!(0)));
    assert!(report["p50Seconds"].as_f64() > Some(0.0), "{report}");
    let all = server.client.get("/v1/latency").with(200).json();
    assert_eq!(all["targets"][0], report);
    let metrics = server.client.get("/metrics").with(200);
    assert!(metrics.headers.contains("application/openmetrics-text"), "{}", metrics.headers);
    for quantile in ["0.5", "0.95", "0.99"] {
        let line = format!("plimsoll_latency_seconds{{target=\"{target}\",method=\"tcp\",quantile=\"{quantile}\"}} ");
        assert!(metrics.body.contains(&line), "expected {line:?} in {}", metrics.body);
    }
    assert!(metrics.body.contains(&format!("plimsoll_latency_ewma_seconds{{target=\"{target}\"")));
}

#[test]
fn targets_that_are_set_are_measured_from_then_on() {
    let server = Server::agent("", None);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let wanted = json!({ "targets": [{ "target": target, "method": "tcp", "intervalSeconds": 3600 }] });
    server.client.put("/v1/latency/targets", &wanted).with(200);
    until(|| {
        let report = server.client.get("/v1/latency").with(200).json();
        (report["targets"][0]["count"].as_u64()? > 0).then_some(())
    });
    server.client.put("/v1/latency/targets", &json!({ "targets": [] })).with(200);
    assert_eq!(server.client.get("/v1/latency").json()["targets"], json!([]));
}

#[test]
fn targets_outside_the_allow_list_are_refused() {
    let server = Server::agent("", None);
    for target in ["169.254.169.254:80", "example.com:80", "[fd00::1]:80"] {
        let reply = server.client.post("/v1/latency", &json!({ "target": target })).with(422);
        assert!(reply.error().contains("is not allowed"), "{}", reply.error());
        let wanted = json!({ "targets": [{ "target": target }] });
        server.client.put("/v1/latency/targets", &wanted).with(422);
        let block = json!({ "networkMibPerS": 1, "networkTarget": target, "seconds": 5 });
        server.client.post("/v1/blocks", &block).with(422);
    }
    let reply = server.client.post("/v1/latency", &json!({ "target": "127.0.0.1:1", "count": 1000 })).with(422);
    assert!(reply.error().contains("count is 1000"), "{}", reply.error());
}

const NODE: &str =
    "[energy]\npowercap = 'FOLDER/powercap'\nproc = 'FOLDER/proc'\ncgroup = 'FOLDER/cgroup'\nwindow_ms = 20\n";

#[test]
fn energy_says_where_it_is_known_from() {
    let server = Server::agent(&format!("{NODE}[energy.curve]\nidle_watts = 30\nfull_watts = 90\n"), None);
    server.folder.write("proc/42/stat", "42 (x) S 1 1 1 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 9 1 1\n");
    let mut ticks = 0;
    let report = until(|| {
        ticks += 10;
        server.folder.write("proc/stat", &format!("cpu  {ticks} 0 0 {ticks} 0 0 0 0 0 0\n"));
        let report = server.client.get("/v1/energy").with(200).json();
        (!report["watts"].is_null()).then_some(report)
    });
    assert_eq!(report["source"], "estimate");
    assert!(report["note"].as_str().unwrap().contains("there is no RAPL"), "{report}");
    server.client.get("/v1/energy/process/42").with(200);
    let metrics = server.client.get("/metrics").body;
    assert!(metrics.contains("plimsoll_node_power_watts{source=\"estimate\"} "), "{metrics}");
    for (path, status) in [
        ("/v1/energy/process/43", 404),
        ("/v1/energy/process/x", 400),
        ("/v1/energy/process/-1", 400),
        ("/v1/energy/pod/1b4e28ba-2fa1-11d2-883f-0016d3cca427", 404),
        ("/v1/energy/pod/..%2f..%2fetc", 404),
        ("/v1/energy/cgroup?path=../proc", 404),
        ("/v1/energy/cgroup", 400),
    ] {
        assert!(!server.client.get(path).with(status).error().is_empty());
    }
}

#[test]
fn energy_is_read_from_rapl_and_attributed_to_pods() {
    let server = Server::agent("[energy]\npowercap = 'FOLDER/empty'", None);
    server.client.get("/v1/energy/process/1").with(503);
    let folder = &server.folder;
    let pod = "cgroup/kubepods/burstable/pod1b4e28ba-2fa1-11d2-883f-0016d3cca427/cpu.stat";
    folder.write("powercap/intel-rapl:0/name", "package-0\n");
    folder.write("powercap/intel-rapl:0/max_energy_range_uj", "262143328850\n");
    let turn = |count: u64| {
        folder.write("powercap/intel-rapl:0/energy_uj", &format!("{}\n", count * 1_000_000));
        folder.write("proc/stat", &format!("cpu  {} 0 0 {} 0 0 0 0 0 0\n", count * 4, count * 4));
        folder.write(pod, &format!("usage_usec {}\n", count * 10_000));
    };
    turn(1);
    let config = NODE.replace("FOLDER", &folder.0.display().to_string());
    let other = Server::agent(&config, None);
    let mut count = 1;
    let report = until(|| {
        count += 1;
        turn(count);
        let report = other.client.get("/v1/energy").with(200).json();
        (report["pods"][0]["joules"].as_f64()? > 0.0).then_some(report)
    });
    assert_eq!((&report["source"], &report["zones"][0]["zone"]), (&json!("rapl"), &json!("package-0")));
    let metrics = other.client.get("/metrics").body;
    for line in [
        "plimsoll_energy_joules_total{zone=\"package-0\"} ",
        "plimsoll_pod_energy_joules_total{pod_uid=\"1b4e28ba-2fa1-11d2-883f-0016d3cca427\",source=\"rapl\"} ",
        "plimsoll_node_power_watts{source=\"rapl\"} ",
    ] {
        assert!(metrics.contains(line), "expected {line:?} in {metrics}");
    }
    other.client.get("/v1/energy/pod/1b4e28ba-2fa1-11d2-883f-0016d3cca427").with(200);
    let path = "/v1/energy/cgroup?path=kubepods/burstable/pod1b4e28ba-2fa1-11d2-883f-0016d3cca427";
    other.client.get(path).with(200);
}

#[test]
fn blocks_are_held_listed_and_released() {
    let server = Server::agent("[blocker]\ndisk_folder = 'FOLDER'", None);
    let asked =
        json!({ "cpu": 0.2, "memoryMib": 4, "diskMibPerS": 1, "networkMibPerS": 1, "seconds": 600, "ttlSeconds": 200 });
    let block = server.client.post("/v1/blocks", &asked).with(201).json();
    let path = format!("/v1/blocks/{}", block["id"].as_str().unwrap());
    until(|| {
        let done = server.client.get(&path).with(200).json()["done"].clone();
        let all = done["memoryMib"] == 4 && done["diskMib"].as_f64()? > 0.0 && done["networkMib"].as_f64()? > 0.0;
        (all && done["cpuSeconds"].as_f64()? > 0.0).then_some(())
    });
    assert_eq!(held(&server).len(), 1);
    assert!(server.client.get("/metrics").body.contains("plimsoll_blocked{resource=\"memory_mib\"} 4"));
    server.client.post(&format!("{path}/heartbeat"), &json!({})).with(200);
    let released = server.client.delete(&path).with(200).json();
    assert_eq!((&released["phase"], &released["done"]["memoryMib"]), (&json!("released"), &json!(0)));
    assert_eq!(held(&server).len(), 0);
    let left: Vec<_> = std::fs::read_dir(&server.folder.0).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "files are left: {left:?}");
    server.client.post(&format!("{path}/heartbeat"), &json!({})).with(404);
    server.client.get("/v1/blocks/block-99").with(404);
    server.client.delete("/v1/blocks/block-99").with(404);
}

#[test]
fn datagrams_reach_the_target_that_is_named() {
    let server = Server::agent("", None);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = socket.local_addr().unwrap().to_string();
    let asked = json!({ "networkMibPerS": 1, "networkTarget": target, "seconds": 600 });
    server.client.post("/v1/blocks", &asked).with(201);
    let mut datagram = [0; 2000];
    assert_eq!(socket.recv(&mut datagram).unwrap(), 1400);
}

#[test]
fn limits_are_hard_and_named() {
    let server =
        Server::agent("[blocker.limits]\ncpu = 2\nmemory_mib = 8\nseconds = 60\nttl_seconds = 30\nblocks = 2", None);
    for (asked, limit) in [
        (json!({ "cpu": 2.5, "seconds": 5 }), "blocker.limits.cpu is 2"),
        (json!({ "memoryMib": 9, "seconds": 5 }), "blocker.limits.memory_mib is 8"),
        (json!({ "cpu": 1, "seconds": 61 }), "blocker.limits.seconds is 60"),
        (json!({ "cpu": 1, "seconds": 5, "ttlSeconds": 31 }), "blocker.limits.ttl_seconds is 30"),
        (json!({ "diskMibPerS": 1, "seconds": 5 }), "blocker.disk_folder"),
        (json!({ "seconds": 5 }), "nothing is asked for"),
        (json!({ "cpu": -1, "seconds": 5 }), "cpu is -1"),
        (json!({ "cpu": "many", "seconds": 5 }), "invalid type"),
        (json!({ "cores": 1, "seconds": 5 }), "unknown field `cores`"),
    ] {
        let reply = server.client.post("/v1/blocks", &asked).with(422);
        assert!(reply.error().contains(limit), "expected {limit:?} in {:?}", reply.error());
    }
    let small = json!({ "memoryMib": 1, "seconds": 50 });
    server.client.post("/v1/blocks", &small).with(201);
    server.client.post("/v1/blocks", &small).with(201);
    let reply = server.client.post("/v1/blocks", &small).with(422);
    assert!(reply.error().contains("blocker.limits.blocks is 2"), "{}", reply.error());
}

#[test]
fn the_watchdog_releases_what_nobody_asks_for_any_more() {
    let server = Server::agent("", None);
    let asked = json!({ "cpu": 0.1, "memoryMib": 1, "seconds": 600, "ttlSeconds": 0.2 });
    let id = server.client.post("/v1/blocks", &asked).with(201).json()["id"].clone();
    let path = format!("/v1/blocks/{}", id.as_str().unwrap());
    let report = until(|| {
        let report = server.client.get(&path).with(200).json();
        (report["phase"] == "released").then_some(report)
    });
    assert_eq!(report["reason"], "no heartbeat within ttlSeconds");
    assert_eq!(held(&server).len(), 0);
}

#[test]
fn without_the_token_nothing_is_told() {
    let server = Server::agent("", Some(TOKEN));
    server.client.get("/v1/energy").with(200);
    for token in [None, Some("wrong"), Some("0123456789abcdef0123456789abcdeX"), Some("")] {
        let stranger = client::Client { token: token.map(str::to_owned), ..server.client.clone() };
        for path in ["/v1/energy", "/metrics", "/openapi.json", "/v1/blocks", "/no/such/path"] {
            let reply = stranger.get(path).with(401);
            assert!(reply.headers.contains("www-authenticate: bearer"), "{}", reply.headers);
            assert!(!reply.error().contains(TOKEN));
        }
        stranger.post("/v1/blocks", &json!({ "cpu": 1, "seconds": 5 })).with(401);
        stranger.get("/healthz").with(200);
    }
    assert_eq!(held(&server).len(), 0);
}

#[test]
fn bad_requests_have_their_status_and_an_error_in_json() {
    let server = Server::agent("", None);
    let large = json!({ "target": "x".repeat(100_000) });
    assert!(!server.client.post("/v1/latency", &large).with(413).error().is_empty());
    assert!(!server.client.send("POST", "/v1/blocks", Some("{")).with(400).error().is_empty());
    assert!(!server.client.send("DELETE", "/v1/energy", None).with(405).error().is_empty());
    assert!(server.client.get("/v1/nothing").with(404).error().contains("/openapi.json"));
    // A page that a browser shows may send this without asking first.
    let form = "POST /v1/blocks HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\n{}";
    assert!(!server.client.raw(form).with(415).error().is_empty());
}

#[test]
fn every_operation_of_the_document_is_there() {
    let server = Server::agent("", None);
    let document = server.client.get("/openapi.json").with(200).json();
    let mut count = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        let path = path.replace("{pid}", "4294967295").replace("{uid}", "no-such-pod").replace("{id}", "block-7");
        for method in methods.as_object().unwrap().keys() {
            let body = ["post", "put"].contains(&method.as_str()).then_some("[]");
            let reply = server.client.send(&method.to_uppercase(), &path, body);
            let is_known = reply.status != 405 && !(reply.status == 404 && reply.error().contains("no such path"));
            assert!(is_known, "{method} {path}: {reply:?}");
            count += 1;
        }
    }
    assert_eq!(count, 15);
}
