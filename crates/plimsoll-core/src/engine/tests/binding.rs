use super::*;

#[test]
fn a_failed_binding_gives_the_room_back_and_wakes_others() {
    let mut world = World::new();
    world.apply(node("a", "2"));
    world.apply(pod("first", "2", 0));
    let reservation = world.reserve();
    world.apply(pod("second", "2", 0));
    assert_eq!(world.steps(), ["wait second"], "the room is taken before the binding is through");
    assert_eq!(world.requested_cpu("a"), 2000);
    world.now = seconds(5.0);
    assert!(world.engine.bind_failed(world.now, reservation).is_empty());
    assert_eq!(world.requested_cpu("a"), 0);
    assert_eq!(world.steps(), ["bind second a"]);
    assert_eq!(world.engine.counts(), Counts { backoff: 1, ..Counts::default() }, "the first is tried again later");
    world.now = world.engine.wake_at().unwrap();
    assert_eq!(world.steps(), ["wait first"]);
}

#[test]
fn a_pod_deleted_while_it_is_bound_leaves_nothing_behind() {
    for told_of in ["deletion", "removal"] {
        let mut world = World::new();
        world.apply(node("a", "2"));
        let web = pod("web", "2", 0);
        world.apply(web.clone());
        let reservation = world.reserve();
        if told_of == "deletion" {
            world.apply(changed(&web, "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z")));
        } else {
            world.delete(web.clone());
        }
        assert_eq!(world.requested_cpu("a"), 0, "nobody waits for the binding to fail");
        world.engine.bind_failed(world.now, reservation);
        world.delete(web);
        world.now = seconds(60.0);
        assert_eq!(world.steps(), [""; 0], "after {told_of}");
        assert_eq!(world.engine.counts(), Counts::default());
        assert_eq!(world.engine.state().pods().count(), 0);
        assert!(world.engine.keys.is_empty() && world.engine.binding.is_empty() && world.engine.messages.is_empty());
    }
}

#[test]
fn a_watch_may_tell_of_the_binding_first() {
    let mut world = World::new();
    world.apply(node("a", "2"));
    world.apply(pod("web", "2", 0));
    let reservation = world.reserve();
    world.apply(bound_to(&pod("web", "2", 0), "a"));
    world.engine.bound(world.now, reservation);
    assert_eq!(world.engine.counts(), Counts::default());
    assert_eq!(world.requested_cpu("a"), 2000);
}

#[test]
fn a_binding_that_only_seemed_to_fail_stays() {
    let mut world = World::new();
    world.apply(node("a", "2"));
    world.apply(pod("web", "2", 0));
    let reservation = world.reserve();
    world.apply(bound_to(&pod("web", "2", 0), "a"));
    world.engine.bind_failed(world.now, reservation);
    assert_eq!(world.engine.counts(), Counts::default());
    assert_eq!(world.requested_cpu("a"), 2000);
}

#[test]
fn old_news_of_a_pod_does_not_undo_its_binding() {
    let mut world = World::new();
    world.apply(node("a", "2"));
    world.apply(pod("web", "2", 0));
    let reservation = world.reserve();
    world.apply(pod("web", "2", 0));
    assert_eq!(world.requested_cpu("a"), 2000);
    world.engine.bound(world.now, reservation);
    world.apply(pod("web", "2", 0));
    assert_eq!(world.requested_cpu("a"), 2000);
    assert_eq!(world.steps(), [""; 0]);
}

#[test]
fn an_event_during_the_binding_is_not_missed() {
    let mut world = World::new();
    world.apply(node("a", "2"));
    world.apply(pod("web", "2", 0));
    let reservation = world.reserve();
    world.apply(node("b", "2"));
    world.engine.bind_failed(world.now, reservation);
    world.now = world.engine.wake_at().unwrap();
    assert!(world.steps()[0].starts_with("bind web"));
}

/// A pod that asks for one device by a claim of its name.
fn claiming(world: &mut World, name: &str) -> api::Pod {
    let request =
        json!({"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}});
    let claim = json!({"metadata": {"name": name, "namespace": "default", "uid": format!("claim-{name}")},
                       "spec": {"devices": {"requests": [request]}}});
    world.apply(serde_json::from_value::<ResourceClaim>(claim).unwrap());
    changed(&pod(name, "1", 0), "/spec/resourceClaims", json!([{"name": "d", "resourceClaimName": name}]))
}

#[test]
fn devices_of_a_pod_deleted_while_it_is_bound_come_free() {
    let mut world = World::new();
    world.apply(node("a", "4"));
    let class = json!({"metadata": {"name": "gpu"}, "spec": {}});
    world.apply(serde_json::from_value::<k8s_openapi::api::resource::v1::DeviceClass>(class).unwrap());
    let slice = json!({"metadata": {"name": "s"}, "spec": {"driver": "d.example.com", "nodeName": "a",
        "pool": {"name": "a", "generation": 1, "resourceSliceCount": 1}, "devices": [{"name": "g0"}]}});
    world.apply(serde_json::from_value::<k8s_openapi::api::resource::v1::ResourceSlice>(slice).unwrap());
    let first = claiming(&mut world, "first");
    world.apply(first.clone());
    let reservation = world.reserve();
    let second = claiming(&mut world, "second");
    world.apply(second);
    assert_eq!(world.steps(), ["wait second"], "there is one device");
    world.now = seconds(5.0);
    world.delete(first);
    world.engine.bind_failed(world.now, reservation);
    world.now = world.engine.wake_at().unwrap();
    assert_eq!(world.steps(), ["bind second a"]);
}

#[test]
fn a_pod_whose_claim_is_missing_stays_out_until_it_comes() {
    let mut world = World::new();
    world.apply(node("a", "4"));
    let pod = changed(&pod("web", "1", 0), "/spec/resourceClaims", json!([{"name": "d", "resourceClaimName": "web"}]));
    world.apply(pod);
    assert_eq!(world.steps(), [""; 0]);
    assert_eq!(world.engine.pending()[0].gated_by, Some(PluginName::DynamicResources));
    claiming(&mut world, "web");
    assert_eq!(world.steps(), ["wait web"], "it is tried, though there are no devices");
}
