//! Experiments of earlier systems, run anew: what they expected, and whether it held.
//!
//! An experiment returns its data and one HTML page that opens from disk, with its figures drawn in it.

pub mod figure;
mod page;
pub mod qtable;
mod record;
pub mod thesis;

pub use figure::{Figure, Line, moving_average};
pub use record::{Recorder, Sample, Watched};

use serde::Serialize;

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
        page::html(self)
    }

    /// How many expectations held.
    pub fn held(&self) -> usize {
        self.findings.iter().filter(|finding| finding.held).count()
    }
}
