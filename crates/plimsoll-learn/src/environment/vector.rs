//! Many environments in one process, stepped together, their observations side by side in one block of memory.

use super::{Environment, Step};
use crate::error::LearnError;
use plimsoll_core::rng::Rng;
use rayon::prelude::*;

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

/// One environment with its place in the block.
struct Slot<E> {
    environment: E,
    step: Step,
    /// The return of the episode so far, and of the last one that ended.
    sum: f64,
    finished: Option<f64>,
    episodes: u64,
    seed: u64,
}

/// Environments that are stepped together. One whose episode ends begins the next by itself: the observation is then that of the new
/// episode, and [`Step::is_last`] says so.
pub struct VectorEnvironment<E> {
    slots: Vec<Slot<E>>,
    batch: Padded,
    grain: usize,
}

impl<E: Environment> VectorEnvironment<E> {
    /// Environments, each with episodes of its own that follow from the seed. `grain` is the least number of them that is worth a core of
    /// its own: 1 for the whole simulator, some dozens for an arena.
    pub fn new(environments: Vec<E>, seed: u64, grain: usize) -> Result<Self, LearnError> {
        let mut seeds = Rng::new(seed);
        let slot = |environment| Slot {
            environment,
            step: Step::default(),
            sum: 0.0,
            finished: None,
            episodes: 0,
            seed: seeds.next_u64(),
        };
        let mut slots: Vec<_> = environments.into_iter().map(slot).collect();
        if slots.is_empty() {
            return Err(LearnError::Invalid("at least one environment is needed".into()));
        }
        slots.par_iter_mut().try_for_each(Slot::begin)?;
        let first = slots[0].environment.observation();
        let (node_width, pod_width, size) = (first.node_width, first.pod.len(), slots.len());
        let batch = Padded {
            size,
            node_width,
            pod_width,
            pods: vec![0.0; size * pod_width],
            counts: vec![0; size],
            ..Padded::default()
        };
        let mut vector = Self { slots, batch, grain: grain.max(1) };
        vector.gather()?;
        Ok(vector)
    }

    /// How many environments there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The decisions that are due.
    pub fn observations(&self) -> &Padded {
        &self.batch
    }

    /// An environment.
    pub fn environment(&self, index: usize) -> &E {
        &self.slots[index].environment
    }

    /// What the last action of each came to.
    pub fn steps(&self) -> impl Iterator<Item = Step> + '_ {
        self.slots.iter().map(|slot| slot.step)
    }

    /// The return of the last episode that ended in an environment.
    pub fn last_return(&self, index: usize) -> Option<f64> {
        self.slots[index].finished
    }

    /// Takes a step in each environment, on all cores where there are enough of them.
    pub fn step(&mut self, actions: &[usize]) -> Result<(), LearnError> {
        if actions.len() != self.slots.len() {
            return Err(LearnError::Invalid(format!(
                "{} actions for {} environments; each needs one",
                actions.len(),
                self.slots.len()
            )));
        }
        let Self { slots, batch, grain } = self;
        let Padded { nodes, node_width, pod_width, features, pods, mask, counts, .. } = batch;
        let (nodes, node_width, pod_width) = (*nodes, *node_width, *pod_width);
        let act = |slot: &mut Slot<E>, action: usize, target: Target<'_>| {
            slot.act(action)?;
            Ok::<bool, LearnError>(slot.write(nodes, target))
        };
        let rows = features.chunks_mut((nodes * node_width).max(1));
        let fits = if slots.len() < 2 * *grain || rayon::current_num_threads() == 1 {
            let mut fits = true;
            let targets =
                rows.zip(pods.chunks_mut(pod_width.max(1))).zip(mask.chunks_mut(nodes.max(1))).zip(counts.iter_mut());
            for ((slot, action), (((features, pods), mask), count)) in slots.iter_mut().zip(actions).zip(targets) {
                fits &= act(slot, *action, Target { features, pods, mask, count })?;
            }
            fits
        } else {
            let targets = features
                .par_chunks_mut((nodes * node_width).max(1))
                .zip(pods.par_chunks_mut(pod_width.max(1)))
                .zip(mask.par_chunks_mut(nodes.max(1)))
                .zip(counts.par_iter_mut());
            let each = slots.par_iter_mut().zip(actions.par_iter()).zip(targets).with_min_len(*grain);
            each.map(|((slot, action), (((features, pods), mask), count))| {
                act(slot, *action, Target { features, pods, mask, count })
            })
            .try_reduce(|| true, |a, b| Ok(a && b))?
        };
        if fits { Ok(()) } else { self.gather() }
    }

    /// Writes all observations, making room for the largest.
    fn gather(&mut self) -> Result<(), LearnError> {
        let most = self.slots.iter().map(|slot| slot.environment.observation().node_count()).max().unwrap_or(0);
        self.batch.grow(most);
        let Padded { nodes, node_width, pod_width, features, pods, mask, counts, .. } = &mut self.batch;
        for (index, slot) in self.slots.iter().enumerate() {
            let observation = slot.environment.observation();
            if observation.node_width != *node_width || observation.pod.len() != *pod_width {
                return Err(LearnError::Invalid(format!(
                    "environment {index} has {} numbers a node and {} a pod, the first one {node_width} and {pod_width}; all must be alike",
                    observation.node_width,
                    observation.pod.len()
                )));
            }
            let (row, width) = (index * *nodes, *nodes * *node_width);
            let target = Target {
                features: &mut features[index * width..(index + 1) * width],
                pods: &mut pods[index * *pod_width..(index + 1) * *pod_width],
                mask: &mut mask[row..row + *nodes],
                count: &mut counts[index],
            };
            slot.write(*nodes, target);
        }
        Ok(())
    }
}

/// Where an observation is written.
struct Target<'a> {
    features: &'a mut [f32],
    pods: &'a mut [f32],
    mask: &'a mut [bool],
    count: &'a mut usize,
}

impl<E: Environment> Slot<E> {
    fn begin(&mut self) -> Result<(), LearnError> {
        let seed = Rng::new(self.seed.wrapping_add(self.episodes)).next_u64();
        self.episodes += 1;
        self.sum = 0.0;
        self.environment.reset(seed)
    }

    fn act(&mut self, action: usize) -> Result<(), LearnError> {
        self.step = self.environment.step(action)?;
        self.sum += f64::from(self.step.reward);
        if self.step.is_last() {
            self.finished = Some(self.sum);
            self.begin()?;
        }
        Ok(())
    }

    /// Writes the observation; false if it has more nodes than there is room for.
    fn write(&self, nodes: usize, target: Target<'_>) -> bool {
        let observation = self.environment.observation();
        let count = observation.node_count();
        if count > nodes {
            return false;
        }
        let Target { features, pods, mask, count: written } = target;
        let used = observation.nodes.len().min(features.len());
        features[..used].copy_from_slice(&observation.nodes[..used]);
        // What another episode with more nodes left there.
        if *written > count {
            features[used..].fill(0.0);
            mask[count..].fill(false);
        }
        *written = count;
        mask[..count].copy_from_slice(&observation.mask);
        pods.copy_from_slice(&observation.pod);
        true
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
