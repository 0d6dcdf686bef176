//! How long pods will run, as far as a scheduler can know: from their shape, their owner, their age, and how their like fared.
//!
//! A [`Predictor`] turns what is seen of a pod into a survival curve over its age; the same [`History`] feeds it in training, from a
//! recorded workload, and at work. What it says of single pods adds up to how long a node stays busy, and by how much longer it would
//! with one pod more: that is what separates good packing from best fit.

mod curve;
mod dataset;
mod history;
mod predictor;
mod train;

pub use curve::{AGES, Curve, HORIZONS, Horizons, horizon_hours};
pub use dataset::{Dataset, Sample};
pub use history::{FEATURE_NAMES, FEATURES, History, Seen};
pub use predictor::Predictor;
pub use train::{PredictorFit, PredictorSettings, train};
