//! NodeVolumeLimits: how many volumes of a CSI driver a node can attach.

use rustc_hash::FxHashSet;

use super::migration::InTreePlugin;
use super::objects::PersistentVolumeClaim;
use super::pod::PodVolume;
use super::{NodeView, PodVolumes, PreFilterOutcome, Rejection, StorageObjects, not_found};

/// The plugin's name.
pub const NAME: &str = "NodeVolumeLimits";

/// The node has no room for another volume of a driver.
pub const REASON_MAX_VOLUME_COUNT_EXCEEDED: &str = "node(s) exceed max volume count";

/// What PreFilter found: the pod's volumes as they count on a node.
#[derive(Debug, Clone)]
pub struct State {
    /// On a node that has a CSINode.
    volumes: Result<Vec<CountedVolume>, Rejection>,
    /// On a node that has none, where nothing is counted but what is wrong with the pod still shows.
    without_csi_node: Result<(), Rejection>,
}

/// A volume that takes up a place on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct VolumeId<'a> {
    driver: &'a str,
    handle: HandleId<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum HandleId<'a> {
    /// The driver's own name for the volume.
    Volume(&'a str),
    /// The claim of a volume that does not exist yet.
    Claim(&'a str, &'a str),
}

/// [`VolumeId`] for keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CountedVolume {
    driver: Box<str>,
    /// Empty for a volume that exists.
    namespace: Box<str>,
    name: Box<str>,
}

impl CountedVolume {
    fn new(id: VolumeId<'_>) -> Self {
        let (namespace, name) = match id.handle {
            HandleId::Volume(handle) => ("", handle),
            HandleId::Claim(namespace, name) => (namespace, name),
        };
        Self { driver: id.driver.into(), namespace: namespace.into(), name: name.into() }
    }

    fn id(&self) -> VolumeId<'_> {
        let handle = if self.namespace.is_empty() {
            HandleId::Volume(&self.name)
        } else {
            HandleId::Claim(&self.namespace, &self.name)
        };
        VolumeId { driver: &self.driver, handle }
    }
}

/// Finds the volumes of the pod that drivers have to attach.
pub fn pre_filter(objects: &StorageObjects, pod: &PodVolumes) -> PreFilterOutcome<State> {
    let counts = |volume: &PodVolume| {
        matches!(volume, PodVolume::Claim(_) | PodVolume::Ephemeral(_) | PodVolume::Migratable { .. })
    };
    if !pod.iter().any(counts) {
        return PreFilterOutcome::Skip;
    }
    let with_csi_node = |has_csi_node| {
        let mut ids = Vec::new();
        let complete = collect_volumes(objects, pod, has_csi_node, true, &mut |id| {
            if !ids.contains(&id) {
                ids.push(id);
            }
        });
        complete.map(|()| ids.into_iter().map(CountedVolume::new).collect())
    };
    PreFilterOutcome::Continue(State {
        volumes: with_csi_node(true),
        without_csi_node: with_csi_node(false).map(|_: Vec<_>| ()),
    })
}

/// Whether the node can attach the pod's volumes beside those it has.
pub fn filter(objects: &StorageObjects, state: &State, node: &impl NodeView) -> Result<(), Rejection> {
    let Some(csi_node) = objects.csi_node(node.name()) else { return state.without_csi_node.clone() };
    let new_volumes = state.volumes.as_ref().map_err(Clone::clone)?;
    if new_volumes.is_empty() || !csi_node.has_limits() {
        return Ok(());
    }

    let mut in_use = FxHashSet::default();
    for pod in node.pod_volumes() {
        collect_volumes(objects, pod, true, false, &mut |id| {
            in_use.insert(id);
        })?;
    }
    let attached: FxHashSet<VolumeId<'_>> = objects
        .attachments(node.name())
        .filter(|attachment| !attachment.attacher.is_empty())
        .filter_map(|attachment| {
            let volume = objects.volume(attachment.volume.as_deref()?)?;
            let (_, handle) = volume.csi.as_ref()?;
            Some(VolumeId { driver: &attachment.attacher, handle: HandleId::Volume(handle) })
        })
        .filter(|id| !in_use.contains(id))
        .collect();

    for (index, volume) in new_volumes.iter().enumerate() {
        let driver = &*volume.driver;
        let seen = new_volumes.iter().take(index).any(|earlier| *earlier.driver == *driver);
        let Some(limit) = csi_node.limit(driver).filter(|_| !seen) else { continue };
        // A volume attached for no pod of the node counts, even if it is one the pod brings.
        let new = new_volumes.iter().map(CountedVolume::id).filter(|id| id.driver == driver && !in_use.contains(id));
        let new = new.count();
        let current = [&in_use, &attached].iter().map(|ids| count_of(ids, driver)).sum::<usize>();
        if new > 0 && (current + new) as i64 > limit {
            return Err(Rejection::unschedulable(REASON_MAX_VOLUME_COUNT_EXCEEDED));
        }
    }
    Ok(())
}

