//! Pods, compiled: everything a decision asks of a pod, shared by all pods of one template.

use super::affinity::PodAffinity;
use super::intern::{Interner, Sym};
use super::labels::{LabelSet, Requirement, Selector};
use super::node_affinity::NodeAffinity;
use super::resources::{PodResources, ResourceNames};
use super::taints::Toleration;
use super::{FieldError, ModelError};
use crate::storage::PodVolumes;
use k8s_openapi::api::core::v1 as api;
use std::sync::Arc;

/// A port of the host that a container wants for itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct HostPort {
    /// The host address; none is every address.
    pub ip: Option<Sym>,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Sym,
    /// The port.
    pub port: i32,
}

impl HostPort {
    /// Whether two ports cannot be open on one host.
    pub fn conflicts(&self, other: &Self) -> bool {
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip.is_none() || other.ip.is_none() || self.ip == other.ip)
    }
}

/// What can be judged by looking at one node alone; pods that agree in it share remembered results.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LocalShape {
    /// What it tolerates.
    pub tolerations: Box<[Toleration]>,
    /// The nodes it asks for and prefers.
    pub node_affinity: NodeAffinity,
    /// Ports of the host it needs.
    pub ports: Box<[HostPort]>,
    /// What it asks for.
    pub resources: PodResources,
    /// Its images, normalised, one entry a container or image volume.
    pub images: Box<[Sym]>,
    /// Containers and init containers, by which image scores are scaled.
    pub containers: u32,
    /// Node features it cannot run without, sorted.
    pub features: Box<[Sym]>,
}

/// A topology spread constraint.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SpreadConstraint {
    /// By how much the fullest domain may exceed the emptiest.
    pub max_skew: i32,
    /// The node label that makes a domain.
    pub topology_key: Sym,
    /// True for `DoNotSchedule`, false for `ScheduleAnyway`.
    pub hard: bool,
    /// The pods that are counted, with `matchLabelKeys` merged in.
    pub selector: Selector,
    /// With fewer domains than this the emptiest counts as empty.
    pub min_domains: i32,
    /// Only nodes that meet the pod's node affinity count.
    pub honor_node_affinity: bool,
    /// Only nodes whose taints the pod tolerates count.
    pub honor_taints: bool,
}

/// The spread constraints of a pod.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct PodSpread {
    /// Those that can be read.
    pub constraints: Box<[SpreadConstraint]>,
    /// Whether the pod has any, so that defaults do not apply.
    pub is_stated: bool,
    /// Why the hard ones cannot be read; such a pod cannot be placed.
    pub hard_error: Option<Box<str>>,
    /// Why the soft ones cannot be read; nodes cannot be ranked for such a pod.
    pub soft_error: Option<Box<str>>,
}

impl PodSpread {
    fn compile(stated: &[api::TopologySpreadConstraint], labels: &LabelSet, strings: &mut Interner) -> Self {
        let mut spread = Self { is_stated: !stated.is_empty(), ..Self::default() };
        let mut constraints = Vec::new();
        for constraint in stated {
            let error = match constraint.when_unsatisfiable.as_str() {
                "DoNotSchedule" => &mut spread.hard_error,
                "ScheduleAnyway" => &mut spread.soft_error,
                // Neither filter nor score looks at any other.
                _ => continue,
            };
            match SpreadConstraint::compile(constraint, labels, strings) {
                Ok(constraint) => constraints.push(constraint),
                Err(problem) => {
                    error.get_or_insert_with(|| problem.into());
                }
            }
        }
        spread.constraints = constraints.into();
        spread
    }
}

impl SpreadConstraint {
    /// Compiles a constraint of a pod with these labels.
    pub fn compile(
        constraint: &api::TopologySpreadConstraint,
        labels: &LabelSet,
        strings: &mut Interner,
    ) -> Result<Self, String> {
        let mut selector = Selector::compile(constraint.label_selector.as_ref(), strings)?;
        let merged: Vec<_> = constraint
            .match_label_keys
            .iter()
            .flatten()
            .filter_map(|key| strings.get(key))
            .filter_map(|key| Some(Requirement::equals(key, labels.get(key)?)))
            .collect();
        if !merged.is_empty() {
            selector = selector.and(merged);
        }
        let honors = |policy: &Option<String>, default| policy.as_deref().map_or(default, |policy| policy == "Honor");
        Ok(Self {
            max_skew: constraint.max_skew,
            topology_key: strings.intern(&constraint.topology_key),
            hard: constraint.when_unsatisfiable == "DoNotSchedule",
            selector,
            min_domains: constraint.min_domains.unwrap_or(1),
            honor_node_affinity: honors(&constraint.node_affinity_policy, true),
            honor_taints: honors(&constraint.node_taints_policy, false),
        })
    }
}

