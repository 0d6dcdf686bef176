//! What the plugins say about pods in the queue, and which of them an event concerns.

use super::events::{ActionType, Event, EventResource, Registration};
use super::registrations::{EXTENDER_EVENTS, events_to_register};
use crate::config::{PluginName, PluginSet};

/// Whether an event might help a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// It might: try the pod again.
    Queue,
    /// It cannot.
    Skip,
}

/// What the plugins know about pods in the queue.
pub trait Hints<K, O> {
    /// Whether `event` might help `pod`, which `plugin` rejected. Asked only for events that the plugin
    /// registered for with a hint. Answer [`Hint::Queue`] when in doubt, or the pod is stuck.
    fn hint(&self, plugin: PluginName, pod: K, event: &Event<O>) -> Hint;

    /// The plugin that keeps `pod` from being tried, if any. `first` kept it before and should be asked first.
    fn pre_enqueue(&self, pod: K, first: Option<PluginName>) -> Option<PluginName> {
        let _ = (pod, first);
        None
    }

    /// The events that `plugin` wants to hear of.
    fn registered(&self, plugin: PluginName) -> &[Registration] {
        events_to_register(plugin)
    }
}

/// The plugins that an event concerns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Interest {
    /// Those that look at it first.
    pub asked: PluginSet,
    /// Those whose pods it always moves.
    pub always: PluginSet,
    /// Whether it moves pods that an extender rejected.
    pub extender: bool,
}

impl Interest {
    /// Who is concerned by `event`.
    pub fn of<K, O>(event: &Event<O>, hints: &impl Hints<K, O>) -> Self {
        let mut interest = Self::default();
        if event.is_wildcard() {
            return interest;
        }
        for plugin in PluginName::ALL {
            let registered = hints.registered(plugin);
            for registration in registered.iter().filter(|registration| registration.matches(event)) {
                if registration.has_hint { interest.asked.insert(plugin) } else { interest.always.insert(plugin) }
            }
            if event.resource == EventResource::Node
                && event.action == ActionType::UPDATE_NODE_TAINT
                && wants_taints_of_new_nodes(registered)
            {
                interest.always.insert(plugin);
            }
        }
        interest.extender = EXTENDER_EVENTS.iter().any(|registration| registration.matches(event));
        interest
    }

    pub fn plugins(self) -> PluginSet {
        self.asked.union(self.always)
    }

    pub fn is_empty(self) -> bool {
        self.plugins().is_empty() && !self.extender
    }
}

/// Kubernetes registers changes of taints for every plugin that hears of new nodes and not of taints: a new
/// node is often tainted until it is ready, and only without the taint is it of use.
fn wants_taints_of_new_nodes(registered: &[Registration]) -> bool {
    let mut of_nodes = registered.iter().filter(|registration| registration.resource == EventResource::Node);
    let intersects = |registration: &Registration, action| registration.action.intersects(action);
    of_nodes.clone().any(|registration| intersects(registration, ActionType::ADD))
        && !of_nodes.any(|registration| intersects(registration, ActionType::UPDATE_NODE_TAINT))
}
