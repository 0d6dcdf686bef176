//! `plimsoll place`

use crate::Verdict;
use crate::cluster::Cluster;
use crate::connect::ConnectArgs;
use crate::dry_run::{DryRun, PodOutcome, Usage};
use crate::input::read_configuration;
use crate::output::Output;
use crate::report::{self, Tally};
use anyhow::{Result, bail};
use clap::builder::PossibleValuesParser;
use plimsoll_core::policy::POLICIES;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;

/// Say where pending pods would go, without touching a cluster
///
/// Places every pending pod of a cluster one after the other, by priority and then by age, as kube-scheduler would. A pod
/// that preempts others is placed as if they had left at once; they are not placed anew.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// How feasible nodes are ranked
    #[arg(long, value_name = "NAME", default_value = "default", value_parser = policy_names())]
    policy: String,
    /// Lay open the decision about this pod (NAMESPACE/NAME); may be given several times
    #[arg(long, value_name = "POD", conflicts_with = "explain_all")]
    explain: Vec<String>,
    /// Lay open every decision
    #[arg(long)]
    explain_all: bool,
    /// Breaks ties between equal nodes: the same seed gives the same placement
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

/// The cluster a question is about.
#[derive(Debug, clap::Args)]
pub struct ClusterArgs {
    /// Kubernetes objects in YAML or JSON (`-`: standard input): nodes, pods and what they refer to; may be given several
    /// times
    #[arg(long = "cluster", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// A cluster that runs, instead of files: what it holds now is looked at, and nothing in it is changed
    #[arg(long, value_name = "FILE", conflicts_with = "files")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    pub context: Option<String>,
    /// A KubeSchedulerConfiguration [default: that of a kube-scheduler without one]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// How to print.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Tables for people
    #[default]
    Table,
    /// JSON for programs
    Json,
}

impl ClusterArgs {
    /// Reads the files, and says what of them is of no use.
    pub fn read(&self, out: &Output) -> Result<Cluster> {
        let cluster = match &self.kubeconfig {
            None if self.files.is_empty() => {
                bail!("which cluster? give its objects with --cluster FILE, or --kubeconfig FILE")
            }
            None => Cluster::read(&self.files)?,
            Some(path) => {
                let connect = ConnectArgs { kubeconfig: Some(path.clone()), context: self.context.clone() };
                Cluster::of_api_server(&connect)?
            }
        };
        if let Some(ignored) = cluster.ignored_in_words() {
            out.note(&format!("not taken into account: {ignored}"));
        }
        Ok(cluster)
    }
}

fn policy_names() -> PossibleValuesParser {
    PossibleValuesParser::new(POLICIES.iter().map(|(name, _)| *name))
}

/// Places the pods and prints the outcome.
pub fn run(args: Args, out: &mut Output) -> Result<Verdict> {
    let configuration = read_configuration(args.cluster.config.as_ref())?;
    let cluster = args.cluster.read(out)?;
    let mut dry_run = DryRun::new(&cluster, &configuration, &args.policy, args.seed)?;
    let wanted: Vec<String> = args.explain.iter().map(|pod| full_name(pod)).collect();
    let outcomes = dry_run.place_all(|pod| args.explain_all || wanted.iter().any(|name| name == pod));
    if let Some(unknown) = wanted.iter().find(|name| outcomes.iter().all(|outcome| outcome.pod != **name)) {
        bail!("no pending pod {unknown} in the cluster files; `plimsoll explain` takes running pods too");
    }
    let (tally, usage) = (Tally::of(&outcomes), Usage::of(&dry_run.scheduler.state));
    match args.output {
        Format::Json => out.json(&json!({
            "policy": args.policy,
            "seed": args.seed,
            "pods": outcomes,
            "summary": tally,
            "usage": usage,
        }))?,
        Format::Table => {
            print_explanations(&outcomes, out)?;
            report::placements(out, &outcomes, usage.nodes)?;
            writeln!(out, "{}; {}", tally.in_words(), report::usage(&usage))?;
        }
    }
    Ok(Verdict::Good)
}

fn print_explanations(outcomes: &[PodOutcome], out: &mut Output) -> Result<()> {
    for account in outcomes.iter().filter_map(|outcome| outcome.explanation.as_ref()) {
        report::account(out, account)?;
        writeln!(out)?;
    }
    Ok(())
}

/// `namespace/name` of a pod that may be named without its namespace.
pub fn full_name(pod: &str) -> String {
    if pod.contains('/') { pod.to_owned() } else { format!("default/{pod}") }
}
