//! An online shop of eleven services that call each other, rolled out anew now and then.

use super::draw::exponential;
use super::lifetime::time;
use super::thesis::constraint;
use super::{add, few_enough, short_enough};
use crate::workload::{Builder, Call, Lifetime, PodRecord, Template, Workload};
use plimsoll_core::rng::Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of the shop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Shop {
    /// How many times the usual replicas each service has.
    pub size: u32,
    /// How many shops there are, each in a namespace of its own.
    pub shops: u32,
    /// How long the shop runs.
    pub hours: f64,
    /// How often each service is rolled out anew, on average; 0: never.
    pub rollouts_per_day: f64,
    /// From the creation of one pod of a service to that of the next, in seconds.
    pub stagger_s: f64,
    /// How long a new pod runs beside the old one that it replaces, in seconds.
    pub overlap_s: f64,
    /// Whether what users meet, the storefront, bears only so much latency to them.
    pub latency: bool,
    /// Latency that is pleasant, in ms.
    pub latency_soft_ms: f64,
    /// Latency that is bearable, in ms.
    pub latency_hard_ms: f64,
}

impl Default for Shop {
    fn default() -> Self {
        Self {
            size: 1,
            shops: 1,
            hours: 48.0,
            rollouts_per_day: 2.0,
            stagger_s: 2.0,
            overlap_s: 20.0,
            latency: false,
            latency_soft_ms: 20.0,
            latency_hard_ms: 30.0,
        }
    }
}

/// What users meet.
const FRONT: &str = "storefront";

/// The services: CPU in thousandths, memory in MiB, replicas.
const SERVICES: [(&str, i64, i64, u32); 11] = [
    (FRONT, 500, 256, 3),
    ("catalogue", 250, 128, 2),
    ("prices", 200, 64, 2),
    ("basket", 200, 128, 2),
    ("basket-store", 250, 512, 1),
    ("suggestions", 300, 384, 2),
    ("banners", 150, 128, 1),
    ("orders", 250, 128, 2),
    ("payments", 100, 64, 1),
    ("delivery", 100, 64, 1),
    ("mailer", 100, 96, 1),
];

/// Who asks whom, and how often for each request of a user: one in twenty orders something.
const CALLS: [(&str, &str, f64); 15] = [
    (FRONT, "catalogue", 2.0),
    (FRONT, "prices", 1.6),
    (FRONT, "basket", 0.8),
    (FRONT, "suggestions", 0.7),
    (FRONT, "banners", 0.9),
    (FRONT, "delivery", 0.1),
    (FRONT, "orders", 0.05),
    ("basket", "basket-store", 0.9),
    ("suggestions", "catalogue", 0.7),
    ("orders", "basket", 0.1),
    ("orders", "catalogue", 0.15),
    ("orders", "prices", 0.15),
    ("orders", "payments", 0.05),
    ("orders", "delivery", 0.1),
    ("orders", "mailer", 0.05),
];

const MIB: i64 = 1 << 20;

impl Shop {
    pub(super) fn generate(&self, seed: u64) -> Result<Workload, String> {
        self.check()?;
        let latency = constraint(self.latency, self.latency_soft_ms, self.latency_hard_ms)?;
        let (mut rng, mut builder) = (Rng::new(seed), Builder::new());
        let mut owner = 0;
        for shop in 0..self.shops {
            let namespace = if self.shops == 1 { "shop".to_owned() } else { format!("shop-{shop}") };
            for (service, cpu_milli, memory_mib, replicas) in SERVICES {
                let template = builder.template(Template {
                    namespace: namespace.clone(),
                    app: Some(service.to_owned()),
                    cpu_milli,
                    memory: memory_mib * MIB,
                    latency: latency.filter(|_| service == FRONT),
                    ..Template::default()
                });
                let rollouts = self.rollouts(&mut rng);
                for replica in 0..replicas * self.size {
                    let stagger = f64::from(replica) * self.stagger_s;
                    for (revision, start) in rollouts.iter().enumerate() {
                        let end = rollouts.get(revision + 1).map(|next| next + self.overlap_s - start);
                        let pod = PodRecord {
                            name: format!("{namespace}-{service}-{revision}-{replica}").into(),
                            template,
                            owner,
                            arrival: time(start + stagger),
                            lifetime: end.map(|end| Lifetime::exactly(time(end))),
                            usage: None,
                        };
                        add(&mut builder, pod);
                    }
                }
                owner += 1;
            }
        }
        let call =
            |(from, to, per_request): (&str, &str, f64)| Call { from: from.to_owned(), to: to.to_owned(), per_request };
        Ok(builder.finish("", CALLS.map(call).into()))
    }

    /// When a service is rolled out, in seconds; at the start, too.
    fn rollouts(&self, rng: &mut Rng) -> Vec<f64> {
        let mut rollouts = vec![0.0];
        if self.rollouts_per_day > 0.0 {
            let mut now = 0.0;
            loop {
                now += exponential(rng, 86_400.0 / self.rollouts_per_day);
                if now >= self.hours * 3600.0 {
                    break;
                }
                rollouts.push(now);
            }
        }
        rollouts
    }

    fn check(&self) -> Result<(), String> {
        if self.size == 0 || self.shops == 0 {
            return Err("size and shops must be at least 1".to_owned());
        }
        short_enough("hours", self.hours)?;
        let limits = [
            ("rollouts_per_day", self.rollouts_per_day, 86_400.0),
            ("stagger_s", self.stagger_s, 3600.0),
            ("overlap_s", self.overlap_s, 86_400.0),
        ];
        for (name, value, most) in limits {
            if !(0.0..=most).contains(&value) {
                return Err(format!("{name} is {value}; it must be from 0 to {most}"));
            }
        }
        let replicas: u32 = SERVICES.iter().map(|service| service.3).sum();
        let revisions = 1.0 + self.rollouts_per_day * self.hours / 24.0;
        few_enough(f64::from(replicas) * f64::from(self.size) * f64::from(self.shops) * revisions)
    }
}
