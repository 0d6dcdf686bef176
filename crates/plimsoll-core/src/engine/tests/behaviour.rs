use super::*;

#[test]
fn a_pod_that_does_not_fit_is_woken_by_a_node_that_fits_and_no_other() {
    let mut world = World::new();
    world.apply(node("small", "1"));
    world.apply(pod("web", "2", 0));
    assert_eq!(world.steps(), ["wait web"]);
    world.now = seconds(20.0);
    world.apply(node("also-small", "1"));
    assert_eq!(world.steps(), [""; 0], "a node that does not fit wakes nobody");
    world.apply(node("big", "4"));
    assert_eq!(world.steps(), ["bind web big"]);
}

#[test]
fn a_pod_that_waits_says_why_in_the_words_of_kube_scheduler() {
    let mut world = World::new();
    world.apply(node("a", "1"));
    let mut cordoned = node("b", "4");
    cordoned.spec.get_or_insert_default().unschedulable = Some(true);
    world.apply(cordoned);
    world.apply(pod("web", "2", 0));
    let Some(Attempt::Wait { message, plugins, preemption, nomination, .. }) = world.next() else { panic!("it fits") };
    assert_eq!(
        message,
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable. no new claims to deallocate, preemption: \
         0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    );
    assert!(plugins.contains(PluginName::NodeResourcesFit) && plugins.contains(PluginName::NodeUnschedulable));
    assert_eq!((preemption, nomination), (None, queue::Nomination::None));
    let pending = world.engine.pending();
    assert_eq!(pending.len(), 1);
    assert_eq!((pending[0].place, pending[0].message.as_deref()), (Place::Unschedulable, Some(message.as_str())));
}

#[test]
fn a_pod_that_names_its_node_says_which_plugin_left_the_others_out() {
    let mut world = World::new();
    world.apply(node("a", "1"));
    world.apply(node("b", "4"));
    let only_a = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]}}});
    world.apply(changed(&pod("web", "2", 0), "/spec/affinity", only_a));
    let Some(Attempt::Wait { message, plugins, .. }) = world.next() else { panic!("it fits") };
    assert!(
        message.starts_with(
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't satisfy plugin(s) [NodeAffinity]."
        ),
        "{message}"
    );
    assert!(plugins.contains(PluginName::NodeAffinity), "a node of another name may help");
}

#[test]
fn words_are_spared_when_nobody_wants_them() {
    let mut world = World::new();
    world.engine.set_words_messages(false);
    world.apply(node("a", "1"));
    world.apply(pod("web", "2", 0));
    assert!(matches!(world.next(), Some(Attempt::Wait { message, .. }) if message.is_empty()));
}

#[test]
fn backoff_doubles_from_one_second_to_ten() {
    let mut world = World::new();
    world.now = seconds(100.0);
    world.apply(pod("web", "1", 0));
    let mut waits = Vec::new();
    for _ in 0..6 {
        assert_eq!(world.steps(), ["wait web"], "without nodes it is tried once");
        let before = world.now;
        world.now = world.engine.wake_at().unwrap();
        assert_eq!(world.engine.counts().backoff, 1);
        // A backoff holds through the second in which it ends.
        waits.push((world.now - before).as_secs() - 1);
    }
    assert_eq!(waits, [1, 2, 4, 8, 10, 10]);
}

#[test]
fn a_pod_in_backoff_is_not_tried_before_its_time() {
    let mut world = World::new();
    world.apply(pod("web", "1", 0));
    assert_eq!(world.steps(), ["wait web"]);
    world.apply(node("a", "4"));
    assert_eq!(world.steps(), [""; 0]);
    world.now = world.engine.wake_at().unwrap();
    assert_eq!(world.steps(), ["bind web a"]);
}

#[test]
fn the_most_important_pod_is_tried_first_then_the_oldest() {
    let mut world = World::new();
    world.apply(node("a", "10"));
    for (name, priority) in [("first", 0), ("second", 0), ("urgent", 5)] {
        world.apply(pod(name, "1", priority));
    }
    assert_eq!(world.steps(), ["bind urgent a", "bind first a", "bind second a"]);
}

#[test]
fn a_gated_pod_enters_when_its_gates_go() {
    let mut world = World::new();
    world.apply(node("a", "4"));
    let free = pod("web", "1", 0);
    let gated = |gates: Value| changed(&free, "/spec/schedulingGates", gates);
    world.apply(gated(json!([{"name": "x"}, {"name": "y"}])));
    assert_eq!(world.steps(), [""; 0]);
    assert_eq!(world.engine.counts(), Counts { gated: 1, ..Counts::default() });
    let pending = world.engine.pending();
    assert_eq!(pending[0].gated_by, Some(PluginName::SchedulingGates));
    assert_eq!(pending[0].message.as_deref(), Some("waiting for scheduling gates: [x y]"));
    world.apply(gated(json!([{"name": "y"}])));
    assert_eq!(world.steps(), [""; 0], "one gate is left");
    world.apply(free);
    assert_eq!(world.steps(), ["bind web a"]);
}

