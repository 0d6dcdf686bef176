//! The load of a soak: pods of several kinds that come and go, often under a name that another had, on nodes that are nearly full.

use crate::history::History;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::Client;
use kube::api::{Api, DeleteParams, PostParams};
use plimsoll_core::rng::Rng;
use serde_json::{Value, json};
use std::time::Duration;

/// What all pods want, as a share of what the nodes have: some always wait.
const DEMAND: f64 = 1.15;
/// The pause between changes, so that a minute sees hundreds of them.
const PAUSE: Duration = Duration::from_millis(40);
/// The kinds of pods: name, how many names there are, priority class.
const KINDS: [(&str, usize, Option<&str>); 6] = [
    ("small", 120, None),
    ("large", 20, None),
    ("apart", 24, None),
    ("port", 16, None),
    ("important", 12, Some("important")),
    ("urgent", 6, Some("urgent")),
];

/// Creates the priority classes that pods name.
pub async fn create_classes(client: &Client) -> Result<(), kube::Error> {
    let api: Api<PriorityClass> = Api::all(client.clone());
    for (name, value) in [("important", 1000), ("urgent", 2000)] {
        let mut class = PriorityClass { value: Some(value), ..PriorityClass::default() };
        class.metadata.name = Some(name.into());
        api.create(&PostParams::default(), &class).await?;
    }
    Ok(())
}

/// Creates and deletes pods until the task is aborted.
pub async fn run(client: Client, history: History, seed: u64) {
    let api: Api<Pod> = Api::default_namespaced(client);
    let mut rng = Rng::new(seed);
    loop {
        let (demand, names) = {
            let ledger = history.ledger();
            (ledger.demand(), ledger.names())
        };
        // Errors are those of an API server that is away, or names that are taken or gone in the meantime.
        if demand < DEMAND {
            let _ = api.create(&PostParams::default(), &draw(&mut rng)).await;
        } else if let Some(name) = names.iter().nth(rng.below(names.len())) {
            // Without grace the object is gone at once, and its successor may come before anybody has noticed.
            let options =
                if rng.below(2) == 0 { DeleteParams::default().grace_period(0) } else { DeleteParams::default() };
            let deleted = api.delete(name, &options).await.is_ok();
            if deleted && rng.below(3) == 0 {
                let kind = KINDS.iter().position(|(kind, ..)| name.starts_with(kind)).unwrap_or(0);
                let _ = api.create(&PostParams::default(), &pod(name, kind, &mut rng)).await;
            }
        }
        tokio::time::sleep(PAUSE.mul_f64(2.0 * rng.unit())).await;
    }
}

fn draw(rng: &mut Rng) -> Pod {
    // Small pods are as many as all others together.
    let kind = if rng.below(2) == 0 { 0 } else { rng.below(KINDS.len()) };
    let (name, count, _) = KINDS[kind];
    pod(&format!("{name}-{}", rng.below(count)), kind, rng)
}

fn pod(name: &str, kind: usize, rng: &mut Rng) -> Pod {
    let (of_kind, _, class) = KINDS[kind];
    let cpu = match of_kind {
        "small" => 100 + 50 * rng.below(9),
        "large" | "urgent" => 1500 + 100 * rng.below(16),
        "important" => 500 + 100 * rng.below(16),
        _ => 200,
    };
    let mut pod = json!({
        "metadata": {"name": name, "labels": {"kind": of_kind}},
        "spec": {
            "priorityClassName": class,
            "containers": [{
                "name": "main", "image": "lab/none",
                "resources": {"requests": {"cpu": format!("{cpu}m"), "memory": format!("{}Mi", 64 + rng.below(512))}},
            }],
        },
    });
    match of_kind {
        "apart" => {
            let group = format!("group-{}", rng.below(2));
            pod["metadata"]["labels"]["group"] = json!(group);
            pod["spec"]["affinity"] = apart(&group);
        }
        "port" => {
            pod["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 8000 + rng.below(3)}])
        }
        _ => {}
    }
    // It is made of what a pod is made of.
    serde_json::from_value(pod).unwrap_or_default()
}

fn apart(group: &str) -> Value {
    json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
        "labelSelector": {"matchLabels": {"group": group}},
        "topologyKey": "kubernetes.io/hostname",
    }]}})
}
