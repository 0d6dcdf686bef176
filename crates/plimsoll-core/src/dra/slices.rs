//! Resource slices, read once when they arrive: quantities parsed, selectors checked, devices made ready for CEL.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::NodeSelector as ApiNodeSelector;
use k8s_openapi::api::resource::v1::{Device as ApiDevice, ResourceSlice};

use super::capacity::{Amounts, Capacity};
use super::cel::DeviceValue;
use super::node::{NodeSelector, NodeView};
use crate::quantity::{Quantity, QuantityError};

/// A number for a device that is the same for the same driver, pool and name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceKey(pub(super) u32);

/// A pool of devices: what one driver calls by one name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId {
    /// The driver's name.
    pub driver: Arc<str>,
    /// The pool's name.
    pub pool: Arc<str>,
}

impl std::fmt::Display for PoolId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.driver, self.pool)
    }
}

/// A slice of a pool.
#[derive(Debug)]
pub struct Slice {
    pub(super) name: String,
    pub(super) pool: PoolId,
    pub(super) generation: i64,
    /// How many slices the pool has in this generation.
    pub(super) pool_slices: i64,
    pub(super) placement: Placement,
    /// The node the slice belongs to alone.
    pub(super) node_name: Option<String>,
    /// The nodes it is for, as written.
    pub(super) node_selector: Option<ApiNodeSelector>,
    pub(super) per_device: bool,
    pub(super) counter_sets: Vec<CounterSet>,
    pub(super) devices: Vec<Device>,
}

/// Counters that the devices of a pool draw on.
#[derive(Debug, Clone)]
pub struct CounterSet {
    pub(super) name: String,
    pub(super) counters: Amounts,
}

/// A device that may be allocated; what most attempts look at comes first and is small.
#[derive(Debug)]
pub struct Device {
    pub(super) key: DeviceKey,
    /// A number no other device ever had, for remembering what selectors said about it.
    pub(super) serial: u32,
    /// Whether several claims may have the device at once.
    pub(super) shared: bool,
    pub(super) tainted: bool,
    /// Whether any request that names no capacity finds enough of it as long as nobody has the device.
    pub(super) undivided: bool,
    pub(super) consumes: Vec<CounterSet>,
    pub(super) details: Box<Details>,
}

/// What is needed of a device once it is considered seriously.
#[derive(Debug)]
pub struct Details {
    pub(super) value: DeviceValue,
    pub(super) capacity: BTreeMap<String, Capacity>,
    pub(super) placement: Placement,
    pub(super) api: ApiDevice,
}

/// From which nodes something can be used.
#[derive(Debug)]
pub enum Placement {
    /// From one node.
    Node(String),
    /// From every node.
    All,
    /// From nodes with certain labels; or why that cannot be told.
    Selected(Result<NodeSelector, String>),
    /// It is not said.
    Unknown,
}

impl Placement {
    fn new(node_name: Option<&str>, all_nodes: Option<bool>, selector: Option<&ApiNodeSelector>) -> Self {
        match (node_name, all_nodes, selector) {
            (Some(name), _, _) if !name.is_empty() => Self::Node(name.to_owned()),
            (_, Some(true), _) => Self::All,
            (_, _, Some(selector)) => Self::Selected(
                NodeSelector::new(selector).map_err(|error| format!("failed to parse node selector: {error}")),
            ),
            _ => Self::Unknown,
        }
    }

    /// Whether the node is one of those.
    pub fn matches(&self, node: &dyn NodeView) -> Result<bool, &str> {
        match self {
            Self::Node(name) => Ok(name == node.name()),
            Self::All => Ok(true),
            Self::Selected(Ok(selector)) => Ok(selector.matches(node)),
            Self::Selected(Err(error)) => Err(error),
            Self::Unknown => Ok(false),
        }
    }

    fn keys(&self) -> impl Iterator<Item = &str> {
        let selector = match self {
            Self::Selected(Ok(selector)) => Some(selector),
            _ => None,
        };
        selector.into_iter().flat_map(NodeSelector::keys)
    }
}

