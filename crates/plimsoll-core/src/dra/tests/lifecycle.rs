use serde_json::json;

use super::*;
use crate::dra::plugin::{Release, Status};
use crate::dra::reserve::Unreserve;

fn rejected(objects: &DraObjects, pod: &Pod) -> Status {
    match plugin::pre_filter(pod, objects, Timing::default()) {
        PreFilter::Rejected(status) => status,
        other => panic!("expected a rejection, came {other:?}"),
    }
}

fn templated(statuses: Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "pod", "namespace": "default", "uid": "uid-pod"},
        "spec": {"containers": [], "resourceClaims": [{"name": "t", "resourceClaimTemplateName": "template"}]},
        "status": {"resourceClaimStatuses": statuses},
    }))
    .unwrap()
}

#[test]
fn a_pod_waits_until_its_claims_exist() {
    let owned = |uid: &str| {
        let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": uid, "controller": true});
        let mut claim = one_request("c", exactly(1));
        claim["metadata"]["ownerReferences"] = json!([owner]);
        claim
    };
    let mut deleted = one_request("c", exactly(1));
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let created = json!([{"name": "t", "resourceClaimName": "c"}]);
    let neither = serde_json::from_value(json!({
        "metadata": {"name": "pod", "namespace": "default"},
        "spec": {"containers": [], "resourceClaims": [{"name": "x"}]},
    }))
    .unwrap();
    for (claims, pod, reason) in [
        (vec![], pod(&["c"]), "could not find ResourceClaim \"default/c\""),
        (vec![deleted], pod(&["c"]), "resourceclaim \"c\" is being deleted"),
        (vec![], templated(json!([])), "pod \"default/pod\": ResourceClaim not created yet"),
        (
            vec![owned("uid-other")],
            templated(created.clone()),
            "ResourceClaim default/c was not created for Pod default/pod (Pod is not owner)",
        ),
        (vec![], neither, "pod \"default/pod\", spec.resourceClaim \"x\": none of the supported fields are set"),
    ] {
        let objects = objects(&[], &claims);
        let expected = Status { code: Code::UnschedulableAndUnresolvable, reason: reason.to_owned() };
        assert_eq!(plugin::pre_enqueue(&pod, &objects), Err(expected.clone()));
        assert_eq!(rejected(&objects, &pod), expected);
    }
    let objects = objects(&[], &[owned("uid-pod")]);
    assert_eq!(plugin::pre_enqueue(&templated(created), &objects), Ok(()));
    let skipped = templated(json!([{"name": "t"}]));
    assert!(matches!(plugin::pre_filter(&skipped, &objects, Timing::default()), PreFilter::Skip), "none was needed");
    assert!(matches!(plugin::pre_filter(&pod(&[]), &objects, Timing::default()), PreFilter::Skip));
}

#[test]
fn requests_that_cannot_be_understood_are_refused_before_any_node() {
    let absent = merged(exactly(1), json!({"deviceClassName": "absent"}));
    let nameless = merged(exactly(1), json!({"deviceClassName": ""}));
    let sub = json!({"name": "r", "firstAvailable": [merged(absent.clone(), json!({"name": "s"}))]});
    for (claim, code, reason) in [
        (one_request("c", absent), Code::UnschedulableAndUnresolvable, "request r: device class absent does not exist"),
        (one_request("c", nameless), Code::Error, "request r: unsupported request type"),
        (
            claim("c", json!({"requests": [sub]})),
            Code::UnschedulableAndUnresolvable,
            "request r/s: device class absent does not exist",
        ),
        (
            claim("c", json!({"requests": [{"name": "r"}]})),
            Code::UnschedulableAndUnresolvable,
            "resource claim default/c, request r: unknown request type",
        ),
    ] {
        assert_eq!(rejected(&objects(&[], &[claim]), &pod(&["c"])), Status { code, reason: reason.to_owned() });
    }
}

#[test]
fn an_allocated_claim_ties_the_pod_to_its_nodes() {
    let name = json!({"key": "metadata.name", "operator": "In", "values": ["n2"]});
    let mut allocated = allocated_claim("c", &[("n2", "d0")], json!({}));
    allocated["status"]["allocation"]["nodeSelector"] = json!({"nodeSelectorTerms": [{"matchFields": [name]}]});
    let objects = objects(&[], &[allocated.clone()]);
    let pod = pod(&["c"]);
    let mut state = started(&objects, &pod);
    assert_eq!(filter_on(&mut state, &objects, &pod, "n2", &[]), Ok(()));
    let unavailable = Err("resourceclaim not available on the node".to_owned());
    assert_eq!(filter_on(&mut state, &objects, &pod, "n1", &[]), unavailable);
    let outcome = plugin::post_filter(&state, &pod);
    assert_eq!(outcome.status.reason, "deallocation of ResourceClaim completed");
    match outcome.release {
        Some(Release::Deallocate(claim)) => assert!(allocation(&claim).is_none()),
        other => panic!("expected the claim to be deallocated, came {other:?}"),
    }
    allocated["status"]["reservedFor"] = json!([{"resource": "pods", "name": "other", "uid": "uid-other"}]);
    let objects = super::objects(&[], &[allocated]);
    let mut state = started(&objects, &pod);
    assert_eq!(filter_on(&mut state, &objects, &pod, "n1", &[]), unavailable);
    let outcome = plugin::post_filter(&state, &pod);
    assert_eq!((outcome.status.reason.as_str(), outcome.release.is_some()), ("still not schedulable", false));
}

