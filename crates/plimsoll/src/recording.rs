//! A recorded workload: pods of a real cluster, with when each came and how long it ran, put together from what is seen of them.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Pod, PodSpec, Toleration};
use k8s_openapi::jiff::Timestamp;
use kube::{Api, Client};
use plimsoll_core::engine::{Event, Object};
use plimsoll_core::model::{Interner, PodShape, ResourceNames};
use plimsoll_core::state::pod_key;
use plimsoll_kube::driver::{Inbox, Input};
use plimsoll_kube::owner::owner_of;
use plimsoll_kube::watch::watch;
use plimsoll_kube::world::{GPU, is_placed, latency_ms};
use plimsoll_sim::workload::{self, Builder, GpuRequest, LatencyConstraint, Lifetime, PodRecord, Template, Workload};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use tokio::sync::{mpsc, watch as channel};

/// Events that may wait.
const EVENTS: usize = 1024;

/// A pod that was seen.
#[derive(Debug)]
struct Seen {
    name: String,
    template: Template,
    owner: String,
    created: Timestamp,
    started: Option<Timestamp>,
    ended: Option<Timestamp>,
}

/// What was seen so far.
#[derive(Debug)]
pub struct Recording {
    /// Pods that came before count as if they came then.
    since: Timestamp,
    pods: BTreeMap<String, Seen>,
    /// UIDs by namespace and name, for what only names a pod.
    named: BTreeMap<(String, String), String>,
    /// Pods whose specs make no sense to a scheduler.
    unreadable: u64,
}

impl Recording {
    /// A recording that begins at this time.
    pub fn since(since: Timestamp) -> Self {
        Self { since, pods: BTreeMap::new(), named: BTreeMap::new(), unreadable: 0 }
    }

    /// Takes in what a watch tells.
    pub fn take(&mut self, event: &Event, now: Timestamp) {
        match event {
            Event::Apply(Object::Pod(pod)) => self.apply(pod, now),
            Event::Delete(Object::Pod(pod)) => {
                let name = |name: &Option<String>| name.clone().unwrap_or_default();
                self.delete(&name(&pod.metadata.namespace), &name(&pod.metadata.name), now);
            }
            _ => {}
        }
    }

    /// Begins later: pods that had ended by then are forgotten. It never begins earlier.
    pub fn forget_before(&mut self, since: Timestamp) {
        if since <= self.since {
            return;
        }
        self.since = since;
        self.pods.retain(|_, seen| seen.ended.is_none_or(|end| end > since));
        self.named.retain(|_, uid| self.pods.contains_key(uid));
    }

    /// How many pods there are in it.
    pub fn len(&self) -> usize {
        self.pods.len()
    }

    /// How many pods could not be read.
    pub fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// A pod came or changed.
    pub fn apply(&mut self, pod: &Pod, at: Timestamp) {
        let uid = pod_key(&pod.metadata);
        if !self.pods.contains_key(&uid) {
            let Some(seen) = seen(pod, at) else {
                self.unreadable += 1;
                return;
            };
            let meta = &pod.metadata;
            let name = (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default());
            self.named.insert(name, uid.clone());
            self.pods.insert(uid.clone(), seen);
        }
        let Some(known) = self.pods.get_mut(&uid) else { return };
        if known.started.is_none() && is_placed(pod) {
            known.started = Some(start_time(pod).unwrap_or(at));
        }
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        if known.ended.is_none() && matches!(phase, Some("Succeeded" | "Failed")) {
            known.ended = Some(finish_time(pod).unwrap_or(at));
        }
    }

    /// A pod was bound; only its name is known.
    pub fn bound(&mut self, namespace: &str, name: &str, at: Timestamp) {
        let uid = self.named.get(&(namespace.to_owned(), name.to_owned()));
        if let Some(seen) = uid.and_then(|uid| self.pods.get_mut(uid)) {
            seen.started.get_or_insert(at);
        }
    }

    /// A pod left.
    pub fn delete(&mut self, namespace: &str, name: &str, at: Timestamp) {
        if let Some(uid) = self.named.remove(&(namespace.to_owned(), name.to_owned()))
            && let Some(seen) = self.pods.get_mut(&uid)
        {
            seen.ended.get_or_insert(at);
        }
    }

