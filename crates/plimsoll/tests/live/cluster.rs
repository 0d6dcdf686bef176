//! A cluster as a test sees it: objects in JSON, created, changed, waited for.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use kube::{Api, Client};
use plimsoll_lab::{Binaries, Lab};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Far longer than anything here takes, on any machine.
pub const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(20);

/// The programs of the control plane; none, and a word about it, where they are not built.
pub fn binaries() -> Option<Binaries> {
    Binaries::find().map_err(|error| eprintln!("skipped: {error}")).ok()
}

/// A folder that is gone with the test.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("plimsoll-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Waits until something is there, and fails with what was seen last.
pub async fn eventually<T, F: Future<Output = Result<T, String>>>(what: &str, mut look: impl FnMut() -> F) -> T {
    let begin = Instant::now();
    loop {
        match look().await {
            Ok(found) => return found,
            Err(seen) => assert!(begin.elapsed() < PATIENCE, "{what}: {seen}"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Starts a `plimsoll run` in a lab and waits until it knows the cluster; where it serves.
pub async fn start_plimsoll(lab: &mut Lab, name: &str, arguments: &[&str]) -> SocketAddr {
    let kubeconfig = lab.kubeconfig(plimsoll_lab::User::Plimsoll).display().to_string();
    let fixed = ["run", "--kubeconfig", &kubeconfig, "--listen", "127.0.0.1:0"];
    let arguments: Vec<_> = fixed.iter().chain(arguments).map(|argument| (*argument).to_owned()).collect();
    lab.start_program(name, Path::new(env!("CARGO_BIN_EXE_plimsoll")), &arguments).unwrap();
    let begin = Instant::now();
    loop {
        let log = lab.log(name).unwrap();
        let address =
            log.rsplit_once("metrics at http://").and_then(|(_, rest)| rest.lines().next()?.trim().parse().ok());
        if let Some(address) = address
            && get(address, "/readyz").is_some_and(|answer| answer.starts_with("HTTP/1.1 200"))
        {
            return address;
        }
        assert!(begin.elapsed() < PATIENCE && lab.exit_status(name).unwrap().is_none(), "{name} is not ready:\n{log}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// What a scheduler answers over HTTP, head and body.
pub fn get(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// The status and the JSON of an answer.
pub fn send(address: SocketAddr, request: &str, token: Option<&str>, body: &Value) -> (u16, Value) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let (authorization, body) = (token.map(|token| format!("Authorization: Bearer {token}\r\n")), body.to_string());
    write!(
        stream,
        "{request} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n{}Content-Length: {}\r\n\r\n{body}",
        authorization.unwrap_or_default(),
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

/// Puts one JSON document over another: objects are merged, everything else is replaced.
pub fn merge(under: &mut Value, over: &Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (key, value) in over {
                merge(under.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (under, over) => *under = over.clone(),
    }
}

/// The objects of a namespace, and those that have none.
#[derive(Clone)]
pub struct Objects {
    pub client: Client,
    pub namespace: String,
}

/// The kinds that tests use and that have no namespace.
const CLUSTER_WIDE: [&str; 13] = [
    "Node",
    "Namespace",
    "PersistentVolume",
    "StorageClass",
    "CSINode",
    "DeviceClass",
    "ResourceSlice",
    "PriorityClass",
    "CSIDriver",
    "ClusterRole",
    "ClusterRoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
];

/// The API of a kind, as `group/version` or `version`.
fn group_version(kind: &str) -> &'static str {
    match kind {
        "StorageClass" | "CSINode" | "CSIDriver" => "storage.k8s.io/v1",
        "DeviceClass" | "ResourceSlice" | "ResourceClaim" | "ResourceClaimTemplate" => "resource.k8s.io/v1",
        "PriorityClass" => "scheduling.k8s.io/v1",
        "PodDisruptionBudget" => "policy/v1",
        "Deployment" | "DaemonSet" | "StatefulSet" | "ReplicaSet" => "apps/v1",
        "ClusterRole" | "ClusterRoleBinding" => "rbac.authorization.k8s.io/v1",
        "ValidatingAdmissionPolicy" | "ValidatingAdmissionPolicyBinding" => "admissionregistration.k8s.io/v1",
        "Job" => "batch/v1",
        "Lease" => "coordination.k8s.io/v1",
        "Event" => "events.k8s.io/v1",
        _ => "v1",
    }
}

impl Objects {
    pub fn api(&self, kind: &str) -> Api<DynamicObject> {
        let (group, version) = group_version(kind).rsplit_once('/').unwrap_or(("", group_version(kind)));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        if CLUSTER_WIDE.contains(&kind) {
            Api::all_with(self.client.clone(), &resource)
        } else {
            Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
        }
    }

    pub async fn create(&self, kind: &str, name: &str, rest: Value) {
        let mut object = json!({"apiVersion": group_version(kind), "kind": kind, "metadata": {"name": name}});
        merge(&mut object, &rest);
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let created = self.api(kind).create(&PostParams::default(), &object).await;
        created.unwrap_or_else(|error| panic!("create {kind} {name}: {error}"));
    }

    /// An object as it is now; null if it is not there.
    pub async fn get(&self, kind: &str, name: &str) -> Value {
        let found = self.api(kind).get_opt(name).await.unwrap_or_else(|error| panic!("get {kind} {name}: {error}"));
        found.map_or(Value::Null, |object| serde_json::to_value(object).unwrap())
    }

    pub async fn list(&self, kind: &str) -> Vec<Value> {
        let list = self.api(kind).list(&ListParams::default()).await.unwrap();
        list.items.into_iter().map(|object| serde_json::to_value(object).unwrap()).collect()
    }

    pub async fn patch(&self, kind: &str, name: &str, patch: Value) {
        let patched = self.api(kind).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.unwrap_or_else(|error| panic!("patch {kind} {name}: {error}"));
    }

    pub async fn patch_status(&self, kind: &str, name: &str, status: Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        let patched = self.api(kind).patch_status(name, &PatchParams::default(), &patch).await;
        patched.unwrap_or_else(|error| panic!("patch the status of {kind} {name}: {error}"));
    }

    /// Deletes an object and waits until it is gone.
    pub async fn delete(&self, kind: &str, name: &str) {
        self.start_deletion(kind, name).await;
        self.until_gone(kind, name).await;
    }

    /// Deletes an object, which may be gone already.
    pub async fn start_deletion(&self, kind: &str, name: &str) {
        let _ = self.api(kind).delete(name, &DeleteParams::default().grace_period(0)).await;
    }

    pub async fn until_gone(&self, kind: &str, name: &str) {
        let api = self.api(kind);
        eventually(&format!("{kind} {name} is gone"), || async {
            match api.get_opt(name).await {
                Ok(None) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }

    /// Waits until an object is as it should be.
    pub async fn until(&self, kind: &str, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        eventually(&format!("{kind} {name}: {what}"), || async {
            let object = self.get(kind, name).await;
            if holds(&object) { Ok(object) } else { Err(format!("{object:#}")) }
        })
        .await
    }

    /// The events of an object, the oldest first.
    pub async fn events_of(&self, uid: &str) -> Vec<Value> {
        let mut events = self.list("Event").await;
        events.retain(|event| event["regarding"]["uid"] == uid);
        events.sort_by_key(|event| event["eventTime"].as_str().unwrap_or_default().to_owned());
        events
    }

    /// Waits until so many pods of the namespace are on nodes; these.
    pub async fn until_bound(&self, count: usize) -> Vec<Pod> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        eventually(&format!("{count} pods of {} are bound", self.namespace), || async {
            let pods = api.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
            let mut bound = pods;
            bound.retain(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()));
            if bound.len() == count { Ok(bound) } else { Err(format!("{} are", bound.len())) }
        })
        .await
    }
}

/// A pod that asks for little.
pub fn small_pod() -> Value {
    json!({
        "terminationGracePeriodSeconds": 0,
        "containers": [
            {"name": "main", "image": "lab/none", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
        ],
    })
}

/// The condition of an object, or null.
pub fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
}
