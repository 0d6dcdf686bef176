//! The day in a terminal: a line that changes, or a line now and then where nobody sees it change; at the end a table.

use crate::output::{DIM, GOOD, HEADING, Output, table};
use plimsoll_server::{Day, Stage};
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// How often a line is refreshed.
const REFRESH: Duration = Duration::from_millis(250);
/// How often a line is written where it cannot be refreshed.
const LINE: Duration = Duration::from_secs(5);

/// Where the day is told.
pub struct Screen {
    is_terminal: bool,
}

impl Screen {
    /// Standard output, whatever it is.
    pub fn new() -> Self {
        Self { is_terminal: io::stdout().is_terminal() }
    }

    /// Whether somebody sits before it.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// How often it is to be told how the day goes.
    pub fn pause(&self) -> Duration {
        if self.is_terminal { REFRESH } else { LINE }
    }

    /// Tells how the day goes.
    pub fn tell(&self, stage: &Stage, out: &mut Output) -> io::Result<()> {
        let line = line(stage);
        match self.is_terminal {
            // Back to the first column, what was there is wiped out, and what is too long for the terminal is cut off.
            true => write!(out, "\r\x1b[2K\x1b[?7l{line}\x1b[?7h")?,
            false => writeln!(out, "{line}")?,
        }
        out.flush()
    }

    /// Leaves the line that changed.
    pub fn leave_line(&self, out: &mut Output) -> io::Result<()> {
        if self.is_terminal { writeln!(out) } else { Ok(()) }
    }
}

fn line(stage: &Stage) -> String {
    let day = stage.day(false);
    let (left, right) = (&day.left, &day.right);
    let minutes = (day.clock / 60.0) as u64;
    let saved = left.figures.kwh - right.figures.kwh;
    format!(
        "{:02}:{:02}  {GOOD}saved {saved:.1} kWh, {}{GOOD:#}  {} {:.1} kWh, {} awake  {} {:.1} kWh, {} awake",
        minutes / 60,
        minutes % 60,
        percent(left.figures.kwh, right.figures.kwh),
        left.policy,
        left.figures.kwh,
        left.active_nodes,
        right.policy,
        right.figures.kwh,
        right.active_nodes,
    )
}

/// What is saved of so much, in per cent.
fn percent(of: f64, left: f64) -> String {
    if of > 0.0 { format!("{:.1} %", (1.0 - left / of) * 100.0) } else { "0.0 %".to_owned() }
}

/// Prints what both sides came to.
pub fn print(day: &Day, out: &mut Output) -> io::Result<()> {
    let Day { left, right, .. } = day;
    writeln!(out, "\n{HEADING}The same pods on two equal clusters of {} machines{HEADING:#}", left.loads.len())?;
    let header =
        ["SCHEDULER", "kWh", "SAVED", "AWAKE ON AVERAGE", "PLACED", "REJECTED", "WAITING", "WAITED ON AVERAGE"];
    let mut list = table(header, &[1, 2, 3, 4, 5, 6, 7]);
    for (side, saved) in [(left, "-".to_owned()), (right, percent(left.figures.kwh, right.figures.kwh))] {
        let figures = &side.figures;
        list.add_row([
            side.policy.clone(),
            format!("{:.1}", figures.kwh),
            saved,
            format!("{:.1}", figures.mean_active_nodes),
            figures.placed.to_string(),
            figures.rejected.to_string(),
            figures.pending.to_string(),
            format!("{:.1} s", figures.mean_wait_s),
        ]);
    }
    out.table("", &list)?;
    writeln!(
        out,
        "{DIM}Simulated: made-up pods, rough power curves. What is saved comes from machines without pods, which sleep at once, draw nothing\n\
         and wake at once, and from filling those first that do the most work for a watt. Change it and run it: examples/scenarios/day.toml{DIM:#}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_saved_is_a_share_of_what_the_default_needs() {
        assert_eq!(percent(200.0, 150.0), "25.0 %");
        assert_eq!(percent(100.0, 110.0), "-10.0 %");
        assert_eq!(percent(0.0, 0.0), "0.0 %");
    }
}
