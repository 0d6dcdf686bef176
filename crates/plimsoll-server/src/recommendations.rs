//! Recommendations: where people or programs want pods to be. They count more than any policy, among the nodes that the rules allow.

use crate::Shared;
use crate::answer::{Body, Path, Problem, Refused, whole};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use utoipa::ToSchema;

/// Recommendations that are kept.
const MOST: usize = 10_000;
/// A year: what is to hold for longer holds until it is deleted.
const LONGEST_TTL: u64 = 31_536_000;
/// The longest name of an object.
const LONGEST_NAME: usize = 253;

/// Where a pod should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Recommendation {
    /// The node.
    #[schema(min_length = 1, max_length = 253)]
    pub node: String,
    /// Who says so, or why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Seconds for which it holds; until it is deleted if not given. In an answer: seconds that are left.
    #[schema(maximum = 31_536_000)]
    #[serde(default, deserialize_with = "whole", skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u64>,
}

/// A recommendation, and what it is for.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Recommended {
    /// The namespace.
    namespace: String,
    /// The name of a pod, or the beginning of names, with `*` at its end.
    pod: String,
    /// What is recommended.
    #[serde(flatten)]
    recommendation: Recommendation,
}

struct Kept {
    recommendation: Recommendation,
    until: Option<Instant>,
}

impl Kept {
    fn holds(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| now < until)
    }

    fn left(&self, now: Instant) -> Recommendation {
        let ttl_seconds = self.until.map(|until| until.saturating_duration_since(now).as_secs());
        Recommendation { ttl_seconds, ..self.recommendation.clone() }
    }
}

type Key = (String, String);

/// What is recommended, by namespace and name.
#[derive(Default)]
pub struct Recommendations(Mutex<BTreeMap<Key, Kept>>);

impl Recommendations {
    fn with<T>(&self, work: impl FnOnce(&mut BTreeMap<Key, Kept>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The node that is recommended for a pod: by its name, or by the longest beginning of it.
    pub fn node_for(&self, pod: &ObjectMeta) -> Option<String> {
        let namespace = pod.namespace.as_deref().unwrap_or("default");
        let name = pod.name.as_deref().or(pod.generate_name.as_deref()).unwrap_or_default();
        let now = Instant::now();
        self.with(|kept| {
            if kept.is_empty() {
                return None;
            }
            let holds = |key: String| kept.get(&(namespace.to_owned(), key)).filter(|kept| kept.holds(now));
            let beginnings = name.char_indices().rev().map(|(at, last)| format!("{}*", &name[..at + last.len_utf8()]));
            let keys = std::iter::once(name.to_owned()).chain(beginnings).chain(std::iter::once("*".to_owned()));
            keys.into_iter().find_map(holds).map(|kept| kept.recommendation.node.clone())
        })
    }

    /// Recommends a node for a pod, or for all whose names begin so, with `*` at the end.
    pub fn recommend(&self, namespace: &str, pod: &str, node: &str) {
        let recommendation = Recommendation { node: node.to_owned(), reason: None, ttl_seconds: None };
        self.with(|all| all.insert((namespace.to_owned(), pod.to_owned()), Kept { recommendation, until: None }));
    }

    /// Takes back what was recommended.
    pub fn withdraw(&self, namespace: &str, pod: &str) {
        self.with(|all| all.remove(&(namespace.to_owned(), pod.to_owned())));
    }

    fn set(&self, key: Key, recommendation: Recommendation, now: Instant) -> Result<bool, Refused> {
        let until = recommendation.ttl_seconds.map(|seconds| now + Duration::from_secs(seconds.min(LONGEST_TTL)));
        self.with(|all| {
            if all.len() >= MOST {
                all.retain(|_, kept| kept.holds(now));
            }
            if all.len() >= MOST && !all.contains_key(&key) {
                return Err(Refused::busy(format!("{MOST} recommendations are kept; delete some")));
            }
            Ok(all.insert(key, Kept { recommendation, until }).is_none_or(|before| !before.holds(now)))
        })
    }
}

/// All recommendations.
#[utoipa::path(get, path = "/v1/recommendations", responses(
    (status = 200, body = [Recommended]), (status = 401, body = Problem), (status = 503, body = Problem),
))]
pub async fn list(State(app): Shared) -> Json<Vec<Recommended>> {
    let now = Instant::now();
    Json(app.recommendations.with(|all| {
        let held = all.iter().filter(|(_, kept)| kept.holds(now));
        let row = |((namespace, pod), kept): (&Key, &Kept)| Recommended {
            namespace: namespace.clone(),
            pod: pod.clone(),
            recommendation: kept.left(now),
        };
        held.map(row).collect()
    }))
}

fn nothing((namespace, pod): &Key) -> Refused {
    Refused::new(StatusCode::NOT_FOUND, format!("nothing is recommended for {namespace}/{pod}"))
}

