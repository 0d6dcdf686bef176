//! Traces of attempts, for whoever collects them.

use std::time::Duration;

/// One attempt at a pod that has ended now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traced<'a> {
    /// The pod's namespace.
    pub namespace: &'a str,
    /// The pod's name.
    pub name: &'a str,
    /// The node, if it has one.
    pub node: Option<&'a str>,
    /// The profile, by its scheduler name.
    pub profile: &'a str,
    /// What came of it, as metrics have it: `scheduled`, `unschedulable` or `error`.
    pub result: &'static str,
    /// How long the decision took.
    pub decided: Duration,
    /// How long all of it took.
    pub took: Duration,
}

/// Somebody who collects traces. It must not wait for anything: the engine does.
pub trait Tracer: Send {
    /// An attempt has ended.
    fn trace(&mut self, attempt: &Traced<'_>);
}