fn count_of(ids: &FxHashSet<VolumeId<'_>>, driver: &str) -> usize {
    ids.iter().filter(|id| id.driver == driver).count()
}

/// Reports the volumes of a pod that drivers have to attach.
///
/// A claim that does not exist stops a new pod; for a pod that runs it is not counted, as nothing tells what it was.
fn collect_volumes<'a>(
    objects: &'a StorageObjects,
    pod: &'a PodVolumes,
    has_csi_node: bool,
    is_new: bool,
    found: &mut impl FnMut(VolumeId<'a>),
) -> Result<(), Rejection> {
    let namespace = pod.namespace();
    for volume in pod.iter() {
        let (name, is_ephemeral) = match volume {
            PodVolume::Claim(name) => (name, false),
            PodVolume::Ephemeral(name) => (name, true),
            PodVolume::Migratable { name, plugin, handle } => {
                if has_csi_node && plugin.is_migrated() {
                    let handle = handle.as_ref().map_err(|problem| {
                        Rejection::error(format!("converting volume({name}) from inline to csi: {problem}"))
                    })?;
                    found(VolumeId { driver: plugin.driver(), handle: HandleId::Volume(handle) });
                }
                continue;
            }
            PodVolume::Disk(_) | PodVolume::Csi(_) => continue,
        };
        if name.is_empty() {
            return Err(Rejection::error("PersistentVolumeClaim had no name"));
        }
        let Some(claim) = objects.claim(namespace, name) else {
            if is_new {
                let missing = not_found("persistentvolumeclaim", name);
                return Err(Rejection::unresolvable(format!("looking up PVC {namespace}/{name}: {missing}")));
            }
            continue;
        };
        if is_ephemeral {
            pod.check_owner(name, claim.controller.as_deref()).map_err(Rejection::error)?;
        }
        if let Some(id) = volume_of_claim(objects, claim, has_csi_node) {
            found(id);
        }
    }
    Ok(())
}

/// The volume behind a claim, or the place a volume to be provisioned will take.
fn volume_of_claim<'a>(
    objects: &'a StorageObjects,
    claim: &'a PersistentVolumeClaim,
    has_csi_node: bool,
) -> Option<VolumeId<'a>> {
    if let Some(volume) = objects.volume(&claim.volume_name) {
        let (driver, handle) = match (&volume.csi, &volume.translated) {
            (Some((driver, handle)), _) => (&**driver, handle),
            (None, Some(translated)) if has_csi_node && translated.plugin.is_migrated() => {
                (translated.plugin.driver(), translated.handle.as_ref().ok()?)
            }
            _ => return None,
        };
        let counted = !driver.is_empty() && !handle.is_empty();
        return counted.then_some(VolumeId { driver, handle: HandleId::Volume(handle) });
    }
    let class = objects.class(&claim.class).filter(|_| !claim.class.is_empty())?;
    let driver = match InTreePlugin::from_name(&class.provisioner) {
        Some(plugin) if has_csi_node && plugin.is_migrated() => plugin.driver(),
        Some(_) => return None,
        None => &class.provisioner,
    };
    let handle = HandleId::Claim(&claim.namespace, &claim.name);
    (!driver.is_empty()).then_some(VolumeId { driver, handle })
}
