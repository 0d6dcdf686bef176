//! `plimsoll conformance`
//!
//! Cases are read one after the other, judged on all cores and reported in the order of the files. At most a window of
//! them is in memory, however long a file is.

use crate::Verdict;
use crate::input::{self, Input};
use crate::output::{BAD, GOOD, HEADING, Output, table};
use anyhow::Result;
use plimsoll_core::conformance::{Case, CaseError, Difference, check};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, Write};
use std::num::NonZeroUsize;
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

/// Lines read ahead for each worker: enough that none waits while a long case holds up the report.
const WINDOW_PER_JOB: usize = 32;
/// Deeply nested input is parsed by recursion; workers get what a main thread has.
const WORKER_STACK: usize = 8 << 20;
/// Where lines are counted that are no cases.
const MALFORMED: &str = "(malformed)";

/// Compare decisions with those of the real kube-scheduler
///
/// Reads cases answered by kube-scheduler, one JSON object a line, and decides each. Prints a table by family, the first
/// cases that differ in full, and last the line `N passed, M failed`. Exit status 1 if any failed.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Files of cases (.jsonl or .jsonl.gz); `-` or none reads standard input
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Only cases of this family; may be given several times
    #[arg(long, value_name = "FAMILY")]
    family: Vec<String>,
    /// How many differing cases to show in full
    #[arg(long, value_name = "N", default_value_t = 5)]
    show: usize,
    /// How many cases to judge at a time [default: one a core]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
}

/// Judges every case and reports.
pub fn run(args: Args, out: &mut Output) -> Result<Verdict> {
    let mut files = args.files;
    if files.is_empty() {
        files.push("-".into());
        if input::stdin_is_terminal() {
            out.note("reading cases from the terminal; name a file, or end with Ctrl-D");
        }
    }
    let inputs = files.iter().map(|path| input::open(path)).collect::<Result<Vec<_>>>()?;
    let jobs = args.jobs.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    let wanted: BTreeSet<String> = args.family.into_iter().collect();
    let mut report = Report { show: args.show, ..Report::default() };
    let quiet = QuietPanics::new();
    let lines = inputs.into_iter().flat_map(lines_of);
    judge_all(lines, jobs, &wanted, |place, judged| report.add(place, judged, out))?;
    drop(quiet);

    report.print(out)?;
    let unseen: Vec<_> = wanted.iter().filter(|family| !report.families.contains_key(*family)).cloned().collect();
    anyhow::ensure!(unseen.is_empty(), "no case of the family {}; see the names of the cases", unseen.join(", "));
    Ok(if report.failed == 0 { Verdict::Good } else { Verdict::Bad })
}

/// A line of a file.
struct Line {
    place: String,
    text: Result<Vec<u8>, String>,
}

/// What came of a line.
enum Judged {
    /// Not of a family that was asked for.
    LeftOut,
    Passed {
        family: String,
    },
    Differs {
        name: String,
        family: String,
        differences: Vec<Difference>,
    },
    /// It could not be decided.
    Broken {
        family: String,
        problem: String,
    },
}

/// The outcome of all lines.
#[derive(Default)]
struct Report {
    show: usize,
    families: BTreeMap<String, Tally>,
    passed: usize,
    failed: usize,
    /// The first cases that differ, in words.
    shown: Vec<String>,
}

#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
}

impl Report {
    fn add(&mut self, place: &str, judged: Judged, out: &Output) {
        let (family, passed) = match judged {
            Judged::LeftOut => return,
            Judged::Passed { family } => (family, true),
            Judged::Differs { name, family, differences } => {
                if self.shown.len() < self.show {
                    let lines: Vec<_> = differences.iter().map(|difference| format!("\n    {difference}")).collect();
                    self.shown.push(format!("{place}: {BAD}{name}{BAD:#} differs{}", lines.concat()));
                }
                (family, false)
            }
            Judged::Broken { family, problem } => {
                // Told at once and always: it says that the check itself is in doubt.
                out.error(&format!("{place}: {problem}"));
                (family, false)
            }
        };
        let tally = self.families.entry(family).or_default();
        if passed {
            tally.passed += 1;
            self.passed += 1;
        } else {
            tally.failed += 1;
            self.failed += 1;
        }
    }

