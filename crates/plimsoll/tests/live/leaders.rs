//! Several replicas, of which one leads: what happens when the leader dies, is asked to end, or is asked twice.

use crate::cluster::{Objects, PATIENCE, binaries, eventually, merge, small_pod, start_plimsoll};
use plimsoll_lab::{Lab, Options, User};
use serde_json::{Value, json};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// A lab in which nobody schedules yet.
pub async fn lab(nodes: usize) -> Option<(Lab, Objects)> {
    let options = Options { nodes, binaries: Some(binaries()?), ..Options::default() };
    let lab = Lab::start(options).await.unwrap();
    let client = lab.client(User::Admin).await.unwrap();
    Some((lab, Objects { client, namespace: "default".to_owned() }))
}

/// A configuration whose lease lasts so long, as a file of the lab.
fn config(lab: &Lab, seconds: u64) -> String {
    // Among the logs, which go with the lab.
    let file = lab.folder().join(format!("logs/lease-{seconds}.json"));
    let config = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {
            "leaderElect": true,
            "leaseDuration": format!("{seconds}s"), "renewDeadline": format!("{}s", seconds - 1), "retryPeriod": "500ms",
            "resourceName": format!("lease-{seconds}"),
        },
    });
    std::fs::write(&file, config.to_string()).unwrap();
    file.display().to_string()
}

/// Who holds a lease, in the form HOST_PID_TIME.
async fn holder(objects: &Objects, name: &str) -> String {
    let system = Objects { namespace: "kube-system".to_owned(), ..objects.clone() };
    eventually(&format!("lease {name} is held"), || async {
        let lease = system.get("Lease", name).await;
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        if holder.is_empty() { Err(format!("{lease:#}")) } else { Ok(holder.to_owned()) }
    })
    .await
}

/// Which of the replicas leads, and which does not.
async fn leader(
    lab: &Lab,
    objects: &Objects,
    lease: &str,
    replicas: [&'static str; 2],
) -> (&'static str, &'static str) {
    let holder = holder(objects, lease).await;
    let pid = |name: &str| {
        let component = lab.state().components.iter().find(|component| component.name == name);
        component.unwrap().process.pid.to_string()
    };
    let leads = |name: &str| holder.split('_').nth_back(1) == Some(&pid(name));
    match replicas {
        [first, second] if leads(first) => (first, second),
        [first, second] if leads(second) => (second, first),
        _ => panic!("neither of {replicas:?} holds the lease: {holder}"),
    }
}

/// Creates a pod and waits until it is bound.
async fn binds(objects: &Objects, name: &str) {
    objects.create("Pod", name, json!({ "spec": small_pod() })).await;
    objects.until("Pod", name, "bound", |pod| pod["spec"]["nodeName"].is_string()).await;
}

/// Waits until a replica has ended.
async fn ended(lab: &mut Lab, name: &str) -> ExitStatus {
    let begin = Instant::now();
    loop {
        if let Some(status) = lab.exit_status(name).unwrap() {
            return status;
        }
        assert!(begin.elapsed() < PATIENCE, "{name} has not ended:\n{}", lab.log(name).unwrap());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_takes_over_when_the_leader_dies_or_ends() {
    let Some((mut lab, objects)) = lab(3).await else { return };
    let replicas = ["replica-0", "replica-1"];

    // The leader dies: its lease ends by itself.
    let short = config(&lab, 4);
    for name in replicas {
        start_plimsoll(&mut lab, name, &["--config", &short]).await;
    }
    binds(&objects, "before").await;
    let (first, second) = leader(&lab, &objects, "lease-4", replicas).await;
    lab.kill(first).unwrap();
    binds(&objects, "after-death").await;
    assert_eq!(leader(&lab, &objects, "lease-4", replicas).await.0, second);
    lab.terminate(second).unwrap();
    assert_eq!(ended(&mut lab, second).await.code(), Some(0), "{}", lab.log(second).unwrap());

    // The leader ends: it gives its lease back, which would last longer than anybody waits here.
    let long = config(&lab, 3600);
    for name in replicas {
        start_plimsoll(&mut lab, name, &["--config", &long]).await;
    }
    binds(&objects, "again").await;
    let (first, second) = leader(&lab, &objects, "lease-3600", replicas).await;
    lab.terminate(first).unwrap();
    assert_eq!(ended(&mut lab, first).await.code(), Some(0), "{}", lab.log(first).unwrap());
    binds(&objects, "after-end").await;
    assert_eq!(leader(&lab, &objects, "lease-3600", replicas).await.0, second);

    // A pod that waits for its volume does not keep a scheduler from ending; the next one goes on with it.
    let class = json!({"provisioner": "example.com/maker", "volumeBindingMode": "WaitForFirstConsumer"});
    objects.create("StorageClass", "made", class).await;
    let claim = json!({"spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "made", "resources": {"requests": {"storage": "1Gi"}},
    }});
    objects.create("PersistentVolumeClaim", "data", claim).await;
    let mut pod = json!({ "spec": small_pod() });
    let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    merge(&mut pod, &json!({"spec": {"volumes": volumes}}));
    objects.create("Pod", "patient", pod).await;
    let selected = |claim: &Value| claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"].is_string();
    let claim = objects.until("PersistentVolumeClaim", "data", "has a node", selected).await;
    lab.terminate(second).unwrap();
    assert_eq!(ended(&mut lab, second).await.code(), Some(0), "{}", lab.log(second).unwrap());
    start_plimsoll(&mut lab, first, &["--config", &long]).await;
    let reference = json!({
        "kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": "default", "name": "data",
        "uid": claim["metadata"]["uid"],
    });
    let volume = json!({"spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "made",
        "hostPath": {"path": "/none"}, "claimRef": reference,
    }});
    objects.create("PersistentVolume", "made", volume).await;
    objects.until("Pod", "patient", "bound", |pod| pod["spec"]["nodeName"].is_string()).await;

    // Where the API server does not answer, the first signal waits for the lease to be given back and the second does not.
    // Its log goes on from its earlier runs.
    let heard = |lab: &mut Lab| lab.log(first).unwrap().matches("a second signal ends it at once").count();
    let before = heard(&mut lab);
    lab.pause("kube-apiserver").unwrap();
    lab.terminate(first).unwrap();
    let begin = Instant::now();
    while heard(&mut lab) == before {
        assert!(begin.elapsed() < PATIENCE, "the first signal was not heard:\n{}", lab.log(first).unwrap());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    lab.terminate(first).unwrap();
    assert_eq!(ended(&mut lab, first).await.code(), Some(130), "{}", lab.log(first).unwrap());
    lab.resume("kube-apiserver").unwrap();
}
