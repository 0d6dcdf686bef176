//! One contestant on one case: a control plane of its own, pods that are there beforehand, and a watch that is nobody's.

use crate::case::{Case, MEASURED};
use anyhow::{Context, Result, bail};
use futures_util::{StreamExt, TryStreamExt, pin_mut, stream};
use http::Request;
use kube::Client;
use kube::api::WatchEvent;
use plimsoll_lab::{Binaries, Lab, Options, User};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Somebody who binds pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contestant {
    /// Nodes in turn, without a thought.
    NullBinder,
    /// kube-scheduler with its defaults, unthrottled.
    Stock,
    /// `plimsoll run`.
    Plimsoll,
    /// `plimsoll run --policy models/packing`.
    Model,
    /// kube-scheduler that asks `plimsoll serve --policy models/packing` as an extender.
    Extender,
    /// kube-scheduler with our plugin, which asks the same.
    Plugin,
}

impl Contestant {
    /// As the report has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::NullBinder => "null binder",
            Self::Stock => "kube-scheduler",
            Self::Plimsoll => "Plimsoll",
            Self::Model => "Plimsoll, model",
            Self::Extender => "kube-scheduler with the extender",
            Self::Plugin => "kube-scheduler with the plugin",
        }
    }
}

/// Where the programs are.
#[derive(Debug, Clone)]
pub struct Programs {
    /// The control plane.
    pub lab: Binaries,
    /// `plimsoll`.
    pub plimsoll: PathBuf,
    /// `null-binder`.
    pub null_binder: PathBuf,
    /// kube-scheduler with our plugin.
    pub plugin: PathBuf,
    /// A folder with a trained model.
    pub model: PathBuf,
}

/// What came of a run.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Figures {
    /// Pods bound a second, from the first binding to the last.
    pub rate: f64,
    /// Pods a second, from the first binding to the last event that says where a pod was put; where nobody else writes events.
    pub told_rate: Option<f64>,
    /// From the start of the program to its first binding, in seconds.
    pub first_s: f64,
    /// From the first binding to that of half of the pods, in seconds.
    pub p50_s: f64,
    /// To that of 99 % of the pods.
    pub p99_s: f64,
    /// From the start of the program to the last binding, in seconds.
    pub all_s: f64,
    /// Processor time of the program for each pod, its start included, in microseconds.
    pub cpu_us: f64,
    /// The most memory that it had, in MiB.
    pub memory_mib: f64,
    /// Processor time of the API server for each pod meanwhile, in microseconds.
    pub api_server_us: f64,
    /// Processor time of etcd for each pod meanwhile, in microseconds.
    pub etcd_us: f64,
    /// Processor time of the adviser for each pod meanwhile, in microseconds; where there is one.
    pub adviser_us: Option<f64>,
}

/// How many requests are made at a time.
const AT_A_TIME: usize = 64;
/// No run takes so long that gets anywhere.
const PATIENCE: Duration = Duration::from_secs(600);
/// Requests a second that nobody comes near.
const UNTHROTTLED: u32 = 100_000;

/// Runs one contestant.
pub async fn run(programs: &Programs, case: &Case, contestant: Contestant) -> Result<Figures> {
    let options = Options {
        nodes: case.nodes,
        shapes: vec!["cpu=4,memory=32Gi,pods=110,zones=3".parse().map_err(|error| anyhow::anyhow!("{error}"))?],
        binaries: Some(programs.lab.clone()),
        bare: true,
        ..Options::default()
    };
    let mut lab = Lab::start(options).await?;
    let admin = lab.client(User::Admin).await?;
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "important"}, "value": 1000,
    });
    post(&admin, "/apis/scheduling.k8s.io/v1/priorityclasses", &class).await?;
    create(&admin, case.before()).await?;
    create(&admin, case.measured()).await?;
    let version = latest(&admin).await?;
    // What the control plane has left to do is not part of it.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let watch = tokio::spawn(bindings(admin.clone(), version, case.pods));
    let adviser = match contestant {
        Contestant::Extender | Contestant::Plugin => Some(start_adviser(programs, &mut lab).await?),
        _ => None,
    };
    let (program, arguments) = invocation(programs, &lab, contestant, adviser)?;
    let mut others = vec![lab.process("kube-apiserver")?.pid, lab.process("etcd")?.pid];
    if adviser.is_some() {
        others.push(lab.process("adviser")?.pid);
    }
    let taken = || others.iter().map(|pid| usage(*pid).map(|(seconds, _)| seconds)).collect::<Result<Vec<_>>>();
    let before = taken()?;
    let start = Instant::now();
    lab.start_program("contestant", &program, &arguments)?;
    let process = lab.process("contestant")?;
    let times = tokio::select! {
        times = watch => times??,
        dead = died(&mut lab) => return Err(dead),
    };
    let told = match case.null_binder {
        true => Some(told(&admin, case.pods).await?),
        false => None,
    };
    let each = |(after, before): (f64, f64)| (after - before) * 1e6 / times.len().max(1) as f64;
    let each: Vec<f64> = taken()?.into_iter().zip(before).map(each).collect();
    Ok(Figures {
        api_server_us: each[0],
        etcd_us: each[1],
        adviser_us: each.get(2).copied(),
        ..figures(process.pid, start, &times, told)?
    })
}

