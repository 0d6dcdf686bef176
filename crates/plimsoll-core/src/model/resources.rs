//! What a pod asks for, added up as Kubernetes adds it: containers, init containers, sidecars, pod level and overhead.

use super::FieldError;
use super::validation::is_scalar_resource;
use crate::quantity::Quantity;
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// What a container without a CPU request counts as when nodes are ranked: a tenth of a core.
const DEFAULT_CPU_REQUEST: &str = "100m";
/// What a container without a memory request counts as when nodes are ranked: 200 MB.
const DEFAULT_MEMORY_REQUEST: &str = "209715200";

/// A resource, as a small integer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ResourceId(u16);

impl ResourceId {
    /// `cpu`, in thousandths of a core.
    pub const CPU: Self = Self(0);
    /// `memory`, in bytes.
    pub const MEMORY: Self = Self(1);
    /// `ephemeral-storage`, in bytes.
    pub const EPHEMERAL_STORAGE: Self = Self(2);
    /// `pods`.
    pub const PODS: Self = Self(3);

    /// True for extended resources, huge pages and the like: all that is neither of the four above.
    pub fn is_scalar(self) -> bool {
        self.0 > Self::PODS.0
    }
}

/// The names of resources.
#[derive(Debug)]
pub struct ResourceNames {
    ids: FxHashMap<Box<str>, ResourceId>,
    names: Vec<Box<str>>,
}

impl Default for ResourceNames {
    fn default() -> Self {
        let mut names = Self { ids: FxHashMap::default(), names: Vec::new() };
        for name in ["cpu", "memory", "ephemeral-storage", "pods"] {
            names.add(name);
        }
        names
    }
}

impl ResourceNames {
    fn add(&mut self, name: &str) -> ResourceId {
        let id = ResourceId(u16::try_from(self.names.len()).unwrap_or(u16::MAX));
        self.names.push(name.into());
        self.ids.insert(name.into(), id);
        id
    }

    /// The id of a resource the scheduler accounts for; none for names it ignores, such as `storage`.
    pub fn intern(&mut self, name: &str) -> Option<ResourceId> {
        match self.ids.get(name) {
            Some(&id) => Some(id),
            None if is_scalar_resource(name) && self.names.len() < usize::from(u16::MAX) => Some(self.add(name)),
            None => None,
        }
    }

    /// The id of a resource some object already used.
    pub fn get(&self, name: &str) -> Option<ResourceId> {
        self.ids.get(name).copied()
    }

    /// The name behind an id.
    pub fn resolve(&self, id: ResourceId) -> &str {
        &self.names[usize::from(id.0)]
    }
}

/// Amounts of resources: thousandths of a core, bytes, or units.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Requests {
    /// Thousandths of a core.
    pub cpu: i64,
    /// Bytes of memory.
    pub memory: i64,
    /// Bytes of ephemeral storage.
    pub ephemeral_storage: i64,
    /// Extended resources, huge pages and the like, sorted by id; zero amounts are left out.
    pub scalars: Box<[(ResourceId, i64)]>,
}

impl Requests {
    /// The amount of one resource.
    pub fn get(&self, id: ResourceId) -> i64 {
        match id {
            ResourceId::CPU => self.cpu,
            ResourceId::MEMORY => self.memory,
            ResourceId::EPHEMERAL_STORAGE => self.ephemeral_storage,
            _ => self.scalars.iter().find(|scalar| scalar.0 == id).map_or(0, |scalar| scalar.1),
        }
    }

    fn from_totals(totals: &Totals, names: &mut ResourceNames) -> Self {
        let mut requests = Self::default();
        let mut scalars = Vec::new();
        for (&name, quantity) in totals {
            match name {
                "cpu" => requests.cpu = quantity.milli_value(),
                "memory" => requests.memory = quantity.value(),
                "ephemeral-storage" => requests.ephemeral_storage = quantity.value(),
                "pods" => {}
                _ => scalars.extend(names.intern(name).map(|id| (id, quantity.value())).filter(|scalar| scalar.1 != 0)),
            }
        }
        scalars.sort_unstable();
        requests.scalars = scalars.into();
        requests
    }

