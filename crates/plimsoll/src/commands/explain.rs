//! `plimsoll explain`

use super::place::{ClusterArgs, Format, full_name};
use crate::Verdict;
use crate::cluster::Cluster;
use crate::dry_run::DryRun;
use crate::input::{read_configuration, read_token};
use crate::output::{DIM, HEADING, Output, count};
use crate::report;
use anyhow::{Context, Result, anyhow, bail};
use k8s_openapi::api::core::v1::Pod;
use plimsoll_core::gate_message;
use plimsoll_core::state::pod_key;
use plimsoll_kube::explained::{Decided, Explained};
use std::io::Write;
use std::path::PathBuf;

/// Say why a pod goes to a node, or to none
///
/// For every node the first plugin that refuses it and why, or each plugin's score. A pod that runs already is looked at
/// as if it were to be placed now.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// The pod, as NAMESPACE/NAME; without a namespace, `default`
    #[arg(long, value_name = "POD")]
    pod: String,
    /// Ask a scheduler that runs, `plimsoll run`, at the address where it serves, such as http://127.0.0.1:10259
    #[arg(long, value_name = "URL", conflicts_with_all = ["files", "kubeconfig", "config"])]
    server: Option<String>,
    /// A file with a token for that scheduler, where it asks for one
    #[arg(long, value_name = "FILE", requires = "server")]
    token_file: Option<PathBuf>,
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

/// Explains one decision.
pub fn run(args: Args, out: &mut Output) -> Result<Verdict> {
    if let Some(url) = &args.server {
        return ask(url, &args, out);
    }
    let configuration = read_configuration(args.cluster.config.as_ref())?;
    let mut cluster = args.cluster.read(out)?;
    let wanted = full_name(&args.pod);
    let Some(pod) = cluster.objects.pods.iter_mut().find(|pod| name_of(pod) == wanted) else {
        bail!("no pod {wanted} in the cluster files; {}", known_pods(&cluster));
    };
    let runs_on = take_off(pod);
    let key = pod_key(&pod.metadata);
    let mut dry_run = DryRun::new(&cluster, &configuration, "default", 0)?;
    let state = &dry_run.scheduler.state;
    let Some(id) = state.pod_id(&key) else { bail!("pod {wanted} has ended: there is nothing to decide") };
    if let Some(message) = state.pod(id).and_then(|pod| gate_message(&state.shape_of(pod).shape)) {
        out.note(&format!("pod {wanted} is not tried yet: {message}; this is what would follow"));
    }
    let account = dry_run.explain(id)?;
    match args.output {
        Format::Json => out.json(&account)?,
        Format::Table => {
            report::account(out, &account)?;
            if let Some(node) = runs_on {
                writeln!(
                    out,
                    "\n{DIM}The pod runs on {node}; it was looked at as if it were to be placed now.{DIM:#}"
                )?;
            }
        }
    }
    Ok(Verdict::Good)
}

/// Asks the scheduler at work.
fn ask(url: &str, args: &Args, out: &mut Output) -> Result<Verdict> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let pod = full_name(&args.pod);
    let explained: Explained = runtime.block_on(async {
        let address = url.parse().with_context(|| format!("--server {url}: not an address"))?;
        let mut config = kube::Config::new(address);
        config.auth_info.token = read_token("--token-file", args.token_file.as_deref())?.map(Into::into);
        let client = kube::Client::try_from(config)?;
        let asked = http::Request::get(format!("/explain/{pod}")).body(Vec::new())?;
        let answer = client.request_text(asked).await.map_err(|error| match error {
            kube::Error::Api(status) if status.code == 404 => anyhow!("the scheduler at {url} knows no pod {pod}"),
            kube::Error::Api(status) if status.code == 401 => {
                anyhow!("the scheduler at {url} asks for a token, or for another one: give it with --token-file FILE")
            }
            other => anyhow!(other).context(format!("the scheduler at {url} does not answer; is it running?")),
        })?;
        serde_json::from_str(&answer).with_context(|| format!("{url} is not a scheduler of ours"))
    })?;
    if args.output == Format::Json {
        out.json(&explained)?;
        return Ok(Verdict::Good);
    }
    print(&explained, out)?;
    Ok(Verdict::Good)
}

fn print(explained: &Explained, out: &mut Output) -> Result<()> {
    let pod = &explained.pod;
    match (&explained.node, &explained.queue) {
        (Some(node), _) => writeln!(out, "{HEADING}pod {pod}{HEADING:#} is on {node}")?,
        (None, Some(queue)) => {
            let tries = count(explained.attempts.unwrap_or_default() as usize, "attempt");
            writeln!(out, "{HEADING}pod {pod}{HEADING:#} waits ({queue}, {tries})")?;
        }
        (None, None) => writeln!(out, "{HEADING}pod {pod}{HEADING:#} is another scheduler's")?,
    }
    if let Some(message) = &explained.message {
        writeln!(out, "  {message}")?;
    }
    if let Some(Decided { time, node, feasible, ties, micros }) = &explained.decision {
        let by_lot = if *ties > 1 { format!(", by lot among {ties} that were equal") } else { String::new() };
        let of = count(*feasible, "feasible node");
        writeln!(out, "  {node} was chosen of {of}{by_lot}, at {time}, in {micros} µs")?;
    }
    match &explained.account {
        Some(account) => {
            writeln!(out, "\nWhat would be decided now:\n")?;
            report::account(out, account)?;
        }
        None => out
            .note("scores of all nodes, as if it were to be placed now: plimsoll explain --kubeconfig FILE --pod POD"),
    }
    Ok(())
}

/// Takes a pod off its node, which is returned.
fn take_off(pod: &mut Pod) -> Option<String> {
    let node = pod.spec.as_mut()?.node_name.take().filter(|name| !name.is_empty())?;
    // A nomination that was carried out would send it there again.
    if let Some(status) = &mut pod.status {
        status.nominated_node_name = None;
    }
    Some(node)
}

fn name_of(pod: &Pod) -> String {
    let meta = &pod.metadata;
    format!("{}/{}", meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}

/// A few names, to show how they are written.
fn known_pods(cluster: &Cluster) -> String {
    const SHOWN: usize = 5;
    let pods = &cluster.objects.pods;
    if pods.is_empty() {
        return "they hold no pods".to_owned();
    }
    let names: Vec<_> = pods.iter().take(SHOWN).map(name_of).collect();
    let more = if pods.len() > SHOWN { format!(" and {} more", pods.len() - SHOWN) } else { String::new() };
    format!("they hold {}{more}", names.join(", "))
}
