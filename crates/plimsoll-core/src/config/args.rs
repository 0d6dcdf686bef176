//! The arguments of the plugins that take some, after defaults: what the plugins are built from.

use std::time::Duration;

use k8s_openapi::api::core::v1::{NodeAffinity, TopologySpreadConstraint};

/// The arguments of every plugin that takes some, whether it is enabled or not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PluginArgs {
    /// Arguments of DefaultPreemption.
    pub default_preemption: DefaultPreemptionArgs,
    /// Arguments of DynamicResources.
    pub dynamic_resources: DynamicResourcesArgs,
    /// Arguments of InterPodAffinity.
    pub inter_pod_affinity: InterPodAffinityArgs,
    /// Arguments of NodeAffinity.
    pub node_affinity: NodeAffinityArgs,
    /// Arguments of NodeResourcesBalancedAllocation.
    pub node_resources_balanced_allocation: NodeResourcesBalancedAllocationArgs,
    /// Arguments of NodeResourcesFit.
    pub node_resources_fit: NodeResourcesFitArgs,
    /// Arguments of PodTopologySpread.
    pub pod_topology_spread: PodTopologySpreadArgs,
    /// Arguments of VolumeBinding.
    pub volume_binding: VolumeBindingArgs,
}

/// How many nodes preemption tries: the larger of the two, and at most all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultPreemptionArgs {
    /// Percentage of the nodes, 0 to 100.
    pub min_candidate_nodes_percentage: u32,
    /// Number of nodes.
    pub min_candidate_nodes_absolute: u32,
}

impl Default for DefaultPreemptionArgs {
    fn default() -> Self {
        Self { min_candidate_nodes_percentage: 10, min_candidate_nodes_absolute: 100 }
    }
}

/// Limits of the search for devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DynamicResourcesArgs {
    /// Longest search for devices on one node; `None` for no limit.
    pub filter_timeout: Option<Duration>,
    /// Longest wait for the conditions of an allocated device before binding.
    pub binding_timeout: Duration,
}

impl Default for DynamicResourcesArgs {
    fn default() -> Self {
        Self { filter_timeout: Some(Duration::from_secs(10)), binding_timeout: Duration::from_secs(600) }
    }
}

/// How existing pods weigh in the score of pod affinity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterPodAffinityArgs {
    /// What a required affinity term of an existing pod that the incoming pod matches adds, 0 to 100.
    pub hard_pod_affinity_weight: i32,
    /// Whether preferred terms of existing pods count only if the incoming pod has affinity terms itself.
    pub ignore_preferred_terms_of_existing_pods: bool,
}

impl Default for InterPodAffinityArgs {
    fn default() -> Self {
        Self { hard_pod_affinity_weight: 1, ignore_preferred_terms_of_existing_pods: false }
    }
}

/// A node affinity that every pod of the profile has in addition to its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeAffinityArgs {
    /// The affinity; its selectors are known to parse.
    pub added_affinity: Option<NodeAffinity>,
}

/// The resources whose balance is scored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeResourcesBalancedAllocationArgs {
    /// Names without repetition, each with weight 1.
    pub resources: Vec<ResourceSpec>,
}

impl Default for NodeResourcesBalancedAllocationArgs {
    fn default() -> Self {
        Self { resources: ResourceSpec::cpu_and_memory() }
    }
}

/// Which resources the filter ignores and how the fit is scored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeResourcesFitArgs {
    /// Resources the filter ignores.
    pub ignored_resources: Vec<String>,
    /// Domains whose resources the filter ignores: `example.com` for all of `example.com/*`.
    pub ignored_resource_groups: Vec<String>,
    /// How nodes are scored.
    pub scoring_strategy: ScoringStrategy,
}

/// How NodeResourcesFit scores a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScoringStrategy {
    /// The function from utilisation to score.
    pub kind: ScoringStrategyType,
    /// The resources it looks at, each with a weight of 1 to 100.
    pub resources: Vec<ResourceSpec>,
}

impl Default for ScoringStrategy {
    fn default() -> Self {
        Self { kind: ScoringStrategyType::LeastAllocated, resources: ResourceSpec::cpu_and_memory() }
    }
}

/// The function from utilisation to score.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScoringStrategyType {
    /// The emptier the better.
    LeastAllocated,
    /// The fuller the better.
    MostAllocated,
    /// Straight lines between these points, in increasing order of utilisation, at least one.
    RequestedToCapacityRatio(Vec<UtilizationShapePoint>),
}

/// A point of a scoring function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UtilizationShapePoint {
    /// Percentage of the capacity in use, 0 to 100.
    pub utilization: i32,
    /// Score there, 0 to 10.
    pub score: i32,
}

/// A resource and how much it counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceSpec {
    /// The resource.
    pub name: String,
    /// Its weight.
    pub weight: i64,
}

impl ResourceSpec {
    fn cpu_and_memory() -> Vec<Self> {
        ["cpu", "memory"].map(|name| Self { name: name.to_owned(), weight: 1 }).into()
    }
}

/// The topology spread of pods that have no constraint of their own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodTopologySpreadArgs {
    /// The constraints, without selectors; empty unless `defaulting_type` is `List`.
    pub default_constraints: Vec<TopologySpreadConstraint>,
    /// Where the constraints come from.
    pub defaulting_type: DefaultingType,
}

/// Where default topology spread constraints come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DefaultingType {
    /// From Kubernetes: spread over nodes and zones, as a preference.
    #[default]
    System,
    /// From `default_constraints`.
    List,
}

/// Limits of volume binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeBindingArgs {
    /// Longest wait for volumes to be bound; zero is not to wait.
    pub bind_timeout: Duration,
}

impl Default for VolumeBindingArgs {
    fn default() -> Self {
        Self { bind_timeout: Duration::from_secs(600) }
    }
}
