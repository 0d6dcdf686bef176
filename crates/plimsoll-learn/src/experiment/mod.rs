//! Experiments of earlier systems, run anew: what they expected, and whether it held.
//!
//! An experiment returns its data and one HTML page that opens from disk, with its figures drawn in it. While it runs, it can be drawn as far
//! as it has come.

pub mod figure;
mod page;
pub mod qtable;
mod record;
pub mod thesis;

pub use figure::{Figure, Line, moving_average};
pub use record::{Recorder, Sample, Watched};

use serde::Serialize;
use std::sync::Arc;

/// Draws an experiment as far as it has come: at any time, from any thread.
pub type Draw = Arc<dyn Fn() -> Experiment + Send + Sync>;

/// Told what is done next, and how to draw what there is by then.
pub type Progress<'a> = &'a mut dyn FnMut(&str, &Draw);

/// Something that was expected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was expected.
    pub expected: String,
    /// Whether it held.
    pub held: bool,
    /// What was measured.
    pub evidence: String,
}

/// What an experiment came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// The heading.
    pub title: String,
    /// What was done, in a few sentences.
    pub summary: String,
    /// What was expected, and whether it held.
    pub findings: Vec<Finding>,
    /// Figures in sections: a heading, what to see, and the figures.
    pub sections: Vec<(String, String, Vec<Figure>)>,
}

impl Experiment {
    /// The page.
    pub fn html(&self) -> String {
        page::html(self, None)
    }

    /// The page while the experiment does something, such as training: it looks for news by itself, and stays as it is once there are none.
    pub fn live_html(&self, doing: &str) -> String {
        page::html(self, Some(doing))
    }

    /// How many expectations held.
    pub fn held(&self) -> usize {
        self.findings.iter().filter(|finding| finding.held).count()
    }
}
