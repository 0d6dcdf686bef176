//! Reads, defaults and checks the arguments of plugins.

use std::time::Duration;

use k8s_openapi::api::core::v1::{
    NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PreferredSchedulingTerm,
    TopologySpreadConstraint,
};

use super::API_VERSION;
use super::args::*;
use super::decode::{Object, object};
use super::document::{Node, Value};
use super::error::{Path, Problems, not_one_of};
use super::names::{label_key_problem, label_value_problem};
use super::plugin_name::PluginName;

/// Reads the arguments of `plugin` into `args`.
pub(super) fn read(plugin: PluginName, node: &Node, path: Path, problems: &Problems, args: &mut PluginArgs) {
    if !plugin.has_args() {
        match &node.value {
            Value::Null => {}
            Value::Object(entries) if entries.is_empty() => {}
            _ => problems.add(path, format!("{plugin} takes no arguments")),
        }
        return;
    }
    object(node, path, problems, |o| {
        if let Some(version) = o.string("apiVersion")
            && !version.is_empty()
            && version != API_VERSION
        {
            o.report("apiVersion", format!("{version:?} is not accepted; leave it out or write {API_VERSION:?}"));
        }
        let kind = format!("{plugin}Args");
        if let Some(found) = o.string("kind")
            && !found.is_empty()
            && found != kind
        {
            o.report("kind", format!("{found:?} is not accepted; leave it out or write {kind:?}"));
        }
        match plugin {
            PluginName::DefaultPreemption => args.default_preemption = default_preemption(o),
            PluginName::DynamicResources => args.dynamic_resources = dynamic_resources(o),
            PluginName::InterPodAffinity => args.inter_pod_affinity = inter_pod_affinity(o),
            PluginName::NodeAffinity => args.node_affinity = node_affinity(o),
            PluginName::NodeResourcesBalancedAllocation => {
                args.node_resources_balanced_allocation = balanced_allocation(o);
            }
            PluginName::NodeResourcesFit => args.node_resources_fit = node_resources_fit(o),
            PluginName::PodTopologySpread => args.pod_topology_spread = pod_topology_spread(o),
            PluginName::VolumeBinding => args.volume_binding = volume_binding(o),
            _ => {}
        }
    });
}

fn default_preemption(o: &mut Object) -> DefaultPreemptionArgs {
    let defaults = DefaultPreemptionArgs::default();
    let percentage = o.int32("minCandidateNodesPercentage");
    if percentage.is_some_and(|percentage| !(0..=100).contains(&percentage)) {
        o.report("minCandidateNodesPercentage", "must be between 0 and 100");
    }
    let absolute = o.int32("minCandidateNodesAbsolute");
    if absolute.is_some_and(|absolute| absolute < 0) {
        o.report("minCandidateNodesAbsolute", "must not be negative");
    }
    if percentage == Some(0) && absolute == Some(0) {
        o.report("minCandidateNodesPercentage", "must not be 0 while minCandidateNodesAbsolute is 0");
    }
    let or = |value: Option<i32>, default| value.and_then(|value| value.try_into().ok()).unwrap_or(default);
    DefaultPreemptionArgs {
        min_candidate_nodes_percentage: or(percentage, defaults.min_candidate_nodes_percentage),
        min_candidate_nodes_absolute: or(absolute, defaults.min_candidate_nodes_absolute),
    }
}

fn dynamic_resources(o: &mut Object) -> DynamicResourcesArgs {
    let defaults = DynamicResourcesArgs::default();
    let nanoseconds = |value: i64| u64::try_from(value).ok().map(Duration::from_nanos);
    let filter_timeout = match o.optional_duration("filterTimeout") {
        None => defaults.filter_timeout,
        Some(0) => None,
        Some(value) => {
            if value < 0 {
                o.report("filterTimeout", "must not be negative; 0 is no limit");
            }
            nanoseconds(value)
        }
    };
    let binding_timeout = o.optional_duration("bindingTimeout").map(|value| {
        if value < 1_000_000_000 {
            o.report("bindingTimeout", "must be at least 1s");
        }
        nanoseconds(value).unwrap_or(defaults.binding_timeout)
    });
    DynamicResourcesArgs { filter_timeout, binding_timeout: binding_timeout.unwrap_or(defaults.binding_timeout) }
}

