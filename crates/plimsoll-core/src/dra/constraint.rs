//! Constraints between the devices of a claim.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::{DeviceAttribute, DeviceConstraint};

use super::slices::Device;

/// A constraint and the devices it has been told of.
#[derive(Debug)]
pub(super) struct Constraint<'a> {
    /// The requests it applies to; all if there are none.
    requests: &'a [String],
    attribute: &'a str,
    kind: Kind<'a>,
    devices: usize,
}

#[derive(Debug)]
enum Kind<'a> {
    /// All devices have the same value; this one.
    Match(Option<&'a DeviceAttribute>),
    /// All devices have different values. As in Kubernetes only the last device of a request is remembered.
    Distinct(BTreeMap<&'a str, &'a DeviceAttribute>),
}

impl<'a> Constraint<'a> {
    /// Nothing if the constraint is of a kind not known.
    pub(super) fn new(constraint: &'a DeviceConstraint) -> Option<Self> {
        let (attribute, kind) = match (&constraint.match_attribute, &constraint.distinct_attribute) {
            (Some(attribute), _) => (attribute, Kind::Match(None)),
            (None, Some(attribute)) => (attribute, Kind::Distinct(BTreeMap::new())),
            (None, None) => return None,
        };
        let requests = constraint.requests.as_deref().unwrap_or_default();
        Some(Self { requests, attribute, kind, devices: 0 })
    }

    /// Takes the device into account if the constraint still holds then.
    pub(super) fn add(&mut self, request: &'a str, subrequest: Option<&str>, device: &'a Device, driver: &str) -> bool {
        if !self.applies(request, subrequest) {
            return true;
        }
        let Some(attribute) = lookup(device, driver, self.attribute) else {
            return false;
        };
        let holds = self.devices == 0
            || match &self.kind {
                Kind::Match(value) => value.is_some_and(|value| same(attribute, value) == Some(true)),
                Kind::Distinct(values) => values.values().all(|value| same(attribute, value) == Some(false)),
            };
        if holds {
            match &mut self.kind {
                Kind::Match(value) if self.devices == 0 => *value = Some(attribute),
                Kind::Match(_) => {}
                Kind::Distinct(values) => {
                    values.insert(request, attribute);
                }
            }
            self.devices += 1;
        }
        holds
    }

    /// Takes back an [`Self::add`] that succeeded.
    pub(super) fn remove(&mut self, request: &str, subrequest: Option<&str>) {
        if !self.applies(request, subrequest) {
            return;
        }
        if let Kind::Distinct(values) = &mut self.kind {
            values.remove(request);
        }
        self.devices -= 1;
    }

    fn applies(&self, request: &str, subrequest: Option<&str>) -> bool {
        let named = |wanted: &String| {
            wanted == request
                || subrequest
                    .is_some_and(|sub| wanted.strip_prefix(request).and_then(|w| w.strip_prefix('/')) == Some(sub))
        };
        self.requests.is_empty() || self.requests.iter().any(named)
    }
}

/// The attribute with the full name, under which the driver's own may be without their domain.
fn lookup<'a>(device: &'a Device, driver: &str, name: &str) -> Option<&'a DeviceAttribute> {
    let attributes = device.details.api.attributes.as_ref()?;
    attributes.get(name).or_else(|| {
        let (domain, id) = name.split_once('/')?;
        if domain == driver { attributes.get(id) } else { None }
    })
}

/// Whether the values are equal; nothing for values of an unknown type.
fn same(attribute: &DeviceAttribute, other: &DeviceAttribute) -> Option<bool> {
    if attribute.string.is_some() {
        Some(attribute.string == other.string)
    } else if attribute.int.is_some() {
        Some(attribute.int == other.int)
    } else if attribute.bool.is_some() {
        Some(attribute.bool == other.bool)
    } else if attribute.version.is_some() {
        Some(attribute.version == other.version)
    } else {
        None
    }
}
