//! The golden cases say which plugins kube-scheduler ran under a configuration; ours must be the same.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde::Deserialize;

use crate::config::{Configuration, ExtensionPoint, PluginName};

#[derive(Deserialize)]
struct Case {
    name: String,
    config: Option<serde_json::Value>,
    expect: Expect,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Expect {
    pre_filter: Option<Rejection>,
    #[serde(default)]
    rejected: BTreeMap<String, Rejection>,
    #[serde(default)]
    scores: BTreeMap<String, BTreeMap<String, i64>>,
}

#[derive(Deserialize)]
struct Rejection {
    #[serde(default)]
    plugin: String,
}

#[test]
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn the_plugins_of_golden_cases_are_those_enabled() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance/sample.jsonl.gz");
    let Ok(file) = File::open(&sample) else {
        eprintln!("skipped: the golden cases are not at {}", sample.display());
        return;
    };
    let mut configurations = 0;
    for line in BufReader::new(flate2::read::GzDecoder::new(file)).lines() {
        let Case { name, config, expect } = serde_json::from_str(&line.unwrap()).unwrap();
        let configuration = match config {
            None => Configuration::default(),
            Some(config) => {
                configurations += 1;
                let text = serde_json::to_string(&config).unwrap();
                let parsed = Configuration::parse(&name, &text).unwrap_or_else(|errors| panic!("{errors}"));
                assert_eq!(Configuration::from_value(&name, config).as_ref(), Ok(&parsed), "{name}");
                parsed
            }
        };
        let plugins = &configuration.profiles[0].plugins;
        for (plugin, scores) in &expect.scores {
            let plugin: PluginName = plugin.parse().unwrap();
            let Some(enabled) = plugins.score.iter().find(|weighted| weighted.plugin == plugin) else {
                panic!("{name}: {plugin} scored, but is not among {:?}", plugins.score);
            };
            for (node, &score) in scores {
                let most = i64::from(enabled.weight) * 100;
                assert!((0..=most).contains(&score), "{name}: {plugin} gave {node} {score}, weight {}", enabled.weight);
                assert_eq!(score % i64::from(enabled.weight), 0, "{name}: {plugin} on {node}");
            }
        }
        let refused = expect.rejected.values().map(|rejection| (ExtensionPoint::Filter, rejection));
        let refused = refused.chain(expect.pre_filter.iter().map(|rejection| (ExtensionPoint::PreFilter, rejection)));
        for (point, rejection) in refused.filter(|(_, rejection)| !rejection.plugin.is_empty()) {
            let plugin: PluginName = rejection.plugin.parse().unwrap();
            assert!(plugins.at(point).contains(&plugin), "{name}: {plugin} refused at {point}, but is not enabled");
        }
    }
    assert!(configurations >= 100, "only {configurations} cases have a configuration");
}
