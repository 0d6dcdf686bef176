//! The commands, one file each: what can be asked for, and what is done then.

pub mod bounds;
pub mod check_config;
pub mod compare;
pub mod conformance;
pub mod demo;
pub mod evaluate;
#[cfg(feature = "burn")]
pub mod experiment;
pub mod explain;
#[cfg(target_os = "linux")]
pub mod lab;
#[cfg(feature = "load")]
pub mod load;
pub mod models;
pub mod place;
pub mod policies;
pub mod record;
pub mod run;
pub mod scenario;
pub mod serve;
pub mod simulate;
pub mod trace;
pub mod train;
pub mod tune;
