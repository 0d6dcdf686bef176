//! Decisions and pods that wait: `/v1/decisions`, `/v1/pending`, `/v1/what-if`.

use crate::Shared;
use crate::answer::{Body, Page, Problem, Refused};
use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use k8s_openapi::api::core::v1::Pod;
use plimsoll_kube::driver::Question;
use plimsoll_kube::reasons::Reasons;
use plimsoll_kube::survey::Decision;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// Which decisions.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Search {
    /// Of pods of this namespace.
    namespace: Option<String>,
    /// Of pods whose names have this in them.
    pod: Option<String>,
    /// For this node.
    node: Option<String>,
    /// By this policy.
    policy: Option<String>,
    /// `placed`, `refused`, `preempting` or `failed`.
    outcome: Option<String>,
}

impl Search {
    fn finds(&self, decision: &Decision) -> bool {
        let is = |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|wanted| wanted == value);
        is(&self.namespace, &decision.namespace)
            && self.pod.as_deref().is_none_or(|part| decision.pod.contains(part))
            && is(&self.node, decision.node.as_deref().unwrap_or_default())
            && is(&self.policy, &decision.policy)
            && is(&self.outcome, decision.outcome)
    }
}

/// The last decisions, the newest first.
#[utoipa::path(get, path = "/v1/decisions", params(Search, Page), responses((status = 200, description = "Decisions"), (status = 400, body = Problem), (status = 401, body = Problem), (status = 503, body = Problem)))]
pub async fn decisions(State(app): Shared, Query(search): Query<Search>, Query(page): Query<Page>) -> Json<Value> {
    let found: Vec<Arc<Decision>> = app
        .bridge
        .read(|view| view.decisions.iter().rev().filter(|decision| search.finds(decision)).cloned().collect());
    // Numbers grow and the newest come first: the key of a page must grow with the place.
    let mut page = page.of(found, |decision| format!("{:020}", u64::MAX - decision.id));
    for row in page["items"].as_array_mut().into_iter().flatten() {
        row["shadow_node"] = json!(row["uid"].as_str().and_then(|uid| app.bridge.shadow_node(uid)));
    }
    Json(page)
}

/// A decision, and why: as it was seen then (`as_of` is `then`), or else what would be decided about its pod now.
#[utoipa::path(get, path = "/v1/decisions/{id}", params(("id" = u64, Path, description = "Its number")), responses((status = 200, description = "A decision, and why"), (status = 400, body = Problem), (status = 401, body = Problem), (status = 404, body = Problem), (status = 503, body = Problem)))]
pub async fn decision(State(app): Shared, Path(id): Path<u64>) -> Result<Json<Value>, Refused> {
    let found = app.bridge.read(|view| view.decisions.iter().rev().find(|decision| decision.id == id).cloned());
    let Some(decision) = found else {
        let why = format!("decision {id} is not among the last ones; see /v1/decisions");
        return Err(Refused::new(StatusCode::NOT_FOUND, why));
    };
    let mut value = told(&*decision);
    value["shadow_node"] = json!(app.bridge.shadow_node(&decision.uid));
    match app.bridge.ask(|answer| Question::Why(decision, answer)).await? {
        Ok(why) => merge(&mut value, told(&why)),
        Err(why) => merge(&mut value, json!({ "scores": [], "refused": [], "note": why })),
    }
    Ok(Json(value))
}

/// Pods that wait.
#[utoipa::path(get, path = "/v1/pending", params(Page), responses((status = 200, description = "Pods that wait"), (status = 400, body = Problem), (status = 401, body = Problem), (status = 503, body = Problem)))]
pub async fn pending(State(app): Shared, Query(page): Query<Page>) -> Result<Json<Value>, Refused> {
    let mut pods = app.bridge.ask(Question::Pending).await?;
    pods.sort_unstable_by(|a, b| (&a.pod.namespace, &a.pod.name).cmp(&(&b.pod.namespace, &b.pod.name)));
    let rows: Vec<Value> = pods
        .iter()
        .map(|pod| {
            let queue = pod.gated_by.map_or_else(|| format!("{:?}", pod.place).to_lowercase(), |_| "gated".to_owned());
            json!({
                "namespace": pod.pod.namespace, "name": pod.pod.name, "queue": queue, "attempts": pod.attempts,
                "message": pod.message, "plugins": pod.gated_by.map(|plugin| vec![plugin.as_str()]).unwrap_or_default(),
            })
        })
        .collect();
    let key = |row: &Value| {
        format!("{}/{}", row["namespace"].as_str().unwrap_or_default(), row["name"].as_str().unwrap_or_default())
    };
    Ok(Json(page.of(rows, key)))
}

