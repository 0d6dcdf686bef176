//! Turns chosen devices into the allocation a claim's status records.

use k8s_openapi::api::core::v1::{NodeSelector, NodeSelectorRequirement, NodeSelectorTerm};
use k8s_openapi::api::resource::v1::{
    AllocationResult, DeviceAllocationConfiguration, DeviceAllocationResult, DeviceRequestAllocationResult,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use super::allocator::{Allocation, Chosen};
use super::request::PreparedClaim;

impl Allocation {
    /// The allocation for the claim on the node.
    pub(super) fn to_api(&self, claim: &PreparedClaim, node: &str) -> AllocationResult {
        let results: Vec<_> =
            self.devices.iter().enumerate().map(|(i, chosen)| device_result(claim, chosen, i)).collect();
        let config = self.config(claim);
        AllocationResult {
            allocation_timestamp: None,
            devices: Some(DeviceAllocationResult {
                config: (!config.is_empty()).then_some(config),
                results: (!results.is_empty()).then_some(results),
            }),
            node_selector: self.node_selector(node),
        }
    }

    /// The references of the subrequests that were taken.
    pub(super) fn subrequests(&self) -> impl Iterator<Item = (usize, usize)> {
        self.devices.iter().map(|chosen| (chosen.request, chosen.alternative))
    }

    /// Fails with the number of terms if a device is for nodes that one term cannot describe.
    pub(super) fn check_node_selectors(&self) -> Result<(), usize> {
        for chosen in &self.devices {
            match nodes_of(chosen) {
                Nodes::One => return Ok(()),
                Nodes::Selected(selector) if selector.node_selector_terms.len() > 1 => {
                    return Err(selector.node_selector_terms.len());
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The nodes from which all devices can be used; nothing if that is every node.
    fn node_selector(&self, node: &str) -> Option<NodeSelector> {
        let mut term = NodeSelectorTerm::default();
        for chosen in &self.devices {
            match nodes_of(chosen) {
                Nodes::One => {
                    let requirement = NodeSelectorRequirement {
                        key: "metadata.name".to_owned(),
                        operator: "In".to_owned(),
                        values: Some(vec![node.to_owned()]),
                    };
                    term = NodeSelectorTerm { match_expressions: None, match_fields: Some(vec![requirement]) };
                    break;
                }
                Nodes::Selected(selector) => {
                    for part in selector.node_selector_terms.iter().take(1) {
                        add_requirements(&mut term.match_fields, part.match_fields.as_deref());
                        add_requirements(&mut term.match_expressions, part.match_expressions.as_deref());
                    }
                }
                Nodes::Any => {}
            }
        }
        let restricts = term.match_fields.is_some() || term.match_expressions.is_some();
        restricts.then(|| NodeSelector { node_selector_terms: vec![term] })
    }

    /// The configuration of the classes, once each, and then that of the claim, as far as it is for what was chosen.
    fn config(&self, claim: &PreparedClaim) -> Vec<DeviceAllocationConfiguration> {
        let mut config: Vec<DeviceAllocationConfiguration> = Vec::new();
        let mut classes: Vec<(&str, std::ops::Range<usize>)> = Vec::new();
        for (i, request) in claim.requests.iter().enumerate() {
            let chosen = self.alternatives.get(i).copied().unwrap_or(0);
            let Some(class) = request.alternatives.get(chosen).and_then(|alternative| alternative.class.as_ref())
            else {
                continue;
            };
            let name = class.metadata.name.as_deref().unwrap_or_default();
            let reference = claim.reference(i, chosen);
            if let Some((_, range)) = classes.iter().find(|(known, _)| *known == name) {
                for entry in config.iter_mut().take(range.end).skip(range.start) {
                    entry.requests.get_or_insert_default().push(reference.clone());
                }
                continue;
            }
            let start = config.len();
            config.extend(class.spec.config.iter().flatten().map(|entry| DeviceAllocationConfiguration {
                opaque: entry.opaque.clone(),
                requests: Some(vec![reference.clone()]),
                source: "FromClass".to_owned(),
            }));
            classes.push((name, start..config.len()));
        }
        let devices = claim.claim.spec.devices.as_ref();
        for entry in devices.iter().flat_map(|devices| devices.config.iter().flatten()) {
            let requests = entry.requests.as_deref().unwrap_or_default();
            let applies = |i: usize, name: &String| {
                let chosen = self.alternatives.get(i).copied().unwrap_or(0);
                requests.contains(name) || requests.contains(&claim.reference(i, chosen))
            };
            let named = claim.requests.iter().enumerate().filter(|(i, request)| applies(*i, &request.name)).count();
            let times = if requests.is_empty() { 1 } else { named };
            config.extend(std::iter::repeat_n(
                DeviceAllocationConfiguration {
                    opaque: entry.opaque.clone(),
                    requests: entry.requests.clone(),
                    source: "FromClaim".to_owned(),
                },
                times,
            ));
        }
        config
    }
}

enum Nodes<'a> {
    /// The one the pod goes to.
    One,
    Selected(&'a NodeSelector),
    Any,
}

fn nodes_of(chosen: &Chosen) -> Nodes<'_> {
    let Some(device) = chosen.slice.devices.get(chosen.device).map(|device| &device.details.api) else {
        return Nodes::Any;
    };
    let (name, selector) = if chosen.slice.per_device {
        (device.node_name.as_ref(), device.node_selector.as_ref())
    } else {
        (chosen.slice.node_name.as_ref(), chosen.slice.node_selector.as_ref())
    };
    match selector {
        _ if name.is_some() || device.binds_to_node == Some(true) => Nodes::One,
        Some(selector) => Nodes::Selected(selector),
        None => Nodes::Any,
    }
}

fn device_result(claim: &PreparedClaim, chosen: &Chosen, index: usize) -> DeviceRequestAllocationResult {
    let alternative =
        claim.requests.get(chosen.request).and_then(|request| request.alternatives.get(chosen.alternative));
    let tolerations = alternative.map(|alternative| alternative.tolerations.clone()).unwrap_or_default();
    let device = chosen.slice.devices.get(chosen.device).map(|device| &device.details.api);
    let consumed = chosen.consumed.iter().map(|(name, amount)| (name.clone(), ApiQuantity(amount.to_string())));
    DeviceRequestAllocationResult {
        admin_access: alternative.and_then(|alternative| alternative.admin_access.then_some(true)),
        binding_conditions: device.and_then(|device| device.binding_conditions.clone()),
        binding_failure_conditions: device.and_then(|device| device.binding_failure_conditions.clone()),
        consumed_capacity: (!chosen.consumed.is_empty()).then(|| consumed.collect()),
        device: device.map(|device| device.name.clone()).unwrap_or_default(),
        driver: chosen.slice.pool.driver.to_string(),
        pool: chosen.slice.pool.pool.to_string(),
        request: claim.reference(chosen.request, chosen.alternative),
        share_id: chosen.shared.then(|| share_id(claim.claim.metadata.uid.as_deref().unwrap_or_default(), index)),
        tolerations: (!tolerations.is_empty()).then_some(tolerations),
    }
}

/// An identifier for one share of a device. Kubernetes draws it at random; derived from the claim it is just as unique,
/// and the same decision gives the same status.
fn share_id(claim_uid: &str, index: usize) -> String {
    // FNV-1a over the claim's identifier and the position, twice with different beginnings.
    let hash = |seed: u64| {
        let bytes = claim_uid.bytes().chain((index as u64).to_le_bytes());
        bytes.fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
    };
    let (high, low) = (hash(0xcbf2_9ce4_8422_2325), hash(0x9e37_79b9_7f4a_7c15));
    format!(
        "{:08x}-{:04x}-8{:03x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xfff,
        0x8000 | ((low >> 48) & 0x3fff),
        low & 0xffff_ffff_ffff
    )
}

fn add_requirements(to: &mut Option<Vec<NodeSelectorRequirement>>, from: Option<&[NodeSelectorRequirement]>) {
    for requirement in from.into_iter().flatten() {
        let known = to.get_or_insert_default();
        if !known.iter().any(|other| same_requirement(other, requirement)) {
            known.push(requirement.clone());
        }
    }
}

fn same_requirement(a: &NodeSelectorRequirement, b: &NodeSelectorRequirement) -> bool {
    let values = |requirement: &NodeSelectorRequirement| {
        requirement.values.iter().flatten().cloned().collect::<std::collections::BTreeSet<_>>()
    };
    a.key == b.key && a.operator == b.operator && values(a) == values(b)
}
