//! Whatever happens, every pod is in one place.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::config::PluginSet;

#[derive(Clone, Debug)]
enum Operation {
    Add(u64, i32),
    Update(u64, i32, bool),
    Delete(u64),
    Pop,
    Done(u64),
    Fail(u64, u8),
    Happen(u8),
    Activate(u64),
    Gate(u64, bool),
    Flush,
    Wait(u32),
}

fn operation() -> impl Strategy<Value = Operation> {
    let key = 0..12u64;
    prop_oneof![
        4 => (key.clone(), -2..3).prop_map(|(key, rank)| Operation::Add(key, rank)),
        2 => (key.clone(), -2..3, any::<bool>()).prop_map(|(key, rank, helps)| Operation::Update(key, rank, helps)),
        1 => key.clone().prop_map(Operation::Delete),
        5 => Just(Operation::Pop),
        1 => key.clone().prop_map(Operation::Done),
        5 => (key.clone(), 0..6u8).prop_map(|(key, by)| Operation::Fail(key, by)),
        3 => (0..4u8).prop_map(Operation::Happen),
        1 => key.clone().prop_map(Operation::Activate),
        2 => (key, any::<bool>()).prop_map(|(key, gated)| Operation::Gate(key, gated)),
        1 => Just(Operation::Flush),
        2 => (0..400_000u32).prop_map(Operation::Wait),
    ]
}

/// Every pod in one place, and every order and index in agreement with it.
fn check(queue: &Queue, expected: &BTreeSet<u64>) {
    let mut found = BTreeSet::new();
    for place in [Place::Active, Place::Backoff, Place::Unschedulable, Place::InFlight] {
        let keys = queue.keys(place);
        assert_eq!(keys.len(), queue.len(place), "{place:?}");
        for key in keys {
            assert_eq!(queue.place(key), Some(place), "{key}");
            assert!(found.insert(key), "{key} is in two places");
            let gated = queue.get(key).unwrap().gated_by.is_some();
            assert!(!gated || place == Place::Unschedulable, "{key} is gated and in {place:?}");
        }
    }
    assert_eq!(found, *expected, "pods were lost or left behind");
    assert_eq!(queue.is_empty(), expected.is_empty());
    let ranks: Vec<_> = queue.keys(Place::Active).iter().map(|key| queue.get(*key).unwrap().fields.priority).collect();
    assert!(ranks.is_sorted_by(|first, second| first >= second), "{ranks:?}");
    let everyone = Interest { asked: PluginName::ALL.into_iter().collect(), always: PluginSet::EMPTY, extender: true };
    let indexed: BTreeSet<_> = queue.places.rejected_by(everyone).into_iter().collect();
    assert_eq!(indexed, queue.keys(Place::Unschedulable).into_iter().collect(), "the index by rejector");
    assert!(queue.len(Place::InFlight) > 0 || queue.in_flight.remembered() == 0, "events nobody asks for");
}

proptest! {
    #[test]
    fn no_pod_is_ever_lost_or_in_two_places(operations in prop::collection::vec(operation(), 0..200)) {
        let mut plugins = Plugins::default();
        let mut queue = Queue::new(Settings::default());
        let mut expected = BTreeSet::new();
        let mut now = Duration::ZERO;
        let mut deleted_in_flight = BTreeSet::new();
        for operation in operations {
            match operation {
                Operation::Add(key, rank) => {
                    queue.add(now, key, priority(rank), &plugins);
                    deleted_in_flight.remove(&key);
                    expected.insert(key);
                }
                Operation::Update(key, rank, helps) => {
                    let object = if helps { "" } else { "useless" };
                    let event = Event::new(EventResource::UnschedulablePod, ActionType::UPDATE_POD_LABEL, object);
                    queue.update(now, key, priority(rank), &[event], &plugins);
                    expected.insert(key);
                }
                Operation::Delete(key) => {
                    prop_assert_eq!(queue.delete(key), expected.contains(&key));
                    if queue.place(key) == Some(Place::InFlight) {
                        deleted_in_flight.insert(key);
                    } else {
                        expected.remove(&key);
                    }
                }
                Operation::Pop => {
                    let first = queue.keys(Place::Active).first().copied();
                    let popped = queue.pop();
                    prop_assert!(first.is_none() || first == popped);
                }
                Operation::Done(key) => {
                    if queue.place(key) == Some(Place::InFlight) {
                        expected.remove(&key);
                        deleted_in_flight.remove(&key);
                    }
                    queue.done(key);
                }
                Operation::Fail(key, by) => {
                    let rejectors = match by {
                        0 => Rejectors::default(),
                        1 => Rejectors { extender: true, ..Rejectors::default() },
                        2 => pending(&[PluginName::DynamicResources]),
                        3 => rejected(&[PluginName::NodeAffinity, PluginName::InterPodAffinity]),
                        _ => rejected(&[PluginName::NodePorts]),
                    };
                    let in_flight = queue.place(key) == Some(Place::InFlight);
                    let back = queue.add_unschedulable(now, key, rejectors, &plugins);
                    prop_assert_eq!(back.is_ok(), in_flight);
                    if deleted_in_flight.remove(&key) {
                        prop_assert_eq!(back, Ok(None));
                        expected.remove(&key);
                    }
                }
                Operation::Happen(0) => { queue.move_all(now, &NODE_ADD, &plugins); }
                Operation::Happen(1) => { queue.move_all(now, &POD_DELETE, &plugins); }
                Operation::Happen(2) => { queue.move_all(now, &Event { object: "useless", ..NODE_ADD }, &plugins); }
                Operation::Happen(_) => {
                    queue.move_all(now, &Event::new(EventResource::WildCard, ActionType::ALL, ""), &plugins);
                }
                Operation::Activate(key) => queue.activate(now, [key], &plugins),
                Operation::Gate(key, true) => { plugins.gates.insert(key, PluginName::SchedulingGates); }
                Operation::Gate(key, false) => { plugins.gates.remove(&key); }
                Operation::Flush => {
                    queue.flush_backoff(now);
                    queue.flush_unschedulable(now, &plugins);
                }
                Operation::Wait(milliseconds) => now += Duration::from_millis(milliseconds.into()),
            }
            check(&queue, &expected);
        }
    }
}
