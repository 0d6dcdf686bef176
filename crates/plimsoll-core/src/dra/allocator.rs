//! The search for devices: depth first over claims, requests and devices, in an order that drivers choose by naming.
//!
//! It finds the devices Kubernetes finds, in the same order, because what one pod is given decides what is left for the
//! next. The first solution is taken; everything tried is taken back before the next attempt.

use std::sync::Arc;

use k8s_openapi::api::resource::v1::{DeviceTaint, DeviceToleration};
use rustc_hash::FxHashMap;

use super::capacity::{Amounts, add_amounts, subtract_amounts};
use super::constraint::Constraint;
use super::counters::{Available, Consumed};
use super::memo::{SelectorError, Selectors};
use super::node::NodeView;
use super::objects::{Allocated, DraObjects};
use super::pools::{Pool, PoolState};
use super::request::{Alternative, Count, PreparedClaim};
use super::slices::{Device, DeviceKey, Slice};

/// The most devices a claim can have.
const MAX_RESULTS: usize = 32;

/// Attempts after which a node is given up. Kubernetes gives up after ten seconds, in which it makes some tens of millions
/// of attempts; counting them instead keeps the decision the same on every machine.
pub(super) const MAX_ATTEMPTS: u64 = 20_000_000;

/// How many claims, requests and devices may be under consideration at once, which is how deep the search recurses.
const MAX_DEPTH: usize = 1024;

/// Why allocation failed; that it is impossible is no failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AllocationError {
    /// Something about the node: others may do.
    Node(String),
    /// Something about the claims: no node will do.
    Fatal(String),
    /// The search takes too long.
    Exhausted,
}

/// The devices chosen for a claim.
#[derive(Debug, Clone)]
pub(super) struct Allocation {
    pub(super) devices: Vec<Chosen>,
    /// Which alternative of each request was taken.
    pub(super) alternatives: Vec<usize>,
}

/// A device chosen for a request.
#[derive(Debug, Clone)]
pub(super) struct Chosen {
    pub(super) slice: Arc<Slice>,
    pub(super) device: usize,
    pub(super) request: usize,
    pub(super) alternative: usize,
    /// Whether other claims may have the device too.
    pub(super) shared: bool,
    pub(super) consumed: Amounts,
}

/// Finds devices for all claims, or nothing if there are not enough.
pub(super) fn allocate(
    objects: &DraObjects,
    node: &dyn NodeView,
    claims: &[Arc<PreparedClaim>],
    available: &mut Available,
    max_attempts: u64,
) -> Result<Option<Vec<Allocation>>, AllocationError> {
    let mut memory = objects.memo.lock();
    let pools = objects
        .node_pools(&mut memory, node)
        .map_err(|error| AllocationError::Fatal(format!("gather pool information: {error}")))?;
    let mut search = Search {
        node,
        pools: &pools,
        claims,
        allocated: objects.allocated(),
        selectors: &mut memory.selectors,
        available,
        consumed: Consumed::default(),
        requests: Vec::with_capacity(claims.len()),
        constraints: Vec::with_capacity(claims.len()),
        taken: FxHashMap::default(),
        shares: FxHashMap::default(),
        results: vec![Vec::new(); claims.len()],
        attempts: max_attempts,
        depth: 0,
    };
    for (index, claim) in claims.iter().enumerate() {
        search.prepare(index, claim)?;
    }
    match search.allocate_one(Position::default(), false, Location::default()) {
        Ok(true) => search.finish().map(Some),
        Ok(false) => {
            if pools.iter().any(|pool| pool.state == PoolState::Invalid) {
                return Err(AllocationError::Node("invalid resource pools were encountered".to_owned()));
            }
            Ok(None)
        }
        Err(Stop::TooManyResults) => Err(AllocationError::Fatal("allocation max size exceeded".to_owned())),
        Err(Stop::Failed(error)) => Err(error),
    }
}

/// Why a branch of the search ends.
enum Stop {
    /// The claim would get more devices than it can have; an alternative that needs fewer may do.
    TooManyResults,
    Failed(AllocationError),
}

impl From<AllocationError> for Stop {
    fn from(error: AllocationError) -> Self {
        Self::Failed(error)
    }
}

