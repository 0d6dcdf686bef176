//! VolumeBinding: bound claims must be reachable from the node, unbound ones must find a volume or be provisioned there.

use std::sync::Arc;

use super::objects::{BindingMode, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass};
use super::selector::topology_matches;
use super::{NodeView, PodVolumes, PreFilterOutcome, Rejection, StorageObjects, not_found, quote};
use crate::quantity::Quantity;
use crate::storage::Code;

/// The plugin's name.
pub const NAME: &str = "VolumeBinding";

/// No volume can be bound or provisioned on the node for some claim.
pub const REASON_BIND_CONFLICT: &str = "node(s) didn't find available persistent volumes to bind";
/// A volume of the pod cannot be used from the node.
pub const REASON_NODE_CONFLICT: &str = "node(s) didn't match PersistentVolume's node affinity";
/// The driver cannot provision a volume of the size on the node.
pub const REASON_NOT_ENOUGH_SPACE: &str = "node(s) did not have enough free storage";
/// A claim is bound to a volume that does not exist.
pub const REASON_VOLUME_NOT_EXIST: &str = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
/// A claim that is bound without regard to pods is not bound yet.
pub const REASON_UNBOUND_IMMEDIATE: &str = "pod has unbound immediate PersistentVolumeClaims";

/// What PreFilter found: the pod's claims and what does not depend on the node.
#[derive(Debug, Clone)]
pub struct State {
    /// The volumes of bound claims; nothing where the volume does not exist.
    bound: Vec<Option<Arc<PersistentVolume>>>,
    /// Claims whose volume is already being provisioned for a node, in the pod's order.
    selected: Vec<UnboundClaim>,
    /// The other claims that wait for the pod, smallest first.
    unbound: Vec<UnboundClaim>,
}

/// A claim that waits for the pod to be scheduled.
#[derive(Debug, Clone)]
struct UnboundClaim {
    claim: Arc<PersistentVolumeClaim>,
    class: Arc<StorageClass>,
    /// The node its volume is being provisioned for.
    selected_node: Option<Box<str>>,
    /// Suitable volumes that were kept for the claim.
    kept: Vec<Arc<PersistentVolume>>,
    /// Suitable free volumes that demand no particular node label, smallest first.
    unanchored: Vec<Arc<PersistentVolume>>,
    /// What the driver says it can provision; nothing if it does not say.
    capacities: Option<Vec<Arc<CsiStorageCapacity>>>,
}

/// What is to happen to the pod's claims if it goes to a node.
#[derive(Debug, Clone, Default)]
pub(super) struct NodeVolumes {
    /// Claims and the volumes they are to be bound to.
    pub(super) bindings: Vec<(Arc<PersistentVolumeClaim>, Arc<PersistentVolume>)>,
    /// Claims to be provisioned for the node.
    pub(super) provisions: Vec<Arc<PersistentVolumeClaim>>,
}

impl State {
    /// Whether nothing is left to be bound.
    pub(super) fn all_bound(&self) -> bool {
        self.selected.is_empty() && self.unbound.is_empty()
    }
}

/// Looks up the pod's claims and sorts them into bound and waiting.
pub fn pre_filter(objects: &StorageObjects, pod: &PodVolumes) -> PreFilterOutcome<State> {
    match check_claims(objects, pod) {
        Ok(true) => {}
        Ok(false) => return PreFilterOutcome::Skip,
        Err(reason) => return PreFilterOutcome::Reject(Rejection::unresolvable(reason)),
    }
    match sort_claims(objects, pod) {
        Ok(Some(state)) => PreFilterOutcome::Continue(state),
        Ok(None) => PreFilterOutcome::Reject(Rejection::unresolvable(REASON_UNBOUND_IMMEDIATE)),
        Err(reason) => PreFilterOutcome::Reject(Rejection::error(reason)),
    }
}

/// Whether the pod has claims; the error is what makes one of them unusable.
fn check_claims(objects: &StorageObjects, pod: &PodVolumes) -> Result<bool, String> {
    let mut any = false;
    for (name, is_ephemeral) in pod.all_claim_names() {
        any = true;
        let Some(claim) = objects.claim(pod.namespace(), name) else {
            return Err(if is_ephemeral {
                let claim = quote(name);
                format!("waiting for ephemeral volume controller to create the persistentvolumeclaim {claim}")
            } else {
                not_found("persistentvolumeclaim", name)
            });
        };
        if claim.lost {
            return Err(format!(
                "persistentvolumeclaim {} bound to non-existent persistentvolume {}",
                quote(name),
                quote(&claim.volume_name)
            ));
        }
        if claim.deleting {
            return Err(format!("persistentvolumeclaim {} is being deleted", quote(name)));
        }
        if is_ephemeral {
            pod.check_owner(name, claim.controller.as_deref())?;
        }
    }
    Ok(any)
}

