//! Extenders of the configuration: services that are asked by HTTP which nodes they allow, how good those are, and to bind pods.
//!
//! They are asked as kube-scheduler asks them: about one pod after the other, and while an answer is waited for nothing else is decided.

use futures_util::future::join_all;
use http::{Method, Request};
use k8s_openapi::api::core::v1::{Container, Node, Pod};
use kube::Client;
use kube::client::Body;
use kube::config::{AuthInfo, Cluster, Config, KubeConfigOptions, Kubeconfig};
use plimsoll_core::config;
use plimsoll_core::engine::{Event, Object};
use plimsoll_core::reserve::Binding;
use rustc_hash::FxHashMap;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a node's score may be at most, divided by what an extender may give at most.
const SCALE: i64 = 100 / 10;

/// An extender that cannot be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("extender {url}: {problem}")]
pub struct ExtenderError {
    url: String,
    problem: String,
}

/// One extender.
pub struct Extender {
    client: Client,
    settings: config::Extender,
}

impl Extender {
    /// An extender as the configuration has it.
    async fn new(settings: &config::Extender) -> Result<Self, ExtenderError> {
        let failed = |problem: String| ExtenderError { url: settings.url_prefix.clone(), problem };
        if !settings.preempt_verb.is_empty() {
            let problem = "preemptVerb is not supported";
            if !settings.ignorable {
                return Err(failed(format!("{problem}; remove it: pods are then removed without asking the extender")));
            }
            tracing::warn!(extender = settings.url_prefix, "{problem}: pods are removed without asking it");
        }
        let unusable = |error: &dyn std::fmt::Display| {
            failed(format!("it cannot be used: {error}; check urlPrefix and tlsConfig"))
        };
        let (options, file) = (KubeConfigOptions::default(), connection(settings));
        let config = Config::from_custom_kubeconfig(file, &options).await.map_err(|error| unusable(&error))?;
        let client = Client::try_from(config).map_err(|error| unusable(&error))?;
        Ok(Self { client, settings: settings.clone() })
    }

    fn url(&self) -> &str {
        &self.settings.url_prefix
    }

    /// Whether it has a say about a pod: one that asks for a resource that it manages, or any if it manages none.
    fn is_interested(&self, pod: &Pod) -> bool {
        let managed = &self.settings.managed_resources;
        let asks = |container: &Container| {
            let resources = container.resources.iter();
            let mut names = resources.flat_map(|of| of.requests.iter().chain(&of.limits)).flat_map(BTreeMap::keys);
            names.any(|name| managed.iter().any(|managed| managed.name == *name))
        };
        let containers =
            pod.spec.iter().flat_map(|spec| spec.containers.iter().chain(spec.init_containers.iter().flatten()));
        managed.is_empty() || containers.into_iter().any(asks)
    }

