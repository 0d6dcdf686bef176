//! The API server goes away while pods are created, and comes back: everything is bound in the end, and nothing is said wrong.

use crate::cluster::{Objects, condition, small_pod, start_plimsoll};
use crate::leaders::lab;
use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};
use std::time::Duration;

const PODS: usize = 60;

/// Creates pods whatever happens to the API server.
async fn create_all(objects: Objects) {
    let api = objects.api("Pod");
    for at in 0..PODS {
        let name = format!("pod-{at}");
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": small_pod()});
        let pod: DynamicObject = serde_json::from_value(pod).unwrap();
        loop {
            match api.create(&PostParams::default(), &pod).await {
                Ok(_) => break,
                Err(kube::Error::Api(status)) if status.code == 409 => break,
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_created_around_a_restart_of_the_api_server_are_all_bound() {
    let Some((mut lab, objects)) = lab(4).await else { return };
    start_plimsoll(&mut lab, "plimsoll", &["--leader-elect=false"]).await;
    let mut large = json!({ "spec": small_pod() });
    large["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("33");
    let creation = tokio::spawn(create_all(objects.clone()));
    for round in 0..2 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        if round == 1 {
            // What is said of a pod just before an outage is said after it.
            objects.create("Pod", "large", large.clone()).await;
        }
        lab.restart("kube-apiserver").unwrap();
        lab.wait_for_apiserver().await.unwrap();
    }
    creation.await.unwrap();
    let bound = objects.until_bound(PODS).await;
    assert_eq!(bound.len(), PODS);
    let waits = |pod: &Value| condition(pod, "PodScheduled")["reason"] == "Unschedulable";
    objects.until("Pod", "large", "is told to wait", waits).await;
    lab.check_alive().unwrap();
}
