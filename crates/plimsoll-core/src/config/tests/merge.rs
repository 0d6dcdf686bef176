//! Which plugins run where, in which order and with which weight.

use super::profile;
use crate::config::{EnabledPlugins, ExtensionPoint, PluginName, Profile, WeightedPlugin};

const DEFAULT_SCORE: &str = "TaintToleration=3 NodeAffinity=2 NodeResourcesFit=1 VolumeBinding=1 PodTopologySpread=2 \
    InterPodAffinity=2 DynamicResources=2 NodeResourcesBalancedAllocation=1 ImageLocality=1";
const DEFAULT_FILTER: &str = "NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts NodeResourcesFit \
    VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread InterPodAffinity DynamicResources \
    NodeDeclaredFeatures";

fn names(plugins: &[PluginName]) -> String {
    plugins.iter().map(|plugin| plugin.as_str()).collect::<Vec<_>>().join(" ")
}

fn weighted(plugins: &[WeightedPlugin]) -> String {
    let one = |weighted: &WeightedPlugin| format!("{}={}", weighted.plugin, weighted.weight);
    plugins.iter().map(one).collect::<Vec<_>>().join(" ")
}

fn at(plugins: &EnabledPlugins, point: ExtensionPoint) -> String {
    match point {
        ExtensionPoint::Score => weighted(&plugins.score),
        ExtensionPoint::PlacementScore => weighted(&plugins.placement_score),
        _ => names(&plugins.at(point)),
    }
}

#[test]
fn the_default_profile_is_that_of_kube_scheduler() {
    let plugins = Profile::default().plugins;
    for (point, expected) in [
        (ExtensionPoint::PreEnqueue, "SchedulingGates DynamicResources DefaultPreemption"),
        (ExtensionPoint::QueueSort, "PrioritySort"),
        (
            ExtensionPoint::PreFilter,
            "NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone \
             PodTopologySpread InterPodAffinity DynamicResources NodeDeclaredFeatures",
        ),
        (ExtensionPoint::Filter, DEFAULT_FILTER),
        (ExtensionPoint::PostFilter, "DynamicResources DefaultPreemption"),
        (
            ExtensionPoint::PreScore,
            "TaintToleration NodeAffinity NodeResourcesFit VolumeBinding PodTopologySpread InterPodAffinity \
             NodeResourcesBalancedAllocation",
        ),
        (ExtensionPoint::Score, DEFAULT_SCORE),
        (ExtensionPoint::Reserve, "VolumeBinding DynamicResources"),
        (ExtensionPoint::Permit, ""),
        (ExtensionPoint::PreBind, "VolumeBinding DynamicResources"),
        (ExtensionPoint::Bind, "DefaultBinder"),
        (ExtensionPoint::PostBind, ""),
        (ExtensionPoint::PlacementGenerate, ""),
        (ExtensionPoint::PlacementScore, "NodeResourcesFit=1"),
    ] {
        assert_eq!(at(&plugins, point), expected, "{point}");
    }
    let gate_off = [PluginName::GangScheduling, PluginName::PodGroupPodsCount, PluginName::TopologyPlacementGenerator];
    let off = PluginName::ALL.into_iter().filter(|plugin| !plugins.all().contains(*plugin));
    assert_eq!(off.collect::<Vec<_>>(), gate_off, "only plugins whose feature gate is off do not run");
}

#[test]
fn a_profile_that_says_nothing_is_the_default_profile() {
    for body in ["", "plugins: {}", "plugins:\n  score: {}", "plugins:\n  multiPoint: {enabled: [], disabled: null}"] {
        assert_eq!(profile(body), Profile::default(), "{body:?}");
    }
}

