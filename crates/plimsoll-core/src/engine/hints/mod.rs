//! Queueing hints: whether a change might help a pod that a plugin refused. Each function gives the verdict of the
//! plugin's own hint in Kubernetes, from the compiled objects.

mod devices;
mod inter_pod_affinity;
mod nodes;
mod pod_topology_spread;
mod resources;
#[cfg(test)]
mod tests;
mod volumes;

use super::QueueKey;
use super::change::Changed;
use crate::config::{DefaultingType, PluginName, Profile};
use crate::model::{LabelSet, NodeAffinity, PodShape, SpreadConstraint, Sym};
use crate::queue::{Event, Hint, Hints};
use crate::state::{ClusterState, Pod};
use rustc_hash::FxHashMap;

/// What the hints of a profile's plugins need of its configuration.
#[derive(Debug)]
pub(super) struct ProfileHints {
    pub name: Sym,
    /// The node affinity that the administrator adds to every pod.
    added_affinity: Option<NodeAffinity>,
    /// Spread constraints of pods that have none, as far as they refuse nodes.
    default_spread: Vec<SpreadConstraint>,
    pre_enqueue: Vec<PluginName>,
}

impl ProfileHints {
    pub fn new(profile: &Profile, state: &mut ClusterState) -> Self {
        let added = profile.args.node_affinity.added_affinity.as_ref();
        let spread = &profile.args.pod_topology_spread;
        // The built-in defaults only rank.
        let listed = if spread.defaulting_type == DefaultingType::List { &*spread.default_constraints } else { &[] };
        let compile = |constraint| SpreadConstraint::compile(constraint, &LabelSet::default(), &mut state.strings).ok();
        let default_spread = listed.iter().filter_map(compile).filter(|constraint| constraint.hard).collect();
        Self {
            name: state.strings.intern(&profile.scheduler_name),
            added_affinity: added.map(|affinity| NodeAffinity::compile(None, Some(affinity), &mut state.strings)),
            default_spread,
            pre_enqueue: profile.plugins.pre_enqueue.clone(),
        }
    }
}

/// The pods whose removal was asked for, by UID, for each pod that they make room for.
pub(super) type Victims = FxHashMap<QueueKey, Vec<Box<str>>>;

/// The plugins, as the queue asks them.
pub(super) struct PluginHints<'a> {
    pub state: &'a ClusterState,
    pub profiles: &'a [ProfileHints],
    pub victims: &'a Victims,
}

/// A pod in the queue and all that a hint may look at.
struct Waiting<'a> {
    state: &'a ClusterState,
    profile: Option<&'a ProfileHints>,
    key: QueueKey,
    pod: &'a Pod,
    shape: &'a PodShape,
}

impl<'a> PluginHints<'a> {
    fn waiting(&self, key: QueueKey) -> Option<Waiting<'a>> {
        let state = self.state;
        let pod = state.pod(key.pod)?;
        let shape = &*state.shape_of(pod).shape;
        let profile = self.profiles.iter().find(|profile| profile.name == shape.scheduler_name);
        Some(Waiting { state, profile, key, pod, shape })
    }

    /// Whether pods that make room for this one are still to be removed.
    fn is_preempting(&self, key: QueueKey) -> bool {
        let stays = |uid: &str| {
            let pod = self.state.pod_id(uid).and_then(|id| self.state.pod(id));
            pod.is_some_and(|pod| !pod.terminating)
        };
        self.victims.get(&key).is_some_and(|victims| victims.iter().any(|uid| stays(uid)))
    }
}

impl Hints<QueueKey, Changed> for PluginHints<'_> {
    fn hint(&self, plugin: PluginName, key: QueueKey, event: &Event<Changed>) -> Hint {
        let Some(waiting) = self.waiting(key) else { return Hint::Skip };
        if may_help(plugin, &waiting, &event.object) { Hint::Queue } else { Hint::Skip }
    }

    fn pre_enqueue(&self, key: QueueKey, first: Option<PluginName>) -> Option<PluginName> {
        let waiting = self.waiting(key)?;
        let keeps = |plugin: &PluginName| match plugin {
            PluginName::SchedulingGates => !waiting.shape.gates.is_empty(),
            PluginName::DynamicResources => devices::lacks_claims(&waiting),
            PluginName::DefaultPreemption => self.is_preempting(key),
            _ => false,
        };
        let enabled = waiting.profile.map(|profile| profile.pre_enqueue.as_slice()).unwrap_or_default();
        let first = first.filter(|plugin| enabled.contains(plugin));
        first.into_iter().chain(enabled.iter().copied()).find(|plugin| keeps(plugin))
    }
}

/// The verdict of a plugin. An event it did not register for never comes here; it would be in doubt, so it helps.
fn may_help(plugin: PluginName, waiting: &Waiting<'_>, changed: &Changed) -> bool {
    use PluginName as P;
    match (plugin, changed) {
        // What makes room for the pod also concerns the plugin that had refused it: that one decides.
        (P::DefaultPreemption, _) => false,
        (P::NodeResourcesFit, Changed::Node(node)) => resources::after_node_change(waiting, node),
        (P::NodeResourcesFit, Changed::Pod { old, new }) => {
            resources::after_pod_event(waiting, old.as_ref(), new.as_ref())
        }
        (P::NodeResourcesFit, Changed::DeviceClass(class)) => resources::after_class_event(waiting, class),
        (P::NodeAffinity, Changed::Node(node)) => nodes::affinity_after_node_change(waiting, node),
        (P::NodeUnschedulable, Changed::Node(node)) => nodes::unschedulable_after_node_change(node),
        (P::NodeUnschedulable, Changed::Pod { new, .. }) => {
            nodes::unschedulable_after_toleration(waiting, new.as_ref())
        }
        (P::TaintToleration, Changed::Node(node)) => nodes::taints_after_node_change(waiting, node),
        (P::TaintToleration | P::SchedulingGates, Changed::Pod { new, .. }) => waiting.is(new.as_ref()),
        (P::NodeDeclaredFeatures, Changed::Node(node)) => nodes::features_after_node_change(node),
        (P::NodeDeclaredFeatures, Changed::Pod { old, new }) => {
            nodes::features_after_pod_update(waiting, old.as_ref(), new.as_ref())
        }
        (P::NodePorts, Changed::Pod { old: Some(deleted), .. }) => nodes::ports_after_pod_deleted(waiting, deleted),
        (P::PodTopologySpread, Changed::Node(node)) => pod_topology_spread::after_node_change(waiting, node),
        (P::PodTopologySpread, Changed::Pod { old, new }) => {
            pod_topology_spread::after_pod_change(waiting, old.as_ref(), new.as_ref())
        }
        (P::InterPodAffinity, Changed::Node(node)) => inter_pod_affinity::after_node_change(waiting, node),
        (P::InterPodAffinity, Changed::Pod { old, new }) => {
            inter_pod_affinity::after_pod_change(waiting, old.as_ref(), new.as_ref())
        }
        (P::DynamicResources, Changed::ResourceClaim(claim)) => devices::after_claim_change(waiting, claim),
        (P::DynamicResources, Changed::Pod { new, .. }) => devices::after_pod_change(waiting, new.as_ref()),
        (P::VolumeRestrictions | P::NodeVolumeLimits | P::VolumeBinding | P::VolumeZone, _) => {
            volumes::may_help(plugin, waiting, changed)
        }
        _ => true,
    }
}

impl Waiting<'_> {
    /// Whether the pod that changed is the one that waits.
    fn is(&self, changed: Option<&super::change::PodView>) -> bool {
        changed.is_some_and(|changed| changed.key == Some(self.key))
    }
}