    async fn send(&self, verb: &str, body: &Value) -> Result<Value, String> {
        let failed = |problem: &dyn std::fmt::Display| format!("extender {}: {verb}: {problem}", self.url());
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("/{verb}"))
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(Body::from(body.to_string().into_bytes()))
            .map_err(|error| failed(&error))?;
        let answer = async {
            let response = self.client.send(request).await.map_err(|error| failed(&error))?;
            let status = response.status();
            if status != http::StatusCode::OK {
                return Err(failed(&status));
            }
            let body = response.into_body().collect_bytes().await.map_err(|error| failed(&error))?;
            serde_json::from_slice(&body).map_err(|error| failed(&format!("the answer is not readable: {error}")))
        };
        match self.settings.http_timeout {
            None => answer.await,
            Some(limit) => tokio::time::timeout(limit, answer)
                .await
                .unwrap_or_else(|_| Err(failed(&format!("no answer in {:.0} seconds", limit.as_secs_f64())))),
        }
    }

    /// What it is asked with: names of nodes, or the nodes themselves.
    fn question(&self, pod: &Pod, names: &[&str], nodes: &BTreeMap<String, Arc<Node>>) -> Value {
        if self.settings.node_cache_capable {
            return json!({ "Pod": pod, "NodeNames": names });
        }
        let items: Vec<_> = names.iter().filter_map(|name| nodes.get(*name)).map(|node| json!(**node)).collect();
        json!({ "Pod": pod, "Nodes": { "apiVersion": "v1", "kind": "NodeList", "metadata": {}, "items": items } })
    }

    /// The nodes that it allows, by place among those it was asked about; and why it refuses the others.
    async fn filter(&self, question: &Value, names: &[&str]) -> Result<(Vec<usize>, Vec<String>), String> {
        let mut answer = fields(self.send(&self.settings.filter_verb, question).await?);
        if let Some(problem) = answer.get("error").and_then(Value::as_str).filter(|problem| !problem.is_empty()) {
            return Err(format!("extender {}: {problem}", self.url()));
        }
        let named = answer.get("nodenames").and_then(Value::as_array).filter(|_| self.settings.node_cache_capable);
        let items = answer.get("nodes").and_then(|nodes| nodes.get("items")).and_then(Value::as_array);
        let allowed: Vec<&Value> = match (named, items) {
            (Some(names), _) => names.iter().collect(),
            (None, items) => items.into_iter().flatten().map(|node| &node["metadata"]["name"]).collect(),
        };
        let mut is_allowed = vec![false; names.len()];
        for name in allowed {
            let place = names.iter().position(|known| Some(*known) == name.as_str());
            let place = place
                .ok_or_else(|| format!("extender {} allows node {name}, about which it was not asked", self.url()))?;
            is_allowed[place] = true;
        }
        let [worse, bad] = ["failedandunresolvablenodes", "failednodes"].map(|key| answer.remove(key));
        let told = |name: &str| {
            let reasons = [&worse, &bad].into_iter().flatten();
            reasons.into_iter().find_map(|reasons| reasons.get(name)?.as_str().map(str::to_owned))
        };
        let refused = names.iter().zip(&is_allowed).filter(|(_, is_allowed)| !**is_allowed);
        let reasons =
            refused.map(|(name, _)| told(name).unwrap_or_else(|| format!("refused by extender {}", self.url())));
        let reasons = reasons.collect();
        Ok((is_allowed.iter().enumerate().filter(|(_, is_allowed)| **is_allowed).map(|(at, _)| at).collect(), reasons))
    }

    /// What it gives each node.
    async fn prioritize(&self, question: &Value, names: &[&str]) -> Result<Vec<f64>, String> {
        let answer = self.send(&self.settings.prioritize_verb, question).await?;
        let mut points = vec![0.0; names.len()];
        let Value::Array(given) = answer else { return Err(format!("extender {}: points are no list", self.url())) };
        for given in given.into_iter().map(fields) {
            let place = names.iter().position(|name| given.get("host").and_then(Value::as_str) == Some(name));
            if let Some((place, score)) = place.zip(given.get("score").and_then(Value::as_i64)) {
                points[place] += score.saturating_mul(self.settings.weight).saturating_mul(SCALE) as f64;
            }
        }
        Ok(points)
    }

    /// Whether scheduling goes on without it.
    pub fn is_ignorable(&self) -> bool {
        self.settings.ignorable
    }

    /// Has it bind a pod.
    pub async fn bind(&self, binding: &Binding) -> Result<(), String> {
        let Binding { namespace, name, uid, node, .. } = binding;
        let body = json!({ "PodName": name, "PodNamespace": namespace, "PodUID": uid, "Node": node });
        let answer = fields(self.send(&self.settings.bind_verb, &body).await?);
        match answer.get("error").and_then(Value::as_str).filter(|problem| !problem.is_empty()) {
            Some(problem) => Err(format!("extender {}: {problem}", self.url())),
            None => Ok(()),
        }
    }
}

/// The fields of an object by their names in lower case: Go does not look at the case, and extenders rely on it.
fn fields(value: Value) -> Map<String, Value> {
    let Value::Object(fields) = value else { return Map::new() };
    fields.into_iter().map(|(name, value)| (name.to_lowercase(), value)).collect()
}

/// How an extender is reached, in the words of a kubeconfig.
fn connection(settings: &config::Extender) -> Kubeconfig {
    let tls = settings.tls_config.clone().unwrap_or_default();
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let data = |data: &[u8]| (!data.is_empty()).then(|| base64(data));
    let has_authority = !tls.ca_file.is_empty() || !tls.ca_data.is_empty();
    // As with kube-scheduler: without certificates to trust, any is trusted.
    let insecure = tls.insecure || (settings.enable_https && !has_authority);
    let cluster = Cluster {
        server: Some(settings.url_prefix.clone()),
        certificate_authority: text(&tls.ca_file),
        certificate_authority_data: data(&tls.ca_data),
        insecure_skip_tls_verify: Some(insecure),
        tls_server_name: text(&tls.server_name),
        ..Cluster::default()
    };
    let user = AuthInfo {
        client_certificate: text(&tls.cert_file),
        client_certificate_data: data(&tls.cert_data),
        client_key: text(&tls.key_file),
        client_key_data: data(&tls.key_data).map(Into::into),
        ..AuthInfo::default()
    };
    let name = "extender".to_owned();
    let context = kube::config::Context { cluster: name.clone(), user: Some(name.clone()), ..Default::default() };
    Kubeconfig {
        clusters: vec![kube::config::NamedCluster { name: name.clone(), cluster: Some(cluster), ..Default::default() }],
        auth_infos: vec![kube::config::NamedAuthInfo {
            name: name.clone(),
            auth_info: Some(user),
            ..Default::default()
        }],
        contexts: vec![kube::config::NamedContext { name: name.clone(), context: Some(context), ..Default::default() }],
        current_context: Some(name),
        ..Kubeconfig::default()
    }
}

/// Bytes as a kubeconfig has them.
fn base64(bytes: &[u8]) -> String {
    // It is how the API writes bytes.
    let text = serde_json::to_value(k8s_openapi::ByteString(bytes.to_vec())).unwrap_or_default();
    text.as_str().unwrap_or_default().to_owned()
}