    /// All pods that were there since the beginning, as a workload. Those that still run have no lifetime: they run to the end.
    pub fn workload(&self, name: &str) -> Workload {
        let mut builder = Builder::new();
        let mut owners: BTreeMap<&str, u32> = BTreeMap::new();
        let mut pods: Vec<_> =
            self.pods.iter().filter(|(_, seen)| seen.ended.is_none_or(|end| end > self.since)).collect();
        pods.sort_by_key(|(uid, seen)| (seen.created, uid.as_str()));
        for (uid, seen) in pods {
            let number = u32::try_from(owners.len()).unwrap_or(u32::MAX);
            let owner = *owners.entry(&seen.owner).or_insert(number);
            let begin = seen.started.unwrap_or(seen.created).max(self.since);
            let record = PodRecord {
                name: seen.name.as_str().into(),
                template: builder.template(seen.template.clone()),
                owner,
                arrival: between(self.since, seen.created),
                lifetime: seen.ended.map(|end| Lifetime::exactly(between(begin, end))),
                usage: None,
            };
            if let Err(mut taken) = builder.push(record) {
                // A name that comes back is another pod.
                taken.name = format!("{}.{uid}", seen.name).into();
                let _ = builder.push(taken);
            }
        }
        builder.finish(name, Vec::new())
    }
}

/// Watches the pods of a cluster, or of a namespace.
pub fn pods(client: Client, namespace: Option<&str>) -> mpsc::Receiver<Event> {
    let api: Api<Pod> = match namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    let (inbox, mut inputs) = Inbox::new();
    let (tell, events) = mpsc::channel(EVENTS);
    // Nobody asks for pods to be read anew.
    let watches = tokio::spawn(watch(api, None, inbox, channel::channel(0).1));
    tokio::spawn(async move {
        while let Some(input) = inputs.recv().await {
            if let Input::Event(event) = input
                && tell.send(event).await.is_err()
            {
                break;
            }
        }
        watches.abort();
    });
    events
}

/// Writes the trace beside its place first: what is there stays whole.
pub fn save(recording: &Recording, path: &Path) -> Result<()> {
    let name = path.file_name().context("not the name of a file")?.to_string_lossy().into_owned();
    let beside = path.with_file_name(format!(".{}.{name}", std::process::id()));
    workload::write(&recording.workload(&name_of(path)), &beside)?;
    std::fs::rename(&beside, path).with_context(|| format!("cannot write {}", path.display()))
}