/// Sorts claims into bound and waiting; nothing if one should have been bound already.
fn sort_claims(objects: &StorageObjects, pod: &PodVolumes) -> Result<Option<State>, String> {
    let mut state = State { bound: Vec::new(), selected: Vec::new(), unbound: Vec::new() };
    let mut waiting = Vec::new();
    let mut all_immediate_bound = true;
    for (name, _) in pod.all_claim_names() {
        let Some(claim) = objects.claim(pod.namespace(), name) else { continue };
        if claim.is_fully_bound() {
            state.bound.push(objects.volume(&claim.volume_name).cloned());
            continue;
        }
        match waiting_class(objects, claim)? {
            Some(class) if claim.volume_name.is_empty() => waiting.push((claim, class)),
            _ => all_immediate_bound = false,
        }
    }
    if !all_immediate_bound {
        return Ok(None);
    }
    let count = waiting.len();
    for (claim, class) in waiting {
        let unbound = UnboundClaim::new(objects, claim, class, count);
        if unbound.selected_node.is_some() {
            state.selected.push(unbound);
        } else {
            state.unbound.push(unbound);
        }
    }
    state.unbound.sort_by(|a, b| a.request().cmp(&b.request()));
    Ok(Some(state))
}

/// The class of a claim if claims of the class wait for their pod.
fn waiting_class<'a>(
    objects: &'a StorageObjects,
    claim: &PersistentVolumeClaim,
) -> Result<Option<&'a Arc<StorageClass>>, String> {
    if claim.class.is_empty() {
        return Ok(None);
    }
    let Some(class) = objects.class(&claim.class) else { return Ok(None) };
    match class.binding_mode {
        None => Err(format!("VolumeBindingMode not set for StorageClass {}", quote(&class.name))),
        Some(BindingMode::Immediate) => Ok(None),
        Some(BindingMode::WaitForFirstConsumer) => Ok(Some(class)),
    }
}

impl UnboundClaim {
    /// `siblings` is the number of claims of the pod that wait, itself included.
    fn new(
        objects: &StorageObjects,
        claim: &Arc<PersistentVolumeClaim>,
        class: &Arc<StorageClass>,
        siblings: usize,
    ) -> Self {
        let mut unbound = Self {
            claim: Arc::clone(claim),
            class: Arc::clone(class),
            selected_node: objects.selected_node(claim).map(Into::into),
            kept: Vec::new(),
            unanchored: Vec::new(),
            capacities: capacities(objects, claim, class),
        };
        if unbound.selected_node.is_some() {
            return unbound;
        }
        unbound.kept = objects
            .volumes_referring_to(claim)
            .filter(|volume| volume.class == claim.class && !volume.deleting)
            .filter(|volume| volume.capacity >= unbound.request() && unbound.accepts_form(volume))
            .cloned()
            .collect();
        if let Some(free) = objects.free_volumes(&claim.class) {
            let mut usable_anywhere = 0;
            for volume in free.unanchored.range((unbound.request(), Box::default())..).map(|(_, v)| v) {
                if !unbound.accepts(volume) {
                    continue;
                }
                unbound.unanchored.push(Arc::clone(volume));
                usable_anywhere += usize::from(volume.node_affinity.is_none());
                // Siblings take at most one each, so a larger volume is never reached.
                if usable_anywhere == siblings {
                    break;
                }
            }
        }
        unbound
    }

    fn request(&self) -> Quantity {
        self.claim.request.clone().unwrap_or_default()
    }

    /// Whether a volume is of the kind the claim asks for, node and size aside.
    fn accepts(&self, volume: &PersistentVolume) -> bool {
        let selected = match &self.claim.selector {
            None => true,
            Some(Ok(selector)) => selector.matches(&|key| volume.label(key)),
            Some(Err(_)) => false,
        };
        selected && self.claim.access_modes.are_offered_by(volume.access_modes) && self.accepts_form(volume)
    }

    fn accepts_form(&self, volume: &PersistentVolume) -> bool {
        self.claim.volume_mode == volume.volume_mode && self.claim.attributes_class == volume.attributes_class
    }

    /// The volume to bind on a node: one kept for the claim if there is one, else the smallest that does.
    fn find_volume<'a>(
        &'a self,
        objects: &'a StorageObjects,
        node: &impl NodeView,
        taken: &NodeVolumes,
    ) -> Option<&'a Arc<PersistentVolume>> {
        let label = |key: &str| node.label(key);
        let is_free = |volume: &PersistentVolume| taken.bindings.iter().all(|(_, other)| other.name != volume.name);
        let is_usable =
            |volume: &PersistentVolume| volume.node_affinity.as_ref().is_none_or(|affinity| affinity.matches(&label));
        if let Some(kept) = self.kept.iter().find(|volume| is_free(volume)) {
            return is_usable(kept).then_some(kept);
        }
        let unanchored = self.unanchored.iter().find(|volume| is_free(volume) && is_usable(volume));
        let anchored = objects.free_volumes(&self.claim.class).and_then(|free| {
            free.smallest_anchored(&self.request(), &label, |volume| {
                is_free(volume) && is_usable(volume) && self.accepts(volume)
            })
        });
        unanchored.into_iter().chain(anchored).min_by_key(|volume| (&volume.capacity, &volume.name))
    }

    /// Whether a volume for the claim can be provisioned on a node; the error is the reason.
    fn check_provision(&self, node: &impl NodeView) -> Result<(), &'static str> {
        let label = |key: &str| node.label(key);
        if !self.class.provisions() || !topology_matches(&self.class.allowed_topologies, &label) {
            return Err(REASON_BIND_CONFLICT);
        }
        let Some(capacities) = &self.capacities else { return Ok(()) };
        let size = self.request().value();
        let enough = capacities.iter().any(|capacity| {
            capacity.limit.is_some_and(|limit| limit >= size)
                && capacity.topology.as_ref().is_some_and(|topology| topology.matches(&label))
        });
        if enough { Ok(()) } else { Err(REASON_NOT_ENOUGH_SPACE) }
    }
}