/// When there are as many events as pods: what was only handed to somebody who writes it later is not done.
async fn told(client: &Client, pods: usize) -> Result<Instant> {
    let begin = Instant::now();
    let mut count = 0;
    while begin.elapsed() < PATIENCE {
        let list: Value =
            client.request(Request::get("/apis/events.k8s.io/v1/events?limit=1").body(Vec::new())?).await?;
        let listed = list["items"].as_array().map_or(0, Vec::len);
        count = listed + list["metadata"]["remainingItemCount"].as_u64().unwrap_or_default() as usize;
        if count >= pods {
            return Ok(Instant::now());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    bail!("{count} events tell of {pods} bindings")
}

/// Fails when the contestant does, or takes too long.
async fn died(lab: &mut Lab) -> anyhow::Error {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        match lab.exit_status("contestant") {
            Ok(None) => tokio::time::sleep(Duration::from_millis(500)).await,
            other => {
                let log = std::fs::read_to_string(lab.folder().join("logs/contestant.log")).unwrap_or_default();
                return anyhow::anyhow!("it ended ({other:?}): {}", log.lines().last().unwrap_or_default());
            }
        }
    }
    anyhow::anyhow!("not all pods were bound in {} s", PATIENCE.as_secs())
}

/// Starts `plimsoll serve`, and waits until it knows the cluster.
async fn start_adviser(programs: &Programs, lab: &mut Lab) -> Result<SocketAddr> {
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let kubeconfig = lab.kubeconfig(User::Plimsoll).display().to_string();
    let model = programs.model.display().to_string();
    let arguments = ["serve", "--kubeconfig", &kubeconfig, "--policy", &model, "--listen", &address.to_string()];
    lab.start_program("adviser", &programs.plimsoll, &arguments.map(str::to_owned))?;
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if lab.exit_status("adviser")?.is_some() {
            bail!("the adviser ended: {}", lab.log("adviser")?);
        }
        if is_ready(address).await {
            return Ok(address);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bail!("the adviser is not ready in {} s", PATIENCE.as_secs())
}

async fn is_ready(address: SocketAddr) -> bool {
    let Ok(mut stream) = TcpStream::connect(address).await else { return false };
    let mut answer = [0; 12];
    let asked = stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: adviser\r\nConnection: close\r\n\r\n").await;
    asked.is_ok() && stream.read_exact(&mut answer).await.is_ok() && answer.ends_with(b"200")
}

/// What a stock scheduler is told beside what all are told.
fn advice(contestant: Contestant, adviser: Option<SocketAddr>) -> Value {
    match (contestant, adviser) {
        (Contestant::Extender, Some(address)) => json!({ "extenders": [{
            "urlPrefix": format!("http://{address}/extender"), "prioritizeVerb": "prioritize", "weight": 100,
            "nodeCacheCapable": true, "httpTimeout": "10s",
        }]}),
        (Contestant::Plugin, Some(address)) => json!({ "profiles": [{
            "schedulerName": "default-scheduler",
            "plugins": { "multiPoint": { "enabled": [{ "name": "Plimsoll", "weight": 100 }] } },
            "pluginConfig": [{ "name": "Plimsoll", "args": { "address": format!("http://{address}"), "timeout": "10s" } }],
        }]}),
        _ => json!({}),
    }
}

fn invocation(
    programs: &Programs,
    lab: &Lab,
    contestant: Contestant,
    adviser: Option<SocketAddr>,
) -> Result<(PathBuf, Vec<String>)> {
    let text = |path: &Path| path.display().to_string();
    let ours = text(&lab.kubeconfig(User::Plimsoll));
    let plimsoll = ["run", "--kubeconfig", &ours, "--listen", "off", "--leader-elect=false"].map(str::to_owned);
    Ok(match contestant {
        Contestant::NullBinder => (programs.null_binder.clone(), vec![format!("--kubeconfig={ours}")]),
        Contestant::Plimsoll => (programs.plimsoll.clone(), plimsoll.into()),
        Contestant::Model => {
            let policy = ["--policy".to_owned(), text(&programs.model)];
            (programs.plimsoll.clone(), plimsoll.into_iter().chain(policy).collect())
        }
        Contestant::Stock | Contestant::Extender | Contestant::Plugin => {
            let config = lab.folder().join("stock.json");
            let connection = json!({
                "kubeconfig": text(&lab.kubeconfig(User::KubeScheduler)), "qps": UNTHROTTLED, "burst": UNTHROTTLED,
                "contentType": "application/vnd.kubernetes.protobuf",
            });
            let mut settings = json!({
                "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
                "clientConnection": connection, "leaderElection": {"leaderElect": false},
            });
            if let (Some(settings), Value::Object(more)) = (settings.as_object_mut(), advice(contestant, adviser)) {
                settings.extend(more);
            }
            std::fs::write(&config, settings.to_string())?;
            let arguments = vec![format!("--config={}", text(&config)), "--secure-port=0".to_owned()];
            let program = match contestant {
                Contestant::Plugin => programs.plugin.clone(),
                _ => programs.lab.program("kube-scheduler"),
            };
            (program, arguments)
        }
    })
}

async fn post(client: &Client, path: &str, object: &Value) -> Result<()> {
    let request =
        Request::post(path).header(http::header::CONTENT_TYPE, "application/json").body(serde_json::to_vec(object)?)?;
    client.request_text(request).await.with_context(|| format!("create {}", object["metadata"]["name"]))?;
    Ok(())
}

async fn create(client: &Client, pods: Vec<Value>) -> Result<()> {
    let creations = pods.iter().map(|pod| post(client, "/api/v1/namespaces/default/pods", pod));
    stream::iter(creations).buffer_unordered(AT_A_TIME).try_for_each(|()| async { Ok(()) }).await
}

async fn latest(client: &Client) -> Result<String> {
    let list: Value = client.request(Request::get("/api/v1/pods?limit=1").body(Vec::new())?).await?;
    Ok(list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned())
}

/// As much of a pod as matters here.
#[derive(Debug, Clone, Deserialize)]
struct Bound {
    metadata: Named,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    name: String,
    resource_version: String,
}

/// When each of so many pods was seen bound. The API server ends watches that cannot follow at once; they go on where they were.
async fn bindings(client: Client, mut version: String, pods: usize) -> Result<Vec<Instant>> {
    let mut times = Vec::with_capacity(pods);
    loop {
        let path = format!("/api/v1/pods?watch=true&fieldSelector=spec.nodeName%21%3D&resourceVersion={version}");
        let events = client.request_events::<Bound>(Request::get(path).body(Vec::new())?).await?;
        pin_mut!(events);
        while let Some(event) = events.try_next().await? {
            let (pod, is_new) = match event {
                WatchEvent::Added(pod) => (pod, true),
                WatchEvent::Modified(pod) | WatchEvent::Deleted(pod) => (pod, false),
                WatchEvent::Bookmark(_) => continue,
                WatchEvent::Error(status) => bail!("the watch of bindings failed: {status:?}"),
            };
            version = pod.metadata.resource_version;
            if is_new && pod.metadata.name.starts_with(MEASURED) {
                times.push(Instant::now());
            }
            if times.len() == pods {
                return Ok(times);
            }
        }
    }
}

fn figures(pid: u32, start: Instant, times: &[Instant], told: Option<Instant>) -> Result<Figures> {
    let (Some(&first), Some(&last)) = (times.first(), times.last()) else { bail!("no pod was bound") };
    let after = |part: f64| (times[((times.len() - 1) as f64 * part) as usize] - first).as_secs_f64();
    let (cpu, memory) = usage(pid)?;
    let rate = |end: Instant| (times.len() - 1) as f64 / (end - first).as_secs_f64().max(1e-9);
    Ok(Figures {
        rate: rate(last),
        told_rate: told.map(rate),
        first_s: (first - start).as_secs_f64(),
        p50_s: after(0.5),
        p99_s: after(0.99),
        all_s: (last - start).as_secs_f64(),
        cpu_us: cpu * 1e6 / times.len() as f64,
        memory_mib: memory,
        api_server_us: 0.0,
        etcd_us: 0.0,
        adviser_us: None,
    })
}

/// The processor time of a process in seconds, and the most memory that it had in MiB.
pub fn usage(pid: u32) -> Result<(f64, f64)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, fields) = stat.rsplit_once(')').context("/proc/PID/stat has no name")?;
    // User and system time are the fourteenth and fifteenth field, in hundredths of a second.
    let ticks: u64 = fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no peak of memory")?;
    let kib: f64 = peak.trim().trim_end_matches(" kB").parse()?;
    Ok((ticks as f64 / 100.0, kib / 1024.0))
}
