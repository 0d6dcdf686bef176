//! `plimsoll record`

use crate::Verdict;
use crate::commands::run::stop_signal;
use crate::connect::{self, ConnectArgs};
use crate::input;
use crate::output::{Output, count};
use crate::recording::{self, Recording, name_of, save};
use anyhow::{Context, Result, bail};
use futures_util::pin_mut;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use std::io::BufRead;
use std::path::PathBuf;
use std::time::Duration;

/// Write down a cluster's workload, to replay it and to train on it
///
/// Watches the pods of a cluster until it is told to stop, or reads audit logs of its API server, and writes a trace that `simulate`,
/// `compare`, `train` and `evaluate` take. Nothing in the cluster is changed; `list` and `watch` of pods is all that it needs.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The trace to write; `.gz` compresses it, `.parquet` is for builds with that feature
    #[arg(long, short, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    connect: ConnectArgs,
    /// Pods of this namespace only
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// Stop after so many seconds
    #[arg(long = "for", value_name = "SECONDS")]
    seconds: Option<u64>,
    /// Write the trace so often, in seconds: no more than that is lost, whatever happens
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..))]
    every: u64,
    /// Audit logs of the API server instead of a cluster (audit.k8s.io/v1, a JSON object a line, with the objects of pods that are created); may be
    /// given several times, the oldest first
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kubeconfig", "context", "seconds"])]
    audit: Vec<PathBuf>,
}

/// Records.
pub fn run(args: Args, out: &mut Output) -> Result<Verdict> {
    let recording = if args.audit.is_empty() {
        connect::start_logs();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let recording = runtime.block_on(follow(&args, out))?;
        connect::leave(runtime);
        recording
    } else {
        from_audit(&args, out)?
    };
    let workload = recording.workload(&name_of(&args.out));
    save(&recording, &args.out)?;
    if recording.unreadable() > 0 {
        out.note(&format!("{} could not be read and are not in it", count(recording.unreadable() as usize, "pod")));
    }
    let ended = workload.pods.iter().filter(|pod| pod.lifetime.is_some()).count();
    out.note(&format!(
        "{}: {}, {ended} of them ended; look at it with: plimsoll trace info {}",
        args.out.display(),
        count(workload.pods.len(), "pod"),
        args.out.display()
    ));
    Ok(Verdict::Good)
}

async fn follow(args: &Args, out: &Output) -> Result<Recording> {
    let client = connect::client(args.connect.config(None).await?).await?;
    let mut recording = Recording::since(Timestamp::now());
    // What cannot be written is told now, not at the end.
    save(&recording, &args.out).context("--out")?;
    out.note("recording; SIGINT or SIGTERM ends it");
    let mut stop = stop_signal()?;
    let mut events = recording::pods(client, args.namespace.as_deref());
    let mut rewrite = tokio::time::interval(Duration::from_secs(args.every));
    let end = tokio::time::sleep(Duration::from_secs(args.seconds.unwrap_or(u64::from(u32::MAX))));
    pin_mut!(end);
    loop {
        tokio::select! {
            event = events.recv() => match event {
                Some(event) => recording.take(&event, Timestamp::now()),
                None => bail!("the watch of pods has ended"),
            },
            _ = rewrite.tick() => save(&recording, &args.out)?,
            _ = stop.changed() => return Ok(recording),
            () = &mut end => return Ok(recording),
        }
    }
}

/// What of an audit event says how a pod fared.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Audited {
    #[serde(default)]
    stage: String,
    #[serde(default)]
    verb: String,
    object_ref: Option<Reference>,
    response_status: Option<Status>,
    response_object: Option<serde_json::Value>,
    stage_timestamp: Option<Timestamp>,
}

#[derive(Deserialize)]
struct Reference {
    #[serde(default)]
    resource: String,
    #[serde(default)]
    subresource: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    code: u16,
}

fn from_audit(args: &Args, out: &Output) -> Result<Recording> {
    let mut recording: Option<Recording> = None;
    let mut without_object = 0;
    for path in &args.audit {
        let input = input::open(path)?;
        for (at, line) in input.reader.lines().enumerate() {
            let line = line.with_context(|| format!("cannot read {}", input.name))?;
            if line.trim().is_empty() {
                continue;
            }
            let event: Audited = serde_json::from_str(&line)
                .with_context(|| format!("{}: line {}: not an audit event", input.name, at + 1))?;
            let Some(time) = event.stage_timestamp else { continue };
            let recording = recording.get_or_insert_with(|| Recording::since(time));
            without_object += u64::from(!take(event, time, args.namespace.as_deref(), recording));
        }
    }
    if without_object > 0 {
        let pods = count(without_object as usize, "created pod");
        out.note(&format!(
            "{pods} without their object: the audit policy must have the level RequestResponse for pods, else they are not known"
        ));
    }
    recording.context("the audit logs have no events")
}

/// Takes an event in; false for a pod that was created, but not shown.
fn take(event: Audited, at: Timestamp, namespace: Option<&str>, recording: &mut Recording) -> bool {
    let Some(about) = event.object_ref.filter(|about| about.resource == "pods") else { return true };
    let refused = event.response_status.is_some_and(|status| status.code >= 300);
    let elsewhere = namespace.is_some_and(|wanted| wanted != about.namespace);
    if event.stage != "ResponseComplete" || refused || elsewhere {
        return true;
    }
    let pod = || event.response_object.and_then(|object| serde_json::from_value::<Pod>(object).ok());
    match (event.verb.as_str(), about.subresource.as_str()) {
        ("create", "") => match pod() {
            Some(pod) => recording.apply(&pod, at),
            None => return false,
        },
        ("create", "binding") => recording.bound(&about.namespace, &about.name, at),
        ("update" | "patch", _) => {
            if let Some(pod) = pod().filter(|pod| pod.metadata.uid.is_some()) {
                recording.apply(&pod, at);
            }
        }
        ("delete", "") => recording.delete(&about.namespace, &about.name, at),
        _ => {}
    }
    true
}
