use super::*;
use crate::reserve::Unreserve;

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

/// A node with one device.
fn with_device() -> World {
    let mut world = World::new();
    world.apply(node("a", "4"));
    let class = json!({"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}});
    world.apply(serde_json::from_value::<k8s_openapi::api::resource::v1::DeviceClass>(class).unwrap());
    let slice = json!({"metadata": {"name": "s"}, "spec": {"driver": "d.example.com", "nodeName": "a",
        "pool": {"name": "a", "generation": 1, "resourceSliceCount": 1}, "devices": [{"name": "g0"}]}});
    world.apply(serde_json::from_value::<k8s_openapi::api::resource::v1::ResourceSlice>(slice).unwrap());
    world
}

/// Writes the one claim of a reservation as the API server would, under this name and version.
fn write_claim(world: &mut World, reservation: &mut Reservation, name: &str, version: &str) -> ResourceClaim {
    let writes = world.engine.claim_writes(reservation, 0.0);
    let [write] = &writes[..] else { panic!("expected one claim to write, came {writes:?}") };
    let mut written = write.claim.clone();
    written.metadata.name = Some(name.to_owned());
    written.metadata.uid.get_or_insert_with(|| format!("claim-{name}"));
    written.metadata.resource_version = Some(version.to_owned());
    world.engine.claim_written(world.now, reservation, write, written.clone()).unwrap();
    written
}

#[test]
fn old_news_of_a_claim_does_not_free_its_devices() {
    let mut world = with_device();
    let first = claiming(&mut world, "first");
    let mut before: ResourceClaim = (**world.engine.state().dra.claim("default", "first").unwrap()).clone();
    before.metadata.resource_version = Some("5".to_owned());
    world.apply(before.clone());
    world.apply(first);
    let mut reservation = world.reserve();
    write_claim(&mut world, &mut reservation, "first", "7");
    let second = claiming(&mut world, "second");
    world.apply(second);
    assert_eq!(world.steps(), ["wait second"], "there is one device");
    before.metadata.resource_version = Some("6".to_owned());
    world.apply(before.clone());
    world.now = seconds(60.0);
    assert_eq!(world.steps(), [""; 0], "the news are older than what was written");
    world.engine.bound(world.now, reservation);
    before.metadata.resource_version = Some("8".to_owned());
    world.apply(before);
    assert_eq!(world.steps(), ["bind second a"], "the claim was given up");
}

#[test]
fn what_a_watch_told_to_be_gone_does_not_come_back_by_an_answer() {
    let mut world = with_device();
    let web = claiming(&mut world, "web");
    world.apply(web);
    let mut reservation = world.reserve();
    let claim: ResourceClaim = (**world.engine.state().dra.claim("default", "web").unwrap()).clone();
    world.delete(claim);
    write_claim(&mut world, &mut reservation, "web", "7");
    assert!(world.engine.state().dra.claim("default", "web").is_none());
}

#[test]
fn a_failed_binding_has_its_claims_undone() {
    let mut world = with_device();
    let web = claiming(&mut world, "web");
    world.apply(web);
    let mut reservation = world.reserve();
    write_claim(&mut world, &mut reservation, "web", "7");
    let undo = world.engine.bind_failed(world.now, reservation);
    let [Unreserve::RemoveConsumer(claim)] = &undo[..] else { panic!("expected the pod to be removed, came {undo:?}") };
    assert_eq!(claim.metadata.name.as_deref(), Some("web"));
    world.now = world.engine.wake_at().unwrap();
    assert_eq!(world.steps(), ["bind web a"], "the claim keeps its device for the pod");
}

#[test]
fn claims_of_a_pod_that_another_has_bound_stay() {
    let mut world = with_device();
    let web = claiming(&mut world, "web");
    world.apply(web.clone());
    let mut reservation = world.reserve();
    write_claim(&mut world, &mut reservation, "web", "7");
    world.apply(bound_to(&web, "a"));
    assert!(world.engine.bind_failed(world.now, reservation).is_empty());
}

#[test]
fn a_claim_for_extended_resources_is_deleted_after_a_failed_binding_and_its_pod_waits_for_that() {
    let mut world = with_device();
    let requests = json!({"requests": {"cpu": "1", "example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}});
    world.apply(changed(&pod("web", "1", 0), "/spec/containers", json!([{"name": "c", "resources": requests}])));
    let mut reservation = world.reserve();
    let made = write_claim(&mut world, &mut reservation, "made", "7");
    let undo = world.engine.bind_failed(world.now, reservation);
    let [Unreserve::Delete(claim)] = &undo[..] else { panic!("expected the claim to be deleted, came {undo:?}") };
    assert_eq!(claim.metadata.name.as_deref(), Some("made"));
    world.now = world.engine.wake_at().unwrap();
    assert_eq!(world.steps(), ["wait web"], "the claim is still there");
    world.now += seconds(60.0);
    world.delete(made);
    assert_eq!(world.steps(), ["bind web a"], "nothing is in its way any more");
}

#[test]
fn devices_of_a_pod_deleted_while_it_is_bound_come_free() {
    let mut world = with_device();
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
fn events_are_not_kept_for_pods_that_are_being_bound() {
    let mut world = World::new();
    world.apply(node("a", "2"));
    world.apply(pod("web", "2", 0));
    let reservation = world.reserve();
    world.apply(node("b", "2"));
    assert_eq!(world.engine.queue.remembered(), 0);
    assert_eq!(world.engine.counts().in_flight, 1, "it is in flight all the same");
    assert_eq!(world.engine.pending()[0].pod.name, "web");
    world.engine.bound(world.now, reservation);
    assert_eq!(world.engine.counts(), Counts::default());
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
