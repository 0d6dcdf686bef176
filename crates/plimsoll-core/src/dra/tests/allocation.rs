use serde_json::json;

use super::*;

#[test]
fn devices_are_taken_in_the_order_of_pools_slices_and_devices() {
    let pool = json!({"name": "b", "generation": 1, "resourceSliceCount": 2});
    let slices = [
        slice("z", "b", json!({"nodeName": "n1", "pool": pool, "devices": [gpu("d0", "a", 0)]})),
        slice("y", "b", json!({"nodeName": "n1", "pool": pool, "devices": [gpu("d2", "a", 0), gpu("d1", "a", 0)]})),
        slice("x", "a", json!({"nodeName": "n1", "devices": [gpu("d9", "a", 0)]})),
    ];
    let all = one_request("c", exactly(4));
    assert_eq!(place_one(&slices, &all, &[]), found(&["r=a/d9", "r=b/d2", "r=b/d1", "r=b/d0"]));
    let used = allocated_claim("used", &[("a", "d9"), ("b", "d2")], json!({}));
    assert_eq!(place_one(&slices, &one_request("c", exactly(1)), std::slice::from_ref(&used)), found(&["r=b/d1"]));
    assert_eq!(place_one(&slices, &one_request("c", exactly(3)), &[used]), refused(NOT_ENOUGH));
}

#[test]
fn devices_have_to_suit_the_class_and_the_request() {
    let slices = [node_slice("n1", json!([gpu("d0", "a", 0), gpu("d1", "b", 1), gpu("d2", "b", 2)]))];
    let selecting = |expression: &str| {
        one_request("c", merged(exactly(1), json!({"selectors": [{"cel": {"expression": expression}}]})))
    };
    let model = |model: &str| selecting(&format!("device.attributes[\"{DRIVER}\"].model == \"{model}\""));
    assert_eq!(place_one(&slices, &model("b"), &[]), found(&["r=n1/d1"]));
    assert_eq!(place_one(&slices, &model("c"), &[]), refused(NOT_ENOUGH));
    let mut elsewhere = node_slice("n1", json!([gpu("d0", "a", 0)]));
    elsewhere["spec"]["driver"] = json!("other.example.com");
    assert_eq!(place_one(&[elsewhere], &one_request("c", exactly(1)), &[]), refused(NOT_ENOUGH));
    assert_eq!(
        place_one(&slices, &selecting("device.attributes[\"gpu.example.com\"].missing == 1"), &[]),
        refused("error: claim default/c: selector #0: CEL runtime error: no such key: missing")
    );
    assert_eq!(
        place_one(&slices, &selecting("1"), &[]),
        refused(
            "error: claim default/c: selector #0: CEL compile error: must evaluate to bool or the unknown type, not int"
        )
    );
    let mut objects = objects(&slices, &[one_request("c", exactly(1))]);
    let mut broken = class("gpu");
    broken["spec"]["selectors"][0]["cel"]["expression"] = json!("device.attributes[\"x\"].y");
    objects.upsert_class(serde_json::from_value(broken).unwrap());
    assert_eq!(place(&objects, &["c"]), refused("error: class gpu: selector #0: CEL runtime error: no such key: y"));
}

#[test]
fn all_devices_means_all_and_at_least_one() {
    let slices = [node_slice("n1", json!([gpu("d0", "a", 0), gpu("d1", "a", 1)]))];
    let all = one_request("c", json!({"deviceClassName": "gpu", "allocationMode": "All"}));
    assert_eq!(place_one(&slices, &all, &[]), found(&["r=n1/d0", "r=n1/d1"]));
    let used = allocated_claim("used", &[("n1", "d1")], json!({}));
    assert_eq!(place_one(&slices, &all, &[used]), refused(NOT_ENOUGH));
    assert_eq!(place_one(&[], &all, &[]), refused(NOT_ENOUGH));
    let mut incomplete = slices[0].clone();
    incomplete["spec"]["pool"]["resourceSliceCount"] = json!(2);
    assert_eq!(
        place_one(&[incomplete], &all, &[]),
        refused(
            "error: claim default/c, request r: asks for all devices, but resource pool gpu.example.com/n1 is currently \
             being updated"
        )
    );
}

