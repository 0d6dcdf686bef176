//! What a pod asks of storage, compiled once from its spec.

use k8s_openapi::api::core::v1 as core;
use std::sync::Arc;

use super::migration::{self, Handle, InTreePlugin};

/// The volumes of a pod that any volume plugin looks at.
///
/// Empty for the many pods that mount only config maps, secrets, tokens and scratch space. Pods that are equal here are
/// equal to all volume plugins: the pod's name and UID are kept only where a volume's claim depends on them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct PodVolumes(Option<Arc<Inner>>);

#[derive(Debug, PartialEq, Eq, Hash)]
struct Inner {
    namespace: Box<str>,
    /// Empty unless there is an ephemeral volume.
    name: Box<str>,
    /// Empty unless there is an ephemeral volume.
    uid: Box<str>,
    volumes: Box<[PodVolume]>,
}

/// One volume of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PodVolume {
    /// A claim the pod names.
    Claim(Box<str>),
    /// A claim made for the pod, named after pod and volume; it must be owned by the pod.
    Ephemeral(Box<str>),
    /// A disk that may not be shared at will.
    Disk(Disk),
    /// An in-tree source that a CSI driver serves now.
    Migratable {
        /// The volume's name in the pod.
        name: Box<str>,
        /// The in-tree plugin.
        plugin: InTreePlugin,
        /// The driver's handle for it.
        handle: Handle,
    },
    /// A volume served by a CSI driver without a claim.
    Csi(Box<str>),
}

/// A disk written into a pod's spec, with what decides whether two pods can have it on one node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Disk {
    /// A Google persistent disk, which may be shared read-only.
    GcePersistentDisk {
        /// The disk.
        name: Box<str>,
        /// Mounted read-only.
        read_only: bool,
    },
    /// An Amazon EBS volume, which is never shared.
    AwsElasticBlockStore {
        /// The volume.
        volume_id: Box<str>,
    },
    /// An iSCSI disk, which may be shared read-only.
    Iscsi {
        /// The qualified name of the target.
        iqn: Box<str>,
        /// Mounted read-only.
        read_only: bool,
    },
    /// A Ceph image, which may be shared read-only.
    Rbd {
        /// The monitors; sharing one makes it the same cluster.
        monitors: Box<[Box<str>]>,
        /// The pool.
        pool: Box<str>,
        /// The image.
        image: Box<str>,
        /// Mounted read-only.
        read_only: bool,
    },
}

impl Disk {
    /// Whether both cannot be on one node.
    pub fn conflicts_with(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::GcePersistentDisk { name, read_only },
                Self::GcePersistentDisk { name: other, read_only: other_read_only },
            ) => name == other && !(*read_only && *other_read_only),
            (Self::AwsElasticBlockStore { volume_id }, Self::AwsElasticBlockStore { volume_id: other }) => {
                volume_id == other
            }
            (Self::Iscsi { iqn, read_only }, Self::Iscsi { iqn: other, read_only: other_read_only }) => {
                iqn == other && !(*read_only && *other_read_only)
            }
            (
                Self::Rbd { monitors, pool, image, read_only },
                Self::Rbd {
                    monitors: other_monitors,
                    pool: other_pool,
                    image: other_image,
                    read_only: other_read_only,
                },
            ) => {
                pool == other_pool
                    && image == other_image
                    && !(*read_only && *other_read_only)
                    && monitors.iter().any(|monitor| other_monitors.contains(monitor))
            }
            _ => false,
        }
    }
}

impl PodVolumes {
    /// Compiles the volumes of a pod.
    pub fn from_pod(pod: &core::Pod) -> Self {
        let metadata = &pod.metadata;
        let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
        let text = |field: &'_ Option<String>| field.clone().unwrap_or_default();
        Self::compile(&text(&metadata.namespace), &text(&metadata.name), &text(&metadata.uid), volumes)
    }

    /// Compiles volumes for a pod of this namespace, name and UID.
    pub fn compile(namespace: &str, name: &str, uid: &str, volumes: &[core::Volume]) -> Self {
        let compiled: Box<[PodVolume]> = volumes.iter().flat_map(|volume| compile_volume(name, volume)).collect();
        if compiled.is_empty() {
            return Self(None);
        }
        let owned = compiled.iter().any(|volume| matches!(volume, PodVolume::Ephemeral(_)));
        Self(Some(Arc::new(Inner {
            namespace: namespace.into(),
            name: if owned { name.into() } else { "".into() },
            uid: if owned { uid.into() } else { "".into() },
            volumes: compiled,
        })))
    }

    /// Whether no volume plugin has anything to do for the pod.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The pod's namespace; empty when there are no volumes.
    pub fn namespace(&self) -> &str {
        self.0.as_ref().map_or("", |inner| &inner.namespace)
    }

