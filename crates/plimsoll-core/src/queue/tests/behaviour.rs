//! What kube-scheduler's queue does, case by case.

use std::collections::BTreeMap;

use super::*;
use crate::config::PluginSet;

#[test]
fn pods_are_popped_by_priority_then_by_age() {
    let plugins = Plugins::default();
    let mut queue = Queue::new(Settings::default());
    for (key, time, rank) in [(1, 0.1, 0), (2, 0.2, 5), (3, 0.3, 0), (4, 0.4, 5), (5, 0.4, 5), (6, 0.5, -1)] {
        assert_eq!(queue.add(at(time), key, priority(rank), &plugins), Place::Active);
    }
    let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
    assert_eq!(order, [2, 4, 5, 1, 3, 6], "ties are decided by arrival");
    assert_eq!((queue.scheduling_cycle(), queue.len(Place::InFlight)), (6, 6));
    assert_eq!(queue.get(2).map(|pod| pod.attempts), Some(1));
}

#[test]
fn a_pod_that_comes_back_waits_for_an_event() {
    use PluginName::*;
    for (behaviour, rejectors, event, later, expected) in [
        ("an event its plugin registered for", rejected(&[NodeAffinity]), NODE_ADD, 5.0, Place::Active),
        ("the same while backing off", rejected(&[NodeAffinity]), NODE_ADD, 1.5, Place::Backoff),
        ("in the second in which the backoff ends", rejected(&[NodeAffinity]), NODE_ADD, 2.9, Place::Backoff),
        ("in the next second", rejected(&[NodeAffinity]), NODE_ADD, 3.0, Place::Active),
        ("an event it did not register for", rejected(&[NodeAffinity]), POD_DELETE, 5.0, Place::Unschedulable),
        (
            "an event it says is useless",
            rejected(&[NodeAffinity]),
            Event { object: "useless", ..NODE_ADD },
            5.0,
            Place::Unschedulable,
        ),
        (
            "a useless event of a plugin that gives no hints",
            rejected(&[NodeName]),
            Event { object: "useless", ..NODE_ADD },
            5.0,
            Place::Active,
        ),
        ("one of two plugins is enough", rejected(&[NodeAffinity, NodePorts]), POD_DELETE, 5.0, Place::Active),
        ("what a plugin waits for skips the backoff", pending(&[DynamicResources]), NODE_ADD, 1.5, Place::Active),
        (
            "what another one is helped by does not",
            Rejectors { pending: PluginSet::from_iter([DynamicResources]), ..rejected(&[NodePorts]) },
            POD_DELETE,
            1.5,
            Place::Backoff,
        ),
        (
            "an event for both skips it",
            Rejectors { pending: PluginSet::from_iter([DynamicResources]), ..rejected(&[NodePorts]) },
            NODE_ADD,
            1.5,
            Place::Active,
        ),
        (
            "an extender is helped by almost everything",
            Rejectors { extender: true, ..Rejectors::default() },
            POD_DELETE,
            5.0,
            Place::Active,
        ),
        (
            "changes of taints help whoever hears of new nodes",
            rejected(&[NodeAffinity]),
            Event { action: ActionType::UPDATE_NODE_TAINT, object: "useless", ..NODE_ADD },
            5.0,
            Place::Active,
        ),
        (
            "unless the plugin looks at taints itself",
            rejected(&[TaintToleration]),
            Event { action: ActionType::UPDATE_NODE_TAINT, object: "useless", ..NODE_ADD },
            5.0,
            Place::Unschedulable,
        ),
        (
            "a wildcard moves every pod",
            rejected(&[NodeAffinity]),
            Event::new(EventResource::WildCard, ActionType::ALL, "useless"),
            5.0,
            Place::Active,
        ),
    ] {
        let plugins = Plugins::default();
        let mut queue = unschedulable(&[(1, rejectors)], &plugins);
        let moved = queue.move_all(at(later), &event, &plugins);
        assert_eq!(queue.place(1), Some(expected), "{behaviour}");
        assert_eq!(moved, usize::from(expected != Place::Unschedulable), "{behaviour}");
    }
}

