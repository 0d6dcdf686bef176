//! In-tree volumes seen as volumes of the CSI drivers that replaced them.
//!
//! Kubernetes translates seven in-tree plugins; for five of them the scheduler acts on it. The node affinity of a
//! translated volume uses the driver's topology labels, and its handle is what is counted against a node's limit.

use k8s_openapi::api::core::v1 as core;
use std::collections::{BTreeMap, BTreeSet};

use super::selector::NodeSelector;

pub(super) const ZONE: &str = "topology.kubernetes.io/zone";
pub(super) const REGION: &str = "topology.kubernetes.io/region";
pub(super) const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
pub(super) const BETA_REGION: &str = "failure-domain.beta.kubernetes.io/region";

/// What separates the zones in the zone label of a volume that spans several.
pub(super) const ZONE_SEPARATOR: &str = "__";

/// What stands for a project or zone that the in-tree volume does not tell.
const UNSPECIFIED: &str = "UNSPECIFIED";

/// An in-tree volume plugin for which a CSI driver exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InTreePlugin {
    /// `kubernetes.io/aws-ebs`
    AwsEbs,
    /// `kubernetes.io/azure-disk`
    AzureDisk,
    /// `kubernetes.io/azure-file`
    AzureFile,
    /// `kubernetes.io/cinder`
    Cinder,
    /// `kubernetes.io/gce-pd`
    GcePd,
    /// `kubernetes.io/portworx-volume`
    Portworx,
    /// `kubernetes.io/vsphere-volume`
    Vsphere,
}

impl InTreePlugin {
    const ALL: [Self; 7] =
        [Self::AwsEbs, Self::AzureDisk, Self::AzureFile, Self::Cinder, Self::GcePd, Self::Portworx, Self::Vsphere];

    /// The plugin of a provisioner's name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|plugin| plugin.name() == name)
    }

    /// The name of the in-tree plugin.
    pub fn name(self) -> &'static str {
        match self {
            Self::AwsEbs => "kubernetes.io/aws-ebs",
            Self::AzureDisk => "kubernetes.io/azure-disk",
            Self::AzureFile => "kubernetes.io/azure-file",
            Self::Cinder => "kubernetes.io/cinder",
            Self::GcePd => "kubernetes.io/gce-pd",
            Self::Portworx => "kubernetes.io/portworx-volume",
            Self::Vsphere => "kubernetes.io/vsphere-volume",
        }
    }

    /// The name of the CSI driver that replaced the plugin.
    pub fn driver(self) -> &'static str {
        match self {
            Self::AwsEbs => "ebs.csi.aws.com",
            Self::AzureDisk => "disk.csi.azure.com",
            Self::AzureFile => "file.csi.azure.com",
            Self::Cinder => "cinder.csi.openstack.org",
            Self::GcePd => "pd.csi.storage.gke.io",
            Self::Portworx => "pxd.portworx.com",
            Self::Vsphere => "csi.vsphere.vmware.com",
        }
    }

    /// Whether the scheduler acts on the migration; for the other two it never did.
    pub fn is_migrated(self) -> bool {
        !matches!(self, Self::AzureFile | Self::Vsphere)
    }

    fn topology_key(self) -> Option<&'static str> {
        match self {
            Self::AwsEbs => Some("topology.ebs.csi.aws.com/zone"),
            Self::Cinder => Some("topology.cinder.csi.openstack.org/zone"),
            Self::GcePd => Some("topology.gke.io/zone"),
            _ => None,
        }
    }
}

/// A volume's handle for the CSI driver, or why there is none.
pub type Handle = Result<Box<str>, Box<str>>;

/// The translation of a PersistentVolume with an in-tree source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Translated {
    /// The plugin of the source.
    pub plugin: InTreePlugin,
    /// The handle the driver knows the volume by; a volume that cannot be translated has none.
    pub handle: Handle,
    /// The node affinity in the driver's topology labels.
    pub node_affinity: Option<NodeSelector>,
}

