//! Which data is learned from and which is measured on; the two are kept apart here.

use super::{LearnSpec, TuneSpec};
use crate::error::LearnError;
use plimsoll_sim::scenario::{Scenario, Time};
use plimsoll_sim::workload::select::Window;
use std::time::Duration;

/// Into how many windows the time to measure is cut: as few as give an interval that is worth something.
const WINDOWS: usize = 10;
/// Where the seeds to measure on begin: far from those that people train with.
const FIRST_SAMPLE: u64 = 1001;

/// Pods that nothing was learned from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldOut {
    /// What is measured; all of the workload, as the scenario has it, if not given.
    pub window: Option<Window>,
    /// The seed that draws owners and lifetimes.
    pub sample: u64,
    /// How long before the window the run starts; with the workload if not given.
    run_up: Option<Duration>,
}

impl HeldOut {
    /// The window's name in results.
    pub fn label(&self) -> String {
        self.window.map_or_else(|| "all".to_owned(), |window| window.to_string())
    }

    /// A window beyond the last arrival would measure a cluster that empties, and nothing that a policy does.
    pub fn check_span(&self, span: Duration) -> Result<(), LearnError> {
        let Some(Window { from, to: Some(to) }) = self.window else { return Ok(()) };
        if to.saturating_sub(span) <= (to - from) / 10 {
            return Ok(());
        }
        Err(LearnError::Invalid(format!(
            "learn.evaluate: the window {} ends at {}, but the last pod arrives at {}; end by then",
            self.label(),
            written(to),
            written(span)
        )))
    }

    /// The scenario of a run that measures this alone: it starts with the run-up, and ends with the window.
    pub fn scenario(&self, scenario: &Scenario) -> Scenario {
        let mut own = scenario.clone();
        own.run.policies.clear();
        let Some(Window { from, to: Some(to) }) = self.window else { return own };
        let start = self.run_up.map_or(Duration::ZERO, |run_up| from.saturating_sub(run_up));
        own.select.window = Some(Window { from: start, to: Some(to) });
        own.select.carry_over |= !start.is_zero();
        own.run.horizon = Some(Time(to - start));
        own.run.warmup = (from - start).as_secs_f64() / (to - start).as_secs_f64();
        own
    }
}

impl LearnSpec {
    /// The scenario of the data to train on; each of the samples is a seed for it.
    pub fn training(&self, scenario: &Scenario) -> Scenario {
        let mut own = scenario.clone();
        if self.train.window.is_some() {
            own.select.window = self.train.window;
        }
        own
    }

    /// What the model is measured on.
    pub fn held_out(&self, scenario: &Scenario) -> Result<Vec<HeldOut>, LearnError> {
        let windows = self.windows()?;
        if windows.is_empty() && scenario.workload.file.is_some() {
            return Err(LearnError::Invalid(
                "learn.evaluate: a recorded workload is measured on windows later than learn.train.window; \
                 say from and to, or windows"
                    .into(),
            ));
        }
        let windows: Vec<_> = if windows.is_empty() { vec![None] } else { windows.into_iter().map(Some).collect() };
        let samples = self.samples();
        let run_up = self.evaluate.run_up.map(|time| time.0);
        let cases = windows
            .into_iter()
            .flat_map(|window| samples.iter().map(move |&sample| HeldOut { window, sample, run_up }));
        Ok(cases.collect())
    }

    /// Splits the data to train on, for a search: this section with what comes first, and the cases at its end to judge by.
    pub fn split(&self, scenario: &Scenario) -> Result<(Self, Vec<HeldOut>), LearnError> {
        let TuneSpec { validation, .. } = self.tune;
        let mut first = self.clone();
        let run_up = self.evaluate.run_up.map(|time| time.0);
        if let Some(Window { from, to: Some(to) }) = self.train.window {
            let at = to - (to - from).mul_f64(validation);
            first.train.window = Some(Window { from, to: Some(at) });
            let width = (to - at) / WINDOWS as u32;
            let windows =
                (0..WINDOWS as u32).map(|part| Window { from: at + width * part, to: Some(at + width * (part + 1)) });
            let sample = self.train.samples.first().copied().unwrap_or(1);
            return Ok((first, windows.map(|window| HeldOut { window: Some(window), sample, run_up }).collect()));
        }
        if scenario.workload.file.is_some() {
            let problem =
                "learn.train.window: say where it ends, so that configurations can be judged on its last part";
            return Err(LearnError::Invalid(problem.into()));
        }
        let samples = &self.train.samples;
        let judged = ((samples.len() as f64 * validation).ceil() as usize).max(1);
        if judged >= samples.len() {
            let problem = format!(
                "learn.train.samples: {} cannot be split into some to train on and some to judge by; name more",
                samples.len()
            );
            return Err(LearnError::Invalid(problem));
        }
        let (train, judge) = samples.split_at(samples.len() - judged);
        first.train.samples = train.to_vec();
        Ok((first, judge.iter().map(|&sample| HeldOut { window: None, sample, run_up }).collect()))
    }

