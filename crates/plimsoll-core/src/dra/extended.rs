//! Extended resources that a device class provides: the requests of the containers become requests of a claim.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, ContainerExtendedResourceRequest, Pod};
use k8s_openapi::api::resource::v1::{DeviceRequest, ExactDeviceRequest, ResourceClaim};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::node::NodeView;
use super::objects::{DEVICE_CLASS_RESOURCE_PREFIX, DraObjects, EXTENDED_RESOURCE_ANNOTATION};
use crate::quantity::Quantity;

/// The name of a claim for extended resources that exists only in the scheduler; no claim of the API can have it.
pub const IN_MEMORY_CLAIM: &str = "<extended-resources>";

/// Whether a resource may be provided by a device class: names with a domain that is not Kubernetes' own, and the names
/// device classes have without being asked.
pub fn is_extended_resource(name: &str) -> bool {
    if name.starts_with(DEVICE_CLASS_RESOURCE_PREFIX) {
        return true;
    }
    let Some((domain, id)) = name.split_once('/') else {
        return false;
    };
    let word = |text: &str| {
        let bytes = text.as_bytes();
        let ends =
            bytes.first().is_some_and(u8::is_ascii_alphanumeric) && bytes.last().is_some_and(u8::is_ascii_alphanumeric);
        ends && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
    };
    // A quota for the resource is named after it, and that name has to be valid too.
    let domain_fits = !domain.is_empty() && format!("requests.{domain}").len() <= 253;
    let lower = domain.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b));
    !name.contains("kubernetes.io/")
        && !name.starts_with("requests.")
        && domain_fits
        && lower
        && domain.split('.').all(word)
        && id.len() <= 63
        && word(id)
}

/// The extended resources the pod requests, of which at least one is provided by a device class; else nothing.
pub(super) fn requested(pod: &Pod, objects: &DraObjects) -> Option<BTreeMap<String, i64>> {
    let requests = pod_requests(pod);
    let provided =
        |(name, amount): (&String, &Quantity)| !amount.is_zero() && objects.class_for_resource(name).is_some();
    if !requests.iter().any(provided) {
        return None;
    }
    Some(requests.into_iter().map(|(name, amount)| (name, amount.value())).collect())
}

/// What the pod requests of each extended resource: the larger of what runs together and what initialising needs.
fn pod_requests(pod: &Pod) -> BTreeMap<String, Quantity> {
    let mut total = BTreeMap::new();
    let Some(spec) = &pod.spec else {
        return total;
    };
    for container in &spec.containers {
        add(&mut total, &container_requests(container));
    }
    let mut sidecars = BTreeMap::new();
    let mut initialising: BTreeMap<String, Quantity> = BTreeMap::new();
    for container in spec.init_containers.iter().flatten() {
        let mut needs = container_requests(container);
        if is_sidecar(container) {
            add(&mut total, &needs);
            add(&mut sidecars, &needs);
            needs = sidecars.clone();
        } else {
            add(&mut needs, &sidecars);
        }
        raise(&mut initialising, &needs);
    }
    raise(&mut total, &initialising);
    let overhead = spec.overhead.iter().flatten();
    add(&mut total, &extended(overhead));
    total
}

fn container_requests(container: &Container) -> BTreeMap<String, Quantity> {
    let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    extended(requests.into_iter().flatten())
}

fn extended<'a>(
    resources: impl Iterator<Item = (&'a String, &'a k8s_openapi::apimachinery::pkg::api::resource::Quantity)>,
) -> BTreeMap<String, Quantity> {
    let extended = resources.filter(|(name, _)| is_extended_resource(name));
    // A quantity the API accepted can be read.
    extended.filter_map(|(name, amount)| Some((name.clone(), Quantity::try_from(amount).ok()?))).collect()
}

fn add(to: &mut BTreeMap<String, Quantity>, amounts: &BTreeMap<String, Quantity>) {
    super::capacity::add_amounts(to, amounts);
}

fn raise(to: &mut BTreeMap<String, Quantity>, amounts: &BTreeMap<String, Quantity>) {
    for (name, amount) in amounts {
        if to.get(name).is_none_or(|known| amount > known) {
            to.insert(name.clone(), amount.clone());
        }
    }
}

fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// The claim for the pod's extended resources: the one left by an earlier attempt, or one that exists only here.
pub(super) fn claim_for(pod: &Pod, objects: &DraObjects) -> Arc<ResourceClaim> {
    let mut claims = objects.extended_claims();
    let left_over = claims.find(|claim| is_controlled_by(claim, pod)).cloned();
    left_over.unwrap_or_else(|| Arc::new(in_memory_claim(pod)))
}

/// Whether a claim was made for extended resources.
pub fn is_extended_claim(claim: &ResourceClaim) -> bool {
    let annotations = claim.metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(EXTENDED_RESOURCE_ANNOTATION)).is_some_and(|value| value == "true")
}

/// Whether a claim was made for the pod.
pub fn is_controlled_by(claim: &ResourceClaim, pod: &Pod) -> bool {
    claim.metadata.owner_references.iter().flatten().any(|owner| {
        owner.controller == Some(true)
            && Some(&owner.name) == pod.metadata.name.as_ref()
            && Some(&owner.uid) == pod.metadata.uid.as_ref()
    })
}