/// Translates a PersistentVolume, if its source is an in-tree one with a driver.
pub fn translate_volume(spec: &core::PersistentVolumeSpec, labels: &BTreeMap<String, String>) -> Option<Translated> {
    let (plugin, handle) = if let Some(source) = &spec.gce_persistent_disk {
        (InTreePlugin::GcePd, gce_handle(&source.pd_name, labels))
    } else if let Some(source) = &spec.aws_elastic_block_store {
        (InTreePlugin::AwsEbs, aws_handle(&source.volume_id))
    } else if let Some(source) = &spec.cinder {
        (InTreePlugin::Cinder, Ok(source.volume_id.as_str().into()))
    } else if let Some(source) = &spec.azure_disk {
        (InTreePlugin::AzureDisk, azure_handle(source))
    } else if spec.azure_file.is_some() {
        (InTreePlugin::AzureFile, Ok("".into()))
    } else if spec.vsphere_volume.is_some() {
        (InTreePlugin::Vsphere, Ok("".into()))
    } else {
        let source = spec.portworx_volume.as_ref()?;
        (InTreePlugin::Portworx, Ok(source.volume_id.as_str().into()))
    };
    let mut required = spec.node_affinity.as_ref().and_then(|affinity| affinity.required.clone());
    if let Some(key) = plugin.topology_key() {
        translate_topology(&mut required, labels, key);
    }
    Some(Translated { plugin, handle, node_affinity: required.as_ref().map(NodeSelector::compile) })
}

/// Translates a volume written into a pod, if its source is an in-tree one with a driver.
pub fn translate_inline(volume: &core::Volume) -> Option<(InTreePlugin, Handle)> {
    if let Some(source) = &volume.gce_persistent_disk {
        Some((InTreePlugin::GcePd, Ok(zonal_disk(UNSPECIFIED, &source.pd_name))))
    } else if let Some(source) = &volume.aws_elastic_block_store {
        Some((InTreePlugin::AwsEbs, aws_handle(&source.volume_id)))
    } else if let Some(source) = &volume.cinder {
        Some((InTreePlugin::Cinder, Ok(source.volume_id.as_str().into())))
    } else if let Some(source) = &volume.azure_disk {
        Some((InTreePlugin::AzureDisk, azure_handle(source)))
    } else if volume.azure_file.is_some() {
        Some((InTreePlugin::AzureFile, Ok("".into())))
    } else if volume.vsphere_volume.is_some() {
        Some((InTreePlugin::Vsphere, Ok("".into())))
    } else {
        let source = volume.portworx_volume.as_ref()?;
        Some((InTreePlugin::Portworx, Ok(source.volume_id.as_str().into())))
    }
}

fn azure_handle(source: &core::AzureDiskVolumeSource) -> Handle {
    match &source.kind {
        Some(kind) if !kind.eq_ignore_ascii_case("Managed") => {
            Err(format!("kind({kind}) is not supported in csi migration").into())
        }
        _ => Ok(source.disk_uri.as_str().into()),
    }
}

fn aws_handle(volume_id: &str) -> Handle {
    aws_volume_id(volume_id)
        .map(Into::into)
        .map_err(|problem| format!("failed to translate Kubernetes ID to EBS Volume ID {problem}").into())
}

/// The volume of `vol-1`, or of the older form `aws://zone/vol-1`.
fn aws_volume_id(id: &str) -> Result<String, String> {
    let Some(rest) = id.strip_prefix("aws://") else { return Ok(id.to_owned()) };
    let rest = rest.split('#').next().unwrap_or_default();
    let rest = rest.split('?').next().unwrap_or_default();
    let path = rest.find('/').map_or("", |slash| &rest[slash..]);
    let path = unescape(path)
        .map_err(|escape| format!("Invalid disk name ({id}): parse {id:?}: invalid URL escape {escape:?}"))?;
    let volume = path.trim_matches('/');
    if volume.strip_prefix("vol-").is_some_and(|tail| !tail.contains('/')) {
        Ok(volume.to_owned())
    } else {
        Err(format!("Invalid format for AWS volume ({id})"))
    }
}

