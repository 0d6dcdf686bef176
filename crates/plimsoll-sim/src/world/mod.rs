//! Models of the world: what running pods on machines costs and how it feels. One file a model, each behind a trait.

pub mod carbon;
pub mod catalogue;
pub mod clusters;
pub mod latency;
pub mod power;
pub mod price;
pub mod steps;
pub mod thermal;
pub mod usage;

use std::time::Duration;

/// The models that a simulation runs with.
pub struct World {
    /// What machines draw.
    pub power: Box<dyn power::Power>,
    /// What a kilowatt-hour emits; none if nobody asks.
    pub carbon: Option<Box<dyn carbon::Carbon>>,
    /// What machines cost; none if nobody asks.
    pub price: Option<Box<dyn price::Prices>>,
    /// How far users and machines are; none if nobody asks.
    pub latency: Option<Box<dyn latency::Latency>>,
    /// What pods really use.
    pub usage: Box<dyn usage::Usage>,
    /// How hot machines may get; none if that is no matter.
    pub thermal: Option<Box<dyn thermal::Thermal>>,
    /// The clusters; none if there is one alone.
    pub clusters: Option<clusters::Federation>,
}

impl Default for World {
    fn default() -> Self {
        Self {
            power: Box::new(power::SleepWhenEmpty::default()),
            carbon: None,
            price: None,
            latency: None,
            usage: Box::new(usage::AsRequested),
            thermal: None,
            clusters: None,
        }
    }
}

impl World {
    /// When a model changes next, after `now`.
    pub fn next_change(&self, now: Duration) -> Option<Duration> {
        let carbon = self.carbon.as_ref().and_then(|model| model.next_change(now));
        let latency = self.latency.as_ref().and_then(|model| model.next_change(now));
        let clusters = self.clusters.as_ref().and_then(|all| all.next_change(now));
        [carbon, latency, clusters, self.usage.next_change(now)].into_iter().flatten().min()
    }
}
