//! Builds the rules of a profile from its configuration.

use super::dynamic_resources::DynamicResources;
use super::image_locality::ImageLocality;
use super::inter_pod_affinity::InterPodAffinity;
use super::node_affinity::NodeAffinity;
use super::node_declared_features::NodeDeclaredFeatures;
use super::node_name::NodeName;
use super::node_ports::NodePorts;
use super::node_resources_balanced_allocation::NodeResourcesBalancedAllocation;
use super::node_resources_fit::NodeResourcesFit;
use super::node_unschedulable::NodeUnschedulable;
use super::node_volume_limits::NodeVolumeLimits;
use super::pod_topology_spread::PodTopologySpread;
use super::taint_toleration::TaintToleration;
use super::volume_binding::VolumeBinding;
use super::volume_restrictions::VolumeRestrictions;
use super::volume_zone::VolumeZone;
use crate::config::{PluginArgs, PluginName, Profile};
use crate::framework::Plugin;
use crate::rules::Rules;
use crate::state::ClusterState;

/// The rules a profile enables, in its order.
pub fn build(profile: &Profile, state: &mut ClusterState) -> Rules {
    let mut rules = Rules::default();
    let mut place = |name: PluginName, rules: &mut Rules| -> Option<usize> {
        if let Some(at) = rules.plugins.iter().position(|plugin| plugin.name() == name) {
            return Some(at);
        }
        rules.plugins.push(make(name, &profile.args, state)?);
        Some(rules.plugins.len() - 1)
    };
    let enabled = &profile.plugins;
    rules.pre_filter = enabled.pre_filter.iter().filter_map(|name| place(*name, &mut rules)).collect();
    rules.filter = enabled.filter.iter().filter_map(|name| place(*name, &mut rules)).collect();
    rules.pre_score = enabled.pre_score.iter().filter_map(|name| place(*name, &mut rules)).collect();
    rules.score = enabled
        .score
        .iter()
        .filter_map(|scored| Some((place(scored.plugin, &mut rules)?, i64::from(scored.weight))))
        .collect();
    rules
}

/// A plugin that filters or scores; the others take part elsewhere.
fn make(name: PluginName, args: &PluginArgs, state: &mut ClusterState) -> Option<Box<dyn Plugin>> {
    Some(match name {
        PluginName::DynamicResources => Box::new(DynamicResources::new(&args.dynamic_resources)),
        PluginName::ImageLocality => Box::new(ImageLocality),
        PluginName::InterPodAffinity => Box::new(InterPodAffinity::new(&args.inter_pod_affinity)),
        PluginName::NodeAffinity => Box::new(NodeAffinity::new(&args.node_affinity, state)),
        PluginName::NodeDeclaredFeatures => Box::new(NodeDeclaredFeatures),
        PluginName::NodeName => Box::new(NodeName),
        PluginName::NodePorts => Box::new(NodePorts),
        PluginName::NodeResourcesBalancedAllocation => {
            Box::new(NodeResourcesBalancedAllocation::new(&args.node_resources_balanced_allocation, state))
        }
        PluginName::NodeResourcesFit => Box::new(NodeResourcesFit::new(&args.node_resources_fit, state)),
        PluginName::NodeUnschedulable => Box::new(NodeUnschedulable),
        PluginName::NodeVolumeLimits => Box::new(NodeVolumeLimits::default()),
        PluginName::PodTopologySpread => Box::new(PodTopologySpread::new(&args.pod_topology_spread, state)),
        PluginName::TaintToleration => Box::new(TaintToleration),
        PluginName::VolumeBinding => Box::new(VolumeBinding::default()),
        PluginName::VolumeRestrictions => Box::new(VolumeRestrictions::default()),
        PluginName::VolumeZone => Box::new(VolumeZone::default()),
        PluginName::DefaultBinder
        | PluginName::DefaultPreemption
        | PluginName::GangScheduling
        | PluginName::PodGroupPodsCount
        | PluginName::PrioritySort
        | PluginName::SchedulingGates
        | PluginName::TopologyPlacementGenerator => return None,
    })
}
