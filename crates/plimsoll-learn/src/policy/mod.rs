//! A trained model as a policy: it ranks, beside a heuristic that it builds on and that stands in where it is not to be trusted.

mod base;
pub mod fused;
mod heuristic;
mod learned;
mod objectives;
mod observing;
#[cfg(test)]
mod tests;
mod witness;

pub(crate) use base::normalise;
pub use base::{BASES, Base};
pub use heuristic::Heuristic;
pub use learned::{Learned, Parts, Ranges, sizes};
pub(crate) use objectives::preferences;
pub use objectives::{ABOUT_MULTI_OBJECTIVE, MULTI_OBJECTIVE, MultiObjective};
pub use observing::{Observing, Scorer};
pub use witness::{Sight, Sights, Witness};
