//! `/v1/scores`: what a policy makes of the nodes that a pod may go to.

use crate::answer::{Body, Problem, Refused, whole};
use crate::limits;
use crate::points::points;
use crate::{App, Shared};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use k8s_openapi::api::core::v1::Pod;
use plimsoll_core::framework::MAX_NODE_SCORE;
use plimsoll_kube::advise::{Candidates, Consultation, Judged, Placed};
use plimsoll_kube::driver::Question;
use serde::{Deserialize, Serialize};
use std::sync::atomic::Ordering;
use std::time::Duration;
use utoipa::ToSchema;

/// What is asked.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScoresRequest {
    /// The pods, each with its nodes.
    #[schema(max_items = 256)]
    items: Vec<Item>,
    /// The policy that judges; the server's first if not given.
    #[serde(default)]
    policy: Option<String>,
    /// How long the answer may take, in milliseconds.
    #[serde(default, deserialize_with = "whole")]
    #[schema(minimum = 1, maximum = 30000)]
    deadline_ms: Option<u64>,
    /// The score of the best nodes; 100 if not given. With more, scores of some of the nodes can be brought to the same scale again.
    #[serde(default, deserialize_with = "whole")]
    #[schema(minimum = 1, maximum = 1000000000)]
    most: Option<u64>,
    /// Pods that the caller has placed since it asked last. They take room from now on.
    #[serde(default)]
    placed: Vec<PlacedPod>,
    /// The UIDs of placed pods that could not be bound.
    #[serde(default)]
    released: Vec<String>,
}

/// A pod, and the nodes it may go to.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// A v1 Pod.
    #[schema(value_type = Object)]
    pod: Box<Pod>,
    /// The nodes, by name.
    nodes: Vec<String>,
}

/// Where a pod was placed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PlacedPod {
    /// The pod's namespace.
    #[serde(default, rename = "namespace")]
    _namespace: String,
    /// The pod's name.
    #[serde(default, rename = "name")]
    _name: String,
    /// The pod's UID.
    uid: String,
    /// The node.
    node: String,
}

/// What is answered.
#[derive(Debug, Serialize, ToSchema)]
pub struct ScoresResponse {
    /// In the order of the request.
    items: Vec<Scored>,
}

/// What is made of the nodes for a pod: scores, or what is wrong.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum Scored {
    /// Judged.
    Scores(Scores),
    /// Not judged.
    Problem(Problem),
}

/// Scores of nodes.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Scores {
    /// From 0 to 100, or to `most`, in the order of the nodes; null for a node that is not known. Only the best have the most.
    scores: Vec<Option<i64>>,
    /// Whether other nodes do not count: what is best among some of these nodes is what would be, had those alone been asked about.
    apart: bool,
    /// The policy that judged.
    policy: String,
    /// `model`, `heuristic`, or `recommendation` where somebody has said where the pod goes.
    decided_by: &'static str,
}

/// Scores of nodes for pods.
#[utoipa::path(post, path = "/v1/scores", request_body = ScoresRequest, responses(
    (status = 200, body = ScoresResponse, description = "A score for each node of each pod"),
    (status = 400, body = Problem, description = "No JSON"),
    (status = 401, body = Problem, description = "No token, or a wrong one"),
    (status = 404, body = Problem, description = "There is no such policy"),
    (status = 408, body = Problem, description = "The request took too long to come"),
    (status = 413, body = Problem, description = "The request is too long"),
    (status = 415, body = Problem, description = "Another kind of body"),
    (status = 422, body = Problem, description = "What is asked for cannot be"),
    (status = 503, body = Problem, description = "Busy, or not all objects are known yet"),
    (status = 504, body = Problem, description = "Not done in time"),
))]
pub async fn scores(State(app): Shared, Body(request): Body<ScoresRequest>) -> Result<Json<ScoresResponse>, Refused> {
    let profile = app.policy(request.policy.as_deref())?;
    let deadline = match request.deadline_ms {
        None => limits::DEADLINE,
        Some(ms @ 1..=30_000) => Duration::from_millis(ms),
        Some(ms) => return Err(Refused::unprocessable(format!("deadlineMs is {ms}; it must be from 1 to 30000"))),
    };
    let most = match request.most {
        None => MAX_NODE_SCORE as u64,
        Some(most @ 1..=limits::MOST) => most,
        Some(most) => {
            return Err(Refused::unprocessable(format!("most is {most}; it must be from 1 to {}", limits::MOST)));
        }
    };
    let nodes: usize = request.items.iter().map(|item| item.nodes.len()).sum();
    if request.items.len() > limits::ITEMS || nodes > limits::NODES {
        let (items, most_items, most_nodes) = (request.items.len(), limits::ITEMS, limits::NODES);
        return Err(Refused::unprocessable(format!(
            "{items} pods with {nodes} nodes are asked about; at most {most_items} with {most_nodes} may be"
        )));
    }
    let recommended: Vec<_> = request.items.iter().map(|item| app.recommended(&item.pod, &item.nodes)).collect();
    let placed = request.placed.into_iter().map(|placed| Placed { uid: placed.uid, node: placed.node }).collect();
    let items = request.items.into_iter().map(|item| Candidates { pod: item.pod, nodes: item.nodes }).collect();
    let asked = Consultation { profile: profile.clone(), items, placed, released: request.released };
    let judged = app.consult(asked, deadline).await?;
    let scored =
        judged.into_iter().zip(recommended).map(|(judged, at)| app.scored(&profile, judged, at, most as i64)).collect();
    Ok(Json(ScoresResponse { items: scored }))
}

