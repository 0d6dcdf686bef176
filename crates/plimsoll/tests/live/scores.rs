//! What ranks nodes that are all allowed: images, balance, preferences. Both schedulers choose the same.

use crate::filters::asks;
use crate::sides::{Side, Turn};
use serde_json::{Value, json};

fn prefers(label: &str, value: &str) -> Value {
    let term = json!({"matchExpressions": [{"key": label, "operator": "In", "values": [value]}]});
    json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": term}]}}})
}

#[tokio::test(flavor = "multi_thread")]
async fn the_best_of_the_allowed_nodes_is_that_of_kube_scheduler() {
    let Some(turn) = Turn::take().await else { return };
    turn.tell("ImageLocality", async |side: &Side| {
        let image = format!("registry.example.com/{}/large:v1", side.name);
        let images = json!([{"names": [image], "sizeBytes": 900_000_000}]);
        side.objects.patch_status("Node", &side.nodes[1], json!({ "images": images })).await;
        let pod = json!({"containers": [{"name": "main", "image": image}]});
        let goes = side.fits("large-image", pod).await.on(1);
        side.objects.patch_status("Node", &side.nodes[1], json!({"images": null})).await;
        goes
    })
    .await;
    turn.tell("NodeResourcesBalancedAllocation", async |side: &Side| {
        // As full as the other, but lopsided; the third is fuller than both.
        side.holder("lopsided", 0, json!({"spec": asks(json!({"cpu": "2"}))})).await;
        side.holder("balanced", 1, json!({"spec": asks(json!({"cpu": "1", "memory": "4Gi"}))})).await;
        side.holder("full", 2, json!({"spec": asks(json!({"cpu": "3", "memory": "12Gi"}))})).await;
        side.fits("even", asks(json!({"cpu": "400m", "memory": "1600Mi"}))).await.on(1)
    })
    .await;
    turn.tell("NodeResourcesFit, the emptiest", async |side: &Side| {
        side.holder("some", 0, json!({"spec": asks(json!({"cpu": "2", "memory": "8Gi"}))})).await;
        side.holder("more", 1, json!({"spec": asks(json!({"cpu": "3", "memory": "12Gi"}))})).await;
        side.fits("least", asks(json!({"cpu": "400m", "memory": "1600Mi"}))).await.on(2)
    })
    .await;
    turn.tell("NodeAffinity, a preference", async |side: &Side| {
        side.node(2, json!({"metadata": {"labels": {"disk": "fast"}}})).await;
        let goes = side.fits("fast", prefers("disk", "fast")).await.on(2);
        side.node(2, json!({"metadata": {"labels": {"disk": null}}})).await;
        goes
    })
    .await;
    turn.tell("TaintToleration, a preference", async |side: &Side| {
        for node in [0, 2] {
            side.node(node, json!({"spec": {"taints": [{"key": "slow", "effect": "PreferNoSchedule"}]}})).await;
        }
        let goes = side.fits("elsewhere", json!({})).await.on(1);
        side.all_nodes(json!({"spec": {"taints": null}})).await;
        goes
    })
    .await;
    turn.tell("PodTopologySpread and InterPodAffinity, preferences", async |side: &Side| {
        let labels = json!({"metadata": {"labels": {"app": "shop"}}});
        side.holder("shop-0", 0, labels.clone()).await;
        side.holder("shop-1", 1, labels).await;
        let selector = json!({"matchLabels": {"app": "shop"}});
        let zone = "topology.kubernetes.io/zone";
        let spread = json!({"metadata": {"labels": {"app": "shop"}}, "spec": {"topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": zone, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector}
        ]}});
        side.ready().await;
        side.pod_with("shop-2", spread).await;
        let third = side.goes("shop-2").await.on(2);
        side.objects.delete("Pod", "shop-1").await;
        side.objects.delete("Pod", "shop-2").await;
        let near = json!({"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 100, "podAffinityTerm": {"labelSelector": selector, "topologyKey": zone}}
        ]}}});
        (third, side.fits("near", near).await.on(0))
    })
    .await;
    turn.end();
}