#[test]
fn a_device_that_does_not_become_ready_makes_its_claim_unavailable() {
    let result = json!({"bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]});
    let claim = |conditions: Value| {
        let mut claim = allocated_claim("c", &[("p", "d0")], result.clone());
        claim["status"]["allocation"]["allocationTimestamp"] = json!("1970-01-01T00:16:40Z");
        let status = json!({"driver": DRIVER, "pool": "p", "device": "d0", "conditions": conditions});
        claim["status"]["devices"] = json!([status]);
        claim
    };
    let condition = |kind: &str| {
        let time = "1970-01-01T00:00:00Z";
        json!({"type": kind, "status": "True", "reason": "r", "message": "m", "lastTransitionTime": time})
    };
    for (conditions, now_s, available) in [
        (json!([condition("attached")]), 5000.0, true),
        (json!([]), 1500.0, true),
        (json!([]), 1601.0, false),
        (json!([condition("attached"), condition("broken")]), 1000.0, false),
    ] {
        let objects = objects(&[], &[claim(conditions.clone())]);
        let pod = pod(&["c"]);
        let timing = Timing { now_s, binding_timeout_s: 600.0 };
        let PreFilter::Proceed(mut state) = plugin::pre_filter(&pod, &objects, timing) else {
            panic!("expected the pod to proceed");
        };
        let came = filter_on(&mut state, &objects, &pod, "n1", &[]).is_ok();
        assert_eq!(came, available, "{conditions} at {now_s}");
    }
}

#[test]
fn reserved_devices_are_taken_until_they_are_given_back() {
    let slices = [node_slice("n1", json!([gpu("d0", "a", 0)]))];
    let claims = [one_request("c", exactly(1)), one_request("d", exactly(1))];
    let mut objects = objects(&slices, &claims);
    let pod = pod(&["c"]);
    let mut state = started(&objects, &pod);
    filter_on(&mut state, &objects, &pod, "n1", &[]).unwrap();
    reserve::reserve(&mut objects, &mut state, "n1").unwrap();
    assert_eq!(place(&objects, &["d"]), refused(NOT_ENOUGH));
    assert_eq!(rejected(&objects, &pod).reason, "resource claim default/c is in the process of being allocated");
    assert!(reserve::unreserve(&mut objects, &mut state, &pod).is_empty());
    assert_eq!(place(&objects, &["d"]), found(&["r=n1/d0"]));

    reserve::reserve(&mut objects, &mut state, "n1").unwrap();
    let writes = reserve::pre_bind(&state, &pod, "n1", 1000.0);
    assert_eq!(writes.len(), 1);
    let write = writes[0].clone();
    assert!(super::super::claims::is_reserved_for(&pod, &write.claim));
    assert_eq!(write.claim.metadata.finalizers, Some(vec![reserve::FINALIZER.to_owned()]));
    assert!(allocation(&write.claim).unwrap().allocation_timestamp.is_some());
    objects.confirm_claim(write.assumed.as_deref(), write.claim, false).unwrap();
    assert!(objects.pending_claim("uid-c").is_none());
    assert_eq!(place(&objects, &["d"]), refused(NOT_ENOUGH));
    let mut again = started(&objects, &pod);
    assert!(reserve::pre_bind(&again, &pod, "n1", 0.0).is_empty(), "already reserved");
    let undo = reserve::unreserve(&mut objects, &mut again, &pod);
    assert!(matches!(undo[..], [Unreserve::RemoveConsumer(_)]), "{undo:?}");
    objects.delete_claim("default", "c");
    assert_eq!(place(&objects, &["d"]), found(&["r=n1/d0"]));
}

#[test]
fn extended_resources_are_provided_by_device_classes() {
    let slices = [node_slice("n1", json!([gpu("d0", "a", 0), gpu("d1", "a", 1), gpu("d2", "a", 2)]))];
    let mut objects = objects(&slices, &[]);
    let mut provider = class("gpu");
    provider["spec"]["extendedResourceName"] = json!("example.com/gpu");
    objects.upsert_class(serde_json::from_value(provider).unwrap());
    let container = |name: &str, requests: Value| json!({"name": name, "resources": {"requests": requests}});
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "pod", "namespace": "default", "uid": "uid-pod"},
        "spec": {
            "initContainers": [container("init", json!({"example.com/gpu": "2"}))],
            "containers": [
                container("one", json!({"cpu": "1", "example.com/gpu": "1"})),
                container("two", json!({"deviceclass.resource.kubernetes.io/gpu": "1"})),
            ],
        },
    }))
    .unwrap();
    let mut state = started(&objects, &pod);
    let labels = BTreeMap::new();
    let with_plugin =
        BTreeMap::from([("example.com/gpu".to_owned(), 8), ("deviceclass.resource.kubernetes.io/gpu".to_owned(), 8)]);
    let without = BTreeMap::new();
    let has = PlainNode { name: "n2", labels: &labels, allocatable: &with_plugin };
    assert_eq!(plugin::filter(&mut state, &pod, &objects, &has), Ok(()), "the node has them itself");
    assert_eq!(reserve::reserve(&mut objects, &mut state, "n2"), Ok(()));
    assert!(reserve::pre_bind(&state, &pod, "n2", 0.0).is_empty());
    let lacks = PlainNode { name: "n1", labels: &labels, allocatable: &without };
    assert_eq!(plugin::filter(&mut state, &pod, &objects, &lacks), Ok(()));
    let empty = PlainNode { name: "n3", labels: &labels, allocatable: &without };
    let refused = plugin::filter(&mut state, &pod, &objects, &empty);
    assert_eq!(refused.map_err(|status| status.reason), Err(NOT_ENOUGH.to_owned()));
    reserve::reserve(&mut objects, &mut state, "n1").unwrap();
    let writes = reserve::pre_bind(&state, &pod, "n1", 0.0);
    let [write] = &writes[..] else {
        panic!("expected one claim, came {writes:?}");
    };
    let results = allocated_devices(allocation(&write.claim).unwrap());
    let came: Vec<_> = results.iter().map(|result| format!("{}={}", result.request, result.device)).collect();
    assert_eq!(came, ["container-0-request-0=d0", "container-1-request-1=d1", "container-2-request-0=d2"]);
    let mappings = write.create.as_ref().unwrap();
    let came: Vec<_> = mappings.iter().map(|m| (m.container_name.as_str(), m.request_name.as_str())).collect();
    assert_eq!(
        came,
        [
            ("two", "container-2-request-0"),
            ("one", "container-1-request-1"),
            ("init", "container-1-request-1"),
            ("init", "container-0-request-0"),
        ]
    );
    assert_eq!((write.claim.metadata.name.as_deref(), write.claim.metadata.uid.as_deref()), (None, None));
    assert_eq!(write.claim.metadata.generate_name.as_deref(), Some("pod-extended-resources-"));

    // What an earlier attempt left behind has to go first.
    let mut left_over = write.claim.clone();
    left_over.metadata.name = Some("left-over".to_owned());
    objects.forget_claim(write.assumed.as_deref().unwrap());
    objects.upsert_claim(left_over).unwrap();
    let mut state = started(&objects, &pod);
    let refused = plugin::filter(&mut state, &pod, &objects, &lacks);
    assert_eq!(refused.map_err(|status| status.reason), Err("cannot schedule extended resource claim".to_owned()));
    let outcome = plugin::post_filter(&state, &pod);
    assert_eq!(outcome.status.reason, "deletion of ResourceClaim completed");
    assert!(matches!(outcome.release, Some(Release::Delete(_))));
}

