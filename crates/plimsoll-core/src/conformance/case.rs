//! The format of cases.

use k8s_openapi::api::{
    apps::v1 as apps, core::v1 as core, policy::v1 as policy, resource::v1 as resource, storage::v1 as storage,
};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;

/// A line of a case file that is not a case.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CaseError {
    /// It is not JSON, or not of the right shape.
    #[error("not a case: {0}")]
    Malformed(String),
    /// The case's name is known, but something in it cannot be used.
    #[error("case {name}: {problem}")]
    Unusable {
        /// The case.
        name: String,
        /// What is wrong.
        problem: String,
    },
}

/// One case.
#[derive(Debug, Clone, Deserialize)]
pub struct Case {
    /// `family/seed`
    pub name: String,
    /// A KubeSchedulerConfiguration; absent means the defaults.
    #[serde(default)]
    pub config: Option<serde_json::Value>,
    /// The cluster.
    pub objects: Objects,
    /// The pods to place.
    #[serde(flatten)]
    pub steps: Steps,
}

/// One pod, or several in a row.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Steps {
    /// Pods placed one after the other.
    Sequence {
        /// The pods with their expected answers.
        sequence: Vec<Step>,
    },
    /// A single pod.
    One(Box<Step>),
}

/// A pod to place and the expected answer.
#[derive(Debug, Clone, Deserialize)]
pub struct Step {
    /// The pod.
    pub pod: core::Pod,
    /// The answer.
    pub expect: Answer,
}

/// The objects of a cluster, as the API serves them.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the names are those of the API's lists")]
pub struct Objects {
    #[serde(deserialize_with = "list")]
    pub nodes: Vec<core::Node>,
    #[serde(deserialize_with = "list")]
    pub pods: Vec<core::Pod>,
    #[serde(deserialize_with = "list")]
    pub namespaces: Vec<core::Namespace>,
    #[serde(deserialize_with = "list")]
    pub services: Vec<core::Service>,
    #[serde(deserialize_with = "list")]
    pub replication_controllers: Vec<core::ReplicationController>,
    #[serde(deserialize_with = "list")]
    pub replica_sets: Vec<apps::ReplicaSet>,
    #[serde(deserialize_with = "list")]
    pub stateful_sets: Vec<apps::StatefulSet>,
    #[serde(deserialize_with = "list")]
    pub persistent_volumes: Vec<core::PersistentVolume>,
    #[serde(deserialize_with = "list")]
    pub persistent_volume_claims: Vec<core::PersistentVolumeClaim>,
    #[serde(deserialize_with = "list")]
    pub storage_classes: Vec<storage::StorageClass>,
    #[serde(deserialize_with = "list", rename = "csiNodes")]
    pub csi_nodes: Vec<storage::CSINode>,
    #[serde(deserialize_with = "list", rename = "csiDrivers")]
    pub csi_drivers: Vec<storage::CSIDriver>,
    #[serde(deserialize_with = "list", rename = "csiStorageCapacities")]
    pub csi_storage_capacities: Vec<storage::CSIStorageCapacity>,
    #[serde(deserialize_with = "list")]
    pub volume_attachments: Vec<storage::VolumeAttachment>,
    #[serde(deserialize_with = "list")]
    pub pod_disruption_budgets: Vec<policy::PodDisruptionBudget>,
    #[serde(deserialize_with = "list")]
    pub resource_slices: Vec<resource::ResourceSlice>,
    #[serde(deserialize_with = "list")]
    pub resource_claims: Vec<resource::ResourceClaim>,
    #[serde(deserialize_with = "list")]
    pub device_classes: Vec<resource::DeviceClass>,
}

/// An absent or null list is an empty one.
fn list<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Who refused, and why.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct Refused {
    /// The plugin; empty where a pre-filter result left the node out.
    pub plugin: String,
    /// The code.
    pub code: String,
    /// The reasons, sorted.
    #[serde(deserialize_with = "list")]
    pub reasons: Vec<String>,
}

/// What is removed, and where.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct Victims {
    /// The node.
    pub nominated: String,
    /// The pods, `namespace/name`, sorted.
    #[serde(deserialize_with = "list")]
    pub victims: Vec<String>,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Answer {
    /// Set when the pod is not even queued.
    pub pre_enqueue: Option<Refused>,
    /// Set when a plugin refuses the pod for every node.
    pub pre_filter: Option<Refused>,
    /// The nodes that pass every filter, sorted.
    #[serde(deserialize_with = "list")]
    pub feasible: Vec<String>,
    /// The other nodes.
    #[serde(deserialize_with = "map")]
    pub rejected: BTreeMap<String, Refused>,
    /// Plugin, node, weighted score.
    #[serde(deserialize_with = "map")]
    pub scores: BTreeMap<String, BTreeMap<String, i64>>,
    /// Node, sum of scores.
    #[serde(deserialize_with = "map")]
    pub totals: BTreeMap<String, i64>,
    /// Set when nothing fits and preemption helps.
    pub preemption: Option<Victims>,
    /// In a sequence: the node the pod goes to.
    pub selected: Option<String>,
}

fn map<'de, V: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, V>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl Case {
    /// Reads a case from a line of a case file.
    pub fn parse(line: &str) -> Result<Self, CaseError> {
        serde_json::from_str(line).map_err(|error| CaseError::Malformed(error.to_string()))
    }

    /// The family: what stands before the slash of the name.
    pub fn family(&self) -> &str {
        self.name.split('/').next().unwrap_or_default()
    }

    /// The steps, one or many.
    pub fn steps(&self) -> &[Step] {
        match &self.steps {
            Steps::Sequence { sequence } => sequence,
            Steps::One(step) => std::slice::from_ref(step),
        }
    }
}
