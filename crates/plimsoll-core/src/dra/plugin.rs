//! The decisions of the DynamicResources plugin at each extension point, free of any framework.
//!
//! Everything here only reads [`DraObjects`]; [`super::reserve`] changes them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ContainerExtendedResourceRequest, Pod};
use k8s_openapi::api::resource::v1::{DeviceClaim, DeviceRequest, ResourceClaim};
use rustc_hash::FxHashMap;

use super::allocator::{Allocation, AllocationError, MAX_ATTEMPTS, allocate};
use super::claims::{Readiness, allocated_devices, allocation, is_timed_out, pod_claims, readiness};
use super::counters::Available;
use super::extended::{self, IN_MEMORY_CLAIM};
use super::node::{NodeSelector, NodeView};
use super::objects::DraObjects;
use super::request::{PreparedClaim, display};
use crate::framework::Code;

/// The plugin's name.
pub const NAME: &str = "DynamicResources";

/// The most alternatives a request can have; the first one scores this much.
const MAX_ALTERNATIVES: usize = 8;

/// Why a pod cannot be placed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Status {
    /// How bad it is.
    pub code: Code,
    /// What to tell the user, in the words of Kubernetes.
    pub reason: String,
}

impl Status {
    fn error(reason: impl Into<String>) -> Self {
        Self { code: Code::Error, reason: reason.into() }
    }

    fn unresolvable(reason: impl Into<String>) -> Self {
        Self { code: Code::UnschedulableAndUnresolvable, reason: reason.into() }
    }

    fn unschedulable(reason: impl Into<String>) -> Self {
        Self { code: Code::Unschedulable, reason: reason.into() }
    }
}

/// The time, and how long devices may take to become ready.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// Seconds since the epoch.
    pub now_s: f64,
    /// Seconds after which an allocation that is not ready is given up.
    pub binding_timeout_s: f64,
}

impl Default for Timing {
    fn default() -> Self {
        Self { now_s: 0.0, binding_timeout_s: 600.0 }
    }
}

/// What is known of a pod's claims while a node is looked for.
#[derive(Debug, Default)]
pub struct PodState {
    pub(super) claims: Vec<ClaimState>,
    /// Whether the last claim is the one for extended resources.
    pub(super) extended: Option<ExtendedState>,
    /// Whether some claim needs devices.
    allocates: bool,
    available: Available,
    unavailable: BTreeSet<usize>,
    pub(super) nodes: FxHashMap<String, NodeAllocation>,
    pub(super) max_attempts: u64,
}

#[derive(Debug)]
pub(super) struct ClaimState {
    pub(super) claim: Arc<ResourceClaim>,
    /// Where the devices it already has can be used.
    selector: Option<NodeSelector>,
    /// Whether its devices will not become ready.
    stuck: bool,
    /// Set if it needs devices.
    prepared: Option<Arc<PreparedClaim>>,
    /// What it was given by [`super::reserve`].
    pub(super) allocated: Option<Arc<ResourceClaim>>,
}

impl ClaimState {
    /// The claim made ready for allocation, if it needs devices.
    pub(super) fn prepared(&self) -> Option<&Arc<PreparedClaim>> {
        self.prepared.as_ref()
    }
}

#[derive(Debug)]
pub(super) struct ExtendedState {
    requested: BTreeMap<String, i64>,
    /// The claim for each set of resources that nodes turned out to lack.
    variants: BTreeMap<Vec<String>, Arc<ExtendedClaim>>,
}

/// The claim for the extended resources a node lacks.
#[derive(Debug)]
pub(super) struct ExtendedClaim {
    pub(super) prepared: Arc<PreparedClaim>,
    pub(super) mappings: Vec<ContainerExtendedResourceRequest>,
}

/// What the pod would be given on a node.
#[derive(Debug)]
pub(super) struct NodeAllocation {
    /// One for each claim that needs devices, in their order.
    pub(super) allocations: Vec<Allocation>,
    pub(super) extended: Option<Arc<ExtendedClaim>>,
}

