//! Device selectors: compiling ends in a selector or an error, and so does asking it about any device.
#![no_main]

use k8s_openapi::api::resource::v1::Device;
use libfuzzer_sys::fuzz_target;
use plimsoll_core::dra::cel::{DeviceValue, Selector};
use serde_json::json;
use std::sync::LazyLock;

static DEVICES: LazyLock<Vec<DeviceValue>> = LazyLock::new(|| {
    let devices = [
        json!({"name": "bare"}),
        json!({"name": "rich", "allowMultipleAllocations": true, "attributes": {
            "model": {"string": "A100"}, "speed": {"int": i64::MAX}, "fast": {"bool": true},
            "version": {"version": "1.2.3-rc.1+build"}, "other.example.com/slot": {"int": -1}, "empty": {"string": ""},
        }, "capacity": {"memory": {"value": "80Gi"}, "cores": {"value": "100m"}, "other.example.com/huge": {"value": "9e99"}}}),
        json!({"name": "broken", "attributes": {"version": {"version": "one"}}}),
    ];
    devices
        .into_iter()
        .map(|device| serde_json::from_value::<Device>(device).expect("the devices are well formed"))
        .map(|device| DeviceValue::new("gpu.example.com", &device))
        .collect()
});

fuzz_target!(|expression: &str| {
    match Selector::compile(expression) {
        Ok(selector) => {
            for device in DEVICES.iter() {
                let answer = selector.matches(device);
                assert_eq!(answer, selector.matches(device), "{expression}: asked twice, answered differently");
            }
        }
        Err(error) => assert!(!error.to_string().is_empty(), "an error has a text"),
    }
});