#[test]
fn only_pods_that_an_event_concerns_are_looked_at() {
    let plugins = Plugins::default();
    let pods = [(1, rejected(&[PluginName::NodeAffinity])), (2, rejected(&[PluginName::NodePorts]))];
    let mut queue = unschedulable(&pods, &plugins);
    assert_eq!(queue.move_all(at(9.0), &POD_DELETE, &plugins), 1);
    assert_eq!(*plugins.asked.borrow(), [(PluginName::NodePorts, 2)]);
    assert_eq!((queue.place(1), queue.place(2)), (Some(Place::Unschedulable), Some(Place::Active)));
}

#[test]
fn a_check_restricts_which_pods_move() {
    let plugins = Plugins::default();
    let pods = [(1, rejected(&[PluginName::NodePorts])), (2, rejected(&[PluginName::NodePorts]))];
    let mut queue = unschedulable(&pods, &plugins);
    assert_eq!(queue.move_if(at(9.0), &POD_DELETE, &plugins, |key, _| key == 2), 1);
    assert_eq!((queue.place(1), queue.place(2)), (Some(Place::Unschedulable), Some(Place::Active)));
    let wildcard = Event::new(EventResource::WildCard, ActionType::ALL, "");
    assert_eq!(queue.move_if(at(9.0), &wildcard, &plugins, |_, pod| pod.fields.priority > 0), 0);
}

#[test]
fn events_that_a_pod_missed_in_flight_count_when_it_comes_back() {
    use PluginName::*;
    let useless = Event { object: "useless", ..NODE_ADD };
    for (behaviour, events, rejectors, expected) in [
        ("nothing happened", vec![], rejected(&[NodeAffinity]), Place::Unschedulable),
        ("something helpful", vec![NODE_ADD], rejected(&[NodeAffinity]), Place::Backoff),
        ("something useless", vec![useless], rejected(&[NodeAffinity]), Place::Unschedulable),
        ("something for others", vec![POD_DELETE], rejected(&[NodeAffinity]), Place::Unschedulable),
        ("useless, then helpful", vec![useless, NODE_ADD], rejected(&[NodeAffinity]), Place::Backoff),
        ("what it waits for", vec![NODE_ADD], pending(&[DynamicResources]), Place::Active),
        (
            "something helpful, then what it waits for",
            vec![POD_DELETE, NODE_ADD],
            Rejectors { pending: PluginSet::from_iter([DynamicResources]), ..rejected(&[NodePorts]) },
            Place::Active,
        ),
        ("nothing, but it failed by an error", vec![], Rejectors::default(), Place::Backoff),
    ] {
        let plugins = Plugins::default();
        let mut queue = Queue::new(Settings::default());
        queue.add(at(0.0), 1, priority(0), &plugins);
        // Before it is popped events do not matter.
        queue.move_all(at(0.1), &NODE_ADD, &plugins);
        queue.pop();
        for event in &events {
            queue.move_all(at(0.2), event, &plugins);
        }
        assert_eq!(queue.add_unschedulable(at(1.0), 1, rejectors, &plugins), Ok(Some(expected)), "{behaviour}");
        assert_eq!(queue.in_flight.remembered(), 0, "{behaviour}");
    }
}

#[test]
fn missed_events_are_remembered_only_as_long_as_someone_may_ask() {
    let plugins = Plugins::default();
    let mut queue = Queue::new(Settings::default());
    for key in 1..=2 {
        queue.add(at(0.0), key, priority(0), &plugins);
    }
    assert_eq!(queue.pop(), Some(1));
    queue.move_all(at(0.1), &NODE_ADD, &plugins);
    assert_eq!(queue.pop(), Some(2));
    queue.move_all(at(0.2), &POD_DELETE, &plugins);
    assert_eq!(queue.in_flight.remembered(), 2);
    queue.done(1);
    assert_eq!(queue.in_flight.remembered(), 1, "the first event is older than the pod still in flight");
    let back = queue.add_unschedulable(at(1.0), 2, rejected(&[PluginName::NodeAffinity]), &plugins);
    assert_eq!(back, Ok(Some(Place::Unschedulable)), "the new node came before the second pod was popped");
    assert_eq!(queue.in_flight.remembered(), 0);
    queue.move_all(at(2.0), &NODE_ADD, &plugins);
    assert_eq!(queue.in_flight.remembered(), 0, "nobody is in flight");
}