impl Slice {
    /// Reads a slice. `intern` gives devices their keys and serial numbers.
    pub(super) fn new(
        slice: &ResourceSlice,
        mut intern: impl FnMut(&PoolId, &str) -> (DeviceKey, u32),
    ) -> Result<Self, QuantityError> {
        let spec = &slice.spec;
        let pool = PoolId { driver: spec.driver.as_str().into(), pool: spec.pool.name.as_str().into() };
        let per_device = spec.per_device_node_selection.unwrap_or(false);
        let mut devices = Vec::new();
        for device in spec.devices.iter().flatten() {
            let (key, serial) = intern(&pool, &device.name);
            devices.push(Device::new(&pool.driver, device, key, serial)?);
        }
        let sets = spec.shared_counters.iter().flatten();
        let counter_sets = sets.map(|set| counter_set(&set.name, &set.counters)).collect::<Result<_, _>>()?;
        Ok(Self {
            name: slice.metadata.name.clone().unwrap_or_default(),
            pool,
            generation: spec.pool.generation,
            pool_slices: spec.pool.resource_slice_count,
            placement: Placement::new(spec.node_name.as_deref(), spec.all_nodes, spec.node_selector.as_ref()),
            node_name: spec.node_name.clone().filter(|name| !name.is_empty()),
            node_selector: spec.node_selector.clone(),
            per_device,
            counter_sets,
            devices,
        })
    }

    /// The node whose business alone the slice is, if it is one node's.
    pub(super) fn owner(&self) -> Option<&str> {
        self.node_name.as_deref().filter(|_| self.counter_sets.is_empty())
    }

    /// The node labels that decide which nodes the slice is for.
    pub(super) fn label_keys(&self) -> impl Iterator<Item = &str> {
        self.placement.keys().chain(self.devices.iter().flat_map(|device| device.details.placement.keys()))
    }

    /// Whether something in the slice can be used from the node; nothing if the slice does not say where it is for.
    pub(super) fn relevant(&self, node: &dyn NodeView) -> Result<bool, String> {
        if !self.counter_sets.is_empty() {
            return Ok(true);
        }
        if !matches!(self.placement, Placement::Unknown) {
            return self
                .placement
                .matches(node)
                .map_err(|error| format!("failed to perform node selection for slice {}: {error}", self.name));
        }
        if !self.per_device {
            return Ok(false);
        }
        for device in &self.devices {
            match device.details.placement.matches(node) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(error) => {
                    return Err(format!(
                        "failed to perform node selection for device {} in slice {}: {error}",
                        device.details.api.name, self.name
                    ));
                }
            }
        }
        Ok(false)
    }
}

impl Device {
    fn new(driver: &str, device: &ApiDevice, key: DeviceKey, serial: u32) -> Result<Self, QuantityError> {
        let capacity = device.capacity.iter().flatten();
        let capacity = capacity
            .map(|(name, capacity)| Ok((name.clone(), Capacity::new(capacity)?)))
            .collect::<Result<BTreeMap<_, _>, QuantityError>>()?;
        let consumes = device.consumes_counters.iter().flatten();
        Ok(Self {
            key,
            serial,
            shared: device.allow_multiple_allocations.unwrap_or(false),
            tainted: device.taints.iter().flatten().next().is_some(),
            undivided: capacity.values().all(|capacity| !capacity.has_policy()),
            consumes: consumes.map(|set| counter_set(&set.counter_set, &set.counters)).collect::<Result<_, _>>()?,
            details: Box::new(Details {
                value: DeviceValue::new(driver, device),
                capacity,
                placement: Placement::new(device.node_name.as_deref(), device.all_nodes, device.node_selector.as_ref()),
                api: device.clone(),
            }),
        })
    }
}

fn counter_set(
    name: &str,
    counters: &BTreeMap<String, k8s_openapi::api::resource::v1::Counter>,
) -> Result<CounterSet, QuantityError> {
    let amounts = counters.iter().map(|(name, counter)| Ok((name.clone(), Quantity::try_from(&counter.value)?)));
    Ok(CounterSet { name: name.to_owned(), counters: amounts.collect::<Result<_, QuantityError>>()? })
}
