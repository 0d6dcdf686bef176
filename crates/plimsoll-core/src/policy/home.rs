//! Clusters and nodes by what they cost and how far they are: the pod's own for as long as it has room, or the cheapest wherever it is.

use super::fit::left_over;
use super::{Policy, Ranking, Scope, each_node};
use crate::framework::Cycle;
use crate::state::{Node, NodeId};
use crate::telemetry::Away;

/// The cheapest node, then the nearest, then the best fit.
#[derive(Debug)]
pub struct Cheapest {
    name: &'static str,
    /// Whether nodes of the pod's own cluster come first, whatever they cost, the best fit of them.
    home_first: bool,
}

impl Cheapest {
    pub const HOME_FIRST: Self = Self { name: "home-first", home_first: true };
    pub const ANYWHERE: Self = Self { name: "cheapest", home_first: false };
}

/// Latencies count by the millisecond, up to so many: what is dearer comes after what is further.
const FARTHEST: f64 = 1e5;
/// Prices are told apart by hundred-thousandths.
const PER_UNIT: f64 = 1e5;

impl Policy for Cheapest {
    fn name(&self) -> &'static str {
        self.name
    }

    fn scope(&self) -> Scope {
        Scope::Home
    }

    fn rank(&mut self, ranking: &mut Ranking<'_>, nodes: &[NodeId], scores: &mut [f64]) -> Result<(), String> {
        each_node(ranking, nodes, scores, |cycle, node| {
            let away = cycle.state.telemetry.away(cycle.pod_id, node.id);
            let is_home = self.home_first && away.is_none();
            let against = if is_home { 0.0 } else { 1.0 + against(cycle, node, away.unwrap_or_default()) };
            -left_over(cycle, node) / 2.0 - against
        });
        Ok(())
    }
}

/// What counts against a node: what it costs an hour and core, traffic included, and how far it is.
fn against(cycle: &Cycle<'_>, node: &Node, away: Away) -> f64 {
    let known = cycle.state.telemetry.node(node.id);
    let cores = (node.allocatable.cpu as f64 / 1000.0).max(0.001);
    let price = known.price.unwrap_or(0.0) / cores + away.price;
    let ms = known.latency_ms.unwrap_or(0.0) + away.ms;
    ms.round().clamp(0.0, FARTHEST - 2.0) + (price * PER_UNIT).round().max(0.0) * FARTHEST
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Configuration;
    use crate::policy::by_name;
    use crate::scheduler::{Decision, Scheduler};
    use crate::telemetry::{PodTelemetry, Shared};
    use serde_json::json;

    /// Nodes of four cores by name, cluster, and price of an hour.
    fn scheduler(policy: &str, nodes: &[(&str, &str, f64)]) -> Scheduler {
        let mut scheduler = Scheduler::new(&Configuration::default(), 1);
        scheduler.set_policy("default-scheduler", by_name(policy).unwrap());
        for (name, cluster, price) in nodes {
            let allocatable = json!({ "cpu": "4", "memory": "8Gi", "pods": "20" });
            let node = json!({ "metadata": { "name": name }, "status": { "allocatable": allocatable } });
            let id = scheduler.state.apply_node(&serde_json::from_value(node).unwrap()).unwrap();
            let cluster = scheduler.state.telemetry.clusters.know(cluster);
            scheduler.state.tell(id, |known| {
                (known.cluster, known.price, known.latency_ms) = (cluster, Some(*price), Some(1.0));
            });
        }
        scheduler
    }

    fn place(scheduler: &mut Scheduler, uid: &str, home: &str) -> String {
        let containers = json!([{ "name": "c", "resources": { "requests": { "cpu": "3" } } }]);
        let pod =
            json!({ "metadata": { "name": uid, "namespace": "d", "uid": uid }, "spec": { "containers": containers } });
        let id = scheduler.state.apply_pod(&serde_json::from_value(pod).unwrap()).unwrap().unwrap();
        let home = scheduler.state.telemetry.clusters.find(home);
        scheduler.state.telemetry.set_pod(id, PodTelemetry { home, ..PodTelemetry::default() });
        match scheduler.decide(id).unwrap() {
            Decision::Place { node, .. } => {
                scheduler.state.assume(id, node).unwrap();
                scheduler.state.node_name(node).to_owned()
            }
            Decision::Wait { .. } => "nowhere".to_owned(),
        }
    }

    #[test]
    fn pods_stay_at_home_while_it_has_room_then_go_where_it_is_cheapest_and_nearest() {
        let nodes = [("a1", "a", 9.0), ("b1", "b", 2.0), ("c1", "c", 2.0), ("d1", "d", 1.0)];
        let mut scheduler = scheduler("home-first", &nodes);
        let clusters = &mut scheduler.state.telemetry.clusters;
        let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| clusters.find(name).unwrap());
        // Traffic makes the cheapest machines the dearest.
        for (at, ms, price) in [(b, 80.0, 0.0), (c, 20.0, 0.0), (d, 5.0, 1.0)] {
            clusters.set_away(a, at, Away { ms, price });
        }
        let placed: Vec<_> = (0..5).map(|number| place(&mut scheduler, &number.to_string(), "a")).collect();
        assert_eq!(placed, ["a1", "c1", "b1", "d1", "nowhere"]);
    }

    #[test]
    fn the_cheapest_is_chosen_wherever_it_is() {
        let mut scheduler = scheduler("cheapest", &[("a1", "a", 4.0), ("b1", "b", 2.0), ("c1", "c", 2.0)]);
        let clusters = &mut scheduler.state.telemetry.clusters;
        let [a, b, c] = ["a", "b", "c"].map(|name| clusters.find(name).unwrap());
        clusters.set_away(a, b, Away { ms: 9.0, price: 0.25 });
        clusters.set_away(a, c, Away { ms: 9.0, price: 0.75 });
        let placed: Vec<_> = (0..3).map(|number| place(&mut scheduler, &number.to_string(), "a")).collect();
        assert_eq!(placed, ["b1", "a1", "c1"]);
    }

    #[test]
    fn pods_of_one_template_go_to_their_own_homes() {
        for policy in ["home-first", "nearest"] {
            let nodes = [("a1", "a", 1.0), ("b1", "b", 1.0), ("a2", "a", 1.0), ("b2", "b", 1.0)];
            let mut scheduler = scheduler(policy, &nodes);
            let clusters = &mut scheduler.state.telemetry.clusters;
            let [a, b] = ["a", "b"].map(|name| clusters.find(name).unwrap());
            clusters.set_away(a, b, Away { ms: 10.0, price: 0.0 });
            clusters.set_away(b, a, Away { ms: 10.0, price: 0.0 });
            let homes = ["a", "b", "b", "a"];
            let placed =
                homes.iter().enumerate().map(|(number, home)| place(&mut scheduler, &number.to_string(), home));
            let clusters: Vec<_> = placed.map(|node| node[..1].to_owned()).collect();
            assert_eq!(clusters, homes, "{policy}");
        }
    }

    #[test]
    fn what_siblings_have_taken_is_not_free_to_policies_but_is_to_the_rules() {
        let mut scheduler = scheduler("worst-fit", &[("v1", "b", 1.0), ("m1", "b", 1.0)]);
        let v1 = scheduler.state.node_named("v1").unwrap();
        scheduler.state.tell(v1, |known| known.shared = Some(Shared { cpu: 3000, memory: 4 << 30, among: 2 }));
        assert_eq!(place(&mut scheduler, "1", "b"), "m1");
        assert_eq!(place(&mut scheduler, "2", "b"), "v1");
    }
}