#[test]
fn backoff_doubles_with_every_rejection_and_ends_at_whole_seconds() {
    let plugins = Plugins::default();
    let mut queue = unschedulable(&[(1, rejected(&[PluginName::NodeAffinity]))], &plugins);
    let mut now = 1.0;
    for wait in [1.0, 2.0, 4.0, 8.0, 10.0, 10.0] {
        queue.move_all(at(now), &NODE_ADD, &plugins);
        assert_eq!(queue.next_backoff_flush(), Some(at(now + wait + 1.0)));
        assert_eq!(queue.flush_backoff(at(now + wait + 0.999)), 0);
        now += wait + 1.0;
        assert_eq!(queue.flush_backoff(at(now)), 1);
        assert_eq!((queue.pop(), queue.next_backoff_flush()), (Some(1), None));
        queue.add_unschedulable(at(now), 1, rejected(&[PluginName::NodeAffinity]), &plugins).unwrap();
    }
}

#[test]
fn with_nothing_active_a_pod_in_backoff_is_popped_early_unless_it_failed_by_an_error() {
    let plugins = Plugins::default();
    let mut queue = Queue::new(Settings::default());
    for (key, rank) in [(1, 0), (2, 9), (3, 0)] {
        queue.add(at(0.0), key, priority(rank), &plugins);
    }
    assert_eq!([queue.pop(), queue.pop(), queue.pop()], [Some(2), Some(1), Some(3)]);
    queue.move_all(at(0.5), &NODE_ADD, &plugins);
    queue.add_unschedulable(at(1.1), 1, rejected(&[PluginName::NodeAffinity]), &plugins).unwrap();
    queue.add_unschedulable(at(1.2), 2, rejected(&[PluginName::NodeAffinity]), &plugins).unwrap();
    queue.add_unschedulable(at(1.0), 3, Rejectors::default(), &plugins).unwrap();
    assert_eq!(queue.len(Place::Backoff), 3);
    queue.add(at(1.3), 4, priority(-5), &plugins);
    assert_eq!(queue.pop(), Some(4), "what is active comes first, whatever its priority");
    assert_eq!(queue.pop(), Some(2), "backoffs that end in the same second are ordered by priority");
    assert_eq!(queue.pop(), Some(1));
    assert_eq!(queue.pop(), None, "an error is given its time");
    queue.flush_backoff(at(3.0));
    assert_eq!(queue.pop(), Some(3));
}

#[test]
fn a_rejection_ends_a_row_of_errors() {
    let plugins = Plugins::default();
    let mut queue = Queue::new(Settings::default());
    queue.add(at(0.0), 1, priority(0), &plugins);
    let mut fail = |now: f64, rejectors| {
        queue.flush_backoff(at(now));
        queue.pop();
        queue.add_unschedulable(at(now), 1, rejectors, &plugins).unwrap();
        let pod = queue.get(1).unwrap();
        (pod.consecutive_errors, pod.unschedulable_count, pod.attempts)
    };
    assert_eq!(fail(0.0, Rejectors::default()), (1, 0, 1));
    assert_eq!(fail(10.0, Rejectors::default()), (2, 0, 2));
    assert_eq!(fail(20.0, rejected(&[PluginName::NodePorts])), (0, 1, 3));
}