#[test]
fn the_first_alternative_that_is_possible_is_taken() {
    let slices = [node_slice("n1", json!([gpu("d0", "a", 0), gpu("d1", "b", 1)]))];
    let alternative = |name: &str, count: i64, model: &str| {
        let expression = format!("device.attributes[\"{DRIVER}\"].model == \"{model}\"");
        merged(exactly(count), json!({"name": name, "selectors": [{"cel": {"expression": expression}}]}))
    };
    let first_available =
        |alternatives: Vec<Value>| claim("c", json!({"requests": [{"name": "r", "firstAvailable": alternatives}]}));
    let wanted = first_available(vec![alternative("two", 2, "a"), alternative("b", 1, "b"), alternative("a", 1, "a")]);
    assert_eq!(place_one(&slices, &wanted, &[]), found(&["r/b=n1/d1"]));
    let used = allocated_claim("used", &[("n1", "d1")], json!({}));
    assert_eq!(place_one(&slices, &wanted, &[used]), found(&["r/a=n1/d0"]));
    let impossible = first_available(vec![alternative("two", 2, "a"), alternative("three", 3, "b")]);
    assert_eq!(place_one(&slices, &impossible, &[]), refused(NOT_ENOUGH));
    let objects = objects(&slices, &[wanted]);
    let pod = pod(&["c"]);
    let mut state = started(&objects, &pod);
    filter_on(&mut state, &objects, &pod, "n1", &[]).unwrap();
    assert_eq!(plugin::score(&state, "n1"), 7, "the second of eight ranks");
    assert_eq!(plugin::score(&state, "unknown"), 0);
    let mut scores = [7, 8, 0];
    plugin::normalize(&mut scores);
    assert_eq!(scores, [87, 100, 0]);
}

#[test]
fn admin_access_sees_devices_without_taking_them() {
    let slices = [node_slice("n1", json!([gpu("d0", "a", 0)]))];
    let used = allocated_claim("used", &[("n1", "d0")], json!({}));
    let admin = one_request("c", merged(exactly(1), json!({"adminAccess": true})));
    assert_eq!(place_one(&slices, &admin, &[used]), found(&["r=n1/d0"]));
    let twice = one_request("c", merged(exactly(2), json!({"adminAccess": true})));
    assert_eq!(place_one(&slices, &twice, &[]), refused(NOT_ENOUGH));
    let watching = allocated_claim("watching", &[("n1", "d0")], json!({"adminAccess": true}));
    assert_eq!(place_one(&slices, &one_request("c", exactly(1)), &[watching]), found(&["r=n1/d0"]));
}

#[test]
fn devices_match_or_differ_in_an_attribute() {
    let slices =
        [node_slice("n1", json!([gpu("d0", "a", 0), gpu("d1", "b", 0), gpu("d2", "b", 1), gpu("d3", "b", 1)]))];
    let constrained = |count: i64, constraint: Value| {
        claim("c", json!({"requests": [request("r", exactly(count))], "constraints": [constraint]}))
    };
    let same = |attribute: &str| json!({"matchAttribute": format!("{DRIVER}/{attribute}")});
    let different = |attribute: &str| json!({"distinctAttribute": format!("{DRIVER}/{attribute}")});
    assert_eq!(place_one(&slices, &constrained(3, same("model")), &[]), found(&["r=n1/d1", "r=n1/d2", "r=n1/d3"]));
    assert_eq!(place_one(&slices, &constrained(4, same("model")), &[]), refused(NOT_ENOUGH));
    assert_eq!(place_one(&slices, &constrained(2, different("index")), &[]), found(&["r=n1/d0", "r=n1/d2"]));
    assert_eq!(place_one(&slices, &constrained(1, same("missing")), &[]), refused(NOT_ENOUGH));
    let two = claim(
        "c",
        json!({
            "requests": [request("x", exactly(1)), request("y", exactly(1)), request("z", exactly(1))],
            "constraints": [merged(same("model"), json!({"requests": ["x", "z"]}))],
        }),
    );
    assert_eq!(place_one(&slices, &two, &[]), found(&["x=n1/d1", "y=n1/d0", "z=n1/d2"]));
    let unknown = constrained(1, json!({}));
    assert_eq!(
        place_one(&slices, &unknown, &[]),
        refused("error: claim default/c, constraint #0: empty constraint (unsupported constraint type?)")
    );
}

