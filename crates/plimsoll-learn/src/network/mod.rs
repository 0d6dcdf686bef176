//! Networks: from what a decision looks like to a score for each node, whatever their number and order.

pub mod fused;