#[test]
fn a_gated_pod_waits_until_its_plugin_lets_it_pass() {
    let gates_eliminated =
        Event::new(EventResource::UnschedulablePod, ActionType::UPDATE_POD_SCHEDULING_GATES_ELIMINATED, "");
    let mut plugins = Plugins { gates: BTreeMap::from([(1, PluginName::SchedulingGates)]), ..Plugins::default() };
    let mut queue = Queue::new(Settings::default());
    assert_eq!(queue.add(at(0.0), 1, priority(0), &plugins), Place::Unschedulable);
    assert_eq!((queue.gated(), queue.pop()), (1, None));
    assert_eq!(queue.move_all(at(1.0), &NODE_ADD, &plugins), 0);
    assert_eq!(queue.flush_unschedulable(at(9999.0), &plugins), 0, "gated pods are never flushed");
    assert_eq!(queue.next_unschedulable_flush(), None);
    queue.activate(at(1.0), [1], &plugins);
    assert_eq!(queue.update(at(1.0), 1, priority(3), &[gates_eliminated], &plugins), Place::Unschedulable);
    assert_eq!(queue.get(1).unwrap().gated_by, Some(PluginName::SchedulingGates));
    plugins.gates.clear();
    assert_eq!(queue.update(at(2.0), 1, priority(3), &[gates_eliminated], &plugins), Place::Active);
    let pod = queue.get(1).unwrap();
    assert_eq!((pod.gated_by, pod.initial_attempt, pod.timestamp), (None, Some(at(2.0)), at(0.0)));
}

#[test]
fn a_gate_is_asked_again_when_a_pod_would_move() {
    let mut plugins = Plugins::default();
    let pods = [(1, rejected(&[PluginName::NodeAffinity])), (2, rejected(&[PluginName::NodeAffinity]))];
    let mut queue = unschedulable(&pods, &plugins);
    plugins.gates.insert(1, PluginName::DefaultPreemption);
    assert_eq!(queue.move_all(at(1.5), &NODE_ADD, &plugins), 1);
    assert_eq!((queue.place(1), queue.place(2)), (Some(Place::Unschedulable), Some(Place::Backoff)));
    let rejectors = queue.get(1).unwrap().rejectors.unschedulable;
    assert!(rejectors.contains(PluginName::NodeAffinity) && rejectors.contains(PluginName::DefaultPreemption));
    plugins.gates.clear();
    assert_eq!(queue.move_all(at(9.0), &NODE_ADD, &plugins), 0, "its gate did not register for new nodes");
    assert_eq!(queue.move_all(at(9.0), &POD_DELETE, &plugins), 1);
}

#[test]
fn a_pod_that_waits_five_minutes_is_tried_anyway() {
    let plugins = Plugins::default();
    let mut queue = unschedulable(&[(1, rejected(&[PluginName::NodeAffinity]))], &plugins);
    queue.add(at(1.0), 2, priority(0), &plugins);
    queue.pop();
    assert_eq!(queue.next_unschedulable_flush(), Some(at(301.0) + Duration::from_nanos(1)));
    assert_eq!(queue.flush_unschedulable(at(301.0), &plugins), 0);
    assert_eq!(queue.flush_unschedulable(at(301.0) + Duration::from_nanos(1), &plugins), 1);
    assert_eq!((queue.place(1), queue.get(1).unwrap().flushed), (Some(Place::Active), true));
    let back = queue.add_unschedulable(at(302.0), 2, rejected(&[PluginName::NodeAffinity]), &plugins);
    assert_eq!(back, Ok(Some(Place::Backoff)), "the flush concerns pods in flight as well");
    queue.pop();
    queue.add_unschedulable(at(303.0), 1, rejected(&[PluginName::NodeAffinity]), &plugins).unwrap();
    assert!(!queue.get(1).unwrap().flushed);
}

