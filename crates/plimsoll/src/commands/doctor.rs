//! `plimsoll doctor`

use crate::Verdict;
use crate::commands::serve;
use crate::connect::{self, ConnectArgs};
use crate::output::{ACCENT, BAD, DIM, GOOD, Output};
use crate::section::{self, Section};
use crate::telemetry;
use anyhow::Result;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, Client};
use plimsoll_core::config::Configuration;
use plimsoll_kube::rights;
use plimsoll_kube::world::is_ready;
use plimsoll_learn::reward::SharedObjectives;
use plimsoll_telemetry::{Prometheus, ResourceMetrics, Settings, Store};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Check a cluster and a configuration before Plimsoll schedules: rights, versions, models, power, telemetry; and say what to mend
///
/// Nothing is changed. The exit status is 1 where something must be mended first.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The configuration that `plimsoll run` or `plimsoll serve` is to have
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    connect: ConnectArgs,
    /// The policies or models that are to rank, as for `plimsoll run`; with --adviser as for `plimsoll serve`
    #[arg(long, value_name = "[PROFILE=]NAME")]
    policy: Vec<String>,
    /// A Prometheus that tells how busy nodes are, by its URL
    #[arg(long, value_name = "URL")]
    prometheus: Option<String>,
    /// Check what an adviser needs, which only reads
    #[arg(long)]
    adviser: bool,
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grade {
    Good,
    /// It works, but something is missing.
    Fair,
    /// It must be mended first.
    Bad,
}

/// The findings so far.
struct Findings<'a> {
    out: &'a mut Output,
    worst: Grade,
}

impl Findings<'_> {
    fn add(&mut self, grade: Grade, what: &str, found: &str, advice: &str) -> Result<()> {
        let (style, mark) = match grade {
            Grade::Good => (GOOD, "ok  "),
            Grade::Fair => (ACCENT, "note"),
            Grade::Bad => (BAD, "BAD "),
        };
        writeln!(self.out, "{style}{mark}{style:#} {what}: {found}")?;
        if grade != Grade::Good {
            writeln!(self.out, "     {DIM}{advice}{DIM:#}")?;
        }
        if grade == Grade::Bad || (grade == Grade::Fair && self.worst == Grade::Good) {
            self.worst = grade;
        }
        Ok(())
    }

    fn good(&mut self, what: &str, found: &str) -> Result<()> {
        self.add(Grade::Good, what, found, "")
    }
}

/// Checks.
pub fn run(args: Args, out: &mut Output) -> Result<Verdict> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut findings = Findings { out, worst: Grade::Good };
    let result = runtime.block_on(examine(&args, &mut findings));
    let worst = findings.worst;
    connect::leave(runtime);
    result?;
    let words = match worst {
        Grade::Good => "all is well",
        Grade::Fair => "it can run; see the notes",
        Grade::Bad => "it cannot run like this; mend what is BAD first",
    };
    writeln!(out, "\n{words}")?;
    Ok(if worst == Grade::Bad { Verdict::Bad } else { Verdict::Good })
}

async fn examine(args: &Args, findings: &mut Findings<'_>) -> Result<()> {
    let read = section::read(args.config.as_deref());
    let (configuration, section) = match read {
        Ok(read) => read,
        Err(error) => {
            return findings.add(Grade::Bad, "configuration", &format!("{error:#}"), "see docs/configuration.md");
        }
    };
    policies(args, &configuration, &section, findings)?;
    let connected = match args.connect.config(None).await {
        Ok(config) => connect::client(config).await,
        Err(error) => Err(error),
    };
    let client = match connected {
        Ok(client) => client,
        Err(error) => {
            let advice = "give --kubeconfig, or run where `kubectl get nodes` works";
            return findings.add(Grade::Bad, "cluster", &format!("{error:#}"), advice);
        }
    };
    let version = client.apiserver_version().await.map(|version| version.git_version).unwrap_or_default();
    findings.good("cluster", &format!("an API server {version} that is supported"))?;
    allowed(args, &configuration, &client, findings).await?;
    let nodes = nodes(&client, findings).await?;
    power(args, &section, &nodes, findings)?;
    others(&configuration, &client, findings).await?;
    measured(args, &section, &client, &nodes, findings).await
}

