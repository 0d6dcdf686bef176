//! NodePorts: a host port is given once a host.

use crate::config::PluginName;
use crate::framework::{Code, Cycle, Plugin, PreFilter, Refusal};
use crate::state::Node;

#[derive(Debug, Default)]
pub struct NodePorts;

const REFUSAL: Refusal = Refusal::new(PluginName::NodePorts, Code::Unschedulable, 0);

impl Plugin for NodePorts {
    fn name(&self) -> PluginName {
        PluginName::NodePorts
    }

    fn is_local(&self) -> bool {
        true
    }

    fn pre_filter(&mut self, cycle: &Cycle<'_>) -> PreFilter {
        if cycle.local().ports.is_empty() { PreFilter::Skip } else { PreFilter::Continue }
    }

    fn filter(&self, cycle: &Cycle<'_>, node: &Node) -> Option<Refusal> {
        cycle.local().ports.iter().any(|port| node.has_port_conflict(port)).then_some(REFUSAL)
    }

    fn reasons(&self, _: &Cycle<'_>, _: &Node, _: Refusal) -> Vec<String> {
        vec!["node(s) didn't have free ports for the requested pod ports".into()]
    }
}