#[test]
fn of_classes_with_one_resource_the_newest_provides_it() {
    let named = |name: &str, created: &str| {
        let mut class = class(name);
        class["metadata"]["creationTimestamp"] = json!(created);
        class["spec"]["extendedResourceName"] = json!("example.com/gpu");
        serde_json::from_value(class).unwrap()
    };
    let mut objects = DraObjects::new();
    let provider = |objects: &DraObjects| {
        objects.class_for_resource("example.com/gpu").and_then(|class| class.metadata.name.clone())
    };
    objects.upsert_class(named("b", "2026-01-01T00:00:00Z"));
    objects.upsert_class(named("c", "2026-01-02T00:00:00Z"));
    objects.upsert_class(named("a", "2026-01-02T00:00:00Z"));
    assert_eq!(provider(&objects).as_deref(), Some("a"));
    objects.delete_class("a");
    assert_eq!(provider(&objects).as_deref(), Some("c"));
    objects.delete_class("c");
    assert_eq!(provider(&objects).as_deref(), Some("b"));
    assert!(objects.class_for_resource("deviceclass.resource.kubernetes.io/b").is_some());
    objects.delete_class("b");
    assert_eq!(provider(&objects), None);
}

#[test]
fn objects_that_cannot_be_read_are_named() {
    let mut objects = DraObjects::new();
    let broken = node_slice("n1", json!([gpu_with("d0", json!({"capacity": {"memory": {"value": "lots"}}}))]));
    let error = objects.upsert_slice(&serde_json::from_value(broken).unwrap()).unwrap_err().to_string();
    assert!(error.starts_with("resource slice n1-slice: quantity \"lots\":"), "{error}");
    let consumed = json!({"shareID": "s", "consumedCapacity": {"memory": "lots"}});
    let broken = allocated_claim("c", &[("p", "d")], consumed);
    let error = objects.upsert_claim(serde_json::from_value(broken).unwrap()).unwrap_err().to_string();
    assert!(error.starts_with("resource claim default/c: quantity \"lots\":"), "{error}");
    assert!(objects.claim("default", "c").is_none());
}
