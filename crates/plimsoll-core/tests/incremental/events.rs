//! What can happen to a cluster.

use super::objects::{Object, any_object};
use super::universe::{NODES, NodeRecipe, PodKey, PodRecipe, any_node, any_pod, any_pod_key, one_of};
use proptest::prelude::*;

/// One thing that happens.
#[derive(Debug, Clone)]
pub enum Event {
    /// A node comes or changes.
    Node(&'static str, NodeRecipe),
    /// News of a node that cannot be read.
    UnreadableNode(&'static str),
    /// A node goes, perhaps with pods on it.
    NodeGone(&'static str),
    /// A pod comes or changes: pending, bound, being deleted, or told to be elsewhere.
    Pod(PodKey, Box<PodRecipe>),
    /// News of a pod that cannot be read.
    UnreadablePod(PodKey, Box<PodRecipe>),
    /// A pod has run to its end.
    PodEnded(PodKey, Box<PodRecipe>),
    /// A pod goes.
    PodGone(PodKey),
    /// We decide, and take room where the pod goes or have a node cleared for it.
    Schedule(PodKey, Clearing),
    /// We take room on a node of our choice.
    Assume(PodKey, &'static str),
    /// The binding failed.
    Forget(PodKey),
    /// The binding was carried out.
    Confirm(PodKey),
    /// A node is kept for the pod, or no longer.
    Nominate(PodKey, Option<&'static str>),
    /// Anything else comes or changes.
    Object(Object),
    /// Anything else goes.
    ObjectGone(Object),
    /// All is compared with a state built from scratch.
    Compare,
}

/// How victims leave.
#[derive(Debug, Clone, Copy)]
pub enum Clearing {
    /// They are gone at once.
    AtOnce,
    /// They are seen to be on their way out.
    Graceful,
}

pub fn any_event() -> impl Strategy<Value = Event> {
    let node = || one_of(&NODES);
    let clearing = prop_oneof![Just(Clearing::AtOnce), Just(Clearing::Graceful)];
    let pod = || any_pod().prop_map(Box::new);
    prop_oneof![
        8 => (node(), any_node()).prop_map(|(name, recipe)| Event::Node(name, recipe)),
        1 => node().prop_map(Event::UnreadableNode),
        3 => node().prop_map(Event::NodeGone),
        14 => (any_pod_key(), pod()).prop_map(|(key, recipe)| Event::Pod(key, recipe)),
        1 => (any_pod_key(), pod()).prop_map(|(key, recipe)| Event::UnreadablePod(key, recipe)),
        2 => (any_pod_key(), pod()).prop_map(|(key, recipe)| Event::PodEnded(key, recipe)),
        4 => any_pod_key().prop_map(Event::PodGone),
        10 => (any_pod_key(), clearing).prop_map(|(key, clearing)| Event::Schedule(key, clearing)),
        3 => (any_pod_key(), node()).prop_map(|(key, node)| Event::Assume(key, node)),
        3 => any_pod_key().prop_map(Event::Forget),
        3 => any_pod_key().prop_map(Event::Confirm),
        2 => (any_pod_key(), prop::option::of(node())).prop_map(|(key, node)| Event::Nominate(key, node)),
        12 => any_object().prop_map(Event::Object),
        4 => any_object().prop_map(Event::ObjectGone),
        1 => Just(Event::Compare),
    ]
}
