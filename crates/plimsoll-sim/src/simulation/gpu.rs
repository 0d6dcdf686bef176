//! GPUs as Kubernetes knows them: devices that pods claim, whole or in part, through dynamic resource allocation.

use super::machines::{Machine, WHOLE_GPU};
use super::pods::claim_name;
use crate::fleet::Pool;
use crate::workload::GpuRequest;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use serde_json::{Value, json};

const DRIVER: &str = "gpu.plimsoll.dev";

fn object<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|error| format!("a GPU object cannot be made: {error}"))
}

/// The class that claims name.
pub fn class() -> Result<DeviceClass, String> {
    object(json!({"metadata": {"name": DRIVER}, "spec": {}}))
}

/// The GPUs of a machine; none if it has none.
pub fn slice(machine: &Machine, pool: &Pool) -> Result<Option<ResourceSlice>, String> {
    let Some((count, model)) = &pool.machine.gpus else { return Ok(None) };
    let devices: Vec<_> = (0..*count)
        .map(|number| {
            json!({
                "name": format!("gpu-{number}"),
                "attributes": {"model": {"string": model}},
                "capacity": {"milli": {"value": WHOLE_GPU.to_string()}},
                "allowMultipleAllocations": true,
            })
        })
        .collect();
    let pool = json!({"name": machine.name, "generation": 1, "resourceSliceCount": 1});
    let spec = json!({"driver": DRIVER, "nodeName": machine.name, "pool": pool, "devices": devices});
    object(json!({"metadata": {"name": machine.name}, "spec": spec})).map(Some)
}

/// What a pod asks for.
pub fn claim(request: &GpuRequest, namespace: &str, uid: &str) -> Result<ResourceClaim, String> {
    let selectors: Vec<_> = match request.models.as_slice() {
        [] => Vec::new(),
        models => {
            let list = models.iter().map(|model| format!("{model:?}")).collect::<Vec<_>>().join(", ");
            vec![json!({"cel": {"expression": format!("device.attributes[\"{DRIVER}\"].model in [{list}]")}})]
        }
    };
    let capacity = json!({"requests": {"milli": request.milli.to_string()}});
    let exactly = json!({"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": request.count,
                         "selectors": selectors, "capacity": capacity});
    let name = claim_name(uid);
    object(json!({
        "metadata": {"name": name, "namespace": namespace, "uid": name},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }))
}

/// Which GPUs of its machine a claim was given, by number.
pub fn given(claim: &ResourceClaim) -> Vec<u16> {
    let allocation = claim.status.as_ref().and_then(|status| status.allocation.as_ref());
    let results = allocation.and_then(|allocation| allocation.devices.as_ref()?.results.as_ref());
    let number = |device: &str| device.strip_prefix("gpu-")?.parse().ok();
    results.into_iter().flatten().filter_map(|result| number(&result.device)).collect()
}
