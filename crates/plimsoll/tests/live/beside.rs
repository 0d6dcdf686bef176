//! Two schedulers in one cluster: each binds its own pods only, and counts those of the other as load.

use crate::filters::asks;
use crate::sides::Turn;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn each_scheduler_binds_its_own_pods_and_counts_those_of_the_other() {
    let Some(turn) = Turn::take().await else { return };
    let side = &turn.ours;
    // The stock scheduler, and somebody who sets the node by hand, take most of a node.
    let mut foreign = asks(json!({"cpu": "2"}));
    foreign["schedulerName"] = json!("default-scheduler");
    foreign["nodeSelector"] = side.only(0)["nodeSelector"].clone();
    side.pod("of-stock", foreign).await;
    let mut by_hand = asks(json!({"cpu": "1500m"}));
    by_hand["nodeName"] = json!(side.nodes[0]);
    side.pod("by-hand", by_hand).await;
    let mut unknown = asks(json!({"cpu": "100m"}));
    unknown["schedulerName"] = json!("nobody");
    side.pod("of-nobody", unknown).await;
    for name in ["of-stock", "by-hand"] {
        side.until_running(name).await;
    }
    let mut ours = asks(json!({"cpu": "1"}));
    ours["nodeSelector"] = side.only(0)["nodeSelector"].clone();
    side.pod("ours", ours).await;
    let waits = |pod: &Value| crate::cluster::condition(pod, "PodScheduled")["reason"] == "Unschedulable";
    let pod = side.objects.until("Pod", "ours", "waits", waits).await;
    let message = crate::cluster::condition(&pod, "PodScheduled")["message"].as_str().unwrap();
    assert!(message.contains("1 Insufficient cpu"), "{message}");
    side.objects.delete("Pod", "of-stock").await;
    side.until_running("ours").await;

    let nobody = side.objects.get("Pod", "of-nobody").await;
    assert!(nobody["spec"]["nodeName"].is_null(), "a pod of another scheduler was bound: {nobody:#}");
    let reporters = |events: Vec<Value>| -> Vec<String> {
        events.iter().map(|event| event["reportingController"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let events = side.objects.events_of(nobody["metadata"]["uid"].as_str().unwrap()).await;
    assert_eq!(reporters(events), Vec::<String>::new());
    let by_hand = side.objects.get("Pod", "by-hand").await;
    let events = side.objects.events_of(by_hand["metadata"]["uid"].as_str().unwrap()).await;
    assert_eq!(reporters(events), Vec::<String>::new());
    turn.clean().await;
    turn.end();
}