#[test]
fn pods_of_other_schedulers_are_load_and_nothing_else() {
    let mut world = World::new();
    world.apply(node("a", "2"));
    let foreign = changed(&pod("foreign", "2", 9), "/spec/schedulerName", json!("other"));
    world.apply(foreign.clone());
    assert_eq!(world.steps(), [""; 0]);
    assert!(world.engine.pending().is_empty());
    world.apply(bound_to(&foreign, "a"));
    world.apply(pod("web", "1", 0));
    assert_eq!(world.steps(), ["wait web"]);
    world.now = seconds(10.0);
    world.delete(bound_to(&foreign, "a"));
    assert_eq!(world.steps(), ["bind web a"]);
}

#[test]
fn a_pod_that_has_ended_gives_its_room_back() {
    let mut world = World::new();
    world.apply(node("a", "2"));
    let job = bound_to(&pod("job", "2", 0), "a");
    world.apply(job.clone());
    world.apply(pod("web", "1", 0));
    assert_eq!(world.steps(), ["wait web"]);
    world.now = seconds(10.0);
    world.apply(changed(&changed(&job, "/status", json!({})), "/status/phase", json!("Succeeded")));
    assert_eq!(world.steps(), ["bind web a"]);
}

#[test]
fn a_pod_bound_by_another_leaves_the_queue() {
    let mut world = World::new();
    world.apply(pod("web", "1", 0));
    world.apply(node("a", "4"));
    world.apply(bound_to(&pod("web", "1", 0), "a"));
    assert_eq!(world.steps(), [""; 0]);
    assert_eq!(world.engine.counts(), Counts::default());
    assert_eq!(world.requested_cpu("a"), 1000);
}

#[test]
fn a_pod_that_asks_for_less_is_tried_again() {
    let mut world = World::new();
    world.apply(node("a", "2"));
    world.apply(pod("web", "4", 0));
    assert_eq!(world.steps(), ["wait web"]);
    world.now = seconds(10.0);
    world.apply(pod("web", "1", 0));
    assert_eq!(world.steps(), ["bind web a"]);
}

#[test]
fn company_that_arrives_wakes_the_pod_that_wants_it() {
    let mut world = World::new();
    let mut labelled = node("a", "4");
    labelled.metadata.labels = Some([("zone".to_owned(), "z".to_owned())].into());
    world.apply(labelled);
    let term = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}}]}});
    world.apply(changed(&pod("web", "1", 0), "/spec/affinity", term));
    assert_eq!(world.steps(), ["wait web"]);
    world.now = seconds(10.0);
    world.apply(pod("mail", "1", 0));
    assert_eq!(world.steps(), ["bind mail a"], "others do not help");
    world.apply(changed(&pod("db", "1", 0), "/metadata/labels", json!({"app": "db"})));
    assert_eq!(world.steps(), ["bind db a", "bind web a"], "our own binding is an event as any other");
}

#[test]
fn after_five_minutes_a_pod_is_tried_without_an_event() {
    let mut world = World::new();
    world.apply(node("a", "1"));
    world.apply(pod("web", "2", 0));
    assert_eq!(world.steps(), ["wait web"]);
    let wake = world.engine.wake_at().unwrap();
    assert_eq!(wake, seconds(330.0), "it is looked for every half minute");
    world.now = seconds(329.0);
    assert_eq!(world.steps(), [""; 0]);
    world.now = wake;
    assert_eq!(world.steps(), ["wait web"]);
}

#[test]
fn a_pod_created_again_under_its_name_is_another_pod() {
    let mut world = World::new();
    world.apply(node("a", "2"));
    let first = pod("web", "1", 0);
    world.apply(first.clone());
    let reservation = world.reserve();
    world.delete(first);
    world.apply(changed(&pod("web", "2", 0), "/metadata/uid", json!("second")));
    let second = world.reserve();
    assert_eq!((&*reservation.uid, &*second.uid), ("web", "second"));
    world.engine.bind_failed(world.now, reservation);
    assert_eq!(world.requested_cpu("a"), 2000, "the failure is not the second pod's");
    world.engine.bound(world.now, second);
    assert_eq!(world.requested_cpu("a"), 2000);
    assert_eq!(world.engine.counts(), Counts::default());
}

#[test]
fn bad_objects_are_refused_by_name_and_change_nothing() {
    let mut world = World::new();
    world.apply(node("a", "4"));
    let error = world.engine.apply(world.now, Event::apply(pod("web", "lots", 0))).unwrap_err();
    assert!(error.to_string().starts_with("pod default/web: "), "{error}");
    assert_eq!(world.engine.counts(), Counts::default());
    world.delete(pod("never-seen", "1", 0));
    world.delete(node("never-seen", "1"));
}

#[test]
fn the_same_events_and_seed_give_the_same_attempts() {
    let run = |seed: u64| {
        let mut world = World { engine: Engine::new(&Configuration::default(), seed), now: Duration::ZERO };
        let mut seen = Vec::new();
        for n in 0..20 {
            world.apply(node(&format!("n{n}"), "4"));
        }
        for n in 0..120 {
            world.now += seconds(0.7);
            world.apply(pod(&format!("p{n}"), ["1", "2", "3"][n % 3], (n % 4) as i32));
            seen.extend(world.steps());
            if n % 10 == 9 {
                let victim = pod(&format!("p{}", n / 2), "1", 0);
                world.delete(victim);
            }
        }
        seen
    };
    assert_eq!(run(7), run(7));
    assert!(run(7).iter().any(|step| step.starts_with("wait")), "the cluster overflows");
    assert_ne!(run(7), run(8), "ties are decided by lot");
}
