//! Many environments in one process, stepped together, which write what they show into memory of whoever steps them.

use super::{Environment, Step};
use crate::error::LearnError;
use crate::observation::Observation;
use plimsoll_core::rng::Rng;
use rayon::prelude::*;

/// Memory that observations are written into, side by side and padded to the same number of nodes. Padding is 0 and never allowed.
#[derive(Debug)]
pub struct Block<'a> {
    /// How many nodes each observation has room for.
    pub nodes: usize,
    /// The nodes: observations × `nodes` × numbers of a node.
    pub features: &'a mut [f32],
    /// The pods: observations × numbers of a pod.
    pub pods: &'a mut [f32],
    /// Which nodes are allowed: observations × `nodes`.
    pub mask: &'a mut [bool],
    /// How many nodes there are, without padding. What stands here is what was last written into the rest.
    pub counts: &'a mut [usize],
}

/// One environment with its place in the block.
struct Lane<E> {
    environment: E,
    step: Step,
    /// The return of the episode so far, and of the last one that ended.
    sum: f64,
    finished: Option<f64>,
    /// What the last episode that ended showed at last.
    last: Observation,
    episodes: u64,
    seed: u64,
}

/// Environments that are stepped together. One whose episode ends begins the next by itself, unless told otherwise: what is written is then
/// of the new episode, and [`Step::is_last`] says so.
pub struct Lanes<E> {
    lanes: Vec<Lane<E>>,
    node_width: usize,
    pod_width: usize,
    grain: usize,
    begins_anew: bool,
}

impl<E: Environment> Lanes<E> {
    /// Environments, each with episodes of its own that follow from the seed. `grain` is the least number of them that is worth a core of
    /// its own: 1 for the whole simulator, some dozens for an arena.
    pub fn new(environments: Vec<E>, seed: u64, grain: usize) -> Result<Self, LearnError> {
        let mut seeds = Rng::new(seed);
        let lane = |environment| Lane {
            environment,
            step: Step::default(),
            sum: 0.0,
            finished: None,
            last: Observation::default(),
            episodes: 0,
            seed: seeds.next_u64(),
        };
        let mut lanes: Vec<_> = environments.into_iter().map(lane).collect();
        if lanes.is_empty() {
            return Err(LearnError::Invalid("at least one environment is needed".into()));
        }
        lanes.par_iter_mut().try_for_each(Lane::begin)?;
        let widths = |lane: &Lane<E>| {
            let seen = lane.environment.observation();
            (seen.node_width, seen.pod.len())
        };
        let (node_width, pod_width) = widths(&lanes[0]);
        for (index, lane) in lanes.iter().enumerate() {
            let (nodes, pods) = widths(lane);
            if (nodes, pods) != (node_width, pod_width) {
                return Err(LearnError::Invalid(format!(
                    "environment {index} has {nodes} numbers a node and {pods} a pod, the first one {node_width} and {pod_width}; all must be alike"
                )));
            }
        }
        Ok(Self { lanes, node_width, pod_width, grain: grain.max(1), begins_anew: true })
    }

    /// The same, which wait at the end of an episode until [`Self::begin`] is asked for the next.
    #[must_use]
    pub fn waiting_at_ends(mut self) -> Self {
        self.begins_anew = false;
        self
    }

    /// How many environments there are.
    pub fn len(&self) -> usize {
        self.lanes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// How many numbers describe a node, and a pod.
    pub fn widths(&self) -> (usize, usize) {
        (self.node_width, self.pod_width)
    }

    /// An environment.
    pub fn environment(&self, index: usize) -> &E {
        &self.lanes[index].environment
    }

    /// The environments, to ask them something.
    pub fn environments_mut(&mut self) -> impl Iterator<Item = &mut E> {
        self.lanes.iter_mut().map(|lane| &mut lane.environment)
    }

    /// What the last action of each came to.
    pub fn steps(&self) -> impl Iterator<Item = Step> + '_ {
        self.lanes.iter().map(|lane| lane.step)
    }

    /// The return of the last episode that ended in an environment.
    pub fn last_return(&self, index: usize) -> Option<f64> {
        self.lanes[index].finished
    }

    /// What the last episode that ended in an environment showed at last: what would have followed where it was cut off.
    pub fn last_observation(&self, index: usize) -> Option<&Observation> {
        self.lanes[index].finished.map(|_| &self.lanes[index].last)
    }

    /// The most nodes that any of them shows now.
    pub fn most_nodes(&self) -> usize {
        self.lanes.iter().map(|lane| lane.environment.observation().node_count()).max().unwrap_or(0)
    }

    /// Begins an episode in each: the first of those that follow from a seed, or the next where none is given.
    pub fn begin(&mut self, seeds: &[Option<u64>]) -> Result<(), LearnError> {
        self.check("seeds", seeds.len())?;
        self.begin_some(&seeds.iter().map(|seed| Some(*seed)).collect::<Vec<_>>())
    }

