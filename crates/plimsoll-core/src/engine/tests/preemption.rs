use super::*;

/// A full node, and the victim that an important pod finds on it.
fn full_node() -> (World, Eviction) {
    let mut world = World::new();
    world.apply(node("a", "2"));
    world.apply(bound_to(&pod("victim", "2", 0), "a"));
    world.apply(pod("urgent", "2", 100));
    match world.next() {
        Some(Attempt::Wait { preemption: Some(eviction), nomination, .. }) => {
            assert_eq!(nomination, queue::Nomination::Node("a".into()));
            (world, eviction)
        }
        other => panic!("expected a preemption, got {other:?}"),
    }
}

#[test]
fn victims_that_leave_make_room_for_the_pod_that_is_nominated() {
    let (mut world, eviction) = full_node();
    let victims: Vec<_> = eviction.victims.iter().map(|victim| victim.name.as_str()).collect();
    assert_eq!((eviction.node.as_str(), victims), ("a", vec!["victim"]));
    world.now = seconds(10.0);
    world.apply(pod("latecomer", "2", 0));
    assert_eq!(world.steps(), ["wait latecomer"]);
    world.now = seconds(20.0);
    world.delete(bound_to(&pod("victim", "2", 0), "a"));
    let steps = world.steps();
    assert_eq!(steps[0], "bind urgent a", "the room is kept for whom it was made: {steps:?}");
    assert!(!steps.contains(&"bind latecomer a".to_owned()));
}

#[test]
fn a_node_is_kept_from_less_important_pods_while_the_nominated_one_waits() {
    let (mut world, _) = full_node();
    world.now = seconds(0.5);
    world.delete(bound_to(&pod("victim", "2", 0), "a"));
    // The urgent pod is in backoff, so that a new pod is tried before it.
    let urgent = world.engine.state().pod_id("urgent").unwrap();
    assert!(world.engine.state().pod(urgent).unwrap().nominated.is_some());
    world.apply(pod("small", "1", 0));
    let steps = world.steps();
    assert!(steps.contains(&"wait small".to_owned()), "{steps:?}");
    assert!(steps.contains(&"bind urgent a".to_owned()), "{steps:?}");
}

#[test]
fn an_update_that_does_not_know_of_the_nomination_leaves_it() {
    let (mut world, _) = full_node();
    world.apply(changed(&pod("urgent", "2", 100), "/metadata/labels", json!({"a": "b"})));
    let urgent = world.engine.state().pod_id("urgent").unwrap();
    assert!(world.engine.state().pod(urgent).unwrap().nominated.is_some());
}

#[test]
fn while_victims_stay_the_pod_is_not_tried() {
    let (mut world, _) = full_node();
    world.now = seconds(30.0);
    let mut bystander = bound_to(&pod("bystander", "1", 0), "a");
    bystander.metadata.uid = Some("bystander".into());
    world.apply(bystander.clone());
    world.delete(bystander);
    assert_eq!(world.steps(), [""; 0], "its victims are still to be deleted");
    assert_eq!(world.engine.counts().gated, 1);
    world.delete(bound_to(&pod("victim", "2", 0), "a"));
    assert_eq!(world.steps(), ["bind urgent a"]);
}

#[test]
fn a_preemption_that_fails_is_tried_again_at_once() {
    let (mut world, _) = full_node();
    let urgent = world.engine.pending()[0].pod.clone();
    world.engine.preemption_failed(world.now, &urgent);
    assert!(matches!(world.next(), Some(Attempt::Wait { preemption: Some(_), .. })));
}

#[test]
fn a_nominated_pod_that_is_deleted_frees_its_node_for_others() {
    let (mut world, _) = full_node();
    world.now = seconds(10.0);
    world.apply(pod("small", "1", 0));
    assert_eq!(world.steps(), ["wait small"]);
    world.now = seconds(20.0);
    let urgent = world.engine.state().pod_id("urgent").unwrap();
    world.delete(pod("urgent", "2", 100));
    assert!(world.engine.state().pod(urgent).is_none());
    assert_eq!(world.steps(), ["wait small"], "it is woken, though the victim still runs");
}

