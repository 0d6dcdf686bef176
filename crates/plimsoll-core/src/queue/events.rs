//! Changes of the cluster, in the words of the scheduling framework: what changed, and how.

use std::fmt;
use std::ops::BitOr;

/// What changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names are those of the API")]
pub enum EventResource {
    /// Any pod. Plugins register for it; an event is about an assigned or an unschedulable one.
    Pod,
    /// A pod with a node.
    AssignedPod,
    /// A pod without a node.
    UnschedulablePod,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    CsiNode,
    CsiDriver,
    VolumeAttachment,
    CsiStorageCapacity,
    StorageClass,
    ResourceClaim,
    ResourceSlice,
    DeviceClass,
    PodGroup,
    /// Anything. An event with it and [`ActionType::ALL`] moves every pod that is not gated.
    WildCard,
}

impl EventResource {
    /// The name as Kubernetes writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pod => "Pod",
            Self::AssignedPod => "AssignedPod",
            Self::UnschedulablePod => "UnschedulablePod",
            Self::Node => "Node",
            Self::PersistentVolume => "PersistentVolume",
            Self::PersistentVolumeClaim => "PersistentVolumeClaim",
            Self::CsiNode => "storage.k8s.io/CSINode",
            Self::CsiDriver => "storage.k8s.io/CSIDriver",
            Self::VolumeAttachment => "storage.k8s.io/VolumeAttachment",
            Self::CsiStorageCapacity => "storage.k8s.io/CSIStorageCapacity",
            Self::StorageClass => "storage.k8s.io/StorageClass",
            Self::ResourceClaim => "resource.k8s.io/ResourceClaim",
            Self::ResourceSlice => "resource.k8s.io/ResourceSlice",
            Self::DeviceClass => "resource.k8s.io/DeviceClass",
            Self::PodGroup => "scheduling.k8s.io/PodGroup",
            Self::WildCard => "*",
        }
    }

    /// Whether what is registered for `self` hears of changes of `incoming`.
    fn covers(self, incoming: Self) -> bool {
        self == Self::WildCard
            || self == incoming
            || self == Self::Pod && matches!(incoming, Self::AssignedPod | Self::UnschedulablePod)
    }
}

/// How it changed: a set of kinds of change. An event has one of them, a registration any number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActionType(u16);

#[expect(missing_docs, reason = "the names are those of Kubernetes")]
impl ActionType {
    pub const ADD: Self = Self(1);
    pub const DELETE: Self = Self(1 << 1);
    pub const UPDATE_NODE_ALLOCATABLE: Self = Self(1 << 2);
    pub const UPDATE_NODE_LABEL: Self = Self(1 << 3);
    /// Taints, and `spec.unschedulable` taken back.
    pub const UPDATE_NODE_TAINT: Self = Self(1 << 4);
    pub const UPDATE_NODE_CONDITION: Self = Self(1 << 5);
    pub const UPDATE_NODE_ANNOTATION: Self = Self(1 << 6);
    pub const UPDATE_NODE_DECLARED_FEATURE: Self = Self(1 << 7);
    pub const UPDATE_POD_LABEL: Self = Self(1 << 8);
    /// Any request became smaller.
    pub const UPDATE_POD_SCALE_DOWN: Self = Self(1 << 9);
    pub const UPDATE_POD_TOLERATION: Self = Self(1 << 10);
    /// The last scheduling gate is gone.
    pub const UPDATE_POD_SCHEDULING_GATES_ELIMINATED: Self = Self(1 << 11);
    pub const UPDATE_POD_GENERATED_RESOURCE_CLAIM: Self = Self(1 << 12);
    /// Any update; in an event, one that is none of the particular ones.
    pub const UPDATE: Self = Self(Self::ALL.0 & !Self::ADD.0 & !Self::DELETE.0);
    pub const ALL: Self = Self((1 << 13) - 1);

    /// Both sets.
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the sets have a member in common.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for ActionType {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.or(other)
    }
}

