//! Compares an engine that lived through events with one that is told only what is there now.

use super::engine::Engine;
use super::events::TEMPLATES;
use super::universe::PodKey;
use super::world::World;
use plimsoll_core::scheduler::Decision;
use plimsoll_core::state::{ClusterState, Node};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

/// The error names the first thing that differs.
pub fn compare(world: &World, engine: &mut Engine, pods_first: bool) -> Result<(), String> {
    engine.scheduler.state.check_consistency()?;
    let mut fresh = world.rebuild(pods_first)?;
    fresh.scheduler.state.check_consistency().map_err(|error| format!("the state built from scratch: {error}"))?;
    compare_states(world, &engine.scheduler.state, &fresh.scheduler.state)?;
    for pod in world.pods.values().filter(|pod| pod.is_pending()) {
        compare_decisions(&pod.uid(), engine, &mut fresh)?;
    }
    let probe = PodKey::PROBE.uid();
    for template in 0..TEMPLATES {
        let pod = world.probe(template);
        for engine in [&mut *engine, &mut fresh] {
            engine.apply_pod(&pod)?;
        }
        compare_decisions(&probe, engine, &mut fresh)?;
        for engine in [&mut *engine, &mut fresh] {
            engine.scheduler.state.delete_pod(&probe);
        }
    }
    engine.scheduler.state.check_consistency().map_err(|error| format!("after the probes: {error}"))
}

fn compare_states(world: &World, state: &ClusterState, fresh: &ClusterState) -> Result<(), String> {
    same("node count", state.node_count(), fresh.node_count())?;
    same("pods on nodes", state.placed_pods(), fresh.placed_pods())?;
    same("nodes", nodes(state), nodes(fresh))?;
    same("pods", pods(state), pods(fresh))?;
    let phases: BTreeMap<_, _> = world.pods.values().map(|pod| (pod.uid(), pod.phase())).collect();
    let kept: BTreeMap<_, _> = state.pods().map(|(_, pod)| (pod.uid.to_string(), pod.phase)).collect();
    same("phases of pods", kept, phases)
}

/// Each node with all that pods add up to on it, by name.
fn nodes(state: &ClusterState) -> BTreeMap<String, impl Debug + PartialEq> {
    let one = |node: &Node| {
        let scalar = |at: usize| (state.resources.resolve(node.scalars[at].id).to_owned(), node.scalars[at]);
        let scalars = (0..node.scalars.len()).map(scalar).map(|(name, s)| (name, (s.allocatable, s.requested)));
        let images = node
            .spec
            .images
            .iter()
            .map(|(image, _)| (state.strings.resolve(*image).to_owned(), state.nodes_with_image(*image)));
        let pods = node.pods.iter().filter_map(|id| state.pod(*id)).map(|pod| pod.uid.to_string());
        let amounts = (node.allocatable, node.requested, node.nonzero_cpu, node.nonzero_memory);
        let lists = (scalars.collect::<BTreeMap<_, _>>(), images.collect::<BTreeMap<_, _>>());
        (amounts, lists, pods.collect::<BTreeSet<_>>())
    };
    state.nodes().map(|node| (state.node_name(node.id).to_owned(), one(node))).collect()
}

/// Each pod with where it is, by UID.
fn pods(state: &ClusterState) -> BTreeMap<String, impl Debug + PartialEq> {
    let name = |name: Option<_>| name.map(|name| state.strings.resolve(name).to_owned());
    let all = state.pods().map(|(_, pod)| {
        let flags = (pod.terminating, pod.preempted, pod.start_time);
        let place = (pod.phase, name(pod.node_name), pod.node.is_some(), name(pod.nominated));
        (pod.uid.to_string(), (state.pod_name(pod), place, flags))
    });
    all.collect()
}

fn compare_decisions(uid: &str, engine: &mut Engine, fresh: &mut Engine) -> Result<(), String> {
    let (Some(pod), Some(again)) = (engine.pod(uid), fresh.pod(uid)) else { return Err(format!("pod {uid} is lost")) };
    same(&format!("explanation of pod {uid}"), engine.verdict(pod), fresh.verdict(again))?;
    let (decided, expected) = (engine.decide(pod)?, fresh.decide(again)?);
    match (decided, expected) {
        (Ok(Decision::Wait { plugins, .. }), Ok(Decision::Wait { plugins: expected, .. })) => {
            same(&format!("plugins that refuse pod {uid}"), plugins, expected)
        }
        (Ok(Decision::Place { feasible, .. }), Ok(Decision::Place { feasible: expected, .. })) => {
            same(&format!("feasible nodes of pod {uid}"), feasible, expected)
        }
        (Err(error), Err(expected)) => same(&format!("error of pod {uid}"), error.to_string(), expected.to_string()),
        (decided, expected) => Err(format!("pod {uid}: decided {decided:?}, from scratch {expected:?}")),
    }
}

fn same<T: PartialEq + Debug>(what: &str, incremental: T, fresh: T) -> Result<(), String> {
    if incremental == fresh {
        Ok(())
    } else {
        Err(format!("{what}: by events {incremental:#?}, from scratch {fresh:#?}"))
    }
}
