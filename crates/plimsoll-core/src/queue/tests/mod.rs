mod behaviour;
mod properties;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::config::PluginName;

type Queue = SchedulingQueue<u64, &'static str, &'static str>;

const NODE_ADD: Event<&str> = Event::new(EventResource::Node, ActionType::ADD, "");
const POD_DELETE: Event<&str> = Event::new(EventResource::AssignedPod, ActionType::DELETE, "");

/// Plugins that find every event helpful unless its object says `useless`, and gate the pods they are told to.
#[derive(Default)]
struct Plugins {
    gates: BTreeMap<u64, PluginName>,
    asked: RefCell<Vec<(PluginName, u64)>>,
}

impl Hints<u64, &'static str> for Plugins {
    fn hint(&self, plugin: PluginName, pod: u64, event: &Event<&'static str>) -> Hint {
        self.asked.borrow_mut().push((plugin, pod));
        if event.object == "useless" { Hint::Skip } else { Hint::Queue }
    }

    fn pre_enqueue(&self, pod: u64, _: Option<PluginName>) -> Option<PluginName> {
        self.gates.get(&pod).copied()
    }
}

fn at(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn priority(priority: i32) -> PodFields<&'static str> {
    PodFields { priority, nominated_node: None }
}

fn rejected(plugins: &[PluginName]) -> Rejectors {
    Rejectors { unschedulable: plugins.iter().copied().collect(), ..Rejectors::default() }
}

fn pending(plugins: &[PluginName]) -> Rejectors {
    Rejectors { pending: plugins.iter().copied().collect(), ..Rejectors::default() }
}

/// A queue at one second with pods of these keys, all of which came back rejected.
fn unschedulable(pods: &[(u64, Rejectors)], plugins: &Plugins) -> Queue {
    let mut queue = Queue::new(Settings::default());
    for (key, rejectors) in pods {
        queue.add(at(0.5), *key, priority(0), plugins);
        assert_eq!(queue.pop(), Some(*key));
        assert_eq!(queue.add_unschedulable(at(1.0), *key, *rejectors, plugins), Ok(Some(Place::Unschedulable)));
    }
    queue
}
