//! What a node of a lab looks like, as people write it: `cpu=32,memory=256Gi,zones=3,nvidia.com/gpu=8`.

use crate::LabError;
use k8s_openapi::api::core::v1::Taint;
use plimsoll_core::quantity::Quantity;
use std::collections::BTreeMap;
use std::str::FromStr;

/// The shape of nodes: what they offer and how they are labelled.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    /// What a node offers, by resource.
    pub resources: BTreeMap<String, String>,
    /// Over how many zones the nodes are spread; 0 for none.
    pub zones: usize,
    /// The region that the zones are in.
    pub region: String,
    /// The architecture.
    pub arch: String,
    /// The operating system.
    pub os: String,
    /// The kind of machine.
    pub instance_type: String,
    /// More labels.
    pub labels: BTreeMap<String, String>,
    /// What keeps pods away.
    pub taints: Vec<Taint>,
}

impl Default for Shape {
    fn default() -> Self {
        let resources = [("cpu", "32"), ("memory", "256Gi"), ("pods", "110"), ("ephemeral-storage", "1Ti")];
        Self {
            resources: resources.map(|(name, amount)| (name.to_string(), amount.to_string())).into(),
            zones: 3,
            region: "lab".to_string(),
            arch: "amd64".to_string(),
            os: "linux".to_string(),
            instance_type: "lab.standard".to_string(),
            labels: BTreeMap::new(),
            taints: Vec::new(),
        }
    }
}

impl FromStr for Shape {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        let mut shape = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            shape.set(part).map_err(|why| LabError::Shape { shape: text.to_string(), why })?;
        }
        Ok(shape)
    }
}

impl Shape {
    fn set(&mut self, part: &str) -> Result<(), String> {
        let (key, value) = part.split_once('=').ok_or_else(|| format!("{part} has no value; write {part}=VALUE"))?;
        let owned = value.to_string();
        match key {
            "zones" => {
                self.zones = value.parse().map_err(|_| format!("zones={value} is not a number"))?;
            }
            "region" => self.region = owned,
            "arch" => self.arch = owned,
            "os" => self.os = owned,
            "instance-type" => self.instance_type = owned,
            _ => match key.split_once(':') {
                Some(("label", name)) => {
                    self.labels.insert(name.to_string(), owned);
                }
                Some(("taint", name)) => self.taints.push(taint(name, value)?),
                _ => self.set_resource(key, value)?,
            },
        }
        Ok(())
    }

    fn set_resource(&mut self, name: &str, amount: &str) -> Result<(), String> {
        let known = ["cpu", "memory", "pods", "ephemeral-storage"];
        if !known.contains(&name) && !name.contains('/') && !name.starts_with("hugepages-") {
            return Err(format!(
                "there is no {name}; there are {}, hugepages-SIZE, DOMAIN/RESOURCE, zones, region, arch, os, instance-type, label:KEY \
                 and taint:KEY",
                known.join(", ")
            ));
        }
        let quantity: Quantity = amount.parse().map_err(|error| format!("{name}={amount}: {error}"))?;
        if quantity.sign() < 0 {
            return Err(format!("{name}={amount} is negative"));
        }
        self.resources.insert(name.to_string(), amount.to_string());
        Ok(())
    }
}

fn taint(key: &str, value: &str) -> Result<Taint, String> {
    let (value, effect) = value.split_once(':').unwrap_or(("", value));
    if !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
        return Err(format!(
            "taint:{key} has no effect {effect:?}; write taint:{key}=VALUE:NoSchedule, or another effect"
        ));
    }
    Ok(Taint { key: key.to_string(), value: Some(value.to_string()), effect: effect.to_string(), time_added: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_changes_the_standard_one_where_it_says_so() {
        let text =
            "cpu=64,nvidia.com/gpu=8,zones=2,instance-type=gpu.large,label:disk=ssd,taint:dedicated=ml:NoSchedule";
        let shape: Shape = text.parse().unwrap();
        assert_eq!(shape.resources["cpu"], "64");
        assert_eq!(shape.resources["memory"], "256Gi");
        assert_eq!(shape.resources["nvidia.com/gpu"], "8");
        assert_eq!((shape.zones, shape.instance_type.as_str()), (2, "gpu.large"));
        assert_eq!(shape.labels["disk"], "ssd");
        assert_eq!(shape.taints[0].effect, "NoSchedule");
        assert_eq!("".parse::<Shape>().unwrap(), Shape::default());
    }

    #[test]
    fn mistakes_are_named() {
        for (text, expected) in [
            ("cpu", "cpu has no value"),
            ("cpus=4", "there is no cpus"),
            ("memory=lots", "memory=lots"),
            ("cpu=-1", "negative"),
            ("zones=many", "zones=many"),
            ("taint:x=y", "no effect"),
        ] {
            let error = text.parse::<Shape>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
