use super::*;
use crate::config::TargetConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

fn latency(max_targets: usize) -> Latency {
    let config = LatencyConfig { max_targets, timeout_seconds: 5.0, ..LatencyConfig::default() };
    Latency::new(&config, &AllowList::default()).unwrap()
}

fn ask(target: &str, method: Method) -> MeasureRequest {
    MeasureRequest { target: target.to_owned(), method, count: 3 }
}

fn set(targets: &[&str]) -> TargetsRequest {
    let target =
        |target: &&str| TargetRequest { target: (*target).to_owned(), method: Method::Tcp, interval_seconds: 10.0 };
    TargetsRequest { targets: targets.iter().map(target).collect() }
}

fn names(latency: &Latency) -> Vec<String> {
    latency.report().targets.into_iter().map(|report| report.target).collect()
}

#[tokio::test]
async fn a_tcp_round_trip_is_measured() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let report = latency(4).measure(&ask(&target, Method::Tcp)).await.unwrap();
    assert_eq!((report.count, report.failures, report.last_error), (3, 0, None));
    assert!(report.p50_seconds.unwrap() > 0.0);
    assert!(report.p50_seconds <= report.p99_seconds);
    assert_eq!(report.address.as_deref(), Some("127.0.0.1"));
}

/// A server that knows no HEAD, and counts what it was asked.
async fn serve_get_only(listener: TcpListener, asked: Arc<Mutex<Vec<String>>>) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut text = [0; 1024];
        let length = stream.read(&mut text).await.unwrap();
        let verb = String::from_utf8_lossy(&text[..length]).split(' ').next().unwrap().to_owned();
        let status = if verb == "GET" { "200 OK" } else { "405 Method Not Allowed" };
        lock(&asked).push(verb);
        stream.write_all(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").as_bytes()).await.unwrap();
    }
}

#[tokio::test]
async fn http_falls_back_to_get() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = format!("http://{}/health", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    tokio::spawn(serve_get_only(listener, Arc::clone(&asked)));
    let report = latency(4).measure(&ask(&target, Method::Http)).await.unwrap();
    assert_eq!((report.count, report.failures, report.last_error), (3, 0, None));
    assert_eq!(*lock(&asked), ["HEAD", "GET", "HEAD", "GET", "HEAD", "GET"]);
}

#[tokio::test]
async fn a_closed_port_is_a_failure_that_is_named() {
    // Bound and dropped, so that nobody listens there.
    let target = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string();
    let report = latency(4).measure(&ask(&target, Method::Tcp)).await.unwrap();
    assert_eq!((report.count, report.failures), (0, 3));
    let error = report.last_error.unwrap();
    assert!(error.contains(&target), "expected {target} in {error:?}");
}

#[tokio::test]
async fn a_host_that_listens_at_one_of_its_addresses_is_reached() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let there = listener.local_addr().unwrap();
    let nowhere = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let latency = latency(4);
    let request = ask("localhost:80", Method::Tcp);
    let key = (Method::Tcp, request.target.clone());
    let endpoint = Endpoint::parse(Method::Tcp, &request.target).unwrap();
    latency.make_room(&key, &endpoint).unwrap();
    latency.round_trips(&key, &endpoint, vec![nowhere, there], 2).await;
    let report = latency.report().targets.remove(0);
    assert_eq!((report.count, report.failures, report.last_error), (2, 0, None));
}

#[tokio::test]
async fn a_name_is_resolved_and_measured() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = format!("localhost:{}", listener.local_addr().unwrap().port());
    let report = latency(4).measure(&ask(&target, Method::Tcp)).await.unwrap();
    assert_eq!((report.count, report.failures, report.last_error), (3, 0, None));
}

#[tokio::test]
async fn an_echo_is_answered_or_said_not_to_be_permitted() {
    let report = latency(4).measure(&ask("127.0.0.1", Method::Icmp)).await.unwrap();
    match report.last_error {
        None => assert_eq!((report.count, report.failures), (3, 0)),
        Some(error) => {
            assert!(error.contains("not permitted"), "expected 'not permitted' in {error:?}");
            assert_eq!((report.count, report.failures), (0, 1), "one refusal is enough");
        }
    }
}

