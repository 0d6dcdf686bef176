//! Many environments in one process, stepped together, their observations side by side in one block of memory.

use super::lanes::{Block, Lanes};
use super::{Environment, Step};
use crate::error::LearnError;

/// Observations side by side, padded to the same number of nodes. Padding is 0 and never allowed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Padded {
    /// How many observations.
    pub size: usize,
    /// How many nodes each has room for.
    pub nodes: usize,
    /// How many numbers describe a node.
    pub node_width: usize,
    /// How many numbers describe a pod.
    pub pod_width: usize,
    /// The nodes: `size` × `nodes` × `node_width`.
    pub features: Vec<f32>,
    /// The pods: `size` × `pod_width`.
    pub pods: Vec<f32>,
    /// Which nodes are allowed: `size` × `nodes`.
    pub mask: Vec<bool>,
    /// How many nodes there are, without padding: `size`.
    pub counts: Vec<usize>,
}

impl Padded {
    /// The allowed nodes of one observation.
    pub fn mask_of(&self, index: usize) -> &[bool] {
        &self.mask[index * self.nodes..(index + 1) * self.nodes]
    }

    /// The memory, to be written into.
    fn block(&mut self) -> Block<'_> {
        let Self { nodes, features, pods, mask, counts, .. } = self;
        Block { nodes: *nodes, features, pods, mask, counts }
    }

    /// Makes room, keeping what is there.
    fn grow(&mut self, nodes: usize) {
        if nodes <= self.nodes {
            return;
        }
        let mut wider =
            Self { nodes, size: self.size, node_width: self.node_width, pod_width: self.pod_width, ..Self::default() };
        wider.features.resize(self.size * nodes * self.node_width, 0.0);
        wider.mask.resize(self.size * nodes, false);
        wider.pods = std::mem::take(&mut self.pods);
        wider.counts = std::mem::take(&mut self.counts);
        let (old, new) = ((self.nodes * self.node_width).max(1), nodes * self.node_width);
        for (from, to) in self.features.chunks(old).zip(wider.features.chunks_mut(new.max(1))) {
            to[..from.len()].copy_from_slice(from);
        }
        for (from, to) in self.mask.chunks(self.nodes.max(1)).zip(wider.mask.chunks_mut(nodes)) {
            to[..from.len()].copy_from_slice(from);
        }
        *self = wider;
    }
}

/// Environments that are stepped together, with memory of their own that grows with the clusters. One whose episode ends begins the next by
/// itself: the observation is then that of the new episode, and [`Step::is_last`] says so.
pub struct VectorEnvironment<E> {
    lanes: Lanes<E>,
    batch: Padded,
}

impl<E: Environment> VectorEnvironment<E> {
    /// Environments, each with episodes of its own that follow from the seed. `grain` is the least number of them that is worth a core of
    /// its own: 1 for the whole simulator, some dozens for an arena.
    pub fn new(environments: Vec<E>, seed: u64, grain: usize) -> Result<Self, LearnError> {
        let lanes = Lanes::new(environments, seed, grain)?;
        let ((node_width, pod_width), size) = (lanes.widths(), lanes.len());
        let batch = Padded {
            size,
            node_width,
            pod_width,
            pods: vec![0.0; size * pod_width],
            counts: vec![0; size],
            ..Padded::default()
        };
        let mut vector = Self { lanes, batch };
        vector.gather();
        Ok(vector)
    }

    /// How many environments there are.
    pub fn len(&self) -> usize {
        self.lanes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// The decisions that are due.
    pub fn observations(&self) -> &Padded {
        &self.batch
    }

    /// An environment.
    pub fn environment(&self, index: usize) -> &E {
        self.lanes.environment(index)
    }

    /// What the last action of each came to.
    pub fn steps(&self) -> impl Iterator<Item = Step> + '_ {
        self.lanes.steps()
    }

    /// The return of the last episode that ended in an environment.
    pub fn last_return(&self, index: usize) -> Option<f64> {
        self.lanes.last_return(index)
    }

    /// Takes a step in each environment, on all cores where there are enough of them.
    pub fn step(&mut self, actions: &[usize]) -> Result<(), LearnError> {
        if !self.lanes.step(actions, self.batch.block())? {
            self.gather();
        }
        Ok(())
    }