/// The outcome of [`pre_filter`].
#[derive(Debug)]
pub enum PreFilter {
    /// The pod has no claims.
    Skip,
    /// No node will do.
    Rejected(Status),
    /// Nodes have to be looked at.
    Proceed(Box<PodState>),
}

/// Whether the pod may enter the queue: all its claims have to exist.
pub fn pre_enqueue(pod: &Pod, objects: &DraObjects) -> Result<(), Status> {
    pod_claims(pod, objects).map(|_| ()).map_err(Status::unresolvable)
}

/// Looks at the pod's claims once, before any node.
pub fn pre_filter(pod: &Pod, objects: &DraObjects, timing: Timing) -> PreFilter {
    match prepare(pod, objects, timing) {
        Ok(Some(state)) => PreFilter::Proceed(Box::new(state)),
        Ok(None) => PreFilter::Skip,
        Err(status) => PreFilter::Rejected(status),
    }
}

fn prepare(pod: &Pod, objects: &DraObjects, timing: Timing) -> Result<Option<PodState>, Status> {
    let mut claims = pod_claims(pod, objects).map_err(Status::unresolvable)?;
    let requested = extended::requested(pod, objects);
    let extended = requested.map(|requested| ExtendedState { requested, variants: BTreeMap::new() });
    if extended.is_some() {
        claims.push(extended::claim_for(pod, objects));
    }
    if claims.is_empty() {
        return Ok(None);
    }
    let mut state = PodState { extended, max_attempts: MAX_ATTEMPTS, ..PodState::default() };
    let users = claims.len() - usize::from(state.extended.is_some());
    for (index, claim) in claims.into_iter().enumerate() {
        let mut of_claim =
            ClaimState { claim: claim.clone(), selector: None, stuck: false, prepared: None, allocated: None };
        if let Some(allocation) = allocation(&claim) {
            let selector = allocation.node_selector.as_ref().map(NodeSelector::new);
            of_claim.selector = selector.transpose().map_err(Status::error)?;
            of_claim.stuck = match readiness(&claim) {
                Readiness::Ready => false,
                Readiness::Waiting => is_timed_out(&claim, timing.now_s, timing.binding_timeout_s),
                Readiness::Failed(_) => true,
            };
        } else {
            if objects.pending_claim(claim.metadata.uid.as_deref().unwrap_or_default()).is_some() {
                return Err(Status::unresolvable(format!(
                    "resource claim {} is in the process of being allocated",
                    display(&claim)
                )));
            }
            if index < users {
                check_requests(&claim, objects)?;
            }
            state.allocates = true;
            of_claim.prepared = Some(Arc::new(PreparedClaim::new(claim, objects)));
        }
        state.claims.push(of_claim);
    }
    Ok(Some(state))
}

/// Checks that all classes the claim asks for exist.
fn check_requests(claim: &ResourceClaim, objects: &DraObjects) -> Result<(), Status> {
    let requests = claim.spec.devices.iter().flat_map(|devices| devices.requests.iter().flatten());
    for request in requests {
        let subrequests = request.first_available.as_deref().unwrap_or_default();
        if let Some(exactly) = &request.exactly {
            check_class(&exactly.device_class_name, &request.name, objects)?;
        } else if !subrequests.is_empty() {
            for sub in subrequests {
                check_class(&sub.device_class_name, &format!("{}/{}", request.name, sub.name), objects)?;
            }
        } else {
            return Err(Status::unresolvable(format!(
                "resource claim {}, request {}: unknown request type",
                display(claim),
                request.name
            )));
        }
    }
    Ok(())
}

fn check_class(class: &str, request: &str, objects: &DraObjects) -> Result<(), Status> {
    if class.is_empty() {
        return Err(Status::error(format!("request {request}: unsupported request type")));
    }
    match objects.class(class) {
        Some(_) => Ok(()),
        None => Err(Status::unresolvable(format!("request {request}: device class {class} does not exist"))),
    }
}