    fn print(&self, out: &mut Output) -> Result<()> {
        let mut families = table(["FAMILY", "CASES", "PASSED", "FAILED"], &[1, 2, 3]);
        for (family, Tally { passed, failed }) in &self.families {
            families.add_row([family.clone(), (passed + failed).to_string(), passed.to_string(), failed.to_string()]);
        }
        out.table("", &families)?;
        if !self.shown.is_empty() {
            writeln!(out, "\n{HEADING}First cases that differ{HEADING:#}")?;
            for case in &self.shown {
                writeln!(out, "  {case}")?;
            }
        }
        let style = if self.failed == 0 { GOOD } else { BAD };
        writeln!(out, "\n{style}{} passed, {} failed{style:#}", self.passed, self.failed)?;
        Ok(())
    }
}

/// Judges every line on `jobs` threads, and reports in the order of lines.
fn judge_all(
    mut lines: impl Iterator<Item = Line>,
    jobs: usize,
    wanted: &BTreeSet<String>,
    mut report: impl FnMut(&str, Judged),
) -> Result<()> {
    thread::scope(|scope| {
        let (to_workers, work) = mpsc::channel::<(usize, Line)>();
        let work = Arc::new(Mutex::new(work));
        let (to_report, done) = mpsc::channel::<(usize, String, Judged)>();
        for _ in 0..jobs {
            let (work, to_report) = (Arc::clone(&work), to_report.clone());
            thread::Builder::new().stack_size(WORKER_STACK).spawn_scoped(scope, move || {
                loop {
                    let Ok(Ok((at, Line { place, text }))) = work.lock().map(|work| work.recv()) else { return };
                    if to_report.send((at, place, judge(text, wanted))).is_err() {
                        return;
                    }
                }
            })?;
        }
        drop(to_report);
        let (mut read, mut reported) = (0, 0);
        let mut early = BTreeMap::new();
        loop {
            while read - reported < jobs * WINDOW_PER_JOB {
                let Some(line) = lines.next() else { break };
                to_workers.send((read, line))?;
                read += 1;
            }
            if read == reported {
                return Ok(());
            }
            let (at, place, judged) = done.recv()?;
            early.insert(at, (place, judged));
            while let Some((place, judged)) = early.remove(&reported) {
                report(&place, judged);
                reported += 1;
            }
        }
    })
}

/// The lines of a file that hold something. Where it cannot be read further, its last line says why.
fn lines_of(input: Input) -> impl Iterator<Item = Line> {
    let Input { name, mut reader } = input;
    let (mut number, mut ended) = (0_u64, false);
    std::iter::from_fn(move || {
        loop {
            if ended {
                return None;
            }
            number += 1;
            let place = format!("{name}:{number}");
            let mut text = Vec::new();
            match reader.read_until(b'\n', &mut text) {
                Ok(0) => ended = true,
                Ok(_) if text.trim_ascii().is_empty() => {}
                Ok(_) => return Some(Line { place, text: Ok(text) }),
                Err(error) => {
                    ended = true;
                    return Some(Line { place, text: Err(format!("cannot be read from here on: {error}")) });
                }
            }
        }
    })
}

