//! `plimsoll tour`

mod workload;

use crate::Verdict;
use crate::dry_run::{DryRun, Outcome, Placed, PodOutcome, Usage};
use crate::output::{ACCENT, BAD, DIM, GOOD, HEADING, Output, count, table};
use crate::report::{self, Tally, percent};
use anyhow::{Result, anyhow};
use clap::value_parser;
use plimsoll_core::account::Account;
use plimsoll_core::config::Configuration;
use plimsoll_core::state::{ClusterState, Node};
use plimsoll_sim::compare::{Plan, Store, by_name, compare};
use plimsoll_sim::scenario::Scenario;
use std::collections::BTreeMap;
use std::io::Write;
use std::time::Instant;
use workload::{Group, NAMESPACE, Tour, zone_of};

/// What is compared; also there to be changed and run.
const SCENARIO: &str = include_str!("../../../../../examples/scenarios/demo.toml");
/// Nodes whose load is drawn: more would scroll the rest away.
const SHOWN_NODES: usize = 15;
/// Nodes whose scores are shown for a decision.
const SHOWN_SCORES: usize = 3;
/// Characters of a bar.
const BAR: usize = 20;

/// Place a synthetic workload on a synthetic cluster, show the reasons, and compare policies over time
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How many nodes
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = value_parser!(u32).range(3..=50_000))]
    nodes: u32,
    /// How many pods
    #[arg(long, value_name = "N", default_value_t = 48, value_parser = value_parser!(u32).range(10..=200_000))]
    pods: u32,
    /// Varies the sizes of pods and the order they come in
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// One policy's placement.
struct Run {
    dry_run: DryRun,
    outcomes: Vec<PodOutcome>,
    usage: Usage,
}

impl Run {
    fn new(tour: &Tour, policy: &str, seed: u64, explained: &[String]) -> Result<Self> {
        let mut dry_run = DryRun::new(&tour.cluster, &Configuration::default(), policy, seed)?;
        let outcomes = dry_run.place_all(|pod| explained.iter().any(|name| name == pod));
        let usage = Usage::of(&dry_run.scheduler.state);
        Ok(Self { dry_run, outcomes, usage })
    }

    fn state(&self) -> &ClusterState {
        &self.dry_run.scheduler.state
    }
}

/// Shows all that.
pub fn run(args: Args, out: &mut Output) -> Result<Verdict> {
    let tour = Tour::new(args.nodes as usize, args.pods as usize, args.seed)?;
    // The last pods of a group find the cluster as the others left it.
    let last = |name: &str| {
        let pods = tour.groups.iter().find(|group| group.name == name).map_or(1, |group| group.pods);
        format!("{NAMESPACE}/{name}-{}", pods - 1)
    };
    let explained = [last("db"), last("web")];
    let default = Run::new(&tour, "default", args.seed, &explained)?;
    let packed = Run::new(&tour, "best-fit", args.seed, &[])?;

    print_title(&args, &default, out)?;
    print_groups(&tour.groups, &default.outcomes, out)?;
    writeln!(out, "\n{HEADING}Why this node{HEADING:#}")?;
    for outcome in &default.outcomes {
        if let (Outcome::Placed(placed), Some(account)) = (&outcome.outcome, &outcome.explanation) {
            print_why(placed, account, out)?;
        }
    }
    print_pending(&default.outcomes, out)?;
    print_comparison(&default, &packed, out)?;
    prove(out)?;
    Ok(Verdict::Good)
}

/// Replays a day and a half of work under several policies, and says what each costs.
fn prove(out: &mut Output) -> Result<()> {
    let scenario = Scenario::parse(SCENARIO).map_err(|(_, problem)| anyhow!("the scenario of the tour: {problem}"))?;
    let plan = Plan::new(scenario.run.policies.clone(), &[], &scenario.run.seeds);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let start = Instant::now();
    let comparison = compare(&scenario, &plan, &by_name, threads, &Store::none(), &|_, _| {})?;
    let took = start.elapsed().as_secs_f64();
    let pods: u64 = comparison.runs.iter().map(|run| run.row.measures.arrived).sum();
    let machines = scenario.fleet()?.len();
    writeln!(
        out,
        "\n{HEADING}Prove it first{HEADING:#}: 36 hours of made-up work on {machines} machines of two kinds, {pods} pods in all, in {took:.1} s"
    )?;
    super::compare::print(&plan, &comparison, out)?;
    writeln!(
        out,
        "{DIM}lifetime-aware is told how long pods run, which no scheduler is: it shows what there is to learn.\n\
         Try your own: plimsoll compare examples/scenarios/demo.toml --report out, and docs/simulation.md{DIM:#}"
    )?;
    Ok(())
}

fn print_title(args: &Args, run: &Run, out: &mut Output) -> Result<()> {
    let (nodes, pods) = (count(args.nodes as usize, "node"), count(args.pods as usize, "pod"));
    let each = run.dry_run.deciding.as_secs_f64() * 1e6 / run.outcomes.len().max(1) as f64;
    writeln!(out, "{HEADING}Plimsoll{HEADING:#} places {pods} on {nodes} in three zones, as kube-scheduler would")?;
    writeln!(out, "{}, {each:.0} µs a decision", Tally::of(&run.outcomes).in_words())?;
    writeln!(out)?;
    Ok(())
}

