//! A cluster described in files: manifests, or what `kubectl get … -o json` prints.

use crate::connect::{self, ConnectArgs};
use crate::defaults;
use crate::input;
use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use plimsoll_core::config::parse_objects;
use plimsoll_core::conformance::Objects;
use plimsoll_kube::rights::WATCHED;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// What files say about a cluster.
#[derive(Debug, Default)]
pub struct Cluster {
    /// Everything that takes part in scheduling.
    pub objects: Objects,
    /// How many objects of other kinds there were, by kind.
    pub ignored: BTreeMap<String, usize>,
    priority_classes: Vec<PriorityClass>,
}

impl Cluster {
    /// Reads files, all of them parts of one cluster, and fills in what the API server would.
    pub fn read(paths: &[PathBuf]) -> Result<Self> {
        let mut cluster = Self::default();
        for path in paths {
            let (name, text) = input::read_text(path)?;
            for object in parse_objects(&name, &text)? {
                cluster.add(object, None).with_context(|| format!("in {name}"))?;
            }
        }
        cluster.completed()
    }

    /// Asks the API server of a cluster for all that takes part in scheduling.
    pub fn of_api_server(connect: &ConnectArgs) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let lists = runtime.block_on(lists(connect))?;
        let mut cluster = Self::default();
        for list in lists {
            cluster.add(list, None).context("in what the API server has")?;
        }
        cluster.completed()
    }

    fn completed(mut self) -> Result<Self> {
        let cluster = &mut self;
        keep_last_of_each_name(&mut cluster.objects.pods);
        defaults::complete(&mut cluster.objects, &cluster.priority_classes)?;
        if cluster.objects.nodes.is_empty() && cluster.objects.pods.is_empty() {
            bail!(
                "no Node and no Pod in the cluster files; \
                 `kubectl get nodes,pods --all-namespaces -o json` prints what is needed"
            );
        }
        Ok(self)
    }

    /// Takes an object, or every object of a list. Items of a typed list leave their kind to the list.
    fn add(&mut self, mut object: Value, listed_as: Option<(&str, &str)>) -> Result<()> {
        let text = |field: &str| object.get(field).and_then(Value::as_str).map(str::to_owned);
        let api_version = text("apiVersion").or_else(|| listed_as.map(|(version, _)| version.to_owned()));
        let kind = text("kind").or_else(|| listed_as.map(|(_, kind)| kind.to_owned()));
        let (Some(api_version), Some(kind)) = (api_version, kind) else {
            bail!("{}: an object needs apiVersion and kind", abbreviated(&object));
        };
        if let Some(item_kind) = kind.strip_suffix("List")
            && let Some(items) = object.get_mut("items")
        {
            let Value::Array(items) = items.take() else { bail!("{kind}: items must be a list") };
            let listed_as = (!item_kind.is_empty()).then_some((api_version.as_str(), item_kind));
            return items.into_iter().try_for_each(|item| self.add(item, listed_as));
        }
        self.add_one(&api_version, &kind, object)
    }

    fn add_one(&mut self, api_version: &str, kind: &str, object: Value) -> Result<()> {
        let to = &mut self.objects;
        match (api_version, kind) {
            ("v1", "Node") => to.nodes.push(decode(kind, object)?),
            ("v1", "Namespace") => to.namespaces.push(decode(kind, object)?),
            ("v1", "PersistentVolume") => to.persistent_volumes.push(decode(kind, object)?),
            ("storage.k8s.io/v1", "StorageClass") => to.storage_classes.push(decode(kind, object)?),
            ("storage.k8s.io/v1", "CSINode") => to.csi_nodes.push(decode(kind, object)?),
            ("storage.k8s.io/v1", "CSIDriver") => to.csi_drivers.push(decode(kind, object)?),
            ("storage.k8s.io/v1", "VolumeAttachment") => to.volume_attachments.push(decode(kind, object)?),
            ("resource.k8s.io/v1", "ResourceSlice") => to.resource_slices.push(decode(kind, object)?),
            ("resource.k8s.io/v1", "DeviceClass") => to.device_classes.push(decode(kind, object)?),
            ("scheduling.k8s.io/v1", "PriorityClass") => self.priority_classes.push(decode(kind, object)?),
            ("v1", "Pod") => to.pods.push(decode_namespaced(kind, object)?),
            ("v1", "Service") => to.services.push(decode_namespaced(kind, object)?),
            ("v1", "ReplicationController") => to.replication_controllers.push(decode_namespaced(kind, object)?),
            ("v1", "PersistentVolumeClaim") => to.persistent_volume_claims.push(decode_namespaced(kind, object)?),
            ("apps/v1", "ReplicaSet") => to.replica_sets.push(decode_namespaced(kind, object)?),
            ("apps/v1", "StatefulSet") => to.stateful_sets.push(decode_namespaced(kind, object)?),
            ("policy/v1", "PodDisruptionBudget") => to.pod_disruption_budgets.push(decode_namespaced(kind, object)?),
            ("storage.k8s.io/v1", "CSIStorageCapacity") => {
                to.csi_storage_capacities.push(decode_namespaced(kind, object)?);
            }
            ("resource.k8s.io/v1", "ResourceClaim") => to.resource_claims.push(decode_namespaced(kind, object)?),
            _ => *self.ignored.entry(format!("{kind} ({api_version})")).or_default() += 1,
        }
        Ok(())
    }

    /// `3 Deployment (apps/v1), 1 ConfigMap (v1)`; none if every object is of use.
    pub fn ignored_in_words(&self) -> Option<String> {
        let kinds: Vec<_> = self.ignored.iter().map(|(kind, number)| format!("{number} {kind}")).collect();
        (!kinds.is_empty()).then(|| kinds.join(", "))
    }
}