    /// The volumes in the order of the spec.
    pub fn iter(&self) -> std::slice::Iter<'_, PodVolume> {
        self.0.as_ref().map_or([].iter(), |inner| inner.volumes.iter())
    }

    /// The names of the claims the pod itself names, in order and with repetitions; ephemeral claims are not among them.
    pub fn claim_names(&self) -> impl Iterator<Item = &str> {
        self.iter().filter_map(|volume| match volume {
            PodVolume::Claim(name) => Some(&**name),
            _ => None,
        })
    }

    /// The names of all claims, and whether each is ephemeral.
    pub fn all_claim_names(&self) -> impl Iterator<Item = (&str, bool)> {
        self.iter().filter_map(|volume| match volume {
            PodVolume::Claim(name) => Some((&**name, false)),
            PodVolume::Ephemeral(name) => Some((&**name, true)),
            _ => None,
        })
    }

    /// The disks that may not be shared at will.
    pub fn disks(&self) -> impl Iterator<Item = &Disk> {
        self.iter().filter_map(|volume| match volume {
            PodVolume::Disk(disk) => Some(disk),
            _ => None,
        })
    }

    /// The complaint if an ephemeral volume's claim is controlled by something other than this pod.
    pub(super) fn check_owner(&self, claim: &str, controller: Option<&str>) -> Result<(), String> {
        let (namespace, name, uid) =
            self.0.as_ref().map_or(("", "", ""), |inner| (&*inner.namespace, &*inner.name, &*inner.uid));
        if controller == Some(uid) {
            Ok(())
        } else {
            Err(format!("PVC {namespace}/{claim} was not created for pod {namespace}/{name} (pod is not owner)"))
        }
    }
}

fn compile_volume(pod_name: &str, volume: &core::Volume) -> Vec<PodVolume> {
    let mut compiled = Vec::new();
    if let Some(source) = &volume.persistent_volume_claim {
        compiled.push(PodVolume::Claim(source.claim_name.as_str().into()));
    } else if volume.ephemeral.is_some() {
        compiled.push(PodVolume::Ephemeral(format!("{pod_name}-{}", volume.name).into()));
    } else if let Some((plugin, handle)) = migration::translate_inline(volume) {
        compiled.push(PodVolume::Migratable { name: volume.name.as_str().into(), plugin, handle });
    }
    compiled.extend(compile_disk(volume).map(PodVolume::Disk));
    compiled.extend(volume.csi.iter().map(|source| PodVolume::Csi(source.driver.as_str().into())));
    compiled
}

fn compile_disk(volume: &core::Volume) -> Option<Disk> {
    if let Some(source) = &volume.gce_persistent_disk {
        Some(Disk::GcePersistentDisk {
            name: source.pd_name.as_str().into(),
            read_only: source.read_only.unwrap_or_default(),
        })
    } else if let Some(source) = &volume.aws_elastic_block_store {
        Some(Disk::AwsElasticBlockStore { volume_id: source.volume_id.as_str().into() })
    } else if let Some(source) = &volume.iscsi {
        Some(Disk::Iscsi { iqn: source.iqn.as_str().into(), read_only: source.read_only.unwrap_or_default() })
    } else {
        let source = volume.rbd.as_ref()?;
        Some(Disk::Rbd {
            monitors: source.monitors.iter().map(|monitor| monitor.as_str().into()).collect(),
            pool: source.pool.as_deref().unwrap_or_default().into(),
            image: source.image.as_str().into(),
            read_only: source.read_only.unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::pod;
    use super::*;
    use serde_json::json;

    #[test]
    fn pods_without_storage_are_empty_and_equal() {
        let sources = [json!({"configMap": {"name": "c"}}), json!({"emptyDir": {}}), json!({"projected": {}})];
        let plain = pod("default", "a", &sources);
        assert!(plain.is_empty());
        assert_eq!(plain, PodVolumes::default());
        assert_eq!(plain.iter().count(), 0);
    }

    #[test]
    fn pods_of_a_template_are_equal_unless_their_claims_depend_on_the_pod() {
        let claim = [json!({"persistentVolumeClaim": {"claimName": "c"}})];
        assert_eq!(pod("ns", "a", &claim), pod("ns", "b", &claim));
        assert_ne!(pod("ns", "a", &claim), pod("other", "a", &claim));
        let ephemeral = [json!({"ephemeral": {}})];
        assert_ne!(pod("ns", "a", &ephemeral), pod("ns", "b", &ephemeral));
        assert_eq!(pod("ns", "a", &ephemeral).all_claim_names().collect::<Vec<_>>(), [("a-v0", true)]);
    }

    #[test]
    fn a_disk_is_both_guarded_and_counted() {
        let both = pod("ns", "a", &[json!({"gcePersistentDisk": {"pdName": "d"}})]);
        assert_eq!(both.disks().count(), 1);
        assert!(both.iter().any(|volume| matches!(volume, PodVolume::Migratable { plugin: InTreePlugin::GcePd, .. })));
    }
}