/// Prints, for each template, how many of its pods went where.
fn print_groups(groups: &[Group], outcomes: &[PodOutcome], out: &mut Output) -> Result<()> {
    let mut list = table(["WORKLOAD", "PLACED", "ASKS FOR", "GOES TO"], &[1]);
    for group in groups {
        let prefix = format!("{NAMESPACE}/{}-", group.name);
        let of_group = outcomes.iter().filter(|outcome| outcome.pod.starts_with(&prefix));
        let placed: Vec<_> = of_group
            .filter_map(|outcome| match &outcome.outcome {
                Outcome::Placed(placed) => Some(placed),
                _ => None,
            })
            .collect();
        let number = format!("{}/{}", placed.len(), group.pods);
        list.add_row([group.name, &number, group.asks, &places(&placed)]);
    }
    out.table("", &list)?;
    Ok(())
}

fn places(placed: &[&Placed]) -> String {
    match placed {
        [] => "no node: see below".to_owned(),
        [Placed { node, preemption: Some(cleared), .. }] => {
            format!("{node}, after removing {}", cleared.victims.join(", "))
        }
        [_] | [_, _] | [_, _, _] => placed.iter().map(|placed| placed.node.as_str()).collect::<Vec<_>>().join(", "),
        _ => {
            let mut zones: BTreeMap<&str, usize> = BTreeMap::new();
            for placed in placed {
                *zones.entry(zone_of(&placed.node)).or_default() += 1;
            }
            let zones: Vec<_> = zones.iter().map(|(zone, pods)| format!("{zone} {pods}")).collect();
            format!("zone {}", zones.join(", "))
        }
    }
}

fn print_why(placed: &Placed, account: &Account, out: &mut Output) -> Result<()> {
    let (pod, nodes) = (&account.pod, account.nodes);
    let feasible = account.feasible.len();
    writeln!(out, "  {ACCENT}{pod}{ACCENT:#} goes to {GOOD}{}{GOOD:#}: {}", placed.node, placed.why)?;
    let mut best = account.feasible.clone();
    // Of equals, the one that was chosen is to be seen.
    best.sort_by_key(|node| (-node.total, node.node != placed.node));
    best.truncate(SHOWN_SCORES);
    let says_something =
        |plugin: &str| best.iter().any(|node| node.scores.get(plugin).is_some_and(|score| *score != 0));
    report::scores(out, "    ", &best, says_something)?;
    let refusals: Vec<_> = account.refusals().iter().map(|(number, plugin)| format!("{number} by {plugin}")).collect();
    let refused = if refusals.is_empty() { "none".to_owned() } else { refusals.join(", ") };
    writeln!(out, "    {DIM}{feasible} of {nodes} feasible; refused: {refused}{DIM:#}")?;
    Ok(())
}

fn print_pending(outcomes: &[PodOutcome], out: &mut Output) -> Result<()> {
    let pending: Vec<_> = outcomes
        .iter()
        .filter_map(|outcome| match &outcome.outcome {
            Outcome::Pending { message } => Some((&outcome.pod, message)),
            _ => None,
        })
        .collect();
    let Some((pod, message)) = pending.iter().find(|(pod, _)| pod.contains("giant")).or(pending.first()) else {
        return Ok(());
    };
    writeln!(out, "\n{HEADING}Why pending{HEADING:#}")?;
    writeln!(out, "  {BAD}{pod}{BAD:#}: {message}")?;
    if pending.len() > 1 {
        writeln!(out, "  {DIM}and {} more pods wait{DIM:#}", pending.len() - 1)?;
    }
    Ok(())
}

/// Prints how full each node is under two policies, and what that makes of the cluster.
fn print_comparison(default: &Run, packed: &Run, out: &mut Output) -> Result<()> {
    const LABEL: usize = 24;
    const COLUMN: usize = BAR + 8;
    writeln!(out, "\n{HEADING}{:<LABEL$}{:<COLUMN$}best-fit{HEADING:#}", "CPU requested", "default")?;
    let mut nodes: Vec<&Node> = default.state().nodes().collect();
    nodes.sort_by_key(|node| default.state().node_name(node.id));
    for node in nodes.iter().take(SHOWN_NODES) {
        let name = default.state().node_name(node.id);
        let there = packed.state().node_named(name).and_then(|id| packed.state().node(id));
        let bars = [Some(*node), there].map(|node| bar(node.map_or(0.0, share)));
        writeln!(out, "  {name:<width$}{}  {}", bars[0], bars[1], width = LABEL - 2)?;
    }
    if nodes.len() > SHOWN_NODES {
        writeln!(out, "  {DIM}and {} more nodes{DIM:#}", nodes.len() - SHOWN_NODES)?;
    }
    let mut row = |label: &str, value: &dyn Fn(&Run) -> String| {
        let (first, second) = (value(default), value(packed));
        writeln!(out, "{HEADING}{label:<LABEL$}{HEADING:#}{first:<COLUMN$}{second}")
    };
    row("nodes in use", &|run| format!("{} of {}", run.usage.used, run.usage.nodes))?;
    row("CPU of nodes in use", &|run| format!("{} requested", percent(run.usage.cpu_of_used)))?;
    row("imbalance of CPU", &|run| format!("± {}", percent(run.usage.imbalance)))?;
    row("pods pending", &|run| Tally::of(&run.outcomes).pending.to_string())?;
    Ok(())
}

fn share(node: &Node) -> f64 {
    node.requested.cpu as f64 / (node.allocatable.cpu as f64).max(1.0)
}

/// A share as a bar with its number, `BAR + 6` columns wide.
fn bar(share: f64) -> String {
    let filled = ((share * BAR as f64).round() as usize).min(BAR);
    format!("{ACCENT}{}{ACCENT:#}{DIM}{}{DIM:#}{:>6}", "█".repeat(filled), "░".repeat(BAR - filled), percent(share))
}
