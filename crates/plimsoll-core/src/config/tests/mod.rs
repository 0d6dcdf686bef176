mod conformance;
mod errors;
mod merge;
mod values;

use super::{ConfigErrors, Configuration};

/// A configuration with this text after its header.
fn parse(body: &str) -> Result<Configuration, ConfigErrors> {
    let text = format!("apiVersion: {}\nkind: {}\n{body}", super::API_VERSION, super::KIND);
    Configuration::parse("scheduler.yaml", &text)
}

/// Like [`parse`], of a configuration that is right.
fn configuration(body: &str) -> Configuration {
    parse(body).unwrap_or_else(|errors| panic!("{body}\n{errors}"))
}

/// Like [`configuration`], with one profile and this text in it.
fn profile(body: &str) -> super::Profile {
    let indented: String = body.lines().map(|line| format!("  {line}\n")).collect();
    let mut configuration = configuration(&format!("profiles:\n- schedulerName: default-scheduler\n{indented}"));
    assert_eq!(configuration.profiles.len(), 1);
    configuration.profiles.remove(0)
}
