//! Tiny environments that a learner must master, with the share of right choices as the judge.

use crate::environment::{Environment, Step};
use crate::error::LearnError;
use crate::model::Weights;
use crate::network::{Batch, Network, NetworkSpec};
use crate::observation::Observation;
use plimsoll_core::rng::Rng;

/// Numbers that describe a node of both.
pub const NODE_WIDTH: usize = 3;
/// Numbers that describe a pod of both.
pub const POD_WIDTH: usize = 2;

/// Each decision shows 2 to 6 nodes, some forbidden; right is the allowed one with the largest first feature.
pub struct Largest {
    rng: Rng,
    seen: Observation,
    left: usize,
}

impl Largest {
    /// One of them.
    pub fn boxed() -> Box<dyn Environment> {
        Box::new(Self { rng: Rng::new(0), seen: Observation::default(), left: 0 })
    }

    /// The right choice.
    pub fn right(seen: &Observation) -> usize {
        let value = |index: usize| if seen.mask[index] { seen.node(index)[0] } else { f32::NEG_INFINITY };
        (0..seen.node_count()).max_by(|a, b| value(*a).total_cmp(&value(*b))).unwrap()
    }

    fn draw(&mut self) {
        self.seen = draw(&mut self.rng);
    }
}

fn draw(rng: &mut Rng) -> Observation {
    let count = 2 + rng.below(5);
    let mut mask: Vec<bool> = (0..count).map(|_| rng.unit() < 0.7).collect();
    mask[rng.below(count)] = true;
    Observation {
        node_width: NODE_WIDTH,
        nodes: (0..count * NODE_WIDTH).map(|_| rng.unit() as f32).collect(),
        pod: vec![rng.unit() as f32, 1.0],
        places: (0..count).map(|_| [rng.below(2) as u32, 0]).collect(),
        mask,
    }
}

impl Environment for Largest {
    fn reset(&mut self, seed: u64) -> Result<(), LearnError> {
        self.rng = Rng::new(seed);
        self.left = 10;
        self.draw();
        Ok(())
    }

    fn observation(&self) -> &Observation {
        &self.seen
    }

    fn step(&mut self, action: usize) -> Result<Step, LearnError> {
        assert!(self.seen.mask[action], "a forbidden node was chosen");
        let reward = if action == Self::right(&self.seen) { 1.0 } else { 0.0 };
        self.left -= 1;
        self.draw();
        Ok(Step { reward, elapsed_hours: 0.5, terminated: false, truncated: self.left == 0 })
    }
}

/// Two steps: the first choice brings a little at once, by the node's first feature, and more at the second step, by its second feature.
pub struct Patience {
    rng: Rng,
    seen: Observation,
    /// The promise of the first choice, once it is made.
    promise: Option<f32>,
}

impl Patience {
    /// One of them.
    pub fn boxed() -> Box<dyn Environment> {
        Box::new(Self { rng: Rng::new(0), seen: Observation::default(), promise: None })
    }

    /// The right first choice: what it brings at once and later.
    pub fn right(seen: &Observation) -> usize {
        let value = |index: usize| seen.node(index)[1] + 0.3 * seen.node(index)[0];
        let allowed = (0..seen.node_count()).filter(|index| seen.mask[*index]);
        allowed.max_by(|a, b| value(*a).total_cmp(&value(*b))).unwrap()
    }
}

impl Environment for Patience {
    fn reset(&mut self, seed: u64) -> Result<(), LearnError> {
        self.rng = Rng::new(seed);
        self.seen = draw(&mut self.rng);
        self.seen.pod[1] = 0.0;
        self.promise = None;
        Ok(())
    }

    fn observation(&self) -> &Observation {
        &self.seen
    }

    fn step(&mut self, action: usize) -> Result<Step, LearnError> {
        assert!(self.seen.mask[action], "a forbidden node was chosen");
        let (first, second) = (self.seen.node(action)[0], self.seen.node(action)[1]);
        let promise = self.promise.take();
        let (reward, terminated) = match promise {
            None => (0.3 * first, false),
            Some(promise) => (promise, true),
        };
        if promise.is_none() {
            self.promise = Some(second);
            self.seen = draw(&mut self.rng);
            // What is to come shows in the pod, so that the second decision has its worth.
            self.seen.pod = vec![second, 1.0];
        }
        Ok(Step { reward, elapsed_hours: 0.5, terminated, truncated: false })
    }
}

/// The share of decisions of fresh episodes at which the best-scored node is the right one.
pub fn share_right(
    spec: &NetworkSpec,
    weights: Weights,
    environment: Box<dyn Environment>,
    right: &dyn Fn(&Observation) -> usize,
) -> f64 {
    let mut environment = environment;
    let network = Network::with_weights(spec, weights).unwrap();
    let rounds = 300;
    let mut hits = 0;
    for seed in 0..rounds {
        environment.reset(1_000_000 + seed).unwrap();
        let seen = environment.observation();
        let batch = Batch::new(spec, [seen]).unwrap();
        hits += usize::from(batch.best(&network.scores(&batch).unwrap(), 0) == right(seen));
    }
    hits as f64 / rounds as f64
}

/// Runs an agent to its end.
pub fn train(agent: &mut dyn super::Agent) -> super::Report {
    loop {
        let report = agent.iterate().unwrap();
        if report.progress >= 1.0 {
            return report;
        }
    }
}