fn judge(text: Result<Vec<u8>, String>, wanted: &BTreeSet<String>) -> Judged {
    let malformed = |problem: String| Judged::Broken { family: MALFORMED.to_owned(), problem };
    let text = match text.map(String::from_utf8) {
        Ok(Ok(text)) => text,
        Ok(Err(_)) => return malformed("not a case: not UTF-8 text".to_owned()),
        Err(problem) => return malformed(problem),
    };
    let case = match guarded(|| Case::parse(&text)) {
        Ok(Ok(case)) => case,
        Ok(Err(error)) => return malformed(error.to_string()),
        Err(panic) => return malformed(panic),
    };
    let family = case.family().to_owned();
    if !wanted.is_empty() && !wanted.contains(&family) {
        return Judged::LeftOut;
    }
    match guarded(|| check(&case)) {
        Ok(Ok(differences)) if differences.is_empty() => Judged::Passed { family },
        Ok(Ok(differences)) => Judged::Differs { name: case.name, family, differences },
        Ok(Err(error @ CaseError::Unusable { .. })) => Judged::Broken { family, problem: error.to_string() },
        Ok(Err(error)) => Judged::Broken { family, problem: format!("case {}: {error}", case.name) },
        Err(panic) => Judged::Broken { family, problem: format!("case {}: {panic}", case.name) },
    }
}

thread_local! {
    /// The last panic of this thread in words, while panics are kept quiet.
    static LAST_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs something that should not panic; if it does, says so, and where.
fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    panic::catch_unwind(AssertUnwindSafe(work)).map_err(|_| {
        let what = LAST_PANIC.take().unwrap_or_else(|| "for an unknown reason".to_owned());
        format!("the engine panicked {what}; this is a bug, please report it with the case")
    })
}

/// While it lives, panics are noted for [`guarded`] instead of printed.
struct QuietPanics;

impl QuietPanics {
    fn new() -> Self {
        panic::set_hook(Box::new(|info| {
            let message = info.payload_as_str().unwrap_or("without a message");
            let place = info.location().map_or_else(String::new, |at| format!("at {at}: "));
            LAST_PANIC.set(Some(format!("{place}{message}")));
        }));
        Self
    }
}

impl Drop for QuietPanics {
    fn drop(&mut self) {
        // The hook cannot be changed by a thread that is panicking.
        if !thread::panicking() {
            let _ = panic::take_hook();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(name: &str, text: &'static str) -> Input {
        Input { name: name.to_owned(), reader: Box::new(text.as_bytes()) }
    }

    #[test]
    fn a_panic_becomes_a_message_with_its_place() {
        let quiet = QuietPanics::new();
        let message = guarded(|| -> usize { panic!("index {} of 3", 7) }).unwrap_err();
        drop(quiet);
        assert!(message.contains("conformance.rs") && message.contains("index 7 of 3"), "{message}");
        assert_eq!(guarded(|| 5), Ok(5));
    }

    #[test]
    fn lines_are_reported_in_order_whoever_judged_them() {
        let text: &'static str = "x\n\n".repeat(500).leak();
        let mut places = Vec::new();
        let lines = [input("a", text), input("b", "y\n")].into_iter().flat_map(lines_of);
        judge_all(lines, 4, &BTreeSet::new(), |place, judged| {
            assert!(matches!(judged, Judged::Broken { .. }));
            places.push(place.to_owned());
        })
        .unwrap();
        let expected: Vec<_> = (0..500).map(|at| format!("a:{}", 2 * at + 1)).chain(["b:1".to_owned()]).collect();
        assert_eq!(places, expected);
    }

    #[test]
    fn no_more_than_a_window_of_lines_is_read_ahead() {
        let (jobs, read, mut reported) = (2, std::cell::Cell::new(0), 0);
        let lines = (0..5_000).map(|number: usize| {
            read.set(read.get() + 1);
            Line { place: number.to_string(), text: Ok(b"x".to_vec()) }
        });
        judge_all(lines, jobs, &BTreeSet::new(), |_, _| {
            assert!(read.get() - reported <= jobs * WINDOW_PER_JOB, "{} read, {reported} reported", read.get());
            reported += 1;
        })
        .unwrap();
        assert_eq!(reported, 5_000);
    }
}