/// The kinds of controller whose selectors take part in default spreading.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum ControllerKind {
    /// A v1 ReplicationController.
    ReplicationController,
    /// An apps/v1 ReplicaSet.
    ReplicaSet,
    /// An apps/v1 StatefulSet.
    StatefulSet,
}

/// The controller that owns a pod, where its kind matters.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Controller {
    /// What it is.
    pub kind: ControllerKind,
    /// Its name, in the pod's namespace.
    pub name: Sym,
}

/// Everything pods of one template have in common.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PodShape {
    /// The profile that places it.
    pub scheduler_name: Sym,
    /// Its namespace.
    pub namespace: Sym,
    /// Its labels.
    pub labels: LabelSet,
    /// Its priority.
    pub priority: i32,
    /// `preemptionPolicy: Never`.
    pub never_preempts: bool,
    /// What one node alone decides.
    pub local: Arc<LocalShape>,
    /// The company it wants.
    pub affinity: PodAffinity,
    /// Its own spread constraints.
    pub spread: PodSpread,
    /// Its controller.
    pub controller: Option<Controller>,
    /// Scheduling gates that hold it back.
    pub gates: Box<[Box<str>]>,
    /// Its volumes; none for most pods.
    pub volumes: Option<Box<PodVolumes>>,
    /// Whether it may claim devices, by resource claims or extended resources: these belong to the single pod.
    pub may_claim_devices: bool,
}

impl PodShape {
    /// Compiles a pod.
    pub fn compile(pod: &api::Pod, strings: &mut Interner, resources: &mut ResourceNames) -> Result<Self, ModelError> {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        compile(pod, namespace, strings, resources).map_err(|error| error.of(format!("pod {namespace}/{name}")))
    }
}

fn compile(
    pod: &api::Pod,
    namespace: &str,
    strings: &mut Interner,
    resources: &mut ResourceNames,
) -> Result<PodShape, FieldError> {
    let empty = api::PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&empty);
    let labels = LabelSet::compile(pod.metadata.labels.as_ref(), strings);
    let spread = spec.topology_spread_constraints.as_deref().unwrap_or_default();
    let spread = PodSpread::compile(spread, &labels, strings);
    let volumes = PodVolumes::from_pod(pod);
    let local = local(pod, spec, strings, resources)?;
    Ok(PodShape {
        scheduler_name: strings.intern(spec.scheduler_name.as_deref().unwrap_or("default-scheduler")),
        namespace: strings.intern(namespace),
        priority: spec.priority.unwrap_or_default(),
        never_preempts: spec.preemption_policy.as_deref() == Some("Never"),
        affinity: PodAffinity::compile(spec.affinity.as_ref(), namespace, strings),
        spread,
        controller: controller(pod, strings),
        gates: spec.scheduling_gates.iter().flatten().map(|gate| gate.name.as_str().into()).collect(),
        volumes: (!volumes.is_empty()).then(|| Box::new(volumes)),
        may_claim_devices: spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty())
            || !local.resources.wanted.scalars.is_empty(),
        local: Arc::new(local),
        labels,
    })
}

fn local(
    pod: &api::Pod,
    spec: &api::PodSpec,
    strings: &mut Interner,
    resources: &mut ResourceNames,
) -> Result<LocalShape, FieldError> {
    let init = spec.init_containers.as_deref().unwrap_or_default();
    let image_volumes = spec
        .volumes
        .iter()
        .flatten()
        .filter_map(|volume| volume.image.as_ref())
        .map(|image| image.reference.as_deref().unwrap_or_default());
    let images = init
        .iter()
        .chain(&spec.containers)
        .map(|container| container.image.as_deref().unwrap_or_default())
        .chain(image_volumes)
        .map(|image| strings.intern(&normalized_image(image)))
        .collect();
    Ok(LocalShape {
        tolerations: spec.tolerations.iter().flatten().filter_map(|t| Toleration::compile(t, strings)).collect(),
        node_affinity: NodeAffinity::compile(
            spec.node_selector.as_ref(),
            spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref()),
            strings,
        ),
        ports: host_ports(spec, strings),
        resources: PodResources::compile(pod, resources)?,
        images,
        containers: u32::try_from(init.len() + spec.containers.len()).unwrap_or(u32::MAX),
        features: required_features(spec, strings),
    })
}

