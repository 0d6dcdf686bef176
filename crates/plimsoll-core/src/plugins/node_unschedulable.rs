//! NodeUnschedulable: a cordoned node takes only pods that tolerate it.

use crate::config::PluginName;
use crate::framework::{Code, Cycle, Plugin, Refusal};
use crate::model::{Effect, Sym, Taint};
use crate::state::Node;

#[derive(Debug, Default)]
pub struct NodeUnschedulable;

const REFUSAL: Refusal = Refusal::new(PluginName::NodeUnschedulable, Code::UnschedulableAndUnresolvable, 0);

impl Plugin for NodeUnschedulable {
    fn name(&self) -> PluginName {
        PluginName::NodeUnschedulable
    }

    fn is_local(&self) -> bool {
        true
    }

    fn filter(&self, cycle: &Cycle<'_>, node: &Node) -> Option<Refusal> {
        if !node.spec.unschedulable {
            return None;
        }
        let taint = Taint { key: cycle.state.well_known.unschedulable, value: Sym::EMPTY, effect: Effect::NoSchedule };
        let tolerated = cycle.local().tolerations.iter().any(|toleration| toleration.tolerates(&taint));
        (!tolerated).then_some(REFUSAL)
    }

    fn reasons(&self, _: &Cycle<'_>, _: &Node, _: Refusal) -> Vec<String> {
        vec!["node(s) were unschedulable".into()]
    }
}