/// Which device is looked for.
#[derive(Debug, Clone, Copy, Default)]
struct Position {
    claim: usize,
    request: usize,
    alternative: usize,
    device: usize,
}

/// Where a device is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Location {
    pool: usize,
    slice: usize,
    device: usize,
}

/// What is known of a request on this node.
struct RequestState {
    alternatives: Vec<AlternativeState>,
    chosen: usize,
}

#[derive(Default)]
struct AlternativeState {
    wanted: usize,
    /// The devices, when all are wanted.
    all: Vec<Location>,
}

/// What choosing a device changed, to be taken back.
#[derive(Default)]
struct Undo {
    counters: bool,
    constraints: usize,
    taken: bool,
    consumed: Option<Amounts>,
    /// Whether an earlier choice already had a share of the device.
    shared_before: bool,
    result: bool,
}

struct Search<'a> {
    node: &'a dyn NodeView,
    pools: &'a [Pool],
    claims: &'a [Arc<PreparedClaim>],
    allocated: &'a Allocated,
    selectors: &'a mut Selectors,
    available: &'a mut Available,
    consumed: Consumed,
    requests: Vec<Vec<RequestState>>,
    constraints: Vec<Vec<Constraint<'a>>>,
    /// Devices chosen so far and the claims they are for.
    taken: FxHashMap<DeviceKey, Vec<usize>>,
    /// What was chosen so far consumes of shared devices.
    shares: FxHashMap<DeviceKey, Amounts>,
    results: Vec<Vec<Chosen>>,
    /// How many may still be made.
    attempts: u64,
    depth: usize,
}

