//! The nodes of a lab: made, created through the API many at a time, and waited for.

use crate::{LabError, Shape};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Node, NodeAddress, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::{Api, ListParams, PostParams, WatchEvent, WatchParams};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// So many nodes have addresses of their own, and a network of 254 pods each.
const MOST: usize = 1 << 16;
/// How many nodes are created at a time: enough to keep the API server busy.
const AT_A_TIME: usize = 32;
/// How many nodes are read with one request.
const PAGE: u32 = 500;

/// The annotation that tells exporters how many cores a node has.
const CORES: &str = "lab.plimsoll.dev/cores";

/// Creates `count` nodes whose names go on from `first`, of these shapes in turn.
pub async fn create_nodes(client: &Client, first: usize, count: usize, shapes: &[Shape]) -> Result<(), LabError> {
    if first + count > MOST {
        return Err(LabError::TooManyNodes(first + count));
    }
    let standard = [Shape::default()];
    let shapes = if shapes.is_empty() { &standard } else { shapes };
    let api: Api<Node> = Api::all(client.clone());
    let creations = (first..first + count).map(|at| {
        let (api, node) = (&api, node(at, &shapes[at % shapes.len()], shapes.len()));
        async move {
            let what = format!("create node {}", node.metadata.name.as_deref().unwrap_or_default());
            api.create(&PostParams::default(), &node).await.map_err(LabError::api(what))
        }
    });
    futures::stream::iter(creations).buffer_unordered(AT_A_TIME).try_for_each(|_| async { Ok(()) }).await
}

/// The node with a number, as a kubelet that is ready would register it.
fn node(at: usize, shape: &Shape, shapes: usize) -> Node {
    let name = format!("node-{at}");
    // Zones are dealt out among the nodes of one shape, so that each zone has all of them.
    let zone = (shape.zones > 0).then(|| format!("{}-{}", shape.region, at / shapes % shape.zones));
    let network = format!("10.{}.{}.0/24", at >> 8, at & 255);
    let resources: BTreeMap<_, _> = shape.resources.iter().map(|(k, v)| (k.clone(), Quantity(v.clone()))).collect();
    Node {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            labels: Some(labels(&name, zone, shape)),
            annotations: cores(shape).map(|cores| [(CORES.to_string(), cores.to_string())].into()),
            ..Default::default()
        },
        spec: Some(NodeSpec {
            pod_cidr: Some(network.clone()),
            pod_cidrs: Some(vec![network]),
            provider_id: Some(format!("lab://{name}")),
            taints: (!shape.taints.is_empty()).then(|| shape.taints.clone()),
            ..Default::default()
        }),
        status: Some(NodeStatus {
            addresses: Some(addresses(at, name)),
            capacity: Some(resources.clone()),
            allocatable: Some(resources),
            conditions: Some(conditions()),
            phase: Some("Running".to_string()),
            node_info: Some(NodeSystemInfo {
                architecture: shape.arch.clone(),
                operating_system: shape.os.clone(),
                kubelet_version: "v1.36.3".to_string(),
                container_runtime_version: "kwok://".to_string(),
                ..Default::default()
            }),
            ..Default::default()
        }),
    }
}

fn cores(shape: &Shape) -> Option<f64> {
    shape.resources.get("cpu")?.parse::<plimsoll_core::quantity::Quantity>().ok().map(|cpu| cpu.approximate_f64())
}

fn labels(name: &str, zone: Option<String>, shape: &Shape) -> BTreeMap<String, String> {
    let mut labels: BTreeMap<String, String> = [
        ("kubernetes.io/hostname", name),
        ("kubernetes.io/arch", &shape.arch),
        ("kubernetes.io/os", &shape.os),
        // Where these are missing, kube-controller-manager adds them, with one more write for each node.
        ("beta.kubernetes.io/arch", &shape.arch),
        ("beta.kubernetes.io/os", &shape.os),
        ("node.kubernetes.io/instance-type", &shape.instance_type),
        ("topology.kubernetes.io/region", &shape.region),
    ]
    .map(|(key, value)| (key.to_string(), value.to_string()))
    .into();
    labels.extend(zone.map(|zone| ("topology.kubernetes.io/zone".to_string(), zone)));
    labels.extend(shape.labels.clone());
    labels
}

fn addresses(at: usize, name: String) -> Vec<NodeAddress> {
    let ip = format!("172.16.{}.{}", at >> 8, at & 255);
    [("InternalIP", ip), ("Hostname", name)].map(|(type_, address)| NodeAddress { type_: type_.into(), address }).into()
}