fn inter_pod_affinity(o: &mut Object) -> InterPodAffinityArgs {
    let defaults = InterPodAffinityArgs::default();
    let weight = o.int32("hardPodAffinityWeight").unwrap_or(defaults.hard_pod_affinity_weight);
    if !(0..=100).contains(&weight) {
        o.report("hardPodAffinityWeight", "must be between 0 and 100");
    }
    InterPodAffinityArgs {
        hard_pod_affinity_weight: weight,
        ignore_preferred_terms_of_existing_pods: o.boolean("ignorePreferredTermsOfExistingPods").unwrap_or_default(),
    }
}

fn balanced_allocation(o: &mut Object) -> NodeResourcesBalancedAllocationArgs {
    let mut names: Vec<String> = Vec::new();
    let resources = o.objects("resources", |o| {
        let resource = resource_spec(o);
        if resource.weight != 1 {
            o.report("weight", "must be 1: the balance of resources knows no weights");
        }
        if names.contains(&resource.name) {
            o.report("name", format!("resource {:?} is listed more than once", resource.name));
        }
        names.push(resource.name.clone());
        resource
    });
    if resources.is_empty() {
        return NodeResourcesBalancedAllocationArgs::default();
    }
    NodeResourcesBalancedAllocationArgs { resources }
}

fn resource_spec(o: &mut Object) -> ResourceSpec {
    let name = o.string("name").unwrap_or_default();
    // As in Kubernetes, 0 is the same as no weight.
    let weight = o.int64("weight").filter(|weight| *weight != 0).unwrap_or(1);
    ResourceSpec { name, weight }
}

fn node_resources_fit(o: &mut Object) -> NodeResourcesFitArgs {
    let check = |o: &Object, list: &str, names: &[String], group: bool| {
        for (index, name) in names.iter().enumerate() {
            let problem = match group && name.contains('/') {
                true => Some("a resource group has no '/'".to_owned()),
                false => label_key_problem(name),
            };
            if let Some(problem) = problem {
                o.problems().add(o.path().field(list).index(index), problem);
            }
        }
    };
    let ignored_resources = o.strings("ignoredResources");
    check(o, "ignoredResources", &ignored_resources, false);
    let ignored_resource_groups = o.strings("ignoredResourceGroups");
    check(o, "ignoredResourceGroups", &ignored_resource_groups, true);
    let scoring_strategy = o.object("scoringStrategy", scoring_strategy).unwrap_or_default();
    NodeResourcesFitArgs { ignored_resources, ignored_resource_groups, scoring_strategy }
}

fn scoring_strategy(o: &mut Object) -> ScoringStrategy {
    const TYPES: [&str; 3] = ["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"];
    let strategy = o.string("type");
    let resources = o.objects("resources", |o| {
        let resource = resource_spec(o);
        if !(1..=100).contains(&resource.weight) {
            o.report("weight", "must be between 1 and 100");
        }
        resource
    });
    let shape = o.object("requestedToCapacityRatio", |o| {
        let path = o.path().field("shape");
        let shape = o.objects("shape", |o| UtilizationShapePoint {
            utilization: o.int32("utilization").unwrap_or_default(),
            score: o.int32("score").unwrap_or_default(),
        });
        if strategy.as_deref() == Some("RequestedToCapacityRatio") {
            check_shape(&shape, &path, o.problems());
        }
        shape
    });
    let kind = match strategy.as_deref() {
        Some("RequestedToCapacityRatio") => {
            if shape.is_none() {
                o.report("requestedToCapacityRatio", "required by the type RequestedToCapacityRatio");
            }
            ScoringStrategyType::RequestedToCapacityRatio(shape.unwrap_or_default())
        }
        other => {
            if shape.is_some() {
                o.report("requestedToCapacityRatio", "allowed only with the type RequestedToCapacityRatio");
            }
            match other {
                Some("MostAllocated") => ScoringStrategyType::MostAllocated,
                Some("LeastAllocated") => ScoringStrategyType::LeastAllocated,
                // A type of the wrong kind was reported when it was read.
                None if o.has("type") => ScoringStrategyType::LeastAllocated,
                None | Some("") => {
                    o.report("type", format!("required; allowed: {}", TYPES.join(", ")));
                    ScoringStrategyType::LeastAllocated
                }
                Some(unknown) => {
                    o.report("type", not_one_of("scoring strategy", unknown, &TYPES));
                    ScoringStrategyType::LeastAllocated
                }
            }
        }
    };
    let resources = if resources.is_empty() { ScoringStrategy::default().resources } else { resources };
    ScoringStrategy { kind, resources }
}