/// The host ports of containers that run as long as the pod does.
fn host_ports(spec: &api::PodSpec, strings: &mut Interner) -> Box<[HostPort]> {
    let sidecars =
        spec.init_containers.iter().flatten().filter(|container| container.restart_policy.as_deref() == Some("Always"));
    sidecars
        .chain(&spec.containers)
        .flat_map(|container| container.ports.iter().flatten())
        .filter_map(|port| {
            let number = port.host_port.filter(|port| *port > 0)?;
            let ip = port.host_ip.as_deref().filter(|ip| !matches!(*ip, "" | "0.0.0.0"));
            let protocol = port.protocol.as_deref().filter(|protocol| !protocol.is_empty()).unwrap_or("TCP");
            Some(HostPort { ip: ip.map(|ip| strings.intern(ip)), protocol: strings.intern(protocol), port: number })
        })
        .collect()
}

/// The node features the pod's spec implies.
fn required_features(spec: &api::PodSpec, strings: &mut Interner) -> Box<[Sym]> {
    let mut features = Vec::new();
    let restarts_all = spec
        .containers
        .iter()
        .chain(spec.init_containers.iter().flatten())
        .flat_map(|container| container.restart_policy_rules.iter().flatten())
        .any(|rule| rule.action == "RestartAllContainers");
    if restarts_all {
        features.push(strings.intern("RestartAllContainersOnContainerExits"));
    }
    if spec.host_network == Some(true) && spec.host_users == Some(false) {
        features.push(strings.intern("UserNamespacesHostNetworkSupport"));
    }
    features.sort_unstable();
    features.into()
}

fn controller(pod: &api::Pod, strings: &mut Interner) -> Option<Controller> {
    let owner = pod.metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))?;
    let kind = match (owner.api_version.as_str(), owner.kind.as_str()) {
        ("v1", "ReplicationController") => ControllerKind::ReplicationController,
        ("apps/v1", "ReplicaSet") => ControllerKind::ReplicaSet,
        ("apps/v1", "StatefulSet") => ControllerKind::StatefulSet,
        _ => return None,
    };
    Some(Controller { kind, name: strings.intern(&owner.name) })
}

/// An image name with its tag: without one it means `latest`.
fn normalized_image(name: &str) -> String {
    // Positions are compared as `LastIndex` gives them, where absent is before everything.
    if name.rfind(':').map_or(-1, |at| at as i64) <= name.rfind('/').map_or(-1, |at| at as i64) {
        format!("{name}:latest")
    } else {
        name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shape(value: serde_json::Value) -> PodShape {
        let pod: api::Pod = serde_json::from_value(value).unwrap();
        PodShape::compile(&pod, &mut Interner::default(), &mut ResourceNames::default()).unwrap()
    }

    #[test]
    fn pods_of_one_template_have_equal_shapes() {
        let pod = |name: &str| {
            json!({"metadata": {"name": name, "namespace": "a", "uid": name, "labels": {"app": "web"}},
                   "spec": {"containers": [{"name": "c", "image": "web", "resources": {"requests": {"cpu": "1"}}}]}})
        };
        assert_eq!(shape(pod("web-1")), shape(pod("web-2")));
    }

    #[test]
    fn images_without_a_tag_mean_latest() {
        assert_eq!(normalized_image("web"), "web:latest");
        assert_eq!(normalized_image("registry:5000/web"), "registry:5000/web:latest");
        assert_eq!(normalized_image("registry:5000/web:1"), "registry:5000/web:1");
    }

    #[test]
    fn ports_conflict_on_overlapping_addresses() {
        let mut strings = Interner::default();
        let (tcp, a, b) = (strings.intern("TCP"), strings.intern("10.0.0.1"), strings.intern("10.0.0.2"));
        let port = |ip| HostPort { ip, protocol: tcp, port: 80 };
        assert!(port(None).conflicts(&port(Some(a))));
        assert!(port(Some(a)).conflicts(&port(Some(a))));
        assert!(!port(Some(a)).conflicts(&port(Some(b))));
    }

    #[test]
    fn host_ports_of_plain_init_containers_do_not_count() {
        let shape = shape(json!({"metadata": {"name": "p", "namespace": "a"}, "spec": {
            "containers": [{"name": "c", "ports": [{"containerPort": 1, "hostPort": 1}, {"containerPort": 2}]}],
            "initContainers": [
                {"name": "i", "ports": [{"containerPort": 3, "hostPort": 3}]},
                {"name": "s", "restartPolicy": "Always", "ports": [{"containerPort": 4, "hostPort": 4}]}]}}));
        assert_eq!(shape.local.ports.iter().map(|p| p.port).collect::<Vec<_>>(), [4, 1]);
    }
}
