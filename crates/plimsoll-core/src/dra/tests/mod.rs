//! The behaviour of Dynamic Resource Allocation as a whole.

mod allocation;
mod incremental;
mod lifecycle;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::claims::{allocated_devices, allocation};
use super::plugin::{self, PodState, PreFilter, Timing};
use super::{DraObjects, PlainNode, reserve};
use crate::framework::Code;

const DRIVER: &str = "gpu.example.com";

/// A device with a model, an index and some memory.
fn gpu(name: &str, model: &str, index: i64) -> Value {
    json!({
        "name": name,
        "attributes": {"model": {"string": model}, "index": {"int": index}},
        "capacity": {"memory": {"value": "40Gi"}},
    })
}

/// A device with more fields than [`gpu`] has.
fn gpu_with(name: &str, fields: Value) -> Value {
    merged(gpu(name, "a", 0), fields)
}

fn merged(mut base: Value, fields: Value) -> Value {
    if let (Some(base), Value::Object(fields)) = (base.as_object_mut(), fields) {
        base.extend(fields);
    }
    base
}

/// A slice that is a pool by itself.
fn slice(name: &str, pool: &str, spec: Value) -> Value {
    let pool = json!({"name": pool, "generation": 1, "resourceSliceCount": 1});
    json!({"metadata": {"name": name}, "spec": merged(json!({"driver": DRIVER, "pool": pool}), spec)})
}

/// A slice of a node's own pool.
fn node_slice(node: &str, devices: Value) -> Value {
    slice(&format!("{node}-slice"), node, json!({"nodeName": node, "devices": devices}))
}

fn class(name: &str) -> Value {
    let expression = format!("device.driver == \"{DRIVER}\"");
    json!({"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}]}})
}

fn exactly(count: i64) -> Value {
    json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count})
}

fn request(name: &str, exactly: Value) -> Value {
    json!({"name": name, "exactly": exactly})
}

/// A claim in the namespace of [`pod`].
fn claim(name: &str, devices: Value) -> Value {
    json!({"metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")}, "spec": {"devices": devices}})
}

fn one_request(name: &str, exact: Value) -> Value {
    claim(name, json!({"requests": [request("r", exact)]}))
}

/// A claim that already has devices, given as pool and device.
fn allocated_claim(name: &str, devices: &[(&str, &str)], fields: Value) -> Value {
    let results: Vec<_> = devices
        .iter()
        .map(|(pool, device)| {
            merged(json!({"request": "r", "driver": DRIVER, "pool": pool, "device": device}), fields.clone())
        })
        .collect();
    merged(one_request(name, exactly(1)), json!({"status": {"allocation": {"devices": {"results": results}}}}))
}

fn pod(claims: &[&str]) -> Pod {
    let claims: Vec<_> = claims.iter().map(|name| json!({"name": name, "resourceClaimName": name})).collect();
    serde_json::from_value(json!({
        "metadata": {"name": "pod", "namespace": "default", "uid": "uid-pod"},
        "spec": {"containers": [], "resourceClaims": claims},
    }))
    .unwrap()
}

/// The objects, with a class named gpu for the driver's devices.
fn objects(slices: &[Value], claims: &[Value]) -> DraObjects {
    let mut objects = DraObjects::new();
    objects.upsert_class(serde_json::from_value(class("gpu")).unwrap());
    for slice in slices {
        objects.upsert_slice(&serde_json::from_value(slice.clone()).unwrap()).unwrap();
    }
    for claim in claims {
        objects.upsert_claim(serde_json::from_value(claim.clone()).unwrap()).unwrap();
    }
    objects
}

fn started(objects: &DraObjects, pod: &Pod) -> PodState {
    match plugin::pre_filter(pod, objects, Timing::default()) {
        PreFilter::Proceed(state) => *state,
        other => panic!("expected the pod to proceed, came {other:?}"),
    }
}

fn filter_on(
    state: &mut PodState,
    objects: &DraObjects,
    pod: &Pod,
    node: &str,
    labels: &[(&str, &str)],
) -> Result<(), String> {
    let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let node = PlainNode { name: node, labels: &labels, allocatable: &BTreeMap::new() };
    plugin::filter(state, pod, objects, &node).map_err(|status| match status.code {
        Code::Error => format!("error: {}", status.reason),
        _ => status.reason,
    })
}

/// What the pod's claims get on node `n1`, as `request=pool/device`; or why they get nothing.
fn place(objects: &DraObjects, claims: &[&str]) -> Result<Vec<String>, String> {
    place_on(objects, claims, "n1", &[])
}

fn place_on(objects: &DraObjects, claims: &[&str], node: &str, labels: &[(&str, &str)]) -> Result<Vec<String>, String> {
    let pod = pod(claims);
    let mut state = started(objects, &pod);
    filter_on(&mut state, objects, &pod, node, labels)?;
    let mut objects = objects.clone();
    reserve::reserve(&mut objects, &mut state, node).map_err(|status| status.reason)?;
    let mut devices = Vec::new();
    for claim in claims {
        let pending = objects.pending_claim(&format!("uid-{claim}")).unwrap();
        let results = allocated_devices(allocation(pending).unwrap());
        devices.extend(results.iter().map(|result| format!("{}={}/{}", result.request, result.pool, result.device)));
    }
    Ok(devices)
}

/// [`place`] of one claim.
fn place_one(slices: &[Value], claim: &Value, others: &[Value]) -> Result<Vec<String>, String> {
    let name = claim["metadata"]["name"].as_str().unwrap().to_owned();
    let claims: Vec<_> = others.iter().chain([claim]).cloned().collect();
    place(&objects(slices, &claims), &[&name])
}

fn found(devices: &[&str]) -> Result<Vec<String>, String> {
    Ok(devices.iter().map(|device| (*device).to_owned()).collect())
}

fn refused(reason: &str) -> Result<Vec<String>, String> {
    Err(reason.to_owned())
}

const NOT_ENOUGH: &str = "cannot allocate all claims";
