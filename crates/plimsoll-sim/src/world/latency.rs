//! How far users and machines are from each other, and how that changes.

use super::steps::Steps;
use std::collections::BTreeMap;
use std::time::Duration;

/// Where a machine stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    /// Its name.
    pub node: &'a str,
    /// Its zone.
    pub zone: &'a str,
    /// Its region.
    pub region: &'a str,
}

/// Latency, in milliseconds.
pub trait Latency: Send + Sync {
    /// From a machine to the users.
    fn to_user(&self, place: Place<'_>, now: Duration) -> f64;

    /// From a machine to another.
    fn between(&self, a: Place<'_>, b: Place<'_>) -> f64;

    /// When it changes next, after `now`.
    fn next_change(&self, now: Duration) -> Option<Duration>;
}

/// Latency to users by node, zone or region, the closest that is given; between machines by what they share.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyTable {
    /// To users, by name of node, zone or region.
    pub to_user: BTreeMap<String, Steps>,
    /// To users, from everywhere else.
    pub elsewhere_ms: f64,
    /// Between pods on one machine.
    pub same_node_ms: f64,
    /// Between machines of a zone.
    pub same_zone_ms: f64,
    /// Between zones of a region.
    pub same_region_ms: f64,
    /// Between regions.
    pub across_ms: f64,
}

impl Default for LatencyTable {
    /// Orders of magnitude of a public cloud.
    fn default() -> Self {
        Self {
            to_user: BTreeMap::new(),
            elsewhere_ms: 50.0,
            same_node_ms: 0.05,
            same_zone_ms: 0.3,
            same_region_ms: 1.0,
            across_ms: 40.0,
        }
    }
}

impl Latency for LatencyTable {
    fn to_user(&self, place: Place<'_>, now: Duration) -> f64 {
        let names = [place.node, place.zone, place.region];
        let given = names.iter().find_map(|name| self.to_user.get(*name));
        given.and_then(|steps| steps.at(now)).unwrap_or(self.elsewhere_ms)
    }

    fn between(&self, a: Place<'_>, b: Place<'_>) -> f64 {
        if a.node == b.node {
            self.same_node_ms
        } else if a.region != b.region {
            self.across_ms
        } else if a.zone != b.zone {
            self.same_region_ms
        } else {
            self.same_zone_ms
        }
    }

    fn next_change(&self, now: Duration) -> Option<Duration> {
        self.to_user.values().filter_map(|steps| steps.next_change(now)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_name_counts() {
        let mut table = LatencyTable::default();
        table.to_user.insert("a".into(), Steps::constant(10.0));
        table.to_user.insert("n1".into(), Steps::constant(5.0));
        let place = |node| Place { node, zone: "a", region: "r" };
        assert_eq!(table.to_user(place("n1"), Duration::ZERO), 5.0);
        assert_eq!(table.to_user(place("n2"), Duration::ZERO), 10.0);
        let far = Place { node: "n3", zone: "b", region: "s" };
        assert_eq!(table.to_user(far, Duration::ZERO), table.elsewhere_ms);
        assert_eq!(table.between(place("n1"), far), table.across_ms);
        assert_eq!(table.between(place("n1"), place("n1")), table.same_node_ms);
    }
}
