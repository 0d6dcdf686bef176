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
    fn between(&self, a: Place<'_>, b: Place<'_>, now: Duration) -> f64;

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
    pub same_node: Steps,
    /// Between machines of a zone.
    pub same_zone: Steps,
    /// Between zones of a region.
    pub same_region: Steps,
    /// Between regions.
    pub across: Steps,
}

impl Default for LatencyTable {
    /// Orders of magnitude of a public cloud.
    fn default() -> Self {
        Self {
            to_user: BTreeMap::new(),
            elsewhere_ms: 50.0,
            same_node: Steps::constant(0.05),
            same_zone: Steps::constant(0.3),
            same_region: Steps::constant(1.0),
            across: Steps::constant(40.0),
        }
    }
}

impl Latency for LatencyTable {
    fn to_user(&self, place: Place<'_>, now: Duration) -> f64 {
        let names = [place.node, place.zone, place.region];
        let given = names.iter().find_map(|name| self.to_user.get(*name));
        given.and_then(|steps| steps.at(now)).unwrap_or(self.elsewhere_ms)
    }

    fn between(&self, a: Place<'_>, b: Place<'_>, now: Duration) -> f64 {
        let steps = if a.node == b.node {
            &self.same_node
        } else if a.region != b.region {
            &self.across
        } else if a.zone != b.zone {
            &self.same_region
        } else {
            &self.same_zone
        };
        steps.at(now).unwrap_or_default()
    }

    fn next_change(&self, now: Duration) -> Option<Duration> {
        let between = [&self.same_node, &self.same_zone, &self.same_region, &self.across];
        self.to_user.values().chain(between).filter_map(|steps| steps.next_change(now)).min()
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
        assert_eq!(table.between(place("n1"), far, Duration::ZERO), 40.0);
        assert_eq!(table.between(place("n1"), place("n1"), Duration::ZERO), 0.05);
        let later = Duration::from_secs(60);
        table.across = Steps::new(vec![(Duration::ZERO, 40.0), (later, 90.0)]);
        assert_eq!((table.next_change(Duration::ZERO), table.between(place("n1"), far, later)), (Some(later), 90.0));
    }
}