#[test]
fn an_update_changes_the_order_and_moves_a_pod_only_if_it_helps() {
    use PluginName::*;
    let plugins = Plugins::default();
    let update = |action| Event::new(EventResource::UnschedulablePod, action, "");
    let mut queue = Queue::new(Settings::default());
    queue.add(at(0.0), 1, priority(0), &plugins);
    queue.add(at(0.1), 2, priority(0), &plugins);
    assert_eq!(queue.update(at(0.2), 2, priority(7), &[update(ActionType::UPDATE)], &plugins), Place::Active);
    assert_eq!(queue.pop(), Some(2));
    assert_eq!(queue.update(at(0.3), 9, priority(1), &[], &plugins), Place::Active, "an unknown pod is added");

    for (behaviour, rejectors, events, expected) in [
        ("a toleration", rejected(&[TaintToleration]), vec![ActionType::UPDATE_POD_TOLERATION], Place::Active),
        ("another change", rejected(&[TaintToleration]), vec![ActionType::UPDATE_POD_LABEL], Place::Unschedulable),
        (
            "the second of two changes",
            rejected(&[TaintToleration]),
            vec![ActionType::UPDATE_POD_LABEL, ActionType::UPDATE_POD_TOLERATION],
            Place::Active,
        ),
        ("a general change", rejected(&[NodeDeclaredFeatures]), vec![ActionType::UPDATE], Place::Active),
        ("no change", rejected(&[TaintToleration]), vec![], Place::Unschedulable),
    ] {
        let mut queue = unschedulable(&[(1, rejectors)], &plugins);
        let events: Vec<_> = events.into_iter().map(update).collect();
        assert_eq!(queue.update(at(5.0), 1, priority(1), &events, &plugins), expected, "{behaviour}");
        assert_eq!(queue.get(1).map(|pod| pod.fields.priority), Some(1), "{behaviour}");
    }
}

#[test]
fn an_update_in_flight_counts_when_the_pod_comes_back() {
    let plugins = Plugins::default();
    let toleration = Event::new(EventResource::UnschedulablePod, ActionType::UPDATE_POD_TOLERATION, "");
    let mut queue = Queue::new(Settings::default());
    queue.add(at(0.0), 1, priority(0), &plugins);
    queue.pop();
    assert_eq!(queue.update(at(0.1), 1, priority(4), &[toleration], &plugins), Place::InFlight);
    let back = queue.add_unschedulable(at(1.0), 1, rejected(&[PluginName::TaintToleration]), &plugins);
    assert_eq!(back, Ok(Some(Place::Backoff)));
    assert_eq!(queue.get(1).map(|pod| pod.fields.priority), Some(4));
}

#[test]
fn activation_skips_backoff_and_hints() {
    let plugins = Plugins::default();
    let pods = [(1, rejected(&[PluginName::NodeAffinity])), (2, rejected(&[PluginName::NodePorts]))];
    let mut queue = unschedulable(&pods, &plugins);
    queue.move_all(at(1.5), &POD_DELETE, &plugins);
    assert_eq!((queue.place(1), queue.place(2)), (Some(Place::Unschedulable), Some(Place::Backoff)));
    queue.activate(at(1.6), [1, 2, 99], &plugins);
    assert_eq!((queue.place(1), queue.place(2), queue.place(99)), (Some(Place::Active), Some(Place::Active), None));
    let (first, second) = (queue.pop().unwrap(), queue.pop().unwrap());
    queue.activate(at(1.7), [first], &plugins);
    let mut back = |key| queue.add_unschedulable(at(1.8), key, rejected(&[PluginName::NodeAffinity]), &plugins);
    assert_eq!(back(first), Ok(Some(Place::Backoff)), "activated in flight, tried again");
    assert_eq!(back(second), Ok(Some(Place::Unschedulable)), "the activation was for another pod");
}

