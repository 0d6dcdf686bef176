//! Which changes may help a pod that its claims kept from being placed.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::ResourceClaim;

use super::claims::{allocation, pod_claims};
use super::objects::DraObjects;

/// Whether a claim that was added (without `old`) or changed makes it worth trying the pod again.
pub fn claim_change_helps(pod: &Pod, objects: &DraObjects, old: Option<&ResourceClaim>, new: &ResourceClaim) -> bool {
    // A pod whose claims are not all there cannot be placed whatever happens to one of them.
    let Ok(claims) = pod_claims(pod, objects) else {
        return false;
    };
    if old.is_some_and(|old| allocation(old).is_some()) && allocation(new).is_none() {
        return true;
    }
    let is_own = claims.iter().any(|claim| claim.metadata.uid == new.metadata.uid);
    is_own && old.is_none_or(|old| old.status != new.status)
}

/// Whether a change of a pod makes it worth trying this one again: its claims have been generated.
pub fn pod_change_helps(pod: &Pod, objects: &DraObjects, changed: &Pod) -> bool {
    pod.metadata.uid == changed.metadata.uid && pod_claims(changed, objects).is_ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn claim(name: &str, status: Value) -> ResourceClaim {
        let metadata = json!({"name": name, "namespace": "default", "uid": format!("uid-{name}")});
        serde_json::from_value(json!({"metadata": metadata, "spec": {}, "status": status})).unwrap()
    }

    fn pod(claims: &[&str]) -> Pod {
        let claims: Vec<_> = claims.iter().map(|name| json!({"name": name, "resourceClaimName": name})).collect();
        serde_json::from_value(json!({
            "metadata": {"name": "pod", "namespace": "default", "uid": "uid-pod"},
            "spec": {"containers": [], "resourceClaims": claims},
        }))
        .unwrap()
    }

    #[test]
    fn a_pod_is_woken_by_its_own_claims_and_by_devices_set_free() {
        let mut objects = DraObjects::new();
        objects.upsert_claim(claim("own", json!({}))).unwrap();
        let (own, other) = (claim("own", json!({})), claim("other", json!({})));
        let allocated = json!({"allocation": {"devices": {}}});
        for (old, new, helps) in [
            (None, &own, true),
            (None, &other, false),
            (Some(&own), &own, false),
            (Some(&claim("own", json!({"reservedFor": []}))), &own, true),
            (Some(&other), &claim("other", allocated.clone()), false),
            (Some(&claim("other", allocated)), &other, true),
        ] {
            assert_eq!(claim_change_helps(&pod(&["own"]), &objects, old, new), helps, "{old:?} to {new:?}");
        }
        assert!(!claim_change_helps(&pod(&["own", "missing"]), &objects, None, &own));
    }

    #[test]
    fn a_pod_is_woken_when_its_claims_exist() {
        let mut objects = DraObjects::new();
        let waiting = pod(&["own"]);
        assert!(!pod_change_helps(&waiting, &objects, &waiting));
        objects.upsert_claim(claim("own", json!({}))).unwrap();
        assert!(pod_change_helps(&waiting, &objects, &waiting));
        let mut stranger = waiting.clone();
        stranger.metadata.uid = Some("uid-other".to_owned());
        assert!(!pod_change_helps(&waiting, &objects, &stranger));
    }
}