/// Whether the pod's claims can be satisfied on the node; what it would get there is remembered.
pub fn filter(state: &mut PodState, pod: &Pod, objects: &DraObjects, node: &dyn NodeView) -> Result<(), Status> {
    let extended = state.extended_claim(pod, objects, node)?;
    if extended.is_none() && state.user_claims() == 0 {
        return Ok(());
    }
    let unavailable = |of_claim: &ClaimState| {
        of_claim.selector.as_ref().is_some_and(|selector| !selector.matches(node)) || of_claim.stuck
    };
    let unavailable: Vec<usize> =
        state.claims.iter().enumerate().filter(|(_, of_claim)| unavailable(of_claim)).map(|(i, _)| i).collect();
    let mut allocations = Vec::new();
    if state.allocates {
        let users = state.user_claims();
        let to_allocate: Vec<Arc<PreparedClaim>> = state
            .claims
            .iter()
            .enumerate()
            .filter_map(|(i, of_claim)| {
                let here = extended.as_ref().filter(|_| i >= users).map(|extended| &extended.prepared);
                of_claim.prepared.as_ref().map(|prepared| here.unwrap_or(prepared).clone())
            })
            .collect();
        allocations = match allocate(objects, node, &to_allocate, &mut state.available, state.max_attempts) {
            Ok(Some(allocations)) => allocations,
            Ok(None) => return Err(Status::unresolvable("cannot allocate all claims")),
            Err(AllocationError::Node(problem)) => return Err(Status::unresolvable(problem)),
            Err(AllocationError::Fatal(problem)) => return Err(Status::error(problem)),
            Err(AllocationError::Exhausted) => {
                return Err(Status::error(format!("node {}: timed out trying to allocate devices", node.name())));
            }
        };
    }
    if !unavailable.is_empty() {
        state.unavailable.extend(unavailable);
        return Err(Status::unresolvable("resourceclaim not available on the node"));
    }
    if state.allocates {
        state.nodes.insert(node.name().to_owned(), NodeAllocation { allocations, extended });
    }
    Ok(())
}

impl PodState {
    /// How many claims the user made.
    pub(super) fn user_claims(&self) -> usize {
        self.claims.len() - usize::from(self.extended.is_some())
    }

    /// The claim for extended resources.
    pub(super) fn extended_index(&self) -> Option<usize> {
        self.extended.is_some().then(|| self.claims.len() - 1)
    }

    /// The claim for the extended resources the node lacks; nothing if the node has all of them and there is no other
    /// claim.
    fn extended_claim(
        &mut self,
        pod: &Pod,
        objects: &DraObjects,
        node: &dyn NodeView,
    ) -> Result<Option<Arc<ExtendedClaim>>, Status> {
        let users = self.user_claims();
        let (Some(extended), Some(of_claim)) = (&mut self.extended, self.claims.last()) else {
            return Ok(None);
        };
        let left_over = of_claim.claim.spec.devices.as_ref().is_some_and(|devices| devices.requests.is_some());
        if left_over {
            return Err(Status::unresolvable("cannot schedule extended resource claim"));
        }
        let missing = extended::missing_on(node, &extended.requested, objects).map_err(Status::unresolvable)?;
        if (users == 0 && missing.is_empty()) || of_claim.prepared.is_none() {
            return Ok(None);
        }
        if let Some(known) = extended.variants.get(&missing) {
            return Ok(Some(known.clone()));
        }
        let (requests, mappings) = extended::requests_for(pod, &missing, objects);
        let claim = with_requests(&of_claim.claim, requests);
        let prepared = Arc::new(PreparedClaim::new(Arc::new(claim), objects));
        let variant = Arc::new(ExtendedClaim { prepared, mappings });
        extended.variants.insert(missing, variant.clone());
        Ok(Some(variant))
    }
}

