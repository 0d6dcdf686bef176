//! What a scheduler says to the API server beside bindings: conditions, nominations, events, deletions of victims, volumes and claims.
//!
//! Bindings and what they need are tasks of their own, side by side. Conditions and events go through a few lanes, a pod always through
//! the same, so that what is said of a pod arrives in the order in which it was said; its binding comes after its conditions.

use crate::api::{Api, JSON, MERGE, STRATEGIC_MERGE, Write, WriteError, pod_path};
use crate::driver::{Inbox, Input};
use crate::flight::Written;
use crate::metrics::Metrics;
use crate::record::{Kind, Recorder, Subject};
use crate::said::{Again, Book};
use http::Method;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::ResourceClaim;
use plimsoll_core::dra::plugin::Release;
use plimsoll_core::engine::{Eviction, PodRef};
use plimsoll_core::queue::Nomination;
use plimsoll_core::reserve::{Binding, ClaimWrite, Unreserve};
use plimsoll_core::storage::reservation::VolumeWrite;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::runtime::Handle;

/// How often a write is sent that may be given up: the next attempt at the pod says it again.
const ATTEMPTS: Option<u32> = Some(5);
/// How often a conflict about a victim that is still there is tried again.
const CONFLICTS: u32 = 5;

/// Where writes go.
pub struct Outbox {
    api: Api,
    inbox: Inbox,
    runtime: Handle,
    recorder: Recorder,
    metrics: Arc<Metrics>,
    said: Book,
}

impl Outbox {
    /// An outbox whose tasks run on this runtime and answer to this inbox.
    pub fn new(api: Api, inbox: Inbox, runtime: Handle, recorder: Recorder, metrics: Arc<Metrics>) -> Self {
        Self { api, inbox, runtime, recorder, metrics, said: Book::default() }
    }

    fn answer(&self, uid: Box<str>, work: impl Future<Output = Written> + Send + 'static) {
        let inbox = self.inbox.clone();
        let told = self.said.knows(&uid).then(|| self.recorder.clone());
        self.runtime.spawn(async move {
            if let Some(recorder) = told {
                recorder.settle(&uid).await;
            }
            // The scheduler may have ended.
            let _ = inbox.send(Input::Written(uid, work.await)).await;
        });
    }

    /// Binds a pod.
    pub fn bind(&self, uid: Box<str>, binding: Binding) {
        let api = self.api.clone();
        self.answer(uid, async move { Written::Bound(api.bind(&binding).await) });
    }

    /// Asks for volumes, one write after the other.
    pub fn write_volumes(&mut self, uid: Box<str>, binding: &Binding, writes: Vec<VolumeWrite>) {
        let (api, expectation) = (self.api.clone(), self.expectation(binding));
        self.answer(uid, async move {
            announce(&api, expectation).await;
            let mut versions = Vec::new();
            for write in &writes {
                match write_volume(&api, write).await {
                    Ok(version) => versions.push(version),
                    Err(error) => return Written::Volumes(versions, Some(error)),
                }
            }
            Written::Volumes(versions, None)
        });
    }

    /// Writes claims, one after the other.
    pub fn write_claims(&mut self, uid: Box<str>, binding: &Binding, writes: Vec<ClaimWrite>) {
        let (api, binding, expectation) = (self.api.clone(), binding.clone(), self.expectation(binding));
        self.answer(uid, async move {
            announce(&api, expectation).await;
            let mut written = Vec::new();
            for write in writes {
                match write_claim(&api, &binding, &write).await {
                    Ok(claim) => written.push((write, claim)),
                    Err(error) => return Written::Claims(written, Some(error)),
                }
            }
            Written::Claims(written, None)
        });
    }

    /// The pod was bound.
    pub fn scheduled(&mut self, binding: &Binding) {
        self.said.forget(&binding.uid);
        let Binding { namespace, name, node, .. } = binding;
        let text = format!("Successfully assigned {namespace}/{name} to {node}");
        self.recorder.record(binding.into(), Kind::Scheduled, &text, None);
    }

    /// The pod fits nowhere now.
    pub fn waits(&mut self, pod: &PodRef, message: &str, nomination: &Nomination<String>) {
        self.tell(pod.into(), ("Unschedulable", message), nomination);
    }