    /// No amount below zero, as the fit check takes requests.
    fn at_least_zero(mut self) -> Self {
        self.cpu = self.cpu.max(0);
        self.memory = self.memory.max(0);
        self.ephemeral_storage = self.ephemeral_storage.max(0);
        self.scalars = self.scalars.iter().copied().filter(|scalar| scalar.1 > 0).collect();
        self
    }
}

/// Everything the rules ask about a pod's resources.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct PodResources {
    /// What must be free on a node.
    pub wanted: Requests,
    /// What the scoring strategy of NodeResourcesFit counts: containers only, a missing request counts as a default.
    pub scored: Requests,
    /// What a bound pod takes from its node; differs from `wanted` while a container is being resized.
    pub taken: Requests,
    /// CPU taken, counting a default for containers that ask for none.
    pub nonzero_cpu: i64,
    /// Memory taken, counting a default for containers that ask for none.
    pub nonzero_memory: i64,
}

type ResourceList = BTreeMap<String, ApiQuantity>;
type Totals<'a> = BTreeMap<&'a str, Quantity>;

impl PodResources {
    pub(crate) fn compile(pod: &Pod, names: &mut ResourceNames) -> Result<Self, FieldError> {
        let Some(spec) = &pod.spec else {
            return Ok(Self::default());
        };
        let parsed = Parsed::new(pod)?;
        let defaults: Totals = [("cpu", DEFAULT_CPU_REQUEST), ("memory", DEFAULT_MEMORY_REQUEST)]
            .into_iter()
            .filter_map(|(name, text)| Some((name, Quantity::parse(text).ok()?)))
            .collect();
        let none = Totals::new();

        let wanted = parsed.total(false, &none, true);
        let taken = if parsed.has_statuses() { parsed.total(true, &none, true) } else { wanted.clone() };
        // With pod-level requests a missing container request is no longer guessed, except for what neither level says.
        let missing: Totals = if parsed.pod_level.is_empty() {
            defaults.clone()
        } else {
            defaults.iter().filter(|(name, _)| !taken.contains_key(**name)).map(|(n, q)| (*n, q.clone())).collect()
        };
        let nonzero = if missing.is_empty() { taken.clone() } else { parsed.total(true, &missing, true) };
        let scored = parsed.total(false, &defaults, false);
        debug_assert!(!spec.containers.is_empty() || parsed.containers.is_empty());
        Ok(Self {
            wanted: Requests::from_totals(&wanted, names).at_least_zero(),
            scored: Requests::from_totals(&scored, names),
            taken: Requests::from_totals(&taken, names),
            nonzero_cpu: nonzero.get("cpu").map_or(0, Quantity::milli_value),
            nonzero_memory: nonzero.get("memory").map_or(0, Quantity::value),
        })
    }
}

struct ParsedContainer<'a> {
    requests: Totals<'a>,
    /// Requests while a resize is under way: the largest of what is asked, given and in force.
    effective: Option<Totals<'a>>,
    sidecar: bool,
}

struct Parsed<'a> {
    containers: Vec<ParsedContainer<'a>>,
    init_containers: Vec<ParsedContainer<'a>>,
    pod_level: Totals<'a>,
    pod_level_effective: Option<Totals<'a>>,
    overhead: Totals<'a>,
}

