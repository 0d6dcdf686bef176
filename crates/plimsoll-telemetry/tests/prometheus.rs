//! A real Prometheus that scrapes a real node exporter. Where they are not there (`make telemetry`), this test says so and passes.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "the harness is test code, too")]

use plimsoll_telemetry::{CPU_PERCENT, MEMORY_AVAILABLE_GB, Prometheus, Query, Settings, Store, preset};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Where the programs are, as for the lab.
const VARIABLE: &str = "PLIMSOLL_TELEMETRY_BIN";
/// Longer than a busy machine takes.
const PATIENCE: Duration = Duration::from_secs(120);

fn programs() -> Option<PathBuf> {
    let named = std::env::var_os(VARIABLE).map(PathBuf::from);
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bin/telemetry");
    let folder = named.unwrap_or(built);
    if folder.join("prometheus").is_file() && folder.join("prometheus-node-exporter").is_file() {
        return Some(folder);
    }
    eprintln!("skipped: no Prometheus in {}; make telemetry", folder.display());
    None
}

struct Running {
    children: Vec<Child>,
    folder: PathBuf,
}

impl Drop for Running {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Starts both; the address of Prometheus.
fn start(programs: &Path) -> (Running, String) {
    let folder = std::env::temp_dir().join(format!("plimsoll-telemetry-{}-{}", std::process::id(), free_port()));
    std::fs::create_dir_all(&folder).unwrap();
    let (exporter, server) = (free_port(), free_port());
    // The node is known by a label, as Kubernetes' service discovery would give it.
    let config = format!(
        "global: {{scrape_interval: 1s}}\nscrape_configs:\n- job_name: nodes\n  static_configs:\n  - targets: ['127.0.0.1:{exporter}']\n    labels: {{instance: 'node-1:9100'}}\n"
    );
    let file = folder.join("prometheus.yml");
    std::fs::write(&file, config).unwrap();
    let quiet = |program: &str, arguments: &[String]| {
        let mut command = Command::new(programs.join(program));
        command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let mut running = Running { children: Vec::new(), folder: folder.clone() };
    running.children.push(quiet("prometheus-node-exporter", &[format!("--web.listen-address=127.0.0.1:{exporter}")]));
    running.children.push(quiet(
        "prometheus",
        &[
            format!("--config.file={}", file.display()),
            format!("--storage.tsdb.path={}", folder.join("data").display()),
            format!("--web.listen-address=127.0.0.1:{server}"),
        ],
    ));
    (running, format!("http://127.0.0.1:{server}"))
}

#[tokio::test]
async fn a_node_is_read_becomes_stale_and_is_never_waited_for() {
    let Some(programs) = programs() else { return };
    let (mut running, address) = start(&programs);
    let store = Arc::new(Store::new(Settings { stale_after: Duration::from_secs(3), ..Settings::default() }));
    let mut queries = preset("node-exporter").unwrap().queries();
    queries.push(Query { metric: "broken".into(), query: "sum(".into(), label: "instance".into() });
    queries.push(Query { metric: "scalar".into(), query: "1".into(), label: "instance".into() });
    let prometheus = Prometheus::new(&address, queries, Duration::from_secs(2), Arc::clone(&store)).unwrap();
    let begin = Instant::now();
    let fresh = |metric: &str| store.fresh("node-1", metric, SystemTime::now());
    while fresh(CPU_PERCENT).is_none() || fresh(MEMORY_AVAILABLE_GB).is_none() {
        assert!(begin.elapsed() < PATIENCE, "nothing was read: {:?}", store.nodes());
        prometheus.ask().await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!((0.0..=100.0).contains(&fresh(CPU_PERCENT).unwrap()));
    assert!(fresh(MEMORY_AVAILABLE_GB).unwrap() > 0.0);
    assert!(fresh("tcp_established").is_some() && fresh("broken").is_none());
    let problem = prometheus.ask().await.unwrap();
    assert!(problem.contains("broken") || problem.contains("scalar"), "{problem}");
    // Without Prometheus nothing is waited for, and what is known grows old.
    running.children.iter_mut().for_each(|child| child.kill().unwrap());
    let begin = Instant::now();
    while fresh(CPU_PERCENT).is_some() {
        assert!(begin.elapsed() < PATIENCE, "it does not become stale");
        prometheus.ask().await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let known = store.node("node-1", SystemTime::now());
    assert!(known.iter().any(|known| known.metric == CPU_PERCENT && known.stale));
}
