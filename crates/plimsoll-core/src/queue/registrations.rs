//! The events each plugin registers for: those that can make a pod it rejected schedulable.

use super::events::{ActionType, EventResource, Registration};
use crate::config::PluginName;

const fn asked(resource: EventResource, action: ActionType) -> Registration {
    Registration { resource, action, has_hint: true }
}

const fn always(resource: EventResource, action: ActionType) -> Registration {
    Registration { resource, action, has_hint: false }
}

/// The events `plugin` registers for in kube-scheduler v1.36 with its default features.
pub const fn events_to_register(plugin: PluginName) -> &'static [Registration] {
    use EventResource::*;
    const ADD: ActionType = ActionType::ADD;
    const DELETE: ActionType = ActionType::DELETE;
    const UPDATE: ActionType = ActionType::UPDATE;
    const ADD_OR_UPDATE: ActionType = ADD.or(UPDATE);
    const NODE_LABELS: ActionType = ADD.or(ActionType::UPDATE_NODE_LABEL);
    match plugin {
        PluginName::DefaultPreemption => const { &[asked(Pod, DELETE)] },
        PluginName::DynamicResources => {
            const {
                &[
                    always(Node, NODE_LABELS.or(ActionType::UPDATE_NODE_ALLOCATABLE)),
                    // Kubernetes does not hear of deletions; a pod whose claim for extended resources was left over waits for one.
                    asked(ResourceClaim, ADD_OR_UPDATE.or(DELETE)),
                    asked(Pod, ActionType::UPDATE_POD_GENERATED_RESOURCE_CLAIM),
                    always(DeviceClass, ADD_OR_UPDATE),
                    always(ResourceSlice, ADD_OR_UPDATE),
                ]
            }
        }
        PluginName::GangScheduling => const { &[asked(Pod, ADD), asked(PodGroup, ADD)] },
        PluginName::InterPodAffinity => {
            const { &[asked(Pod, ADD.or(ActionType::UPDATE_POD_LABEL).or(DELETE)), asked(Node, NODE_LABELS)] }
        }
        PluginName::NodeAffinity => const { &[asked(Node, NODE_LABELS)] },
        PluginName::NodeDeclaredFeatures => {
            const { &[asked(Node, ADD.or(ActionType::UPDATE_NODE_DECLARED_FEATURE)), asked(Pod, UPDATE)] }
        }
        PluginName::NodeName => const { &[always(Node, ADD)] },
        PluginName::NodePorts => const { &[asked(Pod, DELETE), always(Node, ADD)] },
        PluginName::NodeResourcesFit => {
            const {
                &[
                    asked(Pod, DELETE.or(ActionType::UPDATE_POD_SCALE_DOWN)),
                    asked(Node, ADD.or(ActionType::UPDATE_NODE_ALLOCATABLE)),
                    asked(DeviceClass, ADD_OR_UPDATE),
                ]
            }
        }
        PluginName::NodeUnschedulable | PluginName::TaintToleration => {
            const { &[asked(Node, ADD.or(ActionType::UPDATE_NODE_TAINT)), asked(Pod, ActionType::UPDATE_POD_TOLERATION)] }
        }
        PluginName::NodeVolumeLimits => {
            const {
                &[
                    always(CsiNode, ADD),
                    asked(CsiNode, UPDATE),
                    asked(Pod, DELETE),
                    asked(PersistentVolumeClaim, ADD),
                    asked(VolumeAttachment, DELETE),
                ]
            }
        }
        PluginName::PodTopologySpread => {
            const {
                &[
                    asked(Pod, ADD.or(ActionType::UPDATE_POD_LABEL).or(ActionType::UPDATE_POD_TOLERATION).or(DELETE)),
                    asked(Node, NODE_LABELS.or(DELETE).or(ActionType::UPDATE_NODE_TAINT)),
                ]
            }
        }
        PluginName::SchedulingGates => const { &[asked(Pod, ActionType::UPDATE_POD_SCHEDULING_GATES_ELIMINATED)] },
        PluginName::VolumeBinding => {
            const {
                &[
                    asked(StorageClass, ADD_OR_UPDATE),
                    asked(PersistentVolumeClaim, ADD_OR_UPDATE),
                    always(PersistentVolume, ADD_OR_UPDATE),
                    always(Node, NODE_LABELS),
                    asked(CsiNode, ADD_OR_UPDATE),
                    asked(CsiDriver, UPDATE),
                    asked(CsiStorageCapacity, ADD_OR_UPDATE),
                ]
            }
        }
        PluginName::VolumeRestrictions => {
            const { &[asked(Pod, DELETE), always(Node, ADD), asked(PersistentVolumeClaim, ADD)] }
        }
        PluginName::VolumeZone => {
            const {
                &[
                    asked(StorageClass, ADD),
                    always(Node, NODE_LABELS),
                    asked(PersistentVolumeClaim, ADD_OR_UPDATE),
                    asked(PersistentVolume, ADD_OR_UPDATE),
                ]
            }
        }
        // These reject no pod, or none that an event could help.
        PluginName::DefaultBinder
        | PluginName::ImageLocality
        | PluginName::NodeResourcesBalancedAllocation
        | PluginName::PodGroupPodsCount
        | PluginName::PrioritySort
        | PluginName::TopologyPlacementGenerator => &[],
    }
}

/// The events that move pods rejected by an extender: it has no way to say which help, so nearly all do.
pub const EXTENDER_EVENTS: [Registration; 10] = [
    always(EventResource::Pod, ActionType::ALL),
    always(EventResource::Node, ActionType::ALL),
    always(EventResource::PersistentVolume, ActionType::ALL),
    always(EventResource::PersistentVolumeClaim, ActionType::ALL),
    always(EventResource::CsiNode, ActionType::ALL),
    always(EventResource::CsiDriver, ActionType::ALL),
    always(EventResource::CsiStorageCapacity, ActionType::ALL),
    always(EventResource::StorageClass, ActionType::ALL),
    always(EventResource::ResourceClaim, ActionType::ALL),
    always(EventResource::DeviceClass, ActionType::ALL),
];
