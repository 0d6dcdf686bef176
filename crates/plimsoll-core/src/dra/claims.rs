//! Which claims a pod uses, and whether it may.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodResourceClaim};
use k8s_openapi::api::resource::v1::{
    AllocationResult, DeviceRequestAllocationResult, ResourceClaim, ResourceClaimConsumerReference,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::objects::DraObjects;

/// How many consumers a claim can be reserved for. The API server enforces it when the reservation is written; until then
/// the scheduler, like Kubernetes', lets any number of pods share a claim.
pub const MAX_CONSUMERS: usize = 256;

/// The claims of a pod's spec, in its order; those that were intentionally not created are left out.
///
/// The error says, in the words of Kubernetes, why the pod has to wait.
pub fn pod_claims(pod: &Pod, objects: &DraObjects) -> Result<Vec<Arc<ResourceClaim>>, String> {
    let mut claims = Vec::new();
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    for reference in pod.spec.iter().flat_map(|spec| spec.resource_claims.iter().flatten()) {
        let Some((name, generated)) = claim_name(pod, reference)? else {
            continue;
        };
        let claim = objects
            .claim(namespace, name)
            .ok_or_else(|| format!("could not find ResourceClaim \"{namespace}/{name}\""))?;
        if claim.metadata.deletion_timestamp.is_some() {
            return Err(format!("resourceclaim \"{name}\" is being deleted"));
        }
        if generated {
            check_owner(pod, claim)?;
        }
        claims.push(claim.clone());
    }
    Ok(claims)
}

/// The name of the claim a pod refers to, and whether it was generated from a template for this pod.
fn claim_name<'a>(pod: &'a Pod, reference: &'a PodResourceClaim) -> Result<Option<(&'a str, bool)>, String> {
    let (namespace, pod_name) = names(pod);
    if let Some(name) = &reference.resource_claim_name {
        return Ok(Some((name, false)));
    }
    if reference.resource_claim_template_name.is_none() {
        return Err(format!(
            "pod \"{namespace}/{pod_name}\", spec.resourceClaim \"{}\": none of the supported fields are set",
            reference.name
        ));
    }
    let statuses = pod.status.iter().flat_map(|status| status.resource_claim_statuses.iter().flatten());
    match statuses.into_iter().find(|status| status.name == reference.name) {
        Some(status) => Ok(status.resource_claim_name.as_deref().map(|name| (name, true))),
        None => Err(format!("pod \"{namespace}/{pod_name}\": ResourceClaim not created yet")),
    }
}

/// Checks that a generated claim was generated for this pod and not for a namesake before it.
fn check_owner(pod: &Pod, claim: &ResourceClaim) -> Result<(), String> {
    let (namespace, pod_name) = names(pod);
    let claim_namespace = claim.metadata.namespace.as_deref().unwrap_or_default();
    let claim_name = claim.metadata.name.as_deref().unwrap_or_default();
    let mut owners = claim.metadata.owner_references.iter().flatten();
    let owned = owners
        .find(|owner| owner.controller == Some(true))
        .is_some_and(|owner| Some(owner.uid.as_str()) == pod.metadata.uid.as_deref());
    if owned {
        return Ok(());
    }
    Err(format!(
        "ResourceClaim {claim_namespace}/{claim_name} was not created for Pod {namespace}/{pod_name} (Pod is not owner)"
    ))
}

fn names(pod: &Pod) -> (&str, &str) {
    (pod.metadata.namespace.as_deref().unwrap_or_default(), pod.metadata.name.as_deref().unwrap_or_default())
}

/// The allocation a claim's status shows.
pub fn allocation(claim: &ResourceClaim) -> Option<&AllocationResult> {
    claim.status.as_ref()?.allocation.as_ref()
}

/// The devices of an allocation.
pub fn allocated_devices(allocation: &AllocationResult) -> &[DeviceRequestAllocationResult] {
    allocation.devices.as_ref().and_then(|devices| devices.results.as_deref()).unwrap_or_default()
}

/// Whom a claim is reserved for.
pub fn reserved_for(claim: &ResourceClaim) -> &[ResourceClaimConsumerReference] {
    claim.status.as_ref().and_then(|status| status.reserved_for.as_deref()).unwrap_or_default()
}

/// Whether the claim is reserved for the pod.
pub fn is_reserved_for(pod: &Pod, claim: &ResourceClaim) -> bool {
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    reserved_for(claim).iter().any(|consumer| consumer.uid == uid)
}

/// The reference under which a claim is reserved for a pod.
pub fn consumer(pod: &Pod) -> ResourceClaimConsumerReference {
    ResourceClaimConsumerReference {
        api_group: None,
        name: pod.metadata.name.clone().unwrap_or_default(),
        resource: "pods".to_owned(),
        uid: pod.metadata.uid.clone().unwrap_or_default(),
    }
}

/// Whether the devices of an allocated claim are ready for a pod to be bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    /// They are, or nothing has to be waited for.
    Ready,
    /// A condition is still missing.
    Waiting,
    /// A driver reported that a device will not become ready.
    Failed(String),
}

/// Looks at the conditions that devices of the claim need before binding.
pub fn readiness(claim: &ResourceClaim) -> Readiness {
    let Some(allocation) = allocation(claim) else {
        return Readiness::Waiting;
    };
    for result in allocated_devices(allocation) {
        let wanted = result.binding_conditions.as_deref().unwrap_or_default();
        if wanted.is_empty() {
            continue;
        }
        let mut statuses = claim.status.iter().flat_map(|status| status.devices.iter().flatten());
        let status = statuses.find(|status| {
            status.device == result.device && status.driver == result.driver && status.pool == result.pool
        });
        let Some(status) = status else {
            return Readiness::Waiting;
        };
        let conditions = status.conditions.as_deref().unwrap_or_default();
        let holds =
            |kind: &String| conditions.iter().find(|condition| condition.type_ == *kind).filter(|found| is_true(found));
        if let Some(failed) = result.binding_failure_conditions.iter().flatten().find_map(holds) {
            return Readiness::Failed(format!(
                "device binding failed: claim={}, reason={}, message={:?}",
                claim.metadata.name.as_deref().unwrap_or_default(),
                failed.reason,
                failed.message
            ));
        }
        if !wanted.iter().all(|kind| holds(kind).is_some()) {
            return Readiness::Waiting;
        }
    }
    Readiness::Ready
}

fn is_true(condition: &Condition) -> bool {
    condition.status == "True"
}

/// Whether a claim has waited for its binding conditions longer than is allowed; times are seconds since the epoch.
pub fn is_timed_out(claim: &ResourceClaim, now_s: f64, timeout_s: f64) -> bool {
    let Some(allocation) = allocation(claim) else {
        return false;
    };
    let Some(since) = &allocation.allocation_timestamp else {
        return false;
    };
    let waiting = allocated_devices(allocation).iter().any(|result| result.binding_conditions.is_some());
    waiting && since.0.as_second() as f64 + timeout_s < now_s
}
