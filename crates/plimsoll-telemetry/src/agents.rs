//! Plimsoll's agents on nodes, told whom to measure the latency to: the users that pods name.

use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, ListParams};
use reqwest::StatusCode;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

/// How long an agent may take.
const ANSWER: Duration = Duration::from_secs(5);

/// All agents of a cluster.
pub struct Agents {
    client: Client,
    http: reqwest::Client,
    port: u16,
    token: Option<String>,
}

impl Agents {
    /// The agents that listen on this port of the nodes of a cluster, and want this token.
    pub fn new(client: Client, port: u16, token: Option<String>) -> Result<Self, String> {
        let http = reqwest::Client::builder().timeout(ANSWER).build().map_err(|error| error.to_string())?;
        Ok(Self { client, http, port, token })
    }

    /// Has every node measure the latency to these from now on; how many nodes do, and what failed last.
    pub async fn measure(&self, targets: &BTreeSet<String>) -> Result<(usize, Option<String>), kube::Error> {
        let wanted = json!({ "targets": targets.iter().map(|target| request(target)).collect::<Vec<_>>() });
        let (mut told, mut problem) = (0, None);
        for node in Api::<Node>::all(self.client.clone()).list(&ListParams::default()).await? {
            let Some(address) = internal_address(&node) else { continue };
            match self.tell(address, &wanted).await {
                Ok(()) => told += 1,
                Err(error) => problem = Some(format!("{address}: {error}")),
            }
        }
        Ok((told, problem))
    }

    async fn tell(&self, address: &str, wanted: &Value) -> Result<(), String> {
        let mut request = self.http.put(format!("http://{address}:{}/v1/latency/targets", self.port)).json(wanted);
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

/// How a target is measured: what names a page by HTTP, all else by a connection.
fn request(target: &str) -> Value {
    let method = if target.starts_with("http://") { "http" } else { "tcp" };
    json!({ "target": target, "method": method })
}

/// Where a node's agent is reached.
pub fn internal_address(node: &Node) -> Option<&str> {
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
}
