//! The state of the cluster, fed by add, update and delete events.

use super::changes::ChangeLog;
use super::classes::{Namespaces, PodClasses};
use super::controllers::Controllers;
use super::node::{Node, NodeId};
use super::objects::Budget;
use super::pod::{Phase, Pod, PodId};
use super::shapes::{ShapeEntry, ShapeId, Shapes, spread_key};
use super::topology::{Topologies, TopologyId};
use crate::dra::DraObjects;
use crate::model::taints::UNSCHEDULABLE_TAINT;
use crate::model::{Interner, ModelError, NodeSpec, PodShape, ResourceNames, Sym};
use crate::telemetry::{NodeTelemetry, Telemetry};
use k8s_openapi::api::core::v1 as api;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Why an event or a step is refused; the state is as it was before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// The object cannot be read.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The pod is not known.
    #[error("pod {0}: not known; apply the pod before placing it")]
    UnknownPod(String),
    /// The node is not known.
    #[error("node {0}: not known; apply the node before placing pods on it")]
    UnknownNode(String),
    /// The step does not fit where the pod is.
    #[error("pod {pod}: cannot {step}, it is {phase:?}")]
    WrongPhase {
        /// The pod.
        pod: String,
        /// What was tried.
        step: &'static str,
        /// Where the pod is.
        phase: Phase,
    },
}

/// Strings that the rules know by name.
#[derive(Debug, Clone, Copy)]
pub struct WellKnown {
    /// `kubernetes.io/hostname`
    pub hostname: Sym,
    /// `topology.kubernetes.io/zone`
    pub zone: Sym,
    /// `topology.kubernetes.io/region`
    pub region: Sym,
    /// `node.kubernetes.io/unschedulable`
    pub unschedulable: Sym,
}

/// The cluster.
#[derive(Debug)]
pub struct ClusterState {
    /// Strings that the rules know by name.
    pub well_known: WellKnown,
    /// Interned strings.
    pub strings: Interner,
    /// Resource names.
    pub resources: ResourceNames,
    /// Who matches whom.
    pub classes: PodClasses,
    /// Domains of nodes.
    pub topologies: Topologies,
    /// Services and controllers.
    pub controllers: Controllers,
    /// Recently changed nodes.
    pub changes: ChangeLog,
    /// Volumes and their claims.
    pub storage: crate::storage::StorageObjects,
    /// What is known beside the API.
    pub telemetry: Telemetry,
    /// Devices and their claims.
    pub(crate) dra: DraObjects,
    pub(super) nodes: Vec<Option<Node>>,
    pub(super) node_ids: FxHashMap<Sym, NodeId>,
    pub(super) free_nodes: Vec<NodeId>,
    pub(super) node_version: u64,
    pub(super) image_nodes: FxHashMap<Sym, u32>,
    pub(super) pods: Vec<Option<Pod>>,
    pub(super) pod_ids: FxHashMap<Box<str>, PodId>,
    pub(super) free_pods: Vec<PodId>,
    pub(super) bound_pods: usize,
    /// How many pods on nodes have which priority.
    pub(super) priorities: BTreeMap<i32, usize>,
    /// Placed pods whose node is not known (yet, or any more).
    pub(super) orphans: FxHashMap<Sym, Vec<PodId>>,
    pub(super) shapes: Shapes,
    pub(super) namespaces: Namespaces,
    pub(super) budgets: BTreeMap<(Sym, Box<str>), Budget>,
    pub(super) nominated: FxHashMap<Sym, Vec<PodId>>,
}

impl Default for ClusterState {
    fn default() -> Self {
        let mut strings = Interner::default();
        let well_known = WellKnown {
            hostname: strings.intern("kubernetes.io/hostname"),
            zone: strings.intern("topology.kubernetes.io/zone"),
            region: strings.intern("topology.kubernetes.io/region"),
            unschedulable: strings.intern(UNSCHEDULABLE_TAINT),
        };
        Self {
            well_known,
            strings,
            resources: ResourceNames::default(),
            classes: PodClasses::default(),
            topologies: Topologies::default(),
            controllers: Controllers::default(),
            changes: ChangeLog::default(),
            storage: crate::storage::StorageObjects::default(),
            telemetry: Telemetry::default(),
            dra: DraObjects::new(),
            nodes: Vec::new(),
            node_ids: FxHashMap::default(),
            free_nodes: Vec::new(),
            node_version: 0,
            image_nodes: FxHashMap::default(),
            pods: Vec::new(),
            pod_ids: FxHashMap::default(),
            free_pods: Vec::new(),
            bound_pods: 0,
            priorities: BTreeMap::new(),
            orphans: FxHashMap::default(),
            shapes: Shapes::default(),
            namespaces: Namespaces::default(),
            budgets: BTreeMap::new(),
            nominated: FxHashMap::default(),
        }
    }
}

