//! Nodes that are kept busy while something is tried: by Plimsoll's agents on them, or in a lab by pods that ask for nothing and use much.

use super::site::Site;
use super::spec::BlockSpec;
use crate::input::read_token;
use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, PostParams};
use plimsoll_telemetry::agent_address;
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use std::time::Duration;

/// How long a block is held, should nobody release it.
const HELD: Duration = Duration::from_secs(3600);
/// How long an agent may take to answer.
const ANSWER: Duration = Duration::from_secs(10);

/// What is held, and how it is let go.
pub enum Blocker {
    /// Pods of a lab, by name.
    Pods(Vec<String>),
    /// Blocks of agents, by their URLs.
    Agents { http: Client, token: Option<String>, held: Vec<String> },
}

impl Blocker {
    /// A blocker for a cluster.
    pub fn new(site: &Site, spec: &BlockSpec) -> Result<Self> {
        if site.is_lab() {
            return Ok(Self::Pods(Vec::new()));
        }
        let token = read_token("block.token_file", spec.token_file.as_deref())?;
        let http = Client::builder().timeout(ANSWER).build()?;
        Ok(Self::Agents { http, token, held: Vec::new() })
    }

    /// Keeps a node busy until [`Self::release`].
    pub async fn block(&mut self, site: &Site, node: &str, spec: &BlockSpec) -> Result<()> {
        match self {
            Self::Pods(pods) => {
                let name = format!("blocker-{node}");
                let pod: Pod = serde_json::from_value(pod(&name, node, spec))?;
                let api: Api<Pod> = Api::default_namespaced(site.client.clone());
                pods.push(name.clone());
                match api.create(&PostParams::default(), &pod).await {
                    Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
                    other => other.map(drop).with_context(|| format!("create pod {name}")),
                }
            }
            Self::Agents { http, token, held } => {
                let found = agent_address(&site.client, node, spec.agent_port).await;
                let address = found
                    .with_context(|| format!("node {node}"))?
                    .with_context(|| format!("node {node} has no InternalIP"))?;
                let url = format!("http://{address}/v1/blocks");
                let seconds = HELD.as_secs();
                let wanted =
                    json!({ "cpu": spec.cpu, "memoryMib": spec.memory_mib, "seconds": seconds, "ttlSeconds": seconds });
                let block = ask(with(http.request(Method::POST, &url).json(&wanted), token.as_ref()), &url).await?;
                let id = block["id"].as_str().with_context(|| format!("{url}: no id in {block}"))?;
                held.push(format!("{url}/{id}"));
                Ok(())
            }
        }
    }

    /// Lets all nodes go.
    pub async fn release(&mut self, site: &Site) -> Result<()> {
        match self {
            Self::Pods(pods) => {
                let api: Api<Pod> = Api::default_namespaced(site.client.clone());
                for name in pods.drain(..) {
                    match api.delete(&name, &DeleteParams::default().grace_period(0)).await {
                        Err(kube::Error::Api(status)) if status.code == 404 => {}
                        other => drop(other.with_context(|| format!("delete pod {name}"))?),
                    }
                }
            }
            Self::Agents { http, token, held } => {
                for url in held.drain(..) {
                    ask(with(http.request(Method::DELETE, &url), token.as_ref()), &url).await?;
                }
            }
        }
        Ok(())
    }
}

fn pod(name: &str, node: &str, spec: &BlockSpec) -> Value {
    json!({
        "metadata": {
            "name": name,
            "annotations": {
                "lab.plimsoll.dev/usage-cpu": spec.cpu.to_string(),
                "lab.plimsoll.dev/usage-memory": format!("{}Mi", spec.memory_mib),
            },
        },
        "spec": { "nodeName": node, "containers": [{ "name": "main", "image": "lab/none" }] },
    })
}

fn with(request: RequestBuilder, token: Option<&String>) -> RequestBuilder {
    match token {
        Some(token) => request.bearer_auth(token),
        None => request,
    }
}

async fn ask(request: RequestBuilder, url: &str) -> Result<Value> {
    let answer = request.send().await.with_context(|| format!("the agent at {url} does not answer"))?;
    let status = answer.status();
    let text = answer.text().await.unwrap_or_default();
    if !status.is_success() {
        bail!("the agent at {url} refuses: {status}: {text}");
    }
    Ok(serde_json::from_str(&text).unwrap_or_default())
}