impl From<Objects> for Cluster {
    fn from(objects: Objects) -> Self {
        Self { objects, ..Self::default() }
    }
}

/// The paths of all that takes part in scheduling: what the live scheduler watches, and the classes by which pods get their priorities.
fn paths() -> impl Iterator<Item = String> {
    let of = |(group, kinds): &(&'static str, &'static [&'static str])| {
        let version = if group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{group}/v1") };
        kinds.iter().map(move |kind| format!("{version}/{kind}"))
    };
    WATCHED.iter().flat_map(of).chain(["/apis/scheduling.k8s.io/v1/priorityclasses".to_owned()])
}

/// Objects that are asked for at a time.
const PAGE: usize = 500;

async fn lists(connect: &ConnectArgs) -> Result<Vec<Value>> {
    let client = connect::client(connect.config(None).await?).await?;
    let mut lists = Vec::new();
    for path in paths() {
        let mut from = String::new();
        loop {
            let asked = http::Request::get(format!("{path}?limit={PAGE}{from}")).body(Vec::new())?;
            let list: Value = client.request(asked).await.with_context(|| format!("cannot list {path}"))?;
            let next = list.pointer("/metadata/continue").and_then(Value::as_str).unwrap_or_default();
            from = format!("&continue={next}");
            let done = next.is_empty();
            lists.push(list);
            if done {
                break;
            }
        }
    }
    Ok(lists)
}

/// An edited pod stands for the one it was made from. The engine tells pods by UID, which a manifest does not have.
fn keep_last_of_each_name(pods: &mut Vec<Pod>) {
    let mut seen = BTreeSet::new();
    pods.reverse();
    pods.retain(|pod| seen.insert((pod.metadata.namespace.clone(), pod.metadata.name.clone())));
    pods.reverse();
}

fn decode<T: DeserializeOwned>(kind: &str, object: Value) -> Result<T> {
    let name = name_of(&object);
    serde_json::from_value(object).with_context(|| format!("{kind} {name} is not as the API has it"))
}

fn decode_namespaced<T: DeserializeOwned>(kind: &str, mut object: Value) -> Result<T> {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        let namespace = metadata.entry("namespace").or_insert(Value::Null);
        if namespace.as_str().is_none_or(str::is_empty) {
            *namespace = "default".into();
        }
    }
    decode(kind, object)
}

fn name_of(object: &Value) -> String {
    let text = |field: &str| object.pointer(field).and_then(Value::as_str);
    let name = text("/metadata/name").unwrap_or("without a name");
    text("/metadata/namespace").map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"))
}

/// The beginning of an object that cannot be named, so that it can be found.
fn abbreviated(object: &Value) -> String {
    const LENGTH: usize = 60;
    let text = object.to_string();
    match text.char_indices().nth(LENGTH) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