impl App {
    /// The policy that judges.
    pub(crate) fn policy(&self, wanted: Option<&str>) -> Result<String, Refused> {
        let Some(wanted) = wanted else {
            return self.policies.first().cloned().ok_or_else(|| Refused::unprocessable("there is no policy"));
        };
        self.policies.iter().find(|known| *known == wanted).cloned().ok_or_else(|| {
            let served = self.policies.join(", ");
            Refused::new(StatusCode::NOT_FOUND, format!("policy {wanted:?} is not served; there are {served}"))
        })
    }

    /// Asks the engine.
    pub(crate) async fn consult(
        &self,
        asked: Consultation,
        deadline: Duration,
    ) -> Result<Vec<Result<Judged, String>>, Refused> {
        self.known()?;
        let work = self.bridge.ask(|answer| Question::Advise(asked, answer));
        tokio::time::timeout(deadline, work).await.unwrap_or_else(|_| {
            self.metrics.refused("late");
            Err(Refused::new(StatusCode::GATEWAY_TIMEOUT, format!("not done in {} ms", deadline.as_millis())))
        })
    }

    /// Nothing is said before all objects are known: it would be of a part of the cluster.
    pub(crate) fn known(&self) -> Result<(), Refused> {
        match self.ready.load(Ordering::Acquire) {
            true => Ok(()),
            false => Err(Refused::busy("not all objects of the cluster are known yet; see /readyz")),
        }
    }

    /// Where among these nodes somebody wants the pod to be.
    pub(crate) fn recommended(&self, pod: &Pod, nodes: &[String]) -> Option<usize> {
        let wanted = self.recommendations.node_for(&pod.metadata)?;
        nodes.iter().position(|node| *node == wanted)
    }

    /// What is answered about a pod; `recommended` is the place of the node that somebody wants for it.
    fn scored(&self, policy: &str, judged: Result<Judged, String>, recommended: Option<usize>, most: i64) -> Scored {
        let judged = match judged {
            Ok(judged) => judged,
            Err(error) => {
                self.metrics.decided("error");
                return Scored::Problem(Problem { error });
            }
        };
        let (scores, decided_by) = self.decide(&judged, recommended, most);
        // Without the node that somebody wants, the policy would decide.
        let apart = judged.apart && recommended.is_none();
        Scored::Scores(Scores { scores, apart, policy: policy.to_owned(), decided_by })
    }

    /// Points from 0 to `most` for each node, all of them for one that somebody wants; and who has decided, which is counted.
    pub(crate) fn decide(
        &self,
        judged: &Judged,
        recommended: Option<usize>,
        most: i64,
    ) -> (Vec<Option<i64>>, &'static str) {
        let (scores, decided_by) = match recommended {
            Some(at) => {
                let point = |place| Some(if place == at { most } else { 0 });
                ((0..judged.scores.len()).map(point).collect(), "recommendation")
            }
            None if judged.learned => (points(&judged.scores, most), "model"),
            None => (points(&judged.scores, most), "heuristic"),
        };
        self.metrics.decided(decided_by);
        (scores, decided_by)
    }
}