#[test]
fn tainted_devices_need_a_toleration() {
    let taint = |effect: &str| json!({"taints": [{"key": "worn", "value": "yes", "effect": effect}]});
    let tolerating = |toleration: Value| one_request("c", merged(exactly(1), json!({"tolerations": [toleration]})));
    for effect in ["NoSchedule", "NoExecute"] {
        let slices = [node_slice("n1", json!([gpu_with("d0", taint(effect))]))];
        assert_eq!(place_one(&slices, &one_request("c", exactly(1)), &[]), refused(NOT_ENOUGH), "{effect}");
        for (toleration, enough) in [
            (json!({"operator": "Exists"}), true),
            (json!({"key": "worn", "operator": "Exists"}), true),
            (json!({"key": "worn", "operator": "Equal", "value": "yes", "effect": effect}), true),
            (json!({"key": "worn", "value": "yes"}), true),
            (json!({"key": "worn", "operator": "Equal", "value": "no"}), false),
            (json!({"key": "other", "operator": "Exists"}), false),
            (json!({"operator": "Exists", "effect": "None"}), false),
        ] {
            let came = place_one(&slices, &tolerating(toleration.clone()), &[]).is_ok();
            assert_eq!(came, enough, "{effect} {toleration}");
        }
    }
    let harmless = [node_slice("n1", json!([gpu_with("d0", taint("None"))]))];
    assert_eq!(place_one(&harmless, &one_request("c", exactly(1)), &[]), found(&["r=n1/d0"]));
}

#[test]
fn devices_are_usable_from_the_nodes_they_are_for() {
    let zone = |zone: &str| json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}]});
    let devices = json!([gpu("d0", "a", 0)]);
    let per_device = json!([
        gpu_with("here", json!({"nodeName": "n1"})),
        gpu_with("zoned", json!({"nodeSelector": zone("x")})),
        gpu_with("all", json!({"allNodes": true})),
    ]);
    let c = one_request("c", exactly(1));
    for (spec, node, labels, device) in [
        (json!({"nodeName": "n1", "devices": devices}), "n1", vec![], Some("d0")),
        (json!({"nodeName": "n1", "devices": devices}), "n2", vec![], None),
        (json!({"allNodes": true, "devices": devices}), "n2", vec![], Some("d0")),
        (json!({"nodeSelector": zone("x"), "devices": devices}), "n1", vec![("zone", "x")], Some("d0")),
        (json!({"nodeSelector": zone("x"), "devices": devices}), "n1", vec![("zone", "y")], None),
        (json!({"perDeviceNodeSelection": true, "devices": per_device}), "n1", vec![], Some("here")),
        (json!({"perDeviceNodeSelection": true, "devices": per_device}), "n2", vec![("zone", "x")], Some("zoned")),
        (json!({"perDeviceNodeSelection": true, "devices": per_device}), "n2", vec![], Some("all")),
        (json!({"devices": devices}), "n1", vec![], None),
    ] {
        let objects = objects(&[slice("s", "p", spec.clone())], std::slice::from_ref(&c));
        let came = place_on(&objects, &["c"], node, &labels);
        let expected = device.map_or(refused(NOT_ENOUGH), |device| found(&[&format!("r=p/{device}")]));
        assert_eq!(came, expected, "{spec} from {node}");
    }
}

#[test]
fn incomplete_outdated_and_contradictory_pools_are_not_used() {
    let c = one_request("c", exactly(1));
    let versioned = |name: &str, generation: i64, count: i64, node: &str, device: &str| {
        let pool = json!({"name": "p", "generation": generation, "resourceSliceCount": count});
        slice(name, "p", json!({"pool": pool, "nodeName": node, "devices": [gpu(device, "a", 0)]}))
    };
    assert_eq!(place_one(&[versioned("s", 1, 2, "n1", "d0")], &c, &[]), refused(NOT_ENOUGH));
    let replaced = [versioned("old", 1, 1, "n1", "old"), versioned("new", 2, 1, "n1", "new")];
    assert_eq!(place_one(&replaced, &c, &[]), found(&["r=p/new"]));
    let moving = [versioned("old", 1, 2, "n1", "old"), versioned("new", 2, 1, "n2", "new")];
    assert_eq!(place_one(&moving, &c, &[]), refused(NOT_ENOUGH), "a newer generation exists elsewhere");
    let complete_elsewhere = [versioned("a", 1, 2, "n1", "d0"), versioned("b", 1, 2, "n2", "d1")];
    assert_eq!(place_one(&complete_elsewhere, &c, &[]), found(&["r=p/d0"]));
    let duplicate = [versioned("a", 1, 2, "n1", "d0"), versioned("b", 1, 2, "n1", "d0")];
    assert_eq!(place_one(&duplicate, &c, &[]), refused("invalid resource pools were encountered"));
    let usable = node_slice("n1", json!([gpu("d9", "a", 0)]));
    assert_eq!(place_one(&[duplicate[0].clone(), duplicate[1].clone(), usable], &c, &[]), found(&["r=n1/d9"]));
}

