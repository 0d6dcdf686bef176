//! A comparison as one HTML file that opens from disk: tables, and plots drawn by a small script of its own. Nothing is fetched.
//!
//! Tables are written here, so they can be read without the script; it sorts them and draws what is embedded as JSON.

pub mod catalogue;
pub mod statistics;
mod summary;
mod tables;

use crate::bounds::BoundSeries;
use crate::measures::{Run, Series};
use serde_json::{Value, json};
use std::fmt::{self, Write as _};

const SCRIPT: &str = include_str!("report.js");
/// How reports look, light and dark.
pub const STYLE: &str = include_str!("report.css");

/// How many cases are drawn; the figures are those of all. Each is a few hundred kilobytes with a dozen policies.
const MOST_DRAWN: usize = 12;
/// Points of a bound's line: more than a screen shows.
const MOST_POINTS: usize = 600;

/// What a report is about.
#[derive(Debug, Clone, Copy)]
pub struct Report<'a> {
    /// The heading.
    pub title: &'a str,
    /// The runs; policies keep their order, and so their colours.
    pub runs: &'a [Run],
    /// The policy that others are compared with; without, or if it did not run, the first.
    pub baseline: Option<&'a str>,
    /// Bounds over time, where they are to be drawn.
    pub bounds: &'a [CaseBound],
}

/// The bound of one case: all runs of a scenario with the same window and seed.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseBound {
    /// The scenario's name.
    pub scenario: String,
    /// The window, as in the rows.
    pub window: String,
    /// The seed.
    pub seed: u64,
    /// The bound over time.
    pub series: BoundSeries,
}

/// Writes the report.
pub fn html(report: &Report<'_>) -> String {
    html_with_preface(report, &[])
}

/// Writes the report, with what was found above it: one sentence a line.
pub fn html_with_preface(report: &Report<'_>, preface: &[String]) -> String {
    let entries = catalogue::entries();
    let summary = summary::Summary::new(report, &entries);
    let mut page = String::with_capacity(SCRIPT.len() + STYLE.len() + (1 << 16));
    // Writing to a string cannot fail.
    let _ = write_page(&mut page, report, preface, &entries, &summary);
    page
}

fn write_page(
    page: &mut String,
    report: &Report<'_>,
    preface: &[String],
    entries: &[catalogue::Entry],
    summary: &summary::Summary<'_>,
) -> fmt::Result {
    let title = Escaped(report.title);
    write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <header class=\"masthead\">\n<p class=\"mark\">Plimsoll</p>\n<h1>{title}</h1>\n<p class=\"facts\">"
    )?;
    tables::facts(page, report, summary)?;
    page.push_str(
        "</p>\n</header>\n<nav id=\"legend\" class=\"legend\" aria-label=\"Policies\" hidden></nav>\n<main>\n",
    );
    if !preface.is_empty() {
        page.push_str("<section class=\"findings\">\n<h2>Findings</h2>\n<ul>\n");
        for line in preface {
            writeln!(page, "<li>{}</li>", Escaped(line))?;
        }
        page.push_str("</ul>\n</section>\n");
    }
    for scenario in &summary.scenarios {
        tables::overview(page, scenario, summary, entries)?;
    }
    page.push_str("<section id=\"differences\" hidden></section>\n<section id=\"plots\" hidden></section>\n");
    for scenario in &summary.scenarios {
        tables::every_measure(page, scenario, summary, entries)?;
    }
    tables::notes(page, summary)?;
    page.push_str("</main>\n");
    let data = data(report, entries, summary).to_string();
    // Within a script element only `</` and `<!--` end or change the text; no `<` at all is simplest to be sure of.
    writeln!(page, "<script type=\"application/json\" id=\"data\">{}</script>", data.replace('<', "\\u003c"))?;
    write!(page, "<script>\n{SCRIPT}</script>\n</body>\n</html>\n")
}

/// What the script draws.
fn data(report: &Report<'_>, entries: &[catalogue::Entry], summary: &summary::Summary<'_>) -> Value {
    let drawn: Vec<Value> = summary
        .cases
        .iter()
        .take(MOST_DRAWN)
        .map(|case| {
            let runs: Vec<Value> = report
                .runs
                .iter()
                .filter(|run| case.is_of(&run.row))
                .filter_map(|run| Some((summary.policy(&run.row.policy)?, run)))
                .map(|(policy, run)| json!({ "policy": policy, "series": series(&run.series) }))
                .collect();
            let bound = report.bounds.iter().find(|bound| case.is(&bound.scenario, &bound.window, bound.seed));
            let bound = bound.map(|bound| {
                let thin = bound.series.thinned(MOST_POINTS);
                json!({ "hours": short(&thin.hours), "active_nodes": short(&thin.active_nodes), "kw": short(&thin.kw) })
            });
            let warm = case.measured_from;
            json!({ "scenario": case.scenario, "window": case.window, "seed": case.seed.to_string(), "from": warm, "bound": bound, "runs": runs })
        })
        .collect();
    let scenarios: Vec<Value> = summary
        .scenarios
        .iter()
        .map(|scenario| json!({ "name": scenario.name, "differences": scenario.differences(summary, entries) }))
        .collect();
    json!({
        "policies": summary.policies,
        "baseline": summary.baseline,
        "measures": entries,
        "scenarios": scenarios,
        "cases": drawn,
    })
}

fn series(series: &Series) -> Value {
    json!({
        "hours": short(&series.hours),
        "active_nodes": short(&series.active_nodes),
        "kw": short(&series.kw),
        "running": short(&series.running),
        "waiting": short(&series.waiting),
        "latency_ms": short(&series.latency_ms),
        "nodes": series.nodes,
        "pods_per_node": series.pods_per_node,
        "wait_upper_s": short(&series.wait_upper_s),
        "wait_count": series.wait_count,
    })
}

/// Numbers to five digits, for a plot shows no more; what is no number is left out as null.
fn short(values: &[f64]) -> Vec<Value> {
    values.iter().map(|value| shortened(*value)).collect()
}

fn shortened(value: f64) -> Value {
    let rounded: f64 = format!("{value:.4e}").parse().unwrap_or(f64::NAN);
    // Whole numbers without their ".0": half of a report is such numbers.
    if rounded.fract() == 0.0 && rounded.abs() < 1e15 { json!(rounded as i64) } else { json!(rounded) }
}

/// Text as HTML shows it, in elements and in quoted attributes.
pub struct Escaped<'a>(pub &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;"),
                '<' => f.write_str("&lt;"),
                '>' => f.write_str("&gt;"),
                '"' => f.write_str("&quot;"),
                '\'' => f.write_str("&#39;"),
                other => f.write_char(other),
            }?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