    /// The pod could not be tried, or not be bound.
    pub fn failed<'a>(&mut self, pod: impl Into<Subject<'a>>, problem: &str) {
        self.tell(pod.into(), ("SchedulerError", problem), &Nomination::None);
    }

    /// Says why a pod is not scheduled: an event for each attempt, counted where it says the same, and its condition.
    fn tell(&mut self, pod: Subject<'_>, because: (&str, &str), nomination: &Nomination<String>) {
        let (_, message) = because;
        match self.said.event(pod.uid, message) {
            Again::No => {
                let name = self.recorder.record(pod, Kind::FailedScheduling, message, None);
                self.said.recorded(pod.uid, name, message);
            }
            Again::Count(name, count) => self.recorder.repeat(pod, &name, count),
            Again::Silent => {}
        }
        if let Some(status) = self.said.status(pod, because, nomination) {
            self.write_status(pod, status);
        }
    }

    /// Says where a pod will be as soon as its volumes and devices are there; none if that is said.
    fn expectation(&mut self, binding: &Binding) -> Option<Write> {
        let status = self.said.expectation(&binding.uid, &binding.node)?;
        Some(status_write(&binding.namespace, &binding.name, &binding.uid, status))
    }

    /// A watch tells of a pod.
    pub fn heard(&mut self, pod: &Pod) {
        self.said.heard(pod);
    }

    /// A pod is gone, or it is not known what the API server was told of it.
    pub fn forget(&mut self, uid: &str) {
        self.said.forget(uid);
    }

    fn write_status(&mut self, pod: Subject<'_>, status: Value) {
        if !self.recorder.write_status(pod.uid, status_write(pod.namespace, pod.name, pod.uid, status)) {
            self.said.forget(pod.uid);
        }
    }

    /// Removes the victims of a preemption, and ends the hopes of less important pods for the node.
    pub fn evict(&mut self, pod: PodRef, eviction: Eviction) {
        for lesser in &eviction.unnominated {
            self.said.unnominated(&lesser.uid);
            self.write_status(lesser.into(), json!({ "nominatedNodeName": null }));
        }
        let (api, inbox, recorder) = (self.api.clone(), self.inbox.clone(), self.recorder.clone());
        let metrics = Arc::clone(&self.metrics);
        self.runtime.spawn(async move {
            for victim in &eviction.victims {
                if let Err(error) = remove(&api, victim, &pod.scheduler).await {
                    let name = format!("{}/{}", victim.namespace, victim.name);
                    tracing::warn!(pod = name, %error, "a victim could not be removed; its preemptor is tried again");
                    metrics.preemption_failures.inc();
                    // The scheduler may have ended.
                    let _ = inbox.send(Input::PreemptionFailed(pod)).await;
                    return;
                }
                let text = format!("Preempted by pod {} on node {}", pod.uid, eviction.node);
                // Who preempts reports, not who scheduled the victim.
                let subject = Subject { scheduler: &pod.scheduler, ..Subject::from(victim) };
                recorder.record(subject, Kind::Preempted, &text, Some(&pod));
            }
        });
    }

    /// Releases a claim. Where that fails, somebody has changed the claim, which has the pod tried again.
    pub fn release(&self, release: Release) {
        let api = self.api.clone();
        self.runtime.spawn(async move {
            let released = match release {
                Release::Deallocate(claim) => {
                    let path = format!("{}/status", claim_path(&claim));
                    api.send(&Write::new(Method::PUT, path, JSON, &claim_body(&claim)), ATTEMPTS).await.map(drop)
                }
                Release::Delete(claim) => undo_claim(&api, "", &Unreserve::Delete(claim)).await,
            };
            if let Err(error) = released {
                tracing::warn!(%error, "a claim could not be released; its pod waits until the claim changes");
            }
        });
    }

    /// Undoes in the API what a binding had written.
    pub fn undo(&self, binding: &Binding, undo: Vec<Unreserve>) {
        for step in undo {
            let (api, uid) = (self.api.clone(), binding.uid.clone());
            self.runtime.spawn(async move {
                if let Err(error) = undo_claim(&api, &uid, &step).await {
                    tracing::warn!(%error, "a claim could not be given back; its controller will do it when the pod is gone");
                }
            });
        }
    }
}

fn status_write(namespace: &str, name: &str, uid: &str, status: Value) -> Write {
    let path = format!("{}/status", pod_path(namespace, name));
    Write::new(Method::PATCH, path, STRATEGIC_MERGE, &json!({ "metadata": { "uid": uid }, "status": status }))
}

/// Says where a pod will be, before anything is done for it: said later, it could outlast the binding, which ends it.
async fn announce(api: &Api, expectation: Option<Write>) {
    let Some(write) = expectation else { return };
    if let Err(error) = api.send(&write, ATTEMPTS).await {
        tracing::debug!(path = write.path, %error, "where a pod will be was not said");
    }
}