#[test]
fn partitions_share_counters() {
    let counters = |memory: &str| json!([{"name": "card", "counters": {"memory": {"value": memory}}}]);
    let partition = |name: &str, memory: &str| {
        let consumes = json!([{"counterSet": "card", "counters": {"memory": {"value": memory}}}]);
        gpu_with(name, json!({"consumesCounters": consumes}))
    };
    let pool = json!({"name": "n1", "generation": 1, "resourceSliceCount": 2});
    let slices = [
        slice("counters", "n1", json!({"pool": pool, "nodeName": "n1", "sharedCounters": counters("40Gi")})),
        slice(
            "devices",
            "n1",
            json!({"pool": pool, "nodeName": "n1", "devices":
                [partition("whole", "40Gi"), partition("half0", "20Gi"), partition("half1", "20Gi")]}),
        ),
    ];
    assert_eq!(place_one(&slices, &one_request("c", exactly(1)), &[]), found(&["r=n1/whole"]));
    assert_eq!(place_one(&slices, &one_request("c", exactly(2)), &[]), found(&["r=n1/half0", "r=n1/half1"]));
    assert_eq!(place_one(&slices, &one_request("c", exactly(3)), &[]), refused(NOT_ENOUGH));
    let used = allocated_claim("used", &[("n1", "half1")], json!({}));
    assert_eq!(place_one(&slices, &one_request("c", exactly(1)), &[used]), found(&["r=n1/half0"]));
    let whole = allocated_claim("used", &[("n1", "whole")], json!({}));
    assert_eq!(place_one(&slices, &one_request("c", exactly(1)), &[whole]), refused(NOT_ENOUGH));
    let mut unknown = slices.clone();
    unknown[0]["spec"]["sharedCounters"][0]["name"] = json!("other");
    assert_eq!(
        place_one(&unknown, &one_request("c", exactly(1)), &[]),
        refused("invalid resource pools were encountered")
    );
}

#[test]
fn claims_share_the_capacity_of_a_device_that_allows_it() {
    let shared = gpu_with("d0", json!({"allowMultipleAllocations": true, "capacity": {"memory": {"value": "10Gi"}}}));
    let slices = [node_slice("n1", json!([shared]))];
    let asking =
        |memory: &str| one_request("c", merged(exactly(1), json!({"capacity": {"requests": {"memory": memory}}})));
    let used = |memory: &str| {
        allocated_claim("used", &[("n1", "d0")], json!({"shareID": "s", "consumedCapacity": {"memory": memory}}))
    };
    assert_eq!(place_one(&slices, &asking("4Gi"), &[used("6Gi")]), found(&["r=n1/d0"]));
    assert_eq!(place_one(&slices, &asking("5Gi"), &[used("6Gi")]), refused(NOT_ENOUGH));
    assert_eq!(place_one(&slices, &one_request("c", exactly(1)), &[used("1Gi")]), refused(NOT_ENOUGH));
    let unknown = one_request("c", merged(exactly(1), json!({"capacity": {"requests": {"cores": "1"}}})));
    assert_eq!(place_one(&slices, &unknown, &[]), refused(NOT_ENOUGH));
    let two = claim(
        "c",
        json!({"requests": [
            request("x", merged(exactly(1), json!({"capacity": {"requests": {"memory": "4Gi"}}}))),
            request("y", merged(exactly(1), json!({"capacity": {"requests": {"memory": "4Gi"}}}))),
        ]}),
    );
    assert_eq!(place_one(&slices, &two, &[]), found(&["x=n1/d0", "y=n1/d0"]));
    assert_eq!(place_one(&slices, &two, &[used("4Gi")]), refused(NOT_ENOUGH));
    let objects = objects(&slices, &[asking("4Gi")]);
    let pod = pod(&["c"]);
    let mut state = started(&objects, &pod);
    filter_on(&mut state, &objects, &pod, "n1", &[]).unwrap();
    let mut objects = objects.clone();
    reserve::reserve(&mut objects, &mut state, "n1").unwrap();
    let pending = objects.pending_claim("uid-c").unwrap();
    let result = &allocated_devices(allocation(pending).unwrap())[0];
    assert_eq!(result.consumed_capacity.as_ref().unwrap()["memory"].0, "4Gi");
    assert_eq!(result.share_id.as_ref().map(String::len), Some(36), "an identifier in the form of a UUID");
}

#[test]
fn pools_whose_devices_wait_for_conditions_come_last() {
    let slices = [
        slice(
            "a",
            "a",
            json!({"nodeName": "n1", "devices": [gpu_with("d0", json!({"bindingConditions": ["attached"]}))]}),
        ),
        slice("b", "b", json!({"nodeName": "n1", "devices": [gpu("d1", "a", 0)]})),
    ];
    assert_eq!(place_one(&slices, &one_request("c", exactly(2)), &[]), found(&["r=b/d1", "r=a/d0"]));
}

