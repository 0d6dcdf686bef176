//! The rights of those who talk to a lab's API server beside the components of Kubernetes, which bring their own.

use crate::{LabError, User};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, PostParams};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

const READ: &[&str] = &["get", "list", "watch"];
const RBAC: &str = "rbac.authorization.k8s.io";

/// Gives kwok and Plimsoll what they need.
pub async fn grant(client: &Client) -> Result<(), LabError> {
    let roles = Api::all(client.clone());
    let bindings = Api::all(client.clone());
    create(&roles, cluster_role(User::Kwok, kwok_rules())).await?;
    create(&roles, cluster_role(User::Plimsoll, plimsoll_rules())).await?;
    for (user, role) in [
        (User::Kwok, User::Kwok.name()),
        (User::Plimsoll, User::Plimsoll.name()),
        (User::Plimsoll, User::KubeScheduler.name()),
        (User::Plimsoll, "system:volume-scheduler"),
    ] {
        create(&bindings, cluster_binding(user, role)).await?;
    }
    let in_system = Api::namespaced(client.clone(), "kube-system");
    create(&in_system, authentication_reader(User::Plimsoll)).await
}

async fn create<T>(api: &Api<T>, object: T) -> Result<(), LabError>
where
    T: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
{
    let what = format!("create {} {}", T::kind(&()), object.meta().name.as_deref().unwrap_or_default());
    api.create(&PostParams::default(), &object).await.map_err(LabError::api(what))?;
    Ok(())
}

/// What Plimsoll may do beyond kube-scheduler: hold its own leases under any name, which are how several of it agree on a leader.
fn plimsoll_rules() -> Vec<PolicyRule> {
    vec![
        rule("coordination.k8s.io", &["leases"], &["create", "get", "list", "watch", "update", "patch"]),
        rule("scheduling.k8s.io", &["priorityclasses", "podgroups", "workloads"], READ),
    ]
}

/// What a kubelet does, for all nodes.
fn kwok_rules() -> Vec<PolicyRule> {
    vec![
        rule("", &["nodes"], READ),
        rule("", &["pods"], &["get", "list", "watch", "update", "patch", "delete"]),
        rule("", &["nodes/status", "pods/status"], &["update", "patch"]),
        rule("", &["events"], &["create", "update", "patch"]),
        rule("coordination.k8s.io", &["leases"], &["get", "list", "watch", "create", "update", "patch"]),
    ]
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> PolicyRule {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_string()).collect::<Vec<_>>();
    PolicyRule {
        api_groups: Some(vec![group.to_string()]),
        resources: Some(owned(resources)),
        verbs: owned(verbs),
        ..Default::default()
    }
}

fn cluster_role(user: User, rules: Vec<PolicyRule>) -> ClusterRole {
    ClusterRole { metadata: named(user.name()), rules: Some(rules), ..Default::default() }
}

fn cluster_binding(user: User, role: &str) -> ClusterRoleBinding {
    ClusterRoleBinding {
        metadata: named(&format!("{}-{}", user.name(), role.trim_start_matches("system:"))),
        role_ref: role_ref("ClusterRole", role),
        subjects: Some(vec![subject(user)]),
    }
}

/// Who serves metrics must know whose certificates the API server trusts.
fn authentication_reader(user: User) -> RoleBinding {
    let role = "extension-apiserver-authentication-reader";
    RoleBinding {
        metadata: named(&format!("{}-{role}", user.name())),
        role_ref: role_ref("Role", role),
        subjects: Some(vec![subject(user)]),
    }
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_string()), ..Default::default() }
}

fn role_ref(kind: &str, name: &str) -> RoleRef {
    RoleRef { api_group: Some(RBAC.to_string()), kind: kind.to_string(), name: name.to_string() }
}

fn subject(user: User) -> Subject {
    Subject {
        api_group: Some(RBAC.to_string()),
        kind: "User".to_string(),
        name: user.name().to_string(),
        namespace: None,
    }
}