fn with_requests(claim: &ResourceClaim, requests: Vec<DeviceRequest>) -> ResourceClaim {
    let mut claim = claim.clone();
    if !requests.is_empty() {
        claim.spec.devices = Some(DeviceClaim { requests: Some(requests), ..DeviceClaim::default() });
    }
    claim
}

/// How high the alternatives rank that the node offers: the first of a request most.
pub fn score(state: &PodState, node: &str) -> i64 {
    let Some(here) = state.nodes.get(node) else {
        return 0;
    };
    let mut allocations = here.allocations.iter();
    let mut score = 0;
    for of_claim in &state.claims {
        let devices = of_claim.claim.spec.devices.as_ref();
        let requests = devices.and_then(|devices| devices.requests.as_deref()).unwrap_or_default();
        let chosen: BTreeSet<(usize, usize)> = match allocation(&of_claim.claim) {
            Some(allocation) => {
                let mut chosen = BTreeSet::new();
                for result in allocated_devices(allocation) {
                    let Some((name, sub)) = result.request.split_once('/') else {
                        continue;
                    };
                    for (i, request) in requests.iter().enumerate().filter(|(_, request)| request.name == name) {
                        let mut subs = request.first_available.iter().flatten();
                        chosen.extend(subs.position(|other| other.name == sub).map(|j| (i, j)));
                    }
                }
                chosen
            }
            None => allocations.next().map(|allocation| allocation.subrequests().collect()).unwrap_or_default(),
        };
        for (request, alternative) in chosen {
            let prioritized = requests.get(request).is_some_and(|request| {
                request.exactly.is_none() && request.first_available.as_ref().is_some_and(|subs| !subs.is_empty())
            });
            if prioritized {
                score += MAX_ALTERNATIVES as i64 - alternative as i64;
            }
        }
    }
    score
}

/// Scales scores so that the best is 100; if none is above zero they stay.
pub fn normalize(scores: &mut [i64]) {
    let best = scores.iter().copied().max().unwrap_or(0);
    if best > 0 {
        for score in scores {
            *score = 100 * *score / best;
        }
    }
}

/// What may still help a pod that fits no node.
#[derive(Debug)]
pub struct PostFilter {
    /// Always a refusal: another attempt may go better.
    pub status: Status,
    /// What to do before it.
    pub release: Option<Release>,
}

/// A claim to be released.
#[derive(Debug)]
pub enum Release {
    /// Write the claim's status, which is without allocation now.
    Deallocate(Box<ResourceClaim>),
    /// Delete the claim, after removing the finalizer.
    Delete(Arc<ResourceClaim>),
}

/// Looks for a claim whose devices are in the wrong place and that nobody else uses. Kubernetes picks one at random; we
/// take the first.
pub fn post_filter(state: &PodState, pod: &Pod) -> PostFilter {
    let refuse = |reason: &str, release| PostFilter { status: Status::unschedulable(reason), release };
    if state.claims.is_empty() {
        return refuse("no new claims to deallocate", None);
    }
    let users = state.user_claims();
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    for of_claim in state.unavailable.iter().filter(|i| **i < users).filter_map(|i| state.claims.get(*i)) {
        let consumers = super::claims::reserved_for(&of_claim.claim);
        if consumers.iter().all(|consumer| consumer.uid == uid) && consumers.len() <= 1 {
            let mut claim = (*of_claim.claim).clone();
            let status = claim.status.get_or_insert_default();
            (status.allocation, status.devices, status.reserved_for) = (None, None, None);
            return refuse("deallocation of ResourceClaim completed", Some(Release::Deallocate(Box::new(claim))));
        }
    }
    let left_over = state.extended_index().and_then(|i| state.claims.get(i)).map(|of_claim| &of_claim.claim);
    match left_over.filter(|claim| claim.metadata.name.as_deref() != Some(IN_MEMORY_CLAIM)) {
        Some(claim) => refuse("deletion of ResourceClaim completed", Some(Release::Delete(claim.clone()))),
        None => refuse("still not schedulable", None),
    }
}