fn policies(args: &Args, configuration: &Configuration, section: &Section, findings: &mut Findings<'_>) -> Result<()> {
    let weights = SharedObjectives::default();
    // Policies of an adviser have names of their own; those of a scheduler are for its profiles.
    let (what, built) = match (args.adviser, args.policy.as_slice()) {
        (true, []) => ("policies", serve::engine(&["default".to_owned()], configuration, section, &weights, 1)),
        (true, given) => ("policies", serve::engine(given, configuration, section, &weights, 1)),
        (false, given) => ("profiles", section.engine(configuration, given, &weights, 1)),
    };
    match built {
        Ok((_, ranked)) => {
            let each: Vec<_> = ranked.iter().map(|ranked| format!("{} by {}", ranked.profile, ranked.policy)).collect();
            findings.good(what, &each.join(", "))
        }
        Err(error) => findings.add(
            Grade::Bad,
            "policies",
            &format!("{error:#}"),
            "see `plimsoll policies` and `plimsoll models list`",
        ),
    }
}

async fn allowed(
    args: &Args,
    configuration: &Configuration,
    client: &Client,
    findings: &mut Findings<'_>,
) -> Result<()> {
    let lease = &configuration.leader_election;
    let lease = lease.leader_elect.then_some((lease.resource_namespace.as_str(), lease.resource_name.as_str()));
    let needed =
        if args.adviser { rights::to_read() } else { rights::to_schedule(lease, connect::minor_of(client).await) };
    let count = needed.len();
    match rights::missing(client, needed).await {
        Ok(missing) if missing.is_empty() => findings.good("rights", &format!("all {count} that are needed")),
        Ok(missing) => {
            let missing: Vec<_> = missing.iter().map(ToString::to_string).collect();
            let advice = "grant these, or bind the user to system:kube-scheduler and system:volume-scheduler; the Helm chart does";
            findings.add(Grade::Bad, "rights", &format!("not allowed: {}", missing.join(", ")), advice)
        }
        Err(error) => findings.add(
            Grade::Fair,
            "rights",
            &format!("the API server does not say: {error}"),
            "look at its authorization",
        ),
    }
}

async fn nodes(client: &Client, findings: &mut Findings<'_>) -> Result<Vec<Node>> {
    let listed = Api::<Node>::all(client.clone()).list(&ListParams::default()).await;
    let nodes = match listed {
        Ok(nodes) => nodes.items,
        Err(error) => {
            findings.add(
                Grade::Bad,
                "nodes",
                &format!("cannot be listed: {error}"),
                "grant list and watch of nodes",
            )?;
            return Ok(Vec::new());
        }
    };
    let ready = nodes.iter().filter(|node| is_ready(node)).count();
    let found = format!("{ready} of {} ready", nodes.len());
    match ready {
        0 => {
            findings.add(Grade::Bad, "nodes", &found, "no pod can be placed before a kubelet says that it is ready")?
        }
        _ => findings.good("nodes", &found)?,
    }
    Ok(nodes)
}

fn power(args: &Args, section: &Section, nodes: &[Node], findings: &mut Findings<'_>) -> Result<()> {
    let folder = args.config.as_deref().and_then(Path::parent).unwrap_or(Path::new("."));
    let kinds = match section.node_kinds(folder) {
        Ok(kinds) => kinds,
        Err(error) => {
            return findings.add(
                Grade::Bad,
                "power",
                &format!("{error:#}"),
                "see `nodes` and `catalogue` in docs/live.md",
            );
        }
    };
    let kind_of = |node: &Node| kinds.list.iter().find(|kind| kind.is_kind_of(node));
    let machines = nodes.iter().filter(|node| !kinds.clusters.is_virtual(node));
    let unknown = machines.filter(|node| kind_of(node).is_none_or(|kind| kind.power.is_none())).count();
    match unknown {
        0 if nodes.is_empty() => Ok(()),
        0 => findings.good("power", "the curve of every node is known"),
        _ => findings.add(
            Grade::Fair,
            "power",
            &format!("what {unknown} of {} nodes draw is not known", nodes.len()),
            "policies for energy take them last; say what they draw under `nodes` of the configuration (docs/guides/energy.md)",
        ),
    }
}

