//! The page of an experiment.

use super::Experiment;
use plimsoll_sim::report::{Escaped, STYLE};
use std::fmt::{self, Write as _};

/// Fetches the page again and shows what is new; once nobody answers, what was last shown stays.
const REFRESH: &str = "<noscript><meta http-equiv=\"refresh\" content=\"2\"></noscript>
<script>
const refresh = async () => {
  try {
    const page = new DOMParser().parseFromString(await (await fetch(location.href)).text(), 'text/html');
    document.body.replaceChildren(...page.body.childNodes);
    setTimeout(refresh, 2000);
  } catch {
    document.getElementById('doing')?.replaceChildren('The run has ended; this is what was last seen of it.');
  }
};
setTimeout(refresh, 2000);
</script>
";

/// One file that opens from disk; nothing is fetched, unless it is a page of something that still goes on.
pub fn html(experiment: &Experiment, doing: Option<&str>) -> String {
    let mut page = String::with_capacity(1 << 18);
    // Writing to a string cannot fail.
    let _ = write(&mut page, experiment, doing);
    page
}

fn write(page: &mut String, experiment: &Experiment, doing: Option<&str>) -> fmt::Result {
    let title = Escaped(&experiment.title);
    let refresh = if doing.is_some() { REFRESH } else { "" };
    write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n{refresh}</head>\n<body>\n\
         <header class=\"masthead\">\n<p class=\"mark\">Plimsoll</p>\n<h1>{title}</h1>\n<p class=\"facts\">{}</p>\n</header>\n<main>\n",
        Escaped(&experiment.summary)
    )?;
    if let Some(doing) = doing {
        writeln!(page, "<p class=\"lead\" id=\"doing\">Now: {}.</p>", Escaped(doing))?;
    }
    writeln!(
        page,
        "<section>\n<h2>What was expected</h2>\n<p class=\"lead\"><b>{} of {}</b> held{}.</p>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Findings\">\n<table>\n\
         <thead><tr><th scope=\"col\" class=\"name\">Expected</th><th scope=\"col\">Held</th>\
         <th scope=\"col\" style=\"text-align:left\">Measured</th></tr></thead>\n<tbody>",
        experiment.held(),
        experiment.findings.len(),
        if doing.is_some() { " so far" } else { "" }
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