fn in_memory_claim(pod: &Pod) -> ResourceClaim {
    let name = pod.metadata.name.clone().unwrap_or_default();
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    ResourceClaim {
        metadata: ObjectMeta {
            annotations: Some(BTreeMap::from([(EXTENDED_RESOURCE_ANNOTATION.to_owned(), "true".to_owned())])),
            generate_name: Some(format!("{name}-extended-resources-")),
            name: Some(IN_MEMORY_CLAIM.to_owned()),
            namespace: pod.metadata.namespace.clone(),
            owner_references: Some(vec![OwnerReference {
                api_version: "v1".to_owned(),
                controller: Some(true),
                kind: "Pod".to_owned(),
                name,
                uid: uid.clone(),
                ..OwnerReference::default()
            }]),
            // Only for telling claims apart until the API server gives it one of its own.
            uid: Some(format!("{IN_MEMORY_CLAIM}/{uid}")),
            ..ObjectMeta::default()
        },
        ..ResourceClaim::default()
    }
}

/// Which of the requested resources a node cannot provide by itself, so that devices have to; an error if nothing can.
pub(super) fn missing_on(
    node: &dyn NodeView,
    requested: &BTreeMap<String, i64>,
    objects: &DraObjects,
) -> Result<Vec<String>, &'static str> {
    let mut missing = Vec::new();
    for (name, amount) in requested {
        if *amount == 0 {
            continue;
        }
        let offered = node.allocatable(name);
        if objects.class_for_resource(name).is_some() && offered.unwrap_or(0) == 0 {
            missing.push(name.clone());
        } else if offered.is_none() {
            return Err("cannot fit resource");
        }
    }
    Ok(missing)
}

/// The requests for devices that stand for the resources, and which container gets which.
pub(super) fn requests_for(
    pod: &Pod,
    resources: &[String],
    objects: &DraObjects,
) -> (Vec<DeviceRequest>, Vec<ContainerExtendedResourceRequest>) {
    let Some(spec) = &pod.spec else {
        return (Vec::new(), Vec::new());
    };
    let init = spec.init_containers.as_deref().unwrap_or_default();
    let containers: Vec<&Container> = init.iter().chain(&spec.containers).collect();
    let is_short_lived = |i: usize| i < init.len() && !is_sidecar(containers[i]);
    let mut requests = Vec::new();
    let mut mappings = Vec::new();
    for resource in resources {
        let Some(class) = objects.class_for_resource(resource).and_then(|class| class.metadata.name.as_deref()) else {
            continue;
        };
        let mut long_lived: Vec<Option<DeviceRequest>> = vec![None; containers.len()];
        let mut long_lived_mappings = Vec::new();
        for (i, container) in containers.iter().enumerate().filter(|(i, _)| !is_short_lived(*i)) {
            let (request, mapped) = container_request(i, container, resource, class, &[]);
            long_lived[i] = request;
            long_lived_mappings.extend(mapped);
        }
        // Containers that run one after the other can use the same devices: the largest request serves them all.
        let mut largest: Option<DeviceRequest> = None;
        let mut short_lived = Vec::new();
        let mut short_lived_mappings = Vec::new();
        for (i, container) in containers.iter().enumerate().filter(|(i, _)| is_short_lived(*i)) {
            let (request, mapped) = container_request(i, container, resource, class, &long_lived[i..]);
            if let Some(request) = request {
                short_lived.push(request.name.clone());
                if largest.as_ref().is_none_or(|known| count(known) < count(&request)) {
                    largest = Some(request);
                }
            }
            short_lived_mappings.extend(mapped);
        }
        if let Some(largest) = &largest {
            for mapping in short_lived_mappings.iter_mut().filter(|mapping| short_lived.contains(&mapping.request_name))
            {
                mapping.request_name.clone_from(&largest.name);
            }
        }
        requests.extend(largest);
        requests.extend(long_lived.into_iter().flatten());
        mappings.append(&mut long_lived_mappings);
        mappings.append(&mut short_lived_mappings);
    }
    requests.sort_by(|a, b| a.name.cmp(&b.name));
    (requests, mappings)
}

fn count(request: &DeviceRequest) -> i64 {
    request.exactly.as_ref().and_then(|exactly| exactly.count).unwrap_or(0)
}

/// What one container needs beyond the requests it can use with others.
fn container_request(
    index: usize,
    container: &Container,
    resource: &str,
    class: &str,
    reusable: &[Option<DeviceRequest>],
) -> (Option<DeviceRequest>, Vec<ContainerExtendedResourceRequest>) {
    let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let wanted = requests.and_then(|requests| requests.get(resource));
    let Some(wanted) = wanted.and_then(|wanted| Quantity::try_from(wanted).ok()?.as_i64()).filter(|n| *n != 0) else {
        return (None, Vec::new());
    };
    let mapping = |request: &str| ContainerExtendedResourceRequest {
        container_name: container.name.clone(),
        request_name: request.to_owned(),
        resource_name: resource.to_owned(),
    };
    let mut mappings = Vec::new();
    let mut covered = 0_i64;
    for request in reusable.iter().flatten() {
        covered = covered.saturating_add(count(request));
        mappings.push(mapping(&request.name));
        if covered >= wanted {
            return (None, mappings);
        }
    }
    let position = requests.and_then(|requests| requests.keys().position(|name| name == resource)).unwrap_or(0);
    let name = format!("container-{index}-request-{position}");
    mappings.push(mapping(&name));
    let exactly = ExactDeviceRequest {
        allocation_mode: Some("ExactCount".to_owned()),
        count: Some(wanted - covered),
        device_class_name: class.to_owned(),
        ..ExactDeviceRequest::default()
    };
    (Some(DeviceRequest { exactly: Some(exactly), first_available: None, name }), mappings)
}
