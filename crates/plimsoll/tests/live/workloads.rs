//! Plimsoll as the only scheduler of a cluster, under the name that pods have by default: whatever controllers make gets to run.

use crate::cluster::{condition, small_pod, start_plimsoll};
use crate::leaders::lab;
use serde_json::{Value, json};

/// A controller's spec over a template of small pods.
fn of(app: &str, rest: Value) -> Value {
    let mut template = json!({"metadata": {"labels": {"app": app}}, "spec": small_pod()});
    if app == "job" {
        template["spec"]["restartPolicy"] = json!("Never");
    }
    let mut spec = json!({ "template": template });
    if app != "job" {
        spec["selector"] = json!({"matchLabels": {"app": app}});
    }
    crate::cluster::merge(&mut spec, &rest);
    json!({ "spec": spec })
}

#[tokio::test(flavor = "multi_thread")]
async fn deployments_daemon_sets_stateful_sets_and_jobs_run_with_plimsoll_as_the_only_scheduler() {
    let Some((mut lab, objects)) = lab(5).await else { return };
    start_plimsoll(&mut lab, "plimsoll", &["--leader-elect=false"]).await;
    objects.create("Deployment", "web", of("web", json!({"replicas": 12}))).await;
    objects.create("DaemonSet", "agent", of("agent", json!({}))).await;
    objects.create("StatefulSet", "store", of("store", json!({"replicas": 3, "serviceName": "store"}))).await;
    objects.create("Job", "batch", of("job", json!({"completions": 6, "parallelism": 3}))).await;
    let status = |field: &'static str, count: i64| move |object: &Value| object["status"][field] == count;
    objects.until("Deployment", "web", "ready", status("readyReplicas", 12)).await;
    objects.until("DaemonSet", "agent", "ready", status("numberReady", 5)).await;
    objects.until("StatefulSet", "store", "ready", status("readyReplicas", 3)).await;
    objects.until("Job", "batch", "complete", |job| condition(job, "Complete")["status"] == "True").await;
    let pods = objects.list("Pod").await;
    let nodes_of = |app: &str| {
        let of_app = pods.iter().filter(|pod| pod["metadata"]["labels"]["app"] == app);
        let mut nodes: Vec<_> = of_app.filter_map(|pod| pod["spec"]["nodeName"].as_str()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.len()
    };
    assert_eq!(nodes_of("agent"), 5, "an agent on every node");
    assert_eq!(nodes_of("web"), 5, "a deployment is spread by default");

    // A rolling update replaces every pod.
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "lab/newer"}]}}}});
    objects.patch("Deployment", "web", image).await;
    let rolled = |web: &Value| {
        let status = &web["status"];
        status["observedGeneration"] == web["metadata"]["generation"]
            && status["updatedReplicas"] == 12
            && status["readyReplicas"] == 12
            && status["replicas"] == 12
    };
    objects.until("Deployment", "web", "rolled out", rolled).await;
    lab.check_alive().unwrap();
}
