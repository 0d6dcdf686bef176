//! The in-tree plugins of Kubernetes v1.36 and the extension points each of them implements.
//!
//! A plugin is named by a value, not by a string, everywhere behind the configuration file: a name that
//! does not exist cannot travel further than the reader.

use std::fmt;
use std::str::FromStr;

/// A point of the scheduling framework at which plugins are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExtensionPoint {
    /// Before a pod enters the active queue.
    PreEnqueue,
    /// The order of the active queue.
    QueueSort,
    /// Once for a pod, before its nodes are looked at.
    PreFilter,
    /// Once for each node.
    Filter,
    /// When no node is feasible.
    PostFilter,
    /// Once for a pod, before its feasible nodes are scored.
    PreScore,
    /// Once for each feasible node.
    Score,
    /// When a node was chosen.
    Reserve,
    /// Before binding, to delay or refuse it.
    Permit,
    /// Work that must precede the binding.
    PreBind,
    /// The binding.
    Bind,
    /// After the binding.
    PostBind,
    /// Candidate placements of a pod group.
    PlacementGenerate,
    /// The ranking of a pod group's placements.
    PlacementScore,
}

impl ExtensionPoint {
    /// Every extension point, in the order of the configuration's documentation.
    pub const ALL: [Self; 14] = [
        Self::PreEnqueue,
        Self::QueueSort,
        Self::PreFilter,
        Self::Filter,
        Self::PostFilter,
        Self::PreScore,
        Self::Score,
        Self::Reserve,
        Self::Permit,
        Self::PreBind,
        Self::Bind,
        Self::PostBind,
        Self::PlacementGenerate,
        Self::PlacementScore,
    ];

    /// The field of a profile's `plugins` that configures this point.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PreEnqueue => "preEnqueue",
            Self::QueueSort => "queueSort",
            Self::PreFilter => "preFilter",
            Self::Filter => "filter",
            Self::PostFilter => "postFilter",
            Self::PreScore => "preScore",
            Self::Score => "score",
            Self::Reserve => "reserve",
            Self::Permit => "permit",
            Self::PreBind => "preBind",
            Self::Bind => "bind",
            Self::PostBind => "postBind",
            Self::PlacementGenerate => "placementGenerate",
            Self::PlacementScore => "placementScore",
        }
    }
}

impl fmt::Display for ExtensionPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A plugin of the stock scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are those of Kubernetes and say all there is to say")]
pub enum PluginName {
    DefaultBinder,
    DefaultPreemption,
    DynamicResources,
    GangScheduling,
    ImageLocality,
    InterPodAffinity,
    NodeAffinity,
    NodeDeclaredFeatures,
    NodeName,
    NodePorts,
    NodeResourcesBalancedAllocation,
    NodeResourcesFit,
    NodeUnschedulable,
    NodeVolumeLimits,
    PodGroupPodsCount,
    PodTopologySpread,
    PrioritySort,
    SchedulingGates,
    TaintToleration,
    TopologyPlacementGenerator,
    VolumeBinding,
    VolumeRestrictions,
    VolumeZone,
}

impl PluginName {
    /// Whether nothing is made of it here: it belongs to a feature that is off by default.
    pub const fn is_unfollowed(self) -> bool {
        matches!(self, Self::GangScheduling | Self::PodGroupPodsCount | Self::TopologyPlacementGenerator)
    }

    /// Every plugin, in alphabetical order.
    pub const ALL: [Self; 23] = [
        Self::DefaultBinder,
        Self::DefaultPreemption,
        Self::DynamicResources,
        Self::GangScheduling,
        Self::ImageLocality,
        Self::InterPodAffinity,
        Self::NodeAffinity,
        Self::NodeDeclaredFeatures,
        Self::NodeName,
        Self::NodePorts,
        Self::NodeResourcesBalancedAllocation,
        Self::NodeResourcesFit,
        Self::NodeUnschedulable,
        Self::NodeVolumeLimits,
        Self::PodGroupPodsCount,
        Self::PodTopologySpread,
        Self::PrioritySort,
        Self::SchedulingGates,
        Self::TaintToleration,
        Self::TopologyPlacementGenerator,
        Self::VolumeBinding,
        Self::VolumeRestrictions,
        Self::VolumeZone,
    ];

