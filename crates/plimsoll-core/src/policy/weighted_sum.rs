//! The default profile's weighted sum of scores.

use super::{Policy, Ranking, Scope};
use crate::state::NodeId;

/// The default profile's weighted sum of scores.
#[derive(Debug, Default)]
pub struct WeightedSum;

impl Policy for WeightedSum {
    fn name(&self) -> &'static str {
        "default"
    }

    fn scope(&self) -> Scope {
        Scope::Totals
    }

    fn rank(&mut self, ranking: &mut Ranking<'_>, nodes: &[NodeId], scores: &mut [f64]) -> Result<(), String> {
        ranking.rules.totals(&ranking.cycle, nodes, ranking.totals)?;
        for (score, total) in scores.iter_mut().zip(&*ranking.totals) {
            *score = *total as f64;
        }
        Ok(())
    }
}