fn check_shape(shape: &[UtilizationShapePoint], path: &Path, problems: &Problems) {
    if shape.is_empty() {
        problems.add(path.clone(), "at least one point is required");
    }
    for (index, point) in shape.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|before| shape.get(before));
        if before.is_some_and(|before| before.utilization >= point.utilization) {
            problems.add(path.index(index).field("utilization"), "must be greater than that of the point before");
        }
        if !(0..=100).contains(&point.utilization) {
            problems.add(path.index(index).field("utilization"), "must be between 0 and 100");
        }
        if !(0..=10).contains(&point.score) {
            problems.add(path.index(index).field("score"), "must be between 0 and 10");
        }
    }
}

fn volume_binding(o: &mut Object) -> VolumeBindingArgs {
    let seconds = o.int64("bindTimeoutSeconds");
    if seconds.is_some_and(|seconds| seconds < 0) {
        o.report("bindTimeoutSeconds", "must not be negative");
    }
    if o.has("shape") {
        o.report("shape", "not available: it belongs to the feature StorageCapacityScoring, which is off by default");
    }
    match seconds.and_then(|seconds| u64::try_from(seconds).ok()) {
        Some(seconds) => VolumeBindingArgs { bind_timeout: Duration::from_secs(seconds) },
        None => VolumeBindingArgs::default(),
    }
}

fn pod_topology_spread(o: &mut Object) -> PodTopologySpreadArgs {
    let named = o.string("defaultingType").unwrap_or_default();
    let mut seen: Vec<(String, String)> = Vec::new();
    let default_constraints = o.objects("defaultConstraints", |o| {
        let constraint = topology_spread_constraint(o);
        let key = (constraint.topology_key.clone(), constraint.when_unsatisfiable.clone());
        if seen.contains(&key) {
            let message = format!("a constraint for {:?} with {:?} is already there", key.0, key.1);
            o.problems().add(o.path().clone(), message);
        }
        seen.push(key);
        constraint
    });
    let defaulting_type = match named.as_str() {
        "List" => DefaultingType::List,
        "System" | "" => {
            if !default_constraints.is_empty() {
                o.report("defaultingType", "must be \"List\" when there are defaultConstraints");
            }
            DefaultingType::System
        }
        unknown => {
            o.report("defaultingType", not_one_of("defaulting type", unknown, &["System", "List"]));
            DefaultingType::System
        }
    };
    PodTopologySpreadArgs { default_constraints, defaulting_type }
}

fn topology_spread_constraint(o: &mut Object) -> TopologySpreadConstraint {
    let max_skew = o.int32("maxSkew").unwrap_or_default();
    if max_skew <= 0 {
        o.report("maxSkew", "must be greater than 0");
    }
    let topology_key = o.string("topologyKey").unwrap_or_default();
    if topology_key.is_empty() {
        o.report("topologyKey", "required");
    } else if let Some(problem) = label_key_problem(&topology_key) {
        o.report("topologyKey", problem);
    }
    const ACTIONS: [&str; 2] = ["DoNotSchedule", "ScheduleAnyway"];
    let when_unsatisfiable = o.string("whenUnsatisfiable").unwrap_or_default();
    if when_unsatisfiable.is_empty() {
        o.report("whenUnsatisfiable", format!("required; allowed: {}", ACTIONS.join(", ")));
    } else if !ACTIONS.contains(&when_unsatisfiable.as_str()) {
        o.report("whenUnsatisfiable", not_one_of("action", &when_unsatisfiable, &ACTIONS));
    }
    if o.has("labelSelector") {
        o.report("labelSelector", "not allowed: the selector of each pod is deduced from what owns it");
    }
    TopologySpreadConstraint {
        max_skew,
        topology_key,
        when_unsatisfiable,
        label_selector: None,
        min_domains: o.int32("minDomains"),
        node_affinity_policy: inclusion_policy(o, "nodeAffinityPolicy"),
        node_taints_policy: inclusion_policy(o, "nodeTaintsPolicy"),
        match_label_keys: Some(o.strings("matchLabelKeys")).filter(|keys| !keys.is_empty()),
    }
}

