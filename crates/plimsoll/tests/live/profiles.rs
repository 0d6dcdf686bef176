//! Several profiles in one process: each decides by its own settings and reports under its own name.

use crate::cluster::get;
use crate::filters::asks;
use crate::sides::Turn;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn each_profile_decides_by_its_settings_and_reports_under_its_name() {
    let Some(turn) = Turn::take().await else { return };
    let side = &turn.ours;
    side.holder("some", 1, json!({"spec": asks(json!({"cpu": "2", "memory": "8Gi"}))})).await;
    let mut spec = asks(json!({"cpu": "200m", "memory": "800Mi"}));
    spec["schedulerName"] = json!("packed");
    side.pod("packed", spec.clone()).await;
    let packed = side.until_running("packed").await;
    assert_eq!(packed["spec"]["nodeName"], json!(side.nodes[1]), "the fullest node");
    spec["schedulerName"] = json!("plimsoll");
    side.pod("spread", spec.clone()).await;
    let spread = side.until_running("spread").await;
    assert_ne!(spread["spec"]["nodeName"], json!(side.nodes[1]), "an empty node");
    spec["schedulerName"] = json!("packed");
    spec["nodeSelector"] = json!({"nowhere": "at-all"});
    side.pod("nowhere", spec).await;
    let waits = |pod: &serde_json::Value| crate::cluster::condition(pod, "PodScheduled")["reason"] == "Unschedulable";
    let nowhere = side.objects.until("Pod", "nowhere", "waits", waits).await;
    for (pod, reason, scheduler) in
        [(&packed, "Scheduled", "packed"), (&spread, "Scheduled", "plimsoll"), (&nowhere, "FailedScheduling", "packed")]
    {
        let event = crate::cluster::eventually(reason, || async {
            let events = side.objects.events_of(pod["metadata"]["uid"].as_str().unwrap()).await;
            events.into_iter().find(|event| event["reason"] == reason).ok_or_else(|| "no event".to_owned())
        });
        let event = event.await;
        assert_eq!(event["reportingController"], scheduler, "{event:#}");
        assert!(event["reportingInstance"].as_str().unwrap().starts_with(&format!("{scheduler}-")), "{event:#}");
    }
    let metrics = get(turn.address, "/metrics").unwrap();
    for line in [
        "scheduler_schedule_attempts_total{result=\"scheduled\",profile=\"packed\"}",
        "scheduler_schedule_attempts_total{result=\"unschedulable\",profile=\"packed\"}",
        "scheduler_schedule_attempts_total{result=\"scheduled\",profile=\"plimsoll\"}",
    ] {
        assert!(metrics.contains(line), "no {line} in:\n{metrics}");
    }
    turn.clean().await;
    turn.end();
}
