//! What can happen to a cluster.

use super::objects::{Object, any_object};
use super::universe::{NODES, NodeRecipe, PodKey, Told, any_node, any_pod_key, any_told, one_of};
use proptest::prelude::*;

/// How many templates pods are made from: few, so that pods share what is counted and remembered.
pub const TEMPLATES: usize = 5;

/// A template, by its place in the list of the case.
pub type Template = usize;

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
    Pod(PodKey, Template, Told),
    /// News of a pod that cannot be read.
    UnreadablePod(PodKey, Template, Told),
    /// A pod has run to its end.
    PodEnded(PodKey, Template, Told),
    /// A pod goes.
    PodGone(PodKey),
    /// We decide, and take room where the pod goes or have a node cleared for it.
    Schedule(PodKey, Clearing),
    /// We take room on a node of our choice.
    Assume(PodKey, &'static str),
    /// We give the room back.
    Forget(PodKey),
    /// We take all that the pod needs on a node: room, volumes and devices. The binding then fails, sooner or later.
    Reserve(PodKey, &'static str),
    /// The bindings under way fail.
    BindingsFail,
    /// The binding was carried out.
    Confirm(PodKey),
    /// A node is kept for the pod, or no longer.
    Nominate(PodKey, Option<&'static str>),
    /// Anything else comes or changes.
    Object(Object),
    /// Anything else goes.
    ObjectGone(Object),
    /// We decide about a pod that goes away at once, so that its template is remembered.
    Look(Template),
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
    let pod = || (any_pod_key(), 0..TEMPLATES, any_told());
    prop_oneof![
        6 => (node(), any_node()).prop_map(|(name, recipe)| Event::Node(name, recipe)),
        1 => node().prop_map(Event::UnreadableNode),
        2 => node().prop_map(Event::NodeGone),
        16 => pod().prop_map(|(key, template, told)| Event::Pod(key, template, told)),
        1 => pod().prop_map(|(key, template, told)| Event::UnreadablePod(key, template, told)),
        2 => pod().prop_map(|(key, template, told)| Event::PodEnded(key, template, told)),
        5 => any_pod_key().prop_map(Event::PodGone),
        10 => (any_pod_key(), clearing).prop_map(|(key, clearing)| Event::Schedule(key, clearing)),
        3 => (any_pod_key(), node()).prop_map(|(key, node)| Event::Assume(key, node)),
        3 => any_pod_key().prop_map(Event::Forget),
        4 => (any_pod_key(), node()).prop_map(|(key, node)| Event::Reserve(key, node)),
        2 => Just(Event::BindingsFail),
        3 => any_pod_key().prop_map(Event::Confirm),
        2 => (any_pod_key(), prop::option::of(node())).prop_map(|(key, node)| Event::Nominate(key, node)),
        8 => any_object().prop_map(Event::Object),
        3 => any_object().prop_map(Event::ObjectGone),
        8 => (0..TEMPLATES).prop_map(Event::Look),
        2 => Just(Event::Compare),
    ]
}

/// A cluster to begin with: most nodes, and a few of everything else.
pub fn any_beginning() -> impl Strategy<Value = Vec<Event>> {
    let nodes = prop::collection::vec(any_node(), 2..=NODES.len());
    let objects = prop::collection::vec(any_object(), 0..30);
    (nodes, objects).prop_map(|(nodes, objects)| {
        let nodes = NODES.into_iter().zip(nodes).map(|(name, recipe)| Event::Node(name, recipe));
        nodes.chain(objects.into_iter().map(Event::Object)).collect()
    })
}
