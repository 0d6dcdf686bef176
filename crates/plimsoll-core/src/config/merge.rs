//! From the plugin sets a profile writes down to the plugins that run at each extension point.
//!
//! Kubernetes does this in two steps, and the order of plugins shows it. First the profile's `multiPoint`
//! set is merged into the default one. Then each extension point is filled: from its own set, and from the
//! merged `multiPoint` set with all plugins that implement the point. What an extension point says itself
//! comes before what `multiPoint` says, and what is enabled before what is disabled.

use super::error::{Path, Problems};
use super::plugin_name::{ExtensionPoint, PluginName, PluginSet};
use super::{EnabledPlugins, WeightedPlugin};

/// The plugins a profile has unless it says otherwise, in order, with their weights. Zero is no weight.
const DEFAULT_MULTI_POINT: [(PluginName, i32); 20] = [
    (PluginName::SchedulingGates, 0),
    (PluginName::PrioritySort, 0),
    (PluginName::NodeUnschedulable, 0),
    (PluginName::NodeName, 0),
    (PluginName::TaintToleration, 3),
    (PluginName::NodeAffinity, 2),
    (PluginName::NodePorts, 0),
    (PluginName::NodeResourcesFit, 1),
    (PluginName::VolumeRestrictions, 0),
    (PluginName::NodeVolumeLimits, 0),
    (PluginName::VolumeBinding, 0),
    (PluginName::VolumeZone, 0),
    (PluginName::PodTopologySpread, 2),
    (PluginName::InterPodAffinity, 2),
    // Before preemption: to free an idle claim is better than to evict a pod.
    (PluginName::DynamicResources, 2),
    (PluginName::DefaultPreemption, 0),
    (PluginName::NodeResourcesBalancedAllocation, 1),
    (PluginName::ImageLocality, 1),
    (PluginName::DefaultBinder, 0),
    (PluginName::NodeDeclaredFeatures, 0),
];

/// A plugin as a set enables it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Enabled {
    pub plugin: PluginName,
    /// Zero if there is none.
    pub weight: i32,
    /// Its place in the file's list.
    pub index: usize,
}

/// What a profile writes for one extension point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WrittenSet {
    pub enabled: Vec<Enabled>,
    pub disabled: PluginSet,
    /// Whether `*` is among the disabled.
    pub all_disabled: bool,
    /// The disabled names as written.
    pub disabled_names: Vec<String>,
}

/// What a profile writes in `plugins`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WrittenPlugins {
    pub multi_point: WrittenSet,
    /// By [`ExtensionPoint::ALL`].
    pub points: [WrittenSet; ExtensionPoint::ALL.len()],
}

impl WrittenPlugins {
    pub fn at(&self, point: ExtensionPoint) -> &WrittenSet {
        &self.points[point as usize]
    }
}

/// The plugins that run, with everything wrong with them reported. `path` is that of `plugins`.
pub(super) fn merge(written: &WrittenPlugins, path: &Path, problems: &Problems) -> EnabledPlugins {
    let multi_point = merge_multi_point(&written.multi_point);
    let at = |point| {
        check_written(written.at(point), point, path, problems);
        expand(written.at(point), &multi_point, point, path, problems)
    };
    let plugins = EnabledPlugins {
        pre_enqueue: at(ExtensionPoint::PreEnqueue),
        queue_sort: at(ExtensionPoint::QueueSort),
        pre_filter: at(ExtensionPoint::PreFilter),
        filter: at(ExtensionPoint::Filter),
        post_filter: at(ExtensionPoint::PostFilter),
        pre_score: at(ExtensionPoint::PreScore),
        score: Vec::new(),
        reserve: at(ExtensionPoint::Reserve),
        permit: at(ExtensionPoint::Permit),
        pre_bind: at(ExtensionPoint::PreBind),
        bind: at(ExtensionPoint::Bind),
        post_bind: at(ExtensionPoint::PostBind),
        placement_generate: at(ExtensionPoint::PlacementGenerate),
        placement_score: Vec::new(),
    };
    let weighted = |point| {
        let weights = weights(written.at(point), &multi_point, point, path, problems);
        let with_weight = |plugin| WeightedPlugin { plugin, weight: weights[plugin as usize] };
        at(point).into_iter().map(with_weight).collect()
    };
    let plugins = EnabledPlugins {
        score: weighted(ExtensionPoint::Score),
        placement_score: weighted(ExtensionPoint::PlacementScore),
        ..plugins
    };
    // A plugin that could not be read may be the one that is missing: say so only if all is well otherwise.
    if !problems.any_under(path) {
        if plugins.queue_sort.is_empty() {
            problems.add(path.field("queueSort"), "exactly one plugin is required; enable PrioritySort");
        }
        if plugins.bind.is_empty() {
            problems.add(path.field("bind"), "at least one plugin is required; enable DefaultBinder");
        }
    }
    plugins
}