/// What the class' driver says it can provision, if the claim has a size and the driver says so at all.
fn capacities(
    objects: &StorageObjects,
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
) -> Option<Vec<Arc<CsiStorageCapacity>>> {
    claim.request.as_ref()?;
    objects.csi_driver(&class.provisioner)?.storage_capacity.then(|| objects.capacities(&class.name).cloned().collect())
}

/// Whether the node can serve all of the pod's claims.
pub fn filter(objects: &StorageObjects, state: &State, node: &impl NodeView) -> Result<(), Rejection> {
    find(objects, state, node).map(|_| ())
}

/// Decides what is to happen to the pod's claims on a node.
pub(super) fn find(objects: &StorageObjects, state: &State, node: &impl NodeView) -> Result<NodeVolumes, Rejection> {
    let mut volumes = NodeVolumes::default();
    let bound = check_bound(objects, state, node)?;
    let unbound = place_unbound(objects, state, node, &mut volumes)?;
    let reasons: Vec<_> = [
        bound.filter(|reason| *reason == REASON_NODE_CONFLICT),
        unbound,
        bound.filter(|reason| *reason == REASON_VOLUME_NOT_EXIST),
    ]
    .into_iter()
    .flatten()
    .map(Into::into)
    .collect();
    if reasons.is_empty() { Ok(volumes) } else { Err(Rejection { code: Code::UnschedulableAndUnresolvable, reasons }) }
}

/// What keeps the node from the volumes of bound claims, if anything.
fn check_bound(
    objects: &StorageObjects,
    state: &State,
    node: &impl NodeView,
) -> Result<Option<&'static str>, Rejection> {
    for volume in &state.bound {
        let Some(volume) = volume else { return Ok(Some(REASON_VOLUME_NOT_EXIST)) };
        if !is_reachable(objects, volume, node).map_err(Rejection::error)? {
            return Ok(Some(REASON_NODE_CONFLICT));
        }
    }
    Ok(None)
}

/// Whether a volume can be used from a node, by the affinity of its CSI view where the node serves it through CSI.
pub(super) fn is_reachable(
    objects: &StorageObjects,
    volume: &PersistentVolume,
    node: &impl NodeView,
) -> Result<bool, String> {
    let mut affinity = &volume.node_affinity;
    if let Some(translated) = &volume.translated
        && translated.plugin.is_migrated()
        && objects.csi_node(node.name()).is_some_and(|csi_node| csi_node.serves_migrated(translated.plugin))
    {
        if let Err(problem) = &translated.handle {
            return Err(format!("could not translate pv: {problem}"));
        }
        affinity = &translated.node_affinity;
    }
    Ok(affinity.as_ref().is_none_or(|affinity| affinity.matches(&|key| node.label(key))))
}

/// Finds volumes for waiting claims, or has them provisioned; the inner value is the reason why that cannot be.
fn place_unbound(
    objects: &StorageObjects,
    state: &State,
    node: &impl NodeView,
    volumes: &mut NodeVolumes,
) -> Result<Option<&'static str>, Rejection> {
    if state.selected.iter().any(|claim| claim.selected_node.as_deref() != Some(node.name())) {
        return Ok(Some(REASON_BIND_CONFLICT));
    }
    let mut to_provision: Vec<&UnboundClaim> = state.selected.iter().collect();
    for unbound in &state.unbound {
        if let Some(Err(problem)) = &unbound.claim.selector {
            return Err(Rejection::error(format!(
                "error creating internal label selector for claim: {}/{}: {problem}",
                unbound.claim.namespace, unbound.claim.name
            )));
        }
        match unbound.find_volume(objects, node, volumes) {
            Some(volume) => volumes.bindings.push((Arc::clone(&unbound.claim), Arc::clone(volume))),
            None => to_provision.push(unbound),
        }
    }
    for unbound in to_provision {
        if let Err(reason) = unbound.check_provision(node) {
            return Ok(Some(reason));
        }
        volumes.provisions.push(Arc::clone(&unbound.claim));
    }
    Ok(None)
}
