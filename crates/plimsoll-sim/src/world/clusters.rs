//! Several clusters: how far they are from each other, what traffic between them costs, and where pods come from.

use super::steps::Steps;
use crate::workload::{PodRecord, Template};
use plimsoll_core::rng::Rng;
use plimsoll_core::telemetry::{Away, Clusters};
use std::collections::BTreeSet;
use std::time::Duration;

/// A cluster.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cluster {
    /// Its name.
    pub name: String,
    /// Pods of these namespaces are at home here.
    pub namespaces: BTreeSet<String>,
    /// Pods of these applications are at home here.
    pub apps: BTreeSet<String>,
    /// The part of the other owners whose pods are at home here, beside the parts of other clusters.
    pub share: f64,
    /// What a pod that is at home here exchanges with its home while it runs elsewhere: gigabytes an hour for each core.
    pub traffic_gb: f64,
}

/// The way between two clusters.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// Milliseconds.
    pub ms: Steps,
    /// Money for a gigabyte.
    pub price: f64,
}

/// The ways between clusters, by the places of the two.
pub type Links = Vec<((usize, usize), Link)>;

/// Clusters, and the ways between them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Federation {
    clusters: Vec<Cluster>,
    /// By the two places, the smaller first.
    links: Links,
    seed: u64,
}

impl Federation {
    /// Clusters, and the ways between them by the two places in the list; a way that is not given takes no time and costs nothing.
    pub fn new(clusters: Vec<Cluster>, links: Links, seed: u64) -> Self {
        let links = links.into_iter().map(|((a, b), link)| ((a.min(b), a.max(b)), link)).collect();
        Self { clusters, links, seed }
    }

    /// The place of a cluster by its name.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.clusters.iter().position(|cluster| cluster.name == name)
    }

    /// The cluster that a pod comes from: by its namespace, by its application, else drawn for its owner, so that pods of one owner come from one cluster
    /// under every policy.
    pub fn home(&self, template: Option<&Template>, record: &PodRecord) -> Option<usize> {
        let named = |names: &dyn Fn(&Cluster) -> bool| self.clusters.iter().position(names);
        let by_namespace = template.and_then(|pod| named(&|cluster| cluster.namespaces.contains(pod.namespace())));
        let app = template.and_then(|pod| pod.app.as_ref());
        by_namespace.or_else(|| app.and_then(|app| named(&|cluster| cluster.apps.contains(app)))).or_else(|| {
            let whole: f64 = self.clusters.iter().map(|cluster| cluster.share).sum();
            let mixed = self.seed.wrapping_add(u64::from(record.owner).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let mut lot = Rng::new(mixed).unit() * whole;
            let shares = self.clusters.iter().enumerate().filter(|(_, cluster)| cluster.share > 0.0);
            let mut last = None;
            for (place, cluster) in shares {
                last = Some(place);
                lot -= cluster.share;
                if lot < 0.0 {
                    break;
                }
            }
            last
        })
    }

    /// What pods that are at home in one cluster pay for running in another.
    pub fn away(&self, home: usize, at: usize, now: Duration) -> Away {
        let between = (home.min(at), home.max(at));
        let Some((_, link)) = self.links.iter().find(|(places, _)| *places == between && home != at) else {
            return Away::default();
        };
        let traffic = self.clusters.get(home).map_or(0.0, |cluster| cluster.traffic_gb);
        Away { ms: link.ms.at(now).unwrap_or_default(), price: link.price * traffic }
    }

    /// The same for all, as policies are told it. The place of a cluster here is its place there.
    pub fn told(&self, now: Duration) -> Clusters {
        let mut clusters = Clusters::default();
        let ids: Vec<_> = self.clusters.iter().map(|cluster| clusters.know(&cluster.name)).collect();
        for (home, &home_id) in ids.iter().enumerate() {
            for (at, &at_id) in ids.iter().enumerate() {
                if let (Some(home_id), Some(at_id)) = (home_id, at_id) {
                    clusters.set_away(home_id, at_id, self.away(home, at, now));
                }
            }
        }
        clusters
    }

    /// When a way changes next, after `now`.
    pub fn next_change(&self, now: Duration) -> Option<Duration> {
        self.links.iter().filter_map(|(_, link)| link.ms.next_change(now)).min()
    }

    /// Whether traffic between clusters costs money.
    pub fn has_prices(&self) -> bool {
        self.links.iter().any(|(_, link)| link.price > 0.0)
            && self.clusters.iter().any(|cluster| cluster.traffic_gb > 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(owner: u32) -> PodRecord {
        PodRecord { name: "p".into(), template: 0, owner, arrival: Duration::ZERO, lifetime: None, usage: None }
    }

    #[test]
    fn pods_come_from_the_cluster_of_their_namespace_then_application_then_by_share() {
        let cluster = |name: &str, share| Cluster { name: name.into(), share, ..Cluster::default() };
        let mut clusters = vec![cluster("a", 1.0), cluster("b", 3.0), cluster("c", 0.0)];
        clusters[2].namespaces.insert("shop".into());
        clusters[0].apps.insert("web".into());
        let all = Federation::new(clusters, Vec::new(), 7);
        let web = Template { app: Some("web".into()), ..Template::default() };
        let shop = Template { namespace: "shop".into(), ..web.clone() };
        assert_eq!((all.home(Some(&shop), &record(1)), all.home(Some(&web), &record(1))), (Some(2), Some(0)));
        let homes: Vec<_> = (0..4000).map(|owner| all.home(None, &record(owner))).collect();
        let of_b = homes.iter().filter(|home| **home == Some(1)).count();
        assert!((2800..3200).contains(&of_b), "three of four owners are to be at home in b, {of_b} of 4000 are");
        assert!(!homes.contains(&Some(2)), "nobody is at home where no share says so");
        assert_eq!(homes[5], all.home(None, &record(5)));
        assert_eq!(Federation::new(vec![cluster("a", 0.0)], Vec::new(), 7).home(None, &record(1)), None);
    }

    #[test]
    fn a_way_is_as_long_in_both_directions_and_costs_what_is_sent() {
        let later = Duration::from_secs(60);
        let cluster = |name: &str, traffic_gb| Cluster { name: name.into(), traffic_gb, ..Cluster::default() };
        let link = Link { ms: Steps::new(vec![(Duration::ZERO, 10.0), (later, 30.0)]), price: 0.1 };
        let both = Federation::new(vec![cluster("a", 2.0), cluster("b", 0.0)], vec![((1, 0), link)], 1);
        assert_eq!(both.away(0, 1, Duration::ZERO), Away { ms: 10.0, price: 0.2 });
        assert_eq!(both.away(1, 0, later), Away { ms: 30.0, price: 0.0 });
        assert_eq!(both.away(0, 0, later), Away::default());
        assert_eq!((both.next_change(Duration::ZERO), both.has_prices()), (Some(later), true));
        let told = both.told(later);
        assert_eq!(told.away(told.find("a"), told.find("b")), Some(Away { ms: 30.0, price: 0.2 }));
    }
}
