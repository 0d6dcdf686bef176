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

#[cfg(test)]
mod tests {
    use super::super::testing::{
        Node, attachment, bound_claim, claim_of, csi_node, objects, pod, pod_of, volume, waiting_class, with,
    };
    use super::*;
    use serde_json::{Value, json};

    const DRIVER: &str = "csi.example.com";

    /// Whether the pod may go to node `n`, which runs these pods.
    fn decide(list: &[Value], new: &PodVolumes, running: &[&PodVolumes]) -> Result<(), Rejection> {
        let objects = objects(list);
        let node = running.iter().fold(Node::new("n"), |node, pod| node.with_pod(pod));
        match pre_filter(&objects, new) {
            PreFilterOutcome::Continue(state) => filter(&objects, &state, &node),
            other => panic!("expected a state, got {other:?}"),
        }
    }

    fn full() -> Result<(), Rejection> {
        Err(Rejection::unschedulable(REASON_MAX_VOLUME_COUNT_EXCEEDED))
    }

    /// Claims `c1`, `c2`, `c3` bound to CSI volumes `pv1` … with handles `h1` …
    fn bound(handles: &[&str]) -> Vec<Value> {
        let mut list = Vec::new();
        for (index, handle) in handles.iter().enumerate() {
            let (claim, name) = (format!("c{}", index + 1), format!("pv{}", index + 1));
            let source = json!({"csi": {"driver": DRIVER, "volumeHandle": handle}});
            list.extend([bound_claim(&claim, &name), volume(&name, "", "1Gi", source)]);
        }
        list
    }

    fn beside(mut list: Vec<Value>, more: &[Value]) -> Vec<Value> {
        list.extend_from_slice(more);
        list
    }

    #[test]
    fn volumes_of_other_pods_count_once_each() {
        let list = beside(bound(&["h1", "h2", "h3"]), &[csi_node("n", &[(DRIVER, Some(2))])]);
        let (one, two) = (pod_of("one", &["c1"]), pod_of("two", &["c1", "c2"]));
        assert_eq!(decide(&list, &pod_of("me", &["c3"]), &[&one]), Ok(()));
        assert_eq!(decide(&list, &pod_of("me", &["c3"]), &[&one, &two]), full());
        assert_eq!(decide(&list, &pod_of("me", &["c2", "c3"]), &[&one]), full());
        assert_eq!(decide(&list, &pod_of("me", &["c1"]), &[&one, &two]), Ok(()), "c1 is there already");
    }

    #[test]
    fn two_claims_of_one_volume_count_once() {
        let list = beside(bound(&["h1", "h1"]), &[csi_node("n", &[(DRIVER, Some(1))])]);
        assert_eq!(decide(&list, &pod_of("me", &["c1", "c2"]), &[]), Ok(()));
    }

    #[test]
    fn nodes_without_a_limit_take_any_number() {
        let me = pod_of("me", &["c1", "c2"]);
        for more in [vec![], vec![csi_node("n", &[(DRIVER, None)])], vec![csi_node("n", &[("other", Some(0))])]] {
            assert_eq!(decide(&beside(bound(&["h1", "h2"]), &more), &me, &[]), Ok(()), "{more:?}");
        }
        let list = beside(bound(&["h1", "h2"]), &[csi_node("n", &[(DRIVER, Some(0))])]);
        assert_eq!(decide(&list, &me, &[]), full());
    }

    #[test]
    fn a_claim_without_a_volume_counts_for_the_provisioner_of_its_class() {
        let list = [
            waiting_class("wait", DRIVER),
            claim_of("c1", "wait", "1Gi"),
            claim_of("c2", "wait", "1Gi"),
            claim_of("c3", "gone", "1Gi"),
            csi_node("n", &[(DRIVER, Some(1))]),
        ];
        assert_eq!(decide(&list, &pod_of("me", &["c1", "c3"]), &[]), Ok(()));
        assert_eq!(decide(&list, &pod_of("me", &["c1", "c2"]), &[]), full());
        assert_eq!(decide(&list, &pod_of("me", &["c1"]), &[&pod_of("other", &["c2"])]), full());
    }

