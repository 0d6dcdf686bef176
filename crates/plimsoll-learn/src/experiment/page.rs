//! The page of an experiment.

use super::Experiment;
use plimsoll_sim::report::{Escaped, STYLE};
use std::fmt::{self, Write as _};

/// One file that opens from disk; nothing is fetched.
pub fn html(experiment: &Experiment) -> String {
    let mut page = String::with_capacity(1 << 18);
    // Writing to a string cannot fail.
    let _ = write(&mut page, experiment);
    page
}

fn write(page: &mut String, experiment: &Experiment) -> fmt::Result {
    let title = Escaped(&experiment.title);
    write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <header class=\"masthead\">\n<p class=\"mark\">Plimsoll</p>\n<h1>{title}</h1>\n<p class=\"facts\">{}</p>\n</header>\n<main>\n",
        Escaped(&experiment.summary)
    )?;
    writeln!(
        page,
        "<section>\n<h2>What was expected</h2>\n<p class=\"lead\"><b>{} of {}</b> held.</p>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Findings\">\n<table>\n\
         <thead><tr><th scope=\"col\" class=\"name\">Expected</th><th scope=\"col\">Held</th>\
         <th scope=\"col\" style=\"text-align:left\">Measured</th></tr></thead>\n<tbody>",
        experiment.held(),
        experiment.findings.len()
    )?;
    for finding in &experiment.findings {
        writeln!(
            page,
            "<tr><th scope=\"row\" class=\"name\" style=\"white-space:normal\">{}</th><td class=\"{}\">{}</td>\
             <td style=\"text-align:left;white-space:normal\">{}</td></tr>",
            Escaped(&finding.expected),
            if finding.held { "best" } else { "" },
            if finding.held { "yes" } else { "no" },
            Escaped(&finding.evidence)
        )?;
    }
    page.push_str("</tbody>\n</table>\n</div>\n</section>\n");
    for (heading, lead, figures) in &experiment.sections {
        writeln!(
            page,
            "<section>\n<h2>{}</h2>\n<p class=\"lead\">{}</p>\n<div class=\"grid\">",
            Escaped(heading),
            Escaped(lead)
        )?;
        for figure in figures {
            page.push_str(&figure.html());
        }
        page.push_str("</div>\n</section>\n");
    }
    page.push_str("</main>\n</body>\n</html>\n");
    Ok(())
}
