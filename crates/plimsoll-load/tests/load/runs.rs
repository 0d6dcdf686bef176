//! What a run counts and how it ends.

use crate::{alone, finished, scenario, shop};
use plimsoll_agent::app::{App, AppLimits};
use plimsoll_load::{Ended, Limits, Live, Named, Report, RunError, Scenario, run};
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::sync::watch;

fn named<'a>(report: &'a Report, name: &str) -> &'a Named {
    report.summary.requests.iter().find(|named| named.name == name).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_reported_is_what_the_service_saw() {
    let _alone = alone().await;
    let (target, hits) = shop::open().await;
    let head = "users = 4\nseconds = 2\nthink = { min_seconds = 0.01, max_seconds = 0.02 }";
    let requests = "{ path = '/fast' }, { path = '/slow', name = 'slow' }, { path = '/broken' }, { path = '/gone', expect = [410] }";
    let report = finished(&scenario(target, head, requests)).await.unwrap();
    assert_eq!((report.ended, report.target.clone()), (Ended::Finished, format!("http://{target}")));
    let hits = hits.lock().unwrap().clone();
    for (name, path) in [("GET /fast", "/fast"), ("slow", "/slow"), ("GET /broken", "/broken"), ("GET /gone", "/gone")]
    {
        let figures = &named(&report, name).figures;
        assert!(figures.requests > 4, "{name}: {figures:?}");
        assert_eq!(figures.requests, hits[path], "{name}: counted and seen");
        assert_eq!(figures.errors, if path == "/broken" { figures.requests } else { 0 }, "{name}: {figures:?}");
    }
    let broken = &named(&report, "GET /broken").figures;
    assert_eq!((broken.error_rate, broken.latency_ms), (1.0, None));
    assert_eq!(broken.errors_by_kind, [("status 503".to_owned(), broken.requests)].into());
    let total = &report.summary.total;
    assert_eq!(total.requests, hits.values().sum::<u64>());
    assert_eq!(total.requests, report.series.iter().map(|second| second.requests).sum::<u64>());
    assert_eq!(total.errors, report.series.iter().map(|second| second.errors).sum::<u64>());
    let slow = named(&report, "slow").figures.latency_ms.unwrap();
    let expected = shop::SLOW.as_secs_f64() * 1e3;
    assert!((expected..expected * 10.0).contains(&slow.p50), "{slow:?}");
    assert!(slow.p50 <= slow.p90 && slow.p90 <= slow.p95 && slow.p95 <= slow.p99 && slow.p99 <= slow.max, "{slow:?}");
    let fast = named(&report, "GET /fast").figures.latency_ms.unwrap();
    assert!(fast.p50 > 0.0 && fast.p50 < expected, "{fast:?}");
    assert!((2.0..4.0).contains(&report.summary.seconds), "{}", report.summary.seconds);
    assert!((total.per_second - total.requests as f64 / report.summary.seconds).abs() < 1e-6);
    let table = report.table().to_string();
    for word in ["request", "slow", "total", "status 503"] {
        assert!(table.contains(word), "{word} is missing in\n{table}");
    }
    let json = serde_json::to_string(&report).unwrap();
    let read: Report = serde_json::from_str(&json).unwrap();
    assert_eq!(read.summary.total.errors_by_kind, total.errors_by_kind);
    assert_eq!(read.series.len(), report.series.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_ends_a_run_early_with_what_was_measured() {
    let _alone = alone().await;
    let (target, _) = shop::open().await;
    let scenario = scenario(
        target,
        "users = 2\nseconds = 600\nthink = { min_seconds = 0.05, max_seconds = 0.05 }",
        "{ path = '/fast' }",
    );
    let (stop, stopped) = watch::channel(false);
    let live = Live::new();
    let looking = live.clone();
    let begun = Instant::now();
    let watcher = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let so_far = looking.last(Duration::from_secs(10));
        stop.send(true).unwrap();
        // Who drops it stops, too.
        std::future::pending::<()>().await;
        so_far
    });
    let report = run(&scenario, &Limits::default(), &live, stopped).await.unwrap();
    watcher.abort();
    assert_eq!(report.ended, Ended::Stopped);
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert!(report.summary.total.requests > 5, "{:?}", report.summary.total);
    assert!((1.0..10.0).contains(&report.summary.seconds));
    let last = live.last(Duration::from_secs(300));
    assert_eq!(last.requests, report.summary.total.requests, "a run that ended is looked back at from its end");
    assert!(last.latency_ms.unwrap().p95 > 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_stops_though_answers_do_not_come() {
    let _alone = alone().await;
    let (target, _) = shop::open().await;
    let begun = Instant::now();
    let report = finished(&scenario(target, "users = 3\nseconds = 1\ntimeout_seconds = 50", "{ path = '/hang' }"))
        .await
        .unwrap();
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!((report.summary.total.requests, report.ended), (0, Ended::Finished));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_takes_too_long_is_an_error() {
    let _alone = alone().await;
    let (target, _) = shop::open().await;
    let requests = "{ path = '/hang', timeout_seconds = 0.1 }, { path = '/fast' }";
    let report = finished(&scenario(target, "users = 2\nseconds = 1", requests)).await.unwrap();
    let hang = &named(&report, "GET /hang").figures;
    assert!(hang.requests > 2 && hang.errors_by_kind.get("timeout") == Some(&hang.requests), "{hang:?}");
    assert_eq!(named(&report, "GET /fast").figures.errors, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_refuses_connections_is_reported() {
    let _alone = alone().await;
    let target = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let report = finished(&scenario(target, "users = 2\nseconds = 1", "{ path = '/' }")).await.unwrap();
    let total = &report.summary.total;
    assert!(total.requests > 2 && total.requests < 200, "users wait after a refusal: {total:?}");
    assert_eq!(total.errors_by_kind, [("connection".to_owned(), total.requests)].into());
    assert_eq!(total.latency_ms, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_does_not_speak_tls_is_reported() {
    let _alone = alone().await;
    let (target, hits) = shop::open().await;
    let mut scenario = scenario(target, "users = 2\nseconds = 1", "{ path = '/fast' }");
    scenario.target = format!("https://{target}");
    let total = finished(&scenario).await.unwrap().summary.total;
    assert!(total.requests > 2 && total.errors_by_kind.get("connection") == Some(&total.requests), "{total:?}");
    assert!(hits.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_headers_cookies_and_redirects_are_those_of_the_scenario() {
    let _alone = alone().await;
    let (target, _) = shop::open().await;
    let head = "users = 2\nseconds = 1\ncookies = true\nheaders = { authorization = 'Bearer customer' }\n\
                think = { min_seconds = 0.01, max_seconds = 0.01 }";
    let requests = "{ path = '/login' }, { path = '/account' }, { path = '/here' }, { path = '/elsewhere' }, \
                    { path = '/order', method = 'post', json = { item = 3 }, expect = [201] }";
    let report = finished(&scenario(target, head, requests)).await.unwrap();
    for name in ["GET /login", "GET /account", "GET /here", "POST /order"] {
        let figures = &named(&report, name).figures;
        assert!(figures.requests > 0 && figures.errors == 0, "{name}: {figures:?}");
    }
    // Another host was not allowed, so that nobody follows there.
    let elsewhere = &named(&report, "GET /elsewhere").figures;
    assert_eq!(elsewhere.errors_by_kind, [("status 303".to_owned(), elsewhere.requests)].into());
}

#[tokio::test(flavor = "multi_thread")]
async fn weights_paces_and_rates_are_kept() {
    let _alone = alone().await;
    let (target, hits) = shop::open().await;
    let text = format!(
        "name = 'weights'\ntarget = 'http://{target}'\nusers = 8\nseconds = 3\nmax_requests_per_second = 100\n
         [[transactions]]\nname = 'often'\nweight = 9\nrequests = [{{ path = '/fast' }}]\n
         [[transactions]]\nname = 'seldom'\nweight = 1\nrequests = [{{ path = '/gone', expect = [410] }}]\n
         [[transactions]]\nname = 'never'\nweight = 0\nrequests = [{{ path = '/never' }}]\n"
    );
    let report = finished(&Scenario::parse("weights.toml", &text).unwrap()).await.unwrap();
    let total = &report.summary.total;
    assert!((100..=450).contains(&total.requests), "a hundred a second for three seconds: {total:?}");
    let hits = hits.lock().unwrap().clone();
    assert!(hits["/fast"] > 3 * hits["/gone"] && !hits.contains_key("/never"), "{hits:?}");
    let paced = "users = 2\nseconds = 2";
    let mut scenario = scenario(target, paced, "{ path = '/fast' }");
    scenario.transactions[0].every_seconds = Some(0.5);
    let requests = finished(&scenario).await.unwrap().summary.total.requests;
    assert!((4..=12).contains(&requests), "two users, every half second, for two seconds: {requests}");
}

#[tokio::test(flavor = "multi_thread")]
async fn users_come_and_go_in_stages() {
    let _alone = alone().await;
    let (target, _) = shop::open().await;
    let head = "stages = [{ users = 1, seconds = 1 }, { users = 20, seconds = 1 }, { users = 20, seconds = 1 }, { users = 1, seconds = 1 }]\n\
                think = { min_seconds = 0.1, max_seconds = 0.1 }";
    let report = finished(&scenario(target, head, "{ path = '/fast' }")).await.unwrap();
    assert!((4.0..6.0).contains(&report.summary.seconds), "{}", report.summary.seconds);
    let (alone, many) = (report.series[0].requests, report.series[2].requests);
    assert!(many > 3 * alone.max(1), "one user: {alone}, twenty: {many}");
}

#[tokio::test(flavor = "multi_thread")]
async fn there_is_one_run_at_a_time() {
    let _alone = alone().await;
    let (target, _) = shop::open().await;
    let one = scenario(
        target,
        "users = 1\nseconds = 2\nthink = { min_seconds = 0.1, max_seconds = 0.1 }",
        "{ path = '/fast' }",
    );
    let two = one.clone();
    let running = tokio::spawn(async move { finished(&one).await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(matches!(finished(&two).await, Err(RunError::Busy)));
    assert!(running.await.unwrap().unwrap().summary.total.requests > 0);
    // The switch that ended the first does not end the next.
    assert!(finished(&two).await.unwrap().summary.seconds >= 2.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_loads_the_service_for_experiments() {
    let _alone = alone().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = App::new(AppLimits::default(), std::env::temp_dir()).router();
    tokio::spawn(async move { axum::serve(listener, app).await });
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/load/app.toml");
    let mut scenario = Scenario::read(&file).unwrap();
    scenario.target = format!("http://{address}");
    (scenario.seconds, scenario.start_per_second) = (Some(3), None);
    let report = finished(&scenario).await.unwrap();
    assert_eq!(report.summary.total.errors, 0, "{}", report.table());
    for named in &report.summary.requests {
        assert!(named.figures.requests > 0, "{}: {}", named.name, report.table());
    }
}

#[test]
fn a_run_prints_nothing() {
    let test = "runs::users_come_and_go_in_stages";
    let program = std::env::current_exe().unwrap();
    let output = std::process::Command::new(program).args(["--exact", test, "--nocapture"]).output().unwrap();
    let (printed, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{printed}{complained}");
    let own = |line: &&str| !line.is_empty() && !line.starts_with("running 1 test") && !line.starts_with("test ");
    assert_eq!(printed.lines().filter(own).collect::<Vec<_>>(), Vec::<&str>::new());
    assert_eq!(complained, "");
}
