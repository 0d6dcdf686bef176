//! A device as a selector sees it.

use std::sync::Arc;

use k8s_openapi::api::resource::v1::{Device, DeviceAttribute};

use super::semver::Semver;
use super::value::{Map, Value};
use crate::quantity::Quantity;

/// The variable `device`, made once when the device becomes known; an attribute that cannot be read fails every selector.
#[derive(Debug, Clone)]
pub struct DeviceValue(Result<Value, String>);

impl DeviceValue {
    /// Reads the device's attributes and capacity; names without a domain belong to the driver's.
    pub fn new(driver: &str, device: &Device) -> Self {
        Self(compile(driver, device))
    }

    pub(super) fn value(&self) -> Result<&Value, &str> {
        self.0.as_ref().map_err(String::as_str)
    }
}

fn compile(driver: &str, device: &Device) -> Result<Value, String> {
    let mut attributes = Map::with_default();
    for (name, attribute) in device.attributes.iter().flatten() {
        let value = attribute_value(attribute).map_err(|error| format!("attribute {name}: {error}"))?;
        insert(&mut attributes, driver, name, value);
    }
    let mut capacity = Map::with_default();
    for (name, declared) in device.capacity.iter().flatten() {
        let quantity = Quantity::try_from(&declared.value).map_err(|error| format!("capacity {name}: {error}"))?;
        insert(&mut capacity, driver, name, Value::Quantity(Arc::new(quantity)));
    }
    let mut fields = Map::default();
    fields.insert("driver".into(), driver.into());
    let shared = device.allow_multiple_allocations.unwrap_or(false);
    fields.insert("allowMultipleAllocations".into(), Value::Bool(shared));
    fields.insert("attributes".into(), Value::Map(Arc::new(attributes)));
    fields.insert("capacity".into(), Value::Map(Arc::new(capacity)));
    Ok(Value::Map(Arc::new(fields)))
}

fn attribute_value(attribute: &DeviceAttribute) -> Result<Value, String> {
    if let Some(int) = attribute.int {
        return Ok(Value::Int(int));
    }
    if let Some(bool) = attribute.bool {
        return Ok(Value::Bool(bool));
    }
    if let Some(string) = &attribute.string {
        return Ok(string.as_str().into());
    }
    match &attribute.version {
        Some(version) => match Semver::parse(version) {
            Ok(version) => Ok(Value::Semver(Arc::new(version))),
            Err(error) => Err(format!("parse semantic version: {error}")),
        },
        None => Err("unsupported attribute value".to_owned()),
    }
}

fn insert(domains: &mut Map, driver: &str, name: &str, value: Value) {
    let (domain, id) = name.split_once('/').unwrap_or((driver, name));
    if let Value::Map(names) = domains.domain(domain) {
        Arc::make_mut(names).insert(id.into(), value);
    }
}
