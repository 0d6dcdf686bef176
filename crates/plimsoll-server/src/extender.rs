//! The endpoints of a scheduler extender, as kube-scheduler calls them. Names of fields are kube-scheduler's.
//!
//! With `nodeCacheCapable: true` it sends names of nodes instead of nodes, which is what makes an extender fast.

use crate::answer::{Body, Problem, Refused, whole};
use crate::{App, Shared, limits};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use k8s_openapi::api::core::v1::{Node, Pod};
use plimsoll_core::reserve::Binding;
use plimsoll_kube::advise::{Candidates, Consultation, Objection};
use plimsoll_kube::driver::Question;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// The most points that an extender gives.
const MOST: i64 = 10;

/// What `filter` and `prioritize` are called with.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ExtenderArgs {
    /// A v1 Pod.
    #[schema(value_type = Object)]
    pod: Box<Pod>,
    /// A v1 NodeList, where the extender is not `nodeCacheCapable`.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    nodes: Option<Nodes>,
    /// The names of the nodes, where it is.
    #[serde(default)]
    node_names: Option<Vec<String>>,
}

/// As much of a NodeList as is sent back.
#[derive(Debug, Serialize, Deserialize)]
pub struct Nodes {
    #[serde(default)]
    items: Vec<Node>,
}

impl ExtenderArgs {
    fn names(&self) -> Vec<String> {
        match (&self.node_names, &self.nodes) {
            (Some(names), _) => names.clone(),
            (None, Some(nodes)) => nodes.items.iter().map(name).collect(),
            (None, None) => Vec::new(),
        }
    }
}

fn name(node: &Node) -> String {
    node.metadata.name.clone().unwrap_or_default()
}

/// What `filter` answers.
#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct FilterResult {
    /// The nodes that are left, where nodes were sent.
    #[schema(value_type = Option<Object>)]
    nodes: Option<Nodes>,
    /// Their names, where names were sent.
    node_names: Option<Vec<String>>,
    /// The others, with why; removing pods might help.
    failed_nodes: BTreeMap<String, String>,
    /// Those of them where it would not.
    failed_and_unresolvable_nodes: BTreeMap<String, String>,
    /// What went wrong; nothing if it is empty.
    error: String,
}

/// A node's points.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct HostPriority {
    /// The node.
    host: String,
    /// From 0 to 10.
    score: i64,
}

/// Leaves the nodes that the rules allow. A node that is not known here is left as well: the caller knows better.
#[utoipa::path(post, path = "/extender/filter", request_body = ExtenderArgs, responses(
    (status = 200, body = FilterResult), (status = 400, body = Problem), (status = 401, body = Problem), (status = 408, body = Problem),
    (status = 413, body = Problem), (status = 415, body = Problem), (status = 422, body = Problem), (status = 503, body = Problem),
))]
pub async fn filter(State(app): Shared, Body(args): Body<ExtenderArgs>) -> Result<Json<FilterResult>, Refused> {
    app.known()?;
    let (policy, pod) = (app.policy(None)?, args.pod.clone());
    let objections = match app.bridge.ask(|answer| Question::Object(policy, pod, answer)).await? {
        Ok(objections) => objections,
        Err(error) => return Ok(Json(FilterResult { error, ..FilterResult::default() })),
    };
    let objections: BTreeMap<_, _> =
        objections.into_iter().map(|objection| (objection.node.clone(), objection)).collect();
    Ok(Json(filtered(args, &objections)))
}

fn filtered(args: ExtenderArgs, objections: &BTreeMap<String, Objection>) -> FilterResult {
    let mut result = FilterResult::default();
    for node in args.names() {
        let Some(objection) = objections.get(&node) else { continue };
        let failed =
            if objection.resolvable { &mut result.failed_nodes } else { &mut result.failed_and_unresolvable_nodes };
        failed.insert(node, objection.reason.clone());
    }
    let is_left = |node: &String| !objections.contains_key(node);
    match (args.node_names, args.nodes) {
        (Some(names), _) => result.node_names = Some(names.into_iter().filter(is_left).collect()),
        (None, Some(nodes)) => {
            let items = nodes.items.into_iter().filter(|node| is_left(&name(node))).collect();
            result.nodes = Some(Nodes { items });
        }
        (None, None) => {}
    }
    result
}

/// Gives nodes points from 0 to 10. Those that have none are left out, which is the same to kube-scheduler, and where all have as many, all are: it reads a long answer slowly.
#[utoipa::path(post, path = "/extender/prioritize", request_body = ExtenderArgs, responses(
    (status = 200, body = [HostPriority]), (status = 400, body = Problem), (status = 401, body = Problem), (status = 408, body = Problem),
    (status = 413, body = Problem), (status = 415, body = Problem), (status = 422, body = Problem), (status = 503, body = Problem),
    (status = 504, body = Problem),
))]
pub async fn prioritize(
    State(app): Shared,
    Body(args): Body<ExtenderArgs>,
) -> Result<Json<Vec<HostPriority>>, Refused> {
    let names = args.names();
    if names.len() > limits::NODES {
        return Err(Refused::unprocessable(format!(
            "{} nodes are asked about; at most {} may be",
            names.len(),
            limits::NODES
        )));
    }
    let recommended = app.recommended(&args.pod, &names);
    let items = vec![Candidates { pod: args.pod, nodes: names.clone() }];
    let asked = Consultation { profile: app.policy(None)?, items, ..Consultation::default() };
    let judged = app.consult(asked, limits::DEADLINE).await?.pop();
    let judged = match judged {
        Some(Ok(judged)) => judged,
        Some(Err(error)) => return Err(Refused::unprocessable(error)),
        None => return Err(Refused::ended()),
    };
    let (scores, _) = app.decide(&judged, recommended, MOST);
    if scores.iter().all(|score| *score == Some(MOST)) {
        return Ok(Json(Vec::new()));
    }
    let row =
        |(host, score): (String, Option<i64>)| Some(HostPriority { host, score: score.filter(|score| *score > 0)? });
    Ok(Json(names.into_iter().zip(scores).filter_map(row).collect()))
}

