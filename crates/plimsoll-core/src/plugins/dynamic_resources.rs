//! stub
use crate::config::PluginName; use crate::framework::*;
#[derive(Debug)] pub struct DynamicResources;
impl DynamicResources { pub fn new() -> Self { Self } }
impl Plugin for DynamicResources { fn name(&self) -> PluginName { PluginName::DynamicResources } fn pre_filter(&mut self, _: &Cycle<'_>) -> PreFilter { PreFilter::Skip } fn pre_score(&mut self, _: &Cycle<'_>, _: &[crate::state::NodeId]) -> PreScore { PreScore::Skip } }
