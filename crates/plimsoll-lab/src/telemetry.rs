//! A Prometheus beside a lab, and what it reads: a node exporter on this machine, and what exporters on the fake nodes would tell, which kwok
//! reckons from the pods placed there.

use crate::LabError;
use crate::binaries::find_folder;
use crate::component::free_port;
use crate::folder::Folder;
use crate::process::Invocation;
use serde_json::json;
use std::path::PathBuf;

/// The environment variable that names the folder of Prometheus and the node exporter.
pub const TELEMETRY_VARIABLE: &str = "PLIMSOLL_TELEMETRY_BIN";

pub const PROMETHEUS: &str = "prometheus";
pub const NODE_EXPORTER: &str = "prometheus-node-exporter";
/// Where `make telemetry` puts them.
const FOLDER: &str = "bin/telemetry";
/// Both.
pub const PROGRAMS: [&str; 2] = [PROMETHEUS, NODE_EXPORTER];

/// What pods use, and how exporters tell it: part of kwok's configuration.
pub const USAGE: &str = include_str!("usage.yaml");
/// How often everything is read: a rate needs two readings, and nobody wants to wait for them.
const SCRAPE: &str = "2s";

/// Prometheus and a node exporter, as `make telemetry` fetches them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exporters(PathBuf);

impl Exporters {
    /// Those of the folder that the environment names, or else of `bin/telemetry` of the working folder, of one above it, or of one above
    /// this program.
    pub fn find() -> Result<Self, LabError> {
        let folder = find_folder(TELEMETRY_VARIABLE, FOLDER).unwrap_or_else(|| PathBuf::from(FOLDER));
        match PROGRAMS.iter().find(|program| !folder.join(program).is_file()) {
            None => Ok(Self(std::path::absolute(&folder).map_err(LabError::io(format!("find {}", folder.display())))?)),
            Some(missing) => Err(LabError::NoTelemetry { missing, looked: folder.display().to_string() }),
        }
    }

    /// A node exporter for this machine.
    pub fn node_exporter(&self) -> Invocation {
        let port = free_port();
        let arguments = vec![format!("--web.listen-address=127.0.0.1:{port}"), "--log.level=warn".to_string()];
        self.invocation(NODE_EXPORTER, port, arguments)
    }

    /// A Prometheus that reads the node exporter and kwok at these ports.
    pub fn prometheus(&self, folder: &Folder, exporter: u16, kwok: u16) -> Result<Invocation, LabError> {
        let port = free_port();
        let config = folder.write("prometheus.json", format!("{:#}\n", config(exporter, kwok)))?;
        let arguments = vec![
            format!("--config.file={config}"),
            format!("--storage.tsdb.path={}", folder.join("prometheus")),
            "--storage.tsdb.retention.time=1d".to_string(),
            format!("--web.listen-address=127.0.0.1:{port}"),
            "--log.level=warn".to_string(),
        ];
        Ok(self.invocation(PROMETHEUS, port, arguments))
    }

    fn invocation(&self, name: &str, port: u16, arguments: Vec<String>) -> Invocation {
        Invocation { name: name.to_string(), program: self.0.join(name), arguments, port: Some(port) }
    }
}

/// What Prometheus reads. A node is known by its name, as with service discovery in a cluster.
fn config(exporter: u16, kwok: u16) -> serde_json::Value {
    let kwok = format!("http://127.0.0.1:{kwok}/discovery/prometheus");
    json!({
        "global": { "scrape_interval": SCRAPE, "scrape_timeout": SCRAPE },
        "scrape_configs": [
            {
                "job_name": "nodes",
                "http_sd_configs": [{ "url": kwok, "refresh_interval": SCRAPE }],
                "relabel_configs": [{
                    "source_labels": ["__metrics_path__"],
                    "regex": "/metrics/nodes/(.+)/metrics/exporters",
                    "target_label": "instance",
                }],
            },
            {
                "job_name": "this-machine",
                "static_configs": [{
                    "targets": [format!("127.0.0.1:{exporter}")],
                    "labels": { "instance": "this-machine" },
                }],
            },
        ],
    })
}

/// Whether somebody listens on a port of this machine.
pub async fn listens(port: u16) -> Result<(), String> {
    tokio::net::TcpStream::connect(("127.0.0.1", port)).await.map(drop).map_err(|error| error.to_string())
}
