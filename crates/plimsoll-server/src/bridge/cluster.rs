//! The cluster: `/cluster/state`, `/cluster/nodes`, `/cluster/nodes/{name}`.

use super::{Bridge, View};
use crate::Shared;
use crate::answer::{Page, Path, Problem, Query, Refused};
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use plimsoll_kube::driver::Question;
use plimsoll_kube::survey::NodeView;
use serde_json::{Value, json};
use std::sync::PoisonError;
use std::time::SystemTime;

/// All nodes, and figures of the whole.
#[utoipa::path(get, path = "/cluster/state", responses((status = 200, description = "All nodes, and figures of the whole"), (status = 401, body = Problem), (status = 503, body = Problem)))]
pub async fn state(State(app): Shared) -> Response {
    let body = app.bridge.state();
    ([(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")], body).into_response()
}

impl Bridge {
    /// The answer to `/cluster/state`: written once for all who ask before something changes.
    fn state(&self) -> Bytes {
        let known = self
            .read(|view| view.written.as_ref().filter(|(of, _)| *of == view.revision).map(|(_, text)| text.clone()));
        if let Some(text) = known {
            return text;
        }
        let mut view = self.view.write().unwrap_or_else(PoisonError::into_inner);
        let text = Bytes::from(self.state_of(&view).to_string());
        view.written = Some((view.revision, text.clone()));
        text
    }

    fn state_of(&self, view: &View) -> Value {
        let nodes: Vec<&NodeView> = view.nodes.values().collect();
        let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        json!({ "at": at, "revision": view.revision, "nodes": nodes, "totals": self.totals(view) })
    }
}

/// Nodes, page by page, in the order of their names.
#[utoipa::path(get, path = "/cluster/nodes", params(Page), responses((status = 200, description = "Nodes"), (status = 400, body = Problem), (status = 401, body = Problem), (status = 503, body = Problem)))]
pub async fn nodes(State(app): Shared, Query(page): Query<Page>) -> Json<Value> {
    let mut nodes: Vec<NodeView> = app.bridge.read(|view| view.nodes.values().cloned().collect());
    nodes.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Json(page.of(nodes, |node| node.name.clone()))
}

/// A node, with its pods.
#[utoipa::path(get, path = "/cluster/nodes/{name}", params(("name" = String, Path, description = "The node")), responses((status = 200, description = "A node, with its pods"), (status = 401, body = Problem), (status = 404, body = Problem), (status = 503, body = Problem)))]
pub async fn node(State(app): Shared, Path(name): Path<String>) -> Result<Json<Value>, Refused> {
    let looked = app.bridge.ask(|answer| Question::Node(name.clone(), answer)).await?;
    let Some(looked) = looked else {
        return Err(Refused::new(StatusCode::NOT_FOUND, format!("there is no node {name:?}")));
    };
    let mut value = serde_json::to_value(&looked).unwrap_or_default();
    value["telemetry"] = json!(crate::nodes::readings(&app, &name));
    Ok(Json(value))
}
