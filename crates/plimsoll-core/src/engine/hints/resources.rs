//! NodeResourcesFit.

use super::Waiting;
use crate::dra::DEVICE_CLASS_RESOURCE_PREFIX;
use crate::engine::change::PodView;
use crate::model::{NodeSpec, ResourceId};
use crate::storage::Change;
use k8s_openapi::api::resource::v1::DeviceClass;

/// The resources that every node counts.
const PLAIN: [ResourceId; 3] = [ResourceId::CPU, ResourceId::MEMORY, ResourceId::EPHEMERAL_STORAGE];

/// A node helps if the pod fits on it when it is empty, and it offers more than before of what the pod asks for.
pub fn after_node_change(waiting: &Waiting<'_>, node: &Change<NodeSpec>) -> bool {
    let Some(new) = node.new.as_deref() else { return false };
    fits(waiting, new) && node.old.as_deref().is_none_or(|old| offers_more(waiting, old, new))
}

fn fits(waiting: &Waiting<'_>, node: &NodeSpec) -> bool {
    let wanted = &waiting.shape.local.resources.wanted;
    let has_plain = |id: &ResourceId| wanted.get(*id) <= 0 || wanted.get(*id) <= node.allocatable.get(*id);
    let has_scalar =
        |&(id, amount): &(ResourceId, i64)| amount <= node.allocatable.get(id) || is_served_by_class(waiting, node, id);
    node.max_pods >= 1 && PLAIN.iter().all(has_plain) && wanted.scalars.iter().all(has_scalar)
}

fn offers_more(waiting: &Waiting<'_>, old: &NodeSpec, new: &NodeSpec) -> bool {
    let wanted = &waiting.shape.local.resources.wanted;
    let more = |id: ResourceId| wanted.get(id) > 0 && new.allocatable.get(id) > old.allocatable.get(id);
    new.max_pods > old.max_pods
        || PLAIN.into_iter().any(more)
        || wanted.scalars.iter().any(|&(id, _)| more(id) || is_served_by_class(waiting, new, id))
}

/// Whether a device class serves a resource that the node does not count itself.
fn is_served_by_class(waiting: &Waiting<'_>, node: &NodeSpec, id: ResourceId) -> bool {
    let name = waiting.state.resources.resolve(id);
    node.allocatable.get(id) <= 0 && waiting.state.dra.class_for_resource(name).is_some()
}

/// A pod that left gives room; one that asks for less, of what it asks for less.
pub fn after_pod_event(waiting: &Waiting<'_>, old: Option<&PodView>, new: Option<&PodView>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return old.is_some_and(PodView::takes_room) };
    if waiting.is(Some(new)) {
        return true;
    }
    let wanted = &waiting.shape.local.resources.wanted;
    let (before, after) = (&old.shape.local.resources.taken, &new.shape.local.resources.taken);
    let less = |id: ResourceId| wanted.get(id) > 0 && before.get(id) > after.get(id);
    new.assigned && (PLAIN.into_iter().any(less) || wanted.scalars.iter().any(|&(id, _)| less(id)))
}

/// A device class helps if it now serves a resource that the pod asks for.
pub fn after_class_event(waiting: &Waiting<'_>, class: &Change<DeviceClass>) -> bool {
    let Some(new) = class.new.as_deref() else { return false };
    let asks_for = |name: &str| {
        waiting.state.resources.get(name).is_some_and(|id| waiting.shape.local.resources.wanted.get(id) > 0)
    };
    let served = |class: &DeviceClass| class.spec.extended_resource_name.clone().filter(|name| !name.is_empty());
    match class.old.as_deref() {
        Some(old) if served(old) == served(new) => return false,
        Some(_) => {}
        None => {
            let name = new.metadata.name.as_deref().unwrap_or_default();
            if asks_for(&format!("{DEVICE_CLASS_RESOURCE_PREFIX}{name}")) {
                return true;
            }
        }
    }
    served(new).is_some_and(|name| asks_for(&name))
}