#[test]
fn a_deleted_pod_is_gone_wherever_it_was() {
    let plugins = Plugins { gates: BTreeMap::from([(5, PluginName::SchedulingGates)]), ..Plugins::default() };
    let mut queue = unschedulable(&[(1, rejected(&[PluginName::NodeAffinity]))], &plugins);
    for key in 2..=5 {
        queue.add(at(2.0 + key as f64), key, priority(0), &plugins);
    }
    assert_eq!(queue.pop(), Some(2));
    queue.add_unschedulable(at(9.0), 2, Rejectors::default(), &plugins).unwrap();
    assert_eq!(queue.pop(), Some(3));
    for key in 1..=5 {
        queue.nominate(key, Nomination::Node("n"));
        assert!(queue.delete(key), "{key}");
    }
    assert!(!queue.delete(7));
    assert_eq!(queue.nominated_pods("n"), [0u64; 0]);
    assert_eq!(queue.place(3), Some(Place::InFlight), "until its attempt ends");
    queue.nominate(3, Nomination::Node("n"));
    assert_eq!(queue.nominated_node(3), None);
    assert_eq!(queue.add_unschedulable(at(10.0), 3, Rejectors::default(), &plugins), Ok(None));
    assert!(queue.is_empty() && queue.pop().is_none());
    assert_eq!(queue.flush_backoff(at(99.0)) + queue.flush_unschedulable(at(9999.0), &plugins), 0);
}

#[test]
fn only_a_pod_in_flight_can_come_back() {
    let plugins = Plugins::default();
    let mut queue = Queue::new(Settings::default());
    assert_eq!(queue.add_unschedulable(at(0.0), 1, Rejectors::default(), &plugins), Err(NotInFlight));
    queue.add(at(0.0), 1, priority(0), &plugins);
    assert_eq!(queue.add_unschedulable(at(0.0), 1, Rejectors::default(), &plugins), Err(NotInFlight));
    queue.done(1);
    assert_eq!(queue.place(1), Some(Place::Active), "a pod that is not in flight is not done");
    queue.pop();
    assert_eq!(queue.add(at(0.1), 1, priority(0), &plugins), Place::InFlight, "it is here already");
    queue.done(1);
    assert!(queue.is_empty());
}

#[test]
fn nominations_follow_attempts_and_updates() {
    let plugins = Plugins::default();
    let fields = |node| PodFields { priority: 0, nominated_node: node };
    let mut queue = Queue::new(Settings::default());
    queue.add(at(0.0), 1, fields(Some("a")), &plugins);
    queue.add(at(0.1), 2, fields(None), &plugins);
    assert_eq!((queue.nominated_pods("a"), queue.nominated_node(2)), ([1].as_slice(), None));
    queue.nominate(2, Nomination::Node("a"));
    assert_eq!(queue.nominated_pods("a"), [1, 2]);
    queue.update(at(0.2), 2, fields(None), &[], &plugins);
    assert_eq!(queue.nominated_node(2), Some("a"), "the update did not know of it yet");
    queue.update(at(0.3), 2, fields(Some("b")), &[], &plugins);
    assert_eq!(queue.nominated_node(2), Some("b"));
    queue.remove_nomination(1);
    queue.nominate(2, Nomination::None);
    assert_eq!((queue.nominated_node(1), queue.nominated_node(2)), (None, None));
    queue.nominate(2, Nomination::FromStatus);
    assert_eq!(queue.nominated_node(2), Some("b"));
}

#[test]
fn a_hundred_thousand_pods_are_no_trouble() {
    const PODS: u64 = 100_000;
    let plugins = Plugins::default();
    let mut queue = Queue::new(Settings::default());
    for key in 0..PODS {
        queue.add(Duration::from_nanos(key), key, priority((key % 7) as i32), &plugins);
    }
    for _ in 0..PODS {
        let key = queue.pop().unwrap();
        queue.add_unschedulable(at(1.0), key, rejected(&[PluginName::NodeAffinity]), &plugins).unwrap();
        // However many pods are unschedulable, an event that concerns none of them costs nothing.
        assert_eq!(queue.move_all(at(1.0), &POD_DELETE, &plugins), 0);
    }
    assert_eq!(queue.len(Place::Unschedulable), PODS as usize);
    assert_eq!(queue.move_all(at(9.0), &NODE_ADD, &plugins), PODS as usize);
    assert_eq!(queue.len(Place::Active), PODS as usize);
}
