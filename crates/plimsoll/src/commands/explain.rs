//! `plimsoll explain`

use super::place::{ClusterArgs, Format, full_name};
use crate::Verdict;
use crate::cluster::Cluster;
use crate::dry_run::DryRun;
use crate::input::read_configuration;
use crate::output::{DIM, Output};
use crate::report;
use anyhow::{Result, bail};
use k8s_openapi::api::core::v1::Pod;
use plimsoll_core::gate_message;
use plimsoll_core::state::pod_key;
use std::io::Write;

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
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

/// Explains one decision.
pub fn run(args: Args, out: &mut Output) -> Result<Verdict> {
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
