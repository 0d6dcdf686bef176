//! The parts of a report that are text: headings, tables, notes.

use super::catalogue::{Better, Entry};
use super::summary::{Scenario, Summary};
use super::{Escaped, MOST_DRAWN, Report};
use std::fmt::{Result, Write as _};

/// One line of what was compared.
pub(super) fn facts(page: &mut String, report: &Report<'_>, summary: &Summary<'_>) -> Result {
    let count = |count: usize, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
    let mut parts = vec![count(summary.policies.len(), "policy", "policies")];
    if let [scenario] = summary.scenarios.as_slice() {
        parts.push(format!("scenario <strong>{}</strong>", Escaped(scenario.name)));
    } else {
        parts.push(count(summary.scenarios.len(), "scenario", "scenarios"));
    }
    parts.push(count(summary.cases.len(), "case (window and seed)", "cases (windows and seeds)"));
    parts.push(count(report.runs.len(), "run", "runs"));
    write!(page, "{}", parts.join(" · "))
}

/// The policies of a scenario, a row each, with the measures that are looked at first.
pub(super) fn overview(page: &mut String, scenario: &Scenario<'_>, summary: &Summary<'_>, entries: &[Entry]) -> Result {
    let (machines, kw) = scenario.bounds;
    writeln!(
        page,
        "<section class=\"overview\">\n<h2>{}</h2>\n<p class=\"lead\">Means over {}. No policy that starts every pod on arrival can \
         use fewer than <b>{}</b> machines or less than <b>{}</b> kW on average. The best of each column is bold.</p>",
        heading("Overview", scenario, summary),
        if scenario.cases == 1 { "one case".to_owned() } else { format!("{} cases", scenario.cases) },
        figure(machines, decimals("", machines)),
        figure(kw, decimals("kW", kw)),
    )?;
    page.push_str("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Overview table\">\n<table class=\"sortable\">\n<thead><tr><th scope=\"col\" class=\"name\">Policy</th>");
    let shown: Vec<(usize, &Entry)> =
        entries.iter().enumerate().filter(|(at, entry)| entry.overview && scenario.knows(*at)).collect();
    for (_, entry) in &shown {
        write!(page, "<th scope=\"col\" title=\"{}\" data-better=\"{}\">", Escaped(&entry.definition), better(entry))?;
        write!(page, "<span class=\"label\">{}</span>{}</th>", entry.label, unit(entry))?;
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for (policy, figures) in scenario.policies.iter().enumerate() {
        let Some(figures) = figures else { continue };
        write!(page, "<tr data-policy=\"{policy}\">{}", name_cell(policy, figures.runs, scenario, summary))?;
        for (at, entry) in &shown {
            let mean = figures.means.get(*at).copied().flatten();
            cell(page, mean, largest(scenario, *at), entry, is_best(scenario, *at, entry, mean))?;
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table>\n</div>\n</section>\n");
    Ok(())
}

/// Every measure, a row each with its definition, and the policies beside each other.
pub(super) fn every_measure(
    page: &mut String,
    scenario: &Scenario<'_>,
    summary: &Summary<'_>,
    entries: &[Entry],
) -> Result {
    writeln!(page, "<section class=\"everything\">\n<h2>{}</h2>", heading("Every measure", scenario, summary))?;
    page.push_str("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Every measure\">\n<table>\n<thead><tr><th scope=\"col\" class=\"name\">Measure</th>");
    let present =
        || scenario.policies.iter().enumerate().filter_map(|(policy, figures)| Some((policy, figures.as_ref()?)));
    for (policy, _) in present() {
        let name = summary.policies.get(policy).copied().unwrap_or_default();
        write!(
            page,
            "<th scope=\"col\" data-policy=\"{policy}\"><i class=\"swatch\" data-colour=\"{policy}\"></i>{}</th>",
            Escaped(name)
        )?;
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for (at, entry) in entries.iter().enumerate().filter(|(at, _)| scenario.knows(*at)) {
        write!(
            page,
            "<tr><th scope=\"row\" class=\"name\"><span class=\"label\">{}</span>{}<span class=\"definition\">{}</span></th>",
            entry.label,
            unit(entry),
            Escaped(&entry.definition)
        )?;
        for (policy, figures) in present() {
            let mean = figures.means.get(at).copied().flatten();
            let mut one = String::new();
            cell(&mut one, mean, largest(scenario, at), entry, is_best(scenario, at, entry, mean))?;
            page.push_str(&one.replacen("<td", &format!("<td data-policy=\"{policy}\""), 1));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table>\n</div>\n</section>\n");
    Ok(())
}

/// How to read it.
pub(super) fn notes(page: &mut String, summary: &Summary<'_>) -> Result {
    let baseline = summary.policies.get(summary.baseline).copied().unwrap_or_default();
    write!(
        page,
        "<section class=\"notes\">\n<h2>How to read this</h2>\n<dl>\n\
         <dt>Cases</dt><dd>A case is a window of the workload with a seed; every policy meets the same pods in it, with the same \
         lifetimes. Measures are integrated over simulated time after the warm-up.</dd>\n\
         <dt>Bound</dt><dd>The fluid lower bound: pods divided at will over fractions of machines, and moved at no cost. It is not reachable; \
         a ratio of 1.10 is ten per cent above it. A policy that leaves pods waiting or rejects them runs less, and its ratio flatters it: look at those \
         columns too.</dd>\n\
         <dt>Differences</dt><dd>Each policy is compared with <b>{}</b> case by case; the interval is for the mean difference at 95 %: a bootstrap over \
         cases from five on, Student’s t below, none with one.</dd>\n\
         <dt>Plots</dt><dd>One case at a time",
        Escaped(baseline)
    )?;
    if summary.cases.len() > MOST_DRAWN {
        write!(page, ", the first {MOST_DRAWN} of {}; the tables hold all", summary.cases.len())?;
    }
    page.push_str(
        ". Each policy has one colour throughout, and beyond eight also a dash. Buttons in the legend hide and show a policy; with a \
         plot in focus, the arrow keys move its marker.</dd>\n</dl>\n</section>\n",
    );
    Ok(())
}

fn heading(what: &str, scenario: &Scenario<'_>, summary: &Summary<'_>) -> String {
    if summary.scenarios.len() == 1 { what.to_owned() } else { format!("{what}: {}", Escaped(scenario.name)) }
}

fn name_cell(policy: usize, runs: usize, scenario: &Scenario<'_>, summary: &Summary<'_>) -> String {
    let name = summary.policies.get(policy).copied().unwrap_or_default();
    let mut tag = String::new();
    if policy == summary.baseline && summary.policies.len() > 1 {
        tag.push_str(" <small class=\"tag\">baseline</small>");
    }
    // A mean over other cases than its neighbours' must not pass for one over the same.
    if runs < scenario.cases {
        tag.push_str(&format!(" <small class=\"tag\">{runs} of {} cases</small>", scenario.cases));
    }
    let name = Escaped(name);
    format!("<th scope=\"row\" class=\"name\"><i class=\"swatch\" data-colour=\"{policy}\"></i>{name}{tag}</th>")
}

fn cell(page: &mut String, value: Option<f64>, largest: f64, entry: &Entry, best: bool) -> Result {
    let class = if best { " class=\"best\"" } else { "" };
    match value {
        // The full value sorts; the shown one is as long as its neighbours.
        Some(value) => {
            write!(page, "<td data-value=\"{value}\"{class}>{}</td>", figure(value, decimals(entry.unit, largest)))
        }
        None => write!(page, "<td class=\"none\"><span aria-label=\"not measured\">–</span></td>"),
    }
}

fn better(entry: &Entry) -> &'static str {
    match entry.better {
        Better::Less => "less",
        Better::More => "more",
        Better::Neither => "neither",
    }
}

fn unit(entry: &Entry) -> String {
    if entry.unit.is_empty() { String::new() } else { format!(" <span class=\"unit\">{}</span>", entry.unit) }
}

fn means(scenario: &Scenario<'_>, measure: usize) -> impl Iterator<Item = f64> {
    scenario.policies.iter().flatten().filter_map(move |figures| figures.means.get(measure).copied().flatten())
}

fn largest(scenario: &Scenario<'_>, measure: usize) -> f64 {
    means(scenario, measure).map(f64::abs).fold(0.0, f64::max)
}

/// Best, if it is better than another: where all are alike, none stands out.
fn is_best(scenario: &Scenario<'_>, measure: usize, entry: &Entry, value: Option<f64>) -> bool {
    let least = means(scenario, measure).fold(f64::INFINITY, f64::min);
    let most = means(scenario, measure).fold(f64::NEG_INFINITY, f64::max);
    let best = match entry.better {
        Better::Less => least,
        Better::More => most,
        Better::Neither => return false,
    };
    least < most && value == Some(best)
}

/// Decimals for a column whose largest value is known, so that its numbers line up.
fn decimals(unit: &str, largest: f64) -> usize {
    match largest {
        _ if unit == "×" => 3,
        _ if largest >= 1000.0 => 0,
        _ if largest >= 100.0 || unit == "%" => 1,
        _ => 2,
    }
}

/// A number with its thousands set apart by thin spaces.
fn figure(value: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", value.abs());
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let mut shown = String::new();
    if value < 0.0 && text.bytes().any(|digit| (b'1'..=b'9').contains(&digit)) {
        shown.push('−');
    }
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            shown.push('\u{2009}');
        }
        shown.push(digit);
    }
    if !fraction.is_empty() {
        shown.push('.');
        shown.push_str(fraction);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_rounded_and_signed() {
        let cases = [
            (1_234_567.0, 0, "1\u{2009}234\u{2009}567"),
            (-0.5, 2, "−0.50"),
            (-0.001, 2, "0.00"),
            (999.95, 1, "1\u{2009}000.0"),
        ];
        for (value, decimals, expected) in cases {
            assert_eq!(figure(value, decimals), expected);
        }
    }
}
