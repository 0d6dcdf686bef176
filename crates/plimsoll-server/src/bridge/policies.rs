//! Who ranks nodes: `/v1/policies` and what changes it.

use super::{Bridge, lock};
use crate::Shared;
use crate::answer::{Body, Problem, Refused};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use plimsoll_core::policy::Policy;
use plimsoll_kube::driver::Question;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

/// Switches back that are remembered.
const REMEMBERED: usize = 100;

/// The policies that can be chosen, and which one ranks.
#[utoipa::path(get, path = "/v1/policies", responses((status = 200, description = "The policies, with their evidence"), (status = 401, body = Problem), (status = 503, body = Problem)))]
pub async fn policies(State(app): Shared) -> Json<Value> {
    Json(app.bridge.policies())
}

/// Has a policy rank from the next decision on, for all profiles.
#[utoipa::path(post, path = "/v1/policies/{name}/activate", params(("name" = String, Path, description = "The policy; its slashes as %2F")), responses((status = 200, description = "The policies as they are now"), (status = 401, body = Problem), (status = 403, body = Problem), (status = 404, body = Problem), (status = 408, body = Problem), (status = 409, body = Problem), (status = 422, body = Problem), (status = 503, body = Problem)))]
pub async fn activate(State(app): Shared, Path(name): Path<String>) -> Result<Json<Value>, Refused> {
    if !(app.bridge.helm.catalogue)().iter().any(|entry| entry.name == name) {
        return Err(Refused::new(
            StatusCode::NOT_FOUND,
            format!("there is no policy {name:?}; /v1/policies lists them"),
        ));
    }
    app.bridge.switch(&name, None).await?;
    Ok(Json(app.bridge.policies()))
}

/// Has the policies rank again that did before the last switch.
#[utoipa::path(post, path = "/v1/policies/rollback", responses((status = 200, description = "The policies as they are now"), (status = 401, body = Problem), (status = 403, body = Problem), (status = 408, body = Problem), (status = 409, body = Problem), (status = 422, body = Problem), (status = 503, body = Problem)))]
pub async fn rollback(State(app): Shared) -> Result<Json<Value>, Refused> {
    app.bridge.back().await?;
    Ok(Json(app.bridge.policies()))
}

/// Which model, for which profile.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadRequest {
    /// The folder of a model, or the name of a policy, as `/v1/policies` lists it.
    path: String,
    /// The profile; all if not given.
    #[serde(default)]
    profile: Option<String>,
}

/// Has a model rank from the next decision on.
#[utoipa::path(post, path = "/model/load", request_body = LoadRequest, responses((status = 200, description = "The policy that ranks now"), (status = 400, body = Problem), (status = 401, body = Problem), (status = 403, body = Problem), (status = 404, body = Problem), (status = 408, body = Problem), (status = 409, body = Problem), (status = 413, body = Problem), (status = 415, body = Problem), (status = 422, body = Problem), (status = 503, body = Problem)))]
pub async fn load(State(app): Shared, Body(request): Body<LoadRequest>) -> Result<Json<Value>, Refused> {
    if !(app.bridge.helm.catalogue)().iter().any(|entry| entry.name == request.path) {
        let why = format!("{:?} is none of the models and policies that /v1/policies lists", request.path);
        return Err(Refused::new(StatusCode::NOT_FOUND, why));
    }
    app.bridge.switch(&request.path, request.profile.as_deref()).await?;
    Ok(Json(json!({ "policy": request.path })))
}

impl Bridge {
    fn policies(&self) -> Value {
        let active = self.read(|view| view.policies.clone());
        let name = active.first().map_or("default", |(_, policy)| policy.as_str());
        let items = (self.helm.catalogue)();
        json!({ "active": name, "profiles": active, "shadow": null, "trust": null, "items": items })
    }

    /// The policy of a profile.
    pub fn policy_of(&self, profile: &str) -> String {
        let found =
            self.read(|view| view.policies.iter().find(|(of, _)| of == profile).map(|(_, policy)| policy.clone()));
        found.unwrap_or_else(|| "default".to_owned())
    }

    /// The first profile that is known.
    pub fn first_profile(&self) -> Option<String> {
        self.read(|view| view.policies.first().map(|(profile, _)| profile.clone()))
    }

    fn remember(&self, policies: Vec<(String, String)>) {
        let mut before = lock(&self.before);
        before.push(policies);
        let excess = before.len().saturating_sub(REMEMBERED);
        before.drain(..excess);
    }

    /// Has the policies rank again that did before the last switch.
    async fn back(&self) -> Result<(), Refused> {
        let last = lock(&self.before).pop();
        let Some(last) = last else {
            return Err(Refused::new(StatusCode::CONFLICT, "nothing was switched since the start"));
        };
        for (profile, policy) in last {
            self.set(&profile, &policy, (self.helm.load)(&policy).map_err(Refused::unprocessable)?).await?;
        }
        self.tell_policies().await
    }

    async fn set(&self, profile: &str, name: &str, policy: Box<dyn Policy>) -> Result<(), Refused> {
        let ask = |answer| Question::SetPolicy(profile.to_owned(), name.to_owned(), policy, answer);
        match self.ask(ask).await? {
            true => Ok(()),
            false => Err(Refused::new(StatusCode::NOT_FOUND, format!("there is no profile {profile:?}"))),
        }
    }

    async fn tell_policies(&self) -> Result<(), Refused> {
        self.look().await?;
        let _ = self.updates.send(super::Update::new("policy", &self.policies()));
        Ok(())
    }

    /// Has a policy rank for a profile, or for all. It is read before anything changes: one that cannot be leaves all as it is.
    async fn switch(&self, name: &str, profile: Option<&str>) -> Result<(), Refused> {
        if self.helm.mode == "advise" {
            let why = "an adviser's policies are asked for by name; start it with others, or ask for another";
            return Err(Refused::new(StatusCode::CONFLICT, why));
        }
        let known = self.read(|view| view.policies.clone());
        let of: Vec<String> = match profile {
            Some(profile) => vec![profile.to_owned()],
            None => known.iter().map(|(profile, _)| profile.clone()).collect(),
        };
        let loaded: Result<Vec<_>, String> = of.iter().map(|_| (self.helm.load)(name)).collect();
        let loaded = loaded.map_err(Refused::unprocessable)?;
        for (profile, policy) in of.iter().zip(loaded) {
            self.set(profile, name, policy).await?;
        }
        self.remember(known);
        self.tell_policies().await
    }
}
