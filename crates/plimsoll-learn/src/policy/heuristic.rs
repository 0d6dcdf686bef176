//! A heuristic alone: what stands in for a model, and what a model may be taught by.

use super::base::Base;
use crate::error::LearnError;
use crate::lifetime::Predictor;
use crate::observation::Encoder;
use crate::observation::features::Wanted;
use plimsoll_core::policy::{self, Policy, Ranking};
use plimsoll_core::state::NodeId;

/// A heuristic by name: one of the engine's, or one that predicted lifetimes make possible.
pub struct Heuristic {
    base: Base,
    encoder: Option<Encoder>,
}

impl Heuristic {
    /// The heuristic of this name; one of [`super::BASES`] needs the predictor.
    pub fn new(name: &str, predictor: Option<&Predictor>) -> Result<Self, LearnError> {
        let base = Base::by_name(name).ok_or_else(|| LearnError::unknown("policy", name, Base::names()))?;
        let encoder = match &base {
            Base::Engine(_) => None,
            _ => {
                let predictor = predictor.cloned().ok_or_else(|| needs_predictor(name))?;
                Some(Encoder::new(predictor, base.wants(Wanted::default())))
            }
        };
        Ok(Self { base, encoder })
    }
}

fn needs_predictor(name: &str) -> LearnError {
    let known = policy::POLICIES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    LearnError::Invalid(format!(
        "policy {name:?} needs predicted lifetimes, which plain observations come without; name features in learn.observation, \
         or take one of {known}"
    ))
}

impl Policy for Heuristic {
    fn name(&self) -> &'static str {
        "heuristic"
    }

    fn judges_apart(&self) -> bool {
        match &self.base {
            Base::Engine(policy) => policy.judges_apart(),
            _ => true,
        }
    }

    fn rank(&mut self, ranking: &mut Ranking<'_>, nodes: &[NodeId], scores: &mut [f64]) -> Result<(), String> {
        if let Base::Engine(policy) = &mut self.base {
            return policy.rank(ranking, nodes, scores);
        }
        let Some(encoder) = &mut self.encoder else { return Err("a heuristic has no predictor of lifetimes".into()) };
        let cycle = &ranking.cycle;
        encoder.follow(cycle.state);
        let pod = encoder.pod(cycle);
        for (slot, id) in scores.iter_mut().zip(nodes) {
            let node = cycle.state.node(*id);
            *slot = node.map_or(f64::NEG_INFINITY, |node| self.base.score(&encoder.node(cycle, &pod, node)));
        }
        Ok(())
    }
}
