//! The commands, one file each: what can be asked for, and what is done then.

pub mod check_config;
pub mod conformance;
pub mod demo;
pub mod explain;
pub mod place;
pub mod policies;
pub mod trace;
