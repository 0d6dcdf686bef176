//! `plimsoll demo` as people start it: what it prints, and what it serves.

#![expect(clippy::unwrap_used, reason = "the harness is test code, too")]

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_plimsoll");

fn demo(args: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    // In the folder of the crate, where there are no models: what it needs is part of it.
    command.args(["demo", "--listen", "127.0.0.1:0"]).args(args).current_dir(env!("CARGO_MANIFEST_DIR"));
    command
}

/// All that it prints of a day that goes as fast as it can, from the table on.
fn table(args: &[&str]) -> String {
    let output = demo(&[&["--speed", "100000"], args].concat()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("Dashboard: http://127.0.0.1:"), "{text}");
    text[text.find("The same pods on two equal clusters").expect(&text)..].to_owned()
}

#[test]
fn a_day_ends_by_itself_where_nobody_watches_and_says_what_it_saved() {
    let first = table(&["--policy", "efficient-first"]);
    let of = |policy: &str| {
        let line = first.lines().find(|line| line.starts_with(policy)).expect(&first);
        line.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    let (default, other) = (of("default"), of("efficient-first"));
    let kwh = |row: &[String]| row[0].parse::<f64>().unwrap();
    assert!(kwh(&other) < 0.8 * kwh(&default), "{first}");
    assert!(first.contains("sleep at once"), "where savings come from is said: {first}");
    assert_eq!(first, table(&["--policy", "efficient-first"]), "the same seed, the same figures");
    assert_ne!(first, table(&["--policy", "efficient-first", "--seed", "2"]));
}

/// A demo that goes slowly, ended with the test.
struct Slow {
    child: Child,
    address: String,
    /// Where nobody reads what it says, it ends.
    _said: BufReader<ChildStdout>,
}

impl Slow {
    fn start(policy: &str) -> Self {
        let mut child = demo(&["--speed", "60", "--policy", policy]).stdout(Stdio::piped()).spawn().unwrap();
        let mut reader = BufReader::new(child.stdout.take().unwrap());
        let mut lines = reader.by_ref().lines().map_while(Result::ok);
        let said = lines.find(|line| line.contains("Dashboard: ")).expect("it says where it is");
        let address = said.split("http://").nth(1).unwrap();
        let address = address.split([' ', '/']).next().unwrap().to_owned();
        Self { child, address, _said: reader }
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        // A body may come in chunks, whose lengths stand on lines of their own.
        let from = body.find(['{', '[']).unwrap_or(0);
        let to = body.rfind(['}', ']']).map_or(body.len(), |at| at + 1);
        (status, serde_json::from_str(&body[from..to]).unwrap_or(Value::Null))
    }

    fn get(&self, path: &str) -> Value {
        let (status, answer) = self.ask("GET", path, "");
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_cluster_on_the_right_is_served_like_any_other() {
    let demo = Slow::start("models/energy");
    assert_eq!(demo.get("/status")["mode"], "demo");
    // Decisions come as soon as the day has begun.
    let decision = loop {
        let found = demo.get("/v1/decisions?limit=1")["items"][0].clone();
        if found.is_object() {
            break found;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    };
    let (status, day) = demo.ask("POST", "/v1/demo", &json!({ "paused": true }).to_string());
    assert_eq!((status, &day["paused"]), (200, &json!(true)));
    assert_eq!((&day["left"]["policy"], &day["right"]["policy"]), (&json!("default"), &json!("models/energy")));
    assert_eq!(demo.get("/cluster/state")["totals"]["nodes"], 200);
    let detail = demo.get(&format!("/v1/decisions/{}", decision["id"]));
    assert!(!detail["scores"].as_array().unwrap().is_empty(), "{detail}");
    let pod =
        json!({ "pod": { "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": "65" } } }] } } });
    let (status, answer) = demo.ask("POST", "/v1/what-if", &pod.to_string());
    assert_eq!((status, &answer["outcome"]), (200, &json!("refused")), "{answer}");
    let node = decision["node"].as_str().unwrap();
    assert!(!demo.get(&format!("/cluster/nodes/{node}"))["pod_list"].as_array().unwrap().is_empty());
    let path = format!("/explain/{}/{}", decision["namespace"].as_str().unwrap(), decision["pod"].as_str().unwrap());
    assert_eq!(demo.get(&path)["node"], node);
    assert_eq!(demo.ask("POST", "/v1/policies/best-fit/activate", "").0, 200);
    assert_eq!(demo.get("/v1/policies")["active"], "best-fit");
    for body in ["{\"speed\": 0}", "{\"speed\": -1}", "{\"speed\": \"fast\"}"] {
        assert_eq!(demo.ask("POST", "/v1/demo", body).0, 422, "{body}");
    }
    assert_eq!(demo.ask("POST", "/v1/demo", "{").0, 400);
}

#[test]
fn weights_are_tried_and_count_for_the_next_decision() {
    let demo = Slow::start("multi-objective");
    assert_eq!(demo.ask("POST", "/v1/demo", &json!({ "speed": 5000 }).to_string()).0, 200);
    while demo.get("/v1/demo")["clock"].as_f64().unwrap() < 3600.0 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(demo.ask("POST", "/v1/demo", &json!({ "paused": true }).to_string()).0, 200);
    let weights = |name: &str| {
        let mut all = json!({ "utilisation": 0, "balance": 0, "latency": 0, "affinity": 0, "energy": 0 });
        all[name] = json!(1);
        json!({ "weights": all }).to_string()
    };
    let place = || {
        let asked = json!({ "requests": { "cpu": "2", "memory": "4Gi" } });
        let pod = json!({ "pod": { "spec": { "containers": [{ "name": "c", "resources": asked }] } } });
        let (status, answer) = demo.ask("POST", "/v1/what-if", &pod.to_string());
        assert_eq!(status, 200, "{answer}");
        let node = answer["node"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
        demo.get(&format!("/cluster/nodes/{node}"))["pods"][0].as_u64().unwrap()
    };
    assert_eq!(demo.ask("PUT", "/v1/rewards", &weights("balance")).0, 200);
    let spread = place();
    let (status, job) = demo.ask("POST", "/v1/rewards/preview", &weights("energy"));
    assert_eq!(status, 202, "{job}");
    let path = format!("/v1/jobs/{}", job["job"].as_str().unwrap());
    let done = loop {
        let found = demo.get(&path);
        if found["state"] != "running" {
            break found;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    };
    let result = &done["result"];
    assert_eq!(result["ranks"], true, "{done}");
    assert!(result["then"]["watts"].as_f64().unwrap() < result["now"]["watts"].as_f64().unwrap(), "{done}");
    assert_eq!(demo.ask("PUT", "/v1/rewards", &weights("energy")).0, 200);
    assert_ne!(place(), spread, "energy and balance choose nodes with as many pods");
}
