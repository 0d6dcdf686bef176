//! Experiments and training on a real cluster: a kube-scheduler with our plugin places pods, and asks us.

mod blocker;
mod environment;
mod site;
mod spec;
pub mod thesis;
pub mod training;
