//! Decisions in words and tables.

use crate::dry_run::{Outcome, PodOutcome, Usage};
use crate::output::{ACCENT, BAD, DIM, GOOD, HEADING, Output, count, table};
use plimsoll_core::account::{Account, Scored};
use std::io::{self, Write};

/// Columns narrower than this keep a table of all plugins within a terminal.
const HEADER_WIDTH: usize = 13;

/// Prints where every pod goes, and which stay.
pub fn placements(out: &mut Output, outcomes: &[PodOutcome], nodes: usize) -> io::Result<()> {
    let mut placed = table(["POD", "NODE", "FEASIBLE", "WHY"], &[2]);
    let mut others = Vec::new();
    for PodOutcome { pod, outcome, .. } in outcomes {
        match outcome {
            Outcome::Placed(to) => {
                placed.add_row([pod.clone(), to.node.clone(), format!("{}/{nodes}", to.feasible), to.why.clone()]);
            }
            Outcome::Pending { message } => others.push((BAD, "pending", pod, message)),
            Outcome::Gated { message } => others.push((ACCENT, "gated", pod, message)),
            Outcome::LeftOut { message } => others.push((DIM, "left out", pod, message)),
        }
    }
    if !placed.is_empty() {
        out.table("", &placed)?;
        writeln!(out)?;
    }
    for (style, what, pod, message) in &others {
        writeln!(out, "{style}{what}{style:#} {HEADING}{pod}{HEADING:#}: {message}")?;
    }
    if !others.is_empty() {
        writeln!(out)?;
    }
    Ok(())
}

/// How many pods met which fate.
#[derive(Debug, Clone, Copy, Default, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tally {
    /// Pods with a node.
    pub placed: usize,
    /// Those among them that others had to leave for.
    pub by_preemption: usize,
    /// Pods removed for others.
    pub removed: usize,
    /// Pods that fit nowhere.
    pub pending: usize,
    /// Pods held back by gates.
    pub gated: usize,
    /// Pods that are not ours to place.
    pub left_out: usize,
}

impl Tally {
    /// Counts.
    pub fn of(outcomes: &[PodOutcome]) -> Self {
        let mut tally = Self::default();
        for PodOutcome { outcome, .. } in outcomes {
            match outcome {
                Outcome::Placed(to) => {
                    tally.placed += 1;
                    if let Some(cleared) = &to.preemption {
                        tally.by_preemption += 1;
                        tally.removed += cleared.victims.len();
                    }
                }
                Outcome::Pending { .. } => tally.pending += 1,
                Outcome::Gated { .. } => tally.gated += 1,
                Outcome::LeftOut { .. } => tally.left_out += 1,
            }
        }
        tally
    }

    /// `12 placed (1 by preemption), 2 pending`
    pub fn in_words(&self) -> String {
        let style = if self.pending == 0 { GOOD } else { BAD };
        let mut words = format!("{GOOD}{} placed{GOOD:#}", self.placed);
        if self.by_preemption > 0 {
            words += &format!(" ({} by preemption of {})", self.by_preemption, count(self.removed, "pod"));
        }
        words += &format!(", {style}{} pending{style:#}", self.pending);
        for (number, what) in [(self.gated, "gated"), (self.left_out, "left out")] {
            if number > 0 {
                words += &format!(", {number} {what}");
            }
        }
        words
    }
}

/// `5 of 9 nodes in use, 61 % of CPU and 40 % of memory requested`
pub fn usage(usage: &Usage) -> String {
    format!(
        "{} of {} in use, {} of CPU and {} of memory requested",
        usage.used,
        count(usage.nodes, "node"),
        percent(usage.cpu),
        percent(usage.memory)
    )
}

/// A share of one, in percent.
pub fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// Prints a decision laid open: every node with its scores or its refusal.
pub fn account(out: &mut Output, account: &Account) -> io::Result<()> {
    let Account { pod, nodes, feasible, refused, .. } = account;
    let style = if feasible.is_empty() { BAD } else { GOOD };
    let fit = format!("{} of {} feasible", feasible.len(), count(*nodes, "node"));
    writeln!(out, "{HEADING}pod {pod}{HEADING:#}: {style}{fit}{style:#}")?;
    if let Some(message) = &account.message {
        writeln!(out, "  {message}")?;
    }
    if let Some(refusal) = &account.pre_filter {
        writeln!(out, "  refused as a whole by {}", refusal.plugin)?;
    }
    if let Some(cleared) = &account.preemption {
        writeln!(out, "  preemption would remove {} from {}", cleared.victims.join(", "), cleared.node)?;
        if cleared.broken_budgets > 0 {
            writeln!(out, "  against the disruption budgets of {}", count(cleared.broken_budgets, "pod"))?;
        }
    }
    if !feasible.is_empty() {
        writeln!(out)?;
        scores(out, "", feasible, |_| true)?;
    }
    if !refused.is_empty() {
        writeln!(out)?;
        let mut list = table(["NODE", "REFUSED BY", "BECAUSE"], &[]);
        for node in refused {
            list.add_row([node.node.as_str(), &node.refusal.plugin, &node.refusal.reasons.join(", ")]);
        }
        out.table("", &list)?;
    }
    Ok(())
}

/// Prints nodes with their totals and the scores of the plugins that are `shown`.
pub fn scores(out: &mut Output, indent: &str, nodes: &[Scored], shown: impl Fn(&str) -> bool) -> io::Result<()> {
    let plugins = nodes.first().into_iter().flat_map(|node| node.scores.keys().map(String::as_str));
    let plugins: Vec<&str> = plugins.filter(|plugin| shown(plugin)).collect();
    let header = ["NODE", "TOTAL"].into_iter().map(str::to_owned).chain(plugins.iter().map(|name| stacked(name)));
    let right: Vec<usize> = (1..plugins.len() + 2).collect();
    let mut list = table(header, &right);
    for node in nodes {
        let scores = plugins.iter().map(|plugin| node.scores.get(*plugin).map_or_else(String::new, i64::to_string));
        list.add_row([node.node.clone(), node.total.to_string()].into_iter().chain(scores));
    }
    out.table(indent, &list)
}

/// A plugin's name in lines short enough for a column: `NodeResources`, `Fit`.
fn stacked(name: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in words(name) {
        match lines.last_mut() {
            Some(line) if line.len() + word.len() <= HEADER_WIDTH => line.push_str(word),
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

/// The words of a name in camel case.
fn words(name: &str) -> Vec<&str> {
    let mut starts: Vec<usize> =
        name.char_indices().filter(|(_, c)| c.is_ascii_uppercase()).map(|(at, _)| at).collect();
    if starts.first() != Some(&0) {
        starts.insert(0, 0);
    }
    starts.push(name.len());
    starts.windows(2).filter_map(|pair| name.get(pair[0]..pair[1])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugin_names_are_stacked_into_narrow_columns() {
        assert_eq!(stacked("NodeResourcesBalancedAllocation"), "NodeResources\nBalanced\nAllocation");
        assert_eq!(stacked("ImageLocality"), "ImageLocality");
        assert_eq!(stacked("PodTopologySpread"), "PodTopology\nSpread");
        assert_eq!(stacked("plain"), "plain");
    }
}