impl fmt::Display for ActionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::ADD => "Add",
            Self::DELETE => "Delete",
            Self::UPDATE_NODE_ALLOCATABLE => "UpdateNodeAllocatable",
            Self::UPDATE_NODE_LABEL => "UpdateNodeLabel",
            Self::UPDATE_NODE_TAINT => "UpdateNodeTaint",
            Self::UPDATE_NODE_CONDITION => "UpdateNodeCondition",
            Self::UPDATE_NODE_ANNOTATION => "UpdateNodeAnnotation",
            Self::UPDATE_NODE_DECLARED_FEATURE => "UpdateNodeDeclaredFeature",
            Self::UPDATE_POD_LABEL => "UpdatePodLabel",
            Self::UPDATE_POD_SCALE_DOWN => "UpdatePodScaleDown",
            Self::UPDATE_POD_TOLERATION => "UpdatePodToleration",
            Self::UPDATE_POD_SCHEDULING_GATES_ELIMINATED => "UpdatePodSchedulingGatesEliminated",
            Self::UPDATE_POD_GENERATED_RESOURCE_CLAIM => "UpdatePodGeneratedResourceClaim",
            Self::UPDATE => "Update",
            Self::ALL => "All",
            // Kubernetes has no name for other combinations either.
            _ => "",
        })
    }
}

/// A change of the cluster. `object` is what the hints need to know about it, such as the old and new object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the types of the fields say it")]
pub struct Event<O = ()> {
    pub resource: EventResource,
    pub action: ActionType,
    pub object: O,
}

impl<O> Event<O> {
    /// An event about `object`.
    pub const fn new(resource: EventResource, action: ActionType, object: O) -> Self {
        Self { resource, action, object }
    }

    /// Whether it moves pods whatever rejected them.
    pub fn is_wildcard(&self) -> bool {
        self.resource == EventResource::WildCard && self.action == ActionType::ALL
    }

    /// The label kube-scheduler gives it in metrics, such as `NodeAdd`.
    pub fn label(&self) -> String {
        format!("{}{}", self.resource.as_str(), self.action)
    }
}

/// An event that a plugin wants to hear of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    /// What changes.
    pub resource: EventResource,
    /// In which ways.
    pub action: ActionType,
    /// Whether the plugin looks at the event before its pods are tried again. If not, they always are.
    pub has_hint: bool,
}

impl Registration {
    /// Whether an event is among those registered: it must be as particular or more.
    ///
    /// The comparison of the sets as numbers is Kubernetes': it keeps a general update, the sum of all
    /// updates, from those who registered for particular ones.
    pub fn matches<O>(&self, event: &Event<O>) -> bool {
        self.resource == EventResource::WildCard && self.action == ActionType::ALL
            || self.resource.covers(event.resource)
                && self.action.intersects(event.action)
                && event.action <= self.action
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registrations_match_events_as_particular_or_more() {
        use EventResource::*;
        let label_or_add = ActionType::ADD | ActionType::UPDATE_NODE_LABEL;
        for (resource, action, incoming, change, expected) in [
            (Node, ActionType::UPDATE, Node, ActionType::UPDATE_NODE_LABEL, true),
            (Node, label_or_add, Node, ActionType::UPDATE_NODE_LABEL, true),
            (Node, label_or_add, Node, ActionType::ADD, true),
            (Node, label_or_add, Node, ActionType::UPDATE_NODE_TAINT, false),
            (Node, label_or_add, Node, ActionType::UPDATE, false),
            (Node, ActionType::UPDATE, Node, ActionType::UPDATE, true),
            (Node, ActionType::ALL, Pod, ActionType::ADD, false),
            (Pod, ActionType::DELETE, AssignedPod, ActionType::DELETE, true),
            (Pod, ActionType::UPDATE_POD_LABEL, UnschedulablePod, ActionType::UPDATE_POD_LABEL, true),
            (AssignedPod, ActionType::ADD, Pod, ActionType::ADD, false),
            (WildCard, ActionType::ADD, CsiNode, ActionType::ADD, true),
            (WildCard, ActionType::ALL, WildCard, ActionType::ALL, true),
            (Node, ActionType::ALL, WildCard, ActionType::ALL, false),
        ] {
            let registration = Registration { resource, action, has_hint: true };
            let event = Event::new(incoming, change, ());
            assert_eq!(registration.matches(&event), expected, "{registration:?} {event:?}");
        }
    }

    #[test]
    fn labels_are_those_of_the_metrics() {
        for (resource, action, expected) in [
            (EventResource::Node, ActionType::ADD, "NodeAdd"),
            (EventResource::AssignedPod, ActionType::DELETE, "AssignedPodDelete"),
            (EventResource::UnschedulablePod, ActionType::UPDATE, "UnschedulablePodUpdate"),
            (EventResource::CsiNode, ActionType::UPDATE, "storage.k8s.io/CSINodeUpdate"),
        ] {
            assert_eq!(Event::new(resource, action, ()).label(), expected);
        }
    }
}