    /// The same in some of them, those for which something is given.
    pub fn begin_some(&mut self, seeds: &[Option<Option<u64>>]) -> Result<(), LearnError> {
        self.check("seeds", seeds.len())?;
        self.lanes.par_iter_mut().zip(seeds).try_for_each(|(lane, seed)| {
            let Some(seed) = seed else { return Ok(()) };
            if let Some(seed) = seed {
                // Seeds of neighbours are often neighbours, and their episodes must not be the same ones in turn.
                (lane.seed, lane.episodes) = (Rng::new(*seed).next_u64(), 0);
            }
            lane.step = Step::default();
            lane.begin()
        })
    }

    fn check(&self, what: &str, count: usize) -> Result<(), LearnError> {
        if count == self.lanes.len() {
            return Ok(());
        }
        Err(LearnError::Invalid(format!("{count} {what} for {} environments; each needs one", self.lanes.len())))
    }

    /// Takes a step in each environment, on all cores where there are enough of them, and writes what they show; false if one has more nodes than
    /// there is room for, which is then not written.
    pub fn step(&mut self, actions: &[usize], block: Block<'_>) -> Result<bool, LearnError> {
        self.check("actions", actions.len())?;
        let (node_width, pod_width) = self.widths();
        let Self { lanes, grain, begins_anew, .. } = self;
        let Block { nodes, features, pods, mask, counts } = block;
        let act = |lane: &mut Lane<E>, action: usize, target: Target<'_>| {
            lane.act(action, *begins_anew)?;
            Ok::<bool, LearnError>(lane.write(nodes, target))
        };
        if lanes.len() < 2 * *grain || rayon::current_num_threads() == 1 {
            let mut fits = true;
            let targets = features
                .chunks_mut((nodes * node_width).max(1))
                .zip(pods.chunks_mut(pod_width.max(1)))
                .zip(mask.chunks_mut(nodes.max(1)))
                .zip(counts.iter_mut());
            for ((lane, action), (((features, pods), mask), count)) in lanes.iter_mut().zip(actions).zip(targets) {
                fits &= act(lane, *action, Target { features, pods, mask, count })?;
            }
            return Ok(fits);
        }
        let targets = features
            .par_chunks_mut((nodes * node_width).max(1))
            .zip(pods.par_chunks_mut(pod_width.max(1)))
            .zip(mask.par_chunks_mut(nodes.max(1)))
            .zip(counts.par_iter_mut());
        let each = lanes.par_iter_mut().zip(actions.par_iter()).zip(targets).with_min_len(*grain);
        each.map(|((lane, action), (((features, pods), mask), count))| {
            act(lane, *action, Target { features, pods, mask, count })
        })
        .try_reduce(|| true, |a, b| Ok(a && b))
    }

    /// Writes what all of them show; false if one has more nodes than there is room for, which is then not written.
    pub fn write(&self, block: Block<'_>) -> bool {
        let (node_width, pod_width) = self.widths();
        let Block { nodes, features, pods, mask, counts } = block;
        let targets = features
            .chunks_mut((nodes * node_width).max(1))
            .zip(pods.chunks_mut(pod_width.max(1)))
            .zip(mask.chunks_mut(nodes.max(1)))
            .zip(counts.iter_mut());
        let written = self.lanes.iter().zip(targets);
        written.fold(true, |fits, (lane, (((features, pods), mask), count))| {
            fits & lane.write(nodes, Target { features, pods, mask, count })
        })
    }
}

/// Where an observation is written.
struct Target<'a> {
    features: &'a mut [f32],
    pods: &'a mut [f32],
    mask: &'a mut [bool],
    count: &'a mut usize,
}

impl<E: Environment> Lane<E> {
    fn begin(&mut self) -> Result<(), LearnError> {
        let seed = Rng::new(self.seed.wrapping_add(self.episodes)).next_u64();
        self.episodes += 1;
        self.sum = 0.0;
        self.environment.reset(seed)
    }