/// Why a pod is where it is, or waits: every node with what is said of it.
#[utoipa::path(get, path = "/explain/{namespace}/{name}", params(("namespace" = String, Path), ("name" = String, Path)), responses((status = 200, description = "What is known of the pod"), (status = 401, body = Problem), (status = 404, body = Problem), (status = 503, body = Problem)))]
pub async fn explain(
    State(app): Shared,
    Path((namespace, name)): Path<(String, String)>,
) -> Result<Json<Value>, Refused> {
    let asked = (namespace.clone(), name.clone());
    match app.bridge.ask(|answer| Question::Explain(asked.0, asked.1, answer)).await? {
        Some(explained) => Ok(Json(serde_json::to_value(&explained).unwrap_or_default())),
        None => {
            Err(Refused::new(StatusCode::NOT_FOUND, format!("there is no pod {namespace}/{name}, or it has ended")))
        }
    }
}

/// What is asked.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WhatIfRequest {
    /// A v1 Pod.
    #[schema(value_type = Object)]
    pod: Box<Pod>,
    /// The profile that would decide; the first if not given.
    #[serde(default)]
    profile: Option<String>,
}

/// Where a pod would go now, and why. Nothing is changed.
#[utoipa::path(post, path = "/v1/what-if", request_body = WhatIfRequest, responses((status = 200, description = "Where it would go, and why"), (status = 400, body = Problem), (status = 401, body = Problem), (status = 408, body = Problem), (status = 413, body = Problem), (status = 415, body = Problem), (status = 422, body = Problem), (status = 503, body = Problem)))]
pub async fn what_if(State(app): Shared, Body(request): Body<WhatIfRequest>) -> Result<Json<Value>, Refused> {
    app.known()?;
    let profile = match request.profile {
        Some(profile) => profile,
        None => app.bridge.first_profile().unwrap_or_else(|| "default-scheduler".to_owned()),
    };
    let mut pod = request.pod;
    // The pod is asked about under a name and UID of its own: nobody else's is touched.
    pod.metadata.uid = Some("what-if".to_owned());
    pod.metadata.name.get_or_insert_with(|| "what-if".to_owned());
    pod.metadata.namespace.get_or_insert_with(|| "default".to_owned());
    if let Some(spec) = &mut pod.spec {
        spec.node_name = None;
        spec.scheduler_name = Some(profile.clone());
    }
    let names = (pod.metadata.namespace.clone(), pod.metadata.name.clone());
    let answer = app.bridge.ask(|answer| Question::WhatIf(profile.clone(), pod, answer)).await?;
    let now = answer.map_err(Refused::unprocessable)?;
    let mut value = told(&Reasons::from(&now));
    let outcome = match (now.best.first(), &now.account.preemption) {
        (Some(_), _) => "placed",
        (None, Some(_)) => "preempting",
        (None, None) => "refused",
    };
    let policy = app.bridge.policy_of(&profile);
    merge(
        &mut value,
        json!({
            "namespace": names.0, "pod": names.1, "outcome": outcome, "policy": policy, "profile": profile,
            "node": now.best.first().map(|(node, _)| node), "feasible": now.feasible, "message": now.account.message,
        }),
    );
    Ok(Json(value))
}

fn told(what: &impl Serialize) -> Value {
    serde_json::to_value(what).unwrap_or_default()
}

fn merge(into: &mut Value, more: Value) {
    if let (Some(into), Value::Object(more)) = (into.as_object_mut(), more) {
        into.extend(more);
    }
}
