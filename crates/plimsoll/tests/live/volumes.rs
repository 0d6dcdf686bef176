//! Rules of volumes, with the real volume controllers: claims that are bound, that wait for a consumer, that only one pod may have, drivers
//! with limits, and zones.

use crate::sides::{Side, Turn};
use serde_json::{Value, json};

/// A pod whose volume is this claim, over a spec.
fn with_claim(claim: &str, mut spec: Value) -> Value {
    spec["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]);
    spec
}

/// A volume of this class; a driver's, where one is given.
fn volume(class: &str, driver: Option<&str>, over: Value) -> Value {
    let mut spec = json!({
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": class,
        "persistentVolumeReclaimPolicy": "Retain",
    });
    match driver {
        Some(driver) => spec["csi"] = json!({"driver": driver, "volumeHandle": over["metadata"]["name"]}),
        None => spec["hostPath"] = json!({"path": "/none"}),
    }
    let mut volume = json!({ "spec": spec });
    crate::cluster::merge(&mut volume, &over);
    volume
}

fn claim(class: &str, mode: &str) -> Value {
    json!({"spec": {"accessModes": [mode], "storageClassName": class, "resources": {"requests": {"storage": "1Gi"}}}})
}

fn on_host(node: &str) -> Value {
    let term = json!({"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]});
    json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}})
}

async fn class(side: &Side, name: &str, provisioner: &str, mode: &str) -> String {
    let name = format!("{name}-{}", side.name);
    side.create("StorageClass", &name, json!({"provisioner": provisioner, "volumeBindingMode": mode})).await;
    name
}

/// A volume and a claim that the controller has bound to each other.
async fn bound(side: &Side, name: &str, class: &str, mode: &str, driver: Option<&str>, over: Value) {
    let volume_name = format!("{name}-{}", side.name);
    let mut over = over;
    crate::cluster::merge(&mut over, &json!({"metadata": {"name": volume_name}, "spec": {"accessModes": [mode]}}));
    side.create("PersistentVolume", &volume_name, volume(class, driver, over)).await;
    // A controller that knows the volume binds it at once, and else a quarter of a minute later.
    side.objects.until("PersistentVolume", &volume_name, "known", |it| it["status"]["phase"] == "Available").await;
    let mut wanted = claim(class, mode);
    wanted["spec"]["volumeName"] = json!(volume_name);
    side.create("PersistentVolumeClaim", name, wanted).await;
    until_claim_bound(side, name).await;
}

async fn until_claim_bound(side: &Side, name: &str) -> Value {
    side.objects.until("PersistentVolumeClaim", name, "bound", |claim| claim["status"]["phase"] == "Bound").await
}

const NOBODY: &str = "kubernetes.io/no-provisioner";

