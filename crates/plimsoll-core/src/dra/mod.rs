//! Dynamic Resource Allocation.

pub mod cel;