/// Resolves the percent escapes of a URL path; the error is the escape that is none.
fn unescape(path: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        if first != b'%' {
            bytes.push(first);
            rest = tail;
            continue;
        }
        let hex = |c: u8| (c as char).to_digit(16);
        match tail {
            [high, low, after @ ..] => match (hex(*high), hex(*low)) {
                (Some(high), Some(low)) => {
                    bytes.push((high * 16 + low) as u8);
                    rest = after;
                }
                _ => return Err(String::from_utf8_lossy(&rest[..3]).into_owned()),
            },
            _ => return Err(String::from_utf8_lossy(rest).into_owned()),
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn zonal_disk(zone: &str, disk: &str) -> Box<str> {
    format!("projects/{UNSPECIFIED}/zones/{zone}/disks/{disk}").into()
}

fn gce_handle(disk: &str, labels: &BTreeMap<String, String>) -> Handle {
    let label = |key: &str| labels.get(key).map(String::as_str).filter(|value| !value.is_empty());
    let Some(zones) = label(BETA_ZONE).or_else(|| label(ZONE)) else {
        return Ok(zonal_disk(UNSPECIFIED, disk));
    };
    if !zones.contains(ZONE_SEPARATOR) {
        return Ok(zonal_disk(zones, disk));
    }
    match gce_region(zones) {
        Ok(region) => Ok(format!("projects/{UNSPECIFIED}/regions/{region}/disks/{disk}").into()),
        Err(problem) => Err(format!("failed to get region from zones: {problem}").into()),
    }
}

fn gce_region(zones: &str) -> Result<String, String> {
    let mut regions = BTreeSet::new();
    for zone in zones.split(ZONE_SEPARATOR) {
        match zone.split('-').collect::<Vec<_>>().as_slice() {
            [locale, region, _] => regions.insert(format!("{locale}-{region}")),
            _ => {
                return Err(format!(
                    "zone in unexpected format, expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
                ));
            }
        };
    }
    match regions.pop_first() {
        Some(region) if regions.is_empty() => Ok(region),
        first => {
            let all: Vec<_> = first.into_iter().chain(regions).map(|region| format!("{region}:{{}}")).collect();
            Err(format!("multiple or no regions gotten from zones, got: map[{}]", all.join(" ")))
        }
    }
}

/// Puts the driver's topology label where the affinity names the zone, or adds the zone the volume's label names.
fn translate_topology(required: &mut Option<core::NodeSelector>, labels: &BTreeMap<String, String>, driver_key: &str) {
    let (zone_key, region_key) = topology_keys(required, labels);
    if has_values(required, zone_key) {
        rename_key(required, zone_key, driver_key);
    } else if let Some(zones) = labels.get(zone_key) {
        add_zones(required, driver_key, zones);
    }
    if region_key == BETA_REGION {
        rename_key(required, BETA_REGION, REGION);
    }
}

/// The generation of topology labels a volume uses: its affinity decides, then its labels.
fn topology_keys(
    required: &Option<core::NodeSelector>,
    labels: &BTreeMap<String, String>,
) -> (&'static str, &'static str) {
    let current = (ZONE, REGION);
    let beta = (BETA_ZONE, BETA_REGION);
    let named = |key: &str| expressions(required).any(|expression| expression.key == key);
    if named(ZONE) {
        current
    } else if named(BETA_ZONE) {
        beta
    } else if labels.contains_key(ZONE) {
        current
    } else if labels.contains_key(BETA_ZONE) {
        beta
    } else {
        current
    }
}

fn expressions(required: &Option<core::NodeSelector>) -> impl Iterator<Item = &core::NodeSelectorRequirement> {
    required
        .iter()
        .flat_map(|selector| &selector.node_selector_terms)
        .flat_map(|term| term.match_expressions.iter().flatten())
}

fn has_values(required: &Option<core::NodeSelector>, key: &str) -> bool {
    expressions(required).any(|e| e.key == key && e.values.as_ref().is_some_and(|values| !values.is_empty()))
}

fn rename_key(required: &mut Option<core::NodeSelector>, from: &str, to: &str) {
    let terms = required.iter_mut().flat_map(|selector| &mut selector.node_selector_terms);
    for expression in terms.flat_map(|term| term.match_expressions.iter_mut().flatten()) {
        if expression.key == from {
            to.clone_into(&mut expression.key);
        }
    }
}

fn add_zones(required: &mut Option<core::NodeSelector>, key: &str, zones: &str) {
    let zones: BTreeSet<&str> = zones.split(ZONE_SEPARATOR).map(str::trim).filter(|zone| !zone.is_empty()).collect();
    if zones.is_empty() {
        return;
    }
    let terms = &mut required.get_or_insert_default().node_selector_terms;
    if terms.is_empty() {
        terms.push(core::NodeSelectorTerm::default());
    }
    for term in terms {
        term.match_expressions.get_or_insert_default().push(core::NodeSelectorRequirement {
            key: key.to_owned(),
            operator: "In".to_owned(),
            values: Some(zones.iter().map(|zone| (*zone).to_owned()).collect()),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn volume(spec: serde_json::Value, labels: &[(&str, &str)]) -> Translated {
        let spec: core::PersistentVolumeSpec = serde_json::from_value(spec).unwrap();
        let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        translate_volume(&spec, &labels).expect("the source has a driver")
    }

    fn selects(translated: &Translated, labels: &[(&str, &str)]) -> bool {
        let label = |key: &str| labels.iter().find(|(k, _)| *k == key).map(|(_, v)| *v);
        translated.node_affinity.as_ref().is_none_or(|affinity| affinity.matches(&label))
    }

    #[test]
    fn aws_volume_ids_lose_their_zone() {
        for (id, expected) in [
            ("vol-1", Ok("vol-1")),
            ("anything", Ok("anything")),
            ("aws://us-east-1a/vol-1", Ok("vol-1")),
            ("aws:///vol-1/", Ok("vol-1")),
            ("aws://zone/vol-%31", Ok("vol-1")),
            (
                "aws://zone/disk-1",
                Err(
                    "failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume (aws://zone/disk-1)",
                ),
            ),
            (
                "aws://zone/vol-%zz",
                Err("failed to translate Kubernetes ID to EBS Volume ID Invalid disk name (aws://zone/vol-%zz): \
                     parse \"aws://zone/vol-%zz\": invalid URL escape \"%zz\""),
            ),
        ] {
            let got = aws_handle(id);
            assert_eq!(got.as_deref().map_err(|e| &**e), expected, "{id}");
        }
    }

    #[test]
    fn gce_handles_tell_zone_or_region() {
        let pd = json!({"gcePersistentDisk": {"pdName": "d"}});
        for (labels, expected) in [
            (vec![], Ok("projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d")),
            (vec![(ZONE, "us-a-1")], Ok("projects/UNSPECIFIED/zones/us-a-1/disks/d")),
            (vec![(BETA_ZONE, "us-b-1"), (ZONE, "us-a-1")], Ok("projects/UNSPECIFIED/zones/us-b-1/disks/d")),
            (vec![(ZONE, "us-a-1__us-a-2")], Ok("projects/UNSPECIFIED/regions/us-a/disks/d")),
            (
                vec![(ZONE, "us-a-1__us-b-2")],
                Err("failed to get region from zones: multiple or no regions gotten from zones, \
                     got: map[us-a:{} us-b:{}]"),
            ),
            (
                vec![(ZONE, "x__us-b-2")],
                Err("failed to get region from zones: zone in unexpected format, expected: \
                     {locale}-{region}-{zone}, got: x"),
            ),
        ] {
            let got = volume(pd.clone(), &labels).handle;
            assert_eq!(got.as_deref().map_err(|e| &**e), expected, "{labels:?}");
        }
    }

    #[test]
    fn zone_affinity_becomes_the_drivers_topology() {
        let affinity = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": BETA_ZONE, "operator": "In", "values": ["a"]},
            {"key": BETA_REGION, "operator": "In", "values": ["r"]}]}]}});
        let ebs = volume(json!({"awsElasticBlockStore": {"volumeID": "v"}, "nodeAffinity": affinity}), &[]);
        assert!(selects(&ebs, &[("topology.ebs.csi.aws.com/zone", "a"), (REGION, "r")]));
        assert!(!selects(&ebs, &[(BETA_ZONE, "a"), (BETA_REGION, "r")]));
    }

    #[test]
    fn zone_labels_become_affinity_when_there_is_none() {
        let ebs = volume(json!({"awsElasticBlockStore": {"volumeID": "v"}}), &[(ZONE, "a__ b ")]);
        assert!(selects(&ebs, &[("topology.ebs.csi.aws.com/zone", "b")]));
        assert!(!selects(&ebs, &[("topology.ebs.csi.aws.com/zone", "c")]));
        assert!(!selects(&ebs, &[(ZONE, "a")]));
    }

    #[test]
    fn azure_disks_keep_their_affinity_and_must_be_managed() {
        let affinity = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": ZONE, "operator": "In", "values": ["a"]}]}]}});
        let disk = |kind: &str| json!({"azureDisk": {"diskName": "d", "diskURI": "u", "kind": kind}, "nodeAffinity": affinity});
        let managed = volume(disk("managed"), &[]);
        assert_eq!(managed.handle.as_deref(), Ok("u"));
        assert!(selects(&managed, &[(ZONE, "a")]));
        assert_eq!(
            volume(disk("Shared"), &[]).handle.map_err(String::from),
            Err("kind(Shared) is not supported in csi migration".to_owned())
        );
    }

    #[test]
    fn names_round_trip_and_two_plugins_are_left_alone() {
        for plugin in InTreePlugin::ALL {
            assert_eq!(InTreePlugin::from_name(plugin.name()), Some(plugin));
        }
        let left_alone: Vec<_> = InTreePlugin::ALL.into_iter().filter(|plugin| !plugin.is_migrated()).collect();
        assert_eq!(left_alone, [InTreePlugin::AzureFile, InTreePlugin::Vsphere]);
        assert_eq!(InTreePlugin::from_name("csi.example.com"), None);
    }
}
