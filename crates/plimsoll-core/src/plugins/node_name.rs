//! NodeName: a pod that names its node goes nowhere else.

use crate::config::PluginName;
use crate::framework::{Code, Cycle, Plugin, Refusal};
use crate::state::Node;

#[derive(Debug, Default)]
pub struct NodeName;

const REFUSAL: Refusal = Refusal::new(PluginName::NodeName, Code::UnschedulableAndUnresolvable, 0);

impl Plugin for NodeName {
    fn name(&self) -> PluginName {
        PluginName::NodeName
    }

    /// The name is the single pod's, but then nothing about that pod is remembered: see [`crate::rules::Rules::filter`].
    fn is_local(&self) -> bool {
        true
    }

    fn filter(&self, cycle: &Cycle<'_>, node: &Node) -> Option<Refusal> {
        let fits = cycle.pod.node_name.is_none_or(|wanted| wanted == node.spec.name);
        (!fits).then_some(REFUSAL)
    }

    fn reasons(&self, _: &Cycle<'_>, _: &Node, _: Refusal) -> Vec<String> {
        vec!["node(s) didn't match the requested node name".into()]
    }
}
