//! DynamicResources.

use super::Waiting;
use crate::dra::claims::{allocation, pod_claims};
use crate::dra::{is_controlled_by, is_extended_claim};
use crate::engine::change::PodView;
use crate::storage::Change;
use k8s_openapi::api::resource::v1::ResourceClaim;

/// Whether a claim of the pod is missing, which keeps it out of the queue.
pub fn lacks_claims(waiting: &Waiting<'_>) -> bool {
    let object = waiting.pod.object.as_deref();
    object.is_some_and(|pod| pod_claims(pod, &waiting.state.dra).is_err())
}

/// A claim helps if it is the pod's and its status changed, or whosever it is, if its devices became free. One that is gone helps if it
/// was left over of the pod.
pub fn after_claim_change(waiting: &Waiting<'_>, claim: &Change<ResourceClaim>) -> bool {
    let object = waiting.pod.object.as_deref();
    let (old, Some(new)) = (claim.old.as_deref(), claim.new.as_deref()) else {
        // What an earlier attempt left over kept the pod from having another.
        let left_over = claim.old.as_deref().filter(|gone| is_extended_claim(gone));
        return object.zip(left_over).is_some_and(|(pod, gone)| is_controlled_by(gone, pod));
    };
    let Ok(claims) = object.map_or(Ok(Vec::new()), |pod| pod_claims(pod, &waiting.state.dra)) else { return false };
    if old.is_some_and(|old| allocation(old).is_some() && allocation(new).is_none()) {
        return true;
    }
    let is_used = claims.iter().any(|claim| claim.metadata.uid == new.metadata.uid);
    let status = |claim: &ResourceClaim| claim.status.clone().unwrap_or_default();
    is_used && old.is_none_or(|old| status(old) != status(new))
}

/// The pod's claims were made, and all are there.
pub fn after_pod_change(waiting: &Waiting<'_>, new: Option<&PodView>) -> bool {
    let Some(new) = new.filter(|new| waiting.is(Some(new))) else { return false };
    new.object.as_deref().is_none_or(|pod| pod_claims(pod, &waiting.state.dra).is_ok())
}
