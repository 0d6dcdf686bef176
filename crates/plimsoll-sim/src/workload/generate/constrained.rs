//! Pods with the constraints that manifests have: selectors, tolerations, affinity, spreading, priorities.
//!
//! They name zones `a`, `b` and `c`, the label `disk=ssd` and the taint `dedicated=batch:NoSchedule`; a fleet that has none of these leaves
//! some of them waiting, which is a test of its own.

use super::draw::exponential;
use super::lifetime::{LifetimeSetting, known, time};
use super::{add, few_enough, positive};
use crate::workload::{Builder, PodRecord, Template, Workload};
use k8s_openapi::api::core::v1::PodSpec;
use plimsoll_core::rng::Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Settings of constrained pods.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Constrained {
    /// How many pods.
    pub pods: u32,
    /// Arrivals an hour, on average.
    pub pods_per_hour: f64,
    /// How many applications they belong to: pods of one are alike.
    pub apps: u32,
    /// How long they run.
    pub lifetime: LifetimeSetting,
}

impl Default for Constrained {
    fn default() -> Self {
        let lifetime = LifetimeSetting::LogNormal { median_s: 7200.0, sigma: 1.0 };
        Self { pods: 200, pods_per_hour: 120.0, apps: 12, lifetime }
    }
}

impl Constrained {
    pub(super) fn generate(&self, seed: u64) -> Result<Workload, String> {
        positive("pods", f64::from(self.pods))?;
        positive("apps", f64::from(self.apps))?;
        positive("pods_per_hour", self.pods_per_hour)?;
        few_enough(f64::from(self.pods))?;
        self.lifetime.check()?;
        let (mut rng, mut builder) = (Rng::new(seed), Builder::new());
        let mut templates = Vec::new();
        for app in 0..self.apps {
            templates.push(builder.template(template(app, self.apps, &mut rng)?));
        }
        let mut now = 0.0;
        for number in 0..self.pods {
            let app = rng.below(templates.len());
            let pod = PodRecord {
                name: format!("app-{app}-{number}").into(),
                template: templates[app],
                owner: app as u32,
                arrival: time(now),
                lifetime: known(self.lifetime.draw(&mut rng)),
                usage: None,
            };
            add(&mut builder, pod);
            now += exponential(&mut rng, 3600.0 / self.pods_per_hour);
        }
        Ok(builder.finish("", Vec::new()))
    }
}

fn template(app: u32, apps: u32, rng: &mut Rng) -> Result<Template, String> {
    let cpu_milli = [100, 250, 500, 1000, 2000][rng.below(5)];
    let memory = [128, 256, 1024, 4096][rng.below(4)] << 20;
    let priority = [0, 0, 0, 10, 1000][rng.below(5)];
    let mut spec = json!({"containers": [], "priority": priority});
    let mut one_in = |chances: usize| rng.below(chances) == 0;
    if one_in(5) {
        spec["nodeSelector"] = json!({"disk": "ssd"});
    }
    if one_in(3) {
        spec["tolerations"] =
            json!([{"key": "dedicated", "operator": "Equal", "value": "batch", "effect": "NoSchedule"}]);
    }
    if one_in(4) {
        let zone = ["a", "b", "c"][rng.below(3)];
        let expression = json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]});
        let preference = json!({"weight": 1 + rng.below(100), "preference": {"matchExpressions": [expression]}});
        spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] = json!([preference]);
    }
    let own = json!({"matchLabels": {"app": name(app)}});
    match rng.below(6) {
        0 => spec["affinity"]["podAntiAffinity"] = required(&own, "kubernetes.io/hostname"),
        1 => {
            let other = json!({"matchLabels": {"app": name(rng.below(apps as usize) as u32)}});
            let kind = ["podAffinity", "podAntiAffinity"][rng.below(2)];
            let term = json!({"labelSelector": other, "topologyKey": "topology.kubernetes.io/zone"});
            let preferred = json!([{"weight": 1 + rng.below(100), "podAffinityTerm": term}]);
            spec["affinity"][kind]["preferredDuringSchedulingIgnoredDuringExecution"] = preferred;
        }
        2 => spec["affinity"]["podAffinity"] = required(&own, "topology.kubernetes.io/zone"),
        _ => {}
    }
    if rng.below(3) == 0 {
        let key = ["topology.kubernetes.io/zone", "kubernetes.io/hostname"][rng.below(2)];
        let when = ["DoNotSchedule", "ScheduleAnyway"][rng.below(2)];
        let constraint = json!({"maxSkew": 1 + rng.below(2), "topologyKey": key, "whenUnsatisfiable": when,
                                "labelSelector": own});
        spec["topologySpreadConstraints"] = json!([constraint]);
    }
    let spec: PodSpec = serde_json::from_value(spec).map_err(|error| format!("a pod cannot be made: {error}"))?;
    Ok(Template {
        app: Some(name(app)),
        cpu_milli,
        memory,
        priority,
        spec: Some(Box::new(spec)),
        ..Template::default()
    })
}

fn name(app: u32) -> String {
    format!("app-{app}")
}

fn required(selector: &Value, topology: &str) -> Value {
    let term = json!({"labelSelector": selector, "topologyKey": topology});
    json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]})
}
