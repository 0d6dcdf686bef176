//! What is not a scenario, or is beyond the limits, and what is said of it.

use crate::{finished, scenario};
use plimsoll_load::{Limits, Live, RunError, Scenario, run};
use std::path::Path;
use tokio::sync::watch;

const GOOD: &str = "
name = 'shop'
target = 'http://127.0.0.1:8080'
users = 2
seconds = 1
[[transactions]]
name = 'browse'
requests = [{ path = '/' }]
";

#[test]
fn mistakes_are_told_with_what_is_known() {
    assert!(Scenario::parse("good.toml", GOOD).is_ok());
    let cases: &[(&str, &str, &[&str])] = &[
        ("users = 2", "user = 2", &["unknown field `user`", "`start_per_second`"]),
        ("users = 2", "", &["users", "missing", "stages"]),
        ("users = 2", "users = 0", &["users", "at least 1"]),
        ("users = 2", "users = -2", &["users = -2"]),
        ("seconds = 1", "seconds = 0", &["seconds", "at least 1"]),
        ("users = 2", "users = 2\nstart_per_second = 0", &["start_per_second", "above 0"]),
        ("users = 2", "users = 2\nstart_per_second = nan", &["start_per_second", "above 0"]),
        ("users = 2", "users = 2\nstages = [{ users = 1, seconds = 1 }]", &["stages", "in place of users"]),
        ("users = 2\nseconds = 1", "stages = [{ users = 0, seconds = 1 }]", &["stages[0].users", "at least 1"]),
        ("users = 2", "users = 2\nthink = { min_seconds = 2, max_seconds = 1 }", &["think", "above max_seconds"]),
        ("users = 2", "users = 2\nthink = { min_seconds = -1, max_seconds = 1 }", &["think.min_seconds", "from 0"]),
        ("users = 2", "users = 2\ntimeout_seconds = 0", &["browse", "timeout_seconds", "above 0"]),
        ("users = 2", "users = 2\nheaders = { 'a b' = 'c' }", &["headers.a b"]),
        ("http://127.0.0.1:8080", "127.0.0.1:8080", &["target", "http://127.0.0.1:8080"]),
        ("http://127.0.0.1:8080", "ftp://host", &["target", "neither http"]),
        ("http://127.0.0.1:8080", "http://a:b@host", &["target", "password"]),
        ("http://127.0.0.1:8080", "http://host/api", &["target", "paths with the requests"]),
        ("path = '/'", "path = 'cart'", &["browse", "requests[0].path", "begin with /"]),
        ("path = '/'", "path = '//other/x'", &["path", "another host"]),
        ("path = '/'", "path = 'http://other/'", &["path", "begin with /"]),
        ("path = '/'", "path = '/', method = 'FETCH'", &["method", "FETCH", "DELETE, GET"]),
        ("path = '/'", "path = '/', expect = [20]", &["expect", "from 100 to 599"]),
        ("path = '/'", "path = '/', body = 'a', json = 1", &["a body and a json"]),
        ("path = '/'", "path = '/', statuses = [200]", &["unknown field `statuses`", "`expect`"]),
        ("[{ path = '/' }]", "[]", &["browse", "requests", "at least one"]),
        ("name = 'browse'", "name = 'browse'\nweight = 0", &["weights are 0"]),
        ("name = 'shop'", "name = ''", &["name", "printable"]),
    ];
    for (good, bad, expected) in cases {
        assert!(GOOD.contains(good), "{good:?} is not in the scenario");
        let error = Scenario::parse("bad.toml", &GOOD.replace(good, bad)).unwrap_err().to_string();
        assert!(error.starts_with("bad.toml is not a scenario: "), "{error}");
        for words in *expected {
            assert!(error.contains(words), "{bad:?}: expected {words:?} in: {error}");
        }
    }
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = Scenario::read(Path::new("/no/such/shop.toml")).unwrap_err().to_string();
    assert!(error.contains("/no/such/shop.toml"), "{error}");
}

#[test]
fn the_examples_are_scenarios() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/load");
    for file in ["shop.toml", "app.toml"] {
        Scenario::read(&folder.join(file)).unwrap();
    }
    let limits = Limits::read(&folder.join("limits.toml")).unwrap();
    assert_eq!(limits.max_users, Limits::default().max_users, "the example shows the defaults");
}

#[tokio::test]
async fn hosts_that_are_not_allowed_are_not_loaded() {
    let any = "127.0.0.1:1".parse().unwrap();
    let mut scenario = scenario(any, "users = 1\nseconds = 1", "{ path = '/' }");
    for target in ["http://93.184.216.34", "http://169.254.169.254", "http://[2606:4700::1]:80", "http://0.0.0.0:80"] {
        scenario.target = target.to_owned();
        let error = finished(&scenario).await.unwrap_err();
        assert!(matches!(error, RunError::Limits(_)), "{target}: {error}");
        for words in ["target", "is not allowed", "allow.networks", "--limits"] {
            assert!(error.to_string().contains(words), "{target}: expected {words:?} in: {error}");
        }
    }
    let limits: Limits = toml::from_str("[allow]\nnetworks = ['127.0.0.0/8']\nhosts = ['shop.test']").unwrap();
    scenario.target = "http://localhost:1".to_owned();
    let (_keep, stop) = watch::channel(false);
    let error = run(&scenario, &limits, &Live::new(), stop).await.unwrap_err();
    assert!(error.to_string().contains("localhost is not allowed"), "{error}");
}

#[tokio::test]
async fn more_users_or_time_than_allowed_are_refused() {
    let any = "127.0.0.1:1".parse().unwrap();
    for (head, expected) in [
        ("users = 1001\nseconds = 1", "max_users is 1000"),
        ("users = 1\nseconds = 3601", "max_seconds is 3600"),
        ("users = 1000\nseconds = 1\nstart_per_second = 0.2", "max_seconds is 3600"),
        ("stages = [{ users = 1, seconds = 1 }, { users = 2000, seconds = 1 }]", "max_users is 1000"),
    ] {
        let error = finished(&scenario(any, head, "{ path = '/' }")).await.unwrap_err();
        assert!(error.to_string().contains(expected), "expected {expected:?} in: {error}");
    }
}
