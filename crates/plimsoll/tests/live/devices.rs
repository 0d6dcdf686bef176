//! Dynamic resource allocation: classes, slices and claims; what is allocated is reserved and written before the pod is bound.

use crate::sides::{Side, Turn};
use serde_json::{Value, json};

/// The devices of a side: a class, and a device on one node.
async fn install(side: &Side, node: usize, size: i64) {
    let driver = format!("{}.example.com", side.name);
    let selector = format!("device.driver == \"{driver}\" && device.attributes[\"{driver}\"].size >= {size}");
    side.create("DeviceClass", side.name, json!({"spec": {"selectors": [{"cel": {"expression": selector}}]}})).await;
    let device = json!({"name": "device-0", "attributes": {"size": {"int": size}}});
    let slice = json!({"spec": {
        "driver": driver, "nodeName": side.nodes[node], "devices": [device],
        "pool": {"name": side.nodes[node], "generation": 1, "resourceSliceCount": 1},
    }});
    side.create("ResourceSlice", &format!("slice-{}", side.name), slice).await;
}

fn request(side: &Side) -> Value {
    json!({"devices": {"requests": [{"name": "one", "exactly": {"deviceClassName": side.name}}]}})
}

/// A pod with this claim, or with one of this template.
fn with_claim(source: &str, name: &str) -> Value {
    json!({
        "resourceClaims": [{"name": "device", source: name}],
        "containers": [{"name": "main", "image": "lab/none", "resources": {"claims": [{"name": "device"}]}}],
    })
}

/// What a claim says of its devices, without UIDs.
fn plain_status(side: &Side, claim: &Value) -> Value {
    let mut status = claim["status"].clone();
    status["allocation"]["allocationTimestamp"] = json!(status["allocation"]["allocationTimestamp"].is_string());
    for consumer in status["reservedFor"].as_array_mut().into_iter().flatten() {
        consumer["uid"] = json!(consumer["uid"].is_string());
    }
    let finalizers = &claim["metadata"]["finalizers"];
    serde_json::from_str(&side.plain(&json!({"status": status, "finalizers": finalizers}).to_string())).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn devices_are_allocated_reserved_and_given_back_as_by_kube_scheduler() {
    let Some(turn) = Turn::take().await else { return };
    turn.tell("DynamicResources", async |side: &Side| {
        install(side, 1, 10).await;
        side.create("ResourceClaim", "first", json!({"spec": request(side)})).await;
        let first = side.fits("first", with_claim("resourceClaimName", "first")).await.on(1);
        let claim = side.objects.get("ResourceClaim", "first").await;
        assert_eq!(claim["status"]["reservedFor"][0]["name"], "first", "{claim:#}");
        side.create("ResourceClaim", "second", json!({"spec": request(side)})).await;
        let waits = side.waits("second", with_claim("resourceClaimName", "second")).await;
        let waits = waits.says("cannot allocate all claims");
        side.objects.delete("Pod", "first").await;
        side.objects.delete("ResourceClaim", "first").await;
        let second = side.goes("second").await.on(1);
        let other = side.objects.get("ResourceClaim", "second").await;
        (first, plain_status(side, &claim), waits, second, plain_status(side, &other))
    })
    .await;
    turn.tell("DynamicResources, a claim whose device is where the pod cannot be", async |side: &Side| {
        install(side, 1, 10).await;
        side.create("ResourceClaim", "elsewhere", json!({"spec": request(side)})).await;
        let field = json!({"key": "metadata.name", "operator": "In", "values": [side.nodes[0]]});
        let result = json!({
            "request": "one", "driver": format!("{}.example.com", side.name), "pool": side.nodes[0], "device": "device-9",
        });
        let allocation = json!({
            "devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
        });
        side.objects.patch_status("ResourceClaim", "elsewhere", json!({ "allocation": allocation })).await;
        let mut spec = with_claim("resourceClaimName", "elsewhere");
        spec["nodeSelector"] = side.only(1)["nodeSelector"].clone();
        // It is released, and found anew where the pod can be.
        let goes = side.fits("released", spec).await.on(1);
        let claim = side.objects.get("ResourceClaim", "elsewhere").await;
        assert_eq!(claim["status"]["allocation"]["devices"]["results"][0]["device"], "device-0", "{claim:#}");
        (goes, plain_status(side, &claim))
    })
    .await;
    turn.tell(
        "DynamicResources, claims that are made of a template, and a class that comes late",
        async |side: &Side| {
            side.create("ResourceClaimTemplate", "template", json!({"spec": {"spec": request(side)}})).await;
            let waits = side.waits("late", with_claim("resourceClaimTemplateName", "template")).await;
            side.meet().await;
            install(side, 2, 20).await;
            let goes = side.goes("late").await.on(2);
            let pod = side.objects.get("Pod", "late").await;
            let name = pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"].as_str().unwrap().to_owned();
            let claim = side.objects.get("ResourceClaim", &name).await;
            let status = plain_status(side, &claim);
            side.objects.delete("Pod", "late").await;
            side.objects.delete("ResourceClaim", &name).await;
            (waits, goes, status)
        },
    )
    .await;
    turn.end();
}
