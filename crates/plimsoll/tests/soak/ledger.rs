//! What the API server's history says, and what in it must never be: a pod bound twice, a node given more than it has. None of it is asked
//! of the scheduler.

use k8s_openapi::api::core::v1::{Node, Pod};
use plimsoll_core::quantity::Quantity;
use std::collections::{BTreeMap, BTreeSet};

/// What a pod takes, and what it wants of its neighbours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub name: String,
    pub uid: String,
    pub node: Option<String>,
    pub priority: i32,
    cpu: i64,
    memory: i64,
    ports: Vec<i32>,
    /// Pods of one group keep off each other's nodes.
    group: Option<String>,
    /// It is being deleted.
    pub leaving: bool,
}

#[derive(Debug, Clone, Copy)]
struct Room {
    cpu: i64,
    memory: i64,
    pods: i64,
}

/// The pods as the API server has them, and everything that was wrong on the way.
#[derive(Debug, Default)]
pub struct Ledger {
    rooms: BTreeMap<String, Room>,
    /// Pods that exist and have not ended, by UID.
    pods: BTreeMap<String, Entry>,
    /// Where every pod was bound that ever was, by UID.
    bound: BTreeMap<String, String>,
    pub violations: Vec<String>,
    pub revision: u64,
    pub deleted: usize,
}

/// An amount in thousandths.
fn milli(text: &str) -> i64 {
    text.parse::<Quantity>().map_or(0, |quantity| quantity.milli_value())
}

impl Entry {
    fn of(pod: &Pod) -> Option<Self> {
        let spec = pod.spec.as_ref()?;
        let sum = |resource: &str| -> i64 {
            let requests =
                spec.containers.iter().filter_map(|container| container.resources.as_ref()?.requests.as_ref());
            requests.filter_map(|requests| requests.get(resource)).map(|quantity| milli(&quantity.0)).sum()
        };
        let ports = spec.containers.iter().flat_map(|container| container.ports.iter().flatten());
        let labels = pod.metadata.labels.as_ref();
        Some(Self {
            name: pod.metadata.name.clone()?,
            uid: pod.metadata.uid.clone()?,
            node: spec.node_name.clone().filter(|node| !node.is_empty()),
            priority: spec.priority.unwrap_or(0),
            cpu: sum("cpu"),
            memory: sum("memory"),
            ports: ports.filter_map(|port| port.host_port).collect(),
            group: labels.and_then(|labels| labels.get("group")).cloned(),
            leaving: pod.metadata.deletion_timestamp.is_some(),
        })
    }

    fn collides(&self, other: &Self) -> bool {
        self.ports.iter().any(|port| other.ports.contains(port)) || (self.group.is_some() && self.group == other.group)
    }
}

impl Ledger {
    /// A ledger of these nodes.
    pub fn new(nodes: &[Node]) -> Self {
        let room = |node: &Node| {
            let offers = node.status.as_ref()?.allocatable.as_ref()?;
            let of = |resource: &str| offers.get(resource).map_or(0, |quantity| milli(&quantity.0));
            let room = Room { cpu: of("cpu"), memory: of("memory"), pods: of("pods") / 1000 };
            Some((node.metadata.name.clone()?, room))
        };
        Self { rooms: nodes.iter().filter_map(room).collect(), ..Self::default() }
    }

    /// A pod was created or changed.
    pub fn apply(&mut self, pod: &Pod) {
        let Some(entry) = Entry::of(pod) else { return };
        self.see_revision(pod);
        let Entry { name, uid, .. } = &entry;
        let at = self.revision;
        match (self.bound.get(uid), &entry.node) {
            (Some(before), Some(now)) if before != now => {
                let violation = format!("pod {name} ({uid}) was bound to {before} and then to {now}, revision {at}");
                self.violations.push(violation);
            }
            (Some(before), None) => {
                self.violations.push(format!("pod {name} ({uid}) is no longer bound to {before}, revision {at}"));
            }
            _ => {}
        }
        let newly_bound = entry.node.clone().filter(|_| !self.bound.contains_key(uid));
        if let Some(node) = &newly_bound {
            self.bound.insert(uid.clone(), node.clone());
        }
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        if matches!(phase, Some("Succeeded" | "Failed")) {
            self.pods.remove(uid);
        } else {
            self.pods.insert(uid.clone(), entry);
        }
        if let Some(node) = newly_bound {
            self.check(&node);
        }
    }

    /// A pod is gone.
    pub fn delete(&mut self, pod: &Pod) {
        self.see_revision(pod);
        if let Some(uid) = &pod.metadata.uid {
            self.deleted += usize::from(self.pods.remove(uid).is_some());
        }
    }

    /// These are all the pods at a revision; those that are missing are gone.
    pub fn apply_all(&mut self, pods: &[Pod], revision: u64) {
        let there: BTreeSet<_> = pods.iter().filter_map(|pod| pod.metadata.uid.as_deref()).collect();
        let before = self.pods.len();
        self.pods.retain(|uid, _| there.contains(uid.as_str()));
        self.deleted += before - self.pods.len();
        for pod in pods {
            self.apply(pod);
        }
        self.revision = self.revision.max(revision);
    }

    fn see_revision(&mut self, pod: &Pod) {
        let version = pod.metadata.resource_version.as_deref().and_then(|version| version.parse().ok());
        self.revision = self.revision.max(version.unwrap_or(0));
    }

