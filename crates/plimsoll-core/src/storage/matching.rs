//! What could serve a claim that waits for its pod: a volume to bind, or a volume to be provisioned.

use std::sync::Arc;

use super::binding::{REASON_BIND_CONFLICT, REASON_NOT_ENOUGH_SPACE};
use super::objects::{CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass};
use super::selector::topology_matches;
use super::{NodeView, StorageObjects};
use crate::quantity::Quantity;

/// A claim that waits for the pod to be scheduled.
#[derive(Debug, Clone)]
pub(super) struct UnboundClaim {
    pub(super) claim: Arc<PersistentVolumeClaim>,
    class: Arc<StorageClass>,
    /// The node its volume is being provisioned for.
    pub(super) selected_node: Option<Box<str>>,
    /// Suitable volumes that were kept for the claim.
    kept: Vec<Arc<PersistentVolume>>,
    /// Suitable free volumes that demand no particular node label, smallest first.
    unanchored: Vec<Arc<PersistentVolume>>,
    /// What the driver says it can provision; nothing if it does not say.
    capacities: Option<Vec<Arc<CsiStorageCapacity>>>,
}

impl UnboundClaim {
    /// Looks up what could serve a claim. `siblings` is the number of claims of the pod that wait, this one included.
    pub(super) fn new(
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

    /// The size asked for; nothing is as good as none.
    pub(super) fn request(&self) -> Quantity {
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
    pub(super) fn find_volume<'a>(
        &'a self,
        objects: &'a StorageObjects,
        node: &impl NodeView,
        taken: &[&str],
    ) -> Option<&'a Arc<PersistentVolume>> {
        let label = |key: &str| node.label(key);
        let is_free = |volume: &PersistentVolume| !taken.contains(&&*volume.name);
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
    pub(super) fn check_provision(&self, node: &impl NodeView) -> Result<(), &'static str> {
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
