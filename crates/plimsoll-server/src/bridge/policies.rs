//! Who ranks nodes: `/v1/policies` and what changes it.

use super::{Bridge, lock};
use crate::Shared;
use crate::answer::{Body, Path, Problem, Refused};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use plimsoll_core::policy::Policy;
use plimsoll_kube::driver::Question;
use plimsoll_kube::twin::{Account, Twin};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::PoisonError;
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
    app.bridge.switch(&request.path, request.profile.as_deref()).await?;
    Ok(Json(json!({ "policy": request.path })))
}

/// A policy that places pods in thought.
pub struct Shadow {
    name: String,
    twin: Twin,
}

/// Has a policy place the pods that come from now on, in thought, beside the one in force.
#[utoipa::path(post, path = "/v1/policies/{name}/shadow", params(("name" = String, Path, description = "The policy; its slashes as %2F")), responses((status = 200, description = "The policies as they are now"), (status = 401, body = Problem), (status = 403, body = Problem), (status = 404, body = Problem), (status = 408, body = Problem), (status = 409, body = Problem), (status = 422, body = Problem), (status = 503, body = Problem)))]
pub async fn shadow(State(app): Shared, Path(name): Path<String>) -> Result<Json<Value>, Refused> {
    app.bridge.begin_shadow(&name)?;
    Ok(Json(app.bridge.tell_policies().await?))
}

/// Ends the shadow.
#[utoipa::path(delete, path = "/v1/policies/shadow", responses((status = 200, description = "The policies as they are now"), (status = 401, body = Problem), (status = 403, body = Problem), (status = 408, body = Problem), (status = 503, body = Problem)))]
pub async fn end_shadow(State(app): Shared) -> Result<Json<Value>, Refused> {
    app.bridge.end_shadow();
    Ok(Json(app.bridge.tell_policies().await?))
}

/// How much a model's own score weighs.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Trust {
    /// From 0, its heuristic alone, up; as its card says if null.
    #[schema(minimum = 0)]
    trust: Option<f64>,
}

/// Weighs the own scores of models against those of their heuristics, for those that rank and those to come.
#[utoipa::path(put, path = "/v1/policies/trust", request_body = Trust, responses((status = 200, description = "The policies as they are now"), (status = 400, body = Problem), (status = 401, body = Problem), (status = 403, body = Problem), (status = 408, body = Problem), (status = 409, body = Problem), (status = 413, body = Problem), (status = 415, body = Problem), (status = 422, body = Problem), (status = 503, body = Problem)))]
pub async fn trust(State(app): Shared, Body(request): Body<Trust>) -> Result<Json<Value>, Refused> {
    if request.trust.is_some_and(|trust| !(trust.is_finite() && trust >= 0.0)) {
        return Err(Refused::unprocessable("trust is a number from 0 up"));
    }
    let bridge = &app.bridge;
    bridge.refuse_adviser()?;
    let active = bridge.read(|view| view.policies.clone());
    bridge.set_all(active, request.trust).await?;
    *lock(&bridge.trust) = request.trust;
    Ok(Json(bridge.tell_policies().await?))
}

impl Bridge {
    fn policies(&self) -> Value {
        let active = self.read(|view| view.policies.clone());
        let name = active.first().map_or("default", |(_, policy)| policy.as_str());
        let items = (self.helm.catalogue)();
        let shadow = lock(&self.shadow);
        let figures = shadow.as_ref().map(|shadow| {
            let Account { is_ready, whole, placed, waiting } = shadow.twin.told().account();
            json!({
                "ready": is_ready, "placed": placed, "waiting": waiting, "watts": whole.watts,
                "active_nodes": whole.active_nodes, "balance": whole.balance, "latency_ms": whole.latency_ms,
            })
        });
        json!({
            "active": name, "profiles": active, "shadow": shadow.as_ref().map(|shadow| &shadow.name), "shadow_figures": figures,
            "trust": *lock(&self.trust), "items": items,
        })
    }