/// The default set, changed in place where the profile configures one of its plugins again, followed by what
/// the profile adds.
fn merge_multi_point(written: &WrittenSet) -> Vec<Enabled> {
    let mut merged = Vec::new();
    let mut used = vec![false; written.enabled.len()];
    if !written.all_disabled {
        for (plugin, weight) in DEFAULT_MULTI_POINT {
            if written.disabled.contains(plugin) {
                continue;
            }
            // The last of several wins here; the others remain, to be reported as repetitions.
            match written.enabled.iter().rposition(|enabled| enabled.plugin == plugin) {
                Some(position) => {
                    used[position] = true;
                    merged.push(written.enabled[position]);
                }
                None => merged.push(Enabled { plugin, weight, index: 0 }),
            }
        }
    }
    merged.extend(written.enabled.iter().zip(used).filter(|(_, used)| !used).map(|(enabled, _)| *enabled));
    merged
}

/// Reports plugins that an extension point enables twice, or that do not implement it.
fn check_written(written: &WrittenSet, point: ExtensionPoint, path: &Path, problems: &Problems) {
    let mut seen = PluginSet::EMPTY;
    for enabled in &written.enabled {
        let plugin = enabled.plugin;
        let here = || path.field(point.as_str()).field("enabled").index(enabled.index).field("name");
        if !plugin.implements(point) {
            let implemented: Vec<_> = plugin.extension_points().iter().map(|point| point.as_str()).collect();
            let message = format!("{plugin} does not implement {point}; it implements: {}", implemented.join(", "));
            problems.add(here(), message);
        } else if seen.contains(plugin) {
            problems.add(here(), format!("{plugin} is enabled more than once"));
        }
        seen.insert(plugin);
    }
}

/// The plugins of one extension point, in order: those of its own set that `multiPoint` has as well, then
/// the rest of `multiPoint`, then the rest of its own set.
fn expand(
    written: &WrittenSet,
    multi_point: &[Enabled],
    point: ExtensionPoint,
    path: &Path,
    problems: &Problems,
) -> Vec<PluginName> {
    let own: Vec<PluginName> = written.enabled.iter().map(|enabled| enabled.plugin).collect();
    if written.all_disabled {
        return own;
    }
    let own_set: PluginSet = own.iter().copied().collect();
    let mut overridden = PluginSet::EMPTY;
    let mut from_multi_point: Vec<PluginName> = Vec::new();
    for enabled in multi_point {
        let plugin = enabled.plugin;
        if !plugin.implements(point) || written.disabled.contains(plugin) {
            continue;
        }
        if own_set.contains(plugin) {
            overridden.insert(plugin);
        } else if from_multi_point.contains(&plugin) {
            let here = path.field("multiPoint").field("enabled").index(enabled.index).field("name");
            // Once is enough, although it repeats at every extension point.
            if !problems.any_under(&here) {
                problems.add(here, format!("{plugin} is enabled more than once"));
            }
        } else {
            from_multi_point.push(plugin);
        }
    }
    let (first, last): (Vec<_>, Vec<_>) = own.into_iter().partition(|plugin| overridden.contains(*plugin));
    first.into_iter().chain(from_multi_point).chain(last).collect()
}

/// The weight of every plugin of a scoring extension point; one without weight counts once.
fn weights(
    written: &WrittenSet,
    multi_point: &[Enabled],
    point: ExtensionPoint,
    path: &Path,
    problems: &Problems,
) -> [i32; PluginName::ALL.len()] {
    const MAX_SCORE: i64 = 100;
    let mut weights = [0; PluginName::ALL.len()];
    let mut total: i64 = 0;
    for enabled in written.enabled.iter().chain(multi_point) {
        let weight = &mut weights[enabled.plugin as usize];
        if !enabled.plugin.implements(point) || *weight != 0 {
            continue;
        }
        *weight = if enabled.weight == 0 { 1 } else { enabled.weight };
        let most = i64::from(*weight) * MAX_SCORE;
        // Weights of 32 bits never reach the limit, but after a negative one Kubernetes' own check wraps
        // around and refuses every positive weight that follows.
        if most > i64::MAX.wrapping_sub(total) {
            let message = format!(
                "the weights add up to a total score that overflows at {}; weights must be positive",
                enabled.plugin
            );
            problems.add(path.field(point.as_str()), message);
            break;
        }
        total = total.wrapping_add(most);
    }
    weights
}

/// Whether `plugin` is enabled by any set, even if every extension point then disables it.
pub(super) fn mentions(written: &WrittenPlugins, plugin: PluginName) -> bool {
    let multi_point = merge_multi_point(&written.multi_point);
    multi_point.iter().chain(written.points.iter().flat_map(|set| &set.enabled)).any(|enabled| enabled.plugin == plugin)
}
