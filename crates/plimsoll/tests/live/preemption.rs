//! Preemption: who has to go, what is said of it, and that the room is kept for whom it was made.

use crate::cluster::condition;
use crate::filters::asks;
use crate::sides::{Side, Turn};
use serde_json::{Value, json};

/// Two classes of importance of a side.
async fn priorities(side: &Side) {
    for (name, value) in [("low", 100), ("high", 1000)] {
        side.create("PriorityClass", &format!("{name}-{}", side.name), json!({ "value": value })).await;
    }
}

fn of_priority(side: &Side, name: &str, mut spec: Value) -> Value {
    spec["priorityClassName"] = json!(format!("{name}-{}", side.name));
    spec
}

/// A pod on a node that stays, being deleted, until it is let go.
async fn reluctant(side: &Side, name: &str, node: usize, over: Value) {
    let mut pod = json!({
        "metadata": {"labels": {"app": name}, "finalizers": ["example.com/hold"]},
        "spec": of_priority(side, "low", asks(json!({"cpu": "2"}))),
    });
    crate::cluster::merge(&mut pod, &over);
    side.holder(name, node, pod).await;
}

async fn let_go(side: &Side, name: &str) {
    side.objects.patch("Pod", name, json!({"metadata": {"finalizers": null}})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_victim_is_the_one_whose_budget_allows_it_and_all_is_told_as_by_kube_scheduler() {
    let Some(turn) = Turn::take().await else { return };
    turn.tell("DefaultPreemption", async |side: &Side| {
        priorities(side).await;
        reluctant(side, "kept", 0, json!({})).await;
        reluctant(side, "given-up", 0, json!({})).await;
        for (name, least) in [("kept", 1), ("given-up", 0)] {
            let budget = json!({"spec": {"minAvailable": least, "selector": {"matchLabels": {"app": name}}}});
            side.create("PodDisruptionBudget", name, budget).await;
            let allowed = json!(1 - least);
            let known = |budget: &Value| {
                let status = &budget["status"];
                status["currentHealthy"] == 1 && status["disruptionsAllowed"] == allowed
            };
            side.objects.until("PodDisruptionBudget", name, "knows its pod", known).await;
        }
        let mut spec = of_priority(side, "high", asks(json!({"cpu": "2"})));
        spec["nodeSelector"] = side.only(0)["nodeSelector"].clone();
        let waits = side.waits("important", spec).await.says("Insufficient cpu");
        let leaving = |pod: &Value| pod["metadata"]["deletionTimestamp"].is_string();
        let victim = side.objects.until("Pod", "given-up", "has to go", leaving).await;
        let nominated = |pod: &Value| pod["status"]["nominatedNodeName"] == json!(side.nodes[0]);
        let important = side.objects.until("Pod", "important", "has hopes for the node", nominated).await;
        let target = condition(&victim, "DisruptionTarget").clone();
        assert_eq!(target["reason"], "PreemptionByScheduler", "{victim:#}");
        let uid = |pod: &Value| pod["metadata"]["uid"].as_str().unwrap().to_owned();
        let preempted = crate::cluster::eventually("event Preempted", || async {
            let events = side.objects.events_of(&uid(&victim)).await;
            let found = events.iter().find(|event| event["reason"] == "Preempted");
            found.cloned().ok_or_else(|| format!("{events:#?}"))
        })
        .await;
        let mut event = side.plain_event(&preempted);
        // kube-scheduler loses the pod that preempts on the way.
        let related = event.as_object_mut().unwrap().remove("related").unwrap_or_default();
        if side.scheduler == "plimsoll" {
            assert_eq!(related["name"], "important", "{preempted:#}");
        }
        let text = side.plain(&format!("{target} {event}"));
        let text =
            text.replace(&uid(&important), "<important>").replace(target["lastTransitionTime"].as_str().unwrap(), "");
        side.meet().await;
        let_go(side, "given-up").await;
        let goes = side.goes("important").await.on(0);
        let kept = side.objects.get("Pod", "kept").await;
        assert!(kept["metadata"]["deletionTimestamp"].is_null(), "{kept:#}");
        let_go(side, "kept").await;
        (waits, text, goes)
    })
    .await;
    turn.tell("a pod that never preempts", async |side: &Side| {
        priorities(side).await;
        let gentle = format!("gentle-{}", side.name);
        side.create("PriorityClass", &gentle, json!({"value": 2000, "preemptionPolicy": "Never"})).await;
        side.holder("in-the-way", 0, json!({"spec": of_priority(side, "low", asks(json!({"cpu": "3"})))})).await;
        let mut spec = asks(json!({"cpu": "2"}));
        spec["nodeSelector"] = side.only(0)["nodeSelector"].clone();
        spec["priorityClassName"] = json!(gentle);
        let waits = side.waits("gentle", spec).await.says("not eligible due to preemptionPolicy=Never");
        let there = side.objects.get("Pod", "in-the-way").await;
        assert!(there["metadata"]["deletionTimestamp"].is_null(), "{there:#}");
        waits
    })
    .await;
    turn.end();
}
