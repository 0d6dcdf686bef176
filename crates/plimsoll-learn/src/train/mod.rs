//! Training as a user runs it: any agent learns until it is done, is watched on the way, and goes on where it was killed.
//!
//! The loop knows nothing of what is learned. Wall time is passed in: it says how fast training goes and when it is saved, never what is
//! learned, so that a training that was interrupted ends with the same model as one that was not.

pub mod checkpoint;
pub mod model;
pub mod tensorboard;
#[cfg(test)]
pub(crate) mod tests;

pub use checkpoint::{Checkpoints, Identity};

use crate::agent::{Agent, Report};
use crate::error::LearnError;
use crate::model::Weights;
use std::path::Path;
use std::time::Duration;
use tensorboard::Events;

/// The folder in a model's folder where training leaves its traces; the model does not need it.
pub const TRAINING_FOLDER: &str = "training";
/// Figures are logged so often: finer than anyone looks, and a few megabytes a week.
const LOG_EVERY: Duration = Duration::from_secs(1);

/// How training goes.
#[derive(Clone, Copy)]
pub struct Settings<'a> {
    /// The model's folder; checkpoints and logs are kept in its `training`.
    pub folder: &'a Path,
    /// What is trained: a checkpoint of anything else is refused.
    pub identity: &'a Identity,
    /// After how much wall time it is saved.
    pub checkpoint_every: Duration,
    /// Whether to go on from the last checkpoint; one that is there otherwise is an error.
    pub resume: bool,
    /// The wall time, since the beginning of 1970.
    pub clock: &'a dyn Fn() -> Duration,
}

/// How far training is.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// What the agent says.
    pub report: Report,
    /// How long it has been going, since it was started or resumed.
    pub elapsed: Duration,
    /// Environment steps a second, since it was started or resumed.
    pub steps_per_second: f64,
    /// How long it will take still, if it goes on like this.
    pub remaining: Option<Duration>,
}

/// Watches training.
pub trait Observer {
    /// Some more was learned.
    fn progress(&mut self, progress: &Progress);

    /// Something a user should know.
    fn note(&mut self, note: &str);

    /// Whether training is to end here, saved.
    fn stops(&mut self) -> bool {
        false
    }
}

/// What training came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Trained {
    /// The agent's last words.
    pub report: Report,
    /// The policy's weights.
    pub weights: Weights,
    /// Whether it ran to its end; otherwise it was stopped, and can be resumed.
    pub finished: bool,
}

/// Trains an agent to its end. Checkpoints stay, until the caller has stored the model and removes them with [`Checkpoints::clear`].
pub fn train(
    agent: &mut dyn Agent,
    settings: &Settings<'_>,
    observer: &mut dyn Observer,
) -> Result<Trained, LearnError> {
    let folder = settings.folder.join(TRAINING_FOLDER);
    let checkpoints = Checkpoints::new(&folder);
    let from = start(agent, &checkpoints, settings, observer)?;
    let began = (settings.clock)();
    let mut events = Events::create(&folder, began)?;
    if from > 0 {
        events.restart(began, from + 1)?;
    }
    let (mut saved, mut logged): (Duration, Option<Duration>) = (began, None);
    let mut pace = None;
    loop {
        let report = agent.iterate()?;
        let now = (settings.clock)();
        let progress = measure(report, now.saturating_sub(began), from, &mut pace);
        observer.progress(&progress);
        let finished = progress.report.progress >= 1.0;
        let ends = finished || observer.stops();
        if ends || logged.is_none_or(|logged| now.saturating_sub(logged) >= LOG_EVERY) {
            events.scalars(now, progress.report.steps, &scalars(&progress))?;
            logged = Some(now);
        }
        if ends || now.saturating_sub(saved) >= settings.checkpoint_every {
            checkpoints.write(settings.identity, progress.report.steps, &agent.state())?;
            events.flush()?;
            saved = now;
        }
        if ends {
            return Ok(Trained { report: progress.report, weights: agent.weights(), finished });
        }
    }
}

/// Brings the agent to where training begins: from the start, or from the last sound checkpoint. Returns the steps taken before.
fn start(
    agent: &mut dyn Agent,
    checkpoints: &Checkpoints,
    settings: &Settings<'_>,
    observer: &mut dyn Observer,
) -> Result<u64, LearnError> {
    if !settings.resume {
        return match checkpoints.list()?.last() {
            None => Ok(0),
            Some(path) => Err(LearnError::Invalid(format!(
                "{} is there: training was under way; go on with --resume, or start anew with --replace",
                path.display()
            ))),
        };
    }
    let latest = checkpoints.latest(settings.identity)?;
    for refused in &latest.refused {
        observer.note(refused);
    }
    let Some(found) = latest.found else {
        observer.note("there is no checkpoint yet: training starts from the beginning");
        return Ok(0);
    };
    agent.restore(&found.state)?;
    observer.note(&format!("training goes on from step {}", found.steps));
    Ok(found.steps)
}

/// The figures of a report over time. The first report after a start is what pace is counted from where it says how far training was.
fn measure(report: Report, elapsed: Duration, from: u64, first: &mut Option<(Duration, f64)>) -> Progress {
    let steps = report.steps.saturating_sub(from) as f64;
    let seconds = elapsed.as_secs_f64();
    let (since, share) = *first.get_or_insert((elapsed, report.progress));
    let (time, done) = (elapsed.saturating_sub(since).as_secs_f64(), report.progress - share);
    let remaining = (done > 0.0 && time > 0.0).then(|| time / done * (1.0 - report.progress).max(0.0));
    Progress {
        steps_per_second: if seconds > 0.0 { steps / seconds } else { 0.0 },
        remaining: remaining.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        report,
        elapsed,
    }
}

fn scalars(progress: &Progress) -> Vec<(String, f64)> {
    let report = &progress.report;
    let own = [
        ("return", report.mean_return),
        ("episodes", Some(report.episodes as f64)),
        ("steps_per_second", Some(progress.steps_per_second)),
    ];
    let own = own.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let scalars = own.chain(report.scalars.iter().copied()).map(|(name, value)| (format!("train/{name}"), value));
    scalars.chain(report.weights.iter().map(|(name, weight)| (format!("weight/{name}"), *weight))).collect()
}
