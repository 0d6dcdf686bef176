//! The service for experiments.

use crate::server::Server;
use plimsoll_agent::app::AppLimits;

#[test]
fn each_path_costs_what_was_asked_for() {
    let server = Server::app(AppLimits::default());
    let cpu = server.client.get("/cpu?ms=5").with(200).json();
    assert!(cpu["cpuMs"].as_f64() >= Some(5.0), "{cpu}");
    assert_eq!(server.client.get("/memory?mib=3&ms=1").with(200).json()["mib"], 3);
    assert_eq!(server.client.get("/disk?mib=1").with(200).json()["mib"], 1);
    assert_eq!(std::fs::read_dir(&server.folder.0).unwrap().count(), 0, "a file is left");
    assert_eq!(server.client.get("/network?kib=7").with(200).body.len(), 7 * 1024);
    server.client.get("/healthz").with(200);
    let metrics = server.client.get("/metrics").with(200).body;
    let line = "plimsoll_app_request_duration_seconds_count{path=\"/cpu\",code=\"200\"} 1";
    assert!(metrics.contains(line), "expected {line:?} in {metrics}");
}

#[test]
fn what_is_too_much_is_refused() {
    let server = Server::app(AppLimits::default());
    for (path, name) in [
        ("/cpu?ms=10001", "ms is 10001"),
        ("/memory?mib=257", "mib is 257"),
        ("/memory?mib=1&ms=10001", "ms is 10001"),
        ("/disk?mib=65", "mib is 65"),
        ("/network?kib=16385", "kib is 16385"),
    ] {
        let error = server.client.get(path).with(422).error();
        assert!(error.contains(name), "expected {name:?} in {error:?}");
    }
    for path in ["/cpu", "/cpu?ms=-1", "/memory?mib=x", "/disk", "/network?kib="] {
        assert!(!server.client.get(path).with(400).error().is_empty());
    }
    assert!(!server.client.get("/other").with(404).error().is_empty());
    assert!(server.client.get("/metrics").body.contains("path=\"other\",code=\"404\""));
}

#[test]
fn a_service_that_is_overloaded_says_so() {
    let server = Server::app(AppLimits { requests: 0, ..AppLimits::default() });
    for path in ["/cpu?ms=1", "/memory?mib=1", "/disk?mib=1"] {
        assert!(server.client.get(path).with(503).error().contains("try again"));
    }
}