    /// Starts a shadow, in the place of one that is there.
    pub fn begin_shadow(&self, name: &str) -> Result<(), Refused> {
        self.check_name(name)?;
        let trust = *lock(&self.trust);
        // What cannot be read is told before a twin is started.
        (self.helm.load)(name, trust).map_err(Refused::unprocessable)?;
        let twin = (self.helm.shadow)(name, trust).map_err(|why| Refused::new(StatusCode::CONFLICT, why))?;
        *lock(&self.shadow) = Some(Shadow { name: name.to_owned(), twin });
        Ok(())
    }

    /// Ends the shadow, if there is one.
    pub fn end_shadow(&self) {
        lock(&self.shadow).take();
    }

    /// Ends the shadow, if it is this one.
    pub fn end_shadow_of(&self, name: &str) {
        lock(&self.shadow).take_if(|shadow| shadow.name == name);
    }

    /// What a policy in shadow has to tell, unless another has taken its place or it was ended.
    pub fn shadow_of(&self, name: &str) -> Option<Account> {
        let shadow = lock(&self.shadow);
        shadow.as_ref().filter(|shadow| shadow.name == name).map(|shadow| shadow.twin.told().account())
    }

    /// Where the shadow has placed a pod, or else the default policy, if it is watched.
    pub fn shadow_node(&self, uid: &str) -> Option<String> {
        match &*lock(&self.shadow) {
            Some(shadow) => shadow.twin.told().place(uid),
            None => self.helm.twin.as_ref()?.place(uid),
        }
    }

    fn check_name(&self, name: &str) -> Result<(), Refused> {
        if (self.helm.catalogue)().iter().any(|entry| entry.name == name) {
            return Ok(());
        }
        let why = format!("{name:?} is none of the models and policies that /v1/policies lists");
        Err(Refused::new(StatusCode::NOT_FOUND, why))
    }

    fn refuse_adviser(&self) -> Result<(), Refused> {
        if self.helm.mode != "advise" {
            return Ok(());
        }
        let why = "an adviser's policies are asked for by name; start it with others, or ask for another";
        Err(Refused::new(StatusCode::CONFLICT, why))
    }

    /// Has policies rank for profiles. All are read before anything changes: one that cannot be leaves all as it is.
    async fn set_all(&self, policies: Vec<(String, String)>, trust: Option<f64>) -> Result<(), Refused> {
        let loaded: Result<Vec<_>, String> = policies.iter().map(|(_, name)| (self.helm.load)(name, trust)).collect();
        for ((profile, name), policy) in policies.iter().zip(loaded.map_err(Refused::unprocessable)?) {
            self.set(profile, name, policy).await?;
        }
        self.view.write().unwrap_or_else(PoisonError::into_inner).versions = None;
        Ok(())
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
    pub async fn back(&self) -> Result<(), Refused> {
        let last = lock(&self.before).last().cloned();
        let Some(last) = last else {
            return Err(Refused::new(StatusCode::CONFLICT, "nothing was switched since the start"));
        };
        let trust = *lock(&self.trust);
        self.set_all(last, trust).await?;
        lock(&self.before).pop();
        self.tell_policies().await.map(drop)
    }

    async fn set(&self, profile: &str, name: &str, policy: Box<dyn Policy>) -> Result<(), Refused> {
        let ask = |answer| Question::SetPolicy(profile.to_owned(), name.to_owned(), policy, answer);
        match self.ask(ask).await? {
            true => Ok(()),
            false => Err(Refused::new(StatusCode::NOT_FOUND, format!("there is no profile {profile:?}"))),
        }
    }

    /// Tells all who listen which policies rank now, and returns the same.
    async fn tell_policies(&self) -> Result<Value, Refused> {
        self.look().await?;
        let policies = self.policies();
        self.tell("policy", &policies);
        Ok(policies)
    }

    /// Has a policy rank for a profile, or for all.
    pub async fn switch(&self, name: &str, profile: Option<&str>) -> Result<(), Refused> {
        self.check_name(name)?;
        self.refuse_adviser()?;
        let known = self.read(|view| view.policies.clone());
        let of = match profile {
            Some(profile) => vec![profile.to_owned()],
            None => known.iter().map(|(profile, _)| profile.clone()).collect(),
        };
        let trust = *lock(&self.trust);
        self.set_all(of.into_iter().map(|profile| (profile, name.to_owned())).collect(), trust).await?;
        self.remember(known);
        self.tell_policies().await.map(drop)
    }
}
