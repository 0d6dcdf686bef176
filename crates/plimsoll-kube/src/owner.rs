//! Whom a pod belongs to, as far as that says how long it will run.

use k8s_openapi::api::core::v1::Pod;
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};

/// The label by which a deployment tells its replica sets apart.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// `namespace/kind/name` of the controller of a pod; of the deployment rather than of one of its replica sets, of the cron job rather than of one of its jobs, since
/// what the next one does is what the last one did. A pod without one is its own.
pub fn owner_of(pod: &Pod) -> String {
    let meta = &pod.metadata;
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let owners = meta.owner_references.iter().flatten();
    let controller = owners.max_by_key(|owner| owner.controller == Some(true));
    let Some(owner) = controller else {
        return format!("{namespace}/Pod/{}", meta.name.as_deref().unwrap_or_default());
    };
    let hash = meta.labels.as_ref().and_then(|labels| labels.get(TEMPLATE_HASH));
    let deployment =
        hash.and_then(|hash| owner.name.strip_suffix(hash.as_str())).and_then(|name| name.strip_suffix('-'));
    match (owner.kind.as_str(), deployment) {
        ("ReplicaSet", Some(name)) => format!("{namespace}/Deployment/{name}"),
        ("Job", _) => format!("{namespace}/Job/{}", without_time(&owner.name)),
        (kind, _) => format!("{namespace}/{kind}/{}", owner.name),
    }
}

/// The name of a job without the minute, which a cron job adds.
fn without_time(name: &str) -> &str {
    match name.rsplit_once('-') {
        Some((job, minute)) if minute.len() >= 8 && minute.bytes().all(|byte| byte.is_ascii_digit()) => job,
        _ => name,
    }
}

/// The owner of a pod as a number.
pub fn owner_number(pod: &Pod) -> u64 {
    let mut hasher = FxHasher::default();
    owner_of(pod).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(owner: &serde_json::Value) -> Pod {
        let meta = json!({ "namespace": "shop", "name": "p", "labels": { "pod-template-hash": "5d9" }, "ownerReferences": owner });
        serde_json::from_value(json!({ "metadata": meta })).unwrap()
    }

    fn of(kind: &str, name: &str) -> String {
        owner_of(&pod(&json!([{ "apiVersion": "v1", "kind": kind, "name": name, "uid": "u", "controller": true }])))
    }

    #[test]
    fn what_comes_back_has_the_same_owner() {
        assert_eq!(of("ReplicaSet", "cart-5d9"), "shop/Deployment/cart");
        assert_eq!(of("ReplicaSet", "cart"), "shop/ReplicaSet/cart");
        assert_eq!(of("Job", "report-28954321"), "shop/Job/report");
        assert_eq!(of("Job", "report-7"), "shop/Job/report-7");
        assert_eq!(of("StatefulSet", "db"), "shop/StatefulSet/db");
        assert_eq!(owner_of(&pod(&json!(null))), "shop/Pod/p");
    }
}