    #[test]
    fn in_tree_volumes_count_for_the_driver_that_replaced_them() {
        let ebs = |id: &str| json!({"awsElasticBlockStore": {"volumeID": id}});
        let list = [
            bound_claim("c1", "pv1"),
            volume("pv1", "", "1Gi", ebs("aws://zone/vol-1")),
            waiting_class("wait", "kubernetes.io/aws-ebs"),
            claim_of("c2", "wait", "1Gi"),
            csi_node("n", &[("ebs.csi.aws.com", Some(1))]),
        ];
        let me = pod("default", "me", &[ebs("vol-1")]);
        assert_eq!(decide(&list, &me, &[&pod_of("other", &["c1"])]), Ok(()), "the same volume");
        assert_eq!(decide(&list, &me, &[&pod_of("other", &["c2"])]), full());
        let vsphere = pod("default", "me", &[json!({"vsphereVolume": {"volumePath": "p"}})]);
        assert_eq!(decide(&list, &vsphere, &[&pod_of("other", &["c1"])]), Ok(()));
    }

    #[test]
    fn an_untranslatable_inline_volume_is_an_error_where_csi_is_known() {
        let me = pod("default", "me", &[json!({"azureDisk": {"diskName": "d", "diskURI": "u", "kind": "Shared"}})]);
        let problem = "converting volume(v0) from inline to csi: kind(Shared) is not supported in csi migration";
        assert_eq!(decide(&[csi_node("n", &[])], &me, &[]), Err(Rejection::error(problem)));
        assert_eq!(decide(&[], &me, &[]), Ok(()));
    }

    #[test]
    fn an_attached_volume_counts_even_if_the_pod_brings_it() {
        let list =
            beside(bound(&["h1", "h2"]), &[csi_node("n", &[(DRIVER, Some(1))]), attachment("a", "n", DRIVER, "pv1")]);
        assert_eq!(decide(&list, &pod_of("me", &["c2"]), &[]), full());
        assert_eq!(decide(&list, &pod_of("me", &["c1"]), &[]), full());
        assert_eq!(decide(&list, &pod_of("me", &["c1"]), &[&pod_of("other", &["c1"])]), Ok(()));
    }

    #[test]
    fn attachments_elsewhere_or_of_nothing_known_do_not_count() {
        let list = beside(
            bound(&["h1"]),
            &[
                csi_node("n", &[(DRIVER, Some(1))]),
                attachment("a", "m", DRIVER, "pv1"),
                attachment("b", "n", DRIVER, "gone"),
                attachment("c", "n", "", "pv1"),
            ],
        );
        assert_eq!(decide(&list, &pod_of("me", &["c1"]), &[]), Ok(()));
    }

    #[test]
    fn a_missing_claim_stops_a_new_pod_but_not_the_count_of_a_running_one() {
        let list = beside(bound(&["h1"]), &[csi_node("n", &[(DRIVER, Some(1))])]);
        let missing = "looking up PVC default/c9: persistentvolumeclaim \"c9\" not found";
        assert_eq!(decide(&list, &pod_of("me", &["c9"]), &[]), Err(Rejection::unresolvable(missing)));
        assert_eq!(decide(&list, &pod_of("me", &["c1"]), &[&pod_of("other", &["c9"])]), Ok(()));
    }

    #[test]
    fn an_ephemeral_claim_of_another_owner_is_an_error() {
        let claim = claim_of("me-v0", "wait", "1Gi");
        let me = pod("default", "me", &[json!({"ephemeral": {}})]);
        let list = |claim: Value| [claim, waiting_class("wait", DRIVER), csi_node("n", &[(DRIVER, Some(1))])];
        let not_owner = "PVC default/me-v0 was not created for pod default/me (pod is not owner)";
        assert_eq!(decide(&list(claim.clone()), &me, &[]), Err(Rejection::error(not_owner)));
        let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "me", "uid": "uid-me", "controller": true}]);
        let owned = with(claim, &["metadata", "ownerReferences"], owner);
        assert_eq!(decide(&list(owned), &me, &[]), Ok(()));
    }

    #[test]
    fn pods_without_attachable_volumes_skip_the_plugin() {
        let me = pod("default", "me", &[json!({"csi": {"driver": DRIVER}}), json!({"emptyDir": {}})]);
        assert!(matches!(pre_filter(&objects(&[]), &me), PreFilterOutcome::Skip));
    }
}