    /// The name as Kubernetes writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DefaultBinder => "DefaultBinder",
            Self::DefaultPreemption => "DefaultPreemption",
            Self::DynamicResources => "DynamicResources",
            Self::GangScheduling => "GangScheduling",
            Self::ImageLocality => "ImageLocality",
            Self::InterPodAffinity => "InterPodAffinity",
            Self::NodeAffinity => "NodeAffinity",
            Self::NodeDeclaredFeatures => "NodeDeclaredFeatures",
            Self::NodeName => "NodeName",
            Self::NodePorts => "NodePorts",
            Self::NodeResourcesBalancedAllocation => "NodeResourcesBalancedAllocation",
            Self::NodeResourcesFit => "NodeResourcesFit",
            Self::NodeUnschedulable => "NodeUnschedulable",
            Self::NodeVolumeLimits => "NodeVolumeLimits",
            Self::PodGroupPodsCount => "PodGroupPodsCount",
            Self::PodTopologySpread => "PodTopologySpread",
            Self::PrioritySort => "PrioritySort",
            Self::SchedulingGates => "SchedulingGates",
            Self::TaintToleration => "TaintToleration",
            Self::TopologyPlacementGenerator => "TopologyPlacementGenerator",
            Self::VolumeBinding => "VolumeBinding",
            Self::VolumeRestrictions => "VolumeRestrictions",
            Self::VolumeZone => "VolumeZone",
        }
    }

    /// The extension points this plugin implements, in the order of [`ExtensionPoint::ALL`].
    pub const fn extension_points(self) -> &'static [ExtensionPoint] {
        use ExtensionPoint::*;
        match self {
            Self::DefaultBinder => &[Bind],
            Self::DefaultPreemption => &[PreEnqueue, PostFilter],
            Self::DynamicResources => &[PreEnqueue, PreFilter, Filter, PostFilter, Score, Reserve, PreBind],
            Self::GangScheduling => &[PreEnqueue, Permit],
            Self::ImageLocality => &[Score],
            Self::InterPodAffinity | Self::NodeAffinity | Self::PodTopologySpread => {
                &[PreFilter, Filter, PreScore, Score]
            }
            Self::NodeDeclaredFeatures
            | Self::NodePorts
            | Self::NodeVolumeLimits
            | Self::VolumeRestrictions
            | Self::VolumeZone => &[PreFilter, Filter],
            Self::NodeName | Self::NodeUnschedulable => &[Filter],
            Self::NodeResourcesBalancedAllocation => &[PreScore, Score],
            Self::NodeResourcesFit => &[PreFilter, Filter, PreScore, Score, PlacementScore],
            Self::PodGroupPodsCount => &[PlacementScore],
            Self::PrioritySort => &[QueueSort],
            Self::SchedulingGates => &[PreEnqueue],
            Self::TaintToleration => &[Filter, PreScore, Score],
            Self::TopologyPlacementGenerator => &[PlacementGenerate],
            Self::VolumeBinding => &[PreFilter, Filter, PreScore, Score, Reserve, PreBind],
        }
    }

    /// Whether this plugin implements `point`.
    pub fn implements(self, point: ExtensionPoint) -> bool {
        self.extension_points().contains(&point)
    }

    /// Whether this plugin takes arguments in `pluginConfig`.
    pub const fn has_args(self) -> bool {
        matches!(
            self,
            Self::DefaultPreemption
                | Self::DynamicResources
                | Self::InterPodAffinity
                | Self::NodeAffinity
                | Self::NodeResourcesBalancedAllocation
                | Self::NodeResourcesFit
                | Self::PodTopologySpread
                | Self::VolumeBinding
        )
    }
}

impl fmt::Display for PluginName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A name that is not one of [`PluginName::ALL`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown plugin {0:?}")]
pub struct UnknownPlugin(pub String);

impl FromStr for PluginName {
    type Err = UnknownPlugin;

    fn from_str(name: &str) -> Result<Self, UnknownPlugin> {
        Self::ALL.into_iter().find(|plugin| plugin.as_str() == name).ok_or_else(|| UnknownPlugin(name.to_owned()))
    }
}

/// A set of plugins, as small as a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PluginSet(u32);

impl PluginSet {
    /// The set without members.
    pub const EMPTY: Self = Self(0);

    const fn bit(plugin: PluginName) -> u32 {
        1 << plugin as u8
    }

    /// Adds `plugin`.
    pub const fn insert(&mut self, plugin: PluginName) {
        self.0 |= Self::bit(plugin);
    }

    /// Removes `plugin`.
    pub const fn remove(&mut self, plugin: PluginName) {
        self.0 &= !Self::bit(plugin);
    }

    /// Whether `plugin` is a member.
    pub const fn contains(self, plugin: PluginName) -> bool {
        self.0 & Self::bit(plugin) != 0
    }

    /// The members of either set.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The members of both sets.
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether there is no member.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The members, in alphabetical order.
    pub fn iter(self) -> impl Iterator<Item = PluginName> {
        PluginName::ALL.into_iter().filter(move |&plugin| self.contains(plugin))
    }
}

impl FromIterator<PluginName> for PluginSet {
    fn from_iter<I: IntoIterator<Item = PluginName>>(plugins: I) -> Self {
        let mut set = Self::EMPTY;
        for plugin in plugins {
            set.insert(plugin);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_parses_back_to_its_plugin() {
        for plugin in PluginName::ALL {
            assert_eq!(plugin.as_str().parse(), Ok(plugin));
        }
        assert_eq!("nodename".parse::<PluginName>(), Err(UnknownPlugin("nodename".into())));
    }

    #[test]
    fn all_is_sorted_and_indexes_the_set() {
        assert!(PluginName::ALL.is_sorted_by_key(|plugin| plugin.as_str()));
        for (index, plugin) in PluginName::ALL.into_iter().enumerate() {
            assert_eq!(plugin as usize, index, "{plugin}");
            let mut set: PluginSet = PluginName::ALL.into_iter().collect();
            set.remove(plugin);
            assert!(!set.contains(plugin));
            assert_eq!(set.iter().count(), PluginName::ALL.len() - 1);
        }
    }

    #[test]
    fn extension_points_are_listed_in_order() {
        for plugin in PluginName::ALL {
            assert!(plugin.extension_points().is_sorted(), "{plugin}");
        }
    }
}