/// What extenders make of a pod and the nodes that the rules allow.
#[derive(Debug, PartialEq)]
pub enum Verdict {
    /// These are left, by place in the list, each with points.
    Among(Vec<(usize, f64)>),
    /// None is left; why, for each.
    Nowhere(Vec<String>),
    /// One that has to be asked did not answer.
    Failed(String),
}

/// Extenders about to be asked about a pod.
pub struct Hearing {
    asked: Vec<Arc<Extender>>,
    pod: Arc<Pod>,
    nodes: BTreeMap<String, Arc<Node>>,
}

impl Hearing {
    /// Asks about these nodes: who filters first, one after the other, then who has preferences among what is left.
    pub async fn hold(self, names: &[String]) -> Verdict {
        let mut left: Vec<usize> = (0..names.len()).collect();
        let mut reasons = Vec::new();
        for extender in self.asked.iter().filter(|extender| !extender.settings.filter_verb.is_empty()) {
            let asked: Vec<&str> = left.iter().map(|at| names[*at].as_str()).collect();
            match extender.filter(&extender.question(&self.pod, &asked, &self.nodes), &asked).await {
                Ok((allowed, why)) => {
                    left = allowed.into_iter().map(|at| left[at]).collect();
                    reasons.extend(why);
                }
                Err(problem) if extender.is_ignorable() => tracing::warn!(problem, "it is done without an extender"),
                Err(problem) => return Verdict::Failed(problem),
            }
            if left.is_empty() {
                return Verdict::Nowhere(reasons);
            }
        }
        let asked: Vec<&str> = left.iter().map(|at| names[*at].as_str()).collect();
        let mut points = vec![0.0; left.len()];
        // With one node left there is nothing to prefer.
        let prefer =
            self.asked.iter().filter(|extender| !extender.settings.prioritize_verb.is_empty() && left.len() > 1);
        let given = prefer.map(async |extender| {
            extender.prioritize(&extender.question(&self.pod, &asked, &self.nodes), &asked).await
        });
        for given in join_all(given).await {
            match given {
                Ok(given) => points.iter_mut().zip(given).for_each(|(points, given)| *points += given),
                Err(problem) => tracing::warn!(problem, "nodes are ranked without an extender"),
            }
        }
        Verdict::Among(left.into_iter().zip(points).collect())
    }
}

/// The extenders of a configuration, with the objects that they are asked about.
pub struct Extenders {
    all: Vec<Arc<Extender>>,
    /// The pods that are not bound, by UID.
    pods: FxHashMap<String, Arc<Pod>>,
    /// The nodes, where an extender wants to see them.
    nodes: Option<BTreeMap<String, Arc<Node>>>,
}

impl Extenders {
    /// The extenders of a configuration; none if it has none. Has to be called where their clients will work.
    pub async fn new(settings: &[config::Extender]) -> Result<Option<Self>, ExtenderError> {
        if settings.is_empty() {
            return Ok(None);
        }
        let mut all = Vec::new();
        for settings in settings {
            all.push(Arc::new(Extender::new(settings).await?));
        }
        let sees_nodes = settings.iter().any(|settings| !settings.node_cache_capable);
        Ok(Some(Self { all, pods: FxHashMap::default(), nodes: sees_nodes.then(BTreeMap::new) }))
    }

    /// Takes note of an object that is asked about.
    pub fn hear(&mut self, event: &Event) {
        match event {
            Event::Apply(Object::Pod(pod)) => {
                let (Some(uid), Some(spec)) = (&pod.metadata.uid, &pod.spec) else { return };
                if spec.node_name.is_some() {
                    self.pods.remove(uid);
                } else {
                    self.pods.insert(uid.clone(), Arc::new((**pod).clone()));
                }
            }
            Event::Delete(Object::Pod(pod)) => {
                self.pods.remove(pod.metadata.uid.as_deref().unwrap_or_default());
            }
            Event::Apply(Object::Node(node)) => {
                if let (Some(nodes), Some(name)) = (&mut self.nodes, &node.metadata.name) {
                    nodes.insert(name.clone(), Arc::new((**node).clone()));
                }
            }
            Event::Delete(Object::Node(node)) => {
                if let Some(nodes) = &mut self.nodes {
                    nodes.remove(node.metadata.name.as_deref().unwrap_or_default());
                }
            }
            _ => {}
        }
    }

    /// Those who have a say about a pod; none for a pod that is not known, or is bound.
    pub fn hearing(&self, uid: &str, names: &[String]) -> Option<Hearing> {
        let pod = self.pods.get(uid)?;
        let asked = self.all.iter().filter(|extender| extender.is_interested(pod)).cloned().collect();
        let seen = |name: &String| Some((name.clone(), Arc::clone(self.nodes.as_ref()?.get(name)?)));
        Some(Hearing { asked, pod: Arc::clone(pod), nodes: names.iter().filter_map(seen).collect() })
    }

    /// Who binds a pod in our stead, if anybody does.
    pub fn binder(&self, uid: &str) -> Option<Arc<Extender>> {
        let pod = self.pods.get(uid)?;
        let binds = |extender: &&Arc<Extender>| !extender.settings.bind_verb.is_empty() && extender.is_interested(pod);
        self.all.iter().find(binds).cloned()
    }
}