impl<'a> Parsed<'a> {
    fn new(pod: &'a Pod) -> Result<Self, FieldError> {
        let (spec, status) = (pod.spec.as_ref(), pod.status.as_ref());
        let infeasible = status.and_then(|s| s.conditions.as_ref()).is_some_and(|conditions| {
            conditions
                .iter()
                .find(|condition| condition.type_ == "PodResizePending")
                .is_some_and(|condition| condition.reason.as_deref() == Some("Infeasible"))
        });
        let statuses: BTreeMap<&str, &ContainerStatus> = status
            .into_iter()
            .flat_map(|s| s.container_statuses.iter().flatten().chain(s.init_container_statuses.iter().flatten()))
            .map(|container| (container.name.as_str(), container))
            .collect();
        let containers = |list: &'a [Container], field: &str| -> Result<Vec<ParsedContainer<'a>>, FieldError> {
            list.iter().enumerate().map(|(index, c)| parse_container(c, field, index, &statuses, infeasible)).collect()
        };
        let supported = |name: &&str| matches!(*name, "cpu" | "memory") || name.starts_with("hugepages-");
        let pod_resources = spec.and_then(|s| s.resources.as_ref());
        let mut pod_level = parse_list(requests_of(pod_resources), "spec.resources.requests")?;
        pod_level.retain(|name, _| supported(name));
        let pod_level_effective = match status.and_then(|s| s.resources.as_ref()) {
            Some(actual) if !pod_level.is_empty() => {
                let actuated = parse_list(actual.requests.as_ref(), "status.resources.requests")?;
                let allocated =
                    parse_list(status.and_then(|s| s.allocated_resources.as_ref()), "status.allocatedResources")?;
                Some(effective(&pod_level, &actuated, &allocated, infeasible))
            }
            _ => None,
        };
        Ok(Self {
            containers: containers(spec.map(|s| s.containers.as_slice()).unwrap_or_default(), "containers")?,
            init_containers: containers(
                spec.and_then(|s| s.init_containers.as_deref()).unwrap_or_default(),
                "initContainers",
            )?,
            pod_level,
            pod_level_effective,
            overhead: parse_list(spec.and_then(|s| s.overhead.as_ref()), "spec.overhead")?,
        })
    }

    fn has_statuses(&self) -> bool {
        self.pod_level_effective.is_some()
            || self.containers.iter().chain(&self.init_containers).any(|container| container.effective.is_some())
    }

    /// The pod's total: containers together, or the largest moment of the init sequence if that is more.
    fn total(&self, use_status: bool, missing: &Totals<'a>, with_pod_level: bool) -> Totals<'a> {
        let requests = |container: &ParsedContainer<'a>| {
            let mut list = match &container.effective {
                Some(effective) if use_status => effective.clone(),
                _ => container.requests.clone(),
            };
            for (name, quantity) in missing {
                list.entry(name).or_insert_with(|| quantity.clone());
            }
            list
        };
        let mut total = Totals::new();
        for container in &self.containers {
            add(&mut total, &requests(container));
        }
        let (mut sidecars, mut init_peak) = (Totals::new(), Totals::new());
        for container in &self.init_containers {
            let mut list = requests(container);
            if container.sidecar {
                add(&mut total, &list);
                add(&mut sidecars, &list);
                list.clone_from(&sidecars);
            } else {
                add(&mut list, &sidecars);
            }
            raise(&mut init_peak, &list);
        }
        raise(&mut total, &init_peak);
        if with_pod_level {
            for (name, quantity) in &self.pod_level {
                let quantity = match &self.pod_level_effective {
                    Some(effective) if use_status => effective.get(name).cloned().unwrap_or_default(),
                    _ => quantity.clone(),
                };
                total.insert(name, quantity);
            }
        }
        add(&mut total, &self.overhead);
        total
    }
}

fn requests_of(resources: Option<&ResourceRequirements>) -> Option<&ResourceList> {
    resources.and_then(|resources| resources.requests.as_ref())
}

fn parse_container<'a>(
    container: &'a Container,
    field: &str,
    index: usize,
    statuses: &BTreeMap<&str, &'a ContainerStatus>,
    infeasible: bool,
) -> Result<ParsedContainer<'a>, FieldError> {
    let requests =
        parse_list(requests_of(container.resources.as_ref()), &format!("spec.{field}[{index}].resources.requests"))?;
    let sidecar = field == "initContainers" && container.restart_policy.as_deref() == Some("Always");
    let resized = (field == "containers" || sidecar)
        .then(|| statuses.get(container.name.as_str()))
        .flatten()
        .filter(|status| status.resources.is_some());
    let effective = match resized {
        Some(status) => {
            let actuated = parse_list(requests_of(status.resources.as_ref()), "status.containerStatuses.resources")?;
            let allocated =
                parse_list(status.allocated_resources.as_ref(), "status.containerStatuses.allocatedResources")?;
            Some(effective(&requests, &actuated, &allocated, infeasible))
        }
        None => None,
    };
    Ok(ParsedContainer { requests, effective, sidecar })
}

