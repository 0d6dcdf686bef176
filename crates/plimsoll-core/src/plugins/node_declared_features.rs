//! NodeDeclaredFeatures: a pod that needs a feature goes to nodes that declare it.

use crate::config::PluginName;
use crate::framework::{Code, Cycle, Plugin, PreFilter, Refusal};
use crate::state::Node;

#[derive(Debug, Default)]
pub struct NodeDeclaredFeatures;

const REFUSAL: Refusal = Refusal::new(PluginName::NodeDeclaredFeatures, Code::UnschedulableAndUnresolvable, 0);

impl Plugin for NodeDeclaredFeatures {
    fn name(&self) -> PluginName {
        PluginName::NodeDeclaredFeatures
    }

    fn is_local(&self) -> bool {
        true
    }

    fn pre_filter(&mut self, cycle: &Cycle<'_>) -> PreFilter {
        if cycle.local().features.is_empty() { PreFilter::Skip } else { PreFilter::Continue }
    }

    fn filter(&self, cycle: &Cycle<'_>, node: &Node) -> Option<Refusal> {
        let declared = &node.spec.features;
        (!cycle.local().features.iter().all(|feature| declared.contains(feature))).then_some(REFUSAL)
    }

    fn reasons(&self, _: &Cycle<'_>, _: &Node, _: Refusal) -> Vec<String> {
        vec!["node(s) didn't match Pod's required features".into()]
    }
}