/// The key a pod is known by: its UID, or its name for objects that have none.
pub fn pod_key(meta: &ObjectMeta) -> String {
    match meta.uid.as_deref() {
        Some(uid) if !uid.is_empty() => uid.to_owned(),
        _ => format!("{}/{}", meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default()),
    }
}

pub(super) fn name_of(meta: &ObjectMeta) -> &str {
    meta.name.as_deref().unwrap_or_default()
}

/// Nodes.
impl ClusterState {
    /// How many node indices there are: arrays with an entry a node have this length.
    pub fn node_limit(&self) -> usize {
        self.nodes.len()
    }

    /// How many nodes there are.
    pub fn node_count(&self) -> usize {
        self.node_ids.len()
    }

    /// All nodes, by index.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().flatten()
    }

    /// A node by index.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.index())?.as_ref()
    }

    /// A node's id by name.
    pub fn node_id(&self, name: Sym) -> Option<NodeId> {
        self.node_ids.get(&name).copied()
    }

    /// A node's id by name.
    pub fn node_named(&self, name: &str) -> Option<NodeId> {
        self.node_id(self.strings.get(name)?)
    }

    /// A node's name.
    pub fn node_name(&self, id: NodeId) -> &str {
        self.node(id).map_or("", |node| self.strings.resolve(node.spec.name))
    }

    /// Changes whenever a node comes, goes, or has other images: what is remembered across nodes is stale then.
    pub fn node_version(&self) -> u64 {
        self.node_version
    }

    /// On how many nodes an image is.
    pub fn nodes_with_image(&self, image: Sym) -> u32 {
        self.image_nodes.get(&image).copied().unwrap_or(0)
    }

    /// A node came or changed.
    pub fn apply_node(&mut self, node: &api::Node) -> Result<NodeId, StateError> {
        let spec = Arc::new(NodeSpec::compile(node, &mut self.strings, &mut self.resources)?);
        let id = match self.node_id(spec.name) {
            Some(id) => {
                let before = self.nodes[id.index()].as_ref().map(|node| Arc::clone(&node.spec));
                if let Some(before) = before
                    && before.images != spec.images
                {
                    self.count_images(&before, false);
                    self.count_images(&spec, true);
                    self.node_version += 1;
                }
                if let Some(node) = &mut self.nodes[id.index()] {
                    node.set_spec(Arc::clone(&spec));
                }
                id
            }
            None => self.insert_node(&spec),
        };
        self.topologies.set_node(id, Some(&spec.labels));
        self.dra.forget_node(self.strings.resolve(spec.name));
        self.changes.push(id);
        Ok(id)
    }

    fn insert_node(&mut self, spec: &Arc<NodeSpec>) -> NodeId {
        let id = self.free_nodes.pop().unwrap_or_else(|| {
            self.nodes.push(None);
            NodeId::new(self.nodes.len() as u32 - 1)
        });
        self.nodes[id.index()] = Some(Node::new(id, Arc::clone(spec)));
        self.node_ids.insert(spec.name, id);
        self.count_images(spec, true);
        self.node_version += 1;
        for pod in self.orphans.remove(&spec.name).unwrap_or_default() {
            self.attach(pod, id);
        }
        id
    }

    /// A node left. Its pods stay known until their own events come; they count nowhere meanwhile.
    pub fn delete_node(&mut self, name: &str) -> Option<NodeId> {
        let id = self.node_named(name)?;
        let node = self.nodes[id.index()].as_ref()?;
        let spec = Arc::clone(&node.spec);
        for pod in node.pods.clone() {
            self.detach(pod);
            self.orphans.entry(spec.name).or_default().push(pod);
        }
        self.nodes[id.index()] = None;
        self.node_ids.remove(&spec.name);
        self.free_nodes.push(id);
        self.count_images(&spec, false);
        self.topologies.set_node(id, None);
        self.dra.forget_node(name);
        *self.telemetry.node_mut(id) = NodeTelemetry::default();
        self.node_version += 1;
        self.changes.push(id);
        Some(id)
    }

    /// Something became known of a node beside what the API says.
    pub fn tell(&mut self, id: NodeId, tell: impl FnOnce(&mut NodeTelemetry)) {
        if self.node(id).is_some() {
            tell(self.telemetry.node_mut(id));
            self.changes.push(id);
        }
    }

    fn count_images(&mut self, spec: &NodeSpec, add: bool) {
        for &(image, _) in &spec.images {
            if add {
                *self.image_nodes.entry(image).or_default() += 1;
            } else if let Some(count) = self.image_nodes.get_mut(&image) {
                *count -= 1;
                if *count == 0 {
                    self.image_nodes.remove(&image);
                }
            }
        }
    }
}

