//! What is kept by difference is what a fresh start would compute.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;

#[derive(Debug, Clone)]
enum Event {
    Slice { name: usize, pool: usize, generation: i64, count: i64, place: usize, devices: usize },
    DropSlice(usize),
    Claim { name: usize, devices: Vec<(usize, usize)>, shared: bool },
    FreeClaim(usize),
    DropClaim(usize),
    Look { zone: usize },
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (0..5_usize, 0..3_usize, 1..3_i64, 1..3_i64, 0..5_usize, 0..4_usize).prop_map(
            |(name, pool, generation, count, place, devices)| Event::Slice {
                name,
                pool,
                generation,
                count,
                place,
                devices
            }
        ),
        (0..5_usize).prop_map(Event::DropSlice),
        (0..4_usize, proptest::collection::vec((0..3_usize, 0..4_usize), 1..3), any::<bool>())
            .prop_map(|(name, devices, shared)| Event::Claim { name, devices, shared }),
        (0..4_usize).prop_map(Event::FreeClaim),
        (0..4_usize).prop_map(Event::DropClaim),
        (0..3_usize).prop_map(|zone| Event::Look { zone }),
    ]
}

fn slice_for(name: usize, pool: usize, generation: i64, count: i64, place: usize, devices: usize) -> Value {
    let pool = json!({"name": format!("p{pool}"), "generation": generation, "resourceSliceCount": count});
    let devices: Vec<_> =
        (0..devices).map(|i| gpu_with(&format!("d{i}"), json!({"allowMultipleAllocations": i == 0}))).collect();
    let terms = json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z1"]}]}]);
    let place = match place {
        0 => json!({"nodeName": "n0"}),
        1 => json!({"nodeName": "n1"}),
        2 => json!({"allNodes": true}),
        3 => json!({"nodeSelector": {"nodeSelectorTerms": terms}}),
        _ => json!({"nodeName": "n2"}),
    };
    slice(&format!("s{name}"), "unused", merged(json!({"pool": pool, "devices": devices}), place))
}

fn claim_for(name: usize, devices: &[(usize, usize)], shared: bool) -> Value {
    let devices: Vec<_> = devices.iter().map(|(pool, device)| (format!("p{pool}"), format!("d{device}"))).collect();
    let devices: Vec<_> = devices.iter().map(|(pool, device)| (pool.as_str(), device.as_str())).collect();
    let fields = if shared {
        json!({"shareID": format!("share-{name}"), "consumedCapacity": {"memory": "15Gi"}})
    } else {
        json!({})
    };
    allocated_claim(&format!("used{name}"), &devices, fields)
}

/// What two kinds of claims get on every node.
fn answers(objects: &DraObjects, zone: usize) -> Vec<Result<Vec<String>, String>> {
    let zone = format!("z{zone}");
    let mut answers = Vec::new();
    for node in ["n0", "n1", "n2"] {
        for claim in ["one", "share", "all"] {
            answers.push(place_on(objects, &[claim], node, &[("zone", &zone)]));
        }
    }
    answers
}

fn wishes() -> [Value; 3] {
    let share = merged(exactly(1), json!({"capacity": {"requests": {"memory": "15Gi"}}}));
    let all = json!({"deviceClassName": "gpu", "allocationMode": "All"});
    [one_request("one", exactly(1)), one_request("share", share), one_request("all", all)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn decisions_do_not_depend_on_how_the_state_came_about(events in proptest::collection::vec(event(), 1..30)) {
        let mut kept = objects(&[], &wishes());
        let mut slices: BTreeMap<usize, Value> = BTreeMap::new();
        let mut claims: BTreeMap<usize, Value> = BTreeMap::new();
        for event in events {
            match event {
                Event::Slice { name, pool, generation, count, place, devices } => {
                    let slice = slice_for(name, pool, generation, count, place, devices);
                    kept.upsert_slice(&serde_json::from_value(slice.clone()).unwrap()).unwrap();
                    slices.insert(name, slice);
                }
                Event::DropSlice(name) => {
                    kept.delete_slice(&format!("s{name}"));
                    slices.remove(&name);
                }
                Event::Claim { name, devices, shared } => {
                    let claim = claim_for(name, &devices, shared);
                    kept.upsert_claim(serde_json::from_value(claim.clone()).unwrap()).unwrap();
                    claims.insert(name, claim);
                }
                Event::FreeClaim(name) => {
                    if let Some(claim) = claims.get_mut(&name) {
                        claim["status"] = json!({});
                        kept.upsert_claim(serde_json::from_value(claim.clone()).unwrap()).unwrap();
                    }
                }
                Event::DropClaim(name) => {
                    kept.delete_claim("default", &format!("used{name}"));
                    claims.remove(&name);
                }
                Event::Look { zone } => {
                    let slices: Vec<_> = slices.values().cloned().collect();
                    let claims: Vec<_> = claims.values().cloned().chain(wishes()).collect();
                    prop_assert_eq!(answers(&kept, zone), answers(&objects(&slices, &claims), zone));
                }
            }
        }
        let slices: Vec<_> = slices.values().cloned().collect();
        let claims: Vec<_> = claims.values().cloned().chain(wishes()).collect();
        prop_assert_eq!(answers(&kept, 1), answers(&objects(&slices, &claims), 1));
    }
}

#[test]
fn a_label_that_decides_where_a_slice_is_for_may_change() {
    let terms = json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["x"]}]}]);
    let spec = json!({"nodeSelector": {"nodeSelectorTerms": terms}, "devices": [gpu("d0", "a", 0)]});
    let objects = objects(&[slice("s", "p", spec)], &[one_request("c", exactly(1))]);
    for (zone, usable) in [("x", true), ("y", false), ("x", true)] {
        let pod = pod(&["c"]);
        let mut state = started(&objects, &pod);
        let came = filter_on(&mut state, &objects, &pod, "n1", &[("zone", zone)]).is_ok();
        assert_eq!(came, usable, "{zone}");
    }
}