#[test]
fn more_important_pods_take_the_nomination_of_lesser_ones() {
    let (mut world, _) = full_node();
    world.now = seconds(1.0);
    world.apply(pod("most-urgent", "2", 1000));
    let Some(Attempt::Wait { preemption: Some(eviction), .. }) = world.next() else { panic!("expected a preemption") };
    let unnominated: Vec<_> = eviction.unnominated.iter().map(|pod| pod.name.as_str()).collect();
    assert_eq!(unnominated, ["urgent"]);
    let urgent = world.engine.state().pod_id("urgent").unwrap();
    assert_eq!(world.engine.state().pod(urgent).unwrap().nominated, None);
}

/// A pod of another scheduler for which that one keeps a node.
fn of_another(name: &str, priority: i32, node: &str) -> api::Pod {
    let pod = changed(&pod(name, "2", priority), "/spec/schedulerName", json!("another"));
    changed(&pod, "/status", json!({"nominatedNodeName": node}))
}

#[test]
fn a_node_that_another_scheduler_has_cleared_is_left_to_its_pod() {
    let mut world = World::new();
    world.apply(node("a", "2"));
    world.apply(of_another("theirs", 10, "a"));
    world.apply(pod("small", "1", 0));
    assert_eq!(world.steps(), ["wait small"]);
    world.now = seconds(60.0);
    world.apply(pod("urgent", "1", 100));
    assert_eq!(world.steps(), ["bind urgent a"], "more important pods need not wait");
    world.delete(bound_to(&pod("urgent", "1", 100), "a"));
    world.now = seconds(120.0);
    assert_eq!(world.steps(), ["wait small"]);
    world.now = seconds(180.0);
    let mut gave_up = of_another("theirs", 10, "a");
    gave_up.status = None;
    world.apply(gave_up);
    assert_eq!(world.steps(), ["bind small a"], "the other scheduler keeps it no longer");
}

#[test]
fn a_pod_of_another_scheduler_that_is_deleted_frees_the_node_that_was_kept_for_it() {
    let mut world = World::new();
    world.apply(node("a", "2"));
    let theirs = of_another("theirs", 10, "a");
    world.apply(theirs.clone());
    world.apply(pod("small", "1", 0));
    assert_eq!(world.steps(), ["wait small"]);
    world.now = seconds(60.0);
    world.delete(theirs);
    assert_eq!(world.steps(), ["bind small a"]);
}

#[test]
fn nominations_of_other_schedulers_are_not_cleared() {
    let mut world = World::new();
    world.apply(node("a", "2"));
    world.apply(bound_to(&pod("victim", "2", 0), "a"));
    world.apply(of_another("theirs", 10, "a"));
    world.apply(pod("urgent", "2", 100));
    let Some(Attempt::Wait { preemption: Some(eviction), .. }) = world.next() else { panic!("expected a preemption") };
    assert_eq!(eviction.unnominated, []);
    let theirs = world.engine.state().pod_id("theirs").unwrap();
    assert!(world.engine.state().pod(theirs).unwrap().nominated.is_some());
}

#[test]
fn a_pod_that_has_others_removed_again_waits_before_the_next_time() {
    let mut world = World::new();
    world.engine.set_spares_victims(true);
    world.apply(node("a", "2"));
    let victim = |name: &str| bound_to(&pod(name, "2", 0), "a");
    world.apply(victim("v1"));
    world.apply(pod("urgent", "2", 100));
    let preempts = |world: &mut World| matches!(world.next(), Some(Attempt::Wait { preemption: Some(_), .. }));
    assert!(preempts(&mut world));
    // Somebody else takes the room each time before it is tried.
    let replace = |world: &mut World, gone: &str, next: &str| {
        world.apply(victim(next));
        world.delete(victim(gone));
    };
    replace(&mut world, "v1", "v2");
    assert!(preempts(&mut world), "the second time at once");
    replace(&mut world, "v2", "v3");
    assert!(!preempts(&mut world), "then its backoff is waited for");
    world.now = world.engine.wake_at().unwrap();
    assert!(preempts(&mut world));
}
