//! Rules that look at other pods: spreading, affinity, anti-affinity, and the gates of a pod itself.

use crate::cluster::condition;
use crate::sides::{Side, Turn};
use serde_json::{Value, json};

const ZONE: &str = "topology.kubernetes.io/zone";

/// A pod with a label.
fn labelled(app: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}})
}

fn term(app: &str) -> Value {
    json!({"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": ZONE}
    ]})
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_between_pods_hold_and_are_told_in_the_words_of_kube_scheduler() {
    let Some(turn) = Turn::take().await else { return };
    turn.tell("PodTopologySpread", async |side: &Side| {
        let constraint = |policy: &str| {
            json!([{
                "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "nodeAffinityPolicy": policy,
                "labelSelector": {"matchLabels": {"app": "spread"}},
            }])
        };
        side.holder("spread-0", 0, labelled("spread")).await;
        let mut pinned = labelled("spread");
        pinned["spec"] = side.only(0);
        pinned["spec"]["topologySpreadConstraints"] = constraint("Ignore");
        let waits = side.waits_with("pinned", pinned).await.says("didn't match pod topology spread constraints");
        side.holder("spread-1", 1, labelled("spread")).await;
        let mut free = labelled("spread");
        free["spec"] = json!({"topologySpreadConstraints": constraint("Honor")});
        side.ready().await;
        side.pod_with("free", free).await;
        let third = side.goes("free").await.on(2);
        (waits, third, side.goes("pinned").await.on(0))
    })
    .await;
    turn.tell("InterPodAffinity", async |side: &Side| {
        let waits = side.waits("friend", json!({"affinity": {"podAffinity": term("web")}})).await;
        let waits = waits.says("didn't match pod affinity rules");
        side.holder("web", 1, labelled("web")).await;
        (waits, side.goes("friend").await.on(1))
    })
    .await;
    turn.tell("InterPodAffinity, against the pod's wish", async |side: &Side| {
        side.holder("noisy", 0, labelled("noisy")).await;
        let mut shy = side.only(0);
        shy["affinity"] = json!({"podAntiAffinity": term("noisy")});
        let waits = side.waits("shy", shy).await.says("didn't match pod anti-affinity rules");
        side.objects.delete("Pod", "noisy").await;
        (waits, side.goes("shy").await.on(0))
    })
    .await;
    turn.tell("InterPodAffinity, against the wish of a pod that is there", async |side: &Side| {
        side.holder("hermit", 2, json!({"spec": {"affinity": {"podAntiAffinity": term("guest")}}})).await;
        let mut guest = labelled("guest");
        guest["spec"] = side.only(2);
        let waits = side.waits_with("guest", guest).await.says("didn't satisfy existing pods anti-affinity rules");
        side.objects.delete("Pod", "hermit").await;
        (waits, side.goes("guest").await.on(2))
    })
    .await;
    turn.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_with_gates_is_left_alone_until_the_last_is_lifted() {
    let Some(turn) = Turn::take().await else { return };
    turn.tell("SchedulingGates", async |side: &Side| {
        let mut gated = side.only(1);
        gated["schedulingGates"] = json!([{"name": "example.com/a"}, {"name": "example.com/b"}]);
        side.meet().await;
        side.pod("gated", gated).await;
        side.objects.patch("Pod", "gated", json!({"spec": {"schedulingGates": [{"name": "example.com/b"}]}})).await;
        // A pod that came later is on its node; the gated one is not even tried.
        side.pod("later", side.only(1)).await;
        side.until_running("later").await;
        let pod = side.objects.get("Pod", "gated").await;
        assert_eq!(condition(&pod, "PodScheduled")["reason"], "SchedulingGated", "{pod:#}");
        let uid = pod["metadata"]["uid"].as_str().unwrap();
        assert_eq!(side.objects.events_of(uid).await, Vec::<Value>::new(), "a gated pod was tried");
        side.objects.patch("Pod", "gated", json!({"spec": {"schedulingGates": null}})).await;
        side.goes("gated").await.on(1)
    })
    .await;
    turn.tell("SchedulingGates, then no room", async |side: &Side| {
        side.meet().await;
        let large =
            json!({"containers": [{"name": "main", "image": "lab/none", "resources": {"requests": {"cpu": "5"}}}]});
        let mut gated = large;
        gated["schedulingGates"] = json!([{"name": "example.com/a"}]);
        side.pod("gated", gated).await;
        side.objects.patch("Pod", "gated", json!({"spec": {"schedulingGates": null}})).await;
        // The generation that the condition names is that of the pod without gates.
        let told = side.told_to_wait("gated").await.says("Insufficient cpu");
        assert_eq!(told.condition["observedGeneration"], 2);
        told
    })
    .await;
    turn.end();
}