/// Pods.
impl ClusterState {
    /// A pod by id.
    pub fn pod(&self, id: PodId) -> Option<&Pod> {
        self.pods.get(id.index())?.as_ref()
    }

    /// A pod's id by its UID.
    pub fn pod_id(&self, uid: &str) -> Option<PodId> {
        self.pod_ids.get(uid).copied()
    }

    /// All pods with their ids.
    pub fn pods(&self) -> impl Iterator<Item = (PodId, &Pod)> {
        self.pods.iter().enumerate().filter_map(|(at, pod)| Some((PodId::new(at), pod.as_ref()?)))
    }

    /// How many pods take room on nodes.
    pub fn placed_pods(&self) -> usize {
        self.bound_pods
    }

    /// What a pod shares with its template.
    pub fn shape_of(&self, pod: &Pod) -> &ShapeEntry {
        self.shapes.get(pod.shape)
    }

    /// A shape by id.
    pub fn shape(&self, id: ShapeId) -> &ShapeEntry {
        self.shapes.get(id)
    }

    /// `namespace/name` of a pod.
    pub fn pod_name(&self, pod: &Pod) -> String {
        format!("{}/{}", self.strings.resolve(self.shape_of(pod).shape.namespace), pod.name)
    }

    /// A pod came or changed. A pod that has ended is forgotten: it takes no room.
    ///
    /// News that a pod is not bound does not undo its placement: a pod never goes back from its node, so the news is
    /// older than our decision or the binding.
    pub fn apply_pod(&mut self, object: &api::Pod) -> Result<Option<PodId>, StateError> {
        let key = pod_key(&object.metadata);
        let status = object.status.as_ref();
        if matches!(status.and_then(|s| s.phase.as_deref()), Some("Succeeded" | "Failed")) {
            self.delete_pod(&key);
            return Ok(None);
        }
        let shape = PodShape::compile(object, &mut self.strings, &mut self.resources)?;
        let shape_id = self.acquire_shape(shape);
        let told_node = object.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).filter(|name| !name.is_empty());
        let told_node = told_node.map(|name| self.strings.intern(name));
        let before = self.pod_id(&key);
        let (mut phase, mut node_name) = match told_node {
            Some(name) => (Phase::Bound, Some(name)),
            None => (Phase::Pending, None),
        };
        let told = status.and_then(|s| s.nominated_node_name.as_deref()).filter(|name| !name.is_empty());
        let told = told.map(|name| self.strings.intern(name));
        let mut nominated = told;
        if let Some(id) = before {
            if let Some(known) = self.pod(id) {
                if phase == Phase::Pending {
                    (phase, node_name) = (known.phase, known.node_name);
                }
                // A nomination of ours holds until the API server has heard of it.
                if told.is_none() && !known.told_nominated {
                    nominated = known.nominated;
                }
            }
            self.unplace(id);
        }
        let nominated = nominated.filter(|_| phase == Phase::Pending);
        let terminating = object.metadata.deletion_timestamp.is_some();
        let pod = Pod {
            uid: key.as_str().into(),
            name: name_of(&object.metadata).into(),
            generation: object.metadata.generation.unwrap_or_default(),
            shape: shape_id,
            phase,
            node_name,
            node: None,
            nominated,
            told_nominated: told.is_some(),
            terminating,
            preempted: terminating && is_preemption_target(object),
            start_time: status.and_then(|s| s.start_time.as_ref()).map(|time| nanoseconds(&time.0)),
            object: self.shapes.get(shape_id).shape.may_claim_devices.then(|| Arc::new(without_managed_fields(object))),
        };
        let id = match before {
            Some(id) => {
                if let Some(old) = self.pods[id.index()].replace(pod) {
                    self.shapes.release(old.shape, &mut self.classes);
                }
                id
            }
            None => {
                let id = self.free_pods.pop().unwrap_or_else(|| {
                    self.pods.push(None);
                    PodId::new(self.pods.len() - 1)
                });
                self.pods[id.index()] = Some(pod);
                self.pod_ids.insert(key.into(), id);
                id
            }
        };
        self.place(id, node_name);
        self.nominate(id, nominated);
        Ok(Some(id))
    }

    /// A placed pod runs since this time, in nanoseconds since 1970; of equals, preemption spares those that run longer.
    pub fn set_start_time(&mut self, id: PodId, start_time: i64) {
        if let Some(Some(pod)) = self.pods.get_mut(id.index()) {
            pod.start_time = Some(start_time);
        }
    }

    /// A pod left.
    pub fn delete_pod(&mut self, uid: &str) -> Option<PodId> {
        let id = self.pod_id(uid)?;
        self.unplace(id);
        let pod = self.pods[id.index()].take()?;
        self.shapes.release(pod.shape, &mut self.classes);
        self.pod_ids.remove(uid);
        self.telemetry.forget_pod(id);
        self.free_pods.push(id);
        Some(id)
    }

    /// Whether a pod on a node is less important than this.
    pub fn has_less_important(&self, priority: i32) -> bool {
        self.priorities.first_key_value().is_some_and(|(lowest, _)| *lowest < priority)
    }

    /// Takes room on a node for a pod that is about to be bound there.
    pub fn assume(&mut self, id: PodId, node: NodeId) -> Result<(), StateError> {
        let name = self.node(node).map(|node| node.spec.name);
        let Some(name) = name else {
            return Err(StateError::UnknownNode(format!("#{}", node.index())));
        };
        self.expect_phase(id, Phase::Pending, "assume")?;
        self.nominate(id, None);
        if let Some(pod) = &mut self.pods[id.index()] {
            pod.phase = Phase::Assumed;
            pod.node_name = Some(name);
        }
        self.place(id, Some(name));
        Ok(())
    }

    /// Gives the room back: the binding failed.
    pub fn forget(&mut self, id: PodId) -> Result<(), StateError> {
        self.expect_phase(id, Phase::Assumed, "forget")?;
        self.unplace(id);
        if let Some(pod) = &mut self.pods[id.index()] {
            pod.phase = Phase::Pending;
            pod.node_name = None;
        }
        Ok(())
    }

    /// The binding was carried out.
    pub fn confirm(&mut self, id: PodId) -> Result<(), StateError> {
        self.expect_phase(id, Phase::Assumed, "confirm")?;
        if let Some(pod) = &mut self.pods[id.index()] {
            pod.phase = Phase::Bound;
        }
        Ok(())
    }

    pub(crate) fn expect_phase(&self, id: PodId, phase: Phase, step: &'static str) -> Result<(), StateError> {
        match self.pod(id) {
            None => Err(StateError::UnknownPod(format!("#{}", id.index()))),
            Some(pod) if pod.phase != phase => {
                Err(StateError::WrongPhase { pod: self.pod_name(pod), step, phase: pod.phase })
            }
            Some(_) => Ok(()),
        }
    }

    /// Keeps a node for a pending pod (or no longer).
    pub fn nominate(&mut self, id: PodId, node: Option<Sym>) {
        let Some(pod) = &mut self.pods[id.index()] else { return };
        let before = std::mem::replace(&mut pod.nominated, node);
        for name in [before, node].into_iter().flatten() {
            if let Some(list) = self.nominated.get_mut(&name) {
                list.retain(|pod| *pod != id);
                if list.is_empty() {
                    self.nominated.remove(&name);
                }
            }
        }
        if let Some(name) = node {
            self.nominated.entry(name).or_default().push(id);
        }
    }

    /// The pending pods a node is kept for.
    pub fn nominated_on(&self, node: Sym) -> &[PodId] {
        self.nominated.get(&node).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether any node is kept for somebody.
    pub fn has_nominations(&self) -> bool {
        !self.nominated.is_empty()
    }

    /// The nodes that are kept for somebody.
    pub fn nominated_nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.nominated.keys().filter_map(|name| self.node_id(*name))
    }

    fn acquire_shape(&mut self, shape: PodShape) -> ShapeId {
        if let Some(id) = self.shapes.reuse(&shape) {
            return id;
        }
        let (nodes, topologies) = (&self.nodes, &mut self.topologies);
        self.shapes.insert(shape, &mut self.classes, &self.namespaces, &self.strings, &mut |key| {
            topologies.ensure(key, nodes.iter().flatten().map(|node| (node.id, &node.spec.labels)))
        })
    }

    /// Puts a placed pod where it belongs.
    fn place(&mut self, id: PodId, node_name: Option<Sym>) {
        let Some(name) = node_name else { return };
        match self.node_id(name) {
            Some(node) => self.attach(id, node),
            None => self.orphans.entry(name).or_default().push(id),
        }
    }

    /// Takes a pod from wherever it is.
    fn unplace(&mut self, id: PodId) {
        self.nominate(id, None);
        let Some(pod) = self.pod(id) else { return };
        let name = pod.node_name;
        if pod.node.is_some() {
            self.detach(id);
        } else if let Some(name) = name
            && let Some(list) = self.orphans.get_mut(&name)
        {
            list.retain(|pod| *pod != id);
            if list.is_empty() {
                self.orphans.remove(&name);
            }
        }
    }

    fn attach(&mut self, id: PodId, node_id: NodeId) {
        let (Some(pod), Some(node)) = (&mut self.pods[id.index()], &mut self.nodes[node_id.index()]) else {
            return;
        };
        pod.node = Some(node_id);
        let entry = self.shapes.get(pod.shape);
        node.add_pod(id, &entry.shape);
        self.classes.add_pod(entry.class, &entry.handles.owned, node_id, pod.terminating);
        if let Some(volumes) = &entry.shape.volumes {
            self.storage.pod_placed(volumes);
        }
        self.bound_pods += 1;
        *self.priorities.entry(entry.shape.priority).or_default() += 1;
        self.changes.push(node_id);
    }

    fn detach(&mut self, id: PodId) {
        let Some(pod) = &mut self.pods[id.index()] else { return };
        let Some(node_id) = pod.node.take() else { return };
        let entry = self.shapes.get(pod.shape);
        if let Some(node) = &mut self.nodes[node_id.index()] {
            node.remove_pod(id, &entry.shape);
            if let Some(volumes) = &entry.shape.volumes {
                self.storage.pod_removed(volumes);
            }
        }
        self.classes.remove_pod(entry.class, &entry.handles.owned, node_id, pod.terminating);
        self.bound_pods -= 1;
        if let Some(count) = self.priorities.get_mut(&entry.shape.priority) {
            *count -= 1;
            if *count == 0 {
                self.priorities.remove(&entry.shape.priority);
            }
        }
        self.changes.push(node_id);
    }
}