/// Whoever else schedules the same pods.
async fn others(configuration: &Configuration, client: &Client, findings: &mut Findings<'_>) -> Result<()> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-system");
    let held = match leases.get_opt("kube-scheduler").await {
        Ok(lease) => lease.and_then(|lease| lease.spec).and_then(|spec| {
            let until = spec.renew_time?.0.checked_add(k8s_openapi::jiff::SignedDuration::from_secs(60)).ok()?;
            spec.holder_identity.filter(|_| until > Timestamp::now())
        }),
        Err(_) => None,
    };
    let takes_default = configuration.profiles.iter().any(|profile| profile.scheduler_name == "default-scheduler");
    match held {
        Some(holder) if takes_default => findings.add(
            Grade::Fair,
            "other schedulers",
            &format!("kube-scheduler runs ({holder}), and the profile default-scheduler is its, too"),
            "give the profile another name (--scheduler-name plimsoll), or stop kube-scheduler: two would race for the same pods",
        )?,
        Some(holder) => findings.good("other schedulers", &format!("kube-scheduler runs beside ({holder}), for other pods"))?,
        None => findings.good("other schedulers", "no kube-scheduler holds its lease")?,
    }
    let pods = match Api::<Pod>::all(client.clone()).list(&ListParams::default().fields("spec.nodeName=")).await {
        Ok(pods) => pods.items,
        Err(_) => return Ok(()),
    };
    let ours: BTreeSet<&str> = configuration.profiles.iter().map(|profile| profile.scheduler_name.as_str()).collect();
    let named = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.scheduler_name.clone()).unwrap_or_default();
    let strangers: BTreeSet<String> =
        pods.iter().map(named).filter(|name| !ours.contains(name.as_str()) && name != "default-scheduler").collect();
    if strangers.is_empty() {
        return Ok(());
    }
    let names = strangers.into_iter().collect::<Vec<_>>().join(", ");
    let advice = "no profile of this configuration has these names; if nobody else does, the pods wait for ever";
    findings.add(Grade::Fair, "waiting pods", &format!("pods wait for the schedulers {names}"), advice)
}

async fn measured(
    args: &Args,
    section: &Section,
    client: &Client,
    nodes: &[Node],
    findings: &mut Findings<'_>,
) -> Result<()> {
    let given = &section.telemetry;
    let store =
        Arc::new(Store::new(Settings { stale_after: Duration::from_secs(60), window: Duration::from_secs(60) }));
    let asked = given.asked(args.prometheus.as_deref());
    if let Some(asked) = &asked {
        let interval = Duration::from_secs(15);
        let advice =
            "check the address, and that Prometheus scrapes node exporters whose `instance` or `node` names nodes";
        let problem = match telemetry::queries(asked)
            .map(|queries| Prometheus::new(&asked.address, queries, interval, Arc::clone(&store)))
        {
            Ok(Ok(prometheus)) => prometheus.ask().await,
            Ok(Err(error)) => Some(error.to_string()),
            Err(error) => Some(format!("{error:#}")),
        };
        if let Some(problem) = problem {
            findings.add(Grade::Fair, "Prometheus", &format!("{}: {problem}", asked.address), advice)?;
        }
    }
    if given.resource_metrics
        && let Err(error) =
            ResourceMetrics::new(client.clone(), Duration::from_secs(15), Arc::clone(&store)).ask().await
    {
        findings.add(
            Grade::Fair,
            "resource metrics",
            &error.to_string(),
            "install metrics-server, or take resourceMetrics out",
        )?;
    }
    if asked.is_none() && !given.resource_metrics {
        let advice =
            "policies see what pods ask for, not what they use; say telemetry.prometheus or --prometheus for that";
        return findings.add(Grade::Fair, "telemetry", "none is configured", advice);
    }
    let now = SystemTime::now();
    let seen: BTreeSet<String> = store.nodes().into_iter().filter(|node| !store.node(node, now).is_empty()).collect();
    let name = |node: &Node| node.metadata.name.clone().unwrap_or_default();
    let missing: Vec<String> = nodes.iter().map(name).filter(|name| !seen.contains(name)).collect();
    match missing.as_slice() {
        [] => findings.good("telemetry", &format!("all {} nodes are measured", nodes.len())),
        [first, ..] => findings.add(
            Grade::Fair,
            "telemetry",
            &format!("{} of {} nodes are not measured, such as {first}", missing.len(), nodes.len()),
            "see that their exporters are scraped, and that labels name the nodes as Kubernetes does (docs/adviser.md)",
        ),
    }
}