#[tokio::test]
async fn what_is_not_allowed_is_refused_before_anything_is_sent() {
    let latency = latency(4);
    for target in ["169.254.169.254:80", "example.com:80"] {
        let error = latency.measure(&ask(target, Method::Tcp)).await.unwrap_err();
        assert!(matches!(error, LatencyError::Refused(_)), "{target}: {error}");
        let error = latency.set_targets(&set(&[target])).unwrap_err();
        assert!(matches!(error, LatencyError::Refused(_)), "{target}: {error}");
    }
    assert_eq!(names(&latency), Vec::<String>::new());
}

#[tokio::test]
async fn those_asked_for_once_give_way_and_those_set_do_not() {
    let latency = latency(2);
    let ports: Vec<String> = (1..=3).map(|port| format!("127.0.0.1:{port}")).collect();
    for port in &ports {
        latency.measure(&ask(port, Method::Tcp)).await.unwrap();
    }
    assert_eq!(names(&latency), ports[1..]);
    latency.set_targets(&set(&[&ports[0], &ports[1]])).unwrap();
    assert_eq!(names(&latency), ports[..2]);
    let error = latency.measure(&ask(&ports[2], Method::Tcp)).await.unwrap_err();
    assert!(error.to_string().contains("latency.max_targets (2)"), "{error}");
    let three: Vec<&str> = ports.iter().map(String::as_str).collect();
    assert!(matches!(latency.set_targets(&set(&three)), Err(LatencyError::TooMany { asked: 3, most: 2 })));
    assert_eq!(names(&latency), ports[..2], "a refused list changes nothing");
}

#[tokio::test]
async fn targets_of_the_configuration_stay() {
    let target = TargetConfig { target: "127.0.0.1:1".to_owned(), method: Method::Tcp, interval_seconds: 5.0 };
    let config = LatencyConfig { targets: vec![target], max_targets: 2, ..LatencyConfig::default() };
    let latency = Latency::new(&config, &AllowList::default()).unwrap();
    latency.set_targets(&set(&["127.0.0.1:2", "127.0.0.1:1"])).unwrap();
    latency.set_targets(&set(&[])).unwrap();
    let report = latency.report();
    assert_eq!(report.targets.len(), 1);
    assert_eq!(report.targets[0].interval_seconds, Some(5.0));
}

#[test]
fn a_target_is_due_once_an_interval_and_never_twice_at_a_time() {
    let latency = latency(4);
    latency.set_targets(&set(&["127.0.0.1:1"])).unwrap();
    let now = Instant::now() + Duration::from_secs(1);
    let (due, next) = latency.take_due(now);
    assert_eq!(due.len(), 1);
    assert_eq!(next, now + Duration::from_secs(10));
    assert_eq!(latency.take_due(now + Duration::from_secs(9)).0.len(), 0, "not due yet");
    assert_eq!(latency.take_due(now + Duration::from_secs(11)).0.len(), 0, "still being measured");
    lock(&latency.records).values_mut().for_each(|record| record.measuring = false);
    assert_eq!(latency.take_due(now + Duration::from_secs(30)).0.len(), 1);
}

#[test]
fn intervals_that_are_none_are_refused() {
    for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY, 0.5] {
        let target = TargetRequest { target: "127.0.0.1:1".to_owned(), method: Method::Tcp, interval_seconds: seconds };
        let error = latency(4).set_targets(&TargetsRequest { targets: vec![target] }).unwrap_err();
        assert!(matches!(error, LatencyError::Interval { .. }), "{seconds}: {error}");
    }
}

#[tokio::test]
async fn targets_that_are_set_are_measured_again_and_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let config = LatencyConfig { min_interval_seconds: 0.01, ..LatencyConfig::default() };
    let latency = Arc::new(Latency::new(&config, &AllowList::default()).unwrap());
    let running = tokio::spawn(Arc::clone(&latency).run());
    let wanted = TargetRequest { target, method: Method::Tcp, interval_seconds: 0.01 };
    latency.set_targets(&TargetsRequest { targets: vec![wanted] }).unwrap();
    let three = async {
        while latency.report().targets[0].count < 3 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), three).await.expect("three round trips would never come");
    running.abort();
}