impl<'a> Search<'a> {
    fn device(&self, at: Location) -> &'a Device {
        &self.pools[at.pool].slices[at.slice].devices[at.device]
    }

    fn alternative(&self, at: Position) -> &'a Alternative {
        &self.claims[at.claim].requests[at.request].alternatives[at.alternative]
    }

    fn state(&self, at: Position) -> &AlternativeState {
        &self.requests[at.claim][at.request].alternatives[at.alternative]
    }

    /// Checks the claim's requests against the node's pools.
    fn prepare(&mut self, index: usize, claim: &'a PreparedClaim) -> Result<(), AllocationError> {
        let mut requests = Vec::with_capacity(claim.requests.len());
        let mut total = 0_usize;
        for (request_index, request) in claim.requests.iter().enumerate() {
            let mut alternatives = Vec::with_capacity(request.alternatives.len());
            for (alternative_index, alternative) in request.alternatives.iter().enumerate() {
                let at = Position { claim: index, request: request_index, alternative: alternative_index, device: 0 };
                alternatives.push(self.survey(at, claim, alternative)?);
            }
            let Some(least) = alternatives.iter().map(|state| state.wanted).min() else {
                let problem = format!("claim {}, request {}: unknown request type", claim.display, request.name);
                return Err(AllocationError::Fatal(problem));
            };
            total = total.saturating_add(least);
            requests.push(RequestState { alternatives, chosen: 0 });
        }
        if total > MAX_RESULTS {
            return Err(AllocationError::Fatal(format!(
                "claim {}: number of requested devices {total} exceeds the claim limit of {MAX_RESULTS}",
                claim.display
            )));
        }
        let mut constraints = Vec::new();
        let declared = claim.claim.spec.devices.iter().flat_map(|devices| devices.constraints.iter().flatten());
        for (i, constraint) in declared.enumerate() {
            constraints.push(Constraint::new(constraint).ok_or_else(|| {
                AllocationError::Fatal(format!(
                    "claim {}, constraint #{i}: empty constraint (unsupported constraint type?)",
                    claim.display
                ))
            })?);
        }
        self.requests.push(requests);
        self.constraints.push(constraints);
        Ok(())
    }

    /// How many devices the alternative needs here, and which if it wants them all.
    fn survey(
        &mut self,
        at: Position,
        claim: &PreparedClaim,
        alternative: &'a Alternative,
    ) -> Result<AlternativeState, AllocationError> {
        if let Some(problem) = &alternative.problem {
            return Err(AllocationError::Fatal(problem.clone()));
        }
        let count = match alternative.count {
            Count::Exactly(count) => {
                return Ok(AlternativeState { wanted: usize::try_from(count).unwrap_or(0), all: Vec::new() });
            }
            Count::All => "asks for all devices, but resource pool",
        };
        let mut all = Vec::new();
        for (pool_index, pool) in self.pools.iter().enumerate() {
            let broken = match pool.state {
                PoolState::Usable => None,
                PoolState::Incomplete => Some("being updated"),
                PoolState::Invalid => Some("invalid"),
            };
            if let Some(broken) = broken {
                let request = format!("claim {}, request {}", claim.display, alternative.name);
                return Err(AllocationError::Fatal(format!("{request}: {count} {} is currently {broken}", pool.id)));
            }
            for (slice_index, slice) in pool.slices.iter().enumerate() {
                for device_index in 0..slice.devices.len() {
                    let location = Location { pool: pool_index, slice: slice_index, device: device_index };
                    if self.is_selectable(at, location)? && self.has_capacity(alternative, self.device(location)) {
                        all.push(location);
                    }
                }
            }
        }
        Ok(AlternativeState { wanted: all.len(), all })
    }

    /// Looks for the device at the position and, once it is found, for all that come after it. True when everything is
    /// allocated. `within` says that an alternative has already been settled on, `start` where to begin looking.
    fn allocate_one(&mut self, at: Position, within: bool, start: Location) -> Result<bool, Stop> {
        if self.depth >= MAX_DEPTH {
            return Err(AllocationError::Exhausted.into());
        }
        self.depth += 1;
        let found = self.allocate_here(at, within, start);
        self.depth -= 1;
        found
    }

    fn allocate_here(&mut self, at: Position, within: bool, start: Location) -> Result<bool, Stop> {
        let Some(claim) = self.claims.get(at.claim) else {
            return Ok(true);
        };
        let Some(request) = claim.requests.get(at.request) else {
            let next = Position { claim: at.claim + 1, ..Position::default() };
            return match self.allocate_one(next, false, Location::default()) {
                // An earlier claim may leave devices that allow an alternative which needs fewer.
                Err(Stop::TooManyResults) => Ok(false),
                outcome => outcome,
            };
        };
        if request.prioritized && !within {
            return self.allocate_first_available(at, request.alternatives.len());
        }
        let alternative = self.alternative(at);
        let wanted = self.state(at).wanted;
        let all = alternative.count == Count::All;
        if all && wanted == 0 {
            return Ok(false);
        }
        if at.device >= wanted {
            let next = Position { claim: at.claim, request: at.request + 1, ..Position::default() };
            return self.allocate_one(next, false, Location::default());
        }
        if self.results[at.claim].len().saturating_add(wanted - at.device) > MAX_RESULTS {
            return Err(Stop::TooManyResults);
        }
        let next = Position { device: at.device + 1, ..at };
        if all {
            let location = self.state(at).all[at.device];
            let Some(undo) = self.choose(at, location, true)? else {
                return Ok(false);
            };
            let found = self.allocate_one(next, within, Location::default());
            if !matches!(found, Ok(true)) {
                self.undo(at, location, undo);
            }
            return found;
        }
        self.try_devices(at, next, within, start)
    }

    fn allocate_first_available(&mut self, at: Position, alternatives: usize) -> Result<bool, Stop> {
        let mut too_many = true;
        for alternative in 0..alternatives {
            match self.allocate_one(Position { alternative, ..at }, true, Location::default()) {
                Err(Stop::TooManyResults) => continue,
                Ok(true) => {
                    self.requests[at.claim][at.request].chosen = alternative;
                    return Ok(true);
                }
                Ok(false) => too_many = false,
                Err(stop) => return Err(stop),
            }
        }
        if too_many { Err(Stop::TooManyResults) } else { Ok(false) }
    }

    /// Tries one device after the other. Within a request only combinations are tried, not their permutations, so the
    /// next device is looked for behind this one.
    fn try_devices(&mut self, at: Position, next: Position, within: bool, start: Location) -> Result<bool, Stop> {
        let alternative = self.alternative(at);
        let pools = self.pools;
        for (pool_index, pool) in pools.iter().enumerate().skip(start.pool) {
            if pool.state != PoolState::Usable {
                continue;
            }
            let same_pool = pool_index == start.pool;
            let first_slice = if same_pool { start.slice } else { 0 };
            for (slice_index, slice) in pool.slices.iter().enumerate().skip(first_slice) {
                let same_slice = same_pool && slice_index == start.slice;
                let first_device = if same_slice { start.device } else { 0 };
                for (device_index, device) in slice.devices.iter().enumerate().skip(first_device) {
                    self.attempts = self.attempts.checked_sub(1).ok_or(AllocationError::Exhausted)?;
                    if self.is_in_use(alternative, device, at.claim) {
                        continue;
                    }
                    let location = Location { pool: pool_index, slice: slice_index, device: device_index };
                    if !self.is_selectable(at, location)? || !self.has_capacity(alternative, device) {
                        continue;
                    }
                    let Some(undo) = self.choose(at, location, false)? else {
                        continue;
                    };
                    let behind = Location { device: device_index + 1, ..location };
                    let found = self.allocate_one(next, within, behind);
                    if matches!(found, Ok(true)) {
                        return Ok(true);
                    }
                    self.undo(at, location, undo);
                    found?;
                }
            }
        }
        Ok(false)
    }

    /// Whether the device is out of reach: for admin access only what the same claim has, otherwise what anybody has.
    fn is_in_use(&self, alternative: &Alternative, device: &Device, claim: usize) -> bool {
        let takers = self.taken.get(&device.key);
        if alternative.admin_access {
            return takers.is_some_and(|claims| claims.contains(&claim));
        }
        self.allocated.is_dedicated(device.key) || takers.is_some_and(|claims| !claims.is_empty())
    }

    /// Whether class, request and node selection want the device.
    fn is_selectable(&mut self, at: Position, location: Location) -> Result<bool, AllocationError> {
        let alternative = self.alternative(at);
        let device = self.device(location);
        for (i, selector) in alternative.class_selectors.iter().enumerate() {
            match self.selectors.matches(selector, device) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(error) => {
                    let class = alternative.class.as_ref().and_then(|class| class.metadata.name.as_deref());
                    return Err(selector_failed(format!("class {}", class.unwrap_or_default()), i, error));
                }
            }
        }
        for (i, selector) in alternative.selectors.iter().enumerate() {
            match self.selectors.matches(selector, device) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(error) => {
                    let claim = &self.claims[at.claim].display;
                    return Err(selector_failed(format!("claim {claim}"), i, error));
                }
            }
        }
        if self.pools[location.pool].slices[location.slice].per_device {
            return device
                .details
                .placement
                .matches(self.node)
                .map_err(|error| AllocationError::Fatal(error.to_owned()));
        }
        Ok(true)
    }

    fn has_capacity(&self, alternative: &Alternative, device: &Device) -> bool {
        let taken = [self.allocated.consumed(device.key), self.shares.get(&device.key)];
        if device.undivided && alternative.requested.is_empty() && taken == [None, None] {
            return true;
        }
        alternative.requested.fits(&device.details.capacity, taken)
    }

    /// Gives the device to the request if nothing speaks against it. With `must`, that a constraint does is an error.
    fn choose(&mut self, at: Position, location: Location, must: bool) -> Result<Option<Undo>, AllocationError> {
        let claim = &self.claims[at.claim];
        let request = &claim.requests[at.request];
        let alternative = self.alternative(at);
        let pool = &self.pools[location.pool];
        let device = self.device(location);
        let shared = device.shared;
        if self.is_in_use(alternative, device, at.claim) && !(shared && alternative.admin_access) {
            return Ok(None);
        }
        let mut undo = Undo::default();
        // Counters are taken once for a device, however many share it.
        let counted =
            shared && (self.allocated.consumed(device.key).is_some() || self.shares.contains_key(&device.key));
        if !counted && !device.consumes.is_empty() {
            if !self.consumed.reserve(pool, device, self.available, self.allocated) {
                return Ok(None);
            }
            undo.counters = true;
        }
        if device.tainted && is_tainted(device, alternative) {
            self.undo(at, location, undo);
            return Ok(None);
        }
        let subrequest = request.prioritized.then_some(alternative.name.as_str());
        for i in 0..self.constraints[at.claim].len() {
            if !self.constraints[at.claim][i].add(&request.name, subrequest, device, &pool.id.driver) {
                self.undo(at, location, undo);
                if must {
                    return Err(AllocationError::Fatal(format!(
                        "claim {}, request {}: cannot add device {}/{} because a claim constraint would not be satisfied",
                        claim.display, alternative.name, pool.id, device.details.api.name
                    )));
                }
                return Ok(None);
            }
            undo.constraints += 1;
        }
        if !shared {
            self.taken.entry(device.key).or_default().push(at.claim);
            undo.taken = true;
        }
        // Otherwise it was looked at just before.
        if must && !self.has_capacity(alternative, device) {
            self.undo(at, location, undo);
            return Ok(None);
        }
        let mut consumed = Amounts::new();
        if shared {
            consumed = alternative.requested.consumed(&device.details.capacity);
            undo.shared_before = self.shares.contains_key(&device.key);
            add_amounts(self.shares.entry(device.key).or_default(), &consumed);
            undo.consumed = Some(consumed.clone());
        }
        let slice = pool.slices[location.slice].clone();
        let (request, alternative) = (at.request, at.alternative);
        self.results[at.claim].push(Chosen { slice, device: location.device, request, alternative, shared, consumed });
        undo.result = true;
        Ok(Some(undo))
    }

    fn undo(&mut self, at: Position, location: Location, undo: Undo) {
        let device = self.device(location);
        if undo.result {
            self.results[at.claim].pop();
        }
        if let Some(consumed) = &undo.consumed {
            if !undo.shared_before {
                self.shares.remove(&device.key);
            } else if let Some(share) = self.shares.get_mut(&device.key) {
                subtract_amounts(share, consumed);
            }
        }
        if undo.taken
            && let Some(claims) = self.taken.get_mut(&device.key)
        {
            claims.retain(|claim| *claim != at.claim);
        }
        let request = &self.claims[at.claim].requests[at.request];
        let subrequest = request.prioritized.then(|| self.alternative(at).name.as_str());
        for constraint in self.constraints[at.claim].iter_mut().take(undo.constraints) {
            constraint.remove(&request.name, subrequest);
        }
        if undo.counters {
            self.consumed.release(&self.pools[location.pool], device);
        }
    }

    fn finish(self) -> Result<Vec<Allocation>, AllocationError> {
        let mut allocations = Vec::with_capacity(self.claims.len());
        for ((claim, devices), requests) in self.claims.iter().zip(self.results).zip(self.requests) {
            let allocation =
                Allocation { devices, alternatives: requests.iter().map(|request| request.chosen).collect() };
            if let Err(terms) = allocation.check_node_selectors() {
                let name = claim.claim.metadata.name.as_deref().unwrap_or_default();
                return Err(AllocationError::Fatal(format!(
                    "create NodeSelector for claim {name}: unsupported ResourceSlice.NodeSelector with {terms} terms"
                )));
            }
            allocations.push(allocation);
        }
        Ok(allocations)
    }
}

fn selector_failed(whose: String, index: usize, error: SelectorError<'_>) -> AllocationError {
    AllocationError::Fatal(match error {
        SelectorError::Compile(error) => format!("{whose}: selector #{index}: CEL compile error: {error}"),
        SelectorError::Match(error) => format!("{whose}: selector #{index}: CEL runtime error: {error}"),
    })
}

fn is_tainted(device: &Device, alternative: &Alternative) -> bool {
    device.details.api.taints.iter().flatten().any(|taint| {
        matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
            && !alternative.tolerations.iter().any(|toleration| tolerates(toleration, taint))
    })
}

/// Whether the toleration forgives the taint: what it leaves open matches everything.
fn tolerates(toleration: &DeviceToleration, taint: &DeviceTaint) -> bool {
    let open = |wanted: &Option<String>, found: &str| match wanted.as_deref() {
        None | Some("") => true,
        Some(wanted) => wanted == found,
    };
    if !open(&toleration.effect, &taint.effect) || !open(&toleration.key, &taint.key) {
        return false;
    }
    match toleration.operator.as_deref() {
        None | Some("" | "Equal") => {
            toleration.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default()
        }
        Some("Exists") => true,
        Some(_) => false,
    }
}
