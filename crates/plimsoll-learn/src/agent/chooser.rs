//! Whatever chooses a node from an observation: a learned policy, or a simple rule.

use crate::error::LearnError;
use crate::observation::Observation;
use plimsoll_core::rng::Rng;

/// Chooses.
pub trait Chooser: Send {
    /// The row of an allowed node.
    fn choose(&mut self, observation: &Observation) -> Result<usize, LearnError>;
}

/// A rule that needs no learning: what unseen states fall back to.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    kind: Kind,
    name: &'static str,
    cpu: usize,
    memory: usize,
    latency: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    First,
    Fullest,
    Emptiest,
    NearestThenFullest,
}

/// The rules by name.
pub const RULES: &[(&str, &str)] = &[
    ("first-fit", "the first node that is allowed"),
    ("best-fit", "the node with the least free CPU and memory"),
    ("worst-fit", "the node with the most free CPU and memory"),
    ("nearest", "the node with the least latency to users, then the best fit"),
];

impl Rule {
    /// A rule by its name, over observations with these features of nodes.
    pub fn by_name(name: &str, node_features: &[String]) -> Result<Self, LearnError> {
        let kinds = [Kind::First, Kind::Fullest, Kind::Emptiest, Kind::NearestThenFullest];
        let known = RULES.iter().zip(kinds).find(|((known, _), _)| *known == name);
        let ((name, _), kind) =
            known.ok_or_else(|| LearnError::unknown("rule", name, RULES.iter().map(|(known, _)| *known)))?;
        let find = |feature: &str| node_features.iter().position(|known| known == feature);
        let need = |feature: &str| {
            find(feature).ok_or_else(|| {
                let known = node_features.iter().map(String::as_str);
                LearnError::unknown("the feature that a rule looks at,", feature, known)
            })
        };
        let latency = match kind {
            Kind::NearestThenFullest => Some(need("latency")?),
            _ => None,
        };
        Ok(Self { kind, name, cpu: need("cpu-free")?, memory: need("memory-free")?, latency })
    }

    /// The rule that does best for a reward.
    pub fn best_for(reward: &str) -> &'static str {
        match reward {
            "balance" | "lb" | "overload" => "worst-fit",
            "el-rl" | "latency" | "latency-violations" => "nearest",
            _ => "best-fit",
        }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    fn score(&self, row: &[f32]) -> (f32, f32) {
        let free = row[self.cpu] + row[self.memory];
        match self.kind {
            Kind::First => (0.0, 0.0),
            Kind::Fullest => (-free, 0.0),
            Kind::Emptiest => (free, 0.0),
            Kind::NearestThenFullest => (self.latency.map_or(0.0, |at| -row[at]), -free),
        }
    }
}

impl Chooser for Rule {
    fn choose(&mut self, observation: &Observation) -> Result<usize, LearnError> {
        let mut best: Option<(usize, (f32, f32))> = None;
        for row in allowed(observation) {
            let score = self.score(observation.node(row));
            if best.is_none_or(|(_, most)| score.partial_cmp(&most) == Some(std::cmp::Ordering::Greater)) {
                best = Some((row, score));
            }
        }
        best.map(|(row, _)| row).ok_or_else(nothing_allowed)
    }
}

/// The node that a network scores highest.
#[cfg(feature = "burn")]
pub struct Greedy(pub crate::network::Network);

#[cfg(feature = "burn")]
impl Chooser for Greedy {
    fn choose(&mut self, observation: &Observation) -> Result<usize, LearnError> {
        let batch = crate::network::Batch::new(self.0.spec(), [observation])?;
        let scores = self.0.scores(&batch)?;
        let best = batch.best(&scores, 0);
        if observation.mask.get(best).is_some_and(|allowed| *allowed) { Ok(best) } else { Err(nothing_allowed()) }
    }
}

/// Any allowed node, by lot.
#[derive(Debug, Clone)]
pub struct ByLot(pub Rng);

impl Chooser for ByLot {
    fn choose(&mut self, observation: &Observation) -> Result<usize, LearnError> {
        by_lot(observation, &mut self.0).ok_or_else(nothing_allowed)
    }
}

/// An allowed node by lot; none if no node is allowed.
pub fn by_lot(observation: &Observation, rng: &mut Rng) -> Option<usize> {
    let lot = rng.below(allowed(observation).count());
    allowed(observation).nth(lot)
}

fn allowed(observation: &Observation) -> impl Iterator<Item = usize> + '_ {
    observation.mask.iter().enumerate().filter(|(_, allowed)| **allowed).map(|(row, _)| row)
}

fn nothing_allowed() -> LearnError {
    LearnError::Invalid("no node is allowed, so none can be chosen".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_choose_among_what_is_allowed() {
        let features: Vec<String> = ["cpu-free", "memory-free", "latency"].map(String::from).to_vec();
        let observation = Observation {
            node_width: 3,
            nodes: vec![0.1, 0.1, 0.1, 0.5, 0.5, 0.2, 0.9, 0.9, 0.3, 0.4, 0.4, 0.2],
            pod: Vec::new(),
            mask: vec![false, true, true, true],
            places: vec![[0; 2]; 4],
        };
        for (name, expected) in [("first-fit", 1), ("best-fit", 3), ("worst-fit", 2), ("nearest", 3)] {
            let mut rule = Rule::by_name(name, &features).unwrap();
            assert_eq!(rule.choose(&observation).unwrap(), expected, "{name}");
        }
        let nothing = Observation { mask: vec![false; 4], ..observation };
        assert!(Rule::by_name("best-fit", &features).unwrap().choose(&nothing).is_err());
        let error = Rule::by_name("guess", &features).unwrap_err().to_string();
        assert!(error.contains("first-fit, best-fit"), "{error}");
        let error = Rule::by_name("nearest", &features[..2]).unwrap_err().to_string();
        assert!(error.contains("latency"), "{error}");
        for (reward, _) in crate::reward::REWARDS.iter().map(|known| (known.name, ())) {
            assert!(Rule::by_name(Rule::best_for(reward), &features).is_ok(), "{reward}");
        }
    }
}