    fn on<'a>(&'a self, node: &'a str) -> impl Iterator<Item = &'a Entry> {
        self.pods.values().filter(move |entry| entry.node.as_deref() == Some(node))
    }

    /// Looks whether a node has more than it can hold, right after a pod was bound to it.
    fn check(&mut self, node: &str) {
        let Some(room) = self.rooms.get(node).copied() else {
            self.violations.push(format!("a pod was bound to {node}, which does not exist"));
            return;
        };
        let there: Vec<&Entry> = self.on(node).collect();
        let (cpu, memory) = (there.iter().map(|e| e.cpu).sum::<i64>(), there.iter().map(|e| e.memory).sum::<i64>());
        let collision = there.iter().enumerate().find_map(|(at, one)| {
            there[..at].iter().find(|other| one.collides(other)).map(|other| format!("{} and {}", one.name, other.name))
        });
        let over = cpu > room.cpu || memory > room.memory || there.len() as i64 > room.pods;
        if over || collision.is_some() {
            let names: Vec<_> = there.iter().map(|e| format!("{} ({} m)", e.name, e.cpu)).collect();
            let what = collision.map_or_else(
                || format!("has {cpu} m CPU of {} m, {} pods of {}", room.cpu, there.len(), room.pods),
                |pair| format!("has {pair}, which do not go together"),
            );
            let violation = format!("node {node} {what} at revision {}: {}", self.revision, names.join(", "));
            self.violations.push(violation);
        }
    }

    /// Pods that wait although a node has room for them, or would have without less important pods.
    pub fn stranded(&self) -> Vec<String> {
        let waiting = self.pods.values().filter(|entry| entry.node.is_none() && !entry.leaving);
        waiting.filter_map(|entry| self.place_for(entry).map(|node| format!("{} fits {node}", entry.name))).collect()
    }

    fn place_for(&self, pod: &Entry) -> Option<&str> {
        let fits = |node: &str, room: &Room| {
            let stay = || self.on(node).filter(|other| other.priority >= pod.priority);
            let (cpu, memory) = (stay().map(|e| e.cpu).sum::<i64>(), stay().map(|e| e.memory).sum::<i64>());
            cpu + pod.cpu <= room.cpu
                && memory + pod.memory <= room.memory
                && (stay().count() as i64) < room.pods
                && !stay().any(|other| other.collides(pod))
        };
        self.rooms.iter().find(|(node, room)| fits(node, room)).map(|(node, _)| node.as_str())
    }

    /// Pods that exist, by name.
    pub fn names(&self) -> BTreeSet<String> {
        self.pods.values().map(|entry| entry.name.clone()).collect()
    }

    /// How much of the CPU of all nodes the pods want, bound or not.
    pub fn demand(&self) -> f64 {
        let wanted: i64 = self.pods.values().map(|entry| entry.cpu).sum();
        wanted as f64 / self.rooms.values().map(|room| room.cpu).sum::<i64>().max(1) as f64
    }

    /// How many pods were ever bound, how many are, and how many wait.
    pub fn counts(&self) -> (usize, usize, usize) {
        let now = self.pods.values().filter(|entry| entry.node.is_some()).count();
        (self.bound.len(), now, self.pods.len() - now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node(name: &str) -> Node {
        let offers = json!({"cpu": "4", "memory": "8Gi", "pods": "3"});
        serde_json::from_value(json!({"metadata": {"name": name}, "status": {"allocatable": offers}})).unwrap()
    }

    fn pod(name: &str, cpu: &str, node: Option<&str>, priority: i32) -> Pod {
        let container = json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
        serde_json::from_value(json!({
            "metadata": {"name": name, "uid": name, "resourceVersion": "7"},
            "spec": {"containers": [container], "nodeName": node, "priority": priority},
        }))
        .unwrap()
    }

    #[test]
    fn a_second_binding_is_noticed() {
        let mut ledger = Ledger::new(&[node("a"), node("b")]);
        ledger.apply(&pod("x", "1", None, 0));
        ledger.apply(&pod("x", "1", Some("a"), 0));
        ledger.apply(&pod("x", "1", Some("a"), 0));
        assert!(ledger.violations.is_empty(), "{:?}", ledger.violations);
        ledger.apply(&pod("x", "1", Some("b"), 0));
        assert_eq!(ledger.violations.len(), 1, "{:?}", ledger.violations);
    }

    #[test]
    fn a_node_with_more_than_it_has_is_noticed() {
        let mut ledger = Ledger::new(&[node("a")]);
        ledger.apply(&pod("x", "3", Some("a"), 0));
        ledger.delete(&pod("x", "3", Some("a"), 0));
        ledger.apply(&pod("y", "3", Some("a"), 0));
        assert!(ledger.violations.is_empty(), "{:?}", ledger.violations);
        ledger.apply(&pod("z", "1100m", Some("a"), 0));
        assert!(ledger.violations[0].contains("4100 m CPU of 4000 m"), "{:?}", ledger.violations);
    }

    #[test]
    fn who_waits_beside_free_or_less_important_room_is_stranded() {
        let mut ledger = Ledger::new(&[node("a")]);
        ledger.apply(&pod("x", "3", Some("a"), 0));
        ledger.apply(&pod("y", "2", None, 0));
        assert!(ledger.stranded().is_empty());
        ledger.apply(&pod("z", "2", None, 5));
        assert_eq!(ledger.stranded(), ["z fits a"]);
        ledger.apply(&pod("w", "1", None, 0));
        assert_eq!(ledger.stranded(), ["w fits a", "z fits a"]);
    }
}