/// What is recommended for a pod.
#[utoipa::path(get, path = "/v1/recommendations/{namespace}/{pod}",
    params(("namespace" = String, Path, max_length = 253), ("pod" = String, Path, max_length = 253, description = "A pod, or the beginning of names with * at its end")),
    responses((status = 200, body = Recommendation), (status = 400, body = Problem), (status = 401, body = Problem),
        (status = 404, body = Problem), (status = 503, body = Problem)))]
pub async fn get(State(app): Shared, Path(key): Path<Key>) -> Result<Json<Recommendation>, Refused> {
    let now = Instant::now();
    let found = app.recommendations.with(|all| all.get(&key).filter(|kept| kept.holds(now)).map(|kept| kept.left(now)));
    found.map(Json).ok_or_else(|| nothing(&key))
}

/// Recommends a node for a pod.
#[utoipa::path(put, path = "/v1/recommendations/{namespace}/{pod}", request_body = Recommendation,
    params(("namespace" = String, Path, max_length = 253), ("pod" = String, Path, max_length = 253)),
    responses((status = 200, body = Recommendation, description = "Changed"), (status = 201, body = Recommendation, description = "New"),
        (status = 400, body = Problem), (status = 401, body = Problem), (status = 403, body = Problem), (status = 408, body = Problem), (status = 413, body = Problem),
        (status = 415, body = Problem), (status = 422, body = Problem), (status = 503, body = Problem)))]
pub async fn put(
    State(app): Shared,
    Path(key): Path<Key>,
    Body(recommendation): Body<Recommendation>,
) -> Result<(StatusCode, Json<Recommendation>), Refused> {
    if recommendation.node.is_empty()
        || [&key.0, &key.1, &recommendation.node].iter().any(|name| name.len() > LONGEST_NAME)
    {
        return Err(Refused::unprocessable(format!("names have 1 to {LONGEST_NAME} characters")));
    }
    if recommendation.ttl_seconds.is_some_and(|seconds| seconds > LONGEST_TTL) {
        return Err(Refused::unprocessable(format!("ttlSeconds is at most {LONGEST_TTL}")));
    }
    let is_new = app.recommendations.set(key, recommendation.clone(), Instant::now())?;
    Ok((if is_new { StatusCode::CREATED } else { StatusCode::OK }, Json(recommendation)))
}

/// Takes a recommendation back.
#[utoipa::path(delete, path = "/v1/recommendations/{namespace}/{pod}",
    params(("namespace" = String, Path, max_length = 253), ("pod" = String, Path, max_length = 253)),
    responses((status = 204), (status = 400, body = Problem), (status = 401, body = Problem), (status = 403, body = Problem), (status = 404, body = Problem),
        (status = 503, body = Problem)))]
pub async fn delete(State(app): Shared, Path(key): Path<Key>) -> Result<StatusCode, Refused> {
    let gone = app.recommendations.with(|all| all.remove(&key));
    gone.map(|_| StatusCode::NO_CONTENT).ok_or_else(|| nothing(&key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(name: &str) -> ObjectMeta {
        ObjectMeta { name: Some(name.into()), namespace: Some("shop".into()), ..ObjectMeta::default() }
    }

    fn set(all: &Recommendations, pod: &str, node: &str, ttl_seconds: Option<u64>, now: Instant) -> bool {
        let recommendation = Recommendation { node: node.into(), reason: None, ttl_seconds };
        all.set(("shop".into(), pod.into()), recommendation, now).unwrap()
    }

    #[test]
    fn the_longest_beginning_of_a_name_counts() {
        let (all, now) = (Recommendations::default(), Instant::now());
        assert_eq!(all.node_for(&meta("cart-1")), None);
        assert!(set(&all, "*", "any", None, now));
        assert!(set(&all, "cart-*", "carts", None, now));
        assert!(set(&all, "cart-1", "first", None, now));
        assert!(!set(&all, "cart-1", "one", None, now), "it is not new");
        for (pod, node) in [("cart-1", "one"), ("cart-12", "carts"), ("carts", "any"), ("web", "any")] {
            assert_eq!(all.node_for(&meta(pod)).as_deref(), Some(node), "{pod}");
        }
    }

    #[test]
    fn what_has_ended_counts_no_more_and_makes_room() {
        let all = Recommendations::default();
        let past = Instant::now().checked_sub(Duration::from_secs(10)).unwrap();
        for at in 0..MOST {
            set(&all, &format!("p{at}"), "n", Some(5), past);
        }
        assert_eq!(all.node_for(&meta("p1")), None);
        assert!(set(&all, "fresh", "n", None, Instant::now()));
        assert_eq!(all.with(|all| all.len()), 1);
    }
}