fn inclusion_policy(o: &mut Object, name: &'static str) -> Option<String> {
    let policy = o.string(name)?;
    if !["Honor", "Ignore"].contains(&policy.as_str()) {
        o.report(name, not_one_of("policy", &policy, &["Honor", "Ignore"]));
    }
    Some(policy)
}

fn node_affinity(o: &mut Object) -> NodeAffinityArgs {
    let added_affinity = o.object("addedAffinity", |o| NodeAffinity {
        required_during_scheduling_ignored_during_execution: o
            .object("requiredDuringSchedulingIgnoredDuringExecution", |o| NodeSelector {
                node_selector_terms: o.objects("nodeSelectorTerms", |o| selector_term(o, true)),
            }),
        preferred_during_scheduling_ignored_during_execution: Some(o.objects(
            "preferredDuringSchedulingIgnoredDuringExecution",
            |o| {
                let weight = o.int32("weight").unwrap_or_default();
                // A preference without weight never counts, and Kubernetes does not look at it.
                let preference = o.object_or_empty("preference", |o| selector_term(o, weight != 0));
                PreferredSchedulingTerm { preference, weight }
            },
        ))
        .filter(|terms| !terms.is_empty()),
    });
    NodeAffinityArgs { added_affinity }
}

fn selector_term(o: &mut Object, check: bool) -> NodeSelectorTerm {
    let read = |o: &mut Object, name, check_one: fn(&Object, &NodeSelectorRequirement)| {
        let requirements = o.objects(name, |o| {
            let requirement = NodeSelectorRequirement {
                key: o.string("key").unwrap_or_default(),
                operator: o.string("operator").unwrap_or_default(),
                values: Some(o.strings("values")).filter(|values| !values.is_empty()),
            };
            if check {
                check_one(o, &requirement);
            }
            requirement
        });
        Some(requirements).filter(|requirements| !requirements.is_empty())
    };
    NodeSelectorTerm {
        match_expressions: read(o, "matchExpressions", check_expression),
        match_fields: read(o, "matchFields", check_field),
    }
}

fn check_expression(o: &Object, requirement: &NodeSelectorRequirement) {
    let values = requirement.values.as_deref().unwrap_or_default();
    if let Some(problem) = label_key_problem(&requirement.key) {
        o.report("key", problem);
    }
    match requirement.operator.as_str() {
        "In" | "NotIn" if values.is_empty() => o.report("values", "at least one value is required by In and NotIn"),
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            o.report("values", "Exists and DoesNotExist take no values");
        }
        "Gt" | "Lt" => {
            if values.len() != 1 {
                o.report("values", "Gt and Lt take exactly one value");
            }
            for (index, value) in values.iter().enumerate() {
                if value.parse::<i64>().is_err() {
                    let message = format!("Gt and Lt compare integers; found {value:?}");
                    o.problems().add(o.path().field("values").index(index), message);
                }
            }
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        unknown => {
            let operators = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
            o.report("operator", not_one_of("operator", unknown, &operators));
            return;
        }
    }
    for (index, value) in values.iter().enumerate() {
        if let Some(problem) = label_value_problem(value) {
            o.problems().add(o.path().field("values").index(index), problem);
        }
    }
}

fn check_field(o: &Object, requirement: &NodeSelectorRequirement) {
    match requirement.operator.as_str() {
        "In" | "NotIn" => {
            if requirement.values.as_ref().map_or(0, Vec::len) != 1 {
                o.report("values", "a field is compared with exactly one value");
            }
        }
        unknown => o.report("operator", not_one_of("operator for a field", unknown, &["In", "NotIn"])),
    }
}