    /// Writes all observations, making room for the largest.
    fn gather(&mut self) {
        self.batch.grow(self.lanes.most_nodes());
        self.lanes.write(self.batch.block());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::arena::{Arena, ArenaSettings, Made, Shape};
    use crate::environment::testing::{inputs, pool, workload};
    use crate::environment::{ClusterEnvironment, ClusterSettings};
    use crate::observation::Plain;
    use crate::reward::{RewardSpec, Rewards};
    use plimsoll_sim::fleet::Fleet;
    use std::time::Duration;

    fn rewards() -> Rewards {
        Rewards::new(&RewardSpec::Name("compress".into())).unwrap()
    }

    fn arena(nodes: usize) -> Arena {
        let shapes = vec![Shape { cpu_milli: 1000, memory: 1 << 30 }, Shape { cpu_milli: 3000, memory: 2 << 30 }];
        let made = Made::new(shapes, Duration::from_secs(1), Duration::from_secs(20), 60).unwrap();
        let fleet = Fleet { pools: vec![pool("a", nodes, 8, 32)] };
        Arena::new(&fleet, made, rewards(), ArenaSettings::default()).unwrap()
    }

    fn act(mask: &[bool], round: usize) -> usize {
        let allowed: Vec<_> = mask.iter().enumerate().filter(|(_, allowed)| **allowed).map(|(at, _)| at).collect();
        allowed[round % allowed.len()]
    }

    #[test]
    fn the_block_holds_every_observation_and_stepping_is_the_same_on_any_number_of_cores() {
        let run = |grain: usize| {
            let environments = (0..40).map(|at| arena(4 + at % 5)).collect();
            let mut vector = VectorEnvironment::new(environments, 3, grain).unwrap();
            let (mut log, mut ends) = (Vec::new(), 0);
            for round in 0..200 {
                let batch = vector.observations();
                assert_eq!((batch.size, batch.nodes), (40, 8));
                for at in 0..40 {
                    let seen = vector.environment(at).observation();
                    let width = batch.nodes * batch.node_width;
                    let row = &batch.features[at * width..(at + 1) * width];
                    assert_eq!(row[..seen.nodes.len()], seen.nodes);
                    assert!(row[seen.nodes.len()..].iter().all(|value| *value == 0.0));
                    assert_eq!(batch.mask_of(at)[..seen.node_count()], seen.mask);
                    assert!(batch.mask_of(at)[seen.node_count()..].iter().all(|allowed| !allowed));
                    assert_eq!(batch.pods[at * 4..(at + 1) * 4], seen.pod);
                }
                let actions: Vec<_> = (0..40).map(|at| act(batch.mask_of(at), round + at)).collect();
                vector.step(&actions).unwrap();
                log.extend(vector.steps().map(|step| step.reward));
                ends += vector.steps().filter(Step::is_last).count();
            }
            assert!(ends > 40 && vector.last_return(0).is_some(), "episodes begin again by themselves: {ends}");
            log
        };
        assert_eq!(run(1), run(1000));
    }

    #[test]
    fn a_cluster_that_changes_its_size_still_fits() {
        let mut sizes = [3_usize, 6, 2].into_iter().cycle();
        let episodes = move |seed: u64| {
            let pods: Vec<_> = (0..10).map(|at| (500, 100, at, 5)).collect();
            let nodes = sizes.next().unwrap_or(3);
            let mut inputs = inputs(workload(&pods), vec![pool("a", nodes, 4, 16)], 20);
            inputs.settings = plimsoll_sim::simulation::Settings { seed, ..Clone::clone(&*inputs.settings) }.into();
            Ok(inputs)
        };
        let cluster =
            ClusterEnvironment::new(episodes, Plain::default(), rewards(), ClusterSettings::default()).unwrap();
        let mut vector = VectorEnvironment::new(vec![cluster], 1, 1).unwrap();
        let mut counts = std::collections::BTreeSet::new();
        for round in 0..60 {
            let batch = vector.observations();
            let seen = vector.environment(0).observation();
            counts.insert(batch.counts[0]);
            assert_eq!(batch.features[..seen.nodes.len()], seen.nodes);
            assert!(batch.features[seen.nodes.len()..].iter().all(|value| *value == 0.0));
            assert!(batch.mask_of(0)[seen.node_count()..].iter().all(|allowed| !allowed));
            let action = act(batch.mask_of(0), round);
            vector.step(&[action]).unwrap();
        }
        assert_eq!(counts.into_iter().collect::<Vec<_>>(), [2, 3, 6]);
    }

    #[test]
    fn each_environment_needs_an_action() {
        let mut vector = VectorEnvironment::new(vec![arena(3)], 1, 1).unwrap();
        assert!(vector.step(&[]).unwrap_err().to_string().contains("0 actions for 1"));
        assert!(VectorEnvironment::<Arena>::new(Vec::new(), 1, 1).is_err());
    }
}
