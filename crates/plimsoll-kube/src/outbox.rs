//! What a scheduler says to the API server beside bindings: conditions, nominations, events, deletions of victims, volumes and claims.
//!
//! Bindings and what they need are tasks of their own, side by side. Conditions and events go through a few lanes, a pod always through
//! the same, so that what is said of a pod arrives in the order in which it was said; its binding comes after its conditions.

use crate::api::{Api, JSON, MERGE, STRATEGIC_MERGE, Write, WriteError, pod_path};
use crate::driver::{Inbox, Input};
use crate::extender::Extender;
use crate::flight::Written;
use crate::metrics::Metrics;
use crate::record::{Kind, Recorder, Subject};
use crate::said::{Again, Book};
use http::Method;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::{AllocationResult, ResourceClaim};
use plimsoll_core::dra::claims::{allocated_devices, allocation, reserved_for};
use plimsoll_core::dra::plugin::Release;
use plimsoll_core::dra::reserve::FINALIZER;
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
/// How often is tried what somebody else got in the way of, as often as kube-scheduler tries it.
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

    /// Binds a pod, or has an extender do it.
    pub fn bind(&self, uid: Box<str>, binding: Binding, binder: Option<Arc<Extender>>) {
        let api = self.api.clone();
        self.answer(uid, async move {
            Written::Bound(match binder {
                Some(extender) => api.bind_by(&extender, &binding).await,
                None => api.bind(&binding).await,
            })
        });
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
                let mut so_far = None;
                let result = write_claim(&api, &binding, &write, &mut so_far).await;
                written.extend(so_far.map(|claim| (write, claim)));
                if let Err(error) = result {
                    return Written::Claims(written, Some(error));
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

    /// The pod is bound as soon as drivers say that its devices are ready.
    pub fn waits_for_devices(&mut self, binding: &Binding) {
        let text = format!("waiting for binding conditions for device on node {}", binding.node);
        self.recorder.record(binding.into(), Kind::BindingConditionsPending, &text, None);
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

/// Writes a claim, for a pod: the finalizer first, which keeps it while devices are taken, then the allocation. `so_far` is what has been
/// written that has to be undone if the rest fails.
async fn write_claim(
    api: &Api,
    binding: &Binding,
    write: &ClaimWrite,
    so_far: &mut Option<ResourceClaim>,
) -> Result<(), WriteError> {
    let mut claim = write.claim.clone();
    let Some(requests) = &write.create else {
        *so_far = Some(allocate(api, binding, write, claim).await?);
        return Ok(());
    };
    claim.status = None;
    let path = claim_path(&claim);
    let folder = path.rsplit_once('/').map_or(path.as_str(), |(folder, _)| folder).to_owned();
    let made: ResourceClaim =
        api.send_for(&Write::new(Method::POST, folder, JSON, &claim_body(&claim)), ATTEMPTS).await?;
    let name = made.metadata.name.clone();
    *so_far = Some(made.clone());
    *so_far = Some(allocate(api, binding, write, made).await?);
    let status = json!({ "extendedResourceClaimStatus": { "resourceClaimName": name, "requestMappings": requests } });
    api.send(&status_write(&binding.namespace, &binding.name, &binding.uid, status), ATTEMPTS).await.map(drop)
}

/// Writes into a claim what it was given, and whom it is reserved for. Somebody else may write at the same time: then it is read afresh.
async fn allocate(
    api: &Api,
    binding: &Binding,
    write: &ClaimWrite,
    claim: ResourceClaim,
) -> Result<ResourceClaim, WriteError> {
    let (path, uid) = (claim_path(&claim), claim.metadata.uid.clone());
    // As it was known, without what is to be written.
    let mut known = claim;
    if write.assumed.is_some() && write.create.is_none() {
        known.metadata.finalizers.get_or_insert_default().retain(|finalizer| finalizer != FINALIZER);
    }
    if let Some(status) = &mut known.status {
        if write.assumed.is_some() {
            status.allocation = None;
        }
        status.reserved_for.get_or_insert_default().retain(|consumer| consumer.uid != binding.uid);
    }
    let mut tries = 0;
    loop {
        tries += 1;
        match allocate_once(api, binding, write, known).await {
            Err(WriteError::Refused { code: CONFLICT, .. }) if tries < CONFLICTS => {}
            done => return done,
        }
        known = api.get(&path, ATTEMPTS).await?;
        if known.metadata.uid != uid {
            return Err(overtaken(&known, "is another"));
        }
    }
}

/// The status of an answer that says that somebody else was quicker.
const CONFLICT: u16 = 409;

fn overtaken(claim: &ResourceClaim, what: &str) -> WriteError {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let (namespace, name) = (text(&claim.metadata.namespace), text(&claim.metadata.name));
    WriteError::Overtaken(format!("claim {namespace}/{name} {what} in the meantime"))
}

async fn allocate_once(
    api: &Api,
    binding: &Binding,
    write: &ClaimWrite,
    mut claim: ResourceClaim,
) -> Result<ResourceClaim, WriteError> {
    if claim.metadata.deletion_timestamp.is_some() {
        return Err(overtaken(&claim, "got deleted"));
    }
    let is_ours = reserved_for(&claim).iter().any(|consumer| consumer.uid == binding.uid);
    let Some(wanted) = allocation(&write.claim) else { return Err(overtaken(&claim, "got deallocated elsewhere")) };
    let path = claim_path(&claim);
    match (allocation(&claim), write.assumed.is_some()) {
        // It was written before, and the answer was lost.
        (Some(known), true) if is_ours && is_same(known, wanted) => return Ok(claim),
        (Some(_), true) => return Err(overtaken(&claim, "got allocated elsewhere")),
        (None, true) => {
            let finalizers = claim.metadata.finalizers.get_or_insert_default();
            if !finalizers.iter().any(|known| known == FINALIZER) {
                finalizers.push(FINALIZER.to_owned());
                claim =
                    api.send_for(&Write::new(Method::PUT, path.clone(), JSON, &claim_body(&claim)), ATTEMPTS).await?;
            }
            claim.status.get_or_insert_default().allocation = Some(wanted.clone());
        }
        (None, false) => return Err(overtaken(&claim, "got deallocated elsewhere")),
        (Some(_), false) if is_ours => return Ok(claim),
        (Some(known), false) => {
            let since = known.allocation_timestamp.clone().or_else(|| wanted.allocation_timestamp.clone());
            let status = claim.status.get_or_insert_default();
            status.allocation.get_or_insert_default().allocation_timestamp = since;
        }
    }
    let ours = reserved_for(&write.claim).iter().find(|consumer| consumer.uid == binding.uid).cloned();
    claim.status.get_or_insert_default().reserved_for.get_or_insert_default().extend(ours);
    let path = format!("{path}/status");
    api.send_for(&Write::new(Method::PUT, path, JSON, &claim_body(&claim)), ATTEMPTS).await
}

/// Whether two allocations are of the same devices for the same requests.
fn is_same(one: &AllocationResult, other: &AllocationResult) -> bool {
    let devices = |of: &AllocationResult| {
        let devices = allocated_devices(of).iter();
        let names = devices.map(|d| [&d.request, &d.driver, &d.pool, &d.device].map(String::clone));
        names.zip(allocated_devices(of).iter().map(|d| d.share_id.clone())).collect::<Vec<_>>()
    };
    devices(one) == devices(other)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fence::Fence;
    use crate::testing::{Answer, answering};
    use plimsoll_core::config::Configuration;
    use plimsoll_core::engine::{Attempt, Engine, Event, Object};
    use std::sync::Mutex;
    use std::time::Duration;

    const PATH: &str = "/apis/resource.k8s.io/v1/namespaces/d/resourceclaims/c";

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    /// What a pod is to be written that asks for a device, by a claim or by an extended resource.
    fn reserved(extended: bool) -> (Binding, ClaimWrite) {
        let mut engine = Engine::new(&Configuration::default(), 1);
        let mut tell = |object: Object| engine.apply(Duration::ZERO, Event::Apply(object)).unwrap();
        let allocatable = json!({ "cpu": "4", "memory": "8Gi", "pods": "10" });
        tell(Object::Node(read(json!({ "metadata": { "name": "n" }, "status": { "allocatable": allocatable } }))));
        let class = json!({ "metadata": { "name": "gpu" }, "spec": { "extendedResourceName": "example.com/gpu" } });
        tell(Object::DeviceClass(read(class)));
        let pool = json!({ "name": "n", "generation": 1, "resourceSliceCount": 1 });
        let slice = json!({ "driver": "x.example.com", "nodeName": "n", "pool": pool, "devices": [{ "name": "g0" }] });
        tell(Object::ResourceSlice(read(json!({ "metadata": { "name": "s" }, "spec": slice }))));
        tell(Object::ResourceClaim(read(claim("1", json!({})))));
        let (claims, requests) = match extended {
            true => (json!([]), json!({ "example.com/gpu": "1" })),
            false => (json!([{ "name": "c", "resourceClaimName": "c" }]), json!({})),
        };
        let containers = json!([{ "name": "c", "resources": { "requests": requests } }]);
        let pod = json!({ "metadata": { "name": "p", "namespace": "d", "uid": "u" },
            "spec": { "containers": containers, "resourceClaims": claims } });
        tell(Object::Pod(read(pod)));
        let Some(Attempt::Bind { reservation, binding, .. }) = engine.next(Duration::ZERO) else { panic!("it fits") };
        let mut writes = engine.claim_writes(&reservation, 0.0);
        (binding, writes.remove(0))
    }

    fn claim(version: &str, status: Value) -> Value {
        let exactly = json!({ "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1 });
        let metadata = json!({ "name": "c", "namespace": "d", "uid": "claim", "resourceVersion": version });
        let requests = json!([{ "name": "r", "exactly": exactly }]);
        json!({ "metadata": metadata, "spec": { "devices": { "requests": requests } }, "status": status })
    }

    fn refusal(code: u16) -> Answer {
        Answer::Given(code, json!({ "kind": "Status", "message": "no", "code": code }).to_string())
    }

    /// Writes the claim to a server that holds `kept` under a newer version and refuses older ones; what it was asked.
    async fn written(kept: Value) -> (Result<ResourceClaim, WriteError>, Vec<String>) {
        let (binding, write) = reserved(false);
        let kept = Mutex::new(kept);
        let (client, asked) = answering(move |method, _, body| {
            let mut kept = kept.lock().unwrap();
            if method == "PUT" {
                if body["metadata"]["resourceVersion"] != kept["metadata"]["resourceVersion"] {
                    return refusal(409);
                }
                let version: u32 = kept["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
                *kept = body.clone();
                kept["metadata"]["resourceVersion"] = json!((version + 1).to_string());
            }
            Answer::Given(200, kept.to_string())
        });
        let mut so_far = None;
        let result = write_claim(&Api::new(client, Fence::open()), &binding, &write, &mut so_far).await;
        let asked = asked.lock().unwrap().clone();
        (result.map(|()| so_far.unwrap()), asked)
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_that_somebody_else_changed_is_read_afresh() {
        let (result, asked) = written(claim("5", json!({}))).await;
        let result = result.unwrap();
        assert_eq!(reserved_for(&result).len(), 1);
        assert_eq!(result.metadata.finalizers, Some(vec![FINALIZER.to_owned()]));
        assert!(allocation(&result).is_some());
        let (put, get, status) = (format!("PUT {PATH}"), format!("GET {PATH}"), format!("PUT {PATH}/status"));
        assert_eq!(asked, [put.clone(), get, put, status], "the first one is refused");
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_that_is_no_longer_to_be_had_is_left_alone() {
        let mut leaving = claim("5", json!({}));
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let mut another = claim("5", json!({}));
        another["metadata"]["uid"] = json!("another");
        let device = json!({ "request": "r", "driver": "x.example.com", "pool": "m", "device": "g7" });
        let elsewhere = claim("5", json!({ "allocation": { "devices": { "results": [device] } } }));
        for (kept, problem) in [
            (leaving, "claim d/c got deleted in the meantime"),
            (another, "claim d/c is another in the meantime"),
            (elsewhere, "claim d/c got allocated elsewhere in the meantime"),
        ] {
            let (result, _) = written(kept).await;
            assert_eq!(result.unwrap_err().to_string(), problem);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_that_holds_what_was_to_be_written_is_written() {
        let (_, write) = reserved(false);
        let mut kept = serde_json::to_value(&write.claim).unwrap();
        kept["metadata"]["resourceVersion"] = json!("5");
        let (result, asked) = written(kept).await;
        assert_eq!(reserved_for(&result.unwrap()).len(), 1);
        assert_eq!(asked, [format!("PUT {PATH}"), format!("GET {PATH}")]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_made_for_a_pod_is_told_though_the_rest_fails() {
        let (binding, write) = reserved(true);
        let (client, _) = answering(|method, path, body| match (method, path.ends_with("/status")) {
            ("POST", _) => {
                let mut made = body.clone();
                (made["metadata"]["name"], made["metadata"]["uid"]) = (json!("made"), json!("m"));
                Answer::Given(201, made.to_string())
            }
            ("PUT", true) => refusal(422),
            _ => Answer::Given(200, body.to_string()),
        });
        let mut so_far = None;
        let result = write_claim(&Api::new(client, Fence::open()), &binding, &write, &mut so_far).await;
        assert!(matches!(result, Err(WriteError::Refused { code: 422, .. })), "{result:?}");
        assert_eq!(so_far.unwrap().metadata.name.as_deref(), Some("made"), "it has to be deleted again");
    }
}
