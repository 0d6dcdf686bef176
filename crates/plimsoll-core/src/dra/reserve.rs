//! Taking the devices of the chosen node, and giving them back.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ContainerExtendedResourceRequest, Pod};
use k8s_openapi::api::resource::v1::ResourceClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::claims::{Readiness, allocated_devices, allocation, consumer, is_reserved_for, is_timed_out, readiness};
use super::extended::IN_MEMORY_CLAIM;
use super::objects::DraObjects;
use super::plugin::{PodState, Status, Timing};
use crate::framework::Code;

/// Keeps an allocated claim from being deleted.
pub const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

/// A claim as it has to be written before the pod is bound.
#[derive(Debug, Clone)]
pub struct ClaimWrite {
    /// Which of the pod's claims it is.
    pub(super) index: usize,
    /// The claim, allocated and reserved for the pod.
    pub claim: ResourceClaim,
    /// The identifier under which its devices are assumed to be taken; forget it once the claim is written.
    pub assumed: Option<String>,
    /// Set if the claim does not exist yet and has to be created: for the pod's status, which container gets what.
    pub create: Option<Vec<ContainerExtendedResourceRequest>>,
}

/// What is to be undone in the API when a pod is not bound after all.
#[derive(Debug)]
pub enum Unreserve {
    /// Remove the pod from those the claim is reserved for.
    RemoveConsumer(Arc<ResourceClaim>),
    /// Delete the claim, after removing the finalizer.
    Delete(Arc<ResourceClaim>),
}

/// Takes the devices found for the node; until the claims are written they are assumed to be taken.
pub fn reserve(objects: &mut DraObjects, state: &mut PodState, node: &str) -> Result<(), Status> {
    let missing: Vec<usize> =
        (0..state.claims.len()).filter(|i| allocation(&state.claims[*i].claim).is_none()).collect();
    let error = |reason: String| Status { code: Code::Error, reason };
    if missing.is_empty() {
        return Ok(());
    }
    let extended = state.extended_index();
    let Some(here) = state.nodes.get(node).filter(|here| !here.allocations.is_empty()) else {
        // The node has the extended resources itself.
        if missing.iter().all(|i| Some(*i) == extended) {
            return Ok(());
        }
        return Err(error("claim allocation not found for node".to_owned()));
    };
    if here.allocations.len() != missing.len() {
        return Err(error(format!(
            "internal error, have {} allocations, {1} claims to allocate, want {1} claims",
            here.allocations.len(),
            missing.len()
        )));
    }
    let mut reserved = Vec::with_capacity(missing.len());
    for (i, found) in missing.iter().zip(&here.allocations) {
        let own = state.claims[*i].prepared();
        let of_node = here.extended.as_ref().filter(|_| Some(*i) == extended).map(|extended| &extended.prepared);
        let Some(prepared) = of_node.or(own) else {
            continue;
        };
        let mut claim = (*prepared.claim).clone();
        let finalizers = claim.metadata.finalizers.get_or_insert_default();
        if !finalizers.iter().any(|known| known == FINALIZER) {
            finalizers.push(FINALIZER.to_owned());
        }
        claim.status.get_or_insert_default().allocation = Some(found.to_api(prepared, node));
        reserved.push((*i, claim));
    }
    for (i, claim) in reserved {
        objects.assume_claim(claim.clone()).map_err(|problem| error(problem.to_string()))?;
        state.claims[i].allocated = Some(Arc::new(claim));
    }
    Ok(())
}

/// The claims to write before the pod is bound: those it is not among the consumers of.
pub fn pre_bind(state: &PodState, pod: &Pod, node: &str, now_s: f64) -> Vec<ClaimWrite> {
    let extended = state.extended_index();
    let mappings = state.nodes.get(node).and_then(|here| here.extended.as_ref()).map(|extended| &extended.mappings);
    let mut writes = Vec::new();
    for (i, of_claim) in state.claims.iter().enumerate() {
        if is_reserved_for(pod, &of_claim.claim) {
            continue;
        }
        let is_extended = Some(i) == extended;
        if is_extended && of_claim.allocated.is_none() {
            continue;
        }
        let mut claim = (**of_claim.allocated.as_ref().unwrap_or(&of_claim.claim)).clone();
        let assumed = of_claim.allocated.as_ref().and_then(|claim| claim.metadata.uid.clone());
        let status = claim.status.get_or_insert_default();
        status.reserved_for.get_or_insert_default().push(consumer(pod));
        if let Some(allocation) = &mut status.allocation {
            let now = Timestamp::from_second(now_s as i64).ok().map(Time);
            allocation.allocation_timestamp = allocation.allocation_timestamp.take().or(now);
        }
        let create = is_extended && claim.metadata.name.as_deref() == Some(IN_MEMORY_CLAIM);
        if create {
            (claim.metadata.name, claim.metadata.uid) = (None, None);
        }
        let create = create.then(|| mappings.cloned().unwrap_or_default());
        writes.push(ClaimWrite { index: i, claim, assumed, create });
    }
    writes
}

/// Takes note of what was written of a claim: what [`unreserve`] has to undo.
pub fn record_written(state: &mut PodState, write: &ClaimWrite, written: Arc<ResourceClaim>) {
    if let Some(of_claim) = state.claims.get_mut(write.index) {
        (of_claim.claim, of_claim.allocated) = (written, None);
    }
}

/// Whether a driver wants to be waited for before the pod is bound.
pub fn has_binding_conditions(state: &PodState) -> bool {
    let allocations = state.claims.iter().filter_map(|of_claim| allocation(&of_claim.claim));
    let mut devices = allocations.flat_map(allocated_devices);
    devices.any(|device| device.binding_conditions.as_ref().is_some_and(|wanted| !wanted.is_empty()))
}

/// Whether all devices are ready, by the claims as they are now; an error if one will not be.
pub fn ready(objects: &DraObjects, state: &PodState, timing: Timing) -> Result<bool, String> {
    for of_claim in &state.claims {
        let metadata = &of_claim.claim.metadata;
        let (namespace, name) =
            (metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default());
        // The node has the extended resources itself.
        if name == IN_MEMORY_CLAIM {
            continue;
        }
        let missing = || format!("could not find ResourceClaim \"{namespace}/{name}\"");
        let claim = objects.claim(namespace, name).ok_or_else(missing)?;
        match readiness(claim) {
            Readiness::Ready => {}
            Readiness::Waiting if is_timed_out(claim, timing.now_s, timing.binding_timeout_s) => {
                return Err(format!("device binding timeout: claim={name}"));
            }
            Readiness::Waiting => return Ok(false),
            Readiness::Failed(problem) => return Err(problem),
        }
    }
    Ok(true)
}

/// Gives back what [`reserve`] took; the rest is for the caller to undo.
pub fn unreserve(objects: &mut DraObjects, state: &mut PodState, pod: &Pod) -> Vec<Unreserve> {
    let mut undo = Vec::new();
    let extended = state.extended_index();
    for (i, of_claim) in state.claims.iter_mut().enumerate() {
        if let Some(uid) = of_claim.allocated.take().and_then(|claim| claim.metadata.uid.clone()) {
            objects.forget_claim(&uid);
        }
        if Some(i) == extended {
            if of_claim.claim.metadata.name.as_deref() != Some(IN_MEMORY_CLAIM) {
                undo.push(Unreserve::Delete(of_claim.claim.clone()));
            }
        } else if allocation(&of_claim.claim).is_some() && is_reserved_for(pod, &of_claim.claim) {
            undo.push(Unreserve::RemoveConsumer(of_claim.claim.clone()));
        }
    }
    undo
}
