//! What fuzz targets share: a small cluster, and a way to change JSON that leaves it JSON.

use libfuzzer_sys::fuzzer_mutate;
use plimsoll_core::rng::Rng;
use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::state::PodId;
use serde_json::{Map, Value, json};

/// Three nodes, some pods, and a pod to place that every plugin has something to say about.
pub fn small_cluster(scheduler: &mut Scheduler, scheduler_name: &str) -> PodId {
    let state = &mut scheduler.state;
    for (name, zone) in [("a", "z0"), ("b", "z0"), ("c", "z1")] {
        let labels = json!({"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone});
        let allocatable = json!({"cpu": "4", "memory": "8Gi", "pods": "10", "example.com/gpu": "2"});
        let images = json!([{"names": ["web:1"], "sizeBytes": 500_000_000}]);
        let status = json!({"allocatable": allocatable, "images": images});
        let taints = json!([{"key": "k", "effect": "PreferNoSchedule"}]);
        let node = json!({"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}, "status": status});
        state.apply_node(&parse(node)).expect("the node is well formed");
    }
    let service = json!({"metadata": {"name": "s", "namespace": "n"}, "spec": {"selector": {"app": "web"}}});
    state.apply_service(&parse(service));
    let term = json!({"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "topology.kubernetes.io/zone"});
    let affinity = json!({"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
        [{"weight": 100, "podAffinityTerm": term}]}});
    let container =
        json!({"name": "c", "image": "web:1", "resources": {"requests": {"cpu": "1", "example.com/gpu": "1"}}});
    let pod = |name: &str, node: Option<&str>| {
        let metadata = json!({"name": name, "namespace": "n", "uid": name, "labels": {"app": "web"}});
        let spec = json!({"schedulerName": scheduler_name, "nodeName": node, "containers": [container],
                          "affinity": affinity, "priority": 5});
        parse(json!({"metadata": metadata, "spec": spec}))
    };
    state.apply_pod(&pod("placed", Some("a"))).expect("the pod is well formed");
    state.apply_pod(&pod("pending", None)).expect("the pod is well formed").expect("the pod has not ended")
}

fn parse<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("the object is well formed")
}

/// Values at the edges of what objects can hold.
const NUMBERS: [i64; 14] =
    [0, 1, -1, 2, 99, 100, 101, 65_535, 1 << 31, -(1 << 31), (1 << 31) - 1, 1 << 53, i64::MAX, i64::MIN];
const TEXTS: [&str; 24] = [
    "",
    "a",
    "b",
    "z0",
    "NoSchedule",
    "NoExecute",
    "PreferNoSchedule",
    "In",
    "NotIn",
    "Exists",
    "Gt",
    "DoNotSchedule",
    "ScheduleAnyway",
    "Honor",
    "Always",
    "9223372036854775807",
    "-1",
    "1e30",
    "1n",
    "0.5",
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "example.com/gpu",
    "metadata.name",
];

/// Changes one place of a JSON document; text that is not JSON is changed as bytes are.
pub fn mutate_json(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    let mut rng = Rng::new(u64::from(seed));
    if rng.below(8) == 0 {
        return fuzzer_mutate(data, size, max_size);
    }
    let Ok(mut document) = serde_json::from_slice::<Value>(&data[..size]) else {
        return fuzzer_mutate(data, size, max_size);
    };
    for _ in 0..=rng.below(3) {
        let spare = pick(&document, &mut rng).clone();
        let place = pick_mut(&mut document, &mut rng);
        change(place, spare, &mut rng);
    }
    let Ok(text) = serde_json::to_vec(&document) else { return size };
    match data.get_mut(..text.len().min(max_size)) {
        Some(room) if room.len() == text.len() => {
            room.copy_from_slice(&text);
            text.len()
        }
        _ => fuzzer_mutate(data, size, max_size),
    }
}

/// One value of a document, every level as likely as the next.
fn pick<'a>(mut value: &'a Value, rng: &mut Rng) -> &'a Value {
    while rng.below(8) != 0 {
        let inner = match value {
            Value::Array(list) if !list.is_empty() => &list[rng.below(list.len())],
            Value::Object(map) if !map.is_empty() => match map.values().nth(rng.below(map.len())) {
                Some(inner) => inner,
                None => break,
            },
            _ => break,
        };
        value = inner;
    }
    value
}

fn pick_mut<'a>(value: &'a mut Value, rng: &mut Rng) -> &'a mut Value {
    let children = match value {
        Value::Array(list) => list.len(),
        Value::Object(map) => map.len(),
        _ => 0,
    };
    if children == 0 || rng.below(8) == 0 {
        return value;
    }
    let at = rng.below(children);
    let child = match value {
        Value::Array(list) => list.get_mut(at),
        Value::Object(map) => map.values_mut().nth(at),
        _ => None,
    };
    pick_mut(child.expect("the place is among the children"), rng)
}

fn change(place: &mut Value, spare: Value, rng: &mut Rng) {
    match (rng.below(4), &mut *place) {
        (0, _) => *place = spare,
        (_, Value::Number(_)) => *place = NUMBERS[rng.below(NUMBERS.len())].into(),
        (_, Value::String(text)) if rng.below(2) == 0 => {
            let at = rng.below(text.len() + 1);
            if text.is_char_boundary(at) {
                text.insert_str(at, TEXTS[rng.below(TEXTS.len())]);
            }
        }
        (_, Value::String(_)) => *place = TEXTS[rng.below(TEXTS.len())].into(),
        (_, Value::Array(list)) => match rng.below(3) {
            0 => list.push(spare),
            1 if !list.is_empty() => {
                let copy = list[rng.below(list.len())].clone();
                list.push(copy);
            }
            _ => drop(list.pop()),
        },
        (_, Value::Object(map)) => change_object(map, spare, rng),
        (_, Value::Bool(value)) => *value = !*value,
        (_, Value::Null) => *place = spare,
    }
}

fn change_object(map: &mut Map<String, Value>, spare: Value, rng: &mut Rng) {
    let Some(key) = map.keys().nth(rng.below(map.len().max(1))).cloned() else { return };
    match rng.below(3) {
        0 => drop(map.remove(&key)),
        1 => drop(map.insert(TEXTS[rng.below(TEXTS.len())].to_owned(), spare)),
        _ => drop(map.insert(key, spare)),
    }
}
