//! Random events: what the indices give must be what a plain search through all objects gives.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

use super::binding::{self, NodeVolumes};
use super::objects::{PersistentVolume, PersistentVolumeClaim};
use super::reservation::{self, VolumeReservation};
use super::testing::{Node, apply, claim_of, on, pod_of, volume, waiting_class, with};
use super::{NodeView, PreFilterOutcome, StorageObjects};

const CLASSES: [&str; 2] = ["local", "other"];
const HOSTS: [&str; 4] = ["n0", "n1", "n2", "n3"];

/// One thing that happens to the cluster.
#[derive(Debug, Clone)]
enum Event {
    ApplyVolume { index: usize, class: usize, size: u8, place: usize, phase: bool, kept_for: Option<usize>, tier: bool },
    RemoveVolume { index: usize },
    ApplyClaim { index: usize, class: usize, size: u8, tier: bool },
    Reserve { claims: Vec<usize>, node: usize },
    Unreserve { which: usize },
}

fn event() -> impl Strategy<Value = Event> {
    let volume = (0..8usize, 0..2usize, 1..5u8, 0..8usize, any::<bool>(), proptest::option::weighted(0.2, 0..4usize));
    prop_oneof![
        4 => (volume, any::<bool>()).prop_map(|((index, class, size, place, phase, kept_for), tier)| {
            Event::ApplyVolume { index, class, size, place, phase, kept_for, tier }
        }),
        1 => (0..8usize).prop_map(|index| Event::RemoveVolume { index }),
        2 => (0..4usize, 0..2usize, 1..5u8, any::<bool>())
            .prop_map(|(index, class, size, tier)| Event::ApplyClaim { index, class, size, tier }),
        2 => (vec(0..4usize, 1..3), 0..4usize).prop_map(|(claims, node)| Event::Reserve { claims, node }),
        1 => (0..4usize).prop_map(|which| Event::Unreserve { which }),
    ]
}

/// A volume's affinity: none, a host, two zones, or something the index cannot file under a label.
fn affinity(place: usize) -> Value {
    match place {
        0..4 => on("host", &[HOSTS[place]]),
        4 => on("zone", &["a", "b"]),
        5 => json!({"nodeAffinity": {"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}]}}}),
        6 => json!({"nodeAffinity": {"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "host", "operator": "In", "values": ["n0"]}]},
            {"matchExpressions": [{"key": "host", "operator": "In", "values": ["n1"]}]}]}}}),
        _ => json!({}),
    }
}

fn nodes() -> Vec<Node> {
    let zones = ["a", "a", "b", "c"];
    HOSTS
        .iter()
        .zip(zones)
        .map(|(host, zone)| Node::new(host).with_label("host", host).with_label("zone", zone))
        .collect()
}

/// The cluster with all that was applied, so that it can be built again from scratch.
#[derive(Default)]
struct History {
    objects: StorageObjects,
    applied: BTreeMap<String, Value>,
    reservations: Vec<VolumeReservation>,
    version: u64,
}

impl History {
    fn new() -> Self {
        let mut history = Self::default();
        for class in CLASSES {
            history.apply(class.to_owned(), waiting_class(class, "kubernetes.io/no-provisioner"));
        }
        history
    }

    fn apply(&mut self, key: String, object: Value) {
        self.version += 1;
        let object = with(object, &["metadata", "resourceVersion"], json!(self.version.to_string()));
        apply(&mut self.objects, &object);
        self.applied.insert(key, object);
    }

    fn play(&mut self, event: &Event) {
        match event {
            Event::ApplyVolume { index, class, size, place, phase, kept_for, tier } => {
                let name = format!("pv{index}");
                let mut spec = affinity(*place);
                if let Some(claim) = kept_for {
                    spec["claimRef"] = json!({"namespace": "default", "name": format!("c{claim}")});
                }
                let mut object = volume(&name, CLASSES[*class], &format!("{size}Gi"), spec);
                object["status"]["phase"] = json!(if *phase { "Available" } else { "Released" });
                object["metadata"]["labels"] = if *tier { json!({"tier": "gold"}) } else { json!({}) };
                self.apply(name, object);
            }
            Event::RemoveVolume { index } => {
                let name = format!("pv{index}");
                self.objects.remove_volume(&name);
                self.applied.remove(&name);
            }
            Event::ApplyClaim { index, class, size, tier } => {
                let name = format!("c{index}");
                let mut object = claim_of(&name, CLASSES[*class], &format!("{size}Gi"));
                if *tier {
                    object["spec"]["selector"] = json!({"matchLabels": {"tier": "gold"}});
                }
                self.apply(name, object);
            }
            Event::Reserve { claims, node } => {
                let names: Vec<String> = claims.iter().map(|index| format!("c{index}")).collect();
                let pod = pod_of("p", &names.iter().map(String::as_str).collect::<Vec<_>>());
                if let PreFilterOutcome::Continue(state) = binding::pre_filter(&self.objects, &pod)
                    && let Ok(reservation) = reservation::reserve(&mut self.objects, &state, &nodes()[*node])
                {
                    self.reservations.push(reservation);
                }
            }
            Event::Unreserve { which } => {
                if *which < self.reservations.len() {
                    let reservation = self.reservations.remove(*which);
                    reservation::unreserve(&mut self.objects, &reservation);
                }
            }
        }
    }

    /// The volumes a claim may have on a node, by looking at all of them.
    fn plain_search<'a>(
        &'a self,
        claim: &PersistentVolumeClaim,
        node: &Node,
        taken: &[String],
    ) -> Option<&'a PersistentVolume> {
        let request = claim.request.clone().unwrap_or_default();
        let reaches = |volume: &PersistentVolume| {
            volume.node_affinity.as_ref().is_none_or(|affinity| affinity.matches(&|key| node.label(key)))
        };
        let mut volumes: Vec<&PersistentVolume> = self
            .applied
            .keys()
            .filter_map(|name| self.objects.volume(name).map(|volume| &**volume))
            .filter(|volume| volume.class == claim.class && !taken.contains(&volume.name.to_string()))
            .filter(|volume| volume.capacity >= request)
            .collect();
        volumes.sort_by(|a, b| (&a.capacity, &a.name).cmp(&(&b.capacity, &b.name)));
        let reference = |volume: &PersistentVolume| self.objects.claim_ref(&volume.name).cloned();
        let kept = volumes.iter().find(|volume| reference(volume).is_some_and(|r| r.refers_to(claim)));
        if let Some(kept) = kept {
            return reaches(kept).then_some(kept);
        }
        volumes.into_iter().find(|volume| {
            let selected = claim.selector.as_ref().is_none_or(|selector| {
                selector.as_ref().is_ok_and(|selector| selector.matches(&|key| volume.label(key)))
            });
            reference(volume).is_none() && volume.available && selected && reaches(volume)
        })
    }
}

