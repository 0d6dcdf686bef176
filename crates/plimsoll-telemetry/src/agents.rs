//! Plimsoll's agents on nodes, told whom to measure the latency to: the users that pods name.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::api::{Api, ListParams};
use reqwest::StatusCode;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// How long an agent may take.
const ANSWER: Duration = Duration::from_secs(5);

/// What the chart and the manifests label the agents' pods with.
const LABEL: &str = "app.kubernetes.io/name=plimsoll-agent";

/// All agents of a cluster.
pub struct Agents {
    client: Client,
    http: reqwest::Client,
    port: u16,
    token: Option<String>,
}

impl Agents {
    /// The agents of a cluster that listen on this port, and want this token. They are the pods labelled so in the client's own namespace, since a pod of
    /// anybody else would be sent the token; on a node without one, the node itself.
    pub fn new(client: Client, port: u16, token: Option<String>) -> Result<Self, String> {
        let http = reqwest::Client::builder().timeout(ANSWER).build().map_err(|error| error.to_string())?;
        Ok(Self { client, http, port, token })
    }

    /// Has every node measure the latency to these from now on; how many nodes do, and what failed last.
    pub async fn measure(&self, targets: &BTreeSet<String>) -> Result<(usize, Option<String>), kube::Error> {
        let wanted = json!({ "targets": targets.iter().map(|target| request(target)).collect::<Vec<_>>() });
        let (mut told, mut problem) = (0, None);
        let nodes = Api::<Node>::all(self.client.clone()).list(&ListParams::default()).await?;
        for address in addresses(&nodes.items, &pods(&self.client).await?) {
            let address = with_port(address, self.port);
            match self.tell(&address, &wanted).await {
                Ok(()) => told += 1,
                Err(error) => problem = Some(format!("{address}: {error}")),
            }
        }
        Ok((told, problem))
    }

    async fn tell(&self, address: &str, wanted: &Value) -> Result<(), String> {
        let mut request = self.http.put(format!("http://{address}/v1/latency/targets")).json(wanted);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let answer = request.send().await.map_err(|error| error.to_string())?;
        match answer.status() {
            StatusCode::OK => Ok(()),
            status => Err(format!("{status}: {}", answer.text().await.unwrap_or_default())),
        }
    }
}

/// Where the agent of a node is reached on this port, if anywhere: at its pod, or else at the node itself.
pub async fn agent_address(client: &Client, node: &str, port: u16) -> Result<Option<String>, kube::Error> {
    let node = Api::<Node>::all(client.clone()).get(node).await?;
    let pods = pods(client).await?;
    Ok(addresses(std::slice::from_ref(&node), &pods).first().map(|address| with_port(address, port)))
}

async fn pods(client: &Client) -> Result<Vec<Pod>, kube::Error> {
    let labelled = ListParams::default().labels(LABEL);
    Ok(Api::<Pod>::default_namespaced(client.clone()).list(&labelled).await?.items)
}

/// How a target is measured: what names a page by HTTP, all else by a connection.
fn request(target: &str) -> Value {
    let method = if target.starts_with("http://") { "http" } else { "tcp" };
    json!({ "target": target, "method": method })
}

/// Where the agents of nodes are reached: at their pods, or at nodes that have none.
fn addresses<'a>(nodes: &'a [Node], pods: &'a [Pod]) -> Vec<&'a str> {
    let of_pod = |pod: &'a Pod| {
        let node = pod.spec.as_ref()?.node_name.as_deref()?;
        let status = pod.status.as_ref().filter(|status| status.phase.as_deref() == Some("Running"))?;
        Some((node, status.pod_ip.as_deref()?))
    };
    let by_node: BTreeMap<&str, &str> = pods.iter().filter_map(of_pod).collect();
    let of_node = |node: &'a Node| {
        let name = node.metadata.name.as_deref()?;
        by_node.get(name).copied().or_else(|| internal_address(node))
    };
    nodes.iter().filter_map(of_node).collect()
}

/// An address with a port, as a URL has it.
fn with_port(address: &str, port: u16) -> String {
    match address.parse::<IpAddr>() {
        Ok(address) => SocketAddr::new(address, port).to_string(),
        Err(_) => format!("{address}:{port}"),
    }
}

/// Where a node is reached from within its cluster.
fn internal_address(node: &Node) -> Option<&str> {
    let addresses = node.status.as_ref()?.addresses.as_ref()?;
    addresses.iter().find(|address| address.type_ == "InternalIP").map(|address| address.address.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_measured_as_it_is_named() {
        assert_eq!(request("http://shop.example:80/ping")["method"], "http");
        assert_eq!(request("203.0.113.7:443"), json!({ "target": "203.0.113.7:443", "method": "tcp" }));
    }

    #[test]
    fn agents_are_reached_at_their_pods_and_elsewhere_at_the_node() {
        let node = |name: &str, address: &str| -> Node {
            let addresses =
                json!([{ "type": "Hostname", "address": name }, { "type": "InternalIP", "address": address }]);
            serde_json::from_value(json!({ "metadata": { "name": name }, "status": { "addresses": addresses } }))
                .unwrap()
        };
        let pod = |node: &str, phase: &str, address: &str| -> Pod {
            let spec = json!({ "nodeName": node, "containers": [] });
            serde_json::from_value(
                json!({ "metadata": {}, "spec": spec, "status": { "phase": phase, "podIP": address } }),
            )
            .unwrap()
        };
        let nodes = [node("a", "192.0.2.1"), node("b", "192.0.2.2"), node("c", "192.0.2.3")];
        let pods =
            [pod("a", "Running", "10.0.0.1"), pod("b", "Failed", "10.0.0.2"), pod("gone", "Running", "10.0.0.9")];
        assert_eq!(addresses(&nodes, &pods), ["10.0.0.1", "192.0.2.2", "192.0.2.3"]);
        assert_eq!(addresses(&nodes, &[]), ["192.0.2.1", "192.0.2.2", "192.0.2.3"]);
    }

    #[test]
    fn an_address_of_version_six_is_in_brackets() {
        assert_eq!(with_port("10.0.0.1", 9178), "10.0.0.1:9178");
        assert_eq!(with_port("fd00::1", 9178), "[fd00::1]:9178");
    }
}