    fn act(&mut self, action: usize, begins_anew: bool) -> Result<(), LearnError> {
        self.step = self.environment.step(action)?;
        self.sum += f64::from(self.step.reward);
        if self.step.is_last() {
            self.finished = Some(self.sum);
            self.last.clone_from(self.environment.observation());
            if begins_anew {
                self.begin()?;
            }
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
    use crate::environment::arena::{AnyRecorded, Arena, ArenaSettings, Recorded};
    use crate::environment::testing::{pool, workload};
    use crate::reward::{RewardSpec, Rewards};
    use plimsoll_sim::fleet::Fleet;

    fn arena(steps: Option<u64>) -> Arena {
        let pods = |first: i64| -> Vec<_> { (0..20).map(|at| (first + 500 * (at % 3), 512, at as u64, 10)).collect() };
        let recorded = [1000, 2000].map(|first| Recorded::new(workload(&pods(first)).into()).unwrap());
        let rewards = Rewards::new(&RewardSpec::Name("compress".into())).unwrap();
        let fleet = Fleet { pools: vec![pool("a", 3, 16, 64)] };
        let settings = ArenaSettings { steps, ..ArenaSettings::default() };
        Arena::new(&fleet, AnyRecorded::new(recorded.to_vec()).unwrap(), rewards, settings).unwrap()
    }

    struct Memory {
        features: Vec<f32>,
        pods: Vec<f32>,
        mask: Vec<bool>,
        counts: Vec<usize>,
        nodes: usize,
    }

    impl Memory {
        fn new(lanes: &Lanes<Arena>, nodes: usize) -> Self {
            let (size, (node_width, pod_width)) = (lanes.len(), lanes.widths());
            Self {
                features: vec![7.0; size * nodes * node_width],
                pods: vec![7.0; size * pod_width],
                mask: vec![true; size * nodes],
                counts: vec![nodes; size],
                nodes,
            }
        }

        fn block(&mut self) -> Block<'_> {
            let Self { features, pods, mask, counts, nodes } = self;
            Block { nodes: *nodes, features, pods, mask, counts }
        }
    }

    #[test]
    fn what_is_shown_is_written_into_the_callers_memory_and_padding_is_nothing() {
        let lanes = Lanes::new(vec![arena(None), arena(None)], 1, 1).unwrap();
        let mut memory = Memory::new(&lanes, 5);
        assert!(lanes.write(memory.block()));
        let width = lanes.widths().0;
        for (at, row) in memory.features.chunks(5 * width).enumerate() {
            assert_eq!(row[..3 * width], lanes.environment(at).observation().nodes);
            assert!(row[3 * width..].iter().all(|value| *value == 0.0));
        }
        assert_eq!(memory.counts, [3, 3]);
        assert!(memory.mask.chunks(5).all(|row| row[3..] == [false, false]));
        let mut small = Memory::new(&lanes, 2);
        assert!(!lanes.write(small.block()), "three nodes do not fit into two");
    }

    #[test]
    fn equal_seeds_begin_equal_episodes_and_those_of_neighbours_are_others() {
        let begun = |seeds: &[Option<u64>]| {
            let mut lanes = Lanes::new((0..seeds.len()).map(|_| arena(None)).collect(), 1, 1).unwrap();
            lanes.begin(seeds).unwrap();
            let mut memory = Memory::new(&lanes, 3);
            let mut seen = Vec::new();
            // The first episode of each, then the next ones.
            for _ in 0..8 {
                lanes.write(memory.block());
                seen.extend_from_slice(&memory.pods);
                lanes.begin(&vec![None; seeds.len()]).unwrap();
            }
            seen
        };
        assert_eq!(begun(&[Some(4)]), begun(&[Some(4)]));
        assert_ne!(begun(&[Some(4)]), begun(&[Some(5)]));
        let mut lanes = Lanes::new(vec![arena(None)], 1, 1).unwrap();
        assert!(lanes.begin(&[]).unwrap_err().to_string().contains("0 seeds for 1 environments"));
    }

    #[test]
    fn an_episode_that_ends_leaves_what_it_showed_at_last_and_the_next_begins_unless_told_otherwise() {
        for waits in [false, true] {
            let mut lanes = Lanes::new(vec![arena(Some(2)), arena(None)], 1, 1).unwrap();
            if waits {
                lanes = lanes.waiting_at_ends();
            }
            let mut memory = Memory::new(&lanes, 3);
            assert!(lanes.last_observation(0).is_none());
            lanes.step(&[0, 0], memory.block()).unwrap();
            lanes.step(&[0, 0], memory.block()).unwrap();
            assert_eq!(lanes.steps().map(|step| step.truncated).collect::<Vec<_>>(), [true, false]);
            assert!(lanes.last_return(0).is_some() && lanes.last_return(1).is_none());
            let on_nodes = |features: &[f32]| features.chunks(lanes.widths().0).map(|row| row[3]).sum::<f32>();
            if waits {
                assert!(on_nodes(&memory.features[..18]) > 0.0, "the last decision is still shown");
                assert!(lanes.step(&[0, 0], memory.block()).unwrap_err().to_string().contains("reset first"));
                lanes.begin_some(&[Some(None), None]).unwrap();
                lanes.step(&[0, 0], memory.block()).unwrap();
            } else {
                assert_eq!(on_nodes(&memory.features[..18]), 0.0, "a new episode begins empty");
                assert!(on_nodes(&lanes.last_observation(0).unwrap().nodes) > 0.0);
            }
        }
    }
}