/// What `preempt` is called with: pods that would have to leave, by node.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct PreemptionArgs {
    /// A v1 Pod.
    #[serde(rename = "Pod")]
    #[schema(value_type = Object)]
    _pod: Box<Pod>,
    /// The pods, where the extender is not `nodeCacheCapable`.
    #[serde(default)]
    node_name_to_victims: Option<BTreeMap<String, Victims>>,
    /// Their UIDs, where it is.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    node_name_to_meta_victims: Option<BTreeMap<String, Value>>,
}

/// The pods that would have to leave a node.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
struct Victims {
    #[serde(default)]
    #[schema(value_type = Vec<Object>)]
    pods: Vec<Pod>,
    #[serde(default, rename = "NumPDBViolations", deserialize_with = "whole")]
    violations: Option<u64>,
}

/// What `preempt` answers.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct PreemptionResult {
    /// The nodes that may be cleared, with the UIDs of the pods that would have to leave.
    #[schema(value_type = Object)]
    node_name_to_meta_victims: BTreeMap<String, Value>,
}

/// Agrees with what would be cleared: who must leave is for the rules alone.
#[utoipa::path(post, path = "/extender/preempt", request_body = PreemptionArgs, responses(
    (status = 200, body = PreemptionResult), (status = 400, body = Problem), (status = 401, body = Problem), (status = 408, body = Problem),
    (status = 413, body = Problem), (status = 415, body = Problem), (status = 422, body = Problem), (status = 503, body = Problem),
))]
pub async fn preempt(Body(args): Body<PreemptionArgs>) -> Json<PreemptionResult> {
    let meta = |victims: Victims| {
        let pods: Vec<_> = victims.pods.iter().map(|pod| json!({ "UID": pod.metadata.uid })).collect();
        json!({ "Pods": pods, "NumPDBViolations": victims.violations.unwrap_or(0) })
    };
    let from_pods =
        || args.node_name_to_victims.unwrap_or_default().into_iter().map(|(node, victims)| (node, meta(victims)));
    let victims = args.node_name_to_meta_victims.unwrap_or_else(|| from_pods().collect());
    Json(PreemptionResult { node_name_to_meta_victims: victims })
}

/// What `bind` is called with.
#[derive(Debug, Deserialize, ToSchema)]
pub struct BindingArgs {
    #[serde(rename = "PodName")]
    #[schema(pattern = "^[a-z0-9.-]+$", max_length = 253)]
    pod_name: String,
    #[serde(rename = "PodNamespace")]
    #[schema(pattern = "^[a-z0-9.-]+$", max_length = 253)]
    pod_namespace: String,
    #[serde(rename = "PodUID")]
    pod_uid: String,
    #[serde(rename = "Node")]
    #[schema(pattern = "^[a-z0-9.-]+$", max_length = 253)]
    node: String,
}

/// What `bind` answers.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct BindingResult {
    /// Why the pod is not bound; empty if it is.
    error: String,
}

/// Binds a pod.
#[utoipa::path(post, path = "/extender/bind", request_body = BindingArgs, responses(
    (status = 200, body = BindingResult), (status = 400, body = Problem), (status = 401, body = Problem), (status = 403, body = Problem), (status = 404, body = Problem), (status = 408, body = Problem),
    (status = 413, body = Problem), (status = 415, body = Problem), (status = 422, body = Problem), (status = 503, body = Problem),
))]
pub async fn bind(State(app): Shared, Body(args): Body<BindingArgs>) -> Result<Json<BindingResult>, Refused> {
    if ![&args.pod_name, &args.pod_namespace, &args.node].into_iter().all(|name| is_name(name)) {
        return Err(Refused::unprocessable("PodName, PodNamespace and Node must be names of objects"));
    }
    let Some(binder) = &app.binder else {
        return Err(Refused::new(StatusCode::NOT_FOUND, "this server binds no pods; start it with --bind"));
    };
    let binding = Binding {
        namespace: args.pod_namespace,
        name: args.pod_name,
        uid: args.pod_uid,
        node: args.node,
        generation: 0,
        scheduler: String::new(),
    };
    let error = binder.bind(&binding).await.err().map(|error| error.to_string()).unwrap_or_default();
    app.placed(&binding, error.is_empty()).await;
    Ok(Json(BindingResult { error }))
}

/// Whether an object can have this name: nothing else may get into a path.
fn is_name(text: &str) -> bool {
    (1..=253).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.'))
}

impl App {
    /// A pod that was bound takes room before a watch tells of it.
    async fn placed(&self, binding: &Binding, is_bound: bool) {
        if !is_bound {
            return;
        }
        let placed = vec![plimsoll_kube::advise::Placed { uid: binding.uid.clone(), node: binding.node.clone() }];
        let asked = Consultation { placed, ..Consultation::default() };
        // A server that is about to end need not know.
        let _ = self.consult(asked, limits::DEADLINE).await;
    }
}