#[test]
fn sets_merge_as_in_kube_scheduler() {
    use ExtensionPoint::*;
    for (behaviour, plugins, point, expected) in [
        (
            "a plugin disabled by multiPoint runs nowhere",
            "multiPoint: {disabled: [{name: TaintToleration}]}",
            Score,
            "NodeAffinity=2 NodeResourcesFit=1 VolumeBinding=1 PodTopologySpread=2 InterPodAffinity=2 \
             DynamicResources=2 NodeResourcesBalancedAllocation=1 ImageLocality=1",
        ),
        (
            "a plugin disabled at one point still runs at the others",
            "score: {disabled: [{name: TaintToleration}]}",
            Filter,
            DEFAULT_FILTER,
        ),
        (
            "* at one point leaves only what that point enables, in its order",
            "score: {disabled: [{name: '*'}], enabled: [{name: ImageLocality, weight: 7}, {name: NodeAffinity}]}",
            Score,
            "ImageLocality=7 NodeAffinity=1",
        ),
        (
            "* in multiPoint leaves only what is enabled somewhere",
            "multiPoint:\n  disabled: [{name: '*'}]\n  enabled: [{name: DefaultBinder}, {name: NodeName}, \
             {name: PrioritySort}]\nfilter: {enabled: [{name: NodePorts}]}",
            Filter,
            "NodeName NodePorts",
        ),
        (
            "a default plugin that multiPoint configures again keeps its place and takes the weight",
            "multiPoint: {enabled: [{name: ImageLocality}, {name: NodeAffinity, weight: 9}]}",
            Score,
            "TaintToleration=3 NodeAffinity=9 NodeResourcesFit=1 VolumeBinding=1 PodTopologySpread=2 \
             InterPodAffinity=2 DynamicResources=2 NodeResourcesBalancedAllocation=1 ImageLocality=1",
        ),
        (
            "a default plugin configured again without weight counts once",
            "multiPoint: {enabled: [{name: TaintToleration}]}",
            Score,
            "TaintToleration=1 NodeAffinity=2 NodeResourcesFit=1 VolumeBinding=1 PodTopologySpread=2 \
             InterPodAffinity=2 DynamicResources=2 NodeResourcesBalancedAllocation=1 ImageLocality=1",
        ),
        (
            "enabled wins over disabled in multiPoint, but the plugin moves to the end",
            "multiPoint: {enabled: [{name: NodeName}], disabled: [{name: NodeName}]}",
            Filter,
            "NodeUnschedulable TaintToleration NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions \
             NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread InterPodAffinity DynamicResources \
             NodeDeclaredFeatures NodeName",
        ),
        (
            "a point that enables default plugins again puts them first, in its own order, with its weights",
            "score: {enabled: [{name: ImageLocality, weight: 5}, {name: TaintToleration, weight: 4}]}",
            Score,
            "ImageLocality=5 TaintToleration=4 NodeAffinity=2 NodeResourcesFit=1 VolumeBinding=1 PodTopologySpread=2 \
             InterPodAffinity=2 DynamicResources=2 NodeResourcesBalancedAllocation=1",
        ),
        (
            "a point that disables and enables a plugin puts it last",
            "score: {disabled: [{name: TaintToleration}], enabled: [{name: TaintToleration, weight: 6}]}",
            Score,
            "NodeAffinity=2 NodeResourcesFit=1 VolumeBinding=1 PodTopologySpread=2 InterPodAffinity=2 \
             DynamicResources=2 NodeResourcesBalancedAllocation=1 ImageLocality=1 TaintToleration=6",
        ),
        (
            "a point that enables a plugin again without weight takes the weight of 1, not that of multiPoint",
            "score: {enabled: [{name: TaintToleration}]}",
            Score,
            "TaintToleration=1 NodeAffinity=2 NodeResourcesFit=1 VolumeBinding=1 PodTopologySpread=2 \
             InterPodAffinity=2 DynamicResources=2 NodeResourcesBalancedAllocation=1 ImageLocality=1",
        ),
        (
            "a plugin outside the defaults comes last at its points",
            "multiPoint: {enabled: [{name: GangScheduling}]}",
            PreEnqueue,
            "SchedulingGates DynamicResources DefaultPreemption GangScheduling",
        ),
        (
            "a plugin disabled by multiPoint may still run where a point enables it",
            "multiPoint: {disabled: [{name: NodeResourcesFit}]}\nfilter: {enabled: [{name: NodeResourcesFit}]}",
            Filter,
            "NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts VolumeRestrictions NodeVolumeLimits \
             VolumeBinding VolumeZone PodTopologySpread InterPodAffinity DynamicResources NodeDeclaredFeatures \
             NodeResourcesFit",
        ),
        (
            "weights of score hold for placementScore only if given there",
            "score: {enabled: [{name: NodeResourcesFit, weight: 8}]}",
            PlacementScore,
            "NodeResourcesFit=1",
        ),
        (
            "the last of several weights may be negative",
            "score: {disabled: [{name: '*'}], enabled: [{name: ImageLocality}]}\nmultiPoint:\n  disabled: \
             [{name: '*'}]\n  enabled: [{name: PrioritySort}, {name: DefaultBinder}, \
             {name: NodeAffinity, weight: -1}]",
            Score,
            "ImageLocality=1",
        ),
        (
            "plugins that are gone may be disabled",
            "filter: {disabled: [{name: EBSLimits}, {name: NodeName, weight: 3}]}",
            Filter,
            "NodeUnschedulable TaintToleration NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions \
             NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread InterPodAffinity DynamicResources \
             NodeDeclaredFeatures",
        ),
        (
            "a repetition in multiPoint is no error where every point overrides it",
            "multiPoint: {enabled: [{name: DefaultBinder}, {name: DefaultBinder}]}\nbind: {enabled: \
             [{name: DefaultBinder}]}",
            Bind,
            "DefaultBinder",
        ),
    ] {
        let indented: String = plugins.lines().map(|line| format!("  {line}\n")).collect();
        let profile = profile(&format!("plugins:\n{indented}"));
        assert_eq!(at(&profile.plugins, point), expected, "{behaviour}");
    }
}
