//! Every rule of a node, once from end to end: a pod that fits nowhere waits in kube-scheduler's words and goes on when the obstacle is
//! removed, to the node where it was.

use crate::sides::{Side, Turn};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn rules_of_a_node_hold_and_are_told_in_the_words_of_kube_scheduler() {
    let Some(turn) = Turn::take().await else { return };
    turn.tell("NodeUnschedulable", async |side: &Side| {
        side.all_nodes(json!({"spec": {"unschedulable": true}})).await;
        let waits = side.waits("cordoned", json!({})).await.says("node(s) were unschedulable");
        side.node(1, json!({"spec": {"unschedulable": null}})).await;
        let goes = side.goes("cordoned").await.on(1);
        side.all_nodes(json!({"spec": {"unschedulable": null}})).await;
        untainted(side).await;
        (waits, goes)
    })
    .await;
    turn.tell("TaintToleration", async |side: &Side| {
        side.all_nodes(json!({"spec": {"taints": [{"key": "closed", "effect": "NoSchedule"}]}})).await;
        let waits = side.waits("refused", json!({})).await.says("node(s) had untolerated taint(s)");
        let tolerated = json!({"tolerations": [{"key": "closed", "operator": "Exists"}]});
        let tolerates = side
            .fits(
                "tolerant",
                json!({"tolerations": tolerated["tolerations"], "nodeSelector": side.only(0)["nodeSelector"]}),
            )
            .await
            .on(0);
        side.node(2, json!({"spec": {"taints": null}})).await;
        let goes = side.goes("refused").await.on(2);
        side.all_nodes(json!({"spec": {"taints": null}})).await;
        (waits, tolerates, goes)
    })
    .await;
    turn.tell("NodeAffinity", async |side: &Side| {
        let waits =
            side.waits("picky", affinity("In", &["ssd"])).await.says("didn't match Pod's node affinity/selector");
        side.node(1, json!({"metadata": {"labels": {"disk": "ssd"}}})).await;
        let goes = side.goes("picky").await.on(1);
        side.node(1, json!({"metadata": {"labels": {"disk": null}}})).await;
        (waits, goes)
    })
    .await;
    turn.tell("NodePorts", async |side: &Side| {
        let port = json!({"spec": {"containers": [{"name": "main", "image": "lab/none", "ports": [{"containerPort": 80, "hostPort": 8080}]}]}});
        side.holder("first", 0, port.clone()).await;
        let mut second = side.only(0);
        second["containers"] = port["spec"]["containers"].clone();
        let waits = side.waits("second", second).await.says("didn't have free ports for the requested pod ports");
        side.objects.delete("Pod", "first").await;
        (waits, side.goes("second").await.on(0))
    })
    .await;
    turn.tell("NodeResourcesFit", async |side: &Side| {
        let waits = side.waits("large", asks(json!({"cpu": "5", "memory": "1Gi"}))).await.says("Insufficient cpu");
        side.objects.patch_status("Node", &side.nodes[1], json!({"allocatable": {"cpu": "8"}})).await;
        let goes = side.goes("large").await.on(1);
        side.objects.patch_status("Node", &side.nodes[1], json!({"allocatable": {"cpu": "4"}})).await;
        (waits, goes)
    })
    .await;
    turn.tell("NodeResourcesFit, an extended resource and several others", async |side: &Side| {
        let much = json!({"cpu": "5", "memory": "32Gi", "example.com/widget": "3", "ephemeral-storage": "2Ti"});
        let everything = side.waits("everything", asks(much)).await.says("Insufficient example.com/widget");
        let waits = side.waits("widgets", asks(json!({"example.com/widget": "3"}))).await;
        side.objects.patch_status("Node", &side.nodes[2], json!({"allocatable": {"example.com/widget": "4"}})).await;
        let goes = side.goes("widgets").await.on(2);
        side.objects.patch_status("Node", &side.nodes[2], json!({"allocatable": {"example.com/widget": "2"}})).await;
        (everything, waits, goes)
    })
    .await;
    turn.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_cannot_be_understood_is_told_so_and_others_go_on() {
    let Some(turn) = Turn::take().await else { return };
    turn.tell("a number that is none", async |side: &Side| {
        let odd = side.waits("odd", affinity("Gt", &["many"])).await;
        (odd, side.fits("even", side.only(1)).await.on(1))
    })
    .await;
    turn.tell("more than there can be", async |side: &Side| {
        let huge = side.waits("huge", asks(json!({"cpu": "9000000000000000", "memory": "9Ei"}))).await;
        (huge, side.fits("even", side.only(1)).await.on(1))
    })
    .await;
    turn.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_tried_again_and_again_has_one_event_that_counts() {
    let Some(turn) = Turn::take().await else { return };
    let side = &turn.ours;
    side.pod("stubborn", asks(json!({"cpu": "6"}))).await;
    let told = |pod: &Value| crate::cluster::condition(pod, "PodScheduled")["reason"] == "Unschedulable";
    let first = side.objects.until("Pod", "stubborn", "waits", told).await;
    let uid = first["metadata"]["uid"].as_str().unwrap();
    for round in 0..3 {
        // Room that helps is made, but not enough of it: the pod is tried, and nothing new is said.
        let name = format!("leaves-{round}");
        side.holder(&name, 0, json!({})).await;
        side.objects.delete("Pod", &name).await;
        let tried = crate::cluster::eventually("the event is counted", || async {
            let events = side.objects.events_of(uid).await;
            let counted = events.first().is_some_and(|event| event["series"]["count"] == 2);
            if counted { Ok(events.len()) } else { Err(format!("{events:#?}")) }
        });
        assert_eq!(tried.await, 1, "one event for all attempts");
    }
    let last = side.objects.get("Pod", "stubborn").await;
    assert_eq!(last["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"], "nothing new was written");
    turn.clean().await;
    turn.end();
}

/// The controller takes the taint of cordoned nodes off.
async fn untainted(side: &Side) {
    for node in &side.nodes {
        side.objects.until("Node", node, "without taints", |node| node["spec"]["taints"].is_null()).await;
    }
}

fn affinity(operator: &str, values: &[&str]) -> Value {
    let term = json!({"matchExpressions": [{"key": "disk", "operator": operator, "values": values}]});
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}})
}

/// A pod that asks for so much.
pub fn asks(requests: Value) -> Value {
    let mut limits = requests.clone();
    limits.as_object_mut().unwrap().retain(|name, _| name.contains('/'));
    json!({"containers": [{"name": "main", "image": "lab/none", "resources": {"requests": requests, "limits": limits}}]})
}