#[test]
fn a_claim_has_at_most_32_devices() {
    let devices: Vec<_> = (0..40).map(|i| gpu(&format!("d{i:02}"), "a", i)).collect();
    let slices = [node_slice("n1", json!(devices))];
    assert_eq!(place_one(&slices, &one_request("c", exactly(32)), &[]).map(|devices| devices.len()), Ok(32));
    assert_eq!(
        place_one(&slices, &one_request("c", exactly(33)), &[]),
        refused("error: claim default/c: number of requested devices 33 exceeds the claim limit of 32")
    );
    let few_or_many = claim(
        "c",
        json!({"requests": [
            request("x", exactly(20)),
            {"name": "y", "firstAvailable": [merged(exactly(20), json!({"name": "many"})), merged(exactly(2), json!({"name": "few"}))]},
        ]}),
    );
    let came = place_one(&slices, &few_or_many, &[]).unwrap();
    assert_eq!((came.len(), came[20].as_str()), (22, "y/few=n1/d20"));
}

#[test]
fn a_search_without_end_is_given_up() {
    // Forty equal devices of which no sixteen match each other, in all combinations.
    let devices: Vec<_> = (0..40).map(|i| gpu(&format!("d{i:02}"), "a", i % 14)).collect();
    let slices = [node_slice("n1", json!(devices))];
    let constraint = json!({"distinctAttribute": format!("{DRIVER}/index")});
    let requests: Vec<_> = (0..16).map(|i| request(&format!("r{i}"), exactly(1))).collect();
    let endless = claim("c", json!({"requests": requests, "constraints": [constraint]}));
    let objects = objects(&slices, &[endless]);
    let pod = pod(&["c"]);
    let mut state = started(&objects, &pod);
    state.max_attempts = 100_000;
    let came = filter_on(&mut state, &objects, &pod, "n1", &[]);
    assert_eq!(came, Err("error: node n1: timed out trying to allocate devices".to_owned()));
}

#[test]
fn a_claim_with_countless_requests_does_not_exhaust_the_stack() {
    let requests: Vec<_> = (0..100_000).map(|i| request(&format!("r{i}"), exactly(0))).collect();
    let claim = claim("c", json!({"requests": requests}));
    assert_eq!(place_one(&[], &claim, &[]), refused("error: node n1: timed out trying to allocate devices"));
}

#[test]
fn classes_and_claims_configure_what_was_chosen() {
    let slices = [node_slice("n1", json!([gpu("d0", "a", 0), gpu("d1", "a", 1)]))];
    let opaque = |value: i64| json!({"opaque": {"driver": DRIVER, "parameters": {"value": value}}});
    let c = claim(
        "c",
        json!({
            "requests": [request("x", exactly(1)), {"name": "y", "firstAvailable": [merged(exactly(1), json!({"name": "s"}))]}],
            "config": [
                opaque(2),
                merged(opaque(3), json!({"requests": ["y/s"]})),
                merged(opaque(4), json!({"requests": ["z"]})),
            ],
        }),
    );
    let mut objects = objects(&slices, &[c]);
    let mut configured = class("gpu");
    configured["spec"]["config"] = json!([opaque(1)]);
    objects.upsert_class(serde_json::from_value(configured).unwrap());
    let pod = pod(&["c"]);
    let mut state = started(&objects, &pod);
    filter_on(&mut state, &objects, &pod, "n1", &[]).unwrap();
    reserve::reserve(&mut objects, &mut state, "n1").unwrap();
    let pending = objects.pending_claim("uid-c").unwrap();
    let config = allocation(pending).unwrap().devices.as_ref().unwrap().config.as_ref().unwrap();
    let came: Vec<_> = config
        .iter()
        .map(|entry| {
            (
                entry.source.as_str(),
                entry.requests.clone().unwrap_or_default(),
                entry.opaque.as_ref().unwrap().parameters.0["value"].clone(),
            )
        })
        .collect();
    assert_eq!(
        came,
        [
            ("FromClass", vec!["x".to_owned(), "y/s".to_owned()], json!(1)),
            ("FromClaim", vec![], json!(2)),
            ("FromClaim", vec!["y/s".to_owned()], json!(3)),
        ]
    );
    let selector = allocation(pending).unwrap().node_selector.as_ref().unwrap();
    let field = &selector.node_selector_terms[0].match_fields.as_ref().unwrap()[0];
    assert_eq!((field.key.as_str(), field.values.as_deref()), ("metadata.name", Some(&["n1".to_owned()][..])));
}