/// What decisions need brought up to date.
impl ClusterState {
    /// Brings the counter of a pod's default spread selector up to date, before a decision reads it.
    pub fn prepare_default_spread(&mut self, shape: ShapeId) {
        let version = self.controllers.version();
        let entry = self.shapes.get(shape);
        if entry.default_spread.is_some_and(|(known, _)| known == version) {
            return;
        }
        let selector = self.controllers.default_selector(&entry.shape, &self.strings);
        let key = spread_key(entry.shape.namespace, &selector);
        let counter = key.map(|key| self.classes.acquire_counter(key, &self.namespaces, &self.strings));
        let before = self.shapes.get_mut(shape).default_spread.replace((version, counter));
        if let Some(before) = before.and_then(|(_, counter)| counter) {
            self.classes.release_counter(before);
        }
    }

    /// The topology of a node label, built on first use.
    pub fn ensure_topology(&mut self, key: &str) -> TopologyId {
        let key = self.strings.intern(key);
        self.topologies.ensure(key, self.nodes.iter().flatten().map(|node| (node.id, &node.spec.labels)))
    }
}

fn is_preemption_target(pod: &api::Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().find(|condition| condition.type_ == "DisruptionTarget").is_some_and(|condition| {
        condition.status == "True" && condition.reason.as_deref() == Some("PreemptionByScheduler")
    })
}

fn nanoseconds(time: &k8s_openapi::jiff::Timestamp) -> i64 {
    i64::try_from(time.as_nanosecond()).unwrap_or(i64::MAX)
}

fn without_managed_fields(pod: &api::Pod) -> api::Pod {
    let mut pod = pod.clone();
    pod.metadata.managed_fields = None;
    pod
}