fn names(volumes: &NodeVolumes) -> Vec<(String, String)> {
    volumes.bindings.iter().map(|(claim, volume)| (claim.name.to_string(), volume.name.to_string())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn indices_give_what_a_plain_search_gives(events in vec(event(), 1..60), wanted in vec(0..4usize, 1..4)) {
        let mut history = History::new();
        for event in &events {
            history.play(event);
        }
        let claims: Vec<String> = wanted.iter().map(|index| format!("c{index}")).collect();
        let pod = pod_of("p", &claims.iter().map(String::as_str).collect::<Vec<_>>());
        let PreFilterOutcome::Continue(state) = binding::pre_filter(&history.objects, &pod) else { return Ok(()) };

        let mut by_size: Vec<_> =
            claims.iter().filter_map(|name| history.objects.claim("default", name)).collect();
        by_size.sort_by(|a, b| a.request.cmp(&b.request));
        for node in nodes() {
            let mut taken = Vec::new();
            let mut expected = Some(Vec::new());
            for claim in &by_size {
                let volume = history.plain_search(claim, &node, &taken);
                taken.extend(volume.map(|volume| volume.name.to_string()));
                expected = expected.zip(volume).map(|(mut found, volume)| {
                    found.push((claim.name.to_string(), volume.name.to_string()));
                    found
                });
            }
            let got = binding::find(&history.objects, &state, &node).ok().map(|volumes| names(&volumes));
            prop_assert_eq!(got, expected, "on {}", node.name());
        }
    }

    #[test]
    fn unreserving_everything_leaves_a_cluster_as_if_built_from_scratch(events in vec(event(), 1..60)) {
        let mut history = History::new();
        for event in &events {
            history.play(event);
        }
        for reservation in std::mem::take(&mut history.reservations) {
            reservation::unreserve(&mut history.objects, &reservation);
        }
        let mut fresh = StorageObjects::default();
        for object in history.applied.values() {
            apply(&mut fresh, object);
        }
        prop_assert_eq!(history.objects.indices(), fresh.indices());
    }
}