#[tokio::test(flavor = "multi_thread")]
async fn rules_of_volumes_hold_and_are_told_in_the_words_of_kube_scheduler() {
    let Some(turn) = Turn::take().await else { return };
    turn.tell("VolumeBinding, a claim that is not there", async |side: &Side| {
        let class = class(side, "now", NOBODY, "Immediate").await;
        let missing = side.waits("early", with_claim("data", json!({}))).await;
        let missing = missing.says("persistentvolumeclaim \"data\" not found").refused_before_nodes();
        side.create("PersistentVolumeClaim", "data", claim(&class, "ReadWriteOnce")).await;
        let unbound = side.waits("unbound", with_claim("data", json!({}))).await;
        let unbound = unbound.says("pod has unbound immediate PersistentVolumeClaims").refused_before_nodes();
        let name = format!("data-{}", side.name);
        side.create("PersistentVolume", &name, volume(&class, None, on_host(&side.nodes[2]))).await;
        side.objects.until("PersistentVolume", &name, "known", |it| it["status"]["phase"] == "Available").await;
        // A claim that changes is looked at.
        side.objects.patch("PersistentVolumeClaim", "data", json!({"metadata": {"labels": {"look": "again"}}})).await;
        (missing, unbound, side.goes("early").await.on(2), side.goes("unbound").await.on(2))
    })
    .await;
    turn.tell("VolumeBinding, a volume that the first consumer takes", async |side: &Side| {
        let class = class(side, "later", NOBODY, "WaitForFirstConsumer").await;
        side.create("PersistentVolumeClaim", "data", claim(&class, "ReadWriteOnce")).await;
        let waits = side.waits("first", with_claim("data", json!({}))).await;
        let waits = waits.says("didn't find available persistent volumes to bind");
        let name = format!("data-{}", side.name);
        side.create("PersistentVolume", &name, volume(&class, None, on_host(&side.nodes[1]))).await;
        let goes = side.goes("first").await.on(1);
        let claim = until_claim_bound(side, "data").await;
        assert_eq!(claim["spec"]["volumeName"], json!(name));
        (waits, goes)
    })
    .await;
    turn.tell("VolumeBinding, a volume that is made for the first consumer", async |side: &Side| {
        let class = class(side, "made", "example.com/maker", "WaitForFirstConsumer").await;
        side.create("PersistentVolumeClaim", "data", claim(&class, "ReadWriteOnce")).await;
        side.meet().await;
        side.pod("first", with_claim("data", side.only(1))).await;
        let selected = "volume.kubernetes.io/selected-node";
        let annotated = |claim: &Value| claim["metadata"]["annotations"][selected].is_string();
        let claim = side.objects.until("PersistentVolumeClaim", "data", "has a node", annotated).await;
        assert_eq!(claim["metadata"]["annotations"][selected], json!(side.nodes[1]));
        // Whoever looks on can see where the pod will be.
        let expected = |pod: &Value| pod["status"]["nominatedNodeName"] == json!(side.nodes[1]);
        side.objects.until("Pod", "first", "is expected on its node", expected).await;
        side.meet().await;
        let name = format!("made-{}", side.name);
        let reference = json!({"spec": {"claimRef": {
            "kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": side.name, "name": "data",
            "uid": claim["metadata"]["uid"],
        }}});
        side.create("PersistentVolume", &name, volume(&class, None, reference)).await;
        side.goes("first").await.on(1)
    })
    .await;
    turn.tell("VolumeRestrictions", async |side: &Side| {
        let class = class(side, "own", NOBODY, "Immediate").await;
        bound(side, "own", &class, "ReadWriteOncePod", None, json!({})).await;
        side.holder("owner", 0, json!({"spec": with_claim("own", json!({}))})).await;
        let words = "PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod";
        let waits = side.waits("heir", with_claim("own", side.only(1))).await.says(words);
        side.objects.delete("Pod", "owner").await;
        (waits, side.goes("heir").await.on(1))
    })
    .await;
    turn.tell("NodeVolumeLimits", async |side: &Side| {
        let class = class(side, "few", NOBODY, "Immediate").await;
        let driver = "few.example.com";
        let limit = json!({"spec": {"drivers": [
            {"name": driver, "nodeID": side.nodes[0], "topologyKeys": [], "allocatable": {"count": 1}}
        ]}});
        side.create("CSINode", &side.nodes[0].clone(), limit).await;
        for name in ["few-0", "few-1"] {
            bound(side, name, &class, "ReadWriteOnce", Some(driver), json!({})).await;
        }
        side.holder("one", 0, json!({"spec": with_claim("few-0", json!({}))})).await;
        let waits = side.waits("two", with_claim("few-1", side.only(0))).await;
        let waits = waits.says("node(s) exceed max volume count");
        side.objects.delete("Pod", "one").await;
        (waits, side.goes("two").await.on(0))
    })
    .await;
    turn.tell("VolumeZone", async |side: &Side| {
        let class = class(side, "zone", NOBODY, "Immediate").await;
        let label = |zone: &str| json!({"metadata": {"labels": {"topology.kubernetes.io/zone": zone}}});
        bound(side, "zoned", &class, "ReadWriteOnce", None, label("elsewhere")).await;
        let waits = side.waits("local", with_claim("zoned", json!({}))).await;
        let waits = waits.says("node(s) had no available volume zone");
        side.objects.patch("PersistentVolume", &format!("zoned-{}", side.name), label("lab-1")).await;
        (waits, side.goes("local").await.on(1))
    })
    .await;
    turn.end();
}