/// Removes a victim. One that is gone, or whose name is another's, is removed.
async fn remove(api: &Api, victim: &PodRef, scheduler: &str) -> Result<(), WriteError> {
    let target = json!({
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": format!("{scheduler}: preempting to accommodate a higher priority pod"),
        "observedGeneration": victim.generation,
        "lastProbeTime": null,
        "lastTransitionTime": crate::record::seconds_now(),
    });
    let PodRef { namespace, name, uid, .. } = victim;
    let mut tries = 0;
    loop {
        let result = mark_and_delete(api, victim, &target).await;
        tries += 1;
        match result {
            Ok(()) | Err(WriteError::Refused { code: 404, .. }) => return Ok(()),
            // Another pod has the name now, or somebody else wrote at the same time.
            Err(error @ WriteError::Refused { code: 409, .. }) => {
                let now = api.pod(namespace, name).await?;
                let is_there = now.is_some_and(|pod| pod.metadata.uid.as_deref() == Some(uid));
                if !is_there {
                    return Ok(());
                }
                if tries >= CONFLICTS {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
    }
}

async fn mark_and_delete(api: &Api, victim: &PodRef, target: &Value) -> Result<(), WriteError> {
    let PodRef { namespace, name, uid, .. } = victim;
    api.send(&status_write(namespace, name, uid, json!({ "conditions": [target] })), ATTEMPTS).await?;
    let options = json!({ "kind": "DeleteOptions", "apiVersion": "v1", "preconditions": { "uid": uid } });
    api.send(&Write::new(Method::DELETE, pod_path(namespace, name), JSON, &options), ATTEMPTS).await.map(drop)
}

/// What of an answer tells the version of an object.
#[derive(Deserialize)]
struct Versioned {
    metadata: Version,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    resource_version: String,
}

async fn write_volume(api: &Api, write: &VolumeWrite) -> Result<String, WriteError> {
    let path = match write {
        VolumeWrite::BindVolume { volume, .. } => format!("/api/v1/persistentvolumes/{volume}"),
        VolumeWrite::SelectNode { namespace, claim, .. } => {
            format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{claim}")
        }
    };
    let write = Write::new(Method::PATCH, path, MERGE, &write.merge_patch());
    Ok(api.send_for::<Versioned>(&write, ATTEMPTS).await?.metadata.resource_version)
}

fn claim_path(claim: &ResourceClaim) -> String {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let (namespace, name) = (text(&claim.metadata.namespace), text(&claim.metadata.name));
    format!("/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}")
}

fn claim_body(claim: &ResourceClaim) -> Value {
    let mut body = serde_json::to_value(claim).unwrap_or_default();
    body["apiVersion"] = json!("resource.k8s.io/v1");
    body["kind"] = json!("ResourceClaim");
    body
}

/// Writes a claim: the finalizer first, which keeps it while devices are taken, then the allocation.
async fn write_claim(api: &Api, binding: &Binding, write: &ClaimWrite) -> Result<ResourceClaim, WriteError> {
    let mut claim = write.claim.clone();
    let path = claim_path(&claim);
    let kept: ResourceClaim = if let Some(requests) = &write.create {
        let folder = path.rsplit_once('/').map_or(path.as_str(), |(folder, _)| folder).to_owned();
        let created: ResourceClaim =
            api.send_for(&Write::new(Method::POST, folder, JSON, &claim_body(&claim)), ATTEMPTS).await?;
        let name = created.metadata.name.clone();
        let status =
            json!({ "extendedResourceClaimStatus": { "resourceClaimName": name, "requestMappings": requests } });
        api.send(&status_write(&binding.namespace, &binding.name, &binding.uid, status), ATTEMPTS).await?;
        created
    } else if write.assumed.is_some() {
        api.send_for(&Write::new(Method::PUT, path.clone(), JSON, &claim_body(&claim)), ATTEMPTS).await?
    } else {
        claim.clone()
    };
    claim.metadata = kept.metadata;
    let path = format!("{}/status", claim_path(&claim));
    api.send_for(&Write::new(Method::PUT, path, JSON, &claim_body(&claim)), ATTEMPTS).await
}

async fn undo_claim(api: &Api, pod_uid: &str, step: &Unreserve) -> Result<(), WriteError> {
    let gone = |result: Result<Vec<u8>, WriteError>| match result {
        Ok(_) | Err(WriteError::Refused { code: 404, .. }) => Ok(()),
        Err(error) => Err(error),
    };
    match step {
        Unreserve::RemoveConsumer(claim) => {
            let body = json!({
                "metadata": { "uid": claim.metadata.uid },
                "status": { "reservedFor": [{ "$patch": "delete", "uid": pod_uid }] },
            });
            let path = format!("{}/status", claim_path(claim));
            gone(api.send(&Write::new(Method::PATCH, path, STRATEGIC_MERGE, &body), ATTEMPTS).await)
        }
        Unreserve::Delete(claim) => {
            let body = json!({ "metadata": { "uid": claim.metadata.uid, "finalizers": null } });
            gone(api.send(&Write::new(Method::PATCH, claim_path(claim), MERGE, &body), ATTEMPTS).await)?;
            let options = json!({
                "kind": "DeleteOptions", "apiVersion": "v1", "preconditions": { "uid": claim.metadata.uid },
            });
            gone(api.send(&Write::new(Method::DELETE, claim_path(claim), JSON, &options), ATTEMPTS).await)
        }
    }
}
