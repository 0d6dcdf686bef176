//! The measures as reports name them. Their definitions are the documentation of [`Measures`], read from its schema, so they
//! are written once.

use crate::measures::{Measures, Row};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What is better of a measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Less of it.
    Less,
    /// More of it.
    More,
    /// Neither: it says what happened.
    Neither,
}

/// A measure as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entry {
    /// Its name in JSON, and in scenarios.
    pub key: &'static str,
    /// Its name in reports.
    pub label: &'static str,
    /// What it is counted in; `%` for shares, which are shown in per cent.
    pub unit: &'static str,
    /// What is better.
    pub better: Better,
    /// Whether the overview shows it.
    #[serde(skip)]
    pub overview: bool,
    /// What it is.
    pub definition: String,
}

use Better::{Less, More, Neither};

/// Key, label, unit, what is better, whether in the overview.
type Listed = (&'static str, &'static str, &'static str, Better, bool);

const ENTRIES: &[Listed] = &[
    ("active_nodes_ratio", "Machines / bound", "×", Less, true),
    ("kw_ratio", "Power / bound", "×", Less, true),
    ("active_nodes", "Active machines", "", Less, true),
    ("mean_kw", "Power", "kW", Less, true),
    ("kwh", "Energy", "kWh", Less, true),
    ("node_hours", "Machine-hours", "h", Less, false),
    ("co2_kg", "CO₂", "kg", Less, true),
    ("cost", "Cost", "", Less, true),
    ("transfer_cost", "Transfer cost", "", Less, true),
    ("away_share", "Away from home", "%", Neither, true),
    ("cpu_utilization", "CPU allocated", "%", More, true),
    ("memory_utilization", "Memory allocated", "%", More, false),
    ("cpu_spread", "CPU spread", "%", Neither, false),
    ("memory_spread", "Memory spread", "%", Neither, false),
    ("fragmentation", "Fragmentation", "%", Less, true),
    ("gpu_utilization", "GPU allocated", "%", More, true),
    ("gpu_fragmentation", "GPU fragmentation", "%", Less, true),
    ("empty_node_share", "Empty machines", "%", Neither, false),
    ("wakes", "Wakes", "", Less, false),
    ("overload_minutes", "Overload", "min", Less, false),
    ("thermal_minutes", "Over thermal limit", "min", Less, false),
    ("wait_mean_s", "Mean wait", "s", Less, false),
    ("wait_p50_s", "Median wait", "s", Less, false),
    ("wait_p95_s", "Wait p95", "s", Less, true),
    ("wait_p99_s", "Wait p99", "s", Less, false),
    ("latency_mean_ms", "Mean latency", "ms", Less, true),
    ("latency_p95_ms", "Latency p95", "ms", Less, false),
    ("soft_violation_minutes", "Above soft latency", "min", Less, false),
    ("hard_violation_minutes", "Above hard latency", "min", Less, false),
    ("call_latency_ms", "Call latency", "ms", Less, true),
    ("arrived", "Arrived", "pods", Neither, false),
    ("placed", "Placed", "pods", More, false),
    ("running", "Running at the end", "pods", Neither, false),
    ("finished", "Finished", "pods", More, false),
    ("rejected", "Rejected", "pods", Less, true),
    ("waiting", "Waiting at the end", "pods", Less, false),
    ("preemptions", "Preemptions", "pods", Less, false),
    ("evictions", "Evictions", "pods", Less, false),
    ("hours", "Hours measured", "h", Neither, false),
];

/// Every measure, in the order of reports.
pub fn entries() -> Vec<Entry> {
    let measures = schemars::schema_for!(Measures).to_value();
    let row = schemars::schema_for!(Row).to_value();
    let described = |schema: &Value, key: &str| schema["properties"][key]["description"].as_str().map(str::to_owned);
    let entry = |(key, label, unit, better, overview): &Listed| Entry {
        key,
        label,
        unit,
        better: *better,
        overview: *overview,
        definition: described(&measures, key).or_else(|| described(&row, key)).unwrap_or_default(),
    };
    ENTRIES.iter().map(entry).collect()
}

/// The measure of this name, in which `-` and `_` are alike.
pub fn entry(name: &str) -> Option<Entry> {
    let name = name.replace('-', "_");
    entries().into_iter().find(|entry| entry.key == name)
}

/// A row's values, one an entry; shares in per cent, none where it was not measured.
pub fn values(row: &Row, entries: &[Entry]) -> Vec<Option<f64>> {
    let measures = serde_json::to_value(row.measures).unwrap_or_default();
    let value = |entry: &Entry| {
        let value = match entry.key {
            "active_nodes_ratio" => Some(row.active_nodes_ratio),
            "kw_ratio" => Some(row.kw_ratio),
            key => measures.get(key).and_then(Value::as_f64),
        };
        let scale = if entry.unit == "%" { 100.0 } else { 1.0 };
        value.filter(|value| value.is_finite()).map(|value| value * scale)
    };
    entries.iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measure_is_found_by_its_name_however_it_is_joined() {
        assert_eq!(entry("node-hours"), entry("node_hours"));
        assert_eq!(entry("node-hours").map(|entry| entry.better), Some(Less));
        assert_eq!(entry("joy"), None);
    }

    #[test]
    fn every_measure_is_in_the_catalogue_once_with_its_definition() {
        let schema = schemars::schema_for!(Measures).to_value();
        let mut fields: Vec<String> = schema["properties"].as_object().unwrap().keys().cloned().collect();
        fields.extend(["active_nodes_ratio", "kw_ratio"].map(str::to_owned));
        let mut keys: Vec<String> = entries().iter().map(|entry| entry.key.to_owned()).collect();
        fields.sort();
        keys.sort();
        assert_eq!(keys, fields);
        let bare: Vec<&str> =
            entries().iter().filter(|entry| entry.definition.is_empty()).map(|entry| entry.key).collect();
        assert!(bare.is_empty(), "without a definition: {bare:?}");
    }
}