    fn samples(&self) -> Vec<u64> {
        let named = !self.evaluate.windows.is_empty() || self.evaluate.from.is_some();
        match self.evaluate.samples.as_slice() {
            [] if named => vec![FIRST_SAMPLE],
            [] => (FIRST_SAMPLE..FIRST_SAMPLE + WINDOWS as u64).collect(),
            given => given.to_vec(),
        }
    }

    /// The windows to measure on, in order.
    fn windows(&self) -> Result<Vec<Window>, LearnError> {
        let spec = &self.evaluate;
        let invalid = |problem: String| Err(LearnError::Invalid(format!("learn.evaluate{problem}")));
        let mut windows = match (spec.windows.as_slice(), spec.from, spec.to) {
            (windows, None, None) => {
                if let Some(open) = windows.iter().find(|window| window.to.is_none()) {
                    return invalid(format!(".windows: {open} has no end"));
                }
                if spec.count.is_some() {
                    return invalid(".count: it goes with from and to".into());
                }
                windows.to_vec()
            }
            ([], Some(from), Some(to)) => {
                let count = spec.count.unwrap_or(WINDOWS);
                let parts = u32::try_from(count).ok().filter(|parts| *parts > 0);
                let Some(parts) = parts else { return invalid(format!(".count: {count} makes no windows")) };
                let Some(span) = to.0.checked_sub(from.0).filter(|span| *span / parts > Duration::ZERO) else {
                    return invalid(format!(": it ends at {}, before it begins at {}", written(to.0), written(from.0)));
                };
                let width = span / parts;
                let at = |part: u32| if part == parts { to.0 } else { from.0 + width * part };
                (0..parts).map(|part| Window { from: at(part), to: Some(at(part + 1)) }).collect()
            }
            ([], _, _) => return invalid(": from and to go together".into()),
            (_, _, _) => return invalid(": say either windows, or from and to".into()),
        };
        windows.sort_by_key(|window| (window.from, window.to));
        if let Some(twice) = windows.windows(2).find(|pair| pair[0].to > Some(pair[1].from)) {
            return invalid(format!(".windows: {} and {} overlap", twice[0], twice[1]));
        }
        Ok(windows)
    }

    /// Nothing may be measured on what was learned from.
    pub(super) fn check_data(&self, scenario: &Scenario) -> Result<(), LearnError> {
        if self.train.samples.is_empty() {
            return Err(LearnError::Invalid("learn.train.samples: there is none; [1] is one".into()));
        }
        let windows = self.windows()?;
        let splits = scenario.select.train.is_some() || scenario.select.test.is_some();
        if splits && (self.train.window.is_some() || !windows.is_empty()) {
            let problem =
                "select.train and select.test split what the windows of [learn] split already: say one of the two";
            return Err(LearnError::Invalid(problem.into()));
        }
        let Some(first) = windows.first() else {
            let both = self.samples().into_iter().find(|sample| self.train.samples.contains(sample));
            return match both {
                Some(sample) if scenario.workload.file.is_none() => Err(LearnError::Invalid(format!(
                    "learn.evaluate.samples: {sample} is trained on, too: the model would be judged on what it has seen"
                ))),
                _ => Ok(()),
            };
        };
        if scenario.workload.pace.is_some() {
            let problem = "workload.pace: pods that come at a pace come at other times, so that windows mean nothing";
            return Err(LearnError::Invalid(problem.into()));
        }
        let ends = self.train.window.and_then(|window| window.to);
        if ends.is_some_and(|ends| ends <= first.from) {
            return Ok(());
        }
        Err(LearnError::Invalid(format!(
            "learn.evaluate: its first window begins at {}, before training ends at {}: the model would be judged on what it has \
             seen; let learn.train.window end by then",
            written(first.from),
            ends.map_or_else(|| "the end of the workload".to_owned(), written),
        )))
    }
}

/// A time as a person writes it.
fn written(time: Duration) -> String {
    let seconds = time.as_secs();
    for (unit, name) in [(86_400, "d"), (3600, "h"), (60, "m")] {
        if time.subsec_nanos() == 0 && seconds > 0 && seconds.is_multiple_of(unit) {
            return format!("{}{name}", seconds / unit);
        }
    }
    format!("{}s", time.as_secs_f64())
}
