//! `plimsoll check-config`

use crate::Verdict;
use crate::input;
use crate::output::{ACCENT, BAD, GOOD, HEADING, Output, count};
use crate::section::{self, Section};
use anyhow::Result;
use plimsoll_core::config::{Configuration, Extender, ExtensionPoint, Profile, WeightedPlugin};
use std::io::Write;
use std::path::PathBuf;

/// Check KubeSchedulerConfiguration files, with our section or without, and show what is in force
///
/// Exit status 1 if a file is invalid.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Files in YAML or JSON; `-` reads standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Reports every mistake of every file.
pub fn run(args: Args, out: &mut Output) -> Result<Verdict> {
    let mut verdict = Verdict::Good;
    let mut unreadable = 0;
    for (at, path) in args.files.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        let (name, text) = match input::read_text(path) {
            Ok(read) => read,
            Err(error) => {
                // The other files can still be checked.
                out.error(&format!("{error:#}"));
                unreadable += 1;
                continue;
            }
        };
        let mut invalid = |found: usize, told: String| -> Result<()> {
            verdict = Verdict::Bad;
            writeln!(out, "{HEADING}{name}{HEADING:#}: {BAD}invalid{BAD:#}, {}", count(found, "error"))?;
            writeln!(out, "{told}")?;
            Ok(())
        };
        let (stock, section) = match section::split(&name, &text) {
            Ok(parts) => parts,
            Err(error) => {
                invalid(1, format!("{error:#}"))?;
                continue;
            }
        };
        match stock.map(|document| Configuration::parse(&name, &document)).transpose() {
            Ok(configuration) => {
                writeln!(out, "{HEADING}{name}{HEADING:#}: {GOOD}valid{GOOD:#}")?;
                print_configuration(&configuration.unwrap_or_default(), out)?;
                print_section(section.as_ref(), out)?;
            }
            Err(errors) => invalid(errors.errors.len(), errors.to_string())?,
        }
    }
    anyhow::ensure!(unreadable == 0, "{} could not be checked", count(unreadable, "file"));
    Ok(verdict)
}

fn print_section(section: Option<&Section>, out: &mut Output) -> Result<()> {
    for profile in section.map(|section| section.profiles.as_slice()).unwrap_or_default() {
        writeln!(out, "  {ACCENT}{}{ACCENT:#}: nodes are ranked by {}", profile.scheduler_name, profile.policy)?;
    }
    Ok(())
}

fn print_configuration(configuration: &Configuration, out: &mut Output) -> Result<()> {
    writeln!(
        out,
        "  backoff {} s doubling to {} s",
        configuration.pod_initial_backoff_seconds, configuration.pod_max_backoff_seconds
    )?;
    for profile in &configuration.profiles {
        print_profile(profile, out)?;
    }
    for (profile, plugin) in configuration.unfollowed() {
        writeln!(
            out,
            "  {BAD}profile {profile}: nothing is made of {plugin}; pods are placed as if it were not there{BAD:#}"
        )?;
    }
    for extender in &configuration.extenders {
        writeln!(out, "  extender {ACCENT}{}{ACCENT:#}: {}", extender.url_prefix, verbs(extender))?;
    }
    Ok(())
}

fn print_profile(profile: &Profile, out: &mut Output) -> Result<()> {
    let share = profile
        .percentage_of_nodes_to_score
        .map_or_else(String::new, |share| format!(", percentageOfNodesToScore {share}"));
    writeln!(out, "  profile {ACCENT}{}{ACCENT:#}{share}", profile.scheduler_name)?;
    for point in ExtensionPoint::ALL {
        let plugins = match point {
            ExtensionPoint::Score => with_weights(&profile.plugins.score),
            ExtensionPoint::PlacementScore => with_weights(&profile.plugins.placement_score),
            _ => profile.plugins.at(point).into_iter().map(|plugin| plugin.to_string()).collect(),
        };
        for (line, plugins) in wrapped(&plugins).into_iter().enumerate() {
            let label = if line == 0 { point.as_str() } else { "" };
            writeln!(out, "    {label:<18}{plugins}")?;
        }
    }
    Ok(())
}

fn with_weights(plugins: &[WeightedPlugin]) -> Vec<String> {
    plugins.iter().map(|WeightedPlugin { plugin, weight }| format!("{plugin} × {weight}")).collect()
}

/// The names in lines that fit beside the label on a terminal of 100 columns.
fn wrapped(names: &[String]) -> Vec<String> {
    const WIDTH: usize = 76;
    let mut lines: Vec<String> = Vec::new();
    for name in names {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 2 + name.chars().count() <= WIDTH => {
                line.push_str(", ");
                line.push_str(name);
            }
            last => {
                if let Some(line) = last {
                    line.push(',');
                }
                lines.push(name.clone());
            }
        }
    }
    lines
}

fn verbs(extender: &Extender) -> String {
    let verbs = [&extender.filter_verb, &extender.prioritize_verb, &extender.preempt_verb, &extender.bind_verb];
    verbs.into_iter().filter(|verb| !verb.is_empty()).map(String::as_str).collect::<Vec<_>>().join(", ")
}