fn conditions() -> Vec<NodeCondition> {
    [
        ("Ready", "True", "KubeletReady"),
        ("MemoryPressure", "False", "KubeletHasSufficientMemory"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID"),
    ]
    .map(|(type_, status, reason)| NodeCondition {
        type_: type_.to_string(),
        status: status.to_string(),
        reason: Some(reason.to_string()),
        ..Default::default()
    })
    .into()
}

/// Whether pods can be placed on a node as far as its state goes: it is ready, and the taint of nodes that are not is gone.
pub fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let says_so = conditions.into_iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True");
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    let is_kept_out = |taint: &Taint| {
        ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"].contains(&taint.key.as_str())
    };
    says_so && !taints.into_iter().flatten().any(is_kept_out)
}

/// Waits until so many nodes are ready.
pub async fn wait_for_nodes(client: &Client, wanted: usize, patience: Duration) -> Result<(), LabError> {
    let begin = Instant::now();
    let mut ready = BTreeSet::new();
    loop {
        let left = patience.saturating_sub(begin.elapsed());
        match tokio::time::timeout(left, follow_nodes(client, wanted, &mut ready)).await {
            Ok(Ok(true)) => return Ok(()),
            // The watch has ended, as watches do.
            Ok(Ok(false)) => {}
            Ok(Err(error)) => return Err(LabError::api("watch the nodes")(error)),
            Err(_) => {
                return Err(LabError::NodesNotReady { ready: ready.len(), wanted, seconds: patience.as_secs() });
            }
        }
    }
}

/// Lists the nodes and follows their changes; true when enough of them are ready, false when the watch ends before.
async fn follow_nodes(client: &Client, wanted: usize, ready: &mut BTreeSet<String>) -> Result<bool, kube::Error> {
    let api: Api<Node> = Api::all(client.clone());
    ready.clear();
    let mut page = ListParams::default().limit(PAGE);
    let version = loop {
        let list = api.list(&page).await?;
        ready.extend(list.items.iter().filter(|node| is_ready(node)).filter_map(|node| node.metadata.name.clone()));
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => break list.metadata.resource_version.unwrap_or_default(),
        }
    };
    if ready.len() >= wanted {
        return Ok(true);
    }
    let mut changes = api.watch(&WatchParams::default(), &version).await?.boxed();
    while let Some(change) = changes.try_next().await? {
        match change {
            WatchEvent::Added(node) | WatchEvent::Modified(node) => {
                let name = node.metadata.name.clone().unwrap_or_default();
                if is_ready(&node) {
                    ready.insert(name)
                } else {
                    ready.remove(&name)
                };
            }
            WatchEvent::Deleted(node) => {
                ready.remove(node.metadata.name.as_deref().unwrap_or_default());
            }
            WatchEvent::Bookmark(_) => {}
            WatchEvent::Error(_) => return Ok(false),
        }
        if ready.len() >= wanted {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_addresses_and_networks_of_their_own_and_zones_in_turn() {
        let shapes = [Shape::default(), Shape { zones: 2, ..Shape::default() }];
        let nodes: Vec<Node> = (0..1000).map(|at| node(at, &shapes[at % 2], 2)).collect();
        let distinct = |of: &dyn Fn(&Node) -> String| nodes.iter().map(of).collect::<BTreeSet<_>>().len();
        assert_eq!(distinct(&|node| node.status.clone().unwrap().addresses.unwrap()[0].address.clone()), 1000);
        assert_eq!(distinct(&|node| node.spec.clone().unwrap().pod_cidr.unwrap()), 1000);
        let zone = |at: usize| nodes[at].metadata.labels.as_ref().unwrap()["topology.kubernetes.io/zone"].clone();
        assert_eq!([zone(0), zone(2), zone(4), zone(6)], ["lab-0", "lab-1", "lab-2", "lab-0"]);
        assert_eq!([zone(1), zone(3), zone(5)], ["lab-0", "lab-1", "lab-0"]);
    }

    #[test]
    fn a_node_with_the_taint_of_the_unready_is_not_ready() {
        let mut node = node(0, &Shape::default(), 1);
        assert!(is_ready(&node));
        let taint =
            Taint { key: "node.kubernetes.io/not-ready".into(), effect: "NoSchedule".into(), ..Default::default() };
        node.spec.as_mut().unwrap().taints = Some(vec![taint]);
        assert!(!is_ready(&node));
    }
}
