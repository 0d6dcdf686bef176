//! Claims made ready for allocation: everything about them that does not depend on a node is worked out once.

use std::sync::Arc;

use k8s_openapi::api::resource::v1::{
    CapacityRequirements, DeviceClass, DeviceRequest, DeviceSelector, DeviceToleration, ResourceClaim,
};

use super::capacity::Requested;
use super::memo::{CompiledSelector, Selectors};
use super::objects::DraObjects;

/// A claim to be allocated.
#[derive(Debug)]
pub(super) struct PreparedClaim {
    pub(super) claim: Arc<ResourceClaim>,
    /// Namespace and name, for messages.
    pub(super) display: String,
    pub(super) requests: Vec<PreparedRequest>,
}

/// A request: one way to satisfy it, or several of which the first possible one is taken.
#[derive(Debug)]
pub(super) struct PreparedRequest {
    pub(super) name: String,
    /// Whether the alternatives are subrequests.
    pub(super) prioritized: bool,
    pub(super) alternatives: Vec<Alternative>,
}

/// One way to satisfy a request.
#[derive(Debug)]
pub(super) struct Alternative {
    /// The subrequest's name, or the request's own.
    pub(super) name: String,
    /// What makes it impossible on any node.
    pub(super) problem: Option<String>,
    pub(super) class: Option<Arc<DeviceClass>>,
    pub(super) class_selectors: Vec<CompiledSelector>,
    pub(super) selectors: Vec<CompiledSelector>,
    pub(super) count: Count,
    pub(super) admin_access: bool,
    pub(super) tolerations: Vec<DeviceToleration>,
    pub(super) requested: Requested,
}

/// How many devices are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    Exactly(i64),
    All,
}

/// The fields requests and subrequests have in common.
struct Fields<'a> {
    name: &'a str,
    class: &'a str,
    selectors: Option<&'a Vec<DeviceSelector>>,
    mode: Option<&'a str>,
    count: Option<i64>,
    admin_access: bool,
    tolerations: Option<&'a Vec<DeviceToleration>>,
    capacity: Option<&'a CapacityRequirements>,
}

impl PreparedClaim {
    pub(super) fn new(claim: Arc<ResourceClaim>, objects: &DraObjects) -> Self {
        let mut memory = objects.memo.lock();
        let display = display(&claim);
        let requests = claim.spec.devices.iter().flat_map(|devices| devices.requests.iter().flatten());
        let requests =
            requests.map(|request| PreparedRequest::new(request, &display, objects, &mut memory.selectors)).collect();
        drop(memory);
        Self { display, requests, claim }
    }

    /// The name by which results and configurations refer to the chosen alternative.
    pub(super) fn reference(&self, request: usize, alternative: usize) -> String {
        let Some(request) = self.requests.get(request) else {
            return String::new();
        };
        match request.alternatives.get(alternative) {
            Some(chosen) if request.prioritized => format!("{}/{}", request.name, chosen.name),
            _ => request.name.clone(),
        }
    }
}

impl PreparedRequest {
    fn new(request: &DeviceRequest, claim: &str, objects: &DraObjects, selectors: &mut Selectors) -> Self {
        let alternatives = request.first_available.iter().flatten().map(|sub| Fields {
            name: &sub.name,
            class: &sub.device_class_name,
            selectors: sub.selectors.as_ref(),
            mode: sub.allocation_mode.as_deref(),
            count: sub.count,
            admin_access: false,
            tolerations: sub.tolerations.as_ref(),
            capacity: sub.capacity.as_ref(),
        });
        let mut alternatives: Vec<_> = alternatives.collect();
        let prioritized = !alternatives.is_empty();
        if let (Some(exactly), false) = (&request.exactly, prioritized) {
            alternatives.push(Fields {
                name: &request.name,
                class: &exactly.device_class_name,
                selectors: exactly.selectors.as_ref(),
                mode: exactly.allocation_mode.as_deref(),
                count: exactly.count,
                admin_access: exactly.admin_access.unwrap_or(false),
                tolerations: exactly.tolerations.as_ref(),
                capacity: exactly.capacity.as_ref(),
            });
        }
        let alternatives =
            alternatives.iter().map(|fields| Alternative::new(fields, claim, objects, selectors)).collect();
        Self { name: request.name.clone(), prioritized, alternatives }
    }
}

impl Alternative {
    fn new(fields: &Fields<'_>, claim: &str, objects: &DraObjects, selectors: &mut Selectors) -> Self {
        let class = objects.class(fields.class).cloned();
        let own = compile(fields.selectors, selectors);
        let of_class = compile(class.as_ref().and_then(|class| class.spec.selectors.as_ref()), selectors);
        let requested = Requested::new(fields.capacity);
        let count = match fields.mode {
            Some("ExactCount") => Ok(Count::Exactly(fields.count.unwrap_or(0))),
            Some("All") => Ok(Count::All),
            other => Err(other.unwrap_or_default()),
        };
        let prefix = format!("claim {claim}, request {}", fields.name);
        let unsupported = |i: usize| format!("selector #{i}: CEL expression empty (unsupported selector type?)");
        let problem = match (&own, &of_class, &class, &count, &requested) {
            (Err(i), ..) => Some(format!("{prefix}, {}", unsupported(*i))),
            _ if fields.class.is_empty() => {
                Some(format!("{prefix}: missing device class name (unsupported request type?)"))
            }
            (_, _, None, ..) => Some(format!(
                "{prefix}: could not retrieve device class {0}: deviceclass.resource.k8s.io \"{0}\" not found",
                fields.class
            )),
            (_, Err(i), ..) => Some(format!("class {}: {}", fields.class, unsupported(*i))),
            (.., Err(mode), _) => Some(format!("{prefix}: unsupported count mode {mode}")),
            (.., Err(error)) => Some(format!("{prefix}: {error}")),
            _ => None,
        };
        Self {
            name: fields.name.to_owned(),
            problem,
            class,
            class_selectors: of_class.unwrap_or_default(),
            selectors: own.unwrap_or_default(),
            count: count.unwrap_or(Count::Exactly(0)),
            admin_access: fields.admin_access,
            tolerations: fields.tolerations.cloned().unwrap_or_default(),
            requested: requested.unwrap_or_default(),
        }
    }
}

/// Compiles selectors; the error is the position of one that is no CEL expression.
fn compile(selectors: Option<&Vec<DeviceSelector>>, compiled: &mut Selectors) -> Result<Vec<CompiledSelector>, usize> {
    let selectors = selectors.into_iter().flatten().enumerate();
    selectors.map(|(i, selector)| selector.cel.as_ref().map(|cel| compiled.compile(&cel.expression)).ok_or(i)).collect()
}

/// Namespace and name of a claim.
pub(super) fn display(claim: &ResourceClaim) -> String {
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    match claim.metadata.namespace.as_deref() {
        Some(namespace) if !namespace.is_empty() => format!("{namespace}/{name}"),
        _ => name.to_owned(),
    }
}