fn effective<'a>(spec: &Totals<'a>, actuated: &Totals<'a>, allocated: &Totals<'a>, infeasible: bool) -> Totals<'a> {
    let mut result = actuated.clone();
    raise(&mut result, allocated);
    if !infeasible {
        raise(&mut result, spec);
    }
    result
}

fn parse_list<'a>(list: Option<&'a ResourceList>, field: &str) -> Result<Totals<'a>, FieldError> {
    list.into_iter()
        .flatten()
        .map(|(name, text)| match Quantity::try_from(text) {
            Ok(quantity) => Ok((name.as_str(), quantity)),
            Err(error) => Err(FieldError::quantity(format!("{field}.{name}"), &error)),
        })
        .collect()
}

/// Reads a resource list into amounts, for a node's allocatable.
pub(crate) fn compile_list(
    list: Option<&ResourceList>,
    field: &str,
    names: &mut ResourceNames,
) -> Result<(Requests, i64), FieldError> {
    let totals = parse_list(list, field)?;
    let pods = totals.get("pods").map_or(0, Quantity::value);
    Ok((Requests::from_totals(&totals, names), pods))
}

fn add<'a>(total: &mut Totals<'a>, more: &Totals<'a>) {
    for (name, quantity) in more {
        total.entry(name).and_modify(|sum| *sum = sum.add(quantity)).or_insert_with(|| quantity.clone());
    }
}

fn raise<'a>(total: &mut Totals<'a>, floor: &Totals<'a>) {
    for (name, quantity) in floor {
        total
            .entry(name)
            .and_modify(|current| {
                if quantity > current {
                    current.clone_from(quantity);
                }
            })
            .or_insert_with(|| quantity.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resources(spec: serde_json::Value) -> (PodResources, ResourceNames) {
        let pod: Pod = serde_json::from_value(serde_json::json!({ "spec": spec })).unwrap();
        let mut names = ResourceNames::default();
        (PodResources::compile(&pod, &mut names).unwrap(), names)
    }

    #[test]
    fn init_containers_count_their_peak_and_sidecars_add_up() {
        let (r, _) = resources(serde_json::json!({
            "containers": [{"name": "a", "resources": {"requests": {"cpu": "500m", "memory": "100"}}}],
            "initContainers": [
                {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "200m"}}},
                {"name": "init", "resources": {"requests": {"cpu": "1"}}}
            ],
            "overhead": {"cpu": "10m"}
        }));
        // The init step runs beside the sidecar: 1000m + 200m, more than 500m + 200m; overhead comes on top.
        assert_eq!((r.wanted.cpu, r.wanted.memory), (1210, 100));
    }

    #[test]
    fn pod_level_requests_replace_the_sum_but_not_what_scoring_sees() {
        let (r, _) = resources(serde_json::json!({
            "containers": [{"name": "a", "resources": {"requests": {"cpu": "500m"}}}],
            "resources": {"requests": {"cpu": "2"}}
        }));
        assert_eq!((r.wanted.cpu, r.scored.cpu, r.nonzero_cpu), (2000, 500, 2000));
        assert_eq!(r.nonzero_memory, 209_715_200, "memory is said at neither level, so the default counts");
    }

    #[test]
    fn missing_requests_count_as_defaults_only_in_scores() {
        let (r, _) = resources(serde_json::json!({"containers": [{"name": "a"}, {"name": "b"}]}));
        assert_eq!((r.wanted.cpu, r.scored.cpu, r.nonzero_cpu), (0, 200, 200));
    }

    #[test]
    fn a_resize_under_way_takes_the_larger_amount() {
        let pod: Pod = serde_json::from_value(serde_json::json!({
            "spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]},
            "status": {"containerStatuses": [{"name": "a", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                "resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "2"}}]}
        }))
        .unwrap();
        let r = PodResources::compile(&pod, &mut ResourceNames::default()).unwrap();
        assert_eq!((r.wanted.cpu, r.taken.cpu), (1000, 3000));
    }

    #[test]
    fn an_unreadable_quantity_names_its_field() {
        let pod: Pod = serde_json::from_value(serde_json::json!({
            "spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "much"}}}]}
        }))
        .unwrap();
        let error = PodResources::compile(&pod, &mut ResourceNames::default()).unwrap_err();
        assert_eq!(error.field, "spec.containers[0].resources.requests.cpu");
    }
}