/// The name of a file without what comes after its first dot.
pub fn name_of(path: &Path) -> String {
    path.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

fn between(from: Timestamp, to: Timestamp) -> Duration {
    to.duration_since(from).try_into().unwrap_or_default()
}

fn start_time(pod: &Pod) -> Option<Timestamp> {
    Some(pod.status.as_ref()?.start_time.as_ref()?.0)
}

fn finish_time(pod: &Pod) -> Option<Timestamp> {
    let containers = pod.status.as_ref()?.container_statuses.iter().flatten();
    let ends =
        containers.filter_map(|status| Some(status.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref()?.0));
    ends.max()
}

fn seen(pod: &Pod, at: Timestamp) -> Option<Seen> {
    let meta = &pod.metadata;
    let (namespace, name) = (meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default());
    Some(Seen {
        name: format!("{namespace}.{name}"),
        template: template(pod)?,
        owner: owner_of(pod),
        created: meta.creation_timestamp.as_ref().map_or(at, |time| time.0),
        started: None,
        ended: None,
    })
}

fn template(pod: &Pod) -> Option<Template> {
    let (mut strings, mut resources) = (Interner::default(), ResourceNames::default());
    let shape = PodShape::compile(pod, &mut strings, &mut resources).ok()?;
    let wanted = &shape.local.resources.wanted;
    let gpus = resources.get(GPU).map_or(0, |id| wanted.get(id));
    let labels = pod.metadata.labels.as_ref();
    let app = labels.and_then(|labels| labels.get("app").or_else(|| labels.get("app.kubernetes.io/name")));
    Some(Template {
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        app: app.cloned(),
        cpu_milli: wanted.cpu,
        memory: wanted.memory,
        gpu: (gpus > 0).then(|| GpuRequest { count: gpus as u32, milli: 1000, models: Vec::new() }),
        priority: shape.priority,
        latency: latency_ms(pod).map(|(soft_ms, hard_ms)| LatencyConstraint { soft_ms, hard_ms }),
        spec: pod.spec.as_ref().and_then(constraints),
    })
}

/// What of a spec keeps a pod from nodes, without what the API server adds to every pod.
fn constraints(spec: &PodSpec) -> Option<Box<PodSpec>> {
    let is_own = |toleration: &&Toleration| {
        let added = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
        !toleration.key.as_deref().is_some_and(|key| added.contains(&key))
    };
    let tolerations: Vec<_> = spec.tolerations.iter().flatten().filter(is_own).cloned().collect();
    let kept = PodSpec {
        node_selector: spec.node_selector.clone().filter(|selector| !selector.is_empty()),
        affinity: spec.affinity.clone(),
        tolerations: (!tolerations.is_empty()).then_some(tolerations),
        topology_spread_constraints: spec.topology_spread_constraints.clone().filter(|each| !each.is_empty()),
        preemption_policy: spec.preemption_policy.clone().filter(|policy| policy == "Never"),
        ..PodSpec::default()
    };
    (kept != PodSpec::default()).then(|| Box::new(kept))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn time(text: &str) -> Timestamp {
        format!("2026-01-01T{text}Z").parse().unwrap()
    }

    fn pod(name: &str, created: &str, node: Option<&str>, phase: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": { "name": name, "namespace": "shop", "uid": format!("uid-{name}-{created}"), "creationTimestamp": format!("2026-01-01T{created}Z"),
                "labels": { "app": "cart" } },
            "spec": { "nodeName": node, "nodeSelector": { "disk": "ssd" },
                "tolerations": [{ "key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300 }],
                "containers": [{ "name": "c", "resources": { "requests": { "cpu": "250m", "memory": "64Mi" } } }] },
            "status": { "phase": phase },
        }))
        .unwrap()
    }

    #[test]
    fn pods_come_run_and_end() {
        let mut recording = Recording::since(time("10:00:00"));
        recording.apply(&pod("old", "08:00:00", Some("n"), "Running"), time("10:00:00"));
        recording.apply(&pod("job", "10:01:00", None, "Pending"), time("10:01:00"));
        recording.apply(&pod("job", "10:01:00", Some("n"), "Running"), time("10:01:10"));
        recording.apply(&pod("job", "10:01:00", Some("n"), "Succeeded"), time("10:03:10"));
        recording.delete("shop", "old", time("10:30:00"));
        recording.apply(&pod("still", "10:02:00", Some("n"), "Running"), time("10:02:00"));
        let workload = recording.workload("w");
        let rows: Vec<_> = workload
            .pods
            .iter()
            .map(|pod| (&*pod.name, pod.arrival.as_secs(), pod.lifetime.map(|life| life.least.as_secs())))
            .collect();
        assert_eq!(rows, [("shop.old", 0, Some(1800)), ("shop.job", 60, Some(120)), ("shop.still", 120, None)]);
        let template = &workload.templates[0];
        assert_eq!((template.cpu_milli, template.memory, template.app.as_deref()), (250, 64 << 20, Some("cart")));
        let spec = template.spec.as_ref().unwrap();
        assert!(spec.tolerations.is_none() && spec.node_selector.is_some() && spec.containers.is_empty());
        assert_eq!(workload.templates.len(), 1, "equal pods share their template");
    }

    #[test]
    fn a_name_that_comes_back_is_another_pod() {
        let mut recording = Recording::since(time("10:00:00"));
        for created in ["10:01:00", "10:05:00"] {
            recording.apply(&pod("db-0", created, Some("n"), "Running"), time(created));
            recording.delete("shop", "db-0", time("10:06:00"));
        }
        let workload = recording.workload("w");
        assert_eq!(workload.pods.len(), 2);
        assert_ne!(workload.pods[0].name, workload.pods[1].name);
    }
}
